//! What rules say of a long text is found out beside the worker, like what it is: patterns are
//! searched for in the whole of it.

use std::{net::IpAddr, sync::Arc};

use trunkline_config::Snapshot;
use trunkline_rules::{Decision, Hits, RuleSet};
use trunkline_topology::User;

use crate::{
    action::Peer,
    clients::client::Session,
    routing::{asker::Asker, rewrite::NewText},
    statement::analysis::Known,
};

/// Who asks the rules about a long text, as their session is while the command waits.
#[derive(Debug, Clone)]
pub(crate) struct RulesAsk {
    rules: Arc<RuleSet>,
    user: Arc<User>,
    schema: Box<[u8]>,
    flag: u32,
    client_addr: Option<IpAddr>,
    proxy_addr: Option<IpAddr>,
    proxy_port: Option<u16>,
    has_digests: bool,
    chance: u64,
}

/// What rules say of a long text.
#[derive(Debug)]
pub(crate) struct Ruled {
    ask: RulesAsk,
    /// Without the text as rules rewrote it.
    decision: Decision,
    /// That text, and what it is.
    rewritten: Option<(Vec<u8>, Box<Known>)>,
}

impl RulesAsk {
    /// What is to be asked for a session whose client comes from there. `chance` is a number by
    /// chance of the statement's own. `None` where there is no rule.
    pub(crate) fn of(
        snapshot: &Snapshot,
        peer: &Peer,
        session: &Session,
        chance: u64,
    ) -> Option<Self> {
        if snapshot.rules.is_empty() {
            return None;
        }
        let asker = Asker::of(peer, session);
        Some(Self {
            rules: Arc::clone(&snapshot.rules),
            user: Arc::clone(&session.login.user),
            schema: asker.schema.into(),
            flag: asker.flag,
            client_addr: asker.client_addr,
            proxy_addr: asker.proxy_addr,
            proxy_port: asker.proxy_port,
            has_digests: snapshot.settings.query_digests,
            chance,
        })
    }

    fn asker(&self) -> Asker<'_> {
        Asker {
            user: &self.user,
            schema: &self.schema,
            flag: self.flag,
            client_addr: self.client_addr,
            proxy_addr: self.proxy_addr,
            proxy_port: self.proxy_port,
        }
    }

    /// Asks the rules; `know` reads what they rewrite. Takes time in proportion to the text's
    /// length and the number of patterns.
    pub(crate) fn answer(
        self,
        known: &Known,
        text: &[u8],
        know: impl FnOnce(&[u8]) -> Box<Known>,
    ) -> Ruled {
        let question = self.asker().question(self.has_digests, known, text, self.chance);
        // Whoever takes the answer counts what has matched.
        let mut decision = self.rules.evaluate(&question, &mut Hits::new(&self.rules));
        let rewritten = decision.rewritten.take().map(|text| {
            let known = know(&text);
            (text, known)
        });
        Ruled { ask: self, decision, rewritten }
    }
}

impl Ruled {
    /// Whether these are the rules of `snapshot`, and asked for `asker`: rules may have been loaded
    /// since.
    pub(super) fn is_for(&self, snapshot: &Snapshot, asker: &Asker<'_>) -> bool {
        let asked = self.ask.asker();
        Arc::ptr_eq(&self.ask.rules, &snapshot.rules)
            && self.ask.has_digests == snapshot.settings.query_digests
            && asked.user.name == asker.user.name
            && (asked.schema, asked.flag) == (asker.schema, asker.flag)
            && asked.client_addr == asker.client_addr
            && (asked.proxy_addr, asked.proxy_port) == (asker.proxy_addr, asker.proxy_port)
    }

    /// What they say, but for the text that they made of the statement.
    pub(super) fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The text that they made of the statement.
    pub(super) fn into_new_text(self) -> Option<NewText> {
        self.rewritten.map(|(text, known)| NewText { text, known: Some(known) })
    }

    /// Bytes of memory that it takes, as far as they grow with the text.
    pub(crate) fn held(&self) -> usize {
        self.rewritten.as_ref().map_or(0, |(text, _)| text.len())
    }
}
