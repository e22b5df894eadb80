//! What clients hold beyond their free allowance, charged to the budget of all; and clients that
//! wait for memory, or are refused it.

use std::{cell::Cell, rc::Rc};

use trunkline_budget::{
    Charge, Class, FREE_LEN, Holder, Kind, PATIENCE_MS, Purse, Refusal, Verdict,
};
use trunkline_protocol::{
    codec::{
        compressed::Walk,
        frame::{HEADER_LEN, Header},
    },
    command::code,
    error::{ClientError, ErrorKind},
};

use crate::{
    Action, ClientId, Side,
    clients::{
        Clients,
        client::{Client, Frontend, Phase},
        frames::is_partial,
        session::{AnyClient, ClientEntry},
    },
    compressed::Packing,
    rooms::{Core, Lender},
    statement::study::{Found, LongCommand},
};

/// What a client that goes on may read before it asks again, bytes.
const STEP_LEN: usize = 64 * 1024;
/// How often what clients hold is weighed anew where nobody waits, ms.
const WEIGH_EVERY_MS: u64 = 100;

/// What a worker knows of its clients' memory.
#[derive(Debug)]
pub(crate) struct Memory {
    purse: Purse,
    /// Clients that have something charged, or wait.
    listed: Vec<ClientId>,
    /// How many of them wait.
    waiting: usize,
    /// When they were last weighed, ms.
    weighed_ms: u64,
    /// Whether no more is to wait for each client than must.
    pub(crate) is_scarce: bool,
    /// Whether this worker has told the others that it presses, or of a greedy client.
    has_said: bool,
    /// Bytes of the transactions that sessions keep to repeat them.
    pub(crate) replay_bytes: Rc<Cell<usize>>,
    /// What the result cache has, where this worker is the one to charge it.
    cache: Option<Charge>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(Purse::new(Default::default()))
    }
}

impl Memory {
    pub(crate) fn new(purse: Purse) -> Self {
        Self {
            purse,
            listed: Vec::new(),
            replay_bytes: Rc::default(),
            waiting: 0,
            weighed_ms: 0,
            is_scarce: false,
            has_said: false,
            cache: None,
        }
    }

    /// Tells everybody what is in use here. Once a second.
    pub(crate) fn tell(&mut self, worker: usize, cache_bytes: impl FnOnce() -> u64) {
        self.purse.tell();
        if worker == 0 {
            let budget = self.purse.budget();
            self.cache.get_or_insert_with(|| budget.charge_nothing(Kind::Cache)).set(cache_bytes());
        }
    }

    /// When its clients are to be weighed again, ms; `None` while none holds or awaits anything.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let is_urgent = self.waiting > 0 || self.purse.budget().is_pressed();
        (!self.listed.is_empty())
            .then(|| self.weighed_ms + if is_urgent { 1 } else { WEIGH_EVERY_MS })
    }
}

/// What one client holds, if that was ever more than its free allowance since it was last weighed.
#[derive(Debug)]
pub(crate) struct ClientMemory {
    /// Bytes that are charged: statements, prepared ones, results.
    charged: [usize; CHARGED.len()],
    holder: Option<Holder>,
    /// Since when it is not read, for want of memory, ms.
    waits_since_ms: Option<u64>,
    /// The rest of a statement that is thrown away.
    skipping: Option<Skipping>,
}

/// What is charged for a client.
const CHARGED: [Kind; 3] = [Kind::Statements, Kind::Prepared, Kind::Results];

/// A statement that was refused before all of it had come.
#[derive(Debug)]
struct Skipping {
    walk: Walk,
    /// What its client is told at its end; `None` for a command without an answer.
    error: Option<ClientError>,
    /// Whether it might have changed the session, or data, for what comes behind it.
    is_lasting: bool,
}

/// What comes behind a statement that was refused before all of it had come.
pub(crate) enum Skipped<'a> {
    /// More of it.
    More,
    /// Bytes of the next command; none if no more have come.
    Next(&'a [u8]),
    /// Commands that were sent ahead, for a session in which it had run: they are not carried out,
    /// and the session is over.
    SentAhead,
}

impl Frontend {
    /// Bytes that it holds: statements, prepared ones, results.
    #[inline]
    fn held(&self, prepared: usize) -> [usize; CHARGED.len()] {
        let packing = self.io.packing.as_deref().map_or(0, Packing::held);
        let command = match &self.phase {
            // A copy is on its way to the server.
            Phase::Running(statement) => statement.command.frames.len() * 2,
            Phase::AwaitNames(waiting) => {
                let held =
                    |(command, found): &(LongCommand, Box<Found>)| command.held() + found.held();
                let studied = waiting.studied.as_ref().map_or(0, held);
                waiting.frames.len() + studied + waiting.study.map_or(0, |(_, len)| len)
            }
            Phase::Login(_)
            | Phase::Idle
            | Phase::ChangeUser
            | Phase::AwaitKill(_)
            | Phase::Forward(_)
            | Phase::AwaitServer(_)
            | Phase::Closing => 0,
        };
        [self.io.inbox.len() + packing + command, prepared, self.io.outbox.held()]
    }

    /// Whether it waits for memory: it is not read meanwhile.
    #[inline]
    pub(crate) fn waits_for_memory(&self) -> bool {
        self.io.memory.as_deref().is_some_and(|memory| memory.waits_since_ms.is_some())
    }

    /// Whether what comes from it is the rest of a statement that was refused.
    #[inline]
    pub(crate) fn skips(&self) -> bool {
        self.io.memory.as_deref().is_some_and(|memory| memory.skipping.is_some())
    }

    /// Whether it is in the middle of sending a command, of at most `payload_max` bytes, that has
    /// taken memory: one that can be refused, as nobody has seen any of it. Whole commands that
    /// wait for their turn are no such one: each of them is to be answered.
    fn can_give_way(&self, payload_max: usize) -> bool {
        matches!(self.phase, Phase::Idle)
            && self.io.inbox.len() > FREE_LEN
            && !self.skips()
            && is_partial(&self.io.inbox, payload_max)
    }

    /// How much of the statement that it is sending will have come, as far as that is known: with
    /// the packet that is coming in.
    fn announced(&self) -> usize {
        let (mut at, inbox) = (0, self.io.inbox.as_slice());
        while let Some(header) = inbox.get(at..).and_then(Header::read) {
            at += HEADER_LEN + header.payload_len;
        }
        at.max(inbox.len())
    }
}

impl Clients {
    /// Charges what a client holds by now.
    #[inline]
    pub(crate) fn weigh(&mut self, client: &mut impl AnyClient) {
        let prepared = client.session().map_or(0, |session| session.prepared.held());
        let held = client.held(prepared);
        if client.io.memory.is_some() || held.iter().sum::<usize>() > FREE_LEN {
            self.charge(client, held);
        }
    }

    #[cold]
    fn charge(&mut self, client: &mut impl AnyClient, held: [usize; CHARGED.len()]) {
        let sum: usize = held.iter().sum();
        let held = if sum > FREE_LEN { held } else { Default::default() };
        let memory = self.memory_of(client);
        let before = std::mem::replace(&mut memory.charged, held);
        let sum = held.iter().sum();
        if sum == 0 {
            memory.holder = None;
        } else if let Some(holder) = &mut memory.holder {
            holder.set(sum);
        } else {
            let session = client.session();
            let user = session.map(|session| &*session.login.user.name);
            let holders = self.memory.purse.budget().holders();
            let mut holder = Holder::new(holders, user, client.origin.peer.client_addr);
            holder.set(sum);
            if let Some(memory) = &mut client.io.memory {
                memory.holder = Some(holder);
            }
        }
        for (kind, (before, now)) in CHARGED.into_iter().zip(before.into_iter().zip(held)) {
            if before != now {
                self.memory.purse.change(kind, before, now);
            }
        }
    }

    fn memory_of<'a>(&mut self, client: &'a mut Frontend) -> &'a mut ClientMemory {
        let (id, listed) = (client.id, &mut self.memory.listed);
        client.io.memory.get_or_insert_with(|| {
            listed.push(id);
            Box::new(ClientMemory {
                charged: Default::default(),
                holder: None,
                waits_since_ms: None,
                skipping: None,
            })
        })
    }

    /// A client goes: nothing is its any more.
    pub(crate) fn uncharge(&mut self, client: &mut Frontend) {
        let Some(mut memory) = client.io.memory.take() else { return };
        if memory.waits_since_ms.take().is_some() {
            self.memory.waiting -= 1;
            self.memory.purse.budget().end_wait();
        }
        for (kind, before) in CHARGED.into_iter().zip(memory.charged) {
            self.memory.purse.change(kind, before, 0);
        }
        self.memory.listed.retain(|id| *id != client.id);
    }

    /// Whether there is memory for the next bytes of what a client sends; `promised` bytes are
    /// spoken for.
    fn ask_for(&self, client: &Frontend, promised: usize, now_ms: u64) -> Verdict {
        let memory = client.io.memory.as_deref();
        let held = client.io.inbox.len();
        let class = match &client.phase {
            Phase::Login(_) => Class::Login,
            _ if held > 2 * STEP_LEN => Class::Continue,
            _ => Class::Begin,
        };
        let since_ms = memory.and_then(|memory| memory.waits_since_ms).unwrap_or(now_ms);
        let waited_ms = now_ms.saturating_sub(since_ms);
        let announced = client.announced();
        self.memory.purse.budget().ask(class, announced, STEP_LEN + promised, waited_ms)
    }
}

impl Core {
    /// Tells everybody what is in use here. Once a second.
    pub(crate) fn tell_memory(&mut self) {
        let cache = self.env.shared.cache();
        let worker = self.env.options.index;
        self.clients.memory.tell(worker, || cache.figures().bytes);
    }

    /// After bytes of a client have come: charges them, and stops reading it, or refuses its
    /// statement, where there is no memory for more.
    #[cold]
    pub(crate) fn weigh_sender(&mut self, client: &mut ClientEntry) {
        self.clients.weigh(client);
        let payload_max = self.env.snapshot.settings.max_allowed_packet;
        let is_sending = match client.phase {
            Phase::Login(_) => client.io.inbox.len() > FREE_LEN,
            _ => client.can_give_way(payload_max),
        };
        if !is_sending || client.waits_for_memory() {
            return;
        }
        match self.clients.ask_for(client, 0, self.env.now.ms()) {
            Verdict::Go => {}
            // Whose time to log in is over ends by that.
            Verdict::Refuse(_) if is_login(client) => self.wait_for_memory(client),
            Verdict::Wait => self.wait_for_memory(client),
            Verdict::Refuse(refusal) => self.refuse_memory_of(client, refusal),
        }
    }

    fn wait_for_memory(&mut self, client: &mut Frontend) {
        let now_ms = self.env.now.ms();
        self.clients.memory_of(client).waits_since_ms = Some(now_ms);
        self.clients.memory.waiting += 1;
        self.clients.memory.purse.budget().begin_wait();
        if !client.io.is_paused {
            client.io.is_paused = true;
            self.fx.act(Action::Pause(Side::Client(client.id)));
        }
    }

    /// Reads on from a client that has waited for memory.
    fn end_memory_wait(&mut self, client: &mut Frontend) {
        let memory = client.io.memory.as_deref_mut();
        if memory.and_then(|memory| memory.waits_since_ms.take()).is_none() {
            return;
        }
        self.clients.memory.waiting -= 1;
        self.clients.memory.purse.budget().end_wait();
        if std::mem::take(&mut client.io.is_paused) {
            self.resume_client(client);
        }
    }

    /// Refuses the statement that a client is sending: its rest is thrown away as it comes, and
    /// answered with the error then.
    fn refuse_memory_of(&mut self, entry: &mut ClientEntry, refusal: Refusal) {
        if let Some(client) = entry.client_mut() {
            self.refuse_memory(client, refusal);
        }
    }

    fn refuse_memory(&mut self, client: &mut Client, refusal: Refusal) {
        let error = self.out_of_memory(client, client.announced(), refusal);
        let mut walk = Walk::default();
        walk.pass(&client.io.inbox);
        let code = client.io.inbox.get(HEADER_LEN).copied().unwrap_or_default();
        match code {
            code::STMT_SEND_LONG_DATA => self.refuse_piece(client),
            code::STMT_PREPARE => {
                client.session.prepared.forget_last();
            }
            _ => {}
        }
        client.io.inbox = Vec::new();
        let error = (code != code::STMT_SEND_LONG_DATA).then_some(error);
        let skipping = Skipping { walk, error, is_lasting: code != code::STMT_PREPARE };
        self.clients.memory_of(client).skipping = Some(skipping);
        self.clients.weigh(client);
        self.end_memory_wait(client);
    }

    /// A piece of a long parameter is not kept: the execution that it is for fails.
    fn refuse_piece(&mut self, client: &mut Client) {
        let id = client.front.io.inbox.get(HEADER_LEN + 1..).and_then(|rest| rest.first_chunk());
        let Some(id) = id else { return };
        let session = &mut *client.session;
        if let Some(id) = session.prepared.resolve(u32::from_le_bytes(*id)) {
            session.prepared.refuse_long_data(id);
        }
    }

    /// Counts, and logs, that a client is refused memory; the error that it is told.
    fn out_of_memory(&mut self, client: &Client, wanted: usize, refusal: Refusal) -> ClientError {
        let budget = self.clients.memory.purse.budget();
        budget.refused(refusal);
        let (max, total) = (budget.max(), budget.total());
        let user = &client.session.login.user.name;
        self.fx.log(true, || {
            let host = client.origin.peer.host();
            format!(
                "refused memory to user {user} from {host} ({}): {total} of {max} bytes in use, \
                 {wanted} bytes wanted",
                refusal.name()
            )
        });
        ErrorKind::OutOfResources.says(match refusal {
            Refusal::TooLarge => format!(
                "Out of memory: {wanted} bytes are more than one client may take of memory_max \
                 ({max}); send less at once, or raise memory_max"
            ),
            Refusal::Full => format!(
                "Out of memory: {total} bytes of memory_max ({max}) are in use; try again, or \
                 raise memory_max"
            ),
            Refusal::Greediest => format!(
                "Out of memory: others wait for a part of memory_max ({max}), and this client, its \
                 user and its address hold most; send less at once, or raise memory_max"
            ),
        })
    }

    /// Throws the rest of a refused statement away, and answers it at its end.
    #[cold]
    pub(crate) fn skip<'a>(&mut self, client: &mut Client, bytes: &'a [u8]) -> Skipped<'a> {
        let memory = client.io.memory.as_deref_mut();
        let Some(skipping) = memory.and_then(|memory| memory.skipping.as_mut()) else {
            return Skipped::Next(bytes);
        };
        let len = skipping.walk.pass_one(bytes);
        if !skipping.walk.is_between() {
            return Skipped::More;
        }
        let seq = skipping.walk.seq().wrapping_add(1);
        let memory = client.io.memory.as_deref_mut();
        let skipped = memory.and_then(|memory| memory.skipping.take());
        let (error, is_lasting) =
            skipped.map_or((None, false), |skipped| (skipped.error, skipped.is_lasting));
        let rest = bytes.get(len..).unwrap_or_default();
        let is_over =
            error.is_some() && is_lasting && (!rest.is_empty() || client.has_sent_ahead());
        if let Some(error) = error {
            self.fx.stats.counters.errors_sent += 1;
            self.fx.stats.counters.statements_answered += 1;
            client.note_error(&error);
            self.write_error(client, seq, &error);
        }
        if is_over { Skipped::SentAhead } else { Skipped::Next(rest) }
    }

    /// Weighs who holds something, lets go on who waits, and has the greediest give way.
    #[inline]
    pub(crate) fn weigh_clients(&mut self) {
        let now_ms = self.env.now.ms();
        if self.clients.memory.due_ms().is_some_and(|due_ms| due_ms <= now_ms) {
            self.weigh_listed(now_ms);
        }
    }

    #[cold]
    fn weigh_listed(&mut self, now_ms: u64) {
        self.clients.memory.weighed_ms = now_ms;
        let listed = std::mem::take(&mut self.clients.memory.listed);
        let (mut promised, mut presses, mut greediest) = (0, false, (0, None));
        let payload_max = self.env.snapshot.settings.max_allowed_packet;
        for id in listed {
            let stays = self.with_entry(id, |core, client| {
                core.clients.weigh(client);
                if client.waits_for_memory() {
                    presses |= core.go_on_waiting(client, &mut promised, now_ms);
                }
                let memory = client.io.memory.as_deref();
                let score =
                    memory.and_then(|memory| memory.holder.as_ref()).map_or(0, Holder::score);
                if score > greediest.0 && client.can_give_way(payload_max) {
                    greediest = (score, Some(id));
                }
                core.clients.forget_light(client)
            });
            if stays == Some(true) {
                self.clients.memory.listed.push(id);
            }
        }
        self.press(presses, greediest);
        let budget = self.clients.memory.purse.budget();
        let is_scarce = budget.total() > Class::Pass.ceiling(budget.max());
        self.clients.memory.is_scarce = is_scarce;
    }

    /// Lets a client that waits go on, or refuses it, if the time has come; true while it waits on
    /// and has lost its patience.
    fn go_on_waiting(
        &mut self,
        client: &mut ClientEntry,
        promised: &mut usize,
        now_ms: u64,
    ) -> bool {
        let since_ms = client.io.memory.as_deref().and_then(|memory| memory.waits_since_ms);
        let payload_max = self.env.snapshot.settings.max_allowed_packet;
        if !is_login(client) && !client.can_give_way(payload_max) {
            // What it waited with has gone.
            self.end_memory_wait(client);
            return false;
        }
        match self.clients.ask_for(client, *promised, now_ms) {
            Verdict::Go => {
                *promised += STEP_LEN;
                self.end_memory_wait(client);
                false
            }
            Verdict::Wait => {
                since_ms.is_some_and(|since_ms| now_ms.saturating_sub(since_ms) >= PATIENCE_MS)
            }
            Verdict::Refuse(_) if is_login(client) => false,
            Verdict::Refuse(refusal) => {
                self.refuse_memory_of(client, refusal);
                false
            }
        }
    }

    /// Whether a session may keep `len` bytes more than it does, or the error that says why not.
    pub(crate) fn may_keep(&mut self, client: &Client, len: usize) -> Result<(), ClientError> {
        let held = client.session.prepared.held();
        if held + len <= FREE_LEN {
            return Ok(());
        }
        let budget = self.clients.memory.purse.budget();
        match budget.ask(Class::Keep, held + len, len, 0) {
            Verdict::Go => Ok(()),
            Verdict::Wait => Err(self.out_of_memory(client, held + len, Refusal::Full)),
            Verdict::Refuse(refusal) => Err(self.out_of_memory(client, held + len, refusal)),
        }
    }

    /// Tells the other workers whether somebody has lost patience here, and has this worker's
    /// greediest client give way if it is the greediest of all.
    fn press(&mut self, presses: bool, (score, greediest): (u64, Option<ClientId>)) {
        let memory = &mut self.clients.memory;
        let budget = memory.purse.budget();
        if !presses && !memory.has_said && !budget.is_pressed() {
            return;
        }
        let worker = self.env.options.index;
        let gives_way = budget.press(worker, score, presses);
        memory.has_said = presses || score > 0;
        if let Some(id) = greediest.filter(|_| gives_way) {
            self.with_client(id, |core, client| core.refuse_memory(client, Refusal::Greediest));
            // Whoever waited may have found memory now; if not, it presses again.
            self.clients.memory.has_said = false;
            self.clients.memory.purse.budget().press(worker, 0, false);
        }
    }
}

impl Clients {
    /// Forgets what was known of the memory of a client that holds none; true if it does.
    fn forget_light(&mut self, client: &mut Frontend) -> bool {
        let is_heavy = client.io.memory.as_deref().is_some_and(|memory| {
            memory.holder.is_some() || memory.waits_since_ms.is_some() || memory.skipping.is_some()
        });
        if !is_heavy {
            client.io.memory = None;
        }
        is_heavy
    }
}

fn is_login(client: &Frontend) -> bool {
    matches!(client.phase, Phase::Login(_))
}

#[cfg(test)]
mod tests;
