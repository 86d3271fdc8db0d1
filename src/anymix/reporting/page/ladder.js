// p > 3: a row for every domain by name, and above them your mixture, the data as sampled and the
// worst case. Models have a line of their own in each row, so that no sign hides another.

function ladderMap(map) {
  let move = () => {};
  const shown = expandable($("#map-all"), () => chart.again());
  const chart = mount(map, (width) => {
    const order = shown();
    const losses = (m) => m.losses.map(inUnit);
    const all = models.flatMap((m) => [...order.map((k) => losses(m)[k]), inUnit(m.worst), inUnit(dot(data.sample, m.losses))]);
    const lowest = Math.min(...models.flatMap((m) => losses(m))); // where a mixture can get to
    const [low, high] = [Math.min(lowest, ...all), Math.max(...all)];
    const pad = 0.05 * (high - low || Math.abs(high) || 1);
    const nameRoom = Math.min(0.36 * width, 16 + Math.max(...[...order.map((k) => domains[k]), "data as sampled"].map((n) => textWidth(n))));
    const [left, right, top] = [nameRoom + 4, width - 14, 10];
    const step = 10 + 11 * models.length;
    const fixed = [
      ["your mixture", null], ["data as sampled", models.map((m) => inUnit(dot(data.sample, m.losses)))],
      ["worst case", models.map((m) => inUnit(m.worst))],
      ...(data.mixture ? [["λ* of training", models.map((m) => inUnit(dot(data.mixture, m.losses)))]] : []),
    ];
    const rows = [...fixed, ...order.map((k) => [domains[k], models.map((m) => losses(m)[k])])];
    const bottom = top + rows.length * step + 8;
    const axis = bottomAxis([low - pad, high + pad], [left, right], bottom, bottom - top, data.loss);
    const height = (r, i) => top + r * step + (r >= fixed.length ? 8 : 0) + 11 + 11 * i;
    const name = ([text], r) => {
      const bold = r < fixed.length ? "bold" : "";
      return words(0, height(r, (models.length - 1) / 2) + 4.5, cut(text, nameRoom - 6), { class: `name ${bold}` }, text);
    };
    const signs = ([text, values], r) => values.map((v, i) =>
      sign(looks[i], axis.place(v), height(r, i), r ? 4.5 : 5.5, r < fixed.length ? "total" : "", `${text}, ${models[i].name}: ${number(v)}`));
    const here = svg("g", { class: "here" });
    move = () => {
      const now = models.map((m) => inUnit(dot(mixture, m.losses)));
      here.replaceChildren(...now.map((v, i) => line(axis.place(v), top, axis.place(v), bottom, `you-thin model-line-${looks[i]}`)), ...signs(["your mixture", now], 0));
    };
    const rule = top + fixed.length * step + 5;
    return {
      height: bottom + 44,
      body: [...axis.nodes, ...rows.map(name), line(0, rule, width, rule, "rule"), here, ...rows.flatMap((row, r) => (row[1] ? signs(row, r) : []))],
      ready: () => move(),
    };
  });
  legend($("#map-legend"), modelKeys());
  watchers.push(() => move());
  explain(map, "Move a slider: the other domains keep their proportions.",
    `${capital(data.loss)} on each domain alone${p > MOST ? ", those of highest loss first" : ""}; a mixture lies between the least and the largest of them.`);
}
