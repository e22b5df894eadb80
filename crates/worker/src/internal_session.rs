//! `PROXYSQL INTERNAL SESSION`: what the proxy knows of the client that asks, as JSON, with the
//! names that ProxySQL gives to what both have.

use trunkline_protocol::response::write::put_text_result;
use trunkline_sql::analysis::{Analysis, StatementKind};
use trunkline_stats::HeldConn;

use crate::{ClientId, Worker};

/// The words of the command.
const WORDS: [&[u8]; 3] = [b"PROXYSQL", b"INTERNAL", b"SESSION"];

/// Whether a text is the command and nothing else.
pub(crate) fn asks_for_session(analysis: &Analysis, text: &[u8]) -> bool {
    if analysis.kind != StatementKind::Unknown {
        return false;
    }
    let text = text.trim_ascii();
    let text = text.strip_suffix(b";").unwrap_or(text);
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.map(<[u8]>::to_ascii_uppercase).eq(WORDS.iter().map(|word| word.to_vec()))
}

impl Worker {
    /// Answers with one row of one column.
    pub(crate) fn answer_session(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(id) else {
            return;
        };
        let Some(session) = client.session.as_deref() else {
            return;
        };
        let row = self.session_row(client);
        let pinned = row.holds.iter().find(|held| !held.reasons.is_empty());
        let default = session.user.default_hostgroup.0;
        let current = row.holds.first().map_or(default, |held| held.hostgroup);
        let mut json = Json::default();
        json.object(|json| {
            json.number("thread_session_id", row.id);
            json.number("thread_id", row.worker);
            json.text("status", &row.doing);
            json.number("default_hostgroup", default);
            json.number("current_hostgroup", current);
            json.number("locked_on_hostgroup", pinned.map_or(-1, |held| i64::from(held.hostgroup)));
            json.text("default_schema", session.user.default_schema.as_deref().unwrap_or_default());
            json.truth("transaction_persistent", session.user.transaction_persistent);
            json.truth("session_fast_forward", session.user.fast_forward);
            json.truth("autocommit", !session.state.is_autocommit_off());
            json.truth("is_in_transaction", session.is_in_transaction());
            json.number("last_insert_id", session.last_insert_id);
            json.number("prepared_statements", session.prepared.len());
            json.name("client");
            json.object(|json| {
                json.name("client_addr");
                json.object(|json| json.text("address", &client.peer.host()));
                json.name("proxy_addr");
                json.object(|json| {
                    let address = client.peer.proxy_addr.map(|addr| addr.to_string());
                    json.text("address", &address.unwrap_or_default());
                    json.number("port", client.peer.proxy_port.unwrap_or_default());
                });
                json.truth("encrypted", client.tls.is_some());
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
        let (format, status) = (session.format, session.status);
        let rows = [vec![Some(json.out.into_bytes())]];
        self.stats.counters.statements_answered += 1;
        self.write_client(id, |out| {
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

/// JSON in the making.
#[derive(Default)]
struct Json {
    out: String,
}

impl Json {
    fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.out.push('{');
        members(self);
        self.out.push('}');
    }

    fn array<T>(&mut self, items: &[T], item: impl Fn(&mut Self, &T)) {
        self.out.push('[');
        for (at, one) in items.iter().enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            item(self, one);
        }
        self.out.push(']');
    }

    fn name(&mut self, name: &str) {
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
        self.quoted(name);
        self.out.push(':');
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.quoted(value);
    }

    fn number(&mut self, name: &str, value: impl std::fmt::Display) {
        self.name(name);
        self.out.push_str(&value.to_string());
    }

    fn truth(&mut self, name: &str, value: bool) {
        self.number(name, value);
    }

    fn quoted(&mut self, value: &str) {
        self.out.push('"');
        for char in value.chars() {
            match char {
                '"' | '\\' => {
                    self.out.push('\\');
                    self.out.push(char);
                }
                char if u32::from(char) < 0x20 => {
                    self.out.push_str(&format!("\\u{:04x}", u32::from(char)));
                }
                char => self.out.push(char),
            }
        }
        self.out.push('"');
    }
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

    #[test]
    fn what_is_in_a_text_does_not_end_it() {
        let mut json = Json::default();
        json.object(|json| {
            json.text("a\"", "b\\\n");
            json.name("c");
            json.array(&[1, 2], |json, number| json.object(|json| json.number("n", number)));
        });
        assert_eq!(json.out, "{\"a\\\"\":\"b\\\\\\u000a\",\"c\":[{\"n\":1},{\"n\":2}]}");
    }
}
