//! The agent of simulated machines, and the archives in which this GitHub lists it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tokio::process::Command;

/// Stand for the runner application, each for the part of that name: they take a JIT config, get a
/// job from the world and run its steps.
const AGENT: [(&str, &str); 4] = [
    ("run.sh", include_str!("run.sh")),
    ("bin/Runner.Listener", include_str!("listener.sh")),
    ("bin/Runner.Worker", include_str!("worker.sh")),
    ("bin/ask.sh", include_str!("ask.sh")),
];

/// Writes an agent of a version into a folder.
pub(super) fn write(folder: &Path, version: &str) -> io::Result<()> {
    fs::create_dir_all(folder.join("bin"))?;
    for (path, text) in AGENT {
        let path = folder.join(path);
        fs::write(&path, text.replace("@VERSION@", version))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Where the archives are.
pub(crate) fn archives(state_dir: &Path) -> PathBuf {
    state_dir.join("agents")
}

/// Packs an agent of a version under GitHub's name. Answers the SHA-256 of the archive.
pub(crate) async fn pack(state_dir: &Path, version: &str) -> io::Result<String> {
    let folder = archives(state_dir);
    let agent = folder.join(version);
    write(&agent, version)?;
    let archive = folder.join(format!("actions-runner-linux-x64-{version}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(&archive).arg("-C").arg(&agent).arg(".");
    if !tar.status().await?.success() {
        return Err(io::Error::other("tar failed"));
    }
    Ok(hex::encode(Sha256::digest(fs::read(&archive)?)))
}
