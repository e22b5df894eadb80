//! `cargo xtask console`: builds the web console from `web/`, proves that what is checked in is
//! what the sources make, and drives it in a real browser before real servers.

mod bundle;
mod stage;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use trunkline_testkit::{find_program, trunkline_binary};

use crate::run::{cargo, step};
use crate::servers;
use stage::Stage;

/// Programs that are a browser for the test, the first that is there.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// What `cargo xtask console` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only build the page into crates/admin/console
    #[arg(long)]
    build: bool,
    /// Only check that what is checked in is what the sources make
    #[arg(long)]
    check: bool,
    /// Write the manual's pictures anew
    #[arg(long)]
    pictures: bool,
    /// Show the browser the page of web/ as it is, without a new binary
    #[arg(long)]
    dev: bool,
}

/// Builds, checks, and drives the page.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let web = root.join("web");
    bundle::install(&web)?;
    step(
        "checking the page's types",
        node(&web, "node_modules/typescript/bin/tsc").arg("--noEmit"),
    )?;
    if arguments.build || arguments.dev {
        step("building the page", &mut node(&web, "build.mjs"))?;
    } else {
        step("comparing the page with its sources", node(&web, "build.mjs").arg("--check"))?;
    }
    if arguments.build || arguments.check {
        return Ok(());
    }
    servers::ensure_mariadb()?;
    let browser = BROWSERS.into_iter().find_map(find_program);
    let browser = browser.context("there is no chromium: apt-get install chromium")?;
    if !arguments.dev {
        step("building the proxy", cargo(root).args(["build", "--locked", "--bin", "trunkline"]))?;
    }
    let pictures = root.join("target/console");
    std::fs::create_dir_all(&pictures)?;
    let start = Instant::now();
    let stage = Stage::start(&trunkline_binary()?)?;
    println!("== the proxy, its servers and its clients are there");
    drive(&web, &stage, &browser, &pictures, arguments.dev)?;
    stage.stop()?;
    if arguments.pictures {
        renew_pictures(root, &pictures)?;
    }
    println!(
        "== the console was driven in {:.1} s; pictures are in {}",
        start.elapsed().as_secs_f64(),
        pictures.display()
    );
    Ok(())
}

/// Copies the pictures that the manual's page shows.
fn renew_pictures(root: &Path, from: &Path) -> Result<()> {
    let manual = root.join("docs/manual");
    let page = std::fs::read_to_string(manual.join("console.md"))?;
    std::fs::create_dir_all(manual.join("pictures"))?;
    for shown in page.split("](pictures/").skip(1) {
        let name = shown.split(')').next().unwrap_or_default();
        std::fs::copy(from.join(name), manual.join("pictures").join(name))
            .with_context(|| format!("the test made no picture {name}"))?;
    }
    Ok(())
}

fn node(web: &Path, script: &str) -> Command {
    let mut command = Command::new("node");
    command.current_dir(web).arg(script);
    command
}

/// Runs the test; what it writes on lines of its own are orders to the stage.
fn drive(web: &Path, stage: &Stage, browser: &Path, pictures: &Path, dev: bool) -> Result<()> {
    let given = json!({
        "url": stage.url(),
        "browser": browser,
        "pictures": pictures,
        "page": dev.then(|| PathBuf::from("../crates/admin/console")),
    });
    let mut child = node(web, "test/browser.mjs")
        .env("CONSOLE_TEST", given.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run node")?;
    let mut orders = child.stdin.take().context("no input")?;
    let output = BufReader::new(child.stdout.take().context("no output")?);
    let mut failed = None;
    for line in output.lines() {
        let line = line?;
        let Some(order) = line.strip_prefix("order: ") else {
            println!("{line}");
            continue;
        };
        let answer = match stage.obey(order) {
            Ok(answer) => answer,
            Err(error) => {
                failed.get_or_insert_with(|| format!("{order}: {error:#}"));
                format!("failed: {error:#}")
            }
        };
        writeln!(orders, "{}", answer.replace('\n', " "))?;
    }
    let status = child.wait()?;
    if !status.success() {
        print!("{}", stage.log());
    }
    ensure!(failed.is_none(), "{}", failed.unwrap_or_default());
    ensure!(status.success(), "the test in the browser failed ({status})");
    Ok(())
}
