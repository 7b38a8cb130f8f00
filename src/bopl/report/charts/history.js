// Four panels over the rounds of training; they share a cursor and a zoom.

const rounds = { from: null, to: null, panels: [] };

charts.historyRisk = (node, summary) => historyPanel(node, summary, "Risk on the training log", [
  ["risk", summary.training.objective === "surrogate" ? "surrogate risk" : "risk", "new-line"],
  ["recursive_bound", "bound of this round", "against-line thin"],
  ["theorem_bound", "bound by Theorem 1", "third-line thin dash"],
  ["opt_emp_risk", "least possible", "old-line thin dots"],
]);

charts.historyValue = (node, summary) => historyPanel(node, summary, "Reward per decision (self-normalised estimate)", [
  ["validation_value", "validation", "new-line"],
  ["snips_value", "training", "old-line thin"],
]);

charts.historyGradient = (node, summary) => historyPanel(node, summary, "Norm of the gradient (logarithmic)", [["gradient_norm", "gradient norm", "new-line"]], true);

charts.historySamples = (node, summary) => historyPanel(node, summary, "Effective samples of the training log", [
  ["effective_sample_size", "effective samples", "new-line"],
]);

function historyPanel(node, summary, title, wanted, isLog = false) {
  const { columns, chosen_round: chosen, is_validated: isValidated } = summary.training;
  const series = wanted.filter(([name]) => name in columns).map(([name, text, look]) => ({ values: columns[name], text, look }));
  const panel = { cursor: null };
  const redraw = responsive(node, (width) => drawHistory(node, width, panel, { title, series, isLog, chosen: isValidated ? chosen : null, columns }));
  panel.redraw = redraw;
  rounds.panels.push(panel);
  const button = document.getElementById("history-reset");
  button.onclick = () => zoomRounds(null, null);
}

function zoomRounds(from, to) {
  [rounds.from, rounds.to] = [from, to];
  document.getElementById("history-reset").hidden = from === null;
  for (const panel of rounds.panels) panel.redraw();
}

function drawHistory(node, width, panel, { title, series, isLog, chosen, columns }) {
  const names = legend(series, width, marks.line);
  const top = 30 + names.height;
  const [right, bottom] = [width - 10, top + 168];
  const drawing = canvas(node, width, bottom + 42, title);
  const all = columns.round;
  const [from, to] = [rounds.from ?? all[0], rounds.to ?? all[all.length - 1]];
  const shown = all.map((round, idx) => idx).filter((idx) => all[idx] >= from && all[idx] <= to);
  const y = historyScale(series.flatMap((line) => shown.map((idx) => line.values[idx])), isLog, [bottom, top]);
  const ticks = { count: 5, format: (tick) => number(tick, 3) };
  const left = axisRoom(y, ticks);
  const x = linear([from, Math.max(to, from + 1)], [left, right]);
  drawing.append(cutText({ class: "title", x: 0, y: 14 }, title, width, 14, 600), names.draw(22));
  drawing.append(yAxis(y, left, right, ticks));
  drawing.append(xAxis(x, bottom, { width, count: 5, format: (tick) => (Number.isInteger(tick) ? whole(tick) : ""), label: "round", right }));
  for (const line of [...series].reverse()) {
    drawing.append(svg("path", { class: `line ${line.look}`, d: path(shown.map((idx) => [x(all[idx]), y(line.values[idx])])) }));
  }
  if (chosen !== null && chosen >= from && chosen <= to) drawing.append(chosenRound(x(chosen), top, bottom, left, right, chosen));
  panel.cursor = svg("line", { class: "cursor", y1: top, y2: bottom, visibility: "hidden" });
  drawing.append(panel.cursor);
  panel.at = (round) => (round >= from && round <= to ? x(round) : null);
  drawing.append(historyHit(drawing, { x, left, right, top, bottom, width, all, shown, series }));
}

function historyScale(values, isLog, range) {
  if (!isLog) return linear(extent(values.filter((value) => value !== null)), range);
  const known = values.filter((value) => value > 0);
  const [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0.1, 1];
  return logarithmic([low / 1.15, high * 1.15], range);
}

function chosenRound(x, top, bottom, left, right, chosen) {
  const isRight = x > (left + right) / 2;
  const anchor = isRight ? "end" : "start";
  return svg("g", {},
    svg("line", { class: "zero", x1: x, x2: x, y1: top, y2: bottom }),
    svg("text", { class: "tick halo", x: x + (isRight ? -6 : 6), y: bottom - 8, "text-anchor": anchor }, `chosen: ${whole(chosen)}`),
  );
}

function historyHit(drawing, { x, left, right, top, bottom, width, all, shown, series }) {
  const hit = svg("rect", { class: "hit", x: left, y: top, width: right - left, height: bottom - top });
  const band = svg("rect", { class: "brush", y: top, height: bottom - top, visibility: "hidden" });
  let start = null;
  const place = (event) => {
    const box = drawing.getBoundingClientRect();
    return clamp(((event.clientX - box.left) / box.width) * width, left, right);
  };
  hit.addEventListener("pointerdown", (event) => {
    start = place(event);
    hit.setPointerCapture(event.pointerId);
  });
  hit.addEventListener("pointermove", (event) => {
    const at = place(event);
    if (start !== null && Math.abs(at - start) > 3) {
      fill(band, { x: Math.min(start, at), width: Math.abs(at - start), visibility: "visible" }, []);
    }
    const round = x.invert(at);
    const idx = shown.reduce((best, other) => (Math.abs(all[other] - round) < Math.abs(all[best] - round) ? other : best), shown[0]);
    moveCursors(all[idx]);
    tooltip.show(event, `Round ${whole(all[idx])}`, series.map((line) => [line.text, number(line.values[idx])]));
  });
  hit.addEventListener("pointerup", (event) => {
    const end = place(event);
    const span = [Math.min(start, end), Math.max(start, end)].map((at) => Math.round(x.invert(at)));
    const isZoom = start !== null && Math.abs(end - start) > 8 && span[1] - span[0] >= 2;
    start = null;
    band.setAttribute("visibility", "hidden");
    if (isZoom) zoomRounds(span[0], span[1]);
  });
  hit.addEventListener("dblclick", () => zoomRounds(null, null));
  hit.addEventListener("pointerleave", () => {
    tooltip.hide();
    moveCursors(null);
  });
  return svg("g", {}, band, hit);
}

function moveCursors(round) {
  for (const panel of rounds.panels) {
    const at = round === null ? null : panel.at(round);
    if (at === null) panel.cursor.setAttribute("visibility", "hidden");
    else fill(panel.cursor, { x1: at, x2: at, visibility: "visible" }, []);
  }
}
