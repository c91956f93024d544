// The job's graph: sources, steps, sinks, with what passes them now.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./core.js";
import { useAnswer, useSeries } from "./api.js";
import * as format from "./format.js";
import { arrange } from "./graph_layout.js";
import { Empty, Loading, Trouble } from "./parts.js";
import { link } from "./route.js";

const OVER = 10;

export function GraphView({ job, version }) {
  const { data, problem } = useAnswer(`/api/jobs/${job}/graph`, "");
  const { series, problem: unknown } = useSeries(job, version, "60");
  const narrow = useNarrow();
  const told = series ? Object.keys(series.steps).join("\n") : "";
  const sources = series ? series.sources.length : 0;
  const picture = useMemo(() => (data && data.nodes.length ? arrange(data, narrow, new Set(told.split("\n")), sources) : null), [data, narrow, told, sources]);
  const frame = useRef(null);
  // Of a picture that is wider than its frame, the middle is seen first.
  useLayoutEffect(() => { if (frame.current) frame.current.scrollLeft = (frame.current.scrollWidth - frame.current.clientWidth) / 2; }, [picture]);
  if (problem && !data) return html`<${Trouble} problem=${problem} />`;
  if (!data || !(series || unknown)) return html`<${Loading} />`;
  if (!picture) return html`<${Empty} title="Nothing describes this job's graph">A job writes its graph beside its checkpoint when it starts.<//>`;
  const rates = series ? ratesOf(series) : { steps: {}, sources: {}, total: null };
  return html`
    <div class="stack">
      ${!data.is_whole && html`<p class="muted">Only the steps are known: the job has not written its graph yet. It does so when it starts.</p>`}
      ${data.is_cut && html`<p class="muted">The graph is too large to be shown whole; this is its beginning.</p>`}
      <div class="panel graph" ref=${frame} tabindex="0" role="region" aria-label="The graph of the job"><${Picture} picture=${picture} rates=${rates} job=${job} /></div>
      <${AsText} graph=${data} rates=${rates} />
    </div>`;
}

function useNarrow() {
  const [narrow, setNarrow] = useState(innerWidth < 760);
  useEffect(() => {
    const update = () => setNarrow(innerWidth < 760);
    addEventListener("resize", update);
    return () => removeEventListener("resize", update);
  }, []);
  return narrow;
}

// Rows per second over the last micro-batches, by step and by source.
function ratesOf(series) {
  const from = Math.max(series.batch.length - OVER, 0);
  const end = series.batch.length - 1;
  const seconds = end > from ? (series.at_ms[end] + series.duration_ms[end] - series.at_ms[from]) / 1000 : (series.duration_ms[end] || 0) / 1000;
  const mean = (values) => (seconds > 0 ? values.slice(from).reduce((sum, value) => sum + (value || 0), 0) / seconds : null);
  const last = (values) => values[values.length - 1];
  const steps = Object.fromEntries(Object.entries(series.steps).map(([name, step]) => [name, { in: mean(step.elements), out: mean(step.outputs), keys: last(step.keys), bytes: last(step.state_bytes) }]));
  return { steps, sources: Object.fromEntries(series.sources.map((source, place) => [place + 1, mean(source.rows)])) };
}

const rateOf = (node, rates) => (node.kind === "source" ? rates.sources[node.source] : null);

function Picture({ picture, rates, job }) {
  return html`
    <svg style=${{ width: `min(100%, ${picture.width}px)`, minWidth: `${Math.round(picture.width * 0.72)}px` }} viewBox=${`0 0 ${picture.width} ${picture.height}`} role="group" aria-label="Sources, steps and sinks">
      ${picture.frames.map((frame, place) => html`<rect key=${place} class="frame" x=${frame.x} y=${frame.y} width=${frame.width} height=${frame.height} rx="10"><title>These steps share one stateful operator</title></rect>`)}
      ${picture.wires.map((wire, place) => html`<path key=${place} class=${`wire ${busy(wire, rates) ? "busy" : ""}`} d=${wire.path}><title>${wire.edge.columns}</title></path>`)}
      ${picture.wires.map((wire, place) => html`<${WireLabel} key=${place} wire=${wire} rates=${rates} />`)}
      ${picture.boxes.map((box) => html`<${Box} key=${box.node.id} box=${box} rates=${rates} job=${job} />`)}
    </svg>`;
}

const busy = (wire, rates) => (wire.from.kind === "source" ? rates.sources[wire.from.source] : (rates.steps[wire.from.step] || {}).out) > 0;

function WireLabel({ wire, rates }) {
  const rate = wire.from.kind === "source" ? rates.sources[wire.from.source] : wire.only ? (rates.steps[wire.from.step] || {}).out : null;
  const text = [wire.edge.label, rate != null ? format.rate(rate) : ""].filter(Boolean).join(" · ");
  if (!text) return null;
  const shown = text.length > 26 ? `${text.slice(0, 25)}…` : text;
  const width = shown.length * 6.4 + 10;
  return html`<g class="label"><rect x=${wire.label.x - width / 2} y=${wire.label.y - 10} width=${width} height="18" rx="4" /><text class=${rate != null && !wire.edge.label ? "rate" : "word"} x=${wire.label.x} y=${wire.label.y + 3} text-anchor="middle">${shown}<title>${text}</title></text></g>`;
}

function Box({ box, rates, job }) {
  const { node, x, y, width, height } = box;
  const step = rates.steps[node.step];
  const inside = html`
    <rect class="box" x=${x} y=${y} width=${width} height=${height} rx="8" />
    <text class="kind" x=${x + width - 12} y=${y + 22} text-anchor="end">${node.kind}</text>
    <text class="title" x=${x + 12} y=${y + 23}>${fit(node.title, 22)}<title>${node.title}</title></text>
    ${box.lines.map((line, place) => html`<text key=${place} x=${x + 12} y=${y + 43 + place * 17}>${line.label && html`<tspan class="word">${line.label} </tspan>`}${fit(line.text, 37 - line.label.length)}<title>${line.label} ${line.text}</title></text>`)}
    ${step && html`<text class="rate" x=${x + 12} y=${y + height - 29}>in ${format.rate(step.in)} · out ${format.rate(step.out)}</text><text class="rate" x=${x + 12} y=${y + height - 12}>${format.compact(step.keys)} keys · ${format.bytes(step.bytes)}</text>`}
    ${rateOf(node, rates) != null && html`<text class="rate" x=${x + 12} y=${y + height - 12}>${format.rate(rateOf(node, rates))}</text>`}`;
  return node.step
    ? html`<a class=${node.kind} href=${link(["job", job, "state"], { step: node.step })}>${inside}</a>`
    : html`<g class=${node.kind}>${inside}</g>`;
}

const fit = (text, most) => (text.length > most ? `${text.slice(0, Math.max(most - 1, 1))}…` : text);

function AsText({ graph, rates }) {
  const titles = Object.fromEntries(graph.nodes.map((node) => [node.id, `${node.kind} ${node.title}`]));
  return html`
    <details class="panel"><summary>As text</summary>
      <ul>${graph.nodes.map((node) => html`<li key=${node.id}><p><strong>${node.title}</strong> <span class="muted">${node.kind}${rates.steps[node.step] ? `, in ${format.rate(rates.steps[node.step].in)}` : ""}</span></p>
        <p class="small muted">${node.lines.map((line) => `${line.label} ${line.text}`.trim()).join("; ")}</p>
        ${graph.edges.filter((edge) => edge.origin === node.id).map((edge, place) => html`<p class="small" key=${place}>→ ${titles[edge.target]}${edge.label ? ` (${edge.label})` : ""}</p>`)}</li>`)}</ul>
    </details>`;
}
