//! Where the demo writes: a terminal, on which the picture is redrawn in place, or a pipe, which
//! gets plain lines.

use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};

/// How numbers are grouped: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Standard output.
#[derive(Debug)]
pub struct Screen {
    is_live: bool,
    has_colours: bool,
    /// Lines of the picture that stand above the cursor.
    drawn: usize,
}

impl Screen {
    /// Looks what standard output is. A terminal too small for `lines` by `columns` gets plain
    /// lines, since a picture that scrolls can't be redrawn in place.
    pub fn new(lines: usize, columns: usize) -> Screen {
        let is_terminal = std::io::stdout().is_terminal();
        let fits = terminal_size().is_none_or(|(rows, cols)| rows > lines && cols >= columns);
        Screen {
            is_live: is_terminal && fits,
            has_colours: is_terminal && std::env::var_os("NO_COLOR").is_none(),
            drawn: 0,
        }
    }

    /// Whether pictures are redrawn in place.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Prints a line that stays, above the picture.
    pub fn say(&mut self, line: &str) {
        let text = format!("{}{line}\n", self.erase());
        write(&text);
    }

    /// Draws the picture in the place of the one before.
    pub fn draw(&mut self, picture: &[String]) {
        let mut text = self.erase();
        for line in picture {
            text.push_str(&self.coloured(line));
            text.push('\n');
        }
        write(&text);
        if self.is_live {
            self.drawn = picture.len();
        }
    }

    /// Takes the picture away.
    pub fn clear(&mut self) {
        let text = self.erase();
        write(&text);
    }

    /// The bytes that take the picture away: up to its first line, and all below goes.
    fn erase(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r\x1b[J"),
        }
    }

    fn coloured(&self, line: &str) -> String {
        if !self.has_colours {
            return line.to_owned();
        }
        // Colours take no room, so what is aligned stays so.
        line.replace("ONLINE", "\x1b[32mONLINE\x1b[0m").replace("SHUNNED", "\x1b[31mSHUNNED\x1b[0m")
    }
}

fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    // When nobody reads any more there is nobody to be told.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Rows and columns of the terminal on standard input.
fn terminal_size() -> Option<(usize, usize)> {
    let output = Command::new("stty")
        .arg("size")
        .stdin(Stdio::inherit())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (rows, columns) = text.trim().split_once(' ')?;
    Some((rows.parse().ok()?, columns.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
