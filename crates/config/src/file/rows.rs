//! A file as rows of the admin port's tables, for a database that begins with it.

use std::borrow::Cow;

use super::{
    Fields, FileSource, SECTIONS, Section, entries_of, parse_text,
    report::{Report, Text},
    setting_names,
};
use crate::{
    ConfigError, Settings, Subject,
    error::ErrorKind,
    settings::Given,
    variable::{self, quoted, value_of},
};

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRow {
    /// Its table.
    pub table: &'static str,
    /// Its columns that are not left to their defaults: numbers, flags as numbers, and texts.
    pub values: Fields,
}

/// Reads a valid file as rows.
///
/// # Errors
/// Those of [`super::parse`], and one for each value that no table can hold.
pub fn table_rows(
    text: &str,
    source_name: &str,
    files: &dyn FileSource,
) -> Result<Vec<TableRow>, Vec<ConfigError>> {
    let text = Text::read(source_name, text)?;
    let config = parse_text(&text, files)?;
    let settings = setting_names(&text.document);
    let mut rows: Vec<TableRow> =
        settings.iter().filter_map(|name| setting_row(name, &config.settings)).collect();
    let mut report = Report::new(&text);
    let mut notes = Vec::new();
    for section in &SECTIONS {
        for (index, fields) in entries_of(&text, section) {
            match section_rows(section, fields, files, &mut notes) {
                Ok(made) => rows.extend(made),
                Err((column, message)) => {
                    let subject = Subject::column(section.name, index, column);
                    report.add(ErrorKind::NotSupported, subject, message);
                }
            }
        }
    }
    report.finish()?;
    notes.into_iter().for_each(|note| note_in_settings(&mut rows, note));
    Ok(rows)
}

fn setting_row(name: &str, settings: &Settings) -> Option<TableRow> {
    let is_it = |row: &variable::Row| row.setting().is_some_and(|setting| setting.name == name);
    let row = variable::all().find(is_it)?;
    let value = match (name, &settings.state_file) {
        ("state_file", crate::StateFile::Path(path)) => path.display().to_string(),
        _ => value_of(row.setting()?, settings),
    };
    let text = |name: &'static str, value| (Cow::Borrowed(name), Given::Text(value));
    let values = vec![text("variable_name", row.name()), text("variable_value", value)];
    Some(TableRow { table: "global_variables", values })
}

/// What a column needs and no table can hold.
type Refused = (Cow<'static, str>, String);

/// Columns of a table without a default that a file may leave out.
fn needed(section: &Section) -> &'static [&'static str] {
    match section.name {
        "fast_routing" => &["comment"],
        "firewall_user" => &["username", "client_address", "comment"],
        "firewall_rule" => &["username", "client_address", "schemaname", "comment"],
        _ => &[],
    }
}

/// A writers' hostgroup, and what ProxySQL's tables have no place for but its settings: a member of
/// that JSON object.
type Note = (Given, &'static str);

/// Reads go to readers by themselves.
const SPLITS: &str = "\"read_write_split\":\"auto\"";
/// Servers stay where they are listed.
const IS_STATIC: &str = "\"check_type\":\"none\"";

/// The rows of one table of the file. What its own table can't hold is added to `notes`.
fn section_rows(
    section: &Section,
    fields: Fields,
    files: &dyn FileSource,
    notes: &mut Vec<Note>,
) -> Result<Vec<TableRow>, Refused> {
    let mut values = Fields::new();
    let mut backend = None;
    let mut splits = section.name == "replication";
    for (name, value) in fields {
        let refuse = |message| (name.clone(), message);
        let (bare, value) = match section.name {
            "user" => plain_password(&name, value, files).map_err(refuse)?,
            _ => (&*name, value),
        };
        match (bare, section.column(bare).and_then(|info| info.member_of)) {
            ("read_write_split", _) if section.name == "replication" => {
                splits = value == Given::Text("auto".to_owned())
            }
            ("backend_password", _) => backend = Some(value),
            (_, Some(column)) => add_member(&mut values, column, &member(bare, &value)),
            (_, None) => values.extend(columns(section, bare, value).map_err(refuse)?),
        }
    }
    let own = |values: &Fields, name: &str| {
        let found = values.iter().find(|(known, _)| known == name);
        found.map(|(name, value)| (name.clone(), value.clone()))
    };
    if section.name == "replication" {
        let is_static = own(&values, "check_type").is_none();
        let writer = own(&values, "writer_hostgroup").map(|(_, id)| id);
        let said = [(SPLITS, splits), (IS_STATIC, is_static)];
        for (member, _) in said.into_iter().filter(|(_, is_said)| *is_said) {
            notes.extend(writer.clone().map(|writer| (writer, member)));
        }
    }
    // What a file leaves out is not always what a table leaves out.
    if section.name == "rule" && own(&values, "active").is_none() {
        values.push((Cow::Borrowed("active"), Given::Integer(1)));
    }
    for name in needed(section) {
        if own(&values, name).is_none() {
            values.push((Cow::Borrowed(name), Given::Text(String::new())));
        }
    }
    let number = |name, number| (Cow::Borrowed(name), Given::Integer(number));
    let backend = backend.map(|password| {
        let shared = ["username", "default_hostgroup", "default_schema"];
        let shared = shared.iter().filter_map(|name| own(&values, name));
        let more = [number("frontend", 0), number("backend", 1)];
        shared.chain(more).chain([(Cow::Borrowed("password"), password)]).collect()
    });
    values.extend(backend.iter().map(|_: &Fields| number("backend", 0)));
    let rows = [values].into_iter().chain(backend);
    Ok(rows.map(|values| TableRow { table: section.table, values }).collect())
}

/// The texts of a list, with commas between them.
fn joined(items: &[Given]) -> String {
    let texts = items.iter().filter_map(|item| match item {
        Given::Text(text) => Some(text.as_str()),
        Given::Integer(_)
        | Given::Fraction(_)
        | Given::Boolean(_)
        | Given::List(_)
        | Given::Table(_)
        | Given::Other(_) => None,
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Puts a note into the row of its hostgroup, or into a row of its own.
fn note_in_settings(rows: &mut Vec<TableRow>, (hostgroup, member): Note) {
    let table = "mysql_hostgroup_attributes";
    let id = (Cow::Borrowed("hostgroup_id"), hostgroup);
    let known = rows.iter_mut().find(|row| row.table == table && row.values.contains(&id));
    let add = |values| add_member(values, "hostgroup_settings", member);
    match known {
        Some(row) => add(&mut row.values),
        None => {
            let mut values = vec![id];
            add(&mut values);
            rows.push(TableRow { table, values });
        }
    }
}

/// A password as the tables hold it, whichever key of the file gives it: what is in a file or in
/// the environment is read. Other keys are as they are.
fn plain_password<'n>(
    name: &'n str,
    value: Given,
    files: &dyn FileSource,
) -> Result<(&'n str, Given), String> {
    let bare = ["_file", "_env", "_hash"].iter().find_map(|end| name.strip_suffix(end));
    let Some(bare) = bare.filter(|bare| bare.ends_with("password")) else {
        return Ok((name, value));
    };
    let text = match value {
        Given::Text(path) if name.ends_with("_file") => {
            files.read(&path)?.trim_end_matches(['\n', '\r']).to_owned()
        }
        Given::Text(variable) if name.ends_with("_env") => {
            let text = files.environment(&variable);
            text.ok_or_else(|| format!("the environment has no `{variable}`"))?
        }
        value => return Ok((bare, value)),
    };
    Ok((bare, Given::Text(text)))
}

/// What ProxySQL's tables have no column for, as a member of one of its JSON columns.
fn member(name: &str, value: &Given) -> String {
    match value {
        Given::Text(text) => format!("\"{name}\":{}", quoted(text)),
        Given::Integer(number) => format!("\"{name}\":{number}"),
        Given::Fraction(number) => format!("\"{name}\":{number}"),
        Given::List(items) => {
            let items: Vec<String> = items
                .iter()
                .map(|item| match item {
                    Given::Text(text) => quoted(text),
                    _ => "null".to_owned(),
                })
                .collect();
            format!("\"{name}\":[{}]", items.join(","))
        }
        Given::Boolean(_) | Given::Table(_) | Given::Other(_) => {
            format!("\"{name}\":{}", *value == Given::Boolean(true))
        }
    }
}

/// Adds a member to the JSON object of a column.
fn add_member(values: &mut Fields, column: &'static str, member: &str) {
    match values.iter_mut().find(|(name, _)| name == column) {
        Some((_, Given::Text(object))) => match object.trim_end().strip_suffix('}') {
            Some(open) if open.trim_end().ends_with('{') => *object = format!("{open}{member}}}"),
            Some(open) => *object = format!("{open},{member}}}"),
            None => *object = format!("{{{member}}}"),
        },
        _ => values.push((Cow::Borrowed(column), Given::Text(format!("{{{member}}}")))),
    }
}

/// One key as columns.
fn columns(section: &Section, name: &str, value: Given) -> Result<Fields, String> {
    let value = match value {
        Given::Boolean(flag) => Given::Integer(i128::from(flag)),
        // Tables have no lists.
        Given::List(items) if section.name == "cluster" => Given::Text(joined(&items)),
        value => value,
    };
    let column = section.instead_of(name).or_else(|| section.column(name));
    let column = column.map_or_else(|| Cow::Owned(name.to_owned()), |it| Cow::Borrowed(it.name));
    let number = |column, number| Ok(vec![(Cow::Borrowed(column), Given::Integer(number))]);
    match (section.name, name, value) {
        ("server" | "server_ssl_params", "address", Given::Text(text)) => {
            let address = text.parse().map_err(|error| format!("`address` is wrong: {error}"))?;
            let (host, port) = match address {
                trunkline_topology::Address::Tcp { host, port } => (host, i128::from(port)),
                trunkline_topology::Address::Unix(path) => (path.display().to_string(), 0),
            };
            let port = (Cow::Borrowed("port"), Given::Integer(port));
            Ok(vec![(column, Given::Text(host)), port])
        }
        ("server", "compression", Given::Text(word)) => match word.as_str() {
            "off" => number("compression", 0),
            "zlib" => number("compression", 1),
            _ => {
                Err(format!("`compression` can't be `{word}` in mysql_servers, which has 0 and 1"))
            }
        },
        ("server", "tls" | "use_ssl", Given::Text(word)) => match word.as_str() {
            "disabled" => number("use_ssl", 0),
            _ => Err(format!(
                "`{name}` can't be `{word}` in mysql_servers, which has 0 and 1; the setting \
                 `ssl_p2s_mode` says what 1 means"
            )),
        },
        ("server", "rank" | "zone", _) => Err(format!(
            "mysql_servers has no column `{name}`: leave it out, or keep the servers in a file"
        )),
        ("user", "require", Given::Text(word)) => match word.as_str() {
            "none" => number("use_ssl", 0),
            "tls" => number("use_ssl", 1),
            _ => Err(format!("`require` can't be `{word}` in mysql_users, which has use_ssl")),
        },
        ("user", "require", _) => {
            Err("`require` can't be a table in mysql_users; write attributes there".to_owned())
        }
        (_, _, value) => Ok(vec![(column, value)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
        wait_timeout = 5
        listen = [\"127.0.0.1:6033\", \"unix:/tmp/p.sock\"]
        pipeline_depth_max = 8
        [[server]]
        hostgroup = 10
        address = \"[::1]:3307\"
        compression = \"zlib\"
        [[server]]
        hostgroup = 20
        address = \"unix:/run/m.sock\"
        [[replication]]
        writer_hostgroup = 10
        reader_hostgroup = 20
        [[hostgroup]]
        hostgroup_id = 10
        pipeline = 16
        comment = \"writers\"
        [[user]]
        name = \"app\"
        password_hash = \"*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19\"
        default_hostgroup = 10
        active = false
        [[user]]
        name = \"two\"
        password = \"p\"
        default_hostgroup = 10
        allow_from = [\"10.0.0.0/8\"]
        backend_user = \"b\"
        backend_password = \"q\"
        retained_password = \"old\"
        [[user]]
        name = \"pam\"
        default_hostgroup = 10
        server_checks_password = true
        [[tcp_listener]]
        address = \"127.0.0.1:3307\"
        hostgroup = 10
        balance = \"first\"
        rise = 3
        [[rule]]
        id = 1
        match_digest = \"^SELECT\"
        destination_hostgroup = 20
        attributes = \"{}\"
        pipeline = \"off\"
        shadow = true
        ";

    fn row(rows: &[TableRow], table: &str, index: usize) -> String {
        let row = rows.iter().filter(|row| row.table == table).nth(index).expect(table);
        let pairs = row.values.iter().map(|(name, value)| match value {
            Given::Integer(number) => format!("{name}={number}"),
            Given::Text(text) => format!("{name}='{text}'"),
            other => panic!("{other:?}"),
        });
        let mut pairs: Vec<String> = pairs.collect();
        pairs.sort();
        pairs.join(" ")
    }

    #[test]
    fn a_file_becomes_rows_of_the_tables() {
        let no_files = |_: &str| Err("no files here".to_owned());
        let rows = table_rows(FILE, "test.toml", &no_files).expect("valid");
        let check = |table: &str, index: usize, expected: &str| {
            assert_eq!(row(&rows, table, index), expected);
        };
        check("mysql_servers", 0, "compression=1 hostgroup_id=10 hostname='::1' port=3307");
        check("mysql_servers", 1, "hostgroup_id=20 hostname='/run/m.sock' port=0");
        check("mysql_replication_hostgroups", 0, "reader_hostgroup=20 writer_hostgroup=10");
        check(
            "mysql_hostgroup_attributes",
            0,
            "comment='writers' hostgroup_id=10 \
             hostgroup_settings='{\"pipeline\":16,\"read_write_split\":\"auto\",\
             \"check_type\":\"none\"}'",
        );
        check(
            "mysql_users",
            0,
            "active=0 default_hostgroup=10 \
             password='*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19' username='app'",
        );
        check(
            "mysql_users",
            1,
            "attributes='{\"allow_from\":[\"10.0.0.0/8\"],\"backend_user\":\"b\",\
             \"retained_password\":\"old\"}' backend=0 default_hostgroup=10 password='p' \
             username='two'",
        );
        check(
            "mysql_users",
            2,
            "backend=1 default_hostgroup=10 frontend=0 password='q' username='two'",
        );
        check(
            "mysql_users",
            3,
            "attributes='{\"server_checks_password\":true}' default_hostgroup=10 \
             username='pam'",
        );
        check(
            "trunkline_tcp_listeners",
            0,
            "address='127.0.0.1:3307' balance='first' hostgroup=10 rise=3",
        );
        check(
            "mysql_query_rules",
            0,
            "active=1 attributes='{\"pipeline\":\"off\",\"shadow\":true}' \
             destination_hostgroup=20 match_digest='^SELECT' rule_id=1",
        );
        let variables: Vec<String> =
            (0..3).map(|index| row(&rows, "global_variables", index)).collect();
        for expected in [
            "variable_name='mysql-wait_timeout' variable_value='5'",
            "variable_name='mysql-interfaces' variable_value='127.0.0.1:6033;/tmp/p.sock'",
            "variable_name='trunkline-pipeline_depth_max' variable_value='8'",
        ] {
            assert!(variables.iter().any(|row| row == expected), "{expected} in {variables:?}");
        }
    }

    #[test]
    fn what_no_table_can_hold_is_named_with_its_place() {
        let no_files = |_: &str| Err("no files here".to_owned());
        let text = FILE.replace("\"zlib\"", "\"zstd\"");
        let errors = table_rows(&text, "test.toml", &no_files).expect_err("refused");
        let first = errors[0].to_string();
        assert!(first.starts_with("test.toml:8:9: `compression` can't be `zstd`"), "{first}");
    }
}
