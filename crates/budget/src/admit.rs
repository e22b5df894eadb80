//! Whether somebody may have more memory.

/// What memory is wanted for. Each may take the budget up to a part of its own, so that what
/// comes later in the life of a statement, and whoever keeps order, still finds some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A statement of which little has come so far.
    Begin,
    /// The rest of a statement that is being received.
    Continue,
    /// What a session keeps beyond its statement: prepared texts, long data, a cache's entries.
    Keep,
    /// A statement on its way to a server, and the result that comes back.
    Pass,
    /// A login.
    Login,
    /// The admin port.
    Admin,
}

impl Class {
    /// Sixteenths of the budget up to which it is given memory.
    const fn sixteenths(self) -> u64 {
        match self {
            Self::Begin => 8,
            Self::Continue | Self::Keep => 10,
            Self::Pass => 13,
            Self::Login => 15,
            Self::Admin => 16,
        }
    }

    /// The bytes in use, of all, up to which it is given memory.
    pub fn ceiling(self, max: u64) -> u64 {
        max / 16 * self.sixteenths()
    }

    /// The most bytes that one may ever take, in the end.
    fn largest(self, max: u64) -> u64 {
        match self {
            // What was begun goes on.
            Self::Begin => Self::Continue.ceiling(max),
            Self::Continue | Self::Keep | Self::Pass | Self::Login | Self::Admin => {
                self.ceiling(max)
            }
        }
    }

    /// Whether who wants it can be left waiting: its client is not read meanwhile.
    const fn may_wait(self) -> bool {
        matches!(self, Self::Begin | Self::Continue)
    }
}

/// How long a client waits before the greediest one has to give way, ms.
pub const PATIENCE_MS: u64 = 1_000;
/// How long a client waits before it is refused itself, ms.
pub const WAIT_MS_MAX: u64 = 10_000;

/// Somebody who wants memory, and how much is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Bytes in use.
    pub total: u64,
    /// The budget.
    pub max: u64,
    /// What it is for.
    pub class: Class,
    /// Bytes that it will take in the end, as far as that is known.
    pub whole: u64,
    /// Bytes of these that are wanted now.
    pub wanted: u64,
    /// How long who asks has waited, ms.
    pub waited_ms: u64,
}

/// What is said to who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Take it.
    Go,
    /// Ask again later.
    Wait,
    /// Never.
    Refuse(Refusal),
}

/// Why somebody does not get memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is more than is ever given for this.
    TooLarge,
    /// The budget is used up, and was for as long as who asks could wait.
    Full,
    /// Others want memory, and nobody holds more than this client, its user and its address.
    Greediest,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::TooLarge, Self::Full, Self::Greediest];

    /// As a label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Full => "full",
            Self::Greediest => "greediest",
        }
    }
}

/// Whether who asks may have what it wants.
pub fn admit(ask: &Ask) -> Verdict {
    let ceiling = ask.class.ceiling(ask.max);
    if ask.whole > ask.class.largest(ask.max) {
        return Verdict::Refuse(Refusal::TooLarge);
    }
    if ask.total.saturating_add(ask.wanted) <= ceiling {
        return Verdict::Go;
    }
    match ask.class.may_wait() && ask.waited_ms < WAIT_MS_MAX {
        true => Verdict::Wait,
        false => Verdict::Refuse(Refusal::Full),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 1_600;

    fn check(class: Class, total: u64, whole: u64, wanted: u64, waited_ms: u64, expected: Verdict) {
        let ask = Ask { total, max: MAX, class, whole, wanted, waited_ms };
        assert_eq!(admit(&ask), expected, "{ask:?}");
    }

    #[test]
    fn each_class_has_memory_up_to_its_own_part() {
        let parts = [
            (Class::Begin, 800),
            (Class::Continue, 1_000),
            (Class::Keep, 1_000),
            (Class::Pass, 1_300),
            (Class::Login, 1_500),
            (Class::Admin, 1_600),
        ];
        for (class, part) in parts {
            check(class, part - 10, 0, 10, 0, Verdict::Go);
            let beyond = match class.may_wait() {
                true => Verdict::Wait,
                false => Verdict::Refuse(Refusal::Full),
            };
            check(class, part - 10, 0, 11, 0, beyond);
        }
    }

    #[test]
    fn a_statement_waits_for_so_long_and_is_refused_then() {
        for class in [Class::Begin, Class::Continue] {
            check(class, 1_000, 0, 1, WAIT_MS_MAX - 1, Verdict::Wait);
            check(class, 1_000, 0, 1, WAIT_MS_MAX, Verdict::Refuse(Refusal::Full));
        }
    }

    #[test]
    fn what_can_never_be_had_is_refused_at_once() {
        check(Class::Continue, 0, 1_001, 1, 0, Verdict::Refuse(Refusal::TooLarge));
        check(Class::Continue, 900, 1_000, 100, 0, Verdict::Go);
        check(Class::Begin, 0, 1_001, 1, 0, Verdict::Refuse(Refusal::TooLarge));
        check(Class::Begin, 0, 1_000, 1, 0, Verdict::Go);
        check(Class::Admin, 0, u64::MAX, 1, 0, Verdict::Refuse(Refusal::TooLarge));
    }

    #[test]
    fn logins_and_the_admin_port_find_memory_when_statements_do_not() {
        let total = Class::Pass.ceiling(MAX);
        check(Class::Pass, total, 0, 1, 0, Verdict::Refuse(Refusal::Full));
        check(Class::Login, total, 0, 200, 0, Verdict::Go);
        check(Class::Admin, Class::Login.ceiling(MAX), 0, 100, 0, Verdict::Go);
    }
}
