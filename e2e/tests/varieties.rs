//! Servers with other settings than most: what they make of names, bytes and settings is known, or
//! taken for the worst.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Options, Server, Trunkline};

use crate::stage::{PASSWORD, USER, client, is_available, start, text};

/// A writer and a reader that know nothing of each other.
fn split(writer: &Server, reader: &Server) -> Result<Trunkline> {
    Trunkline::start(&format!(
        "workers = 1\n[[replication]]\nwriter_hostgroup = 10\nreader_hostgroup = 20\n\
         [[server]]\nhostgroup = 10\naddress = \"{}\"\n\
         [[server]]\nhostgroup = 20\naddress = \"{}\"\n\
         [[user]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = 10\n",
        writer.address(),
        reader.address(),
    ))
}

/// Two servers with these arguments, and a function on both that leaves a row where it runs.
fn start_acting(flavour: Flavour, args: &[&str]) -> Result<(Server, Server)> {
    let options = || args.iter().fold(Options::default(), |options, arg| options.arg(*arg));
    let (writer, reader) = (start(flavour, options())?, start(flavour, options())?);
    for server in [&writer, &reader] {
        server.sql("CREATE DATABASE here; CREATE TABLE here.done (a INT)")?;
        server.sql("SET GLOBAL log_bin_trust_function_creators = 1")?;
        server.sql(
            "CREATE FUNCTION here.act() RETURNS INT BEGIN INSERT INTO done VALUES (1); \
             RETURN 1; END",
        )?;
    }
    Ok((writer, reader))
}

/// How often it has run on the writer and on the reader.
fn acted(writer: &Server, reader: &Server) -> Result<[String; 2]> {
    let count = |server: &Server| {
        server.value("SELECT COUNT(*) FROM here.done")?.context("no count of what was done")
    };
    Ok([count(writer)?, count(reader)?])
}

#[test]
fn a_name_in_ddl_is_folded_as_the_server_folds_it() -> Result<()> {
    let name = "a_name_in_ddl_is_folded_as_the_server_folds_it";
    if !is_available(Flavour::MariaDb, name) {
        return Ok(());
    }
    let (writer, reader) = start_acting(Flavour::MariaDb, &["--lower-case-table-names=1"])?;
    for server in [&writer, &reader] {
        server.sql("CREATE TABLE here.vi (a INT); INSERT INTO here.vi VALUES (1)")?;
    }
    let proxy = split(&writer, &reader)?;
    let (mut one, mut other) = (client(&proxy, "here")?, client(&proxy, "here")?);
    for _ in 0..2 {
        ensure!(text(&mut one, "SELECT a FROM vi")? == "1");
    }
    other.sql("DROP TABLE `V\u{130}`")?;
    other.sql("CREATE VIEW `V\u{130}` AS SELECT act() AS a")?;
    reader.sql("DROP TABLE here.vi; CREATE VIEW here.vi AS SELECT here.act() AS a")?;
    text(&mut one, "SELECT a FROM vi")?;
    let acted = acted(&writer, &reader)?;
    ensure!(acted == ["1", "0"], "on the writer and the reader: {acted:?}");
    Ok(())
}
