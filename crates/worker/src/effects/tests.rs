use trunkline_config::Settings;

use super::*;
use crate::{tests::NoCompressor, upkeep::report::new_stats};

fn effects() -> Effects {
    Effects::new(Box::new(NoCompressor), new_stats(&Settings::default(), 1), 1)
}

fn lines(effects: &Effects) -> Vec<&str> {
    let mut lines = Vec::new();
    for action in &effects.actions {
        if let Action::Log(line) = action {
            lines.push(line.text.as_str());
        }
    }
    lines
}

#[test]
fn a_line_of_the_log_is_an_action_that_says_how_grave_it_is() {
    let mut effects = effects();
    effects.log(true, || "a warning".to_owned());
    effects.log(false, || "a word".to_owned());
    let warnings = effects.actions.iter().map(|action| match action {
        Action::Log(line) => line.is_warning,
        other => panic!("{other:?}"),
    });
    assert_eq!(warnings.collect::<Vec<_>>(), [true, false]);
    assert_eq!(lines(&effects), ["a warning", "a word"]);
}

#[test]
fn lines_beyond_those_of_a_second_are_counted_only() {
    let mut effects = effects();
    for number in 0..LOG_LINES_PER_SEC + 3 {
        effects.log(false, || number.to_string());
    }
    assert_eq!(lines(&effects).len(), LOG_LINES_PER_SEC as usize);
    assert_eq!(effects.stats.counters.log_lines_dropped, 3);
}

#[test]
fn the_text_of_a_line_that_is_dropped_is_not_made() {
    let mut effects = effects();
    effects.log_budget = 0;
    effects.log(true, || panic!("nobody reads it"));
    assert!(effects.actions.is_empty());
}

#[test]
fn what_became_due_first_is_looked_at_first() {
    let mut effects = effects();
    effects.wake(Wake::Queue(HostgroupId(1)));
    effects.wake(Wake::Queue(HostgroupId(2)));
    let first = effects.wakes.pop_front();
    assert!(matches!(first, Some(Wake::Queue(HostgroupId(1)))), "{first:?}");
}
