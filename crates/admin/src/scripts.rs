//! Scripts of `scheduler` and `restapi_routes`: run as an account of their own, for a limited
//! time, with a bounded output and nothing of the proxy's environment.

use std::{fs, os::unix::fs::MetadataExt, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    time::timeout,
};
use trunkline_config::Settings;

/// The most bytes of what a script writes to standard output.
const OUTPUT_MAX: u64 = 1 << 20;
/// The most bytes of what a script writes to standard error.
const COMPLAINT_MAX: u64 = 16 << 10;
/// What scripts find programs by.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How long the program that ends a script's group may take.
const KILL_TIME_MAX: Duration = Duration::from_secs(2);

/// A script that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub output: String,
    /// What it wrote to standard error.
    pub complaint: String,
}

/// Why a script has not ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRun {
    /// It could not be started; why.
    NotStarted(String),
    /// It took longer than this, and was ended with all that it had started.
    TimedOut(Duration),
    /// It wrote more than may be kept.
    TooLong,
}

impl std::fmt::Display for NotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotStarted(reason) => write!(f, "can't be started: {reason}"),
            Self::TimedOut(limit) => write!(f, "took longer than {} ms", limit.as_millis()),
            Self::TooLong => write!(f, "wrote more than {OUTPUT_MAX} bytes"),
        }
    }
}

/// The account that scripts run as; `None` for the proxy's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// The account that settings name. An empty name is the proxy's own account, unless that is
    /// root; root has to be named, and allowed by another setting.
    ///
    /// # Errors
    /// There is none of that name, it is root, or the proxy runs as root and no name is given.
    pub fn of(settings: &Settings) -> Result<Option<Self>, String> {
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let is_root = fs::metadata("/proc/self").map_or(true, |own| own.uid() == 0);
        let account = Self::choose(&settings.script_user, &passwd, is_root)?;
        match account {
            Some(Self { uid: 0, .. }) if !settings.script_user_may_be_root => Err(format!(
                "trunkline-script_user is `{}`, which is root: scripts run as another account, or \
                 trunkline-script_user_may_be_root has to be true as well",
                settings.script_user
            )),
            account => Ok(account),
        }
    }

    fn choose(name: &str, passwd: &str, is_root: bool) -> Result<Option<Self>, String> {
        match (name, is_root) {
            ("", false) => Ok(None),
            ("", true) => Err("the proxy runs as root: set trunkline-script_user".to_owned()),
            (name, _) => {
                let fields = |line: &str| {
                    let mut fields = line.split(':');
                    let (found, _) = (fields.next()?, fields.next()?);
                    let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
                    (found == name).then_some(Self { uid, gid })
                };
                let found = passwd.lines().find_map(fields);
                found.map(Some).ok_or_else(|| format!("there is no account `{name}`"))
            }
        }
    }
}

/// Runs a script to its end.
///
/// # Errors
/// When it did not end by itself.
pub async fn run(
    script: &str,
    arguments: &[String],
    account: Option<Account>,
    limit: Duration,
) -> Result<Ended, NotRun> {
    let mut command = Command::new(script);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(Account { uid, gid }) = account {
        command.gid(gid).uid(uid);
    }
    let mut child = command.spawn().map_err(|error| NotRun::NotStarted(error.to_string()))?;
    let group = child.id();
    let ended = match timeout(limit, outcome(&mut child)).await {
        Ok(ended) => ended,
        Err(_) => Err(NotRun::TimedOut(limit)),
    };
    if ended.is_err() {
        kill_group(group).await;
        // It is reaped when it is dropped.
        drop(child.start_kill());
    }
    ended
}

/// Runs a script as the account that settings name, and says in the log how it ended, if not well.
/// `name` is what it is called there.
pub(crate) async fn run_and_tell(
    name: &str,
    script: &str,
    arguments: &[String],
    settings: &Settings,
) {
    let limit = Duration::from_millis(settings.script_time_max);
    let account = match Account::of(settings) {
        Ok(account) => account,
        Err(reason) => return tracing::error!("{name}: {reason}"),
    };
    match run(script, arguments, account, limit).await {
        Ok(Ended { code: Some(0), .. }) => {}
        Ok(ended) => {
            let code = ended.code.map_or("a signal".to_owned(), |code| code.to_string());
            let said = ended.complaint.lines().next().unwrap_or_default();
            tracing::warn!("{name}: ended with {code}: {said}");
        }
        Err(error) => tracing::warn!("{name}: {error}"),
    }
}

async fn outcome(child: &mut Child) -> Result<Ended, NotRun> {
    let (output, complaint) = (child.stdout.take(), child.stderr.take());
    let read = tokio::join!(read(output, OUTPUT_MAX), read(complaint, COMPLAINT_MAX));
    let (output, complaint) = read;
    if output.len() as u64 > OUTPUT_MAX {
        return Err(NotRun::TooLong);
    }
    let status = child.wait().await.map_err(|error| NotRun::NotStarted(error.to_string()))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ended { code: status.code(), output: text(output), complaint: text(complaint) })
}

/// The first bytes of a stream, and one more when there are more. A script that goes on writing
/// beyond that ends by it.
async fn read(stream: Option<impl AsyncRead + Unpin>, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What was read until an error is what there is.
        drop(stream.take(most + 1).read_to_end(&mut bytes).await);
    }
    bytes
}

/// Ends everything that a script has started and that is still of its group.
async fn kill_group(group: Option<u32>) {
    let Some(group) = group else { return };
    let line = format!("kill -9 -- -{group}");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &line]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Some of it may have ended by itself.
    drop(timeout(KILL_TIME_MAX, command.status()).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Option<Account> {
        // As root a script gets another account, else it has this one.
        let is_root = fs::metadata("/proc/self").expect("Linux").uid() == 0;
        is_root.then_some(Account { uid: 65_534, gid: 65_534 })
    }

    async fn sh(line: &str, limit_ms: u64) -> Result<Ended, NotRun> {
        let arguments = ["-c".to_owned(), line.to_owned()];
        run("/bin/sh", &arguments, here(), Duration::from_millis(limit_ms)).await
    }

    #[tokio::test]
    async fn a_script_has_its_account_and_no_environment() {
        let ended = sh("id -u; pwd; env | grep -c CARGO; echo oh >&2; exit 3", 20_000).await;
        let ended = ended.expect("it ends");
        let uid = here().map_or(fs::metadata("/proc/self").expect("Linux").uid(), |it| it.uid);
        assert_eq!(ended.output, format!("{uid}\n/\n0\n"));
        assert_eq!((ended.code, ended.complaint.as_str()), (Some(3), "oh\n"));
    }

    #[tokio::test]
    async fn what_takes_too_long_or_says_too_much_is_ended() {
        let begun = std::time::Instant::now();
        let ended = sh("sleep 60 & sleep 60", 200).await;
        assert_eq!(ended, Err(NotRun::TimedOut(Duration::from_millis(200))));
        assert_eq!(sh("yes", 20_000).await, Err(NotRun::TooLong));
        assert!(begun.elapsed() < Duration::from_secs(15));
        let missing = run("/no/such", &[], None, Duration::from_secs(1)).await;
        assert!(matches!(missing, Err(NotRun::NotStarted(_))), "{missing:?}");
    }

    #[test]
    fn root_needs_another_account() {
        let passwd = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65533::/:/bin/false\n";
        let choose = |name: &str, is_root: bool| Account::choose(name, passwd, is_root);
        assert_eq!(choose("nobody", true), Ok(Some(Account { uid: 65_534, gid: 65_533 })));
        assert_eq!(choose("", false), Ok(None));
        assert!(choose("", true).is_err());
        assert!(choose("somebody", true).expect_err("unknown").contains("`somebody`"));
        let settings = |may_be_root| Settings {
            script_user: "root".to_owned(),
            script_user_may_be_root: may_be_root,
            ..Settings::default()
        };
        let refused = Account::of(&settings(false)).expect_err("said once");
        assert!(refused.contains("script_user_may_be_root"), "{refused}");
        assert_eq!(Account::of(&settings(true)), Ok(Some(Account { uid: 0, gid: 0 })));
    }
}
