//! sysbench through the proxy: from one client to a thousand, without an error.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{
    Flavour, Options, Server, Sysbench, TempFolder, Trunkline, find_program, skipped,
};

use crate::stage::{PASSWORD, USER, is_available, one_server, start, wait_pins};

/// Large enough that sixty-four clients seldom meet on a row.
const TABLE: [&str; 2] = ["--tables=2", "--table-size=20000"];

/// What `--reconnect=10` does in later versions of sysbench than the distribution's.
const RECONNECTING: &str = r#"
require("oltp_common")
function prepare_statements()
   sysbench.opt.point_selects = 1
   prepare_point_selects()
end
local events = 0
function event()
   execute_point_selects()
   events = events + 1
   if events % 10 == 0 then
      close_statements()
      con:disconnect()
      con = drv:connect()
      prepare_statements()
   end
end
"#;

/// One load: script, clients, prepared statements by command or text.
struct Load {
    script: &'static str,
    threads: u32,
    prepares: bool,
}

const fn load(script: &'static str, threads: u32, prepares: bool) -> Load {
    Load { script, threads, prepares }
}

const LOADS: [Load; 13] = [
    load("oltp_read_write", 1, false),
    load("oltp_read_write", 8, true),
    load("oltp_read_write", 64, false),
    load("oltp_read_write", 256, false),
    load("oltp_read_only", 8, true),
    load("oltp_read_only", 64, false),
    load("oltp_read_only", 1_024, false),
    load("oltp_point_select", 1, true),
    load("oltp_point_select", 256, true),
    load("oltp_point_select", 1_024, false),
    load("bulk_insert", 8, false),
    load("reconnecting", 8, false),
    load("reconnecting", 64, true),
];

fn sysbench(script: &str, port: u16) -> Sysbench {
    // bulk_insert makes a table for each thread, of the same names.
    let sysbench = Sysbench::new(script, port, USER, PASSWORD);
    match script {
        "bulk_insert" => sysbench.arg("--mysql-db=bulk").arg("--threads=8"),
        _ => TABLE.into_iter().fold(sysbench, Sysbench::arg),
    }
}

fn run(load: &Load, proxy: &Trunkline) -> Result<()> {
    let mode = if load.prepares { "auto" } else { "disable" };
    let folder = TempFolder::new("lua")?;
    let own = folder.path().join("reconnecting.lua").display().to_string();
    let reconnects = load.script == "reconnecting";
    let script = match reconnects {
        true => own.as_str(),
        false => load.script,
    };
    std::fs::write(&own, RECONNECTING)?;
    let sysbench = sysbench(script, proxy.port()).threads(load.threads).seconds(1);
    // Only a deadlock may be ignored; anything else is fatal.
    let report =
        sysbench.arg(format!("--db-ps-mode={mode}")).arg("--mysql-ignore-errors=1213").run()?;
    ensure!(report.transactions > 0, "nothing was done: {report:?}");
    let deadlocks_max = if load.script == "oltp_read_write" { report.transactions / 10 } else { 0 };
    ensure!(report.errors <= deadlocks_max, "{report:?}");
    Ok(())
}

fn loads(server: &Server) -> Result<()> {
    server.sql("CREATE DATABASE sbtest; CREATE DATABASE bulk")?;
    sysbench("oltp_read_write", server.port()).prepare()?;
    // The proxies before a server, by their workers; prepared statements pin a connection each.
    // Transactions of a thousand clients take turns on 600 connections, on any machine.
    let begin = |workers| {
        let config = one_server(server, workers, 600);
        Trunkline::start(&format!("connect_timeout_server_max = 60000\n{config}"))
    };
    let proxies = [begin(1)?, begin(2)?];
    sysbench("bulk_insert", proxies[0].port()).prepare()?;
    for (number, load) in LOADS.iter().enumerate() {
        let proxy = &proxies[number % 2];
        run(load, proxy).with_context(|| {
            format!("{} with {} clients, {} workers", load.script, load.threads, number % 2 + 1)
        })?;
        wait_pins(proxy, &[])?;
        ensure!(proxy.is_running());
    }
    Ok(())
}

fn can_run(flavour: Flavour, test: &str) -> bool {
    if find_program("sysbench").is_none() {
        skipped(test, "sysbench is not installed (cargo xtask servers installs it)");
        return false;
    }
    is_available(flavour, test)
}

#[test]
fn sysbench_runs_without_errors_on_mariadb() -> Result<()> {
    if !can_run(Flavour::MariaDb, "sysbench_runs_without_errors_on_mariadb") {
        return Ok(());
    }
    loads(&start(Flavour::MariaDb, Options::default())?)
}

#[test]
fn sysbench_runs_without_errors_on_mysql() -> Result<()> {
    if !can_run(Flavour::MySql, "sysbench_runs_without_errors_on_mysql") {
        return Ok(());
    }
    let options = Options::default().arg("--max-prepared-stmt-count=100000");
    loads(&start(Flavour::MySql, options)?)
}

#[test]
fn sysbench_runs_compressed_on_both_sides() -> Result<()> {
    if !can_run(Flavour::MariaDb, "sysbench_runs_compressed_on_both_sides") {
        return Ok(());
    }
    let server = start(Flavour::MariaDb, Options::default())?;
    server.sql("CREATE DATABASE sbtest")?;
    sysbench("oltp_read_write", server.port()).prepare()?;
    let config = one_server(&server, 2, 600);
    let config = config.replace("[[user]]", "compression = 1\n[[user]]");
    let proxy = Trunkline::start(&config)?;
    for (script, threads, mode) in
        [("oltp_read_write", 32, "auto"), ("oltp_read_only", 64, "disable")]
    {
        let sysbench = sysbench(script, proxy.port()).threads(threads).seconds(3);
        let report = sysbench
            .arg("--mysql-compression=on")
            .arg(format!("--db-ps-mode={mode}"))
            .arg("--mysql-ignore-errors=1213")
            .run()
            .with_context(|| format!("{script}:\n{}", proxy.log()))?;
        ensure!(report.transactions > 0, "nothing was done: {report:?}");
        ensure!(report.errors <= report.transactions / 10, "{report:?}");
        wait_pins(&proxy, &[])?;
    }
    Ok(())
}
