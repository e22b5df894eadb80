//! `trunkline report`: what changed between two times, as one HTML file. It reads the history from
//! its files; no proxy needs to run.

mod compare;
mod page;
mod plot;
mod time;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail, ensure};
use trunkline_config::{StateFile, history_path};
use trunkline_history::Period;
use trunkline_net::private;
use trunkline_store::open::DISK_FILE;

use crate::{cli::ReportArgs, config_file::counted, show, status};

/// Writes the report.
pub fn run(args: &ReportArgs) -> Result<ExitCode> {
    let folder = folder(args)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (from, to) = (time::parse(&args.from, now)?, time::parse(&args.to, now)?);
    ensure!(from < to, "--from must be before --to: {} to {}", time::shown(from), time::shown(to));
    let length = to - from;
    let since = match &args.compare {
        Some(text) => time::parse(text, now)?,
        None => from.saturating_sub(length),
    };
    let unread = || format!("can't read the history in {}", folder.display());
    let mut period = Period::read(&folder, from, to).with_context(unread)?;
    let mut before = Period::read(&folder, since, since + length).with_context(unread)?;
    if period.known == 0 {
        bail!(
            "the history in {} has nothing between {} and {} (UTC)",
            folder.display(),
            time::shown(from),
            time::shown(to)
        );
    }
    let changes = page::changes(&folder, &mut before, &mut period).with_context(unread)?;
    let made = format!("Made by trunkline {}.", env!("CARGO_PKG_VERSION"));
    let html = page::page(&before, &period, &changes, &made);
    match &args.output {
        Some(path) => {
            let unwritten = || format!("can't write {}", path.display());
            private::replace(path, html.as_bytes()).with_context(unwritten)?;
            let slower = counted(changes.len(), "statement");
            show(&format!("{}: {slower} got slower\n", path.display()));
        }
        None => show(&html),
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the history is.
fn folder(args: &ReportArgs) -> Result<PathBuf> {
    let folder = match (&args.history, &args.data_dir, &args.config) {
        (Some(folder), _, _) => Some(folder.clone()),
        (None, Some(folder), _) => history_path(&StateFile::Beside, &folder.join(DISK_FILE)),
        (None, None, Some(config)) => {
            history_path(&status::settings_of(config)?.state_file, config)
        }
        (None, None, None) => bail!("where is the history? -c FILE, -D FOLDER or --history FOLDER"),
    };
    let folder = folder.context("state_file is empty: no history is kept")?;
    let is_there = Path::new(&folder).is_dir();
    ensure!(is_there, "there is no history in {}: has the proxy run?", folder.display());
    Ok(folder)
}

#[cfg(test)]
mod tests;
