//! Who may connect, and how often.

macro_rules! clients {
    ([$($before:tt)*] $next:ident $($later:ident)*) => { $next! { [$($before)*

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

    ] $($later)* } };
}
