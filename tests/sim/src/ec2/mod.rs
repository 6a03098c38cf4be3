//! EC2: machines, fleets and their client tokens, state events, and everything that ends a machine.

mod bucket;
mod launch;
mod port;
mod shortage;
mod terminate;

use std::collections::BTreeMap;

use muster_domain::ec2::Bucket;
use muster_domain::ec2::StateReason;
use muster_domain::ids::{LaunchId, MachineId};
use muster_domain::message::ReapMessage;
use muster_domain::observation::Machine as Shown;

use crate::agenda::{Arrival, Event, HOUR, MINUTE, Millis, SECOND, TaskId, Which};
use crate::fault::Fault;
use crate::queue::Body;
use crate::world::{Task, World};

use self::bucket::Buckets;
use self::launch::Fleet;
pub use self::launch::LateLaunch;
use self::shortage::Shortages;

/// The states of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Power {
    /// Being made.
    Pending,
    /// Runs, as far as EC2 knows.
    Running,
    /// On its way out.
    ShuttingDown,
    /// Gone.
    Terminated,
    /// Being stopped.
    Stopping,
    /// Stopped.
    Stopped,
}

impl Power {
    /// EC2's words for the states whose events reach the reap queue.
    const EVENTS: [&'static str; 5] =
        ["shutting-down", "terminated", "stopping", "stopped", "spot-interruption"];
    const NOTICE: u8 = 4;

    const fn event(self) -> Option<u8> {
        match self {
            Self::Pending | Self::Running => None,
            Self::ShuttingDown => Some(0),
            Self::Terminated => Some(1),
            Self::Stopping => Some(2),
            Self::Stopped => Some(3),
        }
    }

    /// Will never run again.
    #[must_use]
    pub const fn is_gone(self) -> bool {
        matches!(self, Self::ShuttingDown | Self::Terminated)
    }

    /// EC2's word.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        }
    }

    const fn shown(self) -> Shown {
        match self {
            Self::Pending => Shown::Pending,
            Self::Running => Shown::Running,
            Self::ShuttingDown | Self::Terminated => Shown::Gone,
            Self::Stopping | Self::Stopped => Shown::Stopped,
        }
    }
}

/// What ends a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Somebody calls TerminateInstances.
    Terminated,
    /// Its agent ended, or its boot script gave up.
    ShutItselfDown,
    /// EC2 needs the capacity.
    Reclaimed,
    /// Its host is lost.
    Died,
    /// EC2 cannot start what it has accepted: the disk's key may not be used, say.
    Aborted,
}

impl End {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::ShutItselfDown => "shut itself down",
            Self::Reclaimed => "reclaimed by spot",
            Self::Died => "died",
            Self::Aborted => "aborted while pending",
        }
    }

    /// As EC2 says it.
    /// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
    fn reason(self) -> StateReason {
        let (code, message) = match self {
            Self::Terminated => ("Client.UserInitiatedShutdown", "User initiated shutdown"),
            Self::ShutItselfDown => {
                ("Client.InstanceInitiatedShutdown", "Instance initiated shutdown")
            }
            Self::Reclaimed => ("Server.SpotInstanceTermination", "Spot instance termination"),
            Self::Died => ("Server.InternalError", "Internal error"),
            Self::Aborted => ("Client.InternalError", "Client error on launch"),
        };
        StateReason { code: code.to_owned(), message: message.to_owned() }
    }
}

/// How a machine misbehaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// Nothing ever runs.
    pub never_boots: bool,
    /// Added to the usual boot.
    pub slower_by: Millis,
    /// The boot script fails.
    pub boot_fails: bool,
    /// The agent comes up, and ends without a job.
    pub gives_up: bool,
    /// The agent's hooks do not run.
    pub no_hooks: bool,
    /// The boot script reports hooks that do not run.
    pub claims_hooks: bool,
    /// `shutdown` does nothing.
    pub never_shuts_down: bool,
    /// EC2 ends it while it is pending.
    pub aborted: bool,
    /// Every terminate fails until then.
    pub blocked_until: Millis,
}

impl Behaviour {
    /// What the boot script reports of the hooks.
    #[must_use]
    pub const fn reports_hooks(&self) -> bool {
        !self.no_hooks || self.claims_hooks
    }
}

/// One machine.
#[derive(Debug)]
pub struct Machine {
    /// EC2's id.
    pub id: MachineId,
    /// The tag `muster:launch`; none when it is not ours.
    pub launch: Option<LaunchId>,
    /// Where it is.
    pub power: Power,
    /// Where it was before.
    pub before: Power,
    /// Since when.
    pub since: Millis,
    /// What ended it.
    pub end: Option<End>,
    /// When it was launched.
    pub launched_at: Millis,
    /// EC2 denies knowing it before.
    pub visible_from: Millis,
    /// EC2 denies knowing it until then, if it ever did so later on.
    pub denied_until: Option<Millis>,
    /// Where it stands.
    pub zone: u8,
    /// Bought on the spot market.
    pub is_spot: bool,
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
}

/// All of EC2.
#[derive(Debug, Default)]
pub struct Ec2 {
    /// Every machine there ever was.
    pub machines: Vec<Machine>,
    fleets: BTreeMap<LaunchId, Fleet>,
    /// Launches that take effect after the caller gave up.
    pub late: Vec<LateLaunch>,
    live: usize,
    buckets: Buckets,
    /// When it last launched anything for us.
    pub accepted_at: Millis,
    shortages: Shortages,
    /// How much longer than other calls `CreateFleet` takes.
    pub launch_takes: Millis,
    /// Its token buckets are those that AWS documents, and nobody else draws from them.
    pub real_buckets: bool,
    /// The account has no service-linked role for Spot, and we may not make it: Spot is refused in
    /// every place.
    pub without_spot: bool,
    /// A scenario's machines boot without being told to.
    pub boots_alone: bool,
    /// A scenario's quota that is used up, on both markets.
    pub without_quota: Option<(Option<muster_domain::ec2::Market>, Bucket)>,
    /// Scripted behaviour of the next machines.
    pub scripted: Vec<Behaviour>,
    /// Scripted answers of the next calls.
    pub script: Vec<Scripted>,
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
}

/// Where machine numbers start in their ids.
const FIRST: u64 = 0x0a00_0000_0000;

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

    /// The number of a machine.
    #[must_use]
    pub fn number(&self, id: &MachineId) -> Option<u32> {
        let hex = id.as_str().strip_prefix("i-")?;
        let number = u64::from_str_radix(hex, 16).ok()?.checked_sub(FIRST)?;
        u32::try_from(number).ok().filter(|number| (*number as usize) < self.machines.len())
    }

    /// Takes a scripted answer, if it is the next of its kind.
    fn scripted(&mut self, wanted: Scripted) -> bool {
        let Some(index) = self.script.iter().position(|one| *one == wanted) else { return false };
        self.script.remove(index);
        true
    }
}

impl World {
    /// Makes a machine. `launch` none: somebody else's.
    pub fn make_machine(&mut self, launch: Option<LaunchId>, is_spot: bool) -> u32 {
        let number = u32::try_from(self.ec2.machines.len()).unwrap_or(u32::MAX);
        let id = format!("i-{:017x}", FIRST + u64::from(number)).parse();
        let Ok(id) = id else { unreachable!("hexadecimal digits make a machine id") };
        let behaviour = self.behaviour();
        let zone = u8::from(number % 2 == 1);
        let zone = if self.is_zone_away(zone) { 1 } else { zone };
        let visible_from = self.now
            + if self.strikes(Fault::MachineHidden) {
                let longest = if self.rng.chance(50_000) { 5 * MINUTE } else { 20 * SECOND };
                self.between(SECOND, longest)
            } else {
                0
            };
        if launch.is_some() {
            self.ec2.live += 1;
            self.ec2.accepted_at = self.now;
            self.tally.machines += 1;
        }
        self.say(|| format!("  EC2 launches {id} for {launch:?} {behaviour:?}"));
        self.ec2.machines.push(Machine {
            id,
            launch,
            power: Power::Pending,
            before: Power::Pending,
            since: self.now,
            end: None,
            launched_at: self.now,
            visible_from,
            denied_until: None,
            zone,
            is_spot,
            behaviour,
            task: None,
            told: 0,
            job: None,
            works_on: None,
            runner: None,
        });
        let runs = self.now + self.between(500, 8_000);
        self.agenda.at(runs, Event::Machine(number, Arrival::Running));
        self.plan_mishaps(number);
        number
    }

    fn behaviour(&mut self) -> Behaviour {
        if !self.ec2.scripted.is_empty() {
            return self.ec2.scripted.remove(0);
        }
        let claims_hooks = self.strikes(Fault::HooksLost);
        Behaviour {
            never_boots: self.strikes(Fault::NeverBoots),
            slower_by: if self.strikes(Fault::BootSlow) {
                self.between(MINUTE, 12 * MINUTE)
            } else {
                0
            },
            boot_fails: self.strikes(Fault::BootFails),
            gives_up: self.strikes(Fault::AgentGivesUp),
            no_hooks: self.strikes(Fault::HooksMissing) || claims_hooks,
            claims_hooks,
            never_shuts_down: self.strikes(Fault::NeverShutsDown),
            aborted: self.strikes(Fault::LaunchAborted) || self.is_away(Fault::OutageBoots),
            blocked_until: if self.strikes(Fault::TerminateBlocked) {
                // Somebody may have forgotten to take the protection off.
                let longest = if self.rng.chance(200_000) { 14 * HOUR } else { HOUR };
                (self.now + self.between(10 * MINUTE, longest)).min(self.faults_end)
            } else {
                0
            },
        }
    }

    /// What will end the machine before its time.
    fn plan_mishaps(&mut self, number: u32) {
        let is_spot = self.ec2.at(number).is_spot;
        if is_spot && self.strikes(Fault::SpotReclaim) {
            let at = self.mishap(number, Arrival::Reclaimed);
            // The notice comes two minutes ahead.
            let notice = (at - 2 * MINUTE).max(self.now);
            self.agenda.at(notice, Event::StateEvent(number, Power::NOTICE));
        } else if is_spot && self.strikes(Fault::SpotWithoutNotice) {
            self.mishap(number, Arrival::Reclaimed);
        }
        for (fault, arrival) in [
            (Fault::MachineDies, Arrival::Died),
            (Fault::MachineHangs, Arrival::Hung),
            (Fault::MachineStopped, Arrival::Halted),
            (Fault::RunnerForgotten, Arrival::Forgotten),
        ] {
            if self.strikes(fault) {
                self.mishap(number, arrival);
            }
        }
    }

    fn mishap(&mut self, number: u32, arrival: Arrival) -> Millis {
        let at = self.now + self.between(5 * SECOND, 30 * MINUTE);
        self.agenda.at(at, Event::Machine(number, arrival));
        at
    }

    /// An outage of a zone: everything in it hangs.
    pub fn hang_machines_in(&mut self, zone: u8) {
        for number in 0..u32::try_from(self.ec2.machines.len()).unwrap_or(u32::MAX) {
            let machine = self.ec2.at(number);
            if machine.zone == zone && machine.launch.is_some() && !machine.power.is_gone() {
                self.strike(Fault::OutageZone);
                self.machine_arrives(number, Arrival::Hung);
            }
        }
    }

    /// EC2, or somebody else, moves a machine on.
    pub fn machine_arrives(&mut self, number: u32, arrival: Arrival) {
        let power = self.ec2.at(number).power;
        match (arrival, power) {
            (Arrival::Running, Power::Pending) if self.ec2.at(number).behaviour.aborted => {
                self.end_machine(number, End::Aborted);
            }
            (Arrival::Running, Power::Pending) => {
                self.set_power(number, Power::Running);
                if self.ec2.at(number).launch.is_some() {
                    self.start(Task::Machine(number), 0);
                }
            }
            (Arrival::Terminated, Power::ShuttingDown) => {
                self.set_power(number, Power::Terminated);
            }
            (Arrival::Stopped, Power::Stopping) => self.set_power(number, Power::Stopped),
            (Arrival::Reclaimed, power) if !power.is_gone() => {
                self.end_machine(number, End::Reclaimed);
            }
            (Arrival::Died, power) if !power.is_gone() => {
                self.end_machine(number, End::Died);
            }
            (Arrival::Hung, power) if !power.is_gone() => {
                // One that is still being made comes up dead.
                self.ec2.at_mut(number).behaviour.never_boots = true;
                self.say(|| format!("machine {number} hangs"));
                self.power_off(number, "hung");
            }
            (Arrival::Halted, Power::Running) => {
                self.power_off(number, "stopped");
                self.set_power(number, Power::Stopping);
                let stopped = self.now + self.between(SECOND, 30 * SECOND);
                self.agenda.at(stopped, Event::Machine(number, Arrival::Stopped));
            }
            (Arrival::Forgotten, _) => self.forget_runner(number),
            _ => {}
        }
    }

    /// The one way out of life.
    pub fn end_machine(&mut self, number: u32, end: End) {
        if self.ec2.at(number).power.is_gone() {
            return;
        }
        self.power_off(number, end.as_str());
        self.ec2.at_mut(number).end = Some(end);
        if self.ec2.at(number).launch.is_some() {
            self.ec2.live -= 1;
        }
        self.set_power(number, Power::ShuttingDown);
        let gone = self.now + self.between(SECOND, 40 * SECOND);
        self.agenda.at(gone, Event::Machine(number, Arrival::Terminated));
    }

    /// Whatever runs on the machine stops at once, in the middle of whatever it does.
    fn power_off(&mut self, number: u32, why: &str) {
        let id = self.ec2.at(number).id.clone();
        self.narrate(|| format!("{id} loses its power: {why}"));
        if let Some(task) = self.ec2.at(number).task {
            self.agenda.at(self.now, Event::Kill(task));
        }
        self.runner_lost(number, why);
    }

    fn set_power(&mut self, number: u32, power: Power) {
        let now = self.now;
        let machine = self.ec2.at_mut(number);
        machine.before = machine.power;
        machine.power = power;
        machine.since = now;
        let ours = machine.launch.is_some();
        let id = self.ec2.at(number).id.clone();
        self.narrate(|| format!("{id} is {}", power.as_str()));
        let Some(event) = power.event().filter(|_| ours) else { return };
        if self.strikes(Fault::StateEventLost) {
            return;
        }
        let copies = if self.strikes(Fault::StateEventDoubled) { 2 } else { 1 };
        for _ in 0..copies {
            let after = if self.strikes(Fault::StateEventLate) {
                self.between(10 * SECOND, 20 * MINUTE)
            } else {
                self.between(100, 3_000)
            };
            self.agenda.at(self.now + after, Event::StateEvent(number, event));
        }
    }

    /// `EventBridge` puts an event of EC2 into the reap queue.
    pub fn state_event(&mut self, number: u32, what: u8) {
        let machine = self.ec2.at(number).id.clone();
        let what = Power::EVENTS[what as usize].to_owned();
        self.enqueue(Which::Reap, Body::Reap(ReapMessage::MachineChanged { machine, what }));
    }
}
