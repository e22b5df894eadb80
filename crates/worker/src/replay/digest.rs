//! A sum over what a server says in one result, in any split of its bytes: its columns, and its
//! rows. Numbers of packets, status flags and session state are left out.

use trunkline_protocol::{
    codec::frame::{HEADER_LEN, Header, PAYLOAD_MAX},
    packet::{eof, err, ok},
    response::ReplyFormat,
};

/// What of a result is compared beside its [`Outcome`](trunkline_protocol::response::Outcome).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sums {
    /// Of the columns; `None` where the server has left out what it said before.
    pub(crate) columns: Option<u64>,
    /// Of the rows.
    pub(crate) rows: u64,
}

impl Sums {
    /// Whether two results are the same, as far as can be seen.
    pub(crate) fn agree(self, other: Self) -> bool {
        let columns = self.columns.zip(other.columns);
        self.rows == other.rows && columns.is_none_or(|(one, other)| one == other)
    }
}

/// Where in a result the next packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// The first one: OK, an error, or a number of columns.
    Begin,
    /// Definitions of columns; so many are to come.
    Columns(u64),
    /// The end of the definitions.
    ColumnsEnd,
    Rows,
    /// Nothing more is looked at.
    End,
}

/// Bytes of a number of columns, and of what follows it.
const COUNT_LEN_MAX: usize = 10;
/// A packet that begins as the end of rows does is a row if it is as long as this.
const EOF_LEN_MAX: usize = 9;

/// Sums up a result as it comes.
#[derive(Debug)]
pub(crate) struct Digest {
    format: ReplyFormat,
    at: At,
    /// What has come of a packet's header and of the byte behind it.
    head: [u8; HEADER_LEN],
    head_len: usize,
    /// What is left of the packet whose header has come.
    left: usize,
    /// Its payload goes on in the next packet.
    is_continued: bool,
    /// The next packet goes on with the payload of the last one.
    continues: bool,
    /// How the packet is taken; `None` until its first byte has come.
    takes: Option<Takes>,
    /// A number of columns, as far as it has come.
    count: Vec<u8>,
    columns: Sum,
    has_columns: bool,
    rows: Sum,
}

/// What a packet's payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Count,
    Column,
    Row,
    Nothing,
}

impl Digest {
    pub(crate) fn new(format: ReplyFormat) -> Self {
        Self {
            format,
            at: At::Begin,
            head: [0; HEADER_LEN],
            head_len: 0,
            left: 0,
            is_continued: false,
            continues: false,
            takes: None,
            count: Vec::new(),
            columns: Sum::new(),
            has_columns: false,
            rows: Sum::new(),
        }
    }

    /// The statement is sent, perhaps once more: what came before does not count.
    pub(crate) fn restart(&mut self, format: ReplyFormat) {
        *self = Self::new(format);
    }

    pub(crate) fn sums(&self) -> Sums {
        Sums { columns: self.has_columns.then(|| self.columns.end()), rows: self.rows.end() }
    }

    /// Takes the server's next bytes.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.at != At::End {
            if self.left == 0 && self.takes.is_none() {
                bytes = self.take_head(bytes);
                continue;
            }
            let part = bytes.get(..self.left).unwrap_or(bytes);
            if self.takes.is_none() {
                self.takes = part.first().map(|first| self.classify(*first));
            }
            self.take_part(part);
            bytes = bytes.get(part.len()..).unwrap_or_default();
            self.left -= part.len();
            if self.left == 0 {
                self.packet_over();
            }
        }
    }

    fn take_head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let wanted = HEADER_LEN - self.head_len;
        let part = bytes.get(..wanted).unwrap_or(bytes);
        if let Some(room) = self.head.get_mut(self.head_len..self.head_len + part.len()) {
            room.copy_from_slice(part);
        }
        self.head_len += part.len();
        if self.head_len == HEADER_LEN
            && let Some(header) = Header::read(&self.head)
        {
            self.head_len = 0;
            self.left = header.payload_len;
            self.is_continued = header.payload_len == PAYLOAD_MAX;
            self.takes = None;
            if self.continues {
                self.takes = Some(self.of_stage());
            }
            if self.left == 0 {
                self.takes = Some(self.of_stage());
                self.packet_over();
            }
        }
        bytes.get(part.len()..).unwrap_or_default()
    }

    fn of_stage(&self) -> Takes {
        match self.at {
            At::Begin => Takes::Count,
            At::Columns(_) => Takes::Column,
            At::ColumnsEnd | At::End => Takes::Nothing,
            At::Rows => Takes::Row,
        }
    }

    /// What a packet is that begins with this byte.
    fn classify(&mut self, first: u8) -> Takes {
        let is_end = match self.at {
            At::Begin => matches!(first, ok::HEADER | err::HEADER | eof::HEADER | LOCAL_INFILE),
            At::Columns(_) | At::ColumnsEnd => first == err::HEADER,
            At::Rows if self.format.deprecate_eof => {
                first == err::HEADER || first == eof::HEADER && self.left < PAYLOAD_MAX
            }
            At::Rows => first == err::HEADER || first == eof::HEADER && self.left < EOF_LEN_MAX,
            At::End => true,
        };
        if is_end {
            self.at = At::End;
        }
        self.of_stage()
    }

    fn take_part(&mut self, part: &[u8]) {
        match self.takes {
            Some(Takes::Count) => {
                let room = COUNT_LEN_MAX.saturating_sub(self.count.len());
                self.count.extend_from_slice(part.get(..room).unwrap_or(part));
            }
            Some(Takes::Column) => self.columns.take(part),
            Some(Takes::Row) => self.rows.take(part),
            Some(Takes::Nothing) | None => {}
        }
    }

    /// A packet has come whole.
    fn packet_over(&mut self) {
        self.takes = None;
        self.continues = self.is_continued;
        if self.continues {
            return;
        }
        match self.at {
            At::Begin => self.begin_columns(),
            At::Columns(left) => {
                self.columns.part();
                self.has_columns = true;
                self.at = match left {
                    0 | 1 => self.behind_columns(),
                    left => At::Columns(left - 1),
                };
            }
            At::ColumnsEnd => self.at = At::Rows,
            At::Rows => self.rows.part(),
            At::End => {}
        }
    }

    fn begin_columns(&mut self) {
        let (count, flag) = read_count(&self.count);
        self.columns.take(&count.to_le_bytes());
        self.columns.part();
        let follow = flag.is_none_or(|flag| flag != 0 || !self.format.has_metadata_flag());
        self.at = match follow && count > 0 {
            true => At::Columns(count),
            false => self.behind_columns(),
        };
    }

    fn behind_columns(&self) -> At {
        match self.format.deprecate_eof {
            true => At::Rows,
            false => At::ColumnsEnd,
        }
    }
}

/// First byte of a request for a file of the client's.
const LOCAL_INFILE: u8 = 0xFB;

/// A number of columns, and the byte behind it.
fn read_count(bytes: &[u8]) -> (u64, Option<u8>) {
    let wide = |len: usize| {
        let mut number = [0; 8];
        let digits = bytes.get(1..=len).unwrap_or_default();
        number.iter_mut().zip(digits).for_each(|(to, from)| *to = *from);
        (u64::from_le_bytes(number), bytes.get(1 + len).copied())
    };
    match bytes.first() {
        Some(0xFC) => wide(2),
        Some(0xFD) => wide(3),
        Some(0xFE) => wide(8),
        Some(&small) => (u64::from(small), bytes.get(1).copied()),
        None => (0, None),
    }
}

/// A sum of bytes that does not depend on how they come.
#[derive(Debug, Clone)]
struct Sum {
    sum: u64,
    /// Bytes that are no whole word yet.
    word: [u8; 8],
    held: usize,
    /// Bytes of the part under way.
    len: u64,
}

const SEED: u64 = 0x243F_6A88_85A3_08D3;
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

impl Sum {
    fn new() -> Self {
        Self { sum: SEED, word: [0; 8], held: 0, len: 0 }
    }

    fn mix(&mut self, word: u64) {
        let wide = u128::from(self.sum ^ word) * u128::from(FACTOR);
        let (low, high) = (wide & u128::from(u64::MAX), wide >> 64);
        let folded = u64::try_from(low ^ high).unwrap_or_default();
        // A sum of 0 would swallow what comes.
        self.sum = folded.rotate_left(29).wrapping_add(SEED);
    }

    fn take(&mut self, mut bytes: &[u8]) {
        self.len = self.len.wrapping_add(bytes.len() as u64);
        if self.held > 0 {
            let part = bytes.get(..8 - self.held).unwrap_or(bytes);
            if let Some(room) = self.word.get_mut(self.held..self.held + part.len()) {
                room.copy_from_slice(part);
            }
            self.held += part.len();
            bytes = bytes.get(part.len()..).unwrap_or_default();
            if self.held < 8 {
                return;
            }
            self.held = 0;
            self.mix(u64::from_le_bytes(self.word));
        }
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        if let Some(room) = self.word.get_mut(..rest.len()) {
            room.copy_from_slice(rest);
        }
        self.held = rest.len();
    }

    /// A part is over: what comes next is another one.
    fn part(&mut self) {
        let mut word = [0; 8];
        let held = self.word.get(..self.held).unwrap_or_default();
        word.iter_mut().zip(held).for_each(|(to, from)| *to = *from);
        self.mix(u64::from_le_bytes(word));
        self.mix(self.len.wrapping_add(1));
        (self.held, self.len) = (0, 0);
    }

    fn end(&self) -> u64 {
        let mut last = self.clone();
        last.part();
        last.sum
    }
}

#[cfg(test)]
mod tests {
    use trunkline_protocol::{
        codec::frame::put_payload,
        response::{ReplyFormat, write::put_text_result},
    };

    use super::*;

    fn sums(bytes: &[u8], format: ReplyFormat, step: usize) -> Sums {
        let mut digest = Digest::new(format);
        bytes.chunks(step).for_each(|part| digest.take(part));
        digest.sums()
    }

    fn formats() -> [ReplyFormat; 2] {
        let old = ReplyFormat::default();
        [old, ReplyFormat { deprecate_eof: true, ..old }]
    }

    fn result(columns: &[&str], rows: &[&[Option<&[u8]>]], format: ReplyFormat) -> Vec<u8> {
        let mut out = Vec::new();
        let row = |row: &&[Option<&[u8]>]| row.iter().map(|it| it.map(<[u8]>::to_vec)).collect();
        let rows: Vec<Vec<_>> = rows.iter().map(row).collect();
        put_text_result(&mut out, 1, format, 2, columns, &rows);
        out
    }

    #[test]
    fn a_result_has_one_sum_however_it_is_split() {
        for format in formats() {
            let bytes = result(
                &["a", "longer"],
                &[&[Some(b"1"), None], &[Some(b"22"), Some(b"x")]],
                format,
            );
            let whole = sums(&bytes, format, bytes.len());
            for step in 1..bytes.len() {
                assert_eq!(sums(&bytes, format, step), whole, "{step}");
            }
        }
    }

    #[test]
    fn other_rows_and_columns_have_other_sums() {
        for format in formats() {
            let of = |columns: &[&str], rows: &[&[Option<&[u8]>]]| {
                let bytes = result(columns, rows, format);
                sums(&bytes, format, bytes.len())
            };
            let one = of(&["a"], &[&[Some(b"1")], &[Some(b"2")]]);
            assert!(one.agree(of(&["a"], &[&[Some(b"1")], &[Some(b"2")]])));
            for (what, other) in [
                ("value", of(&["a"], &[&[Some(b"1")], &[Some(b"3")]])),
                ("order", of(&["a"], &[&[Some(b"2")], &[Some(b"1")]])),
                ("fewer", of(&["a"], &[&[Some(b"1")]])),
                ("NULL", of(&["a"], &[&[Some(b"1")], &[None]])),
                ("joined", of(&["a"], &[&[Some(b"12")], &[Some(b"")]])),
                ("name", of(&["b"], &[&[Some(b"1")], &[Some(b"2")]])),
            ] {
                assert!(!one.agree(other), "{what}");
            }
        }
    }

    #[test]
    fn numbers_of_packets_and_status_flags_do_not_count() {
        let [old, _] = formats();
        let mut one = result(&["a"], &[&[Some(b"1")]], old);
        let whole = sums(&one, old, one.len());
        // The flags in the last packet.
        if let Some(flags) = one.last_mut() {
            *flags ^= 0x20;
        }
        let mut number = 7;
        let mut at = 0;
        while let Some(header) = one.get(at..).and_then(Header::read) {
            one[at + 3] = number;
            number += 1;
            at += HEADER_LEN + header.payload_len;
        }
        assert_eq!(sums(&one, old, 3), whole);
    }

    #[test]
    fn an_ok_or_an_error_has_no_rows() {
        for format in formats() {
            for payload in [&b"\x00\x01\x02\x00\x00\x00\x00"[..], b"\xFF\x26\x04#23000Duplicate"] {
                let mut bytes = Vec::new();
                put_payload(&mut bytes, 1, payload);
                assert_eq!(sums(&bytes, format, 2), Digest::new(format).sums());
            }
        }
    }
}
