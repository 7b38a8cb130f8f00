// How often each action is taken: from the logging policy's dot to the new policy's.

const FEW_ACTIONS = 12;

charts.shares = (node, summary) => {
  const { labels, logging, new: added, logged_reward: reward } = summary.actions;
  const order = labels.map((_, idx) => idx);
  let isAll = labels.length <= FEW_ACTIONS + 2;
  // With many actions those that moved most tell the story.
  const moved = [...order].sort((a, b) => Math.abs(added[b] - logging[b]) - Math.abs(added[a] - logging[a]));
  const others = summary.actions.n_others > 0 ? labels.length - 1 : -1;
  const few = new Set(moved.filter((idx) => idx !== others).slice(0, FEW_ACTIONS));
  const redraw = responsive(node, (width) => {
    const shown = isAll ? order : order.filter((idx) => few.has(idx));
    drawShares(node, width, shown.map((idx) => ({ label: labels[idx], logging: logging[idx], added: added[idx], reward: reward[idx], isOther: idx === others, choose: () => chooseAction(idx) })));
  });
  const button = document.getElementById("shares-all");
  button.hidden = isAll;
  button.textContent = `Show all ${labels.length}`;
  button.addEventListener("click", () => {
    isAll = !isAll;
    button.textContent = isAll ? `Show the ${FEW_ACTIONS} that move most` : `Show all ${labels.length}`;
    redraw();
  });
};

// An action picked here is picked in the charts of segments and of effects, too.
function chooseAction(idx) {
  for (const id of ["segment-action", "effects-action"]) {
    const select = document.getElementById(id);
    const label = summary.actions.labels[idx];
    const option = select && [...select.options].find((other) => other.dataset.label === label);
    if (!option) continue;
    select.value = option.value;
    select.dispatchEvent(new Event("change"));
  }
}

function drawShares(node, width, rows) {
  const isNarrow = width < 560;
  const rowHeight = isNarrow ? 46 : 32;
  const top = 30;
  const left = isNarrow ? 8 : Math.min(260, Math.max(...rows.map((row) => textWidth(row.label))) + 26);
  const right = isNarrow ? width - 10 : width - 186;
  const bottom = top + rows.length * rowHeight;
  const drawing = canvas(node, width, bottom + 40, "Share of each action under both policies");
  // All others together would squeeze those that are named: they are told in numbers only.
  const named = rows.filter((row) => !row.isOther);
  const x = linear([0, Math.max(...named.flatMap((row) => [row.logging, row.added])) * 1.05 || 1], [left, right]);
  const names = [{ text: "logging policy", look: "old-line paper-fill" }, { text: "new policy", look: "new-fill new-line" }];
  drawing.append(legend(names, width, marks.dot).draw(0));
  const count = isNarrow ? 4 : 6;
  drawing.append(xAxis(x, bottom, { width, count, format: axisText(x, count, { isPercent: true }), top, label: "share of the decisions", right }));
  rows.forEach((row, idx) => drawing.append(shareRow(row, x, top + idx * rowHeight, { width, rowHeight, left, isNarrow })));
}

function shareRow(row, x, y, { width, rowHeight, left, isNarrow }) {
  const middle = isNarrow ? y + 33 : y + rowHeight / 2;
  const numbers = `${percent(row.logging)} → ${percent(row.added)}`;
  const room = isNarrow ? width - textWidth(numbers) - 18 : left - 18;
  const textY = isNarrow ? y + 17 : middle + 4.5;
  const look = row.added >= row.logging ? "new-line" : "against-line";
  const dots = row.isOther ? [] : [
    svg("line", { class: look, "stroke-width": 2, x1: x(row.logging), x2: x(row.added), y1: middle, y2: middle }),
    svg("circle", { class: "old-line paper-fill", "stroke-width": 2, cx: x(row.logging), cy: middle, r: 5 }),
    svg("circle", { class: "new-fill new-line", "stroke-width": 2, cx: x(row.added), cy: middle, r: 5 }),
  ];
  const group = svg("g", { class: "pick" },
    cutText({ x: 0, y: textY, class: row.isOther ? "soft" : "" }, row.label, room),
    svg("text", { class: "soft", x: width, y: textY, "text-anchor": "end" }, numbers),
    ...dots,
    svg("rect", { class: "hit", x: 0, y, width, height: rowHeight }),
  );
  group.addEventListener("click", row.choose);
  return hoverable(group, row.label, () => [
    ["logging policy", percent(row.logging, 2)],
    ["new policy", percent(row.added, 2)],
    ["reward where it was logged", number(row.reward)],
  ]);
}
