// News of jobs, by server-sent events. A page that nobody sees does not listen: browsers allow few connections to a server.
import { useEffect, useState } from "./core.js";

const listeners = new Set();
let news = { versions: {}, link: "waiting" };
let stream = null;

function tell(change) {
  news = { ...news, ...change };
  listeners.forEach((listener) => listener(news));
}

function open() {
  if (stream || document.hidden) return;
  stream = new EventSource("/api/events");
  stream.addEventListener("jobs", (event) => tell({ versions: JSON.parse(event.data), link: "live" }));
  stream.onerror = () => {
    tell({ link: "lost" });
    if (stream.readyState === EventSource.CLOSED) {
      close();
      setTimeout(open, 3000);
    }
  };
}

function close() {
  if (stream) stream.close();
  stream = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) close(); else open();
});
window.addEventListener("pagehide", close);
window.addEventListener("pageshow", open);

export function useNews() {
  const [seen, setSeen] = useState(news);
  useEffect(() => {
    listeners.add(setSeen);
    setSeen(news);
    open();
    return () => listeners.delete(setSeen);
  }, []);
  return seen;
}

// The time, now and every so often, for what is told as "3 s ago". The server's clock counts.
export function useNow(serverMs, everyMs = 1000) {
  const [now, setNow] = useState(Date.now());
  const [offset, setOffset] = useState(0);
  useEffect(() => { if (serverMs) setOffset(serverMs - Date.now()); }, [serverMs]);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now + offset;
}
