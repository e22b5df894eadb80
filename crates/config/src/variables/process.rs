//! The process, and logs.

macro_rules! process {
    ([$($before:tt)*] $next:ident $($later:ident)*) => { $next! { [$($before)*

    /// Passwords remembered as verified, so that a client that logs in again with
    /// `caching_sha2_password` takes the fast path. 0 remembers none.
    verified_passwords_max: usize = 100_000, Range::Numbers(0, 10_000_000), "users", Restart,
        "0.1.0";

    /// Whether TCP keep-alive probes are sent on connections of clients and servers.
    use_tcp_keepalive: bool = true, Range::All, "", Live, "0.1.0";

    /// How long a connection may be silent before the first keep-alive probe. 0 leaves it to the
    /// system. A change is for new connections.
    tcp_keepalive_time: u32 = 120, Range::Numbers(0, 7_200), "s", Live, "0.1.0";

    /// Whether the system may write the process's memory into a core dump, and whether other
    /// processes of the same account may read it: both have passwords and keys in them. Debuggers
    /// and profilers need it.
    core_dumps: bool = false, Range::All, "", Restart, "0.1.0";

    /// File of the query log: a line of JSON for each statement whose rule has `log`, or for every
    /// one with `query_log_all`. Empty switches it off.
    query_log: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// Whether every statement is in the query log, unless it is left out by threshold or sample.
    query_log_all: bool = false, Range::All, "", Live, "0.1.0";

    /// How long a statement must take to be in the query log.
    query_log_threshold: u64 = 0, Range::Numbers(0, DAY_MS), "ms", Live, "0.1.0";

    /// How long a statement must take to count as slow (`Slow_queries`,
    /// `trunkline_statement_slow_total`): longer than this.
    long_query_time: u64 = 1_000, Range::Numbers(0, 20 * DAY_MS), "ms", Live, "0.1.0";

    /// File of the slow log: what took as long as `slow_log_threshold`, in MySQL's own form, which
    /// `mysqldumpslow` and `pt-query-digest` read. `query_log_redact` counts here as well. Empty
    /// switches it off.
    slow_log: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// How long a statement must take to be in the slow log.
    slow_log_threshold: u64 = 1_000, Range::Numbers(0, 20 * DAY_MS), "ms", Live, "0.1.0";

    /// One of so many statements is in the query log; those with an error always are.
    query_log_sample: u32 = 1, Range::Numbers(1, 1_000_000), "statements", Live, "0.1.0";

    /// Whether the query log and the slow log have digests in place of texts, so that no literal is
    /// in them.
    query_log_redact: bool = true, Range::All, "", Live, "0.1.0";

    /// File of the audit log: a line of JSON for each login, each end of a session, and each change
    /// by an administrator. Empty switches it off.
    audit_log: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// How long a file of the query log, the slow log or the audit log gets before it is renamed:
    /// `.1` is the latest.
    event_log_size: u64 = 104_857_600, Range::Numbers(4_096, 1_099_511_627_776), "bytes", Live,
        "0.1.0";

    /// Renamed files of each that are kept.
    event_log_files: u32 = 10, Range::Numbers(1, 1_000), "files", Live, "0.1.0";

    /// How much is logged. No level logs passwords, and none below `debug` logs statements.
    log_level: LogLevel = LogLevel::Info, Range::All, "", Live, "0.1.0";

    /// How a log line is written.
    log_format: LogFormat = LogFormat::Text, Range::All, "", Restart, "0.1.0";

    ] $($later)* } };
}
