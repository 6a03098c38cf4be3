//! What a scenario has EC2, GitHub and Muster's own services do wrong.

use muster_cloud::github::Agents;
use muster_domain::ec2::Bucket;
use muster_domain::ids::AppName;

use super::Scenario;
use super::command::{duration, index, number};
use crate::agenda::{Event, Millis};
use crate::ec2::Scripted;
use crate::fault::Fault;
use crate::github::{AppTrouble, RerunTrouble, Status};
use crate::world::{Window, World};

fn app_name(text: &str) -> Result<AppName, String> {
    text.parse().map_err(|_| format!("{text} is not an App's name"))
}

impl Scenario {
    pub(super) fn github(&mut self, rest: &[&str]) -> Result<(), String> {
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
                ["revokes", "app", app] => {
                    script.apps.insert(app_name(app)?, AppTrouble::Revoked);
                }
                ["limits", "app", app, "for", length] => {
                    let trouble = AppTrouble::Limited(world.now + duration(length)?);
                    script.apps.insert(app_name(app)?, trouble);
                }
                ["silences", "app", app] => {
                    script.apps.insert(app_name(app)?, AppTrouble::Silent);
                }
                ["mends", "app", app] => {
                    script.apps.remove(&app_name(app)?);
                }
                ["refuses", owner] => {
                    script.refuses.insert((*owner).to_owned());
                }
                ["forbids", "re-runs"] => script.rerun_trouble = Some(RerunTrouble::Forbidden),
                ["ignores", "re-runs"] => script.rerun_trouble = Some(RerunTrouble::Ignored),
                ["allows", "re-runs"] => script.rerun_trouble = None,
                ["accepts", owner] if *owner != "all" => {
                    script.refuses.remove(*owner);
                }
                ["accepts", "all"] => {
                    script.refuses.clear();
                    script.forbids_runners = None;
                    script.forbids_group = None;
                }
                ["gives", "jobs"] => {
                    script.gives_jobs = true;
                    let now = world.now;
                    world.agenda.at(now, Event::Dispatch);
                }
                ["lists", "agent", version] => {
                    let (sha256, from) = ("0".repeat(64), github.truth.agents.takes_from.take());
                    github.truth.agents = Agents {
                        takes_from: from,
                        ..Agents::listing(version, "https://github.com", &sha256)
                    };
                }
                ["takes", "agents", "from", version] => {
                    github.truth.agents.takes_from = Some((*version).to_owned());
                }
                ["takes", "all", "agents"] => github.truth.agents.takes_from = None,
                ["forbids", "runners", "of", owner] => {
                    script.forbids_runners = Some((*owner).to_owned());
                }
                ["forbids", "group", group] => script.forbids_group = Some(number(group)?),
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
                ["ends", "the", "run", "of", "job", job, "but", "not", "the", "job"] => {
                    return end_run(world, index(job)?, false);
                }
                ["deletes", "the", "run", "of", "job", job] => {
                    return end_run(world, index(job)?, true);
                }
                ["says", "the", "run", "of", "job", job, "is", "a", "month", "old"] => {
                    let truth = world.github.truth_of(index(job)?);
                    let run = truth.ok_or("nobody has queued it")?.run_id;
                    world.github.script.old_run = Some(run);
                }
                ["says", "job", job, "is", status] => return says(world, index(job)?, status),
                _ => return Err("GitHub does no such thing".to_owned()),
            }
            Ok(())
        })
    }

    pub(super) fn fail(&mut self, rest: &[&str]) -> Result<(), String> {
        let (scripted, count) = match rest {
            ["ec2", "launch", "lost"] => (Scripted::LaunchAnswerLost, 1),
            ["ec2", "launch", "undone"] => (Scripted::LaunchTimedOut, 1),
            ["ec2", "launch", "capacity", count] => (Scripted::NoCapacity, number(count)?),
            ["ec2", "terminate", "for", "ever"] => (Scripted::TerminateFails, 10_000),
            ["ec2", "image", "lost"] => (Scripted::ImageAnswerLost, 1),
            ["ec2", "image", "undone"] => (Scripted::ImageTimedOut, 1),
            ["ec2", "image", "pending"] => (Scripted::ImageFails, 1),
            ["ec2", "deregister", count] => (Scripted::DeregisterFails, number(count)?),
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
            ["ec2", "spot", "unknown"] => {
                self.change(|world| world.ec2.spot_errs = true);
                return Ok(());
            }
            ["ec2", "type", kind] => {
                self.change(|world| world.ec2.forbidden_type = Some((*kind).to_owned()));
                return Ok(());
            }
            ["ec2"] => return self.outage(Fault::OutageEc2),
            ["github"] => return self.outage(Fault::OutageGithub),
            ["machine", "events"] => {
                self.change(|world| world.fault_rates.set(Fault::StateEventLost, 1_000_000));
                return Ok(());
            }
            [what] if machine_fault(what).is_some() => {
                let fault = machine_fault(what).ok_or("no such failure")?;
                self.change(|world| world.fault_rates.set(fault, 1_000_000));
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

    pub(super) fn outage(&mut self, fault: Fault) -> Result<(), String> {
        self.change(|world| {
            let from = world.now;
            world.windows.push(Window { fault, from, until: Millis::MAX });
        });
        Ok(())
    }

    pub(super) fn mend(&mut self, what: &str) -> Result<(), String> {
        self.change(|world| {
            match what {
                "ec2" => {
                    world.ec2.script.clear();
                    world.ec2.without_quota = None;
                    world.ec2.forbidden_type = None;
                    world.ec2.spot_errs = false;
                    world.windows.retain(|window| window.fault != Fault::OutageEc2);
                }
                "github" => world.windows.retain(|window| window.fault != Fault::OutageGithub),
                "wake-ups" => world.fault_rates.set(Fault::MessageLost, 0),
                "tables" => world.fault_rates.set(Fault::CommitRefused, 0),
                "listings" => world.fault_rates.set(Fault::IndexLate, 0),
                _ => {
                    let fault = machine_fault(what).ok_or(
                        "agents, boots, configurations, ec2, github, listings, machines, \
                         registrations, starts, tables or wake-ups",
                    )?;
                    world.fault_rates.set(fault, 0);
                }
            }
            Ok(())
        })
    }
}

/// What is wrong with every machine.
fn machine_fault(what: &str) -> Option<Fault> {
    Some(match what {
        "machines" => Fault::LaunchAborted,
        "starts" => Fault::NeverBoots,
        "boots" => Fault::BootFails,
        "agents" => Fault::AgentGivesUp,
        "registrations" => Fault::ConfigureAnswerLost,
        "re-runs" => Fault::RerunAnswerLost,
        "configurations" => Fault::ConfigureRefused,
        _ => return None,
    })
}

/// A run comes to its end without its jobs.
fn end_run(world: &mut World, number: u32, is_deleted: bool) -> Result<(), String> {
    let run = world.github.truth_of(number).ok_or("nobody has queued it")?.run_id;
    if is_deleted {
        world.github.truth.delete_run(run);
    } else {
        world.github.truth.end_run(run, "startup_failure");
    }
    Ok(())
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
