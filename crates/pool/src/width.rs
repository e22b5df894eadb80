//! How many connections to one server run statements at the same time.
//!
//! Few connections that are kept busy cost proxy and server the least, as long as the server gets
//! enough to do: which number that is depends on its cores, on the network and on the statements.
//! So it is found by trying (`docs/decisions/0003`): while statements wait, the number goes one
//! step down or up for a short time, and stays there if as many statements are answered as
//! before and as soon, or clearly more or clearly sooner.

/// The numbers that are tried, and where a server begins.
const STEPS: [u32; 11] = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
const FIRST: usize = 4;
/// The numbers that are tried for all statements of a server, and where one begins.
const WIDE_STEPS: [u32; 16] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];
const WIDE_FIRST: usize = 3;
/// The largest number that is tried.
pub const WORKING_MAX: u32 = 64;
/// A number is judged by this much time at least, µs, …
const WINDOW_US: u64 = 50_000;
/// … and by this many statements, unless they take longer than [`WINDOW_US_MAX`].
const WINDOW_STATEMENTS: u64 = 100;
const WINDOW_US_MAX: u64 = 500_000;
/// Windows without a trial after neither direction was better.
const REST_WINDOWS: u32 = 10;
/// Half as many connections again would answer half as much again, if nothing but their number
/// held statements up. This much of it must come true, per cent, …
const GAIN_PERCENT: u64 = 18;
/// … or this much where statements share connections: there fewer save more.
const SHARED_GAIN_PERCENT: u64 = 35;
/// This much may be lost of what fewer connections would lose then, per cent.
const LOSS_PERCENT: u64 = 13;

const _: () = assert!(FIRST < STEPS.len() && WIDE_FIRST < WIDE_STEPS.len());

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
    steps: &'static [u32],
    step: usize,
    /// How much of what more connections could give must come of them, per cent.
    gain_percent: u64,
    trial: Trial,
    /// What the first window of a trial with more connections gave, when that was better.
    won: Option<Yield>,
    /// The direction of the next trial.
    next: Trial,
    /// Trials in a row that were taken back.
    failed: u32,
    /// What the last window before the trial gave.
    base: Yield,
    /// The least number that may be tried.
    least: u32,
    since_us: u64,
    answered: u64,
    /// What the window's statements took in sum, waits behind others included, µs.
    took_us: u64,
    /// Whether a statement had to wait in this window.
    was_full: bool,
    /// The most that ran at once in this window, where it is for all statements of a server.
    peak: u32,
}

/// What a number of connections gives.
#[derive(Debug, Clone, Copy, Default)]
struct Yield {
    /// Statements answered per second.
    rate: u64,
    /// What one of them took on average, µs; 0 where that is not told.
    took_us: u64,
}

impl Yield {
    fn worse_of(self, other: Self) -> Self {
        Self { rate: self.rate.min(other.rate), took_us: self.took_us.max(other.took_us) }
    }

    /// Whether `few` connections do as well as `many` with this yield.
    fn is_kept_by(self, fewer: Self, few: u64, many: u64) -> bool {
        let lost = (many - few) * LOSS_PERCENT;
        fewer.rate * many * 100 >= self.rate * (many * 100 - lost)
            && fewer.took_us * few * 100 <= self.took_us * (few * 100 + lost)
    }

    /// Whether `many` connections do clearly better than `few` with this yield.
    fn is_beaten_by(self, more: Self, few: u64, many: u64, gain_percent: u64) -> bool {
        let gain = (many - few) * gain_percent;
        let is_sooner = more.took_us * (few * 100 + gain) < self.took_us * few * 100;
        let is_more = more.rate * few * 100 >= self.rate * (few * 100 + gain);
        is_more || is_sooner && more.rate * 100 >= self.rate * 97
    }
}

impl Default for Width {
    fn default() -> Self {
        Self {
            steps: &STEPS,
            step: FIRST,
            gain_percent: GAIN_PERCENT,
            trial: Trial::None { rest: 0 },
            won: None,
            next: Trial::Down,
            failed: 0,
            base: Yield::default(),
            least: 0,
            since_us: 0,
            answered: 0,
            took_us: 0,
            was_full: false,
            peak: 0,
        }
    }
}

impl Width {
    /// For connections that take several statements at once: two of them do much.
    pub fn narrow() -> Self {
        let gain_percent = SHARED_GAIN_PERCENT;
        Self { step: 0, gain_percent, next: Trial::Up, ..Self::default() }
    }

    /// For all statements of a server, however long they take.
    pub fn wide() -> Self {
        Self { steps: &WIDE_STEPS, step: WIDE_FIRST, ..Self::default() }
    }

    /// How many may run now.
    pub fn max(&self) -> u32 {
        self.steps.get(self.step).copied().unwrap_or(WORKING_MAX)
    }

    /// A statement found as many running as may.
    pub fn note_full(&mut self) {
        self.was_full = true;
    }

    /// So many run, of all statements of a server.
    pub(crate) fn note_running(&mut self, running: u32) {
        self.peak = self.peak.max(running);
        self.was_full |= running >= self.max();
    }

    /// No fewer than `least` may run from now on.
    pub fn keep_at_least(&mut self, least: u32) {
        let least = least.min(WORKING_MAX);
        if least > self.max() {
            let step = self.steps.iter().position(|step| *step >= least);
            self.step = step.unwrap_or(self.steps.len() - 1);
            self.trial = Trial::None { rest: 0 };
            self.won = None;
        }
        self.least = self.least.max(least);
    }

    /// A statement was answered at `now_us`. `took_us` is what it took with its wait behind others
    /// on its connection; 0 where none waits so.
    pub fn answered(&mut self, now_us: u64, took_us: u64) {
        self.answered += 1;
        self.took_us += took_us;
        let window_us = now_us.saturating_sub(self.since_us);
        let is_enough = self.answered >= WINDOW_STATEMENTS && window_us >= WINDOW_US;
        if !is_enough && window_us < WINDOW_US_MAX {
            return;
        }
        let measured = Yield {
            rate: self.answered * 1_000_000 / window_us.max(1),
            took_us: self.took_us / self.answered,
        };
        let was_full = std::mem::take(&mut self.was_full);
        let peak = self.peak;
        self.since_us = now_us;
        (self.answered, self.took_us) = (0, 0);
        // What nobody waited for, or a window of rest, says nothing about the number.
        match was_full && window_us < 2 * WINDOW_US_MAX {
            true => self.judge(measured),
            false => self.abandon_trial(),
        }
        if !was_full && peak > 0 {
            self.follow(peak);
        }
        (self.least, self.peak) = (0, 0);
    }

    /// What is far above the most that ran at once is no limit, and nothing would be learnt of it
    /// before it is too late.
    fn follow(&mut self, peak: u32) {
        let enough = self.steps.iter().position(|step| *step >= peak);
        self.step = self.step.min(enough.unwrap_or(self.step).max(WIDE_FIRST));
    }

    fn judge(&mut self, measured: Yield) {
        match self.trial {
            Trial::None { rest: 0 } => {
                self.base = measured;
                self.begin(self.next);
            }
            Trial::None { rest } => self.trial = Trial::None { rest: rest - 1 },
            Trial::Down => {
                let (few, many) = (self.at(self.step), self.at(self.step + 1));
                self.conclude(self.base.is_kept_by(measured, few, many), measured);
            }
            Trial::Up => {
                let (few, many) = (self.at(self.step.saturating_sub(1)), self.at(self.step));
                let is_better = self.base.is_beaten_by(measured, few, many, self.gain_percent);
                match (is_better, self.won.take()) {
                    // One window may have been lucky.
                    (true, None) => self.won = Some(measured),
                    (true, Some(first)) => self.conclude(true, first.worse_of(measured)),
                    (false, _) => self.conclude(false, measured),
                }
            }
        }
    }

    fn at(&self, step: usize) -> u64 {
        self.steps.get(step).copied().unwrap_or(WORKING_MAX).into()
    }

    fn begin(&mut self, trial: Trial) {
        let step = match trial {
            Trial::Down => self.step.checked_sub(1).filter(|step| self.allows(*step)),
            Trial::Up => Some(self.step + 1).filter(|step| *step < self.steps.len()),
            Trial::None { .. } => None,
        };
        match step {
            Some(step) => (self.step, self.trial) = (step, trial),
            None => self.turn_round(),
        }
    }

    fn allows(&self, step: usize) -> bool {
        self.steps.get(step).is_some_and(|step| *step >= self.least)
    }

    fn conclude(&mut self, is_better: bool, measured: Yield) {
        let trial = self.trial;
        if is_better {
            // What was right once is tried again at once, from here.
            self.failed = 0;
            self.base = measured;
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
        self.won = None;
        match self.trial {
            Trial::Down => self.step += 1,
            Trial::Up => self.step -= 1,
            Trial::None { .. } => {}
        }
        debug_assert!(self.step < self.steps.len());
    }

    fn abandon_trial(&mut self) {
        self.take_back();
        self.trial = Trial::None { rest: 0 };
    }
}

#[cfg(test)]
mod tests;
