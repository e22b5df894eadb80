use super::*;
use crate::codec::frame::put_payload;

/// Runs of equal bytes as their length and the byte: enough to see what the framing does.
struct Runs;

impl Compressor for Runs {
    fn compress(&mut self, _: Method, plain: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        for run in plain.chunk_by(|a, b| a == b) {
            for part in run.chunks(255) {
                out.extend_from_slice(&[u8::try_from(part.len()).expect("short"), part[0]]);
            }
        }
        let is_shorter = out.len() - start < plain.len();
        if !is_shorter {
            out.truncate(start);
        }
        is_shorter
    }

    fn decompress(
        &mut self,
        _: Method,
        packed: &[u8],
        plain_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Corrupt> {
        let len_max = out.len() + plain_max;
        for pair in packed.chunks(2) {
            let [len, byte] = *pair else { return Err(Corrupt) };
            out.resize(out.len() + usize::from(len), byte);
            if out.len() > len_max {
                return Err(Corrupt);
            }
        }
        Ok(())
    }

    fn unpacking(&mut self, _: Method) -> Result<Box<dyn Unpacking>, Corrupt> {
        Ok(Box::new(RunsUnpacking::default()))
    }
}

/// Runs that come in pieces; one of length 0 is the end.
#[derive(Debug, Default)]
struct RunsUnpacking {
    len: Option<u8>,
    run: (usize, u8),
    has_ended: bool,
}

impl Unpacking for RunsUnpacking {
    fn step(
        &mut self,
        packed: &[u8],
        plain_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<Progress, Corrupt> {
        let (start, mut taken) = (out.len(), 0);
        loop {
            let len = self.run.0.min(plain_max - (out.len() - start));
            out.resize(out.len() + len, self.run.1);
            self.run.0 -= len;
            if self.run.0 > 0 || taken == packed.len() {
                return Ok(Progress { taken, has_ended: self.has_ended });
            }
            match self.len.take() {
                None => self.len = Some(packed[taken]),
                Some(len) => {
                    self.run = (usize::from(len), packed[taken]);
                    self.has_ended = len == 0;
                }
            }
            taken += 1;
        }
    }
}

const METHOD: Method = Method::Zlib(6);

/// All compressed packets of `bytes`, unpacked; and how many there were.
fn unpack_all(
    framing: &mut Framing,
    bytes: &[u8],
    expected: Expected,
) -> Result<(Vec<u8>, usize), Unpackable> {
    let (mut out, mut at, mut count) = (Vec::new(), 0, 0);
    while let Some(len) =
        framing.unpack(&bytes[at..], expected, usize::MAX, METHOD, &mut Runs, &mut out)?
    {
        at += len;
        count += 1;
    }
    assert_eq!(at, bytes.len());
    assert!(!framing.is_unpacking());
    Ok((out, count))
}

fn numbers(mut bytes: &[u8]) -> Vec<u8> {
    let mut numbers = Vec::new();
    while let Some(header) = Header::read(bytes) {
        numbers.push(header.seq);
        bytes = &bytes[COMPRESSED_HEADER_LEN + header.len..];
    }
    numbers
}

fn commands(payloads: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for payload in payloads {
        put_payload(&mut out, 0, payload);
    }
    out
}

#[test]
fn short_pieces_go_as_they_are_and_long_ones_packed() {
    let mut out = Vec::new();
    let mut framing = Framing::default();
    framing.pack_answer(b"short", METHOD, &mut Runs, &mut out);
    assert_eq!(out, b"\x05\0\0\0\0\0\0short");
    out.clear();
    framing.pack_answer(&[7; COMPRESSED_MIN], METHOD, &mut Runs, &mut out);
    assert_eq!(out, b"\x02\0\0\x01\x32\0\0\x32\x07");
    out.clear();
    let noise: Vec<u8> = (0..60).collect();
    framing.pack_answer(&noise, METHOD, &mut Runs, &mut out);
    assert_eq!(out[..7], *b"\x3c\0\0\x02\0\0\0");
}

#[test]
fn each_command_begins_a_packet_numbered_0() {
    let long = vec![b'a'; 3 * PIECE_MAX];
    let plain = commands(&[b"\x0e", &long, b"", b"\x01"]);
    let mut packed = Vec::new();
    Framing::default().pack_commands(&plain, METHOD, &mut Runs, &mut packed);
    assert_eq!(numbers(&packed), [0, 0, 1, 2, 3, 0, 0]);
    let (unpacked, _) =
        unpack_all(&mut Framing::default(), &packed, Expected::Command).expect("in order");
    assert_eq!(unpacked, plain);
}

#[test]
fn a_payload_in_several_packets_is_one_command() {
    let plain = commands(&[&vec![1; PAYLOAD_MAX], b"\x0e"]);
    let mut packed = Vec::new();
    Framing::default().pack_commands(&plain, METHOD, &mut Runs, &mut packed);
    let pieces = (PAYLOAD_MAX + 2 * HEADER_LEN).div_ceil(PIECE_MAX);
    let numbers = numbers(&packed);
    let starts = numbers.windows(2).filter(|pair| pair[1] != pair[0].wrapping_add(1));
    assert_eq!((numbers.len(), starts.count()), (pieces + 1, 1));
    let (unpacked, count) =
        unpack_all(&mut Framing::default(), &packed, Expected::Command).expect("in order");
    assert_eq!((unpacked == plain, count), (true, pieces + 1));
}

#[test]
fn an_answer_goes_on_where_the_command_ended() {
    let mut client = Framing::default();
    let mut server = Framing::default();
    let mut wire = Vec::new();
    client.pack_commands(&commands(&[&vec![b'x'; 2 * PIECE_MAX]]), METHOD, &mut Runs, &mut wire);
    unpack_all(&mut server, &wire, Expected::Command).expect("a command");
    wire.clear();
    server.pack_answer(b"\x01\0\0\x01\0", METHOD, &mut Runs, &mut wire);
    server.pack_answer(b"\x01\0\0\x02\0", METHOD, &mut Runs, &mut wire);
    assert_eq!(numbers(&wire), [3, 4]);
    unpack_all(&mut client, &wire, Expected::Any).expect("an answer");
    // An answer to a question of the server's.
    wire.clear();
    client.pack_commands(b"\x01\0\0\x03x", METHOD, &mut Runs, &mut wire);
    assert_eq!(numbers(&wire), [5]);
    unpack_all(&mut server, &wire, Expected::Answer).expect("an answer");
}

#[test]
fn a_command_sent_in_the_middle_of_an_answer_does_not_disturb_it() {
    let mut client = Framing::default();
    let mut wire = Vec::new();
    client.pack_commands(&commands(&[b"\x0e"]), METHOD, &mut Runs, &mut wire);
    let answers = [&b"\x03\0\0\x01\0\0\0\x08\0\0"[..], b"\x05\0\0\x02\0\0\0\x01abcd"];
    assert!(unpack_all(&mut client, answers[0], Expected::Any).is_ok());
    client.pack_commands(&commands(&[b"\x0e"]), METHOD, &mut Runs, &mut wire);
    assert_eq!(numbers(&wire), [0, 0]);
    assert!(unpack_all(&mut client, answers[1], Expected::Any).is_ok());
}

#[test]
fn what_comes_in_pieces_is_taken_when_it_is_whole() {
    let plain = commands(&[&[b'q'; 300]]);
    let mut packed = Vec::new();
    Framing::default().pack_commands(&plain, METHOD, &mut Runs, &mut packed);
    for len in 0..packed.len() {
        let mut out = Vec::new();
        let taken = Framing::default().unpack(
            &packed[..len],
            Expected::Command,
            1_000,
            METHOD,
            &mut Runs,
            &mut out,
        );
        assert_eq!((taken, out.len()), (Ok(None), 0));
    }
}

#[test]
fn what_no_server_takes_is_refused() {
    let check = |bytes: &[u8], expected, refusal| {
        let found = unpack_all(&mut Framing::default(), bytes, expected);
        assert_eq!(found.map(|(plain, _)| plain), Err(refusal), "{bytes:?}");
    };
    check(b"\x05\0\0\x01\0\0\0\x01\0\0\0\x0e", Expected::Command, Unpackable::OutOfOrder);
    check(b"\x05\0\0\x01\0\0\0\x01\0\0\0\x0e", Expected::Answer, Unpackable::OutOfOrder);
    // Within a payload only the next number goes on, whatever is expected of a command.
    check(b"\x02\0\0\0\0\0\0\x01\0\x03\0\0\0\0\0\0\0\x0e", Expected::Any, Unpackable::OutOfOrder);
    // More than it says, and nothing that unpacks.
    check(b"\x02\0\0\0\x05\0\0\xff\x07", Expected::Command, Unpackable::Broken);
    check(b"\x01\0\0\0\x05\0\0\xff", Expected::Command, Unpackable::Broken);
    let too_large = [&b"\xff\xff\xff\0\0\0\0"[..], &b"\x05\0\0\0\xff\xff\xff"[..]];
    for header in too_large {
        let found = Framing::default().unpack(
            header,
            Expected::Command,
            PAYLOAD_MAX - 1,
            METHOD,
            &mut Runs,
            &mut Vec::new(),
        );
        assert_eq!(found, Err(Unpackable::TooLarge), "before its bytes are there");
    }
}

#[test]
fn less_than_it_says_is_taken() {
    let (plain, _) = unpack_all(
        &mut Framing::default(),
        b"\x08\0\0\0\xff\0\0\x01\x01\x01\0\x02\0\x01\x0e",
        Expected::Command,
    )
    .expect("servers take it");
    assert_eq!(plain, b"\x01\0\0\0\x0e"[..].to_vec());
}

#[test]
fn a_long_packet_is_taken_in_pieces() {
    let plain = commands(&[&vec![b'x'; 20 * PIECE_MAX]]);
    let mut held = Vec::new();
    assert!(Runs.compress(METHOD, &plain, &mut held));
    held.extend([0, 0]);
    let header = Header { len: held.len(), seq: 0, plain_len: plain.len() };
    let wire = [&header.bytes()[..], &held].concat();
    for step in [1, 7, 1_000, wire.len()] {
        let mut framing = Framing::default();
        let (mut unpacked, mut at) = (Vec::new(), 0);
        let mut end = 0;
        while at < wire.len() || framing.is_unpacking() {
            let mut out = Vec::new();
            let taken = framing
                .unpack(&wire[at..end], Expected::Command, 1 << 24, METHOD, &mut Runs, &mut out)
                .expect("whole");
            assert!(out.len() <= PIECE_MAX + 1, "{}", out.len());
            at += taken.unwrap_or_default();
            unpacked.extend(out);
            if taken.is_none() {
                end = wire.len().min(end + step);
            }
        }
        assert!(unpacked == plain, "in steps of {step}");
    }
}

#[test]
fn a_long_packet_that_holds_more_than_it_says_is_broken() {
    let plain = vec![b'x'; 4 * PIECE_MAX];
    let mut held = Vec::new();
    Runs.compress(METHOD, &plain, &mut held);
    held.extend([0, 0]);
    for plain_len in [PIECE_MAX + 1, 2 * PIECE_MAX, 4 * PIECE_MAX - 1] {
        let header = Header { len: held.len(), seq: 0, plain_len };
        let wire = [&header.bytes()[..], &held].concat();
        let found = unpack_all(&mut Framing::default(), &wire, Expected::Command);
        assert_eq!(found.map(|(plain, _)| plain.len()), Err(Unpackable::Broken));
    }
}
