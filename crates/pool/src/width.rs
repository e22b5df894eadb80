//! How many connections to one server run statements at the same time.
//!
//! Few connections that are kept busy cost proxy and server the least, as long as the server gets
//! enough to do: which number that is depends on its cores, on the network and on the statements.
//! So it is found by trying (`docs/decisions/0003`): while statements wait, the number goes one
//! step down or up for a short time, and stays there if as many statements are answered as
//! before, or clearly more.

/// The numbers that are tried, and where a server begins.
const STEPS: [u32; 11] = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
const FIRST: usize = 4;
/// The largest number that is tried.
pub const WORKING_MAX: u32 = 64;
/// A number is judged by this much time at least, µs, …
const WINDOW_US: u64 = 50_000;
/// … and by this many statements, unless they take longer than [`WINDOW_US_MAX`].
const WINDOW_STATEMENTS: u64 = 100;
const WINDOW_US_MAX: u64 = 500_000;
/// Windows without a trial after neither direction was better.
const REST_WINDOWS: u32 = 10;
/// More connections must answer at least this share of what fewer did, per cent.
const GAIN_PERCENT: u64 = 107;
/// Fewer connections must answer at least this share, per cent.
const LOSS_PERCENT: u64 = 97;

const _: () = assert!(FIRST < STEPS.len());

/// What the present window is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// Measures what the others are compared with; a trial follows after so many more windows.
    None {
        rest: u32,
    },
    /// One step fewer, or more.
    Down,
    Up,
}

/// The number of connections to one server that may run statements at the same time.
#[derive(Debug)]
pub struct Width {
    step: usize,
    trial: Trial,
    /// The direction of the next trial.
    next: Trial,
    /// Trials in a row that were taken back.
    failed: u32,
    /// Statements answered per second in the last window before the trial.
    base: u64,
    since_us: u64,
    answered: u64,
    /// Whether a statement had to wait in this window.
    was_full: bool,
}

impl Default for Width {
    fn default() -> Self {
        Self {
            step: FIRST,
            trial: Trial::None { rest: 0 },
            next: Trial::Down,
            failed: 0,
            base: 0,
            since_us: 0,
            answered: 0,
            was_full: false,
        }
    }
}

impl Width {
    /// For connections that take several statements at once: two of them do much.
    pub fn narrow() -> Self {
        Self { step: 0, next: Trial::Up, ..Self::default() }
    }

    /// How many may run now.
    pub fn max(&self) -> u32 {
        STEPS.get(self.step).copied().unwrap_or(WORKING_MAX)
    }

    /// A statement found as many running as may.
    pub fn note_full(&mut self) {
        self.was_full = true;
    }

    /// A statement was answered at `now_us`.
    pub fn answered(&mut self, now_us: u64) {
        self.answered += 1;
        let window_us = now_us.saturating_sub(self.since_us);
        let is_enough = self.answered >= WINDOW_STATEMENTS && window_us >= WINDOW_US;
        if !is_enough && window_us < WINDOW_US_MAX {
            return;
        }
        let rate = self.answered * 1_000_000 / window_us.max(1);
        let was_full = std::mem::take(&mut self.was_full);
        self.since_us = now_us;
        self.answered = 0;
        // What nobody waited for, or a window of rest, says nothing about the number.
        match was_full && window_us < 2 * WINDOW_US_MAX {
            true => self.judge(rate),
            false => self.abandon_trial(),
        }
    }

    fn judge(&mut self, rate: u64) {
        match self.trial {
            Trial::None { rest: 0 } => {
                self.base = rate;
                self.begin(self.next);
            }
            Trial::None { rest } => self.trial = Trial::None { rest: rest - 1 },
            Trial::Down => self.conclude(rate * 100 >= self.base * LOSS_PERCENT, rate),
            Trial::Up => self.conclude(rate * 100 >= self.base * GAIN_PERCENT, rate),
        }
    }

    fn begin(&mut self, trial: Trial) {
        let step = match trial {
            Trial::Down => self.step.checked_sub(1),
            Trial::Up => Some(self.step + 1).filter(|step| *step < STEPS.len()),
            Trial::None { .. } => None,
        };
        match step {
            Some(step) => (self.step, self.trial) = (step, trial),
            None => self.turn_round(),
        }
    }

    fn conclude(&mut self, is_better: bool, rate: u64) {
        let trial = self.trial;
        if is_better {
            // What was right once is tried again at once, from here.
            self.failed = 0;
            self.base = rate;
            return self.begin(trial);
        }
        self.take_back();
        self.turn_round();
    }

    /// The other direction is next; after both have failed it rests.
    fn turn_round(&mut self) {
        self.failed += 1;
        self.next = match self.next {
            Trial::Down => Trial::Up,
            Trial::Up | Trial::None { .. } => Trial::Down,
        };
        let rest = if self.failed.is_multiple_of(2) { REST_WINDOWS } else { 0 };
        self.trial = Trial::None { rest };
    }

    fn take_back(&mut self) {
        match self.trial {
            Trial::Down => self.step += 1,
            Trial::Up => self.step -= 1,
            Trial::None { .. } => {}
        }
        debug_assert!(self.step < STEPS.len());
    }

    fn abandon_trial(&mut self) {
        self.take_back();
        self.trial = Trial::None { rest: 0 };
    }
}

#[cfg(test)]
mod tests;
