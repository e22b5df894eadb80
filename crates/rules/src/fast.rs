//! Fast routing: user, schema and flag to a hostgroup, for very many of them.
//!
//! ProxySQL's table `mysql_query_rules_fast_routing`. It is asked after the rules, unless one of
//! them ended the evaluation, with the flag that they reached: for the user first, then for
//! rules without a user. What it says overrides the rules' destination.
//!
//! All keys lie in one block of bytes, and a table of places in it is searched by hash. Nothing
//! in it changes, so all workers share one.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use thiserror::Error;
use trunkline_topology::HostgroupId;

/// The longest user or schema of a route, in bytes.
pub const FAST_NAME_MAX: usize = 255;

/// Bytes before the names: hostgroup, flag, and the lengths of both names.
const HEAD_LEN: usize = 10;
/// A place of the table: where a route begins, and a part of its hash that tells it from most
/// others without a look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    begin: u32,
    tag: u32,
}

/// A place without a route.
const FREE: Place = Place { begin: u32::MAX, tag: 0 };

/// Fast routing rules, ready to be searched.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FastRoutes {
    /// The routes, one behind the other in the order of the configuration:
    ///
    /// | bytes | |
    /// |---|---|
    /// | 4 | hostgroup, little-endian |
    /// | 4 | flag, little-endian |
    /// | 1 | length of the user's name |
    /// | 1 | length of the schema's name |
    /// | | the user's name, the schema's name |
    routes: Box<[u8]>,
    /// Where the route of a hash begins, or [`FREE`]. There is a power of two of them, at most
    /// three quarters taken; a place that is taken leaves its route to the next one.
    places: Box<[Place]>,
    len: usize,
}

/// One route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastRoute<'a> {
    /// The frontend user; empty for every user that has no route of its own.
    pub username: &'a str,
    /// The session's current schema.
    pub schemaname: &'a str,
    /// The flag that the rules reached.
    pub flag: u32,
    /// Where statements go.
    pub destination_hostgroup: HostgroupId,
}

/// Why a route is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FastRouteError {
    /// A name is longer than [`FAST_NAME_MAX`].
    #[error("{column} has {len} bytes, more than {FAST_NAME_MAX}")]
    TooLong {
        /// Whose name.
        column: &'static str,
        /// Its length.
        len: usize,
    },
    /// All routes take more than 4 GiB.
    #[error("there are too many fast routing rules")]
    TooMany,
}

/// Two routes with one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SameRoute {
    /// The one that was added first, counted from 0.
    pub first: usize,
    /// The other.
    pub second: usize,
}

/// Gathers routes.
#[derive(Debug, Default)]
pub struct FastRoutesBuilder {
    routes: Vec<u8>,
    begins: Vec<u32>,
}

impl FastRoutesBuilder {
    /// Adds one more.
    ///
    /// # Errors
    /// When a name is too long, or there are too many.
    pub fn add(&mut self, route: FastRoute<'_>) -> Result<(), FastRouteError> {
        let length = |name: &str, column| {
            u8::try_from(name.len())
                .map_err(|_| FastRouteError::TooLong { column, len: name.len() })
        };
        let user_len = length(route.username, "username")?;
        let schema_len = length(route.schemaname, "schemaname")?;
        let begin = u32::try_from(self.routes.len()).ok().filter(|begin| *begin != FREE.begin);
        self.begins.push(begin.ok_or(FastRouteError::TooMany)?);
        self.routes.extend_from_slice(&route.destination_hostgroup.0.to_le_bytes());
        self.routes.extend_from_slice(&route.flag.to_le_bytes());
        self.routes.extend_from_slice(&[user_len, schema_len]);
        self.routes.extend_from_slice(route.username.as_bytes());
        self.routes.extend_from_slice(route.schemaname.as_bytes());
        Ok(())
    }

    /// How many were added.
    pub fn len(&self) -> usize {
        self.begins.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.begins.is_empty()
    }

    /// Builds the table.
    ///
    /// # Errors
    /// Every pair of routes with one key.
    pub fn finish(mut self) -> Result<FastRoutes, Vec<SameRoute>> {
        self.routes.shrink_to_fit();
        let len = self.begins.len();
        let size = match len {
            0 => 0,
            _ => (len + len.div_ceil(3)).next_power_of_two(),
        };
        let mut places = vec![FREE; size].into_boxed_slice();
        let mut same = Vec::new();
        for (second, &begin) in self.begins.iter().enumerate() {
            let Some(entry) = Entry::at(&self.routes, begin) else {
                debug_assert!(false, "a route begins where it was added");
                continue;
            };
            let hash = hash(entry.username, entry.schemaname, entry.flag);
            match search(&places, &self.routes, hash, &entry.key()) {
                Search::Found(_, taken) => {
                    let first = self.begins.binary_search(&taken).unwrap_or(second);
                    same.push(SameRoute { first, second });
                }
                Search::Free(at) => {
                    if let Some(place) = places.get_mut(at) {
                        *place = Place { begin, tag: tag_of(hash) };
                    }
                }
                Search::Full => debug_assert!(false, "the table has room for every route"),
            }
        }
        match same.is_empty() {
            true => Ok(FastRoutes { routes: self.routes.into(), places, len }),
            false => Err(same),
        }
    }
}

impl FastRoutes {
    /// Where the user's statements in this schema go; `None` when no route says so. HOT: two
    /// searches at most, no allocation.
    pub fn find(&self, username: &str, schema: &[u8], flag: u32) -> Option<HostgroupId> {
        if self.len == 0 {
            return None;
        }
        let own = self.find_exact(username.as_bytes(), schema, flag);
        own.or_else(|| self.find_exact(b"", schema, flag))
    }

    fn find_exact(&self, username: &[u8], schema: &[u8], flag: u32) -> Option<HostgroupId> {
        let key = (username, schema, flag);
        match search(&self.places, &self.routes, hash(username, schema, flag), &key) {
            Search::Found(hostgroup, _) => Some(hostgroup),
            Search::Free(_) | Search::Full => None,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How much memory they take, in bytes.
    pub fn memory(&self) -> usize {
        self.routes.len() + self.places.len() * size_of::<Place>()
    }

    /// All of them, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = FastRoute<'_>> + '_ {
        let mut begin = 0;
        std::iter::from_fn(move || {
            let entry = Entry::at(&self.routes, begin)?;
            begin = entry.end;
            Some(FastRoute {
                username: std::str::from_utf8(entry.username).unwrap_or_default(),
                schemaname: std::str::from_utf8(entry.schemaname).unwrap_or_default(),
                flag: entry.flag,
                destination_hostgroup: entry.hostgroup,
            })
        })
    }
}

/// User, schema and flag.
type Key<'a> = (&'a [u8], &'a [u8], u32);

/// A route where it lies.
struct Entry<'a> {
    username: &'a [u8],
    schemaname: &'a [u8],
    flag: u32,
    hostgroup: HostgroupId,
    end: u32,
}

impl<'a> Entry<'a> {
    fn at(routes: &'a [u8], begin: u32) -> Option<Self> {
        let rest = routes.get(begin as usize..)?;
        let (head, names) = rest.split_first_chunk::<HEAD_LEN>()?;
        let [a, b, c, d, e, f, g, h, user_len, schema_len] = *head;
        let (username, names) = names.split_at_checked(usize::from(user_len))?;
        let schemaname = names.get(..usize::from(schema_len))?;
        let len = HEAD_LEN + username.len() + schemaname.len();
        Some(Self {
            username,
            schemaname,
            flag: u32::from_le_bytes([e, f, g, h]),
            hostgroup: HostgroupId(u32::from_le_bytes([a, b, c, d])),
            end: begin.saturating_add(u32::try_from(len).ok()?),
        })
    }

    fn key(&self) -> Key<'a> {
        (self.username, self.schemaname, self.flag)
    }
}

enum Search {
    /// The route's hostgroup, and where it begins.
    Found(HostgroupId, u32),
    /// It would have this place.
    Free(usize),
    /// It is not there, and nothing is free.
    Full,
}

#[expect(clippy::cast_possible_truncation, reason = "masked to the number of places")]
fn search(places: &[Place], routes: &[u8], hash: u64, key: &Key<'_>) -> Search {
    let mask = places.len().wrapping_sub(1);
    let mut at = hash as usize & mask;
    for _ in 0..places.len() {
        let Some(place) = places.get(at) else {
            return Search::Full;
        };
        if *place == FREE {
            return Search::Free(at);
        }
        if place.tag == tag_of(hash)
            && let Some(entry) = Entry::at(routes, place.begin)
            && entry.key() == *key
        {
            return Search::Found(entry.hostgroup, place.begin);
        }
        at = (at + 1) & mask;
    }
    Search::Full
}

/// The half of a hash that does not say the place.
fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

fn hash(username: &[u8], schema: &[u8], flag: u32) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write_u32(flag);
    hasher.write_usize(username.len());
    hasher.write(username);
    hasher.write(schema);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route<'a>(username: &'a str, schemaname: &'a str, flag: u32, to: u32) -> FastRoute<'a> {
        FastRoute { username, schemaname, flag, destination_hostgroup: HostgroupId(to) }
    }

    fn build(routes: &[FastRoute<'_>]) -> Result<FastRoutes, Vec<SameRoute>> {
        let mut builder = FastRoutesBuilder::default();
        routes.iter().for_each(|route| builder.add(*route).expect("a route"));
        builder.finish()
    }

    #[test]
    fn the_users_own_route_goes_before_everybodys() {
        let routes = build(&[
            route("", "shop", 0, 1),
            route("alice", "shop", 0, 2),
            route("alice", "shop", 7, 3),
            route("alice", "", 0, 4),
        ]);
        let routes = routes.expect("no two alike");
        let check = |user, schema: &[u8], flag, expected: Option<u32>| {
            assert_eq!(routes.find(user, schema, flag), expected.map(HostgroupId));
        };
        check("alice", b"shop", 0, Some(2));
        check("bob", b"shop", 0, Some(1));
        check("alice", b"shop", 7, Some(3));
        check("bob", b"shop", 7, None);
        check("alice", b"", 0, Some(4));
        check("alice", b"other", 0, None);
        check("ALICE", b"shop", 0, Some(1));
        check("alic", b"eshop", 0, None);
        assert_eq!(FastRoutes::default().find("alice", b"shop", 0), None);
    }

    #[test]
    fn many_are_found_and_listed_as_they_were_added() {
        let names: Vec<(String, String)> =
            (0..10_000).map(|n| (format!("user_{}", n % 100), format!("schema_{n}"))).collect();
        let list: Vec<_> =
            (0..).zip(&names).map(|(n, (user, schema))| route(user, schema, n % 3, n)).collect();
        let routes = build(&list).expect("no two alike");
        assert_eq!(routes.len(), 10_000);
        for route in &list {
            let found = routes.find(route.username, route.schemaname.as_bytes(), route.flag);
            assert_eq!(found, Some(route.destination_hostgroup));
            assert_eq!(routes.find(route.username, route.schemaname.as_bytes(), 9), None);
        }
        assert!(routes.iter().eq(list.iter().copied()));
        assert!(routes.memory() < 10_000 * 52, "{}", routes.memory());
    }

    #[test]
    fn two_routes_with_one_key_are_both_named() {
        let one = route("a", "b", 1, 1);
        let same = build(&[
            route("a", "b", 0, 1),
            one,
            FastRoute { destination_hostgroup: HostgroupId(2), ..one },
        ]);
        assert_eq!(same, Err(vec![SameRoute { first: 1, second: 2 }]));
    }

    #[test]
    fn a_name_too_long_is_refused() {
        let long = "x".repeat(FAST_NAME_MAX + 1);
        let error = FastRoutesBuilder::default().add(route("a", &long, 0, 0));
        assert_eq!(error, Err(FastRouteError::TooLong { column: "schemaname", len: 256 }));
    }
}
