//! GitHub's door.

use muster_control::ports::{Delivery, Github, JitConfig, JitError, JobSeen, Registrar};
use muster_domain::ids::{JobKey, RunnerId};
use muster_domain::instance::ErrorDetail as Told;
use muster_domain::job::JobStatus;
use muster_domain::job::labels::Labels;
use muster_domain::observation::{Deregistration, ProviderError, RunnerSeen};
use muster_domain::time::Time;

use super::{Ended, Outcome, Runner, Status};
use crate::agenda::{MINUTE, SECOND};
use crate::door::Door;
use crate::fault::Fault;
use crate::world::World;

impl World {
    fn github_told(&self, operation: &str, code: &str) -> Told {
        Told {
            at: self.time(),
            operation: operation.to_owned(),
            code: code.to_owned(),
            message: "simulated".to_owned(),
        }
    }

    /// A question that GitHub may not answer.
    fn ask_github(&mut self, registrar: &Registrar, operation: &str) -> Result<(), ProviderError> {
        let is_of = |owner: &String| registrar.entity.covers(&format!("{owner}/any"));
        let github = &self.github;
        if github.refuses.iter().any(is_of) {
            self.count_github(operation);
            return Err(ProviderError::Unauthorized(self.github_told(operation, "401")));
        }
        let forbids = operation == "generate-jitconfig";
        if forbids && github.forbids_runners.as_ref().is_some_and(is_of) {
            self.count_github(operation);
            return Err(ProviderError::Unauthorized(self.github_told(operation, "403")));
        }
        let alone = github.limits_runners.as_ref().filter(|_| forbids);
        let mut limits = github.limits.iter().chain(alone);
        let limit = limits.find(|(owner, until)| is_of(owner) && self.now < *until);
        if let Some((_, until)) = limit {
            let until = Time::from_millis(*until);
            self.count_github(operation);
            return Err(ProviderError::RateLimited(until));
        }
        self.github_answers(operation)
    }

    fn count_github(&mut self, operation: &str) {
        self.calls.github += 1;
        self.calls.github_lists += u64::from(operation == "list-runners");
    }

    /// As [`Self::ask_github`], about nobody in particular.
    pub(crate) fn github_answers(&mut self, operation: &str) -> Result<(), ProviderError> {
        self.count_github(operation);
        if self.is_away(Fault::OutageCredentials) {
            return Err(ProviderError::Unauthorized(self.github_told(operation, "401")));
        }
        if self.is_away(Fault::OutageGithub) || self.strikes(Fault::GithubFails) {
            return Err(ProviderError::Unavailable(self.github_told(operation, "502")));
        }
        if self.strikes(Fault::RateLimited) {
            let until = self.now + self.between(5 * SECOND, 10 * MINUTE);
            return Err(ProviderError::RateLimited(Time::from_millis(until)));
        }
        if self.strikes(Fault::Unauthorized) {
            return Err(ProviderError::Unauthorized(self.github_told(operation, "401")));
        }
        Ok(())
    }

    /// The answer is lost after the deed.
    fn lose_answer(&mut self, fault: Fault, operation: &str) -> Result<(), ProviderError> {
        if self.strikes(fault) {
            return Err(ProviderError::Unavailable(self.github_told(operation, "timeout")));
        }
        Ok(())
    }

    fn configure(
        &mut self,
        registrar: &Registrar,
        name: &str,
        labels: &[String],
        group: u64,
    ) -> Result<JitConfig, JitError> {
        self.check_configure(name);
        self.ask_github(registrar, "generate-jitconfig").map_err(JitError::ProviderError)?;
        let full_name = (registrar.entity.clone(), name.to_owned());
        if self.github.names.contains_key(&full_name) {
            return Err(JitError::NameTaken);
        }
        if self.github.deleted_groups.contains(&group) || self.strikes(Fault::ConfigureRefused) {
            return Err(JitError::Refused(self.github_told("generate-jitconfig", "422")));
        }
        self.github.next_runner += 1;
        let id = self.github.next_runner;
        let runner = Runner {
            id,
            name: name.to_owned(),
            entity: registrar.entity.clone(),
            labels: Labels::new(labels),
            machine: None,
            connected: false,
            barred: self.strikes(Fault::RunnerBarred),
            job: None,
            created_at: self.now,
            not_busy: Vec::new(),
        };
        self.github.runners.insert(id, runner);
        self.github.names.insert(full_name, id);
        // The request was sent twice, and the second answer is the one that arrives.
        if self.strikes(Fault::ConfigureConflict) {
            return Err(JitError::NameTaken);
        }
        self.lose_answer(Fault::ConfigureAnswerLost, "generate-jitconfig")
            .map_err(JitError::ProviderError)?;
        Ok(JitConfig { runner: RunnerId(id), encoded: id.to_string() })
    }

    /// Whether there is such a registration, at this very entity.
    fn is_registered(&self, registrar: &Registrar, id: u64) -> bool {
        self.github.runners.get(&id).is_some_and(|runner| runner.entity == registrar.entity)
    }

    /// Whether the runner's agent is there. GitHub sees its end some time later; here at once.
    pub(crate) fn is_connected(&self, id: u64) -> bool {
        self.github.runners.get(&id).is_some_and(|runner| runner.connected)
    }

    fn view(&mut self, registrar: &Registrar, id: u64) -> RunnerSeen {
        if !self.is_registered(registrar, id) {
            return RunnerSeen::Absent;
        }
        if self.github.hides_runners || self.strikes(Fault::RunnerHidden) {
            self.lies_about(id);
            self.says_quiet(id);
            RunnerSeen::Absent
        } else if self.looks_busy(id) {
            RunnerSeen::Busy(RunnerId(id))
        } else if self.is_connected(id) {
            RunnerSeen::NotBusy(RunnerId(id))
        } else {
            RunnerSeen::Offline(RunnerId(id))
        }
    }

    fn view_named(&mut self, registrar: &Registrar, name: &str) -> RunnerSeen {
        // A list may be as old as a minute (`Cache-Control: max-age=60`), and behind GitHub's own
        // records.
        let then = self.now - 2 * MINUTE;
        let name = (registrar.entity.clone(), name.to_owned());
        match self.github.names.get(&name).copied() {
            Some(id) => {
                let young = self.github.runners.get(&id).is_some_and(|one| one.created_at > then);
                if young && self.strikes(Fault::ListCached) {
                    self.lies_about(id);
                    return RunnerSeen::Absent;
                }
                self.view(registrar, id)
            }
            None => match self.github.removed.get(&name).copied() {
                Some((at, id)) if at > then && self.strikes(Fault::ListCached) => {
                    RunnerSeen::NotBusy(RunnerId(id))
                }
                _ => RunnerSeen::Absent,
            },
        }
    }

    fn job_seen(&self, repository: &str, number: u64) -> Option<JobSeen> {
        let job = self.github.job_of(JobKey { repository: 77, job: number })?;
        let status = match job.status {
            Status::Planned => return None,
            Status::Waiting => JobStatus::Waiting,
            Status::Queued => JobStatus::Queued,
            Status::InProgress => JobStatus::InProgress,
            Status::Completed => JobStatus::Completed,
        };
        job.repository.eq_ignore_ascii_case(repository).then(|| JobSeen {
            status,
            runner: job.runner.as_ref().map(|(_, name)| name.clone()),
            conclusion: job.conclusion.map(str::to_owned),
        })
    }

    fn delete_runner(&mut self, registrar: &Registrar, id: u64, by_api: bool) -> Deregistration {
        self.check_deregister(id, by_api);
        if !self.is_registered(registrar, id) {
            return Deregistration::NotFound;
        }
        if self.looks_busy(id) {
            return Deregistration::Busy;
        }
        self.check_removal(id);
        let removed = self.github.remove_runner(id, self.now);
        // An idle agent sees at once that its registration is gone; one with a job carries on.
        if let Some(machine) = removed.and_then(|runner| runner.machine) {
            self.wake_machine(machine);
        }
        Deregistration::Done
    }
}

/// Why there is no configuration, in a few words.
fn refused(error: &JitError) -> &str {
    match error {
        JitError::NameTaken => "409, the name is taken",
        JitError::ProviderError(ProviderError::RateLimited(_)) => "rate limit",
        JitError::ProviderError(
            ProviderError::Unauthorized(fault) | ProviderError::Unavailable(fault),
        )
        | JitError::Refused(fault) => &fault.code,
    }
}

/// An answer in a few words.
const fn shown(seen: RunnerSeen) -> &'static str {
    match seen {
        RunnerSeen::Absent => "not found",
        RunnerSeen::NotBusy(_) => "not busy",
        RunnerSeen::Offline(_) => "offline",
        RunnerSeen::Busy(_) => "busy",
    }
}

const fn is_busy(seen: RunnerSeen) -> bool {
    matches!(seen, RunnerSeen::Busy(_))
}

impl Door {
    /// Remembers how a call about a registration ended: whether it was called busy, or why there is
    /// no answer.
    fn note_outcome(&self, about: String, busy: Result<bool, &ProviderError>) {
        let how = match busy {
            Ok(true) => Outcome::Busy,
            Ok(false) => Outcome::Answered,
            Err(ProviderError::Unauthorized(_)) => Outcome::Refused,
            Err(ProviderError::Unavailable(_)) => Outcome::Silent,
            Err(ProviderError::RateLimited(_)) => Outcome::Limited,
        };
        let mut world = self.sim.world.borrow_mut();
        let ended = Ended { caller: world.current, at: world.now, how };
        world.github.note_outcome(about, ended);
    }

    /// An invocation without an installation token in its cache gets one first.
    async fn token(&self, registrar: &Registrar) -> Result<(), ProviderError> {
        if self.cold.get() {
            self.call(|world| world.ask_github(registrar, "access-token")).await?;
            self.cold.set(false);
        }
        Ok(())
    }
}

impl Github for Door {
    async fn configure(
        &self,
        registrar: &Registrar,
        name: &str,
        labels: &[String],
        group: u64,
    ) -> Result<JitConfig, JitError> {
        self.token(registrar).await.map_err(JitError::ProviderError)?;
        self.call(|world| {
            let answer = world.configure(registrar, name, labels, group);
            world.narrate(|| {
                let what = match &answer {
                    Ok(config) => format!("runner {}", config.runner),
                    Err(error) => refused(error).to_owned(),
                };
                format!("generate-jitconfig {name}: {what}")
            });
            answer
        })
        .await
    }

    async fn runner(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<RunnerSeen, ProviderError> {
        let look = async {
            self.token(registrar).await?;
            self.call(|world| {
                world.ask_github(registrar, "get-runner")?;
                let seen = world.view(registrar, id.0);
                world.narrate(|| format!("get-runner {id}: {}", shown(seen)));
                Ok(seen)
            })
            .await
        };
        let answer = look.await;
        self.note_outcome(id.to_string(), answer.as_ref().map(|seen| is_busy(*seen)));
        answer
    }

    async fn runner_named(
        &self,
        registrar: &Registrar,
        name: &str,
    ) -> Result<RunnerSeen, ProviderError> {
        let look = async {
            self.token(registrar).await?;
            self.call(|world| {
                world.ask_github(registrar, "list-runners")?;
                let seen = world.view_named(registrar, name);
                world.narrate(|| format!("list-runners {name}: {}", shown(seen)));
                Ok(seen)
            })
            .await
        };
        let answer = look.await;
        self.note_outcome(name.to_owned(), answer.as_ref().map(|seen| is_busy(*seen)));
        answer
    }

    async fn job(
        &self,
        registrar: &Registrar,
        repository: &str,
        number: u64,
    ) -> Result<Option<JobSeen>, ProviderError> {
        self.token(registrar).await?;
        self.call(|world| {
            world.ask_github(registrar, "get-job")?;
            let seen = world.job_seen(repository, number);
            world.narrate(|| {
                let status = seen.as_ref().map(|job| format!("{:?}", job.status));
                let number = number.saturating_sub(1000);
                format!("get-job {number}: {}", status.as_deref().unwrap_or("not found"))
            });
            Ok(seen)
        })
        .await
    }

    async fn deregister(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<Deregistration, ProviderError> {
        let delete = async {
            self.token(registrar).await?;
            self.call(|world| {
                world.ask_github(registrar, "delete-runner")?;
                if world.github.removes_nothing {
                    world.narrate(|| format!("delete-runner {id}: no answer"));
                    return Err(ProviderError::Unavailable(
                        world.github_told("delete-runner", "timeout"),
                    ));
                }
                let answer = world.delete_runner(registrar, id.0, self.is_api);
                world.narrate(|| format!("delete-runner {id}: {answer:?}"));
                world.lose_answer(Fault::DeleteAnswerLost, "delete-runner")?;
                Ok(answer)
            })
            .await
        };
        let answer = delete.await;
        let busy = answer.as_ref().map(|answer| *answer == Deregistration::Busy);
        self.note_outcome(id.to_string(), busy);
        answer
    }

    async fn deliveries(&self, since: Time) -> Result<Vec<Delivery>, ProviderError> {
        self.call(|world| {
            world.github_answers("list-deliveries")?;
            let all = world.github.attempts.iter().enumerate().rev();
            let listed = all.take_while(|(_, one)| one.at >= since.as_millis());
            Ok(listed
                .map(|(number, one)| Delivery {
                    id: number as u64,
                    guid: one.first.to_string(),
                    at: Time::from_millis(one.at),
                    settled: one.arrived,
                })
                .collect())
        })
        .await
    }

    async fn redeliver(&self, delivery: u64) -> Result<bool, ProviderError> {
        self.call(|world| {
            world.github_answers("redeliver")?;
            Ok(u32::try_from(delivery).is_ok_and(|number| world.attempt_again(number)))
        })
        .await
    }
}
