//! Statements of 64 MiB, and what nobody can read: they reach the server as they came, in time and
//! memory that grow with their length and no faster.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Options, Server, Trunkline};

use crate::prepared::twin::{Param, block};
use crate::stage::{FLAVOURS, PASSWORD, USER, is_available, one_server, start};
use crate::wire::{Outcome, Shape, Wire, code};

/// Bytes of the text or parameter of a statement.
const HUGE: usize = 64 << 20;
/// What proxy and server may hold in one command.
const PACKET_MAX: usize = 128 << 20;
/// What may be in quotes: quotes, comments, bytes that are no UTF-8, more than one packet of it.
const PIECE: &[u8] = b"''\\' /* -- # \xC3\xA9\xFF\xE2\x82 \" ` ? ;";
/// Bytes of a text with more effects than are followed: some ten times as many.
const EFFECTS_LEN: usize = 8 << 20;
/// How long one of them may take on a busy machine, in an unoptimised build.
const LONG: Duration = Duration::from_secs(120);
/// Copies of a statement that a proxy may hold at a time: as it came, joined, as it waits, and as
/// it is sent, in buffers that double as they grow; and what its allocator has not given back yet.
/// By how the pieces arrive, 256 to 415 MiB were seen for 64, after one statement and after 25.
const COPIES_MAX: u64 = 8;

/// A server and a proxy that take packets of 128 MiB.
fn pair(flavour: Flavour, rules: &str) -> Result<(Server, Trunkline)> {
    let options = Options::default().arg(format!("--max-allowed-packet={PACKET_MAX}"));
    let server = start(flavour, options)?;
    let config = one_server(&server, 1, 5);
    let proxy = Trunkline::start(&format!("max_allowed_packet = {PACKET_MAX}\n{config}{rules}"))?;
    Ok((server, proxy))
}

fn login(to: impl Into<crate::wire::Endpoint>) -> Result<Wire> {
    let wire = Wire::login(to, USER, PASSWORD, "")?;
    wire.set_read_timeout(LONG)?;
    Ok(wire)
}

/// The only field of the only row of the answer to a text.
fn value(wire: &mut Wire, text: &[u8]) -> Result<Option<String>> {
    let bytes = wire.exchange(code::QUERY, text, Shape::Results)?;
    let outcomes = wire.outcomes(&bytes)?;
    let rows = outcomes.first().context("no answer")?.text_rows();
    let field = rows.first().and_then(|row| row.first());
    field.cloned().with_context(|| format!("{:.300}", format!("{outcomes:?}")))
}

fn each(test: &str, rules: &str, check: fn(&Server, &Trunkline) -> Result<()>) -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, test) {
            continue;
        }
        let (server, proxy) = pair(flavour, rules)?;
        check(&server, &proxy)
            .with_context(|| format!("{flavour:?}; the proxy's log:\n{}", proxy.log()))?;
        ensure!(proxy.is_running(), "the proxy ended:\n{}", proxy.log());
    }
    Ok(())
}

/// What stands in quotes as [`PIECE`] is this for the server, in hexadecimal.
fn unquoted_hex() -> String {
    let raw = b"'' /* -- # \xC3\xA9\xFF\xE2\x82 \" ` ? ;";
    raw.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_text_of_64_mib_reaches_its_server_as_it_came() -> Result<()> {
    each("a_text_of_64_mib", "", |_, proxy| {
        let mut wire = login(proxy)?;
        let count = HUGE / PIECE.len();
        let end = format!("' = REPEAT(x'{}', {count})", unquoted_hex());
        let text = [b"SELECT _binary'", &*PIECE.repeat(count), end.as_bytes()].concat();
        ensure!(value(&mut wire, b"SELECT 1")?.as_deref() == Some("1"));
        let (before, begun) = (proxy.rss_bytes()?, Instant::now());
        ensure!(value(&mut wire, &text)?.as_deref() == Some("1"), "it is another text");
        let (took, peak) = (begun.elapsed(), proxy.peak_rss_bytes()?.saturating_sub(before));
        println!("{took:?}, {} MiB more at most", peak >> 20);
        ensure!(took < LONG, "{took:?}");
        let allowed = COPIES_MAX * HUGE as u64;
        ensure!(peak < allowed, "memory grew by {} MiB", peak >> 20);
        // The next ones take no more.
        for _ in 0..3 {
            ensure!(value(&mut wire, &text)?.as_deref() == Some("1"), "it is another text");
        }
        let more = proxy.peak_rss_bytes()?.saturating_sub(before);
        println!("{} MiB after more of them", more >> 20);
        ensure!(more < allowed, "memory grew by {} MiB", more >> 20);
        ensure!(value(&mut wire, b"SELECT 7")?.as_deref() == Some("7"));
        Ok(())
    })
}

#[test]
fn long_data_of_64_mib_reaches_its_server_as_it_came() -> Result<()> {
    each("long_data_of_64_mib", "", |_, proxy| {
        let mut wire = login(proxy)?;
        let piece = PIECE.repeat((1 << 20) / PIECE.len());
        let count = HUGE / piece.len();
        let hex: String = PIECE.iter().map(|byte| format!("{byte:02x}")).collect();
        let times = count * (piece.len() / PIECE.len());
        let text = format!("SELECT ? = REPEAT(x'{hex}', {times})");
        let before = proxy.rss_bytes()?;
        let begun = Instant::now();
        let prepared = wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
        let id = prepared.get(5..9).context("no statement")?.to_vec();
        for _ in 0..count {
            let body = [&id[..], &[0, 0], &piece].concat();
            wire.exchange(code::STMT_SEND_LONG_DATA, &body, Shape::Nothing)?;
        }
        holds(&mut wire, &[&id[..], &block(0, &[Param::Long], true)].concat())?;
        let (took, peak) = (begun.elapsed(), proxy.peak_rss_bytes()?.saturating_sub(before));
        println!("{took:?}, {} MiB more at most", peak >> 20);
        ensure!(took < LONG, "{took:?}");
        ensure!(peak < COPIES_MAX * HUGE as u64, "memory grew by {} MiB", peak >> 20);
        ensure!(value(&mut wire, b"SELECT 7")?.as_deref() == Some("7"));
        Ok(())
    })
}

#[test]
fn executions_of_64_mib_reach_their_server_as_they_came() -> Result<()> {
    each("executions_of_64_mib", "", |_, proxy| {
        let mut wire = login(proxy)?;
        let value = PIECE.repeat(HUGE / PIECE.len());
        let hex: String = PIECE.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!("SELECT ? = REPEAT(x'{hex}', {})", HUGE / PIECE.len());
        let prepared = wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
        let id = prepared.get(5..9).context("no statement")?.to_vec();
        let before = proxy.rss_bytes()?;
        for with_types in [true, false] {
            let run = block(0, &[Param::Blob(value.clone())], with_types);
            holds(&mut wire, &[&id[..], &run].concat())?;
        }
        let peak = proxy.peak_rss_bytes()?.saturating_sub(before);
        println!("{} MiB more at most", peak >> 20);
        ensure!(peak < COPIES_MAX * HUGE as u64, "memory grew by {} MiB", peak >> 20);
        // In one piece, sent ahead.
        let piece = [&id[..], &[0, 0], &value].concat();
        wire.exchange(code::STMT_SEND_LONG_DATA, &piece, Shape::Nothing)?;
        holds(&mut wire, &[&id[..], &block(0, &[Param::Long], true)].concat())?;
        ensure!(self::value(&mut wire, b"SELECT 7")?.as_deref() == Some("7"));
        Ok(())
    })
}

/// The text is in several packets, and rules search, rewrite and copy it.
const RULED: &str = r#"
[[rule]]
id = 1
match_pattern = "^SELECT LENGTH"
replace_pattern = "SELECT 1 + LENGTH"
attributes = '{"protects":true}'
"#;

#[test]
fn long_texts_that_rules_rewrite_and_that_are_prepared_are_what_they_are_to_be() -> Result<()> {
    each("long_texts_that_rules_rewrite", RULED, |_, proxy| {
        let mut wire = login(proxy)?;
        for len in [100_000, 20 << 20] {
            let text = |expected: usize| {
                format!("SELECT LENGTH('{}') = {expected}", "x".repeat(len)).into_bytes()
            };
            ensure!(value(&mut wire, &text(len + 1))?.as_deref() == Some("1"), "{len}");
            let prepared = wire.exchange(code::STMT_PREPARE, &text(len + 1), Shape::Prepare)?;
            let id = prepared.get(5..9).context("no statement")?.to_vec();
            for _ in 0..3 {
                holds(&mut wire, &[&id[..], &block(0, &[], false)].concat())?;
            }
            ensure!(value(&mut wire, b"SELECT 7")?.as_deref() == Some("7"));
        }
        Ok(())
    })
}

/// An execution answers with 1.
fn holds(wire: &mut Wire, run: &[u8]) -> Result<()> {
    let bytes = wire.exchange(code::STMT_EXECUTE, run, Shape::Results)?;
    let outcomes = wire.outcomes(&bytes)?;
    let Some(Outcome::Rows { rows, .. }) = outcomes.first() else { anyhow::bail!("{outcomes:?}") };
    // The binary row ends with the integer.
    ensure!(rows.first().and_then(|row| row.get(2)) == Some(&1), "another value: {rows:?}");
    Ok(())
}

/// What the server says to these is what it says directly.
#[test]
fn what_is_not_understood_is_the_servers_to_judge() -> Result<()> {
    each("what_is_not_understood", "", |server, proxy| {
        let (mut direct, mut proxied) = (login(server)?, login(proxy)?);
        let of_len = |len: usize, begin: &str, piece: &[u8], end: &str| {
            [begin.as_bytes(), &piece.repeat(len / piece.len()), end.as_bytes()].concat()
        };
        let huge = |begin, piece, end| of_len(HUGE, begin, piece, end);
        // An unoptimised build takes its time where each byte is a token.
        let long = |begin, piece, end| of_len(HUGE / 64, begin, piece, end);
        let values: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
        let rows = vec!["(1, 'a', NULL)"; 10_000].join(", ");
        for text in [
            huge("SELECT 'never ends ", b"x", ""),
            huge("SELECT `never ends ", b"\xFF", ""),
            huge("SELECT 1 /* never ends ", b"/* ", ""),
            long("SELECT 1 /* ends */ /*", b"/*", "*/"),
            long("SELECT 1 ", b"/* */", ""),
            long("SELECT 1 /*! + 1 ", b" ", "*/"),
            huge("SELECT 1 -- ", b"'", ""),
            long("SELECT ", b"\xE2\x82", ""),
            huge("SELECT LENGTH('", b"\xE2\x82", "')"),
            format!("SELECT 5 IN ({})", values.join(", ")).into_bytes(),
            format!("SELECT COUNT(*) FROM (VALUES {}) AS t", rows.replace('(', "ROW("))
                .into_bytes(),
            format!("SELECT COUNT(*) FROM (VALUES {rows}) AS t").into_bytes(),
        ] {
            let begun = Instant::now();
            let expected = direct.exchange(code::QUERY, &text, Shape::Results)?;
            let directly = begun.elapsed();
            let got = proxied.exchange(code::QUERY, &text, Shape::Results)?;
            let shown = String::from_utf8_lossy(&text[..40]).into_owned();
            println!("{shown}: {directly:?} directly, {:?} in all", begun.elapsed());
            ensure!(
                direct.outcomes(&expected)? == proxied.outcomes(&got)?,
                "{shown}: {:?} instead of {:?}",
                proxied.outcomes(&got)?,
                direct.outcomes(&expected)?
            );
        }
        let peak = proxy.peak_rss_bytes()?;
        println!("{} MiB at most", peak >> 20);
        ensure!(peak < (COPIES_MAX + 1) * HUGE as u64, "{} MiB", peak >> 20);
        Ok(())
    })
}

/// A rule for each way in which a pattern can be slow.
const PATTERNS: &str = r#"
[[rule]]
id = 1
match_pattern = "(a*)*\\1b$"
destination_hostgroup = 0
[[rule]]
id = 2
match_pattern = "a(?=.*b)"
destination_hostgroup = 0
[[rule]]
id = 3
match_pattern = "(?<!c)a(.*b)?"
replace_pattern = "d"
re_modifiers = "CASELESS,GLOBAL"
[[rule]]
id = 4
match_pattern = "a(.*b)?"
replace_pattern = "d"
re_modifiers = "GLOBAL"
[[rule]]
id = 5
match_digest = "^(a|b|ab)*\\1c$"
destination_hostgroup = 0
"#;

#[test]
fn hostile_texts_do_not_hold_up_slow_patterns() -> Result<()> {
    each("hostile_texts_and_slow_patterns", PATTERNS, |_, proxy| {
        let mut wire = login(proxy)?;
        // Undecided or too many places: nothing is rewritten.
        for len in [1 << 20, 8 << 20] {
            let begun = Instant::now();
            let text = format!("SELECT LENGTH('{}')", "a".repeat(len));
            ensure!(value(&mut wire, text.as_bytes())? == Some(len.to_string()));
            println!("{len} bytes: {:?}", begun.elapsed());
            ensure!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
        }
        // A short one is.
        ensure!(value(&mut wire, b"SELECT 'aaa'")?.as_deref() == Some("ddd"));
        Ok(())
    })
}

/// A text that leaves more behind than is followed is refused, as one of it may be a `KILL` of a
/// server's own number.
#[test]
fn a_text_that_leaves_too_much_behind_is_refused() -> Result<()> {
    each("a_text_that_leaves_too_much_behind", "", |_, proxy| {
        let mut wire = login(proxy)?;
        let before = proxy.rss_bytes()?;
        for (begin, piece) in [("DROP TABLE IF EXISTS no.a", ",no.a"), ("SET @a=1", ",@a=1")] {
            // Eight times the bound. An unoptimised build takes its time: each byte is a token.
            let text = format!("{begin}{}", piece.repeat(EFFECTS_LEN / piece.len()));
            let error = wire.fails(&text)?;
            ensure!(error.code == 1235 && error.text.contains("100000 effects"), "{error:?}");
        }
        let peak = proxy.peak_rss_bytes()?.saturating_sub(before);
        println!("{} MiB more at most", peak >> 20);
        ensure!(peak < COPIES_MAX * EFFECTS_LEN as u64, "memory grew by {} MiB", peak >> 20);
        // Less is followed.
        let sets = format!("SET @b=1{}", ",@b=2".repeat(1_000));
        ensure!(wire.one(&sets)?.is_ok());
        ensure!(value(&mut wire, b"SELECT @b")?.as_deref() == Some("2"));
        Ok(())
    })
}

/// What a rule answers follows the packets of its command in number.
#[test]
fn a_rule_answers_what_came_in_several_packets() -> Result<()> {
    let rule = "[[rule]]\nid = 1\nmatch_pattern = \"^DO 'quiet'\"\nOK_msg = \"answered\"\n";
    each("a_rule_answers_what_came_in_several_packets", rule, |_, proxy| {
        let mut wire = login(proxy)?;
        let text = format!("DO 'quiet' /*{}*/", "x".repeat(17 << 20));
        let answer = wire.exchange(code::QUERY, text.as_bytes(), Shape::Results)?;
        let head = answer.get(3..5);
        ensure!(head == Some(&[2, 0][..]), "not an OK with number 2: {head:?}");
        Ok(())
    })
}
