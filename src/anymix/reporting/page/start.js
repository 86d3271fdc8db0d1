standings();
if (data.frontier) frontiers();
if (p > 1) explorer();
bars();
training();

new ResizeObserver(redraw).observe(document.body);

// On paper every table is open, and charts have the width of the paper.
window.addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((details) => (details.open = true));
  charts.forEach((chart) => chart.draw(chart.host.closest(".grid") ? 420 : 680));
});
window.addEventListener("afterprint", () => charts.forEach((chart) => chart.again()));
