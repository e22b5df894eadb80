//! Commands and what comes with their answers: compared byte by byte with a direct connection.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use trunkline_protocol::Capabilities;
use trunkline_protocol::packet::ok::{self, OkPacket};
use trunkline_protocol::packet::track::Changes;
use trunkline_testkit::{AuthPlugin, Flavour, Options, Row, Server, Trunkline};

use crate::stage::{FLAVOURS, PASSWORD, USER, before, is_available, new_schema, shared_server};
use crate::wire::{MODERN, PLAIN, Shape, Wire, code, login, payloads};

fn on_both(test: &str, check: impl Fn(&Server) -> Result<()>) -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, test) {
            check(shared_server(flavour)?).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

/// An answer as text. Servers tell changes in no particular order.
fn shown(bytes: &[u8], capabilities: Capabilities) -> String {
    let packets = payloads(bytes);
    let track = capabilities.contains(Capabilities::SESSION_TRACK);
    if let [packet] = packets.as_slice()
        && let Ok(ok) = ok::parse(packet, track)
    {
        let changes = Changes::new(ok.changes);
        let mut changes: Vec<_> = changes.map(|change| format!("{change:?}")).collect();
        changes.sort();
        return format!("{:?} {changes:?}", OkPacket { changes: b"", ..ok });
    }
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// Clients that ask for session tracking are told what a direct connection tells, though the
/// proxy has its servers tell it more.
#[test]
fn session_changes_are_told_as_directly() -> Result<()> {
    let statements = [
        "SELECT 1",
        "SET time_zone = '+01:00'",
        "SET sql_mode = 'ANSI_QUOTES'",
        "SET group_concat_max_len = 4711, autocommit = 0",
        "SET autocommit = 1",
        "SET NAMES latin1",
        "INSERT INTO t (b) VALUES (1)",
        "SELECT * FROM t WHERE a = 0",
        "BEGIN",
        "INSERT INTO t (b) VALUES (1)",
        "COMMIT",
        "USE information_schema",
        "SET @x = 1",
        "CREATE TEMPORARY TABLE tracked_own.x (a INT)",
        "SET session_track_state_change = 1",
        "SET @y = 1",
        "SET sql_mode = ''",
        "SET session_track_system_variables = 'sql_mode'",
        "SET sql_mode = 'ANSI', time_zone = '+02:00'",
        "SET session_track_schema = 0",
        "USE mysql",
        "SET session_track_transaction_info = 'STATE'",
        "BEGIN",
        "ROLLBACK",
    ];
    let without_eof = PLAIN.union(Capabilities::SESSION_TRACK);
    on_both("session_changes_are_told_as_directly", |server| {
        let table = "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b INT)";
        for capabilities in [MODERN, without_eof, PLAIN] {
            let mut names = [new_schema(server, table)?, new_schema(server, table)?];
            if names[0].len() != names[1].len() {
                names[0] = new_schema(server, table)?;
            }
            let proxy = before(server, 1, 2)?;
            // Connections of the other framing as well, so that packets are rewritten.
            let mut plain = Wire::login_with(&proxy, login(USER, PASSWORD, "", PLAIN))?;
            plain.one("SELECT 1")?;
            let [one, two] = &names;
            let mut direct = Wire::login_with(server, login(USER, PASSWORD, one, capabilities))?;
            let mut client = Wire::login_with(&proxy, login(USER, PASSWORD, two, capabilities))?;
            for statement in statements {
                let exchange = |wire: &mut Wire, schema: &str| -> Result<String> {
                    let text = statement.replace("tracked_own", schema);
                    let bytes = wire.exchange(code::QUERY, text.as_bytes(), Shape::Results)?;
                    Ok(shown(&bytes, wire.capabilities).replace(schema, "own"))
                };
                let expected = exchange(&mut direct, one)?;
                let found = exchange(&mut client, two)?;
                // What the change of a tracker itself reports is the new or the old way.
                let is_compared = !statement.starts_with("SET session_track_");
                ensure!(
                    !is_compared || expected == found,
                    "{statement} {capabilities:?}:\n{found:?}, directly\n{expected:?}"
                );
            }
        }
        Ok(())
    })
}

/// What a client tells of itself: to whom its connection is its own, and nobody else.
#[test]
fn connection_attributes_say_who_is_connected() -> Result<()> {
    for flavour in [Flavour::MariaDb, Flavour::MySql] {
        if is_available(flavour, "connection_attributes_say_who_is_connected") {
            check_attributes(flavour)?;
        }
    }
    Ok(())
}

fn check_attributes(flavour: Flavour) -> Result<()> {
    let options =
        Options { args: vec!["--performance-schema=ON".to_owned()], ..Options::default() };
    let server = crate::stage::start(flavour, options)?;
    server.create_user("alone", PASSWORD, AuthPlugin::ServerDefault)?;
    let forwarded = "[[user]]\nname = \"alone\"\npassword = \"app's secret\"\n\
                     default_hostgroup = 0\nfast_forward = true\n";
    let proxy =
        Trunkline::start(&format!("{}{forwarded}", crate::stage::one_server(&server, 1, 4)))?;
    let told = |user: &str| -> Result<BTreeMap<String, String>> {
        let mut wanted = login(user, PASSWORD, "", MODERN);
        wanted.attributes = vec![
            (b"program_name".to_vec(), b"e2e".to_vec()),
            (b"client_addr".to_vec(), b"192.0.2.7".to_vec()),
            (b"long".to_vec(), vec![b'x'; 300]),
        ];
        let mut client = Wire::login_with(&proxy, wanted)?;
        client.one("SELECT 1")?;
        let rows = server.sql(&format!(
            "SELECT attr_name, attr_value FROM performance_schema.session_connect_attrs
             JOIN information_schema.processlist ON id = processlist_id WHERE user = '{user}'"
        ))?;
        let pair = |row: Row| {
            let mut fields = row.into_iter().map(Option::unwrap_or_default);
            Some((fields.next()?, fields.next()?))
        };
        Ok(rows.into_iter().filter_map(pair).collect())
    };
    let pooled = told(USER)?;
    let of = |told: &BTreeMap<String, String>, name: &str| told.get(name).cloned();
    ensure!(of(&pooled, "program_name").as_deref() == Some("trunkline"), "{pooled:?}");
    ensure!(of(&pooled, "_client_name").as_deref() == Some("trunkline"), "{pooled:?}");
    ensure!(of(&pooled, "_pid") == Some(proxy.pid().to_string()), "{pooled:?}");
    for name in ["_client_version", "_os", "_platform"] {
        ensure!(of(&pooled, name).is_some_and(|value| !value.is_empty()), "{pooled:?}");
    }
    let own = told("alone")?;
    ensure!(of(&own, "program_name").as_deref() == Some("e2e"), "{own:?}");
    ensure!(of(&own, "long").is_some_and(|value| value.len() == 300), "{own:?}");
    // Where it comes from is the proxy's word.
    ensure!(of(&own, "client_addr").as_deref() == Some("127.0.0.1"), "{own:?}");
    ensure!(own.len() == 3, "{own:?}");
    Ok(())
}
