use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
};

use super::*;

/// A server that knows the commands of this module, and takes a number of connections.
fn play(connections: usize) -> RedisServer {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    thread::spawn(move || {
        let mut kept = HashMap::new();
        for stream in listener.incoming().take(connections) {
            // The client has gone: that is how a connection ends.
            let _ = serve(stream.expect("a client"), &mut kept);
        }
    });
    RedisServer { user: None, host: "127.0.0.1".to_owned(), port, database: 3 }
}

fn serve(stream: TcpStream, kept: &mut HashMap<Vec<u8>, Vec<u8>>) -> std::io::Result<()> {
    let mut input = BufReader::new(stream);
    loop {
        let parts: Vec<Vec<u8>> = (0..number(&mut input)?)
            .map(|_| {
                let mut part = vec![0; number(&mut input)? + 2];
                input.read_exact(&mut part)?;
                part.truncate(part.len() - 2);
                Ok(part)
            })
            .collect::<std::io::Result<_>>()?;
        let answer = match parts.iter().map(Vec::as_slice).collect::<Vec<_>>().as_slice() {
            [b"AUTH", _, b"secret"] | [b"SELECT", b"3"] => b"+OK\r\n".to_vec(),
            [b"SET", key, _, b"NX"] if kept.contains_key(*key) => b"$-1\r\n".to_vec(),
            [b"SET", key, value, ..] => {
                kept.insert(key.to_vec(), value.to_vec());
                b"+OK\r\n".to_vec()
            }
            [b"GET", key] => match kept.get(*key) {
                Some(value) => {
                    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
                }
                None => b"$-1\r\n".to_vec(),
            },
            [b"PTTL", key] if kept.contains_key(*key) => b":5000\r\n".to_vec(),
            [b"PTTL", _] => b":-2\r\n".to_vec(),
            _ => b"-ERR unknown\r\n".to_vec(),
        };
        input.get_mut().write_all(&answer)?;
    }
}

fn number(input: &mut impl BufRead) -> std::io::Result<usize> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end()[1..].parse().expect("a number"))
}

fn open(server: &RedisServer, password: Option<&str>) -> std::io::Result<Link> {
    Link::open(server, password, Duration::from_secs(5))
}

#[test]
fn values_come_back_under_their_key_and_generation_only() {
    let server = play(2);
    let mut link = open(&server, Some("secret")).expect("a link");
    assert_eq!(link.generation(7).expect("a generation"), 7);
    assert_eq!(link.generation(8).expect("a generation"), 7, "it is there already");
    let set = [Command::Set(b"key", b"value", 9_000), Command::Get(b"other", 100)];
    assert_eq!(link.exchange(&set).expect("an exchange"), (Some(7), vec![None]));
    let get = [Command::Get(b"key", 100), Command::Get(b"key", 4), Command::Get(b"none", 9)];
    let found = vec![Some((b"value".to_vec(), 5_000)), None, None];
    assert_eq!(link.exchange(&get).expect("an exchange"), (Some(7), found));
    link.begin_generation(9).expect("a generation");
    drop(link);
    let mut link = open(&server, Some("secret")).expect("a link");
    assert_eq!(link.exchange(&[]).expect("an exchange"), (Some(9), vec![]));
}

#[test]
fn a_wrong_password_is_an_error_that_does_not_name_it() {
    let error = open(&play(1), Some("hunter2")).err().expect("an error").to_string();
    assert!(error.contains("ERR") && !error.contains("hunter2"), "{error}");
}

#[test]
fn a_value_belongs_to_its_key() {
    let (one, other) = (Name::of(b"one", 1), Name::of(b"other", 1));
    assert_ne!(one.text, Name::of(b"one", 2).text);
    assert!(!one.text.contains("one"), "{}", one.text);
    assert_ne!(one.sum(b"value"), other.sum(b"value"));
    assert_eq!(one.reply(Some((b"short".to_vec(), 1_000)), 0), None);
    let wrong = [&other.sum(b"value")[..], b"value"].concat();
    assert_eq!(one.reply(Some((wrong, 1_000)), 0), None);
}
