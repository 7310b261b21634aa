//! The licences, sources and bans of `deny.toml`, checked without cargo-deny. `tests/run` also runs `cargo deny check`
//! where it is installed. Only that checks the advisories.

use std::{fs, path::Path, process::Command};

use serde::Deserialize;

/// The parts of `deny.toml` that are checked here.
#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
    sources: Sources,
    bans: Bans,
    advisories: Advisories,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
    allow_git: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Banned>,
}

#[derive(Deserialize)]
struct Banned {
    name: String,
    reason: String,
}

#[derive(Deserialize)]
struct Advisories {
    ignore: Vec<Ignored>,
}

#[derive(Deserialize)]
struct Ignored {
    id: String,
    reason: String,
}

/// A package in the output of `cargo metadata`.
#[derive(Clone, Deserialize)]
struct Package {
    name: String,
    license: Option<String>,
    /// `None` for a package of this workspace.
    source: Option<String>,
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn deny() -> Deny {
    toml::from_str(&fs::read_to_string(root().join("deny.toml")).expect("deny.toml"))
        .expect("deny.toml matches these structs")
}

/// All packages of the lock file, including those for other systems.
fn packages() -> Vec<Package> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--all-features", "--locked", "--manifest-path"])
        .arg(root().join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Metadata>(&output.stdout).expect("cargo metadata is JSON").packages
}

/// The violations of these packages.
fn faults(deny: &Deny, packages: &[Package]) -> Vec<String> {
    let mut faults = Vec::new();
    for Package { name, license, source } in packages {
        match license {
            Some(license) if is_allowed(&deny.licenses.allow, license) => {}
            Some(license) => faults.push(format!("{name}: the licence {license} is not allowed")),
            None => faults.push(format!("{name} has no licence")),
        }
        let is_known = |source: &String| {
            let (kind, address) = source.split_once('+').unwrap_or(("", source));
            match kind {
                "registry" => deny.sources.allow_registry.iter().any(|allowed| allowed == address),
                "git" => deny.sources.allow_git.iter().any(|allowed| address.starts_with(allowed.as_str())),
                _ => false,
            }
        };
        if let Some(source) = source.as_ref().filter(|source| !is_known(source)) {
            faults.push(format!("{name} comes from {source}"));
        }
        if let Some(banned) = deny.bans.deny.iter().find(|banned| banned.name == *name) {
            faults.push(format!("{name} is banned: {}", banned.reason));
        }
    }
    faults
}

/// Whether these licences alone satisfy a licence expression.
fn is_allowed(allow: &[String], expression: &str) -> bool {
    let expression = spdx::Expression::parse_mode(expression, spdx::ParseMode::LAX);
    expression.is_ok_and(|expression| expression.evaluate(|required| allow.contains(&required.to_string())))
}

#[test]
fn packages_have_licences_and_sources_that_are_allowed() {
    let packages = packages();
    assert!(packages.len() > 300, "{} packages", packages.len());
    assert_eq!(faults(&deny(), &packages), [""; 0]);
}

#[test]
fn disallowed_packages_are_named() {
    let deny = deny();
    let good = Package {
        name: "good".into(),
        license: Some("MIT OR GPL-3.0-only".into()),
        source: Some("registry+https://github.com/rust-lang/crates.io-index".into()),
    };
    assert_eq!(faults(&deny, std::slice::from_ref(&good)), [""; 0]);
    let named = |package: Package| faults(&deny, &[package]).len();
    for license in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "AGPL-3.0-or-later", "MIT OR"] {
        assert_eq!(named(Package { license: Some(license.into()), ..good.clone() }), 1, "{license}");
    }
    assert_eq!(named(Package { license: None, ..good.clone() }), 1);
    for source in ["git+https://example.com/a", "registry+https://example.com/index", "path"] {
        assert_eq!(named(Package { source: Some(source.into()), ..good.clone() }), 1, "{source}");
    }
    assert_eq!(named(Package { name: "openssl".into(), ..good.clone() }), 1);
}

#[test]
fn ignored_advisories_have_a_reason() {
    for Ignored { id, reason } in deny().advisories.ignore {
        assert!(id.starts_with("RUSTSEC-") && reason.len() > 60, "{id} is ignored without a reason");
    }
}
