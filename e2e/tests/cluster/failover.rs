//! `failover = "auto"` on real servers: the writer is killed while clients write.

use std::time::{Duration, Instant};

use super::{
    switchover::{SWITCHER, administrator, grants, make_table, refusal},
    *,
};
use crate::outcomes::{Told, told};

/// Clients that write; each second one in transactions.
const CLIENTS: u32 = 8;
/// How long a failover may take here, with everything else that runs on the machine.
const FAILOVER_TIME_MAX: Duration = Duration::from_secs(9);

/// A proxy that fails over, with more settings and more of the cluster.
pub(super) fn start_auto(
    settings: &str,
    of_cluster: &str,
    servers: &[Arc<Server>],
) -> Result<Trunkline> {
    let seeds: Vec<_> = servers.iter().map(|it| format!("\"{}\"", it.address())).collect();
    Trunkline::start_database(&format!(
        "workers = 2\ncatalog_wait_ms = 10000\nmonitor_read_only_interval = 200\n\
         monitor_read_only_timeout = 300\nmonitor_account = \"{USER}\"\n\
         switchover_account = \"{SWITCHER}\"\nreplication_account = \"replica\"\n{settings}\
         [[cluster]]\nname = \"shop\"\nkind = \"replication\"\nwriter_hostgroup = 10\n\
         reader_hostgroup = 20\nseeds = [{}]\n{of_cluster}\
         [[user]]\nname = \"{SWITCHER}\"\npassword = \"{SWITCHER}\"\nactive = false\n\
         default_hostgroup = 10\n\
         [[user]]\nname = \"replica\"\npassword = \"replica\"\nactive = false\n\
         default_hostgroup = 10\n{}",
        seeds.join(", "),
        user(10)
    ))
}

/// A primary and its replicas, with the accounts and the table.
pub(super) fn stand(flavour: Flavour, replicas: u32) -> Result<(Replication, Vec<Arc<Server>>)> {
    let replication = replication(flavour, replicas)?;
    let mut servers = vec![Arc::clone(replication.primary())];
    servers.extend(replication.replicas().iter().cloned());
    servers[0].sql(&grants(flavour))?;
    make_table(&servers[0])?;
    replication.wait_caught_up(SOON)?;
    Ok((replication, servers))
}

pub(super) fn roles_known(proxy: &Trunkline, servers: &[Arc<Server>]) -> Result<()> {
    wait_role(proxy, &servers[0], "writer")?;
    servers[1..].iter().try_for_each(|replica| wait_role(proxy, replica, "reader"))
}

/// Nothing is acknowledged that no replica has.
fn wait_for_replicas(flavour: Flavour, servers: &[Arc<Server>]) -> Result<()> {
    let (primary, replicas) = servers.split_first().context("a primary")?;
    match flavour {
        Flavour::MariaDb => {
            for replica in replicas {
                replica.sql(
                    "SET GLOBAL rpl_semi_sync_slave_enabled = 1; STOP SLAVE IO_THREAD; \
                     START SLAVE IO_THREAD",
                )?;
            }
            primary.sql(
                "SET GLOBAL rpl_semi_sync_master_timeout = 20000, \
                 rpl_semi_sync_master_wait_point = AFTER_SYNC, rpl_semi_sync_master_enabled = 1",
            )?;
        }
        Flavour::MySql => {
            // A replica asks for it when it connects.
            primary.sql(
                "SET sql_log_bin = 0; \
                 INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'; \
                 SET GLOBAL rpl_semi_sync_source_timeout = 20000, \
                 rpl_semi_sync_source_enabled = 1",
            )?;
            for replica in replicas {
                replica.sql(
                    "SET GLOBAL super_read_only = 0; SET sql_log_bin = 0; \
                     INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'; \
                     SET GLOBAL super_read_only = 1; \
                     SET GLOBAL rpl_semi_sync_replica_enabled = 1; STOP REPLICA IO_THREAD; \
                     START REPLICA IO_THREAD",
                )?;
            }
        }
    }
    let status = match flavour {
        Flavour::MariaDb => "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'",
        Flavour::MySql => "SHOW STATUS LIKE 'Rpl_semi_sync_source_clients'",
    };
    let wanted = Some(replicas.len().to_string());
    wait_until("replicas acknowledge", SOON, || {
        let rows = primary.root()?.sql(status)?;
        let count = rows.first().and_then(|row| row.get(1).cloned().flatten());
        Ok((count == wanted).then_some(()))
    })
}

/// What one client did.
#[derive(Default)]
struct Written {
    acknowledged: Vec<u32>,
    errors: Vec<String>,
    longest: Duration,
}

/// Writes numbers until it is over, one by one or in transactions of two; each number once.
fn write(proxy: &Trunkline, number: u32, is_over: &AtomicBool) -> Result<Written> {
    let mut written = Written::default();
    let mut client = client(proxy, "")?;
    let (mut next, mut last) = (0, Instant::now());
    while !is_over.load(Ordering::Relaxed) {
        let (count, done) = write_next(&mut client, number, next);
        match done {
            Ok(()) => {
                written.acknowledged.extend(next..next + count);
                written.longest = written.longest.max(last.elapsed());
                last = Instant::now();
            }
            Err(error) => {
                written.errors.push(format!("client {number}: {error:#}"));
                client = super::client(proxy, "")?;
            }
        }
        next += count;
    }
    Ok(written)
}

/// The numbers that a server has, of all clients.
pub(super) fn numbers(server: &Server) -> Result<Vec<(u32, u32)>> {
    let rows = server.root()?.sql("SELECT client, n FROM mark.number ORDER BY client, n")?;
    let number = |cell: &Option<String>| cell.as_ref().and_then(|text| text.parse().ok());
    let pair = |row: &trunkline_testkit::Row| Some((number(&row[0])?, number(&row[1])?));
    Ok(rows.iter().filter_map(pair).collect())
}

/// A session of an administrator may be ended while its server becomes read-only.
fn has_number(server: &Server, number: (u32, u32)) -> bool {
    numbers(server).is_ok_and(|found| found.contains(&number))
}

/// What clients saw while something was done to the servers.
struct Seen {
    acknowledged: Vec<(u32, u32)>,
    errors: Vec<String>,
    longest: Duration,
}

fn write_while(proxy: &Trunkline, work: impl FnOnce() -> Result<()>) -> Result<Seen> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let is_over = &is_over;
                scope.spawn(move || write(proxy, number, is_over))
            })
            .collect();
        thread::sleep(Duration::from_millis(300));
        let worked = work();
        thread::sleep(Duration::from_millis(300));
        is_over.store(true, Ordering::Relaxed);
        let mut seen =
            Seen { acknowledged: Vec::new(), errors: Vec::new(), longest: Duration::ZERO };
        for (number, writer) in (0..).zip(writers) {
            let written = writer.join().expect("no panic")?;
            seen.acknowledged.extend(written.acknowledged.iter().map(|n| (number, *n)));
            seen.errors.extend(written.errors);
            seen.longest = seen.longest.max(written.longest);
        }
        worked.map(|()| seen)
    })
}

fn is_writer(proxy: &Trunkline, servers: &[Arc<Server>]) -> Result<usize> {
    let mut found = None;
    wait_until("a new writer", FAILOVER_TIME_MAX, || {
        for (at, server) in servers.iter().enumerate() {
            if role(proxy, server)? == "writer" {
                found = Some(at);
            }
        }
        Ok(found.map(|_| ()))
    })?;
    found.context("a writer")
}

#[test]
fn a_killed_writer_is_replaced_and_nothing_acknowledged_is_lost_or_done_twice() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_killed_writer_is_replaced") {
            continue;
        }
        let (_replication, servers) = stand(flavour, 2)?;
        wait_for_replicas(flavour, &servers)?;
        let proxy = start_auto("", "failover = \"auto\"\n", &servers)?;
        roles_known(&proxy, &servers)?;
        let seen = write_while(&proxy, || {
            servers[0].kill_hard()?;
            is_writer(&proxy, &servers[1..]).map(drop)
        })
        .with_context(|| proxy.log())?;
        let new = 1 + is_writer(&proxy, &servers[1..])?;
        let kept = numbers(&servers[new])?;
        let lost: Vec<_> =
            seen.acknowledged.iter().filter(|it| kept.binary_search(it).is_err()).collect();
        let twice = kept.windows(2).filter(|pair| pair[0] == pair[1]).count();
        println!(
            "{}: longest pause {} ms, {} acknowledged, {} errors {:?}, {} lost, {twice} twice",
            flavour.name(),
            seen.longest.as_millis(),
            seen.acknowledged.len(),
            seen.errors.len(),
            seen.errors.first(),
            lost.len()
        );
        ensure!(lost.is_empty() && twice == 0, "lost {lost:?}, {twice} twice");
        ensure!(seen.longest < FAILOVER_TIME_MAX, "{:?}", seen.longest);
        // What was open on the killed one is lost once for each client, and nothing else.
        ensure!(seen.errors.len() <= CLIENTS as usize, "{:?}\n{}", seen.errors, proxy.log());
        let other = &servers[3 - new];
        wait_role(&proxy, other, "reader")?;
        client(&proxy, "")?.sql("INSERT INTO mark.number (client, n) VALUES (100, 1)")?;
        wait_until("the other replica follows", SOON, || {
            Ok(numbers(other)?.contains(&(100, 1)).then_some(()))
        })?;
    }
    Ok(())
}

/// Writes numbers until it is over; what was told of each.
fn write_and_note(
    proxy: &Trunkline,
    number: u32,
    is_over: &AtomicBool,
) -> Result<Vec<(u32, Told)>> {
    let mut noted = Vec::new();
    let mut one = client(proxy, "")?;
    let mut n = 0;
    while !is_over.load(Ordering::Relaxed) {
        n += 1;
        let insert = format!("INSERT INTO mark.number (client, n) VALUES ({number}, {n})");
        let is_open = number.is_multiple_of(2);
        let begun = match is_open {
            true => one.sql("BEGIN").and_then(|_| one.sql(&insert)),
            false => Ok(Vec::new()),
        };
        let said = match begun {
            // It is not open any more.
            Err(error) => told(Err(error)),
            Ok(_) => told(one.sql(if is_open { "COMMIT" } else { &insert })),
        };
        noted.push((n, said));
        if one.sql("DO 1").is_err() {
            one = client(proxy, "")?;
        }
    }
    Ok(noted)
}

#[test]
fn issue_20_what_a_killed_writer_had_under_way_is_told_truly() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "issue_20_what_a_killed_writer_had_under_way") {
            continue;
        }
        let (_replication, servers) = stand(flavour, 1)?;
        wait_for_replicas(flavour, &servers)?;
        let settings = "commit_outcome = \"auto\"\n";
        let proxy = start_auto(settings, "failover = \"auto\"\n", &servers)?;
        roles_known(&proxy, &servers)?;
        let is_over = AtomicBool::new(false);
        let noted = thread::scope(|scope| {
            let writers: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let (proxy, is_over) = (&proxy, &is_over);
                    scope.spawn(move || write_and_note(proxy, number, is_over))
                })
                .collect();
            let worked = wait_until("there is something to lose", SOON, || {
                Ok((numbers(&servers[0])?.len() > 50).then_some(()))
            })
            .and_then(|()| servers[0].kill_hard())
            .and_then(|()| is_writer(&proxy, &servers[1..]).map(drop))
            .and_then(|()| {
                let before = numbers(&servers[1])?.len();
                wait_until("they go on", SOON, || {
                    Ok((numbers(&servers[1])?.len() > before + 20).then_some(()))
                })
            });
            is_over.store(true, Ordering::Relaxed);
            let noted: Result<Vec<_>> =
                writers.into_iter().map(|it| it.join().expect("no panic")).collect();
            worked.and(noted)
        })
        .with_context(|| proxy.log())?;
        let kept = numbers(&servers[1])?;
        let (mut untrue, mut sums) = (Vec::new(), [0; 3]);
        for (number, noted) in (0..).zip(noted) {
            for (n, said) in noted {
                let is_there = kept.binary_search(&(number, n)).is_ok();
                sums[said as usize] += 1;
                if said == Told::Done && !is_there || said == Told::NotDone && is_there {
                    untrue.push((number, n, said));
                }
            }
        }
        let unknown = proxy
            .metrics()?
            .lines()
            .filter(|line| line.starts_with("trunkline_commit_outcomes"))
            .collect::<Vec<_>>()
            .join("\n");
        println!("{}: {sums:?} done, not done, nothing\n{unknown}", flavour.name());
        ensure!(untrue.is_empty(), "{untrue:?}\n{}", proxy.log());
        ensure!(sums[1] + sums[2] <= 2 * CLIENTS, "{sums:?}\n{unknown}\n{}", proxy.log());
    }
    Ok(())
}

#[test]
fn a_lost_writer_rejoins_and_one_that_has_more_is_told_of() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_lost_writer_rejoins") {
            continue;
        }
        let (_replication, servers) = stand(flavour, 1)?;
        let [old, new] = &servers[..] else { anyhow::bail!("not two servers") };
        // What is committed under marks belongs to no server's own id on MariaDB.
        let settings = "commit_outcome = \"auto\"\n";
        let proxy = start_auto(settings, "failover = \"auto\"\n", &servers)?;
        roles_known(&proxy, &servers)?;
        let mut admin = administrator(&proxy)?;
        let maintenance =
            |server: &Server, word| format!("MAINTENANCE '{}' {word}", server.address());
        refusal(&mut admin, &maintenance(old, "ON"), "is the writer")?;
        admin.sql(&maintenance(new, "ON"))?;
        wait_role(&proxy, new, "standby")?;
        admin.sql(&maintenance(new, "OFF"))?;
        wait_role(&proxy, new, "reader")?;

        let write_and_wait = |n: u32, replica: &Server| {
            let insert = format!("INSERT INTO mark.number (client, n) VALUES (1, {n})");
            client(&proxy, "")?.sql(&insert)?;
            wait_until("the replica has it", SOON, || Ok(has_number(replica, (1, n)).then_some(())))
        };
        write_and_wait(10, new)?;
        for (n, to, from) in [(11, new, old), (12, old, new)] {
            admin.sql(&format!("SWITCHOVER shop TO '{}'", to.address()))?;
            write_and_wait(n, from).with_context(|| proxy.log())?;
        }
        write_and_wait(1, new)?;
        old.kill_hard()?;
        wait_role(&proxy, new, "writer").with_context(|| proxy.log())?;
        client(&proxy, "")?.sql("INSERT INTO mark.number (client, n) VALUES (1, 2)")?;
        old.restart()?;
        wait_role(&proxy, old, "reader").with_context(|| proxy.log())?;
        wait_until("the old one follows", SOON, || Ok(has_number(old, (1, 2)).then_some(())))?;

        // Somebody promotes it, writes, and notices.
        old.sql(Words::of(flavour).promote)?;
        old.sql("INSERT INTO mark.number (client, n) VALUES (2, 1)")?;
        wait_role(&proxy, old, "fenced")?;
        let rejoin = format!("REJOIN '{}'", old.address());
        refusal(&mut admin, &rejoin, "it has transactions that the writer has not: ")?;
        ensure!(old.value("SELECT @@global.read_only")? == Some("1".to_owned()));
        refusal(&mut admin, &format!("REJOIN '{}'", new.address()), "is the writer")?;
        refusal(&mut admin, "REJOIN '10.0.0.1:1'", "no server of any cluster")?;

        // The block holds until somebody ends it; without a replica, nobody could be promoted.
        refusal(&mut admin, "CLEAR FAILOVER mall", "there is no cluster `mall`")?;
        admin.sql("CLEAR FAILOVER shop")?;
    }
    Ok(())
}

#[test]
fn a_silent_writer_is_replaced_only_if_that_was_allowed() -> Result<()> {
    if !is_available(Flavour::MariaDb, "a_silent_writer_is_replaced") {
        return Ok(());
    }
    let (_replication, servers) = stand(Flavour::MariaDb, 2)?;
    let [old, new, other] = &servers[..] else { anyhow::bail!("not three servers") };
    for replica in [new, other] {
        replica.sql(
            "STOP SLAVE; SET GLOBAL slave_net_timeout = 2; \
             CHANGE MASTER TO MASTER_HEARTBEAT_PERIOD = 0.5; START SLAVE",
        )?;
    }
    let of_cluster = format!("failover = \"auto\"\ncandidates = [\"{}\"]\n", other.address());
    let proxy = start_auto("", &of_cluster, &servers)?;
    roles_known(&proxy, &servers)?;
    let mut admin = administrator(&proxy)?;
    let mark = proxy.log_mark();
    old.pause()?;
    let result = (|| {
        proxy.wait_log(mark, "stuck: the old writer can't be fenced", SOON)?;
        for replica in [new, other] {
            ensure!(replica.value("SELECT @@global.read_only")? == Some("1".to_owned()));
            wait_role(&proxy, replica, "reader")?;
        }
        for statement in [
            "SET trunkline-promote_unreachable = 'true'",
            "LOAD TRUNKLINE VARIABLES TO RUNTIME",
            "CLEAR FAILOVER shop",
        ] {
            admin.sql(statement)?;
        }
        wait_role(&proxy, other, "writer")?;
        client(&proxy, "")?.sql("INSERT INTO mark.number (client, n) VALUES (1, 1)")?;
        Ok(())
    })();
    old.resume()?;
    result.with_context(|| proxy.log())?;
    wait_role(&proxy, old, "reader").with_context(|| proxy.log())?;
    wait_role(&proxy, new, "reader")
}

#[test]
fn a_failover_that_is_cut_short_is_undone_by_the_next_process_and_begins_anew() -> Result<()> {
    if !is_available(Flavour::MariaDb, "a_failover_that_is_cut_short") {
        return Ok(());
    }
    let (_replication, servers) = stand(Flavour::MariaDb, 1)?;
    let [old, new] = &servers[..] else { anyhow::bail!("not two servers") };
    new.sql(
        "STOP SLAVE; SET GLOBAL slave_net_timeout = 2; \
         CHANGE MASTER TO MASTER_HEARTBEAT_PERIOD = 0.5; START SLAVE",
    )?;
    // Fencing takes its time, in which the proxy ends.
    let settings = "script_user = \"nobody\"\nfence_script = \"/bin/sleep 3\"\n\
                    script_time_max = 10000\n";
    let proxy = start_auto(settings, "failover = \"auto\"\n", &servers)?;
    roles_known(&proxy, &servers)?;
    let mark = proxy.log_mark();
    old.pause()?;
    let result = (|| {
        proxy.wait_log(mark, ": catch up, ", SOON)?;
        proxy.kill_and_restart(&[])?;
        wait_until("what was cut short is undone", SOON, || {
            let is_undone = proxy.log().contains("a failover was cut short: it was not promoted");
            Ok(is_undone.then_some(()))
        })?;
        wait_role(&proxy, new, "writer")?;
        client(&proxy, "")?.sql("INSERT INTO mark.number (client, n) VALUES (1, 1)").map(drop)
    })();
    old.resume()?;
    result.with_context(|| proxy.log())?;
    wait_role(&proxy, old, "reader").with_context(|| proxy.log())
}

#[test]
fn nobody_is_promoted_for_a_writer_whose_successor_another_one_made_and_is_lost_too() -> Result<()>
{
    let flavour = Flavour::MariaDb;
    if !is_available(flavour, "nobody_is_promoted_for_a_writer_whose_successor") {
        return Ok(());
    }
    let (_replication, servers) = stand(flavour, 2)?;
    let [old, new, other] = &servers[..] else { anyhow::bail!("not three servers") };
    let settings = "state_file = \"{folder}/state\"\n";
    let proxy = start_auto(settings, "failover = \"auto\"\n", &servers)?;
    roles_known(&proxy, &servers)?;
    // Another proxy, or a person, gets as far as the promotion, and clients write there.
    old.sql("SET GLOBAL read_only = 1")?;
    new.sql(Words::of(flavour).promote)?;
    wait_role(&proxy, new, "writer")?;
    client(&proxy, "")?.sql("INSERT INTO mark.number (client, n) VALUES (1, 1)")?;
    for server in [old, new] {
        server.kill_hard()?;
    }
    proxy.kill_and_restart(&[])?;
    let stuck = format!("stuck: {} wrote last, and the replicas have not followed", new.address());
    wait_until("it is told", SOON, || Ok(proxy.log().contains(&stuck).then_some(())))
        .with_context(|| proxy.log())?;
    ensure!(other.value("SELECT @@global.read_only")? == Some("1".to_owned()));
    // Its successor is back: nothing was lost.
    new.restart()?;
    new.sql("SET GLOBAL read_only = 0")?;
    wait_role(&proxy, new, "writer").with_context(|| proxy.log())?;
    ensure!(numbers(new)?.contains(&(1, 1)));
    Ok(())
}
