//! Digests that depend on the size of the buffer that they are made in.
//!
//! ProxySQL makes a digest in a buffer of as many bytes as the statement has, at most
//! `query_digests_max_query_length`. It fills the buffer with text in which literals are `?`,
//! compresses what is there in three steps (spaces and signs, lists, groups of lists), and goes on
//! filling behind that, until the statement ends or compression frees nothing. Where a round ends
//! shows: a step looks back a fixed number of bytes into what earlier rounds left, and what is read
//! of a number stands in the buffer until its end is seen.
//!
//! Only for texts that may fill the buffer: those that are longer than it, and with
//! `keep_comment` those with a `/*`, which gets a space that the statement did not have. All other
//! digests are made in one pass (the scanner), which has the same outcome then.
//!
//! The buffer is zero where nothing has been written but spaces where it begins: ProxySQL shows
//! memory of an earlier statement there, and we show one space.

use super::class::{is_operator, is_space, is_word};
use super::scan::{LineEnd, line_comment_end};
use super::{Settings, trim_end};

/// Bytes beyond the buffer's size, for what ends the text and for spaces that are overwritten.
const SLACK: usize = 16;
/// The most bytes that are kept of one comment.
const COMMENT_MAX: usize = 1023;
/// How far back the removal of spaces and signs looks.
const SPACES_LOOK_BACK: usize = 6;
/// How far back the collapsing of lists looks, beside the values of a whole list.
const LIST_LOOK_BACK: usize = 8;
/// Steps for each byte of a text, and for each text, after which it counts as too expensive.
const STEPS_PER_BYTE: usize = 32;
const STEPS_MIN: usize = 4 * 1024 * 1024;

/// Where a compression stopped, and how much it freed.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    end: usize,
    freed: usize,
}

/// Makes digests round by round.
#[derive(Debug)]
pub(super) struct Rounds<'a> {
    text: &'a [u8],
    settings: &'a Settings,
    buffer: &'a mut Vec<u8>,
    /// Size of the buffer, without the slack.
    room: usize,
    /// The next byte of the statement.
    at: usize,
    /// Bytes in the buffer.
    len: usize,
    /// The byte before, as far as it decides what the next one begins.
    before: u8,
    /// Where the number begins in the buffer that is being read.
    number: Option<usize>,
    /// Bytes in the buffer when this round began.
    begun: usize,
    /// Bytes that the last round freed in all.
    freed: usize,
    spaces: Step,
    lists: Step,
    groups: Step,
    /// Steps left.
    steps: usize,
}

/// Whether `text` may fill its buffer.
pub(super) fn may_fill(text: &[u8], settings: &Settings) -> bool {
    text.len() > settings.max_query_length
        || settings.keep_comment && memchr::memmem::find(text, b"/*").is_some()
}

/// Writes the digest of `text` to `buffer`, without regard to `max_digest_length`. False if that
/// takes too many steps, with what has been written so far.
pub(super) fn digest(text: &[u8], settings: &Settings, buffer: &mut Vec<u8>) -> bool {
    let room = text.len().min(settings.max_query_length);
    buffer.clear();
    buffer.resize(room + SLACK, b' ');
    let steps = text.len().saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS_MIN);
    let mut rounds = Rounds {
        text,
        settings,
        buffer,
        room,
        at: 0,
        len: 0,
        before: 0,
        number: None,
        begun: 0,
        freed: 0,
        spaces: Step::default(),
        lists: Step::default(),
        groups: Step::default(),
        steps,
    };
    let is_whole = rounds.run();
    let len = rounds.finish();
    buffer.truncate(len);
    is_whole
}

impl Rounds<'_> {
    fn run(&mut self) -> bool {
        loop {
            self.fill();
            let filled = self.len;
            self.compress_spaces();
            if self.settings.grouping_limit > 0 {
                self.compress_lists();
                if self.settings.groups_grouping_limit > 0 {
                    self.compress_groups();
                }
            }
            self.freed = filled.saturating_sub(self.len);
            let is_full = self.len >= self.room || self.freed == 0;
            if self.at >= self.text.len() || is_full {
                return true;
            }
            if self.steps == 0 {
                return false;
            }
            self.begun = self.len;
        }
    }

    /// Length of the text in the buffer, without what goes at its end.
    fn finish(&mut self) -> usize {
        // A number that the buffer has no room for is one nevertheless.
        let cut = self
            .number
            .filter(|start| self.len >= self.room && self.written(*start).is_ascii_digit());
        if let Some(start) = cut {
            self.write(start, b'?');
            self.len = start + 1;
        }
        let text = self.buffer.get(..self.len).unwrap_or_default();
        // Of spaces and semicolons only, the first byte stays.
        let len = trim_end(text).len().max(self.len.min(1));
        memchr::memchr(0, text.get(..len).unwrap_or_default()).unwrap_or(len)
    }

    /// The byte of the statement `ahead` places on, 0 behind its end.
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn is_last(&self) -> bool {
        self.at + 1 == self.text.len()
    }

    /// The byte at this place of the buffer.
    fn written(&self, at: usize) -> u8 {
        self.buffer.get(at).copied().unwrap_or(0)
    }

    fn write(&mut self, at: usize, byte: u8) {
        if let Some(place) = self.buffer.get_mut(at) {
            *place = byte;
        }
    }

    /// Appends a byte that did not stand in the statement like that.
    fn push(&mut self, byte: u8) {
        self.write(self.len, byte);
        self.len += 1;
    }

    /// Appends the statement's next byte.
    fn copy(&mut self) {
        let byte = self.peek(0);
        self.push(match byte {
            _ if is_space(byte) => b' ',
            _ if self.settings.lowercase => byte.to_ascii_lowercase(),
            _ => byte,
        });
        self.skip();
    }

    /// Goes on to the statement's next byte.
    fn skip(&mut self) {
        self.before = self.peek(0);
        self.at += 1;
    }

    /// Fills the buffer, or reads the statement to its end.
    fn fill(&mut self) {
        if self.begun > 0 {
            self.before = self.written(self.len.saturating_sub(1));
        }
        while self.len < self.room && self.at < self.text.len() {
            match self.number {
                Some(start) => self.continue_number(start),
                None => self.begin(),
            }
        }
        self.write(self.len, 0);
    }

    /// Reads what begins here.
    fn begin(&mut self) {
        let (byte, next) = (self.peek(0), self.peek(1));
        let behind_word = is_word(self.before);
        match byte {
            b'/' if next == b'*' && self.at + 1 < self.room => self.block_comment(),
            b'#' => self.line_comment(1),
            b'-' if self.begins_dashes() => self.line_comment(3),
            b'\'' | b'"' => self.string(byte),
            b'0'..=b'9' if !behind_word => self.begin_number(byte),
            b'n' | b'N' if !behind_word && self.settings.replace_null && self.is_null() => {
                self.push(b'?');
                self.before = b'?';
                self.at += 4;
            }
            _ if is_space(byte) => self.space(),
            _ => self.copy(),
        }
    }

    fn begins_dashes(&self) -> bool {
        self.at + 2 < self.room
            && self.peek(1) == b'-'
            && is_space(self.peek(2))
            && (self.before != b'-' || self.at == 0)
    }

    fn is_null(&self) -> bool {
        let word = self.text.get(self.at..self.at + 4).unwrap_or_default();
        word.eq_ignore_ascii_case(b"NULL") && !is_word(self.peek(4))
    }

    fn space(&mut self) {
        if self.len == 0 {
            self.at += 1;
        } else if is_space(self.before) {
            if !is_space(self.written(self.len - 1)) {
                self.len += 1;
            }
            self.before = b' ';
            self.write(self.len, b' ');
            self.at += 1;
        } else {
            self.copy();
        }
    }

    /// Reads a comment up to the end of its line.
    fn line_comment(&mut self, mark: usize) {
        match line_comment_end(self.text, self.at, mark, self.room) {
            LineEnd::Line(end) => {
                self.before = b' ';
                self.at = end;
            }
            LineEnd::Mark(end) => {
                if self.at + mark < end {
                    self.before = self.text.get(end - mark - 1).copied().unwrap_or(0);
                }
                self.at = end;
            }
        }
    }

    /// Reads a `/* */`. Another `/*` inside begins it anew.
    fn block_comment(&mut self) {
        let (mut content, mut command) = (Vec::new(), 0);
        let keep = self.settings.keep_comment;
        while self.at < self.text.len() {
            if self.peek(0) == b'/' && self.peek(1) == b'*' {
                content.clear();
                if keep {
                    content.extend_from_slice(b"/*");
                }
                if self.peek(2) == b'!' {
                    command = 1;
                }
                if self.at + 2 >= self.text.len() {
                    self.at = self.text.len();
                    return;
                }
                self.at += 2 + command;
                if self.at + 1 >= self.room {
                    self.before = b' ';
                    return;
                }
            }
            let byte = self.peek(0);
            if (keep || command == 1) && content.len() < COMMENT_MAX {
                content.push(byte);
            }
            if self.before == b'*' && byte == b'/' {
                self.put_comment(&content, command == 1);
                self.before = b' ';
                self.at += 1;
                return;
            }
            self.skip();
        }
    }

    /// Writes what stays of a comment, and a space behind it.
    fn put_comment(&mut self, content: &[u8], is_command: bool) {
        let keep = self.settings.keep_comment;
        if (keep || is_command) && content.len() >= 2 {
            let end = if keep { content.len() } else { content.len() - 2 };
            let content = content.get(..end).unwrap_or_default();
            let is_skipped = |byte: &u8| matches!(byte, b'0'..=b'9' | b' ' | b'/' | b'*' | b'!');
            if let Some(start) = content.iter().position(|byte| !is_skipped(byte)) {
                let start = if keep { 0 } else { start };
                let room = self.room.saturating_sub(self.len);
                content.iter().skip(start).take(room).for_each(|&byte| self.push(byte));
            }
        }
        if self.len > 0 && self.len != self.room && self.written(self.len - 1) != b' ' {
            self.push(b' ');
        }
    }

    fn string(&mut self, quote: u8) {
        let start = self.at;
        self.skip();
        while self.at < self.text.len() {
            let byte = self.peek(0);
            let (is_quote, is_escape) = (byte == quote, byte == b'\\');
            let before = self.before;
            if self.at > start + 1
                && (before == b'\\' && (is_escape || is_quote) || before == quote && is_quote)
            {
                self.at += 1;
                self.before = b'X';
            } else if is_quote && (self.is_last() || self.peek(1) != quote) {
                self.push(b'?');
                self.at += 1;
                self.before = 0;
                return;
            } else {
                self.skip();
            }
        }
    }

    fn begin_number(&mut self, digit: u8) {
        self.number = Some(self.len);
        self.write(self.len, digit);
    }

    /// One more byte of a number, of which the buffer has what stands before it.
    fn continue_number(&mut self, start: usize) {
        let byte = self.peek(0);
        let is_sign = matches!(byte, b'+' | b'-') && matches!(self.before, b'e' | b'E');
        let ends = !is_word(byte) && byte != b'.' && !is_sign;
        if !ends && !self.is_last() {
            return self.copy();
        }
        if !self.is_number(start) {
            self.number = None;
            return;
        }
        self.len = start;
        self.push(b'?');
        self.before = b'?';
        if is_word(byte) && self.is_last() {
            // The number is not over for what follows: its `?` is not compressed.
            return self.skip();
        }
        self.number = None;
    }

    /// Whether what the buffer has from `start` on is a number. A single byte is looked at where it
    /// has been written, though it does not count yet.
    fn is_number(&self, start: usize) -> bool {
        match self.buffer.get(start..self.len) {
            None | Some([]) => self.written(start).is_ascii_digit(),
            Some(bytes) => super::scan::is_number(bytes),
        }
    }

    /// Where what can be compressed ends: before a number that is being read.
    fn end(&self) -> usize {
        self.number.unwrap_or(self.len)
    }

    /// Where a step begins that looks `back` bytes behind `before`, where it has ended last time.
    fn start(&mut self, before: Option<usize>, back: usize, end: usize) -> usize {
        let start = match before.and_then(|before| before.checked_sub(back)) {
            Some(start) if self.begun > 0 && start + 1 < end => start,
            _ => 0,
        };
        self.steps = self.steps.saturating_sub(end.saturating_sub(start));
        start
    }

    /// Where a step has ended, less what the others freed of what it left.
    fn moved(&self, step: Step) -> Option<usize> {
        (step.end + step.freed).checked_sub(self.freed)
    }

    /// The compressed text ends at `to`; a number that is being read follows it.
    fn close(&mut self, to: usize, end: usize) -> Step {
        match self.number {
            Some(start) => {
                let digits = self.len.saturating_sub(start);
                if start + digits <= self.buffer.len() && to <= start {
                    self.buffer.copy_within(start..start + digits, to);
                }
                self.number = Some(to);
                self.len = to + digits;
            }
            None => self.len = to,
        }
        self.write(self.len, 0);
        Step { end: to, freed: end.saturating_sub(to) }
    }

    /// Writes the byte at `from` to `to`, and goes on with both.
    fn keep(&mut self, from: &mut usize, to: &mut usize) {
        let byte = self.written(*from);
        self.write(*to, byte);
        *from += 1;
        *to += 1;
    }

    /// Removes spaces and signs. Bytes before the current one are looked at where they stood, which
    /// may have been overwritten since.
    fn compress_spaces(&mut self) {
        let end = self.end();
        let mut from = self.start(self.moved(self.spaces), SPACES_LOOK_BACK, end);
        let mut to = from;
        while from < end {
            let byte = self.written(from);
            let last = if from > 0 { self.written(from - 1) } else { b'0' };
            let last_but_one = if from > 1 { self.written(from - 2) } else { b'0' };
            let next = self.written(from + 1);
            let drops = match byte {
                b' ' => self.drops_space(last_but_one, last, next),
                b'+' | b'-' => drops_sign(last_but_one, last, next),
                b'0'..=b'9' if self.settings.no_digits => {
                    if to > 0 && self.written(to - 1) != b'?' {
                        self.write(to, b'?');
                        to += 1;
                    }
                    true
                }
                _ => false,
            };
            if drops {
                from += 1;
            } else {
                self.keep(&mut from, &mut to);
            }
        }
        self.spaces = self.close(to, end);
    }

    /// Replaces the values of a list beyond the limit with `...`.
    fn compress_lists(&mut self) {
        let end = self.end();
        let limit = usize::from(self.settings.grouping_limit);
        let mut from = self.start(self.moved(self.lists), 2 * limit + LIST_LOOK_BACK, end);
        let mut to = from;
        let mut in_parens = false;
        while from < end {
            if in_parens && to > 4 && self.has(to - 4, b",...") && from + 1 < end {
                let behind = self.behind_values(&mut from, end);
                if self.number.is_some()
                    && behind + 1 >= end
                    && self.written(behind).is_ascii_digit()
                {
                    // What is left are digits of the number, which follow anyway.
                    break;
                }
            }
            let byte = self.written(from);
            let fits = from + 2 * limit + 1 < end;
            if in_parens && fits && self.begins_list(from) {
                self.compress_list(&mut from, &mut to, end);
            } else {
                self.keep(&mut from, &mut to);
            }
            match byte {
                b'(' => in_parens = true,
                b')' => in_parens = false,
                _ => {}
            }
        }
        self.lists = self.close(to, end);
    }

    /// Leaves values out that follow a `...`, and tells where they end.
    fn behind_values(&self, from: &mut usize, end: usize) -> usize {
        let mut at = *from + usize::from(self.written(*from) == b',');
        let mut is_last = false;
        while at + 1 < end {
            if self.has(at, b"?,") {
                at += 2;
                continue;
            }
            if self.has(at, b"?)") {
                at += 1;
                is_last = true;
            }
            break;
        }
        if at > *from + 1 || is_last {
            *from = at;
        }
        at
    }

    /// Whether two values begin here, and not behind an operator.
    fn begins_list(&self, at: usize) -> bool {
        self.has(at, b"?,?")
            && matches!(self.written(at + 3), b',' | b')')
            && !at.checked_sub(1).is_some_and(|before| is_operator(self.written(before)))
    }

    fn compress_list(&mut self, from: &mut usize, to: &mut usize, end: usize) {
        let limit = usize::from(self.settings.grouping_limit);
        let (mut at, mut pairs, mut is_closed) = (*from, 0, false);
        while at + 1 < end {
            if !self.has(at, b"?,") {
                is_closed = self.written(at + 1) == b')';
                break;
            }
            at += 2;
            pairs += 1;
        }
        let is_long = 2 * pairs + usize::from(is_closed) >= 2 * limit + 3;
        for _ in 0..if is_long { pairs.min(limit) } else { pairs } {
            self.put(to, b"?,");
        }
        *from = match (is_long, is_closed) {
            (false, _) => at,
            (true, true) => at + 1,
            (true, false) => at - 1,
        };
        if is_long && pairs > limit {
            self.put(to, b"...");
        }
    }

    /// Replaces the groups of a chain beyond the limit with `...`.
    fn compress_groups(&mut self) {
        let end = self.end();
        let values = usize::from(self.settings.grouping_limit);
        let limit = usize::from(self.settings.groups_grouping_limit);
        let group = [b"(", "?,".repeat(values).as_bytes(), b"...)"].concat();
        // A group and the comma behind it.
        let len = group.len() + 1;
        let mut from = self.start(Some(self.groups.end), len * (limit + 2), end);
        let mut to = from;
        while from < end {
            if to > 5 && self.has(to - 5, b"),...") {
                let comma = usize::from(matches!(self.written(from), b',' | b' '));
                let mut at = from + comma;
                while at + group.len() <= end && self.has(at, &group) {
                    at += if at + len == end { group.len() } else { len };
                }
                if at > from + 1 {
                    from = at - 1;
                    continue;
                }
                if at + 1 >= end {
                    break;
                }
            }
            if from + len * (limit + 1) <= end + 1 && self.has(from, b"(?,") {
                let (mut at, mut groups) = (from, 0);
                while at + group.len() <= end && self.has(at, &group) {
                    at += group.len();
                    at += usize::from(self.written(at) == b',');
                    groups += 1;
                }
                if groups > limit {
                    self.buffer.copy_within(from..from + len * limit, to);
                    to += len * limit;
                    self.put(&mut to, b"...");
                    from = at;
                }
            }
            if from < end {
                self.keep(&mut from, &mut to);
            }
        }
        self.groups = self.close(to, end);
    }

    /// Whether the buffer has these bytes at this place.
    fn has(&self, at: usize, bytes: &[u8]) -> bool {
        self.buffer.get(at..).is_some_and(|rest| rest.starts_with(bytes))
    }

    /// Writes bytes to `to`, and goes on with it.
    fn put(&mut self, to: &mut usize, bytes: &[u8]) {
        for &byte in bytes {
            self.write(*to, byte);
            *to += 1;
        }
    }

    fn drops_space(&self, last_but_one: u8, last: u8, next: u8) -> bool {
        if last == b'(' || next == b')' {
            return true;
        }
        if is_operator(last) && next == b'?' || last == b',' || next == b',' {
            return !(self.settings.keep_comment && last_but_one == b'*' && last == b'/');
        }
        is_operator(next) && last == b'?'
    }
}

/// Whether a `+` or `-` is taken for the sign of a value.
fn drops_sign(last_but_one: u8, last: u8, next: u8) -> bool {
    let opens_value = matches!(next, b'?' | b' ');
    let before = if last == b' ' { last_but_one } else { last };
    if is_word(before) {
        return last == b' ';
    }
    !matches!(before, b'?' | b')') && opens_value
}
