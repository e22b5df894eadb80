//! `[[user]]`.

use std::sync::Arc;

use trunkline_topology::{
    BackendAccount, CertificateRequirement, HostgroupId, Password, Secret, TlsRequirement, User,
};

use crate::{
    Wrong,
    error::ErrorKind,
    file::{
        FileSource,
        check::{Entries, HOSTGROUP_MAX, Placed},
        hostgroup::read_lazy,
        row::Row,
        section::{
            Column, Draft, at_end, comment, flag, harmless, instead_of, later, member_of, needed,
            number, text, value,
        },
    },
    settings::{Given, Range, SettingValue, read_text},
};

/// The longest user name; MariaDB allows 128 characters, MySQL 32.
const NAME_BYTES_MAX: usize = 512;

pub(super) struct UserDraft {
    /// With no name until it is read.
    user: User,
    backend_user: Option<String>,
    server_checks_password: bool,
    use_ssl: bool,
}

impl Default for UserDraft {
    fn default() -> Self {
        let nameless = User::new(String::new(), Password::Clear(Secret::default()));
        let user = User { max_connections: 10_000, ..nameless };
        Self { user, backend_user: None, server_checks_password: false, use_ssl: false }
    }
}

impl Draft for UserDraft {
    const NAME: &'static str = "user";
    const TABLE: &'static str = "mysql_users";
    const KEY: &'static str = "username {username}";
    const COLUMNS: &'static [Column<Self>] = &[
        needed(value("name", |it, given| read_name(given).map(|name| it.user.name = name))),
        instead_of(
            "name",
            value("username", |it, given| read_name(given).map(|name| it.user.name = name)),
        ),
        at_end(PASSWORD.clear),
        at_end(PASSWORD.hash),
        at_end(PASSWORD.file),
        at_end(PASSWORD.environment),
        member_of("attributes", at_end(RETAINED.clear)),
        at_end(RETAINED.hash),
        at_end(RETAINED.file),
        at_end(RETAINED.environment),
        member_of(
            "attributes",
            value("backend_user", |it, given| {
                read_name(given).map(|name| it.backend_user = Some(name))
            }),
        ),
        at_end(BACKEND.clear),
        at_end(BACKEND.file),
        at_end(BACKEND.environment),
        member_of("attributes", at_end(BACKEND_RETAINED.clear)),
        at_end(BACKEND_RETAINED.file),
        at_end(BACKEND_RETAINED.environment),
        member_of(
            "attributes",
            flag("server_checks_password", |it, is_so| {
                it.server_checks_password = is_so;
            }),
        ),
        member_of("attributes", at_end("unix_user")),
        number("default_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
            it.user.default_hostgroup = HostgroupId(id);
        }),
        text("default_schema", |it, schema| {
            it.user.default_schema = Some(schema).filter(|schema| !schema.is_empty());
        }),
        number("max_connections", 0, 10_000_000, |it, count| it.user.max_connections = count),
        flag("transaction_persistent", |it, is_so| it.user.transaction_persistent = is_so),
        member_of(
            "attributes",
            value("lazy_transactions", |it, given| {
                read_lazy(given).map(|value| it.user.lazy_transactions = Some(value))
            }),
        ),
        member_of(
            "attributes",
            flag("transaction_replay", |it, is_so| it.user.transaction_replay = Some(is_so)),
        ),
        member_of(
            "attributes",
            value("commit_outcome", |it, given| {
                SettingValue::read(given, Range::All)
                    .map(|value| it.user.commit_outcome = Some(value))
            }),
        ),
        member_of(
            "attributes",
            value("trace_sample", |it, given| {
                SettingValue::read(given, Range::All)
                    .map(|ratio| it.user.trace_sample = Some(ratio))
            }),
        ),
        flag("fast_forward", |it, is_so| it.user.fast_forward = is_so),
        flag("active", |it, is_so| it.user.active = is_so),
        flag("use_ssl", |it, is_so| it.use_ssl = is_so),
        value("require", |it, given| read_requirement(given).map(|it_is| it.user.require = it_is)),
        member_of(
            "attributes",
            value("allow_from", |it, given| {
                SettingValue::read(given, Range::All).map(|list| it.user.allow_from = list)
            }),
        ),
        member_of(
            "attributes",
            value("causal_reads", |it, given| {
                let read = SettingValue::read(given, Range::All);
                read.map(|reads| it.user.causal_reads = Some(reads))
            }),
        ),
        comment(),
        harmless(later("schema_locked")),
        later("backend"),
        later("frontend"),
        later("attributes"),
    ];

    fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        let (password, retained_password) = read_passwords(self.server_checks_password, row);
        let backend = read_backend(self.backend_user, &self.user.name, row);
        let unix_uid = row.given("unix_user").and_then(|given| {
            let read = read_unix_user(given, row.files);
            read.map_err(|wrong| row.refuse("unix_user", wrong)).ok()
        });
        // The cross-checks want every user; a password that could not be read was reported already.
        let nobodys = unix_uid.map(|_| Password::Nobodys);
        let require = match self.user.require {
            TlsRequirement::None if self.use_ssl => TlsRequirement::Tls,
            require => require,
        };
        let password = password.or(nobodys).unwrap_or(self.user.password);
        let value =
            Arc::new(User { password, retained_password, backend, require, unix_uid, ..self.user });
        if !value.name.is_empty() {
            let is_hostgroup_known = !row.is_refused("default_hostgroup");
            entries.users.push((Placed { value, index: row.index }, is_hostgroup_known));
        }
    }
}

fn read_name(given: &Given) -> Result<String, Wrong> {
    match read_text(given)? {
        "" => Err("must not be empty".to_owned().into()),
        text if text.len() > NAME_BYTES_MAX || text.contains('\0') => Err(Wrong::new(
            ErrorKind::OutOfRange,
            format!("must be a name of at most {NAME_BYTES_MAX} bytes without NUL"),
        )),
        text => Ok(text.to_owned()),
    }
}

/// What connections must have.
fn read_requirement(given: &Given) -> Result<TlsRequirement, Wrong> {
    let mut required = CertificateRequirement::default();
    let Given::Table(members) = given else {
        return match read_text(given)? {
            "none" => Ok(TlsRequirement::None),
            "tls" => Ok(TlsRequirement::Tls),
            "x509" => Ok(TlsRequirement::Certificate(required)),
            other => Err(format!(
                "must be none, tls, x509 or a table of issuer, subject, san and spiffe, not \
                 `{other}`"
            )
            .into()),
        };
    };
    for (name, value) in members {
        let place = match name.as_str() {
            "issuer" => &mut required.issuer,
            "subject" => &mut required.subject,
            "san" => &mut required.san,
            "spiffe" => &mut required.spiffe,
            _ => {
                let reason =
                    format!("has an unknown key `{name}`; it has issuer, subject, san and spiffe");
                return Err(Wrong::new(ErrorKind::UnknownColumn, reason));
            }
        };
        match value {
            Given::Text(text) if !text.is_empty() => *place = Some(text.clone()),
            _ => return Err(format!("must have a string as its `{name}`, not empty").into()),
        }
    }
    Ok(TlsRequirement::Certificate(required))
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

    fn is_given(&self, row: &Row<'_, '_>) -> bool {
        self.all().any(|key| row.has(key))
    }

    /// The password from the one key that the entry has; `None` when there is none, or it is wrong
    /// and reported.
    fn read(&self, row: &mut Row<'_, '_>) -> Option<Password> {
        let mut present = self.all().filter(|key| row.has(key));
        let (key, other) = (present.next()?, present.next());
        if let Some(other) = other {
            let message = format!("`{key}` and `{other}`{} exclude each other", row.within());
            row.error(ErrorKind::Conflict, other, message);
            return None;
        }
        let text = read_text(row.given(key)?);
        let read = text.and_then(|text| Ok(self.read_text(key, text, row.files)?));
        read.map_err(|wrong| row.refuse(key, wrong)).ok()
    }

    fn read_text(&self, key: &str, text: &str, files: &dyn FileSource) -> Result<Password, String> {
        if key == self.hash {
            return Password::from_hash(text).map_err(|error| format!("is wrong: {error}"));
        }
        if key == self.file {
            let read = password_of_file(text, files);
            return read.map_err(|why| format!("is wrong: `{text}` {why}"));
        }
        if key == self.environment {
            let read = password_of_environment(text, files);
            return read.map_err(|why| format!("is wrong: environment variable `{text}` {why}"));
        }
        // Sent as a clear password, a hash would never be right and nobody would see why.
        match is_hash(text) {
            true if self.hash.is_empty() => Err("holds a hash, which opens no server".to_owned()),
            true => Err(format!("holds a hash; write it as `{}`", self.hash)),
            false => Ok(clear_password(text)),
        }
    }

    /// Reads a password that opens servers: a hash does not.
    fn read_clear(&self, row: &mut Row<'_, '_>) -> Option<Secret<String>> {
        let password = self.read(row)?;
        if password.clear().is_none() {
            let message = format!("`{}` gives a hash, which opens no server", self.file);
            row.error(ErrorKind::Invalid, self.file, message);
        }
        password.clear().cloned()
    }
}

/// The user's password, which must be there, and the one before.
fn read_passwords(is_servers: bool, row: &mut Row<'_, '_>) -> (Option<Password>, Option<Password>) {
    if is_servers {
        if PASSWORD.is_given(row) || RETAINED.is_given(row) {
            let message = "`server_checks_password` and a password exclude each other";
            row.error(ErrorKind::Conflict, "server_checks_password", message.to_owned());
        }
        return (Some(Password::Servers), None);
    }
    let (password, retained) = (PASSWORD.read(row), RETAINED.read(row));
    let needs_none = row.has("unix_user") && BACKEND.is_given(row);
    if !PASSWORD.is_given(row) && !needs_none {
        let message =
            "[[user]] has no `password`, `password_hash`, `password_file` or `password_env`";
        row.error(ErrorKind::Missing, PASSWORD.clear, message.to_owned());
    }
    if let (Some(password), Some(retained)) = (&password, &retained)
        && std::mem::discriminant(password) != std::mem::discriminant(retained)
    {
        // The client is asked once, by the plug-in of the one.
        let message = "a retained password must be given in the form of the other: both clear, or \
                       both as the same kind of hash";
        row.error(ErrorKind::Conflict, RETAINED.clear, message.to_owned());
    }
    (password, retained)
}

/// The account on the servers, where it is another one.
fn read_backend(user: Option<String>, name: &str, row: &mut Row<'_, '_>) -> Option<BackendAccount> {
    let (password, retained_password) = (BACKEND.read_clear(row), BACKEND_RETAINED.read_clear(row));
    for key in ["backend_user", BACKEND_RETAINED.clear, BACKEND_RETAINED.file] {
        if row.has(key) && !BACKEND.is_given(row) {
            let message = format!("`{key}` needs a `{}`", BACKEND.clear);
            row.error(ErrorKind::Missing, key, message);
        }
    }
    let user = user.unwrap_or_else(|| name.to_owned());
    Some(BackendAccount { user, password: password?, retained_password })
}

/// The number of a user of the system, by its name or as it is.
fn read_unix_user(given: &Given, files: &dyn FileSource) -> Result<u32, Wrong> {
    if let Given::Integer(number) = given {
        let unknown = |_| format!("{number} is no user of the system");
        return Ok(u32::try_from(*number).map_err(unknown)?);
    }
    let name = read_text(given)?;
    let users = files.read_rules(USERS_FILE).map_err(|why| format!("{USERS_FILE}: {why}"))?;
    let number = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        is_it.then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    let unknown = || format!("is wrong: {USERS_FILE} has no user `{name}`; give its number");
    Ok(number.ok_or_else(unknown)?)
}

/// Where the system's users are. Those of other directories are given by their numbers.
pub const USERS_FILE: &str = "/etc/passwd";

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
