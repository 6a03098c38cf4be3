//! A machine's life: boot script, agent, hooks, shutdown. It ends wherever it is when the power
//! goes.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use muster_control::runner_api::MachineReport;
use muster_domain::agent::{AgentOffer, AgentReport, AgentVersion, TOO_OLD};
use muster_domain::ec2::Arch;
use muster_domain::ids::AppName;
use muster_domain::instance::{BootMethod, StartReport, StopCause};

use crate::agenda::{Event, HOUR, MINUTE, Millis, SECOND};
use crate::ec2::{End, ImageAgent};
use crate::executor::{Pause, Sim};
use crate::fault::Fault;
use crate::invocations::{ApiCall, Ask, Call, Reply};
use crate::world::{Task, World};

/// How long the boot script waits for its configuration.
const PATIENCE: Millis = 30 * SECOND;
/// How long a hook, or the boot script, waits until a report is taken.
const REPORT_PATIENCE: Millis = 10 * SECOND;
/// How long the boot script goes on asking for a configuration. It does not wait for an answer that
/// comes later.
const REGISTER_LIMIT: Millis = 8 * MINUTE;
/// How long a machine whose agent has ended goes on asking whether it is to stay.
const ASK_LIMIT: Millis = 90 * SECOND;
/// How long a job's start goes on asking whether it may.
const START_LIMIT: Millis = 10 * MINUTE;
/// EC2 announces that it takes a machine back this long before it does.
const NOTICE: Millis = 2 * MINUTE;
/// How often the supervisor asks for such a notice.
const POLL: Millis = 5 * SECOND;
/// How long before EC2's deadline it stops an agent with a job.
const STOP_BEFORE: Millis = 40 * SECOND;
/// From then on until GitHub knows: the agent ends the job's step first.
const STOP_TAKES: Millis = 5 * SECOND;
/// How long the machine of a stopped job waits for its end by EC2, which then says why it ended
/// (`main` in `infra/machine/machine.py`).
const WAITS_FOR_EC2: Millis = 110 * SECOND;
/// How long a builder waits for its end, at most: its lifetime.
const BUILDER_WAITS: Millis = 6 * HOUR;
/// How often `infra/machine/machine.py` sends each other report.
const fn tries(report: &MachineReport) -> u32 {
    match report {
        MachineReport::JobCompleted { .. } | MachineReport::Interrupted { .. } => 2,
        MachineReport::RunnerStarted { .. } => 3,
        MachineReport::JobStarted { .. } => u32::MAX,
        MachineReport::Exited { .. } | MachineReport::BootFailed { .. } => 5,
        MachineReport::Baked { .. } => 20,
    }
}

impl World {
    /// Lets a machine look whether what it waits for is there.
    pub fn wake_machine(&mut self, machine: u32) {
        if let Some(task) = self.ec2.at(machine).task {
            self.agenda.at(self.now, Event::Wake(task));
        }
    }

    /// EC2 is going to take a machine back at that time, and will announce it.
    pub fn announce_reclaim(&mut self, machine: u32, at: Millis) {
        let known = &mut self.ec2.at_mut(machine).reclaimed_at;
        *known = Some(known.map_or(at, |known| known.min(at)));
        self.plan_wakes(machine);
    }

    /// Lets a machine look when its supervisor sees EC2's notice, and when it stops an agent with a
    /// job.
    fn plan_wakes(&mut self, machine: u32) {
        let times = [self.notice_seen_at(machine), self.stops_at(machine)];
        let Some(task) = self.ec2.at(machine).task else { return };
        for at in times.into_iter().flatten().filter(|at| *at >= self.now) {
            self.agenda.at(at, Event::Wake(task));
        }
    }

    fn notice_seen_at(&self, machine: u32) -> Option<Millis> {
        self.ec2.at(machine).reclaimed_at.map(|at| at - NOTICE + POLL)
    }

    /// Without hooks the supervisor knows of no job.
    fn stops_at(&self, machine: u32) -> Option<Millis> {
        let here = self.ec2.at(machine);
        let seen = self.notice_seen_at(machine)?;
        let at = here.reclaimed_at? - STOP_BEFORE;
        Some(if here.behaviour.no_hooks { seen } else { at.max(seen) })
    }

    fn sees_notice(&self, machine: u32) -> bool {
        self.notice_seen_at(machine).is_some_and(|at| at <= self.now)
    }

    fn stops_agent(&self, machine: u32) -> bool {
        self.stops_at(machine).is_some_and(|at| at <= self.now)
    }
}

/// From power on to power off.
pub async fn life(sim: Rc<Sim>, machine: u32) {
    let script = Script { sim, machine };
    if script.boots().await {
        script.serve().await;
        script.shut_down().await;
    }
}

struct Script {
    sim: Rc<Sim>,
    machine: u32,
}

/// What an agent waits for.
enum Work {
    Job(u32),
    Deregistered,
    /// EC2 takes the machine back: the supervisor stops an agent without a job.
    Interrupted,
}

/// What a machine is handed for its first request.
enum Handed {
    Runner(String, u64, Option<AgentOffer>),
    Builder(BootMethod, Option<AgentOffer>),
}

/// How a job's steps end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Steps {
    /// With this conclusion.
    Over(&'static str),
    /// The supervisor stops the agent, because EC2 takes the machine back.
    Stopped,
}

/// What a job-started hook does. To the agent it is a step like others: when it fails, every later
/// step's condition is asked, and one with `if: always()` runs; none does when the agent shuts down
/// (actions/runner, `StepsRunner.cs`).
enum Hook {
    Passes,
    #[expect(dead_code, reason = "what the hook must not do; only a planted bug does it")]
    Fails,
    EndsTheAgent,
}

impl Script {
    /// False when nothing ever runs.
    async fn boots(&self) -> bool {
        let (behaviour, usual, by_hand) = {
            let mut world = self.sim.world.borrow_mut();
            let usual = match world.boot_takes(self.machine) {
                Some(takes) => takes,
                None => world.between(15 * SECOND, 70 * SECOND),
            };
            let by_hand = world.cloud_config.by_hand && !world.ec2.boots_alone;
            (world.ec2.at(self.machine).behaviour, usual, by_hand)
        };
        if behaviour.never_boots {
            return false;
        }
        if by_hand {
            self.told(1).await;
        } else {
            self.pause(usual + behaviour.slower_by).await;
        }
        true
    }

    async fn serve(&self) {
        if self.behaviour().boot_fails {
            self.report(MachineReport::BootFailed { log: "simulated".to_owned() }).await;
            return;
        }
        let asked = self.now();
        let (name, runner, offer) = match self.register().await {
            Some(Handed::Runner(name, runner, offer)) => (name, runner, offer),
            Some(Handed::Builder(boot, agent)) => return self.build(boot, agent.as_ref()).await,
            None => return,
        };
        let listens = self.sim.world.borrow().listens_at(self.machine, asked);
        if let Some(at) = listens {
            self.pause((at - self.now()).max(0)).await;
        }
        let refused = self.refused_agent(offer);
        // The agent runs before its start is reported, and whatever becomes of the report.
        let connected = refused.is_none() && {
            let mut world = self.sim.world.borrow_mut();
            world.connect(self.machine, runner)
        };
        let started = MachineReport::RunnerStarted { runner: name.clone() };
        self.report(started).await;
        self.sim.world.borrow_mut().plan_wakes(self.machine);
        let stopped = if connected { self.work(&name, runner).await } else { None };
        if refused.is_some() {
            self.pause(2 * SECOND).await;
        }
        self.leave(&name, refused.unwrap_or(0), stopped).await;
        if stopped.is_some() && self.sim.world.borrow().ec2.at(self.machine).has_worked {
            self.pause(WAITS_FOR_EC2).await;
        }
    }

    /// What it says of its image's agent.
    fn agent_report(&self) -> Option<AgentReport> {
        let version = match self.sim.world.borrow().ec2.image_agent {
            ImageAgent::Untold => return None,
            ImageAgent::Missing => None,
            ImageAgent::Has(version) => Some(version),
        };
        Some(AgentReport { arch: Arch::X64, version })
    }

    /// The exit code of the agent that it starts, where GitHub calls that too old. Those before
    /// 2.333.0 do not tell.
    fn refused_agent(&self, offer: Option<AgentOffer>) -> Option<i32> {
        let own = self.agent_report()?.version;
        let mut world = self.sim.world.borrow_mut();
        let version = match offer {
            None => own,
            Some(AgentOffer::Download(download)) => Some(download.version),
            Some(AgentOffer::Newest) => world.listed_agents().first().map(|one| one.version),
        }?;
        let id = world.ec2.at(self.machine).id.clone();
        if own != Some(version) {
            world.narrate(|| format!("{id} takes agent {version}"));
        }
        if world.github.truth.takes_agent(&version.to_string()) {
            return None;
        }
        world.narrate(|| format!("GitHub calls the agent {version} of {id} too old"));
        Some(if version >= AgentVersion::new(2, 333, 0) { TOO_OLD } else { 0 })
    }

    /// Tells the end, and stays where Muster says so. Whatever the listener ended with: run.sh has
    /// an exit code of its own for a few of its ends alone.
    async fn leave(&self, name: &str, code: i32, stopped_for: Option<StopCause>) {
        let until = self.now() + ASK_LIMIT;
        loop {
            let runner = name.to_owned();
            match self.report(MachineReport::Exited { runner, code, stopped_for, used: None }).await
            {
                Reply::AskAgain(after) if self.now() < until => {
                    self.pause(i64::from(after.0) * SECOND).await;
                }
                Reply::Stay(time) => return self.pause(i64::from(time.0) * SECOND).await,
                _ => return,
            }
        }
    }

    /// Asks for a configuration until there is one.
    async fn register(&self) -> Option<Handed> {
        let until = self.now() + REGISTER_LIMIT;
        let mut attempt = 0;
        while self.now() < until {
            let wait = match self.ask(Ask::Configuration(self.agent_report())).await {
                Some(Reply::Configuration(name, runner, agent)) => {
                    return Some(Handed::Runner(name, runner, agent));
                }
                Some(Reply::Build(boot, agent)) => return Some(Handed::Builder(boot, agent)),
                // Unwanted: it goes without another word.
                Some(Reply::Refused(_)) => return None,
                Some(Reply::Later(after)) => i64::from(after.0) * SECOND,
                Some(Reply::Broken | Reply::Noted | Reply::AskAgain(_) | Reply::Stay(_)) | None => {
                    SECOND << attempt.min(5)
                }
            };
            attempt += 1;
            if self.now() + wait > until {
                break;
            }
            self.pause(wait).await;
        }
        self.report(MachineReport::BootFailed { log: "no configuration".to_owned() }).await;
        None
    }

    /// Installs everything, tells that its disk is ready, and waits for its end.
    async fn build(&self, boot: BootMethod, agent: Option<&AgentOffer>) {
        let takes = self.sim.world.borrow_mut().between(MINUTE, 5 * MINUTE);
        self.pause(takes).await;
        if self.sim.world.borrow_mut().strikes(Fault::BuilderFails) {
            self.report(MachineReport::BootFailed { log: "the image hook failed".to_owned() })
                .await;
            return;
        }
        let agent = match agent {
            Some(AgentOffer::Download(download)) => Some(download.version),
            Some(AgentOffer::Newest) | None => None,
        };
        self.report(MachineReport::Baked { agent, boot, why: None, disk_bytes: 3_000_000_000 })
            .await;
        self.pause(BUILDER_WAITS).await;
    }

    /// The agent's one job, hooks and all. Returns why the supervisor stopped the agent, if it did.
    async fn work(&self, name: &str, runner: u64) -> Option<StopCause> {
        if self.behaviour().gives_up {
            self.pause(2 * SECOND).await;
            self.sim.world.borrow_mut().runner_lost(self.machine, "gave up");
            return None;
        }
        let job = match self.job(runner).await {
            Work::Job(job) => job,
            Work::Deregistered => return None,
            Work::Interrupted => {
                self.report(MachineReport::Interrupted { runner: name.to_owned() }).await;
                self.sim.world.borrow_mut().runner_lost(self.machine, "stopped");
                return Some(StopCause::Interruption);
            }
        };
        self.pause(SECOND).await;
        let hook = if self.behaviour().no_hooks {
            Hook::Passes
        } else {
            self.job_started_hook(name, job).await
        };
        let conclusion = match hook {
            Hook::Passes => {
                let length = self.begins(job);
                match self.steps(name, job, length).await {
                    Steps::Over(conclusion) => conclusion,
                    Steps::Stopped => return self.stopped(runner, job).await,
                }
            }
            Hook::Fails => {
                // The clean-up that every job here has, with `if: always()`.
                self.begins(job);
                self.pause(5 * SECOND).await;
                "failure"
            }
            Hook::EndsTheAgent => "failure",
        };
        let passed = matches!(hook, Hook::Passes);
        if passed && !self.behaviour().no_hooks {
            self.report(MachineReport::JobCompleted { runner: name.to_owned(), used: None }).await;
        }
        self.done(name, runner, job, conclusion, !passed);
        self.pause(SECOND).await;
        None
    }

    /// The supervisor stops the agent, so that GitHub knows before EC2 takes the machine. No hook
    /// runs then (actions/runner, `StepsRunner.cs`).
    async fn stopped(&self, runner: u64, job: u32) -> Option<StopCause> {
        self.pause(STOP_TAKES).await;
        let mut world = self.sim.world.borrow_mut();
        let id = world.ec2.at(self.machine).id.clone();
        world.narrate(|| format!("the agent of {id} is stopped: EC2 takes the machine"));
        world.tally.lost_to_cloud += 1;
        world.github.job_mut(job).interrupted = Some(self.machine);
        world.agent_done(runner, job, "failure");
        world.note_done(self.machine);
        Some(StopCause::Interruption)
    }

    /// The first of a job's steps begins. How long they take.
    fn begins(&self, job: u32) -> Option<Millis> {
        let mut world = self.sim.world.borrow_mut();
        world.job_begins(self.machine, job);
        let length = world.github.job(job).length;
        length.map(|length| world.left_of(job, length))
    }

    /// The job-started hook of `infra/machine`: it waits for a yes or a no. Without a clear yes no
    /// step of the job may run, since one that runs unseen could be cut off.
    async fn job_started_hook(&self, name: &str, job: u32) -> Hook {
        let report = {
            let world = self.sim.world.borrow();
            let said = world.github.job(job);
            StartReport {
                repository: AppName::unqualified(&said.repository).to_owned(),
                private: Some(said.private),
                run: world.github.run_of(job),
                name: said.name.to_string(),
                pull_request: None,
            }
        };
        let report = MachineReport::JobStarted { runner: name.to_owned(), job: report };
        if self.report(report).await == Reply::Noted {
            return Hook::Passes;
        }
        self.sim.world.borrow_mut().checker.not_started.insert(job);
        Hook::EndsTheAgent
    }

    fn done(&self, name: &str, runner: u64, job: u32, conclusion: &'static str, refused: bool) {
        let mut world = self.sim.world.borrow_mut();
        match (refused, conclusion) {
            (true, _) if world.is_foreign(name, job) => world.tally.foreign += 1,
            (true, _) => world.tally.refused += 1,
            (false, "success" | "failure") => world.tally.served += 1,
            _ => {}
        }
        world.agent_done(runner, job, conclusion);
        world.note_done(self.machine);
    }

    async fn shut_down(&self) {
        let known = self.sim.world.borrow().goes_after(self.machine);
        self.pause(known.unwrap_or(2 * SECOND)).await;
        let mut world = self.sim.world.borrow_mut();
        if !world.ec2.at(self.machine).behaviour.never_shuts_down {
            world.end_machine(self.machine, &End::ShutItselfDown);
        }
    }

    /// Sends a report until somebody hears it.
    async fn report(&self, report: MachineReport) -> Reply {
        let last = self.now() + START_LIMIT;
        for attempt in 1..=tries(&report) {
            match self.ask(Ask::Report(report.clone())).await {
                Some(
                    reply
                    @ (Reply::Noted | Reply::AskAgain(_) | Reply::Stay(_) | Reply::Refused(_)),
                ) => return reply,
                _ if self.now() >= last => break,
                _ => self.pause(i64::from(attempt.min(12)) * SECOND).await,
            }
        }
        Reply::Broken
    }

    /// One call to runner-api; none when no answer comes.
    async fn ask(&self, ask: Ask) -> Option<Reply> {
        let patience = match &ask {
            Ask::Configuration(_) => PATIENCE,
            Ask::Report(_) => REPORT_PATIENCE,
        };
        let number = {
            let mut world = self.sim.world.borrow_mut();
            let machine = self.machine;
            world.say(|| format!("machine {machine} asks: {ask:?}"));
            let number = u32::try_from(world.api_calls.len()).unwrap_or(u32::MAX);
            world.api_calls.push(ApiCall { machine, ask: Rc::new(ask), reply: None });
            if world.is_throttled() {
                world.reply(number, Reply::Broken);
            } else if !world.strikes(Fault::ReportLost) {
                let after = world.latency();
                world.start(Task::Function(Call::Api(number)), after);
            }
            number
        };
        let reply = |world: &mut World| world.api_calls[number as usize].reply.take();
        self.until(patience, reply).await
    }

    /// Waits for a job, or for the end of the registration.
    async fn job(&self, runner: u64) -> Work {
        let machine = self.machine;
        let work = |world: &mut World| match world.ec2.at(machine).job {
            // Also when its registration is gone by now: a job in hand is carried out.
            Some(job) => Some(Work::Job(job)),
            None if world.github.is_told_to_go(runner) => Some(Work::Deregistered),
            None => world.sees_notice(machine).then_some(Work::Interrupted),
        };
        self.until(Millis::MAX, work).await.unwrap_or(Work::Deregistered)
    }

    /// The job's steps, until they are over, the workflow is cancelled, or EC2 takes the machine.
    async fn steps(&self, name: &str, job: u32, length: Option<Millis>) -> Steps {
        let machine = self.machine;
        let ends = length.map_or(Millis::MAX, |length| self.now() + length);
        let over = |world: &mut World| {
            let over = world.github.truth_of(job)?.over()?;
            Some(Steps::Over(match over {
                "cancelled" => "cancelled",
                "failure" => "failure",
                _ => "success",
            }))
        };
        let noticed = |world: &mut World| match over(world) {
            Some(over) => Some(Some(over)),
            None => world.sees_notice(machine).then_some(None),
        };
        match self.until(self.before(ends), noticed).await {
            Some(Some(over)) => return over,
            None => return Steps::Over("success"),
            Some(None) => {}
        }
        self.report(MachineReport::Interrupted { runner: name.to_owned() }).await;
        let stops = |world: &mut World| {
            over(world).or_else(|| world.stops_agent(machine).then_some(Steps::Stopped))
        };
        self.until(self.before(ends), stops).await.unwrap_or(Steps::Over("success"))
    }

    /// The time until then.
    fn before(&self, at: Millis) -> Millis {
        if at == Millis::MAX { at } else { (at - self.now()).max(0) }
    }

    async fn told(&self, word: u32) {
        let machine = self.machine;
        self.until(Millis::MAX, |world| (world.ec2.at(machine).told >= word).then_some(())).await;
    }

    async fn pause(&self, length: Millis) {
        Pause::new(&self.sim, length).await;
    }

    fn until<R, F: FnMut(&mut World) -> Option<R> + Unpin>(
        &self,
        patience: Millis,
        look: F,
    ) -> Until<'_, F> {
        Until { sim: &self.sim, patience, look, ends: None }
    }

    fn now(&self) -> Millis {
        self.sim.world.borrow().now
    }

    fn behaviour(&self) -> crate::ec2::Behaviour {
        self.sim.world.borrow().ec2.at(self.machine).behaviour
    }
}

/// Waits until a look finds something, or patience is over.
struct Until<'a, F> {
    sim: &'a Sim,
    patience: Millis,
    look: F,
    ends: Option<Millis>,
}

impl<R, F: FnMut(&mut World) -> Option<R> + Unpin> Future for Until<'_, F> {
    type Output = Option<R>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<R>> {
        let sim = self.sim;
        let mut world = sim.world.borrow_mut();
        if let Some(found) = (self.look)(&mut world) {
            return Poll::Ready(Some(found));
        }
        let ends = match self.ends {
            Some(ends) => ends,
            None => {
                let ends = world.now.saturating_add(self.patience);
                if let (Some(task), true) = (world.current, ends < Millis::MAX) {
                    world.agenda.at(ends, Event::Wake(task));
                }
                self.ends = Some(ends);
                ends
            }
        };
        if world.now >= ends {
            return Poll::Ready(None);
        }
        if let Some(task) = world.current {
            world.wakers.add(task, context.waker());
        }
        Poll::Pending
    }
}
