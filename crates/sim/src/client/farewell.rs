//! What a client is told unasked before its connection ends.

use trunkline_protocol::packet::greeting::Flavor;

use super::{
    ModelClient,
    reply::{self, Farewells},
};
use crate::{
    Micros,
    oracle::history::{Answer, Exchange, LoginOutcome},
};

impl ModelClient {
    /// Which errors it may be told unasked: a fast-forward client whatever its server says, others
    /// that they have rested for too long, where that server says so.
    pub(super) fn farewells(&self) -> Farewells {
        match (self.spec.is_direct, self.spec.flavor) {
            (true, _) => Farewells::Any,
            (false, Flavor::MySql) => Farewells::OfInactivity,
            (false, Flavor::MariaDb) => Farewells::None,
        }
    }

    /// Takes an error that came while nothing was asked.
    pub(super) fn read_farewell(&mut self, now: Micros) {
        if !self.flying.is_empty() || !self.reader.has_farewell_next() {
            return;
        }
        let Some((_, payload)) = self.reader.packet() else {
            return;
        };
        let (Ok(error), Some(session)) =
            (reply::read_error(&payload), self.history.sessions.last_mut())
        else {
            return;
        };
        match session.exchanges.is_empty() && self.spec.is_direct {
            true => session.login = LoginOutcome::Refused(now, error),
            false => session.exchanges.push(Exchange {
                text: "nothing".to_owned(),
                answer: Answer::Whole(now, vec![reply::Part::Error(error)]),
                ..Exchange::unasked(now, None)
            }),
        }
    }
}
