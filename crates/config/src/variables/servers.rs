//! Which server serves, sharing, queues, memory.

macro_rules! servers {
    ([$($before:tt)*] $next:ident $($later:ident)*) => { $next! { [$($before)*

    /// Failed connects in a row after which a server is shunned. 0 never shuns. An account at
    /// its own limit there (errors 1203 and 1226) counts for none.
    shun_on_failures: u32 = 5, Range::Numbers(0, 10_000_000), "failures", Live, "0.1.0";

    /// How long a shunned server is left alone before it is tried again.
    shun_recovery_time_sec: u64 = 10, Range::Numbers(0, 31_536_000), "s", Live, "0.1.0";

    /// How long the share of a server grows that comes back from a shun or an ejection: from a
    /// sixteenth of its weight to all of it. 0 gives it all at once.
    slow_start_ms: u64 = 10_000, Range::Numbers(0, 3_600_000), "ms", Live, "0.1.0";

    /// A server is ejected from its hostgroup when its statements take so many times as long as on
    /// the others (their median), and more than 5 ms, for two seconds. At most a third of a
    /// hostgroup is out, so one of two servers never is. 0 ejects no server for that.
    outlier_latency_factor: u64 = 5, Range::Numbers(0, 1_000), "", Live, "0.1.0";

    /// A server is ejected when so many of a hundred statements of a second failed by its fault: it
    /// was lost with them, or said that it is ill. 0 ejects no server for that.
    outlier_failed_percent: u32 = 50, Range::Numbers(0, 100), "%", Live, "0.1.0";

    /// How long a server is ejected for the first time. It is twice as long each time that follows
    /// soon, up to 5 minutes. Then it takes one statement at a time until one is answered well.
    outlier_ejection_ms: u64 = 10_000, Range::Numbers(100, 300_000), "ms", Live, "0.1.0";

    /// Where the proxy is. Servers of the same `zone` come first in their hostgroups, as long as
    /// they have room; those without one are near everywhere. Empty makes all servers near.
    zone: String = String::new(), Range::Text(255), "", Live, "0.1.0";

    /// The most statements that wait for a connection or are held, per hostgroup and worker. One
    /// more is refused at once.
    queue_max: usize = 10_000, Range::Numbers(0, 10_000_000), "statements", Live, "0.1.0";

    /// How many statements each server runs at once, over all workers and whatever they are; more
    /// wait in the proxy. `off`: as many as there are connections. `auto`: as many as make a
    /// difference, found by trying; each worker finds its own. Of a number each worker has its
    /// part, one at least. Statements of a session that holds its connection, as in a transaction,
    /// never wait for that, but count.
    server_concurrency: Concurrency = Concurrency::Off, Range::All, "statements", Live, "0.1.0";

    /// What makes statements one tenant's: their `user`, the `schema` that their session is in, or
    /// the label that a `rule` gives them (attribute `tenant`). Of the tenants that wait for a
    /// server, the one goes next that has used the least server time for its weight. `off`: who
    /// waits longest goes next.
    tenant_by: TenantScope = TenantScope::Off, Range::All, "", Live, "0.1.0";

    /// Which writes a read on a replica has to see: `off` for none in particular, those of its
    /// `session`, of its `user`, of everybody in the writer `hostgroup` or on the same servers
    /// (`global`), or all that are older than so many milliseconds (`bounded:500`). A rule, a
    /// `[[user]]` or a `[[hostgroup]]` of replicas may say otherwise.
    causal_reads: CausalReads = CausalReads::Off, Range::All, "", Live, "0.1.0";

    /// How long a read waits for a replica that has what its session wrote. 0 means not at all.
    /// What a token or `min_gtid` names, and not even the writer is known to have, is waited for at
    /// least 600 ms.
    causal_wait_ms: u64 = 1_000, Range::Numbers(0, 60_000), "ms", Live, "0.1.0";

    /// What becomes of a read for which no replica has what its session wrote in time: the
    /// `writer` answers it, or an `error` does, or a replica with what it has (`stale`).
    causal_fallback: CausalFallback = CausalFallback::Writer, Range::All, "", Live, "0.1.0";

    /// The most statements of different clients in flight on one server connection. Only reads that
    /// leave nothing behind and have been short lately share a connection. 1 switches it off.
    pipeline_depth_max: usize = 64, Range::Numbers(1, 1_024), "statements", Live, "0.1.0";

    /// When transactions begin. `begin`: the proxy answers `BEGIN`, `START TRANSACTION` and a `SET
    /// autocommit` by itself where it knows what a server would say, and sends it with the first
    /// statement behind it, in one write; the session has no server connection until then. Where a
    /// server may refuse it, a write waits for its answer (limits.md). A `COMMIT` or `ROLLBACK` of
    /// a transaction in which nothing was sent is answered as well. `off`: all of these go to a
    /// server at once. A user, a hostgroup and a rule may say otherwise.
    lazy_transactions: LazyTransactions = LazyTransactions::Begin,
        Range::All, "", Live, "0.1.0";

    /// The longest that a worker leaves its sockets alone while many statements are in flight on
    /// shared connections, so that several answers come in one read. It is a small part of what
    /// these statements take, if that is less. 0 switches it off.
    coalesce_max_us: u64 = 200, Range::Numbers(0, 10_000), "µs", Live, "0.1.0";

    /// The most idle connections kept, per server and worker; what comes back beyond them is
    /// closed. 0 sets no limit below the server's `max_connections`.
    idle_connections_max: u32 = 0, Range::Numbers(0, 1_000_000), "connections", Live, "0.1.0";

    /// How long a connection to a server may be idle before it is closed. 0 means for ever.
    idle_connection_timeout: u64 = 300_000, Range::Numbers(0, DAY_MS), "ms", Live, "0.1.0";

    /// How often an idle connection to a server is pinged, to keep it and to notice its loss.
    ping_interval_server_msec: u64 = 120_000, Range::Numbers(1_000, 604_800_000), "ms", Live,
        "0.1.0";

    /// Bytes of a result that may wait for a slow client. Beyond them the server is not read any
    /// more until the client has caught up.
    client_buffer_max: usize = 262_144, Range::Numbers(16_384, 1_073_741_824), "bytes", Live,
        "0.1.0";

    /// Bytes of results that may wait for slow clients in all. While there are more, no more than
    /// 16 KiB wait for each; what has come already stays.
    buffers_max: usize = 1_073_741_824, Range::Numbers(1_048_576, 1_099_511_627_776), "bytes", Live,
        "0.1.0";

    /// Bytes of memory for all that clients and administrators can make grow: statements that come
    /// in, long parameters, prepared texts, results that wait, the result cache. Near it new
    /// statements wait, and then whoever holds most is refused with error 1041. 0 takes half of
    /// the machine's memory, or of what its cgroup may have if that is less.
    memory_max: u64 = 0, Range::Numbers(0, 1_099_511_627_776), "bytes", Live, "0.1.0";

    /// How long a graceful stop waits for running statements and transactions before it closes
    /// what is left.
    stop_timeout: u64 = 30_000, Range::Numbers(0, DAY_MS), "ms", Live, "0.1.0";

    ] $($later)* } };
}
