// Domain by domain: a bar for every model and measure, with its interval.

function bars() {
  const shown = expandable($("#all-bars"), () => drawn.forEach((chart) => chart.again()));
  const hosts = data.measures.map((m) => figure($("#bars"), `${m.name} by domain`,
    `Bars of ${m.name} for every domain and model, with intervals; the table below has all the numbers.`));
  const drawn = data.measures.map((measure, at) => mount(hosts[at], (width) => paintBars(width, measure, shown())));
  if (pairs) legend($("#bars-legend"), modelKeys((look) => svg("rect", { x: 3, y: 2, width: 24, height: 12, class: `bar fill-${look}` })));
  redraw();
}

function paintBars(width, measure, order) {
  const all = (what) => measure.models.flatMap((m) => order.map((k) => m[what][k])).filter((v) => v !== null);
  // One wide interval must not flatten all the bars: the axis is at most twice the longest.
  const reach = 2 * Math.max(...all("values").map(Math.abs), 1e-12);
  const ends = [Math.max(-reach, Math.min(0, 1.04 * Math.min(...all("low"), 0))), Math.min(reach, Math.max(0, 1.04 * Math.max(...all("high"), ...all("values"))))];
  const above = width < 420; // names above the bars
  const nameRoom = above ? 0 : Math.min(0.4 * width, 10 + Math.max(...order.map((k) => textWidth(domains[k]))));
  const [left, right, top, thick] = [nameRoom + 2, width - 16, 4, 13];
  const step = thick * models.length + (above ? 28 : 12);
  const bottom = top + order.length * step + 4;
  const axis = bottomAxis(ends[1] > ends[0] ? ends : [0, 1], [left, right], bottom, bottom - top, measure.name);
  const inside = (x) => Math.min(Math.max(x, left), right);
  const body = [...axis.nodes];
  order.forEach((k, j) => {
    const y = top + j * step + (above ? 18 : 6);
    const nameAt = above ? y - 5 : y + (thick * models.length) / 2 + 4.5;
    body.push(words(0, nameAt, cut(domains[k], above ? width : nameRoom - 8), { class: "name" }, domains[k]));
    measure.models.forEach((m, i) => {
      if (m.values[k] === null) return;
      const [zero, end] = [axis.place(0), inside(axis.place(m.values[k]))];
      const said = `${domains[k]}, ${models[i].name}: ${number(m.values[k])} (${number(m.low[k])} to ${number(m.high[k])}), ${data.sizes[k].toLocaleString("en-US")} rows`;
      body.push(svg("rect", { x: Math.min(zero, end), y: y + i * thick, width: Math.abs(end - zero), height: thick - 1.5, class: `bar fill-${looks[i]}` }, svg("title", {}, said)));
      const middle = y + i * thick + (thick - 1.5) / 2;
      const [low, high] = [m.low[k], m.high[k]].map((e, side) => (e === null ? (side ? Infinity : -Infinity) : e));
      const xs = [low, high].map(axis.place);
      for (const style of ["whisker-edge", "whisker"]) body.push(line(inside(xs[0]), middle, inside(xs[1]), middle, style));
      for (const x of xs) if (x !== inside(x)) body.push(arrowHead(inside(x), middle, x > right, 4, "whisker-tip"));
    });
  });
  return { height: bottom + 44, body };
}
