//! EC2 in virtual time: the model (`tests/cloud`), the machines behind its instances, and what goes
//! wrong before it.

mod behaviour;
mod bucket;
mod images;
mod launch;
mod life;
mod money;
mod port;
mod prices;
mod shortage;
mod terminate;
mod words;

use std::collections::BTreeSet;

use muster_cloud::Ids;
use muster_cloud::ec2::Instance;
use muster_domain::ec2::{Bucket, Market};
use muster_domain::ids::{LaunchId, MachineId};

use self::bucket::Buckets;
use self::shortage::Shortages;
use crate::agenda::{Millis, TaskId};

pub use self::behaviour::{Behaviour, ImageAgent};
pub use self::launch::LateLaunch;
pub use muster_cloud::ec2::{End, InstanceState};

/// EC2's words for the states whose events reach the reap queue, and for the notice of spot.
const EVENTS: [&str; 5] =
    ["shutting-down", "terminated", "stopping", "stopped", "spot-interruption"];
/// The place of the notice among them.
const NOTICE: u8 = 4;

/// The zones, each with one of the schedules' subnets. An outage hits the first.
const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
const SUBNETS: [&str; 3] = ["subnet-a", "subnet-b", "subnet-c"];
/// Stories' second subnet of the first zone.
const SECOND_SUBNET: &str = "subnet-a2";

/// What the simulator knows of one machine beside EC2's record of its instance.
#[derive(Debug)]
pub struct Machine {
    /// EC2's id.
    pub id: MachineId,
    /// The tag `muster:launch`; none when it is not ours.
    pub launch: Option<LaunchId>,
    /// EC2 denied knowing it once, after it had shown it.
    denials: u8,
    /// What is wrong with it.
    pub behaviour: Behaviour,
    /// The boot script and agent, while they run.
    pub task: Option<TaskId>,
    /// The scenario's word.
    pub told: u32,
    /// The job that its agent was given.
    pub job: Option<u32>,
    /// The job whose steps run on it: the truth that nobody may cut off.
    pub works_on: Option<u32>,
    /// Its registration.
    pub runner: Option<u64>,
    /// Since when it is paid for.
    runs_since: Option<Millis>,
    /// A job's steps ran on it.
    pub has_worked: bool,
    /// When EC2 takes it back, if it announces that two minutes ahead.
    pub reclaimed_at: Option<Millis>,
    /// The last answer about it said that EC2 caused its end.
    pub is_explained: bool,
}

impl Machine {
    const fn new(id: MachineId, launch: Option<LaunchId>, behaviour: Behaviour) -> Self {
        Self {
            id,
            launch,
            denials: 0,
            behaviour,
            task: None,
            told: 0,
            job: None,
            works_on: None,
            runner: None,
            runs_since: None,
            has_worked: false,
            reclaimed_at: None,
            is_explained: false,
        }
    }
}

/// All of EC2.
#[derive(Debug)]
pub struct Ec2 {
    /// EC2 itself. Its instances are numbered as the machines are.
    pub cloud: muster_cloud::ec2::Ec2,
    ids: Ids,
    /// Every machine there ever was.
    pub machines: Vec<Machine>,
    /// Launches that take effect after the caller gave up.
    pub late: Vec<LateLaunch>,
    live: usize,
    buckets: Buckets,
    shortages: Shortages,
    /// How much longer than other calls `CreateFleet` takes.
    pub launch_takes: Millis,
    /// Its token buckets are those that AWS documents, and nobody else draws from them.
    pub real_buckets: bool,
    /// The account has no service-linked role for Spot, and we may not make it: Spot is refused in
    /// every place.
    pub without_spot: bool,
    /// Each request for Spot is answered with an error of EC2's own.
    pub spot_errs: bool,
    /// A policy of the account's organization forbids this type: EC2 stops at the first place that
    /// asks for it.
    pub forbidden_type: Option<String>,
    /// A scenario's machines boot without being told to.
    pub boots_alone: bool,
    /// What a scenario's images bring.
    pub image_agent: ImageAgent,
    /// A scenario's quota that is used up, on both markets.
    pub without_quota: Option<(Option<Market>, Bucket)>,
    /// Images whose machines never boot.
    pub broken_images: BTreeSet<String>,
    /// Scripted behaviour of the next machines.
    pub scripted: Vec<Behaviour>,
    /// Scripted answers of the next calls.
    pub script: Vec<Scripted>,
    /// Operations whose prices are denied, and types that they refuse.
    pub without_prices: Vec<&'static str>,
}

/// What a scenario has EC2 answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scripted {
    /// The launch is done and its answer lost.
    LaunchAnswerLost,
    /// The launch is not done.
    LaunchTimedOut,
    /// There is no capacity.
    NoCapacity,
    /// Terminate is refused.
    TerminateFails,
    /// An image is created, and the answer is lost.
    ImageAnswerLost,
    /// An image is not created, and no answer comes.
    ImageTimedOut,
    /// An image is created and never becomes available.
    ImageFails,
    /// An image is not deleted.
    DeregisterFails,
}

impl Default for Ec2 {
    /// An account without machines.
    fn default() -> Self {
        let mut cloud = muster_cloud::ec2::Ec2::default();
        let zones = SUBNETS.into_iter().zip(ZONES).chain([(SECOND_SUBNET, ZONES[0])]);
        cloud.subnets.extend(zones.map(|(subnet, zone)| (subnet.to_owned(), zone.to_owned())));
        Self {
            cloud,
            ids: Ids::in_order(),
            machines: Vec::new(),
            late: Vec::new(),
            live: 0,
            buckets: Buckets::default(),
            shortages: Shortages::default(),
            launch_takes: 0,
            real_buckets: false,
            without_spot: false,
            spot_errs: false,
            forbidden_type: None,
            boots_alone: false,
            image_agent: ImageAgent::default(),
            without_quota: None,
            broken_images: BTreeSet::new(),
            scripted: Vec::new(),
            without_prices: Vec::new(),
            script: Vec::new(),
        }
    }
}

impl Ec2 {
    /// Machines of ours that are not gone.
    #[must_use]
    pub const fn live(&self) -> usize {
        self.live
    }

    /// A machine by number.
    #[must_use]
    pub fn at(&self, number: u32) -> &Machine {
        &self.machines[number as usize]
    }

    /// A machine by number.
    pub fn at_mut(&mut self, number: u32) -> &mut Machine {
        &mut self.machines[number as usize]
    }

    /// EC2's record of a machine: the truth, whatever the API shows.
    #[must_use]
    pub fn instance(&self, number: u32) -> &Instance {
        self.cloud.at(number as usize)
    }

    /// Whether a machine will never run again.
    #[must_use]
    pub fn is_gone(&self, number: u32) -> bool {
        self.instance(number).state.is_ending()
    }

    /// Whether the machine with this id, if there is one, will never run again.
    #[must_use]
    pub fn has_ended(&self, id: &MachineId) -> bool {
        self.number(id).is_some_and(|number| self.is_gone(number))
    }

    /// The machines that are not gone, in the order of their launches.
    pub fn living(&self) -> impl DoubleEndedIterator<Item = &Machine> {
        let all = self.machines.iter().zip(self.cloud.instances());
        all.filter(|(_, instance)| !instance.state.is_ending()).map(|(machine, _)| machine)
    }

    /// The number of a machine.
    #[must_use]
    pub fn number(&self, id: &MachineId) -> Option<u32> {
        Ids::number(id.as_str()).filter(|number| (*number as usize) < self.machines.len())
    }

    /// Takes a scripted answer, if it is the next of its kind.
    fn scripted(&mut self, wanted: Scripted) -> bool {
        let Some(index) = self.script.iter().position(|one| *one == wanted) else { return false };
        self.script.remove(index);
        true
    }
}
