//! RSA for the password exchange of `caching_sha2_password`, random bytes, certificates of our own
//! and encrypted keys.
//!
//! The only crate that uses aws-lc by itself; TLS uses it through rustls.
#![forbid(unsafe_code)]

mod certificate;
mod key;
mod pem;
mod random;

pub use certificate::{SelfSigned, decrypt_key, self_signed, sha256};
pub use key::{CryptoError, PrivateKey, encrypt_oaep_sha1};
pub use random::{fill_random, nonce};
