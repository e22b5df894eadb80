// Numbers and times for people.

export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value >= 10_000_000) return `${(value / 1e6).toFixed(1)} M`;
  if (value >= 100_000) return `${(value / 1e3).toFixed(0)} k`;
  if (value >= 10_000) return `${(value / 1e3).toFixed(1)} k`;
  if (value < 10 && !Number.isInteger(value)) return value.toFixed(1);
  return Math.round(value).toLocaleString("en");
}

export function rate(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : `${count(value)}/s`;
}

/** µs */
export function micros(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value < 1_000) return `${Math.round(value)} µs`;
  if (value < 10_000) return `${(value / 1e3).toFixed(2)} ms`;
  if (value < 1_000_000) return `${(value / 1e3).toFixed(value < 100_000 ? 1 : 0)} ms`;
  return seconds(value / 1e6);
}

export function seconds(value: number): string {
  if (value < 60) return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
  if (value < 3_600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  if (value < 86_400) return `${Math.floor(value / 3_600)} h ${Math.round((value % 3_600) / 60)} min`;
  return `${Math.floor(value / 86_400)} d ${Math.round((value % 86_400) / 3_600)} h`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1_024 && at < units.length - 1) {
    value /= 1_024;
    at += 1;
  }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

/** Seconds since 1970 as local date and time. */
export function moment(unixSec: number): string {
  if (!unixSec) return "–";
  const at = new Date(unixSec * 1_000);
  const two = (number: number) => String(number).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function share(part: number, whole: number): string {
  if (!whole) return "–";
  const percent = (part / whole) * 100;
  return `${percent >= 10 ? Math.round(percent) : percent.toFixed(1)} %`;
}
