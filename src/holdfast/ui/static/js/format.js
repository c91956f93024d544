// Numbers, sizes, durations and times for people.
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const few = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const HOURS = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }; // Midnight is 00.
const DAYS = { year: "numeric", month: "2-digit", day: "2-digit" };
const clock = new Intl.DateTimeFormat("en-GB", HOURS);
const full = new Intl.DateTimeFormat("en-CA", { ...DAYS, ...HOURS, timeZoneName: "short" });
const universal = new Intl.DateTimeFormat("en-CA", { ...DAYS, ...HOURS, timeZone: "UTC", timeZoneName: "short" });
const NONE = "–";

export const count = (n) => (n == null ? NONE : whole.format(n));
export const compact = (n) => (n == null ? NONE : Math.abs(n) < 10000 ? (Math.abs(n) < 100 ? few : whole).format(n) : short.format(n));
export const rate = (n) => (n == null ? NONE : `${compact(n)}/s`);

export function bytes(n) {
  if (n == null) return NONE;
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  let value = n;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${few.format(value)} ${units[unit]}`;
}

export function duration(ms) {
  if (ms == null) return NONE;
  const sign = ms < 0 ? "−" : "";
  const n = Math.abs(ms);
  if (n < 1000) return `${sign}${whole.format(n)} ms`;
  if (n < 60e3) return `${sign}${few.format(n / 1000)} s`;
  if (n < 3600e3) return `${sign}${few.format(n / 60e3)} min`;
  if (n < 86400e3 * 2) return `${sign}${few.format(n / 3600e3)} h`;
  return `${sign}${whole.format(n / 86400e3)} days`;
}

export const time = (ms) => (ms == null ? NONE : clock.format(new Date(ms)));
// With its time zone: windows, timers and watermarks are in UTC, and what happened is in the reader's own.
export const moment = (ms) => (ms == null ? NONE : full.format(new Date(ms)).replace(",", ""));
// A time that was given as text, with an offset.
export const utc = (text) => (Number.isNaN(Date.parse(text)) ? text : universal.format(new Date(text)).replace(",", ""));
export const zone = () => full.formatToParts(new Date()).find((part) => part.type === "timeZoneName").value;
export const percent = (share) => `${few.format(share * 100)}%`;
export const ago = (ms, now) => (ms == null ? NONE : now - ms < 1500 ? "now" : `${duration(now - ms)} ago`);
export const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many || `${one}s`}`;
export const RUNS_LEVEL = { ok: "healthy", unknown: "not judged yet", warning: "warning", critical: "critical" };
