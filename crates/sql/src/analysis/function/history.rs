//! What is known by hand of versions that the [generated table](super::table) does not have.
//!
//! A version between two of the table's has what both have. A version older than the table's first
//! has what that one has, without what came later, and with what was taken away meanwhile. A
//! version newer than the table's last is taken to have what the last one has: a function that a
//! later version takes away is not noticed before `cargo xtask functions --check` has asked it.
//!
//! Sources: MySQL manual, "Built-In Function and Operator Reference" and the release notes of 8.0
//! to 9.7; MariaDB knowledge base, the "Introduced" notes of each function.

use super::ServerVersion;

/// The oldest versions of which anything is claimed: no function of an older server is its own.
pub(super) const OLDEST_MARIADB: ServerVersion = ServerVersion::new(10, 3);
/// As [`OLDEST_MARIADB`], of MySQL.
pub(super) const OLDEST_MYSQL: ServerVersion = ServerVersion::new(5, 7);

/// Whether `upper` came after `version`. What came in a later release of the same version counts
/// as the next one's.
pub(super) fn came_after(upper: &[u8], is_mariadb: bool, version: ServerVersion) -> bool {
    let added: &[Added] = if is_mariadb { &MARIADB } else { &MYSQL };
    added.iter().any(|added| version < added.version && added.names.contains(&upper))
}

/// Whether a MySQL server of this version has a function of its own that later ones have not.
/// MySQL 9.6 moved these into a component, which makes them loadable functions.
pub(super) fn was_native(upper: &[u8], is_mariadb: bool, version: ServerVersion) -> bool {
    !is_mariadb && version < ServerVersion::new(9, 0) && matches!(upper, b"MD5" | b"SHA" | b"SHA1")
}

/// Names that came with a version.
struct Added {
    version: ServerVersion,
    names: &'static [&'static [u8]],
}

#[rustfmt::skip]
const MYSQL: [Added; 4] = [
    Added { version: ServerVersion::new(8, 0), names: &[
        b"BIN_TO_UUID", b"CUME_DIST", b"DENSE_RANK", b"FIRST_VALUE", b"GROUPING", b"ICU_VERSION",
        b"IS_UUID", b"JSON_ARRAYAGG", b"JSON_MERGE_PATCH", b"JSON_MERGE_PRESERVE",
        b"JSON_OBJECTAGG", b"JSON_PRETTY", b"JSON_STORAGE_FREE", b"JSON_STORAGE_SIZE",
        b"JSON_TABLE", b"LAG", b"LAST_VALUE", b"LEAD", b"NTH_VALUE", b"NTILE", b"OF", b"OVER",
        b"PERCENT_RANK", b"RANK", b"REGEXP_INSTR", b"REGEXP_LIKE", b"REGEXP_REPLACE",
        b"REGEXP_SUBSTR", b"ROLES_GRAPHML", b"ROW_NUMBER", b"STATEMENT_DIGEST",
        b"STATEMENT_DIGEST_TEXT", b"ST_SWAPXY", b"UUID_TO_BIN",
    ] },
    Added { version: ServerVersion::new(8, 4), names: &[
        b"EXCEPT", b"FORMAT_BYTES", b"FORMAT_PICO_TIME", b"INTERSECT", b"JSON_OVERLAPS",
        b"JSON_SCHEMA_VALID", b"JSON_SCHEMA_VALIDATION_REPORT", b"JSON_VALUE", b"LATERAL",
        b"MEMBER", b"ST_COLLECT", b"ST_FRECHETDISTANCE", b"ST_HAUSDORFFDISTANCE", b"ST_LATITUDE",
        b"ST_LINEINTERPOLATEPOINT", b"ST_LINEINTERPOLATEPOINTS", b"ST_LONGITUDE",
        b"ST_POINTATDISTANCE", b"ST_TRANSFORM",
    ] },
    Added { version: ServerVersion::new(9, 0), names: &[b"VECTOR"] },
    Added { version: ServerVersion::new(9, 7), names: &[
        b"ETAG", b"FROM_VECTOR", b"JSON_DUALITY_OBJECT", b"STRING_TO_VECTOR", b"TO_VECTOR",
        b"VECTOR_DIM", b"VECTOR_TO_STRING",
    ] },
];

#[rustfmt::skip]
const MARIADB: [Added; 4] = [
    Added { version: ServerVersion::new(10, 4), names: &[
        b"CHR", b"EXCEPT", b"INTERSECT", b"LENGTHB", b"MEDIAN", b"NVL", b"NVL2",
        b"PERCENTILE_CONT", b"PERCENTILE_DISC", b"VALUE",
    ] },
    Added { version: ServerVersion::new(10, 5), names: &[
        b"CONCAT_OPERATOR_ORACLE", b"DECODE_ORACLE", b"LENGTH_ORACLE", b"LPAD_ORACLE",
        b"LTRIM_ORACLE", b"REPLACE_ORACLE", b"RPAD_ORACLE", b"RTRIM_ORACLE", b"SUBSTR_ORACLE",
        b"TRIM_ORACLE",
    ] },
    Added { version: ServerVersion::new(10, 6), names: &[b"JSON_ARRAYAGG", b"JSON_OBJECTAGG"] },
    Added { version: ServerVersion::new(10, 11), names: &[
        b"ADD_MONTHS", b"CRC32C", b"JSON_EQUALS", b"JSON_MERGE_PATCH", b"JSON_MERGE_PRESERVE",
        b"JSON_NORMALIZE", b"JSON_OVERLAPS", b"JSON_PRETTY", b"JSON_TABLE", b"NATURAL_SORT_KEY",
        b"RANDOM_BYTES", b"ROWNUM", b"SFORMAT", b"SYS_GUID", b"TO_CHAR",
    ] },
];
