//! Names that the control plane is being asked for, and who waits for them.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::{Catalog, Told, Waiter, lock};
use crate::{Name, Object};

/// Names being asked for at once.
pub const ASKS_MAX: usize = 16_384;
/// Clients that wait for one name.
pub const WAITERS_MAX: usize = 4_096;
/// How long an ask may take, ms. One that nobody has settled then is begun anew by who meets the
/// name next.
pub const ASK_TIME_MAX_MS: u64 = 2_000;
/// How long a name is not asked for again that servers said nothing of, ms.
pub const UNTOLD_MS: u64 = 1_000;

/// What became of the wish to ask for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// Nobody is asking: the caller has to.
    First,
    /// It is being asked for; who waits is remembered.
    UnderWay,
    /// It can't be asked for now, and nobody is remembered: too many are.
    Refused,
}

#[derive(Debug, Default)]
pub(super) struct Asks {
    under_way: HashMap<Name, Ask, FixedState>,
    pub begun: u64,
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Ask {
    waiters: Vec<Waiter>,
    begun_ms: u64,
}

impl Catalog {
    /// Somebody wants to know what a name means, and waits for it perhaps.
    pub fn begin_ask(&self, name: Name, waiter: Option<Waiter>, now_ms: u64) -> Begun {
        let mut asks = lock(&self.asks);
        let is_full = asks.under_way.len() >= ASKS_MAX;
        let begun = match asks.under_way.get_mut(&name) {
            Some(ask) if ask.waiters.len() >= WAITERS_MAX => Begun::Refused,
            Some(ask) => {
                ask.waiters.extend(waiter);
                // The control plane settles within that time; twice is for a busy machine.
                match now_ms.saturating_sub(ask.begun_ms) > 2 * ASK_TIME_MAX_MS {
                    true => {
                        ask.begun_ms = now_ms;
                        Begun::First
                    }
                    false => Begun::UnderWay,
                }
            }
            None if is_full => Begun::Refused,
            None => {
                let waiters = waiter.into_iter().collect();
                asks.under_way.insert(name, Ask { waiters, begun_ms: now_ms });
                Begun::First
            }
        };
        match begun {
            Begun::First => asks.begun = asks.begun.saturating_add(1),
            Begun::Refused => asks.refused = asks.refused.saturating_add(1),
            Begun::UnderWay => {}
        }
        begun
    }

    /// Whether somebody has begun to ask for a name, and nothing is told yet.
    pub fn is_being_asked(&self, name: &Name) -> bool {
        lock(&self.asks).under_way.contains_key(name)
    }

    /// These names are not being asked for any more, whether or not something was told of them.
    /// Gives who waited, each once.
    pub fn settle<'a>(&self, names: impl IntoIterator<Item = &'a Name>) -> Vec<Waiter> {
        let mut asks = lock(&self.asks);
        let settled = names.into_iter().filter_map(|name| asks.under_way.remove(name));
        let mut waiters: Vec<Waiter> = settled.flat_map(|ask| ask.waiters).collect();
        drop(asks);
        waiters.sort_unstable_by_key(|it| (it.worker, it.index, it.generation));
        waiters.dedup();
        waiters
    }

    /// The servers say that all of these names are plain base tables, as of now. Gives who waited.
    pub fn settle_as_tables(&self, names: &[Name], now_ms: u64) -> Vec<Waiter> {
        let moment = self.moment(now_ms);
        let told = Told { object: Some(Object::PLAIN_TABLE), ..Told::NOTHING };
        for name in names {
            self.tell(name.clone(), told, moment, now_ms);
        }
        self.settle(names)
    }

    /// Nobody could be asked: these names are not asked for again for a while. Gives who waited.
    pub fn give_up(&self, names: &[Name], now_ms: u64) -> Vec<Waiter> {
        let moment = self.moment(now_ms);
        for name in names {
            self.tell(name.clone(), Told::NOTHING, moment, now_ms);
        }
        self.settle(names)
    }
}
