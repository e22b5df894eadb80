//! Takes secrets out of texts: those that are known, and what looks like one.

use std::collections::HashMap;

use trunkline_topology::Password;

/// What stands in place of a secret.
pub(super) const REMOVED: &str = "[removed]";
/// Shorter secrets are not looked for: they would be found in every text. The places that hold
/// secrets are left out whatever is there.
const KNOWN_LEN_MIN: usize = 4;
/// Passwords that everybody knows, which are also words of variables and tables.
const PUBLIC: [&str; 3] = ["admin", "stats", "monitor"];
/// Words in the names of keys whose values are secrets.
const SECRET_WORDS: [&str; 8] = [
    "password",
    "passwd",
    "secret",
    "token",
    "credential",
    "auth_string",
    "authentication_string",
    "private_key",
];

/// Whether a key, column or variable of this name holds a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // Paths of files are no secrets, nor are limits and times.
    let is_about = ["_file", "_path", "_max", "_timeout", "_lifetime"];
    !is_about.iter().any(|end| name.ends_with(end))
        && SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// The secrets that are known, in each form in which a text may have them.
#[derive(Default)]
pub struct Secrets {
    /// By their first four bytes; the longest first.
    known: HashMap<[u8; KNOWN_LEN_MIN], Vec<Vec<u8>>>,
}

impl Secrets {
    /// None is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// A secret that no text may have.
    pub fn add(&mut self, secret: &str) {
        self.add_bytes(secret.as_bytes());
    }

    /// A secret that need not be a text.
    pub fn add_bytes(&mut self, secret: &[u8]) {
        if secret.len() < KNOWN_LEN_MIN || PUBLIC.iter().any(|word| word.as_bytes() == secret) {
            return;
        }
        let lossy = String::from_utf8_lossy(secret);
        let json = serde_json::Value::from(lossy.as_ref()).to_string();
        let hex = secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let percent = secret.iter().map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) => {
                char::from(*byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        });
        let forms = [
            secret.to_vec(),
            lossy.as_bytes().to_vec(),
            json.trim_matches('"').as_bytes().to_vec(),
            hex.to_ascii_uppercase().into_bytes(),
            hex.into_bytes(),
            percent.collect::<String>().into_bytes(),
            base64(secret).into_bytes(),
        ];
        for form in forms {
            let Some(head) = form.first_chunk().copied() else { continue };
            let same: &mut Vec<Vec<u8>> = self.known.entry(head).or_default();
            let at = same.partition_point(|other| other.len() > form.len());
            if !same.contains(&form) {
                same.insert(at, form);
            }
        }
    }

    /// A password of a user, as it is or as its hash.
    pub fn add_password(&mut self, password: &Password) {
        match password {
            Password::Clear(clear) => self.add(clear.expose()),
            Password::NativeHash(hash) => self.add_bytes(hash.expose()),
            Password::Sha2Hash(hash) | Password::Sha256Hash(hash) => self.add_bytes(hash.expose()),
            Password::ParsecKey(key) => self.add_bytes(key.expose()),
            Password::Ed25519Key(key) => self.add_bytes(key.expose()),
            Password::Servers | Password::Nobodys => {}
        }
    }

    /// A text without secrets: known ones, credentials in URLs, password hashes, private keys, and
    /// the values of keys that are named like secrets.
    pub fn without(&self, text: &str) -> String {
        let text = self.without_known(text);
        let text = without_private_keys(&text);
        let text = without_credentials_of_urls(&text);
        let text = without_hashes(&text);
        without_named(&text)
    }

    fn without_known(&self, text: &str) -> String {
        let bytes = text.as_bytes();
        let mut kept = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let same = rest.first_chunk().and_then(|head| self.known.get(head));
            let found = same.and_then(|same| same.iter().find(|secret| rest.starts_with(secret)));
            match found {
                Some(secret) => {
                    kept.extend_from_slice(REMOVED.as_bytes());
                    at += secret.len();
                }
                None => {
                    kept.extend(rest.first());
                    at += 1;
                }
            }
        }
        String::from_utf8_lossy(&kept).into_owned()
    }
}

/// Blocks of PEM that hold a private key.
fn without_private_keys(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN ";
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, block)) = rest.split_once(BEGIN) {
        kept.push_str(before);
        let label = block.split("-----").next().unwrap_or_default();
        if !label.contains("PRIVATE KEY") {
            kept.push_str(BEGIN);
            rest = block;
            continue;
        }
        kept.push_str(REMOVED);
        // A block without an end takes the rest with it.
        let end = format!("-----END {label}-----");
        rest = block.split_once(&end).map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept
}

/// `scheme://user:password@host`: the part before the `@`.
fn without_credentials_of_urls(text: &str) -> String {
    const SEPARATOR: &str = "://";
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(SEPARATOR) {
        kept.push_str(before);
        kept.push_str(SEPARATOR);
        let ends = |c: char| c.is_whitespace() || "/?#\"'`<>\\".contains(c);
        let (authority, _) = after.split_at(after.find(ends).unwrap_or(after.len()));
        rest = match authority.rfind('@') {
            Some(at) => {
                kept.push_str(REMOVED);
                after.get(at..).unwrap_or_default()
            }
            // A password may have any of those signs, if nobody has escaped it.
            None => match user_with_odd_password(after) {
                Some(at) => {
                    kept.push_str(REMOVED);
                    after.get(at..).unwrap_or_default()
                }
                None => after,
            },
        };
    }
    kept.push_str(rest);
    kept
}

/// Where the `@` behind `user:password` is, if the password has signs that should be escaped.
fn user_with_odd_password(after: &str) -> Option<usize> {
    let word = after.split(|c: char| c.is_whitespace() || "\"'`<>".contains(c)).next()?;
    let at = word.rfind('@')?;
    word.get(..at)?.contains(':').then_some(at)
}

/// Hashes of passwords as servers store them: `*` and 40 hex digits, `$A$005$…`, `$5$…`.
fn without_hashes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['*', '$']) {
        let (before, hash) = rest.split_at(at);
        kept.push_str(before);
        match hash_len(hash) {
            Some(len) => {
                kept.push_str(REMOVED);
                rest = hash.get(len..).unwrap_or_default();
            }
            None => {
                let (sign, after) = hash.split_at(1);
                kept.push_str(sign);
                rest = after;
            }
        }
    }
    kept.push_str(rest);
    kept
}

/// How long the hash is that a text begins with.
fn hash_len(text: &str) -> Option<usize> {
    /// `$A$005$`, 20 bytes of salt, 43 of the digest; the salt may have any bytes.
    const CACHING_SHA2_CHARS: usize = 7 + 20 + 43;
    let after = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    if let Some(digits) = text.strip_prefix('*') {
        let count = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
        return (count >= 40).then_some(1 + count);
    }
    if text.starts_with("$A$") {
        return Some(after(CACHING_SHA2_CHARS));
    }
    ["$5$", "$6$", "$2a$", "$2b$", "$2y$", "$argon2"]
        .iter()
        .any(|mark| text.starts_with(mark))
        .then(|| {
            text.find(|c: char| c.is_whitespace() || "\"'`,;".contains(c)).unwrap_or(text.len())
        })
}

/// The values of keys named like secrets (`password = …`, `"token": "…"`), and what stands behind
/// `Bearer`.
fn without_named(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let mut line = line.to_owned();
        let mut from = 0;
        while let Some((begin, end)) = named_value(&line, from) {
            line.replace_range(begin..end, REMOVED);
            from = begin + REMOVED.len();
        }
        line
    });
    lines.collect()
}

/// Where the next such value of a line begins and ends.
fn named_value(line: &str, from: usize) -> Option<(usize, usize)> {
    let lower = line.to_ascii_lowercase();
    let words = SECRET_WORDS.iter().chain(&["bearer"]);
    let places = words.flat_map(|word| lower.match_indices(word));
    let mut places: Vec<(usize, &str)> = places.filter(|(at, _)| *at >= from).collect();
    places.sort_unstable();
    places.into_iter().find_map(|(at, word)| value_behind(line, at, word))
}

fn value_behind(line: &str, at: usize, word: &str) -> Option<(usize, usize)> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let rest = line.get(at..)?;
    let name_end = at + rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
    let name_begin = line.get(..at)?.rfind(|c: char| !is_name(c)).map_or(0, |found| found + 1);
    let behind = line.get(name_end..)?;
    let value = match word {
        "bearer" => behind.trim_start(),
        _ if !is_secret_name(line.get(name_begin..name_end)?) => return None,
        _ => {
            let sign = behind.trim_start_matches(['"', '\'', '`', '\\']).trim_start();
            let value = sign.strip_prefix("=>").or_else(|| sign.strip_prefix(['=', ':']))?;
            value.trim_start_matches([' ', '\t'])
        }
    };
    let begin = line.len().checked_sub(behind.len())? + (behind.len() - value.len());
    let quote = value.chars().next().filter(|c| "\"'`".contains(*c));
    let (begin, end) = match quote {
        Some(quote) => {
            let inner = value.get(1..)?;
            (begin + 1, begin + 1 + closing(inner, quote))
        }
        None => {
            let ends = |c: char| c.is_whitespace() || ",;})]\"'`".contains(c);
            (begin, begin + value.find(ends).unwrap_or(value.len()))
        }
    };
    let found = line.get(begin..end)?;
    // In JSON, numbers count something and are no secrets.
    let is_count = behind.starts_with('"') && quote.is_none();
    let is_gone = found.is_empty() || REMOVED.starts_with(found);
    (!is_gone && !is_count).then_some((begin, end))
}

/// Where a text in quotes ends; a text without an end takes the rest with it.
fn closing(inner: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in inner.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            // Within a word it is an apostrophe, or the rest of a value that has one.
            c if c == quote && !(quote == '\'' && is_letter_at(inner, at + 1)) => return at,
            _ => {}
        }
    }
    inner.len()
}

fn is_letter_at(text: &str, at: usize) -> bool {
    text.get(at..).is_some_and(|rest| rest.starts_with(char::is_alphanumeric))
}

/// A server's error without what it quotes. Servers do not escape quotes there, so that a value
/// may end anywhere: all from the first quote to the last one goes.
pub fn without_quoted(text: &str) -> String {
    const QUOTES: [char; 2] = ['\'', '"'];
    let Some(first) = text.find(QUOTES) else { return text.to_owned() };
    let last = text.rfind(QUOTES).filter(|last| *last > first);
    let before = text.get(..first).unwrap_or_default();
    let behind = last.and_then(|last| text.get(last + 1..)).unwrap_or_default();
    format!("{before}'?'{behind}")
}

/// A text without what is in quotes: patterns of rules and lines of the log may hold values of
/// statements. An apostrophe within a word is none.
pub fn without_literals(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\'', '"']) {
        let (before, quoted) = rest.split_at(at);
        kept.push_str(before);
        let quote = quoted.chars().next().unwrap_or('\'');
        let inner = quoted.get(1..).unwrap_or_default();
        let is_in_word = before.ends_with(char::is_alphanumeric)
            && inner.starts_with(char::is_alphanumeric)
            && quote == '\'';
        if is_in_word {
            kept.push(quote);
            rest = inner;
            continue;
        }
        kept.push(quote);
        kept.push('?');
        kept.push(quote);
        let end = closing(inner, quote);
        rest = inner.get(end + 1..).unwrap_or_default();
    }
    kept.push_str(rest);
    kept
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |group: u32, at: u32| {
        let index = usize::try_from((group >> (18 - 6 * at)) & 63).unwrap_or_default();
        char::from(DIGITS.get(index).copied().unwrap_or(b'='))
    };
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        // The padding is left out: what follows a secret may be part of the same text.
        let digits = u32::try_from(chunk.len()).unwrap_or(3) + 1;
        text.extend((0..digits).map(|at| digit(group, at)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_secrets_are_found_in_every_form() {
        let mut secrets = Secrets::new();
        secrets.add("p\"ss wörd/1");
        secrets.add("ab");
        secrets.add("monitor");
        let check = |text: &str, expected: &str| assert_eq!(secrets.without(text), expected);
        check("a p\"ss wörd/1 b", "a [removed] b");
        check(r#"{"x":"p\"ss wörd/1"}"#, r#"{"x":"[removed]"}"#);
        check("?x=p%22ss%20w%C3%B6rd%2F1&y", "?x=[removed]&y");
        check("702273732077c3b67264 2f31", "702273732077c3b67264 2f31");
        check("x702273732077c3b672642f31x", "x[removed]x");
        check("cCJzcyB3w7ZyZC8x", "[removed]");
        // Too short, or everybody's.
        check("abcd monitor_username", "abcd monitor_username");
    }

    #[test]
    fn what_looks_like_a_secret_is_none_any_more() {
        let secrets = Secrets::new();
        let check = |text: &str, expected: &str| assert_eq!(secrets.without(text), expected);
        check("at mysql://me:pw@h:1/x", "at mysql://[removed]@h:1/x");
        check("redis://u:a/b@h:1 http://h/@x", "redis://[removed]@h:1 http://h/@x");
        check("http://127.0.0.1:6070/x", "http://127.0.0.1:6070/x");
        check("x *0123456789ABCDEF0123456789ABCDEF01234567.", "x [removed].");
        check("5 * 3, count(*), $1", "5 * 3, count(*), $1");
        check("h $5$salt$digest, y", "h [removed], y");
        check(
            "key -----BEGIN RSA PRIVATE KEY-----\nab\n-----END RSA PRIVATE KEY-----\nz",
            "key [removed]\nz",
        );
        check("-----BEGIN PRIVATE KEY-----\nab", "[removed]");
        check("-----BEGIN CERTIFICATE-----\nab", "-----BEGIN CERTIFICATE-----\nab");
        check("Authorization: Bearer abc.def x", "Authorization: Bearer [removed] x");
        check("http_api_token = \"a\\\"b\"\nx", "http_api_token = \"[removed]\"\nx");
        check(
            r#"{"password":"x","a":1,"tokens": 5}"#,
            r#"{"password":"[removed]","a":1,"tokens": 5}"#,
        );
        check("PASSWORD=a;token:b", "PASSWORD=[removed];token:[removed]");
        check("tls_key_password_file = \"a/b\"", "tls_key_password_file = \"a/b\"");
        check("wrong password for user", "wrong password for user");
    }

    #[test]
    fn nothing_that_a_servers_error_quotes_is_left() {
        let check = |text: &str, expected: &str| assert_eq!(without_quoted(text), expected);
        check("Duplicate entry 'o' reilly' for key 'x'", "Duplicate entry '?'");
        check("near 'SELECT 'secret'' at line 1", "near '?' at line 1");
        check("Unknown column 'a", "Unknown column '?'");
        check("Lost connection", "Lost connection");
    }

    #[test]
    fn literals_are_told_from_apostrophes() {
        let check = |text: &str, expected: &str| assert_eq!(without_literals(text), expected);
        check("Duplicate entry 'a\\'b' for key 'x'", "Duplicate entry '?' for key '?'");
        check("it doesn't say \"this\"", "it doesn't say \"?\"");
        check("WHERE a = 'open", "WHERE a = '?'");
        check("Duplicate entry 'o'reilly@x.org' for key 'x'", "Duplicate entry '?' for key '?'");
        check("", "");
    }
}
