//! `[[user]]`.

use std::sync::Arc;

use trunkline_topology::{
    AllowList, BackendAccount, CertificateRequirement, HostgroupId, Password, Secret,
    TlsRequirement, User,
};

use crate::{
    Wrong,
    error::ErrorKind,
    file::{
        FileSource,
        check::{Entries, HOSTGROUP_MAX, Placed},
        row::Row,
        section::{
            Column, Draft, comment, flag, harmless, instead_of, later, member_of, needed, number,
            text, value,
        },
    },
    settings::{Given, Range, SettingValue, read_text},
};

/// The longest user name; MariaDB allows 128 characters, MySQL 32.
const NAME_BYTES_MAX: usize = 512;

pub(super) struct UserDraft {
    name: Option<String>,
    password: PasswordDraft,
    retained: PasswordDraft,
    backend_user: Option<String>,
    backend: PasswordDraft,
    backend_retained: PasswordDraft,
    server_checks_password: bool,
    default_hostgroup: HostgroupId,
    default_schema: Option<String>,
    max_connections: u32,
    transaction_persistent: bool,
    fast_forward: bool,
    active: bool,
    use_ssl: bool,
    require: TlsRequirement,
    allow_from: AllowList,
}

impl Draft for UserDraft {
    const NAME: &'static str = "user";
    const TABLE: &'static str = "mysql_users";
    const KEY: &'static str = "username {username}";
    const COLUMNS: &'static [Column<Self>] = &[
        needed(value("name", |it, given| read_name(given).map(|name| it.name = Some(name)))),
        instead_of(
            "name",
            value("username", |it, given| read_name(given).map(|name| it.name = Some(name))),
        ),
        value("password", |it, given| it.password.clear(given, PASSWORD.hash)),
        value(PASSWORD.hash, |it, given| it.password.hash(given)),
        text(PASSWORD.file, |it, path| it.password.file = Some(path)),
        text(PASSWORD.environment, |it, name| it.password.environment = Some(name)),
        member_of(
            "attributes",
            value("retained_password", |it, given| it.retained.clear(given, RETAINED.hash)),
        ),
        value(RETAINED.hash, |it, given| it.retained.hash(given)),
        text(RETAINED.file, |it, path| it.retained.file = Some(path)),
        text(RETAINED.environment, |it, name| it.retained.environment = Some(name)),
        member_of(
            "attributes",
            value("backend_user", |it, given| {
                read_name(given).map(|name| it.backend_user = Some(name))
            }),
        ),
        value("backend_password", |it, given| it.backend.clear(given, BACKEND.hash)),
        text(BACKEND.file, |it, path| it.backend.file = Some(path)),
        text(BACKEND.environment, |it, name| it.backend.environment = Some(name)),
        member_of(
            "attributes",
            value("backend_retained_password", |it, given| it.backend_retained.clear(given, "")),
        ),
        text(BACKEND_RETAINED.file, |it, path| it.backend_retained.file = Some(path)),
        text(BACKEND_RETAINED.environment, |it, name| {
            it.backend_retained.environment = Some(name);
        }),
        member_of(
            "attributes",
            flag("server_checks_password", |it, is_so| it.server_checks_password = is_so),
        ),
        // Read at the end: it needs the system's users.
        member_of("attributes", value("unix_user", |_, _| Ok(()))),
        number("default_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
            it.default_hostgroup = HostgroupId(id);
        }),
        text("default_schema", |it, schema| {
            it.default_schema = Some(schema).filter(|schema| !schema.is_empty());
        }),
        number("max_connections", 0, 10_000_000, |it, count| it.max_connections = count),
        flag("transaction_persistent", |it, is_so| it.transaction_persistent = is_so),
        flag("fast_forward", |it, is_so| it.fast_forward = is_so),
        flag("active", |it, is_so| it.active = is_so),
        flag("use_ssl", |it, is_so| it.use_ssl = is_so),
        value("require", |it, given| read_requirement(given).map(|require| it.require = require)),
        member_of(
            "attributes",
            value("allow_from", |it, given| {
                SettingValue::read(given, Range::All).map(|list| it.allow_from = list)
            }),
        ),
        comment(),
        harmless(later("schema_locked")),
        later("backend"),
        later("frontend"),
        later("attributes"),
    ];

    fn new() -> Self {
        Self {
            name: None,
            password: PasswordDraft::default(),
            retained: PasswordDraft::default(),
            backend_user: None,
            backend: PasswordDraft::default(),
            backend_retained: PasswordDraft::default(),
            server_checks_password: false,
            default_hostgroup: HostgroupId(0),
            default_schema: None,
            max_connections: 10_000,
            transaction_persistent: true,
            fast_forward: false,
            active: true,
            use_ssl: false,
            require: TlsRequirement::None,
            allow_from: AllowList::default(),
        }
    }

    fn finish(mut self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        let unix_uid = row.given("unix_user").and_then(|given| {
            let read = read_unix_user(given, row.files);
            read.map_err(|wrong| row.refuse("unix_user", wrong)).ok()
        });
        let (password, retained_password) = self.finish_passwords(row);
        let backend = self.finish_backend(row);
        let require = match self.require {
            TlsRequirement::None if self.use_ssl => TlsRequirement::Tls,
            require => require,
        };
        let Some(name) = self.name else { return };
        // The cross-checks want every user; a password that could not be read was reported already.
        let password = password.unwrap_or_else(|| match unix_uid {
            Some(_) => Password::Nobodys,
            None => Password::Clear(Secret::default()),
        });
        let user = User {
            name,
            password,
            retained_password,
            backend,
            default_hostgroup: self.default_hostgroup,
            default_schema: self.default_schema,
            max_connections: self.max_connections,
            transaction_persistent: self.transaction_persistent,
            fast_forward: self.fast_forward,
            active: self.active,
            require,
            allow_from: self.allow_from,
            unix_uid,
            host: None,
        };
        let is_hostgroup_known = !row.is_refused("default_hostgroup");
        let placed = Placed { value: Arc::new(user), index: row.index };
        entries.users.push((placed, is_hostgroup_known));
    }
}

impl UserDraft {
    /// The user's password, which must be there, and the one before.
    fn finish_passwords(&mut self, row: &mut Row<'_, '_>) -> (Option<Password>, Option<Password>) {
        let password = std::mem::take(&mut self.password).finish(&PASSWORD, row);
        if self.server_checks_password {
            if PASSWORD.is_given(row) || RETAINED.is_given(row) {
                let message = "`server_checks_password` and a password exclude each other";
                row.error(ErrorKind::Conflict, "server_checks_password", message.to_owned());
            }
            return (Some(Password::Servers), None);
        }
        let needs_none = row.has("unix_user") && BACKEND.is_given(row);
        if !PASSWORD.is_given(row) && !needs_none {
            let message =
                "[[user]] has no `password`, `password_hash`, `password_file` or `password_env`";
            row.error(ErrorKind::Missing, PASSWORD.clear, message.to_owned());
        }
        let retained = std::mem::take(&mut self.retained).finish(&RETAINED, row);
        if let (Some(password), Some(retained)) = (&password, &retained)
            && std::mem::discriminant(password) != std::mem::discriminant(retained)
        {
            // The client is asked once, by the plug-in of the one.
            let message = "a retained password must be given in the form of the other: both \
                           clear, or both as the same kind of hash";
            row.error(ErrorKind::Conflict, RETAINED.clear, message.to_owned());
        }
        (password, retained)
    }

    /// The account on the servers, where it is another one.
    fn finish_backend(&mut self, row: &mut Row<'_, '_>) -> Option<BackendAccount> {
        let password = std::mem::take(&mut self.backend).finish_clear(&BACKEND, row);
        let retained = std::mem::take(&mut self.backend_retained);
        let retained_password = retained.finish_clear(&BACKEND_RETAINED, row);
        for key in ["backend_user", BACKEND_RETAINED.clear, BACKEND_RETAINED.file] {
            if row.has(key) && !BACKEND.is_given(row) {
                let message = format!("`{key}` needs a `{}`", BACKEND.clear);
                row.error(ErrorKind::Missing, key, message);
            }
        }
        let user = self.backend_user.take().or_else(|| self.name.clone())?;
        Some(BackendAccount { user, password: password?, retained_password })
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
}

/// A password, or what names it.
#[derive(Default)]
struct PasswordDraft {
    password: Option<Password>,
    file: Option<String>,
    environment: Option<String>,
}

impl PasswordDraft {
    /// Reads a clear password. `hash_key` is where a hash belongs.
    fn clear(&mut self, given: &Given, hash_key: &str) -> Result<(), Wrong> {
        let text = read_text(given)?;
        // Sent as a clear password, a hash would never be right and nobody would see why.
        match (is_hash(text), hash_key) {
            (true, "") => Err("holds a hash, which opens no server".to_owned().into()),
            (true, key) => Err(format!("holds a hash; write it as `{key}`").into()),
            (false, _) => {
                self.password = Some(clear_password(text));
                Ok(())
            }
        }
    }

    fn hash(&mut self, given: &Given) -> Result<(), Wrong> {
        let hash = Password::from_hash(read_text(given)?);
        self.password = Some(hash.map_err(|error| format!("is wrong: {error}"))?);
        Ok(())
    }

    /// The password from the one key that is there; `None` when there is none, or it is wrong and
    /// reported.
    fn finish(self, keys: &PasswordKeys, row: &mut Row<'_, '_>) -> Option<Password> {
        let file = self.file.and_then(|path| {
            password_of_file(&path, row.files)
                .map_err(|why| row.refuse(keys.file, format!("is wrong: `{path}` {why}").into()))
                .ok()
        });
        let environment = self.environment.and_then(|name| {
            let why = |why| format!("is wrong: environment variable `{name}` {why}");
            password_of_environment(&name, row.files)
                .map_err(|reason| row.refuse(keys.environment, why(reason).into()))
                .ok()
        });
        let mut present = keys.all().filter(|key| row.has(key));
        if let (Some(first), Some(second)) = (present.next(), present.next()) {
            let message = format!("`{first}` and `{second}`{} exclude each other", row.within());
            row.error(ErrorKind::Conflict, second, message);
            return None;
        }
        self.password.or(file).or(environment)
    }

    /// The same for a password that opens servers: a hash does not.
    fn finish_clear(self, keys: &PasswordKeys, row: &mut Row<'_, '_>) -> Option<Secret<String>> {
        let password = self.finish(keys, row)?;
        if password.clear().is_none() {
            let message = format!("`{}` gives a hash, which opens no server", keys.file);
            row.error(ErrorKind::Invalid, keys.file, message);
        }
        password.clear().cloned()
    }
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
