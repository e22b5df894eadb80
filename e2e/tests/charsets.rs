//! Character sets and collations: from the handshake, from a change of user, by statements, and
//! the server's own defaults. Each client does the same directly and through the proxy, where it
//! takes turns with others on one server connection.

use anyhow::{Context, Result, ensure};
use trunkline_session::backend::ServerHandshake;
use trunkline_testkit::{Flavour, Options, Server, Trunkline};

use crate::stage::{
    FLAVOURS, PASSWORD, USER, before, is_available, new_schema, one_server, shared_server, start,
};
use crate::wire::{Endpoint, MODERN, Wire, code, login, refused};

const ASKED: &str = "SELECT CONCAT_WS(' ', @@character_set_client, @@character_set_connection, \
                     @@character_set_results, @@collation_connection, @@character_set_database)";

fn log_in(endpoint: impl Into<Endpoint>, collation: u16, schema: &str) -> Result<Wire> {
    let mut login = login(USER, PASSWORD, schema, MODERN);
    login.collation = collation;
    Wire::login_with(endpoint, login)
}

fn asked(wire: &mut Wire) -> Result<String> {
    let row = wire.value(ASKED)?.context("NULL")?;
    // The bytes of a text, not only its variables.
    let text = wire.value("SELECT HEX(CONCAT('\u{e9}', _utf8mb4 x'C3A9'))")?.context("NULL")?;
    Ok(format!("{row} {text}"))
}

/// Ids that every server knows, that none knows, and 0, in one byte.
const OF_HANDSHAKES: [u16; 13] = [45, 8, 33, 0, 63, 192, 224, 255, 1, 250, 47, 95, 83];

/// Ids beyond a byte: MySQL's 0900 collations and MariaDB's NOPAD and UCA 14 ones.
const BEYOND: [u16; 12] = [255, 256, 278, 305, 309, 323, 576, 1069, 1072, 2304, 2352, 9_999];

#[test]
fn the_handshakes_collation_is_the_sessions() -> Result<()> {
    let test = "the_handshakes_collation_is_the_sessions";
    for flavour in FLAVOURS {
        if !is_available(flavour, test) {
            continue;
        }
        let server = shared_server(flavour)?;
        let schema = new_schema(server, "DO 0")?;
        take_turns(server, &schema).with_context(|| format!("{flavour:?}"))?;
    }
    Ok(())
}

#[test]
fn a_servers_own_default_is_what_a_client_without_a_choice_gets() -> Result<()> {
    let test = "a_servers_own_default_is_what_a_client_without_a_choice_gets";
    for flavour in FLAVOURS {
        if !is_available(flavour, test) {
            continue;
        }
        let options = Options::default()
            .arg("--character-set-server=latin2")
            .arg("--collation-server=latin2_hungarian_ci");
        let server = start(flavour, options)?;
        let schema = new_schema(&server, "DO 0")?;
        take_turns(&server, &schema).with_context(|| format!("{flavour:?}"))?;
    }
    Ok(())
}

/// Clients with different collations, twice in turns on one connection.
fn take_turns(server: &Server, schema: &str) -> Result<()> {
    let proxy = before(server, 1, 1)?;
    let mut clients = Vec::new();
    for collation in OF_HANDSHAKES {
        let through = log_in(&proxy, collation, schema).with_context(|| collation.to_string())?;
        clients.push((collation, log_in(server, collation, schema)?, through));
    }
    for turn in 0..2 {
        for (collation, direct, through) in &mut clients {
            let (direct, through) = (asked(direct)?, asked(through)?);
            ensure!(direct == through, "{collation} ({turn}): {direct}, not {through}");
        }
    }
    // The character sets that no client can have.
    for collation in [35, 90, 128, 54, 55, 60, 160] {
        let direct = refused(log_in(server, collation, schema))?;
        let through = refused(log_in(&proxy, collation, schema))?;
        ensure!(direct == through, "{collation}: {direct:?}, not {through:?}");
    }
    let (_, direct, through) = &mut clients[0];
    for collation in BEYOND {
        change_collation(direct, collation, schema)?;
        change_collation(through, collation, schema)?;
        let other = &mut log_in(&proxy, 8, schema)?;
        asked(other)?;
        let (direct, through) = (asked(direct)?, asked(through)?);
        ensure!(direct == through, "changed to {collation}: {direct}, not {through}");
    }
    Ok(())
}

/// `COM_CHANGE_USER`, which has room for a whole collation id.
fn change_collation(wire: &mut Wire, collation: u16, schema: &str) -> Result<()> {
    let identity = wire.identity.clone().context("not logged in")?;
    let mut wanted = login(USER, PASSWORD, schema, wire.capabilities);
    wanted.collation = collation;
    let mut out = Vec::new();
    let handshake = ServerHandshake::change_user(wanted, identity, &mut out);
    wire.shake(handshake, out)
}

#[test]
fn character_sets_are_chosen_by_statements() -> Result<()> {
    let test = "character_sets_are_chosen_by_statements";
    for flavour in FLAVOURS {
        if !is_available(flavour, test) {
            continue;
        }
        let server = shared_server(flavour)?;
        let schema = new_schema(
            server,
            "ALTER DATABASE CHARACTER SET greek COLLATE greek_bin; CREATE TABLE t (a INT)",
        )?;
        let proxy = before(server, 1, 1)?;
        let mut other = log_in(&proxy, 8, "")?;
        let latest = match flavour {
            Flavour::MariaDb => "SET NAMES utf8mb4 COLLATE uca1400_ai_ci",
            Flavour::MySql => "SET NAMES utf8mb4 COLLATE utf8mb4_ja_0900_as_cs_ks",
        };
        for in_schema in ["", &*schema] {
            let mut direct = log_in(server, 45, in_schema)?;
            let mut through = log_in(&proxy, 45, in_schema)?;
            for statement in [
                "SET NAMES latin1",
                "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_bin'",
                latest,
                "SET NAMES latin1 COLLATE utf8mb4_bin",
                "SET NAMES nothing",
                "SET CHARACTER SET latin2",
                "SET CHARACTER SET 'utf8mb4'",
                "SET CHARSET greek",
                "SET CHARACTER SET DEFAULT",
                "SET NAMES DEFAULT",
                "SET NAMES ucs2",
                "SET collation_connection = latin1_german2_ci",
                "SET character_set_results = NULL",
                "SET character_set_results = utf8mb4, character_set_client = latin1",
                "SET NAMES binary",
                "SET NAMES latin1, @@time_zone = '+01:00'",
                "SET @@time_zone = '+02:00', NAMES greek",
                "SET character_set_connection = DEFAULT",
                "USE mysql",
                "SET CHARACTER SET latin1",
                "SET NAMES utf8mb4 COLLATE DEFAULT",
            ] {
                let run = |wire: &mut Wire| -> Result<_> {
                    let answer = wire.query(statement)?;
                    Ok(answer.iter().map(|one| one.error().cloned()).collect::<Vec<_>>())
                };
                let (told, found) = (run(&mut direct)?, run(&mut through)?);
                ensure!(told == found, "{statement}: {told:?}, not {found:?}");
                asked(&mut other)?;
                let (told, found) = (asked(&mut direct)?, asked(&mut through)?);
                ensure!(told == found, "{flavour:?} {statement}: {told}, not {found}");
            }
        }
    }
    Ok(())
}

/// Two schemas have the same bytes in their names, in two character sets: `\u{e9}` in utf8mb4,
/// `\u{c3}\u{a9}` in latin1. Texts are sent as bytes here.
#[test]
fn schemas_are_named_in_their_sessions_character_set() -> Result<()> {
    let test = "schemas_are_named_in_their_sessions_character_set";
    for flavour in FLAVOURS {
        if !is_available(flavour, test) {
            continue;
        }
        let server = start(flavour, Options::default())?;
        server.create_user(USER, PASSWORD, trunkline_testkit::AuthPlugin::ServerDefault)?;
        for (name, number) in [("\u{e9}", 1), ("\u{c3}\u{a9}", 2), ("\u{439}", 3)] {
            server.sql(&format!(
                "CREATE DATABASE `{name}`; CREATE TABLE `{name}`.z (x INT, y INT);
                 INSERT INTO `{name}`.z VALUES ({number}, 0)"
            ))?;
        }
        schemas_by_character_set(&server).with_context(|| format!("{flavour:?}"))?;
    }
    Ok(())
}

/// Clients of several character sets on one connection: each finds, and writes to, its own schema.
fn schemas_by_character_set(server: &Server) -> Result<()> {
    let proxy = before(server, 1, 1)?;
    // A collation of the handshake, what is said behind the login, the name's bytes, the schema.
    let kinds: [(u16, &str, &[u8], &str); 6] = [
        (45, "DO 1", b"\xC3\xA9", "1"),
        (8, "DO 1", b"\xC3\xA9", "2"),
        (45, "SET NAMES latin1", b"\xC3\xA9", "2"),
        (8, "DO 1", b"\xE9", "1"),
        (45, "SET NAMES cp1251", b"\xE9", "3"),
        (8, "SET NAMES utf8mb4", b"\xC3\xA9", "1"),
    ];
    for (collation, expected) in [(45, "1"), (8, "2"), (45, "1"), (8, "2")] {
        let mut wire = log_in(&proxy, collation, "\u{e9}")?;
        let found = wire.value("SELECT x FROM z WHERE y = 0")?;
        ensure!(found.as_deref() == Some(expected), "login, {collation}: {found:?}, {expected}");
    }
    let mut clients = Vec::new();
    for (collation, said, name, expected) in kinds {
        for is_used in [false, true] {
            let mut wire = log_in(&proxy, collation, "")?;
            wire.one(said)?;
            let named = match is_used {
                true => wire.single(code::QUERY, &[b"USE `", name, b"`"].concat())?,
                false => wire.single(code::INIT_DB, name)?,
            };
            ensure!(named.is_ok(), "{collation} {said}: {named:?}");
            clients.push((wire, said, expected));
        }
    }
    for turn in 0..3 {
        for (wire, said, expected) in &mut clients {
            let found = wire.value("SELECT x FROM z WHERE y = 0")?;
            ensure!(found.as_deref() == Some(*expected), "{said} ({turn}): {found:?}, {expected}");
            let written = wire.one(&format!("INSERT INTO z VALUES ({expected}, 1)"))?;
            ensure!(written.is_ok(), "{said} ({turn}): {written:?}");
        }
    }
    for (wire, said, expected) in &mut clients {
        // The schema stays, whatever the character set becomes.
        wire.one("SET NAMES latin2")?;
        let found = wire.value("SELECT COUNT(*) FROM z WHERE y = 1 AND x <> ROUND(x)")?;
        ensure!(found.as_deref() == Some("0"), "{said}: {found:?}");
        let found = wire.value("SELECT x FROM z WHERE y = 0")?;
        ensure!(found.as_deref() == Some(*expected), "{said}, then latin2: {found:?}");
    }
    for (name, number, count) in [("\u{e9}", 1, 18), ("\u{c3}\u{a9}", 2, 12), ("\u{439}", 3, 6)] {
        let own = format!("SELECT COUNT(*) FROM `{name}`.z WHERE y = 1 AND x = {number}");
        let all = format!("SELECT COUNT(*) FROM `{name}`.z WHERE y = 1");
        let found = (server.value(&own)?, server.value(&all)?);
        let expected = Some(count.to_string());
        ensure!(found == (expected.clone(), expected), "{name}: {found:?}, {count}");
    }
    Ok(())
}

/// A session of another character set may open the connection that an account's others use.
#[test]
fn accounts_are_named_in_utf8_whoever_opens_the_connection() -> Result<()> {
    let test = "accounts_are_named_in_utf8_whoever_opens_the_connection";
    for flavour in FLAVOURS {
        if !is_available(flavour, test) {
            continue;
        }
        let server = start(flavour, Options::default())?;
        for name in ["\u{e9}", "\u{c3}\u{a9}"] {
            server.create_user(name, PASSWORD, trunkline_testkit::AuthPlugin::ServerDefault)?;
        }
        let named = format!("name = \"{USER}\"");
        let config = one_server(&server, 1, 1).replace(&named, "name = \"\u{e9}\"");
        let proxy = Trunkline::start(&config)?;
        for collation in [8, 45] {
            let mut login = login("\u{e9}", PASSWORD, "", MODERN);
            login.collation = collation;
            let mut wire = Wire::login_with(&proxy, login)?;
            let asked = "SELECT HEX(CONVERT(CURRENT_USER() USING utf8mb4)) LIKE 'C3A940%'";
            let found = wire.value(asked)?;
            ensure!(found.as_deref() == Some("1"), "{flavour:?}, {collation}: {found:?}");
        }
    }
    Ok(())
}
