//! SQL functions that ProxySQL's admin port has and SQLite lacks, and those of MySQL that drivers
//! ask for tables and columns with.

use rusqlite::{
    Connection, Error,
    functions::{Context, FunctionFlags},
};
use trunkline_protocol::auth::{native, sha256_crypt};

use crate::{Access, SqlError, access::Gate, open::VariableCheck};

/// Bytes of salt in a stored password.
const SALT_LEN: usize = 20;

/// Adds them to a connection.
pub(crate) fn add(conn: &Connection, gate: Gate, check: VariableCheck) -> Result<(), SqlError> {
    let pure = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    conn.create_scalar_function("MYSQL_NATIVE_PASSWORD", 1, pure, |context| {
        let clear = context.get::<Option<String>>(0)?.unwrap_or_default();
        Ok(native_hash(&clear))
    })?;
    for arguments in [1, 2] {
        let flags = FunctionFlags::SQLITE_UTF8;
        conn.create_scalar_function("CACHING_SHA2_PASSWORD", arguments, flags, sha2_hash)?;
    }
    conn.create_scalar_function("LOCATE", 2, pure, |context| {
        let (part, whole) = (context.get::<Option<String>>(0)?, context.get::<Option<String>>(1)?);
        let (Some(part), Some(whole)) = (part, whole) else { return Ok(None) };
        let before = whole.find(&part).and_then(|at| whole.get(..at));
        let place = before.map_or(0, |before| before.chars().count() + 1);
        Ok(Some(i64::try_from(place).unwrap_or(i64::MAX)))
    })?;
    let any = FunctionFlags::SQLITE_UTF8;
    conn.create_scalar_function("trunkline_check_variable", 2, any, move |context| {
        if gate.access() == Access::Internal {
            return Ok(true);
        }
        let name = context.get::<String>(0)?;
        let value = context.get::<Option<String>>(1)?.unwrap_or_default();
        check(&name, &value).map(|()| true).map_err(|reason| failure(&reason))
    })?;
    Ok(())
}

fn failure(reason: &str) -> Error {
    Error::UserFunctionError(reason.to_owned().into())
}

/// `*` and the hexadecimal SHA1(SHA1(clear)); empty for an empty password.
fn native_hash(clear: &str) -> String {
    if clear.is_empty() {
        return String::new();
    }
    let hash = native::stage2(&native::stage1(clear.as_bytes()));
    hash.iter().fold(String::from("*"), |text, byte| format!("{text}{byte:02X}"))
}

/// The text that MySQL stores for `caching_sha2_password`.
fn sha2_hash(context: &Context<'_>) -> rusqlite::Result<Vec<u8>> {
    let clear = context.get::<String>(0)?;
    let salt = match context.len() {
        2 => {
            let given = match context.get_raw(1).as_bytes_or_null()? {
                Some(bytes) => bytes.to_vec(),
                None => return Err(failure("the salt is NULL")),
            };
            <[u8; SALT_LEN]>::try_from(given)
                .map_err(|given| failure(&format!("the salt has {} bytes, not 20", given.len())))?
        }
        _ => trunkline_crypto::nonce(),
    };
    Ok(sha256_crypt::stored(clear.as_bytes(), &salt))
}
