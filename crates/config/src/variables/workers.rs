//! Listeners and workers.

macro_rules! workers {
    ([$($before:tt)*] $next:ident $($later:ident)*) => { $next! { [$($before)*

    /// Where clients connect: each entry is `ip:port`, `[ipv6]:port` or `unix:/path`. Every
    /// worker accepts on every entry. At least one is needed.
    listen: Vec<ListenAddress> = vec![ListenAddress::Tcp(every_address(6033))],
        Range::All, "", Restart, "0.1.0";

    /// Threads that serve clients. 0 takes one per core that the process may use, or one for each
    /// that `worker_cpus` lists.
    workers: usize = 0, Range::Numbers(0, 1_024), "threads", Restart, "0.1.0";

    /// Whether each worker stays on one CPU. `auto` takes those that the process may use, in their
    /// order; a list like `0-3,6` names them. Worth a try where servers or network interrupts have
    /// CPUs of their own; elsewhere the kernel knows better. Linux only.
    worker_cpus: WorkerCpus = WorkerCpus::Off, Range::All, "", Restart, "0.1.0";

    /// How workers receive and write. With `io_uring` the kernel puts what comes into buffers of a
    /// worker (1 MiB each), and a batch is written by one call; Linux 6.0 or later. It measured
    /// cheaper for 8 to 128 clients, and dearer for 1 and for more than 500. Where the kernel
    /// refuses it, as many containers do, `epoll` is taken and the log says so. `auto` is `epoll`.
    io: IoDriver = IoDriver::Auto, Range::All, "", Restart, "0.1.0";

    /// A worker that has served so many percent more commands than the average of all in the last
    /// second gives resting sessions to the least busy one: those without a transaction, an open
    /// cursor, more than 64 prepared statements, compression, or anything else that holds them to
    /// a connection or to their worker. 0 leaves sessions where they are.
    rebalance_threshold: u32 = 10, Range::Numbers(0, 1_000), "percent", Live, "0.1.0";

    ] $($later)* } };
}
