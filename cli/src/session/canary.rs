//! `doctor --canary`: launches one machine without a job and follows it from launch to end.

mod evidence;

use muster_api::answers::{OrderedCanary, ShownInstance, ShownRunner};
use muster_api::{DeleteRequest, Request};
use muster_domain::instance::{Phase, RunnerState, State};
use muster_domain::time::Seconds;
use serde_json::json;

use super::{Session, pretty};
use crate::args::CanaryArgs;
use crate::doctor::canary::report::{CanaryEnd, CanaryReport, Watched};
use crate::doctor::canary::{Course, MachineStep, Shown, course, findings, settled};
use crate::doctor::has_errors;
use crate::failure::{Failure, parsed};
use crate::orders::{Details, Order};
use crate::views::canary as views;
use crate::world::{Cloud, Console};

/// How often its record is read.
const EVERY: Seconds = Seconds(2);
/// How long GitHub may take to show the agent as connected.
const CONNECTS: Seconds = Seconds(60);
/// How long to wait for the machine's end.
const ENDS: Seconds = Seconds(300);
/// The reason in the audit trail.
const REASON: &str = "the canary has finished";

impl<W: Cloud + Console> Session<'_, W> {
    pub(super) async fn canary(&mut self, order: &CanaryArgs) -> Result<String, Failure> {
        let canary = Order::Canary {
            pool: order.pool.clone(),
            entity: order.entity.clone(),
            template_image: order.template_image,
        };
        let plan = self.plan(&canary, order.by.as_deref(), None).await?;
        self.world.show(plan.page(&canary, self.screen).trim_end());
        self.confirmed(&canary, order.yes)?;
        self.world.hold().await;
        let details = Details { by: order.by.clone(), ..Details::default() };
        let request = canary.request(&details).unwrap_or_default();
        let ordered: OrderedCanary = parsed("canary", self.answer(&request).await?)?;
        let name = ordered.name.as_ref().map_or_else(String::new, ToString::to_string);
        let followed = match self.first_look(ordered, &name).await {
            Ok(mut watched) => {
                self.follow_canary(&mut watched, &name).await.map(|course| (watched, course))
            }
            Err(failure) => Err(failure),
        };
        let (watched, course) = match followed {
            Ok(followed) => followed,
            Err(failure) => return Err(self.left_alone(failure, &name, order).await),
        };
        self.ended_canary(watched, course, &name, order).await
    }

    /// Orders the delete after the command failed or was interrupted.
    async fn left_alone(&mut self, failure: Failure, name: &str, order: &CanaryArgs) -> Failure {
        let said = match self.order_end(name, order).await {
            Ok(CanaryEnd::Busy) => format!("A job runs on {name}, so it is not deleted."),
            Ok(CanaryEnd::Held) => {
                format!("Deletes are off; once they are on: muster delete {name}")
            }
            Ok(_) => format!("{name} is being deleted: muster watch {name}"),
            Err(_) => format!("{name} may still exist: muster delete {name}"),
        };
        match failure {
            Failure::Interrupted => Failure::Ended(format!("Stopped. {said}")),
            failure => {
                self.world.say(&said);
                failure
            }
        }
    }

    async fn first_look(&mut self, ordered: OrderedCanary, name: &str) -> Result<Watched, Failure> {
        let shown = self.look_at_canary(name, false).await?;
        let (machine, online_at) = (None, None);
        Ok(Watched { ordered, shown, machine, online_at, is_offline: false, told: 0 })
    }

    async fn look_at_canary(&mut self, name: &str, github: bool) -> Result<ShownInstance, Failure> {
        let request = json!(Request::Show { name: name.to_owned(), github });
        parsed("show", self.answer(&request).await?)
    }

    /// Follows the canary until its outcome is known.
    async fn follow_canary(
        &mut self,
        watched: &mut Watched,
        name: &str,
    ) -> Result<Course, Failure> {
        let mut failures = Some(0);
        loop {
            self.look_at_its_machine(watched).await?;
            let runner = &watched.shown.instance.runner;
            let (runs, since) = (runner.state == RunnerState::Idle, runner.since);
            let now = self.world.now();
            match watched.shown.runner_seen {
                Some(ShownRunner::Online | ShownRunner::Busy) if watched.online_at.is_none() => {
                    watched.online_at = Some(now.max(since));
                }
                Some(ShownRunner::Absent | ShownRunner::Offline) => watched.is_offline = true,
                _ => {}
            }
            self.tell_steps(watched);
            match course(&watched.shown.instance, now) {
                Course::Waits => {}
                Course::Listens if watched.online_at.is_none() && !now.is_past(since, CONNECTS) => {
                }
                course => return Ok(course),
            }
            if !self.world.wait(EVERY).await {
                return Err(Failure::Interrupted);
            }
            let looked = self.look_at_canary(name, runs && watched.online_at.is_none()).await;
            let (shown, note) = self.forgiven(looked, &mut failures)?;
            if let Some(note) = note {
                self.world.say(&note);
            }
            watched.shown = shown.unwrap_or_else(|| watched.shown.clone());
        }
    }

    /// Reads type, zone and market once EC2 shows them. They are only displayed.
    async fn look_at_its_machine(&mut self, watched: &mut Watched) -> Result<(), Failure> {
        let one = &watched.shown.instance;
        let Some(id) = one.machine().filter(|_| watched.machine.is_none()) else { return Ok(()) };
        // If the machine calls, EC2 already shows it.
        if one.runner.n > 0 {
            return Ok(());
        }
        match self.call(evidence::machine(id)).await {
            Ok(answer) => watched.machine = Shown::read(&answer),
            Err(failure @ Failure::NoCredentials { .. }) => return Err(failure),
            // The instance ID is printed anyway.
            Err(_) => watched.machine = Some(Shown { id: id.to_string(), ..Shown::default() }),
        }
        Ok(())
    }

    fn tell_steps(&mut self, watched: &mut Watched) {
        let all = watched.steps();
        let launched_untold = watched.machine.is_none()
            && watched.shown.instance.machine().is_some()
            && watched.shown.instance.runner.n == 0
            && watched.shown.instance.mark().is_none();
        let until = match launched_untold {
            // Wait for its type and zone, which EC2 does not show yet.
            true => {
                all.iter().position(|taken| taken.step == MachineStep::Reached(Phase::Launched))
            }
            false => None,
        };
        let until = until.unwrap_or(all.len());
        if !self.json {
            for taken in all.iter().take(until).skip(watched.told) {
                let line = views::step(taken, watched, self.screen);
                self.world.print(&line);
            }
        }
        watched.told = watched.told.max(until);
    }

    /// Orders an ordinary delete and builds the report.
    async fn ended_canary(
        &mut self,
        mut watched: Watched,
        course: Course,
        name: &str,
        order: &CanaryArgs,
    ) -> Result<String, Failure> {
        let evidence = match self.evidence(&watched, course).await {
            Ok(evidence) => evidence,
            Err(failure) => return Err(self.left_alone(failure, name, order).await),
        };
        // Read the record before the delete: the delete is not the machine's failure.
        let online = watched.online_at.map(|_| true).or(watched.is_offline.then_some(false));
        let mut checks = findings(&watched.shown.instance, course, online);
        checks.extend(evidence.findings());
        let end = match course {
            Course::Refused => CanaryEnd::Nothing,
            Course::Taken => CanaryEnd::Busy,
            Course::Waits | Course::Listens | Course::Unasked | Course::Mute | Course::Lost => {
                self.order_end(name, order).await?
            }
        };
        let (course, end) = match end {
            CanaryEnd::Ordered => (course, self.follow_its_end(&mut watched, name).await?),
            // It got a job at the last moment.
            CanaryEnd::Busy => (Course::Taken, end),
            CanaryEnd::Gone | CanaryEnd::Nothing | CanaryEnd::Held => (course, end),
        };
        let one = &watched.shown.instance;
        let spot =
            watched.machine.as_ref().filter(|one| !one.zone.is_empty()).map(|one| one.is_spot);
        let decoded = evidence.decoded.as_ref().and_then(|decoded| decoded.as_ref().ok());
        let rows = settled::rows(one, &watched.ordered.request, spot, decoded);
        let report = CanaryReport { watched, course, checks, rows, evidence, end };
        let is_well = !has_errors(&report.checks);
        let text = match self.json {
            true => pretty(&views::json(&report)),
            false => views::page(&report, self.screen),
        };
        if is_well { Ok(text) } else { Err(Failure::Unwell(text)) }
    }

    async fn order_end(&mut self, name: &str, order: &CanaryArgs) -> Result<CanaryEnd, Failure> {
        let request = json!(Request::Delete(DeleteRequest {
            name: name.to_owned(),
            reason: REASON.to_owned(),
            by: order.by.clone(),
            force: false,
            bypass_github_unauthorized: false,
            kill_running_job: false,
            dry_run: false,
        }));
        match self.answer(&request).await {
            Ok(_) => Ok(CanaryEnd::Ordered),
            Err(failure) => match failure.code() {
                "busy" => Ok(CanaryEnd::Busy),
                "switched_off" => Ok(CanaryEnd::Held),
                "already_deleted" => Ok(CanaryEnd::Gone),
                _ => Err(failure),
            },
        }
    }

    async fn follow_its_end(
        &mut self,
        watched: &mut Watched,
        name: &str,
    ) -> Result<CanaryEnd, Failure> {
        let until = self.world.now() + ENDS;
        let mut failures = Some(0);
        loop {
            let looked = self.look_at_canary(name, false).await;
            let (shown, _) = self.forgiven(looked, &mut failures)?;
            watched.shown = shown.unwrap_or_else(|| watched.shown.clone());
            self.tell_steps(watched);
            if watched.shown.instance.state() == State::Deleted {
                return Ok(CanaryEnd::Gone);
            }
            // The delete continues without this command.
            if self.world.now() > until || !self.world.wait(EVERY).await {
                return Ok(CanaryEnd::Ordered);
            }
        }
    }
}
