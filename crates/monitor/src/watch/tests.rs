use tokio::{
    io::AsyncWriteExt,
    net::TcpListener,
    sync::{mpsc, watch},
};
use trunkline_config::parse;
use trunkline_protocol::{Capabilities, packet::greeting::Greeting};

use super::*;

fn snapshot(address: &str) -> Arc<Snapshot> {
    let text = format!(
        "resolve_interval = 100
        [[server]]
        address = \"{address}\"
        [[user]]
        name = \"app\"
        password_hash = \"*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19\"
        "
    );
    let no_files = |_: &str| Err("no files here".to_owned());
    Arc::new(parse(&text, "test.toml", &no_files).expect("configuration").snapshot(None))
}

fn greeting() -> Greeting {
    Greeting {
        protocol_version: 10,
        server_version: "8.4.9".to_owned(),
        connection_id: 1,
        nonce: [b'n'; 20],
        capabilities: Capabilities::PROTOCOL_41 | Capabilities::PLUGIN_AUTH,
        charset: 255,
        status: 2,
        auth_plugin: "caching_sha2_password".to_owned(),
    }
}

#[tokio::test]
async fn names_are_resolved_on_the_interval_and_on_demand() {
    let (snapshots, seen) = watch::channel(snapshot("localhost:3306"));
    let (outcomes, mut received) = mpsc::channel(1);
    let on_demand = Arc::new(Notify::new());
    let task = tokio::spawn(keep_resolving(seen, Arc::clone(&on_demand), outcomes));
    for _ in 0..2 {
        on_demand.notify_one();
        let outcome = received.recv().await.expect("an outcome");
        let resolved = snapshots.borrow().with_resolved(&outcome.found).expect("addresses");
        assert!(resolved.servers().all(|server| !server.resolved.is_empty()));
    }
    assert!(received.recv().await.is_some());
    drop(received);
    task.await.expect("the loop ends by itself");
}

#[tokio::test]
async fn a_server_is_learned_when_it_comes_up() {
    let socket = TcpListener::bind("127.0.0.1:0").await.expect("listens");
    let addr = socket.local_addr().expect("address");
    let (snapshots, seen) = watch::channel(snapshot(&addr.to_string()));
    let (news, mut received) = mpsc::channel(1);
    let (_setup, tls) = watch::channel(Arc::default());
    let task = tokio::spawn(keep_learning(seen, Knowledge::default(), tls, news));
    // The first connection ends without a word, as while a server starts.
    drop(socket.accept().await.expect("first"));
    let (mut second, _) = socket.accept().await.expect("second");
    let mut out = Vec::new();
    greeting().put(&mut out, 0);
    second.write_all(&out).await.expect("greets");
    let known = received.recv().await.expect("news");
    let address = addr.to_string().parse().expect("address");
    assert_eq!(known.of(&address).expect("known").version, "8.4.9");
    // Shunned: it may come back as another version.
    snapshots.borrow().servers().for_each(|server| server.health.shun(0));
    let (mut third, _) = socket.accept().await.expect("third");
    let mut out = Vec::new();
    Greeting { server_version: "9.7.0".to_owned(), ..greeting() }.put(&mut out, 0);
    third.write_all(&out).await.expect("greets");
    let known = received.recv().await.expect("news");
    assert_eq!(known.of(&address).expect("known").version, "9.7.0");
    drop(received);
    task.await.expect("the loop ends by itself");
}
