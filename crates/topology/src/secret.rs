//! A value that must not be shown, and that is wiped when it goes.

use std::{fmt, mem};

use zeroize::Zeroize;

/// Holds a secret; neither `Debug` nor `Display` shows it, and its memory is overwritten when it is
/// dropped. Copies that moves leave behind on the stack are not.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Wraps a secret.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The secret itself. Name the place where it goes at the call.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Overwrites bytes that may have been secret.
pub fn wipe(bytes: &mut [u8]) {
    bytes.zeroize();
}

/// Takes the first `len` bytes out of a buffer, without leaving them or others behind in it.
pub fn wipe_front(buf: &mut Vec<u8>, len: usize) {
    let rest = buf.get(len..).unwrap_or_default().to_vec();
    let mut before = mem::replace(buf, rest);
    before.zeroize();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_of_a_buffer_goes() {
        let mut buf = b"secret, rest".to_vec();
        wipe_front(&mut buf, 8);
        assert_eq!(buf, b"rest");
        wipe_front(&mut buf, 9);
        assert_eq!(buf, b"");
        let mut bytes = *b"secret";
        wipe(&mut bytes);
        assert_eq!(bytes, [0; 6]);
    }
}
