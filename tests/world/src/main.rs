//! The simulated cloud as a process. See the library for what it is; flags below.

use std::{env, io, process::ExitCode, time::SystemTime};

use muster_cloud::Timings;
use muster_world::{WorldSettings, start, wire::Credentials};
use tokio::signal::unix::{SignalKind, signal};

const HELP: &str = "\
world: the simulated cloud (EC2, GitHub, machines) on loopback

Flags (environment):
  --state-dir DIR     (WORLD_STATE_DIR)     where machines have their files; default .local/world
  --ec2-port N        (WORLD_EC2_PORT)      default 5002; 0 takes any free port
  --github-port N     (WORLD_GITHUB_PORT)   default 5003
  --control-port N    (WORLD_CONTROL_PORT)  default 5004
  --machine-port N    (WORLD_MACHINE_PORT)  default 5005: metadata and GitHub's side of runners
  --emulator URL      (AWS_ENDPOINT_URL)    the AWS emulator; without it no role credentials
  --seed N            (WORLD_SEED)          identifiers are derived from it; default: the time
The region is AWS_REGION (us-east-1), the emulator's credentials are AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY (test). The ports that were taken are written to DIR/ports.json.";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let settings = match settings() {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            eprintln!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("world: {message}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(settings).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("world: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(settings: WorldSettings) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let state_dir = settings.state_dir.clone();
    let world = start(settings).await?;
    let ports = format!(
        "{{\"ec2\":{},\"github\":{},\"control\":{},\"machines\":{}}}\n",
        world.ec2.port(),
        world.github.port(),
        world.control.port(),
        world.machines.port()
    );
    std::fs::write(state_dir.join("ports.json"), &ports)?;
    eprint!("world: {ports}");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    world.stop().await;
    Ok(())
}

fn settings() -> Result<Option<WorldSettings>, String> {
    let mut flags = std::collections::BTreeMap::new();
    let mut arguments = env::args().skip(1);
    while let Some(flag) = arguments.next() {
        if flag == "--help" || flag == "-h" {
            return Ok(None);
        }
        let name = flag.strip_prefix("--").ok_or_else(|| format!("not a flag: {flag}"))?;
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (name.to_owned(), arguments.next()),
        };
        flags.insert(name, value.ok_or_else(|| format!("{flag} needs a value"))?);
    }
    let mut get = |flag: &str, variable: &str| {
        flags.remove(flag).or_else(|| env::var(variable).ok()).filter(|value| !value.is_empty())
    };
    let number = |value: Option<String>, otherwise: u64| match value {
        None => Ok(otherwise),
        Some(value) => value.parse::<u64>().map_err(|_| format!("not a number: {value}")),
    };
    let mut port = |flag: &str, variable: &str, otherwise: u64| {
        let port = number(get(flag, variable), otherwise)?;
        u16::try_from(port).map_err(|_| format!("not a port: {port}"))
    };
    let ec2_port = port("ec2-port", "WORLD_EC2_PORT", 5002)?;
    let github_port = port("github-port", "WORLD_GITHUB_PORT", 5003)?;
    let control_port = port("control-port", "WORLD_CONTROL_PORT", 5004)?;
    let machine_port = port("machine-port", "WORLD_MACHINE_PORT", 5005)?;
    let from_environment = |variable: &str, otherwise: &str| {
        env::var(variable).ok().filter(|v| !v.is_empty()).unwrap_or_else(|| otherwise.to_owned())
    };
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let settings = WorldSettings {
        state_dir: get("state-dir", "WORLD_STATE_DIR")
            .unwrap_or_else(|| ".local/world".to_owned())
            .into(),
        ec2_port,
        github_port,
        control_port,
        machine_port,
        region: from_environment("AWS_REGION", "us-east-1"),
        emulator: get("emulator", "AWS_ENDPOINT_URL"),
        credentials: Credentials {
            access_key_id: from_environment("AWS_ACCESS_KEY_ID", "test"),
            secret_access_key: from_environment("AWS_SECRET_ACCESS_KEY", "test"),
            session_token: None,
        },
        timings: Timings::default(),
        seed: number(get("seed", "WORLD_SEED"), clock.as_secs())?,
    };
    match flags.pop_first() {
        None => Ok(Some(settings)),
        Some((name, _)) => Err(format!("unknown flag: --{name}")),
    }
}
