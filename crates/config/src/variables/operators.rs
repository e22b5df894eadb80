//! What operators reach the proxy by: HTTP, the console, scripts, the admin port, files of its own.

macro_rules! operators {
    ([$($before:tt)*] $next:ident $($later:ident)*) => { $next! { [$($before)*

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

    /// The token of who may read statistics and operate the proxy over `/api/v1`, and configure
    /// nothing: see `admin_operate_credentials`. With it alone the API is on, too.
    http_api_operate_token: String = String::new(), Range::Text(512), "", Live, "0.1.0";

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

    /// Accounts of the admin port and the web console that may read statistics and operate the
    /// proxy: end sessions and statements, pause, drain, switch over and maintain servers, empty
    /// the result cache, ask for routes. They see and change no configuration. `name:password`,
    /// several separated by `;`; names of other accounts of the admin port stay theirs.
    admin_operate_credentials: OperatorAccounts = OperatorAccounts::default(), Range::Text(4_096),
        "", Live, "0.1.0";

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

    ] $($later)* } };
}
