// Parts that pages are made of.

import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Cell, Rows } from "./api";
import { moment } from "./text";

export function Badge({ kind, children }: { kind: string; children: ComponentChildren }) {
  return <span class={`badge ${kind}`}>{children}</span>;
}

/** What a state of a server, a role or a reach means for who looks. */
export function stateKind(state: string): string {
  switch (state) {
    case "ONLINE":
    case "up":
    case "writer":
      return "good";
    case "reader":
    case "backup_writer":
      return "info";
    case "OFFLINE_SOFT":
    case "STANDBY":
    case "standby":
    case "suspect":
    case "SHUNNED_REPLICATION_LAG":
      return "warn";
    case "unknown":
      return "plain";
    default:
      return "bad";
  }
}

export function Panel(props: {
  title: string;
  id?: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
}) {
  const own = useId();
  const id = props.id ?? own;
  return (
    <section class="panel" aria-labelledby={id}>
      <div class="panel-head">
        <h2 id={id}>{props.title}</h2>
        {props.aside && <div class="panel-aside">{props.aside}</div>}
      </div>
      {props.children}
    </section>
  );
}

export function Stat(props: { name: string; value: string; note?: string; kind?: string }) {
  return (
    <div class={`stat ${props.kind ?? ""}`}>
      <dt>{props.name}</dt>
      <dd>
        {props.value}
        {props.note && <small>{props.note}</small>}
      </dd>
    </div>
  );
}

export type Column<T> = {
  name: string;
  /** What is shown; the sort goes by `by`, where there is one. */
  show: (row: T) => ComponentChildren;
  by?: (row: T) => string | number;
  isNumber?: boolean;
  isWide?: boolean;
};

/** A table that is sorted by the column whose head is pressed. */
export function Table<T>(props: {
  label: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  empty: string;
  /** What was asked for the rows, if they are an answer: there may be none yet. */
  of?: { told: unknown; failed: string };
  /** Where the order is the proxy's. */
  order?: { name: string; set: (name: string) => void };
  first?: { name: string; isDown: boolean };
}) {
  const [sort, setSort] = useState(props.first);
  const sorted = useMemo(() => {
    const column = props.columns.find((column) => column.name === sort?.name);
    const by = column?.by;
    if (!by || props.order) return props.rows;
    const sign = sort?.isDown ? -1 : 1;
    return [...props.rows].sort((a, b) => {
      const [x, y] = [by(a), by(b)];
      return sign * (x < y ? -1 : x > y ? 1 : 0);
    });
  }, [props.rows, props.columns, sort, props.order]);
  const press = (name: string) => {
    if (props.order) props.order.set(name);
    else setSort({ name, isDown: sort?.name === name ? !sort.isDown : true });
  };
  const current = props.order?.name ?? sort?.name;
  const isDown = props.order ? true : sort?.isDown;
  return (
    <div class="scroll" role="region" aria-label={props.label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {props.columns.map((column) => {
              const isSorted = column.by && column.name === current;
              const direction = isSorted ? (isDown ? "descending" : "ascending") : undefined;
              return (
                <th key={column.name} scope="col" class={column.isNumber ? "number" : ""} aria-sort={direction}>
                  {column.by ? (
                    <button type="button" class="sort" onClick={() => press(column.name)}>
                      {column.name}
                      <span aria-hidden="true">{isSorted ? (isDown ? " ▾" : " ▴") : ""}</span>
                    </button>
                  ) : (
                    column.name
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {sorted.map((row) => (
            <tr key={props.rowKey(row)}>
              {props.columns.map((column) => (
                <td
                  key={column.name}
                  class={`${column.isNumber ? "number" : ""} ${column.isWide ? "wide" : ""}`}
                >
                  {column.show(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length === 0 && <p class="empty">{emptyText(props)}</p>}
    </div>
  );
}

/** Why there are no rows. */
function emptyText({ empty, of }: { empty: string; of?: { told: unknown; failed: string } }) {
  if (!of || of.told !== undefined) return empty;
  return of.failed ? "Not known." : "Loading …";
}

/** A result as the admin port gave it. */
export function Result({ label, rows, empty }: { label: string; rows: Rows; empty: string }) {
  type Numbered = { at: number; row: Record<string, Cell> };
  const columns: Column<Numbered>[] = rows.columns.map((name) => ({
    name,
    show: ({ row }) => String(row[name] ?? ""),
    isNumber: typeof rows.rows[0]?.[name] === "number",
    isWide: true,
  }));
  const numbered = rows.rows.map((row, at) => ({ at, row }));
  return (
    <Table label={label} columns={columns} rows={numbered} rowKey={(row) => String(row.at)} empty={empty} />
  );
}

/** A small line without axes. */
export function Spark({ values, label }: { values: number[]; label: string }) {
  const [width, height] = [96, 22];
  const most = Math.max(...values, 1e-9);
  const step = width / Math.max(values.length - 1, 1);
  const points = values.map(
    (value, at) => `${(at * step).toFixed(1)},${(height - 1.5 - (value / most) * (height - 3)).toFixed(1)}`,
  );
  return (
    <svg class="spark" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      {values.length > 1 && <polyline points={points.join(" ")} />}
    </svg>
  );
}

/** Colours of lines, which are those of the style sheet. */
function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Seconds since 1970, as far as it matters in a chart over so many seconds. */
function clock(unixSec: number, over: number): string {
  const text = moment(unixSec);
  return over <= 3_600 ? text.slice(11) : over <= 86_400 ? text.slice(11, 16) : text.slice(5, 16);
}

export type Line = { name: string; colour: string; fill?: boolean };

/** Lines over the last seconds. `data` has the times first, in s. */
export function Chart(props: {
  label: string;
  seconds: number;
  lines: Line[];
  data: (number | null)[][];
  show: (value: number | null) => string;
  theme: string;
}) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | undefined>(undefined);
  const show = useRef(props.show);
  show.current = props.show;
  const over = useRef(props.seconds);
  over.current = props.seconds;
  useLayoutEffect(() => {
    const box = place.current;
    if (!box) return;
    const axis = {
      stroke: colour("--quiet"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
    };
    const plot = new uPlot(
      {
        width: Math.max(box.clientWidth, 200),
        height: 190,
        legend: { live: true },
        cursor: { y: false, drag: { x: false, y: false } },
        scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
        axes: [
          { ...axis, values: (_, times) => times.map((time) => clock(time, over.current)) },
          { ...axis, size: 62, values: (_, values) => values.map((value) => show.current(value)) },
        ],
        series: [
          { label: "time", value: (_: uPlot, time: number | null) => (time === null ? "–" : clock(time, over.current)) },
          ...props.lines.map((line) => ({
            label: line.name,
            stroke: colour(line.colour),
            width: 1.6,
            fill: line.fill ? colour(`${line.colour}-soft`) : undefined,
            points: { show: false },
            value: (_: uPlot, value: number | null) => show.current(value),
          })),
        ],
      },
      props.data as uPlot.AlignedData,
      box,
    );
    chart.current = plot;
    const resized = new ResizeObserver(() => {
      if (box.clientWidth > 0) plot.setSize({ width: box.clientWidth, height: 190 });
    });
    resized.observe(box);
    return () => {
      resized.disconnect();
      plot.destroy();
    };
  }, [props.theme]);
  useEffect(() => chart.current?.setData(props.data as uPlot.AlignedData), [props.data]);
  return <div class="chart" ref={place} role="img" aria-label={props.label} />;
}

/** A question before something is changed. */
export function Dialog(props: {
  title: string;
  children: ComponentChildren;
  confirm?: { name: string; isDangerous?: boolean; run: () => void; isBusy?: boolean };
  close: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const title = useId();
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const { confirm } = props;
  return (
    <dialog ref={dialog} aria-labelledby={title} onClose={props.close}>
      <h2 id={title}>{props.title}</h2>
      <div class="dialog-body">{props.children}</div>
      <div class="buttons">
        <button type="button" onClick={props.close}>
          {confirm ? "Cancel" : "Close"}
        </button>
        {confirm && (
          <button
            type="button"
            class={confirm.isDangerous ? "danger" : "primary"}
            disabled={confirm.isBusy}
            onClick={confirm.run}
          >
            {confirm.name}
          </button>
        )}
      </div>
    </dialog>
  );
}

export function Search(props: { value: string; set: (value: string) => void; label: string }) {
  return (
    <input
      type="search"
      class="search"
      value={props.value}
      placeholder={props.label}
      aria-label={props.label}
      onInput={(event) => props.set(event.currentTarget.value)}
    />
  );
}

export function Failure({ text }: { text: string }) {
  return text ? (
    <p class="failure" role="alert">
      {text}
    </p>
  ) : null;
}

/** What came of something that was asked once, and how to ask again. */
export function useAsked<T>(ask: () => Promise<T>, by: unknown[]): {
  told: T | undefined;
  failed: string;
  again: () => void;
} {
  const [state, setState] = useState<{ told?: T; failed: string }>({ failed: "" });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    ask().then(
      (told) => isCurrent && setState({ told, failed: "" }),
      (error: Error) => isCurrent && setState((before) => ({ ...before, failed: error.message })),
    );
    return () => {
      isCurrent = false;
    };
  }, [...by, turn]);
  return { told: state.told, failed: state.failed, again: () => setTurn((turn) => turn + 1) };
}
