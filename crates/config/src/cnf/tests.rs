//! Tests of libconfig's syntax.

use proptest::prelude::*;

use super::*;

const FILE: &str = r#"
# the usual beginning
datadir="/var/lib/proxysql"
admin_variables=
{
    admin_credentials="admin:admin"  // a comment
    mysql_ifaces="127.0.0.1:6032;" "/tmp/a.sock";
    refresh_interval : 2000
}
mysql_variables = { threads=4; have_compress=true, poll_timeout=0x10; big=5000000000L }
mysql_servers = (
    { address="10.0.0.1" , port=3306 , hostgroup=0 , max_connections=200 },
    { address="10.0.0.2" }, /* the last
    one */
)
list = [1, 2.5, "\x41\d\"\\"]
"#;

fn entry<'a>(entries: &'a [CnfEntry], name: &str) -> &'a CnfEntry {
    entries.iter().find(|entry| entry.name == name).expect(name)
}

fn group<'a>(entries: &'a [CnfEntry], name: &str) -> &'a [CnfEntry] {
    match &entry(entries, name).value {
        CnfValue::Group(entries) | CnfValue::List(entries) => entries,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_as_people_have_it_is_read() {
    let file = parse_cnf(FILE).expect("valid");
    assert_eq!(entry(&file, "datadir").value, CnfValue::Text("/var/lib/proxysql".into()));
    let admin = group(&file, "admin_variables");
    assert_eq!(
        entry(admin, "mysql_ifaces").value,
        CnfValue::Text("127.0.0.1:6032;/tmp/a.sock".into())
    );
    assert_eq!(entry(admin, "refresh_interval").value, CnfValue::Integer(2_000));
    assert_eq!(entry(admin, "refresh_interval").line, 8);
    let mysql = group(&file, "mysql_variables");
    assert_eq!(entry(mysql, "have_compress").value, CnfValue::Boolean(true));
    assert_eq!(entry(mysql, "poll_timeout").value, CnfValue::Integer(16));
    assert_eq!(entry(mysql, "big").value, CnfValue::Integer(5_000_000_000));
    let servers = group(&file, "mysql_servers");
    assert_eq!((servers.len(), servers[1].line), (2, 13));
    let list: Vec<&CnfValue> = group(&file, "list").iter().map(|entry| &entry.value).collect();
    assert_eq!(list[1], &CnfValue::Float(2.5));
    assert_eq!(list[2], &CnfValue::Text("A\\d\"\\".into()));
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let check = |text: &str, expected: &str| {
        assert_eq!(parse_cnf(text).expect_err(text).to_string(), expected);
    };
    check("a = 1\nb 2", "line 2: `=` is missing behind `b`");
    check("a = {\n b = 1", "line 2: a group is not closed");
    check("a = (1,", "line 1: a list is not closed");
    check("a = \"x", "line 1: a text is not closed");
    check("a = yes", "line 1: `yes` is no value; a text needs quotes");
    check("a = ;", "line 1: `;` is not the beginning of a value");
    check("a = 1\na = 2", "line 2: `a` is there twice");
    check("/* x", "line 1: a comment is not closed");
    check("@include \"x\"", "line 1: @include is not supported");
    check("= 1", "line 1: `=` is not the beginning of a name");
    let deep = format!("a = {}", "(".repeat(100));
    check(&deep, "line 1: more than 32 groups or lists in each other");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[a-c=:{}()\\[\\]\",;# \n/*\\\\0-9.x@-]{0,80}") {
        let _ = parse_cnf(&text);
    }
}
