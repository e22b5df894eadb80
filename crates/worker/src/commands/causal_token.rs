//! `SHOW CAUSAL TOKEN`: what a session has written, as a text that other sessions can give.

use trunkline_protocol::{error::ErrorKind, response::write::put_text_result};
use trunkline_sql::analysis::{Analysis, StatementKind};

use crate::{clients::client::Client, rooms::Core};

/// The words of the command.
const WORDS: [&[u8]; 3] = [b"SHOW", b"CAUSAL", b"TOKEN"];
/// Why there is no token.
const OFF: &str = "there is no causal token: causal_reads is off everywhere, so nobody notes what \
                   sessions write";

/// Whether a text is the command and nothing else. No server has such a statement.
pub(crate) fn asks_for_token(analysis: &Analysis, text: &[u8]) -> bool {
    if analysis.kind != StatementKind::Show {
        return false;
    }
    let text = text.trim_ascii();
    let text = text.strip_suffix(b";").unwrap_or(text);
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    WORDS.iter().all(|wanted| words.next().is_some_and(|word| word.eq_ignore_ascii_case(wanted)))
        && words.next().is_none()
}

impl Core {
    /// Answers with one row of one column, or with an error where nobody knows what was written.
    pub(super) fn answer_token(&mut self, client: &mut Client) {
        if !self.env.snapshot.has_causal_reads {
            return self.answer_error(client, ErrorKind::NotAllowed.says(OFF));
        }
        let session = &*client.session;
        let written = &session.settings.causal.written;
        let token = written.to_text(&self.env.shared.causal().origins, self.env.now.ms());
        let (format, status) = (session.login.format, session.settings.status);
        let rows = [vec![Some(token.into_bytes())]];
        self.fx.stats.counters.statements_answered += 1;
        self.write_client(client, |out| {
            put_text_result(out, 1, format, status, &["causal_token"], &rows);
        });
    }
}

#[cfg(test)]
mod tests {
    use trunkline_sql::{analysis::analyse, token::Modes};

    use super::*;

    #[test]
    fn only_the_command_alone_is_taken() {
        let asks = |text: &[u8]| asks_for_token(&analyse(text, &Modes::default()), text);
        assert!(asks(b"SHOW CAUSAL TOKEN"));
        assert!(asks(b" show\n causal  token ; "));
        assert!(!asks(b"SHOW CAUSAL TOKEN; SELECT 1"));
        assert!(!asks(b"SHOW CAUSAL TOKENS"));
        assert!(!asks(b"SHOW TABLES"));
        assert!(!asks(b"SELECT 'SHOW CAUSAL TOKEN'"));
    }
}
