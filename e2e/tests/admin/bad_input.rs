//! What administrators should not send is answered, or ends their connection, and nothing else.

use anyhow::{Result, ensure};
use trunkline_protocol::codec::frame::put_payload;

use super::{administrator, begin};
use crate::backends;
use crate::wire::{Endpoint, Outcome, Wire};

fn admin_wire(proxy: &trunkline_testkit::Trunkline) -> Result<Wire> {
    Wire::login(Endpoint::Tcp(proxy.admin_port()), "admin", "admin", "")
}

#[test]
fn every_command_is_answered() -> Result<()> {
    let Some(server) = backends::mariadb("every_command_is_answered")? else { return Ok(()) };
    let (proxy, _admin) = begin(server, "adm_commands")?;
    let mut wire = admin_wire(&proxy)?;
    for text in ["", ";", " ; ;", "-- nothing", "/* nothing */", "#"] {
        ensure!(wire.one(text)?.is_ok(), "{text:?}");
    }
    // COM_PING, COM_RESET_CONNECTION, COM_INIT_DB.
    for (code, body) in [(0x0E, &b""[..]), (0x1F, b""), (0x02, b"main")] {
        ensure!(wire.single(code, body)?.is_ok(), "{code:#x}");
    }
    // COM_SHUTDOWN, COM_PROCESS_KILL, COM_BINLOG_DUMP, one that nobody knows.
    for (code, body) in [(0x08, &b""[..]), (0x0C, b"\x01\0\0\0"), (0x12, b"xxxx"), (0xEE, b"")] {
        let Outcome::Error(error) = wire.single(code, body)? else {
            anyhow::bail!("{code:#x} was not refused");
        };
        assert_eq!(error.code, 1047, "{code:#x}");
    }
    // Cut short: COM_PROCESS_KILL without a number, COM_STMT_EXECUTE of nothing.
    for (code, body) in [(0x0C, &b""[..]), (0x17, b"\x09\0\0\0\0\x01\0\0\0")] {
        ensure!(matches!(wire.single(code, body)?, Outcome::Error(_)), "{code:#x}");
    }
    assert_eq!(wire.value("SELECT 1")?.as_deref(), Some("1"), "it goes on");
    Ok(())
}

#[test]
fn noise_ends_its_own_connection_only() -> Result<()> {
    let Some(server) = backends::mariadb("noise_ends_its_own")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_noise")?;
    let mut seed = 42_u64;
    for _ in 0..100 {
        let mut noise = Vec::new();
        for _ in 0..64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            noise.push(seed.to_le_bytes()[6]);
        }
        let mut wire = Wire::open(Endpoint::Tcp(proxy.admin_port()))?;
        wire.read_greeting()?;
        let mut packet = Vec::new();
        put_payload(&mut packet, 1, &noise);
        wire.send_raw(&packet)?;
        wire.shut_write()?;
        drop(wire.drain_to_end());
    }
    assert_eq!(admin.value("SELECT 1")?.as_deref(), Some("1"));
    assert!(administrator(&proxy).is_ok());
    Ok(())
}

#[test]
fn a_long_statement_keeps_nobody_waiting() -> Result<()> {
    let Some(server) = backends::mariadb("a_long_statement")? else { return Ok(()) };
    let (proxy, _admin) = begin(server, "adm_long")?;
    // Clients are served while an administrator's statement runs.
    let mut wire = admin_wire(&proxy)?;
    let long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000) \
                SELECT count(*) FROM n";
    wire.send(0x03, long.as_bytes())?;
    let mut client = proxy.connect("adm_long", backends::PASSWORD, "")?;
    assert_eq!(client.value("SELECT 1")?.as_deref(), Some("1"));
    let (status, _) = proxy.http("/healthz")?;
    assert_eq!(status, 200);
    Ok(())
}

#[test]
fn a_client_that_never_reads_keeps_nobody_waiting() -> Result<()> {
    let Some(server) = backends::mariadb("a_client_that_never_reads")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_deaf")?;
    let mut wire = admin_wire(&proxy)?;
    let mut packets = Vec::new();
    for _ in 0..20 {
        put_payload(&mut packets, 0, b"\x03SELECT hex(zeroblob(10000000))");
    }
    wire.send_raw(&packets)?;
    // Others are answered, and the answers that nobody reads are not heaped up.
    let begun = std::time::Instant::now();
    for _ in 0..20 {
        assert_eq!(admin.value("SELECT 1")?.as_deref(), Some("1"));
    }
    ensure!(begun.elapsed() < std::time::Duration::from_secs(20));
    let rss = proxy.rss_bytes()?;
    ensure!(rss < 500 << 20, "{rss} bytes");
    let mut client = proxy.connect("adm_deaf", crate::backends::PASSWORD, "")?;
    assert_eq!(client.value("SELECT 2")?.as_deref(), Some("2"));
    Ok(())
}

/// A file system of some megabytes, gone when it is dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    /// `None` where nobody may mount one.
    fn mount(at: &std::path::Path, megabytes: u32) -> Option<Self> {
        std::fs::create_dir_all(at).ok()?;
        let size = format!("size={megabytes}m");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(at)
            .output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self(at.to_owned()))
    }

    /// Lets nobody write to it, or somebody again. What has a file open for writing is refused.
    fn remount(&self, option: &str) -> Result<()> {
        let output = std::process::Command::new("mount")
            .args(["-o", &format!("remount,{option}")])
            .arg(&self.0)
            .output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok(())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(std::process::Command::new("umount").arg("-l").arg(&self.0).output());
    }
}

/// Puts the file of the layer DISK into another folder, while the proxy runs.
fn move_database(
    admin: &mut trunkline_testkit::SqlClient,
    data: &std::path::Path,
    to: &std::path::Path,
) -> Result<()> {
    // What is open is let go first: it has a log beside it.
    admin.sql("PROXYSQL FLUSH CONFIGDB")?;
    std::fs::copy(data.join("trunkline.db"), to.join("trunkline.db"))?;
    std::fs::remove_file(data.join("trunkline.db"))?;
    for suffix in ["-wal", "-shm"] {
        drop(std::fs::remove_file(data.join(format!("trunkline.db{suffix}"))));
    }
    std::os::unix::fs::symlink(to.join("trunkline.db"), data.join("trunkline.db"))?;
    admin.sql("PROXYSQL FLUSH CONFIGDB")?;
    Ok(())
}

#[test]
fn a_disk_that_can_not_be_written_stops_the_start_and_no_traffic() -> Result<()> {
    const TEST: &str = "a_disk_that_can_not_be_written";
    let Some(server) = backends::mariadb(TEST)? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_readonly")?;
    let data = proxy.data_folder();
    let small = data.with_file_name("small");
    let Some(disk) = SmallDisk::mount(&small, 8) else {
        trunkline_testkit::skipped(TEST, "nothing can be mounted here");
        return Ok(());
    };
    admin.sql("INSERT INTO mysql_query_rules (rule_id, active, comment) VALUES (1, 1, 'kept')")?;
    admin.sql("SAVE MYSQL QUERY RULES TO DISK")?;
    // What was saved goes from the log to the file when that is let go.
    admin.sql("PROXYSQL FLUSH CONFIGDB")?;
    std::fs::create_dir(small.join("data"))?;
    std::fs::copy(data.join("trunkline.db"), small.join("data/trunkline.db"))?;
    disk.remount("ro")?;
    let start = std::process::Command::new(trunkline_testkit::trunkline_binary()?)
        .args(["serve", "-D"])
        .arg(small.join("data"))
        .output()?;
    let said = String::from_utf8_lossy(&start.stderr);
    ensure!(!start.status.success(), "it has started");
    ensure!(said.contains("small/data") && said.contains("Read-only file system"), "{said}");

    // A proxy that runs, whose disk is such a one from now on.
    let link = data.join("trunkline.db");
    std::fs::rename(&link, data.join("trunkline.db.was"))?;
    std::os::unix::fs::symlink(small.join("data/trunkline.db"), &link)?;
    let (_, message) = super::refusal(&mut admin, "PROXYSQL FLUSH CONFIGDB")?;
    ensure!(message.contains("trunkline.db") && message.contains("Read-only"), "{message}");
    ensure!(super::refusal(&mut admin, "SAVE MYSQL QUERY RULES TO DISK").is_ok());
    // MEMORY can be edited and loaded; what runs serves.
    admin.sql("INSERT INTO mysql_query_rules (rule_id, active, comment) VALUES (2, 1, 'new')")?;
    admin.sql("LOAD MYSQL QUERY RULES TO RUNTIME")?;
    let running = "SELECT count(*) FROM runtime_mysql_query_rules";
    assert_eq!(admin.value(running)?.as_deref(), Some("2"));
    let mut client = proxy.connect("adm_readonly", backends::PASSWORD, "")?;
    assert_eq!(client.value("SELECT 2")?.as_deref(), Some("2"));
    // It can be written again, and nothing was lost.
    disk.remount("rw")?;
    admin.sql("PROXYSQL FLUSH CONFIGDB")?;
    let kept = "SELECT comment FROM disk.mysql_query_rules";
    assert_eq!(admin.value(kept)?.as_deref(), Some("kept"));
    admin.sql("SAVE MYSQL QUERY RULES TO DISK")?;
    let saved = "SELECT count(*) FROM disk.mysql_query_rules";
    assert_eq!(admin.value(saved)?.as_deref(), Some("2"));
    Ok(())
}

#[test]
fn a_damaged_database_is_refused_while_the_proxy_runs_and_left_alone() -> Result<()> {
    let Some(server) = backends::mariadb("a_damaged_database")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_damaged")?;
    let file = proxy.data_folder().join("trunkline.db");
    let good = file.with_file_name("good");
    std::fs::rename(&file, &good)?;
    for suffix in ["-wal", "-shm"] {
        drop(std::fs::rename(
            proxy.data_folder().join(format!("trunkline.db{suffix}")),
            proxy.data_folder().join(format!("good{suffix}")),
        ));
    }
    let noise = vec![0x5A_u8; 20_000];
    std::fs::write(&file, &noise)?;
    let (_, message) = super::refusal(&mut admin, "PROXYSQL FLUSH CONFIGDB")?;
    ensure!(message.contains("trunkline.db is damaged"), "{message}");
    ensure!(super::refusal(&mut admin, "SAVE MYSQL USERS TO DISK").is_ok());
    assert_eq!(std::fs::read(&file)?, noise, "it was not left as it is");
    admin.sql("LOAD MYSQL USERS TO RUNTIME")?;
    let mut client = proxy.connect("adm_damaged", backends::PASSWORD, "")?;
    assert_eq!(client.value("SELECT 2")?.as_deref(), Some("2"));
    Ok(())
}

#[test]
fn a_full_disk_refuses_what_is_saved_and_nothing_else() -> Result<()> {
    const TEST: &str = "a_full_disk_refuses";
    let Some(server) = backends::mariadb(TEST)? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_full")?;
    // The folder is put on a small disk while nothing has it open.
    let data = proxy.data_folder();
    let small = data.with_file_name("small");
    let Some(_disk) = SmallDisk::mount(&small, 1) else {
        trunkline_testkit::skipped(TEST, "nothing can be mounted here");
        return Ok(());
    };
    move_database(&mut admin, &data, &small)?;
    admin.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) \
         INSERT INTO mysql_query_rules (rule_id, active, match_digest, comment) \
         SELECT i, 1, '^SELECT never' || i, hex(randomblob(300)) FROM n",
    )?;
    let (_, message) = super::refusal(&mut admin, "SAVE MYSQL QUERY RULES TO DISK")?;
    ensure!(message.contains("full"), "{message}");
    // MEMORY and what runs are as they were; there is room again, and it is saved.
    assert_eq!(admin.value("SELECT count(*) FROM mysql_query_rules")?.as_deref(), Some("4000"));
    assert_eq!(admin.value("SELECT count(*) FROM disk.mysql_query_rules")?.as_deref(), Some("0"));
    let mut client = proxy.connect("adm_full", crate::backends::PASSWORD, "")?;
    assert_eq!(client.value("SELECT 2")?.as_deref(), Some("2"));
    admin.sql("DELETE FROM mysql_query_rules WHERE rule_id > 100")?;
    admin.sql("SAVE MYSQL QUERY RULES TO DISK")?;
    assert_eq!(admin.value("SELECT count(*) FROM disk.mysql_query_rules")?.as_deref(), Some("100"));
    Ok(())
}
