//! The scheduler: one thread, virtual time, and every await point of a pass is a place where
//! something else may happen first.
//!
//! A task is a Lambda invocation or a machine. It runs until its next call; the call takes a random
//! moment of virtual time, in which any other task may run. Whoever waits has entered its own
//! wake-up in the agenda, and has left its waker here.

use std::borrow::Cow;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

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
    /// The stack's configuration, as it was deployed first.
    pub settings: Settings,
}

impl Sim {
    /// The stack's configuration as it is deployed now.
    #[must_use]
    pub fn deployed(&self) -> Cow<'_, Settings> {
        let deployments = self.world.borrow().deployments;
        if deployments == 0 {
            return Cow::Borrowed(&self.settings);
        }
        let mut settings = self.settings.clone();
        for pool in &mut settings.pools {
            pool.launch_template_version = (deployments + 1).to_string().into();
        }
        Cow::Owned(settings)
    }
}

/// The wakers of all futures that wait, by the place of their task and in the order in which they
/// began to. All of a task's are woken when something happens to it: each looks for itself whether
/// that is what it waits for. What is asked first is then a matter of the agenda alone.
#[derive(Debug, Default)]
pub struct Wakers(Vec<Vec<Waker>>);

impl Wakers {
    /// A future of this task waits.
    pub(crate) fn add(&mut self, task: TaskId, waker: &Waker) {
        let place = task.place as usize;
        if place >= self.0.len() {
            self.0.resize_with(place + 1, Vec::new);
        }
        self.0[place].push(waker.clone());
    }

    /// Wakes all futures of a task.
    pub fn wake(&mut self, task: TaskId) {
        let wakers = self.0.get_mut(task.place as usize);
        wakers.into_iter().flat_map(|wakers| wakers.drain(..)).for_each(Waker::wake);
    }

    fn forget(&mut self, task: TaskId) {
        if let Some(wakers) = self.0.get_mut(task.place as usize) {
            wakers.clear();
        }
    }
}

/// Something that runs, and is asked for more when one of its wakers was woken.
pub struct Work<'a, R = ()> {
    future: Pin<Box<dyn Future<Output = R> + 'a>>,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'a, R> Work<'a, R> {
    /// It begins when it is polled first.
    pub fn new(future: impl Future<Output = R> + 'a) -> Self {
        Self { future: Box::pin(future), woken: Arc::new(Woken(true.into())) }
    }

    /// Goes on until it waits. Unless it was woken it goes on waiting.
    pub fn poll(&mut self) -> Poll<R> {
        let waker = Waker::from(Arc::clone(&self.woken));
        while self.woken.0.swap(false, Ordering::Relaxed) {
            if let Poll::Ready(done) = self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Poll::Ready(done);
            }
        }
        Poll::Pending
    }
}

#[derive(Default)]
struct Place {
    age: u32,
    work: Option<(Task, Work<'static>)>,
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
        let work = match &task {
            Task::Machine(machine) => Work::new(machine::life(Rc::clone(&self.sim), *machine)),
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
                Work::new(invocations::run(Rc::clone(&self.sim), call.clone(), skew, cold))
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
        {
            let mut world = self.sim.world.borrow_mut();
            world.current = Some(id);
            world.wakers.wake(id);
        }
        let done = work.poll().is_ready();
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
        world.wakers.forget(id);
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
            world.wakers.wake(id);
        }
        let _ = work.poll();
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

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut world = self.sim.world.borrow_mut();
        if self.until.is_some_and(|until| world.now >= until || world.is_landing && self.crashes) {
            return Poll::Ready(());
        }
        let Some(task) = world.current else { return Poll::Pending };
        world.wakers.add(task, context.waker());
        // A function that is gone makes no further call.
        if self.until.is_some() || world.is_landing {
            return Poll::Pending;
        }
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
