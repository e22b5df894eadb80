//! What no reset of a connection takes back: it stays with its session, and ends with it.
//!
//! Found by asking servers (e2e test `what_a_reset_leaves`): roles, resource groups, profiles and
//! the optimizer's trace, of which the last two are other sessions' statements word by word.

use trunkline_sql::{
    analysis::{Analysis, Effect, XaStep},
    set::{Assignment, Scope},
};

use super::super::{PinReason, Pins};

/// Whether what this variable has servers collect stays on the connection. It is never carried to
/// another one.
pub(super) fn is_lasting(name: &str) -> bool {
    name == "pseudo_thread_id"
        || name.starts_with("profiling")
        || name.starts_with("optimizer_trace")
}

/// Behind any statement, whatever came of it.
pub(super) fn follow(pins: &mut Pins, analysis: Option<&Analysis>, has_failed: bool) {
    let Some(analysis) = analysis else { return };
    let is_set_here = |name: &Vec<u8>| std::str::from_utf8(name).is_ok_and(is_lasting);
    if analysis.set_for_statement.iter().any(is_set_here)
        || analysis.effects.iter().any(|effect| may_last(effect, has_failed))
    {
        pins.pin(PinReason::Connection);
    }
}

/// Whether something may be left for good. What a reason of its own holds when it succeeds may
/// have been left by a text that failed later.
fn may_last(effect: &Effect, has_failed: bool) -> bool {
    match effect {
        Effect::Set(assignments) => {
            assignments.iter().any(|assignment| assigns_lasting(assignment, has_failed))
        }
        // What else they run is not in the text: a `SET ROLE`, for one.
        Effect::OtherSession(_) => true,
        Effect::SetRole
        | Effect::SetResourceGroup
        | Effect::BackupLock(_)
        | Effect::Xa(XaStep::Prepare) => has_failed,
        _ => false,
    }
}

fn assigns_lasting(assignment: &Assignment, has_failed: bool) -> bool {
    match assignment {
        Assignment::Variable { scope: Scope::LocalDefault | Scope::Session, name, .. } => {
            std::str::from_utf8(name).is_ok_and(is_lasting)
        }
        Assignment::Role | Assignment::ResourceGroup => has_failed,
        Assignment::Variable { .. }
        | Assignment::Names { .. }
        | Assignment::CharacterSet { .. }
        | Assignment::Transaction(_)
        | Assignment::Password
        | Assignment::DefaultRole => false,
    }
}

#[cfg(test)]
mod tests {
    use trunkline_protocol::response::{Outcome, ServerError};
    use trunkline_sql::{analysis::analyse, token::Modes};

    use super::super::{Charset, Schema, SessionState, Trust, apply_outcome};
    use super::*;

    #[test]
    fn what_no_reset_takes_back_stays_with_its_session() {
        for (text, succeeded, failed) in [
            ("SET profiling = 1", true, true),
            ("SET SESSION profiling_history_size = 5", true, true),
            ("SET sql_mode = '', optimizer_trace = 'enabled=on'", true, true),
            ("SET optimizer_trace_limit = DEFAULT", true, true),
            ("SET GLOBAL profiling = 1", false, false),
            ("SET STATEMENT optimizer_trace = 'enabled=on' FOR SELECT 1", true, true),
            ("BEGIN NOT ATOMIC SET ROLE r; END", true, true),
            ("SET ROLE r", false, true),
            ("SELECT 1; SET ROLE r; SELECT 2", false, true),
            ("SET sql_mode = ''", false, false),
            ("SELECT 1", false, false),
        ] {
            for (expected, has_failed) in [(succeeded, false), (failed, true)] {
                let state = SessionState::new(Schema::None, Charset::Collation(45));
                let mut pins = Pins::default();
                let modes = Modes { flavor_mariadb: true, ..Modes::default() };
                let analysis = analyse(text.as_bytes(), &modes);
                let error = ServerError { code: 1, sqlstate: *b"HY000", message: (*b"no").into() };
                let outcome = Outcome { error: has_failed.then_some(error), ..Outcome::default() };
                let applied =
                    apply_outcome(&state, &mut pins, Some(&analysis), &outcome, Trust::Nothing);
                assert_eq!(pins.has(PinReason::Connection), expected, "{text}, {has_failed}");
                let state = applied.state.unwrap_or(state);
                assert!(!state.variables().iter().any(|(name, _)| is_lasting(name)), "{text}");
            }
        }
    }
}
