//! RSA for the password exchange of `caching_sha2_password`, and random bytes.
//!
//! The only crate that uses aws-lc for them; TLS uses it through rustls.
#![forbid(unsafe_code)]

mod key;
mod pem;
mod random;

pub use key::{CryptoError, PrivateKey, encrypt_oaep_sha1};
pub use random::{fill_random, nonce};
