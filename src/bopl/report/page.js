// Draws every chart that has a place on the page.

const summary = JSON.parse(document.getElementById("summary").textContent);

for (const node of document.querySelectorAll("[data-chart]")) charts[node.dataset.chart](node, summary);

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
});

// On paper charts are drawn for its width, or their text would shrink with them.
const PAPER = "765px";

window.addEventListener("beforeprint", () => {
  for (const node of document.querySelectorAll("details")) node.open = true;
  document.body.style.width = PAPER;
  for (const again of redrawn) again();
  document.body.style.width = "";
});

window.addEventListener("afterprint", () => {
  for (const again of redrawn) again();
});
