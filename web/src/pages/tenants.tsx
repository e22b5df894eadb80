// Who shares the servers: what each tenant has used, does now, and is entitled to.

import { useState } from "preact/hooks";
import { api, type Row } from "../api";
import type { PageProps } from "../main";
import { count, micros, share } from "../text";
import { Failure, Panel, Search, Stat, Table, useAsked } from "../ui";

/** Rows that are drawn; a search finds the others. */
const ROWS_MAX = 200;

function name(row: Row): string {
  return row.name === "" ? "(all others)" : String(row.name);
}

export function TenantsPage(_: PageProps) {
  const [search, setSearch] = useState("");
  const found = useAsked(() => api.rows("SELECT * FROM stats_tenants ORDER BY server_time_us DESC, name"), []);
  const all = found.told?.rows ?? [];
  const sum = (column: string) => all.reduce((before, row) => before + Number(row[column]), 0);
  const wanted = search.toLowerCase();
  const fitting = all.filter((row) => name(row).toLowerCase().includes(wanted));
  const rows = fitting.slice(0, ROWS_MAX);
  const time = sum("server_time_us");
  const number = (title: string, column: string, show = count) => ({
    name: title,
    show: (row: Row) => show(Number(row[column])),
    by: (row: Row) => Number(row[column]),
    isNumber: true,
  });
  const meanWait = (row: Row) => Number(row.queue_time_us) / Math.max(Number(row.queued), 1);
  return (
    <>
      {all.length > 0 && (
        <dl class="stats">
          <Stat name="Tenants" value={count(all.length)} />
          <Stat name="Running" value={count(sum("running"))} note="statements" />
          <Stat name="Waiting" value={count(sum("waiting"))} note="statements" />
          <Stat name="Too late" value={count(sum("late"))} note="refused since the start" />
        </dl>
      )}
      <Panel
        title="Since the start"
        aside={
          <>
            <Search value={search} set={setSearch} label="Tenant" />
            <button type="button" class="small" onClick={found.again}>
              Refresh
            </button>
          </>
        }
      >
        <Failure text={found.failed} />
        {fitting.length > rows.length && (
          <p class="quiet">
            The first {count(rows.length)} of {count(fitting.length)} by server time.
          </p>
        )}
        <Table<Row>
          label="Tenants"
          rows={rows}
          rowKey={(row) => String(row.name)}
          first={{ name: "Server time", isDown: true }}
          empty={
            !found.told ? "Loading …" : search ? "No tenant fits." : "There are none: tenant_by is off, or nothing has run yet."
          }
          columns={[
            { name: "Tenant", show: name, by: name, isWide: true },
            number("Server time", "server_time_us", micros),
            { name: "Share", show: (row) => share(Number(row.server_time_us), time), isNumber: true },
            number("Statements", "statements"),
            number("Running", "running"),
            number("Waiting", "waiting"),
            number("Waited", "queued"),
            { name: "Mean wait", show: (row) => micros(meanWait(row)), by: meanWait, isNumber: true },
            number("Too late", "late"),
            number("Weight", "weight"),
            number("Priority", "priority"),
            { name: "Places", show: (row) => `${row.share_min} to ${row.share_max} %`, by: (row) => Number(row.share_max), isNumber: true },
          ]}
        />
      </Panel>
    </>
  );
}
