//! Ctrl-C and SIGTERM, so that what was started is stopped in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::signal::unix::{SignalKind, signal};

/// How often a wait looks whether it was interrupted.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The exit code of a program that a second Ctrl-C ended.
const INTERRUPTED_CODE: i32 = 130;

/// Whether somebody has asked for the end.
#[derive(Clone, Debug)]
pub struct Interrupt {
    is_asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// From now on the first Ctrl-C or SIGTERM only sets this flag; a second one ends the program
    /// at once (servers then go by their watchdogs).
    pub fn listen() -> Result<Interrupt> {
        let is_asked = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut interrupts, mut terminations) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let flag = Arc::clone(&is_asked);
        std::thread::spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupts.recv() => {}
                        _ = terminations.recv() => {}
                    }
                    if flag.swap(true, Ordering::Relaxed) {
                        std::process::exit(INTERRUPTED_CODE);
                    }
                }
            });
        });
        Ok(Interrupt { is_asked })
    }

    /// Whether the end was asked for.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// An error when the end was asked for; for use between two steps.
    pub fn check(&self) -> Result<()> {
        if self.is_asked() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Waits, but no longer than until the end is asked for.
    pub fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.is_asked() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK_INTERVAL));
        }
    }
}
