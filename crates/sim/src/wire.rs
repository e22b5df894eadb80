//! Links: two pipes of bytes between the proxy and a client or a server host.
//!
//! A pipe behaves as TCP does: bytes come in order and late, in pieces that have nothing to do
//! with how they were written; a full window takes no more; an end can finish one direction or
//! reset both; bytes that reach an end that has closed are answered with a reset.

mod pipe;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::{HostId, LinkId, Micros, rng::Rng};
pub use pipe::{Chop, PipeSpec};
use pipe::{Pipe, Segment};

/// One end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The proxy's.
    Proxy,
    /// The client's or the server host's.
    Far,
}

impl End {
    /// The end opposite.
    pub fn other(self) -> Self {
        match self {
            Self::Proxy => Self::Far,
            Self::Far => Self::Proxy,
        }
    }
}

/// Who is at the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Far {
    /// A client, by its place in the plan.
    Client(usize),
    /// A server host.
    Host(HostId),
}

/// What a read gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadBytes {
    /// Bytes, at least one.
    Some(Vec<u8>),
    /// Nothing yet.
    Nothing,
    /// Nothing any more: the other end has finished.
    End,
    /// The connection was reset.
    Reset,
}

/// The connection is reset: a write has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// What happens on a link later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireEvent {
    /// Something may have come to this end.
    Arrival(LinkId, End),
    /// There may be room again for this end to write.
    Room(LinkId, End),
}

#[derive(Debug)]
struct Link {
    far: Far,
    to_proxy: Pipe,
    to_far: Pipe,
}

impl Link {
    /// The pipe that `end` reads from.
    fn inward(&mut self, end: End) -> &mut Pipe {
        match end {
            End::Proxy => &mut self.to_proxy,
            End::Far => &mut self.to_far,
        }
    }

    /// The pipe that `end` writes to.
    fn outward(&mut self, end: End) -> &mut Pipe {
        self.inward(end.other())
    }

    fn is_over(&self) -> bool {
        self.to_proxy.is_over() && self.to_far.is_over()
    }
}

/// All links of a run.
#[derive(Debug)]
pub struct Wire {
    links: BTreeMap<LinkId, Link>,
    rng: Rng,
    next: u64,
    events: Vec<(Micros, WireEvent)>,
    bytes: u64,
}

impl Wire {
    /// No links yet.
    pub fn new(rng: Rng) -> Self {
        Self { links: BTreeMap::new(), rng, next: 1, events: Vec::new(), bytes: 0 }
    }

    /// A new link, whose bytes flow from now on.
    pub fn link(&mut self, far: Far, spec: &PipeSpec) -> LinkId {
        let id = LinkId(self.next);
        self.next += 1;
        let pipe = |name| Pipe::new(*spec, self.rng.split(name, id.0));
        let link = Link { far, to_proxy: pipe("to proxy"), to_far: pipe("to far") };
        self.links.insert(id, link);
        id
    }

    /// Who is at the far end.
    pub fn far(&self, id: LinkId) -> Option<Far> {
        self.links.get(&id).map(|link| link.far)
    }

    /// Links whose far end is `far` and that are not over, oldest first.
    pub fn links_of(&self, far: Far) -> Vec<LinkId> {
        let links = self.links.iter().filter(|(_, link)| link.far == far);
        links.map(|(id, _)| *id).collect()
    }

    /// What happens later because of what was done since the last call.
    pub fn take_events(&mut self) -> Vec<(Micros, WireEvent)> {
        std::mem::take(&mut self.events)
    }

    /// Bytes that arrived so far, in both directions.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes as much as there is room for and says how much that was.
    ///
    /// # Errors
    /// [`Broken`] when this end has heard of a reset, or has closed.
    pub fn write(
        &mut self,
        id: LinkId,
        end: End,
        bytes: &[u8],
        now: Micros,
    ) -> Result<usize, Broken> {
        let link = self.links.get_mut(&id).ok_or(Broken)?;
        if link.inward(end).was_reset() {
            return Err(Broken);
        }
        let len = link.outward(end).write(bytes, now).ok_or(Broken)?;
        self.announce(id, end.other(), now);
        Ok(len)
    }

    /// Writes everything; what there is no room for waits at this end.
    pub fn write_all(&mut self, id: LinkId, end: End, bytes: &[u8], now: Micros) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if !link.inward(end).was_reset() {
            link.outward(end).write_all(bytes, now);
            self.announce(id, end.other(), now);
        }
    }

    /// Ends this end's direction, after what was written; it goes on reading.
    pub fn finish(&mut self, id: LinkId, end: End, now: Micros) {
        if let Some(link) = self.links.get_mut(&id) {
            link.outward(end).finish(now);
            self.announce(id, end.other(), now);
        }
    }

    /// Closes this end: it finishes and reads no more. What came and was not read is lost, and
    /// the other end is told so by a reset behind the last bytes.
    pub fn close(&mut self, id: LinkId, end: End, now: Micros) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let has_unread = link.inward(end).has_unread();
        link.inward(end).go_deaf();
        match has_unread {
            true => link.outward(end).reset_behind(now),
            false => link.outward(end).finish(now),
        }
        self.announce(id, end.other(), now);
        self.sweep(id);
    }

    /// Ends both directions at once: bytes under way are lost, and the other end hears of it.
    pub fn reset(&mut self, id: LinkId, end: End, now: Micros) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        link.inward(end).go_deaf();
        link.outward(end).reset(now);
        self.announce(id, end.other(), now);
        self.sweep(id);
    }

    /// Cuts a link in the middle: both ends hear of a reset.
    pub fn cut(&mut self, id: LinkId, now: Micros) {
        if let Some(link) = self.links.get_mut(&id) {
            link.to_far.reset(now);
            link.to_proxy.reset(now);
            self.announce(id, End::Proxy, now);
            self.announce(id, End::Far, now);
        }
    }

    /// Nothing arrives at either end before `until`.
    pub fn stall(&mut self, id: LinkId, until: Micros) {
        if let Some(link) = self.links.get_mut(&id) {
            link.to_far.stall(until);
            link.to_proxy.stall(until);
        }
    }

    /// Takes in what has arrived at `end`; whether there is anything to read, an end included.
    pub fn arrive(&mut self, id: LinkId, end: End, now: Micros) -> bool {
        let Some(link) = self.links.get_mut(&id) else {
            return false;
        };
        let pipe = link.inward(end);
        pipe.is_announced = false;
        let mut has_news = false;
        let mut meets_closed_end = false;
        while let Some(segment) = pipe.arrived(now) {
            has_news = true;
            if let Segment::Bytes(bytes) = segment {
                self.bytes += bytes.len() as u64;
                meets_closed_end |= pipe.is_deaf();
            }
        }
        if meets_closed_end {
            link.outward(end).reset(now);
            self.announce(id, end.other(), now);
        }
        self.announce(id, end, now);
        let is_deaf = self.links.get_mut(&id).is_some_and(|link| link.inward(end).is_deaf());
        self.sweep(id);
        has_news && !is_deaf
    }

    /// Reads at most `max` bytes.
    pub fn read(&mut self, id: LinkId, end: End, max: usize, now: Micros) -> ReadBytes {
        let Some(link) = self.links.get_mut(&id) else {
            return ReadBytes::Reset;
        };
        let pipe = link.inward(end);
        let read = pipe.read(max);
        if pipe.take_wish_for_room() {
            let at = now + pipe.latency_us();
            self.events.push((at, WireEvent::Room(id, end.other())));
        }
        read
    }

    /// Whether this end has bytes to read, or an end.
    pub fn is_readable(&self, id: LinkId, end: End) -> bool {
        let Some(link) = self.links.get(&id) else {
            return true;
        };
        match end {
            End::Proxy => link.to_proxy.is_readable(),
            End::Far => link.to_far.is_readable(),
        }
    }

    /// Whether this end's direction ended, or both were reset, and it has heard of it.
    pub fn has_ended(&self, id: LinkId, end: End) -> bool {
        let Some(link) = self.links.get(&id) else {
            return true;
        };
        match end {
            End::Proxy => link.to_proxy.has_ended(),
            End::Far => link.to_far.has_ended(),
        }
    }

    /// Whether this end has heard of a reset.
    pub fn was_reset(&self, id: LinkId, end: End) -> bool {
        self.links.get(&id).is_some_and(|link| match end {
            End::Proxy => link.to_proxy.was_reset(),
            End::Far => link.to_far.was_reset(),
        })
    }

    /// Whether this end has written its last.
    pub fn is_finished(&self, id: LinkId, end: End) -> bool {
        let Some(link) = self.links.get(&id) else {
            return true;
        };
        match end {
            End::Proxy => link.to_far.is_finished(),
            End::Far => link.to_proxy.is_finished(),
        }
    }

    /// There is room again: sends what waits at this end. True when the end itself may write.
    pub fn room(&mut self, id: LinkId, end: End, now: Micros) -> bool {
        let Some(link) = self.links.get_mut(&id) else {
            return false;
        };
        let has_room = link.outward(end).flush(now);
        self.announce(id, end.other(), now);
        has_room
    }

    /// Bytes that wait at `end` for room, or that its peer has not read.
    pub fn unread(&self, id: LinkId, end: End) -> usize {
        let Some(link) = self.links.get(&id) else {
            return 0;
        };
        match end {
            End::Proxy => link.to_far.unread_len(),
            End::Far => link.to_proxy.unread_len(),
        }
    }

    /// Puts the next arrival at `end` on the list of events, unless it is there.
    fn announce(&mut self, id: LinkId, end: End, now: Micros) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let pipe = link.inward(end);
        if let Some(at) = pipe.next_arrival()
            && !pipe.is_announced
        {
            pipe.is_announced = true;
            self.events.push((at.max(now), WireEvent::Arrival(id, end)));
        }
    }

    fn sweep(&mut self, id: LinkId) {
        if self.links.get(&id).is_some_and(Link::is_over) {
            self.links.remove(&id);
        }
    }
}
