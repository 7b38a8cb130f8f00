// Draws every chart that has a place on the page.

const summary = JSON.parse(document.getElementById("summary").textContent);

for (const node of document.querySelectorAll("[data-chart]")) charts[node.dataset.chart](node, summary);

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
});

window.addEventListener("beforeprint", () => {
  for (const node of document.querySelectorAll("details")) node.open = true;
});
