// A chart over time, with a legend that tells the values under the pointer, and a table for whoever does not see it.
import { html, useEffect, useMemo, useRef, useState } from "./core.js";
import * as format from "./format.js";
import { useTheme } from "./theme.js";

const TABLE_ROWS = 60;
const HEIGHT = 190;
const ALONE_SECONDS = 60; // What is shown around a single point.
const PILED = 0.62; // How much of its colour the area of a pile has.

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The seconds at which points are. A clock may have been set back; what came before is then as much earlier.
export function ascending(atMs, durationMs) {
  const x = new Array(atMs.length);
  let shift = 0;
  for (let place = atMs.length - 1; place >= 0; place -= 1) {
    const next = place + 1 < atMs.length ? x[place + 1] * 1000 : Infinity;
    if (atMs[place] + shift >= next) shift = next - Math.max(durationMs[place], 1) - atMs[place];
    x[place] = (atMs[place] + shift) / 1000;
  }
  return x;
}

// A colour on the surface as if it let some of it through; what is painted below it does not show.
function tinted(color, part) {
  const numbers = [color, css("--surface")].map((each) => /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(each));
  if (numbers.includes(null)) return color;
  const [own, under] = numbers.map((found) => found.slice(1).map((each) => parseInt(each, 16)));
  return `rgb(${own.map((each, place) => Math.round(each * part + under[place] * (1 - part))).join(" ")})`;
}

function stackedUp(lines) {
  const sums = [];
  let below = null;
  for (const line of lines) {
    below = line.values.map((value, place) => (value || 0) + (below ? below[place] : 0));
    sums.push(below);
  }
  return sums;
}

// The data as uPlot takes it. What is stacked is drawn from the top: each line covers what is below it.
function plotted(x, lines, stacked) {
  const piled = lines.filter((line) => stacked && !line.apart);
  const sums = stackedUp(piled);
  const order = [...piled.map((line, place) => ({ line, values: sums[place] })).reverse(), ...lines.filter((line) => !piled.includes(line)).map((line) => ({ line, values: line.values }))];
  return { data: [x, ...order.map((each) => each.values)], order: order.map((each) => each.line) };
}

// Where the lines of the grid may be, so that what is written beside them is round.
const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power);
const TIMES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 14400e3, 43200e3, 86400e3, 864e6, 864e7];
const STEPS = new Map([[format.bytes, BINARY], [format.duration, TIMES]]);

function options(width, order, stacked, unit, onCursor) {
  const muted = css("--muted");
  const font = `11px ${css("--sans") || "sans-serif"}`;
  const axis = { stroke: muted, font, grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false }, gap: 6 };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    padding: [10, 22, 0, 0], // At the right there is room for half of the last time.
    cursor: { sync: { key: "holdfast" }, drag: { x: true, y: false }, points: { size: 6 } },
    scales: { x: { range: (plot, low, high) => (plot.data[0].length > 1 ? [low, high] : [low - ALONE_SECONDS, low + ALONE_SECONDS]) }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.08 : 1] } },
    axes: [
      { ...axis, size: 28, space: 70, values: (_, splits, __, ___, step) => splits.map((at) => clock(at, step)) },
      { ...axis, size: 62, space: 34, incrs: STEPS.get(unit), values: (_, splits) => splits.map((value) => unit(value)) },
    ],
    series: [{}, ...order.map((line) => {
      const color = css(line.color);
      const isPiled = stacked && !line.apart;
      return {
        stroke: color, width: isPiled ? 1 : 1.75, dash: line.dashed ? [5, 4] : undefined, spanGaps: true,
        // A single point makes no line.
        points: { show: (plot, number) => plot.data[number].filter((value) => value != null).length === 1, size: 7, fill: color },
        fill: isPiled ? tinted(color, PILED) : line.filled ? `${color}22` : undefined,
      };
    })],
    hooks: { setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)] },
  };
}

const clock = (seconds, step) => {
  const text = format.time(seconds * 1000);
  return step >= 60 ? text.slice(0, 5) : text;
};

function summary(title, line, unit, points) {
  const known = line.values.filter((value) => value != null);
  if (!known.length) return `${title}: nothing known yet.`;
  const [low, high] = known.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  return `${title}, ${line.label}: now ${unit(known[known.length - 1])}, lowest ${unit(low)}, highest ${unit(high)}, over ${format.plural(points, "point")}.`;
}

export function Chart({ title, note, batch, atMs, durationMs, lines, stacked = false, unit = format.compact }) {
  const place = useRef(null);
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  const theme = useTheme();
  const x = useMemo(() => ascending(atMs, durationMs), [atMs, durationMs]);
  const { data, order } = useMemo(() => plotted(x, lines, stacked), [x, lines, stacked]);
  const shape = `${theme} ${stacked} ${order.map((line) => `${line.label}${line.color}${line.dashed}`).join("|")}`;

  useEffect(() => {
    const made = new window.uPlot(options(place.current.clientWidth, order, stacked, unit, setAt), data, place.current);
    plot.current = made;
    const watcher = new ResizeObserver(() => {
      const width = place.current ? place.current.clientWidth : 0;
      if (width && width !== made.width) made.setSize({ width, height: HEIGHT });
    });
    watcher.observe(place.current);
    return () => { watcher.disconnect(); made.destroy(); plot.current = null; };
  }, [shape]);

  useEffect(() => { if (plot.current && plot.current.data !== data) plot.current.setData(data); }, [data]);

  const shown = at != null && at < batch.length ? at : batch.length - 1;
  const label = lines.map((line) => summary(title, line, unit, batch.length)).join(" ");
  return html`
    <section class="panel chart" aria-label=${title}>
      <header><h2>${title}</h2><span class="when">${at != null && batch[shown] != null ? `micro-batch ${format.count(batch[shown])}, ${format.time(atMs[shown])}` : note}</span></header>
      <div class="legend" aria-hidden="true">
        ${lines.map((line) => html`<span key=${line.label}><i class=${line.dashed ? "dashed" : ""} style=${line.dashed ? { borderColor: `var(${line.color})` } : { background: `var(${line.color})` }}></i>${line.label}<b>${unit(line.values[shown])}</b></span>`)}
      </div>
      <div class="plot" ref=${place} role="img" aria-label=${label}></div>
      <${AsTable} title=${title} batch=${batch} atMs=${atMs} lines=${lines} unit=${unit} />
    </section>`;
}

function AsTable({ title, batch, atMs, lines, unit }) {
  const [open, setOpen] = useState(false);
  const from = Math.max(batch.length - TABLE_ROWS, 0);
  const rows = open ? batch.slice(from).map((number, place) => from + place).reverse() : [];
  return html`
    <details onToggle=${(event) => setOpen(event.target.open)}>
      <summary>As a table</summary>
      ${open && html`<div class="scroll" tabindex="0" role="region" aria-label=${`${title}, as a table`}><table>
        <caption>${title}: the newest ${format.plural(rows.length, "point")}</caption>
        <thead><tr><th scope="col">micro-batch</th><th scope="col">began (${format.zone()})</th>${lines.map((line) => html`<th scope="col" class="number" key=${line.label}>${line.label}</th>`)}</tr></thead>
        <tbody>${rows.map((row) => html`<tr key=${batch[row]}><th scope="row">${format.count(batch[row])}</th><td>${format.time(atMs[row])}</td>${lines.map((line) => html`<td class="number" key=${line.label}>${unit(line.values[row])}</td>`)}</tr>`)}</tbody>
      </table></div>`}
    </details>`;
}

export const COLORS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7"];
const STEPS_SHOWN = 6;

// A line for each step; when there are many, the largest, and the others as one.
export function stepLines(steps, pick) {
  const all = Object.entries(steps).map(([label, step]) => ({ label, values: pick(step) }));
  const last = (line) => line.values[line.values.length - 1] || 0;
  const ranked = all.length > STEPS_SHOWN ? [...all].sort((a, b) => last(b) - last(a)) : all;
  const shown = ranked.slice(0, all.length > STEPS_SHOWN ? STEPS_SHOWN - 1 : STEPS_SHOWN);
  const others = ranked.slice(shown.length);
  const lines = shown.map((line, place) => ({ ...line, color: COLORS[place], filled: all.length === 1 }));
  if (others.length) {
    const values = others[0].values.map((_, place) => others.reduce((sum, line) => sum + (line.values[place] || 0), 0));
    lines.push({ label: `${others.length} others`, values, color: COLORS[6], dashed: true });
  }
  return lines;
}
