//! Clients that ask what would become of a statement (`EXPLAIN ROUTE`), of all that a statement may
//! leave behind. Nobody runs what they ask about, so that servers need not know it.

use super::{Plan, RuleSpec};
use crate::{
    client::{ClientSpec, Deed, Step},
    rng::Rng,
};

/// How long a client rests before it asks, at most, µs.
const PAUSE_US: u64 = 20_000;

/// What is asked about; `$` is a name that only this question has.
const TEXTS: [&str; 58] = [
    "SELECT v FROM $ WHERE k = 1",
    "SELECT v FROM $ FOR UPDATE",
    "/*+ hostgroup=20 */ SELECT v FROM $",
    "/* hostgroup=20 */ SELECT v FROM $",
    "/* trunkline: cache_ttl=500 */ SELECT v FROM $",
    "SELECT SQL_CALC_FOUND_ROWS v FROM $ LIMIT 1",
    "SELECT FOUND_ROWS(), ROW_COUNT(), v FROM $",
    "SELECT GET_LOCK('mine', 1), v FROM $",
    "SELECT GET_LOCK(v, 1) FROM $",
    "SELECT RELEASE_LOCK('mine'), RELEASE_LOCK(v) FROM $",
    "SELECT RELEASE_ALL_LOCKS(), v FROM $",
    "SELECT @a := v FROM $",
    "SELECT LAST_INSERT_ID(v) FROM $",
    "SELECT v INTO @a FROM $",
    "INSERT INTO $ (v) VALUES (1)",
    "REPLACE INTO $ (v) VALUES (1)",
    "CREATE TEMPORARY TABLE $ (v INT)",
    "CREATE TEMPORARY TABLE shop.$ (v INT)",
    "DROP TEMPORARY TABLE $",
    "DROP TABLE $, shop.other",
    "CREATE TABLE $ (v INT)",
    "LOCK TABLES $ WRITE",
    "UNLOCK TABLES /* */; SELECT v FROM $",
    "FLUSH TABLES $ WITH READ LOCK",
    "PREPARE $ FROM 'SELECT 1'",
    "EXECUTE $",
    "DEALLOCATE PREPARE $",
    "HANDLER $ OPEN",
    "HANDLER $ CLOSE",
    "USE $",
    "SET @$ = 1",
    "SET @@SESSION.$ = 1, NAMES utf8mb4, CHARACTER SET latin1, autocommit = 0",
    "SET autocommit = 1, @$ = 1",
    "SET autocommit = @$",
    "SET TRANSACTION READ ONLY; SELECT v FROM $",
    "SET ROLE $",
    "SET PASSWORD = 'another'; SELECT v FROM $",
    "SET $ OF NOTHING",
    "BEGIN; SELECT v FROM $",
    "START TRANSACTION READ ONLY; SELECT v FROM $",
    "COMMIT; SELECT v FROM $",
    "COMMIT AND CHAIN; SELECT v FROM $",
    "ROLLBACK RELEASE; SELECT v FROM $",
    "ROLLBACK; SELECT v FROM $",
    "SAVEPOINT $",
    "XA START 'x'; SELECT v FROM $",
    "XA END 'x'; SELECT v FROM $",
    "XA COMMIT 'x'; SELECT v FROM $",
    "BACKUP LOCK $",
    "LOCK INSTANCE FOR BACKUP; SELECT v FROM $",
    "CALL $()",
    "LOAD DATA LOCAL INFILE 'file' INTO TABLE $",
    "LOAD DATA INFILE 'file' INTO TABLE $",
    "KILL QUERY $",
    "SHOW TABLES FROM $",
    "SELECT v FROM $ WHERE v = 'no end",
    "SELECT v FROM $ WHERE answered = 1",
    "SELECT v FROM $ WHERE refused = 1",
];

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance(1, 3) {
        return;
    }
    let who = rng.pick(&["\"*\"", "\"batch, web,app\""]).copied().unwrap_or("\"*\"");
    let has_rules = rng.chance(1, 2);
    for config in &mut plan.configs {
        config.words.insert("explain_route_users", who.into());
        if has_rules {
            config.rules.extend(rules());
        }
    }
    for client in &mut plan.clients {
        // One that speaks to its server itself would ask that one.
        if !client.is_direct && rng.chance(1, 2) {
            ask(rng, client);
            ask_for_session(rng, client);
        }
    }
}

/// Rules that only statements meet which are asked about.
fn rules() -> [RuleSpec; 3] {
    let of = |contains, more| RuleSpec { contains: Some(contains), more, ..RuleSpec::default() };
    [
        of("FROM asked.* WHERE answered", "OK_msg = \"answered\"\n"),
        of("FROM asked.* WHERE refused", "error_msg = \"refused\"\n"),
        of(
            "(?:FROM|INTO) asked",
            "delay = 3\ntimeout = 4000\nretries = 1\nmultiplex = 0\ncache_ttl = 500\nlog = true\n\
             next_query_flagIN = 0\n",
        ),
    ]
}

/// What the proxy knows of the client itself.
fn ask_for_session(rng: &mut Rng, client: &mut ClientSpec) {
    for _ in 0..rng.between(1, 4) {
        let step = Step { pause_us: rng.below(PAUSE_US), deed: Deed::AskForSession };
        let at = rng.index(client.script.len() + 1);
        client.script.insert(at, step);
    }
}

fn ask(rng: &mut Rng, client: &mut ClientSpec) {
    for number in 0..rng.between(2, 8) {
        let name = format!("asked_{}_{number}_", client.place);
        let text = rng.pick(&TEXTS).copied().unwrap_or_default().replace('$', &name);
        let step = Step { pause_us: rng.below(PAUSE_US), deed: Deed::Explain { text, name } };
        let at = rng.index(client.script.len() + 1);
        client.script.insert(at, step);
    }
}
