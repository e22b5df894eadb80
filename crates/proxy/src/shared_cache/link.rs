//! One connection to Redis, and what is asked over it: a few commands at once, answered in order.

use std::{
    io::{self, BufReader, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

use trunkline_config::RedisServer;

use super::resp::{Answer, put_command, read_answer};

/// Where the number of the generation is.
const GENERATION_KEY: &[u8] = b"trunkline:1:generation";
/// A connection has at least this long to come up: nobody waits for it.
const CONNECT_MIN: Duration = Duration::from_millis(500);
/// Bytes that may precede or surround a short answer.
const SHORT_MAX: usize = 64;

/// A question or an answer for Redis.
pub(super) enum Command<'a> {
    /// What lies under a key, if it is not longer than so many bytes, and for how long.
    Get(&'a [u8], usize),
    /// Keep a value under a key for so many ms.
    Set(&'a [u8], &'a [u8], u64),
}

/// What a [`Command::Get`] found: the value, and how long it is still good, ms.
pub(super) type Found = Option<(Vec<u8>, u64)>;

/// A connection that is up.
pub(super) struct Link {
    input: BufReader<TcpStream>,
    out: Vec<u8>,
}

impl Link {
    /// Connects and logs in.
    ///
    /// # Errors
    /// Why not, for people; no secrets.
    pub(super) fn open(
        server: &RedisServer,
        password: Option<&str>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let places = (server.host.as_str(), server.port).to_socket_addrs()?;
        let mut result = Err(io::Error::other("the host name has no address"));
        for place in places {
            result = TcpStream::connect_timeout(&place, timeout.max(CONNECT_MIN));
            if result.is_ok() {
                break;
            }
        }
        let stream = result?;
        stream.set_nodelay(true)?;
        // Logging in is waited for by nobody either.
        stream.set_read_timeout(Some(timeout.max(CONNECT_MIN)))?;
        stream.set_write_timeout(Some(timeout.max(CONNECT_MIN)))?;
        let mut link = Self { input: BufReader::new(stream), out: Vec::new() };
        if let Some(password) = password {
            let user = server.user.as_deref().unwrap_or("default");
            link.say(&[b"AUTH", user.as_bytes(), password.as_bytes()])?;
        }
        if server.database != 0 {
            link.say(&[b"SELECT", server.database.to_string().as_bytes()])?;
        }
        link.input.get_ref().set_read_timeout(Some(timeout))?;
        link.input.get_ref().set_write_timeout(Some(timeout))?;
        Ok(link)
    }

    /// A command that has nothing to say but whether it was carried out.
    fn say(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.out.clear();
        put_command(&mut self.out, parts);
        self.input.get_mut().write_all(&self.out)?;
        match read_answer(&mut self.input, SHORT_MAX)? {
            Answer::Error(text) => Err(refused(&text)),
            Answer::Simple | Answer::Integer(_) | Answer::Value(_) => Ok(()),
        }
    }

    /// The number of the generation; a fresh one is `fresh`.
    pub(super) fn generation(&mut self, fresh: u64) -> io::Result<u64> {
        self.say(&[b"SET", GENERATION_KEY, fresh.to_string().as_bytes(), b"NX"])?;
        let (generation, _) = self.exchange(&[])?;
        generation.ok_or_else(|| io::Error::other("Redis does not keep what it is told"))
    }

    /// Begins a new generation: what was stored before is found no more.
    pub(super) fn begin_generation(&mut self, fresh: u64) -> io::Result<()> {
        self.say(&[b"SET", GENERATION_KEY, fresh.to_string().as_bytes()])
    }

    /// Carries out commands in one write and one answer: the generation at the time, if there is
    /// one, and what was found for each [`Command::Get`], in order.
    pub(super) fn exchange(
        &mut self,
        commands: &[Command<'_>],
    ) -> io::Result<(Option<u64>, Vec<Found>)> {
        self.out.clear();
        put_command(&mut self.out, &[b"GET", GENERATION_KEY]);
        for command in commands {
            match command {
                Command::Get(key, _) => {
                    put_command(&mut self.out, &[b"PTTL", key]);
                    put_command(&mut self.out, &[b"GET", key]);
                }
                Command::Set(key, value, left_ms) => {
                    let left_ms = left_ms.to_string();
                    put_command(&mut self.out, &[b"SET", key, value, b"PX", left_ms.as_bytes()]);
                }
            }
        }
        self.input.get_mut().write_all(&self.out)?;
        if self.out.capacity() > OUT_KEPT_MAX {
            self.out = Vec::new();
        }
        let generation = match read_answer(&mut self.input, SHORT_MAX)? {
            Answer::Value(value) => value.and_then(|value| read_number(&value)),
            Answer::Error(text) => return Err(refused(&text)),
            Answer::Simple | Answer::Integer(_) => None,
        };
        let mut found = Vec::new();
        for command in commands {
            match command {
                Command::Get(_, value_max) => {
                    let left = read_answer(&mut self.input, SHORT_MAX)?;
                    let value = read_answer(&mut self.input, *value_max)?;
                    found.push(match (left, value) {
                        (Answer::Integer(left), Answer::Value(Some(value))) => {
                            u64::try_from(left).ok().map(|left_ms| (value, left_ms))
                        }
                        _ => None,
                    });
                }
                // A server without memory says so, and is a cache all the same.
                Command::Set(..) => drop(read_answer(&mut self.input, SHORT_MAX)?),
            }
        }
        Ok((generation, found))
    }
}

/// A larger buffer is not kept, bytes.
const OUT_KEPT_MAX: usize = 1024 * 1024;

fn read_number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn refused(text: &str) -> io::Error {
    io::Error::other(format!("Redis refused: {text}"))
}
