//! What a certificate says of its holder, read from its DER (X.509, RFC 5280). For certificates
//! that the library has verified, or our own; nothing here decides on trust.

use trunkline_topology::PeerCertificate;

/// What is read of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    pub names: PeerCertificate,
    /// When it expires, in seconds of Unix time.
    pub not_after_unix_sec: u64,
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
const BOOLEAN: u8 = 0x01;
const BIT_STRING: u8 = 0x03;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xA0;
const EXTENSIONS: u8 = 0xA3;
const DNS_NAME: u8 = 0x82;
const URI: u8 = 0x86;
/// 2.5.29.17.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1D, 0x11];

/// Attributes of names that have a short word, by their object ids.
const WORDS: [(&[u8], &str); 12] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 4], "SN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "street"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 9, 1], "emailAddress"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 1, 1], "UID"),
];

/// Reads a certificate; `None` when it is none.
pub(super) fn certificate(der: &[u8]) -> Option<Certificate> {
    let mut outer = Der(der);
    let mut body = Der(Der(outer.value_of(SEQUENCE)?).value_of(SEQUENCE)?);
    if body.value()?.0 == VERSION {
        body.value()?;
    }
    // The serial number was that; then comes the signature's algorithm.
    body.value_of(SEQUENCE)?;
    let issuer = name(body.value_of(SEQUENCE)?)?;
    let not_after_unix_sec = not_after(body.value_of(SEQUENCE)?)?;
    let subject = name(body.value_of(SEQUENCE)?)?;
    let mut names = PeerCertificate { subject, issuer, dns_names: Vec::new(), uris: Vec::new() };
    while let Some((tag, value)) = body.value() {
        if tag == EXTENSIONS {
            read_extensions(Der(value).value_of(SEQUENCE)?, &mut names)?;
        }
    }
    Some(Certificate { names, not_after_unix_sec })
}

/// The public key of a certificate of any version.
pub(super) struct PublicKey<'a> {
    /// SubjectPublicKeyInfo as a whole.
    pub info: &'a [u8],
    /// What is within the algorithm's sequence.
    pub algorithm: &'a [u8],
    /// The key itself.
    pub key: &'a [u8],
}

/// Reads the public key of a certificate; `None` when it is none.
pub(super) fn public_key(der: &[u8]) -> Option<PublicKey<'_>> {
    let mut outer = Der(der);
    let mut body = Der(Der(outer.value_of(SEQUENCE)?).value_of(SEQUENCE)?);
    if body.value()?.0 == VERSION {
        body.value()?;
    }
    for _ in ["algorithm", "issuer", "validity", "subject"] {
        body.value_of(SEQUENCE)?;
    }
    let before = body.0;
    let mut fields = Der(body.value_of(SEQUENCE)?);
    let info = before.get(..before.len().checked_sub(body.0.len())?)?;
    let algorithm = fields.value_of(SEQUENCE)?;
    // No bits of the last byte are left over.
    let key = fields.value_of(BIT_STRING)?.strip_prefix(&[0])?;
    Some(PublicKey { info, algorithm, key })
}

fn read_extensions(list: &[u8], names: &mut PeerCertificate) -> Option<()> {
    let mut list = Der(list);
    while let Some((_, extension)) = list.value() {
        let mut extension = Der(extension);
        let id = extension.value_of(OBJECT_ID)?;
        let (mut tag, mut value) = extension.value()?;
        if tag == BOOLEAN {
            (tag, value) = extension.value()?;
        }
        if tag != OCTET_STRING || id != ALTERNATIVE_NAMES {
            continue;
        }
        let mut alternatives = Der(Der(value).value_of(SEQUENCE)?);
        while let Some((tag, value)) = alternatives.value() {
            let Ok(text) = std::str::from_utf8(value) else { continue };
            match tag {
                DNS_NAME => names.dns_names.push(text.to_owned()),
                URI => names.uris.push(text.to_owned()),
                _ => {}
            }
        }
    }
    Some(())
}

/// A name on one line. What is no printable character of ASCII, and a slash, is written `\xNN`, so
/// that no value looks like another attribute.
fn name(sets: &[u8]) -> Option<String> {
    let mut line = String::new();
    let mut sets = Der(sets);
    while let Some((tag, set)) = sets.value() {
        if tag != SET {
            return None;
        }
        let mut set = Der(set);
        while let Some((_, attribute)) = set.value() {
            let mut attribute = Der(attribute);
            let id = attribute.value_of(OBJECT_ID)?;
            let (_, value) = attribute.value()?;
            let word = WORDS.iter().find(|(known, _)| *known == id);
            let word = word.map_or_else(|| dotted(id), |(_, word)| (*word).to_owned());
            line.push('/');
            line.push_str(&word);
            line.push('=');
            for byte in value {
                match byte {
                    b' '..=b'~' if *byte != b'/' => line.push(char::from(*byte)),
                    _ => line.push_str(&format!("\\x{byte:02X}")),
                }
            }
        }
    }
    Some(line)
}

/// An object id in numbers.
fn dotted(id: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number: u64 = 0;
    for byte in id {
        number = number << 7 | u64::from(byte & 0x7F);
        if byte & 0x80 == 0 {
            match numbers.is_empty() {
                true => numbers.extend([(number / 40).min(2), number - (number / 40).min(2) * 40]),
                false => numbers.push(number),
            }
            number = 0;
        }
    }
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

fn not_after(validity: &[u8]) -> Option<u64> {
    let mut validity = Der(validity);
    validity.value()?;
    let (tag, text) = validity.value()?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: u64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<u64>().ok();
    let days = days_since_1970(year, part(0)?, part(2)?)?;
    Some(days * 86_400 + part(4)? * 3_600 + part(6)? * 60 + part(8)?)
}

/// Days of the Gregorian calendar.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let index = usize::try_from(month.checked_sub(1)?).ok()?;
    let leap_day = u64::from(month > 2 && is_leap(year));
    let last = year.checked_sub(1)?;
    let years = last * 365 + last / 4 - last / 100 + last / 400;
    (years + before.get(index)? + leap_day + day).checked_sub(719_163)
}

/// What is left of a list of values.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next value and its tag.
    fn value(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (len, rest) = match usize::from(*first) {
            len @ 0..0x80 => (len, rest),
            form => {
                let (digits, rest) = rest.split_at_checked(form & 0x7F)?;
                if digits.is_empty() || digits.len() > 4 {
                    return None;
                }
                (digits.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
            }
        };
        let (value, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((*tag, value))
    }

    /// The next value, which has this tag.
    fn value_of(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.value().filter(|(found, _)| *found == tag).map(|(_, value)| value)
    }
}
