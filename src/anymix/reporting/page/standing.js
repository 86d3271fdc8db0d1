// Who gains, who pays, how sure: for each domain what the last model changes, with its paired interval.
// To the right is better for the last model, whatever the scale.

const pairs = models.length > 1;
const [firstLook, lastLook] = [looks[0], looks[models.length - 1]];
let standing = data.standing[0];

function standings() {
  const host = $("#standing-chart");
  const shown = expandable($("#standing-all"), () => chart.again());
  const chart = mount(host, (width) => paintStanding(width, shown()));
  const group = $("#scales");
  if (data.standing.length > 1) {
    group.hidden = false;
    data.standing.forEach((scale) => {
      const button = element("button", { type: "button" }, scale.title);
      const show = () => button.setAttribute("aria-pressed", String(scale === standing));
      button.addEventListener("click", () => {
        standing = scale;
        group.querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
        chart.again();
      });
      show();
      group.append(button);
    });
  }
  if (!pairs) return;
  const [first, last] = [models[0].name, models[models.length - 1].name];
  legend($("#standing-legend"), [
    [(x, y) => [line(1, y, 29, y, `interval model-line-${lastLook}`), sign(lastLook, x, y, 6)], `${last} surely better`],
    [(x, y) => [line(1, y, 29, y, `interval model-line-${firstLook}`), sign(firstLook, x, y, 6)], `${first} surely better`],
    [(x, y) => [line(1, y, 29, y, "interval"), svg("circle", { cx: x, cy: y, r: 5, class: "unsure" })], "not sure"],
  ]);
}

// How far the axis reaches: over all the numbers, and over intervals that are not far wider than these.
function reachOf(order) {
  const { values, low, high } = standing;
  const ends = order.flatMap((k) => [low[k], high[k]]).filter((e) => e !== null);
  const middle = order.map((k) => values[k]).filter((v) => v !== null);
  if (!pairs) {
    const top = Math.max(...middle, 1e-12);
    const far = Math.min(Math.max(...ends, ...middle), standing.isShare ? 1 : 2 * top);
    const near = Math.max(Math.min(...ends, ...middle), standing.isShare ? 0 : Math.min(...middle) - top);
    return [near, far > near ? far : near + 1];
  }
  const most = Math.max(...middle.map(Math.abs), Math.abs(standing.pooled[1] - standing.pooled[0]));
  const wide = Math.max(...ends.map(Math.abs), most);
  const usual = ends.map(Math.abs).sort((a, b) => a - b)[Math.floor(0.8 * (ends.length - 1))] ?? 0;
  const reach = 1.08 * Math.min(wide, Math.max(2 * most, 1.5 * usual)) || 1;
  return [-reach, reach];
}

function paintStanding(width, order) {
  const wide = width >= 620;
  const [nameRoom, textRoom] = wide ? [Math.min(230, 0.28 * width), 150] : [0, 0];
  const [left, right] = [nameRoom + 12, width - textRoom - 12];
  const [top, step] = [pairs ? 26 : 8, wide ? 30 : 50];
  const rows = order.length + 1;
  const bottom = top + rows * step + 8;
  const flip = pairs && !standing.higherIsBetter;
  const reach = reachOf(order);
  const scale = flip ? [reach[1], reach[0]] : reach;
  const title = pairs ? `change of ${standing.title} by ${models[models.length - 1].name}${standing.isShare ? ", in points" : ""}` : standing.title;
  const plus = (text) => (pairs && !text.startsWith("-") && Number.parseFloat(text) !== 0 ? `+${text}` : text.replace("-", "−"));
  const axis = bottomAxis(scale, [left, right], bottom, bottom - top, title, standing.isShare, (t) => plus(pairs ? t.replace("%", "") : t));
  const inside = (x) => Math.min(Math.max(x, left), right);
  const body = [...axis.nodes];
  if (pairs) {
    const zero = axis.place(0);
    body.push(line(zero, top - 4, zero, bottom, "zero"));
    const half = right - zero - 8;
    body.push(words(zero - 8, top - 11, cut(`← better: ${models[0].name}`, half), { "text-anchor": "end", class: "side" }));
    body.push(words(zero + 8, top - 11, cut(`better: ${models[models.length - 1].name} →`, half), { class: "side" }));
  }
  order.forEach((k, i) => body.push(...standingRow(k, top + i * step, step, { wide, left, right, nameRoom, width }, axis, inside)));
  const y = top + order.length * step;
  body.push(line(0, y + 2, width, y + 2, "rule"), ...allRows(y + 2, step, { wide, left, nameRoom, width }, axis, inside));
  return { height: bottom + 44, body };
}

// Both numbers of a row, or its one.
const both = (a, b) => (pairs ? `${value(standing, a)} → ${value(standing, b)}` : value(standing, a));

function labels(name, text, y, step, { wide, nameRoom, width, left }, bold = "") {
  const middle = wide ? y + step / 2 + 4.5 : y + 18;
  const size = textWidth(text);
  const room = wide ? nameRoom - 4 : width - size - 16;
  return [
    words(0, middle, cut(name, room), { class: `name ${bold}` }, name),
    words(width, middle, text, { "text-anchor": "end", class: "numbers" }),
  ];
}

function standingRow(k, y, step, place, axis, inside) {
  const { values, low, high } = standing;
  const at = place.wide ? y + step / 2 : y + 34;
  const nodes = labels(domains[k], both(standing.first[k], standing.last[k]), y, step, place);
  if (values[k] === null) return nodes;
  const better = (x) => (standing.higherIsBetter ? x > 0 : x < 0);
  const sure = pairs && low[k] !== null && high[k] !== null && (low[k] > 0 || high[k] < 0);
  const look = !pairs ? lastLook : better(values[k]) ? lastLook : firstLook;
  const ends = [low[k], high[k]].map((e, i) => (e === null ? (i ? Infinity : -Infinity) : e));
  const xs = ends.map((e) => inside(axis.place(e))).sort((a, b) => a - b);
  const style = pairs && !sure ? "interval" : `interval model-line-${look}`;
  nodes.push(line(xs[0], at, xs[1], at, style));
  for (const e of ends) {
    const x = axis.place(e);
    const tip = inside(x);
    if (tip === x) nodes.push(line(x, at - 5, x, at + 5, style)); // else it goes on beyond the picture
    else nodes.push(arrowHead(tip, at, x > tip, 5, style));
  }
  const said = `${domains[k]}, ${data.sizes[k].toLocaleString("en-US")} rows: ${both(standing.first[k], standing.last[k])}`
    + (pairs ? `; change ${change(standing, values[k])} (${change(standing, low[k])} to ${change(standing, high[k])})` : ` (${value(standing, low[k])} to ${value(standing, high[k])})`);
  const x = inside(axis.place(values[k]));
  if (pairs && !sure) nodes.push(svg("circle", { cx: x, cy: at, r: 5, class: "unsure" }, svg("title", {}, said)));
  else nodes.push(sign(look, x, at, 6, "", said));
  return nodes;
}

function allRows(y, step, place, axis, inside) {
  const [a, b] = standing.pooled;
  const at = place.wide ? y + step / 2 : y + 34;
  const x = inside(axis.place(pairs ? b - a : a));
  return [
    ...labels("all rows", both(a, b), y, step, place, "bold"),
    path([[x, at - 7], [x + 7, at], [x, at + 7], [x - 7, at], [x, at - 7]], "pooled"),
  ];
}
