// The API's description as a page, without anything from elsewhere.
import { html, render, useState } from "./core.js";
import { Problem, useAnswer } from "./api.js";
import { Loading, Trouble } from "./parts.js";
import { ThemeSwitch } from "./theme.js";

const SHOWN_MAX = 20000;

function App() {
  const { data, problem } = useAnswer("/api/openapi.json", "");
  return html`
    <header class="bar"><a class="brand" href="/"><img src="/static/mark.svg" alt="" />Holdfast</a><span class="grow"></span><a class="quiet" href="/api/openapi.json">OpenAPI</a><${ThemeSwitch} /></header>
    <main>${problem ? html`<${Trouble} problem=${problem} />` : data ? html`<${Pages} spec=${data} />` : html`<${Loading} />`}</main>`;
}

function Pages({ spec }) {
  const calls = Object.entries(spec.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, call]) => ({ path, method, call, tag: (call.tags || ["other"])[0] })));
  const tags = [...new Set(calls.map((each) => each.tag))];
  return html`
    <div class="job-head"><h1>API</h1><p class="muted">${spec.info.description} Version ${spec.info.version}.</p></div>
    <div class="stack">${tags.map((tag) => html`<section class="panel" key=${tag} aria-label=${tag}><h2>${tag}</h2>${calls.filter((each) => each.tag === tag).map((each) => html`<${Endpoint} key=${each.path} ...${each} />`)}</section>`)}</div>`;
}

function Endpoint({ path, method, call }) {
  const [values, setValues] = useState({});
  const [answer, setAnswer] = useState(null);
  const parameters = call.parameters || [];
  const streams = path.endsWith("/events");
  const send = async (event) => {
    event.preventDefault();
    const filled = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values[name] || ""));
    const query = parameters.filter((each) => each.in === "query" && values[each.name]).map((each) => [each.name, values[each.name]]);
    const url = query.length ? `${filled}?${new URLSearchParams(query)}` : filled;
    try {
      const response = await fetch(url);
      const text = JSON.stringify(await response.json(), null, 2);
      setAnswer({ url, status: response.status, text: text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}\n… (${text.length} characters)` : text });
    } catch (error) {
      setAnswer({ url, status: 0, text: new Problem(0, { what: String(error.message) }).what });
    }
  };
  return html`
    <div class="endpoint">
      <h3><code>${method.toUpperCase()} ${path}</code></h3>
      <p>${call.description || call.summary}</p>
      ${!streams && html`<form onSubmit=${send}>
        ${parameters.map((each) => html`<div key=${each.name}><label for=${`${path} ${each.name}`} title=${each.description}>${each.name}${each.required ? " (needed)" : ""}</label><input id=${`${path} ${each.name}`} type="text" required=${each.required} maxlength="4000" autocomplete="off" onInput=${(event) => setValues({ ...values, [each.name]: event.target.value })} /></div>`)}
        <div><button type="submit">Send</button></div>
      </form>`}
      ${answer && html`<p class="small muted"><code>${answer.url}</code> answered ${answer.status}</p><pre tabindex="0" aria-label="The answer">${answer.text}</pre>`}
    </div>`;
}

render(html`<${App} />`, document.getElementById("app"));
