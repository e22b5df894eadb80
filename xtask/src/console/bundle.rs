//! The page's tools; and, as a test, whether the page was built from the sources that are there.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::find_program;

use crate::run::step;

/// Gets the tools of `package-lock.json`, unless they are there.
pub fn install(web: &Path) -> Result<()> {
    ensure!(find_program("node").is_some(), "there is no node: apt-get install nodejs npm");
    let lock = std::fs::read(web.join("package-lock.json")).context("no package-lock.json")?;
    let mark = web.join("node_modules/.trunkline-lock");
    if std::fs::read(&mark).is_ok_and(|known| known == lock) {
        return Ok(());
    }
    step(
        "getting the page's tools",
        Command::new("npm").current_dir(web).args(["ci", "--no-audit"]),
    )?;
    std::fs::write(mark, lock)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    /// Whether the page that is checked in was built from the sources that are there. The sources'
    /// hash says so; where the tools are, the page is built again and compared.
    fn check_sources(root: &Path) -> Result<()> {
        let web = root.join("web");
        let noted = std::fs::read_to_string(root.join("crates/admin/console/sources.sha256"))?;
        let found = sources_hash(&web)?;
        if noted.trim() != found {
            bail!("the web console was not built from web/ as it is: cargo xtask console --build");
        }
        let has_tools = web.join("node_modules/esbuild/package.json").is_file();
        if has_tools && find_program("node").is_some() {
            let mut command = Command::new("node");
            command.current_dir(&web).args(["build.mjs", "--check"]);
            step("comparing the web console with its sources", &mut command)?;
        }
        Ok(())
    }

    /// The hash that `build.mjs` writes beside the page.
    fn sources_hash(web: &Path) -> Result<String> {
        let mut paths = Vec::new();
        list(web, "src", &mut paths)?;
        let others = ["build.mjs", "package.json", "package-lock.json", "tsconfig.json"];
        paths.extend(others.map(str::to_owned));
        paths.sort();
        let mut lines = String::new();
        for path in paths {
            let bytes = std::fs::read(web.join(&path)).with_context(|| format!("web/{path}"))?;
            lines.push_str(&format!("{path} {}\n", hex(&bytes)));
        }
        Ok(hex(lines.as_bytes()))
    }

    fn list(web: &Path, folder: &str, paths: &mut Vec<String>) -> Result<()> {
        for entry in std::fs::read_dir(web.join(folder))? {
            let entry = entry?;
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            match entry.file_type()?.is_dir() {
                true => list(web, &path, paths)?,
                false => paths.push(path),
            }
        }
        Ok(())
    }

    fn hex(bytes: &[u8]) -> String {
        trunkline_crypto::sha256(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_page_was_built_from_the_sources_that_are_there() {
        let root = crate::workspace_root();
        let checked = check_sources(&root);
        assert!(checked.is_ok(), "{:#}", checked.expect_err("what is wrong"));
    }
}
