// Query rules in their order, how often each matched, and where a statement would go.

import { useEffect, useState } from "preact/hooks";
import { api, type Row, type Rows } from "../api";
import type { PageProps } from "../main";
import { count } from "../text";
import { Badge, type Column, Failure, Panel, Search, Table, useAsked } from "../ui";

const PARTS = ["username", "schemaname", "client_addr", "proxy_addr", "proxy_port", "digest", "match_digest", "match_pattern"];
const EFFECTS: Record<string, string> = {
  destination_hostgroup: "hostgroup",
  cache_ttl: "cache ms",
  timeout: "timeout ms",
  delay: "delay ms",
  mirror_hostgroup: "mirror to",
  error_msg: "refuse:",
  OK_msg: "answer:",
  replace_pattern: "rewrite to",
  flagOUT: "go on with flag",
  multiplex: "multiplex",
  retries: "retries",
  log: "log",
};

export function RulesPage({ session }: PageProps) {
  const [search, setSearch] = useState("");
  const mayConfigure = session.role === "configure";
  const rules = useAsked(
    async () => {
      const hits = await api.rows("SELECT rule_id, hits FROM stats_mysql_query_rules ORDER BY rule_id");
      const found = mayConfigure
        ? await api.rows("SELECT * FROM runtime_mysql_query_rules ORDER BY rule_id")
        : hits;
      const of = new Map(hits.rows.map((row) => [row.rule_id, row.hits]));
      return found.rows.map((row): Row => ({ ...row, hits: of.get(row.rule_id ?? null) ?? 0 }));
    },
    [session.role],
  );
  const all = rules.told ?? [];
  const wanted = search.toLowerCase();
  const rows = all.filter((row) => Object.values(row).join("\n").toLowerCase().includes(wanted));
  const most = Math.max(1, ...all.map((row) => Number(row.hits)));
  const columns: Column<Row>[] = [
    { name: "Rule", show: (row) => row.rule_id, by: (row) => Number(row.rule_id), isNumber: true },
    {
      name: "Hits",
      show: (row) => (
        <span class="hits">
          {count(Number(row.hits))}
          <progress value={Number(row.hits)} max={most} aria-label={`hits of rule ${row.rule_id}`} />
        </span>
      ),
      by: (row) => Number(row.hits),
      isNumber: true,
    },
  ];
  if (mayConfigure) {
    columns.push(
      { name: "Flag", show: (row) => row.flagIN, by: (row) => Number(row.flagIN), isNumber: true },
      {
        name: "Matches",
        show: (row) =>
          PARTS.filter((part) => row[part] !== null && row[part] !== "" && row[part] !== undefined).map((part) => (
            <div key={part}>
              <span class="quiet">{part}</span> {row.negate_match_pattern === 1 && part.startsWith("match") ? "not " : ""}
              <code>{row[part]}</code>
            </div>
          )),
        isWide: true,
      },
      {
        name: "Does",
        show: (row) =>
          Object.entries(EFFECTS)
            .filter(([part]) => row[part] !== null && row[part] !== "" && row[part] !== undefined)
            .map(([part, word]) => (
              <div key={part}>
                <span class="quiet">{word}</span> <code>{row[part]}</code>
              </div>
            )),
        isWide: true,
      },
      { name: "Ends", show: (row) => (row.apply === 1 ? <Badge kind="info">apply</Badge> : "") },
      { name: "Comment", show: (row) => row.comment, isWide: true },
    );
  }
  return (
    <>
      {mayConfigure && (
        <Panel title="Where would a statement go?">
          <Playground />
        </Panel>
      )}
      <Panel
        title="Rules, in the order in which they are looked at"
        aside={
          <>
            <Search value={search} set={setSearch} label="Rule" />
            <button type="button" class="small" onClick={rules.again}>
              Refresh
            </button>
          </>
        }
      >
        <Failure text={rules.failed} />
        {!mayConfigure && <p class="quiet">Rules themselves are for administrators; these are their hits.</p>}
        <Table label="Query rules" columns={columns} rows={rows} rowKey={(row) => String(row.rule_id)}
          empty={search ? "No rule fits." : "There are no rules: statements go where their user's default is, or where the split of reads and writes sends them."}
          of={rules}
          first={{ name: "Rule", isDown: false }} />
      </Panel>
    </>
  );
}

/** A statement is typed, and its way is shown. */
function Playground() {
  const users = useAsked(
    () => api.rows("SELECT DISTINCT username, default_schema FROM runtime_mysql_users WHERE frontend = 1 ORDER BY username"),
    [],
  );
  const [user, setUser] = useState("");
  const [schema, setSchema] = useState("");
  const [sql, setSql] = useState("");
  const [asked, setAsked] = useState<{ user: string; schema: string; sql: string; turn: number }>();
  useEffect(() => {
    const first = users.told?.rows[0];
    if (first && !user) setUser(String(first.username));
  }, [users.told]);
  const submit = (event: Event) => {
    event.preventDefault();
    setAsked({ user, schema, sql, turn: (asked?.turn ?? 0) + 1 });
  };
  return (
    <>
      <form class="playground" onSubmit={submit}>
        <label>
          User
          <input list="users" name="route-user" value={user} onInput={(event) => setUser(event.currentTarget.value)} />
          <datalist id="users">
            {users.told?.rows.map((row) => <option key={String(row.username)} value={String(row.username)} />)}
          </datalist>
        </label>
        <label>
          Schema
          <input name="route-schema" value={schema} onInput={(event) => setSchema(event.currentTarget.value)} />
        </label>
        <label class="grow">
          Statement
          <textarea name="route-sql" rows={2} spellcheck={false} value={sql}
            placeholder="SELECT * FROM orders WHERE id = 5"
            onInput={(event) => setSql(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary" disabled={!sql.trim()}>
          Show the way
        </button>
      </form>
      <p class="quiet">Nothing is run: this is EXPLAIN ROUTE for a new session.</p>
      {asked && <Route key={asked.turn} {...asked} isAsked />}
    </>
  );
}

/** The way of a statement, as the proxy explains it. */
export function Route({ user, schema, sql }: { user: string; schema: string; sql: string; isAsked: boolean }) {
  const [way, setWay] = useState<Rows>();
  const [failed, setFailed] = useState("");
  useEffect(() => {
    const word = (text: string) => (/^[A-Za-z0-9_]+$/.test(text) ? text : `\`${text.replaceAll("`", "``")}\``);
    const head = `EXPLAIN ROUTE ${user ? `USER ${word(user)} ` : ""}${schema ? `SCHEMA ${word(schema)} ` : ""}`;
    api.rows(head + sql).then(setWay, (error: Error) => setFailed(error.message));
  }, []);
  return (
    <>
      <Failure text={failed} />
      {way && (
        <ol class="way" aria-label="The way of the statement">
          {way.rows.map((row, at) => (
            <li key={at}>
              <span class="step">{row.step}</span>
              <code>{row.detail}</code>
            </li>
          ))}
        </ol>
      )}
    </>
  );
}
