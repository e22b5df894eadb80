//! Every kind of state that ties a session to its server connection: a table for tests.

use trunkline_testkit::Flavour;

/// Something that ties a session to its server connection.
pub struct Tie {
    /// The reasons that hold it, as the status names them.
    pub reasons: &'static [&'static str],
    /// What makes it.
    pub begin: &'static [&'static str],
    /// What shows it: a statement and its first value.
    pub shown: (&'static str, &'static str),
    /// What ends it; empty when only the end of the session does.
    pub end: &'static str,
    /// What another client must find on the connection afterwards: a value, `done` for a
    /// statement without rows, or `error CODE`.
    pub left: (&'static str, &'static str),
    /// Whether only one session at a time can have it.
    pub is_unique: bool,
    /// The one flavour that has it.
    pub only: Option<Flavour>,
}

const NOTHING: Tie = Tie {
    reasons: &[],
    begin: &[],
    shown: ("", ""),
    end: "",
    left: ("SELECT COUNT(*) FROM u", "0"),
    is_unique: false,
    only: None,
};

const MARIADB: Option<Flavour> = Some(Flavour::MariaDb);
const MYSQL: Option<Flavour> = Some(Flavour::MySql);

/// A table is there, or its lock: shown and left.
const MINE: (&str, &str) = ("SELECT COUNT(*) FROM mine", "0");
const NOT_MINE: (&str, &str) = ("SELECT COUNT(*) FROM mine", "error 1146");
const LOCKED: (&str, &str) = ("SELECT IS_USED_LOCK('e2e') = CONNECTION_ID()", "1");
const FREE: (&str, &str) = ("SELECT IS_FREE_LOCK('e2e')", "1");
const ASSIGNED: (&str, &str) = ("SELECT @mine", "x");
const NOT_ASSIGNED: (&str, &str) = ("SELECT @mine", "NULL");
const DDL: (&str, &str) = ("ALTER TABLE t COMMENT 'changed'", "done");

pub const TIES: [Tie; 29] = [
    Tie {
        reasons: &["temporary_table"],
        begin: &["CREATE TEMPORARY TABLE mine (a INT)"],
        shown: MINE,
        end: "DROP TEMPORARY TABLE mine",
        left: NOT_MINE,
        ..NOTHING
    },
    // The same name in another schema is another table.
    Tie {
        reasons: &["temporary_table"],
        begin: &[
            "CREATE TEMPORARY TABLE mine (a INT)",
            "CREATE TEMPORARY TABLE mysql.mine (a INT)",
            "DROP TABLE mysql.mine",
        ],
        shown: MINE,
        end: "DROP TABLE mine",
        left: NOT_MINE,
        ..NOTHING
    },
    Tie {
        reasons: &["routine", "server_state"],
        begin: &["CALL make()"],
        shown: MINE,
        left: NOT_MINE,
        ..NOTHING
    },
    Tie {
        reasons: &["routine"],
        begin: &["CALL assign()"],
        shown: ASSIGNED,
        left: NOT_ASSIGNED,
        ..NOTHING
    },
    Tie {
        reasons: &["routine"],
        begin: &["CALL take()"],
        shown: LOCKED,
        left: FREE,
        is_unique: true,
        ..NOTHING
    },
    Tie {
        reasons: &["user_variable"],
        begin: &["SET @mine = CONCAT('x', '')"],
        shown: ASSIGNED,
        end: "SET @mine = 'y'",
        left: NOT_ASSIGNED,
        ..NOTHING
    },
    Tie {
        reasons: &["user_variable"],
        begin: &["SET @other = 5, @mine = CONCAT('x', '')"],
        shown: ("SELECT CONCAT(@mine, @other)", "x5"),
        end: "SET @mine = NULL",
        left: ("SELECT CONCAT(COALESCE(@mine, ''), COALESCE(@other, ''))", ""),
        ..NOTHING
    },
    Tie {
        reasons: &["user_variable"],
        begin: &["SELECT 'x' INTO @mine"],
        shown: ASSIGNED,
        left: NOT_ASSIGNED,
        ..NOTHING
    },
    Tie {
        reasons: &["user_variable"],
        begin: &["SET @mine = 'x'", "SET NAMES latin1"],
        shown: ASSIGNED,
        end: "SET @mine = 'x'",
        left: NOT_ASSIGNED,
        ..NOTHING
    },
    Tie {
        reasons: &["table_lock"],
        begin: &["LOCK TABLES t READ"],
        shown: ("SELECT COUNT(*) FROM t", "2"),
        end: "UNLOCK TABLES",
        ..NOTHING
    },
    Tie {
        reasons: &["table_lock"],
        begin: &["LOCK TABLES t READ"],
        shown: ("SELECT COUNT(*) FROM u", "error 1100"),
        end: "BEGIN; COMMIT",
        ..NOTHING
    },
    Tie {
        reasons: &["table_lock"],
        begin: &["FLUSH TABLES t WITH READ LOCK"],
        shown: ("SELECT COUNT(*) FROM t", "2"),
        end: "UNLOCK TABLES",
        is_unique: true,
        ..NOTHING
    },
    Tie {
        reasons: &["table_lock"],
        begin: &["FLUSH TABLES u FOR EXPORT"],
        shown: ("SELECT COUNT(*) FROM u", "0"),
        end: "UNLOCK TABLES",
        is_unique: true,
        ..NOTHING
    },
    Tie {
        reasons: &["named_lock"],
        begin: &["SELECT GET_LOCK('e2e', 0)"],
        shown: LOCKED,
        end: "SELECT RELEASE_LOCK('e2e')",
        left: FREE,
        is_unique: true,
        ..NOTHING
    },
    // Held until it is released as often as it was taken.
    Tie {
        reasons: &["named_lock"],
        begin: &[
            "SELECT GET_LOCK('e2e', 0), GET_LOCK('other', 0)",
            "DO GET_LOCK('e2e', 0)",
            "SELECT RELEASE_LOCK('e2e')",
            "SELECT RELEASE_LOCK('other')",
            "SELECT RELEASE_LOCK('never taken')",
        ],
        shown: LOCKED,
        end: "DO RELEASE_LOCK('e2e')",
        left: FREE,
        is_unique: true,
        ..NOTHING
    },
    // To MySQL this is one lock, to MariaDB it is two.
    Tie {
        reasons: &["named_lock"],
        begin: &[
            "DO GET_LOCK('E2E', 0), GET_LOCK('e2e', 0)",
            "DO RELEASE_LOCK('E2E')",
            "DO RELEASE_LOCK('E2E')",
        ],
        end: "SELECT RELEASE_ALL_LOCKS()",
        left: FREE,
        is_unique: true,
        ..NOTHING
    },
    Tie {
        reasons: &["named_lock"],
        begin: &[
            "SELECT GET_LOCK(CONCAT('e', '2e'), 0)",
            "SELECT IF(0, RELEASE_LOCK('e2e'), 'not called')",
            "SELECT IF(0, RELEASE_ALL_LOCKS(), 'not called')",
        ],
        shown: LOCKED,
        end: "SELECT RELEASE_ALL_LOCKS()",
        left: FREE,
        is_unique: true,
        ..NOTHING
    },
    Tie {
        reasons: &["sql_prepared_statement"],
        begin: &["PREPARE mine FROM 'SELECT 7'"],
        shown: ("EXECUTE mine", "7"),
        end: "DEALLOCATE PREPARE mine",
        left: ("EXECUTE mine", "error 1243"),
        ..NOTHING
    },
    Tie {
        reasons: &["routine", "server_state"],
        begin: &["PREPARE mine FROM 'SET @mine = ''x'' '", "EXECUTE mine", "DROP PREPARE mine"],
        shown: ASSIGNED,
        left: NOT_ASSIGNED,
        ..NOTHING
    },
    Tie {
        reasons: &["handler"],
        begin: &["HANDLER t OPEN AS mine"],
        shown: ("HANDLER mine READ FIRST", "1"),
        end: "HANDLER mine CLOSE",
        left: ("HANDLER mine READ FIRST", "error 1109"),
        ..NOTHING
    },
    Tie {
        reasons: &["transaction"],
        begin: &["BEGIN", "INSERT INTO u VALUES (1)"],
        shown: ("SELECT COUNT(*) FROM u", "1"),
        end: "ROLLBACK",
        is_unique: true,
        ..NOTHING
    },
    Tie {
        reasons: &["transaction", "xa"],
        begin: &["XA START 'e2e'", "INSERT INTO u VALUES (1)", "XA END 'e2e'"],
        shown: ("SELECT 1", "1"),
        end: "XA ROLLBACK 'e2e'",
        is_unique: true,
        ..NOTHING
    },
    Tie {
        reasons: &["next_transaction"],
        begin: &["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SELECT 1", "DO 1"],
        end: "SELECT COUNT(*) FROM t",
        ..NOTHING
    },
    Tie {
        reasons: &["role"],
        begin: &["SET ROLE e2e_role"],
        shown: ("SELECT CURRENT_ROLE() LIKE '%e2e_role%'", "1"),
        left: ("SELECT COALESCE(CURRENT_ROLE(), 'NONE')", "NONE"),
        ..NOTHING
    },
    Tie {
        reasons: &["connection"],
        begin: &["SET pseudo_thread_id = 5"],
        shown: ("SELECT @@pseudo_thread_id", "5"),
        left: ("SELECT @@pseudo_thread_id = CONNECTION_ID()", "1"),
        only: MYSQL,
        ..NOTHING
    },
    Tie {
        reasons: &["unknown_variable"],
        begin: &["SET old_mode = 'NO_PROGRESS_INFO'", "SET old = 1"],
        shown: ("SELECT @@old_mode LIKE '%NO_PROGRESS_INFO%'", "1"),
        left: ("SELECT @@old_mode LIKE '%NO_PROGRESS_INFO%'", "0"),
        only: MARIADB,
        ..NOTHING
    },
    Tie {
        reasons: &["backup_lock"],
        begin: &["LOCK INSTANCE FOR BACKUP"],
        end: "UNLOCK INSTANCE",
        left: DDL,
        only: MYSQL,
        ..NOTHING
    },
    Tie {
        reasons: &["backup_lock"],
        begin: &["BACKUP STAGE START"],
        end: "BACKUP STAGE END",
        left: DDL,
        is_unique: true,
        only: MARIADB,
        ..NOTHING
    },
    Tie {
        reasons: &["backup_lock"],
        begin: &["BACKUP LOCK t"],
        end: "BACKUP UNLOCK",
        left: DDL,
        only: MARIADB,
        ..NOTHING
    },
];
