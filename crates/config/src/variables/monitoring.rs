//! What servers are asked for, roles, switchovers and failovers.

macro_rules! monitoring {
    ([$($before:tt)*] $next:ident $($later:ident)*) => { $next! { [$($before)*

    /// Whose account on the servers reads their grant tables, so that users need not be written
    /// twice: a user of the configuration with a password that opens servers, which may be
    /// inactive for clients. Its account there needs `SELECT` on the schema `mysql`. Empty: users
    /// are those of the configuration only.
    server_users_account: String = String::new(), Range::Text(512), "", Live, "0.1.0";

    /// The hostgroup whose servers are asked for users, one after the other until one answers. It
    /// is these users' default hostgroup too.
    server_users_hostgroup: u32 = 0, Range::Numbers(0, u32::MAX as u64), "", Live, "0.1.0";

    /// How often they are asked. They are asked too when a client was to be refused, or when a
    /// server has refused one of these users.
    server_users_interval: u64 = 60_000, Range::Numbers(1_000, DAY_MS), "ms", Live, "0.1.0";

    /// How long a login waits at most for what the servers say of its user, which is asked for
    /// unless that was done within the last second. After it, what is known counts. 0 asks at the
    /// interval only.
    server_users_check_timeout: u64 = 1_000, Range::Numbers(0, 60_000), "ms", Live, "0.1.0";

    /// Whose account asks servers who they are and how far they lag behind: a user of the
    /// configuration with a password that opens servers, which may be inactive for clients. Its
    /// account there needs `REPLICATION CLIENT` (MariaDB: `SLAVE MONITOR`). Empty:
    /// `monitor_username`; or, as long as that has its default, the first active user with a
    /// password that opens servers.
    monitor_account: String = String::new(), Range::Text(512), "", Live, "0.1.0";

    /// As whom `SWITCHOVER` changes servers: a user of the configuration with a password that opens
    /// servers, which may be inactive for clients. What its account needs there is said in
    /// `docs/manual/switchover.md`. Empty: as `monitor_account`.
    switchover_account: String = String::new(), Range::Text(512), "", Live, "0.1.0";

    /// As whom servers replicate from each other behind a `SWITCHOVER`: a user of the configuration
    /// with a password in clear text, which may be inactive for clients. Its account needs
    /// `REPLICATION SLAVE` on each server. Without it, no replication is switched; groups are.
    replication_account: String = String::new(), Range::Text(512), "", Live, "0.1.0";

    /// How long a `SWITCHOVER` waits for what is open on the writer: transactions that have not
    /// ended then are lost. Everything that begins meanwhile waits.
    switchover_drain_timeout: u64 = 3_000, Range::Numbers(0, 60_000), "ms", Live, "0.1.0";

    /// How long a `SWITCHOVER` may take until the new writer writes; beyond it, it is undone. Less
    /// than what statements may wait.
    switchover_timeout: u64 = 8_000, Range::Numbers(100, 600_000), "ms", Live, "0.1.0";

    /// The program that sees to it that a lost writer takes no more writes, with its arguments, as
    /// in `cluster_event_script`: `$EVENT` is `fence`, `$INITIATOR` the lost writer. It is run in a
    /// failover when that is neither read-only nor refuses connections. Only if it ends with 0,
    /// within `script_time_max`, another server is promoted. Empty: see `promote_unreachable`.
    fence_script: String = String::new(), Range::Text(1_024), "", Live, "0.1.0";

    /// Whether a failover promotes a server although the lost writer could not be fenced: it may
    /// still take writes of clients that reach it by another way, and these are lost.
    promote_unreachable: bool = false, Range::All, "", Live, "0.1.0";

    /// How long after a failover no other one of that cluster begins by itself; `CLEAR FAILOVER`
    /// ends that time.
    failover_block: u64 = 3_600_000, Range::Numbers(0, DAY_MS), "ms", Live, "0.1.0";

    /// How often servers with a `max_replication_lag` are asked.
    monitor_replication_lag_interval: u64 = 10_000, Range::Numbers(100, 604_800_000), "ms", Live,
        "0.1.0";

    /// How long the answer may take. Without one it stays as it was.
    monitor_replication_lag_timeout: u64 = 1_000, Range::Numbers(100, 600_000), "ms", Live, "0.1.0";

    /// Answers beyond `max_replication_lag`, one after the other, before a server is taken out. The
    /// first within it brings it back.
    monitor_replication_lag_count: u32 = 1, Range::Numbers(1, 10), "", Live, "0.1.0";

    /// The table of heartbeats, `schema.table`, by which lag is told in place of what replicas say
    /// of their replication. Empty: none. Its columns are those of pt-heartbeat: `ts`, the time of
    /// its server without `--utc`, and `server_id`. The newest row counts. A server that has none,
    /// or that the account may not read (`SELECT`), is asked for its replication.
    monitor_replication_lag_use_percona_heartbeat: HeartbeatTable = HeartbeatTable::default(),
        Range::Text(129), "", Live, "0.1.0";

    /// How often Trunkline notes the time in that table itself, on the only server of each writer
    /// hostgroup that has readers. 0: never, pt-heartbeat does. The account of the monitor needs
    /// `INSERT` and `DELETE` there, and may not write where `read_only` is set: a former primary
    /// must not take it.
    monitor_heartbeat_interval: u64 = 0, Range::Numbers(0, 60_000), "ms", Live, "0.1.0";

    /// What counts as the lag of a replica whose replication does not run.
    monitor_slave_lag_when_null: u64 = 60, Range::Numbers(0, 604_800), "s", Live, "0.1.0";

    /// Whether servers are asked who they are and how far they lag behind. Off, everybody keeps the
    /// role that it has.
    monitor_enabled: bool = true, Range::All, "", Live, "0.1.0";

    /// As whom servers are asked if `monitor_account` is empty; see there for what the account
    /// needs. If this and the password are the default, only clusters of ProxySQL's tables are
    /// asked by it.
    monitor_username: String = "monitor".to_owned(), Range::Text(512), "", Live, "0.1.0";

    /// The password of `monitor_username`, in clear text. Use `monitor_account` where a file should
    /// not have it.
    monitor_password: Secret<String> = Secret::new("monitor".to_owned()), Range::Text(512), "",
        Live, "0.1.0";

    /// How often a connection is opened to each server and closed again, to see whether that can be
    /// done: `monitor.mysql_server_connect_log`.
    monitor_connect_interval: u64 = 120_000, Range::Numbers(100, 604_800_000), "ms", Live, "0.1.0";

    /// How long that may take.
    monitor_connect_timeout: u64 = 600, Range::Numbers(100, 600_000), "ms", Live, "0.1.0";

    /// How often each server is asked for a sign of life, on a connection that stands. Servers are
    /// asked only by an account that was given for it: `monitor_account`, or `monitor_username`.
    monitor_ping_interval: u64 = 8_000, Range::Numbers(100, 604_800_000), "ms", Live, "0.1.0";

    /// How long the answer may take.
    monitor_ping_timeout: u64 = 1_000, Range::Numbers(100, 600_000), "ms", Live, "0.1.0";

    /// Pings that fail one after the other before a server is shunned and its connections are
    /// closed, until it answers again. One that answers statements meanwhile is not; servers of a
    /// cluster have their roles instead.
    monitor_ping_max_failures: u32 = 3, Range::Numbers(1, 1_000_000), "", Live, "0.1.0";

    /// Whether a server of `mysql_replication_hostgroups` that becomes a writer goes on reading.
    monitor_writer_is_also_reader: bool = true, Range::All, "", Live, "0.1.0";

    /// How often the nodes of a Galera cluster are asked. Without a writer, they are asked every
    /// 100 ms; what statements see of a node has it asked at once.
    monitor_galera_healthcheck_interval: u64 = 5_000, Range::Numbers(50, 604_800_000), "ms", Live,
        "0.1.0";

    /// How long an answer may take.
    monitor_galera_healthcheck_timeout: u64 = 800, Range::Numbers(50, 600_000), "ms", Live,
        "0.1.0";

    /// How often the members of a group (Group Replication) are asked; see
    /// `monitor_galera_healthcheck_interval`.
    monitor_groupreplication_healthcheck_interval: u64 = 5_000, Range::Numbers(100, 604_800_000),
        "ms", Live, "0.1.0";

    /// How long an answer may take.
    monitor_groupreplication_healthcheck_timeout: u64 = 800, Range::Numbers(100, 600_000), "ms",
        Live, "0.1.0";

    /// How often the servers of a `[[cluster]]` are asked who they are and whether they take
    /// writes. While there is no writer, or it is in doubt, they are asked every 100 ms.
    monitor_read_only_interval: u64 = 1_000, Range::Numbers(100, 604_800_000), "ms", Live, "0.1.0";

    /// How long an answer may take. That one takes longer changes no role.
    monitor_read_only_timeout: u64 = 800, Range::Numbers(100, 600_000), "ms", Live, "0.1.0";

    /// How often the host names of servers are resolved again.
    resolve_interval: u64 = 30_000, Range::Numbers(100, DAY_MS), "ms", Live, "0.1.0";

    ] $($later)* } };
}
