//! Two connected ends, and the bytes between them that the receiving one has not taken yet.
//!
//! A direction ends with its source's end of file: what is held goes out first, then the sink is
//! told by a shutdown of its writing side, and the other direction goes on. A source is read only
//! while nothing is held for its sink, so a direction holds at most what one read brings.

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// The client's.
    Client = 0,
    /// The server's.
    Server = 1,
}

impl End {
    /// Both, the client's first.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// How a direction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The source may send.
    Open,
    /// The source has said its last; held bytes and the end are to be passed on.
    Ending,
    /// The sink was told, or is gone: nothing goes this way any more.
    Over,
}

/// One direction, by its sink.
#[derive(Debug)]
struct Flow {
    phase: Phase,
    held: Vec<u8>,
    /// How much of `held` the sink has taken.
    taken: usize,
}

impl Flow {
    fn new() -> Self {
        Self { phase: Phase::Open, held: Vec::new(), taken: 0 }
    }

    fn pending(&self) -> &[u8] {
        self.held.get(self.taken..).unwrap_or_default()
    }

    fn drop_held(&mut self) -> Vec<u8> {
        self.taken = 0;
        std::mem::take(&mut self.held)
    }
}

/// What the driver has to do for a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Tell this end that no more comes, by a shutdown of the writing side.
    Shutdown(End),
    /// Close both sockets.
    Close,
}

/// The state of a relayed pair.
#[derive(Debug)]
pub struct Pair {
    to_client: Flow,
    to_server: Flow,
    is_closed: bool,
}

impl Default for Pair {
    fn default() -> Self {
        Self::new()
    }
}

impl Pair {
    /// Both ends are connected and nothing was sent.
    pub fn new() -> Self {
        Self { to_client: Flow::new(), to_server: Flow::new(), is_closed: false }
    }

    fn to(&self, sink: End) -> &Flow {
        match sink {
            End::Client => &self.to_client,
            End::Server => &self.to_server,
        }
    }

    fn to_mut(&mut self, sink: End) -> &mut Flow {
        match sink {
            End::Client => &mut self.to_client,
            End::Server => &mut self.to_server,
        }
    }

    /// Whether bytes of this end are wanted now.
    pub fn may_read(&self, from: End) -> bool {
        let flow = self.to(from.other());
        flow.phase == Phase::Open && flow.pending().is_empty() && !self.is_closed
    }

    /// Bytes that wait for this end.
    pub fn pending(&self, to: End) -> &[u8] {
        self.to(to).pending()
    }

    /// Whether this end has said its last, or can't be heard any more.
    pub fn has_ended(&self, from: End) -> bool {
        self.to(from.other()).phase != Phase::Open
    }

    /// Keeps the part of a read that the sink did not take at once. `store` is an empty buffer to
    /// keep it in.
    pub fn hold(&mut self, to: End, rest: &[u8], store: Vec<u8>) {
        let flow = self.to_mut(to);
        debug_assert!(flow.pending().is_empty() && store.is_empty());
        if flow.phase == Phase::Over || rest.is_empty() {
            return;
        }
        flow.held = store;
        flow.held.extend_from_slice(rest);
        flow.taken = 0;
    }

    /// The sink took so many of the held bytes. A buffer that is empty now is given back.
    pub fn took(&mut self, to: End, len: usize) -> Option<Vec<u8>> {
        let flow = self.to_mut(to);
        debug_assert!(len <= flow.pending().len());
        flow.taken = flow.taken.saturating_add(len).min(flow.held.len());
        (flow.taken == flow.held.len() && flow.held.capacity() > 0).then(|| flow.drop_held())
    }

    /// The source has said its last.
    pub fn end_of(&mut self, from: End) {
        let flow = self.to_mut(from.other());
        if flow.phase == Phase::Open {
            flow.phase = Phase::Ending;
        }
    }

    /// This end takes no more bytes. What it still sends is passed on.
    pub fn deaf(&mut self, end: End) {
        let flow = self.to_mut(end);
        flow.phase = Phase::Over;
        flow.drop_held();
    }

    /// This end is gone altogether: what it had sent is passed on, and then both close.
    pub fn gone(&mut self, end: End) {
        self.end_of(end);
        self.deaf(end);
    }

    /// The next thing to do, if there is any; asked until there is none.
    pub fn next_step(&mut self) -> Option<Step> {
        if self.is_closed {
            return None;
        }
        for end in End::BOTH {
            let flow = self.to_mut(end);
            if flow.phase == Phase::Ending && flow.pending().is_empty() {
                flow.phase = Phase::Over;
                if self.to(end.other()).phase != Phase::Over {
                    return Some(Step::Shutdown(end));
                }
            }
        }
        let is_over = End::BOTH.iter().all(|end| self.to(*end).phase == Phase::Over);
        if is_over {
            self.is_closed = true;
            return Some(Step::Close);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::{collection, prelude::*};

    use super::*;

    #[test]
    fn one_direction_ends_and_the_other_goes_on() {
        let mut pair = Pair::new();
        pair.hold(End::Server, b"last words", Vec::new());
        pair.end_of(End::Client);
        assert_eq!(pair.next_step(), None, "bytes go before the end");
        assert!(!pair.may_read(End::Client) && pair.may_read(End::Server));
        assert!(pair.took(End::Server, 10).is_some());
        assert_eq!(pair.next_step(), Some(Step::Shutdown(End::Server)));
        assert_eq!(pair.next_step(), None);
        assert!(pair.may_read(End::Server));
        pair.end_of(End::Server);
        assert_eq!(pair.next_step(), Some(Step::Close));
        assert_eq!(pair.next_step(), None);
    }

    #[test]
    fn a_source_is_not_read_while_its_sink_has_bytes_to_take() {
        let mut pair = Pair::new();
        pair.hold(End::Client, b"abc", Vec::new());
        assert!(!pair.may_read(End::Server) && pair.may_read(End::Client));
        assert_eq!(pair.took(End::Client, 2), None);
        assert_eq!(pair.pending(End::Client), b"c");
        assert!(pair.took(End::Client, 1).is_some());
        assert!(pair.may_read(End::Server));
    }

    #[test]
    fn an_end_that_is_gone_has_its_last_bytes_delivered() {
        let mut pair = Pair::new();
        pair.hold(End::Client, b"error 1040", Vec::new());
        pair.hold(End::Server, b"nobody hears this", Vec::new());
        pair.gone(End::Server);
        assert_eq!(pair.next_step(), None);
        assert!(!pair.may_read(End::Client), "there is nobody to send it to");
        pair.took(End::Client, 10);
        assert_eq!(pair.next_step(), Some(Step::Close));
    }

    #[test]
    fn a_deaf_end_may_still_speak() {
        let mut pair = Pair::new();
        pair.deaf(End::Server);
        assert_eq!(pair.next_step(), None);
        assert!(pair.may_read(End::Server) && !pair.may_read(End::Client));
        pair.end_of(End::Server);
        assert_eq!(pair.next_step(), Some(Step::Close));
    }

    /// What a script does to a pair.
    #[derive(Debug, Clone)]
    enum Event {
        /// The end sends so many bytes, of which the sink takes some at once.
        Sends(End, u8, u8),
        /// The end takes held bytes.
        Takes(End, u8),
        Ends(End),
    }

    fn event() -> impl Strategy<Value = Event> {
        let end = || prop_oneof![Just(End::Client), Just(End::Server)];
        prop_oneof![
            8 => (end(), any::<u8>(), any::<u8>()).prop_map(|(e, n, t)| Event::Sends(e, n, t)),
            8 => (end(), any::<u8>()).prop_map(|(end, len)| Event::Takes(end, len)),
            1 => end().prop_map(Event::Ends),
        ]
    }

    proptest! {
        /// Each end gets the other's bytes, in order, each once, and hears of the end behind the
        /// last of them.
        #[test]
        fn bytes_and_ends_come_through_in_order(script in collection::vec(event(), 0..200)) {
            let mut pair = Pair::new();
            let mut next = [0_u8; 2];
            let mut sent: [VecDeque<u8>; 2] = Default::default();
            let mut ended = [false; 2];
            let mut told = [false; 2];
            for event in script {
                match event {
                    Event::Sends(from, len, taken) if pair.may_read(from) => {
                        let to = from.other();
                        let bytes: Vec<u8> = (0..len).map(|_| {
                            next[from as usize] = next[from as usize].wrapping_add(1);
                            next[from as usize]
                        }).collect();
                        let taken = usize::from(taken).min(bytes.len());
                        sent[to as usize].extend(&bytes);
                        for byte in &bytes[..taken] {
                            prop_assert_eq!(sent[to as usize].pop_front(), Some(*byte));
                        }
                        pair.hold(to, &bytes[taken..], Vec::new());
                    }
                    Event::Takes(to, len) => {
                        let len = usize::from(len).min(pair.pending(to).len());
                        for byte in &pair.pending(to)[..len] {
                            prop_assert_eq!(sent[to as usize].pop_front(), Some(*byte));
                        }
                        pair.took(to, len);
                    }
                    Event::Ends(from) if pair.may_read(from) => {
                        pair.end_of(from);
                        ended[from as usize] = true;
                    }
                    Event::Sends(..) | Event::Ends(_) => {}
                }
                while let Some(step) = pair.next_step() {
                    match step {
                        Step::Shutdown(to) => {
                            prop_assert!(sent[to as usize].is_empty() && !told[to as usize]);
                            prop_assert!(ended[to.other() as usize]);
                            told[to as usize] = true;
                        }
                        Step::Close => prop_assert!(
                            ended == [true; 2] && sent.iter().all(VecDeque::is_empty)
                        ),
                    }
                }
            }
        }
    }
}
