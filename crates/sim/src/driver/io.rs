//! What the real driver has the kernel do, done with virtual links.

use std::{io, ops::Range, sync::Arc};

use trunkline_protocol::packet::greeting::NONCE_LEN;
use trunkline_topology::{Server, TlsParams};
use trunkline_worker::{
    Peer, Side, Worker,
    shell::{Connecting, Event, Fill, Io, NotBegun, Place, Request},
};

use super::{
    Link, Links, Mail, Outside, Wish, WorkerMail, mail::look, nonce, now_of, sealed::WorkerSeal,
};
use crate::{
    LinkId,
    sealing::Seal,
    wire::{End, Far, ReadBytes},
};

/// Links that one call writes to, and bytes of each: as `net::ring` has them.
const WRITES_MAX: usize = 64;
const WRITE_LEN_MAX: usize = 16 * 1_024;

/// The world as one worker's shell finds it during a batch.
pub(super) struct Around<'a, 'o> {
    pub(super) out: &'a mut Outside<'o>,
    pub(super) links: &'a mut Links,
}

impl Around<'_, '_> {
    /// The listener is closed: the kernel resets who was not accepted.
    pub(super) fn refuse_backlog(&mut self) {
        while let Some((link, _)) = self.links.next_client() {
            self.out.wire.reset(link, End::Proxy, self.out.now);
        }
    }

    /// What mail is to the shell; `None` when there is nobody any more whom it concerns.
    fn open(&mut self, mail: Mail) -> Option<Event<Link>> {
        match mail {
            Mail::Worker(mail) => {
                if let WorkerMail::Snapshot(snapshot, _) = &mail {
                    self.links.version = snapshot.version;
                }
                Some(Event::Mail(mail))
            }
            Mail::Report => Some(Event::Visit(Box::new(look))),
            Mail::Pause(hostgroup, for_ms) => Some(Event::Visit(Box::new(move |worker| {
                worker.pause_hostgroup(hostgroup, Some(for_ms));
            }))),
            Mail::Stop(within_ms) => {
                self.links.is_listening = false;
                self.refuse_backlog();
                let deadline_ms = now_of(self.out.now).ms() + within_ms;
                Some(Event::Mail(WorkerMail::Stop(deadline_ms)))
            }
            Mail::Abandon(link) => {
                let side = self.links.side_of(link)?;
                Some(Event::Visit(Box::new(move |worker| worker.abandon(side))))
            }
        }
    }

    fn send(&mut self, link: &Link, bytes: &[u8]) -> io::Result<usize> {
        let Outside { now, wire, trace, .. } = &mut *self.out;
        let sent = wire.write(link.id, End::Proxy, bytes, *now);
        let len = sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        if len == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let written = bytes.get(..len).unwrap_or_default();
        match link.is_sealed {
            true => {
                trace.bytes(*now, link.id, End::Proxy, wire.far(link.id), &Seal::seal(written));
            }
            false => trace.bytes(*now, link.id, End::Proxy, wire.far(link.id), written),
        }
        Ok(len)
    }

    fn note(&mut self, what: impl FnOnce(usize) -> String) {
        let index = self.links.index;
        self.out.trace.note(self.out.now, || format!("worker {index} {}", what(index)));
    }
}

impl Io for Around<'_, '_> {
    type Stream = Link;

    fn next_event(&mut self) -> Option<Event<Link>> {
        if let Some(event) = self.links.next_event() {
            return Some(event);
        }
        let mail = self.links.next_mail()?;
        self.open(mail).or_else(|| self.next_event())
    }

    fn accept(&mut self, _: usize) -> io::Result<(Link, Peer)> {
        match self.links.next_client() {
            Some((link, peer)) => Ok((Link::new(link), peer)),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn nonce(&mut self) -> [u8; NONCE_LEN] {
        nonce(self.out.rng)
    }

    /// What a link has already is news.
    fn register(&mut self, stream: &mut Link, side: Side) -> io::Result<()> {
        let link = stream.id;
        self.links.add(link, side);
        if self.out.wire.is_readable(link, End::Proxy) {
            let ended = self.out.wire.has_ended(link, End::Proxy);
            self.links.readable(link, ended);
        }
        Ok(())
    }

    fn detach(&mut self, stream: &mut Link) -> bool {
        self.links.remove(stream.id);
        true
    }

    fn close(&mut self, stream: Link, reason: &str) {
        self.links.remove(stream.id);
        self.out.close(stream.id);
        self.note(|_| format!("closes link {}: {reason}", stream.id.0));
    }

    fn scratch(&mut self) -> &mut [u8] {
        &mut self.links.scratch
    }

    fn read(&mut self, stream: &mut Link, room: Range<usize>) -> io::Result<usize> {
        let room = self.links.scratch.get_mut(room).unwrap_or_default();
        match self.out.wire.read(stream.id, End::Proxy, room.len(), self.out.now) {
            ReadBytes::Some(bytes) => {
                room.iter_mut().zip(&bytes).for_each(|(to, from)| *to = *from);
                Ok(bytes.len())
            }
            ReadBytes::Nothing => Err(io::ErrorKind::WouldBlock.into()),
            ReadBytes::End => Ok(0),
            ReadBytes::Reset => {
                Err(io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer"))
            }
        }
    }

    fn write(&mut self, stream: &mut Link, bytes: &[u8]) -> io::Result<usize> {
        self.send(stream, bytes)
    }

    fn writes_many(&self) -> bool {
        self.links.spec.writes_many
    }

    fn write_many<'a>(&mut self, fill: impl Fill<'a, Link>, results: &mut Vec<io::Result<usize>>)
    where
        Link: 'a,
    {
        fill.fill(|link, bytes| {
            let is_added = results.len() < WRITES_MAX && bytes.len() <= WRITE_LEN_MAX;
            if is_added {
                results.push(self.send(link, bytes));
            }
            is_added
        });
    }

    fn connect(
        &mut self,
        side: Side,
        server: &Server,
        attempt: usize,
    ) -> Option<Result<Link, NotBegun>> {
        if attempt > 0 {
            return None;
        }
        let Some(host) = self.out.hosts.host_of(server) else {
            return Some(Err(format!("{} is not reachable", server.key.address).into()));
        };
        let link = self.out.wire.link(Far::Host(host), &self.out.hosts.pipe_to(host));
        self.note(|_| format!("connects link {} to host {} for {side:?}", link.0, host.0));
        self.links.begin_connecting(link);
        self.out.wishes.push(Wish::Syn(link, host, Arc::clone(&server.health)));
        Some(Ok(Link::new(link)))
    }

    fn connecting(&mut self, stream: &mut Link, _: Place) -> Connecting {
        self.links.connecting(stream.id)
    }

    fn accept_tls(&mut self, stream: &mut Link) -> Result<WorkerSeal, String> {
        stream.is_sealed = true;
        Ok(WorkerSeal::accept())
    }

    fn connect_tls(
        &mut self,
        stream: &mut Link,
        _: &Server,
        _: &Arc<TlsParams>,
    ) -> Result<WorkerSeal, String> {
        stream.is_sealed = true;
        Ok(WorkerSeal::ask())
    }

    fn post(&mut self, to: usize, mail: WorkerMail) -> Option<WorkerMail> {
        let moves: Option<(&str, LinkId)> = match &mail {
            WorkerMail::HandedOver(_, travelling) => Some(("hands", travelling.stream.id)),
            WorkerMail::MovedClient(_, travelling) => Some(("gives client", travelling.stream.id)),
            _ => None,
        };
        if let Some((how, link)) = moves {
            self.note(|_| format!("{how} link {} to {to}", link.0));
        }
        self.out.wishes.push(Wish::Post(to, Mail::Worker(mail)));
        None
    }

    fn ask(&mut self, worker: &mut Worker, request: Request) {
        self.answer(worker, request);
    }
}
