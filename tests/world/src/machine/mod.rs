//! Machines as processes: each runs its instance's user data in bash, in a process group of its
//! own.

mod agent;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use tokio::process::Command;

pub(crate) use self::agent::{archives as agent_archives, pack as pack_agent};
use crate::wire::Cloud;

/// The agent of an image of which nothing is said.
const USUAL_AGENT: &str = "2.999.0";
/// Stands for the system's own command: tells the world that this machine powers off.
const SHUTDOWN: &str = include_str!("shutdown.sh");
/// Stands for systemd: runs the units of `infra/machine`.
const SYSTEMCTL: &str = include_str!("systemctl.py");
/// Stands for the script that cleans a builder's disk, whose real one must not run here.
const BAKE: &str = include_str!("bake.sh");
/// A machine changes no user of the system that runs the tests.
const USERMOD: &str = "#!/bin/sh\n";

/// All machines that have power.
#[derive(Debug)]
pub struct Rack {
    root: PathBuf,
    world_url: String,
    groups: Mutex<BTreeMap<String, u32>>,
}

impl Rack {
    pub(crate) fn new(root: PathBuf, world_url: String) -> Self {
        Self { root, world_url, groups: Mutex::default() }
    }

    /// Boots a machine. What goes wrong here is written on its console: EC2 would not notice.
    pub(crate) fn start(self: &Arc<Self>, cloud: &Cloud, instance: &str) {
        let plan = cloud.look(|world, _| {
            let user_data = world.ec2.instance(instance)?.user_data.clone();
            let machine = world.machines.get(instance)?;
            Some((user_data, machine.behaviour.agent.clone()))
        });
        let Some((user_data, agent)) = plan else { return };
        let directory = self.root.join(instance);
        if let Err(error) = self.boot(instance, &directory, &user_data, agent.as_deref()) {
            let _ = fs::create_dir_all(&directory);
            note(&directory, &format!("the machine could not boot: {error}"));
        }
    }

    fn boot(
        self: &Arc<Self>,
        instance: &str,
        directory: &Path,
        user_data: &str,
        own_agent: Option<&str>,
    ) -> io::Result<()> {
        for part in ["bin", "actions-runner", "muster", "tmp"] {
            fs::create_dir_all(directory.join(part))?;
        }
        let script = |path: &str, text: &str| -> io::Result<()> {
            let path = directory.join(path);
            let text = text.replace("@WORLD@", &self.world_url).replace("@MACHINE@", instance);
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
        };
        script("bin/shutdown", SHUTDOWN)?;
        // Nothing that a boot script calls may ever reach the machine that runs the tests.
        for name in ["poweroff", "halt", "reboot"] {
            script(&format!("bin/{name}"), SHUTDOWN)?;
        }
        script("bin/systemctl", SYSTEMCTL)?;
        script("bin/usermod", USERMOD)?;
        script("bake.sh", BAKE)?;
        let version = own_agent.unwrap_or(USUAL_AGENT);
        if version != "none" {
            agent::write(&directory.join("actions-runner"), version)?;
        }
        // The world's agents know their machine by it, whichever archive they came in.
        fs::write(directory.join("machine"), instance)?;
        let decoded = BASE64.decode(user_data).map_err(io::Error::other)?;
        let path = directory.join("user-data");
        fs::write(&path, &decoded)?;
        let Some(interpreter) = interpreter(&decoded) else {
            note(directory, "cloud-init: the user data is not a script; nothing runs");
            return Ok(());
        };
        let console = File::options().create(true).append(true).open(directory.join("console"))?;
        // As init starts it: no signal is ignored, whatever the shell that began all this ignores.
        let child = Command::new("/usr/bin/env")
            .args(["--default-signal", interpreter])
            .arg(&path)
            .current_dir(directory)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(console.try_clone()?)
            .stderr(console)
            .env_clear()
            .envs(self.environment(instance, directory))
            .spawn()?;
        self.watch(instance, directory, child);
        Ok(())
    }

    fn environment(&self, instance: &str, directory: &Path) -> Vec<(&'static str, String)> {
        let below = |name: &str| directory.join(name).display().to_string();
        vec![
            ("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", below("bin"))),
            ("HOME", below("tmp")),
            ("TMPDIR", below("tmp")),
            ("LANG", "C.UTF-8".to_owned()),
            ("MUSTER_RUNNER_DIR", below("actions-runner")),
            ("MUSTER_RUNNER_USER", current_user()),
            ("MUSTER_HOME", below("muster")),
            ("MUSTER_UNITS", below("units")),
            ("MUSTER_TOOL_CACHE", below("tools")),
            ("MUSTER_ENVIRONMENT", below("environment")),
            ("AWS_EC2_METADATA_SERVICE_ENDPOINT", format!("{}/imds/{instance}", self.world_url)),
        ]
    }

    fn watch(self: &Arc<Self>, instance: &str, directory: &Path, mut child: tokio::process::Child) {
        if let Some(group) = child.id() {
            super::wire::lock(&self.groups).insert(instance.to_owned(), group);
            let _ = fs::write(directory.join("pid"), group.to_string());
        }
        let (rack, instance) = (Arc::clone(self), instance.to_owned());
        let directory = directory.to_owned();
        tokio::spawn(async move {
            let group = child.id();
            let end = child.wait().await;
            note(&directory, &format!("the boot script ended: {end:?}"));
            // A group without members must be forgotten: its number may be given to a stranger.
            if let Some(group) = group
                && !signal(&["-0"], &[group]).await
            {
                super::wire::lock(&rack.groups).remove(&instance);
            }
        });
    }

    /// Takes a machine's power.
    pub(crate) fn kill(&self, instance: &str) {
        let group = super::wire::lock(&self.groups).remove(instance);
        if let Some(group) = group {
            tokio::spawn(kill_groups(vec![group]));
        }
    }

    /// Takes the power of all machines.
    pub(crate) async fn kill_all(&self) {
        let groups = std::mem::take(&mut *super::wire::lock(&self.groups));
        kill_groups(groups.into_values().collect()).await;
    }
}

async fn kill_groups(groups: Vec<u32>) {
    signal(&["-KILL"], &groups).await;
}

/// Signals whole process groups, whose leaders are children of this process. False if no process
/// was there to get it.
async fn signal(which: &[&str], groups: &[u32]) -> bool {
    if groups.is_empty() {
        return false;
    }
    let groups = groups.iter().map(|group| format!("-{group}"));
    let done = Command::new("/bin/kill")
        .args(which)
        .arg("--")
        .args(groups)
        .stderr(Stdio::null())
        .status()
        .await;
    match done {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("world: machines could not be signalled: {error}");
            false
        }
    }
}

impl Drop for Rack {
    /// A world that ends without saying so (a test that panics) leaves no machine behind.
    fn drop(&mut self) {
        let groups = std::mem::take(&mut *super::wire::lock(&self.groups));
        if !groups.is_empty() {
            let groups = groups.values().map(|group| format!("-{group}"));
            let mut kill = std::process::Command::new("/bin/kill");
            let _ = kill.args(["-KILL", "--"]).args(groups).stderr(Stdio::null()).status();
        }
    }
}

/// The program of a script's first line, as cloud-init lets the kernel find it.
fn interpreter(script: &[u8]) -> Option<&str> {
    let first = script.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(first).ok()?.strip_prefix("#!")?;
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["/usr/bin/env", program] => Some(program),
        [program] => Some(program),
        _ => None,
    }
}

fn current_user() -> String {
    let id = std::process::Command::new("id").arg("-un").output();
    id.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default()
}

fn note(directory: &Path, text: &str) {
    let console = File::options().create(true).append(true).open(directory.join("console"));
    if let Ok(mut console) = console {
        let _ = writeln!(console, "[world] {text}");
    }
}
