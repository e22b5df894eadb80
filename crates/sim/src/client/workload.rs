//! The scripts that seeds stand for: a grammar of what applications do.
//!
//! A client mostly keeps to one habit, with a little of everything else. Scripts are made without
//! a look at what will come of them: the shadow knows what each statement then answers, so that a
//! script stays valid when something is cut out of it.

mod habits;

use trunkline_protocol::{Capabilities, packet::greeting::Flavor};

use super::{
    login::Identity,
    rows::own_key,
    spec::{ClientSpec, Deed, Leaving, Reading, Step},
};
use crate::{
    Micros,
    plan::UserSpec,
    rng::Rng,
    statement::{Act, Statement, Tag},
};

/// The longest rest before a step that [`more`] adds, µs.
const PAUSE_MAX_US: u64 = 2_000;

/// What a client is drawn from.
#[derive(Debug, Clone, Copy)]
pub struct Draw<'a> {
    /// Its place in the plan.
    pub place: usize,
    /// The servers' dialect.
    pub flavor: Flavor,
    /// Users that there are.
    pub users: &'a [UserSpec],
    /// Statements, about.
    pub statements: usize,
    /// When it connects.
    pub starts_us: Micros,
}

/// What a client mostly does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Reads and writes by key, each its own transaction.
    Autocommit,
    /// Transactions, with reads that lock and writes that follow from them.
    Transactions,
    /// `SET`s of all kinds, schemas, users, and looks at what came of them.
    SessionState,
    /// Statements prepared by command and by SQL, some of them left open.
    Prepared,
    /// Temporary tables, named locks, table locks.
    Holding,
    /// Large results.
    LargeResults,
    /// What the last statement left: warnings, counts, ids.
    Traces,
}

/// All habits.
pub(crate) const HABITS: [Habit; 7] = [
    Habit::Autocommit,
    Habit::Transactions,
    Habit::SessionState,
    Habit::Prepared,
    Habit::Holding,
    Habit::LargeResults,
    Habit::Traces,
];

/// A script in the making.
struct Script<'a> {
    rng: &'a mut Rng,
    draw: Draw<'a>,
    steps: Vec<Step>,
    /// Tags given so far.
    tags: u64,
    /// Inserts into `log`, to be counted later.
    inserts: Vec<Tag>,
    /// `SET`s that may be said again.
    sets: Vec<Act>,
    has_multi: bool,
    is_direct: bool,
    /// Rules may send a transaction's statements elsewhere (`transaction_persistent = false`): in
    /// transactions it says only what no rule of a plan is about, and it leaves none open.
    is_torn: bool,
    /// The longest rest before a step, µs.
    pause_max_us: u64,
}

/// A client that `draw` describes.
pub fn draw(rng: &mut Rng, draw: &Draw<'_>) -> ClientSpec {
    let users = draw.users;
    let user = rng.pick(users);
    let identity = user.map_or_else(nobody, |user| identity(rng, user));
    let (identity, refusal) = spoil(rng, identity);
    let is_direct = user.is_some_and(|user| user.is_fast_forward);
    let capabilities = capabilities(rng);
    let habits = [
        (4, Habit::Autocommit),
        (4, Habit::Transactions),
        (4, Habit::SessionState),
        (3, Habit::Prepared),
        (3, Habit::Holding),
        (1, Habit::LargeResults),
        (2, Habit::Traces),
    ];
    let habit = rng.weighted(&habits).copied().unwrap_or(Habit::Autocommit);
    let ahead_max = rng.weighted(&[(4, 1), (1, 3), (1, 16)]).copied().unwrap_or(1);
    let pauses = [(2, 0), (3, 2_000), (3, 40_000), (1, 1_500_000)];
    let pause_max_us = rng.weighted(&pauses).copied().unwrap_or(0);
    let reading = match rng.chance(1, 8) || habit == Habit::LargeResults && rng.chance(1, 2) {
        true => {
            Reading::Slow { every: rng.between(200, 40_000), pause_us: rng.between(100, 60_000) }
        }
        false => Reading::Eager,
    };
    let leavings =
        [(4, Leaving::Politely), (2, Leaving::Silently), (2, Leaving::Rudely), (1, Leaving::Never)];
    let leaving = rng.weighted(&leavings).copied().unwrap_or(Leaving::Politely);
    let reconnects_max = u32::try_from(rng.between(0, 5)).unwrap_or(0);
    let mut script = Script {
        rng,
        draw: *draw,
        steps: Vec::new(),
        tags: 0,
        inserts: Vec::new(),
        sets: Vec::new(),
        has_multi: capabilities.contains(Capabilities::MULTI_STATEMENTS),
        is_direct,
        is_torn: users.iter().any(|user| !user.is_transaction_persistent),
        pause_max_us,
    };
    script.write(habit);
    ClientSpec {
        place: draw.place,
        identity,
        refusal,
        flavor: draw.flavor,
        capabilities,
        header: Vec::new(),
        encrypts: false,
        starts_us: draw.starts_us,
        script: script.steps,
        ahead_max,
        reading,
        leaving,
        is_direct,
        reconnects_max,
    }
}

/// What a client does once more, of one habit. Tags go on behind `tags_from`.
pub(crate) fn more(
    rng: &mut Rng,
    client: &ClientSpec,
    users: &[UserSpec],
    habit: Habit,
    tags_from: u64,
) -> Vec<Step> {
    let draw = Draw {
        place: client.place,
        flavor: client.flavor,
        users,
        statements: 0,
        starts_us: client.starts_us,
    };
    let mut script = Script {
        rng,
        draw,
        steps: Vec::new(),
        tags: tags_from,
        inserts: Vec::new(),
        sets: Vec::new(),
        has_multi: client.capabilities.contains(Capabilities::MULTI_STATEMENTS),
        is_direct: client.is_direct,
        is_torn: users.iter().any(|user| !user.is_transaction_persistent),
        pause_max_us: PAUSE_MAX_US,
    };
    script.practise(habit);
    script.steps
}

fn nobody() -> Identity {
    Identity {
        user: "nobody".to_owned(),
        password: "nothing".to_owned(),
        schema: None,
        default_schema: None,
    }
}

fn identity(rng: &mut Rng, user: &UserSpec) -> Identity {
    let schemas = [(5, Some("shop")), (3, Some("depot")), (3, None)];
    let schema = rng.weighted(&schemas).copied().flatten();
    Identity {
        user: user.name.clone(),
        password: user.password.clone(),
        schema: schema.map(str::to_owned),
        default_schema: user.schema.map(str::to_owned),
    }
}

/// Now and then something about an identity is wrong; with the error that follows.
fn spoil(rng: &mut Rng, mut identity: Identity) -> (Identity, Option<u16>) {
    match rng.below(60) {
        0 => {
            identity.password.push('!');
            (identity, Some(1045))
        }
        1 => {
            identity.schema = Some("nowhere".to_owned());
            (identity, Some(1049))
        }
        _ if identity.user == "nobody" => (identity, Some(1045)),
        _ => (identity, None),
    }
}

fn capabilities(rng: &mut Rng) -> Capabilities {
    let all = [
        (3, Capabilities::DEPRECATE_EOF),
        (2, Capabilities::SESSION_TRACK),
        (1, Capabilities::FOUND_ROWS),
        (3, Capabilities::MULTI_STATEMENTS),
    ];
    let drawn = all.into_iter().filter(|(times, _)| rng.chance(*times, 4));
    drawn.fold(Capabilities::EMPTY, |all, (_, flag)| all | flag)
}

impl Script<'_> {
    fn write(&mut self, habit: Habit) {
        let others = [
            Habit::Autocommit,
            Habit::Transactions,
            Habit::SessionState,
            Habit::Prepared,
            Habit::Holding,
            Habit::Traces,
        ];
        while self.steps.len() < self.draw.statements {
            let now = match self.rng.chance(4, 5) {
                true => habit,
                false => self.rng.pick(&others).copied().unwrap_or(habit),
            };
            self.practise(now);
        }
        if self.rng.chance(1, 10) {
            let bytes = usize::try_from(self.rng.between(1, 50)).unwrap_or(1);
            self.deed(Deed::Vanish { bytes });
        }
    }

    /// A number that no other statement of the client has.
    fn tag(&mut self) -> Tag {
        self.tags += 1;
        Tag::new(self.draw.place, self.tags)
    }

    fn deed(&mut self, deed: Deed) {
        // Most steps follow at once.
        let pause_us = match self.rng.chance(1, 3) {
            true => self.rng.below(self.pause_max_us + 1),
            false => 0,
        };
        self.steps.push(Step { pause_us, deed });
    }

    fn statement(&mut self, act: Act) -> Statement {
        let tag = self.tag();
        if act == Act::Insert {
            self.inserts.push(tag);
        }
        Statement::new(tag, act)
    }

    /// A statement in a command of its own.
    fn say(&mut self, act: Act) {
        let statement = self.statement(act);
        self.deed(Deed::Query(vec![statement]));
    }

    /// Several statements in one command; one by one if the client can't.
    fn say_all(&mut self, acts: Vec<Act>) {
        if !self.has_multi {
            return acts.into_iter().for_each(|act| self.say(act));
        }
        let statements = acts.into_iter().map(|act| self.statement(act)).collect();
        self.deed(Deed::Query(statements));
    }

    /// A key: mostly of a row of the client's own, so that it knows what must be there.
    fn key(&mut self) -> u64 {
        match self.rng.chance(1, 6) {
            true => self.rng.between(1, 8),
            false => own_key(self.draw.place, self.rng.below(4)),
        }
    }
}
