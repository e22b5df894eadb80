//! `cargo xtask demo`: real servers, the proxy before them, and a picture of what goes on.
//!
//! Reading order: [`cluster`] (what is started), [`tour`] (single statements and who answered),
//! [`traffic`] (a small application), [`live`] and [`picture`] (the numbers and how they are
//! shown), [`screen`] (a terminal or a pipe).

mod cluster;
mod live;
mod picture;
mod screen;
mod tour;
mod traffic;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Report, Server, Sysbench};

use crate::interrupt::Interrupt;
use crate::{release, servers};
use cluster::Cluster;
pub use cluster::USER;
use live::{Live, Look};
use picture::{ServerView, View};
use screen::Screen;
pub use tour::SCHEMA;
pub use traffic::Traffic;

/// Between two pictures on a terminal.
const REDRAW_INTERVAL: Duration = Duration::from_millis(500);
/// Between two lines where the picture is not redrawn.
const LINE_INTERVAL: Duration = Duration::from_secs(2);
/// The small application alone, so that the picture is seen before the load begins.
const WARM_UP: Duration = Duration::from_secs(4);
/// Seconds of sysbench.
const LOAD_SECONDS: u32 = 10;
/// Seconds of sysbench's reads outside transactions.
const READ_SECONDS: u32 = 5;
/// Clients of sysbench.
const LOAD_CLIENTS: u32 = 8;

/// What `cargo xtask demo` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// End after the load instead of running on until Ctrl-C
    #[arg(long)]
    once: bool,
}

/// Starts everything, shows it, and stops it again.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    servers::ensure_mariadb()?;
    let binary = release::build(root, "trunkline")?;
    let interrupt = Interrupt::listen()?;
    let mut show = Show {
        cluster: Cluster::start(&binary)?,
        screen: Screen::new(picture::LINES, picture::WIDTH),
        interrupt,
        start: Instant::now(),
    };
    println!("   {}", show.invitation());
    let outcome = show.play(arguments.once);
    show.screen.clear();
    let Show { cluster, interrupt, .. } = show;
    match outcome {
        Err(_) if interrupt.is_asked() => println!("== interrupted"),
        other => other?,
    }
    println!("== stopping the proxy and the servers");
    cluster.stop()?;
    println!("== done; nothing is left running");
    Ok(())
}

/// The running demo.
struct Show {
    cluster: Cluster,
    screen: Screen,
    interrupt: Interrupt,
    start: Instant,
}

impl Show {
    fn play(&mut self, is_once: bool) -> Result<()> {
        tour::run(&self.cluster)?;
        let port = self.cluster.proxy().port();
        let traffic = Traffic::start(port);
        self.screen.say(&format!(
            "== a small application with {} clients begins to order, read and report",
            traffic::CLIENTS
        ));
        self.watch_for("a small application", WARM_UP)?;
        self.load(port)?;
        let (errors, first) = traffic.errors();
        ensure!(
            errors == 0,
            "the small application got {errors} errors, first: {}",
            first.unwrap_or_default()
        );
        self.screen.say("== the small application: no errors");
        self.screen.say(&format!("   {}", self.invitation()));
        if is_once {
            self.final_picture()?;
            return Ok(());
        }
        self.screen.say("   Ctrl-C ends the demo and removes everything");
        while !self.interrupt.is_asked() {
            self.watch_for("a small application; Ctrl-C ends", LINE_INTERVAL)?;
        }
        Ok(())
    }

    /// Ten seconds of reads and writes, then a few of reads outside transactions.
    fn load(&mut self, port: u16) -> Result<()> {
        self.screen.say("== sysbench: preparing four tables through the proxy");
        self.cluster.connect("")?.sql("CREATE DATABASE sbtest")?;
        let sysbench = |script: &str| {
            Sysbench::new(script, port, USER, USER)
                .arg("--tables=4")
                .arg("--table-size=10000")
                .arg("--rand-type=uniform")
                .arg("--db-ps-mode=disable")
                .threads(LOAD_CLIENTS)
        };
        sysbench("oltp_read_write").prepare()?;
        self.interrupt.check()?;
        self.cluster.wait_caught_up()?;

        let title = format!("sysbench oltp_read_write, {LOAD_CLIENTS} clients");
        let load = sysbench("oltp_read_write").seconds(LOAD_SECONDS);
        let report = self.watch_load(&title, &load, LOAD_SECONDS)?;
        let note = "all of it in transactions, so its reads stay with its writes";
        self.say_report(&title, note, &report)?;

        let title = format!("sysbench oltp_read_only, {LOAD_CLIENTS} clients, no transactions");
        let load = sysbench("oltp_read_only").arg("--skip-trx=on").seconds(READ_SECONDS);
        let report = self.watch_load(&title, &load, READ_SECONDS)?;
        self.say_report(&title, "each read on its own, so they go to the replicas", &report)
    }

    fn watch_load(&mut self, title: &str, sysbench: &Sysbench, seconds: u32) -> Result<Report> {
        let mut run = sysbench.start()?;
        let start = Instant::now();
        let mut watch = Watch::begin(self)?;
        watch.wait(self);
        while !run.has_ended()? {
            let passed = start.elapsed().as_secs().min(u64::from(seconds));
            watch.show(self, &format!("{title}, {passed} of {seconds} s"))?;
            self.interrupt.check()?;
            watch.wait(self);
        }
        run.finish()
    }

    fn say_report(&mut self, title: &str, note: &str, report: &Report) -> Result<()> {
        self.screen.say(&format!("== {title}"));
        self.screen.say(&format!(
            "   {:.0} transactions/s, {:.0} statements/s, p95 {:.1} ms a transaction, {} deadlocks",
            report.tps, report.qps, report.p95_ms, report.errors
        ));
        self.screen.say(&format!("   ({note})"));
        ensure!(report.reconnects == 0, "sysbench had to connect anew {} times", report.reconnects);
        Ok(())
    }

    /// Shows the picture for so long, or until Ctrl-C.
    fn watch_for(&mut self, doing: &str, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        let mut watch = Watch::begin(self)?;
        while Instant::now() < end && !self.interrupt.is_asked() {
            watch.wait(self);
            watch.show(self, doing)?;
        }
        Ok(())
    }

    /// A picture that stays.
    fn final_picture(&mut self) -> Result<()> {
        let mut watch = Watch::begin(self)?;
        watch.wait(self);
        let live = watch.advance(self)?;
        let servers = self.server_views();
        let address = self.address();
        let view = self.view("the end", &live, &servers, &address);
        let lines = picture::lines(&view);
        for line in &lines {
            self.screen.say(line);
        }
        Ok(())
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.cluster.proxy().port())
    }

    /// How to join in.
    fn invitation(&self) -> String {
        let proxy = self.cluster.proxy();
        format!(
            "join in:  mariadb -h127.0.0.1 -P{} -u{USER} -p{USER} {}\n   \
             numbers:  curl http://127.0.0.1:{}/metrics",
            proxy.port(),
            tour::SCHEMA,
            proxy.http_port()
        )
    }

    fn server_views(&mut self) -> Vec<ServerView> {
        // A server that is down is shown as such.
        let positions = self.cluster.positions().unwrap_or_default();
        let servers = self.cluster.servers().enumerate();
        let view = |(index, server): (usize, &Arc<Server>)| {
            let address = server.address();
            let (hostgroup, task) =
                if index == 0 { (cluster::WRITER, "writer") } else { (cluster::READER, "reader") };
            ServerView {
                name: self.cluster.name_of(&address),
                hostgroup,
                task,
                address,
                position: positions.get(index).cloned(),
            }
        };
        servers.map(view).collect()
    }

    fn view<'a>(
        &self,
        doing: &'a str,
        live: &'a Live,
        servers: &'a [ServerView],
        address: &'a str,
    ) -> View<'a> {
        View { up: self.start.elapsed(), doing, address, live, servers }
    }
}

/// A stretch of looks, each compared with the one before.
struct Watch {
    last: Look,
}

impl Watch {
    fn begin(show: &Show) -> Result<Watch> {
        let last = Look::take(show.cluster.proxy())?;
        Ok(Watch { last })
    }

    fn wait(&self, show: &Show) {
        let interval = if show.screen.is_live() { REDRAW_INTERVAL } else { LINE_INTERVAL };
        show.interrupt.sleep(interval);
    }

    fn advance(&mut self, show: &Show) -> Result<Live> {
        let look = Look::take(show.cluster.proxy()).context("the proxy does not answer")?;
        let live = look.since(&self.last);
        self.last = look;
        Ok(live)
    }

    fn show(&mut self, show: &mut Show, doing: &str) -> Result<()> {
        let live = self.advance(show)?;
        let servers = show.server_views();
        let address = show.address();
        let view = show.view(doing, &live, &servers, &address);
        if show.screen.is_live() {
            let lines = picture::lines(&view);
            show.screen.draw(&lines);
        } else {
            let line = picture::brief(&view);
            show.screen.say(&format!("   {line}"));
        }
        Ok(())
    }
}
