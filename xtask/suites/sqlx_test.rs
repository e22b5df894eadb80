//! What the tests of sqlx take from a crate of its author's that is not published: connections,
//! and macros that make a test of a value's text and the value.

use sqlx::{Connection, Database};

pub use paste::paste;

pub fn setup_if_needed() {}

pub async fn new<DB: Database>() -> anyhow::Result<DB::Connection> {
    Ok(DB::Connection::connect(&std::env::var("DATABASE_URL")?).await?)
}

/// Reads values by text, and by prepared statements that get and give them.
#[macro_export]
macro_rules! test_type {
    ($name:ident<$ty:ty>($db:ident, $sql:literal, $($text:literal == $value:expr),+ $(,)?)) => {
        $crate::test_unprepared_type!($name<$ty>($db, $($text == $value),+));
        $crate::test_prepared_type!($name<$ty>($db, $sql, $($text == $value),+));
    };
    ($name:ident<$ty:ty>($db:ident, $($text:literal == $value:expr),+ $(,)?)) => {
        $crate::test_unprepared_type!($name<$ty>($db, $($text == $value),+));
        $crate::test_prepared_type!($name<$ty>($db, $($text == $value),+));
    };
    ($name:ident($db:ident, $($text:literal == $value:expr),+ $(,)?)) => {
        $crate::test_type!($name<$name>($db, $($text == $value),+));
    };
}

#[macro_export]
macro_rules! test_unprepared_type {
    ($name:ident<$ty:ty>($db:ident, $($text:literal == $value:expr),+ $(,)?)) => {
        $crate::paste! {
            #[sqlx::test]
            async fn [< test_unprepared_type_ $name >]() -> anyhow::Result<()> {
                use sqlx::{Executor, Row};
                let mut conn = $crate::new::<$db>().await?;
                $({
                    let sql = sqlx::AssertSqlSafe(format!("SELECT {}", $text));
                    let row = conn.fetch_one(sqlx::raw_sql(sql)).await?;
                    let found = row.try_get::<$ty, _>(0)?;
                    assert_eq!(found, $value, "{}", $text);
                })+
                Ok(())
            }
        }
    };
}

#[macro_export]
macro_rules! test_prepared_type {
    ($name:ident<$ty:ty>($db:ident, $sql:literal, $($text:literal == $value:expr),+ $(,)?)) => {
        $crate::paste! {
            #[sqlx::test]
            async fn [< test_prepared_type_ $name >]() -> anyhow::Result<()> {
                use sqlx::Row;
                let mut conn = $crate::new::<$db>().await?;
                $({
                    let sql = sqlx::AssertSqlSafe($sql.replace("{0}", $text));
                    let value = $value;
                    let query = sqlx::query(sql).bind(&value).bind(&value);
                    let row = query.fetch_one(&mut conn).await?;
                    assert_eq!(row.try_get::<i64, _>(0)?, 1, "{}", $text);
                    assert_eq!(row.try_get::<$ty, _>(1)?, value, "{}", $text);
                    assert_eq!(row.try_get::<$ty, _>(2)?, value, "{}", $text);
                })+
                Ok(())
            }
        }
    };
    ($name:ident<$ty:ty>($db:ident, $($text:literal == $value:expr),+ $(,)?)) => {
        $crate::test_prepared_type!($name<$ty>(
            $db,
            "SELECT CAST({0} <=> ? AS SIGNED INTEGER), {0} AS _2, ? AS _3",
            $($text == $value),+
        ));
    };
}
