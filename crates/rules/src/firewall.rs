//! The firewall: which statements a user may run, by allow-list.
//!
//! ProxySQL's tables `mysql_firewall_whitelist_users` and `mysql_firewall_whitelist_rules`. A
//! user is looked up with its address, then without one; one that is not found is protected,
//! which means that nothing passes. A rule counts for the row of the user that was found. Two
//! things are more than ProxySQL has: a rule may carry the digest's text, which then must be the
//! same, since a digest is a hash that can be forged; and rules can be learned.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    net::IpAddr,
};

use foldhash::fast::FixedState;
use thiserror::Error;

use crate::address;

/// What happens to a user's statements that are not on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FirewallMode {
    /// They run, and nobody looks.
    #[default]
    Off,
    /// They run, and are told of.
    Detecting,
    /// They are denied.
    Protecting,
}

impl FirewallMode {
    /// The word in the table; also read in lower case.
    pub fn from_word(word: &str) -> Option<Self> {
        let modes = [Self::Off, Self::Detecting, Self::Protecting];
        modes.into_iter().find(|mode| mode.word().eq_ignore_ascii_case(word))
    }

    /// The word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Off => "OFF",
            Self::Detecting => "DETECTING",
            Self::Protecting => "PROTECTING",
        }
    }
}

/// One user of the firewall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirewallUser {
    /// Frontend user, exact and case-sensitive.
    pub username: String,
    /// The client's IP address, or empty for every address that has no row of its own.
    pub client_address: String,
    /// What happens to what is not on the list.
    pub mode: FirewallMode,
}

/// One statement that a user may run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FirewallRule {
    /// The user's name as in its row.
    pub username: String,
    /// The address as in its row.
    pub client_address: String,
    /// The current schema; empty when there is none.
    pub schemaname: String,
    /// The flag that the rules reached.
    pub flag_in: u32,
    /// The statement's digest.
    pub digest: u64,
    /// The digest's text; when it is given, it must be this one.
    pub digest_text: Option<Vec<u8>>,
}

/// Why a row is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("firewall: user `{username}`: {reason}")]
pub struct FirewallError {
    /// The user of the row.
    pub username: String,
    /// What is wrong.
    pub reason: String,
}

/// One statement, as far as the firewall looks at it.
#[derive(Debug, Clone, Copy)]
pub struct FirewallAsk<'a> {
    /// Frontend user.
    pub username: &'a str,
    /// The client's address; `None` when unknown.
    pub client_addr: Option<IpAddr>,
    /// The current schema; empty when there is none.
    pub schema: &'a [u8],
    /// The flag that the rules reached.
    pub flag: u32,
    /// The statement's digest and its text; `None` while digests are switched off, and then
    /// nothing is on the list.
    pub digest: Option<(u64, &'a [u8])>,
}

/// What becomes of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirewallVerdict {
    /// It runs.
    Pass,
    /// It runs, and is told of.
    Detected,
    /// It is answered with an error, unless a rule answers it already.
    Denied,
}

/// Users and rules, ready to be asked.
#[derive(Debug, Default)]
pub struct Firewall {
    users: HashMap<Box<str>, Rows, FixedState>,
    rules: usize,
}

/// The rows of one name.
#[derive(Debug, Default)]
struct Rows {
    anywhere: Option<Row>,
    by_addr: HashMap<IpAddr, Row, FixedState>,
}

#[derive(Debug, Default)]
struct Row {
    mode: FirewallMode,
    allowed: HashMap<Box<[u8]>, Allowed, FixedState>,
}

/// What one schema allows: flags and digests, with the text where that counts.
type Allowed = HashMap<(u32, u64), Option<Box<[u8]>>, FixedState>;

impl Firewall {
    /// Compiles the active rows of both tables. Rules for users that have no row mean nothing,
    /// as in ProxySQL, where they wait for one.
    ///
    /// # Errors
    /// Every row with an address that is none, and every user that comes twice.
    pub fn compile(
        users: &[FirewallUser],
        rules: &[FirewallRule],
    ) -> Result<Self, Vec<FirewallError>> {
        let mut errors = Vec::new();
        let mut firewall = Self::default();
        for user in users {
            if let Err(reason) = firewall.add_user(user) {
                errors.push(FirewallError { username: user.username.clone(), reason });
            }
        }
        for rule in rules {
            if let Err(reason) = firewall.add_rule(rule) {
                errors.push(FirewallError { username: rule.username.clone(), reason });
            }
        }
        match errors.is_empty() {
            true => Ok(firewall),
            false => Err(errors),
        }
    }

    fn add_user(&mut self, user: &FirewallUser) -> Result<(), String> {
        let addr = read_address(&user.client_address)?;
        let rows = self.users.entry(user.username.as_str().into()).or_default();
        let row = Row { mode: user.mode, ..Row::default() };
        let before = match addr {
            None => rows.anywhere.replace(row).is_some(),
            Some(addr) => rows.by_addr.insert(addr, row).is_some(),
        };
        match before {
            true => Err(format!("address `{}` has two rows", user.client_address)),
            false => Ok(()),
        }
    }

    fn add_rule(&mut self, rule: &FirewallRule) -> Result<(), String> {
        let addr = read_address(&rule.client_address)?;
        let rows = self.users.get_mut(rule.username.as_str());
        let row = rows.and_then(|rows| match addr {
            None => rows.anywhere.as_mut(),
            Some(addr) => rows.by_addr.get_mut(&addr),
        });
        let Some(row) = row else { return Ok(()) };
        let allowed = row.allowed.entry(rule.schemaname.as_bytes().into()).or_default();
        let text = rule.digest_text.as_deref().map(Into::into);
        self.rules += usize::from(allowed.insert((rule.flag_in, rule.digest), text).is_none());
        Ok(())
    }

    /// How many rules there are for users that have a row.
    pub fn len(&self) -> usize {
        self.rules
    }

    /// Whether there is neither a user nor a rule; everything is denied then.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// What happens to this user's statements that are not on the list.
    pub fn mode(&self, username: &str, client_addr: Option<IpAddr>) -> FirewallMode {
        self.row(username, client_addr).map_or(FirewallMode::Protecting, |row| row.mode)
    }

    fn row(&self, username: &str, client_addr: Option<IpAddr>) -> Option<&Row> {
        let rows = self.users.get(username)?;
        let own = client_addr.and_then(|addr| rows.by_addr.get(&addr.to_canonical()));
        own.or(rows.anywhere.as_ref())
    }

    /// Judges one statement. No allocation.
    pub fn judge(&self, ask: &FirewallAsk<'_>) -> FirewallVerdict {
        let Some(row) = self.row(ask.username, ask.client_addr) else {
            return FirewallVerdict::Denied;
        };
        if row.mode == FirewallMode::Off || row.allows(ask) {
            return FirewallVerdict::Pass;
        }
        match row.mode {
            FirewallMode::Off => FirewallVerdict::Pass,
            FirewallMode::Detecting => FirewallVerdict::Detected,
            FirewallMode::Protecting => FirewallVerdict::Denied,
        }
    }
}

impl Row {
    fn allows(&self, ask: &FirewallAsk<'_>) -> bool {
        let Some((digest, digest_text)) = ask.digest else {
            return false;
        };
        let allowed = self.allowed.get(ask.schema);
        let text = allowed.and_then(|allowed| allowed.get(&(ask.flag, digest)));
        text.is_some_and(|text| text.as_deref().is_none_or(|text| text == digest_text))
    }
}

fn read_address(text: &str) -> Result<Option<IpAddr>, String> {
    match text.is_empty() {
        true => Ok(None),
        false => address::exact(text).map(Some),
    }
}

/// Gathers what users run, to make rules of it.
#[derive(Debug)]
pub struct FirewallLearner {
    rules: HashMap<Learned, Vec<u8>, FixedState>,
    rules_max: usize,
    by_address: bool,
    left_out: u64,
    users: HashSet<Box<str>, FixedState>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Learned {
    username: Box<str>,
    client_addr: Option<IpAddr>,
    schema: Box<[u8]>,
    flag: u32,
    digest: u64,
}

impl FirewallLearner {
    /// One that keeps at most so many rules: for each address by itself, or for any.
    pub fn new(rules_max: usize, by_address: bool) -> Self {
        Self {
            rules: HashMap::default(),
            rules_max,
            by_address,
            left_out: 0,
            users: HashSet::default(),
        }
    }

    /// Notes a statement that ran without an error.
    pub fn observe(&mut self, ask: &FirewallAsk<'_>) {
        let Some((digest, digest_text)) = ask.digest else { return };
        let learned = Learned {
            username: ask.username.into(),
            client_addr: ask.client_addr.filter(|_| self.by_address).map(|a| a.to_canonical()),
            schema: ask.schema.into(),
            flag: ask.flag,
            digest,
        };
        let is_full = self.rules.len() >= self.rules_max;
        match self.rules.entry(learned) {
            Entry::Occupied(_) => {}
            Entry::Vacant(_) if is_full => self.left_out += 1,
            Entry::Vacant(free) => {
                self.users.insert(ask.username.into());
                free.insert(digest_text.to_vec());
            }
        }
    }

    /// Statements that found no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Names of the users that something was learned of, sorted.
    pub fn users(&self) -> Vec<&str> {
        let mut users: Vec<&str> = self.users.iter().map(AsRef::as_ref).collect();
        users.sort_unstable();
        users
    }

    /// The rules, sorted; a schema that is not UTF-8 has none, as the table could not hold it.
    pub fn rules(&self) -> Vec<FirewallRule> {
        let mut rules: Vec<FirewallRule> = self
            .rules
            .iter()
            .filter_map(|(learned, text)| {
                Some(FirewallRule {
                    username: learned.username.to_string(),
                    client_address: learned.client_addr.map_or(String::new(), |a| a.to_string()),
                    schemaname: String::from_utf8(learned.schema.to_vec()).ok()?,
                    flag_in: learned.flag,
                    digest: learned.digest,
                    digest_text: Some(text.clone()),
                })
            })
            .collect();
        rules.sort();
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const ADDR: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7)));
    const ASK: FirewallAsk<'static> = FirewallAsk {
        username: "app",
        client_addr: ADDR,
        schema: b"shop",
        flag: 0,
        digest: Some((0xA, b"SELECT ?")),
    };

    fn user(username: &str, client_address: &str, mode: FirewallMode) -> FirewallUser {
        FirewallUser { username: username.into(), client_address: client_address.into(), mode }
    }

    fn rule(client_address: &str, digest_text: Option<&str>) -> FirewallRule {
        FirewallRule {
            username: "app".into(),
            client_address: client_address.into(),
            schemaname: "shop".into(),
            flag_in: 0,
            digest: 0xA,
            digest_text: digest_text.map(Into::into),
        }
    }

    #[test]
    fn a_mode_says_what_becomes_of_what_is_not_on_the_list() {
        use FirewallMode::{Detecting, Off, Protecting};
        let other = FirewallAsk { digest: Some((0xB, b"DROP")), ..ASK };
        let check = |mode, listed, unlisted| {
            let firewall = Firewall::compile(&[user("app", "", mode)], &[rule("", None)]);
            let firewall = firewall.expect("valid");
            assert_eq!((firewall.judge(&ASK), firewall.judge(&other)), (listed, unlisted));
        };
        check(Off, FirewallVerdict::Pass, FirewallVerdict::Pass);
        check(Detecting, FirewallVerdict::Pass, FirewallVerdict::Detected);
        check(Protecting, FirewallVerdict::Pass, FirewallVerdict::Denied);
    }

    #[test]
    fn every_part_of_a_rule_counts() {
        let users = [user("app", "", FirewallMode::Protecting)];
        let firewall = Firewall::compile(&users, &[rule("", Some("SELECT ?"))]).expect("valid");
        assert_eq!(firewall.judge(&ASK), FirewallVerdict::Pass);
        for other in [
            FirewallAsk { username: "APP", ..ASK },
            FirewallAsk { schema: b"Shop", ..ASK },
            FirewallAsk { schema: b"", ..ASK },
            FirewallAsk { flag: 1, ..ASK },
            FirewallAsk { digest: Some((0xB, b"SELECT ?")), ..ASK },
            FirewallAsk { digest: None, ..ASK },
            // A made-up collision.
            FirewallAsk { digest: Some((0xA, b"DROP TABLE t")), ..ASK },
        ] {
            assert_eq!(firewall.judge(&other), FirewallVerdict::Denied, "{other:?}");
        }
    }

    #[test]
    fn a_users_own_address_goes_before_any() {
        let users = [
            user("app", "", FirewallMode::Protecting),
            user("app", "10.0.0.7", FirewallMode::Detecting),
            user("free", "::ffff:10.0.0.7", FirewallMode::Off),
        ];
        let firewall = Firewall::compile(&users, &[rule("", None)]).expect("valid");
        // The rule is for the other row.
        assert_eq!(firewall.judge(&ASK), FirewallVerdict::Detected);
        let elsewhere = FirewallAsk { client_addr: None, ..ASK };
        assert_eq!(firewall.judge(&elsewhere), FirewallVerdict::Pass);
        assert_eq!(firewall.mode("free", ADDR), FirewallMode::Off);
        assert_eq!(firewall.mode("free", None), FirewallMode::Protecting);
        assert_eq!(firewall.mode("nobody", ADDR), FirewallMode::Protecting);
        let nobody = FirewallAsk { username: "nobody", ..ASK };
        assert_eq!(firewall.judge(&nobody), FirewallVerdict::Denied);
    }

    #[test]
    fn rows_that_say_nothing_sensible_are_refused() {
        let users = [
            user("app", "10.%", FirewallMode::Off),
            user("two", "", FirewallMode::Off),
            user("two", "", FirewallMode::Detecting),
        ];
        let errors = Firewall::compile(&users, &[rule("x", None)]).expect_err("three rows");
        let names: Vec<_> = errors.iter().map(|error| error.username.as_str()).collect();
        assert_eq!(names, ["app", "two", "app"]);
        assert_eq!(errors[1].to_string(), "firewall: user `two`: address `` has two rows");
    }

    #[test]
    fn what_was_learned_passes_and_nothing_else() {
        let mut learner = FirewallLearner::new(2, false);
        let second = FirewallAsk { digest: Some((0xB, b"UPDATE t")), ..ASK };
        let third = FirewallAsk { username: "late", ..ASK };
        for ask in [ASK, second, ASK, third] {
            learner.observe(&ask);
        }
        assert_eq!((learner.rules().len(), learner.left_out()), (2, 1));
        assert_eq!(learner.users(), ["app"]);
        let users: Vec<_> =
            learner.users().into_iter().map(|u| user(u, "", FirewallMode::Protecting)).collect();
        let firewall = Firewall::compile(&users, &learner.rules()).expect("valid");
        assert_eq!((firewall.len(), firewall.is_empty()), (2, false));
        assert_eq!(firewall.judge(&ASK), FirewallVerdict::Pass);
        assert_eq!(firewall.judge(&second), FirewallVerdict::Pass);
        assert_eq!(firewall.judge(&third), FirewallVerdict::Denied);
        let mut learner = FirewallLearner::new(9, true);
        learner.observe(&ASK);
        assert_eq!(learner.rules()[0].client_address, "10.0.0.7");
    }

    #[test]
    fn modes_are_words() {
        for mode in [FirewallMode::Off, FirewallMode::Detecting, FirewallMode::Protecting] {
            assert_eq!(FirewallMode::from_word(mode.word()), Some(mode));
        }
        assert_eq!(FirewallMode::from_word("detecting"), Some(FirewallMode::Detecting));
        assert_eq!(FirewallMode::from_word("ON"), None);
    }
}
