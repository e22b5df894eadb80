//! Random bytes.

/// Bytes of a handshake's nonce.
const NONCE_LEN: usize = 20;

/// Fills `bytes` with random bytes for keys and nonces.
///
/// # Panics
/// When the operating system has no random bytes: nothing may go on without them.
pub fn fill_random(bytes: &mut [u8]) {
    aws_lc_rs::rand::fill(bytes).expect("the operating system's random source does not fail");
}

/// A nonce for a greeting: seven-bit bytes without NUL, which ends it on the wire, and `$`, which
/// separates the fields of stored passwords. So servers choose theirs.
pub fn nonce() -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    let mut pool = [0; 2 * NONCE_LEN];
    let mut slots = nonce.iter_mut();
    loop {
        fill_random(&mut pool);
        for byte in pool.iter().map(|byte| byte & 0x7F).filter(|byte| !matches!(byte, 0 | b'$')) {
            let Some(slot) = slots.next() else {
                return nonce;
            };
            *slot = byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_hold_no_nul_and_no_dollar() {
        for _ in 0..1000 {
            assert!(nonce().iter().all(|byte| !matches!(byte, 0 | b'$' | 0x80..)));
        }
        assert_ne!(nonce(), nonce());
    }
}
