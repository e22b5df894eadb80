//! What is proven of a statement on the servers that it goes to, and the wait for what its names
//! mean.
//!
//! A proof is remembered with the statement's digest, the place where its names are looked for and
//! the catalog's version: a known statement costs a comparison. Names that are met first are asked
//! for by the control plane; the statement waits for the answer for a moment, once. What is not
//! known then is taken for the worst: to the writer, alone on its connection, never sent twice,
//! and the connection is reset behind it.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use trunkline_catalog::{Begun, Catalog, Hidden, Judgement, Name, Place, Proof, Waiter, prove};
use trunkline_session::tracker::Schema;
use trunkline_topology::HostgroupId;

use crate::{
    Action, ClientId, Shared, Worker,
    action::CatalogAsk,
    analysis::Known,
    client::{Phase, Session, Statement},
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
    version: u64,
    until_ms: u64,
    proof: Proof,
}

impl Proofs {
    fn find(&self, place: Place<'_>, version: u64, now_ms: u64) -> Option<Proof> {
        let schema = place.schema.unwrap_or_default();
        self.0.borrow().iter().find_map(|known| {
            let is_same = known.version == version
                && known.until_ms > now_ms
                && known.group == place.group
                && *known.schema == *schema;
            is_same.then_some(known.proof)
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
            version: judged.version,
            until_ms: judged.until_ms,
            proof: judged.proof,
        });
    }
}

/// A command that waits for what its names mean.
#[derive(Debug)]
pub(crate) struct AwaitNames {
    /// The command, packet headers and all.
    frames: Vec<u8>,
}

/// What is proven of a statement now that it is over. What its names meant when it was sent they
/// may not have meant any more when it ran.
pub(crate) fn proof_of(shared: &Shared, statement: &Statement) -> Proof {
    let is_of_now =
        statement.proof_version.is_none_or(|version| version == shared.catalog().version());
    match is_of_now {
        true => statement.proof,
        false => Proof { reads: false, hidden: statement.proof.hidden | Hidden::UNKNOWN },
    }
}

fn place_of(session: &Session, group: HostgroupId) -> Place<'_> {
    let schema = match &session.state.schema {
        Schema::Named(name) => Some(&**name),
        Schema::None | Schema::Unknown => None,
    };
    Place { group, schema }
}

impl Statement {
    /// Whether it may be sent once more, though a server may have carried it out: what its names
    /// mean has not changed since it was proven to be without effects.
    pub(crate) fn may_be_sent_twice(&self, catalog: &Catalog) -> bool {
        self.is_read && self.proof_version.is_none_or(|version| version == catalog.version())
    }

    /// Takes over what is proven of it.
    pub(crate) fn prove(&mut self, known: &Known, proof: Proof, version: u64) {
        self.is_read = proof.reads;
        self.proof = proof;
        self.proof_version = (!known.analysis.references.tables.is_empty()).then_some(version);
    }
}

impl Worker {
    /// What names mean on the servers; all workers have the same.
    pub fn catalog(&self) -> &Arc<Catalog> {
        self.shared.catalog()
    }

    /// The servers that a hostgroup's tables are on: those of its writer.
    pub(crate) fn group_of(&self, hostgroup: HostgroupId) -> HostgroupId {
        self.snapshot.reader_group(hostgroup).map_or(hostgroup, |it| it.writer_hostgroup)
    }

    /// What is proven of a statement of this session on the servers of `hostgroup`.
    pub(crate) fn proof_at(&self, id: ClientId, known: &Known, hostgroup: HostgroupId) -> Proof {
        if known.analysis.references.tables.is_empty() || has_plant!(self, ViewIsTable) {
            return known.nameless;
        }
        let session = self.clients.get(id).and_then(|client| client.session.as_ref());
        let Some(session) = session else { return Proof::NOTHING };
        let place = place_of(session, self.group_of(hostgroup));
        let now_ms = self.now.ms();
        let catalog = self.shared.catalog();
        if let Some(proof) = known.proofs.find(place, catalog.version(), now_ms) {
            return proof;
        }
        self.judge_at(known, place).proof
    }

    fn judge_at(&self, known: &Known, place: Place<'_>) -> Judgement {
        let judged = prove(&known.analysis, place, self.shared.catalog(), self.now.ms());
        if judged.missing.is_empty() && judged.due.is_empty() {
            known.proofs.remember(place, &judged);
        }
        judged
    }

    /// Whether a proof of the statement in its own group is remembered, and it has not waited.
    fn is_proven(&self, id: ClientId, known: &Known) -> bool {
        let session = self.clients.get(id).and_then(|client| client.session.as_deref());
        session.is_some_and(|session| {
            let place = place_of(session, self.group_of(session.user.default_hostgroup));
            let version = self.shared.catalog().version();
            !session.has_asked_names && known.proofs.find(place, version, self.now.ms()).is_some()
        })
    }

    /// Has the statement wait for what its names mean, if nobody has said it yet; `frames` is its
    /// command. False when it goes on.
    pub(crate) fn awaits_names(&mut self, id: ClientId, known: &Known, frames: &[u8]) -> bool {
        if known.analysis.references.tables.is_empty() {
            return false;
        }
        if self.is_proven(id, known) {
            return false;
        }
        let Some(client) = self.clients.get_mut(id) else { return false };
        let Some(session) = client.session.as_deref_mut() else { return false };
        let has_waited = std::mem::take(&mut session.has_asked_names);
        let default = session.user.default_hostgroup;
        let is_mirror = client.is_mirror;
        let group = self.group_of(default);
        let session = self.clients.get(id).and_then(|client| client.session.as_deref());
        let Some(session) = session else { return false };
        let place = place_of(session, group);
        let judged = self.judge_at(known, place);
        if judged.missing.is_empty() && judged.due.is_empty() {
            return false;
        }
        let wait_ms = self.snapshot.settings.catalog_wait_ms;
        let is_new = judged.missing.iter().any(|name| !self.unanswered.contains(name));
        let waits = !judged.missing.is_empty()
            && is_new
            && !has_waited
            && !is_mirror
            && wait_ms > 0
            && self.stopping.is_none();
        if has_waited {
            self.note_unanswered(judged.missing.iter());
        }
        let waiter =
            Waiter { worker: self.options.index, index: id.index, generation: id.generation };
        self.ask_names(id, judged.due, None);
        if judged.missing.is_empty() || !self.ask_names(id, judged.missing, Some(waiter)) || !waits
        {
            return false;
        }
        self.stats.counters.statements_awaited_names += 1;
        let until_ms = self.now.ms() + wait_ms;
        if let Some(client) = self.clients.get_mut(id) {
            debug_assert!(matches!(client.phase, Phase::Idle));
            client.phase = Phase::AwaitNames(Box::new(AwaitNames { frames: frames.to_vec() }));
        }
        self.set_timer(id, until_ms);
        true
    }

    /// Names that were waited for in vain are not waited for again.
    fn note_unanswered<'a>(&mut self, names: impl Iterator<Item = &'a Name>) {
        for name in names {
            if self.unanswered.len() >= UNANSWERED_MAX {
                self.unanswered.clear();
            }
            self.unanswered.insert(name.clone());
        }
    }

    /// Has the control plane ask what names mean. False when nobody will say it.
    fn ask_names(&mut self, id: ClientId, names: Vec<Name>, waiter: Option<Waiter>) -> bool {
        if names.is_empty() {
            return false;
        }
        let now_ms = self.now.ms();
        let catalog = Arc::clone(self.shared.catalog());
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
        let session = self.clients.get(id).and_then(|client| client.session.as_ref());
        let Some(session) = session else { return is_asked };
        let Some(key) = self.accounts.key(session.account) else { return is_asked };
        let ask = CatalogAsk {
            group,
            names: first,
            user: key.server_user().to_owned(),
            credential: (*session.credential).clone(),
            asked_ms: now_ms,
        };
        self.act(Action::AskCatalog(Box::new(ask)));
        true
    }

    /// The control plane has said what it could of names that these clients wait for.
    pub fn catalog_told(&mut self, clients: Vec<ClientId>) {
        clients.into_iter().for_each(|id| self.names_told(id));
    }

    /// A command that waited for its names goes on, whatever is known of them by now.
    pub(crate) fn names_told(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if !matches!(client.phase, Phase::AwaitNames(_)) {
            return;
        }
        let Phase::AwaitNames(waiting) = std::mem::replace(&mut client.phase, Phase::Idle) else {
            return;
        };
        if let Some(session) = client.session.as_mut() {
            session.has_asked_names = true;
        }
        self.set_timer(id, 0);
        self.command_again(id, &waiting.frames);
        self.drain_inbox(id);
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
