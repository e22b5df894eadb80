// The topology with its traffic: clients, the proxy, hostgroups and their servers.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Now, Server, Topology } from "./api";
import { memberOf } from "./pages/now";
import { count, micros, rate } from "./text";
import { stateKind } from "./ui";

const ROW = 58;
const GAP = 18;
/** Servers that are drawn; the table has all. */
const SERVERS_MAX = 24;

export function Picture({ now, topology }: { now: Now; topology: Topology | undefined }) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => setWidth(element.clientWidth);
    measure();
    const resized = new ResizeObserver(measure);
    resized.observe(element);
    return () => resized.disconnect();
  }, []);
  return (
    <div ref={box} class="picture">
      {width > 0 && <Drawing now={now} topology={topology} width={width} />}
    </div>
  );
}

function Drawing({ now, topology, width }: { now: Now; topology: Topology | undefined; width: number }) {
  const groups = new Map<number, Server[]>();
  // A cluster's servers are entries of both of its hostgroups, and stand by in one of them.
  const drawn = now.servers.filter((server) => server.state !== "STANDBY" || server.rate);
  for (const server of drawn.slice(0, SERVERS_MAX)) {
    groups.set(server.hostgroup, [...(groups.get(server.hostgroup) ?? []), server]);
  }
  const isNarrow = width < 640;
  const cardWidth = isNarrow ? width - 30 : Math.min(330, width * 0.36);
  const left = width - cardWidth;
  const most = Math.max(...now.servers.map((server) => server.rate ?? 0), 1);
  let y = isNarrow ? 96 : 4;
  const cards: { server: Server; y: number }[] = [];
  const heads: { hostgroup: number; y: number }[] = [];
  for (const [hostgroup, servers] of groups) {
    heads.push({ hostgroup, y: y + 12 });
    y += 20;
    for (const server of servers) {
      cards.push({ server, y });
      y += ROW + 8;
    }
    y += GAP - 8;
  }
  const height = Math.max(y, isNarrow ? 110 : 150);
  const boxWidth = isNarrow ? (width - 40) / 2 : Math.min(190, width * 0.2);
  const middle = isNarrow ? 38 : height / 2;
  const proxyX = isNarrow ? boxWidth + 40 : (left - boxWidth) / 2 + boxWidth * 0.45;
  const label = `${count(now.clients)} clients send ${rate(now.rate)} to ${now.servers.length} servers`;
  return (
    <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      <Flow from={[boxWidth, middle]} to={[proxyX, middle]} share={now.rate ? 1 : 0} kind="good" />
      {cards.map(({ server, y }) => (
        <Flow
          key={`${server.hostgroup} ${server.address}`}
          from={isNarrow ? [12, middle + 34] : [proxyX + boxWidth, middle]}
          to={[left, y + ROW / 2]}
          share={(server.rate ?? 0) / most}
          kind={stateKind(server.state)}
          isNarrow={isNarrow}
        />
      ))}
      <Box x={0} y={middle} width={boxWidth} title={`${count(now.clients)} clients`}
        lines={[`${rate(now.rate)}`, `${count(now.pinned)} pinned`]} />
      <Box x={proxyX} y={middle} width={boxWidth} title="Trunkline" isProxy
        lines={[`p95 ${micros(now.latency?.[1])}`, `${count(Object.values(now.waiting).reduce((a, b) => a + b, 0))} waiting`]} />
      {heads.map(({ hostgroup, y }) => (
        <text key={hostgroup} class="group" x={left} y={y}>
          hostgroup {hostgroup}
          {now.waiting[hostgroup] ? ` · ${now.waiting[hostgroup]} waiting` : ""}
          {now.held[hostgroup] ? ` · ${now.held[hostgroup]} held` : ""}
        </text>
      ))}
      {cards.map(({ server, y }) => (
        <Card key={`${server.hostgroup} ${server.address}`} server={server} topology={topology} x={left} y={y} width={cardWidth} />
      ))}
    </svg>
  );
}

function Flow(props: {
  from: [number, number];
  to: [number, number];
  share: number;
  kind: string;
  isNarrow?: boolean;
}) {
  const [[x1, y1], [x2, y2]] = [props.from, props.to];
  const half = (x1 + x2) / 2;
  const path = props.isNarrow ? `M${x1},${y1} V${y2} H${x2}` : `M${x1},${y1} C${half},${y1} ${half},${y2} ${x2},${y2}`;
  return <path class={`flow ${props.kind} ${props.share > 0 ? "moving" : ""}`} d={path} stroke-width={1 + props.share * 6} />;
}

function Box(props: { x: number; y: number; width: number; title: string; lines: string[]; isProxy?: boolean }) {
  const middle = props.x + props.width / 2;
  return (
    <g class={props.isProxy ? "box proxy" : "box"}>
      <rect x={props.x + 1} y={props.y - 34} width={props.width - 2} height={70} rx={8} />
      <text class="box-title" x={middle} y={props.y - 12} text-anchor="middle">
        {props.title}
      </text>
      {props.lines.map((line, at) => (
        <text key={line} x={middle} y={props.y + 8 + at * 17} text-anchor="middle">
          {line}
        </text>
      ))}
    </g>
  );
}

function Card(props: { server: Server; topology: Topology | undefined; x: number; y: number; width: number }) {
  const { server, x, y, width } = props;
  const member = memberOf(props.topology, server);
  const { leased, shared, idle } = server.connections;
  const busy = leased + shared;
  const lag = member?.lag_sec ? ` · ${member.lag_sec} s behind` : "";
  const role = member && member.role !== "unknown" ? ` · ${member.role}` : "";
  return (
    <g class={`card ${stateKind(server.state)}`}>
      <rect x={x + 1} y={y} width={width - 2} height={ROW} rx={8} />
      <rect class="edge" x={x + 1} y={y} width={5} height={ROW} rx={2} />
      <text class="box-title" x={x + 16} y={y + 21}>
        {server.address}
      </text>
      <text x={x + 16} y={y + 43}>
        {server.state}
        {role}
        {lag}
      </text>
      <text x={x + width - 12} y={y + 21} text-anchor="end">
        {rate(server.rate)} · {micros(server.latency?.[1])}
      </text>
      <text x={x + width - 12} y={y + 43} text-anchor="end">
        {busy} busy, {idle} idle
      </text>
    </g>
  );
}
