//! What is proven of a statement on the servers that it goes to, and the wait for what its names
//! mean.
//!
//! A proof is remembered with the statement's digest, the place where its names are looked for and
//! the catalog's version: a known statement costs a comparison. Names that are met first are asked
//! for by the control plane; the statement waits for the answer for a moment, once. What is not
//! known then is taken for the worst: to the writer, alone on its connection, never sent twice,
//! and the connection is reset behind it. Where nobody could say what a name means, its session
//! keeps the connection until somebody can, and it is closed then.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, sync::Arc};

use trunkline_catalog::{
    Begun, Catalog, Hidden, Judgement, Name, Place, Proof, Untracked, Version, Waiter, bases_of,
    prove,
};
use trunkline_session::tracker::Schema;
use trunkline_topology::HostgroupId;

use crate::{
    Action, ClientId, Shared,
    action::CatalogAsk,
    causal::place::ReadPlace,
    clients::client::{Client, Phase, Session, Statement},
    env::Env,
    rooms::{Core, Exchange},
    routing::route::Asking,
    statement::Statements,
    statement::analysis::Known,
    statement::study::{Found, LongCommand},
};

/// Places that one statement's proofs are remembered for.
const PROOFS_MAX: usize = 4;

/// Proofs of one statement, by the place where its names are looked for.
#[derive(Debug, Default)]
pub(crate) struct Proofs(RefCell<Vec<Remembered>>);

/// A proof that was made before.
#[derive(Debug)]
struct Remembered {
    group: HostgroupId,
    schema: Box<[u8]>,
    until_ms: u64,
    proof: Proof,
    validity: Validity,
}

impl Proofs {
    fn find(&self, place: Place<'_>, version: Version, now_ms: u64) -> Option<(Proof, Validity)> {
        let schema = place.schema.unwrap_or_default();
        self.0.borrow().iter().find_map(|known| {
            let is_same = known.validity.version == version
                && known.until_ms > now_ms
                && known.group == place.group
                && *known.schema == *schema;
            is_same.then_some((known.proof, known.validity))
        })
    }

    fn remember(&self, place: Place<'_>, judged: &Judgement) {
        let schema = place.schema.unwrap_or_default();
        let mut proofs = self.0.borrow_mut();
        proofs.retain(|known| known.group != place.group || *known.schema != *schema);
        if proofs.len() >= PROOFS_MAX {
            proofs.remove(0);
        }
        proofs.push(Remembered {
            group: place.group,
            schema: schema.into(),
            until_ms: judged.until_ms,
            proof: judged.proof,
            validity: Validity::of(judged),
        });
    }
}

/// What is proven of a statement on the servers of one group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Proven {
    pub(crate) group: HostgroupId,
    pub(crate) proof: Proof,
    pub(crate) validity: Validity,
}

/// How long a proof holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    /// The catalog's version that it was made by.
    version: Version,
    /// Until when the catalog believes what it was told, ms on the workers' clock.
    until_ms: u64,
}

impl Validity {
    fn of(judged: &Judgement) -> Self {
        Self { version: judged.version, until_ms: judged.valid_ms }
    }

    /// Of a proof that rests on no name, or proves nothing.
    fn without_age(version: Version) -> Self {
        Self { version, until_ms: u64::MAX }
    }

    /// Whether nothing has been said since the proof was made that may contradict it.
    fn is_unchanged(self, catalog: &Catalog) -> bool {
        self.version.says_as(catalog.version())
    }

    /// Whether a statement may still be sent by the proof.
    #[inline]
    pub(crate) fn holds(self, catalog: &Catalog, now_ms: u64) -> bool {
        self.version == catalog.version() && now_ms < self.until_ms
    }
}

/// A command that waits for what its names mean.
#[derive(Debug)]
pub(crate) struct AwaitNames {
    /// The command, packet headers and all; none while it is being studied.
    pub(crate) frames: Vec<u8>,
    /// The long command that it is, and what was found out of its texts.
    pub(crate) studied: Option<(LongCommand, Box<Found>)>,
    /// The command is being studied, under this number, and takes so many bytes of memory.
    pub(crate) study: Option<(u64, usize)>,
}

/// What is proven of a statement now that it is over. What its names meant when it was sent they
/// may not have meant any more when it ran.
pub(crate) fn proof_of(shared: &Shared, statement: &Statement) -> Proof {
    match statement.is_unchanged(shared.catalog()) {
        true => statement.meaning.proof,
        false => Proof { reads: false, hidden: statement.meaning.proof.hidden | Hidden::UNKNOWN },
    }
}

/// Where the names of a statement are looked for.
fn place_of<'a>(session: &'a Session, asking: Asking<'a>, group: HostgroupId) -> Place<'a> {
    let schema = match asking {
        Asking::Query | Asking::Prepare => &session.settings.state.schema,
        Asking::Execute(schema, _) => schema,
    };
    let schema = match schema {
        Schema::Named(name) => Some(&name[..]),
        Schema::None | Schema::Unknown => None,
    };
    Place { group, schema }
}

impl Statement {
    /// Whether it may be sent once more, though a server may have carried it out.
    pub(crate) fn may_be_sent_twice(&self, catalog: &Catalog, now_ms: u64) -> bool {
        self.meaning.is_read
            && self.meaning.validity.is_none_or(|validity| validity.holds(catalog, now_ms))
    }

    /// Whether nothing has been said of its names since what it does was proven.
    pub(crate) fn is_unchanged(&self, catalog: &Catalog) -> bool {
        self.meaning.validity.is_none_or(|validity| validity.is_unchanged(catalog))
    }

    /// Takes over what is proven of it.
    pub(crate) fn prove(&mut self, known: &Known, proven: Proven) {
        self.meaning.is_read = proven.proof.reads;
        self.meaning.proof = proven.proof;
        let has_names = !known.analysis.references.tables.is_empty();
        self.meaning.validity = has_names.then_some(proven.validity);
    }
}

impl Env {
    /// The servers that a hostgroup's tables are on: those of its writer.
    pub(crate) fn group_of(&self, hostgroup: HostgroupId) -> HostgroupId {
        self.snapshot.reader_group(hostgroup).map_or(hostgroup, |it| it.writer_hostgroup)
    }
}

impl Statements {
    /// Names that were waited for in vain are not waited for again.
    fn note_unanswered<'a>(&mut self, names: impl Iterator<Item = &'a Name>) {
        for name in names {
            if self.unanswered.len() >= UNANSWERED_MAX {
                self.unanswered.clear();
            }
            self.unanswered.insert(name.clone());
        }
    }
}

impl Core {
    /// See [`Worker::catalog`](crate::Worker::catalog).
    pub(crate) fn catalog(&self) -> &Arc<Catalog> {
        self.env.shared.catalog()
    }

    /// What of a proof holds in `hostgroup`: a reader's word is none in the writer's.
    pub(crate) fn proof_in(&self, hostgroup: HostgroupId, proof: Proof) -> Proof {
        match proof.hidden.has(Hidden::SEEN_ON_READER) && self.env.group_of(hostgroup) == hostgroup
        {
            true => proof.on_writer(),
            false => proof,
        }
    }

    /// What is proven of a statement of this session on the servers of `hostgroup`. Names that are
    /// not known there are asked for, and not waited for.
    pub(crate) fn proof_at(
        &mut self,
        session: &Session,
        known: &Known,
        asking: Asking<'_>,
        hostgroup: HostgroupId,
    ) -> Proven {
        let group = self.env.group_of(hostgroup);
        if let Some(proven) = self.proven_before(session, known, asking, group) {
            return proven;
        }
        let judged = self.judge_in(session, known, asking, group);
        let proven = Proven { group, proof: judged.proof, validity: Validity::of(&judged) };
        self.ask_names(session, judged.due, None);
        self.ask_names(session, judged.missing, None);
        proven
    }

    /// What is proven in `hostgroup` of a statement on its way there. `executed`: it is an
    /// execution of this statement of the session's.
    pub(crate) fn proof_for(
        &mut self,
        session: &Session,
        known: &Known,
        executed: Option<u32>,
        hostgroup: HostgroupId,
    ) -> Proven {
        let stmt = executed.and_then(|id| session.prepared.get(id));
        let entry = stmt.map(|stmt| Rc::clone(&stmt.entry));
        let asking = entry
            .as_ref()
            .map_or(Asking::Query, |entry| Asking::Execute(&entry.reading.schema, None));
        let proven = self.proof_at(session, known, asking, hostgroup);
        Proven { proof: self.proof_in(hostgroup, proven.proof), ..proven }
    }

    /// The base tables that the answer to a statement on its way to `hostgroup` depends on.
    pub(crate) fn bases_of(
        &self,
        session: &Session,
        statement: &Statement,
        hostgroup: HostgroupId,
    ) -> Result<Vec<Name>, Untracked> {
        let Some(known) = statement.meaning.known.as_deref() else { return Err(Untracked::Text) };
        let stmt = statement.executed().and_then(|id| session.prepared.get(id));
        let asking = match stmt {
            Some(stmt) => Asking::Execute(&stmt.entry.reading.schema, None),
            None => Asking::Query,
        };
        let place = place_of(session, asking, self.env.group_of(hostgroup));
        bases_of(&known.analysis, place, self.env.shared.catalog(), self.env.now.ms())
    }

    /// A proof that is remembered of a statement, or needs no names.
    fn proven_before(
        &self,
        session: &Session,
        known: &Known,
        asking: Asking<'_>,
        group: HostgroupId,
    ) -> Option<Proven> {
        let catalog = self.env.shared.catalog();
        let version = catalog.version();
        if known.analysis.references.tables.is_empty() || has_plant!(self, ViewIsTable) {
            let validity = Validity::without_age(version);
            return Some(Proven { group, proof: known.nameless, validity });
        }
        let place = place_of(session, asking, group);
        let (proof, validity) = known.proofs.find(place, version, self.env.now.ms())?;
        Some(Proven { group, proof, validity })
    }

    /// A statement is about to be sent that has waited perhaps: what its names mean may have
    /// changed since it was proven. True when its place is another hostgroup now, the writer's.
    #[inline]
    pub(crate) fn prove_again(&mut self, client: &mut Client) -> bool {
        let (catalog, now_ms) = (self.env.shared.catalog(), self.env.now.ms());
        match client.running_mut() {
            Some((statement, session))
                if statement.meaning.validity.is_some_and(|it| !it.holds(catalog, now_ms)) =>
            {
                self.prove_outdated(statement, session)
            }
            _ => false,
        }
    }

    #[cold]
    fn prove_outdated(&mut self, statement: &mut Statement, session: &Session) -> bool {
        let Some(known) = statement.meaning.known.clone() else { return false };
        let (hostgroup, home) = (statement.target.hostgroup, session.login.user.default_hostgroup);
        let executed = statement.executed();
        let proven = self.proof_for(session, &known, executed, hostgroup);
        let at_home = self.proof_in(home, proven.proof);
        let (was_read, before) = (statement.meaning.is_read, statement.meaning.proof.hidden);
        statement.prove(&known, proven);
        if statement.meaning.proof.hidden.has(Hidden::UNKNOWN) {
            // Nobody says any more what its names mean, because of itself perhaps: what they may
            // leave was said before.
            statement.meaning.proof.hidden.insert(before);
        }
        statement.meaning.is_read &= was_read;
        let leaves =
            was_read && !statement.meaning.is_read && statement.target.reads.may_leave_reader();
        if leaves {
            // The writer has all that was written.
            statement.target.reads = ReadPlace::Anywhere;
            statement.target.hostgroup = home;
            statement.meaning.proof.hidden.insert(at_home.hidden);
        }
        leaves
    }

    fn judge_in(
        &self,
        session: &Session,
        known: &Known,
        asking: Asking<'_>,
        group: HostgroupId,
    ) -> Judgement {
        let place = place_of(session, asking, group);
        let judged = prove(&known.analysis, place, self.env.shared.catalog(), self.env.now.ms());
        if judged.missing.is_empty() && judged.due.is_empty() {
            known.proofs.remember(place, &judged);
        }
        judged
    }

    /// Has the control plane ask what names mean. False when nobody will say it.
    pub(crate) fn ask_names(
        &mut self,
        session: &Session,
        names: Vec<Name>,
        waiter: Option<Waiter>,
    ) -> bool {
        if names.is_empty() {
            return false;
        }
        let now_ms = self.env.now.ms();
        let catalog = Arc::clone(self.env.shared.catalog());
        let mut is_asked = false;
        let mut first = Vec::new();
        for name in names {
            match catalog.begin_ask(name.clone(), waiter, now_ms) {
                Begun::First => first.push(name),
                Begun::UnderWay => is_asked = true,
                Begun::Refused => {}
            }
        }
        let Some(group) = first.first().map(|name| name.group) else { return is_asked };
        let Some(key) = self.servers.logins.accounts.key(session.login.account) else {
            return is_asked;
        };
        let ask = CatalogAsk {
            group,
            names: first,
            user: key.server_user().to_owned(),
            credential: self.credential_of(session, key),
            asked_ms: now_ms,
        };
        self.fx.act(Action::AskCatalog(Box::new(ask)));
        true
    }
}

impl Exchange {
    /// What may happen when a table's columns are described: MariaDB computes constants of views.
    /// `None` when the command waits for what the name means.
    pub(crate) fn proof_of_description(
        &mut self,
        client: &mut Client,
        table: &[u8],
        frames: &[u8],
    ) -> Option<Proof> {
        let modes = self.core.modes(client);
        if !modes.flavor_mariadb {
            return Some(Proof { reads: false, hidden: Hidden::empty() });
        }
        let name = String::from_utf8_lossy(table).replace('`', "``");
        let known =
            self.statements.analyses.know(format!("SHOW COLUMNS FROM `{name}`").as_bytes(), &modes);
        let proven = self.prove_at_home(client, &known, Asking::Query, frames)?;
        Some(proven.proof)
    }

    /// What is proven of a statement on the servers of its session's own hostgroup. `None` when it
    /// waits for what its names mean, as nobody has said it yet; `frames` is its command.
    pub(crate) fn prove_at_home(
        &mut self,
        client: &mut Client,
        known: &Known,
        asking: Asking<'_>,
        frames: &[u8],
    ) -> Option<Proven> {
        let session = &mut *client.session;
        let default = session.login.user.default_hostgroup;
        let has_waited = std::mem::take(&mut session.has_asked_names);
        let group = self.core.env.group_of(default);
        match self.core.proven_before(session, known, asking, group) {
            Some(proven) => Some(proven),
            None => self.prove_or_wait(client, known, asking, frames, (group, has_waited)),
        }
    }

    /// Proves a statement of which nothing is remembered on these servers, or has it wait for what
    /// its names mean: `None`.
    #[cold]
    fn prove_or_wait(
        &mut self,
        client: &mut Client,
        known: &Known,
        asking: Asking<'_>,
        frames: &[u8],
        (group, has_waited): (HostgroupId, bool),
    ) -> Option<Proven> {
        let judged = self.core.judge_in(&client.session, known, asking, group);
        let proven = Proven { group, proof: judged.proof, validity: Validity::of(&judged) };
        let wait_ms = self.core.env.snapshot.settings.catalog_wait_ms;
        let is_new = judged.missing.iter().any(|name| !self.statements.unanswered.contains(name));
        let waits = is_new
            && !has_waited
            && wait_ms > 0
            && self.core.env.stopping.is_none()
            && !client.is_mirror;
        if has_waited {
            // Whose answer came, and was void as they were defined meanwhile, are asked anew.
            let catalog = self.core.env.shared.catalog();
            let in_vain = judged.missing.iter().filter(|name| catalog.is_being_asked(name));
            self.statements.note_unanswered(in_vain);
        }
        let waiter = Waiter {
            worker: self.core.env.options.index,
            index: client.id.index,
            generation: client.id.generation,
        };
        self.core.ask_names(&client.session, judged.due, None);
        if !self.core.ask_names(&client.session, judged.missing, Some(waiter)) || !waits {
            return Some(proven);
        }
        self.core.fx.stats.counters.statements_awaited_names += 1;
        let until_ms = self.core.env.now.ms() + wait_ms;
        debug_assert!(matches!(client.phase, Phase::Idle));
        // Who looks at a long command keeps it meanwhile.
        let frames = match self.core.fx.whole {
            Some(_) => Vec::new(),
            None => frames.to_vec(),
        };
        let waiting = AwaitNames { frames, studied: None, study: None };
        client.phase = Phase::AwaitNames(Box::new(waiting));
        self.core.clients.set_timer(client, until_ms);
        None
    }
}

/// Names that were waited for in vain and are remembered.
const UNANSWERED_MAX: usize = 4_096;

/// Who waited for names, by worker.
pub fn by_worker(waiters: impl IntoIterator<Item = Waiter>) -> BTreeMap<usize, Vec<ClientId>> {
    let mut workers: BTreeMap<usize, Vec<ClientId>> = BTreeMap::new();
    for Waiter { worker, index, generation } in waiters {
        workers.entry(worker).or_default().push(ClientId { index, generation });
    }
    workers
}

#[cfg(test)]
mod tests;
