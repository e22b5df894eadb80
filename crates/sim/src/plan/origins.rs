//! Who may connect: lists of listeners and of users, by networks and by names of hosts, and what of
//! them has to be encrypted.

use trunkline_topology::HostAnswer;

use super::Plan;
use crate::{
    client::{ClientSpec, Deed},
    driver::{name_of, peer_of},
    rng::Rng,
};

/// The listener of every client.
const LISTENER: &str = "192.0.2.1:6033";
/// The first eight clients come from here.
const NETWORK: &str = "198.51.100.0/29";
/// Clients whose place is lower come from [`NETWORK`].
const IN_NETWORK: usize = 8;
/// Hosts of applications.
const NAMED: &str = "app-%.example.com";
/// Who is not on its listener's list.
const NOT_ALLOWED: u16 = 1130;
/// Who is not on its user's list, or does not encrypt as its user has to.
const DENIED: u16 = 1045;
/// Who does not encrypt where its listener wants it.
const INSECURE: u16 = 3159;

/// What a user's clients have to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restriction {
    user: String,
    to: Only,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Only {
    /// They come from one of these.
    From(List),
    Encrypted,
}

impl Only {
    /// How it is configured.
    fn words(self) -> String {
        match self {
            Self::From(list) => format!("allow_from = {:?}\n", list.words()),
            Self::Encrypted => "require = \"tls\"\n".into(),
        }
    }

    fn lets_in(self, client: &ClientSpec) -> bool {
        match self {
            Self::From(list) => list.includes(client.place),
            Self::Encrypted => client.encrypts,
        }
    }
}

/// Who may connect; at least somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct List {
    has_network: bool,
    has_names: bool,
    has_local: bool,
}

impl List {
    fn draw(rng: &mut Rng) -> Self {
        let bits = rng.between(1, 7);
        Self { has_network: bits & 1 != 0, has_names: bits & 2 != 0, has_local: bits & 4 != 0 }
    }

    fn words(self) -> Vec<&'static str> {
        let words =
            [(self.has_network, NETWORK), (self.has_names, NAMED), (self.has_local, "localhost")];
        words.into_iter().filter(|(is_there, _)| *is_there).map(|(_, word)| word).collect()
    }

    /// Whether the client of this place is on it.
    fn includes(self, place: usize) -> bool {
        let peer = peer_of(place);
        let is_applications = || {
            let answer = peer.client_addr.map(name_of);
            matches!(answer, Some(HostAnswer::Named(name)) if name.starts_with("app-"))
        };
        match peer.is_local {
            true => self.has_local,
            false => self.has_network && place < IN_NETWORK || self.has_names && is_applications(),
        }
    }
}

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    // Behind balancers clients come from elsewhere.
    let has_balancers =
        plan.configs.iter().any(|config| config.words.contains_key("proxy_protocol_networks"));
    if has_balancers || !rng.chance(1, 4) {
        return;
    }
    let words = format!("[\"{LISTENER}\"]");
    for config in &mut plan.configs {
        config.words.insert("listen", words.clone().into());
    }
    // Users first: what a listener says comes before them, and hides it.
    if rng.chance(2, 3) {
        let list = List::draw(rng);
        restrict(rng, plan, Only::From(list));
    }
    if plan.offers_tls && rng.chance(1, 2) {
        restrict(rng, plan, Only::Encrypted);
    }
    refuse_changes(plan);
    if plan.offers_tls {
        encrypt(rng, plan);
    }
    // Who is turned away by the address is told so in the clear, whatever else is asked for.
    if !plan.offers_tls && rng.chance(2, 3) {
        let list = List::draw(rng);
        let word = format!("[\"{LISTENER}={}\"]", list.words().join(","));
        for config in &mut plan.configs {
            config.words.insert("listen_allow", word.clone().into());
        }
        for client in plan.clients.iter_mut().filter(|client| !list.includes(client.place)) {
            client.refusal = Some(NOT_ALLOWED);
        }
    }
}

/// One of the users is for clients of some kind only.
fn restrict(rng: &mut Rng, plan: &mut Plan, to: Only) {
    let Some(user) = plan.configs.first().and_then(|config| rng.pick(&config.users)) else {
        return;
    };
    let name = user.name.clone();
    let users = plan.configs.iter_mut().flat_map(|config| &mut config.users);
    users.filter(|user| user.name == name).for_each(|user| user.more.push_str(&to.words()));
    let is_refused = |client: &&mut ClientSpec| client.identity.user == name && !to.lets_in(client);
    plan.clients.iter_mut().filter(is_refused).for_each(|client| client.refusal = Some(DENIED));
    plan.restrictions.push(Restriction { user: name, to });
}

/// The changes of user that clients' scripts have by now are refused by the restrictions of users.
pub(super) fn refuse_changes(plan: &mut Plan) {
    for Restriction { user, to } in &plan.restrictions {
        let refused = plan.clients.iter_mut().filter(|client| !to.lets_in(client));
        for step in refused.flat_map(|client| &mut client.script) {
            match &mut step.deed {
                Deed::ChangeUser(identity, refusal) if identity.user == *user => {
                    *refusal = Some(DENIED);
                }
                _ => {}
            }
        }
    }
}

/// The listener wants encryption, or has none.
fn encrypt(rng: &mut Rng, plan: &mut Plan) {
    let word = rng.pick(&["optional", "required"]).copied().unwrap_or("optional");
    let (is_listeners, is_everybodys) = (rng.chance(1, 2), rng.chance(1, 2));
    for config in &mut plan.configs {
        if is_listeners {
            let words = format!("[\"{LISTENER}={word}\"]");
            config.words.insert("listen_tls", words.into());
        } else if is_everybodys {
            config.words.insert("require_secure_transport", "true".into());
        }
    }
    for client in plan.clients.iter_mut().filter(|client| !client.encrypts) {
        let is_meant = match is_listeners {
            true => word == "required",
            false => is_everybodys && !peer_of(client.place).is_local,
        };
        if is_meant {
            client.refusal = Some(INSECURE);
        }
    }
}
