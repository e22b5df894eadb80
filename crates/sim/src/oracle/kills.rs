//! `KILL` ends whom it names, if that is one's own, and nobody else.
//!
//! | answered | means |
//! |---|---|
//! | OK | a session of that number and user was there; if it was to end, it goes on with nothing |
//! | 1094 | none was there that goes on afterwards |
//! | 1095 | one was there that is another user's, or logs in |
//! | 1317, MariaDB's 1927 | it is the client itself |
//!
//! That a statement which was interrupted was named, `endings` checks.

use super::{
    Breach, Violation,
    history::{ClientHistory, Exchange, Kill, LoginOutcome, SessionHistory},
    index::Index,
};
use crate::Micros;

/// How long the proxy may take a client for one that is there which has gone, µs.
const LINGERS_US: Micros = 100_000;

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Violation>) {
    for (client, session) in index.sessions() {
        for exchange in &session.exchanges {
            if let (Some(kill), Some(at_us)) = (exchange.kill, exchange.answered_us())
                && !super::endings::is_forwarded(index, session, at_us)
                && let Some(why) = objection(index, session, exchange, kill, at_us)
            {
                found.push(breach(client, exchange, at_us, &why));
            }
        }
    }
}

fn breach(client: &ClientHistory, exchange: &Exchange, at_us: Micros, why: &str) -> Violation {
    Violation {
        breach: Breach::WrongKill,
        client: Some(client.client),
        tag: exchange.statements.first().map(|said| said.tag),
        at_us,
        evidence: format!("{why}; the command was {:?}", exchange.text),
    }
}

/// Why this answer is not true.
fn objection(
    index: &Index<'_>,
    asker: &SessionHistory,
    exchange: &Exchange,
    kill: Kill,
    at_us: Micros,
) -> Option<String> {
    let named: Vec<&SessionHistory> = named(index, kill.number).collect();
    let was_there = |session: &&SessionHistory| {
        session.begun_us <= at_us
            && session.ending.as_ref().is_none_or(|ending| ending.at_us >= exchange.sent_us)
    };
    let mut there = named.iter().copied().filter(was_there);
    match exchange.error().map(|error| error.code) {
        None => {
            // Who could not become another user stays who it was.
            let has_refused = named.iter().any(|session| {
                matches!(session.login, LoginOutcome::Refused(..)) && session.begun_us <= at_us
            });
            let stayed = named.iter().filter(|_| has_refused);
            let is_asked = |session: &SessionHistory| session.user == asker.user;
            // One that has gone may be there until that is noticed.
            let lingers = |session: &&SessionHistory| {
                let ending = session.ending.as_ref();
                session.begun_us <= at_us
                    && ending.is_some_and(|it| it.at_us + LINGERS_US >= exchange.sent_us)
            };
            let mut stayed = stayed.chain(named.iter().filter(|session| lingers(session)));
            if !there.any(is_asked) && !stayed.any(|session| is_asked(session)) {
                return Some(format!("no session {} of {} was there", kill.number, asker.user));
            }
            let lives = !kill.query_only && named.iter().any(|it| goes_on(it, at_us));
            lives.then(|| format!("session {} goes on", kill.number))
        }
        Some(1094) => {
            let was_in = |session: &&SessionHistory| match session.login {
                LoginOutcome::Accepted(then_us) => then_us <= exchange.sent_us,
                LoginOutcome::Pending | LoginOutcome::Refused(..) => false,
            };
            let lives = there.any(|session| was_in(&session) && goes_on(session, at_us));
            lives.then(|| format!("session {} is there, and goes on", kill.number))
        }
        Some(1095) => {
            let is_so = there
                .any(|session| session.user != asker.user || !is_in(session, exchange.sent_us));
            // One that has not heard its number may have this one, and logs in.
            let mut unheard = index.sessions().map(|(_, session)| session);
            let is_unheard = unheard.any(|session| session.number.is_none() && was_there(&session));
            // One that has gone may be there until that is noticed.
            let lingers = |it: &&SessionHistory| it.begun_us <= at_us && it.user != asker.user;
            let is_so = is_so || named.iter().any(lingers);
            (!is_so && !is_unheard).then(|| format!("session {} is its own", kill.number))
        }
        Some(1317 | 1927) => {
            let is_own = asker.number == Some(kill.number);
            // Or the asker was ended itself.
            let is_ended = is_killed(index, asker, exchange.sent_us, at_us);
            (!is_own && !is_ended).then(|| "nobody has interrupted it".to_owned())
        }
        Some(_) => None,
    }
}

fn named<'a>(
    index: &'a Index<'_>,
    number: u64,
) -> impl Iterator<Item = &'a SessionHistory> + use<'a> {
    let sessions = index.run.clients.iter().flat_map(|client| &client.sessions);
    sessions.filter(move |session| session.number == Some(number))
}

/// Whether the session was logged in for all that its client knows.
fn is_in(session: &SessionHistory, at_us: Micros) -> bool {
    matches!(session.login, LoginOutcome::Accepted(then_us) if then_us <= at_us)
        && session.ending.is_none()
}

/// Whether something that the session sent after this time was done.
fn goes_on(session: &SessionHistory, at_us: Micros) -> bool {
    session.exchanges.iter().any(|exchange| {
        exchange.sent_us > at_us && exchange.answered_us().is_some() && exchange.error().is_none()
    })
}

/// Whether somebody has asked to end the session, or the statement that it sent at `sent_us` and
/// that ended at `until_us`.
pub(super) fn is_killed(
    index: &Index<'_>,
    session: &SessionHistory,
    sent_us: Micros,
    until_us: Micros,
) -> bool {
    let Some(number) = session.number else { return false };
    let of_user = index.sessions().filter(|(_, asker)| asker.user == session.user);
    of_user.flat_map(|(_, asker)| &asker.exchanges).any(|exchange| {
        exchange.kill.is_some_and(|kill| kill.number == number)
            && exchange.sent_us <= until_us
            && exchange.answered_us().is_none_or(|at_us| at_us >= sent_us)
    })
}

/// Whether somebody has asked to end the session before this time.
pub(super) fn is_session_killed(
    index: &Index<'_>,
    session: &SessionHistory,
    until_us: Micros,
) -> bool {
    let Some(number) = session.number else { return false };
    // Who changes its user may be killed as the one that it was.
    let users: Vec<_> = named(index, number)
        .filter(|named| named.begun_us <= session.begun_us)
        .map(|named| &named.user)
        .collect();
    let of_users = index.sessions().filter(|(_, asker)| users.contains(&&asker.user));
    of_users.flat_map(|(_, asker)| &asker.exchanges).any(|exchange| {
        exchange.kill.is_some_and(|kill| kill.number == number && !kill.query_only)
            && exchange.sent_us <= until_us
    })
}
