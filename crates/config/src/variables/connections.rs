//! Prepared statements, and times of connections and sessions.

macro_rules! connections {
    ([$($before:tt)*] $next:ident $($later:ident)*) => { $next! { [$($before)*

    /// How hard zlib works for clients and servers that use it: 0 does not compress, 9 makes the
    /// shortest packets and takes the most time.
    protocol_compression_level: u8 = 3, Range::Numbers(0, 9), "", Live, "0.1.0";

    /// How hard zstd works towards servers with `compression = "zstd"`, and those servers towards
    /// Trunkline. A client with zstd names its own level; it gets no more than 9.
    zstd_compression_level: u8 = 3, Range::Numbers(1, 19), "", Live, "0.1.0";

    /// The most prepared statements of one client. One more is refused with error 1461.
    max_stmts_per_client: usize = 16_382, Range::Numbers(1, 1_048_576), "statements", Live,
        "0.1.0";

    /// The most statements that stay prepared on one connection to a server; the least recently
    /// used one is closed for a new one. 1 keeps the last one only.
    max_stmts_per_connection: usize = 100, Range::Numbers(1, 16_384), "statements", Live, "0.1.0";

    /// Beyond so many prepared statements on one server, over all connections and workers, a new
    /// one takes the place of the least recently used one of its connection. It should be below
    /// the server's `max_prepared_stmt_count`, which is 16382 unless it was changed.
    max_stmts_per_server: u32 = 12_000, Range::Numbers(1, 4_194_304), "statements", Live, "0.1.0";

    /// How long one attempt to connect to a server may take, authentication included.
    connect_timeout_server: u64 = 1_000, Range::Numbers(10, 120_000), "ms", Live, "0.1.0";

    /// How long a statement waits for a connection to a server in all: attempts, other servers
    /// and the queue. After that it is answered with an error that names the cause.
    connect_timeout_server_max: u64 = 10_000, Range::Numbers(10, 3_600_000), "ms", Live, "0.1.0";

    /// The most of a server's `max_connections` that idle sessions of one user may hold while
    /// statements of others have waited for half of `connect_timeout_server_max`: beyond that the
    /// one that has rested longest loses its connection, and with it its transaction, temporary
    /// tables and locks; its next statement is answered with error 1213 if only a transaction was
    /// lost, else with 2013. With 100 none does.
    pinned_share_max: u32 = 90, Range::Numbers(1, 100), "percent", Live, "0.1.0";

    /// How long statements, logins and connections of users with `fast_forward` are held while the
    /// writers' hostgroup of a cluster has no writer. After that, or if `queue_max` are held
    /// already, they are answered with an error that says so. A `[[cluster]]` may have a
    /// `hold_timeout` of its own. `PAUSE HOSTGROUP` pauses for so long unless it names a time.
    hold_timeout: u64 = 10_000, Range::Numbers(10, 3_600_000), "ms", Live, "0.1.0";

    /// How long a client may take for its handshake.
    connect_timeout_client: u64 = 10_000, Range::Numbers(500, 3_600_000), "ms", Live, "0.1.0";

    /// How long a client may be idle before it is disconnected. 0 means for ever.
    wait_timeout: u64 = 28_800_000, Range::Numbers(0, 1_728_000_000), "ms", Live, "0.1.0";

    ] $($later)* } };
}
