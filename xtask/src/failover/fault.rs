//! What is done to servers and proxies, and when it is over.

use anyhow::{Context, Result, bail, ensure};

use crate::stand::Stand;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The writer is killed (`kill -9`).
    Kill,
    /// It is stopped (SIGSTOP), and goes on when another one writes.
    Stop,
    /// An operator wishes another writer.
    Switchover,
    /// So, and the old writer does not become read-only: a session has locked a table.
    Hang,
    /// The writer is killed, and starts again at once.
    Return,
    /// It is killed, and so is the proxy, which starts again.
    Restart,
    /// It is killed, and two proxies see it.
    Two,
}

impl Fault {
    const ALL: [Self; 7] = [
        Self::Kill,
        Self::Stop,
        Self::Switchover,
        Self::Hang,
        Self::Return,
        Self::Restart,
        Self::Two,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Switchover => "switchover",
            Self::Hang => "hang",
            Self::Return => "return",
            Self::Restart => "restart",
            Self::Two => "two",
        }
    }

    /// What it is, for the page.
    pub fn title(self) -> &'static str {
        match self {
            Self::Kill => "the writer is killed",
            Self::Stop => "the writer is stopped (SIGSTOP)",
            Self::Switchover => "switchover",
            Self::Hang => "switchover that can't make the old writer read-only",
            Self::Return => "the writer is killed and starts again at once",
            Self::Restart => "the writer and the proxy are killed, the proxy starts again",
            Self::Two => "the writer is killed, before two proxies",
        }
    }

    /// Those that are asked for.
    pub fn chosen(only: Option<&str>) -> Result<Vec<Self>> {
        let Some(only) = only else { return Ok(Self::ALL.to_vec()) };
        let is_it = |(at, fault): &(usize, Self)| {
            fault.name() == only || only.parse() == Ok(at.saturating_add(1))
        };
        let found = Self::ALL.into_iter().enumerate().find(is_it);
        match found {
            Some((_, fault)) => Ok(vec![fault]),
            None => bail!("there is no fault `{only}`"),
        }
    }

    /// Whether it is played with a group, too, which takes members in again only if they ask.
    pub fn is_of_groups(self) -> bool {
        match self {
            Self::Kill | Self::Stop | Self::Switchover | Self::Two => true,
            Self::Hang | Self::Return | Self::Restart => false,
        }
    }

    /// How many proxies there are.
    pub fn proxies(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Kill
            | Self::Stop
            | Self::Switchover
            | Self::Hang
            | Self::Return
            | Self::Restart => 1,
        }
    }

    /// Does it; returns when somebody writes again.
    pub fn happen(self, stand: &Stand) -> Result<()> {
        let old = stand.writer()?.context("nobody writes before the fault")?;
        let writer = stand.server(old)?;
        match self {
            Self::Kill | Self::Two => {
                writer.kill_hard()?;
                stand.wait_other_writer(old)
            }
            Self::Stop => {
                writer.pause()?;
                let waited = stand.wait_other_writer(old);
                writer.resume()?;
                waited
            }
            Self::Switchover => {
                let to = stand.server((old + 1) % stand.servers())?.address();
                let mut admin = stand.administrator()?;
                admin.sql(&format!("SWITCHOVER shop TO '{to}'"))?;
                stand.wait_other_writer(old)
            }
            Self::Hang => {
                let to = stand.server((old + 1) % stand.servers())?.address();
                let mut locker = writer.root()?;
                locker.sql("LOCK TABLES checks.lock_only WRITE")?;
                let done = stand.administrator()?.sql(&format!("SWITCHOVER shop TO '{to}'"));
                locker.sql("UNLOCK TABLES")?;
                let error = done.err().context("the switchover was done")?;
                ensure!(format!("{error:#}").contains("it was undone"), "{error:#}");
                stand.wait_writer(old)
            }
            Self::Return => {
                writer.kill_hard()?;
                writer.restart()?;
                stand.wait_some_writer()
            }
            Self::Restart => {
                writer.kill_hard()?;
                stand.restart_proxy()?;
                stand.wait_other_writer(old)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_numbers_and_names() {
        for (number, fault) in (1..).zip(Fault::ALL) {
            for word in [fault.name().to_owned(), format!("{number}")] {
                assert_eq!(Fault::chosen(Some(&word)).expect("a fault"), [fault], "{word}");
            }
        }
        assert_eq!(Fault::chosen(None).expect("all").len(), Fault::ALL.len());
        assert!(Fault::chosen(Some("8")).is_err() && Fault::chosen(Some("0")).is_err());
    }
}
