//! What becomes of statements that take long or are lost.

macro_rules! statements {
    ([$($before:tt)*] $next:ident $($later:ident)*) => { $next! { [$($before)*

    /// How often a statement whose connection broke is sent again, where that is safe. A
    /// statement that may have had effects is never sent again.
    query_retries_on_failure: u32 = 1, Range::Numbers(0, 1_000), "", Live, "0.1.0";

    /// How long a statement may take, its wait for a connection included, before it is ended on its
    /// server and answered with error 1907. A rule's `timeout` goes before it. 0 means for ever.
    default_query_timeout: u64 = 0, Range::Numbers(0, 1_728_000_000), "ms", Live, "0.1.0";

    /// Whether a transaction that is lost with its server connection is repeated on another one,
    /// where nothing outside of it depends on that, and each result is the same. Otherwise its
    /// client is told 1213. A `[[user]]` may have its own word on it.
    transaction_replay: bool = false, Range::All, "", Live, "0.1.0";

    /// The most bytes that one transaction keeps to be repeated: its statements, and 256 for each.
    /// A longer one is not repeated.
    transaction_replay_max_bytes: usize = 1_048_576, Range::Numbers(1_024, 1_073_741_824),
        "bytes", Live, "0.1.0";

    /// The most bytes that all transactions of one worker keep. What begins beyond is not repeated.
    transaction_replay_worker_max_bytes: usize = 67_108_864, Range::Numbers(1_024, 68_719_476_736),
        "bytes", Live, "0.1.0";

    /// The most statements of a transaction that is repeated.
    transaction_replay_max_statements: usize = 1_000, Range::Numbers(1, 1_000_000),
        "statements", Live, "0.1.0";

    /// A transaction that began longer ago is not repeated.
    transaction_replay_max_age: u64 = 60_000, Range::Numbers(1, 86_400_000),
        "ms", Live, "0.1.0";

    /// How often one transaction is repeated before its client is told.
    transaction_replay_attempts: u32 = 5, Range::Numbers(1, 1_000), "", Live, "0.1.0";

    /// Whether a transaction that can be repeated is, where its server says that it is the victim
    /// of a deadlock (1213), or has waited too long for a lock (1205).
    transaction_replay_on_deadlock: bool = false, Range::All, "", Live, "0.1.0";

    /// What a client is told whose server connection is lost between a `COMMIT`, or a write in
    /// autocommit, and its answer. `auto`: the proxy asks the servers whether it was carried out,
    /// where the account may mark its connections for that; `off`: 2013. A `[[user]]` may have its
    /// own word on it.
    commit_outcome: CommitOutcomes = CommitOutcomes::Off, Range::All, "", Live, "0.1.0";

    /// The longest that a client waits until it is known what became of its `COMMIT`.
    commit_outcome_timeout: u64 = 10_000, Range::Numbers(100, 600_000), "ms", Live, "0.1.0";

    /// How long every statement is held back before it goes its way; a rule's `delay` is added.
    default_query_delay: u64 = 0, Range::Numbers(0, 3_600_000), "ms", Live, "0.1.0";

    /// Whether a stored procedure, a stored or loadable function, or a text prepared from something
    /// else than a plain literal keeps its session on its server connection (pin `routine`): it
    /// may leave what servers do not report, a user variable set by `INTO` or a named lock. Off for
    /// applications whose routines leave neither; what servers report still pins.
    routines_pin: bool = true, Range::All, "", Live, "0.1.0";

    ] $($later)* } };
}
