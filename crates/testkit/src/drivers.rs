//! Programs on real drivers (`e2e/drivers`): where their packages are kept, how they are started.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::servers_dir::{find_program, servers_dir};

/// A language with its own way to get packages; its programs lie in `e2e/drivers/NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecosystem {
    /// pip, in a virtual environment.
    Python,
    /// The go command's modules.
    Go,
    /// npm.
    Node,
    /// Maven.
    Java,
    /// cargo, in a workspace of its own.
    Rust,
    /// The distribution's packages.
    Php,
    /// The distribution's packages.
    Ruby,
}

impl Ecosystem {
    /// All of them.
    pub const ALL: [Ecosystem; 7] = [
        Ecosystem::Python,
        Ecosystem::Go,
        Ecosystem::Node,
        Ecosystem::Java,
        Ecosystem::Rust,
        Ecosystem::Php,
        Ecosystem::Ruby,
    ];

    /// The name of its folder.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Ecosystem::Python => "python",
            Ecosystem::Go => "go",
            Ecosystem::Node => "node",
            Ecosystem::Java => "java",
            Ecosystem::Rust => "rust",
            Ecosystem::Php => "php",
            Ecosystem::Ruby => "ruby",
        }
    }

    /// The programs without which nothing can be had or run.
    #[must_use]
    pub fn tools(self) -> &'static [&'static str] {
        match self {
            Ecosystem::Python => &["python3"],
            Ecosystem::Go => &["go"],
            Ecosystem::Node => &["node", "npm"],
            Ecosystem::Java => &["java", "javac", "mvn"],
            Ecosystem::Rust => &["cargo"],
            Ecosystem::Php => &["php"],
            Ecosystem::Ruby => &["ruby"],
        }
    }

    /// The files, relative to its folder, from which its packages and its program are made: when
    /// one changes they are made anew. Scripts that only run need not be among them.
    #[must_use]
    pub fn inputs(self) -> &'static [&'static str] {
        match self {
            Ecosystem::Python => &["requirements.txt"],
            Ecosystem::Go => &["go.mod", "go.sum", "main.go", "session.go", "values.go"],
            Ecosystem::Node => &["package.json", "package-lock.json"],
            Ecosystem::Java => &[
                "pom.xml",
                "src/main/java/Program.java",
                "src/main/java/Connections.java",
                "src/main/java/Session.java",
                "src/main/java/Values.java",
            ],
            Ecosystem::Rust => &[
                "Cargo.toml",
                "Cargo.lock",
                "src/main.rs",
                "src/values.rs",
                "src/with_mysql_async.rs",
                "src/with_sqlx.rs",
            ],
            Ecosystem::Php | Ecosystem::Ruby => &[],
        }
    }

    /// The folder with its packages and its program; `cargo xtask drivers` fills it.
    #[must_use]
    pub fn place(self) -> PathBuf {
        drivers_dir().join(self.name())
    }

    /// The first tool that is missing.
    #[must_use]
    pub fn missing_tool(self) -> Option<&'static str> {
        self.tools().iter().copied().find(|tool| find_program(tool).is_none())
    }

    /// Whether its packages and program were made from the tree's files as they are now.
    #[must_use]
    pub fn is_current(self, tree: &Path) -> bool {
        let place = self.place();
        self.inputs().iter().all(|input| {
            let made_from = std::fs::read(done_copy(&place, input));
            let now = std::fs::read(tree.join(self.name()).join(input));
            matches!((made_from, now), (Ok(a), Ok(b)) if a == b)
        })
    }

    /// Writes down that its packages and program were made from the tree's files.
    ///
    /// # Errors
    /// When a file can't be copied.
    pub fn mark_current(self, tree: &Path) -> std::io::Result<()> {
        let place = self.place();
        for input in self.inputs() {
            let copy = done_copy(&place, input);
            if let Some(folder) = copy.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::copy(tree.join(self.name()).join(input), copy)?;
        }
        Ok(())
    }

    /// The command that runs its program; the driver's name and the scenario are to be added.
    #[must_use]
    pub fn command(self, tree: &Path) -> Command {
        let place = self.place();
        let source = tree.join(self.name());
        let script = |program: &Path, file: &str| {
            let mut command = Command::new(program);
            command.arg(source.join(file));
            command
        };
        match self {
            Ecosystem::Python => {
                let mut command = script(&place.join("venv/bin/python"), "program.py");
                command.env("PYTHONDONTWRITEBYTECODE", "1");
                command
            }
            Ecosystem::Go => Command::new(place.join("program")),
            Ecosystem::Node => {
                let mut command = script(Path::new("node"), "program.js");
                command.env("NODE_PATH", place.join("node_modules"));
                command
            }
            Ecosystem::Java => {
                let mut command = Command::new("java");
                // What makes a short program start quickly.
                command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]);
                let (own, others) = (place.join("classes"), place.join("lib"));
                command.arg("-cp").arg(format!("{}:{}/*", own.display(), others.display()));
                command.arg("Program");
                command
            }
            Ecosystem::Rust => Command::new(place.join("target/debug/drivers")),
            Ecosystem::Php => script(Path::new("php"), "program.php"),
            Ecosystem::Ruby => script(Path::new("ruby"), "program.rb"),
        }
    }
}

/// The folder that holds packages and programs of drivers.
///
/// `TRUNKLINE_DRIVERS`, else `drivers` beside the servers' folder.
#[must_use]
pub fn drivers_dir() -> PathBuf {
    match std::env::var_os("TRUNKLINE_DRIVERS").filter(|value| !value.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => servers_dir().with_file_name("drivers"),
    }
}

/// Where the copy of an input lies that says what was made from it.
fn done_copy(place: &Path, input: &str) -> PathBuf {
    place.join("made-from").join(input)
}
