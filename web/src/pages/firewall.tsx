// Who and what is refused, and by what.

import { api, type Row } from "../api";
import type { PageProps } from "../main";
import { count } from "../text";
import { Badge, Failure, Panel, Table, useAsked } from "../ui";

export function FirewallPage({ session }: PageProps) {
  const refusals = useAsked(() => api.rows("SELECT * FROM stats_refusals ORDER BY count DESC, who, cause"), []);
  const limits = useAsked(() => api.rows("SELECT * FROM stats_limits"), []);
  const hosts = useAsked(() => api.rows("SELECT * FROM stats_mysql_client_host_cache"), []);
  const again = () => {
    refusals.again();
    limits.again();
    hosts.again();
  };
  return (
    <>
      <Panel title="Refused since the start" aside={
        <button type="button" class="small" onClick={again}>
          Refresh
        </button>
      }>
        <Failure text={refusals.failed} />
        <Table<Row>
          label="Refusals"
          rows={(refusals.told?.rows ?? []).filter((row) => Number(row.count) > 0)}
          rowKey={(row) => `${row.who} ${row.cause}`}
          empty="Limits and the firewall have refused nobody and nothing. What rules refuse is on the page Rules."
          of={refusals}
          columns={[
            { name: "Who", show: (row) => row.who, by: (row) => String(row.who) },
            { name: "Why", show: (row) => <code>{row.cause}</code>, by: (row) => String(row.cause) },
            { name: "How often", show: (row) => count(Number(row.count)), by: (row) => Number(row.count), isNumber: true },
          ]}
        />
      </Panel>
      <Panel title="Rate limits">
        <Failure text={limits.failed} />
        <Table<Row>
          label="Rate limits"
          rows={limits.told?.rows ?? []}
          rowKey={(row) => `${row.scope} ${row.name}`}
          empty="There are none (trunkline_limits)."
          of={limits}
          columns={[
            { name: "Of", show: (row) => row.scope, by: (row) => String(row.scope) },
            { name: "Name", show: (row) => row.name, by: (row) => String(row.name) },
            { name: "Passed", show: (row) => count(Number(row.passed)), by: (row) => Number(row.passed), isNumber: true },
            { name: "Delayed", show: (row) => count(Number(row.delayed)), by: (row) => Number(row.delayed), isNumber: true },
            { name: "Refused", show: (row) => count(Number(row.refused)), by: (row) => Number(row.refused), isNumber: true },
          ]}
        />
      </Panel>
      <Panel title="Addresses with failed logins">
        <Failure text={hosts.failed} />
        <Table<Row>
          label="Addresses with failed logins"
          rows={hosts.told?.rows ?? []}
          rowKey={(row) => String(row.client_address)}
          empty="There are none."
          of={hosts}
          columns={[
            { name: "Address", show: (row) => <code>{row.client_address}</code>, by: (row) => String(row.client_address) },
            { name: "In a row", show: (row) => count(Number(row.error_count)), by: (row) => Number(row.error_count), isNumber: true },
          ]}
        />
      </Panel>
      {session.role === "configure" && <Whitelist />}
    </>
  );
}

/** The firewall's own tables. */
function Whitelist() {
  const users = useAsked(() => api.rows("SELECT * FROM runtime_mysql_firewall_whitelist_users ORDER BY username"), []);
  const rules = useAsked(
    () => api.rows("SELECT * FROM runtime_mysql_firewall_whitelist_rules ORDER BY username, schemaname, digest LIMIT 500"),
    [],
  );
  return (
    <Panel title="Whitelist">
      <Failure text={users.failed || rules.failed} />
      <Table<Row>
        label="Users of the whitelist"
        rows={users.told?.rows ?? []}
        rowKey={(row) => `${row.username} ${row.client_address}`}
        empty="No user is in the whitelist, so it refuses nobody's statements."
        columns={[
          { name: "User", show: (row) => row.username, by: (row) => String(row.username) },
          { name: "From", show: (row) => row.client_address || "everywhere" },
          { name: "Mode", show: (row) => <Badge kind={row.mode === "PROTECTING" ? "good" : "warn"}>{String(row.mode)}</Badge>, by: (row) => String(row.mode) },
          { name: "Comment", show: (row) => row.comment, isWide: true },
        ]}
      />
      {(rules.told?.rows.length ?? 0) > 0 && (
        <Table<Row>
          label="Rules of the whitelist"
          rows={rules.told?.rows ?? []}
          rowKey={(row) => `${row.username} ${row.client_address} ${row.schemaname} ${row.flagIN} ${row.digest}`}
          empty=""
          columns={[
            { name: "User", show: (row) => row.username, by: (row) => String(row.username) },
            { name: "Schema", show: (row) => row.schemaname, by: (row) => String(row.schemaname) },
            { name: "Digest", show: (row) => <a href={`#/statements/${row.digest}`}>{row.digest}</a> },
            { name: "Comment", show: (row) => row.comment, isWide: true },
          ]}
        />
      )}
    </Panel>
  );
}
