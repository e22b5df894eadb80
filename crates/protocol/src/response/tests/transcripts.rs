//! Real servers answered the same commands in all four framings: what the relay makes of one is
//! what the server itself says in the other.

use super::client::Client;
use super::*;

const TRANSCRIPTS: [&str; 2] =
    [include_str!("transcripts/mariadb-10.11.txt"), include_str!("transcripts/mysql-9.7.txt")];

struct Response {
    command: String,
    shape: ResponseShape,
    /// The server's bytes in each of [`FORMATS`].
    bytes: Vec<Vec<u8>>,
}

fn read(transcript: &str) -> Vec<Response> {
    let mut responses: Vec<Response> = Vec::new();
    for line in transcript.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = line.split(' ').collect();
        let [command, shape, format, hex] = fields[..] else { panic!("{line}") };
        let shape = match shape {
            "Single" => ResponseShape::Single,
            "Text" => ResponseShape::Text,
            "Query" => ResponseShape::Query,
            "FieldList" => ResponseShape::FieldList,
            "Prepare" => ResponseShape::Prepare,
            "Fetch" => ResponseShape::Fetch,
            other => panic!("{other}"),
        };
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let at = FORMATS.iter().position(|f| {
            format == format!("{}{}", u8::from(f.deprecate_eof), u8::from(f.session_track))
        });
        let at = at.expect("a framing");
        // The answer to a file belongs to the response that asked for it.
        let command = command.trim_end_matches("_answer");
        match responses.iter_mut().find(|response| response.command == command) {
            Some(response) if response.bytes.len() > at => response.bytes[at].extend(bytes),
            Some(response) => response.bytes.push(bytes),
            None => responses.push(Response { command: command.into(), shape, bytes: vec![bytes] }),
        }
    }
    responses
}

/// What of a response is the same on every connection.
fn lasting(events: Vec<Event>) -> Vec<Event> {
    let strip = |done: Done| Done {
        changes: Vec::new(),
        status: done.status & !status::SESSION_STATE_CHANGED,
        ..done
    };
    let events = events.into_iter().map(|event| match event {
        Event::Ok(done) => Event::Ok(strip(done)),
        Event::End(done) => Event::End(strip(done)),
        Event::Prepared(_, params, columns) => Event::Prepared(0, params, columns),
        Event::Text(_) => Event::Text(Vec::new()),
        other => other,
    });
    events.collect()
}

#[test]
fn a_real_servers_response_in_one_framing_becomes_its_response_in_another() {
    for transcript in TRANSCRIPTS {
        let responses = read(transcript);
        assert!(responses.len() > 50);
        for Response { command, shape, bytes } in responses {
            for (server, said) in FORMATS.iter().zip(&bytes) {
                for (client, expected) in FORMATS.iter().zip(&bytes) {
                    for len in [said.len(), 7, 1] {
                        let relay = Relay::new(shape, *server, *client, true);
                        let (out, _) = relay_in_chunks(relay, said, &[len]);
                        if server == client {
                            assert_eq!(&out, expected, "{command}");
                        }
                        if command == "process_info" {
                            // Its rows tell of other connections.
                            continue;
                        }
                        let events = lasting(Client::decode(shape, *client, &out));
                        let expected = lasting(Client::decode(shape, *client, expected));
                        assert_eq!(events, expected, "{command}: {server:?} to {client:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn out_parameters_keep_their_flag_before_their_row() {
    for transcript in TRANSCRIPTS {
        let responses = read(transcript);
        let call = responses.iter().find(|r| r.command == "execute_call").expect("a call");
        let said = &call.bytes[2];
        let row = b"\x06\0\0\x0C\0\0";
        let row = said.windows(row.len()).position(|window| window == row).expect("a row");
        let eof = b"\x05\0\0\x0E\xFE\0\0\x0A\x10";
        let has_flag = |bytes: &[u8]| bytes.windows(eof.len()).any(|window| window == eof);
        assert!(has_flag(&call.bytes[0]));
        // Whole, and split inside the head of the row.
        for first in [said.len(), row, row + 1, row + 4, row + 5] {
            let relay = Relay::new(call.shape, FORMATS[2], FORMATS[0], true);
            let (out, _) = relay_in_chunks(relay, said, &[first, said.len()]);
            assert_eq!(has_flag(&out), first != row + 5, "split at {first} of {row}");
        }
    }
}
