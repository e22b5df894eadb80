//! Carries out the scenario with one of Rust's drivers and prints a JSON line for each step:
//! DRIVER SCENARIO.

mod values;
mod with_mysql_async;
mod with_sqlx;

use std::collections::HashMap;

use futures_util::future::join_all;
use serde_json::{Value, json};
use values::{Param, filled, parameters};

/// What a step gives, or the driver's error.
type Outcome = Result<Value, Value>;

/// Where to connect, out of the environment.
#[derive(Clone)]
pub struct Target {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: String,
    pub schema: String,
    pub tls: bool,
}

/// How connections of a driver are opened, one by one and in its pool.
#[expect(async_fn_in_trait, reason = "only this program calls it, on one task")]
pub trait Driver {
    type Session: Session;
    type Pool;
    async fn open(&self) -> Result<Self::Session, Value>;
    async fn pool(&self, size: usize) -> Result<Self::Pool, Value>;
    async fn lease(&self, pool: &Self::Pool) -> Result<Self::Session, Value>;
    async fn close_pool(&self, pool: Self::Pool);
}

/// One connection, and the steps of the scenario on it.
#[expect(async_fn_in_trait, reason = "only this program calls it, on one task")]
pub trait Session {
    type Prepared;
    async fn run(&mut self, sql: &str, params: Option<Vec<Param>>) -> Outcome;
    async fn multi(&mut self, sql: &str) -> Outcome;
    async fn batch(&mut self, sql: &str, rows: Vec<Vec<Param>>) -> Outcome;
    async fn stream(&mut self, sql: &str, take: usize) -> Outcome;
    async fn prepare(&mut self, sql: &str) -> Result<Self::Prepared, Value>;
    async fn execute(&mut self, stmt: &Self::Prepared, params: Vec<Param>) -> Outcome;
    async fn close_stmt(&mut self, stmt: Self::Prepared) -> Outcome;
    async fn ping(&mut self) -> Outcome;
    /// Reset, change of user, id: what not every driver has.
    async fn special(&mut self, op: &str) -> Outcome;
    async fn close(self) -> Outcome;
}

struct Program<D: Driver> {
    driver: D,
    schema: String,
    sessions: HashMap<String, D::Session>,
    /// With the name of the connection that each was prepared on.
    stmts: HashMap<String, (String, <D::Session as Session>::Prepared)>,
}

fn text<'a>(step: &'a Value, key: &str) -> &'a str {
    step[key].as_str().unwrap_or_default()
}

fn unknown() -> Value {
    json!({"failure": "no such connection or statement"})
}

impl<D: Driver> Program<D> {
    async fn step(&mut self, step: &Value) -> Outcome {
        let conn = text(step, "conn").to_owned();
        let params = || parameters(&step["params"], 0).unwrap_or_default();
        match text(step, "op") {
            "open" => {
                let session = self.driver.open().await?;
                self.sessions.insert(conn, session);
                Ok(json!("open"))
            }
            "close" => self.sessions.remove(&conn).ok_or_else(unknown)?.close().await,
            "pool" => self.pool(step).await,
            "prepare" => {
                let session = self.sessions.get_mut(&conn).ok_or_else(unknown)?;
                let stmt = session.prepare(&filled(text(step, "sql"), &self.schema, 0)).await?;
                self.stmts.insert(text(step, "stmt").to_owned(), (conn, stmt));
                Ok(json!("prepared"))
            }
            "execute" => {
                let (conn, stmt) = self.stmts.get(text(step, "stmt")).ok_or_else(unknown)?;
                let session = self.sessions.get_mut(conn).ok_or_else(unknown)?;
                session.execute(stmt, params()).await
            }
            "close_stmt" => {
                let (conn, stmt) = self.stmts.remove(text(step, "stmt")).ok_or_else(unknown)?;
                self.sessions.get_mut(&conn).ok_or_else(unknown)?.close_stmt(stmt).await
            }
            _ => {
                let session = self.sessions.get_mut(&conn).ok_or_else(unknown)?;
                on_session(session, step, &self.schema, 0).await
            }
        }
    }

    /// Every task checks a connection out, carries out its steps, and gives it back.
    async fn pool(&mut self, step: &Value) -> Outcome {
        let number = |key: &str| step[key].as_u64().unwrap_or_default();
        let pool = self.driver.pool(number("size") as usize).await?;
        let tasks = (1..=number("tasks")).map(async |task| {
            let mut session = self.driver.lease(&pool).await?;
            let mut lines = Vec::new();
            for inner in step["steps"].as_array().into_iter().flatten() {
                let mut outcome = on_session(&mut session, inner, &self.schema, task).await;
                if let (true, Ok(value)) = (inner.get("hide_id").is_some(), &mut outcome) {
                    value["id"] = json!("hidden");
                }
                lines.push(json!([inner["name"], outcome.unwrap_or_else(|error| error)]));
            }
            Ok::<Value, Value>(json!(lines))
        });
        let results: Vec<Outcome> = join_all(tasks).await;
        self.driver.close_pool(pool).await;
        Ok(results.into_iter().map(|one| one.unwrap_or_else(|error| error)).collect())
    }
}

async fn on_session<S: Session>(session: &mut S, step: &Value, schema: &str, task: u64) -> Outcome {
    let sql = filled(text(step, "sql"), schema, task);
    match text(step, "op") {
        "query" | "exec" => session.run(&sql, parameters(&step["params"], task)).await,
        "multi" => session.multi(&sql).await,
        "batch" => session.batch(&sql, batch_rows(step)).await,
        "stream" => {
            let take = step["take"].as_u64().unwrap_or(u64::MAX);
            session.stream(&sql, usize::try_from(take).unwrap_or(usize::MAX)).await
        }
        "ping" => session.ping().await,
        "begin" => session.run("BEGIN", None).await,
        "commit" => session.run("COMMIT", None).await,
        "rollback" => session.run("ROLLBACK", None).await,
        "autocommit" => session.run(&format!("SET autocommit = {}", step["on"]), None).await,
        "isolation" => {
            let level = text(step, "level");
            session.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"), None).await
        }
        "schema" => session.run(&format!("USE `{}`", text(step, "to")), None).await,
        "warnings" => {
            session.run(&sql, None).await?;
            session.run("SHOW WARNINGS", None).await
        }
        other => session.special(other).await,
    }
}

fn batch_rows(step: &Value) -> Vec<Vec<Param>> {
    if let Some(count) = step["count"].as_i64() {
        let row = |number: i64| vec![Param::Text(format!("row {number}")), Param::Int(number)];
        return (0..count).map(row).collect();
    }
    let rows = step["rows"].as_array().into_iter().flatten();
    rows.filter_map(|row| parameters(row, 0)).collect()
}

async fn run<D: Driver>(driver: D, schema: String, steps: &[Value]) {
    let (sessions, stmts) = (HashMap::new(), HashMap::new());
    let mut program = Program { driver, schema, sessions, stmts };
    for step in steps {
        let result = program.step(step).await.unwrap_or_else(|error| error);
        println!("{}", json!({"step": step["name"], "result": result}));
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, driver, scenario] = &arguments[..] else {
        return Err("usage: drivers DRIVER SCENARIO".into());
    };
    let steps: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(scenario)?)?;
    let variable = |name: &str| std::env::var(format!("DRIVER_{name}"));
    let target = Target {
        host: variable("HOST")?,
        port: variable("PORT")?.parse()?,
        user: variable("USER")?,
        password: variable("PASSWORD")?,
        schema: variable("SCHEMA")?,
        tls: variable("TLS")? == "on",
    };
    let schema = target.schema.clone();
    match driver.as_str() {
        "sqlx" => run(with_sqlx::SqlxDriver(target), schema, &steps).await,
        "mysql_async" => run(with_mysql_async::AsyncDriver(target), schema, &steps).await,
        other => return Err(format!("unknown driver {other}").into()),
    }
    Ok(())
}
