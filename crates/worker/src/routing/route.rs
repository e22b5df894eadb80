//! Step 5: where a statement goes. What is decided ([`decide`]) is carried out here.

use std::{rc::Rc, sync::Arc};

use trunkline_catalog::Proof;
use trunkline_config::Snapshot;
use trunkline_pool::ConnId;
use trunkline_rules::{Answer, Decision, Rewrites, unrewritten};
use trunkline_session::tracker::Schema;
use trunkline_sql::token::Modes;
use trunkline_topology::{HostgroupId, ServerKey};

use crate::{
    clients::client::Client,
    prepared::{Came, may_compute},
    rooms::{Commands, Core},
    routing::asker::Asker,
    routing::decide::{Aim, Case, Decided, GivesUp, Hinted, Nowhere, Place, decide},
    routing::directives::Directives,
    routing::rewrite::{NewText, Rewritten},
    routing::ruling::{Ruling, Said},
    routing::split::{hinted_place, hinted_server},
    routing::{Router, next_chance},
    statement::analysis::{Analyses, Known},
    statement::proof::Proven,
};

/// Decisions remembered per worker.
pub(super) const DECISIONS_MAX: usize = 16_384;

/// Where a statement goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// To this connection, which the session holds.
    Lease(HostgroupId, ConnId),
    /// To any connection of this hostgroup.
    Hostgroup(HostgroupId),
    /// To any connection of this reader hostgroup, by the split: its writers can serve it too.
    Reader(HostgroupId),
    /// Nowhere: a rule answers it with an error of this text.
    Error(Arc<str>),
    /// Nowhere: there have been too many, and this says of what.
    Limited(Arc<str>),
    /// Nowhere: a rule answers it with OK and this text.
    Ok(Arc<str>),
}

/// What rules, hints and the split make of a statement.
#[derive(Debug)]
pub(crate) struct Routed {
    pub(crate) route: Route,
    pub(crate) directives: Directives,
    /// What is sent in its place.
    pub(crate) rewritten: Option<Rewritten>,
    /// The only server that it is to run on.
    pub(crate) server: Option<Box<ServerKey>>,
    /// What is proven of it where it goes.
    pub(crate) proven: Proven,
}

/// What the statement is asked about for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asking<'a> {
    /// It is to run.
    Query,
    /// It is to be prepared.
    Prepare,
    /// It was prepared, and is to run: in the schema where that was, whatever the session has
    /// chosen since. With the text that came to be prepared, where rules have rewritten that.
    Execute(&'a Schema, Option<&'a Came>),
}

impl Asking<'_> {
    /// Which rewrites of rules count.
    #[inline]
    fn rewrites(self) -> Rewrites {
        match self {
            Self::Query | Self::Prepare => Rewrites::All,
            Self::Execute(_, None) => Rewrites::Protecting,
            Self::Execute(_, Some(_)) => Rewrites::None,
        }
    }
}

/// What a statement's comments ask for.
struct Comments {
    /// The server that they name, and whether it is a reader.
    server: Option<(Box<ServerKey>, bool)>,
    /// What is proven of the statement on the servers that they name.
    proof: Proof,
}

/// What was asked about a statement before it is decided where it goes.
struct Asked<'a> {
    ruling: &'a Ruling,
    comments: Option<&'a Comments>,
    /// The limit that refuses it.
    limit: Option<usize>,
}

impl From<Place> for Route {
    #[inline]
    fn from(place: Place) -> Self {
        match place {
            Place::Lease(hostgroup, conn) => Self::Lease(hostgroup, conn),
            Place::Hostgroup(hostgroup) => Self::Hostgroup(hostgroup),
            Place::Reader(hostgroup) => Self::Reader(hostgroup),
        }
    }
}

impl Commands {
    /// Decides for a statement that has a text. What the session's last statement left to be read
    /// stops holding it, unless this one reads it. `own`: what is proven of it on the servers of
    /// its session's hostgroup.
    pub(crate) fn route_text(
        &mut self,
        client: &mut Client,
        known: &Rc<Known>,
        text: &[u8],
        asking: Asking<'_>,
        modes: &Modes,
        own: Proven,
    ) -> Routed {
        let mut directives = Directives::of_settings(&self.exchange.core.env.snapshot.settings);
        let (mut ruling, new_text) = self.ask_rules(client, known, text, asking, &mut directives);
        let is_prepared = matches!(asking, Asking::Prepare);
        let has_params = is_prepared || matches!(asking, Asking::Execute(..));
        let is_new = new_text.is_some();
        let rewritten =
            new_text.and_then(|new| self.exchange.take_rewrite(text, new, has_params, modes));
        if let Some(rule) = ruling.must_rewrite.filter(|_| is_new && rewritten.is_none()) {
            ruling.answer = ruling.answer.or(Some(Said::Error(unrewritten(rule))));
        }
        // One that is answered here leaves the session as it is.
        if let Some(said) = ruling.answer.take() {
            let route = self.exchange.core.route_of_answer(said);
            let proven = Proven { proof: Proof::NOTHING, ..own };
            return Routed { route, directives, rewritten, server: None, proven };
        }
        let own = match &rewritten {
            Some(rewritten) => {
                self.exchange.core.proof_at(&client.session, &rewritten.known, asking, own.group)
            }
            None => own,
        };
        let known = rewritten.as_ref().map_or(known, |rewritten| &rewritten.known);
        self.exchange.core.end_brief_pins(client, &known.analysis);
        let comments =
            self.exchange.core.take_comments(client, known, asking, own.proof, &mut directives);
        let limit = match self.router.limits.is_empty() || is_prepared {
            true => None,
            false => self.admit(client, known, &mut directives),
        };
        let asked = Asked { ruling: &ruling, comments: comments.as_ref(), limit };
        let decided = self.exchange.core.decide(client, Some((known, asking)), own.proof, &asked);
        self.exchange.core.carry_out(client, &decided);
        let to = decided.hostgroup();
        if let (Some(named), Some(to)) = (decided.named, to) {
            self.exchange.core.fx.stats.counters.statements_kept += u64::from(to != named);
        }
        let server = comments.filter(|_| decided.is_for_server).and_then(|it| it.server);
        let proven = self.exchange.core.proven_at(client, known, asking, own, to);
        let route = self.route_of(&decided);
        Routed { route, directives, rewritten, server: server.map(|(key, _)| key), proven }
    }

    /// Asks the rules, and fast routing and the firewall behind them. Also the text that rules
    /// make of the statement.
    fn ask_rules(
        &mut self,
        client: &mut Client,
        known: &Known,
        text: &[u8],
        asking: Asking<'_>,
        directives: &mut Directives,
    ) -> (Ruling, Option<NewText>) {
        let core = &mut self.exchange.core;
        let snapshot = &core.env.snapshot;
        let session = &mut *client.session;
        let mut asker = Asker::of(&client.front.origin.peer, session);
        let mut came = None;
        if let Asking::Execute(schema, text) = asking {
            asker.schema = schema.name();
            came = text;
        }
        let has_digests = snapshot.settings.query_digests;
        let analyses = &mut self.exchange.statements.analyses;
        let of_came = came
            .filter(|_| !snapshot.rules.is_empty())
            .map(|came| self.router.rule_came(snapshot, &asker, came, analyses));
        let ruled = self.exchange.statements.analyses.take_ruled(text);
        let ruled = ruled.filter(|ruled| ruled.is_for(snapshot, &asker, asking.rewrites()));
        let decision = match (snapshot.rules.is_empty(), &ruled) {
            (true, _) => None,
            (false, Some(ruled)) => {
                self.router.hits.add(ruled.decision());
                Some(ruled.decision())
            }
            (false, None) => {
                let chance = self.router.next_chance();
                let mut question = asker.question(has_digests, known, text, chance);
                question.rewrites = asking.rewrites();
                let hits = &mut self.router.hits;
                Some(self.router.decisions.decide(&snapshot.rules, &question, hits))
            }
        };
        let judged = match (came, &of_came) {
            (Some(came), Some(of_came)) => (&*came.known, Some(of_came.final_flag)),
            (Some(came), None) => (&*came.known, None),
            (None, _) => (known, None),
        };
        let mut ruling = Ruling::of(snapshot, &asker, judged, decision);
        let mut new_text = None;
        if let Some(decision) = decision {
            core.fx.stats.counters.rewrites_skipped += u64::from(decision.rewrites_skipped);
            if !decision.undecided().is_empty() {
                let undecided = &mut self.router.undecided;
                undecided.tell(&mut core.fx, core.env.now.ms(), &snapshot.rules, decision, text);
            }
            if decision.has_directives {
                directives.take_effects(&decision.effects);
            }
            if let Some(flag) = decision.session_flag() {
                session.settings.next_flag = flag;
            }
            self.router.matched_rules.clear();
            if self.router.guards.limits_rules() {
                self.router.matched_rules.extend(snapshot.rules.matched_ids(decision));
            }
            directives.written.rule = last_rule(snapshot, decision);
            new_text = decision.rewritten.clone().map(NewText::Unread);
        }
        if let Asking::Execute(..) = asking {
            new_text = new_text_of_execution(text, new_text, of_came, &mut ruling);
        }
        if let Some(mut ruled) = ruled {
            let studied = self.exchange.statements.analyses.studied();
            studied.into_iter().for_each(|it| it.set_mirrored(ruled.take_mirrored()));
            new_text = ruled.into_new_text().or(new_text);
        }
        core.note_verdict(client, judged.0, &ruling);
        (ruling, new_text)
    }

    /// What is decided, as the way that a statement goes.
    #[inline]
    fn route_of(&self, decided: &Decided) -> Route {
        match decided.place {
            Ok((place, _)) => place.into(),
            Err(nowhere) => self.route_nowhere(nowhere),
        }
    }

    #[cold]
    fn route_nowhere(&self, nowhere: Nowhere) -> Route {
        match nowhere {
            Nowhere::Limited(limit) => Route::Limited(self.limit_text(limit).into()),
            Nowhere::Refused(refusal) => Route::Error(refusal.to_string().into()),
            // The answer was given before anything else was asked.
            Nowhere::Answered => Route::Error(Arc::default()),
        }
    }
}

impl Core {
    /// Decides for a command without a text: as for one that may write.
    pub(crate) fn route_plain(&mut self, client: &mut Client) -> Route {
        let ruling = Ruling::default();
        let asked = Asked { ruling: &ruling, comments: None, limit: None };
        let place = self.decide(client, None, Proof::NOTHING, &asked).place;
        place.map_or(Route::Hostgroup(HostgroupId::default()), |(place, _)| place.into())
    }

    /// Decides where a statement of a session goes.
    #[inline]
    fn decide(
        &self,
        client: &Client,
        statement: Option<(&Known, Asking<'_>)>,
        proof: Proof,
        asked: &Asked<'_>,
    ) -> Decided {
        let session = &*client.session;
        let aim = match statement {
            Some((known, Asking::Prepare)) => {
                Aim::Prepare { computes: may_compute(known, proof, self.env.greeting.flavor()) }
            }
            Some((_, Asking::Query | Asking::Execute(..))) | None => Aim::Run,
        };
        let known = statement.map(|(known, _)| known);
        let hints = known.and_then(|known| known.hints.as_deref());
        let hinted = asked.comments.zip(hints).map(|(comments, hints)| Hinted {
            hints,
            server: comments.server.as_ref().map(|(key, is_reader)| (&**key, *is_reader)),
            proof: comments.proof,
        });
        let Asked { ruling, limit, .. } = *asked;
        decide(&Case {
            aim,
            known,
            proof,
            ruling,
            hinted,
            limit,
            ..Case::of(&self.env, session, ruling)
        })
    }

    /// Takes over what a statement's comments ask for, where they are listened to. `proof` is what
    /// is proven of it on the servers of its session's hostgroup.
    #[inline]
    fn take_comments(
        &mut self,
        client: &mut Client,
        known: &Known,
        asking: Asking<'_>,
        proof: Proof,
        directives: &mut Directives,
    ) -> Option<Comments> {
        let hints = known.hints.as_deref()?;
        if !self.env.snapshot.settings.query_digests {
            return None;
        }
        directives.take_hints(hints);
        let (snapshot, default) = (&self.env.snapshot, client.session.login.user.default_hostgroup);
        let server = hinted_server(hints, snapshot, default, self.env.now.ms());
        let place = hinted_place(hints, server);
        let server = server.map(|(key, is_reader)| (Box::new(key.clone()), is_reader));
        let proof =
            place.map_or(proof, |place| self.proof_at(&client.session, known, asking, place).proof);
        Some(Comments { server, proof })
    }

    /// What is decided becomes of the session's connections.
    #[inline]
    fn carry_out(&mut self, client: &mut Client, decided: &Decided) {
        client.session.transaction.begins_read_only = decided.begins_read_only;
        if decided.gives_up != GivesUp::Nothing {
            self.give_up(client, decided.gives_up);
        }
    }

    #[cold]
    fn give_up(&mut self, client: &mut Client, gives_up: GivesUp) {
        let given_up = client.session.leave_where(|lease| gives_up.has(lease));
        for lease in &given_up {
            self.free_lease(client, lease, None);
        }
    }

    /// What is proven of a statement where it goes. `own`: on its session's own servers.
    #[inline]
    fn proven_at(
        &mut self,
        client: &mut Client,
        known: &Known,
        asking: Asking<'_>,
        own: Proven,
        to: Option<HostgroupId>,
    ) -> Proven {
        let Some(to) = to else { return own };
        // The servers of another group may have other tables.
        let is_elsewhere = to != own.group && self.env.group_of(to) != own.group;
        let mut proven =
            if is_elsewhere { self.proof_at(&client.session, known, asking, to) } else { own };
        proven.proof = self.proof_in(to, proven.proof);
        proven
    }

    fn route_of_answer(&self, said: Said) -> Route {
        match said {
            Said::Ok(text) => Route::Ok(text),
            Said::Error(text) => Route::Error(text),
            Said::Denied => {
                Route::Error(self.env.snapshot.settings.firewall_whitelist_errormsg.as_str().into())
            }
        }
    }
}

/// The last rule that matched, where something is written of statements.
#[inline]
fn last_rule(snapshot: &Snapshot, decision: &Decision) -> Option<u32> {
    if snapshot.watches { snapshot.rules.matched_ids(decision).last() } else { None }
}

/// What rules say of the text that came to be prepared, now that it is run by another one.
struct OfCame {
    final_flag: u32,
    /// What it is answered with by a rule, if that is an error.
    error: Option<Arc<str>>,
    /// The text without which it must not run, with the rule that says so; no text where that is
    /// the one that is run.
    must_rewrite: Option<(u32, Option<NewText>)>,
}

impl Router {
    /// Asks the rules about the text that came, where another one is run.
    #[cold]
    fn rule_came(
        &mut self,
        snapshot: &Snapshot,
        asker: &Asker<'_>,
        came: &Came,
        analyses: &mut Analyses,
    ) -> OfCame {
        let ruled = analyses.take_ruled(&came.text);
        if let Some(ruled) = ruled.filter(|it| it.is_for(snapshot, asker, Rewrites::All)) {
            let (error, rule) = OfCame::said(ruled.decision());
            let final_flag = ruled.decision().final_flag;
            let must_rewrite = rule.map(|rule| (rule, ruled.into_new_text()));
            return OfCame { final_flag, error, must_rewrite };
        }
        let has_digests = snapshot.settings.query_digests;
        let chance = next_chance(self.chance);
        let question = asker.question(has_digests, &came.known, &came.text, chance);
        OfCame::of(self.decisions.decide_uncounted(&snapshot.rules, &question), came)
    }
}

/// What is run in place of a prepared text: what rules make of that, or of the one that came. Not
/// the same as it was prepared.
#[inline]
fn new_text_of_execution(
    text: &[u8],
    made: Option<NewText>,
    of_came: Option<OfCame>,
    ruling: &mut Ruling,
) -> Option<NewText> {
    let new_text = match of_came {
        Some(of_came) => of_came.rule(ruling),
        None => made,
    };
    new_text.filter(|new| !matches!(new, NewText::Unread(new) if **new == *text))
}

impl OfCame {
    fn of(decision: &Decision, came: &Came) -> Self {
        let (error, rule) = Self::said(decision);
        let text = || decision.rewritten.clone().unwrap_or_else(|| came.text.to_vec());
        let must_rewrite = rule.map(|rule| (rule, Some(NewText::Unread(text()))));
        Self { final_flag: decision.final_flag, error, must_rewrite }
    }

    /// The error that a decision answers with, and the rule without whose rewrite it must not run.
    fn said(decision: &Decision) -> (Option<Arc<str>>, Option<u32>) {
        let error = match decision.answer() {
            Some(Answer::Error(text)) => Some(Arc::clone(text)),
            Some(Answer::Ok(_)) | None => None,
        };
        (error, decision.must_rewrite)
    }

    /// Takes what it says into what was said of the text that is run; that which is to be run.
    fn rule(self, ruling: &mut Ruling) -> Option<NewText> {
        if let Some(error) = self.error {
            ruling.answer = ruling.answer.take().or(Some(Said::Error(error)));
        }
        let (rule, text) = self.must_rewrite?;
        ruling.must_rewrite = Some(rule);
        text
    }
}

/// Where a statement goes, if it goes to a server.
pub(crate) fn hostgroup_of(route: &Route) -> Option<HostgroupId> {
    match route {
        Route::Lease(hostgroup, _) | Route::Hostgroup(hostgroup) | Route::Reader(hostgroup) => {
            Some(*hostgroup)
        }
        Route::Error(_) | Route::Limited(_) | Route::Ok(_) => None,
    }
}
