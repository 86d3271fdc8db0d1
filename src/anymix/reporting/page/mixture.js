// The explorer's state: one mixture λ, and who wants to know when it moves. The loss of a model at λ
// is Σ λ_k L_k: all that is computed here.

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
  (p === 2 ? lineMap : p === 3 ? triangleMap : ladderMap)($("#map"));
  watchers.push(() => ($("#outside").hidden = !isOutside(mixture)));
  moveTo(data.sample);
}

// A card for each model: in the words people know (accuracy, MAE) and the loss the worst case is about.
function cards() {
  models.forEach((m, i) => {
    const loss = element("span", { class: "loss", "data-model": m.name });
    const more = element("p", { class: "more" });
    $(".cards").append(element("div", { class: `card look-${looks[i]}` },
      element("h3", {}, m.name), element("p", {}, `${data.loss} `, loss), more));
    watchers.push(() => {
      loss.textContent = number(inUnit(dot(mixture, m.losses)));
      const also = m.accuracy ? `accuracy ${percent(dot(mixture, m.accuracy))}, ` : m.mae ? `MAE ${number(dot(mixture, m.mae))}, ` : "";
      more.textContent = `${also}at worst ${data.loss} ${number(inUnit(m.worst))}`;
    });
  });
  if (pairs) watchers.push(verdict);
  watchers.push(() => {
    const order = range(p).sort((a, b) => mixture[b] - mixture[a]);
    const parts = order.slice(0, 4).filter((k) => mixture[k] >= 5e-4).map((k) => `${percent(mixture[k])} ${domains[k]}`);
    $("#mixture").textContent = `Your mixture: ${parts.join(", ")}${parts.length < p && p > 4 ? " …" : ""}`;
  });
}

function verdict() {
  const losses = models.map((m) => inUnit(dot(mixture, m.losses)));
  const order = range(models.length).sort((a, b) => losses[a] - losses[b]);
  const [best, worst] = [order[0], order[order.length - 1]];
  const difference = losses[worst] - losses[best];
  $("#verdict").textContent = difference <= 1e-9 * Math.abs(losses[worst])
    ? `All models have the same ${data.loss} at this mixture.`
    : `At this mixture ${models[best].name} has the ${models.length > 2 ? "lowest" : "lower"} ${data.loss}, by ${number(difference)} against ${models[worst].name}.`;
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

// Sliders: all of them, or the most telling ones and a search.
const MOST_SLIDERS = 12;

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
    if (low > 1e-9 || high < 1 - 1e-9) row.append(element("span", { class: "range" }, `in Λ: ${percent(low)} to ${percent(high)}`));
    input.addEventListener("input", () => setShare(k, Number(input.value)));
    watchers.push(() => {
      input.value = mixture[k];
      output.textContent = percent(mixture[k]);
      input.setAttribute("aria-valuetext", percent(mixture[k]));
    });
    $(".sliders").append(row);
    return input;
  };
  if (p === 2) return void add(1);
  (p <= MOST_SLIDERS ? range(p) : data.telling.slice(0, MOST_SLIDERS)).forEach(add);
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
