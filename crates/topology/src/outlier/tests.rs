use super::*;

const LIMITS: OutlierLimits =
    OutlierLimits { latency_factor: 5, failed_percent: 50, base_ms: 10_000 };

fn well(latency_us: u64) -> Window {
    Window { answered: 100, latency_us, is_in: true, ..Window::default() }
}

fn failing(failed: u32) -> Window {
    Window { failed, ..well(1_000) }
}

fn slow(latency_us: u64) -> Window {
    Window { slow_looks: 2, ..well(latency_us) }
}

fn out() -> Window {
    Window { is_in: false, ..well(1_000) }
}

#[track_caller]
fn check(seen: &[Window], expected: Option<(usize, &str)>) {
    let found = worst(seen, &LIMITS).map(|(at, evidence)| (at, evidence.to_string()));
    let expected = expected.map(|(at, text)| (at, text.to_owned()));
    assert_eq!(found, expected, "{seen:?}");
}

#[test]
fn one_that_fails_or_is_slow_beside_its_peers_is_named_with_the_evidence() {
    check(&[well(1_000), well(2_000), well(1_500)], None);
    check(
        &[well(1_000), failing(50), well(1_000)],
        Some((1, "50 of its last 100 statements failed by its fault")),
    );
    check(
        &[well(1_000), well(1_500), slow(9_000)],
        Some((2, "a statement takes 9000 µs there, and 1500 µs on the others")),
    );
    // What fails goes before what is slow.
    check(
        &[failing(80), slow(90_000), well(1_000), well(1_000)],
        Some((0, "80 of its last 100 statements failed by its fault")),
    );
}

#[test]
fn one_that_answers_nothing_while_the_others_do_is_named() {
    let silent = |stuck| Window { answered: 0, stuck, ..well(100) };
    let expected = "it answered nothing for a second, with 4 statements in flight";
    check(&[well(100), silent(4), well(100)], Some((1, expected)));
    // One report that runs for long is no silence, and where nobody answers nobody is worse.
    check(&[well(100), silent(1), well(100)], None);
    check(&[silent(4), silent(4), silent(4)], None);
}

#[test]
fn what_is_within_the_limits_or_proves_little_ejects_nobody() {
    check(&[well(1_000), failing(49), well(1_000)], None);
    let few = Window { answered: 9, failed: 9, ..well(1_000) };
    check(&[well(1_000), few, well(1_000)], None);
    // Slow for one look only, not slow by itself, all alike.
    check(&[well(1_000), Window { slow_looks: 1, ..slow(9_000) }, well(1_000)], None);
    check(&[well(100), slow(4_999), well(100)], None);
    check(&[slow(90_000), slow(90_000), slow(90_000)], None);
    // Nothing is known of the others.
    check(&[well(0), slow(90_000), well(0)], None);
}

#[test]
fn at_most_a_third_is_out_and_never_the_last_one() {
    check(&[failing(100)], None);
    check(&[well(1_000), failing(100)], None);
    check(&[out(), well(1_000), failing(100)], None);
    check(&[out(), failing(100), well(1), well(1), well(1)], None);
    assert!(worst(&[out(), failing(100), well(1), well(1), well(1), well(1)], &LIMITS).is_some());
    for (servers, most) in [(1, 0), (2, 0), (3, 1), (5, 1), (6, 2), (64, 21)] {
        let out = (0..servers).take_while(|out| may_eject(servers, servers - out)).count();
        assert_eq!(out, most, "of {servers}");
    }
}

#[test]
fn limits_of_zero_eject_nobody() {
    let off = OutlierLimits { latency_factor: 0, failed_percent: 0, base_ms: 1 };
    assert_eq!(worst(&[failing(100), slow(90_000), well(1), well(1)], &off), None);
}

#[test]
fn it_is_out_for_longer_each_time_then_half_open_and_in_after_a_good_answer() {
    let ejection = Ejection::default();
    assert_eq!(ejection.circuit(0), Circuit::Closed);
    assert_eq!(ejection.eject(1_000, 10_000), Some(10_000));
    assert_eq!(ejection.eject(2_000, 10_000), None, "it is out already");
    assert_eq!(ejection.circuit(10_999), Circuit::Open);
    assert_eq!(ejection.circuit(11_000), Circuit::HalfOpen);
    // It did badly again: twice as long.
    assert_eq!(ejection.eject(11_500, 10_000), Some(20_000));
    assert_eq!(ejection.circuit(31_500), Circuit::HalfOpen);
    ejection.readmit(32_000);
    assert_eq!(ejection.circuit(32_000), Circuit::Closed);
    // Soon again, and much later.
    assert_eq!(ejection.eject(40_000, 10_000), Some(40_000));
    ejection.readmit(90_000);
    assert_eq!(ejection.eject(90_000 + 80_000, 10_000), Some(10_000));
}

#[test]
fn no_time_out_is_longer_than_five_minutes() {
    let ejection = Ejection::default();
    let mut now_ms = 0;
    let mut last = 0;
    for _ in 0..40 {
        last = ejection.eject(now_ms, 10_000).expect("half open");
        now_ms += last;
    }
    assert_eq!(last, 300_000);
}

#[test]
fn the_share_of_one_that_is_back_grows() {
    let ejection = Ejection::default();
    assert_eq!(ejection.parts(5, 1_600), Ejection::PARTS);
    ejection.eject(0, 100);
    ejection.readmit(1_000);
    let parts: Vec<u64> =
        [0, 100, 800, 1_599, 1_600].map(|since_ms| ejection.parts(1_000 + since_ms, 1_600)).into();
    assert_eq!(parts, [1, 1, 8, 15, 16]);
    assert_eq!(ejection.parts(1_000, 0), Ejection::PARTS);
    // It was to come back later, and is here already.
    ejection.comes_back_at(9_000);
    assert_eq!(ejection.parts(2_000, 1_600), Ejection::PARTS);
}
