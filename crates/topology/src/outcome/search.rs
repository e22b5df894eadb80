//! The search for a transaction: who is asked what, and which answer counts.
//!
//! | state | input | next |
//! |---|---|---|
//! | looking for whom to ask | nobody writes | waits |
//! | | another server writes | reads the log there |
//! | | the old server answers, and has begun anew since | reads the log there |
//! | | the old server answers | ends the connection's thread there |
//! | ending the thread | there is none of that number | reads the log |
//! | | it was told to end | tells it again, after a moment |
//! | | that is not allowed | unknown |
//! | reading | an untold number, on a server that waits for replicas | unknown |
//! | | an untold number | committed |
//! | | none, and the log is complete | not committed |
//! | | none, and transactions are still being received | reads it again, after a moment |
//! | | none, and the log has gaps | unknown |
//! | | what was told is missing | unknown |
//! | any | the conversation breaks | looks for whom to ask, after a moment |
//! | any | out of time | unknown |
//!
//! What the old server has is worth nothing once another one writes: it may have gone on alone.

use super::{Outcome, Reading, Unknown};

/// Who may say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// The server that the connection was to.
    Old,
    /// The one that writes now.
    New,
    /// Nobody for now: no server writes.
    Nowhere,
}

/// What became of an attempt to end the thread of the lost connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// There is none of that number: nothing of it is under way any more.
    Gone,
    /// It was told to end.
    Told,
    /// The account may not.
    Refused,
}

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// What the log says.
    pub reading: Reading,
    /// Every transaction is logged there under its name.
    pub is_complete: bool,
    /// The server replicates: what it has not got yet may come.
    pub receives: bool,
    /// The server lets no `COMMIT` through before a replica has it: what is in its log may be
    /// waiting for that.
    pub awaits_replicas: bool,
}

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Who may be asked.
    Found(Where),
    /// The old server has let the account in. `is_later`: it has begun to run since the connection
    /// was made, so that nothing of it is under way.
    Entered {
        /// See above.
        is_later: bool,
    },
    /// What came of the thread.
    Thread(Ended),
    /// What was read.
    Read(Evidence),
    /// The server does not answer, or not any more.
    Broken,
    /// The time is over.
    Late,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// See who writes, after a moment if `after_a_moment`.
    Find {
        /// See above.
        after_a_moment: bool,
    },
    /// Log in to the old server.
    Enter,
    /// Have the old server end the thread.
    End {
        /// Not at once.
        after_a_moment: bool,
    },
    /// Read the log, on the old server or on the new one.
    Read {
        /// On the one that writes now.
        on_new: bool,
        /// Not at once.
        after_a_moment: bool,
    },
    /// It is over.
    Answer(Outcome),
}

/// How far the search is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Finding,
    Entering,
    Ending,
    Reading { on_new: bool },
    Over,
}

/// The search for one transaction.
#[derive(Debug)]
pub struct Search {
    state: State,
}

impl Default for Search {
    fn default() -> Self {
        Self { state: State::Finding }
    }
}

impl Search {
    /// The first step.
    pub fn begin(&mut self) -> Step {
        self.find(false)
    }

    /// The next step, after this.
    pub fn on(&mut self, input: Input) -> Step {
        match (self.state, input) {
            (State::Over, _) => self.over(Outcome::Unknown(Unknown::Time)),
            (_, Input::Late) => self.over(Outcome::Unknown(Unknown::Time)),
            (State::Finding, Input::Found(Where::Old)) => {
                self.state = State::Entering;
                Step::Enter
            }
            (State::Finding, Input::Found(Where::New)) => self.read(true, false),
            (State::Finding, Input::Found(Where::Nowhere)) => self.find(true),
            (State::Entering, Input::Entered { is_later: true }) => self.read(false, false),
            (State::Entering, Input::Entered { is_later: false }) => {
                self.state = State::Ending;
                Step::End { after_a_moment: false }
            }
            (State::Ending, Input::Thread(Ended::Gone)) => self.read(false, false),
            (State::Ending, Input::Thread(Ended::Told)) => Step::End { after_a_moment: true },
            (State::Ending, Input::Thread(Ended::Refused)) => {
                self.over(Outcome::Unknown(Unknown::Rights))
            }
            (State::Reading { on_new }, Input::Read(evidence)) => self.judge(on_new, evidence),
            // What does not fit says nothing.
            (
                State::Finding | State::Entering | State::Ending | State::Reading { .. },
                Input::Broken
                | Input::Found(_)
                | Input::Entered { .. }
                | Input::Thread(_)
                | Input::Read(_),
            ) => self.find(true),
        }
    }

    fn judge(&mut self, on_new: bool, evidence: Evidence) -> Step {
        let Evidence { reading, is_complete, receives, awaits_replicas } = evidence;
        match reading {
            Reading::Untold if !on_new && awaits_replicas => {
                self.over(Outcome::Unknown(Unknown::Unacknowledged))
            }
            Reading::Untold => self.over(Outcome::Committed),
            Reading::AllTold | Reading::Behind if on_new && receives => self.read(true, true),
            Reading::AllTold if is_complete => self.over(Outcome::NotCommitted),
            Reading::AllTold => self.over(Outcome::Unknown(Unknown::NotLogged)),
            Reading::Behind => self.over(Outcome::Unknown(Unknown::History)),
        }
    }

    fn find(&mut self, after_a_moment: bool) -> Step {
        self.state = State::Finding;
        Step::Find { after_a_moment }
    }

    fn read(&mut self, on_new: bool, after_a_moment: bool) -> Step {
        self.state = State::Reading { on_new };
        Step::Read { on_new, after_a_moment }
    }

    fn over(&mut self, outcome: Outcome) -> Step {
        self.state = State::Over;
        Step::Answer(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: Evidence = Evidence {
        reading: Reading::AllTold,
        is_complete: true,
        receives: false,
        awaits_replicas: false,
    };

    /// The last step behind these inputs.
    fn last(inputs: &[Input]) -> Step {
        let mut search = Search::default();
        let first = search.begin();
        inputs.iter().fold(first, |_, input| search.on(*input))
    }

    #[test]
    fn absence_counts_only_behind_the_end_of_the_thread() {
        let (found, entered) = (Input::Found(Where::Old), Input::Entered { is_later: false });
        assert_eq!(last(&[found, entered]), Step::End { after_a_moment: false });
        let told = Input::Thread(Ended::Told);
        assert_eq!(last(&[found, entered, told]), Step::End { after_a_moment: true });
        // A reading that nobody asked for does not count.
        assert_eq!(last(&[found, entered, Input::Read(SAID)]), Step::Find { after_a_moment: true });
        let gone = [found, entered, told, Input::Thread(Ended::Gone)];
        assert_eq!(last(&gone), Step::Read { on_new: false, after_a_moment: false });
        for (evidence, expected) in [
            (SAID, Outcome::NotCommitted),
            (Evidence { reading: Reading::Untold, ..SAID }, Outcome::Committed),
            (
                Evidence { reading: Reading::Untold, awaits_replicas: true, ..SAID },
                Outcome::Unknown(Unknown::Unacknowledged),
            ),
            (Evidence { awaits_replicas: true, ..SAID }, Outcome::NotCommitted),
            (Evidence { is_complete: false, ..SAID }, Outcome::Unknown(Unknown::NotLogged)),
            (Evidence { reading: Reading::Behind, ..SAID }, Outcome::Unknown(Unknown::History)),
        ] {
            let inputs = [&gone[..], &[Input::Read(evidence)]].concat();
            assert_eq!(last(&inputs), Step::Answer(expected), "{evidence:?}");
        }
        let refused = Input::Thread(Ended::Refused);
        let rights = Outcome::Unknown(Unknown::Rights);
        assert_eq!(last(&[found, entered, refused]), Step::Answer(rights));
    }

    #[test]
    fn a_server_that_began_anew_has_no_such_thread() {
        let inputs = [Input::Found(Where::Old), Input::Entered { is_later: true }];
        assert_eq!(last(&inputs), Step::Read { on_new: false, after_a_moment: false });
    }

    #[test]
    fn whoever_writes_now_is_asked_and_has_to_have_received_all() {
        let wait = Step::Find { after_a_moment: true };
        assert_eq!(last(&[Input::Found(Where::Nowhere)]), wait);
        let new = [Input::Found(Where::New)];
        assert_eq!(last(&new), Step::Read { on_new: true, after_a_moment: false });
        for reading in [Reading::AllTold, Reading::Behind] {
            let receives = Input::Read(Evidence { receives: true, reading, ..SAID });
            let again = Step::Read { on_new: true, after_a_moment: true };
            assert_eq!(last(&[new[0], receives]), again);
            let committed = Evidence { reading: Reading::Untold, receives: true, ..SAID };
            let inputs = [new[0], receives, Input::Read(committed)];
            assert_eq!(last(&inputs), Step::Answer(Outcome::Committed));
        }
        let none = Step::Answer(Outcome::NotCommitted);
        assert_eq!(last(&[new[0], Input::Read(SAID)]), none);
        assert_eq!(last(&[Input::Found(Where::Old), Input::Broken]), wait);
    }

    #[test]
    fn the_wait_ends() {
        let late = Step::Answer(Outcome::Unknown(Unknown::Time));
        assert_eq!(last(&[Input::Late]), late);
        assert_eq!(last(&[Input::Found(Where::New), Input::Late, Input::Read(SAID)]), late);
    }
}
