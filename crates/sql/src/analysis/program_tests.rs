//! Tests of where stored programs end.

use super::*;

fn analysed(text: &str) -> Analysis {
    analyse(text.as_bytes(), &Modes::default())
}

fn is_doubted(analysis: &Analysis) -> bool {
    let is_other = |effect: &Effect| matches!(effect, Effect::OtherSession(_));
    analysis.access == Access::MayWrite && analysis.effects.iter().any(is_other)
}

#[test]
fn bodies_of_stored_programs_have_no_effects() {
    for body in [
        "CREATE PROCEDURE p() BEGIN SET @a = 1; SELECT GET_LOCK('a', 1); END",
        "CREATE PROCEDURE p() BEGIN IF a THEN SET @a=1; END IF; WHILE b DO SET @c=1;END WHILE; END",
        "CREATE FUNCTION f() RETURNS INT BEGIN CASE a WHEN 1 THEN SET @a=1; END CASE; RETURN 1;END",
        "CREATE TRIGGER t AFTER INSERT ON v FOR EACH ROW BEGIN SET @a=CASE b WHEN 1 THEN 2 END;END",
        "ALTER EVENT e DO BEGIN SET @a = 1; BEGIN SET @b = 1; END; END",
    ] {
        let analysis = analysed(body);
        assert_eq!(analysis.effects, [], "{body}");
        assert_eq!(analysis.statements, 1, "{body}");
        let followed = format!("{body}; SET ROLE r");
        let analysis = analysed(&followed);
        assert_eq!(analysis.effects.last(), Some(&Effect::SetRole), "{followed}");
        assert_eq!(analysis.statements, 2, "{followed}");
    }
    let effects = analysed("CREATE PROCEDURE p() BEGIN SELECT 1; SET ROLE r").effects;
    assert_eq!(effects, [Effect::OtherSession("stored program whose end was not found")]);
}

#[test]
fn issue_16_names_that_look_like_keywords_close_no_block() {
    let whole = "CREATE PROCEDURE p() BEGIN SELECT t.end FROM t; DROP TABLE x; END";
    assert_eq!(analysed(whole).effects, []);
    for text in [
        "CREATE PROCEDURE p() BEGIN SELECT end FROM t; DROP TABLE x; END",
        "CREATE PROCEDURE p() BEGIN SELECT 1 AS end; DROP TABLE x; END",
        "CREATE PROCEDURE p() BEGIN SELECT a end FROM t; DROP TABLE x; END",
        "CREATE PROCEDURE p() SELECT begin FROM t; DROP TABLE x",
        "CREATE PROCEDURE p() SELECT a begin FROM t; DROP TABLE x; END",
        "CREATE PROCEDURE p() SELECT CASE WHEN end THEN 1 END FROM t; DROP TABLE x; END",
        "CREATE TRIGGER begin BEFORE INSERT ON t FOR EACH ROW SET @a = 1; DROP TABLE x; END",
        "CREATE TRIGGER u BEFORE INSERT ON t FOR EACH ROW IF 1 THEN SET @a=1; DROP TABLE x; END IF",
        "CREATE PROCEDURE p AS a INT; BEGIN DROP TABLE x; END",
        "CREATE FUNCTION f() BEGIN RETURN CASE 1 WHEN 1 THEN begin END; DROP TABLE x; END",
    ] {
        let analysis = analysed(text);
        let is_unknown = matches!(&*analysis.effects, [Effect::OtherSession(_)]);
        assert!(is_unknown && analysis.statements == 1, "{text}: {:?}", analysis.effects);
    }
    for text in [
        "CREATE PROCEDURE p() SELECT t.begin FROM t; SET ROLE r",
        "CREATE PROCEDURE p() SELECT 1; SET ROLE r",
        "CREATE PROCEDURE p() BEGIN SELECT t.end, `end`, @end, 'end' FROM t; END; SET ROLE r",
        "CREATE PROCEDURE p() a: BEGIN DECLARE EXIT HANDLER FOR NOT FOUND BEGIN END; \
         SELECT 1; END a; SET ROLE r",
    ] {
        let analysis = analysed(text);
        assert_eq!(analysis.effects.last(), Some(&Effect::SetRole), "{text}");
        assert!(!is_doubted(&analysis), "{text}: {:?}", analysis.effects);
    }
}

#[test]
fn issue_16_a_name_begins_no_block() {
    for text in [
        "CREATE PROCEDURE p(IN begin INT) SELECT 1; SET ROLE r; END",
        "CREATE PROCEDURE p(a INT, INOUT begin INT) SELECT 1; SET ROLE r; END",
        "CREATE PROCEDURE p() DO begin IS NULL; SET ROLE r; END",
        "CREATE PROCEDURE p() DO begin start; SET ROLE r; END",
        "CREATE PROCEDURE p() UPDATE do begin SET a = 1; SET ROLE r; END",
        "CREATE PROCEDURE p() SELECT do begin FROM t; SET ROLE r; END",
        "CREATE PROCEDURE p() CREATE VIEW begin AS SELECT 1; SET ROLE r; END",
        "CREATE PROCEDURE p() CREATE USER begin IDENTIFIED BY 'x'; SET ROLE r; END",
        "CREATE PROCEDURE p() WHILE do > do DO begin IS NULL; SET ROLE r; END",
        "CREATE EVENT e ON SCHEDULE AT begin DO SELECT 1; SET ROLE r; END",
    ] {
        let analysis = analysed(text);
        let is_told = |effect: &Effect| matches!(effect, Effect::SetRole | Effect::OtherSession(_));
        assert!(analysis.effects.iter().any(is_told), "{text}: {:?}", analysis.effects);
    }
    for text in [
        "CREATE DEFINER=`a`@`b` PROCEDURE p(IN a INT) SQL SECURITY DEFINER BEGIN SELECT 1; END",
        "CREATE FUNCTION f() RETURNS CHAR CHARSET latin1 BEGIN RETURN 1; END",
        "CREATE FUNCTION f() RETURNS BIGINT UNSIGNED BEGIN RETURN 1; END",
        "CREATE FUNCTION f(a INT) RETURNS INT READS SQL DATA COMMENT 'x' BEGIN RETURN 1; END",
        "CREATE TRIGGER t AFTER INSERT ON v FOR EACH ROW FOLLOWS u BEGIN DO 1; END",
        "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO BEGIN INSERT INTO t VALUES (1); END",
        "CREATE PROCEDURE p() BEGIN WHILE a DO BEGIN END; END WHILE; END",
    ] {
        let analysis = analysed(text);
        assert_eq!((analysis.statements, analysis.effects), (1, vec![]), "{text}");
    }
}
