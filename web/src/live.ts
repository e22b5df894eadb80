// The stream of events: one for the whole page, with the topics that it shows.

import { useEffect, useState } from "preact/hooks";
import type { Clients, Digests, Now, Point, Topology } from "./api";

/** The hash of the sources that this script was built from. */
declare const BUNDLE: string;

export type Live = {
  now?: Now;
  topology?: Topology;
  sessions?: Clients;
  statements?: Digests;
  /** The last ten minutes. */
  history: Point[];
  /** Rates of servers by hostgroup and address, as long as the page is open. */
  servers: Map<string, number[]>;
  /** Executions of digests between two looks, by hostgroup and digest. */
  digests: Map<string, { last: number; at: number; rates: number[] }>;
  state: "connecting" | "live" | "lost";
  /** Whether the proxy has a page of another version than this one. */
  isOutdated: boolean;
};

/** A proxy that says nothing for so long, ms, hangs or can't be reached: it tells something each second. */
const SILENT_MAX = 5_000;
/** How long after that the stream is opened anew, ms. */
const REOPEN_AFTER = 10_000;
const POINTS_MAX = 600;
const SPARK_MAX = 60;

const live: Live = {
  history: [],
  servers: new Map(),
  digests: new Map(),
  state: "connecting",
  isOutdated: false,
};
const listeners = new Set<() => void>();
let source: EventSource | undefined;
let asked = "";
let whenEnded = () => {};
let retry: number | undefined;
/** When something was heard, or the stream was opened, last. */
let heard = 0;

function tell() {
  for (const listener of listeners) listener();
}

/** A point of the history, from a picture. */
function point(now: Now): Point {
  const sum = (of: Record<string, number>) => Object.values(of).reduce((a, b) => a + b, 0);
  const [p50, p95, p99] = now.latency ?? [null, null, null];
  return [now.t, now.rate, now.errors, p50, p95, p99, now.clients, sum(now.waiting), now.pinned];
}

function push<T>(list: T[], item: T, max: number) {
  list.push(item);
  if (list.length > max) list.splice(0, list.length - max);
}

export function serverKey(hostgroup: number, address: string) {
  return `${hostgroup} ${address}`;
}

export function digestKey(row: { digest: string; hostgroup: number; user: string; schema: string }) {
  return [row.digest, row.hostgroup, row.user, row.schema].join(" ");
}

/** Executions in a second of each row since it was seen last. */
export function noteDigests(told: Digests) {
  for (const row of told.rows) {
    const key = digestKey(row);
    const known = live.digests.get(key);
    if (!known) {
      live.digests.set(key, { last: row.count, at: told.t, rates: [] });
    } else if (told.t > known.at) {
      push(known.rates, Math.max(0, row.count - known.last) / ((told.t - known.at) / 1000), SPARK_MAX);
      known.last = row.count;
      known.at = told.t;
    }
  }
  if (live.digests.size > 5_000) live.digests.clear();
}

function onNow(now: Now) {
  live.now = now;
  const last = live.history.at(-1);
  if (!last || (last[0] ?? 0) < now.t) push(live.history, point(now), POINTS_MAX);
  for (const server of now.servers) {
    const key = serverKey(server.hostgroup, server.address);
    const rates = live.servers.get(key) ?? [];
    push(rates, server.rate ?? 0, SPARK_MAX);
    live.servers.set(key, rates);
  }
}

function open(query: string) {
  window.clearTimeout(retry);
  source?.close();
  asked = query;
  const stream = new EventSource(`/console/stream?${query}${live.history.length ? "" : "&history"}`);
  source = stream;
  heard = Date.now();
  const on = (name: string, then: (told: never) => void) =>
    stream.addEventListener(name, (event) => {
      heard = Date.now();
      live.state = "live";
      then(JSON.parse((event as MessageEvent<string>).data) as never);
      tell();
    });
  on("hello", (told: { bundle: string }) => {
    live.isOutdated = told.bundle !== BUNDLE;
  });
  on("history", (points: Point[]) => {
    live.history = points.slice(-POINTS_MAX);
  });
  on("now", onNow);
  on("topology", (told: Topology) => {
    live.topology = told;
  });
  on("sessions", (told: Clients) => {
    live.sessions = told;
  });
  on("statements", (told: Digests) => {
    live.statements = told;
    noteDigests(told);
  });
  on("bye", () => {
    stream.close();
    whenEnded();
  });
  stream.onerror = () => {
    if (source !== stream) return;
    live.state = "lost";
    tell();
    // The browser tries again by itself, unless the answer was no stream.
    if (stream.readyState === EventSource.CLOSED) {
      retry = window.setTimeout(() => {
        whenEnded();
        if (source === stream) open(asked);
      }, 2_000);
    }
  };
}

/** A connection that nobody closes, and that brings nothing, is told by nothing else. */
function watch() {
  const silent = Date.now() - heard;
  if (!source || silent < SILENT_MAX) return;
  if (live.state === "live") {
    live.state = "lost";
    tell();
  }
  if (silent >= SILENT_MAX + REOPEN_AFTER) open(asked);
}
window.setInterval(watch, 1_000);

/** Looks at these topics from now on, until somebody asks for others. */
export function look(topics: string, ended: () => void) {
  whenEnded = ended;
  const query = ["now", "topology", ...(topics ? [topics] : [])].join("&");
  if (query !== asked || !source) open(query);
}

export function stopLooking() {
  window.clearTimeout(retry);
  source?.close();
  source = undefined;
  asked = "";
  live.history = [];
  live.servers.clear();
  live.digests.clear();
  live.now = live.topology = live.sessions = live.statements = undefined;
}

/** What is known now; the component is drawn anew with each event. */
export function useLive(): Live {
  const [, draw] = useState(0);
  useEffect(() => {
    const listener = () => draw((count) => count + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return live;
}
