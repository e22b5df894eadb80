// Clusters and their servers; switchovers, with the check first.

import { useState } from "preact/hooks";
import { api, type Cluster, type Member, type Rows, quoted } from "../api";
import { useLive } from "../live";
import type { PageProps } from "../main";
import { Badge, Dialog, Failure, Panel, Result, stateKind, Table } from "../ui";
import { EventTable } from "./events";
import { ServerTable } from "./now";

export function ServersPage(props: PageProps) {
  const live = useLive();
  const { now, topology } = live;
  if (!now || !topology) return <p class="empty">Waiting for the proxy …</p>;
  return (
    <>
      {topology.clusters.map((cluster) => (
        <ClusterPanel key={cluster.name} cluster={cluster} {...props} />
      ))}
      {topology.clusters.length === 0 && (
        <Panel title="Clusters">
          <p class="empty">
            No cluster is configured: the proxy does not find out roles, and cannot switch over.
          </p>
        </Panel>
      )}
      <Panel title="Servers by hostgroup">
        <ServerTable now={now} topology={topology} sparks={live.servers} />
      </Panel>
      <Panel title="Latest events" aside={<a href="#/events">All events</a>}>
        <EventTable events={topology.events.slice(-10)} />
      </Panel>
    </>
  );
}

function ClusterPanel({ cluster, session, say }: PageProps & { cluster: Cluster }) {
  const [target, setTarget] = useState<string>();
  const mayChange = session.role !== "look";
  return (
    <Panel
      title={`Cluster ${cluster.name}`}
      aside={
        <>
          <span class="quiet">
            {cluster.kind} · writer in {cluster.writer_hostgroup}, readers in {cluster.reader_hostgroup} · epoch{" "}
            {cluster.epoch}
          </span>
          {mayChange && (
            <button type="button" onClick={() => setTarget("")}>
              Switch over …
            </button>
          )}
        </>
      }
    >
      <Table<Member>
        label={`Servers of ${cluster.name}`}
        rows={cluster.servers}
        rowKey={(row) => row.address}
        empty="No server is known yet."
        columns={[
          { name: "Server", show: (row) => <code>{row.address}</code>, by: (row) => row.address },
          { name: "Role", show: (row) => <Badge kind={stateKind(row.role)}>{row.role}</Badge>, by: (row) => row.role },
          { name: "Reach", show: (row) => <Badge kind={stateKind(row.reach)}>{row.reach}</Badge>, by: (row) => row.reach },
          {
            name: "Writable",
            show: (row) => (row.writable === null ? "–" : row.writable ? "yes" : "no"),
          },
          ...(mayChange
            ? [
                {
                  name: "Switch over",
                  show: (row: Member) =>
                    row.role === "writer" ? (
                      "writes"
                    ) : (
                      <button type="button" class="small" onClick={() => setTarget(row.address)}
                        aria-label={`To this …: make ${row.address} the writer`}>
                        To this …
                      </button>
                    ),
                },
              ]
            : []),
          { name: "Lag", show: (row) => (row.lag_sec === null ? "–" : `${row.lag_sec} s`), by: (row) => row.lag_sec ?? -1, isNumber: true },
          { name: "Replicates from", show: (row) => (row.source ? <code>{row.source}</code> : "–") },
          { name: "Version", show: (row) => row.version || "–" },
          { name: "Transactions", show: (row) => <code class="clip">{row.gtid || "–"}</code>, isWide: true },
        ]}
      />
      <ul class="warnings" aria-label={`What to know of ${cluster.name}`}>
        {cluster.servers.flatMap((row) =>
          row.warnings.map((text) => (
            <li key={`${row.address} ${text}`}>
              <code>{row.address}</code> {text}
            </li>
          )),
        )}
      </ul>
      {target !== undefined && (
        <Switchover cluster={cluster.name} to={target} say={say} close={() => setTarget(undefined)} />
      )}
    </Panel>
  );
}

/** The check, and then the thing itself. */
function Switchover(props: { cluster: string; to: string; say: (text: string) => void; close: () => void }) {
  const [found, setFound] = useState<Rows>();
  const [done, setDone] = useState<Rows>();
  const [failed, setFailed] = useState("");
  const [isBusy, setBusy] = useState(false);
  const statement = `SWITCHOVER ${quoted(props.cluster)}${props.to ? ` TO ${quoted(props.to)}` : ""}`;
  const run = (sql: string, then: (rows: Rows) => void) => {
    setBusy(true);
    setFailed("");
    api
      .rows(sql)
      .then(then, (error: Error) => setFailed(error.message))
      .finally(() => setBusy(false));
  };
  const isBlocked = found?.rows.some((row) => Object.values(row).includes("blocks")) ?? false;
  const confirm = done
    ? undefined
    : found && !isBlocked
      ? {
          name: "Switch over now",
          isDangerous: true,
          isBusy,
          run: () =>
            run(statement, (rows) => {
              setDone(rows);
              props.say(`${statement} is done.`);
            }),
        }
      : { name: "Check", isBusy, run: () => run(`CHECK ${statement}`, setFound) };
  return (
    <Dialog title={`Switch ${props.cluster} over`} close={props.close} confirm={confirm}>
      <p>
        {props.to ? (
          <>
            <code>{props.to}</code> is to become the writer.
          </>
        ) : (
          "The server that fits best is to become the writer."
        )}{" "}
        The check changes nothing.
      </p>
      {isBusy && <p role="status">{found ? "Switching over …" : "Checking …"}</p>}
      {!done && found && (
        <>
          <Result label="What the check found" rows={found} empty="Nothing is in the way." />
          {isBlocked && <p class="failure">What blocks has to be mended first.</p>}
        </>
      )}
      {done && <Result label="What was done" rows={done} empty="It is done." />}
      <Failure text={failed} />
    </Dialog>
  );
}
