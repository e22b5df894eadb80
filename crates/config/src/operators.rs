//! Accounts that operate the proxy and configure nothing.

use trunkline_topology::Secret;

use crate::{
    Wrong,
    settings::{Given, Range, SettingValue},
};

/// `name:password`, several separated by `;`, as in ProxySQL's `admin-admin_credentials`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperatorAccounts(Secret<String>);

impl OperatorAccounts {
    /// Names and passwords.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.expose().split(';').filter_map(|entry| entry.split_once(':'))
    }
}

impl SettingValue for OperatorAccounts {
    const KIND: &'static str = "password";

    /// What is wrong is said without a password.
    fn read(given: &Given, range: Range) -> Result<Self, Wrong> {
        let list = Self(Secret::new(String::read(given, range)?));
        let text = list.0.expose();
        let mut names: Vec<&str> = Vec::new();
        for entry in text.split(';').filter(|_| !text.is_empty()) {
            match entry.split_once(':') {
                Some((name, password)) if !name.is_empty() && !password.is_empty() => {
                    if names.contains(&name) {
                        return Err(format!("has the user {name} twice").into());
                    }
                    names.push(name);
                }
                Some(_) | None => {
                    return Err("must be `user:password`, separated by `;`".to_owned().into());
                }
            }
        }
        Ok(list)
    }

    fn show(&self) -> String {
        self.0.expose().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_names_with_passwords() {
        let read =
            |text: &str| OperatorAccounts::read(&Given::Text(text.to_owned()), Range::Text(4_096));
        let list = read("ann:a:b;bob:*12").expect("accounts");
        assert_eq!(list.iter().collect::<Vec<_>>(), [("ann", "a:b"), ("bob", "*12")]);
        assert_eq!(read("").expect("none").iter().count(), 0);
        for wrong in ["ann", "ann:", ":secret", "ann:secret;", "ann:secret;ann:other"] {
            let error = format!("{:?}", read(wrong).expect_err(wrong));
            assert!(!error.contains("secret") && !format!("{list:?}").contains("a:b"), "{error}");
        }
    }
}
