//! The layers between crates: arrows go down only.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Finding;
use crate::run::cargo;

/// Crates that exist for tests and developers; product code never depends on them.
const TESTING: [&str; 7] = [
    "trunkline-testkit",
    "trunkline-sim",
    "trunkline-adversary",
    "trunkline-icount",
    "trunkline-fuzz",
    "e2e",
    "xtask",
];

/// A dependency that only these product crates may use, so that replacing it changes one place.
const OWNERS: [(&str, &[&str]); 19] = [
    ("quick_cache", &["trunkline-cache"]),
    ("mio", &["trunkline-net"]),
    ("socket2", &["trunkline-net"]),
    ("rustls", &["trunkline-net"]),
    ("rcgen", &["trunkline-crypto"]),
    ("pkcs8", &["trunkline-crypto"]),
    ("rustix", &["trunkline", "trunkline-net"]),
    ("aws-lc-rs", &["trunkline-crypto"]),
    ("flate2", &["trunkline-compression"]),
    ("zstd", &["trunkline-compression"]),
    ("axum", &["trunkline-admin"]),
    ("http-body-util", &["trunkline-trace"]),
    ("hyper", &["trunkline-trace"]),
    ("hyper-util", &["trunkline-trace"]),
    ("opentelemetry-proto", &["trunkline-trace"]),
    ("prost", &["trunkline-trace"]),
    ("rusqlite", &["trunkline-store"]),
    ("dns-lookup", &["trunkline-monitor"]),
    ("anyhow", &["trunkline"]),
];

/// What brings sockets, clocks, threads, chance or an executor: never in layer 0.
const IMPURE: [&str; 12] = [
    "tokio",
    "mio",
    "socket2",
    "rustix",
    "libc",
    "dns-lookup",
    "rand",
    "getrandom",
    "axum",
    "mysql_async",
    "rusqlite",
    "tracing-subscriber",
];

/// One crate of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    name: String,
    /// Its folder, relative to the workspace.
    folder: PathBuf,
    layer: Option<u64>,
    dependencies: Vec<Dependency>,
}

#[derive(Clone, Debug)]
struct Dependency {
    name: String,
    for_tests: bool,
}

/// The crates of the workspace in `root`, as cargo sees them.
pub fn packages(root: &Path) -> Result<Vec<Package>> {
    let output = cargo(root)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .output()
        .context("cannot run cargo metadata")?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata failed: {message}");
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let root = metadata.get("workspace_root").and_then(Value::as_str).context("no root")?;
    let packages = metadata.get("packages").and_then(Value::as_array).context("no packages")?;
    packages.iter().map(|package| describe(package, Path::new(root))).collect()
}

/// The layer of the crate that a file belongs to; paths are relative to the workspace.
pub fn layer_of(packages: &[Package], file: &Path) -> Option<u64> {
    packages.iter().find(|package| file.starts_with(&package.folder))?.layer
}

/// All broken arrows.
pub fn check(packages: &[Package]) -> Vec<Finding> {
    packages.iter().flat_map(|package| check_package(package, packages)).collect()
}

fn check_package(package: &Package, all: &[Package]) -> Vec<Finding> {
    let name = &package.name;
    let manifest = package.folder.join("Cargo.toml");
    let Some(layer) = package.layer else {
        let wanted = "no layer: [package.metadata.trunkline] layer = N";
        return vec![Finding::error(&manifest, 0, wanted)];
    };
    let is_testing = TESTING.contains(&name.as_str());
    let mut findings = Vec::new();
    let mut fail = |message: String| findings.push(Finding::error(&manifest, 0, message));
    for Dependency { name: on, for_tests } in &package.dependencies {
        let other = all.iter().find(|other| other.name == *on).and_then(|other| other.layer);
        if let Some(above) = other.filter(|other| *other > layer) {
            fail(format!("{name} (layer {layer}) depends on {on} (layer {above})"));
        }
        if is_testing || *for_tests {
            continue;
        }
        if TESTING.contains(&on.as_str()) {
            fail(format!("product crate {name} depends on {on}, which is for tests"));
        }
        if layer == 0 && IMPURE.contains(&on.as_str()) {
            fail(format!("{name} is pure (layer 0) and depends on {on}"));
        }
        let owners = OWNERS.iter().find(|(dependency, _)| dependency == on);
        if let Some((_, owners)) = owners.filter(|(_, owners)| !owners.contains(&name.as_str())) {
            fail(format!("{name} depends on {on}, which only {} may use", owners.join(", ")));
        }
    }
    findings
}

fn describe(package: &Value, root: &Path) -> Result<Package> {
    let text = |key: &str| package.get(key).and_then(Value::as_str);
    let manifest = Path::new(text("manifest_path").context("a package has no manifest_path")?);
    let folder = manifest.parent().context("a manifest lies nowhere")?;
    let empty = Vec::new();
    let listed = package.get("dependencies").and_then(Value::as_array).unwrap_or(&empty);
    let dependencies = listed.iter().filter_map(|dependency| {
        Some(Dependency {
            name: dependency.get("name")?.as_str()?.to_owned(),
            for_tests: dependency.get("kind").and_then(Value::as_str) == Some("dev"),
        })
    });
    Ok(Package {
        name: text("name").context("a package has no name")?.to_owned(),
        folder: folder.strip_prefix(root).unwrap_or(folder).to_path_buf(),
        layer: package.pointer("/metadata/trunkline/layer").and_then(Value::as_u64),
        dependencies: dependencies.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, layer: u64, on: &[(&str, bool)]) -> Package {
        let dependencies = on
            .iter()
            .map(|(name, for_tests)| Dependency { name: (*name).into(), for_tests: *for_tests })
            .collect();
        let folder = PathBuf::from("crates").join(name);
        Package { name: name.into(), folder, layer: Some(layer), dependencies }
    }

    #[test]
    fn arrows_up_and_to_tests_are_found() {
        let packages = [
            package("trunkline-sql", 0, &[("trunkline-net", false), ("tokio", false)]),
            package("trunkline-net", 1, &[("trunkline-sql", false), ("mio", false)]),
            package("trunkline", 3, &[("trunkline-testkit", false), ("mio", false)]),
            package("trunkline-testkit", 3, &[("anyhow", false)]),
            package("trunkline-pool", 0, &[("trunkline-sql", true), ("tokio", true)]),
        ];
        let messages: Vec<String> = check(&packages).into_iter().map(|f| f.message).collect();
        assert_eq!(
            messages,
            [
                "trunkline-sql (layer 0) depends on trunkline-net (layer 1)",
                "trunkline-sql is pure (layer 0) and depends on tokio",
                "product crate trunkline depends on trunkline-testkit, which is for tests",
                "trunkline depends on mio, which only trunkline-net may use",
            ]
        );
    }

    #[test]
    fn a_file_belongs_to_its_crate() {
        let packages = [package("trunkline-sql", 0, &[])];
        assert_eq!(layer_of(&packages, Path::new("crates/trunkline-sql/src/lib.rs")), Some(0));
        assert_eq!(layer_of(&packages, Path::new("docs/x.md")), None);
    }
}
