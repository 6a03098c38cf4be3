//! What becomes of machines: EC2 moves them on, something ends them, and events tell of it.

use muster_cloud::ec2::{End, InstanceState, PlaceSpec};
use muster_domain::ids::LaunchId;
use muster_domain::launch::plan::{LAUNCH_TAG, STACK_TAG};
use muster_domain::message::ReapMessage;
use muster_domain::time::Time;

use super::{EVENTS, Ec2, Machine, NOTICE, ZONES};
use crate::agenda::{Arrival, Event, MINUTE, Millis, SECOND, Which};
use crate::fault::Fault;
use crate::queue::Body;
use crate::schedule::STACK;
use crate::world::{Task, World};

/// What EC2 says of a machine whose disk it may not decrypt.
const ABORTED: &str = "Client.InternalError";

impl World {
    /// A machine that no fleet of ours is about: of a launch whose record is lost, or, without
    /// one, somebody else's.
    pub fn make_machine(&mut self, launch: Option<LaunchId>) -> u32 {
        let number = u32::try_from(self.ec2.machines.len()).unwrap_or(u32::MAX);
        let tag = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let tags =
            launch.iter().flat_map(|id| [tag(STACK_TAG, STACK), tag(LAUNCH_TAG, id.as_str())]);
        let state = InstanceState::Pending;
        let spec = PlaceSpec { tags: tags.collect(), state, ..PlaceSpec::default() };
        let Ec2 { cloud, ids, .. } = &mut self.ec2;
        cloud.place(ids, &spec, self.now);
        self.adopt(number, launch);
        number
    }

    /// Takes a new instance of EC2's for a machine. `launch` none: somebody else's.
    pub(super) fn adopt(&mut self, number: u32, launch: Option<LaunchId>) {
        let mut behaviour = self.behaviour();
        let image = &self.ec2.cloud.at_mut(number as usize).image_id;
        behaviour.never_boots |= self.ec2.broken_images.contains(&image.to_string());
        let hidden = if self.strikes(Fault::MachineHidden) {
            let longest = if self.rng.chance(50_000) { 5 * MINUTE } else { 20 * SECOND };
            self.between(SECOND, longest)
        } else {
            0
        };
        if launch.is_some() {
            self.ec2.live += 1;
            self.tally.machines += 1;
        }
        let instance = self.ec2.cloud.at_mut(number as usize);
        instance.visible_from += hidden;
        let is_spot = instance.market == muster_cloud::ec2::Market::Spot;
        let Ok(id) = instance.id.parse() else { unreachable!("EC2 makes machine ids") };
        self.say(|| format!("  EC2 launches {id} for {launch:?} {behaviour:?}"));
        self.draw_machine(number, launch.as_ref());
        self.ec2.machines.push(Machine::new(id, launch, behaviour));
        let runs = self.now + self.between(500, 8_000);
        self.agenda.at(runs, Event::Machine(number, Arrival::Running));
        self.plan_mishaps(number, is_spot);
    }

    /// An outage of a zone: everything in it hangs.
    pub fn hang_machines_in_away_zone(&mut self) {
        for number in 0..u32::try_from(self.ec2.machines.len()).unwrap_or(u32::MAX) {
            let instance = self.ec2.instance(number);
            let is_there = instance.zone == ZONES[0] && !instance.state.is_ending();
            if is_there && self.ec2.at(number).launch.is_some() {
                self.strike(Fault::OutageZone);
                self.machine_arrives(number, Arrival::Hung);
            }
        }
    }

    /// EC2, or somebody else, moves a machine on.
    pub fn machine_arrives(&mut self, number: u32, arrival: Arrival) {
        match arrival {
            Arrival::Running => self.machine_runs(number),
            Arrival::Terminated => self.arrive(number, InstanceState::Terminated),
            Arrival::Stopped => self.arrive(number, InstanceState::Stopped),
            Arrival::Reclaimed => self.end_machine(number, &End::Reclaimed),
            Arrival::Died => self.end_machine(number, &End::HostLost),
            Arrival::Hung if !self.ec2.is_gone(number) => {
                // One that is still being made comes up dead.
                self.ec2.at_mut(number).behaviour.never_boots = true;
                self.say(|| format!("machine {number} hangs"));
                self.power_off(number, "hung");
            }
            Arrival::Halted if self.ec2.instance(number).state == InstanceState::Running => {
                self.power_off(number, "stopped");
                self.pay(number);
                self.ec2.cloud.at_mut(number as usize).stop(self.now);
                self.announce(number);
                let stopped = self.now + self.between(SECOND, 30 * SECOND);
                self.agenda.at(stopped, Event::Machine(number, Arrival::Stopped));
            }
            Arrival::Hung | Arrival::Halted => {}
            Arrival::Forgotten => self.forget_runner(number),
        }
    }

    fn machine_runs(&mut self, number: u32) {
        let is_pending = self.ec2.instance(number).state == InstanceState::Pending;
        if is_pending && self.ec2.at(number).behaviour.aborted {
            self.end_machine(number, &End::LaunchFailed(ABORTED.to_owned()));
        } else if is_pending {
            self.arrive(number, InstanceState::Running);
            if self.ec2.at(number).launch.is_some() {
                self.ec2.at_mut(number).runs_since = Some(self.now);
                self.start(Task::Machine(number), 0);
            }
        }
    }

    fn arrive(&mut self, number: u32, state: InstanceState) {
        if self.ec2.cloud.at_mut(number as usize).arrive(state, self.now) {
            self.announce(number);
        }
    }

    /// The one way out of life.
    pub fn end_machine(&mut self, number: u32, end: &End) {
        if self.ec2.is_gone(number) {
            return;
        }
        if matches!(end, End::Reclaimed | End::HostLost)
            && let Some(job) = self.ec2.at(number).job
        {
            self.github.job_mut(job).interrupted = Some(number);
        }
        self.power_off(number, end.as_str());
        self.pay(number);
        if self.ec2.at(number).launch.is_some() {
            self.ec2.live -= 1;
        }
        self.ec2.cloud.at_mut(number as usize).end(end, self.now);
        self.announce(number);
        if self.ec2.instance(number).state == InstanceState::ShuttingDown {
            let gone = self.now + self.between(SECOND, 40 * SECOND);
            self.agenda.at(gone, Event::Machine(number, Arrival::Terminated));
        }
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

    /// EC2 tells of a machine's state, as far as its events reach the reap queue.
    fn announce(&mut self, number: u32) {
        if self.strikes(Fault::DescribeStale) {
            let until = self.now + self.between(SECOND, 10 * SECOND);
            self.ec2.cloud.at_mut(number as usize).stale_until = until;
        }
        let state = self.ec2.instance(number).state.name();
        let machine = self.ec2.at(number);
        let (id, is_ours) = (machine.id.clone(), machine.launch.is_some());
        self.narrate(|| format!("{id} is {state}"));
        let event = EVENTS.iter().position(|event| *event == state).filter(|_| is_ours);
        let Some(event) = event.and_then(|event| u8::try_from(event).ok()) else { return };
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
            self.agenda.at(self.now + after, Event::StateEvent(number, event, self.now));
        }
    }

    /// EC2 says that it is about to take a machine back, if there still is one.
    pub(crate) fn notice(&mut self, number: u32) {
        if !self.ec2.is_gone(number) {
            self.state_event(number, NOTICE, self.now);
        }
    }

    /// `EventBridge` puts an event of EC2 into the reap queue.
    pub fn state_event(&mut self, number: u32, what: u8, at: Millis) {
        let machine = self.ec2.at(number).id.clone();
        let what = EVENTS[what as usize].to_owned();
        let at = Some(Time::from_millis(at));
        self.enqueue(Which::Reap, Body::Reap(ReapMessage::MachineChanged { machine, what, at }));
    }
}
