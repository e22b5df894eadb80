//! `mysql_async`.

use mysql_async::prelude::{Query, Queryable};
use mysql_async::{
    Conn, Error, Opts, OptsBuilder, Params, Pool, PoolConstraints, PoolOpts, QueryResult, Row,
    SslOpts, Statement,
};
use serde_json::{Value, json};

use crate::values::{Param, show, summary};
use crate::{Driver, Session, Target};

pub struct AsyncDriver(pub Target);

pub struct AsyncSession(Conn);

impl AsyncDriver {
    fn options(&self) -> OptsBuilder {
        let target = &self.0;
        let tls = target.tls.then(|| SslOpts::default().with_danger_accept_invalid_certs(true));
        OptsBuilder::default()
            .ip_or_hostname(target.host.clone())
            .tcp_port(target.port)
            // Otherwise it asks for `@@socket` and goes past the proxy.
            .prefer_socket(false)
            .user(Some(target.user.clone()))
            .pass(Some(target.password.clone()))
            .db_name(Some(target.schema.clone()))
            .ssl_opts(tls)
    }
}

impl Driver for AsyncDriver {
    type Session = AsyncSession;
    type Pool = Pool;

    async fn open(&self) -> Result<AsyncSession, Value> {
        Ok(AsyncSession(Conn::new(Opts::from(self.options())).await.map_err(shown)?))
    }

    async fn pool(&self, size: usize) -> Result<Pool, Value> {
        let constraints = PoolConstraints::new(1, size).ok_or_else(|| json!("no pool"))?;
        let options = PoolOpts::default().with_constraints(constraints);
        Ok(Pool::new(self.options().pool_opts(options)))
    }

    async fn lease(&self, pool: &Pool) -> Result<AsyncSession, Value> {
        Ok(AsyncSession(pool.get_conn().await.map_err(shown)?))
    }

    async fn close_pool(&self, pool: Pool) {
        let _ = pool.disconnect().await;
    }
}

fn shown(error: Error) -> Value {
    match error {
        Error::Server(server) => {
            json!({"error": server.code, "state": server.state, "message": server.message})
        }
        other => json!({"failure": other.to_string()}),
    }
}

impl Param {
    fn value(self) -> mysql_async::Value {
        use mysql_async::Value;
        match self {
            Param::Null => Value::NULL,
            Param::Int(number) => Value::Int(number),
            Param::Double(number) => Value::Double(number),
            Param::Text(text) => Value::Bytes(text.into_bytes()),
            Param::Bytes(bytes) => Value::Bytes(bytes),
            Param::DateTime(text) => {
                let parts: Vec<u32> = text
                    .split(|c: char| !c.is_ascii_digit())
                    .map(|part| part.parse().unwrap_or_default())
                    .collect();
                let part = |place: usize| parts.get(place).copied().unwrap_or_default();
                let small = |place: usize| part(place) as u8;
                let year = part(0) as u16;
                Value::Date(year, small(1), small(2), small(3), small(4), small(5), part(6))
            }
        }
    }
}

fn positional(params: Vec<Param>) -> Params {
    Params::Positional(params.into_iter().map(Param::value).collect())
}

fn row_shown(row: Row) -> Vec<String> {
    let values = row.unwrap().into_iter();
    values
        .map(|value| match value {
            mysql_async::Value::Bytes(bytes) => show("Bytes", &bytes),
            other => format!("{other:?}"),
        })
        .collect()
}

/// All results that are still to be read.
async fn results<P: mysql_async::prelude::Protocol>(
    mut result: QueryResult<'_, 'static, P>,
) -> Value {
    let mut sets = Vec::new();
    loop {
        match one(&mut result).await {
            Ok(set) => sets.push(set),
            Err(error) => {
                sets.push(shown(error));
                break;
            }
        }
        if result.is_empty() {
            break;
        }
    }
    if sets.len() == 1 { sets.remove(0) } else { json!(sets) }
}

async fn one<P: mysql_async::prelude::Protocol>(
    result: &mut QueryResult<'_, 'static, P>,
) -> Result<Value, Error> {
    let columns: Vec<Value> = result
        .columns_ref()
        .iter()
        .map(|column| {
            let kind = format!("{:?}", column.column_type());
            json!([column.name_str(), kind, column.flags().bits(), column.table_str()])
        })
        .collect();
    if columns.is_empty() {
        let outcome = json!({
            "affected": result.affected_rows(),
            "id": result.last_insert_id(),
            "warnings": result.warnings(),
            "info": result.info(),
        });
        result.next().await?;
        return Ok(outcome);
    }
    let rows: Vec<Row> = result.collect().await?;
    let rows: Vec<Vec<String>> = rows.into_iter().map(row_shown).collect();
    Ok(json!({"columns": columns, "rows": rows}))
}

impl Session for AsyncSession {
    type Prepared = Statement;

    async fn run(&mut self, sql: &str, params: Option<Vec<Param>>) -> Result<Value, Value> {
        let value = match params {
            None => results(self.0.query_iter(sql).await.map_err(shown)?).await,
            Some(params) => {
                results(self.0.exec_iter(sql, positional(params)).await.map_err(shown)?).await
            }
        };
        Ok(value)
    }

    async fn multi(&mut self, sql: &str) -> Result<Value, Value> {
        self.run(sql, None).await
    }

    async fn batch(&mut self, sql: &str, rows: Vec<Vec<Param>>) -> Result<Value, Value> {
        let rows: Vec<Params> = rows.into_iter().map(positional).collect();
        self.0.exec_batch(sql, rows).await.map_err(shown)?;
        Ok(json!(self.0.affected_rows()))
    }

    async fn stream(&mut self, sql: &str, take: usize) -> Result<Value, Value> {
        let mut result = self.0.query_iter(sql).await.map_err(shown)?;
        let mut seen = Vec::new();
        while seen.len() < take {
            match result.next().await.map_err(shown)? {
                Some(row) => seen.push(row_shown(row).join(",")),
                None => break,
            }
        }
        result.drop_result().await.map_err(shown)?;
        Ok(json!([seen.len(), summary(seen.join("\n").as_bytes())]))
    }

    async fn prepare(&mut self, sql: &str) -> Result<Statement, Value> {
        self.0.prep(sql).await.map_err(shown)
    }

    async fn execute(&mut self, stmt: &Statement, params: Vec<Param>) -> Result<Value, Value> {
        Ok(results(self.0.exec_iter(stmt, positional(params)).await.map_err(shown)?).await)
    }

    async fn close_stmt(&mut self, stmt: Statement) -> Result<Value, Value> {
        self.0.close(stmt).await.map_err(shown)?;
        Ok(json!("closed"))
    }

    async fn ping(&mut self) -> Result<Value, Value> {
        self.0.ping().await.map_err(shown)?;
        Ok(json!("alive"))
    }

    async fn special(&mut self, op: &str) -> Result<Value, Value> {
        match op {
            "reset" => Ok(json!(self.0.reset().await.map_err(shown)?)),
            "change_user" => {
                self.0.change_user(Default::default()).await.map_err(shown)?;
                Ok(json!("changed"))
            }
            "connection_id" => {
                let id: Option<u32> =
                    "SELECT CONNECTION_ID()".first(&mut self.0).await.map_err(shown)?;
                Ok(json!({"as the server says": id == Some(self.0.id())}))
            }
            _ => Ok(json!("unsupported")),
        }
    }

    async fn close(self) -> Result<Value, Value> {
        self.0.disconnect().await.map_err(shown)?;
        Ok(json!("closed"))
    }
}
