//! Each server by itself.

use crate::{
    facts::{Answers, Facts, ServerFacts},
    finding::{Danger, Finding},
};

/// Connections that a server keeps for administrators and replicas.
const RESERVED: u64 = 5;
/// A clock that differs by more is told, ms.
const CLOCK_MAX_MS: u64 = 1_000;

pub(crate) fn judge(facts: &Facts, server: &ServerFacts, found: &mut Vec<Finding>) {
    let mut say = |danger, what: String, advice: String| {
        found.push(Finding::new(danger, &server.address, what, advice));
    };
    if !server.is_private {
        let what = "passwords' proofs and data go to it in clear over the network";
        let advice = "use_ssl = 1 of the server; ssl_mode says how much is checked";
        say(Danger::Note, what.to_owned(), advice.to_owned());
    }
    for (what, grant) in &server.lacking {
        say(Danger::Warning, what.clone(), grant.clone());
    }
    match &server.answers {
        Err(reason) => say(
            Danger::Severe,
            format!("it could not be asked: {reason}"),
            "see whether it runs, whether this machine may reach it, and whether \
             monitor_account exists there with that password"
                .to_owned(),
        ),
        Ok(answers) => {
            connections(facts, server, answers, &mut say);
            limits(facts, answers, &mut say);
            durability(server, answers, &mut say);
            habits(answers, &mut say);
            clock(answers, &mut say);
        }
    }
}

type Say<'a> = &'a mut dyn FnMut(Danger, String, String);

/// Whether as many connections fit as are configured.
fn connections(facts: &Facts, server: &ServerFacts, answers: &Answers, say: Say<'_>) {
    let wanted: u64 = server.pools.iter().map(|pool| pool.max_connections).sum();
    if let Some(max) = answers.number("max_connections")
        && wanted > max.saturating_sub(RESERVED)
    {
        let what = format!(
            "it takes {max} connections, and this proxy alone may open {wanted}: the server refuses \
             what is more (1040), replicas and administrators included"
        );
        let advice = "lower max_connections of the server here (all proxies together), or raise \
                      the server's";
        say(Danger::Warning, what, advice.to_owned());
    }
    if let Some(max) =
        answers.number("max_user_connections").filter(|max| (1..wanted).contains(max))
    {
        let what = format!(
            "max_user_connections is {max}, and this proxy may open {wanted} for one user (1203)"
        );
        say(Danger::Warning, what, "raise it, or lower max_connections here".to_owned());
    }
    let kept = wanted.saturating_mul(facts.settings.statements_per_connection);
    if let Some(max) = answers.number("max_prepared_stmt_count").filter(|max| *max < kept) {
        let what = format!(
            "max_prepared_stmt_count is {max}, and up to {kept} statements may be prepared there: \
             preparing more fails (1461)"
        );
        let advice = format!(
            "SET GLOBAL max_prepared_stmt_count = {}, or lower max_stmts_per_server",
            kept.min(4_194_304)
        );
        say(Danger::Note, what, advice);
    }
}

/// Limits of the server that are lower than the proxy's.
fn limits(facts: &Facts, answers: &Answers, say: Say<'_>) {
    let settings = &facts.settings;
    let packet = settings.max_allowed_packet;
    if let Some(max) = answers.number("max_allowed_packet").filter(|max| *max < packet) {
        let what = format!(
            "max_allowed_packet is {max} there and {packet} here: a statement in between ends its \
             connection, and is told as the server's 1153"
        );
        say(Danger::Note, what, format!("max_allowed_packet = {max} here, or more there"));
    }
    let idle_ms = match settings.idle_timeout_ms {
        0 => settings.ping_interval_ms,
        timeout_ms => settings.ping_interval_ms.min(timeout_ms),
    };
    if let Some(timeout) = answers.number("wait_timeout")
        && timeout.saturating_mul(1_000) <= idle_ms
    {
        let what = format!(
            "wait_timeout is {timeout} s, and idle connections are pinged every {} s: the server \
             closes them first",
            settings.ping_interval_ms / 1_000
        );
        let advice = format!(
            "ping_interval_server_msec = {}, or a longer wait_timeout",
            timeout.saturating_mul(500).max(1_000)
        );
        say(Danger::Warning, what, advice);
    }
}

/// What a writer that crashes may lose.
fn durability(server: &ServerFacts, answers: &Answers, say: Say<'_>) {
    if !server.pools.iter().any(|pool| pool.is_writer) || answers.replicates() {
        return;
    }
    let is_lax = |name: &str| answers.number(name).is_some_and(|value| value != 1);
    if is_lax("innodb_flush_log_at_trx_commit") {
        let value = answers.text("innodb_flush_log_at_trx_commit").unwrap_or_default();
        let what = format!(
            "innodb_flush_log_at_trx_commit is {value}: transactions of the last second may be \
             lost in a crash, though clients were told that they are committed"
        );
        say(Danger::Warning, what, "SET GLOBAL innodb_flush_log_at_trx_commit = 1".to_owned());
    }
    if answers.is_on("log_bin") == Some(true) && is_lax("sync_binlog") {
        let value = answers.text("sync_binlog").unwrap_or_default();
        let what = format!(
            "sync_binlog is {value}: after a crash replicas may have transactions that the writer \
             has lost"
        );
        say(Danger::Warning, what, "SET GLOBAL sync_binlog = 1".to_owned());
    }
}

/// Settings that surprise behind a proxy.
fn habits(answers: &Answers, say: Say<'_>) {
    if let Some(sql) = answers.text("init_connect").filter(|sql| !sql.is_empty()) {
        let what = format!(
            "init_connect runs `{sql}` once for each connection to the server, not for each client"
        );
        let advice = "have the application send it, or make it a global setting of the server";
        say(Danger::Warning, what, advice.to_owned());
    }
    if answers.is_on("autocommit") == Some(false) {
        let what = "autocommit is off by default: every read begins a transaction, which keeps its \
                    connection";
        say(Danger::Note, what.to_owned(), "SET GLOBAL autocommit = 1".to_owned());
    }
    if answers.is_on("skip_name_resolve") == Some(false) {
        let what = "skip_name_resolve is off: a name server that is slow makes connects slow";
        say(Danger::Note, what.to_owned(), "skip_name_resolve = 1 in its option file".to_owned());
    }
    if answers.text("binlog_format").is_some_and(|format| format.eq_ignore_ascii_case("STATEMENT"))
    {
        let what = "binlog_format is STATEMENT: replicas may come to other results than the writer";
        say(Danger::Warning, what.to_owned(), "SET GLOBAL binlog_format = 'ROW'".to_owned());
    }
}

fn clock(answers: &Answers, say: Say<'_>) {
    let off_ms = answers.clock_ahead_ms.unsigned_abs().saturating_sub(answers.clock_error_ms);
    if off_ms > CLOCK_MAX_MS {
        let way = if answers.clock_ahead_ms > 0 { "ahead of" } else { "behind" };
        let what = format!(
            "its clock is {off_ms} ms {way} this machine's: lag by heartbeat and times in logs are \
             wrong by that much"
        );
        say(Danger::Warning, what, "have both follow the same time server".to_owned());
    }
}
