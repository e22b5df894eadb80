//! Bytes on their way to a socket.

use crate::outbox::{Buffers, Outbox};

fn outbox(bytes: &[u8], buffers: &mut Buffers) -> Outbox {
    let mut outbox = Outbox::default();
    outbox.buf(buffers).extend_from_slice(bytes);
    outbox
}

#[test]
fn a_buffer_that_is_given_back_is_lent_again_and_empty() {
    let mut buffers = Buffers::default();
    buffers.give(b"secret".to_vec());
    let buffer = buffers.take();
    assert!(buffer.is_empty() && buffer.capacity() >= 6);
    assert_eq!(buffers.take().capacity(), 0, "lent twice");
}

#[test]
fn a_buffer_that_grew_large_is_not_kept() {
    let mut buffers = Buffers::default();
    buffers.give(Vec::with_capacity(64 * 1024 + 1));
    assert_eq!(buffers.take().capacity(), 0);
}

#[test]
fn so_many_buffers_are_kept_and_no_more() {
    let mut buffers = Buffers::default();
    (0..300).for_each(|_| buffers.give(vec![1]));
    let kept = (0..300).filter(|_| buffers.take().capacity() > 0).count();
    assert_eq!(kept, 256);
}

#[test]
fn what_is_wiped_is_as_long_as_before() {
    let mut buffers = Buffers::default();
    let mut outbox = outbox(b"password, and more", &mut buffers);
    outbox.wipe(8);
    assert_eq!(outbox.pending(), b"\0\0\0\0\0\0\0\0, and more");
}

#[test]
fn only_what_has_not_been_written_is_wiped() {
    let mut buffers = Buffers::default();
    let mut outbox = outbox(b"abcdef", &mut buffers);
    outbox.advance(2, &mut buffers);
    outbox.wipe(2);
    assert_eq!(outbox.pending(), b"\0\0ef");
}

#[test]
fn what_is_discarded_is_neither_written_nor_counted() {
    let mut buffers = Buffers::default();
    let mut outbox = outbox(b"abcdef", &mut buffers);
    outbox.advance(2, &mut buffers);
    outbox.discard(&mut buffers);
    assert!(outbox.is_empty());
    assert_eq!((outbox.position(), outbox.written_total(), outbox.held()), (2, 2, 0));
}

#[test]
fn a_position_counts_from_the_connections_begin() {
    let mut buffers = Buffers::default();
    let mut outbox = outbox(b"abc", &mut buffers);
    outbox.advance(3, &mut buffers);
    assert_eq!(outbox.position(), 3);
    outbox.buf(&mut buffers).extend_from_slice(b"de");
    assert_eq!((outbox.position(), outbox.written_total()), (5, 3));
}
