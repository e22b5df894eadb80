//! What bytes mean, in place of a seed: a fuzzer's input decides what clients do, what goes wrong
//! and what operators do, step by step. Any bytes mean a run.
//!
//! The first two bytes choose the world, as a small seed does. Every four of the others are a
//! record: what happens, to whom, and two that say how; some take bytes that follow as they are.
//! A record that is changed or cut out leaves what the others mean.

use trunkline_topology::ServerState;

use super::{
    Act, Fault, Limits, Plan,
    draw::{draw_link_fault, draw_server_fault},
    origins,
};
use crate::{
    HostId, Micros,
    client::{HABITS, more},
    rng::Rng,
};

/// Clients at least and at most.
const CLIENTS: (u64, u64) = (2, 6);
/// Records that mean something; a run is short.
const RECORDS_MAX: u64 = 400;
/// Tags that the steps of one record may have.
const TAGS_PER_RECORD: u64 = 64;

/// What a record may be, by the letter that readable inputs have for it; other bytes mean one of
/// these, too.
const KINDS: [(u8, Kind); 17] = [
    (b'a', Kind::Steps(0)),
    (b't', Kind::Steps(1)),
    (b's', Kind::Steps(2)),
    (b'p', Kind::Steps(3)),
    (b'h', Kind::Steps(4)),
    (b'l', Kind::Steps(5)),
    (b'r', Kind::Steps(6)),
    (b'S', Kind::ServerFault),
    (b'L', Kind::LinkFault),
    (b'E', Kind::SetState),
    (b'P', Kind::Publish),
    (b'?', Kind::Look),
    (b'!', Kind::Stop),
    (b'w', Kind::Wait),
    (b'c', Kind::ClientBabbles),
    (b'x', Kind::HostBabbles),
    (b'%', Kind::Abandon),
];

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A client does something of this habit.
    Steps(usize),
    /// Something goes wrong at a server.
    ServerFault,
    /// Something goes wrong on a link.
    LinkFault,
    /// A server entry is taken out, and comes back.
    SetState,
    /// The next configuration is published.
    Publish,
    /// Somebody looks at the statistics, or stored answers are forgotten.
    Look,
    /// All workers are told to stop.
    Stop,
    /// Time passes.
    Wait,
    /// Bytes of the input come from a client.
    ClientBabbles,
    /// Bytes of the input come from a host.
    HostBabbles,
    /// A step of a client's session panics.
    Abandon,
}

/// One record.
struct Record<'a> {
    kind: Kind,
    whom: usize,
    b: u8,
    c: u8,
    rest: &'a [u8],
}

impl<'a> Record<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let ([letter, whom, b, c], rest) = bytes.split_first_chunk()?;
        let named = KINDS.iter().find(|(name, _)| name == letter);
        let any = KINDS.get(usize::from(*letter) % KINDS.len());
        let (_, kind) = named.or(any)?;
        Some(Self { kind: *kind, whom: usize::from(*whom), b: *b, c: *c, rest })
    }

    /// Chance of its own.
    fn rng(&self) -> Rng {
        Rng::new(u64::from(self.b) << 8 | u64::from(self.c))
    }

    /// The next `b` bytes of the input, which are no records.
    fn take_bytes(&mut self) -> Vec<u8> {
        let len = usize::from(self.b).min(self.rest.len());
        let (bytes, rest) = self.rest.split_at_checked(len).unwrap_or_default();
        self.rest = rest;
        bytes.to_vec()
    }
}

/// A plan in the making.
struct Reader {
    plan: Plan,
    at: Micros,
    /// Configurations that were published, the first one included.
    published: usize,
    records: u64,
}

impl Plan {
    /// The run that these bytes mean.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let (head, mut rest) = bytes.split_at_checked(2).unwrap_or((bytes, &[]));
        let seed = head.iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte));
        let limits = Limits { clients: CLIENTS, statements: (0, 0), faults: false };
        let plan = Self::from_seed(seed, &limits);
        let mut reader = Reader { plan, at: 0, published: 1, records: 0 };
        while let Some(record) = Record::read(rest).filter(|_| reader.records < RECORDS_MAX) {
            rest = reader.record(record);
        }
        let mut plan = reader.plan;
        // The records have added changes of user.
        origins::refuse_changes(&mut plan);
        plan.acts.sort_by_key(|(at, _)| *at);
        plan.faults.sort_by_key(|(at, _)| *at);
        plan
    }

    /// Whether somebody says what a model of it does not know of: what is answered then means
    /// nothing.
    pub fn has_babble(&self) -> bool {
        self.faults.iter().any(|(_, fault)| match fault {
            Fault::ClientBabbles(..) | Fault::HostBabbles(..) | Fault::Abandon(_) => true,
            Fault::Server(_)
            | Fault::CutClient(_)
            | Fault::HalfCloseClient(_)
            | Fault::StallClient(..)
            | Fault::VanishClient(..)
            | Fault::CutHost(..)
            | Fault::HalfCloseHost(..)
            | Fault::StallHost(..)
            | Fault::Partition(..)
            | Fault::PartitionAll(_)
            | Fault::CutOffClients(..)
            | Fault::CutOffWorker(..)
            | Fault::CutOffMonitor(..)
            | Fault::NoNeighbours(_)
            | Fault::Pause(..) => false,
        })
    }
}

impl Reader {
    /// Adds what a record means; what follows it.
    fn record<'a>(&mut self, mut record: Record<'a>) -> &'a [u8] {
        self.records += 1;
        let client = record.whom % self.plan.clients.len().max(1);
        match record.kind {
            Kind::Steps(habit) => self.steps(client, habit, &record),
            Kind::ServerFault => draw_server_fault(&mut record.rng(), &mut self.plan, self.at),
            Kind::LinkFault => draw_link_fault(&mut record.rng(), &mut self.plan, self.at),
            Kind::SetState => self.set_state(&record),
            Kind::Publish => {
                if self.published < self.plan.configs.len() {
                    self.plan.acts.push((self.at, Act::Publish(self.published)));
                    self.published += 1;
                }
            }
            Kind::Look => {
                let act = match record.b % 3 {
                    0 => Act::Report,
                    1 => Act::Flush,
                    _ => Act::Forget,
                };
                self.plan.acts.push((self.at, act));
            }
            Kind::Stop => self.plan.acts.push((self.at, Act::Stop(u64::from(record.b) * 10))),
            Kind::Wait => self.at += 1 << (record.b % 20),
            Kind::ClientBabbles => {
                let fault = Fault::ClientBabbles(client, record.take_bytes());
                self.plan.faults.push((self.at, fault));
            }
            Kind::HostBabbles => {
                let host = HostId(record.whom % self.plan.cluster.hosts.len().max(1));
                let nth = usize::from(record.c);
                let fault = Fault::HostBabbles(host, nth, record.take_bytes());
                self.plan.faults.push((self.at, fault));
            }
            Kind::Abandon => self.plan.faults.push((self.at, Fault::Abandon(client))),
        }
        record.rest
    }

    fn steps(&mut self, client: usize, habit: usize, record: &Record<'_>) {
        let users = self.plan.configs.first().map_or(&[][..], |config| config.users.as_slice());
        let tags_from = self.records * TAGS_PER_RECORD;
        if let (Some(client), Some(habit)) = (self.plan.clients.get_mut(client), HABITS.get(habit))
        {
            let steps = more(&mut record.rng(), client, users, *habit, tags_from);
            client.script.extend(steps);
        }
    }

    fn set_state(&mut self, record: &Record<'_>) {
        let servers = self.plan.configs.first().map_or(&[][..], |config| config.servers.as_slice());
        let Some(server) = servers.get(record.whom % servers.len().max(1)) else { return };
        let state = match record.c % 3 {
            0 => ServerState::Shunned,
            1 => ServerState::OfflineSoft,
            _ => ServerState::OfflineHard,
        };
        let act = |state| Act::SetState(server.hostgroup, server.host, state);
        let back = self.at + (1_000 << (record.b % 10));
        let acts = [(self.at, act(state)), (back, act(ServerState::Online))];
        self.plan.acts.extend(acts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_mean_what_their_records_say() {
        let plan = Plan::from_bytes(b"ab" as &[u8]);
        let count = |plan: &Plan| plan.clients.iter().map(|it| it.script.len()).sum::<usize>();
        let more = Plan::from_bytes(b"aba\0\0\x01w\0\x05\0c\x01\x03\0xyzS\0\0\x04");
        assert!(count(&more) > count(&plan), "{more:?}");
        let babble =
            more.faults.iter().find(|(_, fault)| matches!(fault, Fault::ClientBabbles(..)));
        assert_eq!(babble, Some(&(32, Fault::ClientBabbles(1, b"xyz".to_vec()))));
        assert!(more.faults.len() > 1 && more.has_babble() && !plan.has_babble());
    }

    #[test]
    fn a_record_that_is_cut_out_leaves_the_others() {
        let whole = Plan::from_bytes(b"abw\0\x05\0?\0\0\0w\0\x05\0?\0\0\0");
        let cut = Plan::from_bytes(b"abw\0\x05\0w\0\x05\0?\0\0\0");
        assert_eq!(whole.acts.len(), cut.acts.len() + 1);
        assert_eq!(whole.acts.last(), cut.acts.last());
    }
}
