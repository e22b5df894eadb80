//! The one table of scalar settings. A setting exists by its row here: the field of [`Settings`],
//! its default, the key of the file and the page of the manual all come from it.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use trunkline_sql::routine::Routines;
use trunkline_topology::{
    LazyTransactions, Origins, Secret,
    causal::{CausalFallback, CausalReads},
    outcome::CommitOutcomes,
};

use crate::{
    ListenAddress, ListenAllow, ListenTls, RedisServer, WorkerCpus, Wrong,
    settings::{
        AdminTypes, Given, IoDriver, KeySource, LogFormat, LogLevel, Range, Reload, Setting,
        SettingValue, StateFile, TlsDefault, TlsVersionMin,
    },
};

macro_rules! settings {
    ($( $(#[doc = $doc:literal])+
        $name:ident: $type:ty = $default:expr,
        $range:expr, $unit:literal, $reload:ident, $since:literal;
    )+) => {
        /// Every scalar setting. The table that makes it is [`SETTINGS`], which also has units,
        /// ranges and whether a change needs a restart.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Settings {
            $( $(#[doc = $doc])+ pub $name: $type, )+
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $( $name: $default, )+ }
            }
        }

        /// The rows of the table, in the order of the manual.
        pub const SETTINGS: &[Setting] = &[ $( Setting {
            name: stringify!($name),
            kind: <$type as SettingValue>::KIND,
            unit: $unit,
            range: $range,
            reload: Reload::$reload,
            since: $since,
            doc: concat!($($doc),+),
        }, )+ ];

        impl Settings {
            /// Sets the setting called `name`. `Ok(false)` when there is none of that name; the
            /// error says what the value must be, without the name.
            pub fn set(&mut self, name: &str, given: &Given) -> Result<bool, Wrong> {
                match name {
                    $( stringify!($name) => self.$name = SettingValue::read(given, $range)?, )+
                    _ => return Ok(false),
                }
                Ok(true)
            }

            /// The value of the setting called `name` as the file writes it, without quotes.
            pub fn show(&self, name: &str) -> Option<String> {
                match name {
                    $( stringify!($name) => Some(SettingValue::show(&self.$name)), )+
                    _ => None,
                }
            }

            /// Takes from `running` what only a restart may change.
            pub(crate) fn keep_running(&mut self, running: &Self) {
                $( if Reload::$reload == Reload::Restart {
                    self.$name.clone_from(&running.$name);
                } )+
            }
        }
    };
}

/// One day in milliseconds.
const DAY_MS: u64 = 86_400_000;

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}

fn every_address(port: u16) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))
}

settings! {
    /// Where clients connect: each entry is `ip:port`, `[ipv6]:port` or `unix:/path`. Every
    /// worker accepts on every entry. At least one is needed.
    listen: Vec<ListenAddress> = vec![ListenAddress::Tcp(every_address(6033))],
        Range::All, "", Restart, "0.1.0";

    /// Threads that serve clients. 0 takes one per core that the process may use, or one for each
    /// that `worker_cpus` lists.
    workers: usize = 0, Range::Numbers(0, 1_024), "threads", Restart, "0.1.0";

    /// Whether each worker stays on one CPU. `auto` takes those that the process may use, in their
    /// order; a list like `0-3,6` names them. Worth a try where servers or network interrupts have
    /// CPUs of their own; elsewhere the kernel knows better. Linux only.
    worker_cpus: WorkerCpus = WorkerCpus::Off, Range::All, "", Restart, "0.1.0";

    /// How workers receive and write. With `io_uring` the kernel puts what comes into buffers of a
    /// worker (1 MiB each), and a batch is written by one call; Linux 6.0 or later. It measured
    /// cheaper for 8 to 128 clients, and dearer for 1 and for more than 500. Where the kernel
    /// refuses it, as many containers do, `epoll` is taken and the log says so. `auto` is `epoll`.
    io: IoDriver = IoDriver::Auto, Range::All, "", Restart, "0.1.0";

    /// A worker that has served so many percent more commands than the average of all in the last
    /// second gives resting sessions to the least busy one: those without a transaction, an open
    /// cursor, more than 64 prepared statements, compression, or anything else that holds them to
    /// a connection or to their worker. 0 leaves sessions where they are.
    rebalance_threshold: u32 = 10, Range::Numbers(0, 1_000), "percent", Live, "0.1.0";

    /// Where `/metrics` and `/healthz` answer, over plain HTTP. Empty switches both off.
    http_listen: Option<SocketAddr> = Some(loopback(6070)), Range::All, "", Restart, "0.1.0";

    /// Names by which `http_listen` may be asked (the header `Host`), beside IP addresses,
    /// `localhost`, names below it and the machine's own name: `proxy.example.com`,
    /// `*.example.com` or `*` for all, separated by commas. Others get status 421: a web page could
    /// have its own name resolved to the proxy's address, and read what the browser gets.
    http_allowed_hosts: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// The token of who may do everything over `/api/v1` and `/sync` of `http_listen`, as
    /// `Authorization: Bearer`. Empty switches scripts off, and, with `http_api_stats_token`, the
    /// API. It travels in clear.
    http_api_token: String = String::new(), Range::Text(512), "", Live, "0.1.0";

    /// The token of who may read statistics over `/api/v1`.
    http_api_stats_token: String = String::new(), Range::Text(512), "", Live, "0.1.0";

    /// Where the web console is served, over TLS: `127.0.0.1:6080`. Empty serves none. Whoever logs
    /// in has an account of the admin port, or a token of the API.
    console_listen: Option<SocketAddr> = None, Range::All, "", Restart, "0.1.0";

    /// File of the web console's certificate, PEM, with its chain behind it. Empty shows the one of
    /// `tls_cert`.
    console_cert: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// File of that certificate's private key, PEM. Empty looks for it behind the certificate.
    console_key: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// The account of the system that scripts of `scheduler` and `restapi_routes` run as. Empty is
    /// the proxy's own account; a proxy that runs as root runs no script then.
    script_user: String = String::new(), Range::Text(64), "", Live, "0.1.0";

    /// Whether scripts may run as root, or as another account with its number, when `script_user`
    /// names it. Without this such an account is refused: whoever may write to the tables or to a
    /// script would have the machine.
    script_user_may_be_root: bool = false, Range::All, "", Live, "0.1.0";

    /// The program that is run for every event of a cluster, with its arguments, parted by spaces.
    /// In these, `$EVENT` is the event's name, `$INITIATOR` the server, `$CLUSTER` the cluster,
    /// `$EVIDENCE` what showed it, `$MASTERLIST`, `$SLAVELIST`, `$NODELIST` and `$LIST` the servers
    /// that write, that read, that can be reached, and all. It runs as `script_user`, one at a
    /// time. Empty runs nothing.
    cluster_event_script: String = String::new(), Range::Text(1_024), "", Live, "0.1.0";

    /// How long a script of `scheduler`, or `cluster_event_script`, may run before it is ended.
    script_time_max: u64 = 60_000, Range::Numbers(100, DAY_MS), "ms", Live, "0.1.0";

    /// Where the admin port listens in database mode (`serve -D`): `ip:port` or the path of a Unix
    /// socket, several separated by `;`. In file mode that port is open where the file has this
    /// key, and nothing is edited there. An address that other machines can reach is refused as
    /// long as an account has its default password.
    admin_listen: String = "127.0.0.1:6032".to_owned(), Range::Text(4_096), "", Restart, "0.1.0";

    /// The most administrators connected to the admin port at once. Their places are their own:
    /// neither users of statistics nor who has not logged in take any. One more is refused with
    /// error 1040.
    admin_connections_max: u32 = 128, Range::Numbers(1, 256), "clients", Live, "0.1.0";

    /// The most users of statistics connected to the admin port at once. One more is refused with
    /// error 1040.
    admin_stats_connections_max: u32 = 64, Range::Numbers(0, 256), "clients", Live, "0.1.0";

    /// How long a statement of a user of statistics may run on the admin port, and how long it may
    /// wait for another one of the same user. It ends with error 3024.
    admin_stats_time_max: u64 = 5_000, Range::Numbers(10, DAY_MS), "ms", Live, "0.1.0";

    /// The most rows that a statement of a user of statistics is answered with. More is error 1104.
    admin_stats_rows_max: usize = 200_000, Range::Numbers(1, 100_000_000), "rows", Live, "0.1.0";

    /// The most memory for the result of one statement of a user of statistics, and, twice, for all
    /// results that such users have not read yet. More is error 1153.
    admin_stats_bytes_max: usize = 67_108_864, Range::Numbers(65_536, 1_073_741_824), "bytes",
        Live, "0.1.0";

    /// How long a client of the admin port may be idle before it is disconnected.
    admin_wait_timeout: u64 = 3_600_000, Range::Numbers(1_000, 20 * DAY_MS), "ms", Live, "0.1.0";

    /// The types of columns that clients of the admin port are told: `text` for all, as ProxySQL
    /// has it, so that programs which compare or join strings work on; with `real`, numbers are
    /// numbers. Values that are no text are bytes either way.
    admin_types: AdminTypes = AdminTypes::Text, Range::All, "", Live, "0.1.0";

    /// Failed logins in a row to the admin port, of one name from one address, before further ones
    /// have to wait as `failed_login_delay` says; 0 is no limit. Over a Unix socket the account of
    /// the system is the address. Wrong tokens over HTTP are counted apart, by address.
    admin_failed_logins_max: u32 = 5, Range::Numbers(0, 1_000_000), "logins", Live, "0.1.0";

    /// Where facts learned from servers (version, character set, capabilities) are kept, so that
    /// the greeting is right from the first client of the next start. Left out, it is the
    /// configuration file's path with `.state` behind it; empty keeps nothing.
    state_file: StateFile = StateFile::Beside, Range::All, "", Restart, "0.1.0";

    /// How large the files with the numbers of the past may be, all together. They are in a folder
    /// that is the state file's path with `.history` behind it. 0, or an empty `state_file`, keeps
    /// nothing.
    history_size_mb: u64 = 200, Range::Numbers(0, 1_000_000), "MB", Restart, "0.1.0";

    /// The Unix socket by which `trunkline kill`, `pause`, `resume`, `drain` and `reload` reach the
    /// proxy without a token: the proxy's own account and root may, nobody else. `auto` is the
    /// state file's path, or, without one, the configuration's, with `.control` behind it; empty
    /// opens none. A socket that can't be made is a warning.
    control_socket: String = "auto".to_owned(), Range::Text(4_096), "", Restart, "0.1.0";

    /// The server version that clients are greeted with. Empty greets with the version learned
    /// from the servers behind.
    server_version: String = String::new(), Range::Text(60), "", Live, "0.1.0";

    /// The most clients connected and logged in at once, over all workers. One more is refused with
    /// error 1040. Connections that have not logged in count under `half_open_max` instead.
    max_connections: u32 = 10_000, Range::Numbers(1, 1_000_000), "clients", Live, "0.1.0";

    /// The most full TLS handshakes in a second by clients of one address, over all workers; 0 is
    /// no limit. A full handshake costs the proxy more than the client. Resumed ones do not count.
    tls_handshakes_per_address_max: u32 = 0, Range::Numbers(0, 1_000_000), "handshakes", Live,
        "0.1.0";

    /// The most connections that have not logged in, over all workers and listeners. For one more,
    /// the oldest is closed with error 1040, so that silent connections keep nobody out: a client
    /// that logs in within the time in which so many others come is not affected.
    half_open_max: u32 = 5_000, Range::Numbers(1, 1_000_000), "connections", Live, "0.1.0";

    /// The most of them from one address; 0 is no limit. For one more, the oldest from there is
    /// closed. Connections from `proxy_protocol_networks` count once their header has told the
    /// address. Unix sockets are not limited.
    half_open_per_address_max: u32 = 2_500, Range::Numbers(0, 1_000_000), "connections", Live,
        "0.1.0";

    /// The most clients connected and logged in at once from one address, over all workers; 0 is no
    /// limit. One more is refused with error 1040. Unix sockets are not limited.
    max_connections_per_address: u32 = 0, Range::Numbers(0, 1_000_000), "clients", Live, "0.1.0";

    /// Failed logins in a row of one name from one address before further ones have to wait; 0 is
    /// no limit. Who comes meanwhile with that name is refused with error 1129, also with the
    /// right password. `COM_CHANGE_USER` is a login. Clients behind a balancer have one address,
    /// unless it tells theirs (`proxy_protocol_networks`). Over a Unix socket the account of the
    /// system is the address.
    failed_logins_max: u32 = 0, Range::Numbers(0, 1_000_000), "logins", Live, "0.1.0";

    /// Failed logins from one address within `failed_login_delay_max`, whatever the names, before
    /// names have to wait that have not logged in from there before; 0 is no such limit. In force
    /// where `failed_logins_max` is. Of one name, the first `failed_logins_max` failures in a row
    /// count.
    failed_logins_per_address_max: u32 = 100, Range::Numbers(0, 1_000_000), "logins", Live,
        "0.1.0";

    /// How long a name from an address waits after `failed_logins_max` failed logins; twice as long
    /// after each further one. A login with that name from there that succeeds begins anew.
    failed_login_delay: u64 = 1_000, Range::Numbers(1, DAY_MS), "ms", Live, "0.1.0";

    /// The longest such wait.
    failed_login_delay_max: u64 = 300_000, Range::Numbers(1, DAY_MS), "ms", Live, "0.1.0";

    /// Listeners with their own list of who may connect: entries of `listen`, each with `=` and
    /// networks (`10.0.0.0/8,192.0.2.7`) or names of hosts (`app-%.example.com`) behind it;
    /// `localhost` is who comes over a Unix socket. Others are refused with error 1130. Listeners
    /// without an entry take everybody.
    listen_allow: Vec<ListenAllow> = Vec::new(), Range::All, "", Live, "0.1.0";

    /// Networks of balancers that may tell their clients' addresses by the PROXY protocol, versions
    /// 1 and 2: `10.0.0.0/8`, one address, `localhost` for Unix sockets, `*` for all. A connection
    /// from there without a header is served as it is; a header from elsewhere is refused.
    proxy_protocol_networks: Origins = Origins::default(), Range::All, "", Live, "0.1.0";

    /// The longest statement taken from a client. A longer one is answered with error 1153.
    max_allowed_packet: usize = 67_108_864, Range::Numbers(8_192, 1_073_741_824), "bytes", Live,
        "0.1.0";

    /// Whether clients may compress what they send and get, with zlib or zstd. Those that do not
    /// ask for it are not affected.
    have_compress: bool = true, Range::All, "", Live, "0.1.0";

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

    /// How hard zlib works for clients and servers that use it: 0 does not compress, 9 makes the
    /// shortest packets and takes the most time.
    protocol_compression_level: u8 = 3, Range::Numbers(0, 9), "", Live, "0.1.0";

    /// How hard zstd works towards servers with `compression = "zstd"`, and those servers towards
    /// Trunkline. A client with zstd names its own level; it gets no more than 9.
    zstd_compression_level: u8 = 3, Range::Numbers(1, 19), "", Live, "0.1.0";

    /// The most prepared statements of one client. One more is refused with error 1461.
    max_stmts_per_client: usize = 16_382, Range::Numbers(1, 1_048_576), "statements", Live,
        "0.1.0";

    /// The most statements that stay prepared on one connection to a server; the least recently
    /// used one is closed for a new one. 1 keeps the last one only.
    max_stmts_per_connection: usize = 100, Range::Numbers(1, 16_384), "statements", Live, "0.1.0";

    /// Beyond so many prepared statements on one server, over all connections and workers, a new
    /// one takes the place of the least recently used one of its connection. It should be below
    /// the server's `max_prepared_stmt_count`, which is 16382 unless it was changed.
    max_stmts_per_server: u32 = 12_000, Range::Numbers(1, 4_194_304), "statements", Live, "0.1.0";

    /// How long one attempt to connect to a server may take, authentication included.
    connect_timeout_server: u64 = 1_000, Range::Numbers(10, 120_000), "ms", Live, "0.1.0";

    /// How long a statement waits for a connection to a server in all: attempts, other servers
    /// and the queue. After that it is answered with an error that names the cause.
    connect_timeout_server_max: u64 = 10_000, Range::Numbers(10, 3_600_000), "ms", Live, "0.1.0";

    /// The most of a server's `max_connections` that idle sessions of one user may hold while
    /// statements of others have waited for half of `connect_timeout_server_max`: beyond that the
    /// one that has rested longest loses its connection, and with it its transaction, temporary
    /// tables and locks; its next statement is answered with error 1213 if only a transaction was
    /// lost, else with 2013. With 100 none does.
    pinned_share_max: u32 = 90, Range::Numbers(1, 100), "percent", Live, "0.1.0";

    /// How long statements, logins and connections of users with `fast_forward` are held while the
    /// writers' hostgroup of a cluster has no writer. After that, or if `queue_max` are held
    /// already, they are answered with an error that says so. A `[[cluster]]` may have a
    /// `hold_timeout` of its own. `PAUSE HOSTGROUP` pauses for so long unless it names a time.
    hold_timeout: u64 = 10_000, Range::Numbers(10, 3_600_000), "ms", Live, "0.1.0";

    /// How long a client may take for its handshake.
    connect_timeout_client: u64 = 10_000, Range::Numbers(500, 3_600_000), "ms", Live, "0.1.0";

    /// How long a client may be idle before it is disconnected. 0 means for ever.
    wait_timeout: u64 = 28_800_000, Range::Numbers(0, 1_728_000_000), "ms", Live, "0.1.0";

    /// How often a statement whose connection broke is sent again, where that is safe. A
    /// statement that may have had effects is never sent again.
    query_retries_on_failure: u32 = 1, Range::Numbers(0, 1_000), "", Live, "0.1.0";

    /// How long a statement may take, its wait for a connection included, before it is ended on its
    /// server and answered with error 1907. A rule's `timeout` goes before it. 0 means for ever.
    default_query_timeout: u64 = 0, Range::Numbers(0, 1_728_000_000), "ms", Live, "0.1.0";

    /// Whether a transaction that is lost with its server connection is repeated on another one,
    /// where nothing outside of it depends on that, and each result is the same. Otherwise its
    /// client is told 1213. A `[[user]]` may have its own word on it.
    transaction_replay: bool = false, Range::All, "", Live, "0.1.0";

    /// The most bytes that one transaction keeps to be repeated: its statements, and 256 for each.
    /// A longer one is not repeated.
    transaction_replay_max_bytes: usize = 1_048_576, Range::Numbers(1_024, 1_073_741_824),
        "bytes", Live, "0.1.0";

    /// The most bytes that all transactions of one worker keep. What begins beyond is not repeated.
    transaction_replay_worker_max_bytes: usize = 67_108_864, Range::Numbers(1_024, 68_719_476_736),
        "bytes", Live, "0.1.0";

    /// The most statements of a transaction that is repeated.
    transaction_replay_max_statements: usize = 1_000, Range::Numbers(1, 1_000_000),
        "statements", Live, "0.1.0";

    /// A transaction that began longer ago is not repeated.
    transaction_replay_max_age: u64 = 60_000, Range::Numbers(1, 86_400_000),
        "ms", Live, "0.1.0";

    /// How often one transaction is repeated before its client is told.
    transaction_replay_attempts: u32 = 5, Range::Numbers(1, 1_000), "", Live, "0.1.0";

    /// Whether a transaction that can be repeated is, where its server says that it is the victim
    /// of a deadlock (1213), or has waited too long for a lock (1205).
    transaction_replay_on_deadlock: bool = false, Range::All, "", Live, "0.1.0";

    /// What a client is told whose server connection is lost between a `COMMIT`, or a write in
    /// autocommit, and its answer. `auto`: the proxy asks the servers whether it was carried out,
    /// where the account may mark its connections for that; `off`: 2013. A `[[user]]` may have its
    /// own word on it.
    commit_outcome: CommitOutcomes = CommitOutcomes::Off, Range::All, "", Live, "0.1.0";

    /// The longest that a client waits until it is known what became of its `COMMIT`.
    commit_outcome_timeout: u64 = 10_000, Range::Numbers(100, 600_000), "ms", Live, "0.1.0";

    /// How long every statement is held back before it goes its way; a rule's `delay` is added.
    default_query_delay: u64 = 0, Range::Numbers(0, 3_600_000), "ms", Live, "0.1.0";

    /// Whether a stored procedure, a stored or loadable function, or a text prepared from something
    /// else than a plain literal keeps its session on its server connection (pin `routine`): it
    /// may leave what servers do not report, a user variable set by `INTO` or a named lock. Off for
    /// applications whose routines leave neither; what servers report still pins.
    routines_pin: bool = true, Range::All, "", Live, "0.1.0";

    /// Failed connects in a row after which a server is shunned. 0 never shuns. An account at
    /// its own limit there (errors 1203 and 1226) counts for none.
    shun_on_failures: u32 = 5, Range::Numbers(0, 10_000_000), "failures", Live, "0.1.0";

    /// How long a shunned server is left alone before it is tried again.
    shun_recovery_time_sec: u64 = 10, Range::Numbers(0, 31_536_000), "s", Live, "0.1.0";

    /// How long the share of a server grows that comes back from a shun or an ejection: from a
    /// sixteenth of its weight to all of it. 0 gives it all at once.
    slow_start_ms: u64 = 10_000, Range::Numbers(0, 3_600_000), "ms", Live, "0.1.0";

    /// A server is ejected from its hostgroup when its statements take so many times as long as on
    /// the others (their median), and more than 5 ms, for two seconds. At most a third of a
    /// hostgroup is out, so one of two servers never is. 0 ejects no server for that.
    outlier_latency_factor: u64 = 5, Range::Numbers(0, 1_000), "", Live, "0.1.0";

    /// A server is ejected when so many of a hundred statements of a second failed by its fault: it
    /// was lost with them, or said that it is ill. 0 ejects no server for that.
    outlier_failed_percent: u32 = 50, Range::Numbers(0, 100), "%", Live, "0.1.0";

    /// How long a server is ejected for the first time. It is twice as long each time that follows
    /// soon, up to 5 minutes. Then it takes one statement at a time until one is answered well.
    outlier_ejection_ms: u64 = 10_000, Range::Numbers(100, 300_000), "ms", Live, "0.1.0";

    /// Where the proxy is. Servers of the same `zone` come first in their hostgroups, as long as
    /// they have room; those without one are near everywhere. Empty makes all servers near.
    zone: String = String::new(), Range::Text(255), "", Live, "0.1.0";

    /// The most statements that wait for a connection or are held, per hostgroup and worker. One
    /// more is refused at once.
    queue_max: usize = 10_000, Range::Numbers(0, 10_000_000), "statements", Live, "0.1.0";

    /// Which writes a read on a replica has to see: `off` for none in particular, those of its
    /// `session`, of its `user`, of everybody in the writer `hostgroup` or on the same servers
    /// (`global`), or all that are older than so many milliseconds (`bounded:500`). A rule, a
    /// `[[user]]` or a `[[hostgroup]]` of replicas may say otherwise.
    causal_reads: CausalReads = CausalReads::Off, Range::All, "", Live, "0.1.0";

    /// How long a read waits for a replica that has what its session wrote. 0 means not at all.
    causal_wait_ms: u64 = 1_000, Range::Numbers(0, 60_000), "ms", Live, "0.1.0";

    /// What becomes of a read for which no replica has what its session wrote in time: the
    /// `writer` answers it, or an `error` does, or a replica with what it has (`stale`).
    causal_fallback: CausalFallback = CausalFallback::Writer, Range::All, "", Live, "0.1.0";

    /// The most statements of different clients in flight on one server connection. Only reads that
    /// leave nothing behind and have been short lately share a connection. 1 switches it off.
    pipeline_depth_max: usize = 64, Range::Numbers(1, 1_024), "statements", Live, "0.1.0";

    /// When transactions begin. `begin`: the proxy answers `BEGIN`, `START TRANSACTION` and a `SET
    /// autocommit` by itself where it knows what a server would say, and sends it with the first
    /// statement behind it, in one write; the session has no server connection until then. A
    /// `COMMIT` or `ROLLBACK` of a transaction in which nothing was sent is answered as well.
    /// `off`: all of these go to a server at once. A user, a hostgroup and a rule may say
    /// otherwise.
    lazy_transactions: LazyTransactions = LazyTransactions::Begin,
        Range::All, "", Live, "0.1.0";

    /// The longest that a worker leaves its sockets alone while many statements are in flight on
    /// shared connections, so that several answers come in one read. It is a small part of what
    /// these statements take, if that is less. 0 switches it off.
    coalesce_max_us: u64 = 200, Range::Numbers(0, 10_000), "µs", Live, "0.1.0";

    /// The most idle connections kept, per server and worker; what comes back beyond them is
    /// closed. 0 sets no limit below the server's `max_connections`.
    idle_connections_max: u32 = 0, Range::Numbers(0, 1_000_000), "connections", Live, "0.1.0";

    /// How long a connection to a server may be idle before it is closed. 0 means for ever.
    idle_connection_timeout: u64 = 300_000, Range::Numbers(0, DAY_MS), "ms", Live, "0.1.0";

    /// How often an idle connection to a server is pinged, to keep it and to notice its loss.
    ping_interval_server_msec: u64 = 120_000, Range::Numbers(1_000, 604_800_000), "ms", Live,
        "0.1.0";

    /// Bytes of a result that may wait for a slow client. Beyond them the server is not read any
    /// more until the client has caught up.
    client_buffer_max: usize = 262_144, Range::Numbers(16_384, 1_073_741_824), "bytes", Live,
        "0.1.0";

    /// Bytes of results that may wait for slow clients in all. While there are more, no more than
    /// 16 KiB wait for each; what has come already stays.
    buffers_max: usize = 1_073_741_824, Range::Numbers(1_048_576, 1_099_511_627_776), "bytes", Live,
        "0.1.0";

    /// Bytes of memory for all that clients and administrators can make grow: statements that come
    /// in, long parameters, prepared texts, results that wait, the result cache. Near it new
    /// statements wait, and then whoever holds most is refused with error 1041. 0 takes half of
    /// the machine's memory, or of what its cgroup may have if that is less.
    memory_max: u64 = 0, Range::Numbers(0, 1_099_511_627_776), "bytes", Live, "0.1.0";

    /// How long a graceful stop waits for running statements and transactions before it closes
    /// what is left.
    stop_timeout: u64 = 30_000, Range::Numbers(0, DAY_MS), "ms", Live, "0.1.0";

    /// How many times the flag that a rule sets (`flagOUT`) may start the rules again from the
    /// top. 0 only goes forward.
    query_processor_iterations: u32 = 0, Range::Numbers(0, 1_000_000), "", Live,
        "0.1.0";

    /// A file of fast routing rules, beside those in `[[fast_routing]]`: a line for each with user,
    /// schema, flag and hostgroup, and tabs between them. Empty reads none.
    fast_routing_file: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// Whether statements are digested and counted by digest. Rules with `digest` or
    /// `match_digest` need it.
    query_digests: bool = true, Range::All, "", Live, "0.1.0";

    /// Rows of the digest table, per worker. Statements beyond them are counted together.
    query_digests_max: usize = 10_000, Range::Numbers(1, 10_000_000), "rows", Restart, "0.1.0";

    /// Whether digest texts are in lower case.
    query_digests_lowercase: bool = false, Range::All, "", Live, "0.1.0";

    /// Whether the literal `NULL` becomes `?` in digest texts.
    query_digests_replace_null: bool = false, Range::All, "", Live, "0.1.0";

    /// Whether digits within names become `?` in digest texts.
    query_digests_no_digits: bool = false, Range::All, "", Live, "0.1.0";

    /// Whether comments are kept in digest texts.
    query_digests_keep_comment: bool = false, Range::All, "", Live, "0.1.0";

    /// How many values of a list stay as `?` in a digest text before `...` stands for the rest.
    query_digests_grouping_limit: u32 = 3, Range::Numbers(1, 2_089), "values", Live, "0.1.0";

    /// How many groups of values stay in a digest text before `...` stands for the rest. 0 keeps
    /// all.
    query_digests_groups_grouping_limit: u32 = 10, Range::Numbers(0, 2_089), "groups", Live,
        "0.1.0";

    /// The longest digest text. The digest is the hash of no more than this.
    query_digests_max_digest_length: usize = 2_048, Range::Numbers(16, 1_048_576), "bytes", Live,
        "0.1.0";

    /// How much of a statement its digest looks at.
    query_digests_max_query_length: usize = 65_000, Range::Numbers(16, 1_048_576), "bytes", Live,
        "0.1.0";

    /// Users who may ask with `EXPLAIN ROUTE` before a statement what would become of it, separated
    /// by commas; `*` is everybody. For others it is a statement like any other.
    explain_route_users: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// Stored functions and procedures that only read and leave nothing in their session, separated
    /// by commas: `price` in every schema, or `shop.in_stock`. What calls no other ones goes to the
    /// readers of the automatic split as other reads do.
    reading_routines: Routines = Routines::default(), Range::Text(65_536), "", Live, "0.1.0";

    /// Whether the firewall is asked: users run what its lists allow (`[[firewall_user]]`,
    /// `[[firewall_rule]]`). A user that is on no list runs nothing then.
    firewall_whitelist_enabled: bool = false, Range::All, "", Live, "0.1.0";

    /// What a statement that the firewall denies is answered with (error 1148), unless a rule
    /// answers it.
    firewall_whitelist_errormsg: String = "Firewall blocked this query".to_owned(),
        Range::Text(512), "", Live, "0.1.0";

    /// Copies of statements (`mirror_hostgroup`) that run at once, over all workers.
    mirror_max_concurrency: usize = 16, Range::Numbers(1, 8_192), "statements", Live, "0.1.0";

    /// Copies of statements that wait to run, over all workers. Those that find no place are
    /// dropped, and counted.
    mirror_max_queue_length: usize = 32_000, Range::Numbers(0, 1_048_576), "statements", Live,
        "0.1.0";

    /// For how long what a name means (a table, a view, one with triggers) is believed after the
    /// servers' dictionaries were asked. DDL through the proxy is known at once; one that goes past
    /// it, at most so long afterwards.
    catalog_age_max: u64 = 10_000, Range::Numbers(100, DAY_MS), "ms", Live, "0.1.0";

    /// Names of tables and views whose meaning is known at once, at most; about 200 bytes each.
    /// Beyond that, those asked for longest ago are forgotten.
    catalog_entries_max: usize = 200_000, Range::Numbers(1_000, 100_000_000), "names", Live,
        "0.1.0";

    /// How long a statement waits for what its names mean when they are met first. After that it
    /// goes the careful way: to the writer, alone on its connection. Its session keeps that until
    /// the answer is there, at most for `catalog_age_max` after its last statement.
    catalog_wait_ms: u64 = 100, Range::Numbers(0, 10_000), "ms", Live, "0.1.0";

    /// The most memory that the result cache takes, keys and records included. One result takes no
    /// more than an eighth of it. 0 switches the cache off, whatever rules say.
    query_cache_size_mb: u64 = 256, Range::Numbers(0, 10_485_760), "MB", Live, "0.1.0";

    /// After this part of its time a cached result is renewed by the first client that asks for it,
    /// while others still get the old one. 0 lets results expire instead.
    query_cache_soft_ttl_pct: u32 = 0, Range::Numbers(0, 100), "percent", Live, "0.1.0";

    /// Whether results with warnings are cached. The warnings are not: who gets the cached result
    /// is told of none.
    /// 0 does not, 1 does.
    query_cache_handle_warnings: u8 = 0, Range::Numbers(0, 1), "", Live, "0.1.0";

    /// Whether results without rows are cached, where a rule does not say so
    /// (`cache_empty_result`).
    query_cache_stores_empty_result: bool = true, Range::All, "", Live, "0.1.0";

    /// The longest result that is cached.
    query_cache_result_max: usize = 1_048_576, Range::Numbers(64, 1_073_741_824), "bytes", Live,
        "0.1.0";

    /// A Redis server that several proxies share cached results in, `redis://[user@]host[:port][/db]`.
    /// It is asked for what is not in memory. Empty shares nothing.
    query_cache_redis: Option<RedisServer> = None, Range::All, "", Live, "0.1.0";

    /// File with the password for it, in one line. It is read whenever a connection is opened.
    query_cache_redis_password_file: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// How long a statement waits for it before it goes on without it.
    query_cache_redis_timeout: u64 = 20, Range::Numbers(1, 10_000), "ms", Live, "0.1.0";

    /// Whose account on the servers reads their grant tables, so that users need not be written
    /// twice: a user of the configuration with a password that opens servers, which may be
    /// inactive for clients. Its account there needs `SELECT` on the schema `mysql`. Empty: users
    /// are those of the configuration only.
    server_users_account: String = String::new(), Range::Text(512), "", Live, "0.1.0";

    /// The hostgroup whose servers are asked for users, one after the other until one answers. It
    /// is these users' default hostgroup too.
    server_users_hostgroup: u32 = 0, Range::Numbers(0, u32::MAX as u64), "", Live, "0.1.0";

    /// How often they are asked. They are asked too when a client was to be refused, or when a
    /// server has refused one of these users.
    server_users_interval: u64 = 60_000, Range::Numbers(1_000, DAY_MS), "ms", Live, "0.1.0";

    /// How long a login waits at most for what the servers say of its user, which is asked for
    /// unless that was done within the last second. After it, what is known counts. 0 asks at the
    /// interval only.
    server_users_check_timeout: u64 = 1_000, Range::Numbers(0, 60_000), "ms", Live, "0.1.0";

    /// Whose account asks servers who they are and how far they lag behind: a user of the
    /// configuration with a password that opens servers, which may be inactive for clients. Its
    /// account there needs `REPLICATION CLIENT` (MariaDB: `SLAVE MONITOR`). Empty:
    /// `monitor_username`; or, as long as that has its default, the first active user with a
    /// password that opens servers.
    monitor_account: String = String::new(), Range::Text(512), "", Live, "0.1.0";

    /// As whom `SWITCHOVER` changes servers: a user of the configuration with a password that opens
    /// servers, which may be inactive for clients. What its account needs there is said in
    /// `docs/manual/switchover.md`. Empty: as `monitor_account`.
    switchover_account: String = String::new(), Range::Text(512), "", Live, "0.1.0";

    /// As whom servers replicate from each other behind a `SWITCHOVER`: a user of the configuration
    /// with a password in clear text, which may be inactive for clients. Its account needs
    /// `REPLICATION SLAVE` on each server. Without it, no replication is switched; groups are.
    replication_account: String = String::new(), Range::Text(512), "", Live, "0.1.0";

    /// How long a `SWITCHOVER` waits for what is open on the writer: transactions that have not
    /// ended then are lost. Everything that begins meanwhile waits.
    switchover_drain_timeout: u64 = 3_000, Range::Numbers(0, 60_000), "ms", Live, "0.1.0";

    /// How long a `SWITCHOVER` may take until the new writer writes; beyond it, it is undone. Less
    /// than what statements may wait.
    switchover_timeout: u64 = 8_000, Range::Numbers(100, 600_000), "ms", Live, "0.1.0";

    /// The program that sees to it that a lost writer takes no more writes, with its arguments, as
    /// in `cluster_event_script`: `$EVENT` is `fence`, `$INITIATOR` the lost writer. It is run in a
    /// failover when that is neither read-only nor refuses connections. Only if it ends with 0,
    /// within `script_time_max`, another server is promoted. Empty: see `promote_unreachable`.
    fence_script: String = String::new(), Range::Text(1_024), "", Live, "0.1.0";

    /// Whether a failover promotes a server although the lost writer could not be fenced: it may
    /// still take writes of clients that reach it by another way, and these are lost.
    promote_unreachable: bool = false, Range::All, "", Live, "0.1.0";

    /// How long after a failover no other one of that cluster begins by itself; `CLEAR FAILOVER`
    /// ends that time.
    failover_block: u64 = 3_600_000, Range::Numbers(0, DAY_MS), "ms", Live, "0.1.0";

    /// How often servers with a `max_replication_lag` are asked.
    monitor_replication_lag_interval: u64 = 10_000, Range::Numbers(100, 604_800_000), "ms", Live,
        "0.1.0";

    /// How long the answer may take. Without one it stays as it was.
    monitor_replication_lag_timeout: u64 = 1_000, Range::Numbers(100, 600_000), "ms", Live, "0.1.0";

    /// Answers beyond `max_replication_lag`, one after the other, before a server is taken out. The
    /// first within it brings it back.
    monitor_replication_lag_count: u32 = 1, Range::Numbers(1, 10), "", Live, "0.1.0";

    /// What counts as the lag of a replica whose replication does not run.
    monitor_slave_lag_when_null: u64 = 60, Range::Numbers(0, 604_800), "s", Live, "0.1.0";

    /// Whether servers are asked who they are and how far they lag behind. Off, everybody keeps the
    /// role that it has.
    monitor_enabled: bool = true, Range::All, "", Live, "0.1.0";

    /// As whom servers are asked if `monitor_account` is empty; see there for what the account
    /// needs. If this and the password are the default, only clusters of ProxySQL's tables are
    /// asked by it.
    monitor_username: String = "monitor".to_owned(), Range::Text(512), "", Live, "0.1.0";

    /// The password of `monitor_username`, in clear text. Use `monitor_account` where a file should
    /// not have it.
    monitor_password: Secret<String> = Secret::new("monitor".to_owned()), Range::Text(512), "",
        Live, "0.1.0";

    /// How often a connection is opened to each server and closed again, to see whether that can be
    /// done: `monitor.mysql_server_connect_log`.
    monitor_connect_interval: u64 = 120_000, Range::Numbers(100, 604_800_000), "ms", Live, "0.1.0";

    /// How long that may take.
    monitor_connect_timeout: u64 = 600, Range::Numbers(100, 600_000), "ms", Live, "0.1.0";

    /// How often each server is asked for a sign of life, on a connection that stands. Servers are
    /// asked only by an account that was given for it: `monitor_account`, or `monitor_username`.
    monitor_ping_interval: u64 = 8_000, Range::Numbers(100, 604_800_000), "ms", Live, "0.1.0";

    /// How long the answer may take.
    monitor_ping_timeout: u64 = 1_000, Range::Numbers(100, 600_000), "ms", Live, "0.1.0";

    /// Pings that fail one after the other before a server is shunned and its connections are
    /// closed, until it answers again. One that answers statements meanwhile is not; servers of a
    /// cluster have their roles instead.
    monitor_ping_max_failures: u32 = 3, Range::Numbers(1, 1_000_000), "", Live, "0.1.0";

    /// Whether a server of `mysql_replication_hostgroups` that becomes a writer goes on reading.
    monitor_writer_is_also_reader: bool = true, Range::All, "", Live, "0.1.0";

    /// How often the nodes of a Galera cluster are asked. Without a writer, they are asked every
    /// 100 ms; what statements see of a node has it asked at once.
    monitor_galera_healthcheck_interval: u64 = 5_000, Range::Numbers(50, 604_800_000), "ms", Live,
        "0.1.0";

    /// How long an answer may take.
    monitor_galera_healthcheck_timeout: u64 = 800, Range::Numbers(50, 600_000), "ms", Live,
        "0.1.0";

    /// How often the members of a group (Group Replication) are asked; see
    /// `monitor_galera_healthcheck_interval`.
    monitor_groupreplication_healthcheck_interval: u64 = 5_000, Range::Numbers(100, 604_800_000),
        "ms", Live, "0.1.0";

    /// How long an answer may take.
    monitor_groupreplication_healthcheck_timeout: u64 = 800, Range::Numbers(100, 600_000), "ms",
        Live, "0.1.0";

    /// How often the servers of a `[[cluster]]` are asked who they are and whether they take
    /// writes. While there is no writer, or it is in doubt, they are asked every 100 ms.
    monitor_read_only_interval: u64 = 1_000, Range::Numbers(100, 604_800_000), "ms", Live, "0.1.0";

    /// How long an answer may take. That one takes longer changes no role.
    monitor_read_only_timeout: u64 = 800, Range::Numbers(100, 600_000), "ms", Live, "0.1.0";

    /// How often the host names of servers are resolved again.
    resolve_interval: u64 = 30_000, Range::Numbers(100, DAY_MS), "ms", Live, "0.1.0";

    /// Passwords remembered as verified, so that a client that logs in again with
    /// `caching_sha2_password` takes the fast path. 0 remembers none.
    verified_passwords_max: usize = 100_000, Range::Numbers(0, 10_000_000), "users", Restart,
        "0.1.0";

    /// Whether TCP keep-alive probes are sent on connections of clients and servers.
    use_tcp_keepalive: bool = true, Range::All, "", Live, "0.1.0";

    /// How long a connection may be silent before the first keep-alive probe. 0 leaves it to the
    /// system. A change is for new connections.
    tcp_keepalive_time: u32 = 120, Range::Numbers(0, 7_200), "s", Live, "0.1.0";

    /// Whether the system may write the process's memory into a core dump, and whether other
    /// processes of the same account may read it: both have passwords and keys in them. Debuggers
    /// and profilers need it.
    core_dumps: bool = false, Range::All, "", Restart, "0.1.0";

    /// File of the query log: a line of JSON for each statement whose rule has `log`, or for every
    /// one with `query_log_all`. Empty switches it off.
    query_log: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// Whether every statement is in the query log, unless it is left out by threshold or sample.
    query_log_all: bool = false, Range::All, "", Live, "0.1.0";

    /// How long a statement must take to be in the query log.
    query_log_threshold: u64 = 0, Range::Numbers(0, DAY_MS), "ms", Live, "0.1.0";

    /// How long a statement must take to count as slow (`Slow_queries`,
    /// `trunkline_statement_slow_total`): longer than this.
    long_query_time: u64 = 1_000, Range::Numbers(0, 20 * DAY_MS), "ms", Live, "0.1.0";

    /// File of the slow log: what took as long as `slow_log_threshold`, in MySQL's own form, which
    /// `mysqldumpslow` and `pt-query-digest` read. `query_log_redact` counts here as well. Empty
    /// switches it off.
    slow_log: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// How long a statement must take to be in the slow log.
    slow_log_threshold: u64 = 1_000, Range::Numbers(0, 20 * DAY_MS), "ms", Live, "0.1.0";

    /// One of so many statements is in the query log; those with an error always are.
    query_log_sample: u32 = 1, Range::Numbers(1, 1_000_000), "statements", Live, "0.1.0";

    /// Whether the query log and the slow log have digests in place of texts, so that no literal is
    /// in them.
    query_log_redact: bool = true, Range::All, "", Live, "0.1.0";

    /// File of the audit log: a line of JSON for each login, each end of a session, and each change
    /// by an administrator. Empty switches it off.
    audit_log: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// How long a file of the query log, the slow log or the audit log gets before it is renamed:
    /// `.1` is the latest.
    event_log_size: u64 = 104_857_600, Range::Numbers(4_096, 1_099_511_627_776), "bytes", Live,
        "0.1.0";

    /// Renamed files of each that are kept.
    event_log_files: u32 = 10, Range::Numbers(1, 1_000), "files", Live, "0.1.0";

    /// How much is logged. No level logs passwords, and none below `debug` logs statements.
    log_level: LogLevel = LogLevel::Info, Range::All, "", Live, "0.1.0";

    /// How a log line is written.
    log_format: LogFormat = LogFormat::Text, Range::All, "", Restart, "0.1.0";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_within_its_own_range() {
        let defaults = Settings::default();
        for row in SETTINGS {
            let shown = defaults.show(row.name).expect("a row has a field");
            let given = match (row.kind, row.name) {
                (_, "state_file" | "listen" | "listen_tls") => continue,
                ("integer", _) => Given::Integer(shown.parse().expect(row.name)),
                ("boolean", _) => Given::Boolean(shown == "true"),
                _ => Given::Text(shown.clone()),
            };
            let mut read = Settings::default();
            assert_eq!(read.set(row.name, &given), Ok(true), "{}", row.name);
            assert_eq!(read.show(row.name), Some(shown), "{}", row.name);
        }
    }

    #[test]
    fn every_row_is_documented_and_named_once() {
        for (at, row) in SETTINGS.iter().enumerate() {
            assert!(row.doc.trim().ends_with('.'), "{}", row.name);
            assert!(!row.since.is_empty(), "{}", row.name);
            assert!(SETTINGS[..at].iter().all(|other| other.name != row.name), "{}", row.name);
        }
    }

    #[test]
    fn an_unknown_name_is_not_set() {
        assert_eq!(Settings::default().set("nothing", &Given::Integer(1)), Ok(false));
        assert_eq!(Settings::default().show("nothing"), None);
    }

    #[test]
    fn only_what_needs_a_restart_is_kept() {
        let running = Settings { workers: 2, wait_timeout: 1, ..Settings::default() };
        let mut next = Settings { workers: 4, wait_timeout: 5, ..Settings::default() };
        next.keep_running(&running);
        assert_eq!((next.workers, next.wait_timeout), (2, 5));
    }
}
