//! The way of one statement, without sending it: what `trunkline explain` and `EXPLAIN ROUTE`
//! show.

mod causal;
mod effects;
mod proof;
mod reasons;
mod rules;

use trunkline_catalog::{Catalog, Proof};
use trunkline_config::Snapshot;
use trunkline_protocol::{response::Outcome, response::write::put_text_result};
use trunkline_rules::{Effects, FirewallVerdict};
use trunkline_session::tracker::{
    Charset, PinReason, Pins, Schema, SessionState, Trust, apply_outcome,
};
use trunkline_sql::{
    analysis::{Access, Analysis, StatementKind, TransactionEffect},
    token::Modes,
};
use trunkline_stats::report::state_name;
use trunkline_topology::{HostgroupId, TenantScope, Terms};

use crate::cache::until::Unkept;
use crate::{
    clients::client::{Client, is_not_read},
    rooms::{Core, Exchange},
    routing::asker::Asker,
    routing::decide::{Aim, Case, Decided, Held, Hinted, Nowhere, Reason, decide},
    routing::kept::has_state,
    routing::ruling::{Ruling, Said},
    routing::split::{hinted_place, hinted_server},
    statement::analysis::{Analyses, Known},
};

/// The setting's word for every user.
const EVERYBODY: &str = "*";

/// One line: what it is about, and what there is to say.
pub type ExplainRow = (&'static str, String);

/// A statement that is asked about, and who would send it.
#[derive(Debug, Clone, Copy)]
pub struct Explaining<'a> {
    /// Who would send it, and from where.
    pub asker: Asker<'a>,
    /// How the session reads texts.
    pub modes: Modes,
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
    let mut analyses = Analyses::of_snapshot(snapshot);
    analyses.learn_version(asking.modes.version);
    let mut out = Rows::default();
    explain_to(&mut out, snapshot, asking, &mut analyses, Held::nothing(asking.modes));
    out.0
}

/// Writes what becomes of a statement of a session that holds this. Returns why it goes where it
/// goes, if it goes anywhere.
fn explain_to(
    out: &mut Rows,
    snapshot: &Snapshot,
    asking: &Explaining<'_>,
    analyses: &mut Analyses,
    session: Held<'_>,
) -> Option<Reason> {
    let (settings, user) = (&snapshot.settings, asking.asker.user);
    if !user.active {
        out.push("user", "is not active, and can't log in");
    }
    if user.fast_forward {
        out.push("user", "is fast_forward: its statements are passed on without a look");
        servers(out, snapshot, user.default_hostgroup, asking.now_ms);
        return None;
    }
    let known = analyses.know(asking.sql, &asking.modes);
    out.push("digest", String::from_utf8_lossy(&known.digest_text));
    out.push("hash", trunkline_sql::digest::format(known.digest).to_string());
    let question = asking.asker.question(settings.query_digests, &known, asking.sql, 0);
    let (visits, decision) = snapshot.rules.explain(&question);
    let ruling = Ruling::of(snapshot, &asking.asker, (&known, None), Some(&decision));
    let new_text = decision.rewritten.as_deref();
    let new_text = new_text.filter(|text| text.len() < settings.max_allowed_packet);
    let known = new_text.map_or(known, |text| analyses.know(text, &asking.modes));
    let text = new_text.unwrap_or(asking.sql);
    let said = explain_text(out, asking, &known, text, settings.routines_pin, snapshot);
    rules::visits(out, snapshot, &visits);
    if let Some(text) = new_text {
        out.push("sent as", String::from_utf8_lossy(text));
    }
    let place = Explained { snapshot, asking, known: &known, proof: said, ruling: &ruling };
    place.explain_to(out, &decision.effects, session)
}

/// Writes what a text says, and what is proven of it on the servers of its user's hostgroup, which
/// is returned.
fn explain_text(
    out: &mut Rows,
    asking: &Explaining<'_>,
    known: &Known,
    text: &[u8],
    routines_pin: bool,
    snapshot: &Snapshot,
) -> Proof {
    let analysis = &known.analysis;
    let home = group_of(snapshot, asking.asker.user.default_hostgroup);
    let (proof, said) = proof::proof(analysis, asking, text, home);
    out.push("kind", kind(analysis));
    out.push("access", access(analysis));
    out.push("proof", said);
    for effect in effects::lines(analysis) {
        out.push("effect", effect);
    }
    let pins = pins(analysis, asking.asker.schema, routines_pin);
    if !pins.is_empty() {
        out.push("pins", format!("{pins}: the session stays on its connection"));
    }
    proof
}

/// A statement as it would be sent.
struct Explained<'a> {
    snapshot: &'a Snapshot,
    asking: &'a Explaining<'a>,
    known: &'a Known,
    /// On the servers of its user's hostgroup.
    proof: Proof,
    ruling: &'a Ruling,
}

impl Explained<'_> {
    /// On whose account it runs, where there are tenants.
    fn tenant(&self, out: &mut Rows, effects: &Effects) {
        let Self { snapshot, asking, .. } = *self;
        let label = effects.tenant_rule.and_then(|rule| {
            let mut labels = snapshot.rules.tenants();
            labels.find(|(id, _)| *id == rule).map(|(_, label)| label.to_owned())
        });
        let name = match snapshot.settings.tenant_by {
            TenantScope::Off => return,
            TenantScope::User => asking.asker.user.name.clone(),
            TenantScope::Schema => String::from_utf8_lossy(asking.asker.schema).into_owned(),
            TenantScope::Rule => label.unwrap_or_default(),
        };
        let terms = snapshot.guards.terms(&name);
        let shown = if name.is_empty() { "none: shares an account with all such" } else { &name };
        let Terms { weight, share_min, share_max, burst_ms: _, priority } = terms;
        let shares = format!("{share_min} to {share_max} % of server_concurrency");
        let shares = format!("priority {priority}, weight {weight}, {shares}");
        out.push("tenant", format!("{shown}, {shares}"));
    }

    /// Writes what is decided, and what rules ask for beside it.
    fn explain_to(&self, out: &mut Rows, effects: &Effects, session: Held<'_>) -> Option<Reason> {
        let Self { snapshot, asking, known, .. } = *self;
        let hints = known.hints.as_deref().filter(|_| snapshot.settings.query_digests);
        let default = asking.asker.user.default_hostgroup;
        let hinted = hints.map(|hints| {
            let server = hinted_server(hints, snapshot, default, asking.now_ms);
            let place = hinted_place(hints, server);
            Hinted { hints, server, proof: place.map_or(self.proof, |place| self.proof_at(place)) }
        });
        let decided = self.decide(hinted, session);
        if let Err(Nowhere::Answered) = decided.place {
            self.answer(out);
            return None;
        }
        match self.ruling.verdict {
            None | Some(FirewallVerdict::Denied) => {}
            Some(FirewallVerdict::Pass) => out.push("firewall", "lets it pass"),
            Some(FirewallVerdict::Detected) => {
                out.push("firewall", "would deny it, and only detects");
            }
        }
        rules::orders(out, effects);
        let proof = decided.hostgroup().map_or(self.proof, |to| self.proof_in(to));
        rules::cache(out, effects, hints, (&known.analysis, proof), || {
            let to = decided.hostgroup().ok_or(Unkept::NoStream)?;
            proof::tables(&known.analysis, asking, snapshot, to)
        });
        match decided.place {
            Ok((place, reason)) => {
                let to = place.hostgroup();
                out.push("hostgroup", format!("{to}, {}", reasons::words(reason)));
                self.tenant(out, effects);
                causal::scope(out, snapshot, asking.asker.user, (effects, hints), to);
                let server = hinted.and_then(|hinted| hinted.server);
                match server.filter(|_| decided.is_for_server) {
                    Some((key, _)) => out.push("server", format!("{}, and no other", key.address)),
                    None => servers(out, snapshot, to, asking.now_ms),
                }
                Some(reason)
            }
            Err(Nowhere::Refused(refusal)) => {
                out.push("answer", format!("error 1148 (42000): {refusal}"));
                None
            }
            // No token is taken for a question.
            Err(Nowhere::Limited(_) | Nowhere::Answered) => None,
        }
    }

    /// Decides as when it is routed: what the last statement left to be read holds the session no
    /// more, unless this one reads it.
    fn decide(&self, hinted: Option<Hinted<'_>>, session: Held<'_>) -> Decided {
        let Self { snapshot, asking, known, .. } = *self;
        let mut leases: Vec<_> = session.leases().cloned().collect();
        let analysis = &known.analysis;
        leases.retain_mut(|lease| !lease.end_brief_pins(|reason| is_not_read(reason, analysis)));
        decide(&Case {
            snapshot,
            now_ms: asking.now_ms,
            user: asking.asker.user,
            session: session.with(&leases),
            aim: Aim::Run,
            known: Some(known),
            proof: self.proof,
            ruling: self.ruling,
            hinted,
            limit: None,
            #[cfg(feature = "plants")]
            plant: None,
        })
    }

    /// Writes what rules or the firewall answer.
    fn answer(&self, out: &mut Rows) {
        let text = match &self.ruling.answer {
            Some(Said::Ok(text)) => format!("OK, from a rule: {text}"),
            Some(Said::Error(text)) => format!("error 1148 (42000), from a rule: {text}"),
            Some(Said::Denied) => {
                let text = &self.snapshot.settings.firewall_whitelist_errormsg;
                format!("error 1148 (42000), from the firewall: {text}")
            }
            None => return,
        };
        out.push("answer", text);
    }

    /// What is proven of it on the servers of this hostgroup.
    fn proof_at(&self, hostgroup: HostgroupId) -> Proof {
        let group = group_of(self.snapshot, hostgroup);
        match group == group_of(self.snapshot, self.asking.asker.user.default_hostgroup) {
            true => self.proof,
            false => proof::proof(&self.known.analysis, self.asking, b"", group).0,
        }
    }

    /// What is proven of it in this hostgroup: a reader's word is none in the writer's.
    fn proof_in(&self, hostgroup: HostgroupId) -> Proof {
        let proof = self.proof_at(hostgroup);
        match group_of(self.snapshot, hostgroup) == hostgroup {
            true => proof.on_writer(),
            false => proof,
        }
    }
}

/// What would hold the session when the statement has succeeded, in words.
fn pins(analysis: &Analysis, schema: &[u8], routines_pin: bool) -> String {
    let mut pins = Pins::default();
    let state = SessionState::new(Schema::from(schema), Charset::Unknown);
    let trust = if routines_pin { Trust::Nothing } else { Trust::Reports };
    apply_outcome(&state, &mut pins, Some(analysis), &Outcome::default(), trust);
    if let TransactionEffect::Begin { .. } = analysis.transaction {
        pins.pin(PinReason::Transaction);
    }
    let reasons: Vec<_> = pins.reasons().map(PinReason::name).collect();
    reasons.join(", ")
}

impl Core {
    /// The statement that a client wants to have explained, if its user may ask.
    pub(crate) fn asks_for_route<'a>(&self, client: &Client, text: &'a [u8]) -> Option<&'a [u8]> {
        let sql = after_words(text)?;
        let users = &self.env.snapshot.settings.explain_route_users;
        let is_named = |name: &str| name == EVERYBODY || name == client.session.login.user.name;
        users.split(',').map(str::trim).any(is_named).then_some(sql)
    }
}

impl Exchange {
    /// `EXPLAIN ROUTE`: what would become of a statement of this session.
    pub(crate) fn answer_route(&mut self, client: &mut Client, sql: &[u8]) {
        let session = &*client.session;
        let modes = self.core.modes(client);
        let analyses = &mut self.statements.analyses;
        let asking = Explaining {
            asker: Asker::of(&client.origin.peer, session),
            modes: Modes { version: analyses.version(), ..modes },
            sql,
            now_ms: self.core.env.now.ms(),
            catalog: Some(self.core.env.shared.catalog()),
        };
        let mut rows = Rows::default();
        let snapshot = &self.core.env.snapshot;
        let held = Held::of(session, &session.leases);
        let reason = explain_to(&mut rows, snapshot, &asking, analyses, held);
        for lease in session.leases.iter() {
            let reasons: Vec<_> = lease.pins.reasons().map(|reason| reason.name()).collect();
            let (hostgroup, reasons) = (lease.hostgroup, reasons.join(", "));
            rows.push("session", format!("is held on hostgroup {hostgroup}: {reasons}"));
            if has_state(lease) && hostgroup == session.login.user.default_hostgroup {
                let stays = "stays there with what the same servers answer, and with what asks \
                             for that, whatever rules and hints say";
                rows.push("session", stays);
            }
        }
        if session.is_in_any_transaction() {
            let goes_there = reason == Some(Reason::Transaction);
            let there = if goes_there { ": the statement goes where that is" } else { "" };
            rows.push("session", format!("is in a transaction{there}"));
        }
        let (format, status) = (session.login.format, session.settings.status);
        let cells = |(name, value): ExplainRow| {
            vec![Some(name.as_bytes().to_vec()), Some(value.into_bytes())]
        };
        let rows: Vec<_> = rows.0.into_iter().map(cells).collect();
        self.core.fx.stats.counters.statements_answered += 1;
        self.core.write_client(client, |out| {
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

/// The hostgroup whose tables a hostgroup's servers have: that of its writer.
fn group_of(snapshot: &Snapshot, hostgroup: HostgroupId) -> HostgroupId {
    snapshot.reader_group(hostgroup).map_or(hostgroup, |group| group.writer_hostgroup)
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
