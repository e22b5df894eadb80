//! Any sequence of `SET`s gives through the proxy what it gives on one direct connection.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Row, Server, SqlClient, Trunkline, error_code};

use crate::stage::{
    FLAVOURS, PASSWORD, USER, before, client, is_available, new_schema, shared_server,
};

/// How long one flavour is tried.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Statements that never pin: with them two clients share one server connection.
const CARRIED: [&str; 39] = [
    "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
    "SET sql_mode = ''",
    "SET sql_mode = DEFAULT",
    "SET SESSION sql_mode = ANSI",
    "SET NAMES latin1",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET NAMES DEFAULT",
    "SET CHARACTER SET latin1",
    "SET character_set_results = NULL",
    "SET collation_connection = 'latin1_german1_ci'",
    "SET time_zone = '+03:30', sql_select_limit = 77",
    "SET time_zone = DEFAULT",
    "SET @@session.time_zone := SYSTEM",
    "SET @@local.group_concat_max_len = 4096",
    "SET group_concat_max_len = 5 * 1000",
    "SET group_concat_max_len = @@group_concat_max_len + 1",
    "SET foreign_key_checks = 0, unique_checks = 0",
    "SET foreign_key_checks = DEFAULT",
    "SET unique_checks = ON",
    "SET autocommit = 0",
    "SET autocommit = 1",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY",
    "SET SESSION TRANSACTION READ WRITE",
    "SET optimizer_switch = 'index_merge=off'",
    "SET optimizer_switch = DEFAULT",
    "SET timestamp = 86400",
    "SET timestamp = DEFAULT",
    "SET lc_time_names = 'de_DE', @n = 1",
    "SET @n = -1.50",
    "SET @n := NULL, @m = TRUE",
    "SET @n = 1e3, @`odd -name` = 0x4142",
    "SET @m = x'00ff', @N = b'101'",
    "SET max_join_size = 123456, sql_big_selects = 1",
    "SET max_join_size = DEFAULT",
    "SET sql_safe_updates = 'ON'",
    "SET sql_log_bin = 0",
    "SET sql_log_bin = DEFAULT",
    "SET no_such_variable = 1, sql_mode = 'TRADITIONAL'",
    "SET big_tables = 'maybe', sql_safe_updates = 0",
];

/// Statements that may pin: each client can have a connection of its own.
const PINNING: [&str; 12] = [
    // swe7 has a letter in the place of the backtick.
    "SET @`odd ``name` = 0x4142",
    "SET time_zone = 'nowhere', @n = 5",
    "SET @s = 'it''s', @t = \"two\"",
    "SET @s = 'back\\\\slash', NAMES utf8mb4",
    "SET @s = _latin1'abc', @t = N'x'",
    "SET @s = CONCAT(@s, '!'), @n = @n + 1",
    "SET @t = @@time_zone, time_zone = '-02:00'",
    "SELECT 'z' INTO @s",
    "SELECT @n := 7",
    "SET sql_mode = CONCAT(@@sql_mode, ',PIPES_AS_CONCAT')",
    "SET @s = NULL, @t = NULL",
    "SET @s = 'plain', @t = 'text'",
];

/// What both must see alike.
const QUESTION: &str = "SELECT @@sql_mode, @@character_set_client, @@character_set_connection, \
     @@character_set_results, @@collation_connection, @@time_zone, @@sql_select_limit, \
     @@group_concat_max_len, @@foreign_key_checks, @@unique_checks, @@autocommit, \
     @@optimizer_switch, @@lc_time_names, @@max_join_size, @@sql_big_selects, \
     @@sql_safe_updates, @@big_tables, @@sql_log_bin, IF(@@timestamp > 100000, 0, @@timestamp), \
     HEX(@n), HEX(@m), HEX(@`odd -name`), HEX(@`odd ``name`), HEX(@s), HEX(@t), \
     IF(@s IS NULL, '', COLLATION(@s)), IF(@t IS NULL, '', COLLATION(@t))";

/// A small generator of numbers, so that a failure can be had again.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % end
    }
}

struct Twins {
    proxied: SqlClient,
    direct: SqlClient,
}

fn same(proxied: Result<Vec<Row>>, direct: Result<Vec<Row>>) -> Result<()> {
    match (proxied, direct) {
        (Ok(proxied), Ok(direct)) => {
            ensure!(proxied == direct, "{proxied:?}, directly {direct:?}");
        }
        (Err(proxied), Err(direct)) => {
            let codes = (error_code(&proxied), error_code(&direct));
            ensure!(codes.0.is_some() && codes.0 == codes.1, "{proxied:#}, directly {direct:#}");
        }
        (proxied, direct) => anyhow::bail!("{proxied:?}, directly {direct:?}"),
    }
    Ok(())
}

impl Twins {
    fn new(proxy: &Trunkline, server: &Server, schema: &str) -> Result<Twins> {
        let direct = server.connect(USER, PASSWORD, schema)?;
        Ok(Twins { proxied: client(proxy, schema)?, direct })
    }

    fn run(&mut self, statement: &str) -> Result<()> {
        same(self.proxied.sql(statement), self.direct.sql(statement))
            .with_context(|| statement.to_owned())
    }
}

/// One sequence, of two clients by turns.
fn sequence(
    proxy: &Trunkline,
    server: &Server,
    schema: &str,
    statements: &[&str],
    seed: u64,
) -> Result<()> {
    let mut numbers = Numbers(seed);
    let mut clients = [Twins::new(proxy, server, schema)?, Twins::new(proxy, server, schema)?];
    let mut history = Vec::new();
    for _ in 0..12 {
        let number = numbers.below(2);
        let count = 1 + numbers.below(2);
        for _ in 0..count {
            let statement = statements[numbers.below(statements.len())];
            history.push((number, statement));
            clients[number].run(statement).with_context(|| format!("{history:?}"))?;
        }
        for (asked, twins) in clients.iter_mut().enumerate() {
            twins.run(QUESTION).with_context(|| format!("client {asked} behind {history:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn any_sequence_of_sets_is_as_on_a_direct_connection() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "any_sequence_of_sets_is_as_on_a_direct_connection") {
            continue;
        }
        sequences(flavour).with_context(|| format!("{flavour:?}"))?;
    }
    Ok(())
}

fn sequences(flavour: Flavour) -> Result<()> {
    let server = shared_server(flavour)?;
    let schema = new_schema(server, "DO 1")?;
    let (one, two) = (before(server, 1, 1)?, before(server, 1, 2)?);
    let all: Vec<&str> = CARRIED.into_iter().chain(PINNING).collect();
    let began = Instant::now();
    // The same each time; `TRUNKLINE_SEED=N` explores from another one on.
    let first = match std::env::var("TRUNKLINE_SEED") {
        Ok(seed) => seed.parse().context("TRUNKLINE_SEED is no number")?,
        Err(_) => 1,
    };
    for seed in (first..first + 2_000).step_by(2) {
        if began.elapsed() > TIME_MAX {
            break;
        }
        sequence(&one, server, &schema, &CARRIED, seed).with_context(|| format!("seed {seed}"))?;
        let seed = seed + 1;
        sequence(&two, server, &schema, &all, seed).with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}
