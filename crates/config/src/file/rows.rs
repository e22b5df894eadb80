//! A file as rows of the admin port's tables, for a database that begins with it.

use toml::de::DeValue;

use super::{
    FileSource, Section, fields_of, parse,
    report::{Report, Text},
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
    pub values: Vec<(String, Given)>,
}

/// Reads a valid file as rows.
///
/// # Errors
/// Those of [`parse`], and one for each value that no table can hold.
pub fn table_rows(
    text: &str,
    source_name: &str,
    files: &dyn FileSource,
) -> Result<Vec<TableRow>, Vec<ConfigError>> {
    let config = parse(text, source_name, files)?;
    let document = Text::read(source_name, text)?;
    let mut rows = Vec::new();
    let mut errors = Report::new(&document);
    for (key, value) in &document.document {
        let name: &str = key.get_ref();
        match value.get_ref() {
            DeValue::Array(entries) if Section::find(name).is_some() => {
                for (index, entry) in entries.iter().enumerate() {
                    let DeValue::Table(fields) = entry.get_ref() else { continue };
                    match section_rows(name, fields_of(fields).collect(), files) {
                        Ok(mut made) => rows.append(&mut made),
                        Err(message) => {
                            let section = Section::find(name).map_or("", |section| section.name);
                            let subject = Subject::column(section, index, "");
                            errors.add(ErrorKind::NotSupported, subject, message);
                        }
                    }
                }
            }
            _ => rows.extend(setting_row(name, &config.settings)),
        }
    }
    errors.finish().map(|_| merge_hostgroups(rows))
}

fn setting_row(name: &str, settings: &Settings) -> Option<TableRow> {
    let is_it = |row: &variable::Row| row.setting().is_some_and(|setting| setting.name == name);
    let row = variable::all().find(is_it)?;
    let value = match (name, &settings.state_file) {
        ("state_file", crate::StateFile::Path(path)) => path.display().to_string(),
        _ => value_of(row.setting()?, settings),
    };
    let values = vec![
        ("variable_name".to_owned(), Given::Text(row.name())),
        ("variable_value".to_owned(), Given::Text(value)),
    ];
    Some(TableRow { table: "global_variables", values })
}

type Fields = Vec<(String, Given)>;

/// The rows of one table of the file.
fn section_rows(
    section: &str,
    fields: Fields,
    files: &dyn FileSource,
) -> Result<Vec<TableRow>, String> {
    let table = match section {
        "server" => "mysql_servers",
        "hostgroup" => "mysql_hostgroup_attributes",
        "server_ssl_params" => "mysql_servers_ssl_params",
        "user" => "mysql_users",
        "replication" => "mysql_replication_hostgroups",
        "rule" => "mysql_query_rules",
        "fast_routing" => "mysql_query_rules_fast_routing",
        "firewall_user" => "mysql_firewall_whitelist_users",
        "firewall_rule" => "mysql_firewall_whitelist_rules",
        "limit" => "trunkline_limits",
        "tcp_listener" => "trunkline_tcp_listeners",
        other => {
            let message = format!("[[{other}]] has no table on the admin port: it needs file mode");
            return Err(message);
        }
    };
    let mut values = Fields::new();
    let mut split = Given::Text("auto".to_owned());
    let mut members = Vec::new();
    let mut backend = None;
    for (name, value) in fields {
        match (section, name.as_str()) {
            ("replication", "read_write_split") => split = value,
            ("hostgroup" | "rule", "pipeline") | ("rule", "shadow") => {
                members.push(member(&name, &value));
            }
            ("user", _) => match user_key(&name, value, files)? {
                UserKey::Attribute(member) => members.push(member),
                UserKey::Backend(password) => backend = Some(password),
                UserKey::Columns(columns) => values.extend(columns),
            },
            _ => values.extend(columns(section, &name, value)?),
        }
    }
    let has = |values: &Fields, name: &str| find(values, name).is_some();
    // What a file leaves out is not always what a table leaves out.
    if section == "rule" && !has(&values, "active") {
        values.push(("active".to_owned(), Given::Integer(1)));
    }
    // Columns without a default that a file may leave out.
    let needed: &[&str] = match section {
        "fast_routing" => &["comment"],
        "firewall_user" => &["username", "client_address", "comment"],
        "firewall_rule" => &["username", "client_address", "schemaname", "comment"],
        _ => &[],
    };
    for name in needed {
        if !has(&values, name) {
            values.push(((*name).to_owned(), Given::Text(String::new())));
        }
    }
    for member in members {
        let column = if section == "hostgroup" { "hostgroup_settings" } else { "attributes" };
        add_member(&mut values, column, &member);
    }
    let writer = find(&values, "writer_hostgroup").cloned();
    let backend = backend.map(|password| {
        let own = |name: &str| find(&values, name).cloned().map(|value| (name.to_owned(), value));
        let number = |name: &str, number| (name.to_owned(), Given::Integer(number));
        let shared = ["username", "default_hostgroup", "default_schema"].iter();
        let columns = shared.filter_map(|name| own(name));
        let more = [number("frontend", 0), number("backend", 1)];
        columns.chain(more).chain([("password".to_owned(), password)]).collect()
    });
    if backend.is_some() {
        values.push(("backend".to_owned(), Given::Integer(0)));
    }
    let mut rows = vec![TableRow { table, values }];
    rows.extend(backend.map(|values| TableRow { table, values }));
    // ProxySQL's tables have no place for it, but for the settings of a hostgroup.
    if let (Some(writer), true) = (writer, split == Given::Text("auto".to_owned())) {
        let settings = Given::Text("{\"read_write_split\":\"auto\"}".to_owned());
        let values =
            vec![("hostgroup_id".to_owned(), writer), ("hostgroup_settings".to_owned(), settings)];
        rows.push(TableRow { table: "mysql_hostgroup_attributes", values });
    }
    Ok(rows)
}

/// What ProxySQL's tables have no column for, as a member of one of its JSON columns.
fn member(name: &str, value: &Given) -> String {
    match value {
        Given::Text(text) => format!("\"{name}\":{}", quoted(text)),
        Given::Integer(number) => format!("\"{name}\":{number}"),
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

/// What becomes of a user's key.
enum UserKey {
    /// A member of `attributes`.
    Attribute(String),
    /// The password of the row for servers.
    Backend(Given),
    /// Columns.
    Columns(Fields),
}

/// One key of a user. Passwords in files and in the environment are read: the tables hold them.
fn user_key(name: &str, value: Given, files: &dyn FileSource) -> Result<UserKey, String> {
    let (bare, value) = match (name.strip_suffix("_file"), name.strip_suffix("_env"), value) {
        (Some(bare), _, Given::Text(path)) if bare.ends_with("password") => {
            let text = files.read(&path)?;
            (bare, Given::Text(text.trim_end_matches(['\n', '\r']).to_owned()))
        }
        (_, Some(bare), Given::Text(variable)) if bare.ends_with("password") => {
            let text = files.environment(&variable);
            let text = text.ok_or_else(|| format!("the environment has no `{variable}`"))?;
            (bare, Given::Text(text))
        }
        (_, _, value) => (name.strip_suffix("_hash").unwrap_or(name), value),
    };
    Ok(match bare {
        "allow_from"
        | "backend_user"
        | "retained_password"
        | "backend_retained_password"
        | "unix_user" => UserKey::Attribute(member(bare, &value)),
        "backend_password" => UserKey::Backend(value),
        "password" => UserKey::Columns(vec![("password".to_owned(), value)]),
        _ => UserKey::Columns(columns("user", name, value)?),
    })
}

/// Adds a member to the JSON object of a column.
fn add_member(values: &mut Fields, column: &str, member: &str) {
    match values.iter_mut().find(|(name, _)| name == column) {
        Some((_, Given::Text(object))) => match object.trim_end().strip_suffix('}') {
            Some(open) if open.trim_end().ends_with('{') => *object = format!("{open}{member}}}"),
            Some(open) => *object = format!("{open},{member}}}"),
            None => *object = format!("{{{member}}}"),
        },
        _ => values.push((column.to_owned(), Given::Text(format!("{{{member}}}")))),
    }
}

/// One row for each hostgroup, although several sections say something of it.
fn merge_hostgroups(rows: Vec<TableRow>) -> Vec<TableRow> {
    let mut merged: Vec<TableRow> = Vec::with_capacity(rows.len());
    for row in rows {
        if row.table != "mysql_hostgroup_attributes" {
            merged.push(row);
            continue;
        }
        let is_same = |known: &&mut TableRow| {
            known.table == "mysql_hostgroup_attributes"
                && known.table == row.table
                && find(&known.values, "hostgroup_id") == find(&row.values, "hostgroup_id")
        };
        let Some(known) = merged.iter_mut().find(is_same) else {
            merged.push(row);
            continue;
        };
        for (name, value) in row.values {
            match (name.as_str(), value) {
                ("hostgroup_id", _) => {}
                ("hostgroup_settings", Given::Text(object)) => {
                    let members = object.trim().trim_start_matches('{').trim_end_matches('}');
                    add_member(&mut known.values, &name, members);
                }
                (_, value) => known.values.push((name, value)),
            }
        }
    }
    merged
}

fn find<'a>(values: &'a Fields, name: &str) -> Option<&'a Given> {
    values.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

/// One key as columns.
fn columns(section: &str, name: &str, value: Given) -> Result<Fields, String> {
    let value = match value {
        Given::Boolean(flag) => Given::Integer(i128::from(flag)),
        value => value,
    };
    let one = |name: &str, value: Given| Ok(vec![(name.to_owned(), value)]);
    match (section, name, value) {
        ("server", "hostgroup", value) => one("hostgroup_id", value),
        ("server" | "server_ssl_params", "address", Given::Text(text)) => {
            let address = text.parse().map_err(|error| format!("`address` is wrong: {error}"))?;
            let (host, port) = match address {
                trunkline_topology::Address::Tcp { host, port } => (host, i128::from(port)),
                trunkline_topology::Address::Unix(path) => (path.display().to_string(), 0),
            };
            Ok(vec![
                ("hostname".to_owned(), Given::Text(host)),
                ("port".to_owned(), Given::Integer(port)),
            ])
        }
        ("server", "compression", Given::Text(word)) => match word.as_str() {
            "off" => one(name, Given::Integer(0)),
            "zlib" => one(name, Given::Integer(1)),
            _ => {
                Err(format!("`compression` can't be `{word}` in mysql_servers, which has 0 and 1"))
            }
        },
        ("server", "tls" | "use_ssl", Given::Text(word)) => match word.as_str() {
            "disabled" => one("use_ssl", Given::Integer(0)),
            _ => Err(format!(
                "`{name}` can't be `{word}` in mysql_servers, which has 0 and 1; the setting \
                 `ssl_p2s_mode` says what 1 means"
            )),
        },
        ("server", "tls", value) => one("use_ssl", value),
        ("user", "require", Given::Text(word)) => match word.as_str() {
            "none" => one("use_ssl", Given::Integer(0)),
            "tls" => one("use_ssl", Given::Integer(1)),
            _ => Err(format!("`require` can't be `{word}` in mysql_users, which has use_ssl")),
        },
        ("user", "require", _) => {
            Err("`require` can't be a table in mysql_users; write attributes there".to_owned())
        }
        ("user", "name", value) => one("username", value),
        ("rule", "id", value) => one("rule_id", value),
        (_, _, value) => one(name, value),
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
             hostgroup_settings='{\"pipeline\":16,\"read_write_split\":\"auto\"}'",
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
        assert!(first.starts_with("test.toml:5:9: `compression` can't be `zstd`"), "{first}");
    }
}
