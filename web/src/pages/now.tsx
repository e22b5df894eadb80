// What goes on at this moment.

import type { Member, Now, Server, Topology } from "../api";
import { serverKey, useLive } from "../live";
import type { PageProps } from "../main";
import { RatesAndLatency, Spans, spanCalled, useColumns, usePast } from "../past";
import { Picture } from "../picture";
import { bytes, count, micros, rate, share } from "../text";
import { Badge, Chart, type Column, Panel, Spark, Stat, stateKind, Table } from "../ui";

const sum = (of: Record<string, number>) => Object.values(of).reduce((a, b) => a + b, 0);

export function NowPage({ theme, path }: PageProps) {
  const live = useLive();
  const { now, topology, history } = live;
  const span = spanCalled(path[0]);
  const { past, failed } = usePast(span);
  const data = useColumns(past, history);
  const of = `over the last ${span.long}`;
  if (!now) return <p class="empty">Waiting for the proxy …</p>;
  const held = sum(now.held);
  const waiting = sum(now.waiting);
  return (
    <>
      <dl class="stats">
        <Stat name="Statements" value={rate(now.rate)} />
        <Stat name="Errors" value={rate(now.errors)} kind={now.errors ? "warn" : ""} />
        <Stat name="Latency p95" value={micros(now.latency?.[1])} note={`p50 ${micros(now.latency?.[0])}`} />
        <Stat name="Clients" value={count(now.clients)} note={`of ${count(now.configuration.clients_max)}`} />
        <Stat
          name="Waiting"
          value={count(waiting)}
          note={held ? `${count(held)} held` : `p95 ${micros(now.queue?.[1])}`}
          kind={waiting ? "warn" : ""}
        />
        <Stat name="Pinned sessions" value={count(now.pinned)} note={`of ${count(now.clients)}`} />
        <Stat name="Traffic" value={`${bytes(now.sent)}/s`} note={`in ${bytes(now.received)}/s`} />
        <Stat name="Memory" value={bytes(now.memory.resident)} note={`buffers ${bytes(now.memory.total)}`} />
      </dl>
      <Panel title="Where it goes">
        <Picture now={now} topology={topology} />
      </Panel>
      <div class="over">
        <Spans base="#/now" current={span} />
        {failed && <p class="quiet">Only what was seen since the page was opened: {failed}.</p>}
      </div>
      <div class="charts">
        <RatesAndLatency
          what="statements"
          of={of}
          titles={["Statements per second", "Latency"]}
          span={span}
          theme={theme}
          data={data}
        />
        <Panel title="Clients">
          <Chart
            label={`clients and waiting statements ${of}`}
            seconds={span.seconds}
            theme={theme}
            lines={[
              { name: "clients", colour: "--c1", fill: true },
              { name: "waiting", colour: "--c4" },
            ]}
            data={data.clients}
            show={count}
          />
        </Panel>
        <Panel title="Latency of the last second">
          <Distribution now={now} />
        </Panel>
      </div>
      <Panel title="Servers">
        <ServerTable now={now} topology={topology} sparks={live.servers} />
      </Panel>
      <div class="columns">
        <Panel title="What holds sessions on a connection">
          <Bars of={now.pins} whole={now.pinned} empty="No session is pinned." />
        </Panel>
        <Panel title="Statements that wait, by hostgroup">
          <Bars
            of={Object.fromEntries(
              Object.entries(now.waiting).map(([id, n]) => [
                `hostgroup ${id}${now.held[id] ? ` (${now.held[id]} held)` : ""}`,
                n,
              ]),
            )}
            whole={waiting}
            empty="Nothing waits for a connection."
          />
        </Panel>
        <Panel title="Workers">
          <Bars
            of={Object.fromEntries(now.workers.map((row) => [`worker ${row.worker}`, row.rate ?? 0]))}
            whole={now.rate ?? 0}
            empty="No worker answers."
            show={rate}
          />
        </Panel>
      </div>
    </>
  );
}

/** Statements by latency. */
function Distribution({ now }: { now: Now }) {
  // Two buckets of the histogram for each bar: powers of two, and their halves.
  const bars = new Map<number, number>();
  for (const [from, , n] of now.buckets) {
    const step = from < 1 ? 0 : Math.floor(Math.log2(from) * 2);
    bars.set(step, (bars.get(step) ?? 0) + n);
  }
  const steps = [...bars.keys()];
  if (steps.length === 0) return <p class="empty">No statement ended in the last second.</p>;
  const [first, last] = [Math.min(...steps), Math.max(...steps)];
  const all = Array.from({ length: last - first + 1 }, (_, at) => first + at);
  const most = Math.max(...bars.values());
  const [width, height] = [600, 170];
  const wide = width / all.length;
  const label = (step: number) => micros(2 ** (step / 2));
  const every = Math.ceil(all.length / 7);
  return (
    <svg class="bars-plot" viewBox={`0 0 ${width} ${height + 20}`} role="img" aria-label="statements by latency">
      {all.map((step, at) => {
        const n = bars.get(step) ?? 0;
        const high = n ? Math.max(2, (n / most) * height) : 0;
        return (
          <g key={step}>
            <rect x={at * wide + 1} y={height - high} width={Math.max(wide - 2, 1)} height={high}>
              <title>{`from ${label(step)}: ${n}`}</title>
            </rect>
            {at % every === 0 && (
              <text x={at * wide + 1} y={height + 15}>
                {label(step)}
              </text>
            )}
          </g>
        );
      })}
    </svg>
  );
}

export function Bars(props: {
  of: Record<string, number>;
  whole: number;
  empty: string;
  show?: (value: number) => string;
}) {
  const rows = Object.entries(props.of).sort((a, b) => b[1] - a[1]);
  if (rows.length === 0) return <p class="empty">{props.empty}</p>;
  const most = Math.max(...rows.map(([, n]) => n), 1e-9);
  return (
    <ul class="bars">
      {rows.map(([name, n]) => (
        <li key={name}>
          <span class="bar-name">{name}</span>
          <span class="bar-value">
            {(props.show ?? count)(n)} <small>{share(n, props.whole)}</small>
          </span>
          <progress value={n} max={most} aria-label={name} />
        </li>
      ))}
    </ul>
  );
}

export function memberOf(topology: Topology | undefined, server: Server): Member | undefined {
  for (const cluster of topology?.clusters ?? []) {
    const isIts = [cluster.writer_hostgroup, cluster.reader_hostgroup].includes(server.hostgroup);
    const member = isIts && cluster.servers.find((member) => member.address === server.address);
    if (member) return member;
  }
  return undefined;
}

export function ServerTable(props: {
  now: Now;
  topology: Topology | undefined;
  sparks: Map<string, number[]>;
}) {
  const busy = (row: Server) => row.connections.leased + row.connections.shared;
  const columns: Column<Server>[] = [
    { name: "Hostgroup", show: (row) => row.hostgroup, by: (row) => row.hostgroup, isNumber: true },
    { name: "Server", show: (row) => <code>{row.address}</code>, by: (row) => row.address },
    { name: "State", show: (row) => <Badge kind={stateKind(row.state)}>{row.state}</Badge>, by: (row) => row.state },
    {
      name: "Role",
      show: (row) => {
        const member = memberOf(props.topology, row);
        return member ? <Badge kind={stateKind(member.role)}>{member.role}</Badge> : "–";
      },
      by: (row) => memberOf(props.topology, row)?.role ?? "",
    },
    { name: "Statements", show: (row) => rate(row.rate), by: (row) => row.rate ?? 0, isNumber: true },
    {
      name: "Last minute",
      show: (row) => (
        <Spark
          values={props.sparks.get(serverKey(row.hostgroup, row.address)) ?? []}
          label={`statements per second of ${row.address}`}
        />
      ),
    },
    { name: "p50", show: (row) => micros(row.latency?.[0]), by: (row) => row.latency?.[0] ?? 0, isNumber: true },
    { name: "p95", show: (row) => micros(row.latency?.[1]), by: (row) => row.latency?.[1] ?? 0, isNumber: true },
    { name: "Busy", show: (row) => busy(row), by: busy, isNumber: true },
    { name: "Idle", show: (row) => row.connections.idle, by: (row) => row.connections.idle, isNumber: true },
    { name: "Limit", show: (row) => count(row.max), by: (row) => row.max, isNumber: true },
    {
      name: "Lag",
      show: (row) => {
        const lag = memberOf(props.topology, row)?.lag_sec;
        return lag === null || lag === undefined ? "–" : `${lag} s`;
      },
      by: (row) => memberOf(props.topology, row)?.lag_sec ?? -1,
      isNumber: true,
    },
  ];
  return (
    <Table
      label="Servers"
      columns={columns}
      rows={props.now.servers}
      rowKey={(row) => serverKey(row.hostgroup, row.address)}
      empty="There are no servers."
    />
  );
}
