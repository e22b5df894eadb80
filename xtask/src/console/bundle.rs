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
    use std::collections::BTreeMap;

    use anyhow::bail;
    use trunkline_testkit::TempFolder;

    use super::*;

    /// The list of the built files, and the hash of the sources: what `build.mjs` writes beside
    /// the page.
    const HASHES: [&str; 2] = ["files.sha256", "sources.sha256"];

    /// Whether the page that is checked in was built from the sources that are there. The sources'
    /// hash and those of the built files say so; where the tools are, the page is built again and
    /// compared.
    fn check_sources(root: &Path) -> Result<()> {
        check_files(&root.join("crates/admin/console"))?;
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

    /// Whether the files of the page are those that `build.mjs` has written, all of them and no
    /// others.
    fn check_files(page: &Path) -> Result<()> {
        let list = std::fs::read_to_string(page.join("files.sha256"))?;
        let noted: BTreeMap<&str, &str> = list
            .lines()
            .filter_map(|line| line.split_once("  ").map(|(hash, name)| (name, hash)))
            .collect();
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(page)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !HASHES.contains(&name.as_str()) {
                found.insert(name.clone(), hex(&std::fs::read(page.join(&name))?));
            }
        }
        for name in noted.keys().copied().chain(found.keys().map(String::as_str)) {
            let (noted, found) = (noted.get(name), found.get(name).map(String::as_str));
            if noted.copied() != found {
                bail!(
                    "{name} of the web console is not what was built: cargo xtask console --build"
                );
            }
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

    /// Nothing of this needs node: a changed byte, a missing file and one more are all seen.
    #[test]
    fn a_page_that_was_changed_by_hand_is_seen() -> Result<()> {
        let page = crate::workspace_root().join("crates/admin/console");
        let copy = |name: &str| -> Result<TempFolder> {
            let folder = TempFolder::new(name)?;
            for entry in std::fs::read_dir(&page)? {
                let entry = entry?;
                std::fs::copy(entry.path(), folder.path().join(entry.file_name()))?;
            }
            Ok(folder)
        };
        let said = |folder: &TempFolder| check_files(folder.path()).map_err(|it| it.to_string());
        let folder = copy("page")?;
        assert_eq!(said(&folder), Ok(()));
        for name in ["console.js", "console.css", "index.html", "icon.svg"] {
            let folder = copy("page-changed")?;
            let path = folder.path().join(name);
            let mut bytes = std::fs::read(&path)?;
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
            }
            std::fs::write(&path, bytes)?;
            assert!(said(&folder).is_err_and(|told| told.contains(name)), "{name} was changed");
            std::fs::remove_file(&path)?;
            assert!(said(&folder).is_err_and(|told| told.contains(name)), "{name} is missing");
        }
        std::fs::write(folder.path().join("other.js"), "alert(1)")?;
        assert!(said(&folder).is_err_and(|told| told.contains("other.js")));
        Ok(())
    }
}
