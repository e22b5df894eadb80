//! Collapsing of value lists and of groups, done while the text is written.
//!
//! | input, limits 3 and 2 | written |
//! |---|---|
//! | `(?,?,?,?)` | the same: one more than the limit is kept |
//! | `(?,?,?,?,?)` | `(?,?,?,...)` |
//! | `(?,?,?,?,?,a+1)` | `(?,?,?,...,a+1)` |
//! | `(?,?,?,?,a)` | `(?,?,?,...)`: one byte before `)` counts as a value, whatever it is |
//! | `(?,?,?,...),(?,?,?,...),(?,?,?,...),b` | `(?,?,?,...),(?,?,?,...),...b` |
//!
//! Only lists directly inside parentheses are looked at, up to the first `)` or the next `(`,
//! and a list does not begin at a value that follows an arithmetic operator.

use super::class::is_operator;

/// Bytes that are copied at once.
const SHORT: usize = 32;

/// Where the writer stands in a list of values.
#[derive(Debug, Clone, Copy)]
enum List {
    /// In none.
    Outside,
    /// After `?,`.
    AfterComma,
    /// This byte is held back until the next one says whether it belongs to the list.
    Held(u8),
}

/// Writes the digest text.
#[derive(Debug)]
pub(super) struct Grouper {
    pub(super) out: Vec<u8>,
    list: List,
    /// Complete `?,` in the list.
    pairs: usize,
    /// Where the list began in `out`.
    list_start: usize,
    /// The most values that a collapsed list shows.
    list_limit: usize,
    /// The most equal groups that are shown; 0 shows all.
    group_limit: usize,
    /// Whether the last parenthesis was an opening one.
    in_parens: bool,
    /// The byte before, of those that came in.
    last: u8,
    /// Groups in the chain that ended at `chain_end`.
    chain: usize,
    chain_end: usize,
    /// The chain is full: what follows directly is left out.
    full_chain: bool,
    chain_comma: bool,
    /// A byte that was not a value has been left out.
    pub(super) swallowed: bool,
}

impl Grouper {
    pub(super) const fn new() -> Self {
        Self {
            out: Vec::new(),
            list: List::Outside,
            pairs: 0,
            list_start: 0,
            list_limit: 0,
            group_limit: 0,
            in_parens: false,
            last: 0,
            chain: 0,
            chain_end: 0,
            full_chain: false,
            chain_comma: false,
            swallowed: false,
        }
    }

    /// Starts a new text with these limits.
    pub(super) fn begin(&mut self, list_limit: u16, group_limit: u16) {
        let Self {
            out,
            list,
            pairs,
            list_start,
            list_limit: values_max,
            group_limit: groups_max,
            in_parens,
            last,
            chain,
            chain_end,
            full_chain,
            chain_comma,
            swallowed,
        } = self;
        out.clear();
        *list = List::Outside;
        (*values_max, *groups_max) = (usize::from(list_limit), usize::from(group_limit));
        (*pairs, *list_start, *chain, *chain_end) = (0, 0, 0, 0);
        (*in_parens, *full_chain, *chain_comma, *swallowed) = (false, false, false, false);
        *last = 0;
    }

    /// Writes a run of bytes that are neither parentheses, commas nor question marks. `rest` begins
    /// with it, and goes on.
    #[inline]
    pub(super) fn run(&mut self, rest: &[u8], run: &[u8], lowercase: bool) {
        let (mut rest, mut left) = (rest, run);
        while !matches!(self.list, List::Outside) {
            let [first, after @ ..] = left else { return };
            self.byte(if lowercase { first.to_ascii_lowercase() } else { *first });
            left = after;
            rest = rest.get(1..).unwrap_or_default();
        }
        let start = self.out.len();
        match rest.first_chunk::<SHORT>() {
            // So many bytes at once are fewer instructions than as many as there are.
            Some(chunk) if left.len() <= SHORT => {
                self.out.extend_from_slice(chunk);
                self.out.truncate(start + left.len());
            }
            _ => self.out.extend_from_slice(left),
        }
        if lowercase && let Some(new) = self.out.get_mut(start..) {
            new.make_ascii_lowercase();
        }
        self.last = run.last().copied().unwrap_or(self.last);
    }

    /// Whether a value is held back in a list that is collapsed already.
    #[inline]
    pub(super) fn leaves_out(&self) -> bool {
        matches!(self.list, List::Held(b'?')) && self.pairs > self.list_limit + 2
    }

    /// The value that is held back gets its comma, and another one is held back.
    #[inline]
    pub(super) fn pair_left_out(&mut self) {
        self.pairs += 1;
        self.last = b'?';
    }

    /// Writes one byte.
    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        match self.list {
            List::Outside => self.plain(byte),
            List::AfterComma => {
                self.list = List::Held(byte);
                self.last = byte;
            }
            List::Held(held) => self.after_held(held, byte),
        }
    }

    /// Writes what is held back; the text is complete.
    pub(super) fn finish(&mut self) {
        let held = match self.list {
            List::Outside => return,
            List::AfterComma => None,
            List::Held(held) => Some(held),
        };
        self.end_list();
        self.out.extend(held);
    }

    fn after_held(&mut self, held: u8, byte: u8) {
        match byte {
            b',' if held == b'?' => self.pair(),
            b')' if self.pairs > 0 => {
                self.last_value(held);
                self.plain(byte);
            }
            _ => {
                self.end_list();
                // A lone value cannot begin the list that it has just ended.
                if held == b'?' {
                    self.push(held);
                } else {
                    self.plain(held);
                }
                self.byte(byte);
            }
        }
    }

    /// One more `?,` of the list.
    fn pair(&mut self) {
        self.pairs += 1;
        if self.pairs <= self.list_limit + 1 {
            self.out.extend_from_slice(b"?,");
        } else if self.pairs == self.list_limit + 2 {
            self.collapse();
        }
        self.last = b',';
        self.list = List::AfterComma;
    }

    /// The list ends with `held`, before a closing parenthesis.
    fn last_value(&mut self, held: u8) {
        if self.pairs > self.list_limit {
            self.swallowed |= held != b'?';
            if self.pairs == self.list_limit + 1 {
                self.collapse();
            }
        } else {
            self.out.push(held);
        }
        self.list = List::Outside;
    }

    /// Replaces the values beyond the limit.
    fn collapse(&mut self) {
        self.out.truncate(self.list_start + 2 * self.list_limit);
        self.out.extend_from_slice(b"...");
    }

    /// The list ends before a byte that isn't part of it.
    fn end_list(&mut self) {
        if self.pairs > self.list_limit + 1 {
            self.out.push(b',');
        }
        self.list = List::Outside;
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        self.out.push(byte);
        self.last = byte;
    }

    #[inline]
    fn plain(&mut self, byte: u8) {
        match byte {
            b'?' if self.in_parens && !is_operator(self.last) => {
                self.list = List::Held(byte);
                self.pairs = 0;
                self.list_start = self.out.len();
                self.last = byte;
            }
            b'(' => {
                self.in_parens = true;
                self.push(byte);
            }
            b')' => {
                self.in_parens = false;
                self.push(byte);
                self.end_group();
            }
            b',' if self.full_chain && self.out.len() == self.chain_end && !self.chain_comma => {
                self.chain_comma = true;
                self.last = byte;
            }
            _ => self.push(byte),
        }
    }

    /// A `)` has been written: if it ends a collapsed group, the chain of groups grows.
    fn end_group(&mut self) {
        let group_len = 2 * self.list_limit + b"(...)".len();
        if self.group_limit == 0 || !self.out.ends_with(b"...)") {
            return;
        }
        let Some(start) = self.out.len().checked_sub(group_len) else {
            return;
        };
        if !self.out.get(start..).is_some_and(|group| is_group(group, self.list_limit)) {
            return;
        }
        if self.full_chain && start == self.chain_end && self.chain_comma {
            self.out.truncate(start);
            self.chain_comma = false;
            return;
        }
        let follows = self.chain > 0
            && !self.full_chain
            && start == self.chain_end + 1
            && self.out.get(self.chain_end) == Some(&b',');
        self.chain = if follows { self.chain + 1 } else { 1 };
        self.full_chain = self.chain > self.group_limit;
        if self.full_chain {
            self.out.truncate(self.chain_end);
            self.out.extend_from_slice(b",...");
            self.chain_comma = false;
        }
        self.chain_end = self.out.len();
    }
}

/// Whether `text` is `(`, as many `?,` as the limit says, and `...)`.
fn is_group(text: &[u8], list_limit: usize) -> bool {
    let Some(values) = text.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b"...)")) else {
        return false;
    };
    values.len() == 2 * list_limit && values.chunks(2).all(|pair| pair == b"?,")
}
