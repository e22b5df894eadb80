//! The way of one statement, without sending it: what `trunkline explain` and `EXPLAIN ROUTE`
//! show.

mod effects;
mod proof;
mod rules;

use std::net::IpAddr;

use trunkline_catalog::{Catalog, Proof};
use trunkline_config::Snapshot;
use trunkline_protocol::{response::Outcome, response::write::put_text_result};
use trunkline_rules::{Answer, Decision, FirewallAsk, FirewallVerdict, Question};
use trunkline_session::tracker::{
    Charset, PinReason, Pins, Schema, SessionState, Trust, apply_outcome,
};
use trunkline_sql::{
    analysis::{Access, Analysis, StatementKind, TransactionEffect, analyse_knowing},
    digest::Digester,
    hint::Hints,
    token::Modes,
};
use trunkline_stats::report::state_name;
use trunkline_topology::{HostgroupId, ServerState, User};

use crate::{
    ClientId,
    rooms::{Core, Exchange},
    routing::kept::has_state,
    routing::split::{Transactions, hinted, hinted_server, ruled, split},
    statement::analysis::digest_settings,
};

/// The setting's word for every user.
const EVERYBODY: &str = "*";

/// One line: what it is about, and what there is to say.
pub type ExplainRow = (&'static str, String);

/// A statement that is asked about, and who would send it.
#[derive(Debug, Clone, Copy)]
pub struct Explaining<'a> {
    /// The user.
    pub user: &'a User,
    /// The session's schema; empty for none.
    pub schema: &'a [u8],
    /// The flag that rules begin with.
    pub flag: u32,
    /// The client's address; rules do not test one that is not known.
    pub client_addr: Option<IpAddr>,
    /// The listener's address.
    pub proxy_addr: Option<IpAddr>,
    /// The listener's port.
    pub proxy_port: Option<u16>,
    /// How the session reads texts.
    pub modes: Modes,
    /// What the session has said of its transactions.
    pub transactions: Transactions,
    /// The statement.
    pub sql: &'a [u8],
    /// Now, for servers that are shunned for a while, ms.
    pub now_ms: u64,
    /// What names mean on the servers; without it they are taken for plain base tables.
    pub catalog: Option<&'a Catalog>,
}

/// Rows in the making.
#[derive(Debug, Default)]
struct Rows(Vec<ExplainRow>);

impl Rows {
    fn push(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.push((name, value.into()));
    }
}

/// What becomes of a statement of a session that holds no connection, step by step.
pub fn explain(snapshot: &Snapshot, asking: &Explaining<'_>) -> Vec<ExplainRow> {
    let settings = &snapshot.settings;
    let Explaining { user, sql, now_ms, .. } = *asking;
    let mut digester = Digester::new();
    let digest = digester.digest(sql, &digest_settings(settings));
    let question = Question {
        username: &user.name,
        schema: asking.schema,
        flag: asking.flag,
        client_addr: asking.client_addr,
        proxy_addr: asking.proxy_addr,
        proxy_port: asking.proxy_port,
        digest: settings.query_digests.then_some(digest.hash),
        digest_text: digest.text,
        query: sql,
        may_rewrite: true,
        chance: 0,
    };
    let mut out = Rows::default();
    if !user.active {
        out.push("user", "is not active, and can't log in");
    }
    if user.fast_forward {
        out.push("user", "is fast_forward: its statements are passed on without a look");
        servers(&mut out, snapshot, user.default_hostgroup, now_ms);
        return out.0;
    }
    out.push("digest", String::from_utf8_lossy(digest.text));
    out.push("hash", digest.format().to_string());
    let (visits, decision) = snapshot.rules.explain(&question);
    let sent = decision.rewritten.as_deref().unwrap_or(sql);
    let analysis = analyse_knowing(sent, &asking.modes, &settings.reading_routines);
    let group = user.default_hostgroup;
    let (proof, said) = proof::proof(&analysis, asking, group);
    let hints = Hints::find(sent, digest.first_comment, &asking.modes);
    let hinted_proof = hints.hostgroup.map_or(proof, |number| {
        let named = HostgroupId(number);
        let group = snapshot.reader_group(named).map_or(named, |it| it.writer_hostgroup);
        proof::proof(&analysis, asking, group).0
    });
    let asked = TrackerSetting {
        analysis,
        proof,
        hinted_proof,
        hints,
        schema: asking.schema,
        transactions: asking.transactions,
        now_ms,
    };
    out.push("kind", kind(&asked.analysis));
    out.push("access", access(&asked.analysis));
    out.push("proof", said);
    for effect in effects::lines(&asked.analysis) {
        out.push("effect", effect);
    }
    let pins = pins(&asked, settings.routines_pin);
    if !pins.is_empty() {
        out.push("pins", format!("{pins}: the session stays on its connection"));
    }
    rules::visits(&mut out, snapshot, &visits);
    if let Some(text) = &decision.rewritten {
        out.push("sent as", String::from_utf8_lossy(text));
    }
    match decision.answer() {
        Some(Answer::Ok(text)) => {
            out.push("answer", format!("OK, from a rule: {text}"));
            return out.0;
        }
        Some(Answer::Error(text)) => {
            out.push("answer", format!("error 1148 (42000), from a rule: {text}"));
            return out.0;
        }
        None => {}
    }
    if firewall(&mut out, snapshot, asking, &decision, digest.hash, digest.text) {
        return out.0;
    }
    rules::orders(&mut out, &decision.effects);
    rules::cache(&mut out, &decision.effects, &asked.hints, (&asked.analysis, asked.proof));
    let default = user.default_hostgroup;
    let only_reads = asked.proof.reads && !asked.transactions.autocommit_off;
    let named = settings.query_digests.then(|| {
        hinted_server(&asked.hints, snapshot, default, now_ms)
            .filter(|(_, is_reader)| only_reads || !is_reader)
    });
    if let Some((key, _)) = named.flatten() {
        out.push("hostgroup", format!("{}, as a comment says", key.hostgroup));
        out.push("server", format!("{}, and no other", key.address));
        return out.0;
    }
    let (hostgroup, reason) = destination(snapshot, user, &asked, &decision);
    out.push("hostgroup", format!("{hostgroup}, {reason}"));
    servers(&mut out, snapshot, hostgroup, now_ms);
    out.0
}

/// What would hold the session when the statement has succeeded, in words.
fn pins(asked: &TrackerSetting<'_>, routines_pin: bool) -> String {
    let mut pins = Pins::default();
    let state = SessionState::new(Schema::from(asked.schema), Charset::Unknown);
    let trust = if routines_pin { Trust::Nothing } else { Trust::Reports };
    apply_outcome(&state, &mut pins, Some(&asked.analysis), &Outcome::default(), trust);
    if let TransactionEffect::Begin { .. } = asked.analysis.transaction {
        pins.pin(PinReason::Transaction);
    }
    let reasons: Vec<_> = pins.reasons().map(PinReason::name).collect();
    reasons.join(", ")
}

/// What the firewall says; true when it denies the statement.
fn firewall(
    out: &mut Rows,
    snapshot: &Snapshot,
    asking: &Explaining<'_>,
    decision: &Decision,
    digest: u64,
    digest_text: &[u8],
) -> bool {
    let settings = &snapshot.settings;
    if !settings.firewall_whitelist_enabled {
        return false;
    }
    let verdict = snapshot.guards.firewall.judge(&FirewallAsk {
        username: &asking.user.name,
        client_addr: asking.client_addr,
        schema: asking.schema,
        flag: decision.final_flag,
        digest: settings.query_digests.then_some((digest, digest_text)),
    });
    match verdict {
        FirewallVerdict::Pass => out.push("firewall", "lets it pass"),
        FirewallVerdict::Detected => out.push("firewall", "would deny it, and only detects"),
        FirewallVerdict::Denied => {
            let text = &settings.firewall_whitelist_errormsg;
            out.push("answer", format!("error 1148 (42000), from the firewall: {text}"));
        }
    }
    verdict == FirewallVerdict::Denied
}

impl Core {
    /// The statement that a client wants to have explained, if its user may ask.
    pub(crate) fn asks_for_route<'a>(&self, id: ClientId, text: &'a [u8]) -> Option<&'a [u8]> {
        let sql = after_words(text)?;
        let session = self.clients.get(id)?.session.as_ref()?;
        let users = &self.env.snapshot.settings.explain_route_users;
        let is_named = |name: &str| name == EVERYBODY || name == session.login.user.name;
        users.split(',').map(str::trim).any(is_named).then_some(sql)
    }
}

impl Exchange {
    /// `EXPLAIN ROUTE`: what would become of a statement of this session.
    pub(crate) fn answer_route(&mut self, id: ClientId, sql: &[u8]) {
        let Some(client) = self.core.clients.get(id) else {
            return;
        };
        let Some(session) = client.session.as_deref() else {
            return;
        };
        let asking = Explaining {
            user: &session.login.user,
            schema: session.settings.state.schema.name(),
            flag: session.settings.next_flag,
            client_addr: client.origin.peer.client_addr,
            proxy_addr: client.origin.peer.proxy_addr,
            proxy_port: client.origin.peer.proxy_port,
            modes: Modes { version: self.statements.analyses.version(), ..session.settings.modes },
            transactions: Transactions::of(&session.settings.state),
            sql,
            now_ms: self.core.env.now.ms(),
            catalog: Some(self.core.env.shared.catalog()),
        };
        let mut rows = Rows(explain(&self.core.env.snapshot, &asking));
        for lease in &session.leases {
            let reasons: Vec<_> = lease.pins.reasons().map(|reason| reason.name()).collect();
            let (hostgroup, reasons) = (lease.hostgroup, reasons.join(", "));
            rows.push("session", format!("is held on hostgroup {hostgroup}: {reasons}"));
            if has_state(lease) && hostgroup == session.login.user.default_hostgroup {
                let stays = "stays there with what the same servers answer, and with what asks \
                             for that, whatever rules and hints say";
                rows.push("session", stays);
            }
        }
        if session.is_in_transaction() {
            rows.push("session", "is in a transaction: the statement goes where that is");
        }
        let (format, status) = (session.login.format, session.settings.status);
        let cells = |(name, value): ExplainRow| {
            vec![Some(name.as_bytes().to_vec()), Some(value.into_bytes())]
        };
        let rows: Vec<_> = rows.0.into_iter().map(cells).collect();
        self.core.fx.stats.counters.statements_answered += 1;
        self.core.write_client(id, |out| {
            put_text_result(out, 1, format, status, &["step", "detail"], &rows);
        });
    }
}

/// What follows `EXPLAIN ROUTE`.
fn after_words(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.trim_ascii_start();
    for word in [&b"EXPLAIN"[..], b"ROUTE"] {
        let (head, tail) = rest.split_at_checked(word.len())?;
        let is_word =
            head.eq_ignore_ascii_case(word) && tail.first().is_some_and(u8::is_ascii_whitespace);
        rest = is_word.then(|| tail.trim_ascii_start())?;
    }
    Some(rest)
}

/// What is asked about, as it would be sent.
struct TrackerSetting<'a> {
    analysis: Analysis,
    proof: Proof,
    /// On the servers of the hostgroup that a comment names.
    hinted_proof: Proof,
    hints: Hints,
    schema: &'a [u8],
    transactions: Transactions,
    now_ms: u64,
}

fn kind(analysis: &Analysis) -> String {
    match analysis.statements {
        1 => analysis.kind.name().to_owned(),
        0 => "no statement at all".to_owned(),
        more => format!("{}, the first of {more} statements", analysis.kind.name()),
    }
}

/// Whether its text reads, or what speaks against it.
fn access(analysis: &Analysis) -> String {
    if analysis.access == Access::CertainlyReads {
        return "reads, if what it names only reads".to_owned();
    }
    let mut reasons = Vec::new();
    if !analysis.is_complete {
        reasons.push("it ends inside a quote or a comment, or holds NUL".to_owned());
    }
    if !analysis.depends.is_empty() {
        let names = format!("{:?}", analysis.depends).to_lowercase();
        reasons.push(format!("its answer depends on the connection's past {names}"));
    }
    if !analysis.effects.is_empty() {
        reasons.push("it leaves something behind in the session".to_owned());
    }
    match analysis.transaction {
        TransactionEffect::None => {}
        TransactionEffect::ImplicitCommit => reasons.push("it commits implicitly".to_owned()),
        TransactionEffect::Begin { .. }
        | TransactionEffect::Commit { .. }
        | TransactionEffect::Rollback { .. }
        | TransactionEffect::SetAutocommit(_) => {
            reasons.push("it begins or ends a transaction".to_owned());
        }
    }
    if reasons.is_empty() {
        reasons.push(match analysis.kind {
            StatementKind::Unknown => "it is not understood".to_owned(),
            StatementKind::Select | StatementKind::Show | StatementKind::Explain => {
                "it locks, writes, or depends on the server that runs it".to_owned()
            }
            kind => format!("{} is not a read", kind.name()),
        });
    }
    format!("may write: {}", reasons.join("; "))
}

/// Where a session that holds no connection sends it, and why: what step 5 of a worker decides.
fn destination(
    snapshot: &Snapshot,
    user: &User,
    asked: &TrackerSetting<'_>,
    decision: &Decision,
) -> (HostgroupId, String) {
    let default = user.default_hostgroup;
    let group = snapshot.writer_group(default);
    let analysis = &asked.analysis;
    let now_ms = asked.now_ms;
    let is_online = |readers| {
        let readers = snapshot.hostgroup(readers);
        readers.is_some_and(|hostgroup| {
            let mut servers = hostgroup.servers.iter();
            servers.any(|server| {
                server.weight > 0 && server.health.state(now_ms) == ServerState::Online
            })
        })
    };
    if snapshot.settings.query_digests
        && let Some(hostgroup) = hinted(
            &asked.hints,
            default,
            &snapshot.replication,
            (analysis, asked.hinted_proof),
            asked.transactions.autocommit_off,
            is_online,
        )
    {
        let is_named = asked.hints.hostgroup.is_none_or(|named| named == hostgroup.0);
        let reason = match is_named {
            true => "as a comment says",
            false => "the writer of what a comment names: it may write",
        };
        return (hostgroup, reason.to_owned());
    }
    let begins = asked.transactions.autocommit_off;
    let as_said = |named: HostgroupId, by: &str| match ruled(
        named,
        default,
        &snapshot.replication,
        (analysis, begins),
    ) {
        hostgroup if hostgroup == named => (hostgroup, format!("as {by} says")),
        writer => (writer, {
            let why = if begins { "autocommit is off" } else { "it is about a named lock" };
            format!("the writer of the readers that {by} names: {why}")
        }),
    };
    if !decision.applied {
        let (schema, flag) = (asked.schema, decision.final_flag);
        if let Some(hostgroup) = snapshot.fast_routes.find(&user.name, schema, flag) {
            return as_said(hostgroup, "fast routing");
        }
    }
    if let Some(hostgroup) = decision.effects.destination_hostgroup {
        return as_said(hostgroup, "a rule");
    }
    let reads = asked.proof.reads;
    let split = split(group, Some(analysis), reads, asked.transactions, is_online);
    (split.hostgroup(default), split.reason().to_owned())
}

fn servers(out: &mut Rows, snapshot: &Snapshot, hostgroup: HostgroupId, now_ms: u64) {
    let Some(group) = snapshot.hostgroup(hostgroup) else {
        return out.push("servers", format!("none: hostgroup {hostgroup} has no server"));
    };
    for server in &group.servers {
        let (address, weight) = (&server.key.address, server.weight);
        let state = state_name(server.health.state(now_ms));
        out.push("server", format!("{address}, weight {weight}, {state}"));
    }
}

#[cfg(test)]
mod tests;
