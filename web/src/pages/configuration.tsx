// The layers of the configuration: what differs, loading and saving, and earlier revisions.

import { useState } from "preact/hooks";
import { api, type Row, type Rows } from "../api";
import { useLive } from "../live";
import type { PageProps } from "../main";
import { count, moment } from "../text";
import { Badge, type Column, Dialog, Failure, Panel, Search, Table, useAsked } from "../ui";

const MODULES = [
  "MYSQL SERVERS",
  "MYSQL USERS",
  "MYSQL QUERY RULES",
  "MYSQL VARIABLES",
  "ADMIN VARIABLES",
  "TRUNKLINE VARIABLES",
  "MYSQL FIREWALL",
  "SCHEDULER",
];

type Order = {
  title: string;
  sql: string;
  text: string;
  /** The name of the button. */
  button: string;
  isDangerous: boolean;
  /** What differs, on which it is decided. */
  look: () => Promise<Rows>;
  /** What stands before that, where anything differs. */
  head?: string;
  /** What follows when it is done. */
  next?: string;
};

export function ConfigurationPage(props: PageProps) {
  const { session } = props;
  const { now } = useLive();
  if (session.role !== "configure") {
    return (
      <Panel title="Configuration">
        <p class="empty">
          The configuration is for administrators. It is at version {now?.configuration.version ?? "–"}, in force since{" "}
          {moment(now?.configuration.applied_unix_sec ?? 0)}.
        </p>
      </Panel>
    );
  }
  return (
    <>
      <Layers {...props} />
      {!session.is_file && <History {...props} />}
      <Variables />
    </>
  );
}

async function difference(module: string, layers: string): Promise<Rows> {
  return api.rows(`SHOW DIFF ${module} ${layers}`);
}

/** Edits of MEMORY that are neither loaded nor saved: nothing has them but MEMORY. */
async function unsaved(module: string): Promise<Rows> {
  const [notLoaded, notSaved] = await Promise.all([
    difference(module, "MEMORY RUNTIME"),
    difference(module, "DISK MEMORY"),
  ]);
  // The other layer has a name of its own in each.
  const key = (row: Row) => JSON.stringify([isOfMemory(row), row.table, row.row]);
  const known = new Set(notSaved.rows.map(key));
  return { ...notLoaded, rows: notLoaded.rows.filter((row) => known.has(key(row))) };
}

function isOfMemory(row: Row): boolean {
  return String(row.only_in).toUpperCase() === "MEMORY";
}

/** What can be compared and moved. */
function Layers({ session, say }: PageProps) {
  const { now } = useLive();
  const version = now?.configuration.version ?? 0;
  const [order, setOrder] = useState<Order>();
  const found = useAsked(
    async () => {
      const list = await Promise.all(
        MODULES.map(async (module) => {
          const toRun = await difference(module, "MEMORY RUNTIME");
          const toSave = await difference(module, "DISK MEMORY");
          return { module, toRun, toSave };
        }),
      );
      return list;
    },
    [version],
  );
  const columns: Column<NonNullable<typeof found.told>[number]>[] = [
    { name: "Module", show: (row) => row.module },
    {
      name: session.is_file ? "File and what runs" : "MEMORY and RUNTIME",
      show: (row) => <Difference rows={row.toRun} />,
      isWide: true,
    },
  ];
  if (!session.is_file) {
    columns.push({ name: "DISK and MEMORY", show: (row) => <Difference rows={row.toSave} />, isWide: true });
    const press = (title: string, sql: string, module: string, layers: string, text: string) => (
      <button type="button" class="small"
        onClick={() =>
          setOrder({
            title: `${title} ${module}?`,
            sql,
            text,
            button: title,
            isDangerous: title !== "Save",
            look: () => difference(module, layers),
          })
        }
        aria-label={`${title} … ${module}`}>
        {title} …
      </button>
    );
    columns.push({
      name: "Move",
      show: ({ module }) => (
        <span class="buttons-inline">
          {press("Load", `LOAD ${module} TO RUNTIME`, module, "MEMORY RUNTIME", "What is in MEMORY is what the workers use then.")}
          {press("Save", `SAVE ${module} TO DISK`, module, "DISK MEMORY", "What is in MEMORY is what the next start loads then.")}
          {press("Undo", `SAVE ${module} TO MEMORY`, module, "MEMORY RUNTIME", "What was edited in MEMORY and not loaded is lost: MEMORY is what runs then.")}
        </span>
      ),
    });
  }
  const reload = () =>
    api.run("PROXYSQL RELOAD CONFIG").then(
      (done) => {
        say(done.info || "The file was read again.");
        found.again();
      },
      (error: Error) => say(`The file was not loaded: ${error.message}`),
    );
  return (
    <Panel
      title={`What runs: version ${version}, since ${moment(now?.configuration.applied_unix_sec ?? 0)}`}
      aside={
        <>
          {session.is_file && (
            <button type="button" class="primary" onClick={reload}>
              Reload the file
            </button>
          )}
          <Export />
          <button type="button" class="small" onClick={found.again}>
            Refresh
          </button>
        </>
      }
    >
      <Failure text={found.failed} />
      {session.is_file && (
        <p class="quiet">
          The configuration is the file <code>{now?.configuration.source}</code>: edit it, then reload it here.
        </p>
      )}
      <Table label="Modules of the configuration" columns={columns} rows={found.told ?? []}
        rowKey={(row) => row.module} empty="Comparing …" />
      {order && (
        <Move order={order} say={say}
          close={() => {
            setOrder(undefined);
            found.again();
          }} />
      )}
    </Panel>
  );
}

/** Rows that two layers do not share: those of MEMORY come, the others go. */
function Difference({ rows }: { rows: Rows }) {
  if (rows.rows.length === 0) return <span class="quiet">the same</span>;
  return (
    <ul class="diff">
      {rows.rows.slice(0, 200).map((row, at) => {
        const isNew = isOfMemory(row);
        return (
          <li key={at} class={isNew ? "added" : "removed"}>
            <span aria-hidden="true">{isNew ? "+" : "−"}</span>
            <span class="hidden">only in {row.only_in}</span> <span class="quiet">{row.table}</span> <code>{row.row}</code>
          </li>
        );
      })}
      {rows.rows.length > 200 && <li>and {count(rows.rows.length - 200)} more</li>}
    </ul>
  );
}

/** Moves a module, if what differs is still what was shown. */
function Move(props: { order: Order; say: (text: string) => void; close: () => void }) {
  const { order } = props;
  const [turn, setTurn] = useState(0);
  // What is decided on: what differs, and the version that runs.
  const shown = useAsked(order.look, [turn]);
  const [failed, setFailed] = useState("");
  const [conflict, setConflict] = useState("");
  const [isBusy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    setFailed("");
    const before = shown.told;
    try {
      const now = await order.look();
      if (now.version !== before?.version) {
        setConflict(`version ${before?.version} ran when this was shown, and version ${now.version} runs now`);
      } else if (JSON.stringify(now.rows) !== JSON.stringify(before.rows)) {
        setConflict("what differs is not what is shown here any more");
      } else {
        const done = await api.run(order.sql, before.version);
        const told = [`${order.sql}: done.`, done.info, ...done.warnings, order.next ?? ""];
        props.say(told.filter(Boolean).join(" "));
        props.close();
      }
    } catch (error) {
      if ((error as { status?: number }).status === 409) setConflict((error as Error).message);
      else setFailed((error as Error).message);
    } finally {
      setBusy(false);
    }
  };
  const again = () => {
    setConflict("");
    setFailed("");
    setTurn(turn + 1);
  };
  return (
    <Dialog title={order.title} close={props.close}
      confirm={
        conflict
          ? { name: "Look again", run: again }
          : { name: order.button, isDangerous: order.isDangerous, isBusy: isBusy || !shown.told, run: () => void run() }
      }>
      <p>
        <code>{order.sql}</code>
      </p>
      <p>{order.text}</p>
      {order.head && shown.told && shown.told.rows.length > 0 && <p class="notice warn">{order.head}</p>}
      {shown.told && (!order.head || shown.told.rows.length > 0) && <Difference rows={shown.told} />}
      {conflict && (
        <p class="failure" role="alert">
          Somebody else was faster: {conflict}. Nothing was done. Look at what differs now, and decide again.
        </p>
      )}
      <Failure text={failed || shown.failed} />
    </Dialog>
  );
}

/** The running configuration as a file. */
function Export() {
  const [failed, setFailed] = useState("");
  const save = async () => {
    try {
      const told = await api.rows("SELECT CONFIG FILE");
      const text = String(told.rows[0]?.Data ?? "");
      const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
      const link = document.createElement("a");
      link.href = address;
      link.download = text.includes("[[server]]") || text.includes("listen =") ? "trunkline.toml" : "trunkline.cnf";
      link.click();
      URL.revokeObjectURL(address);
    } catch (error) {
      setFailed((error as Error).message);
    }
  };
  return (
    <>
      <button type="button" class="small" onClick={() => void save()} title="With passwords">
        Export
      </button>
      <Failure text={failed} />
    </>
  );
}

function History({ say }: PageProps) {
  const { now } = useLive();
  const [order, setOrder] = useState<Order>();
  const found = useAsked(() => api.rows("SHOW HISTORY"), [now?.configuration.version]);
  const ask = ({ module, revision }: Row) =>
    setOrder({
      title: `Roll ${module} back to revision ${revision}?`,
      sql: `LOAD ${module} FROM REVISION ${revision}`,
      text: `What revision ${revision} had loaded is put into MEMORY, in place of what is there. Nothing that runs changes until it is loaded.`,
      button: "Put it into MEMORY",
      isDangerous: true,
      look: () => unsaved(String(module)),
      head: `These edits in MEMORY are lost, unless revision ${revision} has them too: they were neither loaded nor saved.`,
      next: "It is in MEMORY: load it to have it run.",
    });
  return (
    <Panel title="History">
      <Failure text={found.failed} />
      <Table<Row>
        label="Revisions"
        rows={found.told?.rows ?? []}
        rowKey={(row) => String(row.revision)}
        empty="Nothing was loaded yet."
        columns={[
          { name: "Revision", show: (row) => row.revision, by: (row) => Number(row.revision), isNumber: true },
          { name: "When", show: (row) => moment(Number(row.changed_at)), by: (row) => Number(row.changed_at) },
          { name: "Who", show: (row) => row.author, by: (row) => String(row.author) },
          { name: "Statement", show: (row) => <code>{row.command}</code> },
          {
            name: "Changes",
            show: (row) => (
              <ul class="diff">
                {String(row.changes ?? "").split("\n").filter(Boolean).map((line, at) => (
                  <li key={at}>
                    <code>{line}</code>
                  </li>
                ))}
              </ul>
            ),
            isWide: true,
          },
          {
            name: "Roll back",
            show: (row) => (
              <button type="button" class="small" onClick={() => ask(row)}
                aria-label={`To this …: roll back to revision ${row.revision}`}>
                To this …
              </button>
            ),
          },
        ]}
      />
      {order && <Move order={order} say={say} close={() => setOrder(undefined)} />}
    </Panel>
  );
}

function Variables() {
  const [search, setSearch] = useState("");
  const found = useAsked(
    () =>
      api.rows(
        "SELECT t.variable_name AS name, g.variable_value AS value, t.support, t.range, t.reload, t.meaning FROM trunkline_variables t JOIN runtime_global_variables g ON g.variable_name = t.variable_name ORDER BY t.support = 'ignored', t.variable_name",
      ),
    [],
  );
  const wanted = search.toLowerCase();
  const fitting = (found.told?.rows ?? []).filter((row) =>
    `${row.name} ${row.value} ${row.meaning}`.toLowerCase().includes(wanted),
  );
  const rows = fitting.slice(0, search ? 200 : 20);
  const value = (row: Row) => (/password|credentials|token/.test(String(row.name)) ? "••••" : String(row.value));
  return (
    <Panel
      title="Variables"
      aside={<Search value={search} set={setSearch} label="Variable, value or meaning" />}
    >
      <Failure text={found.failed} />
      <p class="quiet">
        {count(rows.length)} of {count(fitting.length)}
      </p>
      <Table<Row>
        label="Variables"
        rows={rows}
        rowKey={(row) => String(row.name)}
        empty={found.told ? "No variable fits." : "Loading …"}
        columns={[
          { name: "Variable", show: (row) => <code>{row.name}</code>, by: (row) => String(row.name) },
          { name: "Runs", show: (row) => <code>{value(row)}</code>, isWide: true },
          { name: "Range", show: (row) => <small>{row.range}</small> },
          { name: "Change", show: (row) => row.reload },
          { name: "Support", show: (row) => <Badge kind={row.support === "ignored" ? "plain" : "info"}>{String(row.support)}</Badge> },
          { name: "Meaning", show: (row) => row.meaning, isWide: true },
        ]}
      />
    </Panel>
  );
}
