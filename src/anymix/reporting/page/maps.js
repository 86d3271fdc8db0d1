// Pictures of all mixtures: for p = 2 the losses along a line, for p = 3 a triangle. Both can be dragged in.

// A finger moves the mixture sideways; up and down it scrolls the page (touch-action: pan-y). So a
// touch only counts once it has moved, or when it is lifted without having scrolled.
function pointer(map, toMixture) {
  let held = null;
  const go = (event) => {
    const box = map.querySelector("svg").getBoundingClientRect();
    const unit = Number(map.dataset.width) / box.width;
    toMixture((event.clientX - box.left) * unit, (event.clientY - box.top) * unit);
  };
  map.addEventListener("pointerdown", (event) => {
    held = event.pointerType;
    if (held !== "touch") go(event);
  });
  window.addEventListener("pointermove", (event) => held !== null && go(event));
  window.addEventListener("pointerup", (event) => {
    if (held === "touch") go(event);
    held = null;
  });
  window.addEventListener("pointercancel", () => (held = null));
}

function explain(map, help, caption) {
  $("#explorer-help").textContent = `How would each model do if its domains were mixed differently? ${help}`;
  $("#map-caption").textContent = caption;
  map.setAttribute("role", "group");
  map.setAttribute("aria-label", `${caption} ${help}`);
}

const star = (x, y) => words(x, y + 6.5, "★", { class: "star", "text-anchor": "middle" });
const diamond = (look, x, y, r = 7) => path([[x, y - 1.3 * r], [x + 1.3 * r, y], [x, y + 1.3 * r], [x - 1.3 * r, y], [x, y - 1.3 * r]], `worst model-${look}`);
const starKey = data.mixture ? [[star, "λ* of the training"]] : [];

// p = 2: the loss of every model against the share of the second domain.
function lineMap(map) {
  const all = models.flatMap((m) => m.losses.map(inUnit));
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const pad = 0.08 * (most - least || Math.abs(most) || 1);
  const ends = [least >= 0 && least < 0.5 * most ? 0 : least - pad, most + pad];
  const [from, to] = data.limits[1];
  let move = () => {};
  let across = (x) => x;
  mount(map, (width) => {
    const [top, bottom] = [26, 326];
    const marks = ticks(...ends, 6);
    const text = tickText(marks);
    const [left, right] = [24 + Math.max(...text.map((t) => textWidth(t))), width - 16]; // a sign at 0% hides no tick
    const axis = bottomAxis([0, 1], [left, right], bottom, bottom - top, `share of ${domains[1]}`, true);
    const up = (v) => bottom - ((bottom - top) * (v - ends[0])) / (ends[1] - ends[0]);
    const upright = (share, name) => line(axis.place(share), top, axis.place(share), bottom, name);
    const here = svg("g", { class: "here" });
    across = (x) => (x - left) / (right - left);
    move = () => here.replaceChildren(upright(mixture[1], "you"),
      ...models.map((m, i) => sign(looks[i], axis.place(mixture[1]), up(inUnit(dot(mixture, m.losses))), 7)));
    const shade = (a, b) => (b - a > 1e-9 ? [svg("rect", { x: axis.place(a), y: top, width: axis.place(b) - axis.place(a), height: bottom - top, class: "outside" })] : []);
    const curve = (m) => range(data.rooted ? 41 : 2).map((i, _, { length }) => {
      const t = i / (length - 1);
      return [axis.place(t), up(inUnit((1 - t) * m.losses[0] + t * m.losses[1]))];
    });
    return {
      height: bottom + 44,
      body: [
        ...shade(0, from), ...shade(to, 1),
        words(0, 13, data.loss, { class: "axis" }),
        ...marks.map((v) => line(left, up(v), right, up(v), "gridline")),
        ...marks.map((v, i) => words(left - 15, up(v) + 4.5, text[i], { class: "tick", "text-anchor": "end" })),
        ...axis.nodes,
        upright(data.sample[1], "sample"), ...(data.mixture ? [upright(data.mixture[1], "star-line")] : []),
        ...models.map((m, i) => path(curve(m), `curve model-line-${looks[i]}`)),
        ...models.map((m, i) => diamond(looks[i], axis.place(m.worst_mixture[1]), up(inUnit(m.worst)))),
        here,
      ],
      ready: () => move(),
    };
  });
  legend($("#map-legend"), [
    ...modelKeys((look, x, y) => [line(1, y, 29, y, `curve model-line-${look}`), sign(look, x, y, 5)]),
    [(x, y) => path([[x, y - 6], [x + 6, y], [x, y + 6], [x - 6, y], [x, y - 6]], "worst"), "worst case"],
    [(x) => line(x, 0, x, 16, "you"), "your mixture"], [(x) => line(x, 0, x, 16, "sample"), "data as sampled"],
    ...(data.mixture ? [[(x) => line(x, 0, x, 16, "star-line"), "λ* of the training"]] : []),
    ...(from > 1e-9 || to < 1 - 1e-9 ? [[() => svg("rect", { x: 5, y: 2, width: 20, height: 12, class: "outside" }), "outside Λ"]] : []),
  ]);
  watchers.push(() => move());
  pointer(map, (x) => setShare(1, Math.min(Math.max(across(x), 0), 1)));
  explain(map, "Move the slider, or drag in the picture.", `${capital(data.loss)} of every model against the share of ${domains[1]}; the rest is ${domains[0]}.`);
}

// p = 3: the triangle of mixtures, coloured by the model that is best there.
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

const bestWhere = () => models.map((m) => models.reduce((part, other) => clip(part, m.losses.map((l, k) => l - other.losses[k])), CORNERS));

function triangleMap(map) {
  const best = bestWhere();
  let [move, back] = [() => {}, () => [0, 0]];
  mount(map, (width) => {
    const side = Math.min(width - 32, 440);
    const [left, top] = [(width - side) / 2, 30];
    const bottom = top + HEIGHT * side;
    const at = (lam) => {
      const [x, y] = xy(lam);
      return [left + side * x, bottom - side * y];
    };
    back = (x, y) => [(x - left) / side, (bottom - y) / side];
    const around = (polygon) => [...polygon, polygon[0]].map(at);
    const here = svg("g", { class: "here" });
    move = () => {
      const [x, y] = at(mixture);
      here.replaceChildren(path([[x - 8, y], [x + 8, y]], "cross-edge"), path([[x, y - 8], [x, y + 8]], "cross-edge"),
        path([[x - 7, y], [x + 7, y]], "cross"), path([[x, y - 7], [x, y + 7]], "cross"));
    };
    const underStar = (m) => data.mixture && Math.hypot(...at(m.worst_mixture).map((v, i) => v - at(data.mixture)[i])) < 12;
    const corner = (k) => {
      const [x, y] = at(CORNERS[k]);
      const name = cut(domains[k], k === 2 ? width - 20 : width / 2 - 10);
      return words(k === 2 ? x : k ? width - 2 : 2, k === 2 ? y - 15 : y + 28, name, { class: "corner", "text-anchor": k === 2 ? "middle" : k ? "end" : "start" }, domains[k]);
    };
    return {
      height: bottom + 38,
      body: [
        ...best.map((part, i) => (part.length ? path(around(part), `area fill-${looks[i]}`) : svg("g"))),
        path(around(CORNERS), "border"), ...(data.outline ? [path(around(data.outline), "lambda-border")] : []),
        ...range(3).map(corner),
        svg("circle", { cx: at(data.sample)[0], cy: at(data.sample)[1], r: 6, class: "sampled" }),
        // Two models may have the same worst mixture: the later sign is smaller, so that both are seen.
        ...models.map((m, i) => diamond(looks[i], ...at(m.worst_mixture), Math.max(9 - 3.5 * i, 3) + (underStar(m) ? 2.5 : 0))),
        ...(data.mixture ? [star(...at(data.mixture))] : []),
        here,
      ],
      ready: () => move(),
    };
  });
  legend($("#map-legend"), [
    ...models.flatMap((m, i) => [
      ...(pairs && best[i].length ? [[() => svg("rect", { x: 4, y: 2, width: 22, height: 12, class: `area fill-${looks[i]}` }), `${m.name} has the ${models.length > 2 ? "lowest" : "lower"} ${data.loss}`]] : []),
      [(x, y) => diamond(looks[i], x, y, 5), `worst case of ${m.name}`],
    ]),
    [(x, y) => [path([[x - 7, y], [x + 7, y]], "cross"), path([[x, y - 7], [x, y + 7]], "cross")], "your mixture"],
    [(x, y) => svg("circle", { cx: x, cy: y, r: 5, class: "sampled" }), "data as sampled"],
    ...starKey, ...(data.outline ? [[(x, y) => line(1, y, 29, y, "lambda-border"), "border of Λ"]] : []),
  ]);
  watchers.push(() => move());
  const go = (x, y) => {
    const third = y / HEIGHT;
    moveTo(nearestMixture([1 - x - third / 2, x - third / 2, third]));
  };
  pointer(map, (x, y) => go(...back(x, y)));
  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  map.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const size = event.shiftKey ? 0.1 : 0.01;
    const [x, y] = xy(mixture);
    go(x + size * step[0], y + size * step[1]);
  });
  map.setAttribute("tabindex", "0");
  explain(map, "Drag in the triangle, use the arrow keys on it (with Shift: larger steps), or move a slider.",
    "Every point of the triangle is a mixture: a corner is one domain alone, the middle is all in equal shares.");
}
