// What robustness buys and costs: a point for each model, from ordinary to robust.

const isFaint = (series) => series.rows === "rows fitted";

function frontiers() {
  const parent = $("#frontier-charts");
  for (const panel of data.frontier) {
    const host = figure(parent, panel.heading,
      `${data.frontierLoss} on all rows against that of the worst mixture, a point for each model; the table below has all the numbers.`);
    const list = element("ul", { class: "legend" });
    host.after(element("figcaption", {}, list, panel.caption));
    mount(host, (width) => paintFrontier(width, panel));
    const taken = panel.chosen === panel.ordinary ? 0 : 1;
    legend(list, [
      ...panel.series.map((s) => [(x, y) => [line(1, y, 29, y, isFaint(s) ? "faint" : "front"), svg("circle", { cx: x, cy: y, r: 4, class: isFaint(s) ? "faint-point" : "front-point" })], s.rows]),
      ...(panel.ordinary !== null ? [[(x, y) => sign(0, x, y, 6), "ordinary"]] : []),
      ...(panel.chosen !== null ? [[(x, y) => [svg("circle", { cx: x, cy: y, r: 7.5, class: "ring" }), sign(taken, x, y, 4)], "taken"]] : []),
    ]);
  }
  redraw();
}

function paintFrontier(width, panel) {
  const [top, bottom, height] = [26, 342, 388];
  const marks = ticks(panel.y[0], panel.y[1], 6);
  const text = tickText(marks);
  const [left, right] = [14 + Math.max(...text.map((t) => textWidth(t))), width - 14];
  const axis = bottomAxis(panel.x, [left, right], bottom, bottom - top, `${data.frontierLoss} on all rows`);
  const up = (v) => bottom - ((bottom - top) * (v - panel.y[0])) / (panel.y[1] - panel.y[0]);
  const body = [
    words(0, 13, cut(`${data.frontierLoss} of the worst mixture`, width), { class: "axis" }),
    ...marks.map((v) => line(left, up(v), right, up(v), "gridline")),
    ...marks.map((v, i) => words(left - 7, up(v) + 4.5, text[i], { class: "tick", "text-anchor": "end" })),
    ...axis.nodes,
  ];
  const drawn = panel.series.map((s) => s.pooled.map((x, i) => [axis.place(x), up(s.worst[i])]));
  const box = { left, right, top, bottom };
  panel.series.map((s, j) => [s, drawn[j]]).reverse().forEach(([s, points]) => body.push(...paintSeries(s, points, box, axis, up)));
  const at = drawn[0];
  if (panel.ordinary !== null) body.push(sign(0, ...at[panel.ordinary], 7, "mark-ordinary"));
  if (panel.chosen !== null) {
    if (panel.chosen !== panel.ordinary) body.push(sign(1, ...at[panel.chosen], 6));
    body.push(svg("circle", { cx: at[panel.chosen][0], cy: at[panel.chosen][1], r: 11, class: "ring mark-chosen" }));
  }
  const free = roomForNames(drawn, box);
  panel.marks.forEach(({ place, lines, above }) => body.push(...nameBeside(at[place], lines, free(at[place], lines, above))));
  return { height, body };
}

function paintSeries(s, points, box, axis, up) {
  const faint = isFaint(s);
  const nodes = points.length > 1 ? [path([...points].sort((a, b) => a[0] - b[0]), faint ? "faint" : "front")] : [];
  const clip = (v, a, b) => Math.min(Math.max(v, a), b);
  points.forEach(([x, y], i) => {
    const [ex, ey] = [s.pooled_error[i], s.worst_error[i]].map((e) => (e === null ? Infinity : e));
    const [x0, x1] = [-ex, ex].map((e) => clip(axis.place(s.pooled[i] + e), box.left, box.right));
    const [y0, y1] = [-ey, ey].map((e) => clip(up(s.worst[i] + e), box.top, box.bottom));
    if (ex > 0) nodes.push(line(x0, y, x1, y, "error"));
    if (ey > 0) nodes.push(line(x, y0, x, y1, "error"));
  });
  points.forEach(([cx, cy], i) => nodes.push(svg("circle", { cx, cy, r: faint ? 3.5 : 4.5, class: faint ? "faint-point" : "front-point" }, svg("title", {}, s.hover[i]))));
  return nodes;
}

function nameBeside([x, y], lines, [dx, dy]) {
  const [cx, cy] = [x + dx, y + dy];
  const first = cy - 8.5 * (lines.length - 1) + 4.5;
  const text = svg("text", { class: "halo", "text-anchor": "middle" }, ...lines.map((l, i) => svg("tspan", { x: cx, y: first + 17 * i }, l)));
  const [ux, uy] = [dx / Math.hypot(dx, dy), dy / Math.hypot(dx, dy)];
  const end = Math.abs(dy) < 1 ? [cx - ux * (textWidth(lines[0]) / 2 + 4), cy] : [x + dx * 0.45, y + dy * 0.45];
  return [line(x + 12 * ux, y + 12 * uy, ...end, "leader"), text];
}

// Where a name stands beside its point: the place that hides the least of the points, the lines and other names.
function roomForNames(drawn, { left, right, top, bottom }) {
  const between = ([ax, ay], [bx, by]) => [0.2, 0.4, 0.6, 0.8].map((t) => [ax + t * (bx - ax), ay + t * (by - ay), 1]);
  const taken = drawn.flatMap((points) => points.flatMap((a, i) => [[...a, 5], ...(i ? between(points[i - 1], a) : [])]));
  return ([x, y], lines, above) => {
    const [w, h] = [4 + Math.max(...lines.map((l) => textWidth(l, 14))) / 2, 3 + 9 * lines.length]; // half of its size
    const over = [40, 0, -40, 80, -80].map((dx) => [dx, -h - 20]);
    const under = [-40, 0, 40, -80, 80].map((dx) => [dx, h + 20]);
    const sides = [[w + 22, 0], [-w - 22, 0]];
    const far = [[0, -h - 60], [0, h + 60], [-60, h + 60], [60, -h - 60]];
    const places = [...(above ? [...over, ...under] : [...under, ...over]), ...sides, ...far];
    const cost = ([dx, dy]) => {
      const [cx, cy] = [x + dx, y + dy];
      const outside = cx - w < left || cx + w > right || cy - h < top || cy + h > bottom;
      return taken.reduce((sum, [px, py, weight]) => sum + (Math.abs(px - cx) < w + 6 && Math.abs(py - cy) < h + 6 ? weight : 0), outside ? 100 : 0);
    };
    const best = places.reduce((a, b) => (cost(b) < cost(a) ? b : a));
    for (const u of [-1, -0.5, 0, 0.5, 1]) for (const v of [-1, 0, 1]) taken.push([x + best[0] + u * w, y + best[1] + v * h, 20]);
    return best;
  };
}
