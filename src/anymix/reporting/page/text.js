"use strict";
// The data of the page, and how numbers and names are written. One number format for all of it,
// the same as in Python (auditing/words.py).

const data = JSON.parse(document.getElementById("data").textContent);
const { domains, models } = data;
const p = domains.length;

const $ = (selector) => document.querySelector(selector);
const dot = (a, b) => a.reduce((sum, x, k) => sum + x * b[k], 0);
const percent = (share) => `${(100 * share).toFixed(1)}%`;
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const range = (n) => [...Array(n).keys()];
// Half squared errors are shown as RMSE, in the unit of the target.
const inUnit = (loss) => (data.rooted ? Math.sqrt(Math.max(2 * loss, 0)) : loss);

function number(x) {
  if (x === null) return "–";
  const size = Math.abs(x);
  if ((size > 0 && size < 0.5e-4) || size >= 1e15) {
    const [digits, power] = Number(x.toPrecision(4)).toExponential().split("e");
    return `${digits}e${power[0]}${power.slice(1).padStart(2, "0")}`;
  }
  const text = x.toFixed(Math.max(4 - [10, 10, 100, 1000].filter((limit) => size >= limit).length, 0));
  const [whole, decimals] = text.split(".");
  return [whole.replace(/\B(?=(\d{3})+$)/g, ","), decimals].filter((part) => part).join(".");
}

// On a scale: a share in percent, all else as a number; differences with a sign.
const value = (scale, x) => (scale.isShare && x !== null ? percent(x) : number(x));
function change(scale, x) {
  if (x === null) return "–";
  const size = scale.isShare ? (100 * Math.abs(x)).toFixed(1) : number(Math.abs(x));
  return `${x < 0 ? "−" : "+"}${size}`;
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, given] of Object.entries(attributes)) made.setAttribute(name, given);
  made.append(...children);
  return made;
}

// A model has one colour, pattern and shape on the whole page: 0 is ordinary, 1 is robust.
const LOOKS = 5;
const looks = models.map((m, i) => (m.name === "ordinary" ? 0 : m.name === "robust" || models.length === 1 ? 1 : i % LOOKS));

// Domains by the highest loss of any model; of many, the first ten are shown until all are asked for.
const MOST = 10;
const highest = domains.map((_, k) => Math.max(...models.map((m) => m.losses[k])));
const worstFirst = range(p).sort((a, b) => highest[b] - highest[a]);
