//! The PEM form: base 64 between two lines of dashes (RFC 7468).

const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Characters of a line.
const LINE_LEN: usize = 64;

/// Writes DER as PEM of this kind, as OpenSSL does: lines of 64 characters, each ended by a
/// newline.
pub(crate) fn encode(kind: &str, der: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for chunk in der.chunks(3) {
        let mut bits = [0; 4];
        for (slot, byte) in bits.iter_mut().skip(1).zip(chunk) {
            *slot = *byte;
        }
        let bits = u32::from_be_bytes(bits);
        for (position, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let index = usize::try_from(bits >> shift & 0x3F).unwrap_or_default();
            let digit = ALPHABET.get(index).copied().unwrap_or(b'=');
            text.push(if position <= chunk.len() { digit } else { b'=' });
        }
    }
    let mut out = format!("-----BEGIN {kind}-----\n").into_bytes();
    for line in text.chunks(LINE_LEN) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.extend_from_slice(format!("-----END {kind}-----\n").as_bytes());
    out
}

/// Reads the DER of the first public key in a text; `None` when there is none or it is broken.
pub(crate) fn decode(pem: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(pem).ok()?;
    let (_, rest) = text.split_once(BEGIN)?;
    let (body, _) = rest.split_once(END)?;
    let mut der = Vec::with_capacity(body.len() / 4 * 3);
    let mut bits: u32 = 0;
    let mut bits_len = 0;
    let digits = body.bytes().filter(|byte| !byte.is_ascii_whitespace());
    for digit in digits.take_while(|byte| *byte != b'=') {
        let value = ALPHABET.iter().position(|known| *known == digit)?;
        bits = (bits << 6 | u32::try_from(value).ok()?) & 0xFFF;
        bits_len += 6;
        if bits_len >= 8 {
            bits_len -= 8;
            der.push(u8::try_from(bits >> bits_len & 0xFF).ok()?);
        }
    }
    (!der.is_empty()).then_some(der)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn der_of_every_length_reads_back() {
        for len in 1..200_u8 {
            let der: Vec<u8> = (0..len).map(|byte| byte.wrapping_mul(151)).collect();
            assert_eq!(decode(&encode("PUBLIC KEY", &der)), Some(der));
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let check = |text: &str| assert_eq!(decode(text.as_bytes()), None, "{text}");
        check("");
        check("-----BEGIN PUBLIC KEY-----\nAAAA");
        check("-----BEGIN PUBLIC KEY-----\nAA*A\n-----END PUBLIC KEY-----\n");
        check("-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n");
        assert_eq!(decode(b"\xFF"), None);
    }
}
