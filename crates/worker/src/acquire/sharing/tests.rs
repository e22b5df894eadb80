//! The queue of a shared connection: several clients' statements are in flight on it, and the
//! server's answers, of every shape, come cut anywhere. Each client gets its own answer, whole.

mod stage;

use proptest::prelude::*;
use stage::{Answer, Stage};
use trunkline_protocol::capability::Capabilities;

/// Clients that share the one connection; every other speaks `DEPRECATE_EOF`, so that half of the
/// answers are translated on their way.
const CLIENTS: usize = 6;

fn stage() -> Stage {
    let mut stage = Stage::new();
    for number in 0..CLIENTS {
        stage.log_in(match number % 2 {
            0 => Capabilities::EMPTY,
            _ => Capabilities::DEPRECATE_EOF | Capabilities::SESSION_TRACK,
        });
    }
    stage
}

/// One answer of each shape.
fn shapes() -> [Answer; CLIENTS] {
    [
        Answer::Rows { rows: 1, len: 3 },
        Answer::Rows { rows: 0, len: 0 },
        Answer::Rows { rows: 3, len: 251 },
        Answer::Nulls,
        Answer::Rows { rows: 40, len: 1 },
        Answer::Rows { rows: 1, len: 0 },
    ]
}

#[test]
fn answers_cut_in_two_anywhere_reach_whom_they_belong_to() {
    let mut stage = stage();
    stage.make_known();
    let answers = shapes();
    let mut at = 0;
    loop {
        let bytes = stage.ask_all(&answers);
        if at > bytes.len() {
            break;
        }
        let (first, second) = bytes.split_at(at);
        stage.answer(first);
        stage.answer(second);
        stage.expect_all(&answers);
        at += 1;
    }
    assert!(at > 1_000, "the answers had {at} bytes");
    assert_eq!(stage.connections(), 1, "they did not share a connection");
}

#[test]
fn a_server_without_profiles_or_traces_is_asked_once_to_keep_none() {
    let mut stage = stage();
    ["optimizer_trace", "profiling"].into_iter().for_each(|name| stage.lack(name));
    let answers = shapes();
    for client in 0..3 {
        stage.ask_alone(client, &answers);
    }
    let asks = |name: &str| -> Vec<_> {
        stage.trackers().iter().map(|text| text.contains(name)).collect()
    };
    // On the first connection, in its place, on the next one, and so on.
    assert_eq!(asks("optimizer_trace"), [true, false, false, false, false]);
    assert_eq!(asks("profiling"), [true, false, true, false, false]);
}

#[test]
fn answers_that_come_byte_by_byte_reach_whom_they_belong_to() {
    let mut stage = stage();
    stage.make_known();
    let answers = shapes();
    for byte in stage.ask_all(&answers) {
        stage.answer(&[byte]);
    }
    stage.expect_all(&answers);
}

#[test]
fn an_error_in_the_middle_of_an_answer_is_its_owners_alone() {
    for place in 0..CLIENTS {
        for answer in [Answer::Error, Answer::Interrupted { rows: 2 }] {
            let mut stage = stage();
            stage.make_known();
            let mut answers = shapes();
            answers[place] = answer;
            let bytes = stage.ask_all(&answers);
            // Twice, at different places: what follows an error begins anew.
            let (first, rest) = bytes.split_at(bytes.len() / 3);
            let (second, third) = rest.split_at(rest.len() / 2);
            for part in [first, second, third] {
                stage.answer(part);
            }
            stage.expect_all(&answers);
        }
    }
}

#[test]
fn a_killed_session_leaves_nobody_behind_it_without_an_answer() {
    let mut stage = stage();
    stage.make_known();
    let answers = shapes();
    stage.ask_all(&answers);
    // What stands behind the killed one may not be sent elsewhere before it is proven anew.
    stage.outdate_proofs();
    stage.kill(0);
    (1..CLIENTS).for_each(|client| stage.serve_and_expect(client, &answers));
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        8 => (0..30_usize, 0..400_usize).prop_map(|(rows, len)| Answer::Rows { rows, len }),
        1 => (1..3_usize, 60_000..140_000_usize)
            .prop_map(|(rows, len)| Answer::Rows { rows, len }),
        1 => Just(Answer::Nulls),
        1 => Just(Answer::Error),
        1 => (0..5_usize).prop_map(|rows| Answer::Interrupted { rows }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Any answers, cut at any places, while some clients go before or between the parts, and the
    /// connection is lost at the end or not: those that stay have theirs, whole, or asked again.
    #[test]
    fn whoever_stays_gets_its_own_answer(
        answers in prop::array::uniform6(any_answer()),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        leaving in prop::collection::vec((0..CLIENTS, 0..6_usize), 0..4),
        loses in any::<prop::sample::Index>(),
        is_lost in prop::bool::weighted(0.3),
    ) {
        let mut stage = stage();
        stage.make_known();
        let bytes = stage.ask_all(&answers);
        let end = if is_lost { loses.index(bytes.len() + 1) } else { bytes.len() };
        let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(end + 1)).collect();
        places.extend([0, end]);
        places.sort_unstable();
        for (step, window) in places.windows(2).enumerate() {
            for (client, when) in &leaving {
                if *when == step {
                    stage.leave(*client);
                }
            }
            stage.answer(&bytes[window[0]..window[1]]);
        }
        match is_lost {
            // Those whose answers had not begun are asked elsewhere, once, and answered there.
            true => stage.lose_and_serve(&answers, end),
            false => stage.expect_all(&answers),
        }
    }
}
