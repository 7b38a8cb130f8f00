// What speaks for one action: mean contributions to its score, by the values of the columns that matter to it.

const MAX_PANELS = 6;
const effects = { action: 0 };

charts.effects = (node, summary) => {
  const { actions, features, general, is_greedy: isGreedy } = summary.effects;
  const show = () => {
    const size = (entry) => Math.max(...entry.values[effects.action].map(Math.abs));
    const shown = [...features].sort((a, b) => size(b) - size(a)).slice(0, MAX_PANELS);
    const most = Math.max(...shown.map(size), 1e-9);
    const panels = shown.map(() => html("div", { class: "chart" }));
    node.replaceChildren(...panels);
    shown.forEach((entry, idx) => responsive(panels[idx], (width) => drawEffect(panels[idx], width, entry, most, isGreedy)));
    const ahead = general[effects.action];
    const note = isGreedy
      ? `Whatever the context, the score of “${actions[effects.action]}” differs from that of the average action by ${signed(ahead, 2)}.`
      : `Whatever the context, the odds of “${actions[effects.action]}” are ${number(Math.exp(ahead), 2)} times those of the average action.`;
    document.getElementById("effects-note").textContent = note;
  };
  const select = document.getElementById("effects-action");
  fillSelect(select, actions.map((text, idx) => [String(idx), text]), 0, (value) => {
    effects.action = Number(value);
    show();
  });
  show();
};

function drawEffect(node, width, entry, most, isGreedy) {
  const values = entry.values[effects.action];
  const rowHeight = 24;
  const top = 26;
  const left = Math.min(Math.max(...entry.labels.map((text) => textWidth(text))) + 14, width * 0.38);
  const bottom = top + entry.labels.length * rowHeight;
  const drawing = canvas(node, width, bottom + 6, `Contributions of ${entry.feature}`);
  const room = Math.max(...values.map((value) => textWidth(fixed(value, most), 12))) + 10;
  const x = linear([-most, most], [left + room, width - room]);
  drawing.append(cutText({ class: "title", x: 0, y: 14 }, entry.feature, width, 14, 600));
  drawing.append(svg("line", { class: "axis", x1: x(0), x2: x(0), y1: top, y2: bottom }));
  entry.labels.forEach((text, idx) => {
    const y = top + idx * rowHeight;
    const value = values[idx];
    const isFor = value >= 0;
    const row = svg("g", {},
      cutText({ x: 0, y: y + 16.5 }, text, left - 8),
      svg("rect", { class: isFor ? "new-fill" : "against-fill", x: Math.min(x(0), x(value)), y: y + 5, width: Math.max(Math.abs(x(value) - x(0)), 0.5), height: 14, rx: 1.5 }),
      svg("text", { class: "tick", x: x(value) + (isFor ? 6 : -6), y: y + 16.5, "text-anchor": isFor ? "start" : "end" }, fixed(value, most)),
      svg("rect", { class: "hit", x: 0, y, width, height: rowHeight }),
    );
    drawing.append(hoverable(row, `${entry.feature}: ${text}`, () => [
      ["adds to the score", fixed(value, most)],
      ...(isGreedy ? [] : [["multiplies the odds by", number(Math.exp(value), 3)]]),
    ]));
  });
}
