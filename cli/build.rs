//! Puts the commit into `muster --version`: a bug report names it, and most commits share a version number.

use std::process::Command;

fn main() {
    // Moves with each checkout and commit; absent in a source archive, which has no commit to name.
    for path in ["../.git/HEAD", "../.git/logs/HEAD"] {
        if std::path::Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-env-changed=MUSTER_RELEASE");
    let commit = Command::new("git").args(["rev-parse", "--short=8", "HEAD"]).output();
    let commit = commit.ok().filter(|output| output.status.success());
    let commit = commit.and_then(|output| String::from_utf8(output.stdout).ok());
    let release = std::env::var("MUSTER_RELEASE").ok().filter(|release| !release.is_empty());
    let release = release.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
    let version = match commit.as_deref().map(str::trim) {
        // A release that is not tagged has the commit in its name (infra/version).
        Some(commit) if !release.contains("-g") => format!("{release} ({commit})"),
        _ => release,
    };
    println!("cargo::rustc-env=MUSTER_VERSION={version}");
}
