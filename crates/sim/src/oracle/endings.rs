//! Everything is answered in time, with a cause that is true; and at rest nothing is left.
//!
//! An error may be told for one of these reasons only:
//!
//! | error | because |
//! |---|---|
//! | any | a server answered this very statement with it |
//! | any | the client expects it: `KILL`, an unknown statement id, a rule |
//! | any | a server refused what the proxy sent of its own (state, login) with it |
//! | 2013 | a connection to a server was lost, this session's or on the way to it |
//! | 1213 | the same, where it says that it is for that |
//! | 9001 | the cause in its text was true while the statement waited |
//! | 1907 | it took as long as a statement may |
//! | 1041 | memory is scarce |
//! | 1040, 1226 | so many clients or sessions were there |
//! | 1045 | the password is wrong, the user has gone, or a server refuses the account |
//! | 1049 | the schema is not there |
//! | 4031 | its session has rested for as long as it may |

use trunkline_protocol::error::ErrorKind;

use super::{
    Breach, Violation,
    facts::{CauseKind, Execution, Setting},
    history::{Access, ClientHistory, EndedBy, Exchange, LoginOutcome, SessionHistory},
    index::Index,
    kills::{is_killed, is_session_killed},
};
use crate::{Micros, client::reply::Refused};

/// What is left when clients have gone and everything had its time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rest {
    /// When.
    pub at_us: Micros,
    /// Each thing that should be back or gone and is not, in words.
    pub left: Vec<String>,
    /// Workers that were told to stop and did not by their deadline.
    pub unstopped: Vec<usize>,
    /// What servers were sent and did not understand.
    pub nonsense: Vec<String>,
}

/// How exactly the workers' clock tells the time, µs.
const TICK_US: Micros = 1_000;
/// What may pass between a cause and what is told of it, µs: links are slow, and workers look at
/// deadlines from time to time.
const SLACK_US: Micros = 2_000_000;
/// The longest that a client waits for memory (`budget::WAIT_MS_MAX`), µs.
const MEMORY_WAIT_US: Micros = 10_000_000;

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Violation>) {
    for (client, session) in index.sessions() {
        login(index, client, session, found);
        ending(index, client, session, found);
        for (number, exchange) in session.exchanges.iter().enumerate() {
            let look = Look { index, client, session, exchange, number };
            look.answered(found);
            look.cause(found);
        }
    }
    let rest = index.run.rest;
    let nobodys = |evidence| Violation {
        breach: Breach::Leak,
        client: None,
        tag: None,
        at_us: rest.at_us,
        evidence,
    };
    found.extend(rest.left.iter().cloned().map(nobodys));
    let nonsense = rest.nonsense.iter();
    found.extend(nonsense.map(|text| Violation {
        breach: Breach::Nonsense,
        ..nobodys(format!("a server did not understand {text:?}"))
    }));
    let unstopped = rest.unstopped.iter();
    found.extend(unstopped.map(|worker| nobodys(format!("worker {worker} did not stop"))));
}

/// The longest that one turn may take: a wait for a connection, as often as it may be repeated,
/// and the statement itself.
fn turn_max_us(index: &Index<'_>, from_us: Micros, until_us: Micros) -> Micros {
    let of_setting = |setting: &Setting| {
        let waits = setting.queue_wait_max_us * (2 + Micros::from(setting.retries_max));
        waits + setting.limit_wait_us + setting.outcome_max_us
    };
    let memory_us = if index.facts().lacks_memory { MEMORY_WAIT_US } else { 0 };
    let settings = index.facts().settings_between(from_us, until_us);
    let turn_us = settings.map(of_setting).max().unwrap_or(0) + memory_us;
    turn_us + index.facts().statement_max_us + SLACK_US
}

/// A login is answered in time, and refused for a reason.
fn login(
    index: &Index<'_>,
    client: &ClientHistory,
    session: &SessionHistory,
    found: &mut Vec<Violation>,
) {
    let breach = |breach, at_us, evidence| Violation {
        breach,
        client: Some(client.client),
        tag: None,
        at_us,
        evidence,
    };
    match &session.login {
        LoginOutcome::Accepted(at_us) => {
            let mut settings = index.facts().settings_between(session.begun_us, *at_us);
            let turns_away = session.refusal_expected.filter(|code| TURNED_AWAY.contains(code));
            if let Some(code) = turns_away {
                let evidence = format!("{} logged in, and is to be refused ({code})", session.user);
                found.push(breach(Breach::LetIn, *at_us, evidence));
            } else if !settings.any(|setting| lets_in(setting, session)) {
                let evidence = format!("{} logged in with a password of no user", session.user);
                found.push(breach(Breach::LetIn, *at_us, evidence));
            }
        }
        LoginOutcome::Refused(at_us, error) => {
            let is_unknown_schema = session.refusal_expected == Some(1049)
                && error.message.contains("Unknown database");
            let is_true = session.refusal_expected == Some(error.code)
                || error.code == 1045 && is_turned_away(index, session, *at_us)
                || is_unknown_schema
                // A change of user that met the loss of its session's transaction.
                || error.is_lost_transaction()
                    && index.any_lost(session.begun_us.saturating_sub(SLACK_US), *at_us)
                || error.code == 1317 && is_killed(index, session, session.begun_us, *at_us)
                || error.code == 2013
                    && (has_garbage(index, *at_us) || is_session_killed(index, session, *at_us))
                || error.code == ErrorKind::Inactivity.code()
                    && had_rested(index, client, session, *at_us)
                || error.message.contains("pinned_share_max")
                    && former(client, session).is_some_and(|it| gave_way(index, it, *at_us))
                || is_true_everywhere(index, error, session.begun_us, *at_us);
            if !is_true {
                let evidence = format!("refused at the login of {}: {error:?}", session.user);
                found.push(breach(Breach::UntrueCause, *at_us, evidence));
            }
        }
        LoginOutcome::Pending if session.ending.is_none() => {
            let ended_us = index.facts().ended_us;
            let max_us = turn_max_us(index, session.begun_us, ended_us);
            if session.begun_us + max_us < ended_us {
                let evidence = format!("the login of {} was never answered", session.user);
                found.push(breach(Breach::Unanswered, ended_us, evidence));
            }
        }
        LoginOutcome::Pending => {}
    }
}

/// Refusals of who is somebody else, comes from elsewhere, or does not encrypt.
const TURNED_AWAY: [u16; 4] = [1043, 1045, 1130, 3159];

/// Whether a configuration has the session's user with the session's password.
fn lets_in(setting: &Setting, session: &SessionHistory) -> bool {
    setting.users.get(&session.user).is_some_and(|user| user.password == session.password)
}

/// Whether a configuration of the time has no such user, or one with another password.
fn is_turned_away(index: &Index<'_>, session: &SessionHistory, at_us: Micros) -> bool {
    let mut settings = index.facts().settings_between(session.begun_us, at_us);
    settings.any(|setting| !lets_in(setting, session))
}

/// A session that the proxy ends, ends for a reason.
// long: one list of what may end a session, in the order in which it counts.
fn ending(
    index: &Index<'_>,
    client: &ClientHistory,
    session: &SessionHistory,
    found: &mut Vec<Violation>,
) {
    let Some(ending) = session.ending.as_ref().filter(|ending| ending.how == EndedBy::Proxy) else {
        return;
    };
    let facts = index.facts();
    let at_us = ending.at_us;
    // A refusal or an error came before the end; whether it is true is looked at elsewhere.
    let was_refused = matches!(session.login, LoginOutcome::Refused(..));
    let ends_session = |error: &Refused| ENDING.contains(&error.code);
    let ends_what_follows = |error: &Refused| ENDING_WHAT_FOLLOWS.contains(&error.code);
    let told = Some(session).filter(|session| last_error(session).is_some()).or_else(|| {
        // Whoever changes its user may not have heard yet that its session was ending.
        former(client, session).filter(|_| session.exchanges.is_empty())
    });
    let last_error = told.and_then(last_error);
    let from_us = last_us(session);
    let is_pending = matches!(session.login, LoginOutcome::Pending);
    let is_late = facts.settings_between(from_us, at_us).any(|setting| {
        is_pending && at_us.saturating_sub(session.begun_us) + SLACK_US >= setting.login_max_us
    });
    let is_rested = is_late || has_rested(index, from_us, at_us);
    let since_us = session.begun_us.saturating_sub(SLACK_US);
    // A refusal is lost when a header or a login arrives behind it.
    let is_unheard = is_pending
        && session.has_header
        && (session.refusal_expected == Some(1043)
            || facts.has_cause(CauseKind::ClientsFull, session.begun_us, at_us));
    let is_true = was_refused
        || is_unheard
        || is_rested
        || last_error.is_some_and(ends_session)
        || (has_open_exchange(session) || told.is_some_and(failed_to_change))
            && last_error.is_some_and(ends_what_follows)
        || is_session_killed(index, session, at_us)
        // A server that ends interrupts what it runs, and may close the connection behind that.
        || last_error.is_some_and(|error| error.code == INTERRUPTED)
            && index.any_lost(since_us, at_us)
        || facts.has_cause(CauseKind::Stopping, 0, at_us)
        // In the middle of a packet nothing but the end can tell that the server is lost; nor can
        // anything else to a client that has a server connection of its own. What is told may be
        // lost as well, when the client sends something just then.
        || (index.any_lost(since_us, at_us)
            || has_garbage(index, at_us)
            || facts.has_cause(CauseKind::Offline, since_us, at_us))
            && (has_open_exchange(session) || is_forwarded(index, session, at_us))
        // What was sent ahead behind a statement that found no connection ends with it.
        || (is_forwarded(index, session, at_us) || has_sent_ahead(session))
            && has_any_wait_cause(index, since_us, at_us)
        // Nor does anything run behind what a `KILL QUERY` met before it was sent.
        || told.is_some_and(|session| met_unsent(index, session)) && has_open_exchange(session)
        // That is told, and may be lost when the client sends something just then; as may what is
        // told where memory is scarce.
        || told.is_none()
            && (lost_ahead(index, session, at_us)
                || facts.lacks_memory && has_sent_ahead(session))
        // A server that is taken out takes those along whose bytes go straight to it.
        || is_forwarded(index, session, at_us) && has_new_setting(index, at_us);
    if !is_true {
        found.push(Violation {
            breach: Breach::EndedForNothing,
            client: Some(client.client),
            tag: None,
            at_us,
            evidence: format!("the session of {} was closed without a cause", session.user),
        });
    }
}

fn last_error(session: &SessionHistory) -> Option<&Refused> {
    session.exchanges.iter().rev().find_map(Exchange::error)
}

/// Errors after which a session may end; after 1907 where the statement was not sent, and was to
/// change the session or, without autocommit, to begin a transaction.
const ENDING: [u16; 12] = [
    2013,
    9001,
    1043,
    1049,
    1053,
    1153,
    1156,
    1226,
    1835,
    1907,
    1927,
    ErrorKind::Inactivity.code(),
];

/// ER_QUERY_INTERRUPTED.
const INTERRUPTED: u16 = 1317;

/// What a statement is told that ends a transaction on a reader, where its session holds more.
const ENDS_ON_READER: &str = "this statement ends a transaction on a reader";

/// Errors of statements that were not sent, after which a session may end that has sent commands
/// ahead, or was to be changed by them.
const ENDING_WHAT_FOLLOWS: [u16; 2] = [1045, 1041];

/// A statement of another user than this session's, or a login that tries a schema, had waited for
/// half of the time that it may.
fn gave_way(index: &Index<'_>, session: &SessionHistory, at_us: Micros) -> bool {
    let waits = index.facts().settings.iter().map(|setting| setting.queue_wait_max_us / 2);
    let half_us = waits.min().unwrap_or_default();
    let has_waited = |from_us: Micros, until_us: Option<Micros>| {
        let until_us = until_us.unwrap_or(at_us).min(at_us);
        until_us.saturating_sub(from_us) + SLACK_US >= half_us
    };
    let mut others =
        index.sessions().map(|(_, other)| other).filter(|other| other.user != session.user);
    others.any(|other| {
        let logged_in_us = match other.login {
            LoginOutcome::Pending => None,
            LoginOutcome::Accepted(at_us) | LoginOutcome::Refused(at_us, _) => Some(at_us),
        };
        let mut exchanges = other.exchanges.iter();
        has_waited(other.begun_us, logged_in_us)
            || exchanges.any(|it| has_waited(it.sent_us, it.answered_us()))
    })
}

/// What a session that changes its user was before.
fn former<'a>(client: &'a ClientHistory, session: &SessionHistory) -> Option<&'a SessionHistory> {
    let before = client.sessions.iter().take_while(|before| !std::ptr::eq(*before, session)).last();
    before.filter(|before| before.number == session.number)
}

/// Whether a session that changes its user had rested for as long as it may under the old one.
fn had_rested(
    index: &Index<'_>,
    client: &ClientHistory,
    session: &SessionHistory,
    at_us: Micros,
) -> bool {
    former(client, session).is_some_and(|before| has_rested(index, last_us(before), at_us))
}

/// Whether a session that sent nothing since then had rested for as long as it may.
fn has_rested(index: &Index<'_>, from_us: Micros, at_us: Micros) -> bool {
    let rested_us = at_us.saturating_sub(from_us);
    index.facts().settings_between(from_us, at_us).any(|setting| {
        setting.wait_timeout_us != 0 && rested_us + SLACK_US >= setting.wait_timeout_us
    })
}

/// When a session last sent something. That is when it began to rest, at the earliest: its client
/// may take answers late.
fn last_us(session: &SessionHistory) -> Micros {
    let begun_us = match session.login {
        LoginOutcome::Accepted(at_us) => at_us,
        LoginOutcome::Pending | LoginOutcome::Refused(..) => session.begun_us,
    };
    let last = session.exchanges.iter().map(|exchange| exchange.sent_us).max();
    last.unwrap_or(0).max(begun_us)
}

/// Whether the session's bytes go straight to a server connection of its own.
pub(super) fn is_forwarded(index: &Index<'_>, session: &SessionHistory, at_us: Micros) -> bool {
    let mut settings = index.facts().settings_between(session.begun_us, at_us);
    settings.any(|it| it.users.get(&session.user).is_some_and(|user| user.is_forwarded))
}

fn has_open_exchange(session: &SessionHistory) -> bool {
    session.exchanges.iter().any(is_open)
}

/// Whether the last statement that failed was more than a read.
fn failed_to_change(session: &SessionHistory) -> bool {
    let failed = session.exchanges.iter().rev().find(|exchange| exchange.error().is_some());
    failed.is_some_and(|exchange| {
        let mut accesses = exchange.statements.iter().map(|said| said.access);
        exchange.statements.is_empty() || accesses.any(|access| access != Access::Read)
    })
}

/// Whether the last statement that failed was interrupted before any server got it, and may have
/// been more than a look at something: what stands behind a name nobody may know.
fn met_unsent(index: &Index<'_>, session: &SessionHistory) -> bool {
    let failed = session.exchanges.iter().rev().find(|exchange| exchange.error().is_some());
    failed.is_some_and(|exchange| {
        let said = &exchange.statements;
        let may_change = said.is_empty()
            || said.iter().any(|said| said.access != Access::Read)
            || exchange.text.contains(" FROM ");
        let was_sent = said.iter().any(|said| index.ran(said.tag).next().is_some());
        exchange.error().is_some_and(|error| error.code == 1317) && may_change && !was_sent
    })
}

/// Whether a configuration has come into force lately.
fn has_new_setting(index: &Index<'_>, at_us: Micros) -> bool {
    index.facts().settings_between(at_us.saturating_sub(SLACK_US), at_us).count() > 1
}

/// Whether commands of its were not answered that it had sent behind others.
fn has_sent_ahead(session: &SessionHistory) -> bool {
    session.exchanges.iter().filter(|exchange| is_open(exchange)).count() > 1
}

/// Whether a statement was interrupted behind which the session had sent others.
fn lost_ahead(index: &Index<'_>, session: &SessionHistory, at_us: Micros) -> bool {
    let first = session.exchanges.iter().find(|exchange| is_open(exchange));
    has_sent_ahead(session)
        && first.is_some_and(|first| is_killed(index, session, first.sent_us, at_us))
}

fn is_open(exchange: &Exchange) -> bool {
    exchange.answered_us().is_none() && !exchange.is_unanswered
}

/// One exchange with what surrounds it.
struct Look<'a, 'b> {
    index: &'b Index<'a>,
    client: &'a ClientHistory,
    session: &'a SessionHistory,
    exchange: &'a Exchange,
    number: usize,
}

impl Look<'_, '_> {
    fn breach(&self, breach: Breach, at_us: Micros, evidence: &str) -> Violation {
        Violation {
            breach,
            client: Some(self.client.client),
            tag: self.exchange.statements.first().map(|said| said.tag),
            at_us,
            evidence: format!("{evidence}; the command was {:?}", self.exchange.text),
        }
    }

    fn turn_us(&self) -> Micros {
        self.session.turn_us(self.number).unwrap_or(self.exchange.sent_us)
    }

    /// In time, or the session has ended.
    fn answered(&self, found: &mut Vec<Violation>) {
        if self.exchange.is_unanswered {
            return;
        }
        let ended_us = self.index.facts().ended_us;
        let turn_us = self.turn_us();
        let until_us = match (self.exchange.answered_us(), &self.session.ending) {
            (Some(at_us), _) => at_us,
            // Whoever leaves, does not wait; but for those who are there when the run ends.
            (None, Some(ending)) if ending.at_us < ended_us => return,
            (None, _) => ended_us,
        };
        let max_us = turn_max_us(self.index, turn_us, until_us) + self.exchange.paused_us;
        let took_us = until_us.saturating_sub(turn_us);
        if took_us > max_us {
            let evidence = format!("{took_us} µs after its turn; {max_us} are allowed");
            found.push(self.breach(Breach::Unanswered, until_us, &evidence));
        }
    }

    /// An error says what is true.
    fn cause(&self, found: &mut Vec<Violation>) {
        let (Some(error), Some(at_us)) = (self.exchange.error(), self.exchange.answered_us())
        else {
            return;
        };
        // A fast-forward client has waited for its server since its login.
        let from_us = match is_forwarded(self.index, self.session, at_us) {
            true => self.session.begun_us,
            // A client that did not read meanwhile does not know when its turn was.
            false if self.exchange.paused_us > 0 => self.exchange.sent_us,
            false => self.turn_us(),
        };
        let is_unknown_schema = self.session.refusal_expected == Some(1049)
            && error.message.contains("Unknown database");
        // A fast-forward client gets what its server sends, also what only looks like an error.
        let is_nonsense =
            is_forwarded(self.index, self.session, at_us) && has_garbage(self.index, at_us);
        if self.exchange.error_expected == Some(error.code)
            || is_nonsense
            || is_unknown_schema
            || self.is_servers_own(error)
            || self.is_lost(error, at_us)
            || self.is_ruled(error, at_us)
            || self.is_killed(error, at_us)
            || self.is_out_of_time(error, at_us)
            || self.is_rested(error, at_us)
            || is_true_everywhere(self.index, error, from_us, at_us)
        {
            return;
        }
        let evidence = format!("{} {}", error.code, error.message);
        found.push(self.breach(Breach::UntrueCause, at_us, &evidence));
    }

    /// A server answered one of the command's statements with it.
    fn is_servers_own(&self, error: &Refused) -> bool {
        let said = self.exchange.statements.iter();
        said.flat_map(|said| self.index.ran(said.tag)).any(|ran| ran.error == Some(error.code))
    }

    /// The connection that served it, or the session before it, is gone.
    fn is_lost(&self, error: &Refused, at_us: Micros) -> bool {
        if error.code != 2013 && !error.is_lost_transaction() && !error.says_undone() {
            return false;
        }
        // A server's nonsense shows when the connection is used next, however late that is.
        let words = ["can't be understood", "sent a compressed packet"];
        if words.iter().any(|words| error.message.contains(words)) {
            return has_garbage(self.index, at_us);
        }
        // What another one needed the connection for, it is told when it asks.
        if error.message.starts_with("LAST_INSERT_ID() is unknown")
            && (self.is_displaced(at_us) || gave_way(self.index, self.session, at_us))
        {
            return true;
        }
        if error.message.contains("pinned_share_max") {
            return gave_way(self.index, self.session, at_us);
        }
        let before = self.session.exchanges.get(..=self.number).unwrap_or_default();
        // The proxy gives up the connection of a transaction whose server takes no writes.
        let refuses = |ran: &Execution| ran.error == Some(1290) && ran.at_us <= at_us;
        if error.message.contains("--read-only") {
            let mut said = before.iter().flat_map(|exchange| &exchange.statements);
            return said.any(|said| self.index.ran(said.tag).any(refuses));
        }
        let said = before.iter().flat_map(|exchange| &exchange.statements);
        let links = said.flat_map(|said| self.index.ran(said.tag)).map(|ran| ran.link);
        let mut lost = links.filter_map(|link| self.index.lost(link));
        // On its way to a server that nothing of this session has reached.
        let turn_us = self.turn_us().saturating_sub(SLACK_US);
        lost.any(|lost_us| lost_us <= at_us) || self.index.any_lost(turn_us, at_us)
    }

    /// A fast-forward client's connection may have taken the place of the one at rest that it left
    /// something on.
    fn is_displaced(&self, at_us: Micros) -> bool {
        self.index.sessions().any(|(_, session)| {
            let has_begun = (self.session.begun_us..at_us).contains(&session.begun_us);
            has_begun && is_forwarded(self.index, session, at_us)
        })
    }

    /// Somebody interrupted it, or `kills` looks at the answer.
    fn is_killed(&self, error: &Refused, at_us: Micros) -> bool {
        let (index, session) = (self.index, self.session);
        error.code == 1317 && is_killed(index, session, self.exchange.sent_us, at_us)
            || error.code == 2013 && is_session_killed(index, session, at_us)
            || self.exchange.kill.is_some() && matches!(error.code, 1094 | 1095 | 1317 | 1927)
            || self.exchange.kill.is_some()
                && error.message.ends_with("the worker that knows this session has stopped")
                && index.facts().has_cause(CauseKind::Stopping, 0, at_us)
    }

    fn is_out_of_time(&self, error: &Refused, at_us: Micros) -> bool {
        let took_us = at_us.saturating_sub(self.exchange.sent_us);
        let mut settings = self.index.facts().settings_between(self.exchange.sent_us, at_us);
        let is_long =
            |setting: &Setting| (1..=took_us + TICK_US).contains(&setting.query_timeout_us);
        error.code == 1907 && settings.any(is_long)
    }

    /// It had rested before the command, which may have crossed the error on its way.
    fn is_rested(&self, error: &Refused, at_us: Micros) -> bool {
        let before = self.session.exchanges.get(..self.number).unwrap_or_default();
        let sent_us = before.iter().map(|exchange| exchange.sent_us);
        let last_us = sent_us.filter(|sent_us| sent_us + SLACK_US < at_us).max();
        let from_us = last_us.unwrap_or(self.session.begun_us);
        error.code == ErrorKind::Inactivity.code() && has_rested(self.index, from_us, at_us)
    }

    fn is_ruled(&self, error: &Refused, at_us: Micros) -> bool {
        let (user, text) = (&self.session.user, &self.exchange.text);
        let mut settings = self.index.facts().settings_between(self.exchange.sent_us, at_us);
        match error.code {
            1148 => {
                settings.any(|setting| setting.ruled(user, text).is_answered)
                    || error.message.starts_with(ENDS_ON_READER)
            }
            1226 => settings.any(|it| it.limited.is_some_and(|part| text.contains(part))),
            _ => false,
        }
    }
}

/// Whether a server may have sent nonsense before this time.
pub(super) fn has_garbage(index: &Index<'_>, at_us: Micros) -> bool {
    let causes = index.facts().causes.iter();
    causes.filter(|cause| cause.kind == CauseKind::Garbage).any(|cause| cause.from_us <= at_us)
}

/// What is true for everybody alike.
fn is_true_everywhere(
    index: &Index<'_>,
    error: &Refused,
    from_us: Micros,
    until_us: Micros,
) -> bool {
    let facts = index.facts();
    let has = |kind| facts.has_cause(kind, from_us, until_us);
    // What was sent ahead had its turn before its client read the answer to the one before.
    let since_us = from_us.saturating_sub(SLACK_US);
    let from_server = |code| {
        has(CauseKind::ServerError(code))
            || facts.executions.iter().any(|ran| {
                let is_proxys = ran.tag.is_none() && ran.error == Some(code);
                is_proxys && (since_us..=until_us).contains(&ran.at_us)
            })
    };
    let is_own = match error.code {
        9001 => {
            is_wait_true(index, error, from_us, until_us) || missed_write(index, error, until_us)
        }
        1040 => has(CauseKind::ClientsFull),
        1041 => facts.lacks_memory,
        1226 => has(CauseKind::UserFull),
        1045 => has(CauseKind::AccountRefused),
        1049 => has(CauseKind::SchemaGone),
        // The proxy says so at the deadline of its stop.
        1053 if facts.has_cause(CauseKind::Stopping, 0, until_us) => true,
        // While servers go down they say so.
        1053 | 1927 => {
            has(CauseKind::Lost) || index.any_lost(from_us, until_us.saturating_add(SLACK_US))
        }
        // Closed by the proxy itself, as an operator wants it.
        2013 | 1213 if error.message.contains("taken out of the hostgroup") => {
            has(CauseKind::Offline)
        }
        2013 => index.any_lost(from_us.saturating_sub(SLACK_US), until_us),
        _ => false,
    };
    is_own || from_server(error.code)
}

/// How long servers are shunned, and statements wait because of it, µs.
const SHUN_US: Micros = 4_000_000;

/// The proxy's words for why no connection was there, and what makes them true.
const WAITS: [(&str, &[CauseKind]); 9] = [
    ("the hostgroup is paused", &[CauseKind::Paused]),
    (
        "the KILL did not reach the server",
        &[CauseKind::Full, CauseKind::Lost, CauseKind::Unreachable, CauseKind::Slow],
    ),
    ("the hostgroup has no server", &[CauseKind::Offline]),
    (
        "servers is online",
        &[CauseKind::Unreachable, CauseKind::Lost, CauseKind::Offline, CauseKind::Full],
    ),
    ("online servers are at max_connections", &[CauseKind::Full]),
    ("servers is busy", &[CauseKind::Full, CauseKind::Slow]),
    ("statements wait already", &[CauseKind::QueueFull]),
    (
        "came up in time",
        &[CauseKind::Unreachable, CauseKind::Lost, CauseKind::Slow, CauseKind::Full],
    ),
    ("the proxy is stopping", &[CauseKind::Stopping]),
];

/// Whether a connection could not be had.
fn has_any_wait_cause(index: &Index<'_>, from_us: Micros, until_us: Micros) -> bool {
    let mut kinds = WAITS.iter().flat_map(|(_, kinds)| kinds.iter());
    kinds.any(|kind| index.facts().has_cause(*kind, from_us, until_us))
}

fn is_wait_true(index: &Index<'_>, error: &Refused, from_us: Micros, until_us: Micros) -> bool {
    // A shun, and what waits behind it, come after what caused them.
    let since_us = from_us.saturating_sub(SHUN_US);
    let has = |kind: &CauseKind| index.facts().has_cause(*kind, since_us, until_us);
    // A fast-forward client is told less.
    let is_forwarded = error.message.starts_with("no connection to hostgroup")
        || error.message.contains("for 'fast_forward' session");
    if is_forwarded {
        return WAITS.iter().flat_map(|(_, kinds)| kinds.iter()).any(has);
    }
    // An unknown text names no cause.
    let said = WAITS.iter().find(|(words, _)| error.message.contains(words));
    said.is_some_and(|(_, kinds)| kinds.iter().any(has)) || is_queue_full(index, error, until_us)
}

/// A session that is held on a replica had to see what somebody has written.
fn missed_write(index: &Index<'_>, error: &Refused, at_us: Micros) -> bool {
    let writes = |exchange: &Exchange| {
        let mut said = exchange.statements.iter();
        exchange.sent_us < at_us && said.any(|said| said.access == Access::Write)
    };
    error.message.contains("shows what this read has to see")
        && index.sessions().any(|(_, session)| session.exchanges.iter().any(writes))
}

/// As many statements as the error says are under way, and as many as the limit that it names.
fn is_queue_full(index: &Index<'_>, error: &Refused, at_us: Micros) -> bool {
    let Some((lead, _)) = error.message.split_once(" statements wait already") else {
        return false;
    };
    let count = lead.rsplit(' ').next().and_then(|count| count.parse::<usize>().ok());
    let Some(count) = count else { return false };
    let logs_in = |session: &SessionHistory| match session.login {
        LoginOutcome::Accepted(then_us) | LoginOutcome::Refused(then_us, _) => then_us >= at_us,
        LoginOutcome::Pending => true,
    };
    let waits = |exchange: &Exchange| {
        let since_us = at_us.saturating_sub(SLACK_US);
        exchange.sent_us <= at_us && exchange.answered_us().is_none_or(|then| then >= since_us)
    };
    let busy = index.sessions().filter(|(_, session)| {
        session.begun_us <= at_us && (logs_in(session) || session.exchanges.iter().any(waits))
    });
    busy.count() > count
}
