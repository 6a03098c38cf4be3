//! The functions' own processes, for tests that kill one. Linux only, like the functions
//! themselves.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The process of a function that has a connection to this port of this machine: the one that waits
/// for an answer from there.
///
/// # Errors
/// When there is not exactly one.
pub fn connected(function: &str, port: u16) -> Result<u32> {
    let sockets = sockets_to(port)?;
    let found: Vec<u32> = workers(function)?
        .into_iter()
        .filter(|pid| open_sockets(*pid).iter().any(|socket| sockets.contains(socket)))
        .collect();
    ensure!(found.len() == 1, "processes of {function} that wait for port {port}: {found:?}");
    Ok(found[0])
}

/// Ends a process at once: it cannot notice.
///
/// # Errors
/// When there is no such process.
pub fn kill(pid: u32) -> Result<()> {
    let status = Command::new("kill").args(["-KILL", &pid.to_string()]).status()?;
    ensure!(status.success(), "process {pid} could not be killed");
    Ok(())
}

/// The warm processes of a function: what the emulator started with that name in its environment.
fn workers(function: &str) -> Result<Vec<u32>> {
    let wanted = format!("AWS_LAMBDA_FUNCTION_NAME={function}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("/proc")? {
        let entry = entry?;
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        // Processes of others, and those that just ended, cannot be read.
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        let ours = environment.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes());
        let program = fs::read_link(entry.path().join("exe")).unwrap_or_default();
        if ours && program.file_name() == Some("bootstrap".as_ref()) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// The numbers of all established connections to a port.
fn sockets_to(port: u16) -> Result<Vec<String>> {
    const ESTABLISHED: &str = "01";
    let table = fs::read_to_string("/proc/net/tcp").context("/proc/net/tcp")?;
    let remote = format!(":{port:04X}");
    Ok(table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| {
            fields.len() > 9 && fields[2].ends_with(&remote) && fields[3] == ESTABLISHED
        })
        .map(|fields| format!("socket:[{}]", fields[9]))
        .collect())
}

fn open_sockets(pid: u32) -> Vec<String> {
    let files = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd"));
    let links =
        files.into_iter().flatten().flatten().filter_map(|file| fs::read_link(file.path()).ok());
    links.map(|link| link.to_string_lossy().into_owned()).collect()
}
