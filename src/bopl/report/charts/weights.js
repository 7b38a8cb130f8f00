// Importance weights: how many decisions have them, and how much of the estimate they carry.

charts.weights = (node, summary) => {
  responsive(node, (width) => drawWeights(node, width, summary.weights));
};

function drawWeights(node, width, { edges, decisions, mass }) {
  const names = legend([{ text: "share of the decisions", look: "old-mid" }, { text: "share of the total weight", look: "new-fill" }], width, marks.bar);
  const [right, top] = [width - 8, names.height + 34];
  const bottom = top + 220;
  const drawing = canvas(node, width, bottom + 42, "Histogram of importance weights");
  const first = edges[0] / (edges[1] / edges[0]);
  const starts = [first, ...edges.slice(0, -1)];
  // Leave out empty bins on the left: most logs have no weights near zero.
  const from = Math.max(Math.min(decisions.findIndex((share) => share > 0), decisions.length - 4), 0);
  const y = linear([0, Math.max(...decisions, ...mass) * 1.06], [bottom, top]);
  const ticks = { count: 4, format: axisText(y, 4, { isPercent: true }) };
  const left = axisRoom(y, ticks);
  const x = logarithmic([starts[from], edges[edges.length - 1]], [left, right]);
  drawing.append(names.draw(0));
  drawing.append(yAxis(y, left, right, ticks));
  drawing.append(xAxis(x, bottom, { width, count: width < 560 ? 6 : 10, format: (tick) => number(tick), label: "importance weight (logarithmic)", right }));
  decisions.forEach((share, idx) => {
    if (idx < from) return;
    const [start, end] = [x(starts[idx]), x(edges[idx])];
    const half = (end - start - 2) / 2;
    const text = idx === 0 ? `Weight below ${number(edges[0])}` : `Weight ${number(starts[idx], 3)} to ${number(edges[idx], 3)}`;
    const bar = svg("g", {},
      svg("rect", { class: "old-mid", x: start + 1, y: y(share), width: half, height: bottom - y(share), rx: 1 }),
      svg("rect", { class: "new-fill", x: start + 1 + half, y: y(mass[idx]), width: half, height: bottom - y(mass[idx]), rx: 1 }),
      svg("rect", { class: "hit", x: start, y: top, width: end - start, height: bottom - top }),
    );
    drawing.append(hoverable(bar, text, () => [
      ["of the decisions", percent(share, 2)],
      ["of the total weight", percent(mass[idx], 2)],
    ]));
  });
  if (x(1) >= left && x(1) <= right) {
    drawing.append(svg("line", { class: "zero", x1: x(1), x2: x(1), y1: top - 4, y2: bottom }));
    const isRight = x(1) > (left + right) / 2;
    const place = { class: "tick", x: x(1), y: top - 10, "text-anchor": isRight ? "end" : "start" };
    drawing.append(cutText(place, "1: as often as the logging policy", isRight ? x(1) : width - x(1), 12));
  }
}
