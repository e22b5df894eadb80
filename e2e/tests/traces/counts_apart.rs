//! What commands without a text leave of the counts of the statement before.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Options, Server, Trunkline};

use crate::stage::{FLAVOURS, PASSWORD, USER, is_available, one_server, start};
use crate::wire::{Endpoint, Shape, Wire};

const COM_STATISTICS: u8 = 0x09;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_RESET: u8 = 0x1A;
const COM_STMT_FETCH: u8 = 0x1C;

/// What goes between a statement and the question.
const COMMANDS: [&str; 7] =
    ["statistics", "stmt_reset", "cursor", "fetch", "close", "end", "cursor of none"];

struct Client(Wire);

impl Client {
    fn open(endpoint: impl Into<Endpoint>) -> Result<Self> {
        Ok(Self(Wire::login(endpoint, USER, PASSWORD, "here")?))
    }

    fn prepare(&mut self, text: &str) -> Result<[u8; 4]> {
        let reply = self.0.exchange(COM_STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
        reply.get(5..9).and_then(|id| id.try_into().ok()).context("no id of a statement")
    }

    /// With a cursor, of which it fetches so many rows.
    fn open_cursor(&mut self, stmt: [u8; 4], fetched: u8) -> Result<()> {
        let body = [&stmt[..], &[1, 1, 0, 0, 0]].concat();
        self.0.exchange(COM_STMT_EXECUTE, &body, Shape::Results)?;
        if fetched > 0 {
            let body = [&stmt[..], &[fetched, 0, 0, 0]].concat();
            self.0.exchange(COM_STMT_FETCH, &body, Shape::UntilEof)?;
        }
        Ok(())
    }

    /// What the counts are behind each of the commands.
    fn told(&mut self, other: &mut Wire) -> Result<Vec<(String, Option<String>)>> {
        let mut told = Vec::new();
        let stmt = self.prepare("SELECT a FROM t")?;
        let none = self.prepare("SELECT a FROM t WHERE a > 100")?;
        for before in ["SELECT a FROM t WHERE a < 3", "UPDATE t SET b = b + 1", "SELECT nosuch"] {
            for asked in ["SELECT ROW_COUNT()", "SELECT FOUND_ROWS()"] {
                for command in COMMANDS {
                    self.0.query(before)?;
                    match command {
                        "statistics" => {
                            drop(self.0.exchange(COM_STATISTICS, &[], Shape::Single)?)
                        }
                        "stmt_reset" => {
                            drop(self.0.exchange(COM_STMT_RESET, &stmt, Shape::Single)?)
                        }
                        "cursor" => self.open_cursor(stmt, 0)?,
                        "fetch" => self.open_cursor(stmt, 2)?,
                        "close" => {
                            self.open_cursor(stmt, 2)?;
                            self.open_cursor(stmt, 0)?;
                            self.0.exchange(COM_STMT_RESET, &stmt, Shape::Single)?;
                        }
                        "end" => {
                            self.open_cursor(stmt, 2)?;
                            self.open_cursor(stmt, 9)?;
                        }
                        _ => self.open_cursor(none, 0)?,
                    }
                    other.query("SELECT a FROM t WHERE a < 4")?;
                    other.query("UPDATE u SET a = a + 1")?;
                    told.push((format!("{before}; {command}; {asked}"), self.0.value(asked)?));
                    if command == "fetch" {
                        self.0.exchange(COM_STMT_RESET, &stmt, Shape::Single)?;
                    }
                }
            }
        }
        Ok(told)
    }
}

fn check(server: &Server) -> Result<()> {
    server.sql(
        "CREATE DATABASE here; CREATE TABLE here.t (a INT, b INT);
         CREATE TABLE here.u (a INT); INSERT INTO here.u VALUES (1), (2), (3);
         INSERT INTO here.t VALUES (1, 1), (2, 1), (3, 1), (4, 1), (5, 1)",
    )?;
    let proxy = Trunkline::start(&one_server(server, 1, 10))?;
    // It uses the connection in between.
    let other = |endpoint: Endpoint| Wire::login(endpoint, USER, PASSWORD, "here");
    let direct = Client::open(server)?.told(&mut other(server.into())?)?;
    let proxied = Client::open(&proxy)?.told(&mut other((&proxy).into())?)?;
    let differ: Vec<_> = direct.iter().zip(&proxied).filter(|(one, other)| one != other).collect();
    ensure!(differ.is_empty(), "directly and through the proxy: {differ:#?}");
    Ok(())
}

#[test]
fn issue_16_counts_behind_commands_are_the_servers() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "issue_16_counts_behind_commands_are_the_servers") {
            check(&start(flavour, Options::default())?).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}
