//! The kinds of statements that are counted separately.

macro_rules! kinds {
    ($($variant:ident $name:literal,)+) => {
        /// What a statement is, in the classes of the admin table `stats_mysql_commands_counters`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum StatementKind {
            $(#[doc = concat!("Counted as `", $name, "`.")] $variant,)+
        }

        impl StatementKind {
            /// All kinds, in the order of [`Self::index`].
            pub const ALL: [Self; Self::COUNT] = [$(Self::$variant,)+];
            /// How many kinds there are.
            pub const COUNT: usize = [$($name,)+].len();

            /// The name of the class in the admin table.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Its place in a table of [`Self::COUNT`] counters.
            pub fn index(self) -> usize {
                self as usize
            }
        }
    };
}

kinds! {
    AlterTable "ALTER_TABLE",
    AlterView "ALTER_VIEW",
    AnalyzeTable "ANALYZE_TABLE",
    Begin "BEGIN",
    Call "CALL",
    ChangeMaster "CHANGE_MASTER",
    Commit "COMMIT",
    CreateDatabase "CREATE_DATABASE",
    CreateIndex "CREATE_INDEX",
    CreateTable "CREATE_TABLE",
    CreateTemporary "CREATE_TEMPORARY",
    CreateTrigger "CREATE_TRIGGER",
    CreateUser "CREATE_USER",
    CreateView "CREATE_VIEW",
    Deallocate "DEALLOCATE",
    Delete "DELETE",
    Describe "DESCRIBE",
    DropDatabase "DROP_DATABASE",
    DropIndex "DROP_INDEX",
    DropTable "DROP_TABLE",
    DropTrigger "DROP_TRIGGER",
    DropUser "DROP_USER",
    DropView "DROP_VIEW",
    Grant "GRANT",
    Execute "EXECUTE",
    Explain "EXPLAIN",
    Flush "FLUSH",
    Insert "INSERT",
    Kill "KILL",
    Load "LOAD",
    LockTable "LOCK_TABLE",
    Optimize "OPTIMIZE",
    Prepare "PREPARE",
    Purge "PURGE",
    ReleaseSavepoint "RELEASE_SAVEPOINT",
    RenameTable "RENAME_TABLE",
    ResetMaster "RESET_MASTER",
    ResetSlave "RESET_SLAVE",
    Replace "REPLACE",
    Revoke "REVOKE",
    Rollback "ROLLBACK",
    RollbackSavepoint "ROLLBACK_SAVEPOINT",
    Savepoint "SAVEPOINT",
    Select "SELECT",
    SelectForUpdate "SELECT_FOR_UPDATE",
    Set "SET",
    ShowTableStatus "SHOW_TABLE_STATUS",
    StartTransaction "START_TRANSACTION",
    TruncateTable "TRUNCATE_TABLE",
    UnlockTables "UNLOCK_TABLES",
    Update "UPDATE",
    Use "USE",
    Show "SHOW",
    Unknown "UNKNOWN",
}

impl StatementKind {
    /// Whether it reads or writes rows of tables, and by its kind does nothing else.
    pub fn handles_rows(self) -> bool {
        use StatementKind as Kind;
        matches!(
            self,
            Kind::Select
                | Kind::SelectForUpdate
                | Kind::Insert
                | Kind::Update
                | Kind::Delete
                | Kind::Replace
        )
    }
}
