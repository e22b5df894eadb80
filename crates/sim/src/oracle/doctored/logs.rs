//! What the query log and the audit log tell.

use super::*;

/// A world whose client, number 7, has said one thing, which this line tells of.
fn logged(line: &str) -> World {
    let mut world = world();
    world.write(1, 1_000);
    world.exchange(0).text = "REPLACE INTO kv (k, v) /* 1 */ VALUES (100, 1)".to_owned();
    world.session().number = Some(7);
    world.facts.logged.push((1_200, line.to_owned()));
    world
}

fn line(number: u64, user: &str, query: &str) -> String {
    format!(
        "{{\"thread_id\":{number},\"username\":\"{user}\",\"query\":\"{query}\",\
         \"rows_affected\":1}}"
    )
}

#[test]
fn lines_of_what_was_said() {
    for query in [
        "REPLACE INTO kv (k, v) /* 1 */ VALUES (100, 1)",
        // A digest.
        "REPLACE INTO kv (k,v) VALUES (100,1)",
        "REPLACE INTO kv (k,v) VALUES (?,?)",
        // What a client that vanished had begun to say.
        "SELECT 1 FROM nothing WHERE",
    ] {
        logged(&line(7, "app", query)).check(&[]);
    }
    // Somebody was refused before there was a user.
    logged(&line(8, "", "")).check(&[]);
}

#[test]
fn lines_that_are_not_true() {
    let said = "REPLACE INTO kv (k, v) VALUES (100, 1)";
    for wrong in [
        // Another session, another user's, and another statement.
        line(8, "app", said),
        line(7, "web", said),
        line(7, "app", "REPLACE INTO kv (k, v) VALUES (101, 1)"),
        line(7, "app", "SELECT 'a text of a neighbour'"),
        // Nobody's.
        said.to_owned(),
        "{\"thread_id\":7,\"query\":\"\"}".to_owned(),
    ] {
        logged(&wrong).check(&[Breach::WrongLog]);
    }
}
