//! RSA keys, encryption with OAEP and SHA-1 as MySQL's clients and servers use it.
//!
//! Source: MySQL reference manual "Caching SHA-2 Pluggable Authentication"; RFC 8017, 7.1.

use aws_lc_rs::{
    encoding::{AsDer, PublicKeyX509Der},
    rsa::{
        KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
        PrivateDecryptingKey, PublicEncryptingKey,
    },
};
use pkcs8::{
    ObjectIdentifier, PrivateKeyInfoRef, SecretDocument,
    der::asn1::{AnyRef, OctetStringRef},
    spki::AlgorithmIdentifierRef,
};
use thiserror::Error;

use crate::pem;

/// The algorithm's name in PKCS#8 (RFC 8017, appendix C).
const RSA_ENCRYPTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// Why a key could not be made or used. Says nothing about the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CryptoError {
    /// No key could be generated.
    #[error("no RSA key could be generated")]
    Generate,
    /// The other side's key is not a public RSA key in PEM of 2,048 to 8,192 bits.
    #[error("the public key is not an RSA key of 2048 to 8192 bits in PEM")]
    PublicKey,
    /// Not a private RSA key in DER of 2,048 to 8,192 bits.
    #[error("the private key is not an RSA key of 2048 to 8192 bits")]
    PrivateKey,
    /// Not a private key that is encrypted with a password in a way that is known here.
    #[error("the encrypted key can't be read (PBES2 with AES is known)")]
    EncryptedKey,
    /// The password does not open the private key.
    #[error("the password does not open the encrypted key")]
    KeyPassword,
    /// The text is longer than the key can encrypt.
    #[error("the text is too long for the public key")]
    TooLong,
}

/// A private key and its public half.
pub struct PrivateKey {
    key: OaepPrivateDecryptingKey,
    public_pem: Vec<u8>,
}

impl PrivateKey {
    /// Makes a key of 2,048 bits; takes some tenths of a second.
    ///
    /// # Errors
    /// [`CryptoError::Generate`] when the library fails.
    pub fn generate() -> Result<Self, CryptoError> {
        PrivateDecryptingKey::generate(KeySize::Rsa2048)
            .ok()
            .and_then(Self::new)
            .ok_or(CryptoError::Generate)
    }

    /// Takes a key in DER: PKCS#8, or PKCS#1 as older servers write it.
    ///
    /// # Errors
    /// [`CryptoError::PrivateKey`] for anything else, and for keys that are too short or too long.
    pub fn from_der(der: &[u8]) -> Result<Self, CryptoError> {
        let key = PrivateDecryptingKey::from_pkcs8(der).ok().or_else(|| {
            let wrapped = pkcs8(der).ok()?;
            PrivateDecryptingKey::from_pkcs8(wrapped.as_bytes()).ok()
        });
        key.and_then(Self::new).ok_or(CryptoError::PrivateKey)
    }

    fn new(key: PrivateDecryptingKey) -> Option<Self> {
        let der: PublicKeyX509Der<'_> = key.public_key().as_der().ok()?;
        let public_pem = pem::encode("PUBLIC KEY", der.as_ref());
        Some(Self { key: OaepPrivateDecryptingKey::new(key).ok()?, public_pem })
    }

    /// The public half as SubjectPublicKeyInfo in PEM, as clients expect it.
    pub fn public_key_pem(&self) -> &[u8] {
        &self.public_pem
    }

    /// Decrypts what was encrypted with the public half; `None` for anything else.
    pub fn decrypt_oaep_sha1(&self, ciphertext: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; self.key.min_output_size()];
        let len = self.key.decrypt(&OAEP_SHA1_MGF1SHA1, ciphertext, &mut out, None).ok()?.len();
        // No second copy: the caller wipes this one.
        out.truncate(len);
        Some(out)
    }
}

/// Wraps a key of PKCS#1 (RFC 8017, A.1.2) as PKCS#8 has it.
fn pkcs8(key: &[u8]) -> pkcs8::Result<SecretDocument> {
    let algorithm = AlgorithmIdentifierRef { oid: RSA_ENCRYPTION, parameters: Some(AnyRef::NULL) };
    PrivateKeyInfoRef::new(algorithm, OctetStringRef::new(key)?).try_into()
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

/// Encrypts `plaintext` with a server's public key.
///
/// # Errors
/// [`CryptoError::PublicKey`] when the key cannot be read, [`CryptoError::TooLong`] when the text
/// is longer than it takes (214 bytes for 2,048 bits).
pub fn encrypt_oaep_sha1(public_key_pem: &[u8], plaintext: &[u8]) -> Result<Vec<u8>, CryptoError> {
    let der = pem::decode(public_key_pem).ok_or(CryptoError::PublicKey)?;
    let key = PublicEncryptingKey::from_der(&der).map_err(|_| CryptoError::PublicKey)?;
    let key = OaepPublicEncryptingKey::new(key).map_err(|_| CryptoError::PublicKey)?;
    let mut out = vec![0; key.ciphertext_size()];
    let ciphertext = key
        .encrypt(&OAEP_SHA1_MGF1SHA1, plaintext, &mut out, None)
        .map_err(|_| CryptoError::TooLong)?;
    Ok(ciphertext.to_vec())
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::Pkcs8V1Der;

    use super::*;

    #[test]
    fn what_the_public_half_encrypts_the_private_half_decrypts() {
        let key = PrivateKey::generate().expect("key");
        for text in [&b""[..], b"\0", b"secret\0", &[7; 214]] {
            let ciphertext = encrypt_oaep_sha1(key.public_key_pem(), text).expect("encrypts");
            assert_eq!(ciphertext.len(), 256);
            assert_eq!(key.decrypt_oaep_sha1(&ciphertext).as_deref(), Some(text));
        }
        let too_long = encrypt_oaep_sha1(key.public_key_pem(), &[7; 215]);
        assert_eq!(too_long, Err(CryptoError::TooLong));
        for broken in [&b""[..], b"\x01", &[0; 256], &[0xFF; 256], &[1; 257]] {
            assert_eq!(key.decrypt_oaep_sha1(broken), None);
        }
    }

    #[test]
    fn the_public_half_is_a_pem_that_clients_read() {
        let key = PrivateKey::generate().expect("key");
        let pem = String::from_utf8(key.public_key_pem().to_vec()).expect("text");
        assert!(pem.starts_with("-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A"));
        assert!(pem.ends_with("\n-----END PUBLIC KEY-----\n"));
        assert!(pem.lines().all(|line| line.len() <= 64));
    }

    /// The key within PKCS#8, as PKCS#1 has it alone.
    fn pkcs1(pkcs8: &[u8]) -> &[u8] {
        PrivateKeyInfoRef::try_from(pkcs8).expect("PKCS#8").private_key.as_bytes()
    }

    #[test]
    fn a_key_is_read_from_both_forms_and_from_nothing_else() {
        let made = PrivateDecryptingKey::generate(KeySize::Rsa2048).expect("key");
        let pkcs8 = AsDer::<Pkcs8V1Der<'_>>::as_der(&made).expect("DER");
        let public = PrivateKey::new(made).expect("key").public_key_pem().to_vec();
        for der in [pkcs8.as_ref(), pkcs1(pkcs8.as_ref())] {
            assert_eq!(PrivateKey::from_der(der).expect("key").public_key_pem(), public);
        }
        let short = pkcs8.as_ref().get(..pkcs8.as_ref().len() - 1).expect("bytes");
        let elliptic = rcgen::KeyPair::generate().expect("key").serialize_der();
        for der in [&b""[..], b"\x30", short, &elliptic] {
            assert_eq!(PrivateKey::from_der(der).err(), Some(CryptoError::PrivateKey));
        }
    }

    #[test]
    fn what_is_no_key_encrypts_nothing() {
        for pem in ["", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"] {
            assert_eq!(encrypt_oaep_sha1(pem.as_bytes(), b"x"), Err(CryptoError::PublicKey));
        }
    }
}
