//! Files, good and bad.

mod refusals;
mod tcp;

use std::net::SocketAddr;

use proptest::prelude::*;
use trunkline_rules::{Multiplex, Rule};
use trunkline_topology::{
    Address, HostName, HostgroupId, LazyTransactions, Password, Pipeline, Ratio, ReadWriteSplit,
    ServerCompression, ServerState, causal::CausalReads,
};

use super::*;
use crate::{ListenAddress, LogFormat, Place, StateFile};

const MINIMAL: &str = include_str!("../../../../examples/minimal.toml");
const EXAMPLE: &str = include_str!("../../../../examples/trunkline.toml");

const HASH: &str = "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19";

/// A file source with a few files.
fn files(path: &str) -> Result<String, String> {
    match path {
        "good" => Ok("from file\n".to_owned()),
        "windows" => Ok("from file\r\n".to_owned()),
        "hash" => Ok(HASH.to_owned()),
        "empty" => Ok("\n".to_owned()),
        "lines" => Ok("one\ntwo\n".to_owned()),
        _ => Err("no such file".to_owned()),
    }
}

fn good(text: &str) -> Config {
    parse(text, "t", &files).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

/// Every error of `text` on a line of its own.
fn errors(text: &str) -> String {
    let errors = parse(text, "t", &files).expect_err(text);
    errors.iter().map(ConfigError::to_string).collect::<Vec<_>>().join("\n")
}

/// Line and column of an error.
fn place(error: &ConfigError) -> (usize, usize) {
    match error.place {
        Place::Text { line, column, .. } => (line, column),
        Place::Row(_) => panic!("{error}"),
    }
}

#[test]
fn settings_of_traces_may_have_a_table_of_their_own() {
    let grouped = whole("[trace]\notlp = 'http://a'\nsample = 0.5\nslow_ms = 7");
    let config = good(&grouped);
    let flat = whole("trace_otlp = 'http://a:4318'\ntrace_sample = 0.5\ntrace_slow_ms = 7");
    assert_eq!(config.settings, good(&flat).settings);
    assert_eq!(config.settings.show("trace_sample").as_deref(), Some("0.5"));
    let rows = table_rows(&grouped, "t", &files).expect("rows");
    let names = rows.iter().filter(|row| row.table == "global_variables");
    let names: Vec<_> = names.map(|row| format!("{:?}", row.values)).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.iter().any(|row| row.contains("trunkline-trace_sample")), "{names:?}");
    for (text, error) in [
        ("[trace]\nnothing = 1", "2:1: unknown setting `trace_nothing`"),
        ("[trace]\nsample = 1.5", "2:10: `trace_sample` must be 0 to 1, such as 0.01, not `1.5`"),
        ("[trace]\notlp = 'https://a'", "2:8: `trace_otlp` must begin with `http://`"),
        ("trace_slow_ms = 1\n[trace]\nslow_ms = 2", "`trace_slow_ms` is written twice"),
        ("trace = 1", "unknown setting `trace`"),
    ] {
        let found = errors(&whole(text));
        assert!(found.contains(error), "{text}: {found}");
    }
    let user = good(&user("name='u'\npassword='p'\ntrace_sample=0.25")).users[0].trace_sample;
    assert_eq!(user.map(|ratio| ratio.to_string()).as_deref(), Some("0.25"));
}

/// A server and a user below `text`, so that it is a whole file.
fn whole(text: &str) -> String {
    format!("{text}\n[[server]]\naddress='a'\n[[user]]\nname='u'\npassword='p'\n")
}

/// One server's keys, in a whole file; they begin on line 2.
fn server(keys: &str) -> String {
    format!("[[server]]\n{keys}\n[[user]]\nname='u'\npassword='p'\n")
}

/// One user's keys, in a whole file; they begin on line 4.
fn user(keys: &str) -> String {
    format!("[[server]]\naddress='a'\n[[user]]\n{keys}\n")
}

/// One rule's keys, in a whole file; they begin on line 7.
fn rule(keys: &str) -> String {
    format!("[[server]]\naddress='a'\n[[user]]\nname='u'\npassword='p'\n[[rule]]\n{keys}\n")
}

#[test]
fn how_long_a_cluster_holds_is_a_time_with_its_unit() {
    let hold = |given: &str| {
        good(&format!(
            "[[cluster]]\nname = \"shop\"\nwriter_hostgroup = 0\nreader_hostgroup = 1\n\
             seeds = [\"10.0.0.1:3306\"]\n{given}\n[[user]]\nname = \"app\"\n\
             password = \"app\""
        ))
        .clusters[0]
            .hold_timeout
    };
    assert_eq!(hold(""), None);
    assert_eq!(hold("hold_timeout = \"10s\""), Some(10_000));
    assert_eq!(hold("hold_timeout = \"500ms\""), Some(500));
    assert_eq!(hold("hold_timeout = \"2min\""), Some(120_000));
    assert_eq!(hold("hold_timeout = 700"), Some(700));
    for wrong in ["\"10\u{b5}s\"", "\"s\"", "\"2h\"", "\"1ms\"", "\"99999999999999999999s\""] {
        let text = format!(
            "[[cluster]]\nname = \"shop\"\nwriter_hostgroup = 0\nreader_hostgroup = 1\n\
             hold_timeout = {wrong}"
        );
        assert!(errors(&text).contains("such as `10s`"), "{wrong}");
    }
}

#[test]
fn the_minimal_example_has_defaults_for_the_rest() {
    let config = good(MINIMAL);
    assert_eq!(config.settings, Settings::default());
    let [server] = config.servers.as_slice() else { panic!("{:?}", config.servers) };
    assert_eq!(server.key.hostgroup, HostgroupId(0));
    assert_eq!((server.weight, server.max_connections), (1, 1_000));
    assert_eq!(server.status, ServerState::Online);
    let [user] = config.users.as_slice() else { panic!("{:?}", config.users) };
    assert_eq!((user.name.as_str(), user.max_connections), ("app", 10_000));
    assert!(user.transaction_persistent && user.active && !user.fast_forward);
    assert!(config.rules.is_empty() && config.rule_set.is_empty());
}

#[test]
fn the_full_example_is_read_as_written() {
    let config = good(EXAMPLE);
    let unix = ListenAddress::Unix("/run/trunkline/trunkline.sock".into());
    assert_eq!(config.settings.listen.get(1), Some(&unix));
    let servers: Vec<String> = config
        .servers
        .iter()
        .map(|server| format!("{} {} {}", server.key.hostgroup, server.key.address, server.weight))
        .collect();
    assert_eq!(servers, ["10 10.0.0.1:3306 1", "20 10.0.0.2:3306 2", "20 10.0.0.3:3306 1"]);
    assert_eq!(config.replication[0].read_write_split, ReadWriteSplit::Auto);
    assert!(matches!(config.users[1].password, Password::NativeHash(_)));
    assert_eq!(config.users[1].default_schema.as_deref(), Some("sales"));
    assert_eq!(config.rules.len(), 2);
    assert_eq!(config.rule_set.len(), 2);
}

#[test]
fn compression_of_a_server_is_proxysqls_number_or_a_word() {
    let check = |value: &str, expected| {
        let config = good(&server(&format!("address='a'\ncompression={value}")));
        assert_eq!(config.servers[0].compression, expected, "{value}");
    };
    check("0", ServerCompression::Off);
    check("1", ServerCompression::Zlib);
    check("'off'", ServerCompression::Off);
    check("'zlib'", ServerCompression::Zlib);
    check("'zstd'", ServerCompression::Zstd);
}

#[test]
fn settings_are_read() {
    let text = whole(
        "listen=['[::1]:0']\nhttp_listen=''\nstate_file=''\nwait_timeout=1_000\n\
         query_digests=0\nlog_format='json'\nserver_version='8.4.0'\n",
    );
    let settings = good(&text).settings;
    let loopback: SocketAddr = "[::1]:0".parse().expect("an address");
    assert_eq!(settings.listen, [ListenAddress::Tcp(loopback)]);
    assert_eq!((settings.http_listen, settings.state_file), (None, StateFile::Off));
    assert_eq!((settings.wait_timeout, settings.query_digests), (1_000, false));
    assert_eq!(settings.log_format, LogFormat::Json);
    assert_eq!(settings.server_version, "8.4.0");
}

#[test]
fn a_server_is_read_in_both_spellings() {
    let check = |keys: &str, expected: &str| {
        let config = good(&server(keys));
        let key = &config.servers[0].key;
        assert_eq!(format!("{} {}", key.hostgroup, key.address), expected, "{keys}");
    };
    check("address='db'\nhostgroup_id=0", "0 db:3306");
    check("hostname='db'", "0 db:3306");
    check("hostname='db'\nport=3307", "0 db:3307");
    check("hostname='::1'\nport=3307", "0 [::1]:3307");
    check("hostname='/run/s'\nport=0", "0 unix:/run/s");
    check("address='unix:/run/s'", "0 unix:/run/s");
    let status = good(&server("address='db'\nstatus='offline_soft'")).servers[0].status;
    assert_eq!(status, ServerState::OfflineSoft);
}

#[test]
fn passwords_come_from_three_keys() {
    let password = |keys: &str| good(&user(&format!("name='u'\n{keys}"))).users[0].password.clone();
    let clear = |password: Password| match password {
        Password::Clear(secret) => secret.expose().clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(clear(password("password=''")), "");
    assert_eq!(clear(password("password='x'")), "x");
    assert_eq!(clear(password("password_file='good'")), "from file");
    assert_eq!(clear(password("password_file='windows'")), "from file");
    let native = Password::from_hash(HASH).expect("a hash");
    assert_eq!(password(&format!("password_hash='{HASH}'")), native);
    assert_eq!(password("password_file='hash'"), native);
}

#[test]
fn a_rule_has_every_column() {
    let keys = "rule_id=3\nactive=0\nusername='u'\nschemaname='s'\nflagIN=1\nclient_addr='10.%'\n\
        proxy_addr='::1'\nproxy_port=6033\ndigest='0x1'\nmatch_digest='d'\nmatch_pattern='p'\n\
        negate_match_pattern=true\nre_modifiers=''\nflagOUT=2\ndestination_hostgroup=0\n\
        next_query_flagIN=4\nerror_msg='e'\nOK_msg='o'\napply=true\ncomment='c'\n\
        replace_pattern='q\\0'\ncache_ttl=5\ncache_empty_result=1\ncache_timeout=6\nreconnect=0\n\
        timeout=7\nretries=8\ndelay=9\nmirror_flagOUT=10\nmirror_hostgroup=11\nsticky_conn=true\n\
        multiplex=2\ngtid_from_hostgroup=12\nlog=1\nattributes='{}'\npipeline='off'\nshadow=true\n\
        lazy_transactions='off'\ncausal_reads='bounded:5'\ntrace_sample=0.5";
    let text = |text: &str| Some(text.to_owned());
    let expected = Rule {
        id: 3,
        active: false,
        username: text("u"),
        schemaname: text("s"),
        flag_in: 1,
        client_addr: text("10.%"),
        proxy_addr: text("::1"),
        proxy_port: Some(6_033),
        digest: text("0x1"),
        match_digest: text("d"),
        match_pattern: text("p"),
        negate_match_pattern: true,
        re_modifiers: text(""),
        flag_out: Some(2),
        destination_hostgroup: Some(HostgroupId(0)),
        next_query_flag_in: Some(4),
        error_msg: text("e"),
        ok_msg: text("o"),
        apply: true,
        comment: text("c"),
        replace_pattern: text("q\\0"),
        cache_ttl_ms: Some(5),
        cache_empty_result: Some(true),
        cache_timeout_ms: Some(6),
        reconnect: Some(false),
        timeout_ms: Some(7),
        retries: Some(8),
        delay_ms: Some(9),
        mirror_flag_out: Some(10),
        mirror_hostgroup: Some(HostgroupId(11)),
        sticky_conn: Some(true),
        multiplex: Some(Multiplex::IgnoreVariables),
        gtid_from_hostgroup: Some(HostgroupId(12)),
        log: Some(true),
        attributes: text("{}"),
        pipeline: Some(Pipeline::Off),
        lazy_transactions: Some(LazyTransactions::Off),
        causal_reads: Some(CausalReads::Bounded(5)),
        trace_sample: Some(Ratio::of_millionths(500_000)),
        shadow: true,
    };
    assert_eq!(good(&rule(keys)).rules, [expected]);
    assert_eq!(good(&rule("id=1")).rules, [Rule { id: 1, ..Rule::default() }]);
}

#[test]
fn a_host_name_is_left_to_the_control_plane() {
    let config = good(&server("address='db.example:3306'"));
    let expected = Address::Tcp { host: "db.example".to_owned(), port: 3_306 };
    assert_eq!(config.servers[0].key.address, expected);
}

/// The full size (10,000 servers, 100,000 users) takes seconds even unoptimised; a tenth of it
/// shows a quadratic step just as well.
#[test]
fn a_large_file_is_read_in_linear_time() {
    let mut text = String::new();
    for at in 0..1_000 {
        text.push_str(&format!(
            "[[server]]\nhostgroup={}\naddress='10.0.{}.{}'\n",
            at % 50,
            at / 250,
            at % 250
        ));
    }
    for at in 0..10_000 {
        text.push_str(&format!(
            "[[user]]\nname='u{at}'\npassword='p'\ndefault_hostgroup={}\n",
            at % 50
        ));
    }
    let config = good(&text);
    assert_eq!((config.servers.len(), config.users.len()), (1_000, 10_000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_text_gives_a_configuration_or_errors(
        text in "\\PC{0,200}|[\\[\\]a-z=\"'\\n 0-9.#{},]{0,200}",
    ) {
        check_any(&text);
    }

    #[test]
    fn a_damaged_example_gives_a_configuration_or_errors(
        cut in 0usize..4_000,
        length in 0usize..40,
        insert in "[\\[\\]a-z=\"'\\n 0-9.-]{0,8}",
    ) {
        let chars: Vec<char> = EXAMPLE.chars().collect();
        let cut = cut.min(chars.len());
        let rest = (cut + length).min(chars.len());
        let head: String = chars[..cut].iter().collect();
        let tail: String = chars[rest..].iter().collect();
        check_any(&format!("{head}{insert}{tail}"));
    }
}

fn check_any(text: &str) {
    match parse(text, "t", &files) {
        Ok(config) => {
            assert!(!config.servers.is_empty() && !config.users.is_empty());
            let snapshot = config.snapshot(None);
            assert_eq!(snapshot.version, 1);
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
            for error in errors {
                assert!((1..=lines).contains(&place(&error).0), "{error}");
            }
        }
    }
}

#[test]
fn fast_routing_rules_come_from_tables_and_from_a_file() {
    let source = |path: &str| match path {
        "fast.tsv" => {
            Ok("# user\tschema\tflag\thostgroup\n\nu\tb\t0\t0\tfor people\n\tc\t3\t0\n".to_owned())
        }
        _ => Err("no such file".to_owned()),
    };
    let with = |keys: &str, tables: &str| {
        let text =
            format!("{keys}\n[[server]]\naddress='a'\n[[user]]\nname='u'\npassword='p'\n{tables}");
        parse(&text, "t", &source)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    };
    let row = "[[fast_routing]]\nusername='u'\nschemaname='a'\ndestination_hostgroup=0\n";
    let config = with("fast_routing_file='fast.tsv'", row).expect("valid");
    let zero = Some(HostgroupId(0));
    assert_eq!(config.fast_routes.len(), 3);
    assert_eq!(config.fast_routes.find("u", b"a", 0), zero);
    assert_eq!(config.fast_routes.find("u", b"b", 0), zero);
    assert_eq!(config.fast_routes.find("x", b"c", 3), zero);
    assert_eq!(config.fast_routes.find("x", b"b", 0), None);

    let error = |keys: &str, tables: &str| with(keys, tables).expect_err("refused");
    assert_eq!(error("fast_routing_file='x'", ""), "t:1:19: can't read x: no such file");
    assert_eq!(
        error("", &row.replace("group=0", "group=7")),
        "t:10:23: fast routing: hostgroup 7 has no [[server]]"
    );
    assert_eq!(
        error("", &format!("{row}{row}")),
        "t:11:1: two fast routing rules have one username, schemaname and flagIN (the first is \
         on line 7)"
    );
    let same = row.replace("'a'", "'b'");
    assert_eq!(
        error("fast_routing_file='fast.tsv'", &same),
        "t:1:19: two fast routing rules (line 3 of the file) have one username, schemaname and \
         flagIN (the first is on line 7)"
    );
}

#[test]
fn wrong_lines_of_a_file_of_rules_are_named_up_to_a_number() {
    let source = |_: &str| Ok("u\ta\t0\nu\ta\t-1\t0\n".to_owned() + &"u\n".repeat(30));
    let text = "fast_routing_file='f'\n[[server]]\naddress='a'\n[[user]]\nname='u'\npassword='p'";
    let errors = parse(text, "t", &source).expect_err("wrong lines");
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), 21);
    assert_eq!(shown[0], "t:1:19: f line 1: there is no destination_hostgroup");
    assert_eq!(shown[1], "t:1:19: f line 2: flagIN must be 0 to 4294967295, not `-1`");
    assert_eq!(shown[20], "t:1:19: f: 12 more lines are wrong");
}

#[test]
fn a_user_has_another_account_on_servers_and_a_password_before() {
    let read = |keys: &str| {
        let config = good(&user(&format!("name='u'\npassword='p'\n{keys}")));
        config.users[0].clone()
    };
    let plain = read("");
    assert!(plain.backend.is_none() && plain.retained_password.is_none());
    assert!(plain.allow_from.is_empty());
    let mapped = read("backend_user='b'\nbackend_password_file='good'\nretained_password='q'");
    let backend = mapped.backend.as_ref().expect("an account");
    assert_eq!((&*backend.user, backend.password.expose().as_str()), ("b", "from file"));
    assert!(matches!(mapped.retained_password, Some(Password::Clear(_))));
    let renamed = read("backend_password='x'\nbackend_retained_password='y'");
    let backend = renamed.backend.as_ref().expect("an account");
    assert_eq!((&*backend.user, backend.retained_password.is_some()), ("u", true));
    let listed = read("allow_from=['10.0.0.0/8', 'localhost']");
    assert!(listed.allow_from.includes(None, &HostName::Unasked));

    let check = |keys: &str, expected: &str| {
        let said = errors(&user(&format!("name='u'\npassword='p'\n{keys}")));
        assert!(said.contains(expected), "{keys}: {said}");
    };
    check("backend_user='b'", "needs a `backend_password`");
    check("backend_password_file='hash'", "which opens no server");
    check(&format!("backend_password='{HASH}'"), "which opens no server");
    check(&format!("retained_password_hash='{HASH}'"), "in the form of the other");
    check("retained_password='a'\nretained_password_file='good'", "exclude each other");
    check("retained_password_env='X'", "environment variable `X` is not set");
    check("allow_from=['10.0.0.1/8']", "is not a network");
}
