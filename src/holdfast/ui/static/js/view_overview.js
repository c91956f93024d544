// All jobs: the ones in trouble first.
import { html } from "./core.js";
import { useAnswer } from "./api.js";
import * as format from "./format.js";
import { useNow } from "./live.js";
import { Badge, Empty, Loading, Trouble } from "./parts.js";
import { link } from "./route.js";

const RANK = { critical: 0, warning: 1, unknown: 2, ok: 3 };

export function Overview({ versions }) {
  const { data, problem } = useAnswer("/api/jobs", JSON.stringify(versions));
  const now = useNow(data && data.now_ms);
  if (problem && !data) return html`<${Trouble} problem=${problem} />`;
  if (!data) return html`<${Loading} />`;
  const jobs = [...data.jobs].sort((a, b) => RANK[a.level] - RANK[b.level] || a.name.localeCompare(b.name));
  return html`
    <div class="job-head"><h1 tabindex="-1">Jobs</h1><p class="muted">${jobs.length ? counted(jobs) : ""}</p></div>
    ${jobs.length
      ? html`<ul class="jobs">${jobs.map((job) => html`<${Card} key=${job.id} job=${job} now=${now} />`)}</ul>`
      : html`<${Empty} title="No job is running">Start one, and it appears here by itself. Or give the dashboard a checkpoint: holdfast ui path/to/checkpoint.<//>`}`;
}

function counted(jobs) {
  const running = jobs.filter((job) => job.is_running).length;
  const ill = jobs.filter((job) => job.level === "warning" || job.level === "critical").length;
  return `${format.plural(jobs.length, "job")}, ${running} running${ill ? `, ${ill} with symptoms` : ""}.`;
}

function Card({ job, now }) {
  return html`
    <li class="panel job-card">
      <div class="row top">
        <h2><a href=${link(["job", job.id])}>${job.name}</a></h2>
        <${Badge} level=${job.level} />
      </div>
      <${Spark} values=${job.recent_rows} />
      <dl class="figures">
        <div><dt>arriving</dt><dd>${format.rate(job.rows_per_second)}</dd></div>
        <div><dt>keys</dt><dd>${format.compact(job.keys)}</dd></div>
        <div><dt>state</dt><dd>${format.bytes(job.state_bytes)}</dd></div>
        <div><dt>micro-batch</dt><dd>${format.duration(job.duration_ms)}</dd></div>
      </dl>
      ${job.symptoms.length > 0 && html`<ul class="found">${job.symptoms.slice(0, 3).map((each) => html`<li class=${each.level}>${each.title}${each.step ? html` <span class="muted">in ${each.step}</span>` : ""}</li>`)}</ul>`}
      <div class="row small muted">
        <span>${job.is_running ? "running" : "not running"}</span>
        <span>${job.batch == null ? "no history yet" : `micro-batch ${format.count(job.batch)}, ${format.ago(job.at_ms, now)}`}</span>
      </div>
    </li>`;
}

export function Spark({ values }) {
  if (values.length < 2) return html`<svg class="spark" viewBox="0 0 100 40" preserveAspectRatio="none" aria-hidden="true"><path class="none" d="M0 38L100 38" /></svg>`;
  const high = Math.max(...values, 1);
  const points = values.map((value, place) => `${((place / (values.length - 1)) * 100).toFixed(2)} ${(38 - (value / high) * 34).toFixed(2)}`);
  const path = `M${points.join("L")}`;
  return html`<svg class="spark" viewBox="0 0 100 40" preserveAspectRatio="none" aria-hidden="true"><path class="under" d=${`${path}L100 40L0 40Z`} /><path d=${path} /></svg>`;
}
