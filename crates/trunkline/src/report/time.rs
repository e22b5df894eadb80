//! Moments as people write them, in UTC.

use anyhow::{Result, bail};

const DAY: i64 = 86_400;

/// Reads a moment as Unix seconds: `2026-11-28 10:00`, `2026-11-28T10:00:30Z`, `2026-11-28`,
/// `1795849200`, `now`, or how long ago it was: `2h`, `90m`, `3d`, `45s`.
///
/// # Errors
/// When it is none of these.
pub fn parse(text: &str, now: u64) -> Result<u64> {
    let text = text.trim();
    if text == "now" {
        return Ok(now);
    }
    if let Ok(number) = text.parse::<u64>() {
        return Ok(number);
    }
    if let Some(seconds) = ago(text) {
        return Ok(now.saturating_sub(seconds));
    }
    match civil(text) {
        Some(seconds) => Ok(seconds),
        None => bail!(
            "`{text}` is no moment: 2026-11-28 10:00 (UTC), Unix seconds, `now`, or 2h for two \
             hours ago"
        ),
    }
}

fn ago(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(number.len()..)? {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

fn civil(text: &str) -> Option<u64> {
    let text = text.trim_end_matches('Z');
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let numbers = |text: &str, sign| -> Option<Vec<i64>> {
        text.split(sign).map(|part| part.parse().ok()).collect()
    };
    let date = numbers(date, '-')?;
    let [year, month, day] = date.as_slice() else { return None };
    let time = numbers(time, ':')?;
    let (hour, minute, second) = match time.as_slice() {
        [hour, minute] => (*hour, *minute, 0),
        [hour, minute, second] => (*hour, *minute, *second),
        _ => return None,
    };
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    if !(1970..10_000).contains(year) || !is_time {
        return None;
    }
    let days = days_from_civil(*year, *month, *day);
    // A day that there is comes back as it was.
    if civil_from_days(days) != (*year, *month, *day) {
        return None;
    }
    u64::try_from(days * DAY + hour * 3_600 + minute * 60 + second).ok()
}

/// Days since 1970-01-01 of a date of the Gregorian calendar: years begin in March, so that the
/// day that comes and goes is the last one.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let of_era_year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_era_year + of_era_year / 4 - of_era_year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = of_era_year + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

/// `2026-11-28 10:00:30`.
pub fn shown(at: u64) -> String {
    let at = i64::try_from(at).unwrap_or(i64::MAX);
    let (year, month, day) = civil_from_days(at / DAY);
    let (hour, minute, second) = (at % DAY / 3_600, at % 3_600 / 60, at % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// `10:00`, or the date where a plot covers days.
pub fn tick(at: u64, seconds: u64) -> String {
    let text = shown(at);
    let part = if seconds > 2 * 86_400 { text.get(5..10) } else { text.get(11..16) };
    part.unwrap_or_default().to_owned()
}

/// `2 h`, `90 min`, `3 d`.
pub fn length(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_and_shown() {
        let check = |text: &str, expected: u64| {
            assert_eq!(parse(text, 1_000_000).ok(), Some(expected), "{text}");
        };
        check("1970-01-01", 0);
        check("2026-11-28 10:00", 1_795_860_000);
        check("2026-11-28T10:00:30Z", 1_795_860_030);
        check("2024-02-29", 1_709_164_800);
        check("1795860000", 1_795_860_000);
        check("now", 1_000_000);
        check("2h", 1_000_000 - 7_200);
        check("1d", 1_000_000 - 86_400);
        for wrong in ["", "2026-02-29", "2026-13-01", "10:00", "2026-11-28 25:00", "2w", "h", "-5"]
        {
            assert!(parse(wrong, 1).is_err(), "{wrong}");
        }
        assert_eq!(shown(1_795_860_030), "2026-11-28 10:00:30");
        assert_eq!(shown(1_709_164_800), "2024-02-29 00:00:00");
        assert_eq!(tick(1_795_860_030, 3_600), "10:00");
        assert_eq!(tick(1_795_860_030, 7 * 86_400), "11-28");
    }
}
