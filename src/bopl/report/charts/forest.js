// Estimates with their intervals, one line per policy and estimator.

charts.forest = (node, summary) => {
  const { rows, logging_value: base, confidence } = summary.evaluation;
  const policies = new Set(rows.map((row) => row.policy));
  const scales = {
    uplift: { text: "Uplift", format: (value, ends) => (value > 0 ? "+" : "") + within(value, ...ends), pick: (row) => [row.uplift, row.uplift_ci_lower, row.uplift_ci_upper] },
    value: { text: "Reward", format: (value, ends) => within(value, ...ends), pick: (row) => [row.value, row.ci_lower, row.ci_upper] },
  };
  if (base > 0) {
    const share = (value) => (value === null ? null : value / base);
    scales.percent = { text: "Uplift in %", format: (value) => signedPercent(value), pick: (row) => scales.uplift.pick(row).map(share) };
  }
  let scale = base > 0 ? "percent" : "uplift";
  let chosen = rows.findIndex((row) => row.policy === summary.verdict.policy && row.estimator === summary.verdict.estimator);

  const redraw = responsive(node, (width) => drawForest(node, width, rows, scales[scale], scale, base, chosen, policies.size > 1, choose));
  const select = document.getElementById("forest-estimator");
  const name = (row) => (policies.size > 1 ? `${row.title} · ${row.policy}` : row.title);
  fillSelect(select, rows.map((row, idx) => [String(idx), name(row)]), chosen, (value) => choose(Number(value)));
  const order = ["percent", "uplift", "value"].filter((key) => key in scales);
  fillChoice(document.getElementById("forest-scale"), order.map((key) => [key, scales[key].text]), scale, (value) => {
    scale = value;
    redraw();
  });

  function choose(idx) {
    chosen = idx;
    select.value = String(idx);
    describeEstimate(document.getElementById("forest-detail"), rows[idx], confidence);
    redraw();
  }
  choose(chosen);
};

function describeEstimate(node, row, confidence) {
  const level = `${+(100 * confidence).toFixed(2)}%`;
  node.replaceChildren(
    html("p", {}, html("strong", {}, row.title), ` (${row.estimator}). ${row.about}`),
    html("p", {}, `${row.reason} Reward per decision ${number(row.value)}, ${level} interval ${number(row.ci_lower)} to ${number(row.ci_upper)}.`),
  );
}

const verdictMark = {
  better: ["new-line", "new-fill"],
  worse: ["against-line", "against-fill"],
  inconclusive: ["old-line", "old-fill"],
  "not trustworthy": ["old-line", "paper-fill"],
};

function drawForest(node, width, rows, scale, kind, base, chosen, hasPolicies, choose) {
  const isNarrow = width < 620;
  const rowHeight = isNarrow ? 58 : 40;
  const name = (row) => (hasPolicies ? `${row.title} · ${row.policy}` : row.title);
  const longest = Math.max(...rows.map((row) => textWidth(name(row), 13, 600)));
  const left = isNarrow ? 6 : clamp(longest + 34, 180, 0.36 * width);
  const right = isNarrow ? width - 6 : width - 210;
  const top = 26;
  const bottom = top + rows.length * rowHeight;
  const drawing = canvas(node, width, bottom + 44, "Estimates with their intervals, one line per estimator", "group");
  const reference = kind === "value" ? base : 0;
  const x = linear(forestDomain(rows, scale.pick, reference), [left, right]);

  drawing.append(svg("rect", { class: "raised-fill", x: -6, y: top + chosen * rowHeight + 1, width: width + 12, height: rowHeight - 2, rx: 6 }));
  const count = isNarrow ? 4 : 6;
  const format = axisText(x, count, { isPercent: kind === "percent", hasSign: kind !== "value" });
  drawing.append(xAxis(x, bottom, { width, count, format, top, right, label: forestLabel(kind) }));
  // On a narrow page names stand above the intervals, and the line must not run through them.
  const bands = isNarrow ? rows.map((_, idx) => [top + idx * rowHeight + 30, top + (idx + 1) * rowHeight - 3]) : [[top - 4, bottom]];
  for (const [y1, y2] of bands) drawing.append(svg("line", { class: "zero", x1: x(reference), x2: x(reference), y1, y2 }));
  const isLeft = x(reference) < (left + right) / 2;
  drawing.append(svg("text", { class: "tick", x: x(reference) + (isLeft ? -2 : 2), y: top - 10, "text-anchor": isLeft ? "start" : "end" }, "logging policy"));
  rows.forEach((row, idx) => {
    const y = top + idx * rowHeight;
    drawing.append(forestRow(row, x, y, { width, rowHeight, left, right, isNarrow, scale, title: name(row), isChosen: idx === chosen, choose: () => choose(idx) }));
  });
}

// Intervals that no one should trust must not squeeze the others: they are cut at the edge and get an arrow.
function forestDomain(rows, pick, reference) {
  const trusted = rows.filter((row) => row.verdict !== "not trustworthy");
  const shown = trusted.length ? trusted : rows;
  return extent([reference, ...shown.flatMap(pick)], 0.08);
}

function forestLabel(kind) {
  return {
    percent: "difference from the logging policy, in % of its reward",
    uplift: "difference from the logging policy, reward per decision",
    value: "reward per decision",
  }[kind];
}

function forestRow(row, x, y, { width, rowHeight, left, right, isNarrow, scale, title, isChosen, choose }) {
  const [centre, lower, upper] = scale.pick(row);
  const middle = isNarrow ? y + 42 : y + rowHeight / 2;
  const [lineClass, markClass] = verdictMark[row.verdict];
  const group = svg("g", { tabindex: "0", role: "button", "data-estimator": row.estimator, "aria-pressed": String(isChosen) });
  const [estimate, least, most] = [centre, lower, upper].map((value) => (value === null ? "–" : scale.format(value, [lower, upper])));
  const numbers = `${estimate}  [${least}, ${most}]`;
  group.setAttribute("aria-label", `${title}: ${estimate}, interval ${least} to ${most}, ${row.verdict}`);
  const nameRoom = isNarrow ? width - textWidth(numbers) - 22 : left - 26;
  const textY = isNarrow ? y + 21 : middle + 4.5;
  const weight = isChosen ? 600 : 400;
  group.append(cutText({ x: 6, y: textY, class: isChosen ? "strong" : "" }, title, nameRoom, 13, weight));
  group.append(svg("text", { x: width - 6, y: textY, "text-anchor": "end", class: "soft" }, numbers));
  const [from, to] = [lower, upper].map((value) => (value === null ? null : clamp(x(value), left, right)));
  if (from !== null && to !== null) {
    group.append(svg("line", { class: lineClass, "stroke-width": 2.5, x1: from, x2: to, y1: middle, y2: middle }));
    if (to > left) group.append(intervalEnd(x(upper) > right + 0.5, to, middle, 1, lineClass));
    if (from < right) group.append(intervalEnd(x(lower) < left - 0.5, from, middle, -1, lineClass));
  }
  if (x(centre) >= left - 1 && x(centre) <= right + 1) {
    group.append(svg("circle", { class: `${markClass} ${lineClass}`, "stroke-width": 2, cx: x(centre), cy: middle, r: 5 }));
  }
  group.append(svg("rect", { class: "hit", x: -6, y, width: width + 12, height: rowHeight }));
  group.addEventListener("click", choose);
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose();
    }
  });
  return hoverable(group, title, () => [
    ["estimate", estimate],
    ["interval", `${least} to ${most}`],
    ["effective samples", whole(row.ess)],
    ["verdict", row.verdict],
  ]);
}

function intervalEnd(isCut, x, y, direction, lineClass) {
  if (isCut) return svg("path", { class: `${lineClass} line`, d: `M${x - direction * 6} ${y - 5}L${x} ${y}L${x - direction * 6} ${y + 5}` });
  return svg("line", { class: lineClass, "stroke-width": 2.5, x1: x, x2: x, y1: y - 5, y2: y + 5 });
}
