use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};
use trunkline_protocol::{Capabilities, packet::status};
use trunkline_topology::{HostgroupId, Password, Secret, ServerHealth, ServerKey};

use super::*;

fn server(hostgroup: u32, port: u16) -> Arc<Server> {
    let address: Address = format!("127.0.0.1:{port}").parse().expect("address");
    Arc::new(Server {
        key: ServerKey { hostgroup: HostgroupId(hostgroup), address },
        resolved: vec![([127, 0, 0, 1], port).into()],
        weight: 1,
        rank: 0,
        is_near: true,
        max_connections: 1,
        max_replication_lag: 0,
        compression: Default::default(),
        tls: Default::default(),
        keys: Default::default(),
        health: Arc::new(ServerHealth::default()),
    })
}

fn greeting() -> Greeting {
    Greeting {
        protocol_version: 10,
        server_version: "10.11.6-MariaDB".to_owned(),
        connection_id: 7,
        nonce: [b'n'; 20],
        capabilities: Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH,
        charset: 45,
        status: status::AUTOCOMMIT,
        auth_plugin: "mysql_native_password".to_owned(),
    }
}

fn account() -> Account {
    let password = Password::Clear(Secret::new("secret".to_owned()));
    Account { user: "app".to_owned(), credential: Credential::from_password(&password) }
}

/// Greets one client, answers its login with `reply`, and gives what came after that.
async fn one_client(reply: &'static [u8]) -> (u16, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
    let port = listener.local_addr().expect("address").port();
    let client = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("client");
        let mut out = Vec::new();
        greeting().put(&mut out, 0);
        stream.write_all(&out).await.expect("greets");
        let mut login = vec![0; 4096];
        let len = stream.read(&mut login).await.expect("login");
        let mut rest = Vec::new();
        if len > 0 {
            stream.write_all(reply).await.expect("answers");
            let _ = stream.read_to_end(&mut rest).await;
        }
        rest
    });
    (port, client)
}

const TIME_MAX: Duration = Duration::from_secs(20);

#[tokio::test]
async fn an_account_logs_in_and_quits() {
    let (port, client) = one_client(b"\x07\0\0\x02\0\0\0\x02\0\0\0").await;
    // One address in two hostgroups is looked at once.
    let servers = [server(1, port), server(2, port)];
    let answers = learn(&servers, Some(&account()), &Arc::default(), TIME_MAX).await;
    assert_eq!(client.await.expect("client"), b"\x01\0\0\0\x01");
    assert_eq!(answers.len(), 1);
    let learned = answers.into_iter().next().expect("one").1.expect("learned");
    assert_eq!((learned.greeting, learned.refusal), (greeting(), None));
}

#[tokio::test]
async fn a_refused_login_still_teaches_the_greeting() {
    let (port, client) = one_client(b"\x10\0\0\x02\xff\x15\x04#28000go away").await;
    let answers = learn(&[server(1, port)], Some(&account()), &Arc::default(), TIME_MAX).await;
    assert!(client.await.expect("client").is_empty());
    let learned = answers.into_iter().next().expect("one").1.expect("learned");
    assert_eq!(learned.greeting, greeting());
    assert!(learned.refusal.expect("refusal").contains("1045"));
}

#[tokio::test]
async fn without_an_account_only_the_greeting_is_read() {
    let (port, client) = one_client(b"").await;
    let answers = learn(&[server(1, port)], None, &Arc::default(), TIME_MAX).await;
    assert!(client.await.expect("client").is_empty());
    assert!(answers.into_iter().next().expect("one").1.is_ok());
}

#[tokio::test]
async fn a_server_that_is_none_says_why() {
    let check = async |say: &'static [u8], expected: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let port = listener.local_addr().expect("address").port();
        let client = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("client");
            stream.write_all(say).await.expect("says");
        });
        let answers = learn(&[server(1, port)], None, &Arc::default(), TIME_MAX).await;
        client.await.expect("client");
        let error = answers.into_iter().next().expect("one").1.expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(b"", "it closed the connection").await;
    check(b"SSH-2.0-OpenSSH_9.2\r\n", "it closed the connection").await;
    check(b"\x05\0\0\0hello", "no greeting").await;
    check(b"\x09\0\0\0\xff\x10\x04Too ma", "error 1040: Too ma").await;
}
