//! A number that differs when rows differ (FNV-1a). It compares layers and is no secret.

use std::{
    fmt::{self, Display, Write},
    ops::ControlFlow,
};

use trunkline_store::{Layer, Module, SqlError, Store, ValueRef};

/// The number of what was eaten so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 == Self::default().0 {
            // As in ProxySQL.
            true => f.write_str("0x00"),
            false => write!(f, "0x{:016X}", self.0),
        }
    }
}

/// Numbers are eaten as texts.
impl Write for Fingerprint {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.eat(text.as_bytes());
        Ok(())
    }
}

impl Fingerprint {
    fn eat(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }

    fn eat_row<'a>(&mut self, values: impl Iterator<Item = ValueRef<'a>>) {
        for value in values {
            // Writing to a number does not fail.
            let _ = match value {
                ValueRef::Null => self.write_str("n"),
                ValueRef::Integer(number) => write!(self, "{number}"),
                ValueRef::Real(number) => write!(self, "{number}"),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                    self.eat(bytes);
                    Ok(())
                }
            };
            self.eat(&[0]);
        }
        self.eat(&[1]);
    }

    /// Eats the rows of a table.
    pub(super) fn eat_table(
        &mut self,
        store: &Store,
        layer: Layer,
        table: &str,
    ) -> Result<(), SqlError> {
        store.visit(layer, table, |row| {
            self.eat_row(row.values());
            ControlFlow::Continue(())
        })
    }

    /// Eats all rows of a module, variables among them.
    pub(super) fn eat_module(
        &mut self,
        store: &Store,
        layer: Layer,
        module: Module,
    ) -> Result<(), SqlError> {
        for table in module.tables() {
            self.eat_table(store, layer, table)?;
        }
        let Some(prefix) = module.prefix() else { return Ok(()) };
        for (name, value) in store.variables(layer, prefix)? {
            self.eat_row([&name, &value].into_iter().map(|text| ValueRef::Text(text.as_bytes())));
        }
        Ok(())
    }
}
