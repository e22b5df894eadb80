// The past of charts: which part of it is shown is in the address.

import { useEffect, useMemo, useState } from "preact/hooks";
import { api, type Five, type History } from "./api";
import type { Live } from "./live";
import { count, micros } from "./text";
import { Chart, Panel } from "./ui";

/** Names as in the address, seconds, and how often the proxy is asked again (ms). */
const SPANS = [
  { name: "live", title: "10 minutes", long: "ten minutes", seconds: 600, again: 0 },
  { name: "hour", title: "Hour", long: "hour", seconds: 3_600, again: 15_000 },
  { name: "day", title: "Day", long: "day", seconds: 86_400, again: 60_000 },
  { name: "week", title: "Week", long: "week", seconds: 7 * 86_400, again: 300_000 },
] as const;

export type Span = (typeof SPANS)[number];

const POINTS = 240;

/** The part that an address names; an hour otherwise. */
export function spanCalled(name: string | undefined): Span {
  return SPANS.find((span) => span.name === name) ?? SPANS[1];
}

/** Links to the parts; `base` is the address before their names. */
export function Spans(props: { base: string; current: Span; without?: string }) {
  const shown = SPANS.filter((span) => span.name !== props.without);
  return (
    <div class="spans" role="group" aria-label="How far back charts go">
      {shown.map((span) => (
        <a
          key={span.name}
          href={`${props.base}/${span.name}`}
          aria-current={span === props.current ? "true" : undefined}
        >
          {span.title}
        </a>
      ))}
    </div>
  );
}

/** The history of that time, asked for again and again; what is wrong instead. */
export function usePast(span: Span, digest?: string): { past: History | undefined; failed: string } {
  const [state, setState] = useState<{ of: string; past?: History; failed: string }>({ of: "", failed: "" });
  const of = `${span.name} ${digest}`;
  useEffect(() => {
    if (span.again === 0) return;
    let isCurrent = true;
    let timer = 0;
    const ask = () =>
      api
        .history(span.seconds, POINTS, digest ? [digest] : [])
        .then(
          (past) => isCurrent && setState({ of, past, failed: "" }),
          (error: Error) =>
            isCurrent && setState((before) => ({ ...before, of, failed: error.message })),
        )
        .finally(() => {
          if (isCurrent) timer = window.setTimeout(ask, span.again);
        });
    void ask();
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
  }, [of]);
  // What was asked of another time is not shown as of this one.
  if (state.of !== of) return { past: undefined, failed: "" };
  return { past: state.past, failed: state.failed };
}

/** Columns for charts: of the past, and behind it of what was seen since. */
export function useColumns(past: History | undefined, live: Live["history"]) {
  const last = live.at(-1)?.[0];
  return useMemo(() => {
    const end = past ? past.to * 1_000 : 0;
    const points = [...(past?.points ?? []), ...live.filter((point) => (point[0] ?? 0) > end)];
    const column = (at: number) => points.map((point) => point[at] ?? null);
    const time = points.map((point) => (point[0] ?? 0) / 1_000);
    return {
      rates: [time, column(1), column(2)],
      latency: [time, column(3), column(4), column(5)],
      clients: [time, column(6), column(7)],
    };
  }, [past, last]);
}

/** Columns for charts of one digest. */
export function useDigestColumns(past: History | undefined, digest: string) {
  return useMemo(() => {
    const time = (past?.points ?? []).map((point) => (point[0] ?? 0) / 1_000);
    const line: Five[] = past?.digests[digest] ?? [];
    const column = (at: number) => line.map((five) => five[at] ?? null);
    return { rates: [time, column(0), column(1)], latency: [time, column(2), column(3), column(4)] };
  }, [past, digest]);
}

/** The last hour of digests, for small lines: executions a second, by digest. */
export function useSparks(digests: string[]): Map<string, number[]> {
  const [sparks, setSparks] = useState(new Map<string, number[]>());
  const wanted = [...new Set(digests)].sort().slice(0, 200).join(",");
  useEffect(() => {
    if (!wanted) return;
    let isCurrent = true;
    let timer = 0;
    const ask = () =>
      api
        .history(3_600, 60, wanted.split(","))
        .then(
          (past) => {
            if (!isCurrent) return;
            const lines = Object.entries(past.digests);
            setSparks(new Map(lines.map(([digest, line]) => [digest, line.map((five) => five[0] ?? 0)])));
          },
          // Without a history there are no small lines of the past.
          () => {},
        )
        .finally(() => {
          if (isCurrent) timer = window.setTimeout(ask, 60_000);
        });
    void ask();
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
  }, [wanted]);
  return sparks;
}

/** Two charts of the past: how often something ran and failed, and its latency. */
export function RatesAndLatency(props: {
  /** What ran, and of whom labels speak. */
  what: string;
  of: string;
  titles: readonly [string, string];
  span: Span;
  theme: string;
  data: { rates: (number | null)[][]; latency: (number | null)[][] };
}) {
  const { what, of, titles, span, theme, data } = props;
  return (
    <>
      <Panel title={titles[0]}>
        <Chart
          label={`${what} and errors per second ${of}`}
          seconds={span.seconds}
          theme={theme}
          lines={[
            { name: what, colour: "--c1", fill: true },
            { name: "errors", colour: "--c4" },
          ]}
          data={data.rates}
          show={count}
        />
      </Panel>
      <Panel title={titles[1]}>
        <Chart
          label={`quantiles of latency ${of}`}
          seconds={span.seconds}
          theme={theme}
          lines={[
            { name: "p50", colour: "--c2" },
            { name: "p95", colour: "--c3" },
            { name: "p99", colour: "--c4" },
          ]}
          data={data.latency}
          show={micros}
        />
      </Panel>
    </>
  );
}
