//! Public keys that are known to be servers' own.

/// The most keys that are pinned together.
const KEYS_MAX: usize = 64;
/// The longest key, base64 digits: 16,384 bits are 2,800.
const KEY_LEN_MAX: usize = 4_096;
/// The shortest key, base64 digits: 1,024 bits are 216.
const KEY_LEN_MIN: usize = 128;
const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";

/// RSA keys that servers may ask for a password with: it is encrypted with one, or not sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PinnedKeys {
    /// The base64 digits of each, without white space.
    keys: Vec<Box<str>>,
}

impl PinnedKeys {
    /// Whether a configuration gives the keys themselves, and not the path of a file with them.
    pub fn is_inline(text: &str) -> bool {
        text.contains("-----BEGIN")
    }

    /// Reads keys in PEM (`-----BEGIN PUBLIC KEY-----`), one behind the other.
    ///
    /// # Errors
    /// What is wrong: there is none, or it is no public key.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.contains("PRIVATE KEY-----") {
            return Err("holds a private key, which only the server needs; public_key.pem of its \
                        data directory is the public one"
                .to_owned());
        }
        let mut keys = Vec::new();
        let mut rest = text;
        while let Some((_, behind)) = rest.split_once(BEGIN) {
            let (body, after) = behind.split_once(END).ok_or(format!("has no `{END}`"))?;
            keys.push(digits(body).ok_or("holds a public key that is damaged")?);
            rest = after;
        }
        match keys.len() {
            0 => Err(format!("holds no public key (`{BEGIN}`)")),
            1..=KEYS_MAX => Ok(Self { keys }),
            count => Err(format!("holds {count} keys, and {KEYS_MAX} are the most")),
        }
    }

    /// Whether no key is known.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key that a server has sent, in PEM, if it is one of these.
    pub fn find(&self, sent: &[u8]) -> Option<Vec<u8>> {
        let sent = Self::parse(std::str::from_utf8(sent).ok()?).ok()?;
        let [sent] = sent.keys.as_slice() else { return None };
        let known = self.keys.iter().find(|known| *known == sent)?;
        let mut pem = format!("{BEGIN}\n");
        for (at, digit) in known.chars().enumerate() {
            if at > 0 && at % 64 == 0 {
                pem.push('\n');
            }
            pem.push(digit);
        }
        pem.push('\n');
        pem.push_str(END);
        pem.push('\n');
        Some(pem.into_bytes())
    }
}

/// The base64 digits of a key without white space; `None` when they are none.
fn digits(body: &str) -> Option<Box<str>> {
    let digits: String = body.chars().filter(|char| !char.is_ascii_whitespace()).collect();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let is_key =
        (KEY_LEN_MIN..=KEY_LEN_MAX).contains(&digits.len()) && digits.bytes().all(is_digit);
    is_key.then(|| digits.into_boxed_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(digit: char, newline: &str) -> String {
        let line = digit.to_string().repeat(64);
        [BEGIN, &line, &line, &line, &format!("{digit}{digit}=="), END, ""].join(newline)
    }

    #[test]
    fn a_key_is_found_however_its_lines_end() {
        let keys = PinnedKeys::parse(&format!("# two\n{}{}", pem('A', "\n"), pem('B', "\r\n")));
        let keys = keys.expect("two keys");
        for (digit, is_known) in [('A', true), ('B', true), ('C', false)] {
            for newline in ["\n", "\r\n"] {
                let found = keys.find(pem(digit, newline).as_bytes());
                let expected = is_known.then(|| pem(digit, "\n").into_bytes());
                assert_eq!(found, expected, "{digit}");
            }
        }
        // Which of two is meant is not said.
        let both = pem('A', "\n") + &pem('B', "\n");
        assert_eq!(keys.find(both.as_bytes()), None);
        assert_eq!(PinnedKeys::default().find(pem('A', "\n").as_bytes()), None);
    }

    #[test]
    fn what_is_no_key_is_refused_with_its_reason() {
        let check = |text: &str, reason: &str| {
            let error = PinnedKeys::parse(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        };
        check("", "holds no public key");
        check("ssh-rsa AAAA", "holds no public key");
        check(BEGIN, "has no `-----END");
        check(&format!("{BEGIN}\nAAAA\n{END}"), "damaged");
        check(&pem('!', "\n"), "damaged");
        check("-----BEGIN RSA PRIVATE KEY-----\n", "only the server needs");
        check(&pem('A', "\n").repeat(KEYS_MAX + 1), "65 keys");
    }
}
