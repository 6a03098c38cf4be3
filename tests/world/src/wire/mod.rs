//! The wire: sockets and HTTP around the model. Nothing here decides anything.

mod agent;
mod cloud;
pub mod control;
mod deliver;
mod ec2;
mod emulator;
mod gate;
mod github;
mod imds;
mod listener;
mod sigv4;
mod xml;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use axum::Router;
use tokio::net::TcpListener;

pub use cloud::Cloud;
pub(crate) use cloud::lock;
pub use emulator::Emulator;
pub use sigv4::{Credentials, Signable};
pub use xml::Element;

use crate::machine::Rack;
use muster_cloud::{Timings, World};

/// How a world is started.
#[derive(Clone, Debug)]
pub struct WorldSettings {
    /// Where machines have their files.
    pub state_dir: PathBuf,
    /// Ports on loopback; 0 takes any free one.
    pub ec2_port: u16,
    pub github_port: u16,
    pub control_port: u16,
    pub machine_port: u16,
    pub region: String,
    /// The AWS emulator, if there is one. Without it machines get no credentials and EC2 events
    /// and launch templates have nowhere to go to or come from.
    pub emulator: Option<String>,
    pub credentials: Credentials,
    pub timings: Timings,
    /// Identifiers are derived from it.
    pub seed: u64,
}

/// A world that runs.
pub struct Running {
    pub cloud: Arc<Cloud>,
    pub ec2: SocketAddr,
    pub github: SocketAddr,
    pub control: SocketAddr,
    pub machines: SocketAddr,
    rack: Arc<Rack>,
}

impl Running {
    /// Takes the power of all machines.
    pub async fn stop(&self) {
        self.rack.kill_all().await;
    }
}

/// Opens all doors and returns; the world runs in the background of the current tokio runtime.
pub async fn start(settings: WorldSettings) -> io::Result<Running> {
    let state_dir = std::path::absolute(&settings.state_dir)?;
    std::fs::create_dir_all(&state_dir)?;
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let ec2 = bind(settings.ec2_port).await?;
    let github = bind(settings.github_port).await?;
    let control = bind(settings.control_port).await?;
    let machines = bind(settings.machine_port).await?;
    let emulator = settings
        .emulator
        .as_ref()
        .map(|base| Emulator::new(base, &settings.region, settings.credentials.clone()));
    let machine_url = format!("http://{}", machines.local_addr()?);
    let mut world = World::new(settings.seed, settings.timings.clone());
    world.github.agent_url.clone_from(&machine_url);
    let (cloud, happened) = Cloud::new(world, emulator, state_dir.clone(), settings.region.clone());
    let rack = Arc::new(Rack::new(state_dir.join("machines"), machine_url));
    let running = Running {
        cloud: Arc::clone(&cloud),
        ec2: ec2.local_addr()?,
        github: github.local_addr()?,
        control: control.local_addr()?,
        machines: machines.local_addr()?,
        rack: Arc::clone(&rack),
    };
    tokio::spawn(Arc::clone(&cloud).tick());
    tokio::spawn(deliver::run(Arc::clone(&cloud), rack, happened));
    open(ec2, ec2::router(Arc::clone(&cloud)));
    open(github, github::router(Arc::clone(&cloud)));
    open(control, control::router(Arc::clone(&cloud)));
    open(machines, agent::router().merge(imds::router()).with_state(cloud));
    Ok(running)
}

fn open(listener: TcpListener, router: Router) {
    let service = router.into_make_service_with_connect_info::<listener::Cut>();
    tokio::spawn(async move { axum::serve(listener::Door(listener), service).await });
}
