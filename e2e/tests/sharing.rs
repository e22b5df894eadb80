//! Reads of many clients follow each other on few server connections: each gets its own answer,
//! whatever the others do.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use trunkline_protocol::Capabilities;
use trunkline_protocol::codec::compressed::Expected;
use trunkline_testkit::{Flavour, Flavour::MariaDb, Server, Trunkline, wait_until};

use crate::stage::{
    FLAVOURS, PASSWORD, SOON, USER, connections_on, is_available, new_schema, one_server,
    shared_server, start,
};
use crate::wire::{MODERN, Outcome, PLAIN, Shape, Wire, code, login, refused};

const ROWS: u64 = 900;
/// Rounds of a statement that runs for some tenths of a second.
const LONG: u64 = 800_000;

/// A small generator of numbers; good enough to choose what a client does next.
struct Dice(u64);

impl Dice {
    fn below(&mut self, max: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (self.0 >> 33) % max
    }
}

fn table(server: &Server) -> Result<String> {
    new_schema(
        server,
        &format!(
            "CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(20) NOT NULL);
             INSERT INTO t WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n
             WHERE i < {ROWS}) SELECT i, CONCAT('row ', i) FROM n"
        ),
    )
}

fn config(server: &Server, connections: u32, depth: u32) -> String {
    format!("pipeline_depth_max = {depth}\n{}", one_server(server, 1, connections))
}

/// A read with its tag; `times` makes the answer long, `rounds` makes it late.
fn read(tag: u64, id: u64, times: u64, rounds: u64) -> String {
    format!(
        "SELECT {tag} AS tag, REPEAT(c, {times}) AS c, BENCHMARK({rounds}, SHA2('x', 256)) AS b FROM t \
         WHERE id = {id}"
    )
}

fn check(outcome: &Outcome, tag: u64, id: u64, times: u64) -> Result<()> {
    let rows = outcome.text_rows();
    let wanted = [Some(tag.to_string()), Some(format!("row {id}").repeat(times as usize))];
    let found = rows.first().with_context(|| format!("no row for {tag}: {outcome:?}"))?;
    ensure!(rows.len() == 1 && found.len() == 3, "{} rows for {tag}", rows.len());
    ensure!(found[..2] == wanted, "the answer to {tag} is another's: {:.80?}", found);
    Ok(())
}

struct Scene<'a> {
    proxy: &'a Trunkline,
    schema: &'a str,
    /// What its clients compress with, every other one.
    compression: Capabilities,
    stop: AtomicBool,
    answers: AtomicU64,
}

impl Scene<'_> {
    /// Sessions, one after the other, each ending in one of the ways that clients go.
    fn live(&self, number: u64) -> Result<()> {
        let mut dice = Dice(number);
        let mut tag = number * 1_000_000;
        while !self.stop.load(Ordering::Relaxed) {
            let wanted = if number.is_multiple_of(2) { self.compression } else { PLAIN };
            let login = login(USER, PASSWORD, self.schema, MODERN | wanted);
            let mut wire = match Wire::login_with(self.proxy, login) {
                Ok(wire) => wire,
                // The connections on which its schema was tried were killed, one and another.
                Err(error) => match refused(Err(error))? {
                    refusal if refusal.code == 2013 => continue,
                    refusal => bail!("a refusal that nothing explains: {refusal:?}"),
                },
            };
            if let Some(packing) = &mut wire.packing {
                packing.expected = Expected::Any;
            }
            wire.set_read_timeout(SOON)?;
            for _ in 0..1 + dice.below(200) {
                tag += 1;
                if !self.one_read(&mut wire, &mut dice, tag)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// One read, or several sent ahead. False when the session is over.
    fn one_read(&self, wire: &mut Wire, dice: &mut Dice, tag: u64) -> Result<bool> {
        let id = 1 + dice.below(ROWS);
        let (times, rounds) = match dice.below(400) {
            0 => (200_000, 0),
            1 => (1, LONG),
            _ => (1, 0),
        };
        let text = read(tag, id, times, rounds);
        wire.send(code::QUERY, text.as_bytes())?;
        match dice.below(200) {
            // It goes and does not look at the answer, at once or in the middle of it.
            0 => return Ok(false),
            1 if times > 1 => {
                wire.frame()?;
                return Ok(false);
            }
            // It takes its time.
            2 => thread::sleep(Duration::from_millis(30)),
            _ => {}
        }
        let bytes = match wire.reply_bytes(crate::wire::Shape::Results) {
            Ok(bytes) => bytes,
            // Its server connection was killed in the middle of a long row.
            Err(_) if times > 1 => return Ok(false),
            Err(error) => return Err(error),
        };
        let outcome = wire.outcomes(&bytes)?.pop().context("no result")?;
        match outcome.error() {
            // Its server connection was killed in the middle of the answer, or twice.
            Some(error) if error.code == 2013 => Ok(true),
            Some(error) => bail!("an error that nothing explains: {error:?}"),
            None => {
                check(&outcome, tag, id, times)?;
                self.answers.fetch_add(1, Ordering::Relaxed);
                Ok(true)
            }
        }
    }

    /// Kills a server connection now and then.
    fn kill(&self, server: &Server, until: Instant) -> Result<u64> {
        let mut killed = 0;
        let mut root = server.root()?;
        while Instant::now() < until {
            thread::sleep(Duration::from_millis(150));
            let rows = root.sql("SHOW PROCESSLIST")?;
            let ours =
                rows.iter().find(|row| row.get(1).is_some_and(|u| u.as_deref() == Some(USER)));
            if let Some(Some(id)) = ours.and_then(|row| row.first()) {
                // It may have gone by itself meanwhile.
                killed += u64::from(root.sql(&format!("KILL {id}")).is_ok());
            }
        }
        Ok(killed)
    }
}

fn metric(proxy: &Trunkline, name: &str) -> Result<u64> {
    Ok(proxy.metric(name, "")?.with_context(|| format!("no {name}"))? as u64)
}

/// Everybody's answers are their own while clients vanish, read slowly, and ask for what takes
/// long, and while their server connections are killed.
fn answers_stay_with_their_clients(
    flavour: Flavour,
    compression: Capabilities,
    server_keys: &str,
) -> Result<()> {
    if !is_available(flavour, "answers_stay_with_their_clients") {
        return Ok(());
    }
    let server = start(flavour, trunkline_testkit::Options::default())?;
    let schema = table(&server)?;
    // One of the two by each of the ways to receive.
    let io = match flavour {
        Flavour::MariaDb => "epoll",
        Flavour::MySql => "io_uring",
    };
    let config = format!("io = \"{io}\"\n{}", config(&server, 12, 16));
    let proxy = Trunkline::start(&config.replace("[[user]]", &format!("{server_keys}[[user]]")))?;
    let scene = Scene {
        compression,
        proxy: &proxy,
        schema: &schema,
        stop: AtomicBool::new(false),
        answers: AtomicU64::new(0),
    };
    let until = Instant::now()
        + Duration::from_secs(if std::env::var_os("TRUNKLINE_LONG").is_some() { 30 } else { 6 });
    let killed = thread::scope(|scope| {
        let scene = &scene;
        let clients: Vec<_> = (0..48).map(|n| scope.spawn(move || scene.live(n))).collect();
        let killed = scene.kill(&server, until);
        scene.stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        killed
    })?;
    let answers = scene.answers.load(Ordering::Relaxed);
    let pipelined = metric(&proxy, "trunkline_statement_pipelined_total")?;
    let overtaken = metric(&proxy, "trunkline_statement_resends_total")?;
    println!(
        "{flavour:?}: {answers} answers, {pipelined} pipelined, {overtaken} sent again, {killed} kills"
    );
    ensure!(answers > 1_000, "only {answers} answers");
    // How many do is a matter of how busy the machine is.
    ensure!(pipelined > 100, "{pipelined} of {answers} shared a connection");
    ensure!(overtaken > 0, "nobody overtook a slow one");
    ensure!(killed > 3, "{killed} kills");
    // One more asks the server's dictionary; it is none of the pool's.
    ensure!(connections_on(&server)? <= 13);
    Ok(())
}

#[test]
fn answers_stay_with_their_clients_on_mariadb() -> Result<()> {
    answers_stay_with_their_clients(Flavour::MariaDb, PLAIN, "")
}

#[test]
fn answers_stay_with_their_clients_on_mysql() -> Result<()> {
    answers_stay_with_their_clients(Flavour::MySql, PLAIN, "")
}

#[test]
fn answers_stay_with_their_clients_compressed_on_mariadb() -> Result<()> {
    answers_stay_with_their_clients(Flavour::MariaDb, Capabilities::COMPRESS, "compression = 1\n")
}

#[test]
fn answers_stay_with_their_clients_compressed_on_mysql() -> Result<()> {
    let zstd = Capabilities::ZSTD_COMPRESSION_ALGORITHM;
    answers_stay_with_their_clients(Flavour::MySql, zstd, "compression = 'zstd'\n")
}

/// One server connection, many readers: they share it, and a transaction gets it for itself.
#[test]
fn a_transaction_is_alone_on_a_connection_that_reads_share() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_transaction_is_alone_on_a_connection_that_reads_share") {
            continue;
        }
        let server = shared_server(flavour)?;
        let schema = table(server)?;
        let proxy = Trunkline::start(&config(server, 1, 64))?;
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let readers: Vec<_> = (0..8)
                .map(|number| {
                    let (stop, proxy, schema) = (&stop, &proxy, &schema);
                    scope.spawn(move || -> Result<()> {
                        let mut wire = Wire::login(proxy, USER, PASSWORD, schema)?;
                        let mut tag = number * 1_000_000;
                        while !stop.load(Ordering::Relaxed) {
                            tag += 1;
                            let outcome = wire.one(&read(tag, 1 + tag % ROWS, 1, 0))?;
                            check(&outcome, tag, 1 + tag % ROWS, 1)?;
                        }
                        Ok(())
                    })
                })
                .collect();
            let mut writer = Wire::login(&proxy, USER, PASSWORD, &schema)?;
            let worked = (1..=20).try_for_each(|round: u64| {
                writer.one("BEGIN")?;
                writer.one(&format!("UPDATE t SET c = 'changed {round}' WHERE id = {ROWS}"))?;
                let own = writer.value(&format!("SELECT c FROM t WHERE id = {ROWS}"))?;
                ensure!(own == Some(format!("changed {round}")), "{own:?}");
                writer.one("ROLLBACK")?;
                Ok(())
            });
            stop.store(true, Ordering::Relaxed);
            for reader in readers {
                reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            worked
        })?;
        ensure!(metric(&proxy, "trunkline_statement_pipelined_total")? > 0, "nothing was shared");
        ensure!(connections_on(server)? >= 1);
    }
    Ok(())
}

/// What takes long holds nobody up who came later.
#[test]
fn a_slow_statement_holds_nobody_up_for_long() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_slow_statement_holds_nobody_up_for_long") {
            continue;
        }
        let server = shared_server(flavour)?;
        let schema = table(server)?;
        let proxy = Trunkline::start(&config(server, 4, 64))?;
        let mut slow = Wire::login(&proxy, USER, PASSWORD, &schema)?;
        let mut quick: Vec<Wire> =
            (0..6).map(|_| Wire::login(&proxy, USER, PASSWORD, &schema)).collect::<Result<_>>()?;
        for tag in 0..20 {
            check(&slow.one(&read(tag, 1, 1, 0))?, tag, 1, 1)?;
        }
        // Usually fast, slow this once: nobody could know. It runs until it is killed.
        slow.send(code::QUERY, read(77, 7, 1, 2_000_000_000).as_bytes())?;
        for (tag, wire) in quick.iter_mut().enumerate() {
            wire.set_read_timeout(SOON)?;
            wire.send(code::QUERY, read(100 + tag as u64, 9, 1, 0).as_bytes())?;
        }
        for (tag, wire) in quick.iter_mut().enumerate() {
            let bytes = wire.reply_bytes(crate::wire::Shape::Results)?;
            let outcome = wire.outcomes(&bytes)?.pop().context("no result")?;
            check(&outcome, 100 + tag as u64, 9, 1)?;
        }
        slow.shut_write()?;
        let kill = "SELECT id FROM information_schema.processlist WHERE info LIKE '%2000000000%' \
                    AND info LIKE 'SELECT 77%'";
        for row in server.sql(kill)? {
            if let Some(Some(id)) = row.first() {
                server.sql(&format!("KILL {id}"))?;
            }
        }
    }
    Ok(())
}

/// A read that waited behind a slow one was answered elsewhere. Its first copy is run when the slow
/// one is over; what it names is the same until then.
#[test]
fn no_definition_makes_something_else_of_a_read_that_was_sent_elsewhere_too() -> Result<()> {
    if !is_available(MariaDb, "no_definition_makes_something_else") {
        return Ok(());
    }
    const HITS: &str = "CREATE TABLE hits (a INT); CREATE TABLE slow (a INT); \
                        CREATE TABLE t (a INT); INSERT INTO t VALUES (1)";
    const WRITES: &str = "CREATE FUNCTION f() RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN \
                          INSERT INTO hits VALUES (1); RETURN 2; END";
    let server = shared_server(MariaDb)?;
    let schema = new_schema(server, HITS)?;
    let mut root = server.root()?;
    for sql in [&*format!("USE {schema}"), WRITES, "CREATE VIEW v AS SELECT f() AS a"] {
        root.sql(sql)?;
    }
    let shares = "[[hostgroup]]\nhostgroup_id = 0\npipeline = 4\n";
    let proxy = Trunkline::start(&format!("{}{shares}", one_server(server, 1, 2)))?;
    let enter = || Wire::login(&proxy, USER, PASSWORD, &schema);
    let (mut slow, mut fast, mut definer) = (enter()?, enter()?, enter()?);
    // One of the two connections is not to be had for a while; until the tables are known, and the
    // other one is in the sessions' state, nobody shares that.
    definer.one("BEGIN")?;
    definer.one("SELECT a FROM t")?;
    for _ in 0..30 {
        for wire in [&mut slow, &mut fast] {
            wire.one("SELECT a FROM slow")?;
            wire.one("SELECT a FROM t")?;
        }
    }
    root.sql("LOCK TABLES slow WRITE")?;
    slow.send(code::QUERY, b"SELECT a FROM slow")?;
    wait_until("the read waits", SOON, || {
        let sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%slow' \
                   AND state LIKE 'Waiting%'";
        Ok((server.value(sql)?.as_deref() == Some("1")).then_some(()))
    })?;
    fast.send(code::QUERY, b"SELECT a FROM t")?;
    wait_until("it is sent elsewhere", SOON, || {
        Ok((metric(&proxy, "trunkline_statement_resends_total")? == 1).then_some(()))
    })?;
    definer.one("COMMIT")?;
    let bytes = fast.reply_bytes(Shape::Results)?;
    ensure!(fast.outcomes(&bytes)?[0].text_rows().len() == 1);
    definer.send(code::QUERY, b"RENAME TABLE t TO gone, v TO t")?;
    wait_until("the definition is held back", SOON, || {
        Ok((metric(&proxy, "trunkline_definition_delays_total")? == 1).then_some(()))
    })?;
    root.sql("UNLOCK TABLES")?;
    let bytes = slow.reply_bytes(Shape::Results)?;
    ensure!(slow.outcomes(&bytes)?[0].error().is_none());
    let bytes = definer.reply_bytes(Shape::Results)?;
    ensure!(definer.outcomes(&bytes)?[0].is_ok());
    ensure!(server.value(&format!("SELECT COUNT(*) FROM {schema}.hits"))?.as_deref() == Some("0"));
    // From now on it is the view, once.
    ensure!(fast.one("SELECT a FROM t")?.error().is_none());
    ensure!(server.value(&format!("SELECT COUNT(*) FROM {schema}.hits"))?.as_deref() == Some("1"));
    Ok(())
}
