//! What the operating system asks for.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGTERM or SIGINT: stop.
    Stop {
        /// The signal's name.
        signal: &'static str,
        /// What a shell gives as exit code of a process that the signal ended.
        code: i32,
    },
}

/// The signals that the process listens to.
pub struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on these signals do not end the process by themselves.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next signal.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop { signal: "SIGTERM", code: 143 },
            _ = self.interrupt.recv() => Asked::Stop { signal: "SIGINT", code: 130 },
            _ = self.hangup.recv() => Asked::Reload,
        }
    }

    /// The next signal to stop; others are not heard.
    pub async fn next_stop(&mut self) -> (&'static str, i32) {
        loop {
            if let Asked::Stop { signal, code } = self.next().await {
                return (signal, code);
            }
        }
    }
}
