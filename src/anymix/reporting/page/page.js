"use strict";
// The loss of a model at a mixture λ is Σ λ_k L_k: all that the explorer computes.

const data = JSON.parse(document.getElementById("data").textContent);
const { domains, models } = data;
const p = domains.length;
const COLORS = models.length === 1 ? ["#0072b2"] : ["#c44e00", "#0072b2", "#00795a", "#8f4a7a", "#6b6b00"];
const DASHES = ["dash", "solid", "dot", "longdash", "dashdot"];
const [INK, QUIET, STAR] = ["#1d2329", "#55606b", "#6a3d9a"];
const FAR = 1e9;
const FEW = 24; // domains that a chart of bars shows at first
const MOST_SLIDERS = 12;
const FRONT = "#0072b2";

const $ = (selector) => document.querySelector(selector);
const dot = (a, b) => a.reduce((sum, x, k) => sum + x * b[k], 0);
const look = (list, i) => list[i % list.length];
const percent = (share) => `${(100 * share).toFixed(1)}%`;

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function number(x) {
  if (x === null || x === 0) return x === null ? "–" : "0";
  const digits = Math.floor(Math.log10(Math.abs(x)));
  return -4 <= digits && digits < 6 ? x.toFixed(Math.max(3 - digits, 0)) : x.toExponential(3);
}

// Plotly reads some tags and entities in its texts; a name is only ever text.
function label(name, most = 26) {
  const letters = [...name];
  const short = letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : name;
  return short.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
}

// Charts ------------------------------------------------------------------------------------------

const charts = [];

function draw(target, traces, layout, height) {
  const base = {
    height,
    font: { family: "system-ui, sans-serif", size: 13, color: INK },
    margin: { l: 60, r: 16, t: 8, b: 44 },
    paper_bgcolor: "#fff",
    plot_bgcolor: "#fff",
    dragmode: false,
    hovermode: "closest",
    legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", itemclick: false, itemdoubleclick: false },
  };
  Plotly.react(target, traces, { ...base, ...layout }, { displayModeBar: false, responsive: true });
  if (!charts.includes(target)) charts.push(target);
}

const axis = (title, more = {}) => ({
  title: { text: title }, fixedrange: true, zeroline: false, gridcolor: "#e3e7eb", linecolor: "#7b8794", ...more,
});

function figure(parent, heading, description) {
  const chart = element("div", { class: "chart", role: "img", "aria-label": description });
  parent.append(element("figure", {}, element("h3", {}, heading), chart));
  return chart;
}

// Bars --------------------------------------------------------------------------------------------

const worstFirst = domains
  .map((_, k) => k)
  .sort((a, b) => Math.max(...models.map((m) => m.losses[b])) - Math.max(...models.map((m) => m.losses[a])));

function drawBars(targets, shown) {
  data.measures.forEach((measure, at) => {
    const traces = measure.models.map((m, i) => {
      const value = shown.map((k) => m.values[k]);
      // No end (null) is one far away: the line leaves the picture.
      const reach = (end, sign) => shown.map((k, j) => (end[k] === null ? FAR : sign * (end[k] - value[j])));
      return {
        type: "bar", orientation: "h", name: label(models[i].name), x: value, y: shown.map((_, j) => j),
        marker: { color: look(COLORS, i), pattern: { shape: i % 2 ? "" : "/", fillmode: "replace", size: 5, solidity: 0.55 } },
        error_x: { type: "data", symmetric: false, array: reach(m.high, 1), arrayminus: reach(m.low, -1), color: INK, thickness: 1.2, width: 3 },
        customdata: shown.map((k) => [label(domains[k], 60), number(m.values[k]), number(m.low[k]), number(m.high[k]), data.sizes[k]]),
        hovertemplate: "%{customdata[0]}: %{customdata[1]} [%{customdata[2]}, %{customdata[3]}], %{customdata[4]} rows<extra>%{fullData.name}</extra>",
      };
    });
    const names = shown.map((k) => label(domains[k], 20));
    const room = Math.min(150, 14 + 7.2 * Math.max(...names.map((n) => n.length)));
    // One wide interval must not flatten all the bars: the axis is at most twice the longest.
    const all = (what) => measure.models.flatMap((m) => shown.map((k) => m[what][k]));
    const reach = 2 * Math.max(...all("values").map(Math.abs));
    const left = Math.max(-reach, Math.min(0, 1.05 * Math.min(...all("low"))));
    const right = Math.min(reach, Math.max(0, 1.05 * Math.max(...all("high")))) || Number(left === 0);
    draw(targets[at], traces, {
      barmode: "group", bargap: 0.3, margin: { l: room, r: 16, t: 34, b: 40 }, showlegend: models.length > 1,
      xaxis: axis(label(measure.name), { range: [left, right] }),
      yaxis: { tickvals: shown.map((_, j) => j), ticktext: names, range: [shown.length - 0.5, -0.5], fixedrange: true, zeroline: false, showgrid: false },
    }, 90 + shown.length * (12 + 13 * models.length));
  });
}

function bars() {
  const targets = data.measures.map((m) => figure($("#bars"), `${m.name} by domain`,
    `Bars of ${m.name} for every domain and model, with intervals; the table below has all the numbers.`));
  drawBars(targets, worstFirst.slice(0, FEW));
  if (p <= FEW) return;
  const button = $("#all-bars");
  let all = false;
  const name = () => (button.textContent = all ? `Show the ${FEW} domains of highest loss` : `Show all ${p} domains`);
  button.hidden = false;
  button.addEventListener("click", () => {
    all = !all;
    name();
    drawBars(targets, all ? worstFirst : worstFirst.slice(0, FEW));
  });
  name();
}

// The explorer's state: one mixture, and who wants to know when it moves -----------------------------

let mixture = data.sample.slice();
const watchers = [];

function moveTo(next) {
  const positive = next.map((share) => Math.max(share, 0));
  const total = positive.reduce((a, b) => a + b, 0);
  mixture = positive.map((share) => share / total);
  watchers.forEach((watch) => watch());
}

// Domain k gets the share t, the others keep their proportions (those of the sample if they have none).
function setShare(k, t) {
  const old = mixture[k] < 1 - 1e-12 ? mixture : data.sample;
  const rest = 1 - old[k];
  moveTo(old.map((share, j) => (j === k ? t : rest > 0 ? ((1 - t) * share) / rest : (1 - t) / (p - 1))));
}

// λ is surely outside Λ if a share or a model's loss is beyond what Λ allows. For p ≤ 3 that is all of it.
function isOutside(lam) {
  const slack = 1e-6;
  return lam.some((share, k) => share < data.limits[k][0] - slack || share > data.limits[k][1] + slack)
    || models.some((m) => dot(lam, m.losses) > m.worst + slack * Math.max(1, Math.abs(m.worst)))
    || (data.outline !== null && !insidePolygon(xy(lam), data.outline.map(xy)));
}

function insidePolygon([x, y], corners, slack = 5e-4) {
  return corners.every(([ax, ay], i) => {
    const [bx, by] = corners[(i + 1) % corners.length];
    return (bx - ax) * (y - ay) - (by - ay) * (x - ax) >= -slack * Math.hypot(bx - ax, by - ay);
  });
}

function explorer() {
  $("#explorer").hidden = false;
  cards();
  presets();
  sliders();
  (p === 2 ? line : p === 3 ? triangle : scale)($("#map"));
  watchers.push(() => ($("#outside").hidden = !isOutside(mixture)));
  moveTo(data.sample);
}

function cards() {
  models.forEach((m, i) => {
    const loss = element("div", { class: "loss", "data-model": m.name });
    const more = element("p");
    const card = element("div", { class: "card" }, element("h3", {}, m.name), loss,
      element("p", {}, `${data.loss} here; worst case ${number(m.worst)}`), more);
    card.style.borderLeftColor = look(COLORS, i);
    $(".cards").append(card);
    watchers.push(() => {
      loss.textContent = number(dot(mixture, m.losses));
      if (m.accuracy) more.textContent = `accuracy here ${percent(dot(mixture, m.accuracy))}`;
    });
  });
  if (models.length > 1) watchers.push(verdict);
  watchers.push(() => {
    const order = domains.map((_, k) => k).sort((a, b) => mixture[b] - mixture[a]);
    const parts = order.slice(0, 4).filter((k) => mixture[k] >= 5e-4).map((k) => `${percent(mixture[k])} ${domains[k]}`);
    $("#mixture").textContent = `Your mixture: ${parts.join(", ")}${parts.length < p && p > 4 ? " …" : ""}`;
  });
}

function verdict() {
  const losses = models.map((m) => dot(mixture, m.losses));
  const order = models.map((_, i) => i).sort((a, b) => losses[a] - losses[b]);
  const [best, worst] = [order[0], order[order.length - 1]];
  const difference = losses[worst] - losses[best];
  $("#verdict").textContent = difference <= 1e-9 * Math.abs(losses[worst])
    ? "All models have the same loss at this mixture."
    : `At this mixture ${models[best].name} has the ${models.length > 2 ? "lowest" : "lower"} loss, by ${number(difference)} against ${models[worst].name}.`;
}

function presets() {
  const jump = (text, lam) => {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => moveTo(lam));
    $(".presets").append(button);
  };
  jump("As sampled", data.sample);
  jump("All equal", domains.map(() => 1 / p));
  models.forEach((m) => jump(`Worst for ${m.name}`, m.worst_mixture));
  if (data.mixture) jump("λ* of the training", data.mixture);
  const select = element("select", { "aria-label": "Only one domain" }, element("option", { value: "" }, "Only one domain …"),
    ...domains.map((name, k) => element("option", { value: k }, name)));
  select.addEventListener("change", () => {
    if (select.value !== "") moveTo(domains.map((_, k) => (k === Number(select.value) ? 1 : 0)));
  });
  watchers.push(() => {
    if (select.value !== "" && mixture[select.value] !== 1) select.value = "";
  });
  $(".presets").append(select);
}

// Sliders: all of them, or the most telling ones and a search ----------------------------------------

function sliders() {
  const shown = new Set();
  const add = (k) => {
    shown.add(k);
    const id = `share-${k}`;
    const [low, high] = data.limits[k];
    const max = Math.min(1, 3 * high); // a share that Λ keeps small needs no long way
    const input = element("input", { type: "range", id, min: 0, max, step: max / 100 });
    const output = element("output", { for: id });
    const row = element("div", { class: "slider" }, element("label", { for: id }, `share of ${domains[k]}`), output, input);
    if (low > 1e-9 || high < 1 - 1e-9)
      row.append(element("span", { class: "range" }, `in Λ: ${percent(low)} to ${percent(high)}`));
    input.addEventListener("input", () => setShare(k, Number(input.value)));
    const show = () => {
      input.value = mixture[k];
      output.textContent = percent(mixture[k]);
      input.setAttribute("aria-valuetext", percent(mixture[k]));
    };
    watchers.push(show);
    $(".sliders").append(row);
    return input;
  };
  if (p === 2) return void add(1);
  const telling = p <= MOST_SLIDERS ? domains.map((_, k) => k) : data.telling.slice(0, MOST_SLIDERS);
  telling.forEach(add);
  if (p > MOST_SLIDERS) search(shown, add);
}

function search(shown, add) {
  $("#search").hidden = $("#rest").hidden = false;
  $("#search-names").append(...domains.map((name) => element("option", { value: name })));
  watchers.push(() => {
    const rest = mixture.reduce((sum, share, k) => (shown.has(k) ? sum : sum + share), 0);
    $("#rest").textContent = `The other ${p - shown.size} domains: ${percent(rest)} together.`;
  });
  $("#search").addEventListener("submit", (event) => {
    event.preventDefault();
    const asked = $("#search-box").value.trim().toLowerCase();
    const names = domains.map((name) => name.toLowerCase());
    const k = names.indexOf(asked) >= 0 ? names.indexOf(asked) : names.findIndex((name) => asked && name.includes(asked));
    $("#search-answer").textContent = k < 0 ? "No such domain." : "";
    if (k < 0) return;
    const input = shown.has(k) ? document.getElementById(`share-${k}`) : add(k);
    moveTo(mixture);
    $("#search-box").value = "";
    input.focus();
  });
}

// p = 2: both models' loss along the line of mixtures ------------------------------------------------

function line(map) {
  const values = models.flatMap((m) => [...m.losses, 0]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const pad = 0.06 * (high - low || 1);
  const range = [low < 0 ? low - pad : 0, high + pad];
  const upright = (share, dash, color, width) => ({
    type: "scatter", mode: "lines", x: [share, share], y: range, line: { dash, color, width },
  });
  const dots = (x, y, marker) => ({
    type: "scatter", mode: "markers", x, y, marker: { color: models.map((_, i) => look(COLORS, i)), ...marker }, cliponaxis: false,
  });
  const traces = models.map((m, i) => ({
    type: "scatter", mode: "lines", x: [0, 1], y: m.losses, line: { color: look(COLORS, i), width: 3, dash: look(DASHES, i) },
  }));
  traces.push(upright(data.sample[1], "dot", QUIET, 2));
  if (data.mixture) traces.push(upright(data.mixture[1], "dashdot", STAR, 2));
  traces.push(dots(models.map((m) => m.worst_mixture[1]), models.map((m) => m.worst),
    { symbol: "diamond", size: 13, line: { color: INK, width: 1.5 } }));
  const here = traces.length;
  traces.push(upright(0, "solid", INK, 2), dots([], [], { size: 12, line: { color: "#fff", width: 2 } }));
  const [from, to] = data.limits[1];
  const shade = (x0, x1) => ({ type: "rect", yref: "paper", y0: 0, y1: 1, x0, x1, fillcolor: "#dde2e7", line: { width: 0 }, layer: "below" });
  const margin = { l: 60, r: 20, t: 12, b: 48 };
  draw(map, traces, {
    margin, hovermode: false, showlegend: false,
    xaxis: axis(`share of ${label(domains[1])}`, { range: [0, 1], tickformat: ".0%" }), yaxis: axis(label(data.loss), { range }),
    shapes: [shade(0, from), shade(to, 1)].filter((s) => s.x1 - s.x0 > 1e-9),
  }, 360);
  legend([
    ...models.map((m, i) => [i % 2 ? "━━" : "╍╍", look(COLORS, i), m.name]),
    ["◆", INK, "worst case"], ["┃", INK, "your mixture"], ["┊", QUIET, "data as sampled"],
    ...(data.mixture ? [["┆", STAR, "λ* of the training"]] : []),
    ...(from > 1e-9 || to < 1 - 1e-9 ? [["■", "#aab3bc", "outside Λ"]] : []),
  ]);
  watchers.push(() => {
    const t = mixture[1];
    const losses = models.map((m) => dot(mixture, m.losses));
    Plotly.restyle(map, { x: [[t, t], models.map(() => t)], y: [range, losses] }, [here, here + 1]);
  });
  map.style.touchAction = "pan-y"; // a finger moves the mixture sideways and the page up and down
  pointer(map, margin, [0, 1], range, ([x]) => setShare(1, Math.min(Math.max(x, 0), 1)));
  explain(map, "Move the slider, or drag in the picture.",
    `Loss of every model against the share of ${domains[1]}; the rest is ${domains[0]}.`);
}

// p = 3: the triangle of mixtures, coloured by the model that is best there -----------------------------

const HEIGHT = Math.sqrt(3) / 2;
const xy = (lam) => [lam[1] + lam[2] / 2, HEIGHT * lam[2]];
const CORNERS = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];

// The part of a convex polygon of mixtures where ⟨λ, c⟩ ≤ 0.
function clip(polygon, c) {
  return polygon.flatMap((a, i) => {
    const b = polygon[(i + 1) % polygon.length];
    const [u, v] = [dot(a, c), dot(b, c)];
    const between = u * v < 0 ? [a.map((x, k) => x + ((b[k] - x) * u) / (u - v))] : [];
    return u <= 0 ? [a, ...between] : between;
  });
}

// The projection onto the simplex: max(v − τ, 0) with the τ that makes its sum 1.
function nearestMixture(v) {
  const down = [...v].sort((a, b) => b - a);
  const taus = down.map((_, n) => (down.slice(0, n + 1).reduce((a, b) => a + b, 0) - 1) / (n + 1));
  const tau = taus.filter((t, n) => down[n] > t).pop();
  return v.map((x) => Math.max(x - tau, 0));
}

function triangle(map) {
  const path = (points) => ({ type: "scatter", x: points.map((q) => q[0]), y: points.map((q) => q[1]) });
  const closed = (polygon) => path([...polygon, polygon[0]].map(xy));
  const best = models.map((m) => models.reduce((part, other) => clip(part, m.losses.map((l, k) => l - other.losses[k])), CORNERS));
  const traces = [{ ...closed(CORNERS), mode: "lines", line: { color: INK, width: 1 } }];
  best.forEach((part, i) => {
    if (part.length) traces.push({
      ...closed(part), mode: "lines", fill: "toself", fillcolor: `${look(COLORS, i)}33`, line: { color: look(COLORS, i), width: 1 },
    });
  });
  if (data.outline) traces.push({ ...closed(data.outline), mode: "lines", line: { color: INK, dash: "dash", width: 2 } });
  const point = (lam, marker) => ({
    ...path([xy(lam)]), mode: "markers", marker: { size: 13, line: { color: INK, width: 1.5 }, ...marker }, cliponaxis: false,
  });
  traces.push(point(data.sample, { symbol: "circle-open", color: INK }));
  if (data.mixture) traces.push(point(data.mixture, { symbol: "star", size: 15, color: STAR }));
  // Two models may have the same worst mixture: the later sign is smaller, so that both are seen.
  models.forEach((m, i) => traces.push(point(m.worst_mixture, { symbol: "diamond", size: Math.max(18 - 6 * i, 6), color: look(COLORS, i) })));
  const here = traces.length;
  traces.push(point(mixture, { symbol: "cross", size: 16, color: "#fff" }));
  const margin = { l: 12, r: 12, t: 4, b: 4 };
  const [xs, ys] = [[-0.08, 1.08], [-0.12, 1]];
  const name = (k, x, y) => ({ x, y, text: label(domains[k], 20), showarrow: false, xanchor: k === 2 ? "center" : k ? "right" : "left" });
  draw(map, traces, {
    margin, hovermode: false, showlegend: false,
    xaxis: { range: xs, visible: false, fixedrange: true }, yaxis: { range: ys, visible: false, fixedrange: true },
    annotations: [name(0, -0.08, -0.07), name(1, 1.08, -0.07), name(2, 0.5, HEIGHT + 0.07)],
  }, 400);
  legend([
    ...models.flatMap((m, i) => [
      ...(models.length > 1 && best[i].length ? [["▲", `${look(COLORS, i)}88`, `${m.name} has the lowest loss`]] : []),
      ["◆", look(COLORS, i), `worst case of ${m.name}`],
    ]),
    ["✚", INK, "your mixture"], ["○", INK, "data as sampled"],
    ...(data.mixture ? [["★", STAR, "λ* of the training"]] : []), ...(data.outline ? [["╍╍", INK, "border of Λ"]] : []),
  ]);
  watchers.push(() => {
    const [x, y] = xy(mixture);
    Plotly.restyle(map, { x: [[x]], y: [[y]] }, [here]);
  });
  const go = ([x, y]) => {
    const third = y / HEIGHT;
    moveTo(nearestMixture([1 - x - third / 2, x - third / 2, third]));
  };
  pointer(map, margin, xs, ys, go);
  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  map.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const size = event.shiftKey ? 0.1 : 0.01;
    const [x, y] = xy(mixture);
    go([x + size * step[0], y + size * step[1]]);
  });
  map.setAttribute("tabindex", "0");
  map.style.touchAction = "none";
  explain(map, "Drag in the triangle, use the arrow keys on it (with Shift: larger steps), or move a slider.",
    "Every point of the triangle is a mixture: a corner is one domain alone, the middle is all in equal shares.");
}

// p > 3: every model's domain losses on one scale, and where the mixture is on it ------------------------

function scale(map) {
  const rows = models.map((_, i) => i);
  const traces = models.map((m, i) => ({
    type: "scatter", mode: "markers", x: m.losses, y: m.losses.map(() => i),
    marker: { symbol: "line-ns-open", size: 18, color: look(COLORS, i), line: { width: p > 50 ? 1 : 2 } },
    text: domains.map((name) => label(name, 60)), hovertemplate: "%{text}: %{x:.4g}<extra></extra>",
  }));
  const add = (name, x, dy, marker) => traces.push({
    type: "scatter", mode: "markers", x, y: rows.map((i) => i + dy), hovertemplate: `${name}: %{x:.4g}<extra></extra>`, cliponaxis: false,
    marker: { size: 14, color: rows.map((i) => look(COLORS, i)), line: { color: INK, width: 1.5 }, ...marker },
  });
  // Above the strokes what is fixed, below them what moves.
  add("worst case in Λ", models.map((m) => m.worst), -0.25, { symbol: "diamond" });
  add("data as sampled", models.map((m) => dot(data.sample, m.losses)), -0.25, { symbol: "circle-open", color: INK });
  if (data.mixture) add("λ* of the training", models.map((m) => dot(data.mixture, m.losses)), -0.25, { symbol: "star", color: STAR });
  const here = traces.length;
  add("your mixture", [], 0.25, { symbol: "triangle-up", size: 16 });
  const names = models.map((m) => label(m.name, 14));
  draw(map, traces, {
    margin: { l: 20 + 7.5 * Math.max(...names.map((n) => n.length)), r: 20, t: 8, b: 44 }, showlegend: false,
    xaxis: axis(label(data.loss), { rangemode: "tozero" }),
    yaxis: { tickvals: rows, ticktext: names, range: [models.length - 0.4, -0.6], fixedrange: true, showgrid: false, zeroline: false },
  }, 70 + 100 * models.length);
  legend([
    ["|", INK, "one domain alone"], ["▲", INK, "your mixture"], ["◆", INK, "worst case in Λ"], ["○", INK, "data as sampled"],
    ...(data.mixture ? [["★", STAR, "λ* of the training"]] : []),
  ]);
  watchers.push(() => Plotly.restyle(map, { x: [models.map((m) => dot(mixture, m.losses))] }, [here]));
  explain(map, "Move a slider: the other domains keep their proportions.",
    "Every stroke is the loss on one domain alone; a mixture lies between the least and the largest of them.");
}

// Shared by the pictures one can drag in. Margins and ranges are fixed, so pixels map to values linearly.
function pointer(map, margin, [x0, x1], [y0, y1], go) {
  const at = (event) => {
    const box = map.getBoundingClientRect();
    const u = (event.clientX - box.left - margin.l) / (box.width - margin.l - margin.r);
    const v = (event.clientY - box.top - margin.t) / (box.height - margin.t - margin.b);
    return [x0 + u * (x1 - x0), y1 - v * (y1 - y0)];
  };
  let held = false;
  map.addEventListener("pointerdown", (event) => {
    held = true;
    go(at(event));
  });
  window.addEventListener("pointermove", (event) => held && go(at(event)));
  window.addEventListener("pointerup", () => (held = false));
  window.addEventListener("pointercancel", () => (held = false));
}

function explain(map, help, caption) {
  $("#explorer-help").textContent = `How would each model do if its domains were mixed differently? ${help}`;
  $("#map-caption").textContent = caption;
  map.setAttribute("role", "group");
  map.setAttribute("aria-label", `${caption} ${help}`);
}

// Plotly's own legend grows into the picture on narrow screens, and then pixels lie.
function legend(items, list = $("#map-legend")) {
  list.append(...items.map(([mark, color, text]) => {
    const sign = element("span", { "aria-hidden": "true" }, mark);
    sign.style.color = color;
    return element("li", {}, sign, ` ${text}`);
  }));
}

// What robustness buys and costs: a point for each model ------------------------------------------------

function frontier() {
  const parent = $("#frontier-charts");
  for (const panel of data.frontier) {
    const chart = figure(parent, panel.heading,
      "Loss on all rows against that of the worst mixture, a point for each model; the table below has all the numbers.");
    const list = element("ul", { class: "legend" });
    chart.after(element("figcaption", {}, list, panel.caption));
    drawFrontier(chart, panel);
    legend([
      ...panel.series.map((s) => [isFaint(s) ? "┄○┄" : "━●━", isFaint(s) ? QUIET : FRONT, s.rows]),
      ...(panel.ordinary !== null ? [["■", COLORS[0], "ordinary"]] : []),
      ...(panel.chosen !== null ? [["◯", INK, "taken"]] : []),
    ], list);
  }
  parent.querySelectorAll(".chart").forEach((chart) => Plotly.Plots.resize(chart));
}

const isFaint = (series) => series.rows === "rows fitted";

function drawFrontier(chart, panel) {
  const error = (errors, color) => ({
    type: "data", array: errors.map((e) => (e === null ? FAR : e)), color, thickness: 1, width: 3, visible: errors.some((e) => e !== 0),
  });
  const path = (s) => {
    const [faint, color] = [isFaint(s), isFaint(s) ? "#9aa5b0" : FRONT];
    return {
      type: "scatter", mode: "lines+markers", x: s.pooled, y: s.worst, name: s.rows,
      line: { color, width: faint ? 1.5 : 2.5, dash: faint ? "dot" : "solid" },
      marker: { color: faint ? "#fff" : color, size: faint ? 7 : 9, line: { color, width: faint ? 1.5 : 0 } },
      error_x: error(s.pooled_error, `${FRONT}66`), error_y: error(s.worst_error, `${FRONT}66`),
      text: s.hover, hovertemplate: "%{text}<extra>%{fullData.name}</extra>",
    };
  };
  const [first] = panel.series;
  const sign = (i, marker) => (i === null ? [] : [{
    type: "scatter", mode: "markers", x: [first.pooled[i]], y: [first.worst[i]], marker, hoverinfo: "skip",
  }]);
  const traces = [
    ...[...panel.series].reverse().map(path), // the first on top
    ...sign(panel.ordinary, { symbol: "square", size: 13, color: COLORS[0], line: { color: "#fff", width: 1 } }),
    ...sign(panel.chosen, { symbol: "circle-open", size: 22, color: INK, line: { width: 2.5 } }),
  ];
  const margin = { l: 68, r: 16, t: 10, b: 48 };
  const [width, height] = [chart.clientWidth - margin.l - margin.r, 400 - margin.t - margin.b];
  const pixel = (x, y) => [(width * (x - panel.x[0])) / (panel.x[1] - panel.x[0]), (height * (panel.y[1] - y)) / (panel.y[1] - panel.y[0])];
  const drawn = panel.series.map((s) => s.pooled.map((x, i) => pixel(x, s.worst[i])));
  const free = roomForNames(drawn, width, height);
  const name = ({ place, lines, above }) => {
    const [ax, ay] = free(drawn[0][place], lines, above);
    return {
      x: first.pooled[place], y: first.worst[place], text: lines.join("<br>"), ax, ay, arrowhead: 0, arrowwidth: 1, arrowcolor: INK,
      standoff: 9, font: { size: 14, color: INK }, bgcolor: "rgba(255,255,255,0.85)",
    };
  };
  draw(chart, traces, {
    margin, showlegend: false, annotations: panel.marks.map(name),
    xaxis: axis("loss on all rows", { range: panel.x, nticks: width < 400 ? 5 : 8 }), yaxis: axis("loss of the worst mixture", { range: panel.y }),
  }, 400);
}

// Where a name stands beside its point: the place that hides the least of the points, the lines and other names.
function roomForNames(drawn, width, height) {
  const between = ([ax, ay], [bx, by]) => [0.2, 0.4, 0.6, 0.8].map((t) => [ax + t * (bx - ax), ay + t * (by - ay), 1]);
  const taken = drawn.flatMap((points) => points.flatMap((a, i) => [[...a, 5], ...(i ? between(points[i - 1], a) : [])]));
  return ([x, y], lines, above) => {
    const [w, h] = [5 + 4.2 * Math.max(...lines.map((l) => l.length)), 4 + 10 * lines.length]; // half of its size, about
    const over = [40, 0, -40].map((dx) => [dx, -h - 18]);
    const under = [-40, 0, 40].map((dx) => [dx, h + 18]);
    const places = [...(above ? [...over, ...under] : [...under, ...over]), [w + 20, 0], [-w - 20, 0]];
    const cost = ([dx, dy]) => {
      const [cx, cy] = [x + dx, y + dy];
      const outside = cx < w || cx > width - w || cy < h || cy > height - h;
      return taken.reduce((sum, [px, py, weight]) => sum + (Math.abs(px - cx) < w + 6 && Math.abs(py - cy) < h + 6 ? weight : 0), outside ? 100 : 0);
    };
    const best = places.reduce((a, b) => (cost(b) < cost(a) ? b : a));
    for (const u of [-1, -0.5, 0, 0.5, 1]) for (const v of [-1, 0, 1]) taken.push([x + best[0] + u * w, y + best[1] + v * h, 20]);
    return best;
  };
}

// Training ------------------------------------------------------------------------------------------

function training() {
  const { values, shares } = data.training;
  if (!values && !shares) return;
  $("#training").hidden = false;
  const parent = $("#training-charts");
  const steps = (title, x) => axis(title, x[x.length - 1] - x[0] < 10 ? { dtick: 1 } : {});
  const curve = (x, y, name, color, dash) => ({
    type: "scatter", mode: x.length > 40 ? "lines" : "lines+markers", x, y, name, marker: { color }, line: { color, dash, width: 2.5 }, hovertemplate: "%{x}: %{y:.6g}",
  });
  if (values) {
    const last = values.step.length - 1;
    const chart = figure(parent, "Proof of optimality: upper and lower value",
      `Upper and lower value of the training objective by iteration; at the end ${number(values.upper[last])} and ${number(values.lower[last])}.`);
    draw(chart, [
      curve(values.step, values.upper, "this model reaches (upper)", "#0072b2", "solid"),
      curve(values.step, values.lower, "no model is below (lower)", "#c44e00", "dash"),
    ], { margin: { l: 64, r: 16, t: 40, b: 44 }, xaxis: steps("iteration", values.step), yaxis: axis("training objective") }, 340);
    const gap = values.upper.map((u, i) => (u === null || values.lower[i] === null || u <= values.lower[i] ? null : u - values.lower[i]));
    if (gap.filter((g) => g !== null).length > 1)
      draw(figure(parent, "Gap between the two", "Upper minus lower value by iteration, on a logarithmic scale."),
        [curve(values.step, gap, "gap", INK, "solid")],
        { showlegend: false, margin: { l: 72, r: 16, t: 16, b: 44 }, xaxis: steps("iteration", values.step), yaxis: axis("upper − lower", { type: "log", exponentformat: "power" }) }, 340);
  }
  if (shares)
    draw(figure(parent, "Mixture λ during the training", "Share of every domain in the adversary's mixture by step."),
      shares.series.map((s, i) => curve(shares.step, s.values, label(s.name, 20), look([...COLORS, "#e69f00", "#333333", "#56b4e9"], i), look(DASHES, i + 1))),
      { margin: { l: 64, r: 16, t: 40, b: 44 }, xaxis: steps("step", shares.step), yaxis: axis("share λ", { range: [0, 1.02], tickformat: ".0%" }), showlegend: true }, 400);
  // The first chart was drawn while it had the row to itself.
  parent.querySelectorAll(".js-plotly-plot").forEach((chart) => Plotly.Plots.resize(chart));
}

bars();
if (data.frontier) frontier();
if (p > 1) explorer();
training();

window.addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((details) => (details.open = true));
  charts.forEach((chart) => Plotly.Plots.resize(chart));
});
window.addEventListener("afterprint", () => charts.forEach((chart) => Plotly.Plots.resize(chart)));
