//! What a person at `trunkline top` has chosen, and the keys by which they choose.

use std::cmp::Reverse;

/// The longest filter, in characters.
const FILTER_MAX: usize = 64;
/// Statements that one page is.
const PAGE: usize = 10;

/// A key that means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// The arrow.
    Up,
    /// The arrow.
    Down,
    /// The arrow.
    Left,
    /// The arrow.
    Right,
    /// A page towards the beginning.
    PageUp,
    /// A page towards the end.
    PageDown,
    /// To the beginning.
    Home,
    /// Enter.
    Enter,
    /// Backspace.
    Backspace,
    /// Escape.
    Escape,
    /// Ctrl-C.
    Interrupt,
}

/// The keys in bytes that a terminal sent at once. What means nothing is left out.
pub fn keys(bytes: &[u8]) -> Vec<Key> {
    const SEQUENCES: [(&str, Key); 10] = [
        ("\x1b[A", Key::Up),
        ("\x1b[B", Key::Down),
        ("\x1b[C", Key::Right),
        ("\x1b[D", Key::Left),
        ("\x1bOA", Key::Up),
        ("\x1bOB", Key::Down),
        ("\x1b[5~", Key::PageUp),
        ("\x1b[6~", Key::PageDown),
        ("\x1b[H", Key::Home),
        ("\x1b[1~", Key::Home),
    ];
    let text = String::from_utf8_lossy(bytes);
    let mut rest: &str = &text;
    let mut keys = Vec::new();
    while let Some(first) = rest.chars().next() {
        let sequence = SEQUENCES.iter().find(|(sequence, _)| rest.starts_with(sequence));
        if let Some((sequence, key)) = sequence {
            keys.push(*key);
            rest = rest.get(sequence.len()..).unwrap_or_default();
            continue;
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
        match first {
            '\x1b' if rest.starts_with(['[', 'O']) => {
                // A sequence that means nothing ends with its first letter or `~`.
                let end = rest.char_indices().skip(1).find(|(_, char)| matches!(char, '@'..='~'));
                rest = end.and_then(|(at, _)| rest.get(at + 1..)).unwrap_or_default();
            }
            '\x1b' => keys.push(Key::Escape),
            '\r' | '\n' => keys.push(Key::Enter),
            '\x08' | '\x7f' => keys.push(Key::Backspace),
            '\x03' => keys.push(Key::Interrupt),
            char if char.is_control() || char == '\u{fffd}' => {}
            char => keys.push(Key::Char(char)),
        }
    }
    keys
}

/// What statements are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// Time since the last look.
    #[default]
    Time,
    /// Statements since then.
    Count,
    /// Time of one statement.
    Average,
    /// User, then time.
    User,
}

impl Sort {
    const ALL: [Self; 4] = [Self::Time, Self::Count, Self::Average, Self::User];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Count => "stmts/s",
            Self::Average => "average",
            Self::User => "user",
        }
    }

    /// So many places further, round and round.
    fn moved(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or_default();
        Self::ALL.into_iter().cycle().nth(at + by).unwrap_or_default()
    }

    /// Where statements of this number and time stand, the first ones first.
    pub(crate) fn place(self, user: &str, count: u64, time: u64) -> (String, Reverse<u64>) {
        match self {
            Self::Time => (String::new(), Reverse(time)),
            Self::Count => (String::new(), Reverse(count)),
            Self::Average => (String::new(), Reverse(time.checked_div(count).unwrap_or_default())),
            Self::User => (user.to_owned(), Reverse(time)),
        }
    }
}

/// What is to be done after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The view is the same.
    Nothing,
    /// It is another one.
    Redraw,
    /// It ends.
    End,
}

/// What is shown, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// What statements are sorted by.
    pub sort: Sort,
    /// Whether the last ones come first.
    pub is_reversed: bool,
    /// Statements that are left out at the beginning.
    pub skipped: usize,
    /// What a statement, its user or its hostgroup must contain; empty takes all.
    pub filter: String,
    /// The filter that is being typed.
    pub typed: Option<String>,
    /// Whether the numbers stand still.
    pub is_paused: bool,
    /// Whether keys are explained.
    pub is_help: bool,
}

impl View {
    /// Takes a key; `rows` statements can be shown.
    pub fn key(&mut self, key: Key, rows: usize) -> Turn {
        if key == Key::Interrupt {
            return Turn::End;
        }
        if let Some(typed) = self.typed.take() {
            return self.type_filter(typed, key);
        }
        if std::mem::take(&mut self.is_help) {
            // Any key closes the page; `q` ends there too.
            return if key == Key::Char('q') { Turn::End } else { Turn::Redraw };
        }
        let before = self.clone();
        match key {
            Key::Char('q') => return Turn::End,
            Key::Char('?' | 'h') => self.is_help = true,
            Key::Char('/') => self.typed = Some(self.filter.clone()),
            Key::Char('p' | ' ') => self.is_paused = !self.is_paused,
            Key::Char('r') => self.is_reversed = !self.is_reversed,
            Key::Char('t') => self.sort = Sort::Time,
            Key::Char('c') => self.sort = Sort::Count,
            Key::Char('a') => self.sort = Sort::Average,
            Key::Char('u') => self.sort = Sort::User,
            Key::Right | Key::Char('s') => self.sort = self.sort.moved(1),
            Key::Left => self.sort = self.sort.moved(Sort::ALL.len() - 1),
            Key::Up => self.skipped = self.skipped.saturating_sub(1),
            Key::Down => self.skipped += 1,
            Key::PageUp => self.skipped = self.skipped.saturating_sub(PAGE),
            Key::PageDown => self.skipped += PAGE,
            Key::Home => self.skipped = 0,
            Key::Escape => self.filter.clear(),
            Key::Char(_) | Key::Enter | Key::Backspace | Key::Interrupt => {}
        }
        self.skipped = self.skipped.min(rows.saturating_sub(1));
        if *self == before { Turn::Nothing } else { Turn::Redraw }
    }

    fn type_filter(&mut self, mut typed: String, key: Key) -> Turn {
        match key {
            Key::Enter => {
                self.filter = typed;
                self.skipped = 0;
                return Turn::Redraw;
            }
            Key::Escape => return Turn::Redraw,
            Key::Backspace => drop(typed.pop()),
            Key::Char(char) if typed.chars().count() < FILTER_MAX => typed.push(char),
            _ => {}
        }
        self.typed = Some(typed);
        Turn::Redraw
    }

    /// Whether a statement is shown.
    pub(crate) fn shows(&self, text: &str, user: &str, hostgroup: i64) -> bool {
        let filter = self.filter.to_lowercase();
        filter.is_empty()
            || text.to_lowercase().contains(&filter)
            || user.to_lowercase().contains(&filter)
            || hostgroup.to_string() == filter
    }

    /// The title of the table of statements.
    pub(crate) fn title(&self) -> String {
        let mut title = format!("STATEMENTS by {} now", self.sort.name());
        if self.is_reversed {
            title.push_str(", last first");
        }
        if self.skipped > 0 {
            title.push_str(&format!(", from {}", self.skipped + 1));
        }
        if !self.filter.is_empty() {
            title.push_str(&format!(", with `{}`", self.filter));
        }
        if self.is_paused {
            title.push_str(", paused");
        }
        title
    }

    /// The last line of a terminal.
    pub fn prompt(&self) -> String {
        match &self.typed {
            Some(typed) => format!("filter: {typed}_   Enter takes it, Esc does not"),
            None if self.is_help => "any key goes back, q ends".to_owned(),
            None => "q ends, ? explains the keys".to_owned(),
        }
    }
}

/// The page that explains the keys.
pub const HELP: &str = "\
KEYS
  q, Ctrl-C         end
  ?, h              this page
  left, right, s    sort statements by time, statements per second, average, user
  t, c, a, u        the same at once
  r                 turn the order round
  up, down          move along the statements; Page Up and Page Down by ten, Home to the first
  /                 show statements that contain a text, are of a user, or of a hostgroup
  Esc               show all statements again
  p, space          let the numbers stand still, or go on

COLUMNS
  time              share of the time of all statements since the last look
  stmts/s           statements per second since then
  average           time of one statement
  used, idle, max   server connections with statements, without, and the limit
  p50, p99          half, and 99 of 100, statements took at most this long
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_what_terminals_send() {
        let check = |bytes: &str, expected: &[Key]| {
            assert_eq!(keys(bytes.as_bytes()), expected, "{bytes:?}");
        };
        check("q?", &[Key::Char('q'), Key::Char('?')]);
        check("\x1b[A\x1b[B\x1b[C\x1b[D", &[Key::Up, Key::Down, Key::Right, Key::Left]);
        check("\x1bOA\x1b[5~\x1b[6~\x1b[H", &[Key::Up, Key::PageUp, Key::PageDown, Key::Home]);
        check("\x1b", &[Key::Escape]);
        check("\r\n\x7f\x03", &[Key::Enter, Key::Enter, Key::Backspace, Key::Interrupt]);
        check("é", &[Key::Char('é')]);
        // Other function keys mean nothing, and none of their bytes does.
        check("\x1b[15~x\x1b[1;5Cy\x1b[", &[Key::Char('x'), Key::Char('y')]);
        assert_eq!(keys(b"\xff\x00\x01a"), [Key::Char('a')]);
    }

    #[test]
    fn keys_change_the_view() {
        let mut view = View::default();
        let mut press = |bytes: &str| {
            let turns = keys(bytes.as_bytes()).into_iter().map(|key| view.key(key, 5));
            let last = turns.last().unwrap_or(Turn::Nothing);
            (last, view.clone())
        };
        assert_eq!(press("z").0, Turn::Nothing);
        assert_eq!(press("\x1b[C").1.sort, Sort::Count);
        assert_eq!(press("\x1b[D\x1b[D").1.sort, Sort::User);
        assert_eq!(press("ss").1.sort, Sort::Count);
        assert_eq!(press("a").1.sort, Sort::Average);
        assert!(press("r").1.is_reversed);
        assert_eq!(press("\x1b[B\x1b[B\x1b[A").1.skipped, 1);
        assert_eq!(press("\x1b[6~").1.skipped, 4, "the last of five");
        assert_eq!(press("\x1b[A\x1b[H").1.skipped, 0);
        assert_eq!(press("\x1b[A").0, Turn::Nothing);
        assert!(press(" ").1.is_paused);
        // While a filter is typed, letters are letters.
        let (turn, view) = press("/qux\x7f");
        assert_eq!((turn, view.typed.as_deref()), (Turn::Redraw, Some("qu")));
        assert_eq!(press("\x1b").1.filter, "");
        assert_eq!(press("/t_\r").1.filter, "t_");
        assert_eq!(press("\x1b").1.filter, "");
        assert!(press("?").1.is_help);
        assert!(!press("x").1.is_help);
        assert_eq!(press("?q").0, Turn::End);
        assert_eq!(press("q").0, Turn::End);
        assert_eq!(press("/\x03").0, Turn::End, "also while a filter is typed");
    }

    #[test]
    fn every_key_is_explained() {
        for word in
            ["q,", "?,", "left, right, s", "t, c, a, u", "r ", "up, down", "/ ", "Esc", "p,"]
        {
            assert!(HELP.contains(&format!("\n  {word}")), "{word}");
        }
        assert!(HELP.lines().all(|line| line.len() <= 100));
    }
}
