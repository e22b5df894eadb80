//! What comments ask of a causal read: `causal_reads`, `min_gtid`, `trunkline_token`, `max_lag_ms`.

use trunkline_sql::hint::Hints;
use trunkline_topology::{
    HostgroupId,
    causal::{Carried, CausalBoard, CausalReads, Need, read_token},
    gtid::{Origin, each_gtid, each_interval},
};

/// The scope that a statement's comments name.
///
/// # Errors
/// When they name none that there is; the text says so.
pub(crate) fn scope(hints: &Hints) -> Result<Option<CausalReads>, String> {
    let Some(word) = hints.causal_reads.as_deref() else { return Ok(None) };
    let word = String::from_utf8_lossy(word);
    word.parse().map(Some).map_err(|wrong| format!("a comment's causal_reads {wrong}"))
}

/// Takes over which transactions a statement's comments name, and how old what it sees may be.
///
/// # Errors
/// When they name what are no transactions, or some of which no server here is known.
pub(crate) fn take(need: &mut Need, board: &CausalBoard, hints: &Hints) -> Result<(), String> {
    if let Some(age_ms) = hints.max_lag_ms {
        need.bound(age_ms);
    }
    let Some(text) = hints.min_gtid.as_deref() else { return Ok(()) };
    let shown = String::from_utf8_lossy(text);
    let text = std::str::from_utf8(text).unwrap_or_default();
    let mut unknown = None;
    let mut want = |origin: Origin, first, last| match board.origins.known(&origin) {
        Some(id) => need.want(id, first, last),
        None => unknown = Some(origin),
    };
    let read = each_interval(text, &mut want).or_else(|wrong| {
        let read = each_gtid(text, |domain, _, last| want(Origin::Domain(domain), last, last));
        read.map_err(|_| wrong)
    });
    need.give();
    match (read, unknown) {
        (Err(wrong), _) => Err(format!("a comment's min_gtid `{shown}` is no GTID set: {wrong}")),
        (Ok(()), Some(origin)) => Err(format!(
            "a comment's min_gtid `{shown}` names transactions of {origin}, \
             and no server here is known to have any"
        )),
        (Ok(()), None) => Ok(()),
    }
}

/// Takes over what the token in a statement's comments says of hostgroups that have to do with it.
///
/// # Errors
/// When it is none, or names transactions of which no server here is known to have any.
pub(crate) fn take_carried(
    need: &mut Need,
    board: &CausalBoard,
    hints: &Hints,
    is_elsewhere: impl Fn(HostgroupId) -> bool,
) -> Result<(), String> {
    let Some(text) = hints.token.as_deref() else { return Ok(()) };
    let text = std::str::from_utf8(text).unwrap_or_default();
    let carried = read_token(text)
        .map_err(|wrong| format!("a comment's trunkline_token is no token: {wrong}"))?;
    let mut names_any = false;
    for Carried { hostgroup, needs_writer, wants } in carried {
        if hostgroup.is_some_and(&is_elsewhere) {
            continue;
        }
        if needs_writer {
            need.want_writer();
        }
        for (origin, first, last) in wants {
            let id = board.origins.known(&origin).ok_or_else(|| {
                format!(
                    "a comment's trunkline_token names transactions of {origin}, \
                     and no server here is known to have any"
                )
            })?;
            need.want(id, first, last);
            names_any = true;
        }
    }
    // Who has to read from the writer for what has no number is not kept from it by what has one.
    if names_any && !need.needs_writer() {
        need.give();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use trunkline_topology::causal::Want;

    use super::*;

    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    #[test]
    fn transactions_are_wanted_that_are_named_and_known() {
        let board = CausalBoard::default();
        let origin = board.origins.id(&Origin::Domain(0)).expect("a number");
        let mut server = None;
        each_interval(&format!("{UUID}:1"), |origin, _, _| server = board.origins.id(&origin))
            .expect("a set");
        let server = server.expect("a number");
        let check = |min_gtid: &str, expected: Result<&[Want], &str>| {
            let hints = Hints::parse(format!("min_gtid={min_gtid}").as_bytes());
            let mut need = Need::default();
            match (take(&mut need, &board, &hints), expected) {
                (Ok(()), Ok(wants)) => assert_eq!(need.wants(), wants, "{min_gtid}"),
                (Err(error), Err(part)) => {
                    assert!(error.contains(part) && error.contains(min_gtid), "{error}");
                }
                (found, _) => panic!("{min_gtid}: {found:?}"),
            }
        };
        let want = |origin, first, last| Want { origin, first, last };
        check("0-1-5", Ok(&[want(origin, 5, 5)]));
        check(&format!("{UUID}:3-7"), Ok(&[want(server, 3, 7)]));
        check("7-1-5", Err("transactions of 7, and no server"));
        check("0-1", Err("is no GTID set: malformed"));
        check("x", Err("is no GTID set: malformed"));
        check(&format!("{UUID}:tag:1"), Err("no server here is known"));
    }

    #[test]
    fn a_token_is_taken_as_far_as_it_has_to_do_with_the_read() {
        let board = CausalBoard::default();
        let id = board.origins.id(&Origin::Domain(0)).expect("a number");
        let take = |token: &str| {
            let hints = Hints::parse(format!("trunkline_token={token}").as_bytes());
            let mut need = Need::default();
            take_carried(&mut need, &board, &hints, |it| it == HostgroupId(30)).map(|()| need)
        };
        let need = take("t1.10,0:4-9.x,0:2-3").expect("a token");
        assert_eq!(need.wants(), [Want { origin: id, first: 2, last: 9 }]);
        assert!(need.is_given() && !need.needs_writer());
        assert!(take("t1").is_ok_and(|need| need.is_empty()));
        let need = take("t1.10,0:4-9,writer").expect("a token");
        assert!(need.needs_writer() && !need.is_given());
        // Another cluster's.
        assert!(take("t1.30,5:4-9,writer").is_ok_and(|need| need.is_empty()));
        assert!(take("t1.10,5:4-9").is_err_and(|wrong| wrong.contains("transactions of 5, and")));
        assert!(take("0-1-5").is_err_and(|wrong| wrong.contains("SHOW CAUSAL TOKEN")));
    }

    #[test]
    fn a_scope_is_named_by_its_word() {
        let scope = |text: &str| scope(&Hints::parse(text.as_bytes()));
        assert_eq!(scope("hostgroup=1"), Ok(None));
        assert_eq!(scope("causal_reads=bounded:9"), Ok(Some(CausalReads::Bounded(9))));
        assert!(scope("causal_reads=all").is_err_and(|wrong| wrong.contains("not `all`")));
    }
}
