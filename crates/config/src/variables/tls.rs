//! TLS to clients and to servers, and keys.

macro_rules! tls {
    ([$($before:tt)*] $next:ident $($later:ident)*) => { $next! { [$($before)*

    /// Whether clients may use TLS. Those that do not ask for it are not affected, unless
    /// `require_secure_transport`, `listen_tls` or their user asks for it.
    have_ssl: bool = true, Range::All, "", Live, "0.1.0";

    /// Whether clients over TCP must use TLS. Others are refused with error 3159.
    require_secure_transport: bool = false, Range::All, "", Live, "0.1.0";

    /// Listeners with their own word on TLS: entries of `listen`, each with `=off`, `=optional` or
    /// `=required` behind it. Others do as `have_ssl` and `require_secure_transport` say.
    listen_tls: Vec<ListenTls> = Vec::new(), Range::All, "", Live, "0.1.0";

    /// File of the certificate that is shown to clients, PEM, with its chain behind it. Empty shows
    /// a self-signed one, which is made when there is none.
    tls_cert: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// File of the certificate's private key, PEM. Empty looks for it behind the certificate.
    tls_key: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// File with the password of an encrypted private key, in one line.
    tls_key_password_file: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// Takes private keys, and the password of one, from files that everybody may read or the group
    /// may change, and a configuration file that everybody may change. Such files are refused
    /// otherwise.
    allow_open_files: bool = false, Range::All, "", Live, "0.1.0";

    /// Folder where the self-signed certificate and its key are kept. Empty is the data folder in
    /// database mode, and the configuration file's path with `.tls` behind it in file mode.
    tls_folder: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// File of the CA certificates that clients' certificates are checked against, PEM. Empty asks
    /// no client for a certificate.
    tls_client_ca: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// File of clients' certificates that are revoked, PEM, from the CAs of `tls_client_ca`.
    tls_client_crl: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// The lowest version of TLS that is spoken with clients: `1.2` or `1.3`.
    tls_version_min: TlsVersionMin = TlsVersionMin::V1_2, Range::All, "", Live, "0.1.0";

    /// What `use_ssl = 1` of a server means: `auto` checks the certificate against the CA where one
    /// is given, and does not check it otherwise; `required`, `verify-ca` and `verify-identity`
    /// do as they say.
    ssl_p2s_mode: TlsDefault = TlsDefault::Auto, Range::All, "", Live, "0.1.0";

    /// File of CA certificates that servers' certificates are checked against, PEM.
    ssl_p2s_ca: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// Folder of such files.
    ssl_p2s_capath: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// File of the certificate that is shown to servers, PEM.
    ssl_p2s_cert: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// File of that certificate's private key, PEM.
    ssl_p2s_key: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// Cipher suites for servers, by OpenSSL's names, with `:` between them. Empty takes all.
    ssl_p2s_cipher: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// File of servers' certificates that are revoked, PEM.
    ssl_p2s_crl: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// Folder of such files.
    ssl_p2s_crlpath: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// Public keys of servers, PEM, or the path of a file with them: `public_key.pem` of each
    /// server's data directory, one behind the other. Without TLS, a server that needs the password
    /// itself (`caching_sha2_password` after its restart, `sha256_password`) gets it encrypted
    /// for one of these keys, and not at all where it has another. `[[hostgroup]]` may have its
    /// own.
    server_public_key: KeySource = KeySource::default(), Range::Text(65_536), "", Live, "0.1.0";

    /// File of the private key, RSA in PEM, that clients encrypt their passwords for which log in
    /// by `caching_sha2_password` without TLS; `private_key.pem` of a server's data directory will
    /// do. Clients that pin the public key need one that lasts, and the same of all proxies behind
    /// one address. Empty makes a key at each start.
    caching_sha2_password_private_key_path: String = String::new(), Range::Text(4_096), "",
        Restart, "0.1.0";

    ] $($later)* } };
}
