//! Encryption of connections as plain data: what is asked for, and what came of it.

use std::{collections::BTreeMap, fmt, sync::Arc};

/// A version of TLS that is spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    V1_2,
    /// TLS 1.3.
    V1_3,
}

impl fmt::Display for TlsVersion {
    /// As servers write it in `Ssl_version`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_2 => "TLSv1.2",
            Self::V1_3 => "TLSv1.3",
        })
    }
}

/// What is known of an encrypted connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsFacts {
    /// The version.
    pub version: TlsVersion,
    /// The cipher suite, by its name in the registry.
    pub cipher: &'static str,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
    /// The certificate of the other end, verified; `None` when it gave none.
    pub peer: Option<PeerCertificate>,
    /// SHA-256 of the certificate that this end showed.
    pub own_fingerprint: Option<[u8; 32]>,
}

impl fmt::Display for TlsFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.version, self.cipher)
    }
}

/// What a verified certificate says of its holder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PeerCertificate {
    /// The subject, in OpenSSL's form on one line: `/C=SE/O=Example/CN=app`.
    pub subject: String,
    /// The issuer, in the same form.
    pub issuer: String,
    /// DNS names.
    pub dns_names: Vec<String>,
    /// URIs; a SPIFFE id is one.
    pub uris: Vec<String>,
}

/// What a user's connections must have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TlsRequirement {
    /// Nothing.
    #[default]
    None,
    /// Encryption.
    Tls,
    /// A certificate of the clients' CA, with all that is named here.
    Certificate(CertificateRequirement),
}

/// What a client's certificate must say; what is `None` may be anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertificateRequirement {
    /// Exactly this subject.
    pub subject: Option<String>,
    /// Exactly this issuer.
    pub issuer: Option<String>,
    /// This DNS name or URI among its alternative names.
    pub san: Option<String>,
    /// This SPIFFE id among its URIs; `*` at the end stands for anything.
    pub spiffe: Option<String>,
}

impl TlsRequirement {
    /// Judges a connection.
    ///
    /// # Errors
    /// What is missing, in words for the client.
    pub fn check(&self, tls: Option<&TlsFacts>) -> Result<(), &'static str> {
        match (self, tls) {
            (Self::None, _) => Ok(()),
            (Self::Tls | Self::Certificate(_), None) => Err("TLS is required"),
            (Self::Tls, Some(_)) => Ok(()),
            (Self::Certificate(required), Some(facts)) => match &facts.peer {
                Some(certificate) => required.check(certificate),
                None => Err("a client certificate is required"),
            },
        }
    }
}

impl CertificateRequirement {
    fn check(&self, certificate: &PeerCertificate) -> Result<(), &'static str> {
        let is = |required: &Option<String>, value: &str| {
            required.as_ref().is_none_or(|required| required == value)
        };
        if !is(&self.subject, &certificate.subject) {
            return Err("the client certificate has another subject");
        }
        if !is(&self.issuer, &certificate.issuer) {
            return Err("the client certificate has another issuer");
        }
        let mut names = certificate.dns_names.iter().chain(&certificate.uris);
        if self.san.as_ref().is_some_and(|san| !names.any(|name| name == san)) {
            return Err("the client certificate has other alternative names");
        }
        let has_id = |id: &String| certificate.uris.iter().any(|uri| is_spiffe_id(id, uri));
        if !self.spiffe.as_ref().is_none_or(has_id) {
            return Err("the client certificate has another SPIFFE id");
        }
        Ok(())
    }
}

/// Whether a URI is the id, or begins as one that ends with `*` does.
fn is_spiffe_id(id: &str, uri: &str) -> bool {
    match id.strip_suffix('*') {
        Some(begin) => uri.starts_with("spiffe://") && uri.starts_with(begin),
        None => uri == id,
    }
}

/// Whether clients of a listener may or must use TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsOffer {
    /// They may not.
    Off,
    /// They may.
    #[default]
    Optional,
    /// They must.
    Required,
}

/// How connections to a server are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TlsMode {
    /// Not at all.
    #[default]
    Disabled,
    /// Where the server can; its certificate is not checked.
    Preferred,
    /// Always; the certificate is not checked.
    Required,
    /// Always, with a certificate of the CA.
    VerifyCa,
    /// Always, with a certificate of the CA for the server's host name.
    VerifyIdentity,
}

impl TlsMode {
    /// All modes, with their words.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("disabled", Self::Disabled),
        ("preferred", Self::Preferred),
        ("required", Self::Required),
        ("verify-ca", Self::VerifyCa),
        ("verify-identity", Self::VerifyIdentity),
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Preferred => "preferred",
            Self::Required => "required",
            Self::VerifyCa => "verify-ca",
            Self::VerifyIdentity => "verify-identity",
        }
    }
}

/// What TLS towards a server works with: the columns of ProxySQL's `mysql_servers_ssl_params`.
/// Paths and lists are as written; an empty one is not set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TlsParams {
    /// File of CA certificates.
    pub ca: String,
    /// Folder of CA certificates.
    pub capath: String,
    /// File of the certificate shown to the server, with its chain.
    pub cert: String,
    /// File of its key.
    pub key: String,
    /// File of revoked certificates.
    pub crl: String,
    /// Folder of those.
    pub crlpath: String,
    /// Cipher suites, with `:` between them.
    pub cipher: String,
    /// Versions, with `,` between them.
    pub tls_version: String,
}

/// TLS towards one server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerTls {
    /// Whether, and what is checked.
    pub mode: TlsMode,
    /// What it works with.
    pub params: Arc<TlsParams>,
    /// What it works with instead for some users.
    pub user_params: BTreeMap<String, Arc<TlsParams>>,
}

impl ServerTls {
    /// What a connection as `user` works with.
    pub fn params_of(&self, user: &str) -> &Arc<TlsParams> {
        self.user_params.get(user).unwrap_or(&self.params)
    }

    /// Everything that its connections may work with.
    pub fn all_params(&self) -> impl Iterator<Item = &Arc<TlsParams>> {
        std::iter::once(&self.params).chain(self.user_params.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> TlsFacts {
        let peer = PeerCertificate {
            subject: "/O=Example/CN=app".to_owned(),
            issuer: "/CN=ca".to_owned(),
            dns_names: vec!["app.example".to_owned()],
            uris: vec!["spiffe://example/ns/app".to_owned()],
        };
        TlsFacts { peer: Some(peer), ..TlsFacts::default() }
    }

    #[test]
    fn encryption_is_required_apart_from_a_certificate() {
        let none = TlsFacts::default();
        let certificate = TlsRequirement::Certificate(CertificateRequirement::default());
        assert_eq!(TlsRequirement::None.check(None), Ok(()));
        assert_eq!(TlsRequirement::Tls.check(None), Err("TLS is required"));
        assert_eq!(TlsRequirement::Tls.check(Some(&none)), Ok(()));
        assert_eq!(certificate.check(None), Err("TLS is required"));
        assert_eq!(certificate.check(Some(&none)), Err("a client certificate is required"));
        assert_eq!(certificate.check(Some(&facts())), Ok(()));
    }

    #[test]
    fn a_certificate_must_say_all_that_is_required() {
        let check = |required: CertificateRequirement, expected: Result<(), &str>| {
            let facts = facts();
            assert_eq!(TlsRequirement::Certificate(required).check(Some(&facts)), expected);
        };
        let none = CertificateRequirement::default;
        let some = |text: &str| Some(text.to_owned());
        check(CertificateRequirement { subject: some("/O=Example/CN=app"), ..none() }, Ok(()));
        let other = Err("the client certificate has another subject");
        check(CertificateRequirement { subject: some("/CN=app"), ..none() }, other);
        let other = Err("the client certificate has another issuer");
        check(CertificateRequirement { issuer: some("/CN=other"), ..none() }, other);
        check(CertificateRequirement { san: some("app.example"), ..none() }, Ok(()));
        let other = Err("the client certificate has other alternative names");
        check(CertificateRequirement { san: some("example"), ..none() }, other);
        check(CertificateRequirement { spiffe: some("spiffe://example/ns/app"), ..none() }, Ok(()));
        check(CertificateRequirement { spiffe: some("spiffe://example/*"), ..none() }, Ok(()));
        let other = Err("the client certificate has another SPIFFE id");
        check(CertificateRequirement { spiffe: some("spiffe://example"), ..none() }, other);
        check(CertificateRequirement { spiffe: some("spiffe://other/*"), ..none() }, other);
    }
}
