//! A name is what the server takes it for, however harmless it sounds.

use anyhow::Result;

use super::play::holds;
use super::stand::{ONE, SPLIT, Scene};

#[test]
fn a_function_that_sounds_built_in_is_the_schemas() -> Result<()> {
    holds(SPLIT, include_str!("cases/names.txt"))
}

#[test]
fn a_built_in_name_with_a_space_is_the_schemas() -> Result<()> {
    holds(SPLIT, include_str!("cases/names_with_a_space.txt"))
}

#[test]
fn what_names_leave_that_are_not_known_in_time_is_there() -> Result<()> {
    holds(
        Scene { settings: "catalog_wait_ms = 0", ..SPLIT },
        include_str!("cases/unknown_names.txt"),
    )
}

#[test]
fn names_that_share_a_digest_are_told_apart() -> Result<()> {
    let settings = "query_digests_no_digits = true";
    holds(Scene { settings, ..SPLIT }, include_str!("cases/names_with_digits.txt"))
}

#[test]
fn issue_16_names_that_look_like_numbers_are_told_apart() -> Result<()> {
    holds(SPLIT, include_str!("cases/names_like_numbers.txt"))
}

#[test]
fn a_prepared_statements_names_are_those_of_its_own_schema() -> Result<()> {
    holds(SPLIT, include_str!("cases/prepared_elsewhere.txt"))
}

#[test]
fn what_a_server_computes_while_it_prepares_is_its_sessions_own() -> Result<()> {
    holds(ONE, include_str!("cases/prepared_computes.txt"))
}

#[test]
fn what_is_called_otherwise_than_in_a_query_is_its_sessions_own() -> Result<()> {
    holds(ONE, include_str!("cases/called_otherwise.txt"))
}

#[test]
fn a_prepared_texts_variables_have_the_types_of_its_sessions_own() -> Result<()> {
    holds(ONE, include_str!("cases/prepared_variables.txt"))
}

#[test]
fn what_a_definition_computes_is_its_sessions_own() -> Result<()> {
    holds(ONE, include_str!("cases/unseen_code.txt"))
}

#[test]
fn issue_16_a_parameter_called_begin_hides_no_statement() -> Result<()> {
    holds(ONE, include_str!("cases/programs.txt"))
}

#[test]
fn issue_16_a_comparison_reads_its_variable() -> Result<()> {
    holds(Scene { connections: 2, ..ONE }, include_str!("cases/compared_variables.txt"))
}
