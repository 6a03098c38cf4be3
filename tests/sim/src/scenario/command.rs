//! What a scenario can do.

use std::rc::Rc;

use muster_domain::ec2::Bucket;
use muster_domain::ids::PoolName;
use muster_domain::job::labels::Labels;
use muster_domain::pool::limits::Balance;
use muster_domain::pool::{LabelMatch, Pool};
use muster_domain::time::Seconds;
use serde_json::{Value, json};

use super::{BEAT, Scenario};
use crate::agenda::{Arrival, Event, HOUR, MINUTE, Millis, SECOND};
use crate::ec2::{Behaviour, Scripted};
use crate::fault::Fault;
use crate::github::{Job, Status};
use crate::invocations::Call;
use crate::schedule;
use crate::world::{Task, Window, World};

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
            ["switch", what, to @ ("on" | "off")] => self.switch(what, to),
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
            ["cancel", "job", number] => {
                let number = index(number)?;
                self.change(|world| world.cancel_job(number));
            }
            [gate @ ("gate" | "approve" | "reject"), "job", number] => {
                let number = index(number)?;
                self.change(|world| match *gate {
                    "gate" => world.gate_job(number),
                    "approve" => world.approve_job(number),
                    _ => world.reject_job(number),
                });
            }
            ["boot", "by", "themselves"] => self.change(|world| world.ec2.boots_alone = true),
            ["boot", number, how @ ..] => self.boot(number, how)?,
            ["start", "job", job, rest @ ..] => self.start(index(job)?, rest)?,
            ["finish", "job", number] => self.finish(index(number)?)?,
            ["fail", rest @ ..] => self.fail(rest)?,
            ["mend", what] => self.mend(what)?,
            ["lose", "webhooks", count] => {
                let count = number(count)?;
                self.change(|world| world.github.script.drop_next = count);
            }
            ["refuse", "webhooks", count] => {
                let count = number(count)?;
                self.change(|world| world.github.script.fail_next = count);
            }
            ["github", "forgets", number] => self.arrive(number, Arrival::Forgotten)?,
            ["github", rest @ ..] => self.github(rest)?,
            ["reclaim", number] => self.reclaim(number)?,
            ["hang", number] => self.arrive(number, Arrival::Hung)?,
            ["stop", number] => self.arrive(number, Arrival::Halted)?,
            ["delete", number, flags @ ..] => self.delete(number, flags)?,
            ["apply", pools @ ..] => self.apply(pools)?,
            ["rename", "pool", from, "to", to] => self.rename(from, to)?,
            ["restore", version] => {
                let version: u64 = number(version)?;
                self.request(json!({ "version": 1, "action": "pools", "restore": version }));
            }
            _ => return Err("no such command".to_owned()),
        }
        Ok(true)
    }

    fn github(&mut self, rest: &[&str]) -> Result<(), String> {
        self.change(|world| {
            let github = &mut world.github;
            let script = &mut github.script;
            match rest {
                ["lies"] => script.always_lies = true,
                ["tells", "the", "truth"] => script.always_lies = false,
                ["hides", "runners"] => script.hides_runners = true,
                ["shows", "runners"] => script.hides_runners = false,
                ["removes", "nothing"] => script.removes_nothing = true,
                ["removes", "runners"] => script.removes_nothing = false,
                ["never", "gives", "up"] => script.never_gives_up = true,
                ["refuses", owner] => {
                    script.refuses.insert((*owner).to_owned());
                }
                ["accepts", owner] if *owner != "all" => {
                    script.refuses.remove(*owner);
                }
                ["accepts", "all"] => {
                    script.refuses.clear();
                    script.forbids_runners = None;
                }
                ["gives", "jobs"] => {
                    script.gives_jobs = true;
                    let now = world.now;
                    world.agenda.at(now, Event::Dispatch);
                }
                ["forbids", "runners", "of", owner] => {
                    script.forbids_runners = Some((*owner).to_owned());
                }
                ["deletes", "group", group] => {
                    let group = number(group)?;
                    github.change_deleted_groups(|deleted| {
                        deleted.insert(group);
                    });
                }
                ["has", "group", group] => {
                    let group = number(group)?;
                    github.change_deleted_groups(|deleted| {
                        deleted.remove(&group);
                    });
                }
                ["limits", "runners", "of", owner, "for", length] => {
                    let until = world.now + duration(length)?;
                    script.limits_runners = Some(((*owner).to_owned(), until));
                }
                ["limits", owner, "for", length] => {
                    script.limits = Some(((*owner).to_owned(), world.now + duration(length)?));
                }
                ["says", "job", job, "is", status] => return says(world, index(job)?, status),
                _ => return Err("GitHub does no such thing".to_owned()),
            }
            Ok(())
        })
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
        let mut types = Vec::new();
        let mut pool = Pool::named(name.parse().map_err(|error| format!("{error}"))?);
        for option in options {
            match option.split_once('=') {
                Some(("of", entity)) => {
                    pool.entity = Some(entity.parse().map_err(|error| format!("{error}"))?);
                }
                Some(("match", "exact")) => pool.label_match = LabelMatch::Exact,
                Some(("priority", value)) => pool.priority = number(value)?,
                Some(("group", value)) => pool.runner_group_id = number(value)?,
                Some(("min-idle", value)) => pool.min_idle = number(value)?,
                Some(("job-age", value)) => pool.job_age_seconds = Seconds(number(value)?),
                None if *option == "paused" => pool.paused = true,
                None if *option == "disabled" => pool.enabled = false,
                Some(("labels", value)) => labels = value.split(',').collect(),
                Some(("max", value)) => max = number(value)?,
                Some(("market", value)) => market = value,
                Some(("types", value)) => types = value.split(',').collect(),
                _ => return Err(format!("{option}: not an option of a pool")),
            }
        }
        let mut plain = schedule::pool(name, &labels, max, market, None);
        if !types.is_empty() {
            plain.instance_types = types.into_iter().map(Into::into).collect();
        }
        self.pools.push(Pool {
            entity: pool.entity,
            label_match: pool.label_match,
            priority: pool.priority,
            runner_group_id: pool.runner_group_id,
            min_idle: pool.min_idle,
            job_age_seconds: pool.job_age_seconds,
            paused: pool.paused,
            enabled: pool.enabled,
            ..plain
        });
        Ok(())
    }

    /// The first time the workflow queues it; later times GitHub delivers the same event again.
    fn queue(&mut self, number: u32, options: &[&str]) -> Result<(), String> {
        let mut labels = vec!["self-hosted", "linux"];
        let mut repository = REPOSITORY;
        for option in options {
            match option.split_once('=') {
                Some(("labels", value)) => labels = value.split(',').collect(),
                Some(("from", value)) => repository = value,
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
            self.finish(number)?;
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
                ["without", "hooks"] => {
                    there.behaviour.no_hooks = true;
                    there.told = 1;
                }
                ["with", "dead", "hooks"] => {
                    (there.behaviour.no_hooks, there.behaviour.claims_hooks) = (true, true);
                    there.told = 1;
                }
                ["without", "shutdown"] => {
                    there.behaviour.never_shuts_down = true;
                    there.told = 1;
                }
                ["never"] => there.behaviour.never_boots = true,
                _ => {
                    return Err(
                        "fails, never, without hooks, with dead hooks, or without shutdown"
                            .to_owned(),
                    );
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

    fn finish(&mut self, job: u32) -> Result<(), String> {
        self.change(|world| {
            if !world.github.finish(job) {
                return Err("its steps do not run".to_owned());
            }
            world.wake_machine_of(job);
            Ok(())
        })
    }

    fn fail(&mut self, rest: &[&str]) -> Result<(), String> {
        let (scripted, count) = match rest {
            ["ec2", "launch", "lost"] => (Scripted::LaunchAnswerLost, 1),
            ["ec2", "launch", "undone"] => (Scripted::LaunchTimedOut, 1),
            ["ec2", "launch", "capacity", count] => (Scripted::NoCapacity, number(count)?),
            ["ec2", "terminate", "for", "ever"] => (Scripted::TerminateFails, 10_000),
            ["ec2", "terminate", count] => (Scripted::TerminateFails, number(count)?),
            ["ec2", "quota", kind, "on-demand"] => {
                let bucket =
                    Bucket::from_instance_type(kind).ok_or("no quota is known that counts it")?;
                let market = Some(muster_domain::ec2::Market::OnDemand);
                self.change(|world| world.ec2.without_quota = Some((market, bucket)));
                return Ok(());
            }
            ["ec2", "quota", kind] => {
                let bucket =
                    Bucket::from_instance_type(kind).ok_or("no quota is known that counts it")?;
                self.change(|world| world.ec2.without_quota = Some((None, bucket)));
                return Ok(());
            }
            ["ec2", "spot"] => {
                self.change(|world| world.ec2.without_spot = true);
                return Ok(());
            }
            ["ec2"] => return self.outage(Fault::OutageEc2),
            ["github"] => return self.outage(Fault::OutageGithub),
            ["machine", "events"] => {
                self.change(|world| world.fault_rates.set(Fault::StateEventLost, 1_000_000));
                return Ok(());
            }
            ["machines"] => {
                self.change(|world| world.fault_rates.set(Fault::LaunchAborted, 1_000_000));
                return Ok(());
            }
            ["registrations"] => {
                self.change(|world| world.fault_rates.set(Fault::ConfigureAnswerLost, 1_000_000));
                return Ok(());
            }
            ["configurations"] => {
                self.change(|world| world.fault_rates.set(Fault::ConfigureRefused, 1_000_000));
                return Ok(());
            }
            ["wake-ups"] => {
                self.change(|world| world.fault_rates.set(Fault::MessageLost, 1_000_000));
                return Ok(());
            }
            ["tables"] => {
                self.change(|world| world.fault_rates.set(Fault::CommitRefused, 1_000_000));
                return Ok(());
            }
            ["listings"] => {
                self.change(|world| world.fault_rates.set(Fault::IndexLate, 1_000_000));
                return Ok(());
            }
            _ => return Err("no such failure".to_owned()),
        };
        self.change(|world| {
            world.ec2.script.extend(std::iter::repeat_n(scripted, count as usize));
        });
        Ok(())
    }

    fn outage(&mut self, fault: Fault) -> Result<(), String> {
        self.change(|world| {
            let from = world.now;
            world.windows.push(Window { fault, from, until: Millis::MAX });
        });
        Ok(())
    }

    fn mend(&mut self, what: &str) -> Result<(), String> {
        self.change(|world| {
            match what {
                "ec2" => {
                    world.ec2.script.clear();
                    world.ec2.without_quota = None;
                    world.windows.retain(|window| window.fault != Fault::OutageEc2);
                }
                "github" => world.windows.retain(|window| window.fault != Fault::OutageGithub),
                "wake-ups" => world.fault_rates.set(Fault::MessageLost, 0),
                "tables" => world.fault_rates.set(Fault::CommitRefused, 0),
                "listings" => world.fault_rates.set(Fault::IndexLate, 0),
                "machines" => world.fault_rates.set(Fault::LaunchAborted, 0),
                "registrations" => world.fault_rates.set(Fault::ConfigureAnswerLost, 0),
                "configurations" => world.fault_rates.set(Fault::ConfigureRefused, 0),
                _ => {
                    return Err(
                        "configurations, ec2, github, listings, machines, registrations, tables or wake-ups"
                            .to_owned(),
                    );
                }
            }
            Ok(())
        })
    }

    fn reclaim(&mut self, machine: &str) -> Result<(), String> {
        let machine = self.machine(number(machine)?)?;
        self.change(|world| {
            let now = world.now;
            world.agenda.at(now, Event::StateEvent(machine, 4));
            world.agenda.at(now + 2 * MINUTE, Event::Machine(machine, Arrival::Reclaimed));
        });
        Ok(())
    }

    fn arrive(&mut self, machine: &str, arrival: Arrival) -> Result<(), String> {
        let machine = self.machine(number(machine)?)?;
        self.change(|world| world.machine_arrives(machine, arrival));
        Ok(())
    }

    /// `launches`, `deletes`, `maintenance`, or the name of a pool.
    fn switch(&mut self, what: &str, to: &str) {
        let mut request = json!({ "version": 1, "action": "switch", "reason": "by the scenario", "by": "somebody" });
        match what {
            "launches" | "deletes" | "maintenance" => request[what] = to.into(),
            pool => request["pools"] = json!({ pool: to }),
        }
        self.request(request);
    }

    /// Has the admin function answer a request.
    fn request(&mut self, request: Value) {
        self.change(|world| {
            let number = u32::try_from(world.requests.len()).unwrap_or(u32::MAX);
            world.requests.push(Some(request));
            world.start(Task::Function(Call::Operator(number)), 0);
        });
    }

    /// Applies a pool file: pools as `name`, or `name:max=3:labels=linux,gpu:image=ami-…`.
    fn apply(&mut self, pools: &[&str]) -> Result<(), String> {
        let mut listed = Vec::new();
        for pool in pools {
            let mut parts = pool.split(':');
            let mut file = json!({
                "name": parts.next(),
                "labels": ["linux", "x64"],
                "instances": { "types": ["m7i.large", "m7a.large"] },
                "subnets": ["subnet-0000000a", "subnet-0000000b"],
                "limits": { "max": 10, "max_lifetime": "4h" },
            });
            for option in parts {
                match option.split_once('=') {
                    Some(("labels", value)) => {
                        file["labels"] = value.split(',').collect::<Vec<_>>().into();
                    }
                    Some(("max", value)) => file["limits"]["max"] = number::<u32>(value)?.into(),
                    Some(("image", value)) => file["image"] = json!({ "id": value }),
                    Some(("idle", value)) => file["limits"]["idle_limit"] = value.into(),
                    Some(("boot", value)) => file["limits"]["boot_deadline"] = value.into(),
                    Some(("enabled", value)) => file["enabled"] = (value == "yes").into(),
                    _ => return Err(format!("{option}: not an option of a pool in a file")),
                }
            }
            listed.push(file);
        }
        let file = json!({ "pools": listed }).to_string();
        self.request(json!({ "version": 1, "action": "pools", "file": file, "by": "somebody" }));
        Ok(())
    }

    /// A deployment gives a pool of the stack's parameters another name.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), String> {
        let to: PoolName = to.parse().map_err(|_| format!("{to}: no name of a pool"))?;
        let sim = Rc::clone(self.executor().sim());
        let mut world = sim.world.borrow_mut();
        let mut next = world.deployed.as_deref().unwrap_or(&sim.settings).clone();
        let renamed = next.pools.iter_mut().find(|pool| pool.name.as_str() == from);
        renamed.ok_or_else(|| format!("{from}: no such pool"))?.name = to;
        let now = world.now;
        world.checker.know_also(&next.pools, now);
        world.tables.index.know(&next.pools);
        world.deployed = Some(Rc::new(next));
        Ok(())
    }

    fn delete(&mut self, instance: &str, flags: &[&str]) -> Result<(), String> {
        let name = self.instance(number(instance)?)?;
        let has = |flag| flags.contains(&flag);
        if let Some(odd) = flags.iter().find(|flag| !["force", "bypass", "kill"].contains(flag)) {
            return Err(format!("{odd}: force, bypass or kill"));
        }
        let request = json!({
            "version": 1,
            "action": "delete",
            "name": name.as_str(),
            "reason": "by the scenario",
            "by": "somebody",
            "force": has("force"),
            "bypass_github_unauthorized": has("bypass"),
            "kill_running_job": has("kill"),
        });
        if has("force") {
            self.change(|world| world.checker.forced.insert(name.clone()));
        }
        self.request(request);
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

/// A delivery that says something else than the truth, or says late what was once true.
fn says(world: &mut World, number: u32, status: &str) -> Result<(), String> {
    let told = match status {
        "waiting" => Status::Waiting,
        "queued" => Status::Queued,
        "completed" => Status::Completed,
        _ => return Err("waiting, queued or completed".to_owned()),
    };
    let mut job = world.github.truth_of(number).ok_or("nobody has queued it")?.clone();
    if told == Status::Completed && job.status == Status::Queued {
        return Err("a job that waits is not called completed".to_owned());
    }
    job.status = told;
    job.conclusion = (told == Status::Completed).then(|| "success".into());
    world.tell(job);
    Ok(())
}

/// A number of a scenario.
pub(super) fn number<N: std::str::FromStr>(word: &str) -> Result<N, String> {
    word.parse().map_err(|_| format!("{word}: not a number"))
}

/// A job's number: scenarios count from one.
pub(super) fn index(word: &str) -> Result<u32, String> {
    number(word)
}

fn duration(word: &str) -> Result<Millis, String> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count: Millis = number(digits)?;
    match &word[digits.len()..] {
        "s" => Ok(count * SECOND),
        "m" => Ok(count * MINUTE),
        "h" => Ok(count * HOUR),
        _ => Err(format!("{word}: a duration ends in s, m or h")),
    }
}
