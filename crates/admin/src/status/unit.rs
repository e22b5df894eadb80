//! Numbers as people read them.

/// A count: up to 9,999 in full, then three digits and a suffix.
pub(super) fn count(value: u64) -> String {
    match value {
        0..10_000 => value.to_string(),
        _ => scaled(value, 1_000, &["", "k", "M", "G", "T", "P", "E"]),
    }
}

/// Bytes with a binary suffix.
pub(super) fn bytes(value: u64) -> String {
    scaled(value, 1_024, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// `value` divided by `base` until it has at most three digits before the point.
fn scaled(value: u64, base: u64, suffixes: &[&str]) -> String {
    let mut divisor = 1;
    let mut rest = suffixes;
    while let [_, tail @ ..] = rest
        && !tail.is_empty()
        && value / divisor >= 1_000
    {
        divisor *= base;
        rest = tail;
    }
    let suffix = rest.first().copied().unwrap_or_default();
    format!("{}{suffix}", three_digits(value, divisor))
}

/// `value / divisor` with about three digits, cut and not rounded, so that a unit never shows
/// more than it has.
fn three_digits(value: u64, divisor: u64) -> String {
    let whole = value / divisor;
    let decimals: u32 = match whole {
        _ if divisor == 1 => 0,
        0..10 => 2,
        10..100 => 1,
        _ => 0,
    };
    let scale = 10_u128.pow(decimals);
    let fraction = u128::from(value % divisor) * scale / u128::from(divisor);
    match decimals as usize {
        0 => whole.to_string(),
        decimals => format!("{whole}.{fraction:0decimals$}"),
    }
}

/// A duration in µs, with about three digits.
pub(super) fn duration(us: u64) -> String {
    const SECOND: u64 = 1_000_000;
    match us {
        0..1_000 => format!("{us}us"),
        1_000..SECOND => format!("{}ms", three_digits(us, 1_000)),
        _ if us < 100 * SECOND => format!("{}s", three_digits(us, SECOND)),
        _ if us < 100 * 60 * SECOND => format!("{}m", three_digits(us, 60 * SECOND)),
        _ if us < 100 * 3_600 * SECOND => format!("{}h", three_digits(us, 3_600 * SECOND)),
        _ => format!("{}d", count(us / (24 * 3_600 * SECOND))),
    }
}

/// A time span in seconds, in its two largest units.
pub(super) fn since(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{minutes} min {} s", seconds % 60),
        3_600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// A part of a whole in percent; nothing at all is shown as `-`.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let tenths = u128::from(part) * 1_000 / u128::from(whole.max(1));
    match tenths {
        _ if part == 0 => "-".to_owned(),
        0 => "<0.1%".to_owned(),
        1_000.. => "100%".to_owned(),
        _ => format!("{}.{}%", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_at_most_five_characters() {
        let check = |value: u64, expected: &str| assert_eq!(count(value), expected);
        check(0, "0");
        check(9_999, "9999");
        check(10_000, "10.0k");
        check(123_456, "123k");
        check(999_999, "999k");
        check(1_000_000, "1.00M");
        check(u64::MAX, "18.4E");
    }

    #[test]
    fn bytes_have_binary_units() {
        let check = |value: u64, expected: &str| assert_eq!(bytes(value), expected);
        check(0, "0 B");
        check(999, "999 B");
        check(1_000, "0.97 KiB");
        check(1_536, "1.50 KiB");
        check(5 << 30, "5.00 GiB");
        check(u64::MAX, "15.9 EiB");
    }

    #[test]
    fn durations_have_at_most_six_characters() {
        let check = |us: u64, expected: &str| assert_eq!(duration(us), expected);
        check(0, "0us");
        check(999, "999us");
        check(1_234, "1.23ms");
        check(999_999, "999ms");
        check(12_345_678, "12.3s");
        check(100_000_000, "1.66m");
        check(7_200_000_000, "2.00h");
        check(u64::MAX, "213Md");
    }

    #[test]
    fn time_spans_have_two_units() {
        let check = |seconds: u64, expected: &str| assert_eq!(since(seconds), expected);
        check(59, "59 s");
        check(61, "1 min 1 s");
        check(7_260, "2 h 1 min");
        check(273_600, "3 d 4 h");
    }

    #[test]
    fn small_parts_are_told_from_none() {
        let check = |part: u64, whole: u64, expected: &str| {
            assert_eq!(percent(part, whole), expected);
        };
        check(0, 10, "-");
        check(1, 1_000_000, "<0.1%");
        check(1, 3, "33.3%");
        check(3, 3, "100%");
        check(0, 0, "-");
    }
}
