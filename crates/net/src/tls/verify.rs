//! Who is believed: the checks of servers' and clients' certificates.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
        verify_tls13_signature_with_raw_key,
    },
    pki_types::{
        CertificateDer, CertificateRevocationListDer, ServerName, SignatureVerificationAlgorithm,
        SubjectPublicKeyInfoDer, UnixTime,
    },
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use trunkline_topology::TlsMode;

use super::der::{PublicKey, public_key};

/// A check of servers that does less than the library's own: any certificate, or any that the CA
/// has signed whatever its name. That the server has the certificate's key is checked always.
#[derive(Debug)]
struct Lenient {
    /// Checks the CA; `None` takes any certificate.
    chain: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Lenient {
    /// Where any certificate is taken, one that the library can't read (of version 1, as old
    /// recipes make them) is good for its key.
    fn or_by_key(
        &self,
        checked: Result<HandshakeSignatureValid, Error>,
        certificate: &CertificateDer<'_>,
        check: impl FnOnce(PublicKey<'_>) -> Option<HandshakeSignatureValid>,
    ) -> Result<HandshakeSignatureValid, Error> {
        match checked {
            Err(error) if self.chain.is_none() => {
                public_key(certificate).and_then(check).ok_or(error)
            }
            checked => checked,
        }
    }
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        let checked =
            chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match checked {
            // The name is checked last, when the chain was found good.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let checked = verify_tls12_signature(message, certificate, signature, &self.algorithms);
        self.or_by_key(checked, certificate, |key| {
            let (_, algorithms) =
                self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signature.scheme)?;
            let fits = |algorithm: &&&dyn SignatureVerificationAlgorithm| {
                algorithm.public_key_alg_id().as_ref() == key.algorithm
            };
            let algorithm = algorithms.iter().find(fits)?;
            algorithm.verify_signature(key.key, message, signature.signature()).ok()?;
            Some(HandshakeSignatureValid::assertion())
        })
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let checked = verify_tls13_signature(message, certificate, signature, &self.algorithms);
        self.or_by_key(checked, certificate, |key| {
            let info = SubjectPublicKeyInfoDer::from(key.info);
            verify_tls13_signature_with_raw_key(message, &info, signature, &self.algorithms).ok()
        })
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// How a mode checks servers. `roots` are empty where no CA is given.
pub(super) fn of_servers(
    mode: TlsMode,
    roots: RootCertStore,
    revoked: Vec<CertificateRevocationListDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let algorithms = provider.signature_verification_algorithms;
    let chain = || {
        let builder =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        builder.with_crls(revoked).build().map_err(|error| error.to_string())
    };
    Ok(match mode {
        TlsMode::VerifyIdentity => chain()?,
        TlsMode::VerifyCa => Arc::new(Lenient { chain: Some(chain()?), algorithms }),
        TlsMode::Disabled | TlsMode::Preferred | TlsMode::Required => {
            Arc::new(Lenient { chain: None, algorithms })
        }
    })
}

/// How clients' certificates are checked; a client may have none.
pub(super) fn of_clients(
    roots: RootCertStore,
    revoked: Vec<CertificateRevocationListDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = builder.with_crls(revoked).allow_unauthenticated();
    builder.build().map_err(|error| error.to_string())
}
