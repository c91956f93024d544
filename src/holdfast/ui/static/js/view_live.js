// One job as it runs: numbers, what is wrong, charts.
import { html, useMemo } from "./core.js";
import { useSeries } from "./api.js";
import { COLORS, Chart, stepLines } from "./chart.js";
import * as format from "./format.js";
import { useNow } from "./live.js";
import { Badge, Empty, KeyLink, Loading, Segments, Trouble, isNotWhole } from "./parts.js";
import { go, link } from "./route.js";

const RANGES = [["60", "60 micro-batches"], ["600", "600"], ["whole", "All"]];
const TINY = 0.02;
const PHASES = { latestOffset: "ask sources", getBatch: "get batch", queryPlanning: "plan", walCommit: "log offsets", addBatch: "process", commitOffsets: "commit offsets", commitBatch: "commit" };
const PHASE_COLORS = { latestOffset: "--c2", getBatch: "--c5", queryPlanning: "--c4", walCommit: "--c3", addBatch: "--c1", commitOffsets: "--c6", commitBatch: "--c7" };

export function Live({ job, view, version, query }) {
  const range = RANGES.some(([id]) => id === query.range) ? query.range : "600";
  const { series, problem } = useSeries(job, version, range);
  const now = useNow(view.now_ms);
  if (problem && !series) return html`<${Trouble} problem=${problem} />`;
  if (!series) return html`<${Loading} />`;
  const symptoms = view.health.symptoms;
  const empty = series.batch.length === 0;
  return html`
    <div class="stack">
      ${!empty && html`<${Tiles} series=${series} summary=${view.summary} now=${now} />`}
      ${symptoms.length > 0 && html`<${Symptoms} symptoms=${symptoms} job=${job} />`}
      ${empty
        ? html`<${Empty} title="This job has no history yet">It is written beside the checkpoint when a micro-batch ends. This page fills by itself.<//>`
        : html`
          <div class="tools"><${Segments} label="How much is shown" name="range" value=${range} options=${RANGES} onChange=${(id) => go(link(["job", job], { range: id === "600" ? "" : id }), true)} />
            ${series.merged > 1 && html`<p class="small muted">Each point stands for ${series.merged} micro-batches.</p>`}</div>
          <${Charts} series=${series} />`}
      ${view.health.measures.length > 0 && html`<${Measures} measures=${view.health.measures} />`}
      ${view.health.notes.length > 0 && html`<ul class="small muted">${view.health.notes.map((note) => html`<li key=${note}>${note}</li>`)}</ul>`}
      ${view.events.length > 0 && html`<${Events} events=${view.events} />`}
    </div>`;
}

const last = (values) => (values.length ? values[values.length - 1] : null);

function Tiles({ series, summary, now }) {
  const ended = last(series.at_ms) + last(series.duration_ms);
  const interval = last(series.interval_ms);
  const lag = last(series.lag);
  const watermark = last(series.watermark_ms);
  const newest = last(series.event_ms_max.filter((at) => at != null));
  const took = last(series.duration_ms);
  const share = interval ? ` · ${format.percent(took / interval)} of its interval` : "";
  const tiles = [
    ["Arriving", format.rate(summary.rows_per_second), `lately; can do ${format.rate(last(series.processed.filter((each) => each != null)))}`],
    ["Last micro-batch", format.duration(took), `${format.ago(ended, now)}${share}`],
    ["State", format.bytes(summary.state_bytes), format.plural(summary.steps.length, "step")],
    ["Keys", format.compact(summary.keys), `${format.compact(sumLast(series, "timers"))} timers set`],
    ["Watermark", watermark ? format.duration(Math.max(ended - watermark, 0)) : "–", watermark ? (newest ? `behind · ${format.duration(Math.max(newest - watermark, 0))} behind the newest event` : "behind") : "the job has none"],
    ["Not read yet", lag == null ? "–" : format.compact(lag), lag == null ? "the sources do not say" : "records at the sources"],
  ];
  return html`<dl class="tiles">${tiles.map(([name, value, note]) => html`<div key=${name}><dt>${name}</dt><dd class="value">${value}</dd><dd class="note">${note}</dd></div>`)}</dl>`;
}

const sumLast = (series, name) => Object.values(series.steps).reduce((sum, step) => sum + (last(step[name]) || 0), 0);

function Symptoms({ symptoms, job }) {
  return html`
    <section class="panel" aria-labelledby="symptoms">
      <h2 id="symptoms">Symptoms</h2>
      <ul class="symptoms">${symptoms.map((each) => html`
        <li class=${`symptom ${each.level}`} key=${`${each.name} ${each.step}`}>
          <div class="head"><h3>${each.title}</h3><${Badge} level=${each.level} />${each.step && html`<span class="small">in <a href=${link(["job", job, "keys"], { step: each.step })}>${each.step}</a></span>`}${each.key != null && each.step && html`<span class="small">key <${KeyLink} job=${job} query=${{ step: each.step, key: each.key }} text=${each.key} cut=${isNotWhole(each.key)} /></span>`}</div>
          <p>${each.evidence}</p>
          ${each.todo && html`<p class="todo">${each.todo}</p>`}
        </li>`)}</ul>
    </section>`;
}

function Charts({ series }) {
  const { batch, at_ms: atMs, duration_ms: durationMs } = series;
  const lines = useMemo(() => chartLines(series), [series]);
  const common = { batch, atMs, durationMs };
  const several = Object.keys(series.steps).length > 1 ? "by step" : "";
  return html`
    <div class="columns">
      <${Chart} ...${common} title="Rows per second" lines=${lines.rates} unit=${format.rate} />
      <${Chart} ...${common} title="Micro-batch duration" note="by phase" stacked lines=${lines.phases} unit=${format.duration} />
      <${Chart} ...${common} title="State" note=${several} lines=${lines.bytes} unit=${format.bytes} />
      <${Chart} ...${common} title="Keys" note=${several} lines=${lines.keys} />
      ${lines.watermark.length > 0 && html`<${Chart} ...${common} title="Watermark" note="how far behind" lines=${lines.watermark} unit=${format.duration} />`}
      ${lines.lag.length > 0 && html`<${Chart} ...${common} title="Not read yet" note="records at the sources" lines=${lines.lag} />`}
      ${lines.timers.length > 0 && html`<${Chart} ...${common} title="Timers set" note=${several} lines=${lines.timers} />`}
      ${lines.fired.length > 0 && html`<${Chart} ...${common} title="Timers fired" note=${several} lines=${lines.fired} />`}
      ${lines.trouble.length > 0 && html`<${Chart} ...${common} title="Late elements and dead letters" lines=${lines.trouble} />`}
    </div>`;
}

function chartLines(series) {
  const any = (lines) => (lines.some((line) => line.values.some((value) => value)) ? lines : []);
  const first = (name) => (name === "addBatch" ? 0 : 1); // What is largest stands at the bottom; what is tiny, with the rest.
  const sum = (values) => values.reduce((total, value) => total + (value || 0), 0);
  const all = sum(series.duration_ms);
  const phases = Object.entries(series.phases_ms).filter(([, values]) => sum(values) > all * TINY).sort(([a], [b]) => first(a) - first(b)).map(([name, values], place) => ({ label: PHASES[name] || name, values, color: PHASE_COLORS[name] || COLORS[place % 7] }));
  const rest = series.duration_ms.map((took, place) => Math.max(took - phases.reduce((sum, line) => sum + (line.values[place] || 0), 0), 0));
  if (!phases.length) phases.push({ label: "all", values: series.duration_ms, color: "--c1" });
  else if (sum(rest) > 0) phases.push({ label: "other", values: rest, color: "--line-strong" });
  if (series.interval_ms.some((value) => value != null)) phases.push({ label: "interval", values: series.interval_ms, color: "--text", dashed: true, apart: true });
  const behind = (to) => series.watermark_ms.map((mark, place) => (mark == null || to(place) == null ? null : Math.max(to(place) - mark, 0)));
  const watermark = series.watermark_ms.some((mark) => mark != null)
    ? [{ label: "behind the clock", values: behind((place) => series.at_ms[place] + series.duration_ms[place]), color: "--c1", filled: true },
      { label: "behind the newest event", values: behind((place) => series.event_ms_max[place]), color: "--c3" }]
    : [];
  const sources = series.sources.filter((source) => source.lag.some((value) => value != null));
  const steps = series.steps;
  const ofSteps = (name) => series.batch.map((_, place) => Object.values(steps).reduce((total, step) => total + (step[name][place] || 0), 0));
  return {
    rates: [{ label: "arriving", values: series.arriving, color: "--c1", filled: true }, { label: "while processing", values: series.processed, color: "--c7", dashed: true }],
    phases,
    bytes: stepLines(steps, (step) => step.state_bytes),
    keys: stepLines(steps, (step) => step.keys),
    watermark,
    lag: sources.map((source, place) => ({ label: sources.length > 1 ? `source ${place + 1}` : "records", values: source.lag, color: COLORS[place % 7], filled: sources.length === 1 })),
    timers: any(stepLines(steps, (step) => step.timers)),
    fired: any(stepLines(steps, (step) => step.timers_fired)),
    trouble: any([{ label: "late", values: ofSteps("late"), color: "--c3" }, { label: "dead letters", values: ofSteps("dead_letters"), color: "--c6" }]),
  };
}

function Measures({ measures }) {
  return html`
    <section class="panel" aria-labelledby="measures">
      <h2 id="measures">Measures</h2>
      <div class="scroll"><table class="measures">
        <thead><tr><th scope="col">Measure</th><th scope="col" class="number">Now</th><th scope="col">Level</th><th scope="col" class="number">Warning from</th><th scope="col" class="number">Critical above</th>${measures.some((each) => each.todo) && html`<th scope="col">What to do</th>`}</tr></thead>
        <tbody>${measures.map((each) => html`<tr key=${each.name}><th scope="row">${each.title}${each.of && html` <span class="muted small">${each.of}</span>`}</th><td class="number">${each.text}</td><td><${Badge} level=${each.level} /></td><td class="number bound">${bound(each, each.warning)}</td><td class="number bound">${bound(each, each.critical)}</td>${measures.some((other) => other.todo) && html`<td>${each.todo}</td>`}</tr>`)}</tbody>
      </table></div>
    </section>`;
}

const UNITS = { bytes: format.bytes, ms: format.duration, share: format.percent };
const bound = (measure, value) => (value == null ? "–" : (UNITS[measure.unit] || format.compact)(value));

function Events({ events }) {
  return html`
    <section class="panel" aria-labelledby="events">
      <h2 id="events">What happened</h2>
      <ol class="events">${events.slice(0, 20).map((each, place) => html`
        <li key=${place}><span class="muted">${format.moment(each.at_ms)}</span><span><span class=${`badge bare ${each.event === "failed" ? "critical" : each.event === "started" ? "running" : ""}`}>${each.event}</span>${each.batch != null ? html` <span class="muted">after micro-batch ${format.count(each.batch)}</span>` : ""}</span><span class="text">${each.text}</span></li>`)}</ol>
    </section>`;
}
