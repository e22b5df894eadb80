//! A replica, and programs that read the binary log, through the proxy.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{
    AuthPlugin, Flavour, MySqlTree, Options, Server, Trunkline, find_program, wait_until,
};

use crate::stage::{FLAVOURS, SOON, is_available, server_sum, start};
use crate::wire::{Wire, code};

const REPLICA: &str = "copier";
const PASSWORD: &str = "copier's";

fn primary(flavour: Flavour) -> Result<Server> {
    let server = start(flavour, Options::id(1))?;
    server.create_user(REPLICA, PASSWORD, AuthPlugin::ServerDefault)?;
    Ok(server)
}

fn proxy_before(server: &Server) -> Result<Trunkline> {
    Trunkline::start(&format!(
        "workers = 2\n[[server]]\nhostgroup = 0\naddress = \"{}\"\n\
         [[user]]\nname = \"{REPLICA}\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = 0\n",
        server.address()
    ))
}

fn follow(replica: &Server, port: u16) -> Result<()> {
    let password = PASSWORD.replace('\'', "''");
    replica.sql(&match replica.flavour() {
        Flavour::MariaDb => format!(
            "STOP SLAVE; CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port},
             MASTER_USER='{REPLICA}', MASTER_PASSWORD='{password}', MASTER_CONNECT_RETRY=1,
             MASTER_HEARTBEAT_PERIOD=0.5, MASTER_USE_GTID=slave_pos; START SLAVE"
        ),
        Flavour::MySql => format!(
            "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1',
             SOURCE_PORT={port}, SOURCE_USER='{REPLICA}', SOURCE_PASSWORD='{password}',
             SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=86400, SOURCE_AUTO_POSITION=1,
             SOURCE_HEARTBEAT_PERIOD=0.5, SOURCE_SSL=0, GET_SOURCE_PUBLIC_KEY=1; START REPLICA"
        ),
    })?;
    Ok(())
}

fn wait_rows(replica: &Server, expected: &str) -> Result<()> {
    wait_until("the replica has the rows", SOON, || {
        let rows = replica.value("SELECT COUNT(*) FROM copied.t").unwrap_or_default();
        Ok((rows.as_deref() == Some(expected)).then_some(()))
    })
    .with_context(|| {
        let status = match replica.flavour() {
            Flavour::MariaDb => replica.root().and_then(|mut root| root.named("SHOW SLAVE STATUS")),
            Flavour::MySql => replica.root().and_then(|mut root| root.named("SHOW REPLICA STATUS")),
        };
        let errors = status.map(|rows| {
            let pairs = rows.into_iter().flatten();
            pairs.filter(|(name, _)| name.contains("Error")).collect::<Vec<_>>()
        });
        format!("{errors:?}")
    })
}

#[test]
fn a_replica_follows_through_the_proxy() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_replica_follows_through_the_proxy") {
            continue;
        }
        let primary = primary(flavour)?;
        let proxy = proxy_before(&primary)?;
        let replica = start(flavour, Options::id(2))?;
        // Both have made the account by themselves.
        for server in [&primary, &replica] {
            server.sql(match flavour {
                Flavour::MariaDb => "RESET MASTER",
                Flavour::MySql => "RESET BINARY LOGS AND GTIDS",
            })?;
        }
        primary.sql(
            "CREATE DATABASE copied; CREATE TABLE copied.t (a INT PRIMARY KEY, b LONGTEXT);
             INSERT INTO copied.t VALUES (1, 'one')",
        )?;
        follow(&replica, proxy.port())?;
        wait_rows(&replica, "1").with_context(|| format!("{flavour:?} {}", proxy.log()))?;
        primary.sql("SET GLOBAL max_allowed_packet = 67108864")?;
        primary.sql("INSERT INTO copied.t VALUES (2, REPEAT('x', 3000000)), (3, 'three')")?;
        wait_rows(&replica, "3")?;
        // The stream's connection is nobody else's.
        let pinned = server_sum(&proxy, "leased", |_| true)?;
        ensure!(pinned == 1, "{pinned} connections are leased");
        // A lost connection is made anew by the replica.
        let dump = primary
            .sql("SHOW PROCESSLIST")?
            .into_iter()
            .find(|row| row.iter().flatten().any(|field| field.contains("Binlog Dump")));
        let number = dump.and_then(|row| row.first().cloned().flatten()).context("no dump")?;
        primary.sql(&format!("KILL {number}; INSERT INTO copied.t VALUES (4, 'four')"))?;
        wait_rows(&replica, "4")?;
        replica.sql(match flavour {
            Flavour::MariaDb => "STOP SLAVE",
            Flavour::MySql => "STOP REPLICA",
        })?;
        wait_until("the stream's connection is closed", SOON, || {
            Ok((server_sum(&proxy, "leased", |_| true)? == 0).then_some(()))
        })?;
    }
    Ok(())
}

#[test]
fn the_binary_log_is_read_by_programs_through_the_proxy() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "the_binary_log_is_read_by_programs_through_the_proxy") {
            continue;
        }
        let primary = primary(flavour)?;
        let proxy = proxy_before(&primary)?;
        primary.sql("CREATE DATABASE read_by_programs; CREATE TABLE read_by_programs.t (a INT)")?;
        let file = primary.value("SHOW BINARY LOGS")?.context("no binary log")?;
        let read = |port: u16| -> Result<String> {
            let mut command = match flavour {
                Flavour::MariaDb => {
                    Command::new(find_program("mariadb-binlog").context("no mariadb-binlog")?)
                }
                Flavour::MySql => {
                    let tree = MySqlTree::find().map_err(anyhow::Error::msg)?;
                    let mut command = tree.command("usr/bin/mysqlbinlog");
                    command.arg("--no-defaults").arg("--get-server-public-key");
                    command
                }
            };
            if flavour == Flavour::MariaDb {
                command.args(["--no-defaults", "--skip-ssl"]);
            }
            let output = command
                .args(["--read-from-remote-server", "--host=127.0.0.1", "--to-last-log"])
                .arg(format!("--port={port}"))
                .arg(format!("--user={REPLICA}"))
                .arg(format!("--password={PASSWORD}"))
                .arg(&file)
                .output()?;
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{errors}");
            let text = String::from_utf8_lossy(&output.stdout);
            let is_stable = |line: &&str| !line.starts_with('#') && !line.contains("pseudo_thread");
            Ok(text.lines().filter(is_stable).collect::<Vec<_>>().join("\n"))
        };
        let (direct, proxied) = (read(primary.port())?, read(proxy.port())?);
        ensure!(direct.contains("read_by_programs"), "{direct}");
        ensure!(direct == proxied, "{flavour:?}: {proxied}\n-- directly\n{direct}");
    }
    Ok(())
}

/// A client that may not read the log is told so, and the server's words reach it.
#[test]
fn a_dump_that_is_refused_says_why() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_dump_that_is_refused_says_why") {
            continue;
        }
        let server = crate::stage::shared_server(flavour)?;
        server.create_user("no_copier", PASSWORD, AuthPlugin::ServerDefault)?;
        server.sql("REVOKE ALL PRIVILEGES, GRANT OPTION FROM 'no_copier'@'127.0.0.1'").ok();
        server.sql("REVOKE ALL PRIVILEGES, GRANT OPTION FROM 'no_copier'@'%'").ok();
        let proxy = Trunkline::start(&format!(
            "[[server]]\nhostgroup = 0\naddress = \"{}\"\n[[user]]\nname = \"no_copier\"\n\
             password = \"{PASSWORD}\"\ndefault_hostgroup = 0\n",
            server.address()
        ))?;
        let mut body = vec![4, 0, 0, 0, 0, 0, 9, 0, 0, 0];
        body.extend(b"no-such-log");
        let mut direct = Wire::login(server, "no_copier", PASSWORD, "")?;
        let mut client = Wire::login(&proxy, "no_copier", PASSWORD, "")?;
        let ask = |wire: &mut Wire| -> Result<crate::wire::ErrorPacket> {
            let answer = wire.single(code::BINLOG_DUMP, &body)?;
            Ok(answer.error().context("a dump for anybody")?.clone())
        };
        let (expected, found) = (ask(&mut direct)?, ask(&mut client)?);
        ensure!(expected.code == found.code, "{found:?}, directly {expected:?}");
    }
    Ok(())
}

/// Servers go on with a session whose dump they have refused. A pooled connection does not: what
/// others have left there is none of its business.
#[test]
fn behind_a_refused_dump_there_is_nothing_of_others() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "behind_a_refused_dump_there_is_nothing_of_others") {
            continue;
        }
        let server = primary(flavour)?;
        let table = "CREATE TABLE ids (a INT AUTO_INCREMENT PRIMARY KEY, b INT)";
        let schema = crate::stage::new_schema(&server, table)?;
        server.sql(&format!("REVOKE REPLICATION SLAVE ON *.* FROM {REPLICA}"))?;
        let proxy = Trunkline::start(&format!(
            "workers = 1\n[[server]]\nhostgroup = 0\naddress = \"{}\"\nmax_connections = 1\n\
             [[user]]\nname = \"{REPLICA}\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = 0\n",
            server.address()
        ))?;
        let log_in = |to: &Trunkline| Wire::login(to, REPLICA, PASSWORD, &schema);
        let (mut other, mut tool) = (log_in(&proxy)?, log_in(&proxy)?);
        for _ in 0..3 {
            other.one("INSERT INTO ids (b) VALUES (1)")?;
        }
        let body = [&4_u32.to_le_bytes()[..], &[0, 0], &77_u32.to_le_bytes(), b"none"].concat();
        let refused = tool.single(code::BINLOG_DUMP, &body)?;
        ensure!(refused.error().map(|error| error.code) == Some(1227), "{refused:?}");
        // It has ended, or is a session like others.
        if let Ok(found) = tool.value("SELECT LAST_INSERT_ID()") {
            ensure!(found.as_deref() == Some("0"), "{flavour:?}: {found:?}");
        }
        // So has one that sends on without waiting.
        let mut hasty = log_in(&proxy)?;
        other.one("INSERT INTO ids (b) VALUES (1)")?;
        hasty.send(code::BINLOG_DUMP, &body)?;
        hasty.send(code::QUERY, b"INSERT INTO ids (b) VALUES (LAST_INSERT_ID() + 1000)")?;
        hasty.drain_to_end()?;
        let found = log_in(&proxy)?.value("SELECT MAX(b) FROM ids")?;
        ensure!(found.as_deref() == Some("1"), "{flavour:?}: {found:?}");
        ensure!(other.value("SELECT LAST_INSERT_ID()")?.as_deref() == Some("4"));
    }
    Ok(())
}
