standings();
if (data.frontier) frontiers();
if (p > 1) explorer();
bars();
training();

new ResizeObserver(redraw).observe(document.body);

// On paper short tables are open, long ones if they were opened; charts have the width of the paper.
window.addEventListener("beforeprint", () => {
  document.querySelectorAll("details:not(.long)").forEach((details) => (details.open = true));
  charts.forEach((chart) => chart.draw(chart.host.closest(".grid")?.children.length > 1 ? 420 : 680));
});
window.addEventListener("afterprint", () => charts.forEach((chart) => chart.again()));
