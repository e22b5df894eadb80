//! Why a statement goes where it goes, in words.

use crate::routing::{decide::Reason, follow::Follows, ruling::By, split::Obeyed};

/// What follows the hostgroup.
pub(super) fn words(reason: Reason) -> String {
    let words = match reason {
        Reason::Server | Reason::Comment => "as a comment says",
        Reason::CommentOfReaders => "the writer of what a comment names: it may write",
        Reason::Named(by, obeyed) => return named(by, obeyed),
        Reason::Transaction => "where the session's transaction is",
        Reason::EndsTransactions => "where the transaction is that it ends",
        Reason::LeavesReader => "the writer: the transaction leaves its reader for what may write",
        Reason::Stays => "where the session has what it may see, whoever names another hostgroup",
        Reason::Holds(follows) => match follows {
            Follows::LastStatement => "where the last statement ran: it reads what that left",
            Follows::GivesBack => "where the session holds what it is about",
            Follows::NextTransaction => "where the session's next transaction is to be",
            Follows::Held => "where the session is held",
        },
        Reason::Unfollowed => {
            "the writer: a comment says what it has to see, and `causal_reads` is off everywhere"
        }
        Reason::Split(split) => split.reason(),
        Reason::Mirror => "where copies go",
        Reason::MirrorDefault => "the user's default",
    };
    words.to_owned()
}

fn named(by: By, obeyed: Obeyed) -> String {
    let by = match by {
        By::Rule => "a rule",
        By::FastRouting => "fast routing",
    };
    let why = match obeyed {
        Obeyed::AsSaid => return format!("as {by} says"),
        Obeyed::UnlessItBegins => "autocommit is off",
        Obeyed::UnlessItLocks => "it is about a named lock",
    };
    format!("the writer of the readers that {by} names: {why}")
}
