//! `trunkline top`: a view that is renewed until somebody ends it.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr},
};
use trunkline_admin::status::{
    top::{top_json, top_rows, top_text},
    view::{Turn, View, keys},
};
use trunkline_stats::Report;

use crate::{cli::TopArgs, paint::painted, show, status};

/// Where nobody says how large the terminal is.
const SIZE: (usize, usize) = (100, 30);
/// To the upper left, and nothing below what is written.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
/// A screen of its own without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Two reports, and when each was read.
struct Looks {
    before: (Report, Instant),
    now: (Report, Instant),
}

impl Looks {
    fn ms(&self) -> u64 {
        let ms = self.now.1.duration_since(self.before.1).as_millis();
        u64::try_from(ms).unwrap_or(u64::MAX)
    }

    fn text(&self, view: &View, size: (usize, usize)) -> String {
        top_text(&self.before.0, &self.now.0, self.ms(), view, size)
    }
}

/// Shows rates until somebody ends it, or as often as it was asked to.
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
    let interval = Duration::from_millis(args.interval_ms.max(100));
    let first = read()?;
    if io::stdout().is_terminal() && !args.json {
        watch(first, read, interval, args.count)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut before = first;
    let mut left = args.count;
    while left != Some(0) {
        thread::sleep(interval);
        let looks = Looks { before, now: read()? };
        let text = match args.json {
            true => top_json(&looks.before.0, &looks.now.0, looks.ms()).to_string(),
            false => looks.text(&View::default(), SIZE),
        };
        show(&format!("{text}\n"));
        before = looks.now;
        left = left.map(|left| left - 1);
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows them on a terminal, and takes keys.
fn watch(
    first: (Report, Instant),
    read: impl Fn() -> Result<(Report, Instant)>,
    interval: Duration,
    count: Option<u64>,
) -> Result<()> {
    let _screen = Screen::enter();
    let mut view = View::default();
    let mut looks = Looks { before: first, now: read()? };
    let mut left = count;
    while left != Some(0) {
        draw(&looks, &view);
        if let Turn::End = answer_keys(&looks, &mut view, Instant::now() + interval)? {
            return Ok(());
        }
        if !view.is_paused {
            looks.before = std::mem::replace(&mut looks.now, read()?);
            left = left.map(|left| left - 1);
        }
    }
    draw(&looks, &view);
    Ok(())
}

/// Takes keys until a moment.
fn answer_keys(looks: &Looks, view: &mut View, until: Instant) -> Result<Turn> {
    let mut has_keys = io::stdin().is_terminal();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Turn::Nothing);
        }
        if !has_keys {
            thread::sleep(left);
            continue;
        }
        let bytes = typed(left)?;
        // A terminal that has gone has no more keys.
        has_keys = bytes.as_ref().is_none_or(|bytes| !bytes.is_empty());
        for key in keys(&bytes.unwrap_or_default()) {
            let rows = top_rows(&looks.before.0, &looks.now.0, view);
            match view.key(key, rows) {
                Turn::Nothing => {}
                Turn::Redraw => draw(looks, view),
                Turn::End => return Ok(Turn::End),
            }
        }
    }
}

/// What is typed within a time; `None` when it is nothing.
fn typed(time: Duration) -> Result<Option<Vec<u8>>> {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let time = Timespec::try_from(time).ok();
    match poll(&mut fds, time.as_ref()) {
        // The size of the terminal may have changed.
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut bytes = [0; 64];
    // Not by the standard library, which would keep what has no room here.
    let len = rustix::io::read(&stdin, &mut bytes)?;
    Ok(Some(bytes.get(..len).unwrap_or_default().to_vec()))
}

fn draw(looks: &Looks, view: &View) {
    let (width, height) = size();
    let text = painted(&looks.text(view, (width, height.saturating_sub(1))));
    let lines = text.replace('\n', &format!("{CLEAR_LINE}\n"));
    let prompt: String = view.prompt().chars().take(width).collect();
    show(&format!("{HOME}{lines}{CLEAR_BELOW}\x1b[{height};1H{prompt}{CLEAR_LINE}"));
}

/// The terminal, as it is while this is shown.
struct Screen {
    before: Option<Termios>,
}

impl Screen {
    /// Keys come one by one, unseen.
    fn enter() -> Self {
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut modes = before.clone();
            modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
            // Where it can't be changed, keys come with their line.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
        }
        show(ENTER);
        Self { before }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        show(LEAVE);
        if let Some(before) = &self.before {
            // The terminal may have gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
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
