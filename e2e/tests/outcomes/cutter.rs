//! A way between the proxy and a server that is cut in the middle of a statement or its answer.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::Result;

/// Where it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Behind so many bytes of the statement.
    Statement(usize),
    /// Behind so many bytes of its answer.
    Answer(usize),
}

/// What the way is to do.
#[derive(Debug, Default)]
struct Orders {
    /// Bytes that are in the statement, and where it is cut; once.
    cut: Mutex<Option<(Vec<u8>, Cut)>>,
    is_over: AtomicBool,
}

/// The way. It ends with the value.
pub struct Cutter {
    pub port: u16,
    orders: Arc<Orders>,
}

impl Cutter {
    /// A way to the server on this port.
    pub fn before(server: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let orders = Arc::new(Orders::default());
        let own = Arc::clone(&orders);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if own.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let server = SocketAddr::from((Ipv4Addr::LOCALHOST, server));
                if let Ok(server) = TcpStream::connect(server) {
                    pass(client, server, &own);
                }
            }
        });
        Ok(Self { port, orders })
    }

    /// The next statement with these bytes is cut.
    pub fn cut(&self, with: &str, cut: Cut) {
        *self.orders.cut.lock().expect("no panic") = Some((with.as_bytes().to_vec(), cut));
    }

    /// Whether the cut has been made.
    pub fn has_cut(&self) -> bool {
        self.orders.cut.lock().expect("no panic").is_none()
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.orders.is_over.store(true, Ordering::Relaxed);
        // The listener sees that it is over.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

/// Passes bytes in both directions, each in a thread that ends with its connection.
fn pass(client: TcpStream, server: TcpStream, orders: &Arc<Orders>) {
    let (Ok(from_client), Ok(to_client)) = (client.try_clone(), client.try_clone()) else { return };
    let (Ok(from_server), Ok(to_server)) = (server.try_clone(), server.try_clone()) else { return };
    for stream in [&client, &server] {
        // Without it, it is slower.
        drop(stream.set_nodelay(true));
    }
    // How many bytes of the answer still pass.
    let left = Arc::new(Mutex::new(None::<usize>));
    let (orders, up) = (Arc::clone(orders), Arc::clone(&left));
    thread::spawn(move || {
        drop(pass_up(from_client, to_server, &orders, &up));
        close(&client, &server);
    });
    thread::spawn(move || {
        drop(pass_down(from_server, &to_client, &left));
        drop(to_client.shutdown(Shutdown::Both));
    });
}

fn close(client: &TcpStream, server: &TcpStream) {
    for stream in [client, server] {
        drop(stream.shutdown(Shutdown::Both));
    }
}

fn pass_up(
    mut from: TcpStream,
    mut to: TcpStream,
    orders: &Orders,
    left: &Mutex<Option<usize>>,
) -> std::io::Result<()> {
    let mut buf = vec![0; 1 << 16];
    loop {
        let len = from.read(&mut buf)?;
        let bytes = &buf[..len];
        if len == 0 {
            return Ok(());
        }
        let mut order = orders.cut.lock().expect("no panic");
        let is_it = |with: &[u8]| bytes.windows(with.len()).any(|part| part == with);
        match order.take_if(|(with, _)| is_it(with)) {
            None => {
                drop(order);
                // The answer before was shorter.
                *left.lock().expect("no panic") = None;
                to.write_all(bytes)?;
            }
            Some((_, Cut::Statement(at))) => {
                return to.write_all(&bytes[..at.min(len)]);
            }
            Some((_, Cut::Answer(at))) => {
                *left.lock().expect("no panic") = Some(at);
                drop(order);
                to.write_all(bytes)?;
                if at == 0 {
                    // The server may still be at work.
                    return Ok(());
                }
            }
        }
    }
}

fn pass_down(
    mut from: TcpStream,
    mut to: &TcpStream,
    left: &Mutex<Option<usize>>,
) -> std::io::Result<()> {
    let mut buf = vec![0; 1 << 16];
    loop {
        let len = from.read(&mut buf)?;
        if len == 0 {
            return Ok(());
        }
        let mut left = left.lock().expect("no panic");
        let pass = left.map_or(len, |left| left.min(len));
        to.write_all(&buf[..pass])?;
        if let Some(left) = left.as_mut() {
            *left -= pass;
            if *left == 0 {
                return Ok(());
            }
        }
    }
}
