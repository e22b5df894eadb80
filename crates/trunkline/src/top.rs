//! `trunkline top`: a view that is renewed until it is interrupted.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use trunkline_admin::status::top::{top_json, top_text};
use trunkline_stats::Report;

use crate::{cli::TopArgs, paint::painted, show, status};

/// Where nobody says how large the terminal is.
const SIZE: (usize, usize) = (100, 30);
/// To the upper left, and nothing below what is written.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// Shows rates until it is interrupted, or as often as it was asked to.
pub fn run(args: &TopArgs) -> Result<ExitCode> {
    let url = status::url_of(&args.proxy)?;
    let read = || -> Result<(Report, Instant)> {
        let body = status::fetch(&url, "/status")?;
        let report = serde_json::from_str(&body);
        let report = report.with_context(|| {
            format!("what answers at {url} is not Trunkline, or another version")
        })?;
        Ok((report, Instant::now()))
    };
    let is_live = io::stdout().is_terminal() && !args.json;
    let interval = Duration::from_millis(args.interval_ms.max(100));
    let mut before = read()?;
    let mut left = args.count;
    if is_live {
        show("\x1b[2J");
    }
    while left != Some(0) {
        thread::sleep(interval);
        let now = read()?;
        let ms = now.1.duration_since(before.1).as_millis();
        let ms = u64::try_from(ms).unwrap_or(u64::MAX);
        if args.json {
            show(&format!("{}\n", top_json(&before.0, &now.0, ms)));
        } else if is_live {
            let (width, height) = size();
            let text = painted(&top_text(&before.0, &now.0, ms, width, height.saturating_sub(1)));
            let lines = text.replace('\n', &format!("{CLEAR_LINE}\n"));
            show(&format!("{HOME}{lines}{CLEAR_BELOW}"));
        } else {
            show(&format!("{}\n", top_text(&before.0, &now.0, ms, SIZE.0, SIZE.1)));
        }
        before = now;
        left = left.map(|left| left - 1);
    }
    Ok(ExitCode::SUCCESS)
}

/// Columns and lines of the terminal.
fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        }
        Ok(_) | Err(_) => SIZE,
    }
}
