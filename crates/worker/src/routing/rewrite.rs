//! Statements that rules rewrite.
//!
//! From here on the new text is the statement: it is analysed anew, as it is what runs, and its
//! digest is the one that statistics show, as in ProxySQL.

use std::{rc::Rc, sync::Arc};

use trunkline_protocol::codec::frame::put_payload;
use trunkline_sql::token::{Modes, TokenKind, Tokens};

use crate::{
    clients::frames::Text, prepared::Contents, rooms::Exchange, routing::ruled::LongNewText,
    statement::analysis::Known,
};

/// A statement as it is sent in place of the one that came.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) text: Text,
    pub(crate) known: Rc<Known>,
    /// The command with this text, where it is long and was made beside the worker.
    pub(crate) frames: Option<Arc<Vec<u8>>>,
    /// What the text has in it, where that was found out beside the worker.
    pub(crate) contents: Option<Contents>,
}

/// A text that rules made of a statement.
#[derive(Debug)]
pub(super) enum NewText {
    /// One that nobody has read yet.
    Unread(Vec<u8>),
    /// A long one that was read beside the worker.
    Long(Box<LongNewText>),
    /// One that takes other parameters than the client's statement.
    Unfit,
}

impl Rewritten {
    /// The command with this text, packet headers and all. `code` is the command's.
    pub(crate) fn make_frames(&self, code: u8) -> Vec<u8> {
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
        // The payload has the command's code too.
        let len_max = self.core.env.snapshot.settings.max_allowed_packet;
        let analyses = &mut self.statements.analyses;
        let rewritten = match new {
            NewText::Unread(text) => {
                let fits = !is_prepared || parameters(before, modes) == parameters(&text, modes);
                (fits && text.len() < len_max).then(|| {
                    let known = analyses.know(&text, modes);
                    Rewritten { text: text.into(), known, frames: None, contents: None }
                })
            }
            NewText::Long(new) => {
                let LongNewText { text, frames, known, contents } = *new;
                let known = Some(known).filter(|known| known.edition == analyses.edition());
                (text.len() < len_max).then(|| {
                    let known = known.map_or_else(
                        || analyses.know(&text, modes),
                        |known| {
                            let known: Known = *known;
                            Rc::new(known)
                        },
                    );
                    Rewritten { text, known, frames, contents }
                })
            }
            NewText::Unfit => None,
        };
        let counters = &mut self.core.fx.stats.counters;
        match &rewritten {
            Some(_) => counters.statements_rewritten += 1,
            None => counters.rewrites_skipped += 1,
        }
        rewritten
    }
}

/// How many parameters a text has.
pub(super) fn parameters(text: &[u8], modes: &Modes) -> usize {
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
