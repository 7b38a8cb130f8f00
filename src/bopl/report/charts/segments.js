// By segments of the log: how often one action is taken, and what the new policy gains.

const policyBars = [{ text: "logging policy", look: "old-mid" }, { text: "new policy", look: "new-fill" }];
const segment = { feature: 0, action: 0, redraw: [] };

charts.segmentShares = (node, summary) => {
  const { labels, logging, new: added } = summary.actions;
  const isNamed = (idx) => idx < labels.length - (summary.actions.n_others > 0 ? 1 : 0);
  const moves = labels.map((_, idx) => (isNamed(idx) ? Math.abs(added[idx] - logging[idx]) : 0));
  segment.action = moves.indexOf(Math.max(...moves));
  const change = (key) => (value) => {
    segment[key] = Number(value);
    for (const redraw of segment.redraw) redraw();
  };
  const features = document.getElementById("segment-feature");
  fillSelect(features, summary.segments.map((entry, idx) => [String(idx), entry.feature]), 0, change("feature"));
  const actions = document.getElementById("segment-action");
  fillSelect(actions, labels.map((text, idx) => [String(idx), text]), segment.action, change("action"));
  segment.redraw.push(responsive(node, (width) => drawSegmentShares(node, width, summary)));
};

charts.segmentGain = (node, summary) => {
  segment.redraw.push(responsive(node, (width) => drawSegmentGain(node, width, summary)));
};

function segmentLayout(bins, width) {
  const left = Math.min(Math.max(...bins.map((bin) => textWidth(bin.label))) + 16, width * 0.36);
  return { left, right: width - 58, top: 72, rowHeight: 40 };
}

// The column stands above its values: on paper there is no choice to read it from.
function segmentHead(feature, top, width) {
  return cutText({ class: "tick", x: 0, y: top - 7 }, feature, width, 12);
}

function drawSegmentShares(node, width, summary) {
  const { feature, bins } = summary.segments[segment.feature];
  const action = summary.actions.labels[segment.action];
  const { left, right, top, rowHeight } = segmentLayout(bins, width);
  const bottom = top + bins.length * rowHeight;
  const drawing = canvas(node, width, bottom + 42, `Share of ${action} by ${feature}`);
  const most = Math.max(...bins.flatMap((bin) => [bin.logging[segment.action], bin.new[segment.action]]));
  const x = linear([0, most * 1.04 || 1], [left, right]);
  drawing.append(cutText({ class: "title", x: 0, y: 14 }, `Share of “${action}”`, width, 14, 600));
  drawing.append(legend(policyBars, width, marks.bar).draw(24), segmentHead(feature, top, width));
  drawing.append(xAxis(x, bottom, { width, count: 4, format: axisText(x, 4, { isPercent: true }), top, label: "share of the decisions" }));
  bins.forEach((bin, idx) => {
    const y = top + idx * rowHeight;
    const [old, now] = [bin.logging[segment.action], bin.new[segment.action]];
    const row = svg("g", {},
      cutText({ x: 0, y: y + rowHeight / 2 + 4.5 }, bin.label, left - 10),
      svg("rect", { class: "old-mid", x: left, y: y + 7, width: x(old) - left, height: 11, rx: 1.5 }),
      svg("rect", { class: "new-fill", x: left, y: y + 20, width: x(now) - left, height: 11, rx: 1.5 }),
      svg("text", { class: "tick", x: x(now) + 6, y: y + 30 }, percent(now, now < 0.1 ? 1 : 0)),
      svg("rect", { class: "hit", x: 0, y, width, height: rowHeight }),
    );
    drawing.append(hoverable(row, `${feature}: ${bin.label}`, () => [
      ["decisions", whole(bin.n)],
      ["logging policy", percent(old)],
      ["new policy", percent(now)],
    ]));
  });
}

function drawSegmentGain(node, width, summary) {
  const { feature, bins } = summary.segments[segment.feature];
  const { left, top, rowHeight } = segmentLayout(bins, width);
  const right = width - 8;
  const bottom = top + bins.length * rowHeight;
  const drawing = canvas(node, width, bottom + 42, `Difference in reward by ${feature}`);
  const x = linear(extent([0, ...bins.flatMap((bin) => bin.uplift)]), [left, right]);
  drawing.append(cutText({ class: "title", x: 0, y: 14 }, "Difference in reward", width, 14, 600));
  drawing.append(svg("text", { class: "soft", x: 0, y: 34.5 }, cut("new policy less logging policy, by IPS", width)), segmentHead(feature, top, width));
  drawing.append(xAxis(x, bottom, { width, count: 4, format: axisText(x, 4, { hasSign: true }), top, label: "reward per decision" }));
  drawing.append(svg("line", { class: "zero", x1: x(0), x2: x(0), y1: top, y2: bottom }));
  bins.forEach((bin, idx) => {
    const middle = top + (idx + 0.5) * rowHeight;
    const [centre, lower, upper] = bin.uplift;
    const kind = lower === null || upper === null ? "not trustworthy" : lower > 0 ? "better" : upper < 0 ? "worse" : "inconclusive";
    const [lineClass, markClass] = verdictMark[kind];
    const row = svg("g", {}, cutText({ x: 0, y: middle + 4.5 }, bin.label, left - 10));
    if (kind !== "not trustworthy") row.append(svg("line", { class: lineClass, "stroke-width": 2.5, x1: x(lower), x2: x(upper), y1: middle, y2: middle }));
    row.append(
      svg("circle", { class: `${markClass} ${lineClass}`, "stroke-width": 2, cx: x(centre), cy: middle, r: 4.5 }),
      svg("rect", { class: "hit", x: 0, y: middle - rowHeight / 2, width, height: rowHeight }),
    );
    drawing.append(hoverable(row, `${feature}: ${bin.label}`, () => [
      ["decisions", whole(bin.n)],
      ["logged reward", number(bin.reward)],
      ["difference", signed(centre)],
      ["interval", `${signed(lower)} to ${signed(upper)}`],
    ]));
  });
}
