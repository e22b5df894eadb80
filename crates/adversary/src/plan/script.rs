//! A program as text that a person can read, and that can be run again from a file.

use std::fmt::{self, Write};

use anyhow::{Context, Result, bail};
use trunkline_testkit::Flavour;

use super::{Account, Act, Plan, Profile, Step};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "family {}", self.family.name())?;
        writeln!(f, "profile {}", self.profile.name())?;
        let names: Vec<_> = self.accounts.iter().map(|account| account.name()).collect();
        writeln!(f, "sessions {}", names.join(" "))?;
        for statement in &self.setup {
            writeln!(f, "setup {statement}")?;
        }
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Plan::session_name(self.session), self.act)
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::Query(text) => f.write_str(&escaped(text)),
            Act::Prepared(text) => write!(f, ".prepared {}", escaped(text)),
            Act::Strike(text) => write!(f, ".strike {}", escaped(text)),
            Act::Close => f.write_str(".close"),
            Act::Reset => f.write_str(".reset"),
            Act::Ping => f.write_str(".ping"),
            Act::Reconnect => f.write_str(".reconnect"),
            Act::ChangeUser(name) => write!(f, ".user {name}"),
            Act::Schema(name) => write!(f, ".schema {name}"),
            Act::Kill { target, is_connection } => {
                let what = if *is_connection { "connection" } else { "query" };
                write!(f, ".kill {what} {}", Plan::session_name(*target))
            }
        }
    }
}

impl Plan {
    /// Reads programs that stand in one text; each begins with its family.
    ///
    /// # Errors
    /// With the line that is not understood.
    pub fn read_all(text: &str) -> Result<Vec<Plan>> {
        let mut texts: Vec<String> = Vec::new();
        for line in text.lines() {
            if line.starts_with("family ") {
                texts.push(String::new());
            }
            if let Some(text) = texts.last_mut() {
                text.push_str(line);
                text.push('\n');
            }
        }
        texts.iter().map(|text| Plan::read(text)).collect()
    }

    /// Reads what [`Plan`] writes. Lines that are empty or begin with `--` are left out.
    ///
    /// # Errors
    /// With the line that is not understood.
    pub fn read(text: &str) -> Result<Plan> {
        let mut plan = Plan {
            family: Flavour::MariaDb,
            profile: Profile::One,
            accounts: Vec::new(),
            setup: Vec::new(),
            steps: Vec::new(),
        };
        for line in text.lines().map(str::trim) {
            if !line.is_empty() && !line.starts_with("--") {
                read_line(&mut plan, line).with_context(|| format!("in line {line:?}"))?;
            }
        }
        let sessions = plan.steps.iter().map(|step| step.session + 1).max().unwrap_or(0);
        let count = plan.accounts.len().max(sessions);
        plan.accounts.resize(count, Account::Ada);
        Ok(plan)
    }
}

fn read_line(plan: &mut Plan, line: &str) -> Result<()> {
    let (head, rest) = line.split_once(' ').context("a line has two words")?;
    let rest = rest.trim();
    match head {
        "family" if rest == "mysql" => plan.family = Flavour::MySql,
        "family" if rest == "mariadb" => plan.family = Flavour::MariaDb,
        "profile" => plan.profile = Profile::of(rest).context("no such profile")?,
        "sessions" => {
            let accounts = rest.split(' ').map(Account::of).collect::<Option<Vec<_>>>();
            plan.accounts = accounts.context("no such account")?;
        }
        "setup" => plan.setup.push(rest.to_owned()),
        _ => {
            let session = session_of(head.strip_suffix(':').context("no session")?)?;
            plan.steps.push(Step { session, act: act_of(rest)? });
        }
    }
    Ok(())
}

fn session_of(name: &str) -> Result<usize> {
    ('A'..='Z').position(|letter| name == letter.to_string()).context("no such session")
}

/// What a text without a session's name says.
pub(super) fn act_of(text: &str) -> Result<Act> {
    let Some(command) = text.strip_prefix('.') else { return Ok(Act::Query(unescaped(text))) };
    let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
    Ok(match word {
        "prepared" => Act::Prepared(unescaped(rest)),
        "strike" => Act::Strike(unescaped(rest)),
        "close" => Act::Close,
        "reset" => Act::Reset,
        "ping" => Act::Ping,
        "reconnect" => Act::Reconnect,
        "user" => Act::ChangeUser(rest.to_owned()),
        "schema" => Act::Schema(rest.to_owned()),
        "kill" => {
            let (what, whom) = rest.split_once(' ').context("kill what of whom")?;
            Act::Kill { target: session_of(whom)?, is_connection: what == "connection" }
        }
        other => bail!("no such command: {other}"),
    })
}

fn escaped(text: &[u8]) -> String {
    let mut out = String::new();
    for byte in text {
        // Writing to a String does not fail.
        let _ = match byte {
            b' '..=b'~' => write!(out, "{}", char::from(*byte)),
            _ => write!(out, "\\x{byte:02X}"),
        };
    }
    out
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("\\x") {
        out.extend_from_slice(before.as_bytes());
        let byte = behind.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) => {
                out.push(byte);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                out.extend_from_slice(b"\\x");
                rest = behind;
            }
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let text = "family mysql\nprofile split\nsessions ada bob\nsetup CREATE TABLE t (n INT)\n\
             A: SELECT '\\xA1\\x5C'\nB: .prepared SELECT 1\nA: .strike DO SLEEP(1)\nB: .reset\n\
             A: .kill query B\nB: .user ada\nA: .schema other\nB: .reconnect\nA: .ping\n\
             A: .close\n";
        let plan = Plan::read(text).unwrap();
        // A backslash is ASCII.
        assert_eq!(plan.to_string(), text.replace("\\x5C", "\\"));
        assert_eq!(Plan::read(&plan.to_string()).unwrap(), plan);
        assert!(Plan::read("A: .nothing").is_err());
    }
}
