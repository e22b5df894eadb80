//! Tables that only Trunkline has.

use super::{DISK, MAIN, MAIN_AND_DISK, STATS, Table, int, integer, text};

pub(super) const TABLES: &[Table] = &[
    // What each variable does here: implemented, mapped or ignored, and how.
    Table::new(
        "trunkline_variables",
        MAIN,
        &[
            text("variable_name").needed().key(),
            text("support").needed(),
            text("range").needed(),
            text("reload").needed(),
            text("meaning").needed(),
        ],
        &[],
    ),
    // Token buckets: for each user or digest when the name is empty.
    Table::new(
        "trunkline_limits",
        MAIN_AND_DISK,
        &[
            int("active").needed().or("1").check("active IN (0,1)"),
            text("scope").needed().check("scope IN ('user','rule','digest')"),
            text("name").needed().or("''"),
            int("rate").needed().check("rate BETWEEN 1 AND 10000000"),
            int("burst").check("burst >= 1"),
            int("wait_max_ms").needed().or("0").check("wait_max_ms BETWEEN 0 AND 3600000"),
            text("comment").needed().or("''"),
        ],
        &["PRIMARY KEY (scope, name)"],
    ),
    // Every change of what runs.
    Table::new(
        "config_history",
        DISK,
        &[
            integer("revision").autoincrement(),
            int("changed_at").needed(),
            text("author").needed(),
            text("module").needed(),
            text("command").needed(),
            text("changes").needed(),
            text("content"),
        ],
        &[],
    ),
    Table::new(
        "stats_sessions",
        STATS,
        &[
            int("session_id").needed(),
            int("worker").needed(),
            text("username").needed(),
            text("client_address").needed(),
            text("schemaname").needed(),
            text("doing").needed(),
            int("doing_us").needed(),
            text("digest_text").needed(),
            int("hostgroup"),
            text("server"),
            text("pin_reasons"),
            int("held_us"),
        ],
        &[],
    ),
    Table::new(
        "stats_latency",
        STATS,
        &[
            text("scope").needed(),
            text("name").needed(),
            int("count").needed(),
            int("sum_us").needed(),
            int("p50_us").needed(),
            int("p95_us").needed(),
            int("p99_us").needed(),
            int("max_us").needed(),
        ],
        &["PRIMARY KEY (scope, name)"],
    ),
    Table::new(
        "stats_waits",
        STATS,
        &[
            text("wait").needed().key(),
            int("count").needed(),
            int("sum_us").needed(),
            int("p50_us").needed(),
            int("p95_us").needed(),
            int("p99_us").needed(),
            int("max_us").needed(),
            int("now").needed(),
        ],
        &[],
    ),
    Table::new(
        "stats_limits",
        STATS,
        &[
            text("scope").needed(),
            text("name").needed(),
            int("passed").needed(),
            int("delayed").needed(),
            int("refused").needed(),
        ],
        &[],
    ),
    Table::new(
        "stats_cache",
        STATS,
        &[
            int("rule_id").needed().key(),
            int("hits").needed(),
            int("misses").needed(),
            int("waits").needed(),
            int("stored").needed(),
            int("stored_bytes").needed(),
            int("sent_bytes").needed(),
            int("mean_age_ms").needed(),
        ],
        &[],
    ),
    Table::new(
        "stats_refusals",
        STATS,
        &[text("who").needed(), text("cause").needed(), int("count").needed()],
        &["PRIMARY KEY (who, cause)"],
    ),
];
