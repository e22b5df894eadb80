//! Statements that rules rewrite.
//!
//! From here on the new text is the statement: it is analysed anew, as it is what runs, and its
//! digest is the one that statistics show, as in ProxySQL.

use std::rc::Rc;

use trunkline_protocol::codec::frame::put_payload;
use trunkline_sql::token::{Modes, TokenKind, Tokens};

use crate::{rooms::Exchange, statement::analysis::Known};

/// A statement as it is sent in place of the one that came.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) text: Vec<u8>,
    pub(crate) known: Rc<Known>,
}

/// A text that rules made of a statement.
#[derive(Debug)]
pub(super) struct NewText {
    pub(super) text: Vec<u8>,
    /// What it is, in the same modes as the statement, where that was found out beside the worker.
    pub(super) known: Option<Box<Known>>,
}

impl NewText {
    /// One that nobody has read yet.
    pub(super) fn unread(text: Vec<u8>) -> Self {
        Self { text, known: None }
    }
}

impl Rewritten {
    /// The command with this text, packet headers and all. `code` is the command's.
    pub(crate) fn frames(&self, code: u8) -> Vec<u8> {
        let mut payload = Vec::with_capacity(self.text.len() + 1);
        payload.push(code);
        payload.extend_from_slice(&self.text);
        let mut frames = Vec::with_capacity(payload.len() + 8);
        put_payload(&mut frames, 0, &payload);
        frames
    }
}

impl Exchange {
    /// Takes over what rules made of a statement. `None` when it is to be sent as it came: for a
    /// statement to be prepared the client's parameters must still fit.
    pub(super) fn take_rewrite(
        &mut self,
        before: &[u8],
        new: NewText,
        is_prepared: bool,
        modes: &Modes,
    ) -> Option<Rewritten> {
        let NewText { text, known } = new;
        let fits = !is_prepared || parameters(before, modes) == parameters(&text, modes);
        // The payload has the command's code too.
        if !fits || text.len() >= self.core.env.snapshot.settings.max_allowed_packet {
            self.core.fx.stats.counters.rewrites_skipped += 1;
            return None;
        }
        self.core.fx.stats.counters.statements_rewritten += 1;
        let analyses = &mut self.statements.analyses;
        let known = known.filter(|known| known.edition == analyses.edition());
        let known = known.map_or_else(|| analyses.know(&text, modes), |known| Rc::new(*known));
        Some(Rewritten { text, known })
    }
}

/// How many parameters a text has.
fn parameters(text: &[u8], modes: &Modes) -> usize {
    Tokens::new(text, modes).filter(|token| token.kind == TokenKind::Parameter).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parameters_count() {
        let check = |text: &str, expected| {
            assert_eq!(parameters(text.as_bytes(), &Modes::default()), expected, "{text}");
        };
        check("SELECT ? + ?, '?', `?`, \"?\" -- ?\n /* ? */ FROM t WHERE a=?", 3);
        check("SELECT 1", 0);
    }
}
