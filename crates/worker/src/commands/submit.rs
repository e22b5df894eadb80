//! A statement whose route is known: a copy for a mirror, the cache, or its start.

use crate::{
    clients::client::{Client, Statement},
    rooms::Commands,
    routing::route::Route,
};

impl Commands {
    /// Answers a statement from the cache, or sets it on its route, now or when the time has come
    /// that it is held back for. `text_len` is the length of its text, which is the end of its
    /// frames.
    #[inline]
    pub(super) fn submit(
        &mut self,
        client: &mut Client,
        route: Route,
        statement: Box<Statement>,
        text_len: usize,
    ) {
        match (statement.target.directives.cache, statement.target.directives.mirror) {
            (None, None) => self.exchange.delay_or_start(client, route, statement, text_len),
            _ => self.depart_ordered(client, route, statement, text_len),
        }
    }

    /// Submits a statement that is to be mirrored, or may be answered from the cache.
    #[cold]
    fn depart_ordered(
        &mut self,
        client: &mut Client,
        route: Route,
        mut statement: Box<Statement>,
        text_len: usize,
    ) {
        if statement.target.directives.mirror.is_some() {
            self.mirror(client, &route, &mut statement, text_len);
        }
        match statement.target.directives.cache {
            None => self.exchange.delay_or_start(client, route, statement, text_len),
            Some(order) => self.exchange.ask_cache(client, route, statement, text_len, order),
        }
    }
}
