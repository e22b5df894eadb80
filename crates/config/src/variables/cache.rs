//! The result cache.

macro_rules! cache {
    ([$($before:tt)*] $next:ident $($later:ident)*) => { $next! { [$($before)*

    /// The most memory that the result cache takes, keys and records included. One result takes no
    /// more than an eighth of it. 0 switches the cache off, whatever rules say.
    query_cache_size_mb: u64 = 256, Range::Numbers(0, 10_485_760), "MB", Live, "0.1.0";

    /// After this part of its time a cached result is renewed by the first client that asks for it,
    /// while others still get the old one. 0 lets results expire instead.
    query_cache_soft_ttl_pct: u32 = 0, Range::Numbers(0, 100), "percent", Live, "0.1.0";

    /// Whether results with warnings are cached. The warnings are not: who gets the cached result
    /// is told of none.
    /// 0 does not, 1 does.
    query_cache_handle_warnings: u8 = 0, Range::Numbers(0, 1), "", Live, "0.1.0";

    /// Whether results without rows are cached, where a rule does not say so
    /// (`cache_empty_result`).
    query_cache_stores_empty_result: bool = true, Range::All, "", Live, "0.1.0";

    /// The longest result that is cached.
    query_cache_result_max: usize = 1_048_576, Range::Numbers(64, 1_073_741_824), "bytes", Live,
        "0.1.0";

    /// A Redis server that several proxies share cached results in, `redis://[user@]host[:port][/db]`.
    /// It is asked for what is not in memory. Empty shares nothing.
    query_cache_redis: Option<RedisServer> = None, Range::All, "", Live, "0.1.0";

    /// File with the password for it, in one line. It is read whenever a connection is opened.
    query_cache_redis_password_file: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// How long a statement waits for it before it goes on without it.
    query_cache_redis_timeout: u64 = 20, Range::Numbers(1, 10_000), "ms", Live, "0.1.0";

    ] $($later)* } };
}
