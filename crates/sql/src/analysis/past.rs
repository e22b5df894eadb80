//! Names of variables and tables that tell of the connection's past.

use super::Depends;
use crate::recall;

/// What a system variable tells of. `name` is in lower case.
pub(super) fn of_variable(name: &[u8]) -> Depends {
    match VARIABLES.iter().find(|(known, _)| *known == name) {
        Some((_, depends)) => *depends,
        None if recall::is_tracker(name) => Depends::TRACKERS,
        None => Depends::empty(),
    }
}

/// What a table tells of, in whichever schema: those of `information_schema` and
/// `performance_schema` that show the connection that asks. `upper` is in upper case.
pub(super) fn of_table(upper: &[u8]) -> Depends {
    match upper {
        b"SESSION_VARIABLES" | b"VARIABLES_BY_THREAD" => all_variables(),
        b"USER_VARIABLES" | b"USER_VARIABLES_BY_THREAD" => Depends::USER_VARIABLE_READ,
        b"SESSION_STATUS" | b"STATUS_BY_THREAD" | b"OPTIMIZER_TRACE" | b"PROFILING" => {
            Depends::PAST
        }
        _ => Depends::empty(),
    }
}

/// What a list of all the session's variables tells of, but for counts of warnings and errors: to
/// ask for those where they were left would keep the session there.
pub(super) fn all_variables() -> Depends {
    Depends::LAST_INSERT_ID | Depends::TRACKERS
}

/// What the variables tell of whose names match the pattern of a `LIKE`, written as in the text.
/// Everything, if the pattern is not a plain one. Measured on MariaDB 10.11 and MySQL 9.7: counts
/// of warnings and errors are 0 there, whatever was before.
pub(super) fn of_pattern(literal: &[u8]) -> Depends {
    let pattern = match literal {
        [b'\'' | b'"', inner @ .., b'\'' | b'"'] => inner,
        _ => return all_variables(),
    };
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'%');
    if !pattern.iter().all(is_plain) {
        return all_variables();
    }
    let pattern = pattern.to_ascii_lowercase();
    let trackers = recall::TRACKERS.iter().map(|name| (name.as_bytes(), Depends::TRACKERS));
    let known = VARIABLES.iter().copied().chain(trackers);
    let matching = known.filter(|(name, _)| is_like(name, &pattern));
    let told = matching.filter(|(_, depends)| *depends != Depends::DIAGNOSTICS);
    told.fold(Depends::empty(), |all, (_, depends)| all | depends)
}

/// `name LIKE pattern`. The time is linear in the pattern for each byte of the name.
fn is_like(name: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut in_pattern) = (0, 0);
    // Behind the last `%`, and where in the name what follows it is tried.
    let mut retry: Option<(usize, usize)> = None;
    while at < name.len() {
        match pattern.get(in_pattern) {
            Some(b'%') => {
                retry = Some((in_pattern + 1, at));
                in_pattern += 1;
            }
            Some(byte) if *byte == b'_' || Some(byte) == name.get(at) => {
                at += 1;
                in_pattern += 1;
            }
            Some(_) | None => match retry.as_mut() {
                Some((behind, tried)) => {
                    *tried += 1;
                    (in_pattern, at) = (*behind, *tried);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(in_pattern).all(|byte| *byte == b'%')
}

/// Variables that statements change, in lower case. What only `SET` changes is not here.
const VARIABLES: [(&[u8], Depends); 12] = [
    (b"error_count", Depends::DIAGNOSTICS),
    (b"identity", Depends::LAST_INSERT_ID),
    (b"in_transaction", Depends::PAST),
    (b"last_gtid", Depends::LAST_GTID),
    (b"last_insert_id", Depends::LAST_INSERT_ID),
    (b"proxy_user", Depends::PAST),
    (b"pseudo_thread_id", Depends::CONNECTION_ID),
    (b"rand_seed1", Depends::PAST),
    (b"rand_seed2", Depends::PAST),
    (b"skip_replication", Depends::PAST),
    (b"statement_id", Depends::PAST),
    (b"warning_count", Depends::DIAGNOSTICS),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_matched_as_like_does() {
        for (name, pattern, expected) in [
            ("last_gtid", "last_gtid", true),
            ("last_gtid", "last%", true),
            ("last_gtid", "%", true),
            ("last_gtid", "%gtid", true),
            ("last_gtid", "%a%g%", true),
            ("last_gtid", "last_____", true),
            ("last_gtid", "last____", false),
            ("last_gtid", "", false),
            ("last_gtid", "%x%", false),
            ("", "%%", true),
        ] {
            assert_eq!(is_like(name.as_bytes(), pattern.as_bytes()), expected, "{pattern}");
        }
    }
}
