//! Rules, digests, the firewall, mirrors, the catalog.

macro_rules! texts {
    ([$($before:tt)*] $next:ident $($later:ident)*) => { $next! { [$($before)*

    /// How many times the flag that a rule sets (`flagOUT`) may start the rules again from the
    /// top. 0 only goes forward.
    query_processor_iterations: u32 = 0, Range::Numbers(0, 1_000_000), "", Live,
        "0.1.0";

    /// A file of fast routing rules, beside those in `[[fast_routing]]`: a line for each with user,
    /// schema, flag and hostgroup, and tabs between them. Empty reads none.
    fast_routing_file: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// Whether statements are digested and counted by digest. Rules with `digest` or
    /// `match_digest` need it.
    query_digests: bool = true, Range::All, "", Live, "0.1.0";

    /// Rows of the digest table, per worker. Statements beyond them are counted together.
    query_digests_max: usize = 10_000, Range::Numbers(1, 10_000_000), "rows", Restart, "0.1.0";

    /// Whether digest texts are in lower case.
    query_digests_lowercase: bool = false, Range::All, "", Live, "0.1.0";

    /// Whether the literal `NULL` becomes `?` in digest texts.
    query_digests_replace_null: bool = false, Range::All, "", Live, "0.1.0";

    /// Whether digits within names become `?` in digest texts.
    query_digests_no_digits: bool = false, Range::All, "", Live, "0.1.0";

    /// Whether comments are kept in digest texts.
    query_digests_keep_comment: bool = false, Range::All, "", Live, "0.1.0";

    /// How many values of a list stay as `?` in a digest text before `...` stands for the rest.
    query_digests_grouping_limit: u32 = 3, Range::Numbers(1, 2_089), "values", Live, "0.1.0";

    /// How many groups of values stay in a digest text before `...` stands for the rest. 0 keeps
    /// all.
    query_digests_groups_grouping_limit: u32 = 10, Range::Numbers(0, 2_089), "groups", Live,
        "0.1.0";

    /// The longest digest text. The digest is the hash of no more than this.
    query_digests_max_digest_length: usize = 2_048, Range::Numbers(16, 1_048_576), "bytes", Live,
        "0.1.0";

    /// How much of a statement its digest looks at.
    query_digests_max_query_length: usize = 65_000, Range::Numbers(16, 1_048_576), "bytes", Live,
        "0.1.0";

    /// Users who may ask with `EXPLAIN ROUTE` before a statement what would become of it, separated
    /// by commas; `*` is everybody. For others it is a statement like any other.
    explain_route_users: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// Stored functions and procedures that only read and leave nothing in their session, separated
    /// by commas: `price` in every schema, or `shop.in_stock`. What calls no other ones goes to the
    /// readers of the automatic split as other reads do.
    reading_routines: Routines = Routines::default(), Range::Text(65_536), "", Live, "0.1.0";

    /// Whether the firewall is asked: users run what its lists allow (`[[firewall_user]]`,
    /// `[[firewall_rule]]`). A user that is on no list runs nothing then.
    firewall_whitelist_enabled: bool = false, Range::All, "", Live, "0.1.0";

    /// What a statement that the firewall denies is answered with (error 1148), unless a rule
    /// answers it.
    firewall_whitelist_errormsg: String = "Firewall blocked this query".to_owned(),
        Range::Text(512), "", Live, "0.1.0";

    /// Copies of statements (`mirror_hostgroup`) that run at once, over all workers.
    mirror_max_concurrency: usize = 16, Range::Numbers(1, 8_192), "statements", Live, "0.1.0";

    /// Copies of statements that wait to run, over all workers. Those that find no place are
    /// dropped, and counted.
    mirror_max_queue_length: usize = 32_000, Range::Numbers(0, 1_048_576), "statements", Live,
        "0.1.0";

    /// For how long what a name means (a table, a view, one with triggers) is believed after the
    /// servers' dictionaries were asked. DDL through the proxy is known at once; one that goes past
    /// it, at most so long afterwards.
    catalog_age_max: u64 = 10_000, Range::Numbers(100, DAY_MS), "ms", Live, "0.1.0";

    /// Names of tables and views whose meaning is known at once, at most; about 200 bytes each.
    /// Beyond that, those asked for longest ago are forgotten.
    catalog_entries_max: usize = 200_000, Range::Numbers(1_000, 100_000_000), "names", Live,
        "0.1.0";

    /// How long a statement waits for what its names mean when they are met first. After that it
    /// goes the careful way: to the writer, alone on its connection. Its session keeps that until
    /// the answer is there, at most for `catalog_age_max` after its last statement.
    catalog_wait_ms: u64 = 100, Range::Numbers(0, 10_000), "ms", Live, "0.1.0";

    ] $($later)* } };
}
