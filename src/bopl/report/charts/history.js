// Four panels over the rounds of training; they share a cursor and a zoom.

const rounds = { from: null, to: null, panels: [] };

charts.historyRisk = (node, summary) => historyPanel(node, summary, "Risk on the training log", [
  ["risk", summary.training.objective === "surrogate" ? "surrogate risk" : "risk", "new-line"],
  ["recursive_bound", "bound of this round", "against-line wide"],
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
  const all = columns.round;
  const [from, to] = [rounds.from ?? all[0], rounds.to ?? all[all.length - 1]];
  const isMarked = chosen !== null && chosen >= from && chosen <= to;
  const names = legend(series, width, marks.line);
  const top = 30 + names.height + (isMarked ? 16 : 0);
  const [right, bottom] = [width - 10, top + 168];
  const drawing = canvas(node, width, bottom + 42, title, "group");
  const shown = all.map((round, idx) => idx).filter((idx) => all[idx] >= from && all[idx] <= to);
  const y = historyScale(series.flatMap((line) => shown.map((idx) => line.values[idx])), isLog, [bottom, top]);
  const ticks = { count: 5, format: isLog ? (tick) => number(tick, 3) : axisText(y, 5) };
  const left = axisRoom(y, ticks);
  const x = linear([from, Math.max(to, from + 1)], [left, right]);
  drawing.append(cutText({ class: "title", x: 0, y: 14 }, title, width, 14, 600), names.draw(22));
  drawing.append(yAxis(y, left, right, ticks));
  drawing.append(xAxis(x, bottom, { width, count: 5, format: (tick) => (Number.isInteger(tick) ? whole(tick) : ""), label: "round", right }));
  for (const line of [...series].reverse()) {
    drawing.append(svg("path", { class: `line ${line.look}`, d: path(shown.map((idx) => [x(all[idx]), y(line.values[idx])])) }));
  }
  if (isMarked) drawing.append(chosenRound(x(chosen), top, bottom, left, right, chosen));
  panel.cursor = svg("line", { class: "cursor", y1: top, y2: bottom, visibility: "hidden" });
  drawing.append(panel.cursor);
  panel.at = (round) => (round >= from && round <= to ? x(round) : null);
  drawing.append(historyHit(drawing, panel, { x, left, right, top, bottom, width, all, shown, series, title }));
}

function historyScale(values, isLog, range) {
  if (!isLog) return linear(extent(values.filter((value) => value !== null)), range);
  const known = values.filter((value) => value > 0);
  const [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0.1, 1];
  return logarithmic([low / 1.15, high * 1.15], range);
}

// The mark stands above the lines, so that it covers none of them.
function chosenRound(x, top, bottom, left, right, chosen) {
  const isRight = x > (left + right) / 2;
  return svg("g", {},
    svg("line", { class: "zero", x1: x, x2: x, y1: top - 4, y2: bottom }),
    svg("text", { class: "tick", x, y: top - 9, "text-anchor": isRight ? "end" : "start" }, `chosen: ${whole(chosen)}`),
  );
}

// The place of a chart that is pointed at, dragged across, or read with the arrow keys.
function historyHit(drawing, panel, plot) {
  const { left, right, top, bottom, all, shown, title } = plot;
  const [first, last] = [all[shown[0]], all[shown[shown.length - 1]]];
  const range = { "aria-valuemin": first, "aria-valuemax": last, "aria-label": `${title}, by round` };
  const hit = svg("rect", { class: "hit across", x: left, y: top, width: right - left, height: bottom - top, tabindex: "0", role: "slider", ...range });
  const band = svg("rect", { class: "brush", y: top, height: bottom - top, visibility: "hidden" });
  panel.hit = hit;
  sayRound(hit, plot, shown.length - 1);
  followPointer(drawing, hit, band, plot);
  followKeys(drawing, panel, plot);
  for (const leaving of ["pointerleave", "blur"]) {
    hit.addEventListener(leaving, () => {
      tooltip.hide();
      moveCursors(null);
    });
  }
  return svg("g", {}, band, hit);
}

// What the lines say in a round, for a reader of the screen; ``at`` is a position in ``shown``.
function sayRound(hit, { all, shown, series }, at) {
  const idx = shown[at];
  const rows = series.map((line) => [line.text, number(line.values[idx])]);
  const text = [`round ${whole(all[idx])}`, ...rows.map((row) => row.join(" "))].join(", ");
  fill(hit, { "aria-valuenow": all[idx], "aria-valuetext": text }, []);
  return rows;
}

function showRound(hit, plot, at, event) {
  const round = plot.all[plot.shown[at]];
  const rows = sayRound(hit, plot, at);
  moveCursors(round);
  tooltip.show(event, `Round ${whole(round)}`, rows);
}

function followPointer(drawing, hit, band, plot) {
  const { x, left, right, width, all, shown } = plot;
  let start = null;
  const place = (event) => {
    const box = drawing.getBoundingClientRect();
    return clamp(((event.clientX - box.left) / box.width) * width, left, right);
  };
  const release = () => {
    start = null;
    band.setAttribute("visibility", "hidden");
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
    const gap = (other) => Math.abs(all[shown[other]] - x.invert(at));
    const nearest = shown.reduce((best, _, other) => (gap(other) < gap(best) ? other : best), 0);
    showRound(hit, plot, nearest, event);
  });
  hit.addEventListener("pointerup", (event) => {
    const end = place(event);
    const isDrag = start !== null && Math.abs(end - start) > 8;
    const span = [start, end].sort((a, b) => a - b).map((at) => Math.round(x.invert(at)));
    release();
    if (isDrag) zoomInto(plot, ...span);
  });
  hit.addEventListener("pointercancel", release);
  hit.addEventListener("dblclick", () => zoomRounds(null, null));
}

function followKeys(drawing, panel, plot) {
  const { x, top, width, all, shown } = plot;
  const { hit } = panel;
  const last = shown.length - 1;
  let at = last;
  const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -last, End: last };
  const read = () => {
    const box = drawing.getBoundingClientRect();
    const [clientX, clientY] = [box.left + (x(all[shown[at]]) / width) * box.width, box.top + top];
    showRound(hit, plot, at, { clientY, pageX: clientX + window.scrollX, pageY: clientY + window.scrollY });
  };
  const zoom = {
    "+": () => zoomInto(plot, ...[-1, 1].map((side) => all[shown[clamp(at + side * Math.ceil(last / 4), 0, last)]])),
    Escape: () => zoomRounds(null, null),
  };
  zoom["="] = zoom["+"];
  zoom["-"] = zoom.Escape;
  hit.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in steps || event.key in zoom)) return;
    event.preventDefault();
    if (event.key in steps) {
      at = clamp(at + steps[event.key], 0, last);
      read();
    } else {
      zoom[event.key]();
      panel.hit.focus();  // that of the new drawing
    }
  });
}

// A few rounds must remain: of a long training not every one is drawn.
function zoomInto({ all }, from, to) {
  if (all.filter((round) => round >= from && round <= to).length > 2) zoomRounds(from, to);
}

function moveCursors(round) {
  for (const panel of rounds.panels) {
    const at = round === null ? null : panel.at(round);
    if (at === null) panel.cursor.setAttribute("visibility", "hidden");
    else fill(panel.cursor, { x1: at, x2: at, visibility: "visible" }, []);
  }
}
