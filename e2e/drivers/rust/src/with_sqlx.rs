//! `sqlx`.

use futures_util::TryStreamExt;
use serde_json::{Value, json};
use sqlx::mysql::{
    MySqlArguments, MySqlConnectOptions, MySqlDatabaseError, MySqlPoolOptions, MySqlQueryResult,
    MySqlRow, MySqlSslMode, MySqlStatement,
};
use sqlx::pool::PoolConnection;
use sqlx::query::Query;
use sqlx::types::BigDecimal;
use sqlx::types::chrono::{NaiveDate, NaiveDateTime};
use sqlx::{
    AssertSqlSafe, Column, ConnectOptions, Connection, Either, Error, Executor, MySql,
    MySqlConnection, MySqlPool, Row, SqlSafeStr, Statement, TypeInfo, ValueRef,
};

use crate::values::{Param, show, summary};
use crate::{Driver, Session, Target};

pub struct SqlxDriver(pub Target);

/// One that was opened alone, or out of the pool.
pub enum SqlxSession {
    Own(MySqlConnection),
    Lent(PoolConnection<MySql>),
}

impl SqlxSession {
    fn raw(&mut self) -> &mut MySqlConnection {
        match self {
            SqlxSession::Own(conn) => conn,
            SqlxSession::Lent(conn) => conn,
        }
    }
}

impl SqlxDriver {
    fn options(&self) -> MySqlConnectOptions {
        let target = &self.0;
        MySqlConnectOptions::new()
            .host(&target.host)
            .port(target.port)
            .username(&target.user)
            .password(&target.password)
            .database(&target.schema)
            .ssl_mode(if target.tls { MySqlSslMode::Required } else { MySqlSslMode::Disabled })
    }
}

impl Driver for SqlxDriver {
    type Session = SqlxSession;
    type Pool = MySqlPool;

    async fn open(&self) -> Result<SqlxSession, Value> {
        Ok(SqlxSession::Own(self.options().connect().await.map_err(shown)?))
    }

    async fn pool(&self, size: usize) -> Result<MySqlPool, Value> {
        let size = u32::try_from(size).unwrap_or(1);
        let options = MySqlPoolOptions::new().max_connections(size);
        options.connect_with(self.options()).await.map_err(shown)
    }

    async fn lease(&self, pool: &MySqlPool) -> Result<SqlxSession, Value> {
        Ok(SqlxSession::Lent(pool.acquire().await.map_err(shown)?))
    }

    async fn close_pool(&self, pool: MySqlPool) {
        pool.close().await;
    }
}

fn shown(error: Error) -> Value {
    let server = error.as_database_error();
    match server.and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>()) {
        Some(error) => {
            json!({"error": error.number(), "state": error.code(), "message": error.message()})
        }
        None => json!({"failure": error.to_string()}),
    }
}

fn bound<'q>(
    query: Query<'q, MySql, MySqlArguments>,
    params: Vec<Param>,
) -> Query<'q, MySql, MySqlArguments> {
    params.into_iter().fold(query, |query, param| match param {
        Param::Null => query.bind(None::<String>),
        Param::Int(number) => query.bind(number),
        Param::Double(number) => query.bind(number),
        Param::Text(text) => query.bind(text),
        Param::Bytes(bytes) => query.bind(bytes),
        Param::DateTime(text) => {
            query.bind(NaiveDateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S%.f").ok())
        }
    })
}

fn row_shown(row: &MySqlRow) -> Vec<String> {
    (0..row.len()).map(|place| value_shown(row, place)).collect()
}

fn value_shown(row: &MySqlRow, place: usize) -> String {
    let Ok(raw) = row.try_get_raw(place) else { return "no column".to_owned() };
    let kind = raw.type_info().name().to_owned();
    if raw.is_null() {
        return "NULL".to_owned();
    }
    let text = match kind.as_str() {
        "DECIMAL" => row.try_get::<BigDecimal, _>(place).map(|value| value.to_string()),
        "FLOAT" => row.try_get::<f32, _>(place).map(|value| value.to_string()),
        "DOUBLE" => row.try_get::<f64, _>(place).map(|value| value.to_string()),
        "DATE" => row.try_get::<NaiveDate, _>(place).map(|value| value.to_string()),
        "DATETIME" | "TIMESTAMP" => {
            row.try_get_unchecked::<NaiveDateTime, _>(place).map(|value| value.to_string())
        }
        "JSON" => row.try_get::<Value, _>(place).map(|value| value.to_string()),
        kind if kind.contains("UNSIGNED") || kind == "BIT" || kind == "YEAR" => {
            row.try_get::<u64, _>(place).map(|value| value.to_string())
        }
        kind if kind.contains("INT") || kind == "BOOLEAN" => {
            row.try_get_unchecked::<i64, _>(place).map(|value| value.to_string())
        }
        "TIME" => Ok("a time".to_owned()),
        _ => match row.try_get_unchecked::<Vec<u8>, _>(place) {
            Ok(bytes) => return show(&kind, &bytes),
            Err(error) => Err(error),
        },
    };
    format!("{kind}:{}", text.unwrap_or_else(|error| error.to_string()))
}

/// All results, as they come.
async fn results<'e>(
    mut stream: futures_util::stream::BoxStream<
        'e,
        Result<Either<MySqlQueryResult, MySqlRow>, Error>,
    >,
) -> Result<Value, Value> {
    let mut sets = Vec::new();
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut columns: Vec<Value> = Vec::new();
    loop {
        match stream.try_next().await {
            Ok(Some(Either::Left(done))) => {
                sets.push(json!({
                    "affected": done.rows_affected(), "id": done.last_insert_id(),
                    "columns": std::mem::take(&mut columns), "rows": std::mem::take(&mut rows),
                }));
            }
            Ok(Some(Either::Right(row))) => {
                if rows.is_empty() {
                    let column =
                        |c: &sqlx::mysql::MySqlColumn| json!([c.name(), c.type_info().name()]);
                    columns = row.columns().iter().map(column).collect();
                }
                rows.push(row_shown(&row));
            }
            Ok(None) => break,
            Err(error) if sets.is_empty() => return Err(shown(error)),
            Err(error) => {
                sets.push(shown(error));
                break;
            }
        }
    }
    Ok(if sets.len() == 1 { sets.remove(0) } else { json!(sets) })
}

impl Session for SqlxSession {
    type Prepared = MySqlStatement;

    async fn run(&mut self, sql: &str, params: Option<Vec<Param>>) -> Result<Value, Value> {
        let sql = AssertSqlSafe(sql.to_owned());
        match params {
            None => results(self.raw().fetch_many(sqlx::raw_sql(sql))).await,
            Some(params) => results(self.raw().fetch_many(bound(sqlx::query(sql), params))).await,
        }
    }

    async fn multi(&mut self, sql: &str) -> Result<Value, Value> {
        self.run(sql, None).await
    }

    async fn batch(&mut self, sql: &str, rows: Vec<Vec<Param>>) -> Result<Value, Value> {
        let mut transaction = self.raw().begin().await.map_err(shown)?;
        let mut affected = 0;
        for row in rows {
            let query = bound(sqlx::query(AssertSqlSafe(sql.to_owned())), row);
            let done = query.execute(&mut *transaction).await.map_err(shown)?;
            affected += done.rows_affected();
        }
        transaction.commit().await.map_err(shown)?;
        Ok(json!(affected))
    }

    async fn stream(&mut self, sql: &str, take: usize) -> Result<Value, Value> {
        let mut rows = self.raw().fetch(sqlx::raw_sql(AssertSqlSafe(sql.to_owned())));
        let mut seen = Vec::new();
        while seen.len() < take {
            match rows.try_next().await.map_err(shown)? {
                Some(row) => seen.push(row_shown(&row).join(",")),
                None => break,
            }
        }
        drop(rows);
        Ok(json!([seen.len(), summary(seen.join("\n").as_bytes())]))
    }

    async fn prepare(&mut self, sql: &str) -> Result<MySqlStatement, Value> {
        let sql = AssertSqlSafe(sql.to_owned()).into_sql_str();
        self.raw().prepare(sql).await.map_err(shown)
    }

    async fn execute(&mut self, stmt: &MySqlStatement, params: Vec<Param>) -> Result<Value, Value> {
        let query = bound(stmt.query(), params);
        results(self.raw().fetch_many(query)).await
    }

    async fn close_stmt(&mut self, stmt: MySqlStatement) -> Result<Value, Value> {
        // The driver keeps statements until its cache is full.
        drop(stmt);
        self.raw().clear_cached_statements().await.map_err(shown)?;
        Ok(json!("closed"))
    }

    async fn ping(&mut self) -> Result<Value, Value> {
        self.raw().ping().await.map_err(shown)?;
        Ok(json!("alive"))
    }

    async fn special(&mut self, _: &str) -> Result<Value, Value> {
        Ok(json!("unsupported"))
    }

    async fn close(self) -> Result<Value, Value> {
        if let SqlxSession::Own(conn) = self {
            conn.close().await.map_err(shown)?;
        }
        Ok(json!("closed"))
    }
}
