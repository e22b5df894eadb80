//! Waiting for an event with a deadline.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long between two looks; short enough that no test feels it.
const INTERVAL: Duration = Duration::from_millis(10);

/// Looks again and again until `look` gives a value.
///
/// `what` names the event in the error: `replica caught up`.
///
/// # Errors
/// The error of `look` at once, or `timed out` after `timeout`. At least one look is taken.
pub fn wait_until<T>(
    what: &str,
    timeout: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = look()? {
            return Ok(value);
        }
        if start.elapsed() >= timeout {
            bail!("timed out after {} ms waiting: {what}", timeout.as_millis());
        }
        std::thread::sleep(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_the_wait_and_a_deadline_names_what_was_awaited() {
        let mut looks = 0;
        let value = wait_until("third look", Duration::from_secs(5), || {
            looks += 1;
            Ok((looks == 3).then_some(looks))
        });
        assert_eq!(value.unwrap(), 3);
        let late = wait_until::<()>("a miracle", Duration::ZERO, || Ok(None));
        assert_eq!(late.unwrap_err().to_string(), "timed out after 0 ms waiting: a miracle");
    }
}
