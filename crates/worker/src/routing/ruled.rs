//! What rules say of a long text is found out beside the worker, like what it is: patterns are
//! searched for in the whole of it, and what they make of it is as long.

use std::{net::IpAddr, sync::Arc};

use trunkline_config::Snapshot;
use trunkline_protocol::{
    codec::frame::{HEADER_LEN, put_parts},
    command::code,
};
use trunkline_rules::{Decision, Hits, Rewrites, RuleSet};
use trunkline_sql::token::Modes;
use trunkline_topology::User;

use crate::{
    action::Peer,
    clients::client::Session,
    clients::frames::Text,
    prepared::Contents,
    routing::{
        asker::Asker,
        rewrite::{NewText, parameters},
    },
    statement::analysis::{Digested, Known},
};

/// Which text rules are asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuledText {
    /// One that is to run.
    Query,
    /// One that is to be prepared.
    Prepare,
    /// One that was prepared, and is to run. `has_come`: as another one had come to be prepared.
    Executed { has_come: bool },
    /// The one that had come to be prepared.
    Came,
}

impl RuledText {
    /// Which rewrites of rules count.
    #[inline]
    pub(super) fn rewrites(self) -> Rewrites {
        match self {
            Self::Query | Self::Prepare | Self::Came => Rewrites::All,
            Self::Executed { has_come: false } => Rewrites::Protecting,
            Self::Executed { has_come: true } => Rewrites::None,
        }
    }

    /// The command that has the text in it.
    fn code(self) -> Option<u8> {
        match self {
            Self::Query => Some(code::QUERY),
            Self::Prepare => Some(code::STMT_PREPARE),
            Self::Executed { .. } | Self::Came => None,
        }
    }
}

/// Who asks the rules about a long text, as their session is while the command waits.
#[derive(Debug, Clone)]
pub(crate) struct RulesAsk {
    rules: Arc<RuleSet>,
    about: RuledText,
    user: Arc<User>,
    /// The schema that the text runs in.
    schema: Box<[u8]>,
    /// The session's own, which counts for copies.
    own_schema: Box<[u8]>,
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
    /// What they make of it.
    rewritten: Option<NewText>,
    mirrored: Option<Mirrored>,
}

/// What rules say of a copy of a statement.
#[derive(Debug)]
pub(crate) struct Mirrored {
    /// The flag that they began with.
    pub(crate) flag: u32,
    pub(crate) decision: Decision,
}

/// A long text that rules made of another one.
#[derive(Debug)]
pub(crate) struct LongNewText {
    pub(super) text: Text,
    /// The command with that text, packet headers and all, where it is to be sent so.
    pub(super) frames: Option<Arc<Vec<u8>>>,
    /// What it is, in the same modes as the statement.
    pub(super) known: Box<Known>,
    /// What it has in it, where it is to be prepared.
    pub(super) contents: Option<Contents>,
}

impl RulesAsk {
    /// What is to be asked for a session whose client comes from there. `chance` is a number by
    /// chance of the statement's own; `schema` where the text runs in another one than the
    /// session's. `None` where there is no rule.
    pub(crate) fn of(
        snapshot: &Snapshot,
        peer: &Peer,
        session: &Session,
        (about, schema): (RuledText, Option<&[u8]>),
        chance: u64,
    ) -> Option<Self> {
        if snapshot.rules.is_empty() {
            return None;
        }
        let asker = Asker::of(peer, session);
        Some(Self {
            rules: Arc::clone(&snapshot.rules),
            about,
            user: Arc::clone(&session.login.user),
            schema: schema.unwrap_or(asker.schema).into(),
            own_schema: asker.schema.into(),
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

    /// Asks the rules; `know` reads what they rewrite, in place of `before`, which is read in those
    /// modes. Takes time in proportion to the text's length and the number of patterns.
    pub(crate) fn answer(
        self,
        digested: &Digested,
        text: &[u8],
        before: (&[u8], &Modes),
        know: impl FnOnce(&[u8]) -> Box<Known>,
    ) -> Ruled {
        let mut question =
            self.asker().question_of(self.has_digests, digested.as_ref(), text, self.chance);
        question.rewrites = self.about.rewrites();
        // Whoever takes the answer counts what has matched.
        let mut decision = self.rules.evaluate(&question, &mut Hits::new(&self.rules));
        let rewritten = decision.rewritten.take().and_then(|new| self.rewrite(new, before, know));
        let mirrored = match &rewritten {
            Some(NewText::Long(new)) => {
                self.mirror(&decision, &Digested::of(&new.known), &new.text)
            }
            Some(NewText::Unread(_) | NewText::Unfit) | None => {
                self.mirror(&decision, digested, text)
            }
        };
        Ruled { ask: self, decision, rewritten, mirrored }
    }

    /// What becomes of a text that rules made; `None` where it is run as it is.
    fn rewrite(
        &self,
        new: Vec<u8>,
        (before, modes): (&[u8], &Modes),
        know: impl FnOnce(&[u8]) -> Box<Known>,
    ) -> Option<NewText> {
        let is_executed = matches!(self.about, RuledText::Executed { .. } | RuledText::Came);
        if is_executed && new == before {
            return None;
        }
        let has_params = self.about != RuledText::Query;
        if has_params && parameters(before, modes) != parameters(&new, modes) {
            return Some(NewText::Unfit);
        }
        let known = know(&new);
        let frames = self.about.code().map(|code| {
            let mut frames = Vec::with_capacity(new.len() + 8 * HEADER_LEN);
            put_parts(&mut frames, 0, [&[code], &new[..]].into_iter());
            Arc::new(frames)
        });
        let contents = (self.about == RuledText::Prepare)
            .then(|| Contents::of(&new, modes, Contents::NOTHING));
        let text = Text::from_byte(&Arc::new(new), 0);
        Some(NewText::Long(Box::new(LongNewText { text, frames, known, contents })))
    }

    /// What rules say of a copy of a statement, if they send one on its way.
    fn mirror(&self, decision: &Decision, digested: &Digested, text: &[u8]) -> Option<Mirrored> {
        if !matches!(self.about, RuledText::Query | RuledText::Executed { .. }) {
            return None;
        }
        let flag = decision.effects.mirror_flag?;
        let asker = Asker { flag, schema: &self.own_schema, ..self.asker() };
        let mut question =
            asker.question_of(self.has_digests, digested.as_ref(), text, self.chance);
        question.rewrites = Rewrites::None;
        let decision = self.rules.evaluate(&question, &mut Hits::new(&self.rules));
        Some(Mirrored { flag, decision })
    }
}

impl Ruled {
    /// Whether these are the rules of `snapshot`, and asked for `asker` about this: rules may have
    /// been loaded since.
    pub(super) fn is_for(
        &self,
        snapshot: &Snapshot,
        asker: &Asker<'_>,
        rewrites: Rewrites,
    ) -> bool {
        let asked = self.ask.asker();
        Arc::ptr_eq(&self.ask.rules, &snapshot.rules)
            && self.ask.about.rewrites() == rewrites
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

    /// What they say of a copy of the statement.
    pub(super) fn take_mirrored(&mut self) -> Option<Mirrored> {
        self.mirrored.take()
    }

    /// The text that they made of the statement.
    pub(super) fn into_new_text(self) -> Option<NewText> {
        self.rewritten
    }

    /// Bytes of memory that it takes, as far as they grow with the text.
    pub(crate) fn held(&self) -> usize {
        match &self.rewritten {
            Some(NewText::Long(new)) => {
                new.text.len() + new.frames.as_ref().map_or(0, |frames| frames.len())
            }
            Some(NewText::Unread(_) | NewText::Unfit) | None => 0,
        }
    }
}
