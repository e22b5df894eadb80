//! What a name before a parenthesis calls.
//!
//! Three tables: what servers say of each name, by version ([`table`], generated); what is known by
//! hand of versions that were not asked ([`history`]); and which of the servers' functions were
//! looked at and found harmless ([`harmless`]). A name that is not in all of them is that of
//! somebody's stored function.

mod harmless;
mod history;
mod table;

use super::Depends;
use crate::{
    token::{Modes, Token, Tokens},
    version::ServerVersion,
};

/// A version of which the generated table has a column.
#[derive(Debug)]
struct Asked {
    is_mariadb: bool,
    version: ServerVersion,
}

/// How a call is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// `name(`.
    Adjacent,
    /// `name (`, with white space only.
    Spaced,
    /// A comment, or the border of one, stands between the name and the parenthesis.
    Apart,
}

impl Written {
    /// How `name`, whose parenthesis is `open`, is written in `text`.
    pub(super) fn of(text: &[u8], name: &Token<'_>, open: Option<Token<'_>>) -> Self {
        let between = open.and_then(|open| text.get(name.end()..open.offset));
        match between {
            Some([]) => Self::Adjacent,
            // What the servers' lexers skip. 0xA0 and its like are some character set's only.
            Some(between) if between.iter().all(|byte| matches!(byte, b'\t'..=b'\r' | b' ')) => {
                Self::Spaced
            }
            Some(_) | None => Self::Apart,
        }
    }
}

/// One call, or a keyword before a parenthesis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    /// The name in upper case.
    pub(super) upper: &'a [u8],
    pub(super) written: Written,
    /// Whether something stands in the parentheses.
    pub(super) has_arguments: bool,
}

/// Whether a call calls nothing that could write, lock or depend on the connection: a harmless
/// function of the server's own, or a keyword.
pub(super) fn is_harmless(call: &Call<'_>, modes: &Modes) -> bool {
    harmless::HARMLESS.binary_search(&call.upper).is_ok() && is_native(call, modes)
}

/// Whether the server takes the call for one of a function of its own, or for a keyword, whatever
/// stored functions there are.
pub(super) fn is_native(call: &Call<'_>, modes: &Modes) -> bool {
    let bits = bits(call.upper, modes);
    let wanted = match call.written {
        Written::Adjacent => ADJACENT,
        Written::Spaced if modes.ignore_space => IGNORING_SPACE,
        Written::Spaced | Written::Apart => SPACED,
    };
    let wanted = if modes.oracle { wanted | ORACLE } else { wanted };
    bits & wanted == wanted && (call.has_arguments || bits & WITH_ARGUMENTS == 0)
}

/// The harmless functions that a server in these modes has of its own; keywords are not among them.
pub(super) fn own_harmless(modes: &Modes) -> impl Iterator<Item = &'static [u8]> + use<> {
    let modes = *modes;
    let is_own = move |upper: &&&[u8]| bits(upper, &modes) & FUNCTION != 0;
    harmless::HARMLESS.iter().filter(is_own).copied()
}

/// The names of the server's own functions that a text calls, in upper case, each once: to show.
pub fn built_in_functions(text: &[u8], modes: &Modes) -> Vec<String> {
    let mut names = Vec::new();
    let mut tokens = Tokens::new(text, modes).peekable();
    while let Some(name) = tokens.next() {
        let is_called = tokens.peek().is_some_and(|next| next.text == b"(");
        let upper = name.text.to_ascii_uppercase();
        if is_called && bits(&upper, modes) & FUNCTION != 0 {
            let shown = String::from_utf8_lossy(&upper).into_owned();
            if !names.contains(&shown) {
                names.push(shown);
            }
        }
    }
    names
}

/// `name(`.
const ADJACENT: u8 = 0x01;
/// `name (`, or a comment between.
const SPACED: u8 = 0x02;
/// `name (` with IGNORE_SPACE.
const IGNORING_SPACE: u8 = 0x04;
/// `name(` in sql_mode ORACLE.
const ORACLE: u8 = 0x08;
/// A function of the server's own, not a keyword.
const FUNCTION: u8 = 0x20;
/// With arguments only.
const WITH_ARGUMENTS: u8 = 0x40;
/// All that is claimed for a function that is found by its name alone, not as a keyword.
const PLAIN_FUNCTION: u8 = ADJACENT | SPACED | IGNORING_SPACE | ORACLE | FUNCTION;

/// What the server in these modes is known to say of a name.
fn bits(upper: &[u8], modes: &Modes) -> u8 {
    let Modes { flavor_mariadb, version, .. } = *modes;
    let oldest = match flavor_mariadb {
        true => history::OLDEST_MARIADB,
        false => history::OLDEST_MYSQL,
    };
    if version.is_known() && version < oldest {
        return 0;
    }
    if version.is_known() && history::was_native(upper, flavor_mariadb, version) {
        return PLAIN_FUNCTION;
    }
    let Ok(place) = table::NAMES.binary_search_by(|(name, _)| (*name).cmp(upper)) else {
        return 0;
    };
    let Some((_, columns)) = table::NAMES.get(place) else { return 0 };
    let own = || {
        let all = table::VERSIONS.iter().zip(columns);
        all.filter(|(asked, _)| asked.is_mariadb == flavor_mariadb)
    };
    if !version.is_known() {
        return own().map(|(_, bits)| *bits).reduce(common).unwrap_or(0);
    }
    let older = own().filter(|(asked, _)| asked.version <= version);
    let newer = own().filter(|(asked, _)| asked.version >= version);
    let older = older.max_by_key(|(asked, _)| asked.version);
    let newer = newer.min_by_key(|(asked, _)| asked.version);
    if older.is_none() && history::came_after(upper, flavor_mariadb, version) {
        return 0;
    }
    older.into_iter().chain(newer).map(|(_, bits)| *bits).reduce(common).unwrap_or(0)
}

/// What holds by both: the claims that both make, and the reservation of either.
fn common(one: u8, other: u8) -> u8 {
    one & other | (one | other) & WITH_ARGUMENTS
}

/// What a call of a function does or asks for besides giving a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It tells of the connection's past.
    Past(Depends),
    /// `LAST_INSERT_ID`, which with an argument sets what it tells.
    LastInsertId,
    /// It takes a lock by name.
    Lock,
    /// It gives locks back.
    Unlock,
    /// It gives a sequence's next value.
    Sequence,
    /// It tells of the server or changes it, and leaves nothing in the session.
    Server,
}

/// The meaning of a function that is not harmless. What a family has not is a stored function.
pub(super) fn meaning(upper: &[u8], is_mariadb: bool) -> Option<Meaning> {
    Some(match upper {
        b"LAST_INSERT_ID" => Meaning::LastInsertId,
        b"ROW_COUNT" => Meaning::Past(Depends::ROW_COUNT),
        b"FOUND_ROWS" => Meaning::Past(Depends::FOUND_ROWS),
        b"CONNECTION_ID" => Meaning::Past(Depends::CONNECTION_ID),
        // In an XPath `$@name` is a user variable.
        b"EXTRACTVALUE" | b"UPDATEXML" => Meaning::Past(Depends::USER_VARIABLE_READ),
        b"GET_LOCK" => Meaning::Lock,
        b"RELEASE_LOCK" | b"RELEASE_ALL_LOCKS" => Meaning::Unlock,
        // `DEFAULT(column)` computes the column's default, which may be the next of a sequence.
        b"NEXTVAL" | b"DEFAULT" if is_mariadb => Meaning::Sequence,
        // What it sets is not what `LASTVAL` tells.
        b"SETVAL" if is_mariadb => Meaning::Server,
        b"LASTVAL" if is_mariadb => Meaning::Past(Depends::SEQUENCE),
        b"IS_FREE_LOCK" | b"IS_USED_LOCK" | b"LOAD_FILE" | b"MASTER_POS_WAIT" => Meaning::Server,
        b"MASTER_GTID_WAIT" | b"BINLOG_GTID_POS" if is_mariadb => Meaning::Server,
        // The last transaction that this connection has seen or written.
        b"WSREP_LAST_SEEN_GTID" | b"WSREP_LAST_WRITTEN_GTID" if is_mariadb => {
            Meaning::Past(Depends::PAST)
        }
        b"WSREP_SYNC_WAIT_UPTO_GTID" if is_mariadb => Meaning::Server,
        b"PS_CURRENT_THREAD_ID" if !is_mariadb => Meaning::Past(Depends::CONNECTION_ID),
        b"PS_THREAD_ID" | b"SOURCE_POS_WAIT" | b"WAIT_FOR_EXECUTED_GTID_SET" if !is_mariadb => {
            Meaning::Server
        }
        _ => return None,
    })
}

/// Whether a word makes an answer vary though no data changes: what tells the time or who asks,
/// what is left to chance, what tells of the connection or the server, and what takes time on
/// purpose. `SQL_NO_CACHE` says so itself.
pub(super) fn varies(upper: &[u8], is_call: bool, has_arguments: bool) -> bool {
    match upper {
        b"CURRENT_DATE" | b"CURRENT_TIME" | b"CURRENT_TIMESTAMP" | b"LOCALTIME"
        | b"LOCALTIMESTAMP" | b"UTC_DATE" | b"UTC_TIME" | b"UTC_TIMESTAMP" | b"CURRENT_USER"
        | b"CURRENT_ROLE" | b"SQL_NO_CACHE" => true,
        b"UNIX_TIMESTAMP" => is_call && !has_arguments,
        _ => is_call && VARYING.binary_search(&upper).is_ok(),
    }
}

/// Calls that vary, sorted.
#[rustfmt::skip]
const VARYING: [&[u8]; 43] = [
    b"BENCHMARK", b"BINLOG_GTID_POS", b"CONNECTION_ID", b"CURDATE", b"CURTIME", b"DES_ENCRYPT",
    b"ENCRYPT", b"ETAG", b"FOUND_ROWS", b"GET_LOCK", b"IS_FREE_LOCK", b"IS_USED_LOCK",
    b"LASTVAL", b"LAST_INSERT_ID", b"LOAD_FILE", b"MASTER_GTID_WAIT", b"MASTER_POS_WAIT",
    b"NEXTVAL", b"NOW", b"PS_CURRENT_THREAD_ID", b"PS_THREAD_ID", b"RAND", b"RANDOM_BYTES",
    b"RELEASE_ALL_LOCKS", b"RELEASE_LOCK", b"ROLES_GRAPHML", b"ROW_COUNT", b"SESSION_USER",
    b"SETVAL", b"SLEEP", b"SOURCE_POS_WAIT", b"SYSDATE", b"SYSTEM_USER", b"SYS_GUID", b"USER",
    b"UUID", b"UUID_SHORT", b"UUID_V4", b"UUID_V7", b"WAIT_FOR_EXECUTED_GTID_SET",
    b"WSREP_LAST_SEEN_GTID", b"WSREP_LAST_WRITTEN_GTID", b"WSREP_SYNC_WAIT_UPTO_GTID",
];

#[cfg(test)]
mod tests;
