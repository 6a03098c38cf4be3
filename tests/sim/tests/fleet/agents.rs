//! Which agent a machine is handed with its configuration.

use std::rc::Rc;
use std::slice;

use muster_cloud::github::Agents;
use muster_conformance::records;
use muster_control::context::Context;
use muster_control::runner_api::{Handout, RunnerApi};
use muster_domain::agent::{AgentDownload, AgentInUse, AgentOffer, AgentReport, AgentVersion};
use muster_domain::ec2::Arch;
use muster_domain::instance::Ages;
use muster_domain::time::Seconds;
use muster_sim::schedule;

use crate::bench::Bench;

const NEWEST: AgentVersion = AgentVersion::new(2, 336, 0);

#[test]
fn a_machine_takes_what_github_lists_from_its_pools_mirror() {
    let mut pool = schedule::pool(records::POOL, &["linux"], 9, "spot", None);
    pool.agent_mirror = Some("https://mirror.example/runner".to_owned());
    let bench = Bench::of(vec![pool]);
    let booting = records::running(1, None);
    bench.store(slice::from_ref(&booting));
    let (door, settings) = (&bench.door, &Rc::clone(&bench.door.sim).settings);
    let ask = |version: Option<AgentVersion>, second| {
        let context = Context::new(door, door, door, door, settings);
        let pass = RunnerApi { context, owner: booting.name.clone().into(), role: None };
        let now = door.now() + Seconds(second);
        let report = AgentReport { arch: Arch::X64, version };
        bench.drive(pass.configure(Some(report), Ages::default(), now)).map(|handout| {
            let Handout::Runner(config) = handout else { panic!("a builder") };
            config.agent
        })
    };
    assert_eq!(ask(None, 0), Ok(Some(AgentOffer::Newest)), "GitHub never listed one");
    let digest = "0".repeat(64);
    let agents = Agents::listing("2.336.0", "https://github.com/actions", &digest);
    bench.change(|world| world.github.truth.agents = agents);
    let url = "https://mirror.example/runner/actions-runner-linux-x64-2.336.0.tar.gz".to_owned();
    let sha256 = Some(digest);
    let listed = AgentDownload { version: NEWEST, arch: Arch::X64, url, sha256 };
    let offer = Some(AgentOffer::Download(listed));
    assert_eq!(ask(None, 60), Ok(offer.clone()));
    bench.change(|world| world.github.truth.agents = Agents::default());
    let old = AgentVersion::new(2, 332, 0);
    assert_eq!(ask(Some(old), 120), Ok(offer), "what it listed last");
    assert_eq!(ask(Some(NEWEST), 180), Ok(None));
    let row = bench.change(|world| world.tables.instances[&booting.name].record().clone());
    assert_eq!(row.runner.agent, Some(AgentInUse { version: NEWEST, is_newest: true }));
    let told: Vec<&str> = row.events.iter().map(|event| &*event.what).collect();
    assert!(
        told.contains(&"its image's agent 2.332.0 is too old: it installs 2.336.0"),
        "{told:?}"
    );
    let known = bench.change(|world| world.tables.cooldowns.clone()).expect("a record");
    assert_eq!(known.agents.newest(), Some(NEWEST));
    assert_eq!(known.agents.images[&booting.pool], NEWEST);
}
