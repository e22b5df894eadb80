//! `trunkline import` and `trunkline export`.

use std::{fs, io::Read as _, path::Path, process::ExitCode};

use anyhow::{Context, Result, anyhow};
use trunkline_admin::{
    import::{Format, Imported, cnf_rows, export},
    service::{self, FirstRow, Start},
};
use trunkline_config::variable;
use trunkline_store::{Layer, Place, Store, Value, foreign};
use trunkline_topology::Secret;

use crate::{
    cli::{ExportArgs, ImportArgs},
    complain,
    config_file::{ConfigFile, Read, summary},
    show,
};

/// Reads a file of any kind as rows: ProxySQL's database, its `.cnf`, or Trunkline's own.
///
/// # Errors
/// Every error as one line that names the file.
pub fn rows_of(path: &Path) -> Result<Imported, Vec<String>> {
    let name = path.display();
    let unreadable = |error: std::io::Error| vec![format!("can't read {name}: {error}")];
    let mut head = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(foreign::MAGIC.len() as u64).read_to_end(&mut head).map_err(unreadable)?;
    if head == foreign::MAGIC {
        return database_rows(path);
    }
    let text = Secret::new(fs::read_to_string(path).map_err(unreadable)?);
    if is_cnf(path, text.expose()) {
        return cnf_rows(text.expose(), &name.to_string());
    }
    Ok(Imported { rows: ConfigFile::new(path).rows()?, warnings: Vec::new() })
}

/// The language in which what a file of this kind holds is written.
pub fn format_of(path: &Path) -> Format {
    match fs::read(path).is_ok_and(|bytes| is_foreign(path, bytes)) {
        true => Format::Cnf,
        false => Format::Toml,
    }
}

/// Whether a file with these bytes is one of ProxySQL's. There may be passwords in it: they are
/// wiped.
fn is_foreign(path: &Path, bytes: Vec<u8>) -> bool {
    if bytes.starts_with(foreign::MAGIC) {
        return true;
    }
    let text = String::from_utf8(bytes).unwrap_or_else(|error| {
        let bytes = Secret::new(error.into_bytes());
        String::from_utf8_lossy(bytes.expose()).into_owned()
    });
    is_cnf(path, Secret::new(text).expose())
}

/// Whether a file is one of ProxySQL's, by its name or by what is in it: no key of Trunkline's own
/// files has one of these names.
fn is_cnf(path: &Path, text: &str) -> bool {
    const KEYS: [&str; 5] =
        ["admin_variables", "mysql_variables", "mysql_servers", "mysql_users", "mysql_query_rules"];
    let is_key = |line: &str| KEYS.iter().any(|key| line.trim_start().starts_with(key));
    path.extension().is_some_and(|extension| extension == "cnf") || text.lines().any(is_key)
}

/// Reads a file of any kind as the configuration that it makes.
///
/// # Errors
/// Every error as one line that names the file.
pub fn read_any(file: &ConfigFile) -> Result<Read, Vec<String>> {
    // That it can't be read is said below.
    let is_own = !fs::read(file.path()).is_ok_and(|bytes| is_foreign(file.path(), bytes));
    if is_own {
        return file.read();
    }
    let mut imported = rows_of(file.path())?;
    let mut warnings = std::mem::take(&mut imported.warnings);
    let (config, more) = service::config_of(imported).map_err(|error| error.0)?;
    warnings.extend(more);
    Ok(Read { config, warnings })
}

fn database_rows(path: &Path) -> Result<Imported, Vec<String>> {
    let name = path.display();
    let found = foreign::read_foreign(path);
    let found = found.map_err(|error| vec![format!("can't read {name}: {error}")])?;
    let mut imported = Imported::default();
    let mut errors = Vec::new();
    for (table, values) in found {
        if let [(_, Value::Text(variable)), (_, Value::Text(value)), ..] = values.as_slice()
            && table == "global_variables"
        {
            if variable::find(variable).is_none() {
                imported.warnings.push(format!("{name}: {variable} is not known here"));
                continue;
            }
            if variable == "admin-version" {
                continue;
            }
            // ProxySQL shows what was never set as an empty text.
            if let Err(error) = variable::check(variable, value)
                .or_else(|error| if value.is_empty() { Ok(()) } else { Err(error) })
            {
                errors.push(format!("{name}: {error}"));
            }
        }
        imported.rows.push(FirstRow { table, values, place: None });
    }
    if errors.is_empty() { Ok(imported) } else { Err(errors) }
}

/// Fills an empty database from a file.
pub fn run(args: &ImportArgs) -> Result<ExitCode> {
    let read = || rows_of(&args.file);
    let start = Start { folder: args.data_dir.clone(), is_initial: args.initial, first: &read };
    let fail = |lines: Vec<String>| {
        lines.iter().for_each(|line| complain(line));
        Ok(ExitCode::FAILURE)
    };
    let started = match service::start_new(start) {
        Ok(started) => started,
        Err(error) => return fail(error.0),
    };
    for warning in &started.warnings {
        complain(&format!("warning: {warning}"));
    }
    let folder = args.data_dir.display();
    show(&format!("{folder}: imported: {}\n", summary(&started.config)));
    Ok(ExitCode::SUCCESS)
}

/// Writes what a database holds to standard output.
pub fn run_export(args: &ExportArgs) -> Result<ExitCode> {
    let folder = &args.data_dir;
    let file = folder.join(trunkline_store::open::DISK_FILE);
    file.is_file().then_some(()).with_context(|| format!("there is no {}", file.display()))?;
    let store = Store::open(&Place::Folder(folder.clone()), Box::new(|_, _| Ok(())))
        .map_err(|error| anyhow!("{error}"))?;
    let text = export(&store, Layer::Disk, args.format.into());
    show(&text.map_err(|error| anyhow!("{error}"))?);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CNF: &str = "mysql_servers = ( { address=\"a\", hostgroup=1 } )\n\
                       mysql_users = ( { username=\"u\", password=\"p\", default_hostgroup=1 } )\n";
    const TOML: &str = "[[server]]\nhostgroup = 1\naddress = \"a:3306\"\n[[user]]\nname = \"u\"\n\
                        password = \"p\"\ndefault_hostgroup = 1\n";

    #[test]
    fn a_file_is_what_its_content_says() {
        let folder = std::env::temp_dir().join(format!("trunkline-any-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).expect("a folder");
        let first = || cnf_rows(CNF, "x.cnf");
        let data = folder.join("data");
        let start = Start { folder: data.clone(), is_initial: false, first: &first };
        drop(service::start_new(start).unwrap_or_else(|error| panic!("{error:?}")));
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).expect("written");
            path
        };
        let paths = [
            file("proxysql.cnf", CNF),
            file("proxysql.conf", CNF),
            file("trunkline.toml", TOML),
            data.join(trunkline_store::open::DISK_FILE),
        ];
        for path in paths {
            let read = read_any(&ConfigFile::new(&path));
            let read = read.unwrap_or_else(|errors| panic!("{}: {errors:?}", path.display()));
            let found = (read.config.users.len(), read.config.servers.len());
            assert_eq!(found, (1, 1), "{}", path.display());
        }
        let wrong = file("wrong", "mysql_users = ( { username=\"u\", default_hostgroup=-7 } )");
        let errors = read_any(&ConfigFile::new(&wrong)).err().expect("it is wrong");
        assert!(errors.iter().any(|line| line.contains("default_hostgroup")), "{errors:?}");
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
