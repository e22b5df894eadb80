//! What TLS works with: made from a configuration and its files, shared by all workers, and
//! replaced as a whole.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use rustls::{
    ClientConfig, Error, InconsistentKeys, ServerConfig, SupportedCipherSuite,
    SupportedProtocolVersion,
    client::Resumption,
    crypto::{
        CryptoProvider,
        aws_lc_rs::{self, sign::any_supported_type},
    },
    pki_types::{CertificateDer, PrivateKeyDer},
    server::ServerSessionMemoryCache,
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use trunkline_config::{Config, Settings, TlsVersionMin};
use trunkline_crypto::PrivateKey;
use trunkline_topology::{Address, Secret, TlsMode, TlsParams};

use super::{der, load, load::Files, reason::reason, verify};
use crate::private;

/// Sessions of TLS 1.2 clients without tickets that can be resumed.
const SESSIONS_MAX: usize = 4_096;
/// Sessions kept for one server.
const SERVER_SESSIONS_MAX: usize = 64;
/// A certificate of our own that expires sooner is made anew; one of the operator's is warned of.
const EXPIRES_SOON_SEC: u64 = 30 * 86_400;
/// The files of our own certificate and its key.
const OWN_CERTIFICATE: &str = "trunkline-cert.pem";
const OWN_KEY: &str = "trunkline-key.pem";

/// Where files are.
#[derive(Debug, Clone)]
pub struct TlsFolders {
    /// Where relative paths begin.
    pub base: PathBuf,
    /// Where our own certificate is kept, unless `tls_folder` says otherwise.
    pub own: PathBuf,
}

/// What clients are shown.
pub struct Acceptor {
    pub(super) config: Arc<ServerConfig>,
    /// SHA-256 of the certificate.
    pub(super) fingerprint: [u8; 32],
    not_after_unix_sec: u64,
    /// The certificate's file.
    name: String,
    inputs: [u8; 32],
}

/// How servers are met.
pub struct Connector {
    pub(super) config: Arc<ClientConfig>,
    inputs: [u8; 32],
}

/// Everything that TLS works with.
#[derive(Default)]
pub struct TlsSetup {
    acceptor: Option<Arc<Acceptor>>,
    /// The console's, where it is not the same.
    console: Option<Arc<Acceptor>>,
    connectors: HashMap<ConnectorKey, Arc<Connector>>,
    password_key: Option<Arc<PrivateKey>>,
    /// What an operator should hear.
    warnings: Vec<String>,
}

type ConnectorKey = (Address, TlsMode, Arc<TlsParams>);

impl TlsSetup {
    /// Reads the files of a configuration. What has not changed goes on as it is, with the sessions
    /// that can be resumed.
    ///
    /// # Errors
    /// Everything that is wrong, each with the setting or server, the file and the reason.
    pub fn load(
        config: &Config,
        folders: &TlsFolders,
        previous: Option<&Self>,
    ) -> Result<Self, Vec<String>> {
        let mut errors = Vec::new();
        let mut setup = Self::default();
        let before = previous.and_then(|previous| previous.acceptor.as_ref());
        let settings = &config.settings;
        let wants_tls = settings.have_ssl || !settings.listen_tls.is_empty();
        if wants_tls {
            match accept(settings, folders, before, &mut setup.warnings) {
                Ok(acceptor) => setup.acceptor = acceptor,
                Err(error) => errors.push(error),
            }
        }
        if wants_own_for_console(settings, setup.acceptor.is_some()) {
            let before = previous.and_then(|previous| previous.console.as_ref());
            match accept_console(settings, folders, before, &mut setup.warnings) {
                Ok(acceptor) => setup.console = acceptor,
                Err(error) => errors.push(error),
            }
        }
        let name = "caching_sha2_password_private_key_path";
        match password_key(settings, folders, &mut setup.warnings) {
            Ok(key) => setup.password_key = key,
            Err(error) => errors.push(format!("{name} {error}")),
        }
        // In a fixed order, so that errors are too.
        let mut keys: BTreeMap<_, ConnectorKey> = BTreeMap::new();
        for (address, tls) in config.server_tls().filter(|(_, tls)| tls.mode != TlsMode::Disabled) {
            for params in tls.all_params() {
                let key = (address.clone(), tls.mode, Arc::clone(params));
                keys.insert((key.0.clone(), tls.mode.word(), Arc::clone(params)), key);
            }
        }
        for key in keys.into_values() {
            let before = previous.and_then(|previous| previous.connectors.get(&key));
            let mut files = Files::new(&folders.base, settings.allow_open_files);
            let connector = connect(key.1, &key.2, &mut files, before);
            setup.warnings.extend(files.warnings());
            match connector {
                Ok(connector) => drop(setup.connectors.insert(key, connector)),
                Err(error) => errors.push(format!("TLS to server {}: {error}", key.0)),
            }
        }
        if errors.is_empty() { Ok(setup) } else { Err(errors) }
    }

    /// Whether another one works with the same.
    pub fn is_same(&self, other: &Self) -> bool {
        let same = |a: Option<&Arc<Acceptor>>, b: Option<&Arc<Acceptor>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let is_there = |(key, connector): (&ConnectorKey, &Arc<Connector>)| {
            other.connectors.get(key).is_some_and(|found| Arc::ptr_eq(found, connector))
        };
        same(self.acceptor.as_ref(), other.acceptor.as_ref())
            && same(self.console.as_ref(), other.console.as_ref())
            && self.connectors.len() == other.connectors.len()
            && self.connectors.iter().all(is_there)
    }

    /// Reads the files as [`load`](Self::load) does, and makes no certificate of our own.
    ///
    /// # Errors
    /// As there.
    pub fn check(config: &Config, folders: &TlsFolders) -> Result<Vec<String>, Vec<String>> {
        let mut config = config.clone();
        if config.settings.tls_cert.is_empty() {
            config.settings.have_ssl = false;
            config.settings.listen_tls.clear();
            config.settings.console_listen = None;
        }
        Self::load(&config, folders, None).map(|setup| setup.warnings)
    }

    /// What clients are shown; `None` when TLS is off for them.
    pub fn acceptor(&self) -> Option<&Acceptor> {
        self.acceptor.as_deref()
    }

    /// What browsers are shown by the console; `None` when there is nothing to show.
    pub fn console(&self) -> Option<&Acceptor> {
        self.console.as_deref().or_else(|| self.acceptor())
    }

    /// What clients encrypt their passwords for that have no TLS, where a file has been named.
    pub fn password_key(&self) -> Option<&Arc<PrivateKey>> {
        self.password_key.as_ref()
    }

    /// How a server is met.
    pub fn connector(
        &self,
        address: &Address,
        mode: TlsMode,
        params: &Arc<TlsParams>,
    ) -> Option<&Connector> {
        self.connectors.get(&(address.clone(), mode, Arc::clone(params))).map(AsRef::as_ref)
    }

    /// When the certificate that clients are shown expires, in seconds of Unix time; 0 without one.
    pub fn not_after_unix_sec(&self) -> u64 {
        self.acceptor.as_ref().map_or(0, |acceptor| acceptor.not_after_unix_sec)
    }

    /// What an operator should hear of the certificate's end, if it is near.
    pub fn expiry_warning(&self) -> Option<String> {
        let acceptor = self.acceptor.as_ref()?;
        expiry_warning(&acceptor.name, acceptor.not_after_unix_sec)
    }

    /// What an operator should hear.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl std::fmt::Debug for TlsSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsSetup")
            .field("has_acceptor", &self.acceptor.is_some())
            .field("connectors", &self.connectors.len())
            .finish_non_exhaustive()
    }
}

/// The key of `caching_sha2_password_private_key_path`.
fn password_key(
    settings: &Settings,
    folders: &TlsFolders,
    warnings: &mut Vec<String>,
) -> Result<Option<Arc<PrivateKey>>, String> {
    let path = settings.caching_sha2_password_private_key_path.as_str();
    if path.is_empty() {
        return Ok(None);
    }
    let mut files = Files::new(&folders.base, settings.allow_open_files);
    let der = files.key(path, None)?;
    warnings.extend(files.warnings());
    let key = PrivateKey::from_der(der.expose().secret_der());
    key.map(|key| Some(Arc::new(key))).map_err(|error| format!("{path}: {error}"))
}

fn provider(ciphers: &[SupportedCipherSuite]) -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    if !ciphers.is_empty() {
        provider.cipher_suites = ciphers.to_vec();
    }
    Arc::new(provider)
}

fn accept(
    settings: &Settings,
    folders: &TlsFolders,
    before: Option<&Arc<Acceptor>>,
    warnings: &mut Vec<String>,
) -> Result<Option<Arc<Acceptor>>, String> {
    let mut files = Files::new(&folders.base, settings.allow_open_files);
    let is_own = settings.tls_cert.is_empty();
    let (cert, key) = match is_own {
        true => own_files(settings, folders)?,
        false if settings.tls_key.is_empty() => {
            (settings.tls_cert.clone(), settings.tls_cert.clone())
        }
        false => (settings.tls_cert.clone(), settings.tls_key.clone()),
    };
    let chain = files.certificates(&cert).map_err(|error| format!("tls_cert {error}"))?;
    let password = key_password(settings, &mut files)?;
    let password = password.as_ref().map(|password| password.expose().as_str());
    let key_der = files.key(&key, password).map_err(|error| format!("tls_key {error}"))?;
    warnings.extend(files.warnings());
    let roots = files
        .roots(&settings.tls_client_ca, "")
        .map_err(|error| format!("tls_client_ca {error}"))?;
    let revoked = files
        .revoked(&settings.tls_client_crl, "")
        .map_err(|error| format!("tls_client_crl {error}"))?;
    let versions: &[&SupportedProtocolVersion] = match settings.tls_version_min {
        TlsVersionMin::V1_2 => &[&TLS13, &TLS12],
        TlsVersionMin::V1_3 => &[&TLS13],
    };
    files.note(if versions.len() == 1 { "1.3" } else { "1.2" });
    let facts = facts_of(&chain).map_err(|error| format!("tls_cert {cert}: {error}"))?;
    if !is_own {
        warnings.extend(expiry_warning(&cert, facts.0));
    }
    let inputs = files.digest();
    if let Some(before) = before.filter(|before| before.inputs == inputs) {
        return Ok(Some(Arc::clone(before)));
    }
    let provider = provider(&[]);
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| reason(&error))?;
    let builder = match roots.is_empty() {
        true if !revoked.is_empty() => {
            return Err("tls_client_crl needs tls_client_ca".to_owned());
        }
        true => builder.with_no_client_auth(),
        false => {
            let verifier = verify::of_clients(roots, revoked, &provider);
            let complain = |error| format!("tls_client_ca {}: {error}", settings.tls_client_ca);
            builder.with_client_cert_verifier(verifier.map_err(complain)?)
        }
    };
    let shown = certified(chain, &key_der);
    let shown = shown.map_err(|error| format!("tls_cert {cert}: {}", reason(&error)))?;
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
    config.ticketer = aws_lc_rs::Ticketer::new().map_err(|error| reason(&error))?;
    config.send_tls13_tickets = 1;
    let (not_after_unix_sec, fingerprint) = facts;
    let config = Arc::new(config);
    let name = cert;
    Ok(Some(Arc::new(Acceptor { config, fingerprint, not_after_unix_sec, name, inputs })))
}

/// Whether the console shows browsers something else than what clients are shown: another
/// certificate, or the same one without asking for theirs.
fn wants_own_for_console(settings: &Settings, has_acceptor: bool) -> bool {
    match settings.console_listen {
        _ if !settings.console_cert.is_empty() => true,
        Some(_) => !has_acceptor || !settings.tls_client_ca.is_empty(),
        None => has_acceptor && !settings.tls_client_ca.is_empty(),
    }
}

/// What browsers are shown by the console.
fn accept_console(
    settings: &Settings,
    folders: &TlsFolders,
    before: Option<&Arc<Acceptor>>,
    warnings: &mut Vec<String>,
) -> Result<Option<Arc<Acceptor>>, String> {
    let mut settings = settings.clone();
    settings.tls_client_ca.clear();
    settings.tls_client_crl.clear();
    if settings.console_cert.is_empty() {
        return accept(&settings, folders, before, warnings);
    }
    settings.tls_cert = std::mem::take(&mut settings.console_cert);
    settings.tls_key = std::mem::take(&mut settings.console_key);
    settings.tls_key_password_file.clear();
    let accepted = accept(&settings, folders, before, warnings);
    accepted.map_err(|error| error.replacen("tls_", "console_", 1))
}

/// The password of an encrypted key.
fn key_password(
    settings: &Settings,
    files: &mut Files<'_>,
) -> Result<Option<Secret<String>>, String> {
    let path = settings.tls_key_password_file.as_str();
    if path.is_empty() {
        return Ok(None);
    }
    let text = files.secret(path).map_err(|error| format!("tls_key_password_file {error}"))?;
    let text = std::str::from_utf8(text.expose());
    let text = text.map_err(|_| format!("tls_key_password_file {path}: is no text"))?;
    Ok(Some(Secret::new(text.trim_end_matches(['\n', '\r']).to_owned())))
}

/// What an operator should hear of a certificate that is theirs.
fn expiry_warning(cert: &str, not_after_unix_sec: u64) -> Option<String> {
    match not_after_unix_sec.saturating_sub(now_unix_sec()) {
        0 => Some(format!("the certificate {cert} has expired")),
        left_sec if left_sec < EXPIRES_SOON_SEC => {
            let days = left_sec / 86_400;
            Some(format!("the certificate {cert} expires in {days} days"))
        }
        _ => None,
    }
}

/// A certificate with its key. The key's bytes stay the caller's, who wipes them.
fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: &Secret<PrivateKeyDer<'static>>,
) -> Result<CertifiedKey, Error> {
    let certified = CertifiedKey::new(chain, any_supported_type(key.expose())?);
    match certified.keys_match() {
        // Not every kind of key can be compared.
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(error) => Err(error),
    }
}

/// When the first certificate expires, and its hash.
fn facts_of(chain: &[CertificateDer<'_>]) -> Result<(u64, [u8; 32]), String> {
    let first = chain.first().ok_or("holds no certificate")?;
    let read = der::certificate(first).ok_or("the certificate can't be read")?;
    Ok((read.not_after_unix_sec, trunkline_crypto::sha256(first)))
}

fn connect(
    mode: TlsMode,
    params: &TlsParams,
    files: &mut Files<'_>,
    before: Option<&Arc<Connector>>,
) -> Result<Arc<Connector>, String> {
    let named = |name: &'static str| move |error: String| format!("{name} {error}");
    let roots = files.roots(&params.ca, &params.capath).map_err(named("ssl_ca"))?;
    let revoked = files.revoked(&params.crl, &params.crlpath).map_err(named("ssl_crl"))?;
    if roots.is_empty() && matches!(mode, TlsMode::VerifyCa | TlsMode::VerifyIdentity) {
        return Err(format!("{} needs ssl_ca or ssl_capath", mode.word()));
    }
    let own = match (params.cert.as_str(), params.key.as_str()) {
        ("", "") => None,
        ("", _) => return Err("ssl_key needs ssl_cert".to_owned()),
        (cert, key) => {
            let chain = files.certificates(cert).map_err(named("ssl_cert"))?;
            let key = if key.is_empty() { cert } else { key };
            let key = files.key(key, None).map_err(named("ssl_key"))?;
            let shown = certified(chain, &key);
            Some(shown.map_err(|error| format!("ssl_cert {cert}: {}", reason(&error)))?)
        }
    };
    let inputs = files.digest();
    if let Some(before) = before.filter(|before| before.inputs == inputs) {
        return Ok(Arc::clone(before));
    }
    let provider = provider(&ciphers(&params.cipher)?);
    let verifier = verify::of_servers(mode, roots, revoked, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(&params.tls_version)?)
        .map_err(|error| format!("ssl_cipher and tls_version: {error}"))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(shown) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown))),
    };
    config.resumption = Resumption::in_memory_sessions(SERVER_SESSIONS_MAX);
    Ok(Arc::new(Connector { config: Arc::new(config), inputs }))
}

/// Versions as ProxySQL's column has them: `TLSv1.2,TLSv1.3`. An empty list takes both.
fn versions(list: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let words = list.split([',', ':', ' ']).filter(|word| !word.is_empty());
    let version = |word: &str| match word {
        "TLSv1.2" => Ok(&TLS12),
        "TLSv1.3" => Ok(&TLS13),
        other => Err(format!("tls_version knows TLSv1.2 and TLSv1.3, not `{other}`")),
    };
    let versions: Vec<_> = words.map(version).collect::<Result<_, _>>()?;
    Ok(if versions.is_empty() { vec![&TLS13, &TLS12] } else { versions })
}

/// OpenSSL's names of the suites that are spoken.
const CIPHERS: [(&str, &str); 9] = [
    ("TLS_AES_256_GCM_SHA384", "TLS13_AES_256_GCM_SHA384"),
    ("TLS_AES_128_GCM_SHA256", "TLS13_AES_128_GCM_SHA256"),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS13_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];

/// Cipher suites by OpenSSL's names. As with OpenSSL, a list that names none of TLS 1.3 leaves
/// those as they are.
fn ciphers(list: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let all = aws_lc_rs::ALL_CIPHER_SUITES;
    let mut suites = Vec::new();
    for word in list.split([':', ',']).map(str::trim).filter(|word| !word.is_empty()) {
        let name = CIPHERS.iter().find(|(openssl, _)| *openssl == word).map(|(_, name)| *name);
        let suite = all.iter().find(|suite| suite.suite().as_str() == name && name.is_some());
        match suite {
            Some(suite) => suites.push(*suite),
            None => {
                let known = CIPHERS.map(|(openssl, _)| openssl).join(", ");
                return Err(format!("ssl_cipher knows {known}, not `{word}`"));
            }
        }
    }
    let is_tls13 = |suite: &SupportedCipherSuite| suite.tls13().is_some();
    if !suites.is_empty() && !suites.iter().any(is_tls13) {
        suites.extend(all.iter().filter(|suite| is_tls13(suite)));
    }
    Ok(suites)
}

/// The files of our own certificate, which are made when they are not there, or can't be used much
/// longer.
fn own_files(settings: &Settings, folders: &TlsFolders) -> Result<(String, String), String> {
    let folder = match settings.tls_folder.as_str() {
        "" => folders.own.clone(),
        folder => folders.base.join(folder),
    };
    let (cert, key) = (folder.join(OWN_CERTIFICATE), folder.join(OWN_KEY));
    if !is_usable(&cert, &key) {
        let made = make_own(&folder, &cert, &key);
        made.map_err(|error| {
            let folder = folder.display();
            format!(
                "a self-signed certificate can't be kept in {folder}: {error}; name another \
                     folder (tls_folder), a certificate (tls_cert), or switch TLS off (have_ssl)"
            )
        })?;
    }
    Ok((cert.to_string_lossy().into_owned(), key.to_string_lossy().into_owned()))
}

fn is_usable(cert: &Path, key: &Path) -> bool {
    let read = fs::read(cert).ok().and_then(|pem| load::certificates(&pem).ok());
    let facts = read.and_then(|chain| facts_of(&chain).ok());
    let soon_sec = now_unix_sec() + EXPIRES_SOON_SEC;
    facts.is_some_and(|(not_after, _)| not_after > soon_sec) && key.exists()
}

fn make_own(folder: &Path, cert: &Path, key: &Path) -> io::Result<()> {
    let made = trunkline_crypto::self_signed(now_unix_sec()).map_err(io::Error::other)?;
    if !folder.is_dir() {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // The key first: a certificate without one is made anew.
    private::replace(key, &made.key_pem)?;
    private::replace(cert, &made.certificate_pem)
}

fn now_unix_sec() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
