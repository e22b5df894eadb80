//! What is remembered of servers ends when they are others, or set otherwise.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::Flavour;

use crate::stage::{FLAVOURS, client, is_available};
use crate::varieties::{acted, split, start_acting};

fn of_each(name: &str, check: impl Fn(Flavour) -> Result<()>) -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, name) {
            check(flavour).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

fn check_new_definition(flavour: Flavour) -> Result<()> {
    let (writer, reader) = start_acting(flavour, &[])?;
    for server in [&writer, &reader] {
        server.sql("CREATE VIEW here.v AS SELECT here.act() AS a")?;
    }
    let proxy = split(&writer, &reader)?;
    let mut one = client(&proxy, "here")?;
    one.sql("DROP VIEW v")?;
    one.sql("CREATE TABLE v (a INT)")?;
    for _ in 0..3 {
        one.sql("SELECT a FROM v")?;
    }
    let acted = acted(&writer, &reader)?;
    ensure!(acted == ["0", "0"], "on the writer and the reader: {acted:?}");
    Ok(())
}

#[test]
fn what_was_defined_before_anybody_asked_is_not_read_where_it_may_be_what_it_was() -> Result<()> {
    of_each("what_was_defined_before_anybody_asked", check_new_definition)
}
