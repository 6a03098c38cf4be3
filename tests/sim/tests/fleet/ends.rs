//! Machines that end before their runner is there.

use std::rc::Rc;

use muster_control::context::Context;
use muster_control::reaps::batch::{Batch, ReceivedReap};
use muster_control::reaps::reap::Ticket;
use muster_domain::ids::LaunchId;
use muster_domain::instance::{Instance, Slot};
use muster_domain::message::ReapMessage;
use muster_domain::stored::Change;
use muster_domain::time::Seconds;
use muster_domain::timings::Timings;
use muster_sim::ec2::End;

use crate::bench::{Bench, waiting};

/// A machine that boots for a job, and how EC2 ends it. Answers its record and what is told of its
/// pool, as they are after the pass that hears of it.
fn ended(end: End) -> (Instance, String) {
    let bench = Bench::new();
    let now = bench.door.now();
    let timings = Timings::default();
    let mut job = waiting(1, now);
    let launch: LaunchId = "small-l0".parse().expect("a launch");
    let number = bench.change(|world| world.make_machine(Some(launch.clone())));
    let machine = bench.change(|world| world.ec2.at(number).id.clone());
    let slot = Slot {
        name: "small-l0-0".parse().expect("a name"),
        pool: "small".parse().expect("a pool"),
        entity: "acme".parse().expect("an entity"),
        installation: None,
        launch,
        claim: Some(job.key()),
    };
    let mut row = Instance::planned(slot, now, &timings);
    row.bind(machine.clone(), now, &timings);
    job.claim = Some(row.name.clone());
    bench.put(&[Change::create(job.clone()).into()]);
    bench.store(std::slice::from_ref(&row));
    bench.change(|world| world.end_machine(number, &end));

    let (door, settings) = (&bench.door, &Rc::clone(&bench.door.sim).settings);
    let what = "shutting-down".to_owned();
    let message = ReapMessage::MachineChanged { machine: machine.clone(), what, at: None };
    let ticket = Ticket { nonce: 1, receives: 1 };
    let received = [ReceivedReap { message, ticket, receipt: "1".to_owned() }];
    let batch = Batch { context: Context::new(door, door, door, door, settings) };
    bench.drive(batch.run(&received, now + Seconds(60), &|| door.now()));
    bench.change(|world| {
        let row = Instance::clone(&world.tables.instances[&row.name]);
        assert_eq!(world.tables.jobs[&job.key()].claim, None, "its job looks for another one");
        let told = world.tables.cooldowns.as_ref().expect("on record").troubles[0].reason.clone();
        (row, told)
    })
}

/// EC2 may accept a launch that it cannot perform: it ends the machine while it is pending, and
/// only its record says why.
#[test]
fn what_ended_the_machine_is_told_of_it_and_of_its_job() {
    let (row, told) = ended(End::LaunchFailed("Client.InternalError".to_owned()));
    let why = "Client.InternalError: Client error on launch";
    assert_eq!(told, format!("the machine ended before its runner started: {why}"));
    assert!(row.events.iter().any(|event| *event.what == *format!("EC2: {why}")));
    assert_eq!(row.last_error.expect("an error").code, "Client.InternalError");
}

/// Each of our machines shuts itself down in the end: there EC2's words say nothing.
#[test]
fn a_machine_that_shuts_itself_down_is_no_error_of_ec2() {
    let (row, told) = ended(End::ShutItselfDown);
    assert_eq!(told, "the machine ended before its runner started");
    assert_eq!(row.last_error, None);
}
