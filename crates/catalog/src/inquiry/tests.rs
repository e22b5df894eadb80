use trunkline_topology::HostgroupId;

use super::*;

/// A dictionary: rows without their numbers, by what is asked and of which name.
type Dictionary<'a> = &'a [(Topic, &'a str, &'a [&'a str])];

const ALL: (Topic, &str, &[&str]) =
    (Topic::Grants, "", &["GRANT ALL PRIVILEGES ON *.* TO `x`@`%`"]);
const TABLE: &[&str] = &["BASE TABLE", "InnoDB"];
const VIEW: &[&str] = &["VIEW", ""];

fn name(full: &str) -> Name {
    let (schema, table) = full.split_once('.').expect("a schema and a table");
    Name { group: HostgroupId(0), schema: schema.as_bytes().into(), table: table.as_bytes().into() }
}

fn full(name: &Name) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}.{}", text(&name.schema), text(&name.table))
}

fn row(first: Option<usize>, values: &[&str]) -> Row {
    let values = values.iter().map(|value| Some(value.as_bytes().to_vec()));
    first.map(|at| Some(at.to_string().into_bytes())).into_iter().chain(values).collect()
}

/// Asks a dictionary for names; what it said of them, and how many queries that took.
fn inquire(dictionary: Dictionary<'_>, names: &[&str]) -> (Vec<Told>, usize) {
    let inquiry = Inquiry::new(names.iter().map(|it| name(it)).collect(), true);
    let (inquiry, queries) = asked(inquiry, dictionary);
    (inquiry.finish().into_iter().map(|(_, told)| told).collect(), queries)
}

/// The base tables that a name depends on.
fn bases(dictionary: Dictionary<'_>, of: &str) -> Option<Vec<String>> {
    let (inquiry, _) = asked(Inquiry::new(vec![name(of)], true).with_keys(), dictionary);
    let mut bases: Vec<_> = inquiry.bases(&name(of))?.iter().map(full).collect();
    bases.sort_unstable();
    Some(bases)
}

fn asked(mut inquiry: Inquiry, dictionary: Dictionary<'_>) -> (Inquiry, usize) {
    let mut queries = 0;
    while let Some(query) = inquiry.next_query() {
        queries += 1;
        let topic = query.topic();
        let of_topic = dictionary.iter().filter(|(it, ..)| *it == topic);
        let rows: Vec<Row> = match topic {
            Topic::Grants | Topic::RoleGrants => {
                of_topic.map(|(_, _, values)| row(None, values)).collect()
            }
            _ => of_topic
                .filter_map(|(_, of, values)| {
                    let at = inquiry.asked.iter().position(|it| full(it) == *of)?;
                    // A server answers of those that it was asked for.
                    query.sql().contains(&format!("SELECT {at},")).then(|| row(Some(at), values))
                })
                .collect(),
        };
        inquiry.answer(&query, &rows);
        assert!(queries < 200, "it does not come to an end");
    }
    (inquiry, queries)
}

fn object(dictionary: Dictionary<'_>, of: &str) -> Option<Object> {
    inquire(dictionary, &[of]).0.first().and_then(|told| told.object)
}

fn table(reading: Hidden, writing: Hidden) -> Option<Object> {
    Some(Object { kind: Kind::Table, reading, writing })
}

#[test]
fn a_base_table_without_triggers_is_plain() {
    let dictionary: Dictionary<'_> = &[ALL, (Topic::Tables, "s.t", TABLE)];
    let plain = table(Hidden::empty(), Hidden::empty());
    assert_eq!(object(dictionary, "s.t"), plain);
    assert_eq!(object(dictionary, "s.missing"), None);
    let (told, queries) = inquire(dictionary, &["s.t", "s.missing", "s.t"]);
    assert_eq!(told.iter().map(|it| it.object).collect::<Vec<_>>(), [plain, None, plain]);
    assert_eq!(told.iter().map(|it| it.is_absent).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(queries, 4);
    assert!(told.iter().all(|it| !it.rests_on_others));
    // Another spelling may stand for something that is there.
    let (told, _) = inquire(dictionary, &["s.\u{dc}"]);
    assert!(told.iter().all(|it| it.object.is_none() && !it.is_absent));
}

#[test]
fn what_an_account_may_not_see_is_not_absent_for_others() {
    for (line, is_absent) in [
        (&["GRANT ALL PRIVILEGES ON `s`.* TO `x`@`%`"], true),
        (&["GRANT SELECT ON *.* TO `x`@`%`"], true),
        (&["GRANT USAGE ON *.* TO `x`@`%`"], false),
        (&["GRANT SELECT ON `s`.`t` TO `x`@`%`"], false),
        (&["GRANT EXECUTE ON `s`.* TO `x`@`%`"], false),
        (&["GRANT ALL PRIVILEGES ON `r`.* TO `x`@`%`"], false),
    ] {
        let (told, _) = inquire(&[(Topic::Grants, "", line)], &["s.missing"]);
        assert_eq!(told.iter().map(|it| it.is_absent).collect::<Vec<_>>(), [is_absent], "{line:?}");
    }
    let (told, _) = inquire(&[], &["s.missing"]);
    assert!(told.iter().all(|it| !it.is_absent), "nobody said what it may");
}

#[test]
fn what_a_role_may_do_is_asked_where_the_account_has_one() {
    let given = (Topic::RoleGrants, "", &["GRANT SELECT ON `s`.* TO `r`"][..]);
    for (lines, is_absent) in [(&["ROLE r"][..], true), (&["GRANT USAGE ON *.* TO `self`"], false)]
    {
        let (told, queries) = inquire(&[(Topic::Grants, "", lines), given], &["s.missing"]);
        let found: Vec<_> = told.iter().map(|it| it.is_absent).collect();
        assert_eq!(found, [is_absent], "{lines:?}: {queries}");
    }
}

#[test]
fn what_a_view_reads_and_nobody_is_shown_may_do_anything() {
    let dictionary: Dictionary<'_> = &[
        (Topic::Grants, "", &["GRANT SELECT, SHOW VIEW ON `s`.`v` TO `x`@`%`"]),
        (Topic::Tables, "s.v", VIEW),
        (Topic::Views, "s.v", &["select `s`.`w`.`a` AS `a` from `s`.`w`"]),
    ];
    assert!(object(dictionary, "s.v").is_some_and(|it| it.reading.has(Hidden::OPAQUE)));
}

#[test]
fn who_may_not_see_triggers_does_not_know_what_a_write_does() {
    let line = &["GRANT SELECT, INSERT ON `s`.* TO `x`@`%`"];
    let dictionary: Dictionary<'_> = &[(Topic::Grants, "", line), (Topic::Tables, "s.t", TABLE)];
    assert_eq!(object(dictionary, "s.t"), table(Hidden::empty(), Hidden::UNKNOWN));
}

#[test]
fn who_may_not_see_all_columns_does_not_know_what_a_read_does() {
    for line in [
        &["GRANT SELECT (`id`) ON `s`.`t` TO `x`@`%`"],
        &["GRANT DELETE ON `s`.`t` TO `x`@`%`"],
        &["GRANT TRIGGER ON `s`.* TO `x`@`%`"],
        &["GRANT USAGE ON *.* TO `x`@`%`"],
    ] {
        let dictionary: Dictionary<'_> = &[
            (Topic::Grants, "", line),
            (Topic::Tables, "s.t", TABLE),
            (Topic::Tables, "s.v", VIEW),
            (Topic::Views, "s.v", &["select `s`.`t`.`a` AS `a` from `s`.`t`"]),
        ];
        for of in ["s.t", "s.v"] {
            let object = object(dictionary, of).expect("an object");
            assert!(object.reading.has(Hidden::UNKNOWN), "{line:?}: {of}");
        }
    }
}

#[test]
fn engines_and_kinds_that_nothing_is_known_of_are_not_known() {
    for (values, kind) in [
        (&["BASE TABLE", "FEDERATED"][..], Kind::Other),
        (&["BASE TABLE", "MRG_MyISAM"], Kind::Other),
        (&["BASE TABLE", "CONNECT"], Kind::Other),
        (&["BASE TABLE", ""], Kind::Other),
        (&["SYSTEM VIEW", "MEMORY"], Kind::Other),
    ] {
        let object = object(&[ALL, (Topic::Tables, "s.t", values)], "s.t").expect("an object");
        assert_eq!((object.kind, object.reading), (kind, Hidden::UNKNOWN), "{values:?}");
    }
    let sequence = object(&[ALL, (Topic::Tables, "s.q", &["SEQUENCE", "InnoDB"])], "s.q");
    let sequence = sequence.expect("an object");
    assert!(sequence.reading.has(Hidden::READS_SESSION) && sequence.kind == Kind::Sequence);
}

#[test]
fn a_view_is_what_its_tables_are() {
    let dictionary: Dictionary<'_> = &[
        ALL,
        (Topic::Tables, "s.v", VIEW),
        (Topic::Views, "s.v", &["select `s`.`w`.`a` AS `a` from `s`.`w`"]),
        (Topic::Tables, "s.w", VIEW),
        (Topic::Views, "s.w", &["select `s`.`t`.`a` AS `a` from `s`.`t`"]),
        (Topic::Tables, "s.t", TABLE),
        (Topic::Tables, "s.last", VIEW),
        (Topic::Views, "s.last", &["select last_insert_id() AS `a` from `s`.`v`"]),
        (Topic::Tables, "s.unseen", VIEW),
        (Topic::Views, "s.unseen", &[""]),
        (Topic::Tables, "s.gone", VIEW),
        (Topic::Views, "s.gone", &["select `s`.`x`.`a` AS `a` from `s`.`x`"]),
        (Topic::Tables, "s.over", VIEW),
        (Topic::Views, "s.over", &["select `s`.`unseen`.`a` AS `a` from `s`.`unseen`"]),
        (Topic::Tables, "s.own", VIEW),
        (Topic::Views, "s.own", &["select 1 AS `a` from `information_schema`.`user_variables`"]),
        (Topic::Tables, "s.listed", VIEW),
        (Topic::Tables, "s.joined", VIEW),
        (
            Topic::Views,
            "s.joined",
            &["select group_concat(`s`.`t`.`a` separator ',') AS `a` from `s`.`t`"],
        ),
        (Topic::Tables, "s.above", VIEW),
        (Topic::Views, "s.above", &["select `s`.`joined`.`a` AS `a` from `s`.`joined`"]),
    ];
    let view = Hidden::DEFINED;
    for (of, reading) in [
        ("s.v", view),
        ("s.w", view),
        ("s.last", Hidden::READS_SESSION | Hidden::VARIES | view),
        ("s.unseen", Hidden::OPAQUE),
        ("s.gone", Hidden::OPAQUE | view),
        ("s.over", Hidden::OPAQUE | view),
        ("s.own", Hidden::UNKNOWN | Hidden::READS_SESSION | view),
        ("s.listed", Hidden::UNKNOWN),
        ("s.joined", Hidden::CONCATENATES | view),
        ("s.above", Hidden::CONCATENATES | view),
    ] {
        let (told, _) = inquire(dictionary, &[of]);
        let view = told[0].object.expect("an object");
        assert_eq!((view.kind, view.reading), (Kind::View, reading), "{of}");
        assert_eq!(view.writing, reading, "{of}");
        assert!(told[0].rests_on_others, "{of}");
    }
}

#[test]
fn a_write_does_what_triggers_and_those_of_their_tables_do() {
    let body = |text: &'static str| -> &'static [&'static str] {
        Box::leak(Box::new([text, "STRICT_ALL_TABLES", "utf8mb4"]))
    };
    let dictionary: Dictionary<'_> = &[
        ALL,
        (Topic::Tables, "s.t", TABLE),
        (Topic::Triggers, "s.t", body("INSERT INTO log VALUES (NEW.id)")),
        (Topic::Triggers, "s.t", body("SET NEW.a = 1")),
        (Topic::Tables, "s.log", TABLE),
        (Topic::Tables, "s.u", TABLE),
        (Topic::Triggers, "s.u", body("UPDATE t2 SET n = n + 1")),
        (Topic::Tables, "s.t2", TABLE),
        (Topic::Triggers, "s.t2", body("SET @x = 1")),
        (Topic::Tables, "s.v", VIEW),
        (Topic::Views, "s.v", &["select `s`.`t2`.`n` AS `n` from `s`.`t2`"]),
        (Topic::Tables, "s.r", TABLE),
        (Topic::Triggers, "s.r", body("SET NEW.a = (SELECT MAX(n) FROM t2)")),
        (Topic::Tables, "s.loop", TABLE),
        (Topic::Triggers, "s.loop", body("DELETE FROM `loop` WHERE id = 7")),
    ];
    for (of, writing) in [
        ("s.t", Hidden::GIVES_VALUES),
        ("s.u", Hidden::OPAQUE | Hidden::GIVES_VALUES),
        ("s.t2", Hidden::OPAQUE | Hidden::GIVES_VALUES),
        ("s.v", Hidden::OPAQUE | Hidden::GIVES_VALUES),
        ("s.r", Hidden::GIVES_VALUES),
        ("s.loop", Hidden::GIVES_VALUES),
    ] {
        let object = object(dictionary, of).expect("an object");
        let reading = if object.kind == Kind::View { Hidden::DEFINED } else { Hidden::empty() };
        assert_eq!((object.reading, object.writing), (reading, reading | writing), "{of}");
    }
    let (told, _) = inquire(dictionary, &["s.t", "s.log"]);
    assert_eq!(told.iter().map(|it| it.rests_on_others).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn defaults_and_generated_columns_say_what_reads_and_writes_do() {
    let session = Hidden::READS_SESSION;
    let moves = session | Hidden::WRITES | Hidden::LEAVES;
    for (column, reading, writing) in [
        (&["nextval(`s`.`q`)", "", ""][..], Hidden::empty(), moves),
        (&["", "VIRTUAL GENERATED", "@`x`"], session, session),
        (&["", "STORED GENERATED", "connection_id()"], Hidden::empty(), session | Hidden::VARIES),
        (&["", "VIRTUAL GENERATED", "`n` + 1"], Hidden::empty(), Hidden::empty()),
    ] {
        let dictionary: Dictionary<'_> =
            &[ALL, (Topic::Tables, "s.t", TABLE), (Topic::Columns, "s.t", column)];
        assert_eq!(object(dictionary, "s.t"), table(reading, writing), "{column:?}");
    }
}

#[test]
fn tables_of_the_servers_own_are_known_without_a_question() {
    let names = ["information_schema.TABLES", "performance_schema.threads"];
    let (told, queries) = inquire(&[], &names);
    let readings: Vec<_> = told.iter().filter_map(|it| it.object).map(|it| it.reading).collect();
    assert_eq!((readings, queries), (vec![Hidden::VARIES, Hidden::UNKNOWN], 0));
}

#[test]
fn many_names_are_asked_for_in_few_queries() {
    let names: Vec<String> = (0..200).map(|at| format!("s.t{at}")).collect();
    let tables: Vec<_> = names.iter().map(|name| (Topic::Tables, name.as_str(), TABLE)).collect();
    let dictionary: Vec<_> = tables.into_iter().chain([ALL]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (told, queries) = inquire(&dictionary, &names);
    assert!(told.iter().all(|it| it.object == table(Hidden::empty(), Hidden::empty())));
    // Four batches of names, three queries each, and the grants once.
    assert_eq!(queries, 13);
}

#[test]
fn views_over_too_many_views_are_not_known_and_come_to_an_end() {
    let names: Vec<String> = (0..40).map(|at| format!("s.v{at}")).collect();
    let texts: Vec<String> =
        (1..=40).map(|at| format!("select 1 AS `a` from `s`.`v{at}`")).collect();
    let rows: Vec<[&str; 1]> = texts.iter().map(|text| [text.as_str()]).collect();
    let mut dictionary = vec![ALL];
    for (name, row) in names.iter().zip(&rows) {
        dictionary.push((Topic::Tables, name, VIEW));
        dictionary.push((Topic::Views, name, row));
    }
    let view = object(&dictionary, "s.v0").expect("an object");
    assert_eq!(view.reading, Hidden::OPAQUE | Hidden::DEFINED);
}

#[test]
fn names_are_asked_for_as_bytes_that_no_mode_reads_otherwise() {
    let text = |is_mariadb| {
        let names = vec![name("s'.t\\"), name("s'.u")];
        let query = Inquiry::new(names, is_mariadb).next_query().expect("a query");
        query.sql().to_owned()
    };
    assert_eq!(
        text(true),
        "SELECT 0, TABLE_TYPE, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = _utf8mb4 \
         0x7327 AND TABLE_NAME = _utf8mb4 0x745C UNION ALL SELECT 1, TABLE_TYPE, ENGINE FROM \
         information_schema.TABLES WHERE TABLE_SCHEMA = _utf8mb4 0x7327 AND TABLE_NAME = _utf8mb4 \
         0x75"
    );
    assert_eq!(
        text(false),
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE FROM information_schema.TABLES WHERE \
         TABLE_SCHEMA = _utf8mb4 0x7327 AND TABLE_NAME IN (_utf8mb4 0x745C, _utf8mb4 0x75)"
    );
}

#[test]
fn rows_by_name_belong_to_the_names_that_were_asked_in_whatever_case() {
    let names = vec![name("s.Plain"), name("s.t"), name("s.T"), name("s.u")];
    let mut inquiry = Inquiry::new(names, false);
    while let Some(query) = inquiry.next_query() {
        let rows = match query.topic() {
            Topic::Tables => vec![
                row(None, &["s", "plain", "BASE TABLE", "InnoDB"]),
                row(None, &["s", "t", "BASE TABLE", "InnoDB"]),
            ],
            Topic::Grants => vec![row(None, ALL.2)],
            Topic::RoleGrants | Topic::Views | Topic::Triggers | Topic::Columns | Topic::Keys => {
                Vec::new()
            }
        };
        inquiry.answer(&query, &rows);
    }
    let known = inquiry.finish().into_iter().map(|(_, told)| told.object.is_some());
    assert_eq!(known.collect::<Vec<_>>(), [true, true, false, false]);
}

#[test]
fn base_tables_are_those_of_views_and_of_foreign_keys_that_cascade() {
    let dictionary: Dictionary<'_> = &[
        ALL,
        (Topic::Tables, "s.line", TABLE),
        (Topic::Tables, "s.order", TABLE),
        (Topic::Tables, "s.client", TABLE),
        (Topic::Tables, "s.log", &["BASE TABLE", "MyISAM"]),
        (Topic::Tables, "s.rocks", &["BASE TABLE", "ROCKSDB"]),
        (Topic::Tables, "s.seq", &["SEQUENCE", "InnoDB"]),
        (Topic::Tables, "s.orphan", TABLE),
        (Topic::Tables, "s.seen", VIEW),
        (Topic::Tables, "s.mixed", VIEW),
        (Topic::Tables, "s.hidden", VIEW),
        (Topic::Tables, "s.positions", VIEW),
        (Topic::Tables, "mysql.gtid_executed", TABLE),
        (Topic::Views, "s.positions", &["select 1 AS `1` from `mysql`.`gtid_executed`"]),
        (Topic::Keys, "s.line", &["s", "order"]),
        (Topic::Keys, "s.order", &["s", "client"]),
        (Topic::Keys, "s.client", &["s", "client"]),
        (Topic::Keys, "s.orphan", &["other", "parent"]),
        (Topic::Views, "s.seen", &["select `s`.`client`.`id` AS `id` from `s`.`client`"]),
        (Topic::Views, "s.mixed", &["select 1 AS `1` from `s`.`seen` join `s`.`log`"]),
        (Topic::Views, "s.hidden", &[""]),
    ];
    let check = |of: &str, expected: Option<&[&str]>| {
        let expected = expected.map(|it| it.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(bases(dictionary, of), expected, "{of}");
    };
    check("s.client", Some(&["s.client"]));
    check("s.line", Some(&["s.client", "s.line", "s.order"]));
    check("s.seen", Some(&["s.client"]));
    for of in ["s.log", "s.rocks", "s.seq", "s.orphan", "s.mixed", "s.hidden", "s.missing"] {
        check(of, None);
    }
    // What servers write there is in no log.
    for of in ["information_schema.TABLES", "mysql.gtid_executed", "s.positions"] {
        check(of, None);
    }
    // Who asks for no keys knows none, nor does who may not see them.
    let (inquiry, _) = asked(Inquiry::new(vec![name("s.client")], true), dictionary);
    assert_eq!(inquiry.bases(&name("s.client")), None);
    for line in [
        &["GRANT SELECT ON *.* TO `x`@`%`"],
        // MariaDB shows keys to whom something is given on the schema.
        &["GRANT ALL PRIVILEGES ON `s`.`client` TO `x`@`%`"],
    ] {
        let few: Dictionary<'_> = &[(Topic::Grants, "", line), (Topic::Tables, "s.client", TABLE)];
        assert_eq!(bases(few, "s.client"), None, "{line:?}");
    }
}
