//! What servers' dictionaries say of the world's names, to the questions that the control plane
//! asks (`trunkline_catalog::Inquiry`). All servers say the same. Temporary tables are in none.

use trunkline_catalog::{Query, Row};
use trunkline_protocol::packet::greeting::Flavor;

use crate::statement::Schema;

/// Tables with a number in their name, as far as clients use them.
const NUMBERS: std::ops::Range<u8> = 0..8;

/// The dictionary of every server of a world.
#[derive(Debug, Clone, Copy)]
pub struct Dictionary {
    /// Whose dialect it is written in.
    pub flavor: Flavor,
    /// Nobody is shown triggers and the definitions of views.
    pub hides_definitions: bool,
}

/// One part of a question: of one schema.
struct Part<'a> {
    /// What the rows begin with, MariaDB's way: the number of the name.
    key: &'a str,
    /// The table of `information_schema`.
    from: &'a str,
    schema: Vec<u8>,
    tables: Vec<Vec<u8>>,
}

impl Dictionary {
    /// The rows that answer a question.
    pub fn answer(&self, sql: &str) -> Vec<Row> {
        if sql == Query::grants(self.flavor == Flavor::MariaDb).sql() {
            return vec![vec![Some(self.grants().as_bytes().to_vec())]];
        }
        let parts = sql.split(" UNION ALL ").filter_map(part);
        parts.flat_map(|part| self.answer_part(&part)).collect()
    }

    fn grants(&self) -> &'static str {
        match self.hides_definitions {
            false => "GRANT ALL PRIVILEGES ON *.* TO `app`@`%`",
            true => "GRANT SELECT, INSERT, UPDATE, DELETE ON *.* TO `app`@`%`",
        }
    }

    fn answer_part(&self, part: &Part<'_>) -> Vec<Row> {
        let schema = Schema::from_name(&part.schema);
        if !matches!(schema, Schema::Shop | Schema::Depot) {
            return Vec::new();
        }
        let row = |table: &Vec<u8>| {
            let name = std::str::from_utf8(table).ok()?;
            let values = match part.from {
                "TABLES" => tables(name)?.map(str::to_owned).to_vec(),
                "VIEWS" => vec![self.view(name, schema)?],
                "TRIGGERS" => {
                    let modes = ["STRICT_TRANS_TABLES".to_owned(), "utf8mb4".to_owned()];
                    [self.trigger(name)?].into_iter().chain(modes).collect()
                }
                // No column computes anything.
                _ => return None,
            };
            let heads = match self.flavor {
                Flavor::MariaDb => vec![part.key.to_owned()],
                Flavor::MySql => vec![schema.name().to_owned(), name.to_owned()],
            };
            let cells = heads.into_iter().chain(values);
            Some(cells.map(|cell| Some(cell.into_bytes())).collect())
        };
        part.tables.iter().filter_map(row).collect()
    }

    fn view(&self, name: &str, schema: Schema) -> Option<String> {
        let schema = schema.name();
        let n = format!("`{schema}`.`numbers`.`n`");
        (name == "audited").then(|| match self.hides_definitions {
            true => String::new(),
            false => {
                format!("select {n} AS `n`,`{schema}`.`note`({n}) AS `v` from `{schema}`.`numbers`")
            }
        })
    }

    fn trigger(&self, name: &str) -> Option<String> {
        if self.hides_definitions {
            return None;
        }
        let (kind, number) = numbered(name)?;
        let signals = |text: &str| format!("SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{text}'");
        let notes = "INSERT INTO log (v) VALUES (NEW.v)";
        let body = match kind {
            "marked" => format!("SET @u{number} = NEW.v; {notes};"),
            "refused" => format!("SET @u{number} = NEW.v; {};", signals("refused")),
            "guarded" => format!(
                "IF GET_LOCK('l{number}', 0) <> 1 THEN {}; END IF; {notes};",
                signals("taken")
            ),
            _ => return None,
        };
        Some(format!("BEGIN {body} END"))
    }
}

/// The kind and engine of what has this name; `None` where nothing has.
fn tables(name: &str) -> Option<[&'static str; 2]> {
    match name {
        "kv" | "log" | "numbers" => Some(["BASE TABLE", "InnoDB"]),
        "audited" => Some(["VIEW", ""]),
        // Their rows are nobody's: only what their triggers do is to be seen.
        _ => numbered(name).map(|_| ["BASE TABLE", "BLACKHOLE"]),
    }
}

/// A table with triggers: its kind, and its number.
fn numbered(name: &str) -> Option<(&str, u8)> {
    let (kind, number) = name.split_at_checked(name.len().checked_sub(1)?)?;
    let number = number.parse().ok().filter(|number| NUMBERS.contains(number))?;
    matches!(kind, "marked" | "refused" | "guarded").then_some((kind, number))
}

/// Reads `SELECT key, … FROM information_schema.TABLE WHERE … = _utf8mb4 0x… AND … 0x…`.
fn part(text: &str) -> Option<Part<'_>> {
    let (head, rest) = text.split_once(" FROM information_schema.")?;
    let key = head.strip_prefix("SELECT ")?.split(',').next()?;
    let (from, rest) = rest.split_once(' ')?;
    let literals = rest.split("0x").skip(1).map(|text| {
        let digits = text.split(|byte: char| !byte.is_ascii_hexdigit()).next();
        unhex(digits.unwrap_or_default())
    });
    let mut literals = literals.collect::<Vec<_>>().into_iter();
    Some(Part { key, from, schema: literals.next()?, tables: literals.collect() })
}

fn unhex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.filter_map(byte).collect()
}

#[cfg(test)]
mod tests {
    use trunkline_catalog::{Hidden, Inquiry, Kind, Name, Object};
    use trunkline_topology::HostgroupId;

    use super::*;

    fn object(dictionary: Dictionary, table: &str) -> Option<Object> {
        let name = Name {
            group: HostgroupId(10),
            schema: (*b"shop").into(),
            table: table.as_bytes().into(),
        };
        let is_mariadb = dictionary.flavor == Flavor::MariaDb;
        let mut inquiry = Inquiry::new(vec![name], is_mariadb);
        while let Some(query) = inquiry.next_query() {
            let rows = dictionary.answer(query.sql());
            inquiry.answer(&query, &rows);
        }
        inquiry.finish().into_iter().find_map(|(_, told)| told.object)
    }

    #[test]
    fn the_catalog_judges_the_worlds_names_as_they_are() {
        for flavor in [Flavor::MariaDb, Flavor::MySql] {
            let shown = Dictionary { flavor, hides_definitions: false };
            let hidden = Dictionary { flavor, hides_definitions: true };
            for table in ["kv", "log", "numbers"] {
                assert_eq!(object(shown, table), Some(Object::PLAIN_TABLE), "{table}");
                let object = object(hidden, table).expect("it is there");
                assert_eq!((object.reading, object.writing), (Hidden::empty(), Hidden::UNKNOWN));
            }
            let view = object(shown, "audited").expect("it is there");
            let opaque = Hidden::OPAQUE | Hidden::DEFINED;
            assert_eq!((view.kind, view.reading), (Kind::View, opaque));
            let view = object(hidden, "audited").expect("it is there");
            assert_eq!(view.reading, Hidden::OPAQUE);
            for table in ["marked0", "refused1", "guarded4"] {
                let shown = object(shown, table).expect("it is there");
                assert!(shown.reading.is_empty() && shown.writing.has(Hidden::STAYS), "{table}");
                let hidden = object(hidden, table).expect("it is there");
                assert!(hidden.writing.has(Hidden::UNKNOWN), "{table}");
            }
            for table in ["missing", "tmp0", "marked9", "m"] {
                assert_eq!(object(shown, table), None, "{table}");
            }
        }
    }
}
