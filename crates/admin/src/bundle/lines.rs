//! The last lines of the log, kept in memory.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Lines that are kept.
const LINES_MAX: usize = 1_000;
/// Bytes of a line that are kept; the rest is cut.
const LINE_LEN_MAX: usize = 2_048;

/// The last lines of the log. Copies share them. It is written to like a file.
#[derive(Debug, Clone, Default)]
pub struct LogLines(Arc<Mutex<VecDeque<String>>>);

impl LogLines {
    /// All of them, the oldest first.
    pub fn all(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl io::Write for LogLines {
    /// Takes whole lines: the log writes each event at once.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = self.lock();
        for line in text.lines() {
            if lines.len() == LINES_MAX {
                lines.pop_front();
            }
            let kept = line.get(..line.floor_char_boundary(LINE_LEN_MAX)).unwrap_or(line);
            lines.push_back(kept.to_owned());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_long_ones_cut() {
        let lines = LogLines::default();
        let mut log = lines.clone();
        for number in 0..LINES_MAX + 5 {
            log.write_all(format!("line {number}\n").as_bytes()).expect("memory");
        }
        log.write_all("ä".repeat(LINE_LEN_MAX).as_bytes()).expect("memory");
        let all = lines.all();
        assert_eq!(all.len(), LINES_MAX);
        assert_eq!(all[0], "line 6");
        assert_eq!(all[LINES_MAX - 1].len(), LINE_LEN_MAX);
    }
}
