//! Checks by connecting: how many in a row make a server up or down.

/// What a check changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    AsBefore,
    /// The server is down: take it out.
    Down,
    /// The server is up: put it back.
    Up,
}

/// What is remembered of one server between its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checker {
    /// Checks in a row that spoke against the state that it is in.
    against: u32,
    /// It was out at the last check.
    was_out: bool,
}

impl Checker {
    /// A check has ended. `is_out` says whether the server is out now, for whatever reason: a
    /// client's failed attempt takes it out as well.
    pub fn observe(&mut self, succeeded: bool, is_out: bool, rise: u32, fall: u32) -> Verdict {
        if self.was_out != is_out {
            self.was_out = is_out;
            self.against = 0;
        }
        if succeeded != is_out {
            self.against = 0;
            // It is down and stays so: whoever counts the time is told anew.
            return if succeeded { Verdict::AsBefore } else { Verdict::Down };
        }
        self.against = self.against.saturating_add(1);
        let needed = if succeeded { rise } else { fall };
        if self.against < needed {
            return Verdict::AsBefore;
        }
        self.against = 0;
        self.was_out = !is_out;
        if succeeded { Verdict::Up } else { Verdict::Down }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A script of checks (`+`, `-`) and client failures (`x`); what is said after each check.
    fn play(script: &str) -> String {
        let mut checker = Checker::default();
        let mut is_out = false;
        let mut said = String::new();
        for event in script.chars() {
            if event == 'x' {
                is_out = true;
                said.push('x');
                continue;
            }
            let verdict = checker.observe(event == '+', is_out, 2, 3);
            said.push(match verdict {
                Verdict::AsBefore => '.',
                Verdict::Down => 'D',
                Verdict::Up => 'U',
            });
            match verdict {
                Verdict::Down => is_out = true,
                Verdict::Up => is_out = false,
                Verdict::AsBefore => {}
            }
        }
        said
    }

    #[test]
    fn a_server_falls_and_rises_after_checks_in_a_row() {
        assert_eq!(play("+++"), "...");
        assert_eq!(play("---"), "..D");
        assert_eq!(play("--+--+---"), "........D");
        assert_eq!(play("---+-++"), "..D.D.U");
        assert_eq!(play("---++---"), "..D.U..D");
    }

    #[test]
    fn a_clients_failure_takes_it_out_and_checks_bring_it_back() {
        assert_eq!(play("+x++"), ".x.U");
        assert_eq!(play("--x++"), "..x.U");
        assert_eq!(play("x+x+"), "x.xU");
    }
}
