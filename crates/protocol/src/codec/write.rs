//! The counterpart of [`Reader`](super::Reader): appends integers and strings to a payload.

/// Appends a two-byte little-endian integer.
pub fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends the low three bytes of `value`, little-endian.
pub fn put_u24(out: &mut Vec<u8>, value: u32) {
    let [a, b, c, _] = value.to_le_bytes();
    out.extend_from_slice(&[a, b, c]);
}

/// Appends a four-byte little-endian integer.
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends an eight-byte little-endian integer.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends `value` in the shortest length-encoded form.
pub fn put_lenenc_int(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=0xFA => out.extend_from_slice(&bytes[..1]),
        0xFB..=0xFFFF => {
            out.push(0xFC);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xFF_FFFF => {
            out.push(0xFD);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xFE);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends `bytes` preceded by their length-encoded length.
pub fn put_lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc_int(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends `text` and a NUL byte. A NUL inside `text` would end it early; callers pass names
/// that were read from NUL-terminated fields or checked by configuration.
pub fn put_nul_str(out: &mut Vec<u8>, text: &[u8]) {
    debug_assert!(memchr::memchr(0, text).is_none());
    out.extend_from_slice(text);
    out.push(0);
}
