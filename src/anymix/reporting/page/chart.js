// Charts: SVG in pixels, drawn anew whenever their place gets another width.

const charts = [];
const ruler = document.createElement("canvas").getContext("2d");
const FONT = 13;

function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, given] of Object.entries(attributes)) made.setAttribute(name, given);
  made.append(...children);
  return made;
}

function textWidth(text, size = FONT) {
  ruler.font = `${size}px system-ui, sans-serif`;
  return ruler.measureText(text).width * 1.04; // the page may have another font than the ruler
}

// A name as long as there is room; the whole of it is in its title.
function cut(name, room, size = FONT) {
  if (textWidth(name, size) <= room) return name;
  const letters = [...name];
  let end = letters.length;
  while (end > 1 && textWidth(`${letters.slice(0, end).join("")}…`, size) > room) end -= 1;
  const word = letters.slice(0, end + 1).join("").lastIndexOf(" "); // rather no half of a word
  const kept = letters.slice(0, end).join("");
  return `${(word > 0.5 * end ? kept.slice(0, word) : kept).trimEnd()}…`;
}

function words(x, y, text, attributes = {}, title = null) {
  const made = svg("text", { x, y, ...attributes }, text);
  if (title !== null && title !== text) made.prepend(svg("title", {}, title));
  return made;
}

// The end of what goes on beyond the picture, to the right or to the left.
const arrowHead = (tip, y, right, half, name) => path([[tip + (right ? -1.4 : 1.4) * half, y - half], [tip, y], [tip + (right ? -1.4 : 1.4) * half, y + half]], `${name} open`);
const line = (x1, y1, x2, y2, name, more = {}) => svg("line", { x1, y1, x2, y2, class: name, ...more });
const path = (points, name, more = {}) =>
  svg("path", { d: `M${points.map(([x, y]) => `${x.toFixed(2)},${y.toFixed(2)}`).join("L")}`, class: name, ...more });

// The sign of a model: circle, square, ... filled with its colour.
function sign(look, x, y, r, more = "", title = null) {
  const shapes = [
    () => svg("rect", { x: x - 0.9 * r, y: y - 0.9 * r, width: 1.8 * r, height: 1.8 * r }),
    () => svg("circle", { cx: x, cy: y, r }),
    () => path([[x, y - 1.2 * r], [x + 1.1 * r, y + 0.8 * r], [x - 1.1 * r, y + 0.8 * r], [x, y - 1.2 * r]], ""),
    () => path([[x, y - 1.3 * r], [x + 1.3 * r, y], [x, y + 1.3 * r], [x - 1.3 * r, y], [x, y - 1.3 * r]], ""),
    () => path([[x - r, y - r], [x + r, y - r], [x, y + 1.1 * r], [x - r, y - r]], ""),
  ];
  const made = shapes[look]();
  made.setAttribute("class", `sign model-${look} ${more}`);
  if (title !== null) made.append(svg("title", {}, title));
  return made;
}

// Round numbers between two ends, about n of them.
function ticks(low, high, n) {
  const rough = (high - low) / Math.max(n, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((m) => m * power >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  return range(Math.floor(high / step + 1e-9) - first + 1).map((i) => Number(((first + i) * step).toPrecision(12)));
}

// All ticks of an axis with the same decimals, thousands apart by commas.
function tickText(values, isShare = false) {
  const shown = values.map((v) => (isShare ? 100 * v : v));
  const decimals = Math.min(8, Math.max(0, ...shown.map((v) => (String(Number(v.toPrecision(10))).split(".")[1] ?? "").length)));
  return shown.map((v) => `${v.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals })}${isShare ? "%" : ""}`);
}

// An axis along the bottom: as many ticks as have room side by side.
function bottomAxis(scale, [left, right], y, height, title, isShare = false, sign = (text) => text, wanted = () => true) {
  const place = (v) => left + ((right - left) * (v - scale[0])) / (scale[1] - scale[0]);
  let n = 8;
  let at, text;
  do {
    n -= 1;
    at = ticks(Math.min(...scale), Math.max(...scale), n).filter((v) => wanted(v));
    text = tickText(at, isShare).map(sign);
  } while (n > 1 && at.length * (Math.max(...text.map((t) => textWidth(t))) + 18) > right - left);
  return {
    place,
    nodes: [
      ...at.map((v) => line(place(v), y - height, place(v), y, "gridline")),
      ...at.map((v, i) => {
        const x = Math.min(place(v), right + 8 - textWidth(text[i]) / 2);
        return words(x, y + 17, text[i], { class: "tick", "text-anchor": "middle" });
      }),
      words((left + right) / 2, y + 36, cut(title, right - left + 40), { class: "axis", "text-anchor": "middle" }, title),
    ],
  };
}

// Put a chart into its place: paint(width) gives its height and what is in it.
function mount(host, paint) {
  const draw = (width) => {
    const { height, body, ready } = paint(width);
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" }, ...body);
    host.replaceChildren(picture);
    host.dataset.width = width;
    if (ready) ready(picture);
  };
  const chart = { host, draw, again: () => draw(Math.max(Math.round(host.clientWidth), 240)) };
  charts.push(chart);
  chart.again();
  return chart;
}

function redraw() {
  charts.forEach((chart) => {
    if (chart.host.clientWidth && Number(chart.host.dataset.width) !== Math.max(Math.round(chart.host.clientWidth), 240)) chart.again();
  });
}

// A figure with a heading, and a description for those who do not see it.
function figure(parent, heading, description) {
  const host = element("div", { class: "chart", role: "img", "aria-label": description });
  const made = element("figure", {}, element("h3", {}, heading), host);
  parent.append(made);
  return host;
}

// A legend of small pictures: [what draws the sign at (x, y), text].
function legend(list, items) {
  list.replaceChildren(...items.map(([drawn, text]) =>
    element("li", {}, svg("svg", { viewBox: "0 0 30 16", width: 30, height: 16, "aria-hidden": "true" }, ...[drawn(15, 8)].flat()), ` ${text}`)));
}
const modelKeys = (drawn = (look, x, y) => sign(look, x, y, 6)) => models.map((m, i) => [(x, y) => drawn(looks[i], x, y), m.name]);

// A button that shows all domains instead of the worst ten.
function expandable(button, tell) {
  if (p <= MOST) return () => worstFirst;
  let all = false;
  const name = () => {
    button.textContent = all ? `Show the ${MOST} domains of highest loss` : `Show all ${p} domains`;
    button.setAttribute("aria-pressed", String(all));
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    all = !all;
    name();
    tell();
  });
  name();
  return () => (all ? worstFirst : worstFirst.slice(0, MOST));
}
