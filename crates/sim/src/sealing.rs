//! TLS, played: a hello and its answer, then bytes that are none of the protocol's until they are
//! unsealed. What TLS really is, the end-to-end tests ask OpenSSL and rustls.

use trunkline_protocol::Malformed;
use trunkline_topology::{TlsFacts, TlsVersion};

/// What the end that asks for TLS says first.
const HELLO: &[u8] = b"\x16played hello";
/// What it is answered.
const ANSWER: &[u8] = b"\x16played answer";
/// Each byte of a sealed connection differs from what it means by this.
const MASK: u8 = 0xA5;

/// One end of a connection that is sealed, or will be.
#[derive(Debug)]
pub struct Seal {
    /// What has to come before anything else; empty once it has.
    awaited: &'static [u8],
    /// As much of it as has come.
    received: Vec<u8>,
    /// What is said when it has come.
    answer: &'static [u8],
}

/// What an end makes of bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unsealed {
    /// What they mean.
    pub plain: Vec<u8>,
    /// What is to be sent back as it is.
    pub answer: &'static [u8],
    /// The connection is sealed from now on.
    pub came_up: bool,
}

impl Seal {
    /// The end that asks, with what it sends.
    pub fn ask() -> (Self, &'static [u8]) {
        (Self { awaited: ANSWER, received: Vec::new(), answer: &[] }, HELLO)
    }

    /// The end that is asked.
    pub fn accept() -> Self {
        Self { awaited: HELLO, received: Vec::new(), answer: ANSWER }
    }

    /// Whether both ends have said what they say first.
    pub fn is_up(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Whether this is the beginning, and no more, of what has to come first.
    pub fn may_become_up(&self, bytes: &[u8]) -> bool {
        bytes.len() < self.awaited.len() && self.awaited.starts_with(bytes)
    }

    /// Takes bytes of the other end.
    ///
    /// # Errors
    /// [`Malformed`] for what does not begin a sealed connection.
    pub fn unseal(&mut self, bytes: &[u8]) -> Result<Unsealed, Malformed> {
        if self.is_up() {
            let plain = bytes.iter().map(|byte| byte ^ MASK).collect();
            return Ok(Unsealed { plain, ..Unsealed::default() });
        }
        self.received.extend_from_slice(bytes);
        let known = self.received.len().min(self.awaited.len());
        if self.received.get(..known) != self.awaited.get(..known) {
            return Err(Malformed("hello of TLS"));
        }
        let Some(rest) = self.received.get(self.awaited.len()..) else {
            return Ok(Unsealed::default());
        };
        let plain = rest.iter().map(|byte| byte ^ MASK).collect();
        self.awaited = &[];
        self.received.clear();
        Ok(Unsealed { plain, answer: std::mem::take(&mut self.answer), came_up: true })
    }

    /// Seals bytes that are to be sent.
    pub fn seal(bytes: &[u8]) -> Vec<u8> {
        bytes.iter().map(|byte| byte ^ MASK).collect()
    }
}

/// What a driver tells of a connection that is sealed.
pub fn facts() -> TlsFacts {
    TlsFacts {
        version: TlsVersion::V1_3,
        cipher: "TLS_AES_256_GCM_SHA384",
        is_resumed: false,
        peer: None,
        own_fingerprint: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_come_up_and_understand_each_other() {
        let (mut asking, hello) = Seal::ask();
        let mut asked = Seal::accept();
        let (first, second) = hello.split_at(3);
        assert_eq!(asked.unseal(first), Ok(Unsealed::default()));
        let answered = asked.unseal(second).expect("a hello");
        assert!(answered.came_up && asked.is_up() && !asking.is_up());
        let sealed = [answered.answer, Seal::seal(b"text").as_slice()].concat();
        let up = asking.unseal(&sealed).expect("an answer");
        assert_eq!((up.plain.as_slice(), up.came_up, up.answer), (&b"text"[..], true, &[][..]));
    }

    #[test]
    fn what_is_no_hello_is_refused() {
        assert!(Seal::accept().unseal(b"\x03SELECT 1").is_err());
    }
}
