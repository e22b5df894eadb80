// Clients: what each does, what holds it, and how to end it.

import { useState } from "preact/hooks";
import { api, type Client } from "../api";
import { useLive } from "../live";
import type { PageProps } from "../main";
import { count, micros } from "../text";
import { Badge, type Column, Dialog, Failure, Panel, Search, Table } from "../ui";

const DOING: Record<string, string> = {
  running: "good",
  idle: "plain",
  queued: "warn",
  forwarding: "info",
  synchronising: "info",
  login: "info",
};

export function SessionsPage({ session, say }: PageProps) {
  const { sessions } = useLive();
  const [search, setSearch] = useState("");
  const [victim, setVictim] = useState<Client>();
  const mayKill = session.role !== "look";
  if (!sessions) return <p class="empty">Waiting for the workers …</p>;
  const wanted = search.toLowerCase();
  const rows = sessions.rows.filter((row) =>
    [row.id, row.user, row.client, row.schema, row.doing, row.digest_text, ...row.holds.flatMap((held) => [held.server, ...held.reasons])]
      .join("\n")
      .toLowerCase()
      .includes(wanted),
  );
  const held = (row: Client) => Math.max(0, ...row.holds.filter((it) => it.reasons.length).map((it) => it.held_us));
  const columns: Column<Client>[] = [
    { name: "Id", show: (row) => row.id, by: (row) => row.id, isNumber: true },
    { name: "User", show: (row) => row.user, by: (row) => row.user },
    { name: "From", show: (row) => <code>{row.client}</code>, by: (row) => row.client },
    { name: "Schema", show: (row) => row.schema, by: (row) => row.schema },
    {
      name: "Does",
      show: (row) => <Badge kind={DOING[row.doing] ?? "plain"}>{row.doing}</Badge>,
      by: (row) => row.doing,
    },
    { name: "For", show: (row) => micros(row.doing_us), by: (row) => row.doing_us, isNumber: true },
    { name: "Statement", show: (row) => <code class="clip">{row.digest_text}</code>, isWide: true },
    {
      name: "Held by",
      show: (row) =>
        row.holds.map((it) => (
          <div key={it.server} class="held">
            <code>{it.server}</code> {it.reasons.map((reason) => (
              <Badge key={reason} kind="warn">{reason}</Badge>
            ))}
          </div>
        )),
      by: (row) => row.holds.flatMap((it) => it.reasons).join(),
    },
    { name: "Held for", show: (row) => (held(row) ? micros(held(row)) : "–"), by: held, isNumber: true },
    { name: "TLS", show: (row) => (row.tls ? row.tls.split(" ")[0] : "–"), by: (row) => row.tls },
    { name: "Worker", show: (row) => row.worker, by: (row) => row.worker, isNumber: true },
  ];
  if (mayKill) {
    columns.push({
      name: "End",
      show: (row) => (
        <button type="button" class="small danger" onClick={() => setVictim(row)} aria-label={`Kill … session ${row.id}`}>
          Kill …
        </button>
      ),
    });
  }
  return (
    <Panel
      title={`${count(sessions.total)} sessions, ${count(sessions.pinned)} pinned`}
      aside={<Search value={search} set={setSearch} label="User, address, statement or reason" />}
    >
      {sessions.total > sessions.rows.length && (
        <p class="quiet">
          The first {sessions.rows.length}: pinned ones first, the longest held first.
        </p>
      )}
      <Table label="Sessions" columns={columns} rows={rows} rowKey={(row) => String(row.id)}
        empty={search ? "No session fits." : "Nobody is connected."} />
      {victim && <Kill victim={victim} say={say} close={() => setVictim(undefined)} />}
    </Panel>
  );
}

function Kill({ victim, say, close }: { victim: Client; say: (text: string) => void; close: () => void }) {
  const [isQuery, setQuery] = useState(false);
  const [failed, setFailed] = useState("");
  const kill = () =>
    api.run(`KILL ${isQuery ? "QUERY" : "CONNECTION"} ${victim.id}`).then(
      () => {
        say(isQuery ? `The statement of session ${victim.id} was ended.` : `Session ${victim.id} was ended.`);
        close();
      },
      (error: Error) => setFailed(error.message),
    );
  return (
    <Dialog title={`Kill session ${victim.id}?`} close={close}
      confirm={{ name: isQuery ? "Kill the statement" : "Kill the session", isDangerous: true, run: kill }}>
      <p>
        {victim.user} from <code>{victim.client}</code>, {victim.doing} for {micros(victim.doing_us)}.
      </p>
      {victim.digest_text && <pre class="code">{victim.digest_text}</pre>}
      <label class="check">
        <input type="checkbox" checked={isQuery} onChange={(event) => setQuery(event.currentTarget.checked)} />
        Only its statement
      </label>
      <Failure text={failed} />
    </Dialog>
  );
}
