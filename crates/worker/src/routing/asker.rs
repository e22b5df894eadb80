//! Who has a statement run, and from where: what rules and the firewall look at beside its text.

use std::net::IpAddr;

use trunkline_config::Settings;
use trunkline_rules::{Executed, FirewallAsk, Question, Rewrites};
use trunkline_sql::digest;
use trunkline_topology::User;

use crate::{
    action::Peer,
    clients::client::Session,
    statement::analysis::{DigestedRef, Known},
};

/// Who has a statement run, and from where.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// The user.
    pub user: &'a User,
    /// The session's schema; empty for none.
    pub schema: &'a [u8],
    /// The flag that rules begin with.
    pub flag: u32,
    /// The client's address; rules do not test one that is not known.
    pub client_addr: Option<IpAddr>,
    /// The listener's address.
    pub proxy_addr: Option<IpAddr>,
    /// The listener's port.
    pub proxy_port: Option<u16>,
}

impl<'a> Asker<'a> {
    /// The session of a client that comes from there.
    #[inline]
    pub(crate) fn of(peer: &Peer, session: &'a Session) -> Self {
        Self {
            user: &session.login.user,
            schema: session.settings.state.schema.name(),
            flag: session.settings.next_flag,
            client_addr: peer.client_addr,
            proxy_addr: peer.proxy_addr,
            proxy_port: peer.proxy_port,
        }
    }

    /// What rules are asked about a statement that they may rewrite. `has_digests`: whether digests
    /// are switched on.
    #[inline]
    pub(crate) fn question(
        &self,
        has_digests: bool,
        known: &'a Known,
        text: &'a [u8],
        chance: u64,
    ) -> Question<'a> {
        let Known { digest, digest_text, executed, .. } = known;
        let digested = DigestedRef { digest: *digest, text: digest_text, executed };
        self.question_of(has_digests, digested, text, chance)
    }

    /// What rules are asked about a statement of which nothing else is known.
    #[inline]
    pub(super) fn question_of(
        &self,
        has_digests: bool,
        known: DigestedRef<'a>,
        text: &'a [u8],
        chance: u64,
    ) -> Question<'a> {
        Question {
            username: &self.user.name,
            schema: self.schema,
            flag: self.flag,
            client_addr: self.client_addr,
            proxy_addr: self.proxy_addr,
            proxy_port: self.proxy_port,
            digest: has_digests.then_some(known.digest),
            digest_text: known.text,
            executed: match known.executed {
                digest::Executed::AsDigested => Executed::AsDigested,
                digest::Executed::Otherwise { digest, text } => {
                    Executed::Otherwise { digest: *digest, text }
                }
                digest::Executed::Unknown => Executed::Unknown,
            },
            query: text,
            rewrites: Rewrites::All,
            chance,
        }
    }

    /// What the firewall is asked about a statement for which the rules have reached `flag`.
    pub(super) fn firewall_ask(
        &self,
        settings: &Settings,
        known: &'a Known,
        flag: u32,
    ) -> FirewallAsk<'a> {
        FirewallAsk {
            username: &self.user.name,
            client_addr: self.client_addr,
            schema: self.schema,
            flag,
            digest: (settings.query_digests && known.executed == digest::Executed::AsDigested)
                .then_some((known.digest, &*known.digest_text)),
        }
    }
}
