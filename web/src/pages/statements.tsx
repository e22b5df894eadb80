// Statements by digest.

import { useEffect, useState } from "preact/hooks";
import { api, type Digest, type Digests } from "../api";
import { digestKey, noteDigests, useLive } from "../live";
import type { PageProps } from "../main";
import { RatesAndLatency, type Span, Spans, spanCalled, useDigestColumns, usePast, useSparks } from "../past";
import { count, micros, moment, rate, seconds, share } from "../text";
import { type Column, Failure, Panel, Search, Spark, Stat, Table } from "../ui";
import { Route } from "./rules";

/** Columns by which the proxy can order. */
const ORDERS: Record<string, string> = {
  "Server time": "sum_time",
  Count: "count_star",
  Max: "max_time",
  "Rows sent": "sum_rows_sent",
  "Rows affected": "sum_rows_affected",
  Errors: "errors",
  "Last seen": "last_seen",
};

export function StatementsPage(props: PageProps) {
  const [digest] = props.path;
  return digest ? <OneDigest {...props} digest={digest} /> : <AllDigests {...props} />;
}

function AllDigests({ lookAt }: PageProps) {
  const live = useLive();
  const [order, setOrder] = useState("sum_time");
  const [search, setSearch] = useState("");
  const [found, setFound] = useState<Digests>();
  const [failed, setFailed] = useState("");
  useEffect(() => {
    lookAt(`statements=${order}`);
  }, [order]);
  // A search asks for all digests, so it is done once and not again and again.
  useEffect(() => {
    setFailed("");
    if (!search) return setFound(undefined);
    let isCurrent = true;
    const timer = window.setTimeout(() => {
      api.digests(order, search).then(
        (told) => {
          if (!isCurrent) return;
          noteDigests(told);
          setFound(told);
        },
        (error: Error) => isCurrent && setFailed(error.message),
      );
    }, 250);
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
  }, [search, order]);
  const told = search ? found : live.statements?.order === order ? live.statements : undefined;
  const sparks = useSparks((told?.rows ?? []).map((row) => row.digest));
  const last = (row: Digest) => live.digests.get(digestKey(row))?.rates ?? [];
  const columns: Column<Digest>[] = [
    {
      name: "Statement",
      show: (row) => (
        <a href={`#/statements/${row.digest}`} class="statement">
          <code>{row.text}</code>
        </a>
      ),
      isWide: true,
    },
    {
      name: "Server time",
      show: (row) => (
        <>
          {share(row.time, told?.all_time ?? 0)} <small>{seconds(row.time / 1e6)}</small>
        </>
      ),
      by: (row) => row.time,
      isNumber: true,
    },
    { name: "Count", show: (row) => count(row.count), by: (row) => row.count, isNumber: true },
    {
      name: "Now",
      show: (row) => (
        <span class="with-spark">
          <Spark values={last(row)} label="executions per second" />
          <span>{rate(last(row).at(-1))}</span>
        </span>
      ),
      isNumber: true,
    },
    {
      name: "Last hour",
      show: (row) => (
        <Spark values={sparks.get(row.digest) ?? []} label="executions per second in the last hour" />
      ),
    },
    { name: "p50", show: (row) => micros(row.p50), isNumber: true },
    { name: "p95", show: (row) => micros(row.p95), isNumber: true },
    { name: "Max", show: (row) => micros(row.max), by: (row) => row.max, isNumber: true },
    { name: "Errors", show: (row) => count(row.errors), by: (row) => row.errors, isNumber: true },
    { name: "Rows sent", show: (row) => count(row.sent), by: (row) => row.sent, isNumber: true },
    { name: "Rows affected", show: (row) => count(row.affected), by: (row) => row.affected, isNumber: true },
    { name: "Hostgroup", show: (row) => row.hostgroup, isNumber: true },
    { name: "User", show: (row) => row.user },
    { name: "Schema", show: (row) => row.schema },
    { name: "Last seen", show: (row) => moment(row.last), by: (row) => row.last, isNumber: true },
  ];
  const name = Object.entries(ORDERS).find(([, column]) => column === order)?.[0] ?? "";
  return (
    <Panel
      title={search ? "Found" : "The heaviest"}
      aside={<Search value={search} set={setSearch} label="Text, user, schema or digest" />}
    >
      <Failure text={failed} />
      {told ? (
        <>
          <p class="quiet">
            {told.found !== undefined
              ? `${count(told.found)} found; the first ${count(told.rows.length)} by ${name.toLowerCase()}.`
              : `The first ${count(told.rows.length)} by ${name.toLowerCase()}; ${count(told.in_tables)} rows are in the workers' tables, ${count(told.evicted)} had to leave.`}
          </p>
          <Table
            label="Statements by digest"
            columns={columns}
            rows={told.rows}
            rowKey={digestKey}
            empty="No statement has come yet."
            order={{ name, set: (name) => setOrder(ORDERS[name] ?? "sum_time") }}
          />
        </>
      ) : (
        <p class="empty">Waiting for the workers …</p>
      )}
    </Panel>
  );
}

function OneDigest({ digest, session, theme, path }: PageProps & { digest: string }) {
  const live = useLive();
  const span = spanCalled(path[1] === "live" ? undefined : path[1]);
  const [told, setTold] = useState<Digests>();
  const [failed, setFailed] = useState("");
  useEffect(() => {
    let isCurrent = true;
    let timer = 0;
    const ask = () =>
      api
        .digests("sum_time", digest)
        .then(
          (told) => {
            if (!isCurrent) return;
            noteDigests(told);
            setTold(told);
            setFailed("");
          },
          (error: Error) => isCurrent && setFailed(error.message),
        )
        .finally(() => {
          if (isCurrent) timer = window.setTimeout(ask, 5_000);
        });
    void ask();
    return () => {
      isCurrent = false;
      window.clearTimeout(timer);
    };
  }, [digest]);
  const rows = told?.rows.filter((row) => row.digest === digest) ?? [];
  const first = rows[0];
  return (
    <>
      <p>
        <a href="#/statements">← All statements</a>
      </p>
      <Failure text={failed} />
      {told && !first && <p class="empty">No statement with the digest {digest} is in the table.</p>}
      {first && (
        <>
          <Panel title={`Digest ${digest}`}>
            <pre class="code">{first.text}</pre>
            <dl class="stats">
              <Stat name="Server time" value={share(sum(rows, "time"), told?.all_time ?? 0)}
                note={seconds(sum(rows, "time") / 1e6)} />
              <Stat name="Executions" value={count(sum(rows, "count"))}
                note={`first ${moment(Math.min(...rows.map((row) => row.first)))}`} />
              <Stat name="Errors" value={count(sum(rows, "errors"))}
                note={share(sum(rows, "errors"), sum(rows, "count"))} kind={sum(rows, "errors") ? "warn" : ""} />
              <Stat name="Mean" value={micros(sum(rows, "time") / Math.max(sum(rows, "count"), 1))}
                note={`max ${micros(Math.max(...rows.map((row) => row.max)))}`} />
              <Stat name="Rows sent" value={count(sum(rows, "sent") / Math.max(sum(rows, "count"), 1))} note="each time" />
            </dl>
          </Panel>
          <DigestPast digest={digest} span={span} theme={theme} />
          <Panel title="Where it goes">
            <Table
              label="By hostgroup, user and schema"
              rows={rows}
              rowKey={digestKey}
              empty=""
              columns={[
                { name: "Hostgroup", show: (row) => row.hostgroup, isNumber: true },
                { name: "User", show: (row) => row.user },
                { name: "Schema", show: (row) => row.schema },
                { name: "Count", show: (row) => count(row.count), by: (row) => row.count, isNumber: true },
                {
                  name: "Now",
                  show: (row) => {
                    const rates = live.digests.get(digestKey(row))?.rates ?? [];
                    return (
                      <span class="with-spark">
                        <Spark values={rates} label="executions per second" />
                        <span>{rate(rates.at(-1))}</span>
                      </span>
                    );
                  },
                  isNumber: true,
                },
                { name: "Min", show: (row) => micros(row.min), by: (row) => row.min, isNumber: true },
                { name: "p50", show: (row) => micros(row.p50), by: (row) => row.p50, isNumber: true },
                { name: "p95", show: (row) => micros(row.p95), by: (row) => row.p95, isNumber: true },
                { name: "p99", show: (row) => micros(row.p99), by: (row) => row.p99, isNumber: true },
                { name: "Max", show: (row) => micros(row.max), by: (row) => row.max, isNumber: true },
                { name: "Errors", show: (row) => count(row.errors), by: (row) => row.errors, isNumber: true },
                { name: "Last seen", show: (row) => moment(row.last), by: (row) => row.last, isNumber: true },
              ]}
            />
          </Panel>
          {session.role !== "look" && (
            <Panel title="Why it goes there">
              <Route user={first.user} schema={first.schema} sql={first.text} isAsked />
            </Panel>
          )}
        </>
      )}
    </>
  );
}

/** How it was before, over restarts of the proxy. */
function DigestPast({ digest, span, theme }: { digest: string; span: Span; theme: string }) {
  const { past, failed } = usePast(span, digest);
  const data = useDigestColumns(past, digest);
  const of = `of the digest over the last ${span.long}`;
  return (
    <>
      <div class="over">
        <Spans base={`#/statements/${digest}`} current={span} without="live" />
        {failed && <p class="quiet">Its past is not known: {failed}.</p>}
      </div>
      {!failed && (
        <div class="charts">
          <RatesAndLatency
            what="executions"
            of={of}
            titles={["Executions per second", "Its latency"]}
            span={span}
            theme={theme}
            data={data}
          />
        </div>
      )}
    </>
  );
}

type Summed = "time" | "count" | "errors" | "sent";
function sum(rows: Digest[], of: Summed): number {
  return rows.reduce((all, row) => all + row[of], 0);
}
