// The candidates of a race: uplift over the logging policy on validation samples, one line each.

charts.race = (node, summary) => {
  responsive(node, (width) => drawRace(node, width, summary.race.entries));
};

function raceLook({ lower, upper }) {
  return verdictMark[lower > 0 ? "better" : upper < 0 ? "worse" : "inconclusive"];
}

function drawRace(node, width, entries) {
  const isNarrow = width < 620;
  const rowHeight = isNarrow ? 66 : 46;
  const left = isNarrow ? 6 : 0.36 * width;
  const right = isNarrow ? width - 6 : width - 200;
  const top = 24;
  const bottom = top + entries.length * rowHeight;
  const drawing = canvas(node, width, bottom + 42, "Candidates of the race with their uplift over the logging policy");
  const x = linear(extent([0, ...entries.flatMap((entry) => [entry.lower, entry.upper])], 0.08), [left, right]);
  const count = isNarrow ? 4 : 6;
  const label = "difference from the logging policy, reward per decision";
  drawing.append(xAxis(x, bottom, { width, count, format: axisText(x, count, { hasSign: true }), top: isNarrow ? null : top, right, label }));
  // On a narrow page words stand above the intervals, and the line must not run through them.
  const bands = isNarrow ? entries.map((_, idx) => [top + idx * rowHeight + 44, top + (idx + 1) * rowHeight - 4]) : [[top - 4, bottom]];
  for (const [y1, y2] of bands) drawing.append(svg("line", { class: "zero", x1: x(0), x2: x(0), y1, y2 }));
  const isLeft = x(0) < (left + right) / 2;
  drawing.append(svg("text", { class: "tick", x: x(0) + (isLeft ? -2 : 2), y: top - 10, "text-anchor": isLeft ? "start" : "end" }, "logging policy"));
  entries.forEach((entry, idx) => drawing.append(raceRow(entry, x, top + idx * rowHeight, { width, rowHeight, left, isNarrow, best: entries[0] })));
}

function raceRow(entry, x, y, { width, rowHeight, left, isNarrow, best }) {
  const { candidate, about, uplift, lower, upper, status } = entry;
  const isChosen = ["won", "in the blend"].includes(status);
  const numbers = uplift === null ? "\u2013" : raceNumbers(entry, best);
  const [first, second] = [y + 18, y + 35];
  const statusRoom = isNarrow ? 0.5 * width : 190;
  const nameRoom = isNarrow ? width - textWidth(cut(status, statusRoom)) - 24 : left - 18;
  const row = svg("g", {},
    cutText({ x: 6, y: first, class: isChosen ? "strong" : "" }, candidate, nameRoom, 13, isChosen ? 600 : 400),
    cutText({ x: 6, y: second, class: "tick" }, about, isNarrow ? width - textWidth(numbers) - 24 : nameRoom, 12),
    cutText({ x: width - 6, y: first, "text-anchor": "end", class: isChosen ? "strong" : "soft" }, status, statusRoom, 13, isChosen ? 600 : 400),
    svg("text", { x: width - 6, y: second, "text-anchor": "end", class: "soft" }, numbers),
  );
  if (uplift !== null) {
    const middle = isNarrow ? y + 53 : y + rowHeight / 2;
    const [lineClass, markClass] = raceLook(entry);
    row.append(svg("line", { class: lineClass, "stroke-width": 2.5, x1: x(lower), x2: x(upper), y1: middle, y2: middle }));
    row.append(intervalEnd(false, x(upper), middle, 1, lineClass), intervalEnd(false, x(lower), middle, -1, lineClass));
    row.append(svg("circle", { class: `${isChosen ? markClass : "paper-fill"} ${lineClass}`, "stroke-width": 2, cx: x(uplift), cy: middle, r: 5 }));
  }
  row.append(svg("rect", { class: "hit", x: -6, y, width: width + 12, height: rowHeight }));
  return hoverable(row, candidate, () => [
    ["what it is", about],
    ["difference", numbers],
    ["rounds", whole(entry.rounds)],
    ["status", status],
  ]);
}

// All in the digits that the interval of the best leaves meaning to.
function raceNumbers({ uplift, lower, upper }, best) {
  const [centre, least, most] = [uplift, lower, upper].map((value) => (value > 0 ? "+" : "") + within(value, best.lower, best.upper));
  return `${centre}  [${least}, ${most}]`;
}
