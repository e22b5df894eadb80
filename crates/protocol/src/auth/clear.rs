//! The password itself, ended by a NUL: `mysql_clear_password`, and the full authentication of
//! the SHA-256 plug-ins over a transport that nobody can listen to.
//! Source: MySQL internals "Clear text client plugin".

/// The password in a payload; `None` when the NUL at its end is missing.
pub fn read(payload: &[u8]) -> Option<&[u8]> {
    payload.strip_suffix(&[0])
}

/// Appends a password and its NUL.
pub fn put(out: &mut Vec<u8>, password: &[u8]) {
    out.extend_from_slice(password);
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_reads_back() {
        for password in ["", "secret"] {
            let mut out = Vec::new();
            put(&mut out, password.as_bytes());
            assert_eq!(read(&out), Some(password.as_bytes()));
        }
        assert_eq!(read(b""), None);
        assert_eq!(read(b"secret"), None);
    }
}
