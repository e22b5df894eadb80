use super::*;

const MARIADB: Modes = Modes { flavor_mariadb: true, ..MYSQL };
const MYSQL: Modes = Modes {
    ansi_quotes: false,
    no_backslash_escapes: false,
    flavor_mariadb: false,
    encoding: crate::token::Encoding::Utf8,
    version: ServerVersion::UNKNOWN,
    ignore_space: false,
    oracle: false,
    guesses_quotes: false,
    guesses_escapes: false,
};

fn at(modes: Modes, major: u8, minor: u8) -> Modes {
    Modes { version: ServerVersion::new(major, minor), ..modes }
}

fn call(upper: &str, written: Written) -> Call<'_> {
    Call { upper: upper.as_bytes(), written, has_arguments: true }
}

fn is_harmless_at(upper: &str, modes: Modes) -> bool {
    is_harmless(&call(upper, Written::Adjacent), &modes)
}

#[test]
fn the_tables_are_sorted() {
    for table in [&harmless::HARMLESS[..], &VARYING] {
        assert!(table.windows(2).all(|pair| pair[0] < pair[1]));
    }
    assert!(table::NAMES.windows(2).all(|pair| pair[0].0 < pair[1].0));
}

#[test]
fn what_tells_time_chance_or_who_asks_varies() {
    for (name, is_call, has_arguments, expected) in [
        ("NOW", true, false, true),
        ("NOW", false, false, false),
        ("CURRENT_TIMESTAMP", false, false, true),
        ("UNIX_TIMESTAMP", true, false, true),
        ("UNIX_TIMESTAMP", true, true, false),
        ("RAND", true, true, true),
        ("UUID_V7", true, false, true),
        ("SQL_NO_CACHE", false, false, true),
        ("CONNECTION_ID", true, false, true),
        ("COUNT", true, true, false),
        ("FROM_UNIXTIME", true, true, false),
    ] {
        assert_eq!(varies(name.as_bytes(), is_call, has_arguments), expected, "{name}");
    }
}

#[test]
fn no_name_with_an_effect_is_harmless() {
    for name in [
        "GET_LOCK",
        "RELEASE_LOCK",
        "LAST_INSERT_ID",
        "NEXTVAL",
        "SETVAL",
        "LOAD_FILE",
        "SLEEPY",
        "MASTER_POS_WAIT",
        "FOUND_ROWS",
        "ROW_COUNT",
        "CONNECTION_ID",
        "UPDATE",
        "DELETE",
        "INTO",
        "KEYRING_KEY_FETCH",
        "GROUP_REPLICATION_SET_AS_PRIMARY",
        "VERSION_TOKENS_SET",
        "INTERNAL_TABLE_ROWS",
    ] {
        assert!(!is_harmless_at(name, MARIADB), "{name}");
        assert!(!is_harmless_at(name, MYSQL), "{name}");
    }
}

#[test]
fn functions_belong_to_versions() {
    for (name, modes, expected) in [
        ("NVL", MARIADB, true),
        ("NVL", MYSQL, false),
        ("ABS", MYSQL, true),
        // Stored functions on servers that have no such function.
        ("UUID_V7", at(MARIADB, 10, 11), false),
        ("UUID_V7", at(MARIADB, 11, 4), false),
        ("UUID_V7", at(MARIADB, 11, 8), true),
        ("UUID_V7", at(MARIADB, 12, 3), true),
        ("UUID_V7", MARIADB, false),
        ("SFORMAT", at(MARIADB, 10, 6), false),
        ("SFORMAT", at(MARIADB, 10, 11), true),
        ("ABS", at(MARIADB, 10, 0), false),
        ("COLUMNS", MARIADB, false),
        ("COLUMNS", MYSQL, true),
        ("ENCRYPT", at(MARIADB, 11, 8), true),
        ("ENCRYPT", MYSQL, false),
        ("ENCRYPT", at(MYSQL, 5, 7), false),
        ("MD5", at(MYSQL, 9, 7), false),
        ("MD5", at(MYSQL, 9, 1), false),
        ("MD5", at(MYSQL, 8, 4), true),
        ("MD5", at(MARIADB, 11, 8), true),
        ("VECTOR_DIM", at(MYSQL, 9, 7), true),
        ("VECTOR_DIM", at(MYSQL, 8, 4), false),
        ("RANK", at(MYSQL, 5, 7), false),
        ("RANK", at(MYSQL, 8, 0), true),
        ("JSON_VALUE", at(MYSQL, 8, 0), false),
        ("ABS", at(MYSQL, 5, 6), false),
        ("ABS", at(MYSQL, 10, 0), true),
    ] {
        assert_eq!(is_harmless_at(name, modes), expected, "{name} {modes:?}");
    }
}

#[test]
fn a_space_before_the_parenthesis_counts_where_the_server_says_so() {
    let ignoring = |modes| Modes { ignore_space: true, ..modes };
    for (name, modes, written, expected) in [
        ("NOW", MYSQL, Written::Spaced, false),
        ("NOW", MARIADB, Written::Spaced, false),
        ("NOW", ignoring(MYSQL), Written::Spaced, true),
        ("NOW", ignoring(MYSQL), Written::Apart, false),
        ("NOW", ignoring(MARIADB), Written::Apart, false),
        ("ABS", MYSQL, Written::Spaced, true),
        ("ABS", MARIADB, Written::Apart, true),
        ("IF", MYSQL, Written::Apart, true),
        ("IN", MARIADB, Written::Spaced, true),
        ("COUNT", MYSQL, Written::Spaced, false),
    ] {
        assert_eq!(is_harmless(&call(name, written), &modes), expected, "{name} {modes:?}");
    }
}

#[test]
fn a_constructor_of_geometries_needs_arguments_to_be_the_servers_own() {
    let bare = Call { has_arguments: false, ..call("LINESTRING", Written::Adjacent) };
    assert!(!is_harmless(&bare, &MARIADB));
    assert!(is_harmless_at("LINESTRING", MARIADB));
    // With one argument it is a stored function.
    assert!(!is_harmless_at("POINT", MARIADB));
}

#[test]
fn every_harmless_name_is_some_servers_own() {
    for upper in harmless::HARMLESS {
        let is_own = |modes: &Modes| {
            let call = Call { upper, written: Written::Adjacent, has_arguments: true };
            is_native(&call, modes)
        };
        let all = [at(MYSQL, 9, 7), at(MYSQL, 8, 4), at(MARIADB, 10, 11), at(MARIADB, 11, 8)];
        assert!(all.iter().any(is_own), "{}", String::from_utf8_lossy(upper));
    }
}

#[test]
fn built_in_functions_are_shown_once_and_keywords_are_not() {
    let modes = Modes { flavor_mariadb: true, ..Modes::default() };
    let text = b"SELECT COUNT(*), lower(a), COUNT(b), mine(c) FROM t WHERE d IN (1) AND (e)";
    assert_eq!(super::built_in_functions(text, &modes), ["COUNT", "LOWER"]);
}
