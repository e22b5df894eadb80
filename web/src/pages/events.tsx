// What has happened to clusters, and what administrators have done.

import { useState } from "preact/hooks";
import { api, type ClusterEvent } from "../api";
import { useLive } from "../live";
import type { PageProps } from "../main";
import { moment } from "../text";
import { Badge, Failure, Panel, Search, Table, useAsked } from "../ui";

export function EventsPage({ session }: PageProps) {
  const { topology } = useLive();
  const [search, setSearch] = useState("");
  const wanted = search.toLowerCase();
  const events = (topology?.events ?? []).filter((event) =>
    Object.values(event).join("\n").toLowerCase().includes(wanted),
  );
  return (
    <>
      <Panel title="Events of clusters" aside={<Search value={search} set={setSearch} label="Event, server or cluster" />}>
        <EventTable events={events} />
      </Panel>
      {session.role === "configure" && <Audit />}
    </>
  );
}

export function EventTable({ events }: { events: ClusterEvent[] }) {
  return (
    <Table<ClusterEvent>
      label="Events"
      rows={events}
      rowKey={(row) => String(row.id)}
      empty="Nothing has happened."
      first={{ name: "When", isDown: true }}
      columns={[
        { name: "When", show: (row) => moment(row.at), by: (row) => row.id },
        { name: "Cluster", show: (row) => row.cluster, by: (row) => row.cluster },
        {
          name: "Event",
          show: (row) => (
            <Badge kind={/down|lost|failed|fenced|refused/.test(row.event) ? "bad" : /up|new|promoted|done/.test(row.event) ? "good" : "info"}>
              {row.event}
            </Badge>
          ),
          by: (row) => row.event,
        },
        { name: "Server", show: (row) => (row.server ? <code>{row.server}</code> : "–"), by: (row) => row.server },
        { name: "Evidence", show: (row) => row.evidence, isWide: true },
      ]}
    />
  );
}

function Audit() {
  const [search, setSearch] = useState("");
  const found = useAsked(() => api.audit(), []);
  const wanted = search.toLowerCase();
  const lines = (found.told?.lines ?? [])
    .map((line, at) => ({ at, line }))
    .filter(({ line }) => Object.values(line).join("\n").toLowerCase().includes(wanted))
    .reverse();
  const text = (value: unknown) => (value === undefined || value === null ? "" : String(value));
  return (
    <Panel
      title="What administrators did"
      aside={
        <>
          <Search value={search} set={setSearch} label="User, address or statement" />
          <button type="button" class="small" onClick={found.again}>
            Refresh
          </button>
        </>
      }
    >
      <Failure text={found.failed} />
      <p class="quiet">The last 500 since the start; texts in statements are left out. The audit log has all.</p>
      <Table
        label="Audit"
        rows={lines}
        rowKey={(row) => String(row.at)}
        empty="Nothing was done."
        of={found}
        columns={[
          { name: "When", show: ({ line }) => moment(Number(line.timestamp) / 1_000) },
          { name: "What", show: ({ line }) => <Badge kind={text(line.event).endsWith("ERR") || line.errno ? "bad" : "info"}>{text(line.event)}</Badge> },
          { name: "Who", show: ({ line }) => text(line.username) },
          { name: "From", show: ({ line }) => <code>{text(line.client_addr)}</code> },
          { name: "Statement", show: ({ line }) => <code>{text(line.extra_info)}</code>, isWide: true },
          { name: "Error", show: ({ line }) => (line.errno ? text(line.errno) : ""), isNumber: true },
        ]}
      />
    </Panel>
  );
}
