//! How a session's statements are to be read: what its settings make of quotes and bytes.

use trunkline_protocol::{collation, packet::greeting::Flavor};
use trunkline_session::tracker::{Charset, SessionState};
use trunkline_sql::token::{Encoding, Modes};

/// The modes that follow from a session's state. `NO_BACKSLASH_ESCAPES` is known from the status
/// flags of the server's replies.
pub(crate) fn modes_of(state: &SessionState, flavor: Flavor, no_backslash_escapes: bool) -> Modes {
    Modes {
        ansi_quotes: state.variable("sql_mode").is_some_and(has_ansi_quotes),
        no_backslash_escapes,
        flavor_mariadb: flavor == Flavor::MariaDb,
        encoding: encoding_of(&client_charset(state, flavor)),
    }
}

/// Whether a value of `sql_mode` may make double quotes enclose names. A value that is a number
/// or is computed may.
fn has_ansi_quotes(value: &[u8]) -> bool {
    let value = value.to_ascii_uppercase();
    let names: [&[u8]; 6] = [b"ANSI", b"ORACLE", b"DB2", b"MSSQL", b"POSTGRESQL", b"MAXDB"];
    let has_name = |name: &&[u8]| value.windows(name.len()).any(|part| *part == **name);
    let is_plain_text = matches!(value.first(), Some(b'\'' | b'"'));
    names.iter().any(has_name) || !is_plain_text && value.iter().any(u8::is_ascii_digit)
}

/// The character set of the client's texts, in lower case; empty when it is not known.
fn client_charset(state: &SessionState, flavor: Flavor) -> String {
    let from_choice = || match &state.charset {
        Charset::Collation(id) => {
            collation::lookup(flavor, *id).map(|(charset, _)| charset.as_bytes().to_vec())
        }
        Charset::Names(text) | Charset::CharacterSet(text) => Some(text.to_vec()),
        Charset::Unknown => None,
    };
    let own = state.variable("character_set_client").map(<[u8]>::to_vec);
    let text = own.or_else(from_choice).unwrap_or_default().to_ascii_lowercase();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let name = text.iter().copied().skip_while(|byte| !is_name(byte)).take_while(is_name);
    name.map(char::from).collect()
}

fn encoding_of(charset: &str) -> Encoding {
    match charset {
        "big5" | "gbk" | "gb18030" | "gb2312" => Encoding::Chinese,
        "sjis" | "cp932" => Encoding::ShiftJis,
        "" | "utf8" | "utf8mb3" | "utf8mb4" | "default" => Encoding::Utf8,
        _ => Encoding::SingleByte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline_session::tracker::Schema;

    fn modes(change: impl FnOnce(&mut SessionState)) -> Modes {
        let mut state = SessionState::new(Schema::None, Charset::Collation(45));
        change(&mut state);
        modes_of(&state, Flavor::MySql, false)
    }

    #[test]
    fn quotes_follow_sql_mode() {
        for (value, expected) in
            [("'ANSI'", true), ("'STRICT_TRANS_TABLES'", false), ("4", true), ("''", false)]
        {
            let modes = modes(|state| state.set_variable("sql_mode", value.as_bytes()));
            assert_eq!(modes.ansi_quotes, expected, "{value}");
        }
    }

    #[test]
    fn bytes_follow_the_clients_character_set() {
        let named = |text: &str| {
            let charset = Charset::Names(text.as_bytes().into());
            modes(|state| state.set_charset(charset)).encoding
        };
        assert_eq!(modes(|_| {}).encoding, Encoding::Utf8);
        assert_eq!(named("gbk COLLATE gbk_bin"), Encoding::Chinese);
        assert_eq!(named("'cp932'"), Encoding::ShiftJis);
        assert_eq!(named("latin1"), Encoding::SingleByte);
        let modes = modes(|state| state.set_variable("character_set_client", b"'big5'"));
        assert_eq!(modes.encoding, Encoding::Chinese);
    }
}
