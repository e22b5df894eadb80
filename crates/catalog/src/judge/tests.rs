use super::*;

const MARIADB: bool = true;
const MYSQL: bool = false;

fn tables(verdict: &Verdict) -> Vec<String> {
    let name = |used: &Use| {
        let table = String::from_utf8_lossy(&used.table).into_owned();
        let sign = if used.access == TableAccess::Write { "!" } else { "" };
        match &used.schema {
            Some(schema) => format!("{}.{table}{sign}", String::from_utf8_lossy(schema)),
            None => format!("{table}{sign}"),
        }
    };
    let mut names: Vec<String> = verdict.uses.iter().map(name).collect();
    names.sort();
    names
}

/// Definitions as `information_schema.VIEWS` shows them, MariaDB's first and then MySQL's.
const VIEWS: [(&str, &str, Hidden, &[&str]); 6] = [
    (
        "select `a`.`t`.`id` AS `id`,`a`.`u`.`total` AS `total` from (`a`.`t` join `a`.`u` \
         on(`a`.`u`.`t_id` = `a`.`t`.`id`)) where `a`.`t`.`n` > 3",
        "select `a`.`t`.`id` AS `id`,`a`.`u`.`total` AS `total` from (`a`.`t` join `a`.`u` \
         on((`a`.`u`.`t_id` = `a`.`t`.`id`))) where (`a`.`t`.`n` > 3)",
        Hidden::empty(),
        &["a.t", "a.u"],
    ),
    (
        "select `v1`.`id` AS `id`,count(0) AS `c`,max(`v1`.`total`) AS `m` from `a`.`v1` group by \
         `v1`.`id` having count(0) > 1",
        "select `a`.`v1`.`id` AS `id`,count(0) AS `c`,max(`a`.`v1`.`total`) AS `m` from `a`.`v1` \
         group by `a`.`v1`.`id` having (count(0) > 1)",
        Hidden::empty(),
        &["a.v1"],
    ),
    (
        "select `f`(`a`.`t`.`id`) AS `x` from `a`.`t`",
        "select `f`(`a`.`t`.`id`) AS `x` from `a`.`t`",
        Hidden::OPAQUE,
        &[],
    ),
    (
        "select `a`.`t`.`id` AS `id` from `a`.`t` where `a`.`t`.`id` in (select `a`.`u`.`t_id` \
         from `a`.`u`) union select `b`.`w`.`t_id` AS `t_id` from `b`.`w`",
        "select `a`.`t`.`id` AS `id` from `a`.`t` where `a`.`t`.`id` in (select `a`.`u`.`t_id` \
         from `a`.`u`) union select `b`.`w`.`t_id` AS `t_id` from `b`.`w`",
        Hidden::empty(),
        &["a.t", "a.u", "b.w"],
    ),
    (
        "with c as (select `a`.`t`.`id` AS `id`,`a`.`t`.`n` AS `n` from `a`.`t`)select `c`.`id` AS \
         `id`,lcase('É\\'`\"x') AS `q`,case when `c`.`n` is null then 0 else 1 end AS `k` from (`c` \
         left join `a`.`u` on(`c`.`id` = `a`.`u`.`t_id`))",
        "with `c` as (select `a`.`t`.`id` AS `id`,`a`.`t`.`n` AS `n` from `a`.`t`) select `c`.`id` \
         AS `id`,lower('É`\"x') AS `q`,(case when (`c`.`n` is null) then 0 else 1 end) AS `k` from \
         (`c` left join `a`.`u` on((`c`.`id` = `a`.`u`.`t_id`)))",
        Hidden::empty(),
        &["a.t", "a.u"],
    ),
    (
        "select `a`.`t`.`d` + interval 1 day AS `nd`,group_concat(distinct `a`.`t`.`name` order by \
         `a`.`t`.`name` ASC separator ',') AS `gc`,cast(`a`.`t`.`n` as char charset utf8mb3) AS \
         `cc`,substr(`a`.`t`.`name`,1,2) AS `ss`,trim(leading 'x' from `a`.`t`.`name`) AS \
         `tt`,extract(year from `a`.`t`.`d`) AS `y`,`a`.`t`.`n` between 1 and 2 AS `bb`,convert(\
         `a`.`t`.`name` using utf8mb4) AS `cu`,`a`.`t`.`name` collate latin1_bin AS `cb`,if(\
         `a`.`t`.`n`,1,2) AS `i`,`a`.`t`.`n` DIV 2 AS `n DIV 2`,-`a`.`t`.`n` AS `-n`,row_number() \
         over ( partition by `a`.`t`.`n` order by `a`.`t`.`id`) AS `rn`,exists(select 1 from \
         `a`.`u` where `a`.`u`.`id` = `a`.`t`.`id` limit 1) AS `ex`,`a`.`t`.`name` regexp 'x' AS \
         `rx` from `a`.`t` group by `a`.`t`.`id`",
        "select (`a`.`t`.`d` + interval 1 day) AS `nd`,group_concat(distinct `a`.`t`.`name` order \
         by `a`.`t`.`name` ASC separator ',') AS `gc`,cast(`a`.`t`.`n` as char charset utf8mb3) AS \
         `cc`,substr(`a`.`t`.`name`,1,2) AS `ss`,trim(leading 'x' from `a`.`t`.`name`) AS \
         `tt`,extract(year from `a`.`t`.`d`) AS `y`,(`a`.`t`.`n` between 1 and 2) AS \
         `bb`,convert(`a`.`t`.`name` using utf8mb4) AS `cu`,(`a`.`t`.`name` collate utf8mb4_bin) AS \
         `cb`,if(`a`.`t`.`n`,1,2) AS `i`,(`a`.`t`.`n` DIV 2) AS `n DIV 2`,-(`a`.`t`.`n`) AS \
         `-n`,row_number() OVER (PARTITION BY `a`.`t`.`n` ORDER BY `a`.`t`.`id` )  AS \
         `rn`,exists(select 1 from `a`.`u` where (`a`.`u`.`id` = `a`.`t`.`id`)) AS \
         `ex`,regexp_like(`a`.`t`.`name`,'x') AS `rx` from `a`.`t` group by `a`.`t`.`id`",
        Hidden::CONCATENATES,
        &["a.t", "a.u"],
    ),
];

#[test]
fn views_as_servers_render_them_are_judged_and_their_tables_found() {
    for (mariadb, mysql, hidden, expected) in VIEWS {
        for (text, family) in [(mariadb, MARIADB), (mysql, MYSQL)] {
            let verdict = judge_view(text.as_bytes(), family);
            assert_eq!(verdict.hidden, hidden | Hidden::DEFINED, "{text}");
            if !hidden.has(Hidden::OPAQUE) {
                assert_eq!(tables(&verdict), expected, "{text}");
            }
        }
    }
}

#[test]
fn views_that_look_at_their_session_say_so() {
    let session = Hidden::READS_SESSION | Hidden::VARIES;
    let acts = Hidden::OPAQUE | Hidden::WRITES;
    for (text, expected) in [
        ("select `a`.`t`.`id` AS `id` from `a`.`t` where `a`.`t`.`id` = last_insert_id()", session),
        ("select connection_id() AS `c`", session),
        ("select found_rows() AS `c`", session),
        ("select now() AS `n` from `a`.`t`", Hidden::VARIES),
        ("select user() AS `n` from `a`.`t`", Hidden::VARIES),
        ("select last_insert_id(5) AS `c`", acts | Hidden::READS_SESSION),
        ("select get_lock('a',1) AS `c`", acts),
        ("select nextval(`a`.`s`) AS `c` from `a`.`t`", acts),
        ("select `b`.`f`(1) AS `c`", Hidden::OPAQUE),
        ("select `b`.`f`(1),@`x` AS `c`", Hidden::OPAQUE | Hidden::READS_SESSION),
        ("select sleep(1) AS `c`", Hidden::OPAQUE),
        ("select 1 AS `c` from `a`.`t` for update", Hidden::OPAQUE),
        ("select last_insert_id() AS `c` from `a`.`t` for update", Hidden::OPAQUE),
        ("select 'a\\' AS `c` from `a`.`t` where `f`(1) = '1'", Hidden::OPAQUE),
        ("delete from `a`.`t`", Hidden::OPAQUE),
        ("select 1; delete from `a`.`t`", Hidden::OPAQUE),
        ("", Hidden::OPAQUE),
    ] {
        let hidden = judge_view(text.as_bytes(), MARIADB).hidden;
        match text.contains("sleep") {
            // It takes time on purpose, and nothing else.
            true => assert!(!hidden.is_empty(), "{text}"),
            false => assert_eq!(hidden, expected | Hidden::DEFINED, "{text}"),
        }
    }
}

#[test]
fn what_columns_compute_is_judged() {
    let moves = Hidden::READS_SESSION | Hidden::WRITES | Hidden::LEAVES;
    for (text, family, expected) in [
        ("`n` + 1", MARIADB, Hidden::empty()),
        ("(`n` + 1)", MYSQL, Hidden::empty()),
        ("'x'", MARIADB, Hidden::empty()),
        ("current_timestamp()", MARIADB, Hidden::VARIES),
        ("concat('a',ucase('b'))", MARIADB, Hidden::empty()),
        ("concat(_utf8mb3\\'a\\',upper(_utf8mb3\\'b\\'))", MYSQL, Hidden::empty()),
        ("nextval(`a`.`s`)", MARIADB, moves),
        ("nextval(`a`.`s`) + 1", MARIADB, moves),
        ("lastval(`a`.`s`)", MARIADB, Hidden::READS_SESSION),
        ("setval(`a`.`s`,100)", MARIADB, moves),
        ("@`x`", MARIADB, Hidden::READS_SESSION),
        ("@`y`:=3", MARIADB, Hidden::OPAQUE | Hidden::WRITES),
        ("`f`(1)", MARIADB, Hidden::OPAQUE),
        ("(select 1 from `a`.`t`)", MARIADB, Hidden::OPAQUE),
    ] {
        assert_eq!(judge_column(text.as_bytes(), family), expected, "{text}");
    }
}

fn trigger(body: &str) -> Verdict {
    judge_trigger(body.as_bytes(), b"STRICT_TRANS_TABLES", b"utf8mb4", MARIADB)
}

#[test]
fn plain_bodies_of_triggers_are_judged_and_their_tables_found() {
    for (body, expected) in [
        ("SET NEW.total = IFNULL(NEW.total, 0) + 1", &[][..]),
        ("SET NEW.a = 1, NEW.`b` = LOWER(NEW.b), new.c = (SELECT MAX(x) FROM m)", &["m"]),
        (
            "BEGIN INSERT INTO log (t_id, txt, at) VALUES (NEW.id, CONCAT('new ', NEW.name), \
             NOW()); END",
            &["log!"],
        ),
        (
            "BEGIN IF NEW.n <> OLD.n THEN UPDATE u SET total = total + (NEW.n - OLD.n) WHERE t_id \
             = NEW.id; END IF; END",
            &["u!"],
        ),
        (
            "BEGIN\n  -- counts\n  DECLARE c, d INT DEFAULT 0;\n  SELECT COUNT(*), MAX(id) INTO c, \
             d FROM b.log WHERE t_id = OLD.t_id;\n  IF c > 3 THEN DELETE FROM x WHERE id = d;\n  \
             ELSEIF CASE WHEN c = 0 THEN 1 ELSE 0 END THEN REPLACE INTO y VALUES (1);\n  ELSE SET \
             c = d + 1;\n  END IF;\nEND",
            &["b.log", "x!", "y!"],
        ),
        (
            "BEGIN IF NEW.n < 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'below 0'; END IF; \
             END",
            &[],
        ),
        ("DELETE FROM `log` WHERE id = OLD.id", &["log!"]),
        ("INSERT INTO log SELECT OLD.id, name FROM t2", &["log!", "t2"]),
        (
            "BEGIN DECLARE a INT; IF NEW.n THEN BEGIN DECLARE b INT; SET a = 1, b = a; END; END IF; \
             BEGIN DECLARE b INT; SET b = 2; END; SET a = 3; END",
            &[],
        ),
    ] {
        let verdict = trigger(body);
        assert!(!verdict.hidden.may(Hidden::LEAVES), "{body}: {verdict:?}");
        assert_eq!(tables(&verdict), expected, "{body}");
    }
}

#[test]
fn bodies_with_more_than_that_are_not_known() {
    for body in [
        "SET @deleted = 1",
        "SET sql_log_bin = 0",
        "SET SESSION sql_mode = ''",
        "SET NEW.a = 1, @x = 2",
        "SET NEW.a = (@x := 2)",
        "SET NEW.a = f(1)",
        "SET NEW.a = b . f(1)",
        "SET NEW.a = GET_LOCK('a', 1)",
        "SET NEW.a = NEXTVAL(s)",
        "SET NEW.a = NEXT VALUE FOR s",
        "SET NEW.a = LAST_INSERT_ID(7)",
        "SET OLD.a = 1",
        "CALL p()",
        "DO RELEASE_LOCK('a')",
        "BEGIN SELECT id INTO @x FROM t; END",
        "BEGIN SELECT id INTO nobody FROM t; END",
        "BEGIN SELECT id INTO OUTFILE 'x' FROM t; END",
        "BEGIN DECLARE c CURSOR FOR SELECT 1; OPEN c; END",
        "BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET @x = 1; INSERT INTO t VALUES (1); END",
        "BEGIN DECLARE c INT; WHILE c < 3 DO SET c = c + 1; END WHILE; END",
        "x: BEGIN INSERT INTO t VALUES (1); END",
        "BEGIN CREATE TEMPORARY TABLE x (a INT); END",
        "BEGIN INSERT INTO t VALUES (1); SET time_zone = 'UTC'; END",
        "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)",
        "/*!50000 SET NEW.a = 1 */",
        "SET NEW.a = 'unfinished",
        "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = @x",
        "BEGIN NOT ATOMIC SET NEW.a = 1; END",
        "BEGIN DECLARE `into` INT; SELECT t.into INTO @x FROM t; END",
    ] {
        assert!(trigger(body).hidden.may(Hidden::LEAVES), "{body}: {:?}", trigger(body));
    }
    let last_id = trigger("SET NEW.a = LAST_INSERT_ID()");
    assert_eq!(last_id.hidden, Hidden::READS_SESSION | Hidden::VARIES);
}

#[test]
fn issue_16_a_variable_of_a_block_is_the_servers_behind_it() {
    for body in [
        "BEGIN BEGIN DECLARE time_zone VARCHAR(9); SET time_zone = 'x'; END; \
         SET time_zone = '+09:00'; END",
        "BEGIN IF NEW.a THEN BEGIN DECLARE timestamp INT; END; END IF; SET timestamp = 1; END",
        "BEGIN DECLARE a INT; BEGIN DECLARE b INT; BEGIN DECLARE timestamp INT; END; SET b = 1; \
         END; SET a = 1, timestamp = 1; END",
        "BEGIN BEGIN DECLARE timestamp INT; END; SELECT 1 INTO timestamp; END",
        "BEGIN SET NEW.a = 1; END; END",
        "BEGIN BEGIN SET NEW.a = 1; END",
    ] {
        assert_eq!(trigger(body).hidden, Hidden::OPAQUE, "{body}");
    }
}

#[test]
fn bodies_are_read_in_the_mode_that_they_were_made_in() {
    let hidden = |sql_mode: &str, charset: &str, body: &str| {
        let verdict =
            judge_trigger(body.as_bytes(), sql_mode.as_bytes(), charset.as_bytes(), MARIADB);
        verdict.hidden
    };
    let body = r#"SET NEW.a = "b", NEW.c = f("d")"#;
    assert_eq!(hidden("", "utf8mb3", body), Hidden::OPAQUE);
    let body = r"SET NEW.a = '\', NEW.c = f('d')";
    assert_eq!(hidden("NO_BACKSLASH_ESCAPES", "utf8mb4", body), Hidden::OPAQUE);
    let body = "SET NEW.a = 'é'";
    assert_eq!(hidden("", "utf8mb4", body), Hidden::empty());
    assert_eq!(hidden("", "sjis", body), Hidden::OPAQUE);
    // Letters are others there.
    let body = "SET NEW.a = 'a'";
    assert_eq!(hidden("", "latin1", body), Hidden::empty());
    assert_eq!(hidden("", "swe7", body), Hidden::OPAQUE);
    assert_eq!(hidden("PIPES_AS_CONCAT,ORACLE", "utf8mb4", "SET NEW.a = 1"), Hidden::OPAQUE);
}
