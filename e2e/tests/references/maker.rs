//! Statements made by chance, of all places where a table may stand.

use trunkline_sql::token::{Modes, Tokens};

/// Statements that are easily forgotten.
pub const FIXED: [&str; 40] = [
    "SELECT 1 FROM t1 window, t2",
    "SELECT 1 FROM t1 offset, t2",
    "SELECT 1 FROM t1 returning, t2",
    "SELECT 1 FROM t1 lateral, t2",
    "SELECT 1 FROM t1 duplicate JOIN t2 ON duplicate.a = 1, t3",
    "SELECT 1 FROM t1 JOIN t2 ON EXISTS (SELECT 1 FROM t3, t4), next",
    "SELECT 1 FROM (t1, t2) JOIN ((t3)) ON 1",
    "SELECT 1 FROM `dual`",
    "SELECT 1 FROM dual",
    "SELECT 1 FROM t1 USE INDEX FOR JOIN (PRIMARY), t2",
    "SELECT 1 FROM t1 IGNORE INDEX FOR ORDER BY (PRIMARY) USE INDEX FOR GROUP BY (), t2",
    "SELECT 1 FROM t2 FOR SYSTEM_TIME ALL, t1",
    "SELECT 1 FROM t2 FOR SYSTEM_TIME FROM '2020-01-01' TO NOW(), t1",
    "SELECT 1 FROM t2 FOR SYSTEM_TIME AS OF NOW() AS x JOIN t1 ON x.a, t3",
    "SELECT 1 FROM t4 PARTITION (p0, p1) x, t1",
    "SELECT 1 FROM t4 PARTITION (p0) JOIN t1 USING (a, b), t2",
    "SELECT 1 FROM t1 WINDOW w AS (ORDER BY a), v AS (w)",
    "SELECT SUM(1) OVER w FROM t1 WINDOW w AS (ORDER BY (SELECT 1 FROM t2 LIMIT 1))",
    "SELECT TRIM((SELECT a FROM t1 LIMIT 1) FROM (SELECT b FROM t2 LIMIT 1)) FROM t3",
    "SELECT SUBSTRING('abc' FROM 1 FOR (SELECT 1 FROM t1 LIMIT 1)), t2.a FROM t2",
    "SELECT 1 FROM {OJ t1 LEFT OUTER JOIN t2 ON 1}",
    "SELECT {d '2020-01-01'} FROM t1",
    "SELECT 1 FROM t1 WHERE a IN (TABLE t2)",
    "TABLE t1 UNION TABLE t2",
    "VALUES ROW(1), ROW((SELECT 1 FROM t1 LIMIT 1))",
    "VALUES (1), ((SELECT 1 FROM t1 LIMIT 1))",
    "SELECT 1 FROM JSON_TABLE((SELECT '[1]' FROM t1 LIMIT 1), '$' COLUMNS (a INT PATH '$')) j",
    "SELECT 1 FROM t1, LATERAL (SELECT 1 FROM t2 WHERE t2.a = t1.a) d",
    "DELETE x FROM t1 AS x JOIN t2",
    "DELETE FROM x USING t1 AS x, t2",
    "DELETE FROM x.* USING (t1 AS x JOIN t2) WHERE 1",
    "UPDATE (t1, t2 x) SET x.b = 1",
    "INSERT INTO t1 (SELECT 7, 7 FROM t2) UNION SELECT 8, 8 FROM t3",
    "INSERT INTO t1 SELECT 9, 9 FROM t2 JOIN t3 ON DUPLICATE KEY UPDATE b = (SELECT 1 FROM t4)",
    "INSERT INTO t1 TABLE t2",
    "INSERT INTO t1 WITH t2 AS (SELECT 3, 4 FROM t3) SELECT * FROM t2",
    "WITH t1 AS (SELECT * FROM t1) SELECT * FROM t1",
    "WITH RECURSIVE t1 AS (SELECT * FROM t1) SELECT * FROM t1",
    "WITH t1 AS (SELECT 1 FROM t2), t2 AS (SELECT 1 FROM t1) SELECT 1 FROM t2",
    "SHOW TABLES WHERE EXISTS (SELECT 1 FROM t1, t2)",
];

const SOUP: [&str; 60] = [
    "SELECT",
    "FROM",
    "JOIN",
    "LEFT JOIN",
    "STRAIGHT_JOIN",
    "NATURAL",
    "CROSS",
    "INNER",
    "OUTER",
    "WHERE",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "LIMIT",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "ALL",
    "DISTINCT",
    "WITH",
    "RECURSIVE",
    "AS",
    "ON",
    "USING",
    "VALUES",
    "TABLE",
    "LATERAL",
    "DUAL",
    "WINDOW",
    "w",
    "OVER",
    "FOR",
    "UPDATE",
    "SHARE",
    "OF",
    "SYSTEM_TIME",
    "PARTITION",
    "INTO",
    "@x",
    "(",
    ")",
    "()",
    ",",
    ",",
    ".",
    "*",
    "1",
    "a",
    "x1",
    "t1",
    "t2",
    "t3",
    "next",
    "offset",
    "value",
    "duplicate",
    "RETURNING",
    "USE INDEX",
    "IS NOT",
    "EXISTS",
];

pub struct Maker {
    chance: u64,
    is_mariadb: bool,
    schema: String,
    /// The common table expressions that may be named.
    expressions: Vec<String>,
    aliases: usize,
    depth: usize,
}

impl Maker {
    pub fn new(seed: u64, is_mariadb: bool, schema: &str) -> Self {
        Self {
            chance: 0x9E37_79B9_7F4A_7C15 ^ (seed << 20),
            is_mariadb,
            schema: schema.to_owned(),
            expressions: Vec::new(),
            aliases: 0,
            depth: 0,
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        usize::try_from(self.chance % limit as u64).unwrap_or_default()
    }

    fn pick<'b>(&mut self, of: &[&'b str]) -> &'b str {
        of[self.below(of.len())]
    }

    fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    /// The text, or nothing.
    fn maybe(&mut self, text: &str) -> String {
        if self.one_in(2) { String::new() } else { text.to_owned() }
    }

    /// One statement.
    pub fn text(&mut self) -> String {
        self.expressions.clear();
        self.depth = 0;
        match self.below(16) {
            0..=5 => self.query(),
            6 => format!("({})", self.query()),
            7 => self.insert(),
            8 => self.update(),
            9 => self.delete(),
            10 => {
                let explain = match self.is_mariadb {
                    true => ["EXPLAIN", "EXPLAIN EXTENDED", "ANALYZE", "ANALYZE FORMAT=JSON"],
                    false => ["EXPLAIN", "DESC", "EXPLAIN ANALYZE", "EXPLAIN FORMAT=JSON"],
                };
                format!("{} {}", self.pick(&explain), self.query())
            }
            11 => format!("DO {}, {}", self.expression(), self.expression()),
            12 => format!("SET @x = {}, @y = {}", self.expression(), self.expression()),
            13 => {
                // MariaDB loses the schema, and itself, where common table expressions are here.
                self.depth = 4;
                format!("SHOW TABLES WHERE {}", self.expression())
            }
            14 if self.is_mariadb => {
                format!("SET STATEMENT max_statement_time = 5 FOR {}", self.query())
            }
            _ => self.query(),
        }
    }

    /// A statement with a few of its tokens changed.
    pub fn variant(&mut self, text: &str, modes: &Modes) -> String {
        let mut pieces: Vec<String> = Tokens::new(text.as_bytes(), modes)
            .map(|token| String::from_utf8_lossy(token.text).into_owned())
            .collect();
        for _ in 0..=self.below(3) {
            let place = self.below(pieces.len().max(1));
            let piece = self.pick(&SOUP).to_owned();
            match self.below(4) {
                0 if pieces.len() > 1 => drop(pieces.remove(place)),
                1 if pieces.len() > 1 => {
                    let other = self.below(pieces.len());
                    pieces.swap(place, other);
                }
                2 => pieces.insert(place, piece),
                _ => match pieces.get_mut(place) {
                    Some(old) => *old = piece,
                    None => pieces.push(piece),
                },
            }
        }
        pieces.join(" ")
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        let name = match self.below(12) {
            0 => "window".to_owned(),
            1 => "returning".to_owned(),
            2 => "offset".to_owned(),
            3 => "`from`".to_owned(),
            4 => "value".to_owned(),
            _ => format!("x{}", self.aliases),
        };
        format!("{}{name}", self.pick(&["", "AS ", " "]))
    }

    fn table(&mut self) -> String {
        let schema = self.schema.clone();
        let name = self.pick(&["t1", "t2", "t3", "t4", "next", "value", "duplicate"]);
        match self.below(10) {
            0 => format!("`{}`", self.pick(&["offset", "json_table", "lateral", "dual", name])),
            1 => format!("{schema}.{name}"),
            2 => format!("`{schema}` . `{name}`"),
            3 => format!("{schema}./* c */{name}"),
            _ => name.to_owned(),
        }
    }

    /// What may stand behind a table's name.
    fn suffixes(&mut self) -> String {
        let alias = self.alias();
        let hint = self.pick(&[
            "USE INDEX (PRIMARY)",
            "FORCE INDEX FOR JOIN (PRIMARY)",
            "IGNORE KEY FOR ORDER BY (PRIMARY)",
            "USE INDEX ()",
        ]);
        let hint = if self.one_in(5) { hint } else { "" };
        let alias = if self.one_in(5) { String::new() } else { alias };
        format!("{alias} {hint}")
    }

    fn factor(&mut self) -> String {
        let leaf = self.depth > 4;
        match self.below(if leaf { 6 } else { 14 }) {
            0..=3 => format!("{} {}", self.table(), self.suffixes()),
            4 if self.is_mariadb => format!("t2 FOR SYSTEM_TIME ALL {}", self.suffixes()),
            4 => format!("t4 PARTITION (p0) {}", self.suffixes()),
            5 => match self.expressions.last().cloned() {
                Some(name) => format!("{name} {}", self.alias()),
                None => self.table(),
            },
            6 | 7 => format!("({}) {}", self.query(), self.alias()),
            8 => format!("(({}) UNION {}) {}", self.simple(), self.simple(), self.alias()),
            9 => format!("({})", self.list()),
            10 => format!("({}) {}", self.join(), ""),
            11 if !self.is_mariadb => {
                format!("LATERAL ({}) {} (c1)", self.simple(), self.alias())
            }
            12 => format!(
                "JSON_TABLE({}, '$[*]' COLUMNS (n FOR ORDINALITY, c INT PATH '$' DEFAULT '1' ON \
                 EMPTY)) {}",
                self.expression(),
                self.alias()
            ),
            _ => self.join(),
        }
    }

    fn join(&mut self) -> String {
        self.depth += 1;
        let (left, right) = (self.factor(), self.factor());
        let condition = self.expression();
        self.depth -= 1;
        match self.below(5) {
            0 => format!("{left} CROSS JOIN {right}"),
            1 => format!("{left} STRAIGHT_JOIN {right} ON {condition}"),
            2 => format!("{left} NATURAL LEFT JOIN {right}"),
            3 => format!("{left} RIGHT OUTER JOIN {right} ON {condition}"),
            _ => format!("{left} JOIN {right} ON {condition}"),
        }
    }

    fn list(&mut self) -> String {
        self.depth += 1;
        let count = 1 + self.below(3);
        let factors: Vec<String> = (0..count).map(|_| self.factor()).collect();
        self.depth -= 1;
        factors.join(self.pick(&[", ", ",", " , "]))
    }

    fn expression(&mut self) -> String {
        self.depth += 1;
        let text = match self.below(if self.depth > 5 { 6 } else { 15 }) {
            0..=2 => "1".to_owned(),
            3 => "LEFT('from', 1)".to_owned(),
            4 => "EXTRACT(YEAR FROM '2020-01-01')".to_owned(),
            5 => "'a, t1'".to_owned(),
            6 => format!("({})", self.simple()),
            7 => format!("EXISTS ({})", self.query()),
            8 => format!("{} IN ({})", self.expression(), self.simple()),
            9 => format!("TRIM(BOTH {} FROM {})", self.expression(), self.expression()),
            10 => format!("SUBSTRING({} FROM 1 FOR {})", self.expression(), self.expression()),
            11 => format!("CASE WHEN {} THEN 1 ELSE {} END", self.expression(), self.expression()),
            12 if !self.is_mariadb => format!("1 = ANY (TABLE {})", self.table()),
            12 => format!("{}(seq)", self.pick(&["NEXTVAL", "LASTVAL ", "nextval"])),
            13 if self.is_mariadb => "NEXT VALUE FOR seq".to_owned(),
            13 => format!("({}) = ({})", self.simple(), self.simple()),
            _ => format!("CONCAT({}, CONVERT({} USING utf8mb4))", self.simple_value(), "'x'"),
        };
        self.depth -= 1;
        text
    }

    fn simple_value(&mut self) -> String {
        format!("(({}))", self.simple())
    }

    /// `SELECT` of one column.
    fn simple(&mut self) -> String {
        self.depth += 1;
        let item = self.expression();
        let option = self.pick(&["", "", "DISTINCT ", "STRAIGHT_JOIN ", "ALL "]);
        let mut text = format!("SELECT {option}{item}");
        if self.below(5) > 0 {
            text.push_str(&format!(" FROM {}", self.list()));
            if self.one_in(3) {
                text.push_str(&format!(" WHERE {}", self.expression()));
            }
            if self.one_in(5) {
                text.push_str(" GROUP BY 1");
                text.push_str(&self.maybe(" WITH ROLLUP"));
            }
            if self.one_in(6) {
                text.push_str(&format!(" HAVING {}", self.expression()));
            }
            if self.one_in(6) {
                text.push_str(" WINDOW w AS (ORDER BY 1), v AS (PARTITION BY 1)");
            }
        }
        if self.one_in(5) {
            text.push_str(&format!(" ORDER BY {}", self.expression()));
        }
        if self.one_in(2) {
            text.push_str(" LIMIT 1");
        }
        self.depth -= 1;
        text
    }

    fn query(&mut self) -> String {
        self.depth += 1;
        let visible = self.expressions.len();
        let with = if self.depth < 4 && self.one_in(4) { self.with() } else { String::new() };
        let mut text = match self.below(8) {
            0 if !self.is_mariadb => format!("TABLE {}", self.table()),
            1 => format!("({}) UNION ALL ({})", self.simple(), self.simple()),
            2 => format!("({}) EXCEPT ({}) LIMIT 1", self.simple(), self.simple()),
            3 if self.is_mariadb => format!("VALUES ({})", self.expression()),
            3 => format!("VALUES ROW({})", self.expression()),
            _ => self.simple(),
        };
        if self.depth == 1 && self.one_in(5) {
            text.push_str(self.pick(&[" FOR UPDATE", " LOCK IN SHARE MODE", " INTO @x"]));
        }
        self.expressions.truncate(visible);
        self.depth -= 1;
        format!("{with}{text}")
    }

    fn with(&mut self) -> String {
        let recursive = self.pick(&["", "", "RECURSIVE "]);
        let count = 1 + self.below(2);
        let definitions: Vec<String> = (0..count)
            .map(|number| {
                // Some hide a table.
                let names = [["y1", "t1"], ["y2", "next"]];
                let name = self.pick(&names[number]);
                let columns = self.pick(&["", " (c1)"]);
                let text = format!("{name}{columns} AS ({})", self.query());
                self.expressions.push(name.to_owned());
                text
            })
            .collect();
        format!("WITH {recursive}{} ", definitions.join(", "))
    }

    fn insert(&mut self) -> String {
        let verb = self.pick(&["INSERT", "INSERT INTO", "INSERT IGNORE INTO", "REPLACE INTO"]);
        let table = self.table();
        let columns = self.pick(&["(b)", "(b) ", "( b )"]);
        let mut text = match self.below(6) {
            0 => format!("{verb} {table} SET b = {}", self.expression()),
            1 => format!("{verb} {table} {columns} VALUES ({})", self.expression()),
            2 => format!("{verb} {table} {columns} ({})", self.simple()),
            3 => format!("{verb} {table} (a, b) SELECT 5, 6 FROM {}", self.list()),
            _ => format!("{verb} {table} {columns} {}", self.query()),
        };
        if verb.starts_with("INSERT") && self.one_in(3) {
            text.push_str(&format!(" ON DUPLICATE KEY UPDATE b = {}, a = 9", self.expression()));
        }
        if self.is_mariadb && self.one_in(3) {
            text.push_str(&format!(" RETURNING 1, {}", self.expression()));
        }
        text
    }

    fn update(&mut self) -> String {
        let with = if self.is_mariadb { String::new() } else { self.maybe_with() };
        match self.one_in(2) {
            true => format!(
                "{with}UPDATE {} {} SET b = {} WHERE {} ORDER BY 1, 2 LIMIT 1",
                self.table(),
                self.alias(),
                self.expression(),
                self.expression()
            ),
            false => format!(
                "{with}UPDATE {}, {} SET {}b = {}",
                format_args!("{} u", self.table()),
                self.list(),
                "u.",
                self.expression()
            ),
        }
    }

    fn maybe_with(&mut self) -> String {
        if self.one_in(3) { self.with() } else { String::new() }
    }

    fn delete(&mut self) -> String {
        let with = if self.is_mariadb { String::new() } else { self.maybe_with() };
        let (table, list) = (self.table(), self.list());
        match self.below(4) {
            0 => format!("{with}DELETE FROM {table} WHERE {}", self.expression()),
            1 => format!("{with}DELETE u FROM {table} AS u, {list} WHERE {}", self.expression()),
            2 => format!("{with}DELETE FROM u USING {table} u JOIN {list}"),
            _ if self.is_mariadb => {
                format!("DELETE FROM {table} RETURNING 1, {}", self.expression())
            }
            _ => format!("{with}DELETE FROM {table} AS u WHERE u.a ORDER BY a, b LIMIT 1"),
        }
    }
}
