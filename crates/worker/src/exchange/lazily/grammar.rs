//! Whether a text is, to its last byte, one of those that the proxy answers in place of a server.
//!
//! What a text does to transactions is found by the words that it begins with. That is enough to
//! send it, as a server still reads all of it. `COMMIT TRANSACTION` is a syntax error, behind which
//! the transaction is open.

/// Words of the longest text: `COMMIT WORK AND NO CHAIN NO RELEASE`.
const WORDS_MAX: usize = 7;

/// Whether any server carries this text out: `BEGIN`, `START TRANSACTION`, `COMMIT`, `ROLLBACK` or
/// `SET autocommit`, with what may follow. `may_be_oracle`: in MariaDB's ORACLE mode, `BEGIN`
/// begins a block. Forms that are left out go to a server.
pub(super) fn is_exact(text: &[u8], may_be_oracle: bool) -> bool {
    let mut room = [&b""[..]; WORDS_MAX];
    let Some(words) = words(text, &mut room) else { return false };
    let Some((first, rest)) = words.split_first() else { return false };
    let is = |word: &[u8], expected: &str| word.eq_ignore_ascii_case(expected.as_bytes());
    let are = |expected: &[&str]| {
        rest.len() == expected.len() && rest.iter().zip(expected).all(|(word, it)| is(word, it))
    };
    match () {
        () if is(first, "BEGIN") => !may_be_oracle && (are(&[]) || are(&["WORK"])),
        () if is(first, "START") => {
            are(&["TRANSACTION"])
                || are(&["TRANSACTION", "READ", "ONLY"])
                || are(&["TRANSACTION", "READ", "WRITE"])
        }
        () if is(first, "COMMIT") || is(first, "ROLLBACK") => {
            let rest = without(rest, &["WORK"]);
            let rest = without(rest, &["AND", "NO", "CHAIN"]);
            without(rest, &["NO", "RELEASE"]).is_empty()
        }
        () if is(first, "SET") => sets_autocommit(rest),
        () => false,
    }
}

/// What is left of words that may begin with these.
fn without<'a, 'b>(words: &'a [&'b [u8]], begin: &[&str]) -> &'a [&'b [u8]] {
    let is = |(word, it): (&&[u8], &&str)| word.eq_ignore_ascii_case(it.as_bytes());
    match words.split_at_checked(begin.len()) {
        Some((found, rest)) if found.iter().zip(begin).all(is) => rest,
        _ => words,
    }
}

/// Whether these words follow the `SET` of an assignment to `autocommit` alone.
fn sets_autocommit(words: &[&[u8]]) -> bool {
    const NAMES: [&str; 3] = ["autocommit", "@@autocommit", "@@session.autocommit"];
    const VALUES: [&str; 6] = ["0", "1", "on", "off", "true", "false"];
    let is_one = |word: &[u8], of: &[&str]| {
        of.iter().any(|expected| word.eq_ignore_ascii_case(expected.as_bytes()))
    };
    let (names, words) = match words {
        [scope, rest @ ..] if is_one(scope, &["SESSION", "LOCAL"]) => (&NAMES[..1], rest),
        all => (&NAMES[..], all),
    };
    matches!(words, [name, b"=" | b":=", value]
        if is_one(name, names) && is_one(value, &VALUES))
}

/// The words of a text, and its signs of assignment; `None` where it has others, or more. Servers
/// take semicolons and white space off the end.
fn words<'a, 'b>(text: &'a [u8], room: &'b mut [&'a [u8]; WORDS_MAX]) -> Option<&'b [&'a [u8]]> {
    let is_end = |byte: &u8| *byte == b';' || is_space(*byte);
    let len = text.iter().rposition(|byte| !is_end(byte)).map_or(0, |last| last + 1);
    let mut rest = text.get(..len)?;
    let mut count = 0;
    while let Some(&first) = rest.first() {
        if is_space(first) {
            rest = rest.get(1..)?;
            continue;
        }
        if let Some(comment) = rest.strip_prefix(b"/*") {
            // What is code for some servers, or a hint.
            if matches!(comment.first()?, b'!' | b'M' | b'm' | b'+') {
                return None;
            }
            let len = comment.windows(2).position(|two| two == b"*/")?;
            rest = comment.get(len + 2..)?;
            continue;
        }
        let len = match first {
            b'=' => 1,
            b':' if rest.starts_with(b":=") => 2,
            _ => rest.iter().position(|byte| !is_of_word(*byte)).unwrap_or(rest.len()),
        };
        let (word, behind) = rest.split_at_checked(len).filter(|_| len > 0)?;
        *room.get_mut(count)? = word;
        count += 1;
        rest = behind;
    }
    room.get(..count)
}

/// White space in any character set.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C)
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'@' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_server_carries_out_is_exact() {
        for text in [
            "BEGIN",
            "begin work ;",
            "BEGIN;;",
            "BEGIN; ;\n",
            "/* app */ START/**/TRANSACTION /* x */",
            "START TRANSACTION READ\tONLY",
            "start transaction read write",
            "COMMIT",
            "COMMIT WORK",
            "COMMIT NO RELEASE",
            "ROLLBACK AND NO CHAIN",
            "ROLLBACK WORK AND NO CHAIN NO RELEASE",
            "SET autocommit=0",
            "SET AUTOCOMMIT := on",
            "SET LOCAL autocommit = false",
            "SET @@session.autocommit = 1;",
        ] {
            assert!(is_exact(text.as_bytes(), false), "{text}");
        }
    }

    #[test]
    fn what_a_server_may_refuse_or_read_otherwise_is_left_to_it() {
        for text in [
            "",
            ";",
            "BEGIN WORK WORK",
            "BEGIN TRANSACTION",
            "BEGIN READ ONLY",
            "BEGIN;x",
            "BEGIN\0",
            "BEGIN /*",
            "BEGIN /*! WORK */",
            "BEGIN /*M! WORK */",
            "/*!BEGIN*/",
            "BEGIN -- x",
            "BEGIN #x",
            "BEGIN; /* x */",
            "`BEGIN`",
            "START TRANSACTION WORK",
            "START TRANSACTION READ",
            "START TRANSACTION ,",
            "START TRANSACTION READ ONLY,",
            "START TRANSACTION (READ ONLY)",
            "START TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "START TRANSACTION READ ONLY, ISOLATION LEVEL SERIALIZABLE",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            "COMMIT TRANSACTION",
            "COMMIT 1",
            "COMMIT COMMIT",
            "COMMIT NO CHAIN",
            "COMMIT NO RELEASE AND NO CHAIN",
            "COMMIT PREPARED 'x'",
            "COMMIT AND CHAIN",
            "ROLLBACK TRANSACTION",
            "ROLLBACK 's'",
            "ROLLBACK TO s",
            "ROLLBACK WORK AND NO CHAIN NO RELEASE x",
            "SET autocommit 0",
            "SET SESSION @@autocommit=0",
            "SET autocommit=0, sql_mode=''",
            "SET autocommit=DEFAULT",
            "SET autocommit=-1",
            "SET autocommit='0'",
            "SELECT 1",
        ] {
            assert!(!is_exact(text.as_bytes(), false), "{text}");
        }
    }

    #[test]
    fn begin_may_be_a_block() {
        for (text, expected) in
            [("BEGIN", false), ("BEGIN WORK", false), ("START TRANSACTION", true), ("COMMIT", true)]
        {
            assert_eq!(is_exact(text.as_bytes(), true), expected, "{text}");
        }
    }
}
