//! A text is read as the server reads it.

use anyhow::{Context, Result, ensure};
use trunkline_protocol::{
    command::code,
    packet::{ok, status},
};
use trunkline_testkit::{AuthPlugin, Flavour, MariaDb, MySql, Options, Trunkline};

use super::play::holds;
use super::stand::{Kind, ONE, SPLIT, Scene};
use crate::stage::{PASSWORD, USER, is_available, one_server};
use crate::wire::{Shape, Wire};

#[test]
fn comments_literals_and_names_are_read_as_the_server_reads_them() -> Result<()> {
    holds(SPLIT, include_str!("cases/tokenizer.txt"))
}

#[test]
fn white_space_is_what_the_character_set_says() -> Result<()> {
    holds(SPLIT, include_str!("cases/white_space.txt"))
}

#[test]
fn characters_of_two_bytes_are_read_as_the_server_reads_them() -> Result<()> {
    holds(SPLIT, include_str!("cases/lead_bytes.txt"))
}

#[test]
fn one_text_is_read_anew_in_another_character_set() -> Result<()> {
    holds(ONE, include_str!("cases/readings.txt"))
}

#[test]
fn the_servers_own_modes_hold_from_the_first_statement_on() -> Result<()> {
    let servers = Kind::Own("--sql-mode=ANSI_QUOTES");
    holds(Scene { servers, ..SPLIT }, include_str!("cases/modes_ansi.txt"))?;
    let servers = Kind::Own("--sql-mode=NO_BACKSLASH_ESCAPES");
    holds(Scene { servers, ..SPLIT }, include_str!("cases/modes_no_escapes.txt"))
}

#[test]
fn oracle_is_known_from_the_first_statement_on() -> Result<()> {
    let servers = Kind::Own("--sql-mode=ORACLE");
    holds(Scene { servers, ..SPLIT }, include_str!("cases/modes_oracle.txt"))
}

#[test]
fn what_is_prepared_is_judged_as_it_is_read_when_it_runs() -> Result<()> {
    holds(ONE, include_str!("cases/prepared_read_again.txt"))
}

/// The flags by which client libraries escape, as a session is told them one after the other: by
/// the greeting, and by answers that come before a server has run anything for it, and behind a
/// reset.
fn told(mut wire: Wire) -> Result<Vec<u16>> {
    let mut told = vec![wire.greeting()?.status];
    for (command, body) in [
        (code::PING, &b""[..]),
        (code::QUERY, b"BEGIN"),
        (code::QUERY, b"COMMIT"),
        (code::RESET_CONNECTION, b""),
        (code::QUERY, b"BEGIN"),
    ] {
        let reply = wire.exchange(command, body, Shape::Single)?;
        let body = reply.get(4..).context("no reply")?;
        told.push(ok::parse(body, false)?.status);
    }
    Ok(told.into_iter().map(|flags| flags & status::READING).collect())
}

#[test]
fn clients_are_told_how_their_texts_are_read_before_a_server_has_said_it() -> Result<()> {
    let name = "clients_are_told_how_their_texts_are_read_before_a_server_has_said_it";
    for flavour in [Flavour::MariaDb, Flavour::MySql] {
        if !is_available(flavour, name) {
            continue;
        }
        let options = Options::id(1).arg("--sql-mode=NO_BACKSLASH_ESCAPES,ANSI_QUOTES");
        let server = match flavour {
            Flavour::MariaDb => MariaDb::start(options)?,
            Flavour::MySql => MySql::start(options)?,
        };
        server.create_user(USER, PASSWORD, AuthPlugin::ServerDefault)?;
        let proxy = Trunkline::start(&one_server(&server, 1, 5))?;
        let through = told(Wire::login(&proxy, USER, PASSWORD, "")?)?;
        let directly = told(Wire::login(&server, USER, PASSWORD, "")?)?;
        ensure!(directly.iter().all(|flags| *flags != 0), "{flavour:?}: {directly:?}");
        ensure!(through == directly, "{flavour:?}: {through:?}, directly {directly:?}");
    }
    Ok(())
}
