// The result cache: what it holds, and what it did for each rule.

import { useState } from "preact/hooks";
import { api, type Row } from "../api";
import { useLive } from "../live";
import type { PageProps } from "../main";
import { bytes, count, rate, share } from "../text";
import { Dialog, Failure, Panel, Stat, Table, useAsked } from "../ui";

export function CachePage({ session, say }: PageProps) {
  const { now } = useLive();
  const [isAsked, setAsked] = useState(false);
  const rules = useAsked(() => api.rows("SELECT * FROM stats_cache ORDER BY rule_id"), []);
  const cache = now?.cache;
  const flush = () =>
    api
      .run("PROXYSQL FLUSH QUERY CACHE")
      .then(
        (done) => say(`The cache was emptied; it had ${count(done.affected)} results.`),
        (error: Error) => say(`The cache was not emptied: ${error.message}`),
      )
      .finally(() => {
        setAsked(false);
        rules.again();
      });
  return (
    <>
      {cache && (
        <dl class="stats">
          <Stat name="Results" value={count(cache.entries)} />
          <Stat name="Size" value={bytes(cache.bytes)} note={`of ${bytes(cache.max)}`} />
          <Stat name="Asked for" value={rate(cache.lookups)} />
          <Stat name="Found" value={rate(cache.hits)} note={share(cache.hits ?? 0, cache.lookups ?? 0)} />
        </dl>
      )}
      <Panel
        title="By rule"
        aside={
          <>
            {session.role !== "look" && (
              <button type="button" class="danger small" onClick={() => setAsked(true)}>
                Empty the cache …
              </button>
            )}
            <button type="button" class="small" onClick={rules.again}>
              Refresh
            </button>
          </>
        }
      >
        <Failure text={rules.failed} />
        <Table<Row>
          label="The cache by rule"
          rows={rules.told?.rows ?? []}
          rowKey={(row) => String(row.rule_id)}
          empty="No rule has made a statement cacheable yet (cache_ttl)."
          of={rules}
          columns={[
            { name: "Rule", show: (row) => (row.rule_id === 0 ? "hints" : row.rule_id), by: (row) => Number(row.rule_id), isNumber: true },
            { name: "Hits", show: (row) => count(Number(row.hits)), by: (row) => Number(row.hits), isNumber: true },
            { name: "Share", show: (row) => share(Number(row.hits), Number(row.hits) + Number(row.misses)), isNumber: true },
            { name: "Misses", show: (row) => count(Number(row.misses)), by: (row) => Number(row.misses), isNumber: true },
            { name: "Waited for an equal one", show: (row) => count(Number(row.waits)), by: (row) => Number(row.waits), isNumber: true },
            { name: "Stored", show: (row) => count(Number(row.stored)), by: (row) => Number(row.stored), isNumber: true },
            { name: "Stored bytes", show: (row) => bytes(Number(row.stored_bytes)), by: (row) => Number(row.stored_bytes), isNumber: true },
            { name: "Sent bytes", show: (row) => bytes(Number(row.sent_bytes)), by: (row) => Number(row.sent_bytes), isNumber: true },
            { name: "Mean age", show: (row) => `${row.mean_age_ms} ms`, by: (row) => Number(row.mean_age_ms), isNumber: true },
          ]}
        />
      </Panel>
      {isAsked && (
        <Dialog title="Empty the cache?" close={() => setAsked(false)}
          confirm={{ name: "Empty it", isDangerous: true, run: () => void flush() }}>
          <p>All {count(cache?.entries)} results are thrown away, and servers are asked again.</p>
        </Dialog>
      )}
    </>
  );
}
