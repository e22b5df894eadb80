//! `[[user]]`.

use std::sync::Arc;

use trunkline_topology::{
    BackendAccount, CertificateRequirement, HostgroupId, Password, Secret, TlsRequirement, User,
};

use crate::{
    file::{
        FileSource,
        check::{Entries, HOSTGROUPS, Placed},
        report::Report,
        table::Table,
    },
    settings::{Given, Range, SettingValue, read_text},
};

/// Columns of ProxySQL's `mysql_users` that come with later features.
const LATER: [&str; 4] = ["schema_locked", "backend", "frontend", "attributes"];

/// The longest user name; MariaDB allows 128 characters, MySQL 32.
const NAME_BYTES_MAX: usize = 512;

pub(super) fn read(
    table: &mut Table<'_>,
    report: &mut Report<'_>,
    files: &dyn FileSource,
    entries: &mut Entries,
) {
    let name_key = table.either(report, "name", "username");
    let name = table.value(report, name_key, |given| match read_text(given)? {
        "" => Err("must not be empty".to_owned()),
        text if text.len() > NAME_BYTES_MAX || text.contains('\0') => {
            Err(format!("must be a name of at most {NAME_BYTES_MAX} bytes without NUL"))
        }
        text => Ok(text.to_owned()),
    });
    if !table.has(name_key) {
        table.missing(report, "name");
    }
    let unix_uid = table.value(report, "unix_user", |given| read_unix_user(given, files));
    let (password, retained_password) = read_passwords(table, report, files);
    let backend = read_backend(table, report, files, name.as_deref());
    let default_hostgroup = table.number(report, "default_hostgroup", HOSTGROUPS);
    let default_schema = table.text(report, "default_schema");
    let max_connections = table.number(report, "max_connections", 0..=10_000_000);
    let transaction_persistent = table.flag(report, "transaction_persistent");
    let fast_forward = table.flag(report, "fast_forward");
    let active = table.flag(report, "active");
    let require = read_requirement(table, report);
    let allow_from =
        table.value(report, "allow_from", |given| SettingValue::read(given, Range::All));
    let _comment = table.text(report, "comment");
    table.finish(report, &LATER);

    let Some(name) = name else { return };
    // The cross-checks want every user; a password that could not be read was reported already.
    let nothing = || match unix_uid {
        Some(_) => Password::Nobodys,
        None => Password::Clear(Secret::default()),
    };
    let password = password.unwrap_or_else(nothing);
    let user = User {
        name,
        password,
        retained_password,
        backend,
        default_hostgroup: HostgroupId(default_hostgroup.unwrap_or(0)),
        default_schema: default_schema.filter(|schema| !schema.is_empty()),
        max_connections: max_connections.unwrap_or(10_000),
        transaction_persistent: transaction_persistent.unwrap_or(true),
        fast_forward: fast_forward.unwrap_or(false),
        active: active.unwrap_or(true),
        require,
        allow_from: allow_from.unwrap_or_default(),
        unix_uid,
        host: None,
    };
    let hostgroup_known = default_hostgroup.is_some() || !table.has("default_hostgroup");
    let hostgroup_at = hostgroup_known.then(|| table.place("default_hostgroup"));
    let place = Placed { value: Arc::new(user), at: table.place(name_key) };
    entries.users.push((place, hostgroup_at));
}

/// What connections must have: `require`, or ProxySQL's `use_ssl`.
fn read_requirement(table: &mut Table<'_>, report: &mut Report<'_>) -> TlsRequirement {
    let use_ssl = table.flag(report, "use_ssl").unwrap_or(false);
    let least = if use_ssl { TlsRequirement::Tls } else { TlsRequirement::None };
    if !table.is_table("require") {
        let require = table.value(report, "require", |given| match read_text(given)? {
            "none" => Ok(least.clone()),
            "tls" => Ok(TlsRequirement::Tls),
            "x509" => Ok(TlsRequirement::Certificate(CertificateRequirement::default())),
            other => Err(format!(
                "must be none, tls, x509 or a table of issuer, subject, san and spiffe, not \
                 `{other}`"
            )),
        });
        return require.unwrap_or(least);
    }
    let mut required = CertificateRequirement::default();
    for (name, value) in table.fields_of("require") {
        let place = match name.as_str() {
            "issuer" => &mut required.issuer,
            "subject" => &mut required.subject,
            "san" => &mut required.san,
            "spiffe" => &mut required.spiffe,
            _ => {
                let message = format!(
                    "unknown key `{name}` in `require`; it has issuer, subject, san and spiffe"
                );
                table.error(report, "require", message);
                continue;
            }
        };
        match value.as_deref() {
            None | Some("") => {
                let message = format!("`{name}` of `require` must be a string that is not empty");
                table.error(report, "require", message);
            }
            Some(text) => *place = Some(text.to_owned()),
        }
    }
    TlsRequirement::Certificate(required)
}

/// The keys that one password may be given by.
struct PasswordKeys {
    clear: &'static str,
    /// Empty where a hash would be of no use.
    hash: &'static str,
    file: &'static str,
    environment: &'static str,
}

const PASSWORD: PasswordKeys = PasswordKeys {
    clear: "password",
    hash: "password_hash",
    file: "password_file",
    environment: "password_env",
};
const RETAINED: PasswordKeys = PasswordKeys {
    clear: "retained_password",
    hash: "retained_password_hash",
    file: "retained_password_file",
    environment: "retained_password_env",
};
const BACKEND: PasswordKeys = PasswordKeys {
    clear: "backend_password",
    hash: "",
    file: "backend_password_file",
    environment: "backend_password_env",
};
const BACKEND_RETAINED: PasswordKeys = PasswordKeys {
    clear: "backend_retained_password",
    hash: "",
    file: "backend_retained_password_file",
    environment: "backend_retained_password_env",
};

impl PasswordKeys {
    fn all(&self) -> impl Iterator<Item = &'static str> {
        let keys = [self.clear, self.hash, self.file, self.environment];
        keys.into_iter().filter(|key| !key.is_empty())
    }

    /// The password from the one key that the table has; `None` when there is none, or it is wrong
    /// and reported.
    fn read(
        &self,
        table: &mut Table<'_>,
        report: &mut Report<'_>,
        files: &dyn FileSource,
    ) -> Option<Password> {
        let clear = table.value(report, self.clear, |given| {
            let text = read_text(given)?;
            // Sent as a clear password, a hash would never be right and nobody would see why.
            match is_hash(text) {
                true if self.hash.is_empty() => Err("holds a hash, which opens no server".into()),
                true => Err(format!("holds a hash; write it as `{}`", self.hash)),
                false => Ok(clear_password(text)),
            }
        });
        let hash = match self.hash {
            "" => None,
            key => table.value(report, key, |given| {
                let text = read_text(given)?;
                Password::from_hash(text).map_err(|error| format!("is wrong: {error}"))
            }),
        };
        let file = table.value(report, self.file, |given| {
            let path = read_text(given)?;
            password_of_file(path, files).map_err(|why| format!("is wrong: `{path}` {why}"))
        });
        let environment = table.value(report, self.environment, |given| {
            let name = read_text(given)?;
            password_of_environment(name, files)
                .map_err(|why| format!("is wrong: environment variable `{name}` {why}"))
        });
        let mut present = self.all().filter(|key| table.has(key));
        if let (Some(first), Some(second)) = (present.next(), present.next()) {
            let message = format!("`{first}` and `{second}` in [[user]] exclude each other");
            table.error(report, second, message);
            return None;
        }
        clear.or(hash).or(file).or(environment)
    }

    fn is_given(&self, table: &Table<'_>) -> bool {
        self.all().any(|key| table.has(key))
    }

    /// Reads a password that opens servers: a hash does not.
    fn read_clear(
        &self,
        table: &mut Table<'_>,
        report: &mut Report<'_>,
        files: &dyn FileSource,
    ) -> Option<Secret<String>> {
        let password = self.read(table, report, files)?;
        match password.clear() {
            Some(clear) => Some(clear.clone()),
            None => {
                let message = format!("`{}` gives a hash, which opens no server", self.file);
                table.error(report, self.file, message);
                None
            }
        }
    }
}

/// The user's password, which must be there, and the one before.
fn read_passwords(
    table: &mut Table<'_>,
    report: &mut Report<'_>,
    files: &dyn FileSource,
) -> (Option<Password>, Option<Password>) {
    let password = PASSWORD.read(table, report, files);
    let is_servers = table.flag(report, "server_checks_password").unwrap_or(false);
    if is_servers && (PASSWORD.is_given(table) || RETAINED.is_given(table)) {
        let message = "`server_checks_password` and a password exclude each other";
        table.error(report, "server_checks_password", message.to_owned());
    }
    if is_servers {
        return (Some(Password::Servers), None);
    }
    let needs_none = table.has("unix_user") && BACKEND.is_given(table);
    if !PASSWORD.is_given(table) && !needs_none {
        let message =
            "[[user]] has no `password`, `password_hash`, `password_file` or `password_env`";
        table.error(report, "password", message.to_owned());
    }
    let retained = RETAINED.read(table, report, files);
    if let (Some(password), Some(retained)) = (&password, &retained)
        && std::mem::discriminant(password) != std::mem::discriminant(retained)
    {
        // The client is asked once, by the plug-in of the one.
        let message = "a retained password must be given in the form of the other: both clear, or \
                       both as the same kind of hash";
        table.error(report, RETAINED.clear, message.to_owned());
    }
    (password, retained)
}

/// The number of a user of the system, by its name or as it is.
fn read_unix_user(given: &Given, files: &dyn FileSource) -> Result<u32, String> {
    if let Given::Integer(number) = given {
        return u32::try_from(*number).map_err(|_| format!("{number} is no user of the system"));
    }
    let name = read_text(given)?;
    let users = files.read_rules(USERS_FILE).map_err(|why| format!("{USERS_FILE}: {why}"))?;
    let number = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        is_it.then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    number.ok_or_else(|| format!("is wrong: {USERS_FILE} has no user `{name}`; give its number"))
}

/// Where the system's users are. Those of other directories are given by their numbers.
pub const USERS_FILE: &str = "/etc/passwd";

/// The account on the servers, where it is another one.
fn read_backend(
    table: &mut Table<'_>,
    report: &mut Report<'_>,
    files: &dyn FileSource,
    name: Option<&str>,
) -> Option<BackendAccount> {
    let user = table.value(report, "backend_user", |given| match read_text(given)? {
        "" => Err("must not be empty".to_owned()),
        text if text.len() > NAME_BYTES_MAX || text.contains('\0') => {
            Err(format!("must be a name of at most {NAME_BYTES_MAX} bytes without NUL"))
        }
        text => Ok(text.to_owned()),
    });
    let password = BACKEND.read_clear(table, report, files);
    let retained_password = BACKEND_RETAINED.read_clear(table, report, files);
    let is_given = BACKEND.is_given(table);
    for key in ["backend_user", BACKEND_RETAINED.clear, BACKEND_RETAINED.file] {
        if table.has(key) && !is_given {
            let message = format!("`{key}` needs a `{}`", BACKEND.clear);
            table.error(report, key, message);
        }
    }
    let user = user.or_else(|| name.map(str::to_owned))?;
    Some(BackendAccount { user, password: password?, retained_password })
}

/// A file holds one line: the password, or a hash.
fn password_of_file(path: &str, files: &dyn FileSource) -> Result<Password, String> {
    let text = files.read(path).map_err(|why| format!("cannot be read: {why}"))?;
    let text = Secret::new(text);
    let text = text.expose().as_str();
    let line = text.strip_suffix('\n').unwrap_or(text);
    match line.strip_suffix('\r').unwrap_or(line) {
        "" => Err("is empty".to_owned()),
        line if line.contains(['\n', '\0']) => Err("must hold one line, the password".to_owned()),
        line if is_hash(line) => Password::from_hash(line).map_err(|error| error.to_string()),
        line => Ok(clear_password(line)),
    }
}

fn password_of_environment(name: &str, files: &dyn FileSource) -> Result<Password, String> {
    match files.environment(name) {
        None => Err("is not set".to_owned()),
        Some(text) if text.is_empty() => Err("is empty".to_owned()),
        Some(text) if text.contains('\0') => Err("holds a NUL".to_owned()),
        Some(text) if is_hash(&text) => {
            Password::from_hash(&text).map_err(|error| error.to_string())
        }
        Some(text) => Ok(clear_password(&text)),
    }
}

fn clear_password(text: &str) -> Password {
    Password::Clear(Secret::new(text.to_owned()))
}

/// Whether a text is unmistakably a hash. Bare hex digits are not: they may be a password.
fn is_hash(text: &str) -> bool {
    (text.starts_with('*') || text.starts_with("$A$")) && Password::from_hash(text).is_ok()
}
