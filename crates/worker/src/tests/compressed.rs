//! Parts of compressed packets, and the numbers of answers.

use trunkline_protocol::codec::{compressed::PIECE_MAX, frame::put_payload};

use crate::compressed::{answer_seq, joined, piece_of, remaining};

#[test]
fn bytes_are_taken_as_they_came_where_none_wait() {
    let (mut received, bytes) = (Vec::new(), b"abc");
    assert!(std::ptr::eq(joined(&mut received, bytes), bytes));
    assert!(received.is_empty());
}

#[test]
fn bytes_that_wait_come_before_those_that_came() {
    let mut received = b"ab".to_vec();
    assert_eq!(joined(&mut received, b"cd"), b"abcd");
}

#[test]
fn what_was_not_unpacked_is_what_remains() {
    assert_eq!(remaining(Vec::new(), b"abcd", 3), b"d");
    assert_eq!(remaining(b"abcd".to_vec(), b"cd", 1), b"bcd");
}

#[test]
fn nothing_remains_and_no_memory_is_held_when_all_was_unpacked() {
    let rest = remaining(b"abcd".to_vec(), b"cd", 4);
    assert_eq!((rest.len(), rest.capacity()), (0, 0));
    assert_eq!(remaining(b"ab".to_vec(), b"", 9), b"");
}

#[test]
fn unpacked_bytes_go_on_in_pieces() {
    let plain = vec![7; PIECE_MAX + 3];
    assert_eq!(piece_of(&plain, 0).map(<[u8]>::len), Some(PIECE_MAX));
    assert_eq!(piece_of(&plain, PIECE_MAX).map(<[u8]>::len), Some(3));
    assert_eq!(piece_of(&plain, PIECE_MAX + 3), None);
}

#[test]
fn an_answer_is_numbered_behind_the_last_packet_of_its_command() {
    let mut frames = Vec::new();
    put_payload(&mut frames, 0, b"one");
    assert_eq!(answer_seq(&frames), 1);
    put_payload(&mut frames, 1, b"two");
    assert_eq!(answer_seq(&frames), 2);
    put_payload(&mut frames, 255, b"the last of many");
    assert_eq!(answer_seq(&frames), 0, "numbers come again");
    assert_eq!(answer_seq(&[]), 0);
}
