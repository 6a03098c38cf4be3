//! What a scenario can ask.

use std::collections::BTreeSet;

use muster_cloud::ec2::Market;
use muster_domain::ids::ImageId;
use muster_domain::instance::{RunnerState, State};
use muster_domain::pool::Pool;

use super::Scenario;
use super::command::{index, number};
use crate::github::Status;

impl Scenario {
    #[expect(clippy::too_many_lines, reason = "a table: an arm for each question")]
    pub(super) fn expect(&mut self, words: &[&str]) -> Result<(), String> {
        let (found, wanted) = match words {
            ["instances", count] => (self.count(State::is_live), (*count).to_owned()),
            ["deleted", count] => (self.count(|state| !state.is_live()), (*count).to_owned()),
            ["instance", number_, state] => {
                let name = self.instance(number(number_)?)?;
                let found = self.change(|world| {
                    world.tables.instances.get(&name).map(|row| row.state().to_string())
                });
                (found.unwrap_or_default(), (*state).to_owned())
            }
            ["machines", count] => {
                let live = self.change(|world| world.ec2.live());
                (live.to_string(), (*count).to_owned())
            }
            // The image that machines of a family boot: `stock`, or the number of one that EC2 made.
            ["image", family, image] => {
                let key = family.parse().map_err(|error| format!("{error}"))?;
                let found = self.change(|world| {
                    let images = world.tables.images.as_deref();
                    let family = images.and_then(|images| images.families.get(&key));
                    let current = family.and_then(|family| family.current.as_ref());
                    let number =
                        |id: &str| world.ec2.images_made().position(|(one, _)| one.id == id);
                    current.and_then(|current| number(current.id.as_str()))
                });
                let found =
                    found.map_or_else(|| "stock".to_owned(), |number| (number + 1).to_string());
                (found, (*image).to_owned())
            }
            // Those that exist at EC2.
            ["images", count] => {
                let images = self.change(|world| world.ec2.images().count());
                (images.to_string(), (*count).to_owned())
            }
            ["snapshots", count] => {
                let snapshots = self.change(|world| world.ec2.snapshots().count());
                (snapshots.to_string(), (*count).to_owned())
            }
            // Machines that were launched with an image that Muster built, to the end of a family's build too.
            ["launched", "from", "image", number_, count] => {
                let number = number::<usize>(number_)?;
                let found = self.change(|world| {
                    let id =
                        world.ec2.images_made().nth(number - 1).map(|(image, _)| image.id.clone());
                    let rows = world.tables.instances.values();
                    rows.filter(|row| row.image.as_ref().map(ImageId::as_str) == id.as_deref())
                        .count()
                });
                (found.to_string(), (*count).to_owned())
            }
            ["orphans", count] => {
                let orphans = self.change(|world| world.tables.orphans.len());
                (orphans.to_string(), (*count).to_owned())
            }
            ["runners", count] => {
                let runners = self.change(|world| world.github.truth.runners().count());
                (runners.to_string(), (*count).to_owned())
            }
            // Those that are being removed with a minus before their name.
            ["pools", wanted @ ..] => {
                let found = self.change(|world| {
                    let set = world.tables.pools.clone();
                    let pools = set.map(|set| set.into_record().pools).unwrap_or_default();
                    let sign = |removed: bool| if removed { "-" } else { "" };
                    let told = |pool: &Pool| format!("{}{}", sign(pool.is_removed()), pool.name);
                    pools.iter().map(told).collect::<Vec<_>>().join(" ")
                });
                (found, wanted.join(" "))
            }
            ["job", job, status] => (self.status(index(job)?)?, (*status).to_owned()),
            // The first of them with another status.
            ["jobs", first, "to", last, status] => {
                let all = (index(first)?..=index(last)?).map(|job| self.status(job));
                let all = all.collect::<Result<Vec<_>, _>>()?;
                let other = all.into_iter().find(|found| found != status);
                (other.unwrap_or_else(|| (*status).to_owned()), (*status).to_owned())
            }
            ["job", job, "in", pool] => (self.pool_of(index(job)?), (*pool).to_owned()),
            ["idle", pool, count] => {
                let found = self.change(|world| {
                    let rows = world.tables.instances.values();
                    let free = rows.filter(|row| {
                        row.pool.as_str() == *pool
                            && row.is_free_supply()
                            && row.runner.state == RunnerState::Idle
                    });
                    free.count()
                });
                (found.to_string(), (*count).to_owned())
            }
            ["job", job, "waits", "for", instance] => self.claim(job, instance)?,
            ["job", job, "held", why @ ..] => {
                let why = why.join(" ");
                let told = self.hold(index(job)?);
                (if told.starts_with(&why) { why.clone() } else { told }, why)
            }
            ["told", words @ ..] => {
                let words = words.join(" ");
                let told = self.change(|world| world.explained.join(" "));
                (if told.contains(&words) { words.clone() } else { told }, words)
            }
            ["market", machine, market] => {
                let machine = self.machine(number(machine)?)?;
                let found = self.change(|world| world.ec2.instance(machine).market);
                let found = if found == Market::Spot { "spot" } else { "on-demand" };
                (found.to_owned(), (*market).to_owned())
            }
            // Attempts of a job's run.
            ["attempts", "of", "job", job, count] => {
                let job = index(job)?;
                let found =
                    self.change(|world| world.github.truth.last_attempt(world.github.run_of(job)));
                (found.to_string(), (*count).to_owned())
            }
            // What its usage record says: the attempt that was interrupted, and who caused the run.
            ["job", job, "repeats", "attempt", attempt, "for", actor] => {
                let job = index(job)?;
                let found = self.change(|world| {
                    let key = world.github.job(job).key;
                    let lines = world.tables.usage.values().filter_map(|line| line.job.as_ref());
                    let of = lines.filter(|of| of.key == key);
                    let told = of.map(|of| (of.rerun.map(|rerun| rerun.of), of.actor.clone()));
                    told.map(|(of, who)| format!("{of:?} {who:?}")).collect::<Vec<_>>().join(", ")
                });
                (found, format!("Some({attempt}) Some({actor:?})"))
            }
            ["launched", count] => {
                let launched = self.change(|world| world.ec2.machines.len());
                (launched.to_string(), (*count).to_owned())
            }
            ["launches", count] => {
                let launches: BTreeSet<_> = self.change(|world| {
                    world.ec2.machines.iter().filter_map(|machine| machine.launch.clone()).collect()
                });
                (launches.len().to_string(), (*count).to_owned())
            }
            ["claimed", count] => {
                let claimed = self.change(|world| {
                    world.tables.jobs.values().filter(|job| job.claim.is_some()).count()
                });
                (claimed.to_string(), (*count).to_owned())
            }
            ["waiting", count] => {
                let waiting = self.change(|world| {
                    world.tables.jobs.values().filter(|job| job.is_waiting()).count()
                });
                (waiting.to_string(), (*count).to_owned())
            }
            ["audits", kind, count] => {
                let found = self.change(|world| {
                    let lines = world.tables.audits.iter();
                    lines.filter(|line| format!("{:?}", line.kind) == *kind).count()
                });
                (found.to_string(), (*count).to_owned())
            }
            _ => return Err("no such expectation".to_owned()),
        };
        if found == wanted { Ok(()) } else { Err(format!("it is {found}")) }
    }

    fn count(&mut self, of: impl Fn(State) -> bool) -> String {
        let count = self
            .change(|world| world.tables.instances.values().filter(|row| of(row.state())).count());
        count.to_string()
    }

    fn status(&mut self, job: u32) -> Result<String, String> {
        self.change(|world| {
            world.github.jobs.get(job as usize).ok_or("no such job")?;
            let Some(job) = world.github.truth_of(job) else { return Ok("planned".to_owned()) };
            let status = match job.status {
                Status::Waiting => "gated",
                Status::Queued => "queued",
                Status::InProgress if job.began_at.is_none() => "taken",
                Status::InProgress => "running",
                Status::Completed => job.conclusion.as_deref().unwrap_or_default(),
            };
            Ok(status.to_owned())
        })
    }

    /// The pool that a job's row names.
    fn pool_of(&mut self, job: u32) -> String {
        self.change(|world| {
            let key = world.github.jobs.get(job as usize).map(|job| job.key);
            let row = key.and_then(|key| world.tables.jobs.get(&key));
            let pool = row.and_then(|row| row.pool.as_ref());
            pool.map_or_else(|| "no pool".to_owned(), ToString::to_string)
        })
    }

    /// Why no machine is launched for a job now.
    fn hold(&mut self, job: u32) -> String {
        self.change(|world| {
            let key = world.github.jobs.get(job as usize).map(|job| job.key);
            let row = key.and_then(|key| world.tables.jobs.get(&key));
            let block = row.filter(|row| row.is_demand()).and_then(|row| world.block_of(row));
            block.map_or_else(|| "by nothing".to_owned(), |block| block.why)
        })
    }

    fn claim(&mut self, job: &str, instance: &str) -> Result<(String, String), String> {
        let job = index(job)?;
        let claim = self.change(|world| {
            let key = world.github.jobs.get(job as usize)?.key;
            world.tables.jobs.get(&key)?.claim.clone()
        });
        let found = claim.map_or_else(|| "nobody".to_owned(), |name| name.to_string());
        let wanted = match instance {
            "nobody" => "nobody".to_owned(),
            other => self.instance(number(other)?)?.to_string(),
        };
        Ok((found, wanted))
    }
}
