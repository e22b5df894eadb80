//! ProxySQL's own ports for HTTP (`admin-web_port`, `admin-restapi_port`): what `http_listen`
//! answers, on the loopback.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use tokio::{
    net::TcpListener,
    sync::{oneshot, watch},
};

use crate::{service::AdminService, source::StatusSource};

/// Listens at the ports that `ports` names, for as long as it does. One that is to be had no more
/// than [`serve`](super::serve) says is complained of and left out; `own` is open already.
pub async fn keep_ports(
    service: Arc<AdminService>,
    source: Arc<dyn StatusSource>,
    mut ports: watch::Receiver<Vec<u16>>,
    own: Option<SocketAddr>,
) {
    let mut open: HashMap<u16, oneshot::Sender<()>> = HashMap::new();
    loop {
        let wanted = ports.borrow_and_update().clone();
        // Whose end is dropped is told to stop.
        open.retain(|port, _| wanted.contains(port));
        for port in wanted {
            if own.is_some_and(|own| own.port() == port) || open.contains_key(&port) {
                continue;
            }
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
                Ok(listener) => {
                    let (stop, stopped) = oneshot::channel();
                    let serving = super::serve(
                        listener,
                        Arc::clone(&source),
                        Some(Arc::clone(&service)),
                        async move { drop(stopped.await) },
                    );
                    tracing::info!("HTTP on 127.0.0.1:{port}");
                    tokio::spawn(async move {
                        if let Err(error) = serving.await {
                            tracing::error!("HTTP on port {port} has ended: {error}");
                        }
                    });
                    open.insert(port, stop);
                }
                Err(error) => tracing::error!("can't listen at 127.0.0.1:{port}: {error}"),
            }
        }
        if ports.changed().await.is_err() {
            return;
        }
    }
}
