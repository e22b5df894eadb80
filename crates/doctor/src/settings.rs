//! The configuration by itself.

use crate::{
    facts::Facts,
    finding::{Danger, Finding},
};

pub(crate) fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    let mut say = |danger, what: String, advice: &str| {
        found.push(Finding::new(danger, "configuration", what, advice));
    };
    let settings = &facts.settings;
    for listener in &settings.open_listeners {
        say(
            Danger::Note,
            format!("clients of {listener} may log in without TLS"),
            "require_secure_transport = true, or require_ssl of the users",
        );
    }
    for (writer, reader) in &settings.unwatched {
        say(
            Danger::Warning,
            format!(
                "nobody watches who writes in hostgroups {writer} and {reader}: after a failover \
                 writes go on to the old writer"
            ),
            "make them a [[cluster]], or give their [[replication]] a check_type",
        );
    }
    for warning in &facts.warnings {
        say(Danger::Warning, warning.clone(), "trunkline check says where");
    }
}
