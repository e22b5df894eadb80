//! Through the poller, with real sockets. Where the kernel refuses io_uring these tests say so and
//! pass: epoll is what runs there.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    time::Duration,
};

use crate::{Event, Events, Listener, Poller, Stream, Token};

const SOON: Option<Duration> = Some(Duration::from_secs(2));

/// One worker's poller with a ring, and a port.
struct Bench {
    poller: Poller,
    events: Events,
    listener: TcpListener,
    /// Who was said to have ended.
    ended: Vec<Token>,
}

impl Bench {
    fn open() -> Option<Self> {
        let mut poller = Poller::new().expect("poller");
        if let Err(error) = poller.receive_by_ring() {
            eprintln!("skipped: no io_uring here: {error}");
            return None;
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        Some(Self { poller, events: Events::with_capacity(64), listener, ended: Vec::new() })
    }

    /// A stream of the poller's and its other end.
    fn pair(&mut self, token: usize) -> (Stream, TcpStream) {
        let address = self.listener.local_addr().expect("address");
        let peer = TcpStream::connect(address).expect("connect");
        let (accepted, _) = self.listener.accept().expect("accept");
        accepted.set_nonblocking(true).expect("set");
        let mut stream = Stream::accepted_tcp(mio::net::TcpStream::from_std(accepted), None);
        self.poller.add_stream(&mut stream, Token(token)).expect("add");
        (stream, peer)
    }

    fn wait(&mut self) -> Vec<Event> {
        self.poller.wait(&mut self.events, SOON).expect("wait");
        let ended = self.events.iter().filter(|event| event.ended);
        self.ended.extend(ended.map(|event| event.token));
        self.events.iter().collect()
    }

    /// Reads until so many bytes have come, waiting as often as something happens.
    fn read(&mut self, stream: &mut Stream, len: usize) -> Vec<u8> {
        let mut all = Vec::new();
        let mut buf = vec![0; 64 * 1024];
        let mut idle = 0;
        while all.len() < len && idle < 5 {
            match self.poller.read(stream, &mut buf) {
                Ok(0) => break,
                Ok(len) => all.extend_from_slice(&buf[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    idle += usize::from(self.wait().is_empty());
                }
                Err(error) => panic!("{error}"),
            }
        }
        all
    }

    fn has_nothing(&mut self, stream: &mut Stream) -> bool {
        let result = self.poller.read(stream, &mut [0; 16]);
        result.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Bytes that show their place.
fn pattern(len: usize, seed: usize) -> Vec<u8> {
    let byte = |place: usize| u8::try_from((place * 31 + seed * 7 + place / 251) % 256);
    (0..len).map(|place| byte(place).expect("below 256")).collect()
}

#[test]
fn what_is_sent_comes_in_order_and_the_end_behind_it() {
    let Some(mut bench) = Bench::open() else { return };
    let (mut stream, mut peer) = bench.pair(7);
    let sent = pattern(10 << 20, 1);
    let expected = sent.clone();
    let sender = std::thread::spawn(move || peer.write_all(&sent).expect("write"));
    assert!(bench.read(&mut stream, expected.len()) == expected);
    sender.join().expect("sender");
    assert_eq!(bench.read(&mut stream, 1), b"");
    assert_eq!(bench.ended, [Token(7)]);
    assert_eq!(bench.poller.read(&mut stream, &mut [0; 16]).expect("end"), 0);
}

#[test]
fn who_does_not_read_holds_up_nobody_and_loses_nothing() {
    let Some(mut bench) = Bench::open() else { return };
    let (mut lazy, mut flood) = bench.pair(1);
    let (mut brisk, mut peer) = bench.pair(2);
    let sent = pattern(16 << 20, 2);
    let expected = sent.clone();
    let sender = std::thread::spawn(move || flood.write_all(&sent).expect("write"));
    for round in 0..2_000 {
        let text = pattern(1 + round % 300, round);
        peer.write_all(&text).expect("write");
        assert_eq!(bench.read(&mut brisk, text.len()), text, "round {round}");
    }
    // What waits for it is some buffers' worth and what the kernel keeps, not the whole.
    assert!(!sender.is_finished(), "16 MiB were taken in for a stream that nobody reads");
    assert!(bench.read(&mut lazy, expected.len()) == expected);
    sender.join().expect("sender");
}

#[test]
fn more_sockets_than_buffers_get_their_bytes() {
    let Some(mut bench) = Bench::open() else { return };
    let mut pairs: Vec<_> = (0..1_500).map(|number| bench.pair(number)).collect();
    for round in 0..3 {
        for (number, (_, peer)) in pairs.iter_mut().enumerate() {
            peer.write_all(&pattern(9, number + round)).expect("write");
        }
        for (number, (stream, _)) in pairs.iter_mut().enumerate() {
            let came = bench.read(stream, 9);
            assert_eq!(came, pattern(9, number + round), "{number}, round {round}");
        }
    }
}

#[test]
fn a_number_that_is_used_again_has_nothing_of_the_one_before() {
    let Some(mut bench) = Bench::open() else { return };
    for round in 0..200 {
        let (first, mut old) = bench.pair(1);
        if round % 3 > 0 {
            bench.wait();
        }
        let number = first.number();
        old.write_all(b"of the old one").expect("write");
        if round % 2 > 0 {
            bench.wait();
        }
        drop(first);
        let (mut second, mut new) = bench.pair(2);
        // The same number, unless another thread of the tests took it.
        let _is_same = second.number() == number;
        let _ = old.write_all(b"late");
        bench.wait();
        assert!(bench.has_nothing(&mut second));
        new.write_all(b"new").expect("write");
        assert_eq!(bench.read(&mut second, 3), b"new");
        // And the old one was told that nobody is there any more.
        old.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
        let end = old.read(&mut [0; 16]);
        assert!(!matches!(&end, Ok(len) if *len > 0), "{end:?}");
        assert!(!end.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
    }
}

#[test]
fn a_stream_takes_what_it_has_not_read_along_to_another_worker() {
    let Some(mut bench) = Bench::open() else { return };
    let (mut stream, mut peer) = bench.pair(1);
    let sent = pattern(100_000, 3);
    let mut rest = sent.clone();
    let mut taken = Vec::new();
    for hop in 0..6 {
        let later = rest.split_off(rest.len().min(16_000));
        peer.write_all(&rest).expect("write");
        rest = later;
        bench.wait();
        let mut buf = [0; 100];
        if let Ok(len) = bench.poller.read(&mut stream, &mut buf) {
            taken.extend_from_slice(&buf[..len]);
        }
        bench.poller.remove_stream(&mut stream).expect("remove");
        let mut next = Poller::new().expect("poller");
        if hop % 2 == 0 {
            next.receive_by_ring().expect("ring");
        }
        next.add_stream(&mut stream, Token(hop)).expect("add");
        bench.poller = next;
    }
    peer.write_all(&rest).expect("write");
    // With epoll the first read takes what came along, and nobody says so.
    taken.extend(bench.read(&mut stream, sent.len() - taken.len()));
    assert!(taken == sent);
    peer.shutdown(Shutdown::Both).expect("shutdown");
    assert_eq!(bench.read(&mut stream, 1), b"");
}

#[test]
fn who_is_full_is_told_when_there_is_room() {
    let Some(mut bench) = Bench::open() else { return };
    let (mut stream, mut peer) = bench.pair(5);
    let sent = pattern(8 << 20, 4);
    let mut written = 0;
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).expect("read");
        all
    });
    while written < sent.len() {
        match bench.poller.write(&mut stream, &sent[written..]) {
            Ok(len) => written += len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let events = bench.wait();
                let is_told = events.iter().any(|it| it.writable && it.token == Token(5));
                assert!(is_told, "{events:?}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    drop(stream);
    bench.wait();
    assert!(reader.join().expect("reader") == sent);
}

#[test]
fn a_reset_is_told_as_what_it_is() {
    let Some(mut bench) = Bench::open() else { return };
    let (mut stream, peer) = bench.pair(1);
    bench.wait();
    socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).expect("set");
    drop(peer);
    bench.wait();
    assert_eq!(bench.ended, [Token(1)]);
    let error = bench.poller.read(&mut stream, &mut [0; 16]).expect_err("reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn connections_wakers_and_listeners_are_watched_beside_the_ring() {
    let Some(mut bench) = Bench::open() else { return };
    let waker = bench.poller.waker(Token(99)).expect("waker");
    let address = bench.listener.local_addr().expect("address");
    let mut stream = Stream::connect_tcp(address, None).expect("connect");
    bench.poller.add_stream(&mut stream, Token(3)).expect("add");
    let (mut peer, _) = bench.listener.accept().expect("accept");
    assert!(bench.wait().iter().any(|event| event.token == Token(3) && event.writable));
    assert_eq!(bench.poller.connecting(&mut stream, Token(3)), crate::Connecting::Done);
    peer.write_all(b"hello").expect("write");
    assert_eq!(bench.read(&mut stream, 5), b"hello");
    let other = waker.clone();
    std::thread::spawn(move || other.wake());
    assert!(bench.wait().iter().any(|event| event.token == Token(99)));
    let any = "127.0.0.1:0".parse().expect("address");
    let mut listener = Listener::open(&trunkline_config::ListenAddress::Tcp(any)).expect("open");
    bench.poller.add_listener(&mut listener, Token(50)).expect("add");
    let trunkline_config::ListenAddress::Tcp(address) = listener.address() else { return };
    let _client = TcpStream::connect(address).expect("connect");
    assert!(bench.wait().iter().any(|event| event.token == Token(50)));
    assert!(listener.accept(None).is_ok());
    bench.poller.wait(&mut bench.events, Some(Duration::ZERO)).expect("wait");
    assert_eq!(bench.events.iter().count(), 0, "nothing more happens");
}

#[test]
fn writes_to_many_streams_leave_together_and_each_has_its_own_result() {
    const FULL: usize = 9;
    let Some(mut bench) = Bench::open() else { return };
    let mut pairs: Vec<_> = (0..70).map(|number| bench.pair(number)).collect();
    let texts: Vec<_> = (0..70).map(|number| pattern(100 + number, number)).collect();
    for round in 0..3 {
        if round == 1 {
            while bench.poller.write(&mut pairs[FULL].0, &[0; 65_536]).is_ok() {}
        }
        let (mut added, mut results): (Vec<bool>, Vec<_>) = Default::default();
        let streams = pairs.iter().map(|(stream, _)| stream).zip(&texts);
        bench
            .poller
            .write_many(
                |writing| {
                    added = streams.map(|(stream, text)| writing.add(stream, text)).collect();
                },
                &mut results,
            )
            .expect("write");
        let count = added.iter().filter(|is_added| **is_added).count();
        assert_eq!((count, results.len()), (64, 64));
        for (place, result) in results.iter().enumerate() {
            if round > 0 && place == FULL {
                assert!(result.is_err(), "{result:?}");
                continue;
            }
            let (peer, text) = (&mut pairs[place].1, &texts[place]);
            assert_eq!(result.as_ref().ok(), Some(&text.len()));
            peer.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
            let mut came = vec![0; text.len()];
            peer.read_exact(&mut came).expect("read");
            assert_eq!(&came, text);
        }
    }
}

#[test]
fn a_long_write_is_not_taken_among_many() {
    let Some(mut bench) = Bench::open() else { return };
    let (stream, _peer) = bench.pair(1);
    let mut results = Vec::new();
    let mut is_added = true;
    bench
        .poller
        .write_many(|writing| is_added = writing.add(&stream, &[0; 16 * 1024 + 1]), &mut results)
        .expect("write");
    assert!(!is_added);
    assert!(results.is_empty());
}
