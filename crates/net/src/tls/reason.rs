//! What the library says of a failure, in words that name what was wrong.

use rustls::{
    AlertDescription, CertRevocationListError, CertificateError, Error, InvalidMessage,
    PeerIncompatible,
};

/// Why a connection is over.
pub(super) fn reason(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate(error),
        Error::InvalidCertRevocationList(error) => revocation_list(error),
        Error::NoCertificatesPresented => "no certificate was shown".to_owned(),
        Error::AlertReceived(alert) => alert_received(*alert),
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => "the bytes are not TLS".to_owned(),
        Error::InvalidMessage(
            InvalidMessage::MessageTooLarge | InvalidMessage::HandshakePayloadTooLarge,
        ) => "a message is too long".to_owned(),
        Error::InvalidMessage(message) => format!("a message is malformed ({message:?})"),
        Error::PeerIncompatible(
            PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::ServerDoesNotSupportTls12Or13,
        ) => "no protocol version in common (1.2 and 1.3 are spoken)".to_owned(),
        Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon) => {
            "no cipher suite in common".to_owned()
        }
        Error::PeerIncompatible(why) => format!("the other end can't ({why:?})"),
        Error::PeerMisbehaved(why) => format!("the other end broke the protocol ({why:?})"),
        Error::DecryptError => "a record could not be decrypted".to_owned(),
        Error::PeerSentOversizedRecord => "a record is too long".to_owned(),
        Error::InconsistentKeys(_) => "the key does not belong to the certificate".to_owned(),
        other => other.to_string(),
    }
}

fn certificate(error: &CertificateError) -> String {
    let text = match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet"
        }
        CertificateError::Revoked => "the certificate is revoked",
        CertificateError::UnknownIssuer => "the certificate is from an unknown CA or self-signed",
        CertificateError::UnknownRevocationStatus => {
            "no list of revoked certificates is known of the certificate's CA"
        }
        CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => {
            "the list of revoked certificates has expired"
        }
        CertificateError::BadSignature => "the certificate's signature is wrong",
        CertificateError::NotValidForName => "the certificate is for another name",
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = presented.join(", ");
            return format!("the certificate is for {names}, not for {}", expected.to_str());
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the certificate is not for this purpose"
        }
        CertificateError::BadEncoding => "the certificate can't be read",
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the certificate is a CA's own or self-signed, and not a server's or client's"
        }
        other => return format!("the certificate is not accepted ({other:?})"),
    };
    text.to_owned()
}

fn revocation_list(error: &CertRevocationListError) -> String {
    format!("the list of revoked certificates can't be used ({error:?})")
}

fn alert_received(alert: AlertDescription) -> String {
    let text = match alert {
        AlertDescription::UnknownCA => "does not know the CA of the certificate",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown => "does not accept the certificate",
        AlertDescription::CertificateExpired => "says that the certificate has expired",
        AlertDescription::CertificateRevoked => "says that the certificate is revoked",
        AlertDescription::CertificateRequired => "requires a certificate",
        AlertDescription::ProtocolVersion => "speaks no version of TLS in common",
        AlertDescription::HandshakeFailure => "found nothing in common",
        other => return format!("the other end gave up (alert {other:?})"),
    };
    format!("the other end {text}")
}
