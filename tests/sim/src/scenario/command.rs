//! What a scenario can do.

use muster_cloud::github::{Again, RunFacts};
use muster_domain::job::labels::Labels;
use muster_domain::message::JobsMessage;
use muster_domain::pool::limits::Balance;
use muster_domain::pool::warm::{RepositoryEvent, WarmEvent, WarmRule};
use muster_domain::pool::{LabelMatch, MergeQueuePolicy, Pool, RerunPolicy};
use muster_domain::time::Seconds;
use serde_json::json;

use super::{BEAT, Scenario};
use crate::agenda::{Arrival, Event, HOUR, MINUTE, Millis, SECOND, Which};
use crate::ec2::{Behaviour, ImageAgent};
use crate::github::{Job, Status};
use crate::invocations::Call;
use crate::queue::Body;
use crate::schedule;
use crate::world::Task;

/// Where jobs come from unless a scenario says otherwise.
const REPOSITORY: &str = "acme/web";

impl Scenario {
    /// Carries a command out, or several that are joined by `and`: those happen at one moment.
    pub(super) fn obey(&mut self, command: &str) -> Result<(), String> {
        let parts: Vec<&str> = command.split(" and ").collect();
        let mut beat = false;
        for part in &parts {
            beat |= self.carry_out(part)?;
        }
        if beat { self.pass(BEAT) } else { Ok(()) }
    }

    /// Carries a command out. True when a moment is to pass after it.
    #[expect(clippy::too_many_lines, reason = "a table: an arm for each command")]
    fn carry_out(&mut self, command: &str) -> Result<bool, String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        if let ["expect", rest @ ..] = words.as_slice() {
            return self.expect(rest).map(|()| false);
        }
        if let ["naive", ..] = words.as_slice() {
            return Ok(false);
        }
        if !matches!(words.first(), Some(&"pool" | &"replay" | &"limit" | &"balance")) {
            self.note(command);
        }
        match words.as_slice() {
            ["pool", name, options @ ..] => return self.pool(name, options).map(|()| false),
            ["limit", "stack", most] => {
                self.limits.stack = Some(number(most)?);
                return Ok(false);
            }
            ["limit", entity, most] => {
                let entity = entity.parse().map_err(|error| format!("{error}"))?;
                self.limits.entities.insert(entity, number(most)?);
                return Ok(false);
            }
            ["balance", "round-robin"] => {
                self.balance = Balance::RoundRobin;
                return Ok(false);
            }
            ["deploy"] => self.change(|world| world.deployments += 1),
            ["switch", what, to @ ("on" | "off")] => self.switch(what, to, None),
            ["switch", what, "off", "for", length] => {
                self.switch(what, "off", Some(duration(length)?));
            }
            ["replay", "hides", "machines"] => {
                self.replay_shows_machines = false;
                return Ok(false);
            }
            ["advance", length] => return self.pass(duration(length)?).map(|()| false),
            ["sweep"] => self.change(|world| world.start(Task::Function(Call::Sweep), 0)),
            ["queue", "job", number, options @ ..] => self.queue(index(number)?, options)?,
            ["queue", "jobs", first, "to", last, options @ ..] => {
                return self.queue_all(index(first)?, index(last)?, options).map(|()| false);
            }
            ["serve", "jobs", first, "to", last] => {
                return self.serve(index(first)?, index(last)?).map(|()| false);
            }
            ["push", repository, branch] => {
                self.event(WarmEvent::Push, repository, branch, 1);
            }
            ["push", repository, branch, "times", count] => {
                self.event(WarmEvent::Push, repository, branch, number(count)?);
            }
            ["pull", "request", repository, branch] => {
                self.event(WarmEvent::PullRequest, repository, branch, 1);
            }
            ["check", "run", repository, branch] => {
                self.event(WarmEvent::CheckRun, repository, branch, 1);
            }
            ["cancel", "job", number] => {
                let number = index(number)?;
                self.change(|world| world.cancel_job(number));
            }
            ["somebody", "re-runs", rest @ ..] => self.re_run(rest)?,
            ["fail", "fast", "job", job] => {
                let number = index(job)?;
                self.change(|world| {
                    let run = world.github.truth_of(number).ok_or("nobody has queued it")?.run_id;
                    world.github.truth.set_fail_fast(run);
                    Ok::<_, String>(())
                })?;
            }
            ["run", "of", "job", job, "is", "of", event, branch] => {
                let number = index(job)?;
                let (event, branch) = ((*event).to_owned(), (*branch).to_owned());
                self.change(|world| {
                    let run = world.github.truth_of(number).ok_or("nobody has queued it")?.run_id;
                    let facts = RunFacts { workflow: 1, event, branch };
                    world.github.truth.describe_run(run, facts);
                    Ok::<_, String>(())
                })?;
            }
            [gate @ ("gate" | "approve" | "reject"), "job", number] => {
                let number = index(number)?;
                self.change(|world| match *gate {
                    "gate" => world.gate_job(number),
                    "approve" => world.approve_job(number),
                    _ => world.reject_job(number),
                });
            }
            ["images", "have", "no", "agent"] => {
                self.change(|world| world.ec2.image_agent = ImageAgent::Missing);
            }
            ["images", "have", "agent", version] => {
                let version = version.parse().map_err(|error| format!("{error}"))?;
                self.change(|world| world.ec2.image_agent = ImageAgent::Has(version));
            }
            ["image", order @ ("on" | "off" | "build" | "rollback" | "delete")] => {
                self.request(
                    json!({ "version": 1, "action": "images", "order": order, "by": "somebody" }),
                );
            }
            ["image", number, "does", "not", "boot"] => {
                let number = number_of_image(number)?;
                self.change(|world| world.ec2.break_image(number))?;
            }
            ["ec2", "rejects", "image", number] => {
                let number = number_of_image(number)?;
                self.change(|world| world.ec2.reject_image(number))?;
            }
            ["boot", "by", "themselves"] => self.change(|world| world.ec2.boots_alone = true),
            ["boot", number, how @ ..] => self.boot(number, how)?,
            ["start", "job", job, rest @ ..] => self.start(index(job)?, rest)?,
            ["finish", "job", number] => self.finish(index(number)?, "success")?,
            ["finish", "job", number, "badly"] => self.finish(index(number)?, "failure")?,
            ["finish", "jobs", first, "to", last] => {
                (index(first)?..=index(last)?)
                    .try_for_each(|number| self.finish(number, "success"))?;
            }
            ["fail", rest @ ..] => self.fail(rest)?,
            ["mend", what] => self.mend(what)?,
            ["lose", "webhooks", count] => {
                let count = number(count)?;
                self.change(|world| world.github.script.drop_next = count);
            }
            ["spoil", "webhooks", count] => {
                let count = number(count)?;
                self.change(|world| world.github.script.spoil_next = count);
            }
            ["refuse", "webhooks", count] => {
                let count = number(count)?;
                self.change(|world| world.github.script.fail_next = count);
            }
            ["github", "forgets", number] => self.arrive(number, Arrival::Forgotten)?,
            ["github", rest @ ..] => self.github(rest)?,
            ["reclaim", number] => self.reclaim(number)?,
            ["take", number] => self.arrive(number, Arrival::Reclaimed)?,
            ["hang", number] => self.arrive(number, Arrival::Hung)?,
            ["stop", number] => self.arrive(number, Arrival::Halted)?,
            ["ec2", "denies", number, "for", length] => self.deny(number, duration(length)?)?,
            ["delete", number, flags @ ..] => self.delete(number, flags)?,
            ["canary", pool, options @ ..] => self.canary(pool, options)?,
            ["explain", "job", number] => self.explain(index(number)?)?,
            ["apply", pools @ ..] => self.apply(pools)?,
            ["app", "is", "unknown"] => self.change(|world| world.tables.pools = None),
            ["app", "belongs", "to", owner] => self.app_belongs_to(owner)?,
            ["restore", version] => {
                let version: u64 = number(version)?;
                self.request(json!({ "version": 1, "action": "pools", "restore": version }));
            }
            _ => return Err("no such command".to_owned()),
        }
        Ok(true)
    }

    fn note(&mut self, command: &str) {
        let now = self.change(|world| world.now);
        self.timeline.push((now, format!("> {command}")));
    }

    fn pool(&mut self, name: &str, options: &[&str]) -> Result<(), String> {
        if self.executor.is_some() {
            return Err("pools come first".to_owned());
        }
        let (mut labels, mut max, mut market) = (vec!["linux", "x64"], 10, "on-demand");
        let (mut types, mut subnets) = (Vec::new(), Vec::new());
        let mut pool = Pool::named(name.parse().map_err(|error| format!("{error}"))?);
        for option in options {
            match option.split_once('=') {
                Some(("of", entity)) => {
                    pool.entity = Some(entity.parse().map_err(|error| format!("{error}"))?);
                }
                Some(("match", "exact")) => pool.label_match = LabelMatch::Exact,
                Some(("repositories", value)) => {
                    pool.repositories = value.split(',').map(str::to_owned).collect();
                }
                Some(("priority", value)) => pool.priority = number(value)?,
                Some(("group", value)) => pool.runner_group_id = number(value)?,
                Some(("warm-on", value)) => pool.warm_on.push(warm_rule(value)?),
                Some(("min-idle", value)) => pool.min_idle = number(value)?,
                Some(("keep-failed", value)) => pool.keep_failed_seconds = Seconds(number(value)?),
                Some(("rerun", value)) => {
                    pool.rerun_on_interruption = Some(match value {
                        "off" => RerunPolicy::Off,
                        "on" => RerunPolicy::Interrupted,
                        _ => RerunPolicy::All,
                    });
                }
                Some(("merge-queue", "as-others")) => {
                    pool.merge_queue = MergeQueuePolicy::AsOthers;
                }
                Some(("job-age", value)) => pool.job_age_seconds = Seconds(number(value)?),
                None if *option == "disabled" => pool.enabled = false,
                Some(("labels", value)) => labels = value.split(',').collect(),
                Some(("max", value)) => max = number(value)?,
                Some(("market", value)) => market = value,
                Some(("types", value)) => types = value.split(',').collect(),
                Some(("subnets", value)) => subnets = value.split(',').collect(),
                _ => return Err(format!("{option}: not an option of a pool")),
            }
        }
        let mut plain = schedule::pool(name, &labels, max, market, None);
        if !types.is_empty() {
            plain.instance_types = types.into_iter().map(Into::into).collect();
        }
        if !subnets.is_empty() {
            plain.subnets = subnets.into_iter().map(Into::into).collect();
        }
        self.pools.push(Pool {
            // The record says it. A peer's policy reads none.
            app_owner: self.naive.and(plain.app_owner.clone()),
            entity: pool.entity,
            label_match: pool.label_match,
            repositories: pool.repositories,
            priority: pool.priority,
            runner_group_id: pool.runner_group_id,
            min_idle: pool.min_idle,
            warm_on: pool.warm_on,
            job_age_seconds: pool.job_age_seconds,
            keep_failed_seconds: pool.keep_failed_seconds,
            enabled: pool.enabled,
            rerun_on_interruption: pool.rerun_on_interruption,
            merge_queue: pool.merge_queue,
            ..plain
        });
        Ok(())
    }

    /// GitHub tells of an event, so many times at once.
    fn event(&mut self, kind: WarmEvent, repository: &str, branch: &str, times: u32) {
        self.change(|world| {
            for _ in 0..times {
                let event = RepositoryEvent {
                    kind,
                    repository: repository.into(),
                    private: true,
                    user_owned: false,
                    branch: branch.into(),
                    at: world.time(),
                };
                let (event, delivery) = (Box::new(event), String::new());
                let body = Body::Jobs(JobsMessage::Repository { event, delivery });
                world.enqueue(Which::Jobs, body);
            }
        });
    }

    /// The first time the workflow queues it; later times GitHub delivers the same event again.
    fn queue(&mut self, number: u32, options: &[&str]) -> Result<(), String> {
        let mut labels = vec!["self-hosted", "linux"];
        let mut repository = REPOSITORY;
        let (mut branch, mut deploys) = (None, false);
        for option in options {
            match option.split_once('=') {
                Some(("labels", value)) => labels = value.split(',').collect(),
                Some(("from", value)) => repository = value,
                Some(("branch", value)) => branch = Some(value),
                None if *option == "deploys" => deploys = true,
                _ => return Err(format!("{option}: not an option of a job")),
            }
        }
        let labels = Labels::new(labels);
        self.change(|world| {
            while world.github.jobs.len() <= number as usize {
                let next = u32::try_from(world.github.jobs.len()).unwrap_or(u32::MAX);
                let job = Job::planned(next, REPOSITORY, true, Labels::default(), None);
                world.github.jobs.push(job);
            }
            if let Some(truth) = world.github.truth_of(number).cloned() {
                return world.tell(truth);
            }
            let job = world.github.job_mut(number);
            job.labels = labels;
            job.repository = repository.into();
            job.branch = branch.map(Into::into);
            job.deploys = deploys;
            world.queue_job(number);
        });
        Ok(())
    }

    /// One after the other.
    fn queue_all(&mut self, first: u32, last: u32, options: &[&str]) -> Result<(), String> {
        for number in first..=last {
            self.queue(number, options)?;
            self.pass(BEAT)?;
        }
        Ok(())
    }

    /// Machine N boots, takes job N and ends it, and a minute passes before the next.
    fn serve(&mut self, first: u32, last: u32) -> Result<(), String> {
        for number in first..=last {
            let machine = number.to_string();
            self.boot(&machine, &[])?;
            self.pass(BEAT)?;
            self.start(number, &["on", &machine])?;
            self.pass(BEAT)?;
            self.finish(number, "success")?;
            self.pass(MINUTE)?;
        }
        Ok(())
    }

    fn boot(&mut self, machine: &str, how: &[&str]) -> Result<(), String> {
        let machine = self.machine(number(machine)?)?;
        self.change(|world| {
            let there = world.ec2.at_mut(machine);
            match how {
                [] => there.told = 1,
                ["fails"] => {
                    there.behaviour.boot_fails = true;
                    there.told = 1;
                }
                ["gives", "up"] => {
                    there.behaviour.gives_up = true;
                    there.told = 1;
                }
                ["with", "dead", "hooks"] => {
                    there.behaviour.no_hooks = true;
                    there.told = 1;
                }
                ["without", "shutdown"] => {
                    there.behaviour.never_shuts_down = true;
                    there.told = 1;
                }
                ["never"] => there.behaviour.never_boots = true,
                _ => {
                    return Err("fails, never, with dead hooks, or without shutdown".to_owned());
                }
            }
            world.wake_machine(machine);
            Ok(())
        })
    }

    /// GitHub gives a job to a runner: the one named, or the first that fits.
    fn start(&mut self, job: u32, rest: &[&str]) -> Result<(), String> {
        let wanted = match rest {
            [] => None,
            ["on", machine] => Some(self.machine(number(machine)?)?),
            _ => return Err("start job N [on MACHINE]".to_owned()),
        };
        self.change(|world| {
            let truth = &world.github.truth;
            let known = world.github.truth_of(job).ok_or("the job is not queued")?;
            let found = truth.idle().iter().copied().find(|id| {
                truth.runner(*id).is_some_and(|runner| truth.serves(runner, known))
                    && (wanted.is_none() || world.machine_of(*id) == wanted)
            });
            let runner = found.ok_or("no idle runner fits")?;
            if known.status != Status::Queued {
                return Err("the job is not queued".to_owned());
            }
            world.assign(job, runner);
            Ok(())
        })
    }

    fn finish(&mut self, job: u32, how: &str) -> Result<(), String> {
        self.change(|world| {
            if !world.github.finish(job, how) {
                return Err("its steps do not run".to_owned());
            }
            world.wake_machine_of(job);
            Ok(())
        })
    }

    /// A person runs a job of the last attempt again, or all that failed.
    fn re_run(&mut self, rest: &[&str]) -> Result<(), String> {
        let (job, is_all) = match rest {
            ["job", job] => (index(job)?, false),
            ["the", "failed", "jobs", "of", "the", "run", "of", "job", job] => (index(job)?, true),
            _ => return Err("job N, or the failed jobs of the run of job N".to_owned()),
        };
        self.change(|world| {
            let truth = world.github.truth_of(job).ok_or("nobody has queued it")?;
            let (id, run) = (truth.id, truth.run_id);
            let repository = world.github.job(job).repository.clone();
            let again = if is_all { Again::Failed } else { Again::Job(id) };
            world.run_again(&repository, run, again, false);
            Ok(())
        })
    }

    fn reclaim(&mut self, machine: &str) -> Result<(), String> {
        let machine = self.machine(number(machine)?)?;
        self.change(|world| {
            let now = world.now;
            world.agenda.at(now, Event::StateEvent(machine, 4, now));
            world.agenda.at(now + 2 * MINUTE, Event::Machine(machine, Arrival::Reclaimed));
            world.announce_reclaim(machine, now + 2 * MINUTE);
        });
        Ok(())
    }

    fn deny(&mut self, machine: &str, length: Millis) -> Result<(), String> {
        let machine = self.machine(number(machine)?)?;
        self.change(|world| {
            world.ec2.cloud.at_mut(machine as usize).visible_from = world.now + length;
        });
        Ok(())
    }

    fn arrive(&mut self, machine: &str, arrival: Arrival) -> Result<(), String> {
        let machine = self.machine(number(machine)?)?;
        self.change(|world| world.machine_arrives(machine, arrival));
        Ok(())
    }
}

/// What the next machines are like.
impl Scenario {
    /// Scripts the behaviour of the machine that is launched next.
    pub fn next_machine(&mut self, behaviour: Behaviour) {
        self.change(|world| world.ec2.scripted.push(behaviour));
    }
}

/// The number of an image: those that EC2 made, from one on.
fn number_of_image(word: &str) -> Result<usize, String> {
    number::<usize>(word)?.checked_sub(1).ok_or_else(|| "images are counted from one".to_owned())
}

/// A number of a scenario.
pub(super) fn number<N: std::str::FromStr>(word: &str) -> Result<N, String> {
    word.parse().map_err(|_| format!("{word}: not a number"))
}

/// A job's number: scenarios count from one.
pub(super) fn index(word: &str) -> Result<u32, String> {
    number(word)
}

/// A duration: `90s`, `5m` or `2h`.
pub(super) fn duration(word: &str) -> Result<Millis, String> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count: Millis = number(digits)?;
    match &word[digits.len()..] {
        "s" => Ok(count * SECOND),
        "m" => Ok(count * MINUTE),
        "h" => Ok(count * HOUR),
        _ => Err(format!("{word}: a duration ends in s, m or h")),
    }
}

/// `EVENT:IDLE:SECONDS`, and the branch if not all count.
fn warm_rule(text: &str) -> Result<WarmRule, String> {
    let [event, idle, time, branches @ ..] = &text.split(':').collect::<Vec<_>>()[..] else {
        return Err(format!("{text}: not EVENT:IDLE:SECONDS[:BRANCH]"));
    };
    let found = WarmEvent::ALL.iter().find(|(name, _)| name == event);
    Ok(WarmRule {
        event: found.ok_or_else(|| format!("{event}: not an event"))?.1,
        repositories: Vec::new(),
        branches: branches.iter().map(|branch| (*branch).to_owned()).collect(),
        idle: number(idle)?,
        for_seconds: Seconds(number(time)?),
    })
}
