//! ProxySQL's own ports for HTTP on the loopback: `admin-restapi_port` is what `http_listen`
//! answers, `admin-web_port` is the web console.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use tokio::{
    net::TcpListener,
    sync::{oneshot, watch},
};

use super::console::{self, Console};
use crate::{
    service::{AdminService, Port},
    source::StatusSource,
};

/// Listens at the ports that `ports` names, for as long as it does. One that is to be had no more
/// than [`serve`](super::serve) says is complained of and left out; those of `own` are open
/// already.
pub async fn keep_ports(
    service: Arc<AdminService>,
    source: Arc<dyn StatusSource>,
    console: Arc<Console>,
    mut ports: watch::Receiver<Vec<Port>>,
    own: Vec<SocketAddr>,
) {
    let mut open: HashMap<Port, oneshot::Sender<()>> = HashMap::new();
    loop {
        let wanted = ports.borrow_and_update().clone();
        // Whose end is dropped is told to stop.
        open.retain(|port, _| wanted.contains(port));
        for port in wanted {
            let number = port.number();
            if own.iter().any(|own| own.port() == number) || open.contains_key(&port) {
                continue;
            }
            match TcpListener::bind((Ipv4Addr::LOCALHOST, number)).await {
                Ok(listener) => {
                    let (stop, stopped) = oneshot::channel();
                    let (service, source) = (Arc::clone(&service), Arc::clone(&source));
                    let console = Arc::clone(&console);
                    let stopped = async move { drop(stopped.await) };
                    tracing::info!("{} on 127.0.0.1:{number}", kind(port));
                    tokio::spawn(async move {
                        let served = match port {
                            Port::Http(_) => {
                                super::serve(listener, source, Some(service), stopped).await
                            }
                            Port::Console(_) => console::serve(listener, console, stopped).await,
                        };
                        if let Err(error) = served {
                            tracing::error!("{} on port {number} has ended: {error}", kind(port));
                        }
                    });
                    open.insert(port, stop);
                }
                Err(error) => tracing::error!("can't listen at 127.0.0.1:{number}: {error}"),
            }
        }
        if ports.changed().await.is_err() {
            return;
        }
    }
}

fn kind(port: Port) -> &'static str {
    match port {
        Port::Http(_) => "HTTP",
        Port::Console(_) => "web console",
    }
}
