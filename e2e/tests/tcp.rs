//! TCP listeners: any protocol, relayed to a hostgroup's servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{
    AuthPlugin, MariaDb, Options, Server, Signal, SqlClient, Sysbench, Trunkline, find_program,
    free_port, is_listening, mariadb_available, skipped, wait_until,
};

use crate::backends::{self, PASSWORD, TIMEOUT, wait_metric};

/// A server that says its name, sends back what it gets, and says goodbye when its client has
/// nothing more to say.
struct Echo {
    port: u16,
    clients: Arc<AtomicU32>,
    is_over: Arc<AtomicBool>,
}

impl Echo {
    fn start(name: &'static str) -> Result<Echo> {
        Echo::start_at(name, 0)
    }

    fn start_at(name: &'static str, port: u16) -> Result<Echo> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let port = listener.local_addr()?.port();
        let clients = Arc::new(AtomicU32::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let (counted, over) = (Arc::clone(&clients), Arc::clone(&is_over));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(mut stream) = stream else { return };
                let counted = Arc::clone(&counted);
                thread::spawn(move || {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let _ = echo(&mut stream, name);
                    counted.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Ok(Echo { port, clients, is_over })
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn clients(&self) -> u32 {
        self.clients.load(Ordering::SeqCst)
    }

    /// Listens no more; clients go on.
    fn stop(&self) -> Result<()> {
        self.is_over.store(true, Ordering::SeqCst);
        // The accept that waits gets this one.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        wait_until("nobody listens", TIMEOUT, || Ok((!is_listening(self.port)).then_some(())))
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

fn echo(stream: &mut TcpStream, name: &str) -> std::io::Result<()> {
    writeln!(stream, "{name}")?;
    let mut buf = [0; 4_096];
    loop {
        match stream.read(&mut buf)? {
            0 => break,
            len => stream.write_all(&buf[..len])?,
        }
    }
    stream.write_all(b"bye\n")
}

/// A client of an echo server, and the server's name.
struct Client {
    stream: BufReader<TcpStream>,
    server: String,
}

impl Client {
    fn connect(port: u16) -> Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut stream = BufReader::new(stream);
        let server = line(&mut stream)?;
        Ok(Client { stream, server })
    }

    /// Sends a line and checks that it comes back.
    fn talk(&mut self, text: &str) -> Result<()> {
        writeln!(self.stream.get_mut(), "{text}")?;
        let answer = line(&mut self.stream)?;
        ensure!(answer == text, "{answer:?} came back for {text:?}");
        Ok(())
    }

    /// Whether its connection has ended.
    fn is_over(&mut self) -> bool {
        matches!(self.stream.fill_buf(), Ok([]) | Err(_))
    }
}

fn line(stream: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    ensure!(line.ends_with('\n'), "the end came behind {line:?}");
    Ok(line.trim_end().to_owned())
}

fn server(address: &str, keys: &str) -> String {
    format!("[[server]]\nhostgroup = 1\naddress = \"{address}\"\n{keys}\n")
}

/// The text of a configuration with a TCP listener at `port`.
fn text(servers: &[String], port: u16, options: &str) -> String {
    format!(
        "workers = 2\n{}\n[[tcp_listener]]\naddress = \"127.0.0.1:{port}\"\nhostgroup = 1\n\
         {options}\n",
        servers.concat()
    )
}

fn relay(servers: &[String], options: &str) -> Result<(Trunkline, u16)> {
    let port = free_port()?;
    Ok((start(&text(servers, port, options), port)?, port))
}

/// Starts a proxy and waits until its TCP listener is there too.
fn start(text: &str, port: u16) -> Result<Trunkline> {
    let proxy = Trunkline::start(text)?;
    wait_until("the TCP listener is there", TIMEOUT, || Ok(is_listening(port).then_some(())))?;
    Ok(proxy)
}

#[test]
fn half_close_and_every_byte_come_through() -> Result<()> {
    let echo = Echo::start("one")?;
    let (proxy, port) = relay(&[server(&echo.address(), "")], "")?;
    let mut client = Client::connect(port)?;
    client.talk("hello")?;
    // More than all buffers on the way, while nobody reads the answers yet.
    let sent: Vec<u8> = (0..20_000_000_u32).flat_map(|n| [(n % 251) as u8]).collect();
    let mut writer = client.stream.get_ref().try_clone()?;
    let expected = sent.clone();
    let writing = thread::spawn(move || -> std::io::Result<()> {
        writer.write_all(&sent)?;
        writer.shutdown(Shutdown::Write)
    });
    let mut answer = Vec::new();
    client.stream.read_to_end(&mut answer)?;
    writing.join().expect("the writer")?;
    assert!(answer.ends_with(b"bye\n"), "the server was told of the end and had its say");
    answer.truncate(answer.len() - 4);
    assert!(answer == expected, "{} bytes of {}", answer.len(), expected.len());
    wait_metric(&proxy, "trunkline_tcp_connections", "", |n| n == 0.0)?;
    wait_metric(&proxy, "trunkline_tcp_server_sent_bytes_total", "", |n| n == 20_000_006.0)?;
    Ok(())
}

#[test]
fn a_slow_reader_holds_its_server_back_and_fills_no_memory() -> Result<()> {
    const LEN: usize = 120_000_000;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let serving = thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let chunk: Vec<u8> = (0..1_000_000).map(|n| (n % 253) as u8).collect();
        (0..LEN / chunk.len()).try_for_each(|_| stream.write_all(&chunk))
    });
    let (proxy, port) = relay(&[server(&address, "")], "")?;
    let before = proxy.rss_bytes()?;
    let mut client = TcpStream::connect(("127.0.0.1", port))?;
    client.set_read_timeout(Some(TIMEOUT))?;
    client.read_exact(&mut [0])?;
    // Until the kernel's buffers are full nothing more is to be seen than that it has stopped.
    let count = || proxy.metric("trunkline_tcp_server_received_bytes_total", "");
    let mut seen = None;
    wait_until("the relay is held back", TIMEOUT, || {
        thread::sleep(Duration::from_millis(100));
        let now = count()?;
        let is_still = now == std::mem::replace(&mut seen, now);
        Ok(is_still.then_some(()))
    })?;
    let grown = proxy.rss_bytes()?.saturating_sub(before);
    assert!(grown < 24 << 20, "the proxy's memory grew by {grown} bytes");
    let mut position = 1;
    let mut buf = vec![0; 1 << 20];
    loop {
        let len = client.read(&mut buf)?;
        if len == 0 {
            break;
        }
        for byte in &buf[..len] {
            assert_eq!(usize::from(*byte), position % 1_000_000 % 253, "at {position}");
            position += 1;
        }
    }
    assert_eq!(position, LEN);
    serving.join().expect("the server")?;
    Ok(())
}

#[test]
fn clients_are_spread_and_a_dead_server_gets_none() -> Result<()> {
    let (one, two) = (Echo::start("one")?, Echo::start("two")?);
    let servers = [server(&one.address(), ""), server(&two.address(), "weight = 3")];
    let (proxy, port) = relay(&servers, "balance = \"roundrobin\"\ncheck_interval = 100")?;
    let clients = (0..40).map(|_| Client::connect(port)).collect::<Result<Vec<_>>>()?;
    let of = |name: &str| clients.iter().filter(|client| client.server == name).count();
    assert_eq!((of("one"), of("two")), (10, 30));
    assert_eq!((one.clients(), two.clients()), (10, 30));

    // Its clients go on, new ones come to the other without noticing anything.
    let mark = proxy.log_mark();
    two.stop()?;
    for _ in 0..8 {
        assert_eq!(Client::connect(port)?.server, "one");
    }
    let line = proxy.wait_log(mark, "is out", TIMEOUT)?;
    assert!(line.contains(&two.address()), "{line}");
    for mut client in clients {
        client.talk("still here")?;
    }
    let failed = format!("server=\"{}\",result=\"error\"", two.address());
    let failures = proxy.metric("trunkline_tcp_server_connects_total", &failed)?;
    assert!(failures.is_some_and(|n| (1.0..=2.0).contains(&n)), "{failures:?}");

    // Checks bring it back.
    let again = Echo::start_at("two", two.port)?;
    proxy.wait_log(mark, "is back", TIMEOUT)?;
    let names = (0..4).map(|_| Ok(Client::connect(port)?.server)).collect::<Result<Vec<_>>>()?;
    assert!(names.contains(&"two".to_owned()), "{names:?}");
    drop(again);
    Ok(())
}

#[test]
fn a_client_keeps_its_server_by_its_address() -> Result<()> {
    let echoes = [Echo::start("one")?, Echo::start("two")?, Echo::start("three")?];
    let servers: Vec<String> = echoes.iter().map(|echo| server(&echo.address(), "")).collect();
    let (proxy, port) = relay(&servers, "balance = \"source\"\ncheck_interval = 100")?;
    let chosen = Client::connect(port)?.server;
    for _ in 0..10 {
        assert_eq!(Client::connect(port)?.server, chosen);
    }
    let index = ["one", "two", "three"].iter().position(|name| *name == chosen);
    let lost = &echoes[index.context("a name")?];
    lost.stop()?;
    let other = Client::connect(port)?.server;
    assert_ne!(other, chosen);
    for _ in 0..5 {
        assert_eq!(Client::connect(port)?.server, other);
    }
    let mark = proxy.log_mark();
    let _again = Echo::start_at("back", lost.port)?;
    proxy.wait_log(mark, "is back", TIMEOUT)?;
    assert_eq!(Client::connect(port)?.server, "back", "the same place as before");
    Ok(())
}

#[test]
fn reloads_drain_cut_open_and_close_without_touching_others() -> Result<()> {
    let (one, two) = (Echo::start("one")?, Echo::start("two")?);
    let port = free_port()?;
    let with = |status: &str, port: u16| {
        let servers = [server(&one.address(), status), server(&two.address(), "")];
        text(&servers, port, "balance = \"first\"")
    };
    let proxy = start(&with("", port), port)?;
    let mut first = Client::connect(port)?;
    assert_eq!(first.server, "one");

    let in_force = "in force";
    let mark = proxy.reload(&with("status = \"OFFLINE_SOFT\"", port))?;
    proxy.wait_log(mark, in_force, TIMEOUT)?;
    first.talk("drained, and still here")?;
    let mut second = Client::connect(port)?;
    assert_eq!(second.server, "two");

    let mark = proxy.reload(&with("status = \"OFFLINE_HARD\"", port))?;
    proxy.wait_log(mark, in_force, TIMEOUT)?;
    assert!(first.is_over(), "cut off");
    second.talk("not concerned")?;

    let other = free_port()?;
    let mark = proxy.reload(&with("", other))?;
    proxy.wait_log(mark, in_force, TIMEOUT)?;
    wait_until("the old port is closed", TIMEOUT, || Ok((!is_listening(port)).then_some(())))?;
    second.talk("still not concerned")?;
    assert_eq!(Client::connect(other)?.server, "one");
    Ok(())
}

#[test]
fn at_the_limits_clients_wait_for_their_turn() -> Result<()> {
    let echo = Echo::start("one")?;
    let servers = [server(&echo.address(), "max_connections = 1")];
    // Turns are kept within a worker; between workers the first to look is served.
    let port = free_port()?;
    let text = text(&servers, port, "max_connections = 2\nconnect_timeout = 20000");
    let proxy = start(&text.replace("workers = 2", "workers = 1"), port)?;
    let first = Client::connect(port)?;
    let second = thread::spawn(move || Client::connect(port));
    wait_metric(&proxy, "trunkline_tcp_waiting", "", |n| n == 1.0)?;
    // The third is not even accepted.
    let third = thread::spawn(move || Client::connect(port));
    let accepted = proxy.metric("trunkline_tcp_clients_accepted_total", "")?;
    assert_eq!(accepted, Some(2.0));
    drop(first);
    let second = second.join().expect("second")?;
    wait_metric(&proxy, "trunkline_tcp_clients_accepted_total", "", |n| n == 3.0)?;
    assert_eq!(echo.clients(), 1);
    drop(second);
    third.join().expect("third")?.talk("at last")?;
    Ok(())
}

#[test]
fn silent_clients_are_closed_and_a_stop_lets_others_end() -> Result<()> {
    let echo = Echo::start("one")?;
    let (proxy, port) = relay(
        &[server(&echo.address(), "")],
        "client_timeout = 1500\n[[tcp_listener]]\naddress = \"127.0.0.1:0\"\nhostgroup = 1",
    )?;
    let mut silent = Client::connect(port)?;
    assert!(silent.is_over());
    wait_metric(&proxy, "trunkline_tcp_clients_timed_out_total", "", |n| n == 1.0)?;
    let mut client = Client::connect(port)?;
    proxy.signal(Signal::Terminate)?;
    wait_until("it no longer listens", TIMEOUT, || Ok((!is_listening(port)).then_some(())))?;
    client.talk("a stop is no reason to hang up")?;
    assert!(proxy.is_running());
    drop(client);
    assert!(proxy.wait(TIMEOUT)?.success());
    Ok(())
}

#[test]
fn two_thousand_clients_at_once() -> Result<()> {
    let test = "two_thousand_clients_at_once";
    let Some(python) = find_program("python3") else {
        skipped(test, "python3 is not installed");
        return Ok(());
    };
    // The proxy's descriptors are raised by itself; those of the two ends here are in processes
    // of their own.
    let script = r#"
import asyncio, os, resource, sys
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
async def serve(reader, writer):
    while data := await reader.read(4096):
        writer.write(data)
    writer.close()
async def client(port, number):
    reader, writer = await asyncio.open_connection('127.0.0.1', port)
    return reader, writer
async def main():
    server = await asyncio.start_server(serve, '127.0.0.1', int(sys.argv[1]), backlog=4096)
    print('ready', flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    clients = [await client(int(sys.argv[2]), n) for n in range(2000)]
    for turn in range(3):
        for number, (reader, writer) in enumerate(clients):
            writer.write(f'{turn} {number}\n'.encode())
        for number, (reader, writer) in enumerate(clients):
            assert await reader.readline() == f'{turn} {number}\n'.encode()
    print('served', flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    os._exit(0)
asyncio.run(main())
"#;
    let (server_port, port) = (free_port()?, free_port()?);
    let mut child = Command::new(python)
        .args(["-c", script, &server_port.to_string(), &port.to_string()])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    let mut said = BufReader::new(child.stdout.take().context("its output")?);
    let mut ask = child.stdin.take().context("its input")?;
    assert_eq!(line(&mut said)?, "ready");
    let servers = [server(&format!("127.0.0.1:{server_port}"), "max_connections = 5000")];
    let proxy = start(&text(&servers, port, ""), port)?;
    let before = proxy.rss_bytes()?;
    writeln!(ask)?;
    assert_eq!(line(&mut said)?, "served");
    assert_eq!(proxy.metric("trunkline_tcp_connections", "")?, Some(2_000.0));
    let grown = proxy.rss_bytes()?.saturating_sub(before);
    // About 5 KiB each, and the allocator takes memory in steps of 4 MiB for each worker.
    assert!(grown < 32 << 20, "{} bytes of memory a client", grown / 2_000);
    drop(ask);
    assert!(child.wait()?.success());
    wait_metric(&proxy, "trunkline_tcp_connections", "", |n| n == 0.0)?;
    Ok(())
}

#[test]
fn glbs_commands_work_on_the_control_socket() -> Result<()> {
    let (one, two) = (Echo::start("one")?, Echo::start("two")?);
    let options = "control = \"unix:{folder}/control.sock\"";
    let (proxy, port) = relay(&[server(&one.address(), "")], options)?;
    let path = proxy.config_file().with_file_name("control.sock");
    let ask = |request: &str| -> Result<String> {
        let mut stream = UnixStream::connect(&path)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        writeln!(stream, "{request}")?;
        stream.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    // It is there before anybody listens at it.
    let is_open = || Ok(UnixStream::connect(&path).is_ok().then_some(()));
    wait_until("the control socket takes connections", TIMEOUT, is_open)?;
    let mut first = Client::connect(port)?;
    first.talk("hello")?;
    let info = ask("getinfo")?;
    let row = format!("{:>21} :    1.000   0.500     N/A     1\n", one.address());
    assert!(info.starts_with("Router:\n") && info.contains(&row), "{info}");
    assert!(info.ends_with("Destinations: 1, total connections: 1 of 10000 max\n"), "{info}");

    assert_eq!(ask(&format!("{}:2", two.address()))?, "Ok\n");
    let servers = |of: &str| -> Result<usize> {
        let clients = (0..6).map(|_| Client::connect(port)).collect::<Result<Vec<_>>>()?;
        Ok(clients.iter().filter(|client| client.server == of).count())
    };
    wait_until("the new server gets its share", TIMEOUT, || {
        Ok((servers("two")? >= 3).then_some(()))
    })?;
    // Drained: its client stays, new ones go elsewhere.
    assert_eq!(ask(&format!("{}:0", one.address()))?, "Ok\n");
    wait_until("it gets nobody", TIMEOUT, || Ok((servers("one")? == 0).then_some(())))?;
    first.talk("still here")?;
    // Removed: its clients are cut off.
    assert_eq!(ask(&format!("{}:-1", one.address()))?, "Ok\n");
    assert!(first.is_over());
    assert!(!ask("getinfo")?.contains(&one.address()));

    let line = ask("getstat")?;
    let fields: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((fields[0], fields[12], fields.len()), ("in:", "conns:", 24), "{line}");
    assert!(fields[13].parse::<u64>()? > 6, "{line}");
    assert!(ask("getstats")?.starts_with("in: 0 out: 0 "), "counters begin anew");
    for wrong in ["help", "nonsense:x:y", "127.0.0.1"] {
        assert_eq!(ask(wrong)?, "Error\n");
    }
    Ok(())
}

/// A MariaDB server of one's own with an account.
fn own_server(number: u32) -> Result<Server> {
    let server = MariaDb::start(Options::id(number))?;
    server.create_user("app", PASSWORD, AuthPlugin::ServerDefault)?;
    server.sql("CREATE DATABASE sbtest; GRANT ALL ON *.* TO app@'%'")?;
    Ok(server)
}

#[test]
fn mariadb_clients_and_sysbench_work_through_it() -> Result<()> {
    let test = "mariadb_clients_and_sysbench_work_through_it";
    let Some(shared) = backends::mariadb(test)? else { return Ok(()) };
    backends::account(shared, "tcp_relayed")?;
    let socket = shared.socket();
    // Over TCP and over the server's own Unix socket.
    let servers =
        [server(&shared.address(), ""), server(&format!("unix:{}", socket.display()), "")];
    let (proxy, port) = relay(&servers, "balance = \"roundrobin\"")?;
    if let Some(program) = find_program("mariadb") {
        let output = Command::new(program)
            .args(["--host=127.0.0.1", "--user=tcp_relayed", "--batch", "--skip-column-names"])
            .args(["--skip-ssl", &format!("--port={port}"), &format!("--password={PASSWORD}")])
            .args(["--execute", "SELECT 6 * 7; SELECT LENGTH(REPEAT('x', 20000000))"])
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text, "42\n20000000\n", "{}", String::from_utf8_lossy(&output.stderr));
    }
    let mut clients = (0..4)
        .map(|_| SqlClient::tcp(port, "tcp_relayed", PASSWORD, "tcp_relayed"))
        .collect::<Result<Vec<_>>>()?;
    for (number, client) in clients.iter_mut().enumerate() {
        client.sql(&format!("SET @mine = {number}"))?;
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.value("SELECT @mine")?, Some(number.to_string()));
        let long = client.value("SELECT REPEAT('abc', 5000000)")?.context("a value")?;
        assert!(long.len() == 15_000_000 && long.ends_with("abc"));
    }
    for row in ["result=\"ok\"", &format!("server=\"unix:{}\",result=\"ok\"", socket.display())] {
        let connected = proxy.metric("trunkline_tcp_server_connects_total", row)?;
        assert!(connected.is_some_and(|n| n >= 2.0), "{row}: {connected:?}");
    }
    if find_program("sysbench").is_some() {
        shared.sql("CREATE DATABASE IF NOT EXISTS sbtest; GRANT ALL ON sbtest.* TO relayed@'%'")?;
        let load = Sysbench::new("oltp_read_write", port, "tcp_relayed", PASSWORD);
        let load = load.threads(16).seconds(2);
        load.cleanup()?;
        load.prepare()?;
        let report = load.run()?;
        load.cleanup()?;
        assert!(report.transactions > 0 && report.reconnects == 0, "{report:?}");
    }
    Ok(())
}

#[test]
fn a_killed_or_frozen_server_hurts_only_its_own_clients() -> Result<()> {
    let test = "a_killed_or_frozen_server_hurts_only_its_own_clients";
    if let Err(reason) = mariadb_available() {
        skipped(test, &reason);
        return Ok(());
    }
    let (one, two) = (own_server(1)?, own_server(2)?);
    let servers = [server(&one.address(), ""), server(&two.address(), "")];
    let options = "balance = \"roundrobin\"\ncheck_interval = 200\nconnect_timeout = 2000";
    let (proxy, port) = relay(&servers, options)?;
    let connect = || SqlClient::tcp(port, "app", PASSWORD, "");
    let id = |client: &mut SqlClient| client.value("SELECT @@server_id");
    let mut clients = [connect()?, connect()?];
    let ids = [id(&mut clients[0])?, id(&mut clients[1])?];
    assert_ne!(ids[0], ids[1]);
    let [mut on_one, mut on_two] = match ids[0].as_deref() {
        Some("1") => clients,
        _ => {
            clients.reverse();
            clients
        }
    };

    // Frozen: its clients wait, the other's do not, and nothing is lost.
    one.pause()?;
    let waiting = thread::spawn(move || {
        let answer = on_one.value("SELECT 'thawed'");
        (on_one, answer)
    });
    for number in 0..50 {
        assert_eq!(on_two.value(&format!("SELECT {number}"))?, Some(number.to_string()));
    }
    assert!(!waiting.is_finished());
    one.resume()?;
    let (mut on_one, answer) = waiting.join().expect("the client");
    assert_eq!(answer?.as_deref(), Some("thawed"));

    // Killed: its clients lose their connections, new ones come to the other at once.
    one.kill_hard()?;
    assert!(on_one.value("SELECT 1").is_err());
    for _ in 0..6 {
        assert_eq!(id(&mut connect()?)?.as_deref(), Some("2"));
    }
    assert_eq!(on_two.value("SELECT 5")?.as_deref(), Some("5"));
    let mark = proxy.log_mark();
    one.restart()?;
    proxy.wait_log(mark, "is back", TIMEOUT)?;
    let ids = (0..2).map(|_| id(&mut connect()?)).collect::<Result<Vec<_>>>()?;
    assert!(ids.contains(&Some("1".to_owned())), "{ids:?}");
    Ok(())
}

#[test]
fn a_server_is_told_of_its_client() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let servers = [server(&listener.local_addr()?.to_string(), "")];
    let (_proxy, port) = relay(&servers, "send_proxy = \"v1\"")?;
    let mut client = TcpStream::connect(("127.0.0.1", port))?;
    let own = client.local_addr()?.port();
    client.write_all(b"first\n")?;
    let (stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut stream = BufReader::new(stream);
    assert_eq!(line(&mut stream)?, format!("PROXY TCP4 127.0.0.1 127.0.0.1 {own} {port}"));
    assert_eq!(line(&mut stream)?, "first");
    Ok(())
}
