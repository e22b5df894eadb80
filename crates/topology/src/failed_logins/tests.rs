use super::*;

const LIMITS: FailedLoginLimits =
    FailedLoginLimits { per_name: 3, per_origin: 0, wait_ms: 1_000, wait_max_ms: 5_000 };
/// Of one origin: four failures, and one more each 1,250 ms.
const BOTH: FailedLoginLimits = FailedLoginLimits { per_origin: 4, ..LIMITS };

fn machine(text: &str) -> Origin {
    Origin::machine(text.parse().expect(text))
}

/// How long a login with that name waits from the start, ms.
fn begins(failed: &FailedLogins, origin: Origin, name: &str, now_ms: u64) -> u64 {
    failed.wait(origin, name, Attempt::Begins, now_ms, BOTH).map_or(0, |wait| wait.ms)
}

/// Whose failures a login waits for, at its end.
fn ends(failed: &FailedLogins, origin: Origin, name: &str, attempt: Attempt) -> Option<Waiting> {
    failed.wait(origin, name, attempt, 0, BOTH).map(|wait| wait.whose)
}

#[test]
fn failures_in_a_row_wait_longer_and_longer() {
    let (mut failed, from) = (FailedLogins::default(), machine("10.0.0.1"));
    let waits = (0..7).map(|_| {
        let wait = failed.failed(from, "app", 0, LIMITS).wait;
        wait.map_or(0, |wait| wait.ms)
    });
    assert_eq!(waits.collect::<Vec<_>>(), [0, 0, 1_000, 2_000, 4_000, 5_000, 5_000]);
    for attempt in [Attempt::Begins, Attempt::Wrong, Attempt::Right] {
        let wait = failed.wait(from, "app", attempt, 4_000, LIMITS);
        assert_eq!(wait, Some(LoginWait { ms: 1_000, whose: Waiting::Name }));
    }
    assert_eq!(begins(&failed, from, "app", 5_000), 0);
    // One more within the longest wait goes on, a later one begins anew.
    let after = |failed: &mut FailedLogins, now_ms, limits| {
        failed.failed(from, "app", now_ms, limits);
        begins(failed, from, "app", now_ms)
    };
    assert_eq!(after(&mut failed, 9_000, LIMITS), 5_000);
    assert_eq!(after(&mut failed, 20_000, LIMITS), 0);
    let never = FailedLoginLimits { per_name: 0, ..BOTH };
    assert_eq!(after(&mut failed, 20_000, never), 0);
    assert_eq!(failed.wait(from, "app", Attempt::Wrong, 0, never), None);
}

#[test]
fn guesses_at_one_name_keep_nobody_else_out() {
    let mut failed = FailedLogins::default();
    let from = machine("2001:db8::1");
    for _ in 0..4 {
        failed.failed(from, "app", 0, LIMITS);
    }
    assert!(begins(&failed, machine("2001:db8::2"), "app", 0) > 0, "the same machine");
    for (origin, name) in [
        (from, "other"),
        (machine("2001:db8:0:1::1"), "app"),
        (machine("10.0.0.1"), "app"),
        (Origin::Account(0), "app"),
    ] {
        assert_eq!(begins(&failed, origin, name, 0), 0, "{origin:?} {name}");
    }
}

#[test]
fn a_success_ends_its_own_row_only() {
    let (mut failed, from) = (FailedLogins::default(), machine("10.0.0.1"));
    for _ in 0..4 {
        failed.failed(from, "app", 0, LIMITS);
    }
    failed.succeeded(from, "other", 0);
    failed.succeeded(machine("10.0.0.2"), "app", 0);
    assert!(begins(&failed, from, "app", 0) > 0);
    failed.succeeded(from, "app", 0);
    assert_eq!(begins(&failed, from, "app", 0), 0);
    // Whoever is known has a row like anybody.
    for _ in 0..3 {
        failed.failed(from, "app", 0, LIMITS);
    }
    assert_eq!(begins(&failed, from, "app", 0), 1_000);
}

#[test]
fn one_guess_at_each_of_many_names_is_slowed() {
    let (mut failed, from) = (FailedLogins::default(), machine("10.0.0.1"));
    failed.succeeded(from, "app", 0);
    let waits = (0..6).map(|number| failed.failed(from, &number.to_string(), 0, BOTH).wait);
    let full = Some(LoginWait { ms: 1_250, whose: Waiting::Origin });
    // Those beyond the limit were told to wait, and do not make it longer.
    assert_eq!(waits.collect::<Vec<_>>(), [None, None, None, full, None, None]);
    // The password of somebody who is not known there is not told from a guess; nor does it show
    // who is known, unless the password is right.
    assert_eq!(ends(&failed, from, "new", Attempt::Right), Some(Waiting::Origin));
    for name in ["new", "app"] {
        assert_eq!(ends(&failed, from, name, Attempt::Wrong), Some(Waiting::Origin), "{name}");
        assert_eq!(ends(&failed, from, name, Attempt::Begins), None, "{name}");
    }
    assert_eq!(ends(&failed, from, "app", Attempt::Right), None);
    assert_eq!(ends(&failed, machine("10.0.0.2"), "new", Attempt::Right), None);
    // One more after an interval, and as many as ever after a quiet time.
    let wait = |failed: &FailedLogins, now_ms| {
        failed.wait(from, "new", Attempt::Right, now_ms, BOTH).map_or(0, |wait| wait.ms)
    };
    assert_eq!((wait(&failed, 1_249), wait(&failed, 1_250)), (1, 0));
    assert!(failed.failed(from, "more", 1_250, BOTH).wait == full);
    let waits = (0..4).map(|number| failed.failed(from, &format!("{number}b"), 9_000, BOTH).wait);
    assert_eq!(waits.filter(Option::is_some).count(), 1);
}

#[test]
fn a_program_with_a_wrong_password_does_not_make_its_origin_wait() {
    let (mut failed, from) = (FailedLogins::default(), machine("10.0.0.1"));
    let mut now_ms = 0;
    for _ in 0..100 {
        failed.failed(from, "app", now_ms, BOTH);
        now_ms += begins(&failed, from, "app", now_ms);
    }
    assert_eq!(failed.wait(from, "new", Attempt::Right, now_ms, BOTH), None);
}

#[test]
fn a_success_does_not_end_the_wait_of_its_origin() {
    let (mut failed, from) = (FailedLogins::default(), machine("10.0.0.1"));
    for number in 0..4 {
        failed.failed(from, &number.to_string(), 0, BOTH);
    }
    failed.succeeded(from, "app", 0);
    assert_eq!(ends(&failed, from, "new", Attempt::Right), Some(Waiting::Origin));
    assert_eq!(ends(&failed, from, "app", Attempt::Right), None, "it is known there now");
}

#[test]
fn who_is_known_is_told_to_wait_as_strangers_are() {
    let (mut failed, from) = (FailedLogins::default(), machine("10.0.0.1"));
    failed.succeeded(from, "app", 0);
    for number in 0..4 {
        failed.failed(from, &number.to_string(), 0, BOTH);
    }
    for name in ["app", "nobody"] {
        for _ in 0..3 {
            assert_eq!(begins(&failed, from, name, 0), 0);
            failed.failed(from, name, 0, BOTH);
        }
        assert_eq!(begins(&failed, from, name, 0), 1_000, "{name}");
    }
}

#[test]
fn so_many_rows_are_kept_and_no_more() {
    let (mut failed, from) = (FailedLogins::default(), machine("10.0.0.1"));
    failed.succeeded(from, "known", 0);
    for name in ["known", "waits"] {
        for _ in 0..3 {
            failed.failed(from, name, 0, LIMITS);
        }
    }
    let mut forgotten = 0;
    for number in 0..ROWS_MAX + 10 {
        forgotten += failed.failed(from, &number.to_string(), 1, LIMITS).forgotten;
    }
    assert_eq!((failed.strangers.len(), forgotten), (ROWS_MAX, 11));
    // Neither one that waits nor one that is known is forgotten for the sake of those.
    assert!(begins(&failed, from, "waits", 1) > 0 && begins(&failed, from, "known", 1) > 0);
    // Rows whose time is over make room without a loss.
    assert_eq!(failed.failed(from, "later", 60_000, LIMITS).forgotten, 0);
    let long = "é".repeat(100_000);
    failed.failed(from, &long, 1, LIMITS);
    let longest = failed.strangers.iter().map(|((_, name), _)| name.len()).max();
    assert_eq!(longest, Some(NAME_LEN_MAX));
    assert_eq!(failed.forget(), ROWS_MAX + 1);
    assert_eq!(begins(&failed, from, "known", 1), 0);
}

#[test]
fn failures_are_listed_by_origin() {
    let mut failed = FailedLogins::default();
    let [one, other] = [machine("10.0.0.1"), Origin::Account(33)];
    failed.succeeded(one, "app", 0);
    for (origin, name, now_ms) in
        [(one, "app", 5), (one, "a", 7), (one, "b", 6), (other, "a", 8), (other, "a", 9)]
    {
        failed.failed(origin, name, now_ms, BOTH);
    }
    let mut listed = failed.failing();
    listed.sort_unstable();
    assert_eq!(listed, [(one, 3, 7), (other, 2, 9)]);
    assert_eq!(failed.forget(), 4);
    assert_eq!(failed.failing(), []);
}
