// The course of the training: upper and lower value, their gap, and the mixture λ.

const CURVES = 7;

function training() {
  const { values, shares } = data.training;
  if (!values && !shares) return;
  $("#training").hidden = false;
  const parent = $("#training-charts");
  if ([values, shares].every((c) => !c || c.step.length < 2)) {
    const ends = values ? `: this model reaches ${number(values.upper[0])}, and no model is below ${number(values.lower[0])}` : "";
    parent.append(element("p", {}, `There is no course to draw, for one step was enough${ends}.`));
    return;
  }
  if (values) {
    const last = values.step.length - 1;
    const host = figure(parent, "Proof of optimality: upper and lower value",
      `Upper and lower value of the training objective by iteration; at the end ${number(values.upper[last])} and ${number(values.lower[last])}.`);
    curves(host, "iteration", "training objective", values.step, [["this model reaches (upper)", values.upper], ["no model is below (lower)", values.lower]]);
    const gap = values.upper.map((u, i) => (u === null || values.lower[i] === null || u <= values.lower[i] ? null : u - values.lower[i]));
    if (gap.filter((g) => g !== null).length > 1)
      curves(figure(parent, "Gap between the two", "Upper minus lower value by iteration, on a logarithmic scale."), "iteration", "upper − lower", values.step, [["gap", gap]], { log: true });
  }
  if (shares)
    curves(figure(parent, "Mixture λ during the training", "Share of every domain in the adversary's mixture by step."),
      "step", "share λ", shares.step, shares.series.map((s) => [s.name, s.values]), { share: true });
  redraw();
}

function curves(host, xTitle, yTitle, steps, series, { log = false, share = false } = {}) {
  const list = element("ul", { class: "legend" });
  if (series.length > 1) host.after(element("figcaption", {}, list));
  const key = (v) => (v === null ? null : log ? Math.log10(v) : v);
  const known = series.flatMap(([, values]) => values.map(key)).filter((v) => v !== null);
  const [least, most] = share ? [0, 1] : [Math.min(...known), Math.max(...known)];
  const size = Math.abs(most);
  const spread = most - least > 1e-7 * size ? most - least : size || 1; // ticks tell no smaller one apart
  const ends = share ? [0, 1] : [-0.55, 0.55].map((part) => (least + most) / 2 + part * spread);
  mount(host, (width) => {
    const [top, bottom] = [26, 286];
    const marks = log ? powers(...ends) : ticks(...ends, 6);
    const text = log ? marks.map((v) => `1e${v}`) : tickText(marks, share);
    const [left, right] = [14 + Math.max(...text.map((t) => textWidth(t))), width - 14];
    const [start, end] = [steps[0], steps[steps.length - 1]];
    const axis = bottomAxis([start, end > start ? end : start + 1], [left, right], bottom, bottom - top, xTitle, false, (t) => t, Number.isInteger);
    const up = (v) => bottom - ((bottom - top) * (v - ends[0])) / (ends[1] - ends[0]);
    const body = [
      words(0, 13, yTitle, { class: "axis" }),
      ...marks.map((v) => line(left, up(v), right, up(v), "gridline")),
      ...marks.map((v, i) => words(left - 7, up(v) + 4.5, text[i], { class: "tick", "text-anchor": "end" })),
      ...axis.nodes,
    ];
    series.forEach(([name, values], i) => {
      const points = values.map((v, t) => [axis.place(steps[t]), v === null ? null : up(key(v))]).filter(([, y]) => y !== null);
      if (points.length) body.push(path(points, `run run-${i % CURVES}`));
      if (points.length <= 40) points.forEach(([cx, cy]) => body.push(svg("circle", { cx, cy, r: 3, class: `run-dot run-${i % CURVES}` }, svg("title", {}, name))));
    });
    return { height: bottom + 44, body };
  });
  legend(list, series.map(([name], i) => [(x, y) => line(1, y, 29, y, `run run-${i % CURVES}`), name]));
}

// Whole powers of ten between two logarithms, at most seven of them.
function powers(low, high) {
  const all = range(Math.floor(high) - Math.ceil(low) + 1).map((i) => Math.ceil(low) + i);
  const every = Math.ceil(all.length / 7);
  return all.filter((_, i) => i % every === 0);
}
