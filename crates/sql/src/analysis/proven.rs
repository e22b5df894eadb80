//! The forms of statements that are claimed to leave nothing behind, as data.
//!
//! The end-to-end test `proven` runs each example on real servers and looks at all that a session
//! can leave. A form that is not here, or that no real server was asked about, proves nothing.

use super::function::own_harmless;
use crate::token::Modes;

/// What a form leaves in its session and in the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// Nothing at all.
    Nothing,
    /// Changed rows; in the session only what the reply reports: the last insert id, counts,
    /// warnings, a GTID.
    Rows,
}

/// Whose servers know a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Both families.
    Both,
    /// MariaDB only.
    MariaDb,
    /// MySQL only.
    MySql,
}

impl Family {
    /// Whether a server of one of the families is among them.
    pub fn has(self, is_mariadb: bool) -> bool {
        match self {
            Self::Both => true,
            Self::MariaDb => is_mariadb,
            Self::MySql => !is_mariadb,
        }
    }
}

/// One form, with texts of it over the tables `item (id, a, s, j)` and `tag (item, name)`.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// What it is, in a few words.
    pub name: &'static str,
    /// Who knows it.
    pub family: Family,
    /// What it leaves.
    pub leaves: Leaves,
    /// Texts that succeed on each server of the family.
    pub examples: &'static [&'static str],
}

const fn reads(name: &'static str, examples: &'static [&'static str]) -> Form {
    Form { name, family: Family::Both, leaves: Leaves::Nothing, examples }
}

const fn writes(name: &'static str, examples: &'static [&'static str]) -> Form {
    Form { name, family: Family::Both, leaves: Leaves::Rows, examples }
}

const fn of_mariadb(name: &'static str, examples: &'static [&'static str]) -> Form {
    Form { family: Family::MariaDb, ..reads(name, examples) }
}

const fn of_mysql(name: &'static str, examples: &'static [&'static str]) -> Form {
    Form { family: Family::MySql, ..reads(name, examples) }
}

/// The functions that are called harmless on a server in these modes, in upper case. Keywords and
/// types are not among them.
pub fn functions(modes: &Modes) -> impl Iterator<Item = &'static str> + use<> {
    own_harmless(modes).filter_map(|name| std::str::from_utf8(name).ok())
}

/// The forms.
pub const FORMS: &[Form] = &[
    reads("constants", &["SELECT 1", "SELECT 'a', 2.5, NULL, 0x41 FROM DUAL", "(SELECT 1)"]),
    reads(
        "by key",
        &[
            "SELECT * FROM item WHERE id = 1",
            "SELECT a, s FROM item WHERE id IN (1, 2, 3)",
            "SELECT id FROM item WHERE id BETWEEN 1 AND 2 ORDER BY id DESC LIMIT 1 OFFSET 0",
        ],
    ),
    reads(
        "conditions",
        &[
            "SELECT id FROM item WHERE s LIKE 'a%' AND NOT a > 5 OR a IS NULL",
            "SELECT id FROM item WHERE s REGEXP '^a' XOR s <=> NULL",
            "SELECT CASE WHEN a > 1 THEN 'x' ELSE 'y' END, a DIV 2, a MOD 2, -a FROM item",
            "SELECT a FROM item WHERE MATCH (s) AGAINST ('one' IN BOOLEAN MODE)",
        ],
    ),
    reads(
        "joins",
        &[
            "SELECT * FROM item, tag WHERE item.id = tag.item",
            "SELECT * FROM item JOIN tag ON item.id = tag.item",
            "SELECT * FROM item LEFT JOIN tag ON item.id = tag.item AND tag.name = 'x'",
            "SELECT * FROM item RIGHT JOIN tag ON item.id = tag.item",
            "SELECT * FROM item CROSS JOIN tag",
            "SELECT STRAIGHT_JOIN a FROM item NATURAL JOIN tag",
            "SELECT item.* FROM item USE INDEX (a) WHERE a = 1",
            "SELECT * FROM item JOIN (SELECT 1 AS id) AS x USING (id)",
        ],
    ),
    reads(
        "groups",
        &[
            "SELECT COUNT(*), SUM(a), AVG(a), MIN(a), MAX(a) FROM item",
            "SELECT a, COUNT(DISTINCT s) FROM item GROUP BY a HAVING COUNT(*) > 0",
            "SELECT a, GROUP_CONCAT(s ORDER BY s SEPARATOR ';') FROM item GROUP BY a WITH ROLLUP",
            "SELECT DISTINCT a FROM item",
        ],
    ),
    reads(
        "queries in queries",
        &[
            "SELECT id FROM item WHERE id IN (SELECT item FROM tag)",
            "SELECT id FROM item WHERE EXISTS (SELECT 1 FROM tag WHERE tag.item = item.id)",
            "SELECT (SELECT MAX(a) FROM item) AS m",
            "SELECT x.a FROM (SELECT a FROM item) AS x",
            "SELECT id FROM item WHERE a > ALL (SELECT 0) AND a >= ANY (SELECT 1)",
        ],
    ),
    reads(
        "common table expressions",
        &[
            "WITH x AS (SELECT a FROM item) SELECT * FROM x",
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5)
             SELECT * FROM n",
        ],
    ),
    reads(
        "unions",
        &[
            "SELECT a FROM item UNION SELECT item FROM tag",
            "(SELECT a FROM item) UNION ALL (SELECT 1) ORDER BY 1 LIMIT 2",
            "SELECT a FROM item EXCEPT SELECT 1",
            "SELECT a FROM item INTERSECT SELECT 1",
        ],
    ),
    reads(
        "windows",
        &[
            "SELECT ROW_NUMBER() OVER (ORDER BY id), RANK() OVER w FROM item WINDOW w AS (ORDER BY a)",
            "SELECT SUM(a) OVER (PARTITION BY s ROWS UNBOUNDED PRECEDING) FROM item",
            "SELECT LAG(a) OVER (ORDER BY id), NTILE(2) OVER (ORDER BY id) FROM item",
        ],
    ),
    reads(
        "functions with words of their own",
        &[
            "SELECT CAST(a AS CHAR(10)), CAST('1' AS DECIMAL(10, 2)), CONVERT(s USING utf8mb4) FROM item",
            "SELECT EXTRACT(DAY FROM '2024-05-06'), DATE_ADD('2024-05-06', INTERVAL 1 DAY)",
            "SELECT TRIM(BOTH 'x' FROM 'xax'), SUBSTRING('abc' FROM 2 FOR 1), POSITION('b' IN 'abc')",
            "SELECT TIMESTAMPADD(DAY, 1, '2024-05-06'), GET_FORMAT(DATE, 'ISO'), CHAR(65 USING utf8mb4)",
            "SELECT IF(1, 2, 3), INTERVAL(2, 1, 3), LEFT('a', 1) FROM item",
            "SELECT BINARY 'a', s COLLATE utf8mb4_bin FROM item",
            "SELECT CURRENT_DATE, CURRENT_TIMESTAMP(3), UTC_TIME, CURRENT_USER, LOCALTIME",
        ],
    ),
    reads(
        "json as a table",
        &["SELECT x.v FROM item, JSON_TABLE(item.j, '$[*]' COLUMNS (v INT PATH '$')) AS x"],
    ),
    reads(
        "options of SELECT",
        &["SELECT SQL_SMALL_RESULT SQL_BUFFER_RESULT HIGH_PRIORITY a FROM item"],
    ),
    reads(
        "what describes schemas",
        &[
            "SHOW TABLES",
            "SHOW FULL TABLES LIKE 'i%'",
            "SHOW COLUMNS FROM item",
            "SHOW FULL COLUMNS FROM item WHERE Field = 'a'",
            "SHOW INDEX FROM item",
            "SHOW CREATE TABLE item",
            "SHOW TABLE STATUS LIKE 'item'",
            "SHOW DATABASES",
            "SHOW TRIGGERS",
            "SHOW EVENTS",
            "SHOW PROCEDURE STATUS",
            "SHOW FUNCTION STATUS",
            "SHOW COLLATION LIKE 'utf8mb4_bin'",
            "SHOW CHARACTER SET",
            "DESCRIBE item",
            "DESC item a",
            "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
        ],
    ),
    reads(
        "plans",
        &[
            "EXPLAIN SELECT * FROM item WHERE a = 1",
            "EXPLAIN FORMAT=JSON SELECT * FROM item JOIN tag ON item.id = tag.item",
            "DESCRIBE SELECT 1",
        ],
    ),
    reads("help", &["HELP 'SELECT'"]),
    of_mariadb(
        "rows of values",
        &["VALUES (1, 2), (3, 4)", "SELECT * FROM item OFFSET 0 ROWS FETCH NEXT 1 ROW ONLY"],
    ),
    of_mariadb(
        "a plan that is run",
        &["ANALYZE SELECT a FROM item", "ANALYZE FORMAT=JSON SELECT 1"],
    ),
    of_mysql(
        "rows of values and tables",
        &["VALUES ROW(1, 2), ROW(3, 4)", "TABLE item", "TABLE item ORDER BY id LIMIT 1"],
    ),
    of_mysql("functions with words of their own", &["SELECT VALUES(a), DEFAULT(a) FROM item"]),
    of_mysql(
        "derived tables of the row before",
        &["SELECT * FROM item, LATERAL (SELECT item.a + 1 AS b) AS x"],
    ),
    of_mysql("a plan that is run", &["EXPLAIN ANALYZE SELECT a FROM item"]),
    of_mysql("an element of an array", &["SELECT 1 MEMBER OF ('[1, 2]')"]),
    writes(
        "new rows",
        &[
            "INSERT INTO item (a, s) VALUES (5, 'five')",
            "INSERT INTO tag VALUES (1, 'x'), (2, 'y')",
            "INSERT INTO tag SET item = 1, name = 'z'",
            "INSERT INTO tag SELECT id, s FROM item",
            "INSERT IGNORE INTO item (id) VALUES (1)",
            "INSERT INTO item (id, a) VALUES (1, 7) ON DUPLICATE KEY UPDATE a = a + 1",
            "REPLACE INTO item (id, a) VALUES (3, 1)",
        ],
    ),
    writes(
        "changed rows",
        &[
            "UPDATE item SET a = a + 1 WHERE id = 1",
            "UPDATE item JOIN tag ON item.id = tag.item SET a = 1, name = 'n'",
            "UPDATE item SET a = 1 ORDER BY id LIMIT 1",
        ],
    ),
    writes(
        "deleted rows",
        &[
            "DELETE FROM tag WHERE item = 2",
            "DELETE tag FROM tag JOIN item ON item.id = tag.item WHERE a > 100",
            "DELETE FROM tag LIMIT 1",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        analysis::{Access, analyse},
        version::ServerVersion,
    };

    #[test]
    fn every_form_is_judged_as_it_is_claimed() {
        for (is_mariadb, version) in [(false, (9, 7)), (true, (10, 11)), (true, (11, 8))] {
            let version = ServerVersion::new(version.0, version.1);
            let modes = Modes { flavor_mariadb: is_mariadb, version, ..Modes::default() };
            for form in FORMS.iter().filter(|form| form.family.has(is_mariadb)) {
                for text in form.examples {
                    let analysis = analyse(text.as_bytes(), &modes);
                    let expected = match form.leaves {
                        Leaves::Nothing => Access::CertainlyReads,
                        Leaves::Rows => Access::MayWrite,
                    };
                    assert_eq!(analysis.access, expected, "{text}: {analysis:?}");
                    assert!(analysis.effects.is_empty(), "{text}: {analysis:?}");
                    assert!(analysis.depends.is_empty(), "{text}: {analysis:?}");
                }
            }
        }
    }

    #[test]
    fn functions_are_those_of_the_server() {
        let modes = |version| Modes { flavor_mariadb: true, version, ..Modes::default() };
        let old: Vec<_> = functions(&modes(ServerVersion::new(10, 11))).collect();
        let new: Vec<_> = functions(&modes(ServerVersion::new(11, 8))).collect();
        assert!(old.len() > 300 && old.contains(&"ABS") && !old.contains(&"FROM"));
        assert!(new.contains(&"UUID_V7") && !old.contains(&"UUID_V7"));
    }
}
