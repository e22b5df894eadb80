//! Files of clients that a statement asks for (`LOAD DATA LOCAL INFILE`).

use trunkline_protocol::{Capabilities, codec::frame::put_payload, packet::greeting::Flavor};

use super::{
    Record,
    conn::{Phase, Stage},
    host::{Host, Step},
};
use crate::{
    LinkId, Micros,
    session::Replied,
    statement::{Act, Answer, Done, Failure, Tag},
};

/// What a request for a file begins with.
const REQUEST: u8 = 0xFB;

impl Host {
    /// A statement whose file has not come asks for it, unless it fails before. `None` for
    /// anything else.
    pub(super) fn ask_for_file(
        &mut self,
        link: LinkId,
        now: Micros,
        record: &mut Record,
    ) -> Option<Step> {
        let conn = self.conns.get(&link)?;
        let work = conn.work.as_ref().filter(|work| work.file.is_none())?;
        let job = work.jobs.front()?;
        let (Act::Load(upload), Phase::Ready(session)) = (&job.statement.act, &conn.phase) else {
            return None;
        };
        let is_offered = conn.capabilities.contains(Capabilities::LOCAL_FILES);
        let name = upload.name(job.statement.value());
        // What the session itself bars, it bars before it reads anything.
        let anything = Answer::Done(Done::default());
        let schema = job.prepared_in.unwrap_or(session.schema);
        let tried = session.clone().run_in(&job.statement, schema, &mut Replied::new(&anything));
        let failure = match is_offered {
            true => self.planned_failure(link),
            false => Some(disabled(self.spec.flavor)),
        };
        if failure.is_some() || matches!(tried, Answer::Failed(_)) {
            return Some(self.run_next(link, now, failure, record));
        }
        let work = self.conns.get_mut(&link)?.work.as_mut()?;
        let mut out = Vec::new();
        work.seq = put_payload(&mut out, work.seq, &[&[REQUEST], name.as_bytes()].concat());
        work.stage = Stage::Reading;
        work.file = Some(Vec::new());
        self.send(link, out, record);
        Some(Step::Again)
    }

    /// Packets of a file; an empty one ends it.
    pub(super) fn read_file(&mut self, link: LinkId, now: Micros, record: &mut Record) -> Step {
        let Some(conn) = self.conns.get_mut(&link) else {
            return Step::Rest;
        };
        let Some((seq, payload)) = conn.take_packet() else {
            if conn.is_deserted {
                self.end(link, now, record);
            }
            return Step::Rest;
        };
        let is_packed = conn.packing.is_some();
        let Some(work) = &mut conn.work else {
            return Step::Rest;
        };
        // Inside of compressed packets numbers do not count.
        if seq != work.seq && !is_packed || seq == 0 && is_packed {
            record.unknown.push(format!("packet {seq} of a file, and {} was due", work.seq));
        }
        work.seq = work.seq.wrapping_add(1);
        if let (false, Some(file)) = (payload.is_empty(), &mut work.file) {
            file.extend_from_slice(&payload);
            return Step::Again;
        }
        let job = work.jobs.front();
        if let (Some(Act::Load(upload)), Some(file)) =
            (job.map(|job| &job.statement.act), &work.file)
        {
            let tag = job.and_then(|job| job.statement.tag).unwrap_or(Tag(0));
            if *file != upload.content(tag) {
                let text = format!("{} bytes that are not {}", file.len(), upload.name(tag.0));
                record.unknown.push(text);
            }
        }
        if work.is_killed {
            let failure = super::fault::failure_of(1317);
            return self.run_next(link, now, Some(failure), record);
        }
        work.stage = Stage::Serving;
        work.due = now;
        Step::Again
    }
}

/// The error of a server that may not ask this client for files.
fn disabled(flavor: Flavor) -> Failure {
    match flavor {
        Flavor::MariaDb => {
            let text = "The used command is not allowed because the MariaDB server or client has \
                        disabled the local infile capability";
            Failure::new(4166, b"HY000", text)
        }
        Flavor::MySql => {
            let text = "Loading local data is disabled; this must be enabled on both the client \
                        and server sides";
            Failure::new(3948, b"42000", text)
        }
    }
}
