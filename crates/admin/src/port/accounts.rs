//! Who may come in: `admin-admin_credentials`, `admin-stats_credentials`, and
//! `admin_operate_credentials`.

use std::{net::SocketAddr, sync::Arc};

use trunkline_config::OperatorAccounts;
use trunkline_store::Access;
use trunkline_topology::{Password, Secret, User};

/// The accounts of the admin port.
#[derive(Debug, Clone)]
pub struct Accounts {
    accounts: Vec<(Arc<User>, Access)>,
}

/// The accounts that everybody knows.
const DEFAULTS: [(&str, &str); 2] = [("admin", "admin"), ("stats", "stats")];

impl Accounts {
    /// Reads them from the variables `admin-%`.
    ///
    /// # Errors
    /// What is wrong with them; never a password.
    pub fn read(variables: &[(String, String)]) -> Result<Self, String> {
        let mut accounts: Vec<(Arc<User>, Access)> = Vec::new();
        let lists = [
            ("admin-admin_credentials", Access::Admin),
            ("admin-stats_credentials", Access::Stats),
        ];
        for (variable, access) in lists {
            for entry in value(variables, variable).split(';').filter(|entry| !entry.is_empty()) {
                let Some((name, password)) = entry.split_once(':') else {
                    return Err(format!("{variable} must be `user:password`, separated by `;`"));
                };
                if name.is_empty() {
                    return Err(format!("{variable} has a user without a name"));
                }
                if accounts.iter().any(|(user, _)| user.name == name) {
                    return Err(format!("{variable}: user {name} is there twice"));
                }
                accounts.push((Arc::new(user(name, password)), access));
            }
        }
        if !accounts.iter().any(|(_, access)| *access == Access::Admin) {
            return Err("admin-admin_credentials is empty, so nobody could log in".to_owned());
        }
        Ok(Self { accounts })
    }

    /// With those that operate. Who has another account of that name keeps it.
    pub fn with_operators(mut self, operators: &OperatorAccounts) -> Self {
        for (name, password) in operators.iter() {
            if self.find(name).is_none() {
                self.accounts.push((Arc::new(user(name, password)), Access::Operate));
            }
        }
        self
    }

    /// The account called `name`.
    pub fn find(&self, name: &str) -> Option<&(Arc<User>, Access)> {
        self.accounts.iter().find(|(user, _)| user.name == name)
    }

    /// An account whose way a client goes whose name is unknown, so that it can't be told from a
    /// wrong password.
    pub fn first(&self) -> Option<Arc<User>> {
        self.accounts.first().map(|(user, _)| Arc::clone(user))
    }

    /// Where the admin port listens.
    pub fn listen(&self, variables: &[(String, String)]) -> Vec<String> {
        let entries = value(variables, "admin-mysql_ifaces").split([';', ',']).map(str::trim);
        entries.filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
    }

    /// Refuses an address that others can reach with a password that everybody knows.
    ///
    /// # Errors
    /// The address and the user.
    pub fn check_public(&self, variables: &[(String, String)]) -> Result<(), String> {
        let public = self.listen(variables).into_iter().find(|entry| !is_private(entry));
        let Some(public) = public else { return Ok(()) };
        for (name, password) in DEFAULTS {
            let found = self.find(name).map(|(user, _)| &user.password);
            if found == Some(&Password::Clear(Secret::new(password.to_owned()))) {
                return Err(format!(
                    "admin-mysql_ifaces is {public}, which others can reach, and user {name} has \
                     the default password; change it, or listen on 127.0.0.1"
                ));
            }
        }
        Ok(())
    }
}

fn value<'a>(variables: &'a [(String, String)], name: &str) -> &'a str {
    let found = variables.iter().find(|(known, _)| known == name);
    found.map_or("", |(_, value)| value)
}

/// Whether nobody on another machine can reach it.
fn is_private(entry: &str) -> bool {
    entry.starts_with('/')
        || entry.parse::<SocketAddr>().is_ok_and(|addr| addr.ip().is_loopback())
        || entry.starts_with("localhost:")
}

fn user(name: &str, password: &str) -> User {
    let password = match password.starts_with('*').then(|| Password::from_hash(password)) {
        Some(Ok(hash)) => hash,
        Some(Err(_)) | None => Password::Clear(Secret::new(password.to_owned())),
    };
    User::new(name.to_owned(), password)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(admin: &str, stats: &str, listen: &str) -> Vec<(String, String)> {
        let pairs = [
            ("admin-admin_credentials", admin),
            ("admin-stats_credentials", stats),
            ("admin-mysql_ifaces", listen),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    #[test]
    fn a_public_address_needs_passwords_of_its_own() {
        let check = |admin: &str, stats: &str, listen: &str| {
            let variables = variables(admin, stats, listen);
            Accounts::read(&variables).expect("accounts").check_public(&variables)
        };
        assert_eq!(check("admin:admin", "stats:stats", "127.0.0.1:6032;/tmp/a.sock"), Ok(()));
        let error = check("admin:admin", "", "0.0.0.0:6032").expect_err("refused");
        assert!(error.contains("0.0.0.0:6032") && error.contains("user admin"), "{error}");
        assert!(check("admin:x", "stats:stats", "127.0.0.1:1;[::]:6032").is_err());
        assert_eq!(check("admin:x", "stats:y", "0.0.0.0:6032"), Ok(()));
    }

    #[test]
    fn operators_come_behind_those_who_are_there() {
        let given = trunkline_config::settings::Given::Text("s:x;op:y".to_owned());
        let mut settings = trunkline_config::Settings::default();
        assert_eq!(settings.set("admin_operate_credentials", &given), Ok(true));
        let accounts = Accounts::read(&variables("a:b", "s:t", "")).expect("accounts");
        let accounts = accounts.with_operators(&settings.admin_operate_credentials);
        let access = |name| accounts.find(name).map(|(_, access)| *access);
        assert_eq!(access("op"), Some(Access::Operate));
        assert_eq!((access("s"), access("x")), (Some(Access::Stats), None));
    }

    #[test]
    fn accounts_that_can_not_be_used_are_named() {
        let error = |admin: &str, stats: &str| {
            Accounts::read(&variables(admin, stats, "")).expect_err("refused")
        };
        assert!(error("", "stats:stats").contains("nobody could log in"));
        assert!(error("admin", "").contains("must be `user:password`"));
        assert!(error("a:b", "a:c").contains("user a is there twice"));
        assert!(!error("admin:secret;x", "").contains("secret"));
        let accounts = Accounts::read(&variables("a:b:c;d:", "s:t", "")).expect("accounts");
        assert_eq!(accounts.find("s").map(|(_, access)| *access), Some(Access::Stats));
        assert!(accounts.find("d").is_some() && accounts.find("x").is_none());
    }
}
