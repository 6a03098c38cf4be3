//! EC2 and the machines behind it.

use std::collections::BTreeMap;

use super::World;
use crate::{
    Happening, Millis,
    agenda::{Clockwork, Due},
    ec2::{
        CreateImageRequest, DescribeRequest, Ec2Error, End, FleetAnswer, FleetRequest, Instance,
        InstancePage, InstanceState, Market, PlaceSpec, ShutdownBehavior, SnapshotDeletion,
        StateChange,
    },
    machines::{Death, Power},
};

impl World {
    /// `CreateFleet`.
    pub fn create_fleet(
        &mut self,
        request: &FleetRequest,
        now: Millis,
    ) -> Result<FleetAnswer, Ec2Error> {
        let answer = self.ec2.create_fleet(&mut self.clockwork.ids, request, now)?;
        if answer.replayed {
            return Ok(answer);
        }
        for id in answer.instances.iter().flat_map(|group| &group.ids) {
            let stack = self.ec2.instance(id).and_then(Instance::stack).map(str::to_owned);
            let machine = self.machines.launch(id, stack.as_deref());
            if let Some(after) = machine.behaviour.dies_after_ms {
                self.clockwork.at(now + after, Due::Death(id.clone()));
            }
            if let Some(instance) = self.ec2.instance_mut(id) {
                instance.visible_from = now + self.clockwork.timings.visible_after_ms;
            }
            let runs = now + self.clockwork.timings.pending_ms;
            self.clockwork.at(runs, Due::Instance(id.clone(), InstanceState::Running));
            self.announce(id, InstanceState::Pending, now);
        }
        Ok(answer)
    }

    /// `DescribeInstances`.
    pub fn describe_instances(
        &self,
        request: &DescribeRequest,
        now: Millis,
    ) -> Result<InstancePage<'_>, Ec2Error> {
        let kept = self.clockwork.timings.terminated_visible_ms;
        self.ec2.describe_instances(request, now, kept)
    }

    /// `GetConsoleOutput`.
    pub fn console_output(&self, id: &str, latest: bool, now: Millis) -> Result<&str, Ec2Error> {
        let kept = self.clockwork.timings.terminated_visible_ms;
        self.ec2.console_output(id, latest, now, kept)
    }

    /// A machine writes on its console.
    pub fn print(&mut self, id: &str, text: &str) -> Result<(), String> {
        let instance = self.ec2.instance_mut(id).ok_or("no such instance")?;
        instance.console.push_str(text);
        Ok(())
    }

    /// `TerminateInstances`.
    pub fn terminate_instances(
        &mut self,
        ids: &[String],
        now: Millis,
    ) -> Result<Vec<StateChange>, Ec2Error> {
        let kept = self.clockwork.timings.terminated_visible_ms;
        let (changes, refusal) = self.ec2.judge_termination(ids, now, kept);
        for change in &changes {
            self.end(&change.id, &End::Terminated, now);
        }
        refusal.map_or(Ok(changes), Err)
    }

    /// `CreateImage`.
    pub fn create_image(
        &mut self,
        request: &CreateImageRequest,
        now: Millis,
    ) -> Result<String, Ec2Error> {
        let Clockwork { ids, timings, .. } = &mut self.clockwork;
        let (kept, pending) = (timings.terminated_visible_ms, timings.image_pending_ms);
        let id = self.ec2.create_image(ids, request, now, kept, pending)?;
        if let Some(image) = self.ec2.image_mut(&id) {
            image.visible_from = now + timings.visible_after_ms;
        }
        Ok(id)
    }

    /// `DeregisterImage`.
    pub fn deregister_image(
        &mut self,
        id: &str,
        deletes_snapshots: bool,
        now: Millis,
    ) -> Result<Vec<SnapshotDeletion>, Ec2Error> {
        self.ec2.deregister_image(id, deletes_snapshots, now)
    }

    /// `CreateTags`.
    pub fn create_tags(
        &mut self,
        ids: &[String],
        tags: &BTreeMap<String, String>,
        now: Millis,
    ) -> Result<(), Ec2Error> {
        let kept = self.clockwork.timings.terminated_visible_ms;
        self.ec2.create_tags(ids, tags, now, kept)
    }

    /// Puts an instance into the world that was not launched through the API.
    pub fn place_instance(&mut self, spec: &PlaceSpec, now: Millis) -> String {
        let id = self.ec2.place(&mut self.clockwork.ids, spec, now);
        let stack = self.ec2.instance(&id).and_then(Instance::stack).map(str::to_owned);
        self.machines.launch(&id, stack.as_deref());
        if spec.state == InstanceState::Running && !spec.user_data.is_empty() {
            self.clockwork.at(now, Due::Boot(id.clone()));
        }
        id
    }

    /// EC2 announces that it takes a spot instance back, and does so after the notice.
    pub fn interrupt_spot(&mut self, id: &str, now: Millis) -> Result<(), String> {
        let instance = self.ec2.instance(id).ok_or("no such instance")?;
        if instance.market != Market::Spot || instance.state.is_ending() {
            return Err("not a live spot instance".to_owned());
        }
        let stack = instance.stack().map(str::to_owned);
        let reclaim = now + self.clockwork.timings.spot_notice_ms;
        self.clockwork.at(reclaim, Due::Reclaim(id.to_owned()));
        if let Some(instance) = self.ec2.instance_mut(id) {
            instance.reclaim_at = Some(reclaim);
        }
        self.clockwork.happened.push(Happening::SpotWarning {
            stack,
            instance: id.to_owned(),
            at: now,
        });
        Ok(())
    }

    /// Changes what only the console can: termination protection.
    pub fn protect(&mut self, id: &str, protected: bool) -> Result<(), String> {
        let instance = self.ec2.instance_mut(id).ok_or("no such instance")?;
        instance.protected = protected;
        Ok(())
    }

    /// Somebody stops an instance (never Muster).
    pub fn stop_instance(&mut self, id: &str, now: Millis) -> Result<(), String> {
        let instance = self.ec2.instance(id).ok_or("no such instance")?;
        if !instance.state.is_up() {
            return Err(format!("the instance is {}", instance.state.name()));
        }
        self.stop(id, "stopped", now);
        Ok(())
    }

    pub(super) fn arrive_at(&mut self, id: &str, state: InstanceState, at: Millis) {
        let Some(behaviour) = self.machines.get(id).map(|one| one.behaviour.clone()) else {
            return;
        };
        if state == InstanceState::Terminated && behaviour.stuck_shutting_down {
            return;
        }
        let Some(instance) = self.ec2.instance_mut(id) else { return };
        if let (InstanceState::Pending, Some(code)) = (instance.state, behaviour.launch_fails) {
            self.end(id, &End::LaunchFailed(code), at);
            return;
        }
        if !instance.arrive(state, at) {
            return;
        }
        self.announce(id, state, at);
        if state == InstanceState::Running && !behaviour.never_boots {
            let boots = at + self.clockwork.timings.boot_ms + behaviour.boot_delay_ms;
            self.clockwork.at(boots, Due::Boot(id.to_owned()));
        }
    }

    /// The one way out of life: shutting down now, terminated later, the power gone at once.
    pub(super) fn end(&mut self, id: &str, end: &End, now: Millis) {
        let Some(instance) = self.ec2.instance_mut(id) else { return };
        if !instance.end(end, now) {
            return;
        }
        let state = instance.state;
        self.lose_power(id, end.as_str(), now);
        self.announce(id, state, now);
        if state == InstanceState::ShuttingDown {
            let gone = now + self.clockwork.timings.shutting_down_ms;
            self.clockwork.at(gone, Due::Instance(id.to_owned(), InstanceState::Terminated));
        }
    }

    fn stop(&mut self, id: &str, cause: &str, now: Millis) {
        if !self.ec2.instance_mut(id).is_some_and(|one| one.stop(now)) {
            return;
        }
        self.lose_power(id, cause, now);
        self.announce(id, InstanceState::Stopping, now);
        let stopped = now + self.clockwork.timings.stopping_ms;
        self.clockwork.at(stopped, Due::Instance(id.to_owned(), InstanceState::Stopped));
    }

    fn announce(&mut self, id: &str, state: InstanceState, at: Millis) {
        let stack = self.ec2.instance(id).and_then(Instance::stack).map(str::to_owned);
        let instance = id.to_owned();
        self.clockwork.happened.push(Happening::StateChange { stack, instance, state, at });
    }
}

impl World {
    /// The operating system of a machine shuts itself down.
    pub fn machine_shut_down(&mut self, id: &str, now: Millis) {
        let Some(instance) = self.ec2.instance(id).filter(|one| one.state.is_up()) else { return };
        match instance.on_shutdown {
            ShutdownBehavior::Stop => self.stop(id, End::ShutItselfDown.as_str(), now),
            ShutdownBehavior::Terminate => self.end(id, &End::ShutItselfDown, now),
        }
    }

    /// A machine dies now, as its script says or a test wants it.
    pub fn kill_machine(&mut self, id: &str, death: Death, now: Millis) {
        match death {
            Death::Hangs => self.lose_power(id, "hung", now),
            Death::Terminated => self.end(id, &End::HostLost, now),
            Death::Stopped => self.stop(id, "halted", now),
        }
    }

    pub(super) fn die(&mut self, id: &str, at: Millis) {
        let alive = self.machines.get(id).filter(|machine| machine.power != Power::Off);
        if let Some(death) = alive.map(|machine| machine.behaviour.death) {
            self.kill_machine(id, death, at);
        }
    }

    pub(super) fn power_on(&mut self, id: &str, at: Millis) {
        let Some(machine) = self.machines.get_mut(id) else { return };
        if machine.power == Power::Waiting {
            machine.power = Power::On;
            machine.powered_on_at = Some(at);
            self.clockwork.happened.push(Happening::PowerOn { instance: id.to_owned() });
        }
    }

    fn lose_power(&mut self, id: &str, cause: &str, now: Millis) {
        let Some(machine) = self.machines.get_mut(id) else { return };
        if machine.power == Power::Off {
            return;
        }
        machine.power = Power::Off;
        machine.powered_off_at = Some(now);
        machine.cause = Some(cause.to_owned());
        self.clockwork.happened.push(Happening::PowerOff { instance: id.to_owned() });
        self.agents_fall_silent(id, cause, now);
    }
}
