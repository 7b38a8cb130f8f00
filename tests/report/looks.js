// What a reader would complain about, as functions that return a list of complaints.

function isShown(node) {
  const box = node.getBoundingClientRect();
  return box.width > 0 && box.height > 0 && getComputedStyle(node).visibility !== "hidden";
}

function describe(node) {
  return `${node.tagName.toLowerCase()}.${node.getAttribute("class") ?? ""} “${node.textContent.trim().slice(0, 60)}”`;
}

// Text of drawings that leaves its drawing, or runs into other text.
function badTexts() {
  const found = [];
  for (const drawing of document.querySelectorAll("svg")) {
    const frame = drawing.getBoundingClientRect();
    const texts = [...drawing.querySelectorAll("text")].filter(isShown);
    const boxes = texts.map((text) => text.getBoundingClientRect());
    texts.forEach((text, idx) => {
      const box = boxes[idx];
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
        found.push(`leaves its drawing: ${describe(text)}`);
      }
      for (let other = idx + 1; other < texts.length; other += 1) {
        const next = boxes[other];
        const width = Math.min(box.right, next.right) - Math.max(box.left, next.left);
        const height = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
        if (width > 1 && height > 4) found.push(`runs into each other: ${describe(text)} and ${describe(texts[other])}`);
      }
    });
  }
  return found;
}

// Elements that are wider than their place, and a page that scrolls sideways.
function badBoxes() {
  const found = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} wide in ${root.clientWidth}`);
  for (const node of document.body.querySelectorAll("*:not(svg *)")) {
    if (!isShown(node) || node.closest(".scroll, details:not([open])") || ["SELECT", "OPTION", "INPUT"].includes(node.tagName)) continue;
    if (node.tagName !== "svg" && node.clientWidth > 0 && node.scrollWidth > node.clientWidth + 1) found.push(`is cut: ${describe(node)}`);
    const box = node.getBoundingClientRect();
    if (box.right > root.clientWidth + 1 || box.left < -1) found.push(`leaves the page: ${describe(node)}`);
  }
  return found;
}

const probe = document.createElement("canvas");
probe.width = probe.height = 1;
const paint = probe.getContext("2d", { willReadFrequently: true });

function rgba(colour) {
  paint.clearRect(0, 0, 1, 1);
  paint.fillStyle = colour;
  paint.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = paint.getImageData(0, 0, 1, 1).data;
  return [red, green, blue, alpha / 255];
}

function luminance(colour) {
  const [red, green, blue] = colour.slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function background(node) {
  for (let at = node; at; at = at.parentElement) {
    const colour = rgba(getComputedStyle(at).backgroundColor);
    if (colour[3] > 0.99) return colour;
  }
  return rgba("white");
}

// Text below the contrast that WCAG AA asks for, and marks of charts below that for graphics.
function badContrast() {
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.textContent.trim() || !isShown(node) || node.closest("script, style, title")) continue;
    const style = getComputedStyle(node);
    const colour = rgba(node.closest("svg") ? style.fill : style.color);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.5 && Number(style.fontWeight) >= 600);
    const ratio = contrast(colour, background(node.closest("svg") ?? node));
    if (ratio < (isLarge ? 3 : 4.5)) found.add(`${ratio.toFixed(2)}: ${describe(node)}`);
  }
  for (const node of document.querySelectorAll("svg .new-fill, svg .old-mid, svg .against-fill, svg .old-fill")) {
    const ratio = contrast(rgba(getComputedStyle(node).fill), background(node.closest("svg")));
    if (ratio < 2.95) found.add(`${ratio.toFixed(2)}: ${describe(node)}`);
  }
  return [...found];
}
