//! Targets: the control plane's ports, each with a service of its own that lives as long as the
//! process. What a user of statistics and somebody without a password send must not reach anything
//! that changes or runs something, so inputs do not depend on those before them.

use std::{
    fmt::Write as _,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, LazyLock, Once,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use trunkline_admin::{
    port::{AdminListener, serve},
    service::{AdminService, start_of_file},
};
use trunkline_budget::Budget;
use trunkline_config::{Snapshot, parse};
use trunkline_protocol::{
    Capabilities,
    auth::native,
    codec::frame::{HEADER_LEN, Header},
    packet::{greeting::Greeting, handshake_response::HandshakeResponse},
};

use crate::{choice, still::Still};

/// What both services run with: statements of users of statistics end soon, and failed logins do
/// not wait.
const CONFIG: &str = "
admin_stats_time_max = 50
admin_stats_rows_max = 500
admin_stats_bytes_max = 1000000
admin_failed_logins_max = 0
admin_wait_timeout = 10000
http_api_token = \"a token that no input guesses, since it is long\"
http_api_stats_token = \"some\"
[[server]]
hostgroup = 1
address = \"127.0.0.1:1\"
[[user]]
name = \"app\"
password = \"app\"
default_hostgroup = 1
";
/// The memory that there is.
const BUDGET: u64 = 64 << 20;
/// How long the answer to an input may take.
const TIME_MAX: Duration = Duration::from_secs(8);
/// The most bytes of all answers to an input.
const ANSWERS_MAX: usize = 64 << 20;

/// A service, and where it is to be found.
struct Served {
    admin: SocketAddr,
    http: SocketAddr,
    budget: Arc<Budget>,
    /// The name of its threads, by which panics are told from others.
    threads: &'static str,
}

static ADMIN: LazyLock<Served> = LazyLock::new(|| begin("fuzz-admin"));
static HTTP: LazyLock<Served> = LazyLock::new(|| begin("fuzz-http"));

/// Panics of all services: their runtimes catch them, so nobody else would know.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Counts panics of services from now on.
fn count_panics() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let thread = thread::current();
            if thread.name().is_some_and(|name| name == "fuzz-admin" || name == "fuzz-http") {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            before(info);
        }));
    });
}

fn begin(threads: &'static str) -> Served {
    count_panics();
    let (budget, tell) = (Arc::new(Budget::new(BUDGET)), std::sync::mpsc::sync_channel(1));
    let (teller, told) = tell;
    let of_service = Arc::clone(&budget);
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .thread_name(threads)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async move {
            let config = parse(CONFIG, "fuzz.toml", &|_: &str| Err(String::new())).expect("valid");
            let snapshot = Arc::new(Snapshot::build(config, None));
            let still = Arc::new(Still { snapshot, budget: of_service });
            let (store, _) = start_of_file(&Default::default()).expect("a store");
            let service = Arc::new(AdminService::new(store, Arc::clone(&still) as _, None));
            let listener = AdminListener::bind("127.0.0.1:0").await.expect("a free port");
            let admin = listener.address().parse().expect("an address");
            tokio::spawn(serve(listener, Arc::clone(&service)));
            let http = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let address = http.local_addr().expect("an address");
            teller.send((admin, address)).expect("somebody waits");
            let served = trunkline_admin::serve(http, still, Some(service), std::future::pending());
            served.await.expect("served");
        });
    };
    thread::Builder::new().name(threads.to_owned()).spawn(run).expect("a thread");
    let (admin, http) = told.recv().expect("it begins");
    Served { admin, http, budget, threads }
}

impl Served {
    /// Has somebody do something on a connection; then nothing of it is left.
    fn with(&self, address: SocketAddr, act: impl FnOnce(&mut TcpStream) -> Vec<u8>) -> Vec<u8> {
        let before = PANICS.load(Ordering::SeqCst);
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(TIME_MAX)).expect("a timeout");
        stream.set_write_timeout(Some(TIME_MAX)).expect("a timeout");
        stream.set_nodelay(true).expect("an option");
        let answer = act(&mut stream);
        drop(stream);
        let deadline = Instant::now() + TIME_MAX;
        while self.budget.total() > 0 {
            assert!(Instant::now() < deadline, "{} bytes are not given back", self.budget.total());
            thread::yield_now();
        }
        assert_eq!(PANICS.load(Ordering::SeqCst), before, "{} has panicked", self.threads);
        answer
    }
}

/// Sends all of it, and reads until the other end closes.
fn converse(stream: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    let mut reader = stream.try_clone().expect("a handle");
    let reading = thread::spawn(move || {
        let (mut answer, mut room) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            match reader.read(&mut room) {
                Ok(0) => return Ok(answer),
                Ok(len) => answer.extend_from_slice(room.get(..len).unwrap_or_default()),
                // It was closed with bytes unread.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(answer),
                Err(error) => return Err(error),
            }
            if answer.len() > ANSWERS_MAX {
                return Err(ErrorKind::FileTooLarge.into());
            }
        }
    });
    // Whoever is refused is closed while it sends.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let read = reading.join().expect("it reads");
    read.unwrap_or_else(|error| panic!("the connection does not end: {error}"))
}

/// The admin port, by a user of statistics, or before anybody has logged in. The first byte says
/// which; the others are what is sent.
pub fn admin_port(data: &[u8]) {
    let (how, data) = choice(data);
    let answer = ADMIN.with(ADMIN.admin, |stream| {
        let greeting = packet(stream);
        if how & 1 == 0 {
            return converse(stream, data);
        }
        stream.write_all(&login(&greeting, how & 2 != 0)).expect("it is read");
        let answer = packet(stream);
        assert_eq!(answer.first(), Some(&0), "the login was refused: {answer:?}");
        converse(stream, data)
    });
    check_packets(&answer);
}

/// A packet's payload.
fn packet(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = [0; HEADER_LEN];
    stream.read_exact(&mut head).expect("a header");
    let header = Header::read(&head).expect("a header");
    let mut payload = vec![0; header.payload_len];
    stream.read_exact(&mut payload).expect("a payload");
    payload
}

fn login(greeting: &[u8], deprecate_eof: bool) -> Vec<u8> {
    let greeting = Greeting::parse(greeting).expect("a greeting");
    let scramble = native::scramble(&native::stage1(b"stats"), &greeting.nonce);
    let mut capabilities = Capabilities::PROTOCOL_41
        | Capabilities::SECURE_CONNECTION
        | Capabilities::PLUGIN_AUTH
        | Capabilities::MULTI_STATEMENTS;
    if deprecate_eof {
        capabilities.insert(Capabilities::DEPRECATE_EOF);
    }
    let response = HandshakeResponse {
        capabilities,
        packet_len_max: 1 << 24,
        charset: 45,
        user: b"stats",
        auth: &scramble,
        schema: None,
        plugin: Some(b"mysql_native_password"),
        attributes: Default::default(),
        zstd_level: None,
    };
    let mut out = Vec::new();
    response.put(&mut out, 1);
    out
}

/// Answers are whole packets, but for the last one of a connection that was reset.
fn check_packets(mut answer: &[u8]) {
    while let Some(header) = Header::read(answer) {
        let len = HEADER_LEN + header.payload_len;
        assert!(header.payload_len < 2 << 20, "a packet of {} bytes", header.payload_len);
        answer = answer.get(len..).unwrap_or_default();
    }
}

/// HTTP: requests, one behind the other. What is no request is refused, and nothing breaks.
pub fn http_requests(data: &[u8]) {
    let answer = HTTP.with(HTTP.http, |stream| converse(stream, data));
    let text = String::from_utf8_lossy(&answer);
    if answer.is_empty() {
        return;
    }
    let mut head = String::new();
    let _ = write!(head, "{}", text.lines().next().unwrap_or_default());
    let status = head.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
    assert!(head.starts_with("HTTP/1."), "an answer that is none: {head}");
    assert!(status.is_some_and(|status| (100..600).contains(&status) && status != 500), "{head}");
    assert!(!text.contains("no input guesses"), "a token is told");
}
