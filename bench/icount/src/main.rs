//! Hot functions in a loop: `trunkline-icount CASE N` calls the case's function N times.
//!
//! `cargo xtask icount` runs this under callgrind with N and 2N calls. The difference holds the
//! calls alone, without set-up, and divided by N it is the instructions of one call.
#![forbid(unsafe_code)]

mod decide;
mod play;
mod statement;
mod text;
mod wire;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

/// Something to be counted.
struct Case {
    /// Its name, by the crate or step it belongs to.
    name: &'static str,
    /// What one call is.
    what: &'static str,
    /// Sets up, and then calls so many times.
    run: fn(u64) -> Result<()>,
}

const CASES: [Case; 28] = [
    Case {
        name: "framing/split_packet",
        what: "one packet of 40 bytes found in a buffer of 64",
        run: wire::split_packet,
    },
    Case { name: "command/decode", what: "a COM_QUERY decoded", run: wire::decode_command },
    Case {
        name: "digest/point_select",
        what: "digest of `SELECT c FROM sbtest1 WHERE id=5012`",
        run: text::digest_point_select,
    },
    Case {
        name: "digest/insert_10_rows",
        what: "digest of an INSERT with 10 rows of 4 values, 1.9 KB",
        run: text::digest_insert,
    },
    Case {
        name: "digest/join_420_bytes",
        what: "digest of a join with conditions, 420 bytes",
        run: text::digest_join,
    },
    Case {
        name: "digest/in_100_numbers",
        what: "digest of a SELECT with 100 numbers in a list, 640 bytes",
        run: text::digest_in,
    },
    Case {
        name: "digest/text_of_2_kb",
        what: "digest of an UPDATE with a text of 2,000 bytes",
        run: text::digest_text,
    },
    Case {
        name: "analysis/point_select",
        what: "kind, access and effects of the point select (first time only)",
        run: text::analyse_point_select,
    },
    Case {
        name: "analysis/insert_10_rows",
        what: "the same of the INSERT (first time only)",
        run: text::analyse_insert,
    },
    Case {
        name: "rules/evaluate",
        what: "20 rules evaluated for the point select (first time only)",
        run: decide::evaluate,
    },
    Case {
        name: "rules/remembered",
        what: "the same decision found in the memory",
        run: decide::remembered,
    },
    Case {
        name: "rules/evaluate_20000_by_schema",
        what: "20,000 rules, each for a schema and a pattern, evaluated (first time only)",
        run: decide::evaluate_many,
    },
    Case {
        name: "rules/remembered_1",
        what: "the decision of one such rule found in the memory",
        run: decide::remembered_one,
    },
    Case {
        name: "rules/remembered_20000",
        what: "the same with 20,000 rules",
        run: decide::remembered_many,
    },
    Case {
        name: "rules/fast_routing_200000",
        what: "a user's schema found among 200,000 fast routing rules",
        run: decide::fast_routing,
    },
    Case {
        name: "relay/point_select",
        what: "a result of one row passed on, both sides with EOF",
        run: wire::relay_point_select,
    },
    Case {
        name: "relay/point_select_deprecate_eof",
        what: "the same, both sides with DEPRECATE_EOF",
        run: wire::relay_point_select_deprecate_eof,
    },
    Case {
        name: "relay/point_select_translated",
        what: "the same from DEPRECATE_EOF to EOF",
        run: wire::relay_point_select_translated,
    },
    Case {
        name: "relay/rows_100",
        what: "a result of 100 rows passed on, both sides with DEPRECATE_EOF",
        run: wire::relay_rows,
    },
    Case {
        name: "statement/point_select",
        what: "a whole statement through the worker in two batches, with the play of client and server",
        run: statement::point_select,
    },
    Case {
        name: "statement/point_select_cache_hit",
        what: "the same answered from the result cache",
        run: statement::point_select_cache_hit,
    },
    Case {
        name: "statement/point_select_with_traces",
        what: "the same with a collector of traces, and not among those that have spans",
        run: statement::point_select_with_traces,
    },
    Case {
        name: "statement/point_select_with_spans",
        what: "the same among those",
        run: statement::point_select_with_spans,
    },
    Case {
        name: "statement/point_select_deprecate_eof",
        what: "the same for a client with DEPRECATE_EOF",
        run: statement::point_select_deprecate_eof,
    },
    Case {
        name: "statement/point_select_prepared",
        what: "the same as an execution of a statement that its connection has, typed",
        run: statement::point_select_prepared,
    },
    Case {
        name: "statement/point_select_prepared_untyped",
        what: "the same without types, as drivers send it from the second time on",
        run: statement::point_select_prepared_untyped,
    },
    Case {
        name: "statement/point_select_prepared_cached",
        what: "the same for a client that keeps definitions of columns",
        run: statement::point_select_prepared_cached,
    },
    Case {
        name: "statement/read_write_transaction",
        what: "the twenty statements of sysbench's `oltp_read_write`",
        run: statement::read_write_transaction,
    },
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trunkline-icount: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => {
            for case in &CASES {
                println!("{}\t{}", case.name, case.what);
            }
            Ok(())
        }
        [word] if word == "speed" => {
            text::speed();
            Ok(())
        }
        [name, calls] => {
            let calls = calls.parse().with_context(|| format!("no number of calls: {calls}"))?;
            let case = CASES.iter().find(|case| case.name == name);
            (case.with_context(|| format!("no case is named {name}"))?.run)(calls)
        }
        _ => bail!("usage: trunkline-icount [CASE CALLS]; without arguments it lists the cases"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs() {
        for case in &CASES {
            (case.run)(3).unwrap_or_else(|error| panic!("{}: {error:#}", case.name));
        }
    }
}
