use super::*;

#[test]
fn an_answer_is_kept_in_parts_up_to_the_limit() {
    let mut capture = Capture::new(5);
    capture.take(b"abc");
    capture.take(b"de");
    assert_eq!(capture.bytes(), Some(&b"abcde"[..]));
}

#[test]
fn an_answer_that_gets_too_long_is_given_up_for_good() {
    let mut capture = Capture::new(5);
    capture.take(b"abc");
    capture.take(b"def");
    capture.take(b"g");
    assert_eq!(capture.bytes(), None);
    assert!(capture.bytes.capacity() == 0, "its bytes are held");
}

#[test]
fn a_statement_that_is_sent_again_is_captured_anew() {
    let mut capture = Capture::new(5);
    capture.take(b"first");
    capture.restart();
    capture.take(b"again");
    assert_eq!(capture.bytes(), Some(&b"again"[..]));
}

#[test]
fn an_answer_that_was_too_long_may_be_short_when_it_comes_again() {
    let mut capture = Capture::new(5);
    capture.take(b"longer");
    capture.restart();
    capture.take(b"again");
    assert_eq!(capture.bytes(), Some(&b"again"[..]));
}
