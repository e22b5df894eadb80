//! Certificates for tests: a CA, and what it signs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme, SupportedProtocolVersion,
};

/// The number of the next certificate.
static SERIAL: AtomicU64 = AtomicU64::new(1_000);

/// A CA with its folder.
pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
    name: String,
}

/// Files of a certificate and its key.
#[derive(Clone, Debug)]
pub struct Files {
    pub cert: PathBuf,
    pub key: PathBuf,
    pub serial: u64,
}

/// What a certificate is to be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    pub dns: &'a str,
    pub uri: &'a str,
    pub is_expired: bool,
    pub is_early: bool,
}

impl Ca {
    /// Makes one, and its file.
    pub fn new(folder: &Path, name: &str) -> Result<Ca> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        let ca = Ca {
            issuer: Issuer::new(params, key),
            folder: folder.to_owned(),
            name: name.to_owned(),
        };
        std::fs::write(ca.file(), certificate.pem())?;
        Ok(ca)
    }

    /// Its certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.join(format!("{}.pem", self.name))
    }

    /// Signs a certificate; the subject is `/O=Tests/CN=name`.
    pub fn sign(&self, name: &str, wanted: Wanted<'_>) -> Result<Files> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Tests");
        params.distinguished_name.push(DnType::CommonName, name);
        if !wanted.dns.is_empty() {
            params.subject_alt_names.push(SanType::DnsName(wanted.dns.try_into()?));
        }
        if !wanted.uri.is_empty() {
            params.subject_alt_names.push(SanType::URI(wanted.uri.try_into()?));
        }
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        params.serial_number = Some(SerialNumber::from(serial));
        params.not_before = date_time_ymd(if wanted.is_early { 2090 } else { 2020 }, 1, 1);
        params.not_after = date_time_ymd(if wanted.is_expired { 2021 } else { 2095 }, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer)?;
        let files = Files {
            cert: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}-key.pem")),
            serial,
        };
        std::fs::write(&files.cert, certificate.pem())?;
        std::fs::write(&files.key, key.serialize_pem())?;
        close(&files.key)?;
        Ok(files)
    }

    /// A list with one revoked certificate; its file.
    pub fn revoke(&self, files: &Files) -> Result<PathBuf> {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(files.serial),
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(2095, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let path = self.folder.join(format!("{}.crl", self.name));
        std::fs::write(&path, list.signed_by(&self.issuer)?.pem()?)?;
        Ok(path)
    }
}

/// Leaves a file to its owner, as keys have to be.
pub fn close(path: &Path) -> Result<()> {
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?)
}

/// Takes any certificate: tests look at it themselves.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A client that speaks these versions and shows this certificate.
pub fn client(
    versions: &[&'static SupportedProtocolVersion],
    own: Option<&Files>,
) -> Result<Arc<ClientConfig>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody));
    Ok(Arc::new(match own {
        None => builder.with_no_client_auth(),
        Some(files) => {
            let chain = vec![CertificateDer::from_pem_file(&files.cert).context("certificate")?];
            let key = PrivateKeyDer::from_pem_file(&files.key).context("key")?;
            builder.with_client_auth_cert(chain, key)?
        }
    }))
}
