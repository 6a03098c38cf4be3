//! The scheduler: one thread, virtual time, and every await point of a pass is a place where
//! something else may happen first.
//!
//! A task is a Lambda invocation or a machine. It runs until its next call; the call takes a random
//! moment of virtual time, in which any other task may run. No waker is needed: whoever waits has
//! entered its own wake-up in the agenda.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use muster_control::Settings;

use crate::agenda::{Event, Millis, SECOND, TaskId};
use crate::fault::Fault;
use crate::invocations;
use crate::machine;
use crate::scenario::Way;
use crate::world::{Task, World};

/// The world and what never changes in it.
#[derive(Debug)]
pub struct Sim {
    /// Everything that changes.
    pub world: RefCell<World>,
    /// The stack's configuration.
    pub settings: Settings,
}

type Work = Pin<Box<dyn Future<Output = ()>>>;

#[derive(Default)]
struct Place {
    age: u32,
    work: Option<(Task, Work)>,
    /// A function's time limit.
    ends_at: Option<Millis>,
    /// It was stopped, and the calls that it had made are still on their way.
    is_stopped: bool,
}

/// Runs a world.
pub struct Executor {
    sim: Rc<Sim>,
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Executor {
    /// A world at its first moment.
    #[must_use]
    pub fn new(world: World, settings: Settings) -> Self {
        let sim = Rc::new(Sim { world: RefCell::new(world), settings });
        Self { sim, places: Vec::new(), free: Vec::new() }
    }

    /// The world.
    #[must_use]
    pub const fn sim(&self) -> &Rc<Sim> {
        &self.sim
    }

    /// Lets everything happen that is due by `until`, or until an invariant breaks.
    pub fn run(&mut self, until: Millis) {
        while self.step(until) {}
        let mut world = self.sim.world.borrow_mut();
        if world.violation.is_none() {
            world.now = world.now.max(until);
        }
    }

    /// One event. False when nothing is left to happen by then.
    pub fn step(&mut self, until: Millis) -> bool {
        let event = {
            let mut world = self.sim.world.borrow_mut();
            if world.violation.is_some() {
                return false;
            }
            let Some((when, event)) = world.agenda.next(until) else { return false };
            world.now = when;
            world.steps += 1;
            event
        };
        match event {
            Event::Wake(task) => self.poll(task),
            Event::Kill(task) => self.kill(task),
            Event::Start(number) => self.start(number),
            other => self.sim.world.borrow_mut().happen(other),
        }
        true
    }

    fn start(&mut self, number: u32) {
        let started = self.sim.world.borrow_mut().take_pending(number);
        let Some((task, cold)) = started else { return };
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        let id = TaskId { place, age: self.places[place as usize].age };
        let mut ends_at = None;
        let work: Work = match &task {
            Task::Machine(machine) => Box::pin(machine::life(Rc::clone(&self.sim), *machine)),
            Task::Function(call) => {
                let mut world = self.sim.world.borrow_mut();
                let skew = world.skew();
                let limit = world.now + call.time_limit();
                ends_at = Some(limit);
                // Who goes on too late is ended then; one that stalls has to be ended here, for
                // others wait for it.
                if world.may_stall() {
                    world.agenda.at(limit, Event::Kill(id));
                }
                Box::pin(invocations::run(Rc::clone(&self.sim), call.clone(), skew, cold))
            }
        };
        if let Task::Machine(machine) = task {
            self.sim.world.borrow_mut().ec2.at_mut(machine).task = Some(id);
        }
        let place = &mut self.places[place as usize];
        (place.work, place.ends_at) = (Some((task, work)), ends_at);
        self.poll(id);
    }

    fn poll(&mut self, id: TaskId) {
        let place = &mut self.places[id.place as usize];
        if place.age != id.age {
            return;
        }
        if place.is_stopped {
            return self.land(id);
        }
        let Some((_, work)) = &mut place.work else { return };
        let now = self.sim.world.borrow().now;
        if place.ends_at.is_some_and(|limit| now > limit) {
            return self.end(id, true);
        }
        self.sim.world.borrow_mut().current = Some(id);
        let done = work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        self.sim.world.borrow_mut().current = None;
        if done {
            self.end(id, false);
        }
    }

    fn kill(&mut self, id: TaskId) {
        let place = &self.places[id.place as usize];
        if place.age == id.age && !place.is_stopped {
            self.end(id, true);
        }
    }

    /// Dropping the future is all that a crash is: what it had done stays done. What it had sent
    /// may still arrive.
    fn end(&mut self, id: TaskId, killed: bool) {
        let place = &mut self.places[id.place as usize];
        let Some((task, work)) = place.work.take() else { return };
        let mut world = self.sim.world.borrow_mut();
        let is_late = killed
            && matches!(task, Task::Function(_))
            && !place.is_stopped
            && world.strikes(Fault::CallLandsLate);
        if is_late {
            world.ended(&task, true);
            let at = world.now + world.between(50, LATEST_LANDING);
            world.agenda.at(at, Event::Wake(id));
            place.work = Some((task, work));
            (place.is_stopped, place.ends_at) = (true, None);
            return;
        }
        let was_stopped = std::mem::take(&mut place.is_stopped);
        place.age += 1;
        self.free.push(id.place);
        drop(world);
        drop(work);
        if !was_stopped {
            self.sim.world.borrow_mut().ended(&task, killed);
        }
    }

    /// The calls of a stopped function arrive. Nothing comes of their answers.
    fn land(&mut self, id: TaskId) {
        let place = &mut self.places[id.place as usize];
        let Some((task, work)) = &mut place.work else { return };
        {
            let mut world = self.sim.world.borrow_mut();
            let Task::Function(call) = &*task else { return };
            let name = call.name();
            world.say(|| format!("  … a call of {name}, which was stopped, arrives"));
            world.current = Some(id);
            world.is_landing = true;
        }
        let _ = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let mut world = self.sim.world.borrow_mut();
        (world.current, world.is_landing) = (None, false);
        drop(world);
        self.end(id, true);
    }
}

/// How long after its function's end a call may take effect.
pub(crate) const LATEST_LANDING: Millis = 90 * SECOND;

/// Waits for a moment of virtual time.
pub struct Pause<'a> {
    sim: &'a Sim,
    length: Millis,
    crashes: bool,
    until: Option<Millis>,
}

impl<'a> Pause<'a> {
    /// Waits this long.
    #[must_use]
    pub const fn new(sim: &'a Sim, length: Millis) -> Self {
        Self { sim, length, crashes: false, until: None }
    }

    /// The time that a call takes to arrive. The invocation may be stopped instead.
    #[must_use]
    pub const fn call(sim: &'a Sim) -> Self {
        Self { sim, length: -1, crashes: true, until: None }
    }
}

impl Future for Pause<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let mut world = self.sim.world.borrow_mut();
        if let Some(until) = self.until {
            let arrives = world.now >= until || (world.is_landing && self.crashes);
            return if arrives { Poll::Ready(()) } else { Poll::Pending };
        }
        if world.is_landing {
            // Its function is gone: no further call is made.
            return Poll::Pending;
        }
        let Some(task) = world.current else { return Poll::Pending };
        let disturbed = if self.crashes { world.disturb() } else { None };
        let is_stopped = disturbed == Some(Way::Stopped);
        if is_stopped || (self.crashes && world.strikes(Fault::Crash)) {
            world.say(|| "  … and crashes".to_owned());
            let now = world.now;
            world.agenda.at(now, Event::Kill(task));
            drop(world);
            self.until = Some(Millis::MAX);
            return Poll::Pending;
        }
        let length = match (self.length, disturbed) {
            (length @ 0.., _) | (_, Some(Way::HeldUp(length))) => length,
            _ if world.strikes(Fault::Stall) => world.rng.between(20 * SECOND, 150 * SECOND),
            _ => world.latency(),
        };
        let until = world.now + length;
        world.agenda.at(until, Event::Wake(task));
        drop(world);
        self.until = Some(until);
        Poll::Pending
    }
}
