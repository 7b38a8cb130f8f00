// What every chart is made of: elements, scales, axes, numbers as text, one tooltip.

const MINUS = "\u2212";

function html(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

// Text goes in as text nodes, never as markup: names come from users' data.
function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, typeof value === "number" ? +value.toFixed(2) : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// -- Numbers ----------------------------------------------------------------------------------------------------

function number(value, digits = 4) {
  if (value === null || value === undefined) return "\u2013";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(Math.max(digits - 2, 0)).replace("-", MINUS);
  if (size >= 1000) return withSign(value, Math.round(size).toLocaleString("en"));
  const decimals = size === 0 ? 0 : Math.max(digits - 1 - Math.floor(Math.log10(size)), 0);
  return withSign(value, String(+size.toFixed(Math.min(decimals, 7))));
}

function withSign(value, text) {
  return value < 0 && /[1-9]/.test(text) ? MINUS + text : text;
}

function signed(value, digits = 4) {
  return value > 0 ? "+" + number(value, digits) : number(value, digits);
}

function percent(share, digits = 1) {
  if (share === null || share === undefined) return "\u2013";
  const size = Math.abs(100 * share);
  const decimals = size >= 99.95 || size === 0 ? 0 : size >= 0.1 ? digits : 2;
  return withSign(share, size.toFixed(decimals) + "%");
}

function signedPercent(share, digits = 1) {
  return share > 0 ? "+" + percent(share, digits) : percent(share, digits);
}

// Numbers that are read beside each other: as many decimals as the largest of them calls for.
function fixed(value, largest) {
  const decimals = clamp(1 - Math.floor(Math.log10(largest || 1)), 2, 6);
  const text = Math.abs(value).toFixed(decimals);
  return (value < 0 && Number(text) !== 0 ? MINUS : "+") + text;
}

// A number with the decimals that its interval leaves meaning to: two digits of half the width.
function within(value, lower, upper) {
  const half = (upper - lower) / 2;
  const decimals = 1 - Math.floor(Math.log10(half));
  if (lower === null || upper === null || !(half > 0) || decimals > 6) return number(value);
  return withSign(value, decimalText(value, Math.max(decimals, 0)));
}

function decimalText(value, decimals) {
  return Math.abs(value).toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

function whole(value) {
  return Math.round(value).toLocaleString("en");
}

// -- Scales -----------------------------------------------------------------------------------------------------

function linear([low, high], [start, end]) {
  const span = high - low || 1;
  const scale = (value) => start + ((value - low) / span) * (end - start);
  scale.invert = (position) => low + ((position - start) / (end - start)) * span;
  scale.ticks = (count) => linearTicks(low, high, count);
  scale.domain = [low, high];
  return scale;
}

function logarithmic([low, high], range) {
  const inner = linear([Math.log10(low), Math.log10(high)], range);
  const scale = (value) => inner(Math.log10(value));
  scale.invert = (position) => 10 ** inner.invert(position);
  scale.ticks = (count) => logTicks(low, high, count);
  scale.domain = [low, high];
  return scale;
}

function linearTicks(low, high, count) {
  if (!(high > low)) return [low];
  const raw = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const factors = [0.5, 1, 2, 5, 10];
  const first = factors.findIndex((factor) => factor >= 1 && factor * power >= raw * 0.999);
  const ticks = ticksBy(power * factors[first], low, high);
  // Rounding the step up can leave two numbers, which say little of a scale: then the next smaller step.
  return ticks.length > 2 ? ticks : ticksBy(power * factors[first - 1], low, high);
}

function ticksBy(step, low, high) {
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) ticks.push(+(k * step).toPrecision(12));
  return ticks;
}

function logTicks(low, high, count) {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const decades = Math.log10(high / low);
  if (decades < 0.6) return linearTicks(low, high, count);
  const every = Math.max(Math.ceil(decades / Math.max(count, 2)), 1);
  const factors = decades * 3 <= count + 2 ? [1, 2, 5] : decades * 2 <= count + 2 ? [1, 3] : [1];
  const ticks = [];
  for (let power = first; power <= last; power += every) ticks.push(...factors.map((factor) => +(factor * 10 ** power).toPrecision(3)));
  return ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

// The least and largest of some numbers, with a little room on either side.
function extent(values, room = 0.06) {
  const known = values.filter((value) => Number.isFinite(value));
  if (!known.length) return [0, 1];
  let [low, high] = [Math.min(...known), Math.max(...known)];
  if (low === high) [low, high] = [low - (Math.abs(low) * 0.1 || 1), high + (Math.abs(high) * 0.1 || 1)];
  const pad = (high - low) * room;
  return [low - pad, high + pad];
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

// -- Drawing ----------------------------------------------------------------------------------------------------

// Draws again whenever the width of the place changes; a pixel of the drawing is a pixel of the page.
const redrawn = [];

function responsive(node, draw) {
  let width = 0;
  const again = () => {
    const now = Math.floor(node.clientWidth);
    if (now < 40 || now === width) return;
    width = now;
    draw(width);
  };
  new ResizeObserver(again).observe(node);
  redrawn.push(again);
  again();
  return () => {
    if (width > 0) draw(width);
  };
}

// A drawing with controls in it is a group: what lies within an image is hidden from readers of the screen.
function canvas(node, width, height, label, role = "img") {
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role, "aria-label": label });
  node.replaceChildren(drawing);
  return drawing;
}

// Text is measured where it will be drawn: a canvas would not know of the page's tabular figures.
const ruler = svg("text");
document.body.append(svg("svg", { class: "ruler", "aria-hidden": "true", width: 1, height: 1 }, ruler));
const measured = new Map();

function textWidth(text, size = 13, weight = 400) {
  const key = `${size} ${weight} ${text}`;
  if (!measured.has(key)) {
    ruler.style.cssText = `font-size:${size}px;font-weight:${weight}`;
    ruler.textContent = text;
    measured.set(key, ruler.getComputedTextLength());
  }
  return measured.get(key);
}

// Cuts text to a width, with an ellipsis in the middle: long names, such as addresses, often differ at their ends. The whole text
// stays available on hover.
function cut(text, room, size = 13, weight = 400) {
  if (textWidth(text, size, weight) <= room) return text;
  const letters = [...text];
  const kept = (count) => {
    const head = letters.slice(0, Math.ceil(count / 2)).join("").trimEnd();
    const tail = letters.slice(letters.length - Math.floor(count / 2)).join("").trimStart();
    return `${head}…${tail}`;
  };
  let [low, high] = [0, letters.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (textWidth(kept(middle), size, weight) <= room) low = middle;
    else high = middle - 1;
  }
  return kept(low);
}

function cutText(attributes, text, room, size = 13, weight = 400) {
  const shown = cut(text, room, size, weight);
  return svg("text", attributes, shown, shown === text ? null : svg("title", {}, text));
}

// ``width`` is that of the drawing: numbers at its edges are moved inwards.
function xAxis(scale, y, { width, count = 6, format = number, top = null, label = null, right = width }) {
  const group = svg("g");
  let end = -Infinity;
  for (const tick of scale.ticks(count)) {
    const x = scale(tick);
    if (top !== null) group.append(svg("line", { class: "grid", x1: x, x2: x, y1: top, y2: y }));
    const text = format(tick);
    const half = textWidth(text, 12) / 2;
    const at = clamp(x, half, width - half);
    if (at - half < end + 8) continue;
    end = at + half;
    group.append(svg("text", { class: "tick", x: at, y: y + 17, "text-anchor": "middle" }, text));
  }
  if (label !== null) group.append(cutText({ class: "tick", x: right, y: y + 35, "text-anchor": "end" }, label, right, 12));
  return group;
}

// How the numbers along a linear axis are written: with the decimals that tell neighbours apart.
function axisText(scale, count, { isPercent = false, hasSign = false } = {}) {
  const [first, second] = scale.ticks(count);
  const step = (isPercent ? 100 : 1) * (second - first);
  const decimals = Math.max(-Math.floor(Math.log10(step) + 1e-9), 0);
  if (!(decimals <= 6)) return (tick) => (isPercent ? percent(tick) : number(tick, 3));
  return (tick) => {
    const text = tick === 0 ? "0" : decimalText(isPercent ? 100 * tick : tick, decimals);
    return (hasSign && tick > 0 ? "+" : "") + withSign(tick, text) + (isPercent ? "%" : "");
  };
}

// How far from the left a chart begins, so that the numbers of its axis fit in.
function axisRoom(scale, { count = 4, format = number } = {}) {
  return Math.max(...scale.ticks(count).map((tick) => textWidth(format(tick), 12)), 24) + 12;
}

function yAxis(scale, left, right, { count = 4, format = number } = {}) {
  const group = svg("g");
  for (const tick of scale.ticks(count)) {
    const y = scale(tick);
    group.append(
      svg("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }),
      svg("text", { class: "tick", x: left - 8, y: y + 4, "text-anchor": "end" }, format(tick)),
    );
  }
  return group;
}

function path(points) {
  let start = true;
  return points
    .map(([x, y]) => {
      if (!Number.isFinite(y)) {
        start = true;
        return "";
      }
      const step = `${start ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
      start = false;
      return step;
    })
    .join("");
}

// A legend that goes on to another line where the width ends; ``mark`` draws what an entry looks like.
function legend(entries, width, mark) {
  const places = [];
  let [x, line] = [0, 0];
  for (const { text } of entries) {
    const size = textWidth(text) + 40;
    if (x > 0 && x + size - 14 > width) [x, line] = [0, line + 1];
    places.push([x, line]);
    x += size;
  }
  const draw = (top) => svg("g", {}, ...entries.flatMap(({ text, look }, idx) => {
    const [at, row] = places[idx];
    const y = top + 20 * row + 8;
    return [mark(look, at, y), cutText({ class: "soft", x: at + 24, y: y + 4.5 }, text, width - at - 24)];
  }));
  return { height: 20 * (line + 1), draw };
}

const marks = {
  line: (look, x, y) => svg("line", { class: `line ${look}`, x1: x, x2: x + 18, y1: y, y2: y }),
  bar: (look, x, y) => svg("rect", { class: look, x: x + 2, y: y - 5, width: 14, height: 10, rx: 1.5 }),
  dot: (look, x, y) => svg("circle", { class: look, "stroke-width": 2, cx: x + 9, cy: y, r: 5 }),
};

// -- Tooltip and controls ---------------------------------------------------------------------------------------

const tooltip = {
  show(event, title, rows) {
    const node = document.getElementById("tooltip");
    node.replaceChildren(
      html("b", {}, title),
      ...rows.map(([name, value]) => html("div", {}, html("span", {}, name), html("span", {}, value))),
    );
    node.hidden = false;
    const edge = window.scrollX + document.documentElement.clientWidth - node.offsetWidth - 8;
    node.style.left = `${clamp(event.pageX + 14, 8, Math.max(edge, 8))}px`;
    const below = event.pageY + 18;
    const isLow = event.clientY + node.offsetHeight + 26 > window.innerHeight;
    node.style.top = `${isLow ? event.pageY - node.offsetHeight - 12 : below}px`;
  },
  hide() {
    document.getElementById("tooltip").hidden = true;
  },
};

function hoverable(node, title, rows) {
  node.addEventListener("pointermove", (event) => tooltip.show(event, title, rows()));
  node.addEventListener("pointerleave", tooltip.hide);
  return node;
}

function fillSelect(select, entries, chosen, onChange) {
  select.replaceChildren(...entries.map(([value, text]) => html("option", { value, "data-label": text }, cut(text, 320, 14))));
  select.value = String(chosen);
  select.addEventListener("change", () => onChange(select.value));
}

function fillChoice(fieldset, entries, chosen, onChange) {
  for (const [value, text] of entries) {
    const input = html("input", { type: "radio", name: fieldset.id, value, onchange: () => onChange(value) });
    input.checked = value === chosen;
    fieldset.append(html("label", {}, input, html("span", {}, text)));
  }
}

const charts = {};
