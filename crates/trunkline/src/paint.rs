//! Colours, on a terminal that wants them.

use std::io::{self, IsTerminal};

/// The text with titles and states painted, where standard output is a terminal and `NO_COLOR` is
/// not set.
pub fn painted(text: &str) -> String {
    let wants = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if wants { paint(text) } else { text.to_owned() }
}

fn paint(text: &str) -> String {
    let mut painted = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let first = line.split_whitespace().next().unwrap_or_default();
        let is_title = first.len() > 1 && first.chars().all(|char| char.is_ascii_uppercase());
        match is_title {
            true => painted.push_str(&format!("\x1b[1m{}\x1b[0m\n", line.trim_end())),
            false => painted.push_str(&states(line)),
        }
    }
    painted
}

/// States that want an eye are red.
fn states(line: &str) -> String {
    let mut line = line.to_owned();
    for word in ["SHUNNED", "OFFLINE_SOFT", "OFFLINE_HARD"] {
        if line.contains(&format!("  {word}")) {
            line = line.replacen(word, &format!("\x1b[31m{word}\x1b[0m"), 1);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_and_states_are_painted_and_nothing_else() {
        let text = "POOLS\n   10  a:3306  SHUNNED  1\n   10  b:3306  ONLINE  1\n";
        assert_eq!(
            paint(text),
            "\x1b[1mPOOLS\x1b[0m\n   10  a:3306  \x1b[31mSHUNNED\x1b[0m  1\n   10  b:3306  ONLINE  1\n"
        );
    }
}
