//! Runs a program on both sides, step by step.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use trunkline_testkit::{Flavour, Trunkline, wait_until};

use crate::client::Answer;
use crate::compare::{self, has_lost, shown, was_struck};
use crate::data;
use crate::plan::{Act, Plan, Step};
use crate::session::{
    Session, act, asks_for_conditions, is_answered_by_proxy, leaves_conditions, shows_profiles,
};
use crate::stage::Stage;

/// How long a statement that sleeps is looked for.
const SLEEPER_MAX: Duration = Duration::from_millis(500);
/// A wait for a lock that ended, as answers show it: a session's locks are not on the reader, so a
/// read there goes on.
const LOCK_WAIT: &str = "error 1205 ";
/// What the proxy says to a `GET DIAGNOSTICS CONDITION` whose connection has served others since.
const UNSUPPORTED_CONDITIONS: &str = "'diagnostics of a statement whose connection has served";
/// What the proxy says of an id whose connection was killed: directly, its session has gone too.
const LOST_INSERT_ID: &str = "LAST_INSERT_ID() is unknown: the server connection";
/// How long a proxied session's end may take to be seen.
const END_MAX: Duration = Duration::from_secs(2);

/// What differs between the proxied sessions and their twins.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The step, or `None` for what is looked at in the end.
    pub step: Option<usize>,
    /// What was asked: two differences with the same text are taken for the same.
    pub what: String,
    /// Through the proxy.
    pub proxied: String,
    /// Directly.
    pub direct: String,
}

/// How a program ended.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Both sides were the same.
    Same,
    /// They were not.
    Differs(Difference),
    /// It can't be compared: why.
    GivenUp(String),
}

impl Difference {
    pub(crate) fn of_data(what: &str, proxied: String, direct: String) -> Difference {
        Difference { step: None, what: what.to_owned(), proxied, direct }
    }

    /// Whether it is about the same question, as far as one can tell.
    #[must_use]
    pub fn is_like(&self, other: &Difference) -> bool {
        self.what == other.what && self.step.is_some() == other.step.is_some()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "at       {}", self.what)?;
        writeln!(f, "proxied  {:.1200}", self.proxied)?;
        writeln!(f, "directly {:.1200}", self.direct)
    }
}

/// Runs a program from a fresh schema and with a proxy of its own; `statements` counts its steps.
///
/// # Errors
/// When servers or the proxy can't be started or asked.
pub fn run(stage: &mut Stage, plan: &Plan, statements: &mut u64) -> Result<Verdict> {
    stage.set(plan)?;
    let proxy = stage.proxy(plan.profile)?;
    let played = play(stage, &proxy, plan, statements);
    let last_words = || {
        let log = proxy.log();
        log.lines().rev().take(5).collect::<Vec<_>>().join(" / ")
    };
    if !proxy.is_running() {
        let what = "the proxy ended";
        return Ok(Verdict::Differs(Difference::of_data(what, last_words(), String::new())));
    }
    played.with_context(|| format!("the proxy's last words: {}", last_words()))
}

/// Whether ids may be those of another session's `auto_increment_increment`. Measured on MySQL 9.7:
/// a table that a connection has open has the step of its last generated id, over resets too, also
/// for what follows an id that was given.
fn keeps_step_of_ids(family: Flavour, steps: &[Step]) -> bool {
    let says = |words: &str| steps.iter().any(|step| step.act.to_string().contains(words));
    family == Flavour::MySql
        && says("auto_increment_increment")
        && (says("insert_id = ") || says("(id, "))
}

fn play(
    stage: &mut Stage,
    proxy: &Trunkline,
    plan: &Plan,
    statements: &mut u64,
) -> Result<Verdict> {
    let mut scene = Scene { stage, proxy, plan, sessions: Vec::new() };
    for account in &plan.accounts {
        scene.sessions.push(Some(Session::begin(scene.stage, proxy, *account)?));
    }
    for (at, step) in plan.steps.iter().enumerate() {
        *statements += 1;
        if plan.profile.has_reader() && !scene.stage.catch_up_soon()? {
            return Ok(Verdict::GivenUp(format!("the replica waits before step {at}")));
        }
        if let Some((proxied, direct)) = scene.step(step)? {
            if proxied.contains(UNSUPPORTED_CONDITIONS) {
                return Ok(Verdict::GivenUp(format!("refused conditions at step {at}")));
            }
            let earlier = plan.steps.get(..at).unwrap_or_default();
            let was_struck = earlier.iter().any(|step| matches!(step.act, Act::Strike(_)));
            if was_struck && proxied.contains(LOST_INSERT_ID) {
                return Ok(Verdict::GivenUp(format!("an id was lost before step {at}")));
            }
            if keeps_step_of_ids(scene.stage.family, earlier) && proxied.contains("insert id") {
                return Ok(Verdict::GivenUp(format!("ids have the step of others at step {at}")));
            }
            if plan.profile.has_reader() && direct.contains(LOCK_WAIT) {
                return Ok(Verdict::GivenUp(format!("a lock is not the reader's at step {at}")));
            }
            let what = step.act.to_string();
            return Ok(Verdict::Differs(Difference { step: Some(at), what, proxied, direct }));
        }
    }
    scene.sessions.clear();
    let left = data::difference(scene.stage, plan.profile.has_reader())?;
    Ok(left.map_or(Verdict::Same, Verdict::Differs))
}

/// A program at work.
struct Scene<'a> {
    stage: &'a mut Stage,
    proxy: &'a Trunkline,
    plan: &'a Plan,
    /// `None` only while one begins anew.
    sessions: Vec<Option<Session>>,
}

type Both = Option<(String, String)>;

impl Scene<'_> {
    fn step(&mut self, step: &Step) -> Result<Both> {
        let target = match step.act {
            Act::Kill { target, .. } => target,
            Act::Reconnect => {
                self.begin_anew(step.session)?;
                return Ok(None);
            }
            Act::Strike(ref text) => return self.strike(step.session, text, &step.act),
            Act::Query(_)
            | Act::Prepared(_)
            | Act::Close
            | Act::Reset
            | Act::Ping
            | Act::ChangeUser(_)
            | Act::Schema(_) => step.session,
        };
        let ids = match self.session(target) {
            Ok(target) => (target.proxied.connection_id(), target.direct.connection_id()),
            Err(_) => return Ok(None),
        };
        // MariaDB keeps conditions until a statement uses a table; the proxy those of the last one.
        let may_be_older = self.stage.family == Flavour::MariaDb;
        let session = self.session(step.session)?;
        let asks = asks_for_conditions(&step.act);
        if asks && (may_be_older && !session.has_conditions || session.has_mixed_conditions) {
            return Ok(None);
        }
        if shows_profiles(&step.act) && session.may_keep_profiles {
            return Ok(None);
        }
        let proxied = act(&mut session.proxied, &step.act, ids.0);
        let direct = act(&mut session.direct, &step.act, ids.1);
        if !asks {
            let leaves = leaves_conditions(&direct);
            session.has_mixed_conditions = matches!(step.act, Act::Schema(_))
                && leaves
                && (session.has_conditions || session.has_mixed_conditions);
            session.has_conditions = leaves;
        }
        let own = is_answered_by_proxy(&step.act);
        let is_old = own && session.has_old_flags;
        let differs = compare::difference(&step.act, &proxied, &direct)
            .filter(|_| !is_old || !compare::differ_in_status(&step.act, &proxied, &direct));
        if !own {
            session.has_old_flags = direct.iter().any(|one| matches!(one, Answer::Error(_)));
        }
        match step.act {
            _ if differs.is_some() => {}
            _ if has_lost(&direct) => self.begin_anew(step.session)?,
            Act::ChangeUser(_) => {
                let keeps_role = self.stage.family == Flavour::MariaDb;
                let session = self.session(step.session)?;
                session.may_keep_profiles = true;
                if keeps_role {
                    session.direct.query(b"SET ROLE NONE");
                }
                session.forget_past();
            }
            Act::Reset => {
                let session = self.session(step.session)?;
                session.may_keep_profiles = true;
                session.forget_past();
            }
            _ => {}
        }
        Ok(differs)
    }

    /// A statement whose connection is killed while it runs. Where the proxy answers all the
    /// same, the twin runs it in peace, and everything is compared; else both begin anew. In
    /// either case it has had effects once at most.
    fn strike(&mut self, session: usize, text: &[u8], step: &Act) -> Result<Both> {
        let before = data::marks(&mut self.stage.primary)?;
        let before_direct = data::marks(&mut self.stage.direct)?;
        self.session(session)?.proxied.send_query(text);
        self.kill_sleeper(false)?;
        let proxied = self.session(session)?.proxied.answers();
        let marked = data::marks(&mut self.stage.primary)? - before;
        let was_struck = was_struck(&proxied);
        let direct = if was_struck {
            self.session(session)?.direct.send_query(text);
            self.kill_sleeper(true)?;
            self.session(session)?.direct.answers()
        } else {
            self.session(session)?.direct.query(text)
        };
        let marked_direct = data::marks(&mut self.stage.direct)? - before_direct;
        let told = |answers: &[Answer], marked: u64| {
            format!("{}; the statement has taken effect {marked} times", shown(answers))
        };
        let is_too_often = match was_struck {
            true => marked > 1,
            false => marked != marked_direct,
        };
        if is_too_often {
            return Ok(Some((told(&proxied, marked), told(&direct, marked_direct))));
        }
        if was_struck {
            self.begin_anew(session)?;
            return Ok(None);
        }
        Ok(compare::difference(step, &proxied, &direct))
    }

    fn kill_sleeper(&mut self, is_direct: bool) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < SLEEPER_MAX {
            if self.stage.kill_sleeper(is_direct)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn session(&mut self, session: usize) -> Result<&mut Session> {
        let found = self.sessions.get_mut(session).and_then(Option::as_mut);
        found.with_context(|| format!("no session {session}"))
    }

    fn begin_anew(&mut self, session: usize) -> Result<()> {
        let Some(place) = self.sessions.get_mut(session) else { return Ok(()) };
        let Some(ended) = place.take() else { return Ok(()) };
        let account = self.plan.accounts.get(session).copied().context("no account")?;
        let id = ended.direct.connection_id();
        drop(ended);
        self.stage.wait_gone(id)?;
        self.wait_clients()?;
        if let Some(place) = self.sessions.get_mut(session) {
            *place = Some(Session::begin(self.stage, self.proxy, account)?);
        }
        Ok(())
    }

    /// Waits until the proxy has seen the end of a session.
    fn wait_clients(&self) -> Result<()> {
        let count = self.sessions.iter().flatten().count();
        wait_until("the proxy sees a session end", END_MAX, || {
            let clients = self.proxy.metric("trunkline_worker_clients", "")?.unwrap_or(0.0);
            Ok((clients <= f64::from(u32::try_from(count)?)).then_some(()))
        })
    }
}
