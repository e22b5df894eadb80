//! The command as a shell sees it: what it prints where, and its exit codes.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

const VALID: &str = "\
[[server]]
hostgroup = 10
address = \"10.0.0.1:3306\"
[[server]]
hostgroup = 20
address = \"10.0.0.2:3306\"
[[server]]
hostgroup = 20
address = \"10.0.0.3:3306\"
[[replication]]
writer_hostgroup = 10
reader_hostgroup = 20
[[user]]
name = \"app\"
password_hash = \"*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19\"
default_hostgroup = 10
[[rule]]
id = 1
username = \"other\"
destination_hostgroup = 20
apply = true
";

/// A folder that goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("trunkline-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("folder");
        Self(path)
    }

    /// Writes a file that only its owner reads; gives its path.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("file");
        set_mode(&path, 0o600);
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
}

fn trunkline() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trunkline"));
    command.env_remove("NOTIFY_SOCKET");
    command
}

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

fn run(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().expect("runs");
    Ran {
        code: status.code(),
        out: String::from_utf8(stdout).expect("text"),
        err: String::from_utf8(stderr).expect("text"),
    }
}

#[test]
fn the_version_is_the_packages() {
    let ran = run(trunkline().arg("--version"));
    let expected = format!("trunkline {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!((ran.code, ran.out), (Some(0), expected));
}

#[test]
fn help_names_every_command_and_wrong_usage_is_code_2() {
    let ran = run(trunkline().arg("--help"));
    assert_eq!(ran.code, Some(0));
    for command in ["serve", "check", "status", "sessions", "explain", "import", "export"] {
        assert!(ran.out.contains(command), "{command}");
    }
    for args in [&[][..], &["dance"], &["serve"], &["explain", "-c", "x", "SELECT 1"]] {
        assert_eq!(run(trunkline().args(args)).code, Some(2), "{args:?}");
    }
}

#[test]
fn check_says_what_a_valid_file_holds() {
    let folder = Folder::new();
    let file = folder.write("trunkline.toml", VALID);
    let ran = run(trunkline().arg("check").arg(&file));
    let expected = format!("{}: ok: 3 servers in 2 hostgroups, 1 user, 1 rule\n", file.display());
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), &*expected, ""));
}

#[test]
fn check_says_everything_that_is_wrong_with_lines() {
    let folder = Folder::new();
    let text = format!("wait_timeuot = 1\n{VALID}max_conections = 1\n");
    let file = folder.write("trunkline.toml", &text);
    let ran = run(trunkline().arg("check").arg(&file));
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    let lines: Vec<&str> = ran.err.lines().collect();
    let name = file.display();
    assert_eq!(lines.len(), 2, "{}", ran.err);
    assert!(lines[0].starts_with(&format!("{name}:1:1: unknown setting `wait_timeuot`")));
    assert!(lines[1].starts_with(&format!("{name}:23:1: unknown key `max_conections`")));
}

#[test]
fn a_file_that_is_not_there_is_named_by_every_command() {
    let folder = Folder::new();
    let file = folder.0.join("none.toml");
    let name = file.to_str().expect("text");
    let check = |args: &[&str]| {
        let ran = run(trunkline().args(args));
        assert_eq!(ran.code, Some(1), "{args:?}");
        assert!(ran.err.contains("can't read the configuration file"), "{}", ran.err);
        assert!(ran.err.contains(name) && ran.err.contains("No such file"), "{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    };
    check(&["check", name]);
    check(&["serve", "-c", name]);
    check(&["status", "-c", name]);
    check(&["explain", "-c", name, "--user", "app", "SELECT 1"]);
}

#[test]
fn a_clear_password_that_others_may_read_is_a_warning() {
    let folder = Folder::new();
    let clear = VALID.replace("password_hash = \"*2470", "password = \"x2470");
    let file = folder.write("trunkline.toml", &clear);
    assert_eq!(run(trunkline().arg("check").arg(&file)).err, "");
    set_mode(&file, 0o644);
    let ran = run(trunkline().arg("check").arg(&file));
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.starts_with("warning: ") && ran.err.contains("(mode 644)"), "{}", ran.err);
    assert!(!ran.err.contains("x2470"), "{}", ran.err);

    // In a file of its own it is that file which must be closed; a hash needs nothing.
    let line = "password_hash = \"*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19\"";
    fs::write(&file, VALID.replace(line, "password_file = \"app.password\"")).expect("file");
    let password = folder.write("app.password", "secret\n");
    assert_eq!(run(trunkline().arg("check").arg(&file)).err, "");
    set_mode(&password, 0o640);
    let ran = run(trunkline().arg("check").arg(&file));
    assert!(ran.err.contains("app.password") && ran.err.contains("(mode 640)"), "{}", ran.err);
    fs::write(&password, "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19\n").expect("file");
    assert_eq!(run(trunkline().arg("check").arg(&file)).err, "");
}

#[test]
fn explain_shows_the_way_of_a_statement() {
    let folder = Folder::new();
    let file = folder.write("trunkline.toml", VALID);
    let explain = |args: &[&str]| run(trunkline().args(["explain", "-c"]).arg(&file).args(args));
    let ran = explain(&["--user", "app", "SELECT name FROM t WHERE id = 5"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    for part in [
        "digest      SELECT name FROM t WHERE id = ?\n",
        "access      reads, if what it names only reads",
        "rule        1: no: username\n",
        "hostgroup   20, a reader",
        "server      10.0.0.3:3306, weight 1, ONLINE\n",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    let ran = explain(&["--user", "app", "--client-addr", "10.1.1.1", "DELETE FROM t"]);
    assert!(ran.out.contains("hostgroup   10, the writer"), "{}", ran.out);
    let ran = explain(&["--user", "nobody", "SELECT 1"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.starts_with("trunkline: user `nobody` is not in "), "{}", ran.err);
}

#[test]
fn status_says_when_nothing_answers() {
    let free = TcpListener::bind("127.0.0.1:0").expect("binds");
    let url = format!("http://{}", free.local_addr().expect("address"));
    drop(free);
    let ran = run(trunkline().args(["status", "--url", &url]));
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    let expected = format!("trunkline: nothing answers at {url} (is trunkline running");
    assert!(ran.err.starts_with(&expected), "{}", ran.err);
    let ran = run(trunkline().args(["status", "--url", "localhost:6070"]));
    assert_eq!(ran.err, "trunkline: `localhost:6070` must be http://HOST:PORT\n");
}

#[test]
fn status_says_when_something_else_answers() {
    let check = |answer: &'static str, expected: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let url = format!("http://{}", listener.local_addr().expect("address"));
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("client");
            let mut request = [0; 1024];
            let len = stream.read(&mut request).expect("request");
            assert!(request[..len].starts_with(b"GET /status HTTP/1.0\r\n"));
            stream.write_all(answer.as_bytes()).expect("answers");
        });
        let ran = run(trunkline().args(["status", "--url", &url]));
        server.join().expect("server");
        assert_eq!(ran.code, Some(1));
        assert!(ran.err.contains(expected), "{}", ran.err);
    };
    check("HTTP/1.1 404 Not Found\r\n\r\nnothing here\n", "answers 404: nothing here");
    check("HTTP/1.1 200 OK\r\n\r\n<html>", "is not Trunkline, or another version");
    check("5.5.5-10.11\r\n\r\n", "does not speak HTTP");
    check("", "does not speak HTTP");
}

/// A proxy before servers that are not there, and the addresses that its log names.
struct Serving {
    process: Child,
    log: PathBuf,
    client: String,
    http: String,
}

impl Serving {
    fn start(folder: &Folder, more: &str) -> Self {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nhttp_listen = \"127.0.0.1:0\"\nworkers = 1\n{more}\n\
             [[server]]\naddress = \"unix:{}/none.sock\"\n[[user]]\nname = \"app\"\n\
             password = \"secret\"\n",
            folder.0.display()
        );
        let file = folder.write("trunkline.toml", &text);
        let log = folder.0.join("log");
        let process = trunkline()
            .args(["serve", "-c"])
            .arg(file)
            .stderr(fs::File::create(&log).expect("log"))
            .stdout(Stdio::null())
            .spawn()
            .expect("starts");
        let mut serving = Self { process, log, client: String::new(), http: String::new() };
        serving.client = serving.wait_for("listening on ");
        serving.http = serving.wait_for("HTTP on ");
        serving
    }

    /// Waits for a line of the log with `text`; what follows it there.
    fn wait_for(&self, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let log = fs::read_to_string(&self.log).expect("log");
            let lines = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let found = lines.filter_map(|line| line.split_once(text)).next_back();
            if let Some((_, rest)) = found {
                return rest.trim_end().to_owned();
            }
            assert!(Instant::now() < deadline, "no {text:?} in the log:\n{log}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([&format!("-{name}"), &self.process.id().to_string()])
            .status();
        assert!(status.expect("kill").success());
    }

    fn ended(&mut self) -> Option<i32> {
        self.process.wait().expect("ends").code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn serve_begins_without_servers_and_ends_with_code_0() {
    let folder = Folder::new();
    let mut serving = Serving::start(&folder, "");
    assert!(serving.wait_for("serving ").starts_with("1 server in 1 hostgroup, 1 user, 0 rules"));
    assert_eq!(serving.wait_for("clients are greeted as "), "8.4.0");
    let mut greeting = [0; 64];
    let mut client = TcpStream::connect(&serving.client).expect("client");
    let len = client.read(&mut greeting).expect("greeting");
    assert!(len > 10 && greeting[5..].starts_with(b"8.4.0\0"));
    let url = format!("http://{}", serving.http);
    let ran = run(trunkline().args(["status", "--url", &url]));
    assert!(ran.out.starts_with(&format!("Trunkline {}", env!("CARGO_PKG_VERSION"))));
    let ran = run(trunkline().args(["status", "--json", "--url", &url]));
    assert!(ran.out.starts_with('{') && ran.out.ends_with("}\n"));
    serving.signal("TERM");
    assert_eq!(serving.ended(), Some(0));
    serving.wait_for("stopped");
}

#[test]
fn sighup_applies_a_valid_file_and_ignores_another() {
    let folder = Folder::new();
    let mut serving = Serving::start(&folder, "");
    let file = folder.0.join("trunkline.toml");
    let text = fs::read_to_string(&file).expect("file");
    fs::write(&file, format!("frobnicate = 1\n{text}")).expect("file");
    serving.signal("HUP");
    serving.wait_for("configuration unchanged: ");
    serving.wait_for("trunkline.toml:1:1: unknown setting `frobnicate`");
    fs::write(&file, format!("server_version = \"9.9.9\"\n{text}")).expect("file");
    serving.signal("HUP");
    serving.wait_for("setting server_version: empty -> 9.9.9");
    serving.wait_for("configuration 2 in force: 1 change");
    let mut client = TcpStream::connect(&serving.client).expect("client");
    let mut greeting = [0; 64];
    client.read_exact(&mut greeting[..11]).expect("greeting");
    assert_eq!(&greeting[5..11], b"9.9.9\0");
    serving.signal("INT");
    assert_eq!(serving.ended(), Some(0));
}

#[test]
fn orders_need_no_token_on_the_machine_itself() {
    let folder = Folder::new();
    let mut serving = Serving::start(&folder, "");
    let file = folder.0.join("trunkline.toml");
    let url = format!("http://{}", serving.http);
    let socket = folder.0.join("trunkline.toml.control");
    let mode = fs::metadata(&socket).expect("socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let order = |arguments: &[&str], reach: &[&str]| run(trunkline().args(arguments).args(reach));
    let (by_file, by_url) = (["-c", file.to_str().expect("UTF-8")], ["--url", url.as_str()]);

    let ran = order(&["kill", "77"], &by_file);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("refuses: error 1094: Unknown thread id: 77"), "{}", ran.err);
    // HTTP tells where the socket of the process is.
    let ran = order(&["reload"], &by_url);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "done\n"), "{}", ran.err);
    serving.wait_for("PROXYSQL RELOAD CONFIG by account ");
    let text = fs::read_to_string(&file).expect("file");
    fs::write(&file, format!("frobnicate = 1\n{text}")).expect("file");
    let ran = order(&["reload"], &by_url);
    assert!(ran.err.contains("1:1: unknown setting `frobnicate`"), "{}", ran.err);
    let by_socket = ["--socket", socket.to_str().expect("UTF-8")];
    let ran = order(&["pause", "0", "--for", "60"], &by_socket);
    let wanted = "hostgroup 0 is paused, for 60 s from now; nobody holds a connection there\n";
    assert_eq!(ran.out, wanted, "{}", ran.err);
    let ran = order(&["pause", "0"], &by_socket);
    assert!(ran.out.starts_with("hostgroup 0 is still paused, for 10 s from now"), "{}", ran.out);
    let ran = order(&["resume", "0"], &by_socket);
    assert_eq!(ran.out, "hostgroup 0 goes on\n", "{}", ran.err);
    let ran = order(&["resume", "0"], &by_socket);
    assert!(ran.err.contains("refuses: hostgroup 0 is not paused"), "{}", ran.err);
    let ran = order(&["drain"], &by_socket);
    assert_eq!(ran.out, "done\n", "{}", ran.err);
    assert_eq!(serving.ended(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn without_a_control_socket_the_way_to_a_token_is_told() {
    let folder = Folder::new();
    let serving = Serving::start(&folder, "control_socket = \"\"");
    let url = format!("http://{}", serving.http);
    let ran = run(trunkline().args(["drain", "--url", &url]).env_remove("TRUNKLINE_TOKEN"));
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("set it in its configuration file: http_api_token"), "{}", ran.err);
    let ran = run(trunkline().args(["drain", "-D"]).arg(&folder.0));
    assert!(ran.err.contains("no proxy with a control socket runs on "), "{}", ran.err);
    drop(serving);
}

#[test]
fn what_was_learned_greets_at_the_next_start() {
    let folder = Folder::new();
    let state = format!(
        "{{\"format\":1,\"servers\":[{{\"from\":\"unix:{}/none.sock\",\"when_unix_sec\":1,\
         \"version\":\"10.11.6-MariaDB\",\"capabilities\":\"0x1d81bff7fe\",\"charset\":45,\
         \"auth_plugin\":\"mysql_native_password\"}}]}}",
        folder.0.display()
    );
    folder.write("trunkline.toml.state", &state);
    let serving = Serving::start(&folder, "");
    assert_eq!(serving.wait_for("clients are greeted as "), "10.11.6-MariaDB");
}

#[test]
fn serve_says_why_it_can_not_begin() {
    let folder = Folder::new();
    let holder = TcpListener::bind("127.0.0.1:0").expect("binds");
    let taken = holder.local_addr().expect("address");
    let text = format!("listen = [\"127.0.0.1:0\"]\nhttp_listen = \"{taken}\"\n{VALID}");
    let file = folder.write("trunkline.toml", &text);
    let ran = run(trunkline().args(["serve", "-c"]).arg(&file));
    drop(holder);
    assert_eq!(ran.code, Some(1));
    let expected = format!("can't listen at http_listen = \"{taken}\": ");
    assert!(ran.err.contains(&expected), "{}", ran.err);
    // A port that another proxy shares with its own workers is taken as well.
    let serving = Serving::start(&folder, "");
    let text = format!("listen = [\"{}\"]\nhttp_listen = \"\"\n{VALID}", serving.client);
    let second = folder.write("second.toml", &text);
    let ran = run(trunkline().args(["serve", "-c"]).arg(&second));
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains(&format!("can't listen at {}: ", serving.client)), "{}", ran.err);
    let broken = folder.write("broken.toml", "listen = 1\n");
    let ran = run(trunkline().args(["serve", "-c"]).arg(&broken));
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("broken.toml:1:10: `listen`"), "{}", ran.err);
}

const CNF: &str = r#"
datadir="/var/lib/proxysql"
admin_variables={ admin_credentials="admin:admin" mysql_ifaces="0.0.0.0:6032" }
mysql_variables={ threads=2 max_connections=2048 }
mysql_servers=( { address="10.0.0.1", port=3306, hostgroup=1 } )
mysql_users=( { username="app", password="it's", default_hostgroup=1 } )
mysql_query_rules=( { rule_id=1, active=1, match_pattern="^SELECT", destination_hostgroup=1 } )
mysql_replication_hostgroups=( { writer_hostgroup=1, reader_hostgroup=2 } )
"#;

#[test]
fn what_is_imported_is_exported_the_same() {
    let folder = Folder::new();
    let data = |name: &str| folder.0.join(name);
    let import = |name: &str, file: &Path| {
        run(trunkline().arg("import").arg("-D").arg(data(name)).arg(file))
    };
    let export = |name: &str, format: &str| {
        let ran =
            run(trunkline().arg("export").arg("-D").arg(data(name)).args(["--format", format]));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.out
    };
    let first = import("first", &folder.write("proxysql.cnf", CNF));
    assert_eq!(first.code, Some(0), "{}", first.err);
    let imported = "imported: 1 server in 1 hostgroup, 1 user, 1 rule, 1 cluster\n";
    assert!(first.out.ends_with(imported), "{}", first.out);
    assert!(first.err.contains("it listens on 127.0.0.1:6032 for now"), "{}", first.err);
    // A folder that has a configuration is not filled again.
    let again = import("first", &folder.write("other.cnf", "mysql_servers=()"));
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("holds a configuration already"), "{}", again.err);
    for format in ["toml", "cnf"] {
        let file = folder.write(&format!("export.{format}"), &export("first", format));
        let ran = import(format, &file);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        for other in ["toml", "cnf", "sql"] {
            assert_eq!(export(format, other), export("first", other), "{format} as {other}");
        }
    }
    // A database is read as well.
    let ran = import("copy", &data("first").join("trunkline.db"));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(export("copy", "sql"), export("first", "sql"));
    // What is exported for file mode is valid there.
    let file = folder.0.join("export.toml");
    assert_eq!(run(trunkline().arg("check").arg(&file)).code, Some(0));
}

#[test]
fn an_import_that_is_wrong_names_its_lines_and_leaves_nothing() {
    let folder = Folder::new();
    let data = folder.0.join("data");
    let import = |text: &str| {
        let file = folder.write("proxysql.cnf", text);
        run(trunkline().arg("import").arg("-D").arg(&data).arg(&file))
    };
    let wrong = CNF.replace("max_connections=2048", "max_connections=0").replace("port", "prot");
    let ran = import(&wrong);
    assert_eq!(ran.code, Some(1));
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ran.err);
    assert!(lines[0].ends_with("cnf:4: mysql-max_connections must be 1 to 1000000, not 0"));
    assert!(lines[1].ends_with("cnf:5: `prot` is no column of mysql_servers"), "{}", ran.err);
    let ran = import(&CNF.replace("^SELECT", "(SELECT"));
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("mysql_query_rules, rule_id 1"), "{}", ran.err);
    // What only the table knows is told of each row too.
    let ran = import(
        "mysql_servers = ( { address=\"a\", port=99999 },\n { address=\"b\" },\n \
         { address=\"c\", weight=-4 } )\n",
    );
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ran.err);
    assert!(lines[0].contains("cnf:1: mysql_servers: CHECK constraint failed: port"), "{lines:?}");
    assert!(lines[1].contains("cnf:3: mysql_servers: CHECK constraint failed: weight"));
    // Nothing has begun there.
    assert_eq!(import(CNF).code, Some(0));
}

#[test]
fn a_damaged_database_stops_the_start() {
    let folder = Folder::new();
    let data = folder.0.join("data");
    fs::create_dir_all(&data).expect("folder");
    fs::write(data.join("trunkline.db"), "nonsense ".repeat(1_000)).expect("file");
    let ran = run(trunkline().args(["serve", "-D"]).arg(&data));
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("trunkline.db is damaged"), "{}", ran.err);
    assert!(ran.err.contains("start with --initial"), "{}", ran.err);
}
