//! `PROXYSQL INTERNAL SESSION`: what the proxy knows of the client that asks, as JSON, with the
//! names that ProxySQL gives to what both have.

use trunkline_protocol::response::write::put_text_result;
use trunkline_sql::analysis::{Analysis, StatementKind};
use trunkline_stats::HeldConn;

use crate::{clients::client::Client, json::Json, rooms::Core};

/// The words of the command.
const WORDS: [&[u8]; 3] = [b"PROXYSQL", b"INTERNAL", b"SESSION"];

/// Whether a text is the command and nothing else.
pub(super) fn asks_for_session(analysis: &Analysis, text: &[u8]) -> bool {
    if analysis.kind != StatementKind::Unknown {
        return false;
    }
    let text = text.trim_ascii();
    let text = text.strip_suffix(b";").unwrap_or(text);
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.map(<[u8]>::to_ascii_uppercase).eq(WORDS.iter().map(|word| word.to_vec()))
}

impl Core {
    /// Answers with one row of one column.
    pub(super) fn answer_session(&mut self, client: &mut Client) {
        let session = &*client.session;
        let row = self.session_row(client);
        let pinned = row.holds.iter().find(|held| !held.reasons.is_empty());
        let default = session.login.user.default_hostgroup.0;
        let current = row.holds.first().map_or(default, |held| held.hostgroup);
        let mut json = Json::default();
        json.object(|json| {
            json.number("thread_session_id", row.id);
            json.number("thread_id", row.worker);
            json.text("status", &row.doing);
            json.number("default_hostgroup", default);
            json.number("current_hostgroup", current);
            json.number("locked_on_hostgroup", pinned.map_or(-1, |held| i64::from(held.hostgroup)));
            json.text(
                "default_schema",
                session.login.user.default_schema.as_deref().unwrap_or_default(),
            );
            json.truth("transaction_persistent", session.login.user.transaction_persistent);
            json.truth("session_fast_forward", session.login.user.fast_forward);
            json.truth("autocommit", !session.settings.state.is_autocommit_off());
            json.truth("is_in_transaction", session.is_in_any_transaction());
            json.number("last_insert_id", session.last_insert_id);
            json.number("prepared_statements", session.prepared.len());
            json.name("client");
            json.object(|json| {
                json.name("client_addr");
                json.object(|json| json.text("address", &client.origin.peer.host()));
                json.name("proxy_addr");
                json.object(|json| {
                    let address = client.origin.peer.proxy_addr.map(|addr| addr.to_string());
                    json.text("address", &address.unwrap_or_default());
                    json.number("port", client.origin.peer.proxy_port.unwrap_or_default());
                });
                json.truth("encrypted", client.origin.tls.is_some());
                json.text("tls", &row.tls);
                json.name("userinfo");
                json.object(|json| {
                    json.text("username", &row.user);
                    json.text("schemaname", &row.schema);
                });
            });
            json.name("backends");
            json.array(&row.holds, held);
        });
        let (format, status) = (session.login.format, session.settings.status);
        let rows = [vec![Some(json.out.into_bytes())]];
        self.fx.stats.counters.statements_answered += 1;
        self.write_client(client, |out| {
            put_text_result(out, 1, format, status, &["session_info"], &rows);
        });
    }
}

fn held(json: &mut Json, held: &HeldConn) {
    json.object(|json| {
        json.number("hostgroup_id", held.hostgroup);
        json.text("server", &held.server);
        json.text("tls", &held.tls);
        json.name("pin_reasons");
        json.array(&held.reasons, |json, reason| json.quoted(reason));
        json.number("held_us", held.held_us);
        json.text("pinned_by", &held.digest_text);
    });
}

#[cfg(test)]
mod tests {
    use trunkline_sql::{analysis::analyse, token::Modes};

    use super::*;

    #[test]
    fn only_the_command_alone_is_taken() {
        let asks = |text: &[u8]| asks_for_session(&analyse(text, &Modes::default()), text);
        assert!(asks(b"PROXYSQL INTERNAL SESSION"));
        assert!(asks(b" proxysql\n internal  session ; "));
        assert!(!asks(b"PROXYSQL INTERNAL SESSION; SELECT 1"));
        assert!(!asks(b"PROXYSQL INTERNAL"));
        assert!(!asks(b"SELECT 'PROXYSQL INTERNAL SESSION'"));
    }
}
