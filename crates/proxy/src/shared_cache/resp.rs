//! Redis's protocol, as much of it as a cache needs. Source: redis.io, "Redis serialization
//! protocol specification", RESP2.

use std::io::{self, BufRead, Read};

/// The longest line that is not a value, bytes.
const LINE_MAX: u64 = 4_096;
/// A longer value is not skipped: the connection is closed.
const SKIPPED_MAX: u64 = 64 * 1024 * 1024;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// `+OK` and its like.
    Simple,
    /// An error, its code first.
    Error(String),
    /// A number.
    Integer(i64),
    /// A value; `None` when there is none, or it is longer than wanted.
    Value(Option<Vec<u8>>),
}

/// Appends a command.
pub(super) fn put_command(out: &mut Vec<u8>, parts: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", parts.len()).as_bytes());
    for part in parts {
        out.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

/// Reads one answer. Values of more than `value_max` bytes are read over.
///
/// # Errors
/// What the connection says, or `InvalidData` for what is no answer.
pub(super) fn read_answer(input: &mut impl BufRead, value_max: usize) -> io::Result<Answer> {
    let line = read_line(input)?;
    let (kind, rest) = line.split_first().ok_or_else(|| wrong("an empty line"))?;
    let text = std::str::from_utf8(rest).map_err(|_| wrong("bytes that are no text"))?;
    let number = || text.parse::<i64>().map_err(|_| wrong("what should be a number and is none"));
    match kind {
        b'+' => Ok(Answer::Simple),
        b'-' => Ok(Answer::Error(text.to_owned())),
        b':' => Ok(Answer::Integer(number()?)),
        b'$' => match number()? {
            -1 => Ok(Answer::Value(None)),
            len => read_value(input, len, value_max).map(Answer::Value),
        },
        _ => Err(wrong("an answer of a kind that was not asked for")),
    }
}

fn read_line(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    input.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(line.to_vec()),
        None if line.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
        None => Err(wrong("a line without an end")),
    }
}

fn read_value(input: &mut impl BufRead, len: i64, value_max: usize) -> io::Result<Option<Vec<u8>>> {
    let len = u64::try_from(len).ok().filter(|len| *len <= SKIPPED_MAX);
    let len = len.ok_or_else(|| wrong("a value of an impossible length"))?;
    let wanted = usize::try_from(len).ok().filter(|len| *len <= value_max);
    let mut value = Vec::with_capacity(wanted.unwrap_or_default());
    let read = match wanted {
        Some(_) => input.by_ref().take(len).read_to_end(&mut value)? as u64,
        None => io::copy(&mut input.by_ref().take(len), &mut io::sink())?,
    };
    let mut end = [0; 2];
    input.read_exact(&mut end)?;
    match read == len && end == *b"\r\n" {
        true => Ok(wanted.map(|_| value)),
        false => Err(wrong("a value without its end")),
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("Redis sent {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Option<Answer> {
        read_answer(&mut &*bytes, 5).ok()
    }

    #[test]
    fn commands_are_written_with_their_lengths() {
        let mut out = Vec::new();
        put_command(&mut out, &[b"GET", b"a\r\nb"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n");
    }

    #[test]
    fn answers_are_read_and_long_values_passed_over() {
        assert_eq!(read(b"+OK\r\n"), Some(Answer::Simple));
        assert_eq!(read(b"-ERR no\r\n"), Some(Answer::Error("ERR no".to_owned())));
        assert_eq!(read(b":-2\r\n"), Some(Answer::Integer(-2)));
        assert_eq!(read(b"$-1\r\n"), Some(Answer::Value(None)));
        assert_eq!(read(b"$0\r\n\r\n"), Some(Answer::Value(Some(Vec::new()))));
        assert_eq!(read(b"$4\r\n\r\n\r\n\r\n"), Some(Answer::Value(Some(b"\r\n\r\n".to_vec()))));
        let mut input: &[u8] = b"$6\r\n123456\r\n:7\r\n";
        assert_eq!(read_answer(&mut input, 5).ok(), Some(Answer::Value(None)));
        assert_eq!(read_answer(&mut input, 5).ok(), Some(Answer::Integer(7)), "in step");
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for bytes in [
            &b""[..],
            b"\r\n",
            b"+OK",
            b"+OK\n",
            b":x\r\n",
            b"$-2\r\n",
            b"$99999999999\r\n",
            b"$3\r\nab\r\n",
            b"$3\r\nabcd\r\n",
            b"*1\r\n:1\r\n",
            b"HTTP/1.1 200 OK\r\n",
        ] {
            assert_eq!(read(bytes), None, "{}", bytes.escape_ascii());
        }
        let line = [b"+".as_slice(), &[b'a'; 5_000], b"\r\n"].concat();
        assert_eq!(read(&line), None);
    }
}
