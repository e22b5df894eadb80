//! `SET`.

use super::{Data, ModelSession};
use crate::statement::{
    Answer, Charset, Done, Failure, Isolation, Kind, Scope, SetValue, Setting, Value, Variable,
};

impl ModelSession {
    /// `SET`: everything is checked before anything is set.
    pub(super) fn set(
        &mut self,
        settings: &[Setting],
        data: &mut dyn Data,
    ) -> Result<Answer, Failure> {
        for setting in settings {
            if let Setting::Variable { variable, value, .. } = setting {
                self.value_of(*variable, value)?;
            }
        }
        for setting in settings {
            self.set_one(setting, data)?;
        }
        Ok(Answer::Done(Done::default()))
    }

    fn set_one(&mut self, setting: &Setting, data: &mut dyn Data) -> Result<(), Failure> {
        match setting {
            // Without a scope these two are of the next transaction alone.
            Setting::Variable {
                scope: Scope::At,
                variable:
                    variable @ (Variable::TransactionIsolation | Variable::TransactionReadOnly),
                value,
            } => {
                let value = self.value_of(*variable, value)?;
                let read_only = match (variable, value) {
                    (Variable::TransactionReadOnly, Value::Flag(flag)) => Some(flag),
                    _ => None,
                };
                self.set_transaction(false, None, read_only)?;
            }
            Setting::Variable { variable, value, .. } => {
                let value = self.value_of(*variable, value)?;
                self.assign(*variable, value, data);
            }
            Setting::Names(charset) => {
                self.set_collation(charset.default_collation(self.flavor));
            }
            Setting::NamesCollate(charset) => self.set_collation(charset.other_collation()),
            Setting::NamesExactly(collation) => self.set_collation(collation),
            Setting::NamesDefault => self.set_collation(super::default_collation(self.flavor)),
            Setting::User { name, value } => {
                match value {
                    Some(value) => self.users.insert(*name, *value),
                    None => self.users.remove(name),
                };
                self.trackers.state();
            }
            Setting::LastInsertId(id) => self.set_last_insert_id(*id),
            Setting::InsertId(id) => self.insert_id = *id,
            Setting::LastInsertIdOfTable(id) => {
                self.set_last_insert_id(*id);
                self.found_rows = 1;
            }
            Setting::LastInsertIdAsItIsOfTable => {
                self.set_last_insert_id(self.last_insert_id);
                self.found_rows = 1;
            }
            Setting::LastInsertIdAsItIs => self.set_last_insert_id(self.last_insert_id),
            Setting::Mark(_) if self.transaction.is_some() => {
                let text = "The system variable can't be set when there is an ongoing transaction";
                return Err(Failure::new(1766, b"HY000", text));
            }
            Setting::Mark(mark) => {
                self.mark = Some(*mark);
                self.trackers.state();
            }
            Setting::Tracker(name, value) => {
                if !self.trackers.configure(name, value) {
                    let text = format!("Unknown system variable 'session_track_{name}'");
                    return Err(Failure::new(1193, b"HY000", text));
                }
            }
        }
        Ok(())
    }

    fn set_last_insert_id(&mut self, id: u64) {
        self.last_insert_id = id;
        self.trackers.last_insert_id(id);
    }

    fn value_of(&self, variable: Variable, value: &SetValue) -> Result<Value, Failure> {
        let name = variable.name(self.flavor);
        let value = match value {
            SetValue::Default => return Ok(variable.default_value(self.flavor)),
            SetValue::Literal(value) | SetValue::Expression(value) => value,
        };
        variable.accept(value).ok_or_else(|| {
            let shown = value.shown().unwrap_or_else(|| "NULL".to_owned());
            match variable.kind() {
                Kind::OneOf(_) if variable == Variable::TimeZone => {
                    let text = format!("Unknown or incorrect time zone: '{shown}'");
                    Failure::new(1298, b"HY000", text)
                }
                Kind::Number(..) if !matches!(value, Value::Number(_)) => {
                    let text = format!("Incorrect argument type to variable '{name}'");
                    Failure::new(1232, b"42000", text)
                }
                Kind::Charset if *value != Value::Null => {
                    Failure::new(1115, b"42000", format!("Unknown character set: '{shown}'"))
                }
                Kind::Collation if *value != Value::Null => {
                    Failure::new(1273, b"HY000", format!("Unknown collation: '{shown}'"))
                }
                Kind::Number(..)
                | Kind::Flag
                | Kind::OneOf(_)
                | Kind::Charset
                | Kind::Collation => {
                    let text = format!("Variable '{name}' can't be set to the value of '{shown}'");
                    Failure::new(1231, b"42000", text)
                }
            }
        })
    }

    fn assign(&mut self, variable: Variable, value: Value, data: &mut dyn Data) {
        match variable {
            Variable::Autocommit if value == Value::Flag(true) && !self.is_autocommit() => {
                self.set_variable(variable, value);
                self.end_transaction(data, true);
            }
            Variable::CharsetConnection => {
                if let Value::Text(name) = value
                    && let Some(charset) = Charset::from_name(name)
                {
                    let collation = charset.default_collation(self.flavor);
                    self.set_variable(Variable::CollationConnection, Value::Text(collation));
                }
                self.set_variable(variable, value);
            }
            Variable::CollationConnection => {
                if let Value::Text(name) = value
                    && let Some(charset) = Charset::of_collation(name)
                {
                    self.set_variable(Variable::CharsetConnection, Value::Text(charset.name()));
                }
                self.set_variable(variable, value);
            }
            Variable::TransactionReadOnly => {
                self.use_next();
                self.set_variable(variable, value);
            }
            _ => self.set_variable(variable, value),
        }
    }

    /// `SET [SESSION] TRANSACTION`.
    pub(super) fn set_transaction(
        &mut self,
        session: bool,
        isolation: Option<Isolation>,
        read_only: Option<bool>,
    ) -> Result<Answer, Failure> {
        if !session {
            if self.transaction.is_some() {
                let text = "Transaction characteristics can't be changed while a transaction is \
                            in progress";
                return Err(Failure::new(1568, b"25001", text));
            }
            self.next = Some(read_only.or(self.next.flatten()));
            self.trackers.next_transaction(true);
            return Ok(Answer::Done(Done::default()));
        }
        if let Some(isolation) = isolation {
            self.set_variable(Variable::TransactionIsolation, Value::Text(isolation.value()));
        }
        if let Some(read_only) = read_only {
            self.use_next();
            self.set_variable(Variable::TransactionReadOnly, Value::Flag(read_only));
        }
        Ok(Answer::Done(Done::default()))
    }

    /// Whether what runs now may only read: the open transaction, or the next one.
    pub(super) fn reads_only(&self) -> bool {
        let of_session = *self.variable(Variable::TransactionReadOnly) == Value::Flag(true);
        match &self.transaction {
            Some(transaction) => transaction.read_only,
            None => self.next.flatten().unwrap_or(of_session),
        }
    }
}
