// Which columns the policy looks at.

charts.importance = (node, summary) => {
  const { gain, shap } = summary.importance;
  const kinds = [["shap", "SHAP value"], ["gain", "Gain of splits"]].filter(([key]) => summary.importance[key]);
  let kind = kinds[0][0];
  const redraw = responsive(node, (width) => drawImportance(node, width, summary.importance, kind));
  fillChoice(document.getElementById("importance-kind"), kinds, kind, (value) => {
    kind = value;
    redraw();
  });
  document.getElementById("importance-kind").hidden = !(gain && shap);
};

function drawImportance(node, width, importance, kind) {
  const isShap = kind === "shap";
  const rows = importance.features.map((label, idx) => ({ label, value: importance[kind][idx] }));
  rows.sort((a, b) => b.value - a.value);
  const rowHeight = 27;
  const left = Math.min(Math.max(...rows.map((row) => textWidth(row.label))) + 14, width * 0.4);
  const right = width - 56;
  const bottom = 6 + rows.length * rowHeight;
  const drawing = canvas(node, width, bottom + 42, "Importance of context columns");
  const most = Math.max(...rows.map((row) => row.value)) || 1;
  const x = linear([0, most], [left, right]);
  const format = isShap ? (value) => fixed(value, most).slice(1) : (value) => percent(value, value < 0.1 ? 1 : 0);
  const label = isShap ? "mean |SHAP value|, in units of the score" : "gain, in % of all splits on the context";
  drawing.append(xAxis(x, bottom, { width, count: 5, format: axisText(x, 5, { isPercent: !isShap }), top: 6, label }));
  rows.forEach((row, idx) => {
    const y = 6 + idx * rowHeight;
    const bar = svg("g", {},
      cutText({ x: 0, y: y + 18 }, row.label, left - 10),
      svg("rect", { class: "new-fill", x: left, y: y + 6, width: Math.max(x(row.value) - left, 1), height: 15, rx: 2 }),
      svg("text", { class: "tick", x: x(row.value) + 7, y: y + 18 }, format(row.value)),
      svg("rect", { class: "hit", x: 0, y, width, height: rowHeight }),
    );
    drawing.append(hoverable(bar, row.label, () => [[isShap ? "mean |SHAP value|" : "gain", format(row.value)]]));
  });
}
