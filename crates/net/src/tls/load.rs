//! Files with certificates, keys, and lists of what is revoked. Errors name the file.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustls::{
    RootCertStore,
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs8KeyDer,
        pem::PemObject,
    },
};

use trunkline_topology::Secret;

use crate::private;

/// The longest file that is read: a list of revoked certificates may be long.
const FILE_LEN_MAX: u64 = 64 * 1024 * 1024;

/// Reads files below a folder, and remembers what they held, to tell whether anything has changed.
pub(super) struct Files<'a> {
    folder: &'a Path,
    read: Vec<u8>,
    /// Whether secrets are read that are open to others.
    takes_open: bool,
    /// Those that were.
    open: Vec<String>,
}

impl<'a> Files<'a> {
    pub(super) fn new(folder: &'a Path, takes_open: bool) -> Self {
        Self { folder, read: Vec::new(), takes_open, open: Vec::new() }
    }

    /// What an operator should hear of the files that were read.
    pub(super) fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.open)
    }

    /// A hash of all that was read and noted.
    pub(super) fn digest(&self) -> [u8; 32] {
        trunkline_crypto::sha256(&self.read)
    }

    /// Notes what else the result depends on.
    pub(super) fn note(&mut self, text: &str) {
        self.read.extend_from_slice(text.as_bytes());
        self.read.push(0);
    }

    /// A file's bytes, which may be a key: they are wiped.
    pub(super) fn read(&mut self, path: &str) -> Result<Secret<Vec<u8>>, String> {
        let bytes = read(&self.folder.join(path)).map_err(|error| format!("{path}: {error}"))?;
        self.read.extend_from_slice(&trunkline_crypto::sha256(&bytes));
        Ok(Secret::new(bytes))
    }

    /// Reads a file that only its owner, and its group, may read.
    pub(super) fn secret(&mut self, path: &str) -> Result<Secret<Vec<u8>>, String> {
        if let Some(mode) = open_mode(&self.folder.join(path)) {
            let what = format!("{path}: is open to others (mode {mode:03o}); chmod 600 closes it");
            if !self.takes_open {
                return Err(format!("{what}, allow_open_files = true takes it as it is"));
            }
            self.open.push(what);
        }
        self.read(path)
    }

    /// The certificates of a file; at least one.
    pub(super) fn certificates(
        &mut self,
        path: &str,
    ) -> Result<Vec<CertificateDer<'static>>, String> {
        certificates(self.read(path)?.expose()).map_err(|why| format!("{path}: {why}"))
    }

    /// The private key of a file.
    pub(super) fn key(
        &mut self,
        path: &str,
        password: Option<&str>,
    ) -> Result<Secret<PrivateKeyDer<'static>>, String> {
        key(self.secret(path)?.expose(), password)
            .map(Secret::new)
            .map_err(|why| format!("{path}: {why}"))
    }

    /// The CA certificates of a file and of the files of a folder; either may be empty.
    pub(super) fn roots(&mut self, file: &str, folder: &str) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        for path in self.both(file, folder)? {
            for certificate in self.certificates(&path)? {
                roots.add(certificate).map_err(|error| {
                    format!(
                        "{path}: a certificate can't be a CA: {}",
                        super::reason::reason(&error)
                    )
                })?;
            }
        }
        Ok(roots)
    }

    /// The lists of revoked certificates of a file and of the files of a folder.
    pub(super) fn revoked(
        &mut self,
        file: &str,
        folder: &str,
    ) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
        let mut lists = Vec::new();
        for path in self.both(file, folder)? {
            let bytes = self.read(&path)?;
            let before = lists.len();
            for list in CertificateRevocationListDer::pem_slice_iter(bytes.expose()) {
                lists.push(list.map_err(|error| format!("{path}: {error}"))?);
            }
            if lists.len() == before {
                return Err(format!("{path}: holds no list of revoked certificates in PEM"));
            }
        }
        Ok(lists)
    }

    /// A file, and the files of a folder in order.
    fn both(&self, file: &str, folder: &str) -> Result<Vec<String>, String> {
        let mut paths = Vec::new();
        if !file.is_empty() {
            paths.push(file.to_owned());
        }
        if !folder.is_empty() {
            let complain = |error: io::Error| format!("{folder}: {error}");
            let mut found: Vec<PathBuf> = Vec::new();
            for entry in fs::read_dir(self.folder.join(folder)).map_err(complain)? {
                let path = entry.map_err(complain)?.path();
                // OpenSSL's folders have links by hash beside the files; each is read once.
                if path.is_file() && !path.is_symlink() {
                    found.push(path);
                }
            }
            found.sort();
            paths.extend(found.into_iter().map(|path| path.to_string_lossy().into_owned()));
        }
        Ok(paths)
    }
}

pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| error.to_string())?;
    match read.is_empty() {
        true => Err("holds no certificate in PEM".to_owned()),
        false => Ok(read),
    }
}

fn key(pem: &[u8], password: Option<&str>) -> Result<PrivateKeyDer<'static>, String> {
    if let Ok(text) = std::str::from_utf8(pem)
        && text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    {
        let Some(password) = password else {
            return Err("the key is encrypted and there is no tls_key_password_file".to_owned());
        };
        let der = trunkline_crypto::decrypt_key(text, password).map_err(|why| why.to_string())?;
        return Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der)));
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| "holds no private key in PEM".to_owned())
}

/// The mode of a file that others than owner and group may touch, or the group may change.
fn open_mode(path: &Path) -> Option<u32> {
    const OPEN: u32 = 0o027;
    let mode = fs::metadata(path).ok()?.mode() & 0o777;
    (mode & OPEN != 0).then_some(mode)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let len = fs::metadata(path)?.len();
    if len > FILE_LEN_MAX {
        return Err(io::Error::other(format!("{len} bytes are too many")));
    }
    private::read(path)
}
