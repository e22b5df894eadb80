//! A certificate of our own, and keys that are encrypted.

use aws_lc_rs::digest::{SHA256, digest};
use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};

use crate::{CryptoError, pem};

/// Years that a certificate of our own is valid.
const YEARS: u64 = 10;
/// Seconds of a year of the Gregorian calendar, on average.
const YEAR_SEC: u64 = 31_556_952;

/// A certificate that vouches for itself, and its key.
pub struct SelfSigned {
    /// The certificate, PEM.
    pub certificate_pem: Vec<u8>,
    /// The private key, PKCS#8 in PEM.
    pub key_pem: Vec<u8>,
}

/// Makes a certificate with an ECDSA key (P-256), valid from the beginning of last year for about
/// ten years.
///
/// # Errors
/// [`CryptoError::Generate`] when the library fails.
pub fn self_signed(now_unix_sec: u64) -> Result<SelfSigned, CryptoError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|_| CryptoError::Generate)?;
    let names = vec!["localhost".to_owned()];
    let mut params = CertificateParams::new(names).map_err(|_| CryptoError::Generate)?;
    let year = i32::try_from(1970 + now_unix_sec / YEAR_SEC).unwrap_or(2100);
    let years = i32::try_from(YEARS).unwrap_or(10);
    params.not_before = rcgen::date_time_ymd(year - 1, 1, 1);
    params.not_after = rcgen::date_time_ymd(year + years, 1, 1);
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, "Trunkline self-signed certificate");
    params.distinguished_name = name;
    let certificate = params.self_signed(&key).map_err(|_| CryptoError::Generate)?;
    Ok(SelfSigned {
        certificate_pem: pem::encode("CERTIFICATE", certificate.der()),
        key_pem: pem::encode("PRIVATE KEY", &key.serialize_der()),
    })
}

/// Decrypts a private key (`ENCRYPTED PRIVATE KEY` in PEM, PBES2 with AES); its PKCS#8 in DER.
///
/// # Errors
/// [`CryptoError::EncryptedKey`] when it is none, [`CryptoError::KeyPassword`] when the password
/// does not open it.
pub fn decrypt_key(pem: &str, password: &str) -> Result<Vec<u8>, CryptoError> {
    let (_, document) = SecretDocument::from_pem(pem).map_err(|_| CryptoError::EncryptedKey)?;
    let key = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes())
        .map_err(|_| CryptoError::EncryptedKey)?;
    let open = key.decrypt(password).map_err(|_| CryptoError::KeyPassword)?;
    Ok(open.as_bytes().to_vec())
}

/// SHA-256.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.iter_mut().zip(digest(&SHA256, bytes).as_ref()).for_each(|(to, from)| *to = *from);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_made_with_its_key() {
        let made = self_signed(1_800_000_000).expect("made");
        let text = |pem| String::from_utf8(pem).expect("text");
        let certificate = text(made.certificate_pem);
        assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----\n"), "{certificate}");
        assert!(text(made.key_pem).starts_with("-----BEGIN PRIVATE KEY-----\n"));
    }

    #[test]
    fn a_hash_is_the_standards() {
        let hash = sha256(b"abc");
        assert_eq!(hash[..4], [0xBA, 0x78, 0x16, 0xBF]);
    }

    #[test]
    fn what_is_no_encrypted_key_is_refused() {
        assert_eq!(decrypt_key("", "x"), Err(CryptoError::EncryptedKey));
    }
}
