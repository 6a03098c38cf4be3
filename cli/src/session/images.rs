//! `image`: shows the machine images, changes them, and follows their builds.

use std::collections::BTreeMap;

use muster_api::answers::{FamilyStatus, ImagesStatus};
use muster_api::{ImageOrder, ImagesRequest, Request};
use muster_domain::ids::{FamilyKey, ImageId};
use muster_domain::time::{Seconds, Time};
use serde_json::{Value, json};

use super::{Session, pretty};
use crate::args::{ImageCommand, WatchArgs};
use crate::display::escaped_json;
use crate::failure::{Failure, parsed};
use crate::orders::Order;
use crate::page::TextPage;
use crate::table::{Text, TextStyle};
use crate::views::images;
use crate::words::{clock, span};
use crate::world::{Cloud, Console};

/// How often a build is checked. A build takes minutes, and each of its steps changes in a sweep, once a minute.
const EVERY: Seconds = Seconds(10);
/// How long a build may be gone before it counts as ended without a result. A build that continues with cloud-init is
/// started again by the next sweep.
const GONE_FOR: Seconds = Seconds(150);

/// How long a teardown waits for the images. They are deleted by the next sweep, unless EC2 refuses.
const DELETED_WITHIN: Seconds = Seconds(600);

/// How a family's build has ended.
type BuildResult = Result<String, String>;

/// Follows the builds of families until each has ended.
struct BuildWatch {
    only: Option<FamilyKey>,
    /// The image and the last failure of each family before its build.
    before: BTreeMap<FamilyKey, (Option<ImageId>, Option<Time>)>,
    builds: BTreeMap<FamilyKey, FollowedBuild>,
}

/// A build that is followed.
struct FollowedBuild {
    /// The last printed step.
    step: String,
    /// When it was last in progress.
    seen_at: Time,
    result: Option<BuildResult>,
}

impl BuildWatch {
    fn new(before: &ImagesStatus, only: Option<FamilyKey>) -> Self {
        let before = before.families.iter().map(|one| (one.family.clone(), results(one))).collect();
        Self { only, before, builds: BTreeMap::new() }
    }

    /// Returns what is new, in sentences.
    fn check(&mut self, status: &ImagesStatus, now: Time) -> Vec<String> {
        let mut news = Vec::new();
        for family in &status.families {
            let key = &family.family;
            let is_watched = self.only.as_ref().is_none_or(|only| only == key);
            if is_watched && let Some(step) = step(family, status.on, now) {
                let build = self.builds.entry(key.clone()).or_insert_with(|| FollowedBuild {
                    step: String::new(),
                    seen_at: now,
                    result: None,
                });
                build.seen_at = now;
                if build.result.is_none() && build.step != step {
                    news.push(format!("{key}: {step}"));
                    build.step = step;
                }
            }
        }
        for (key, build) in self.builds.iter_mut().filter(|(_, build)| build.result.is_none()) {
            let before = self.before.get(key).cloned().unwrap_or_default();
            let family = status.families.iter().find(|one| one.family == *key);
            let is_gone = now.is_past(build.seen_at, GONE_FOR);
            build.result = match family {
                Some(family) => result(family, &before, now),
                None => Some(Err(format!("{key}: no pool belongs to this family any longer"))),
            };
            if build.result.is_none() && family.is_none_or(|one| one.build.is_none()) {
                if !status.on {
                    build.result = Some(Err(format!("{key}: images were turned off")));
                } else if is_gone {
                    build.result = Some(Err(format!(
                        "{key}: the build ended without an image; for the reason: muster image history"
                    )));
                }
            }
        }
        news
    }

    fn is_over(&self) -> bool {
        self.builds.values().all(|build| build.result.is_some())
    }
}

/// Returns a family's image and its last failure: what a build changes.
fn results(family: &FamilyStatus) -> (Option<ImageId>, Option<Time>) {
    (
        family.current.as_ref().map(|image| image.id.clone()),
        family.failure.as_ref().map(|failure| failure.at),
    )
}

/// Returns how a family's build has ended, if it has.
fn result(
    family: &FamilyStatus,
    before: &(Option<ImageId>, Option<Time>),
    now: Time,
) -> Option<BuildResult> {
    let key = &family.family;
    let (image, failed_at) = results(family);
    if let Some(image) = image.filter(|image| before.0.as_ref() != Some(image)) {
        return Some(Ok(format!("{key}: {image} is ready, and the next machines boot it")));
    }
    let failure = family.failure.as_ref().filter(|_| failed_at != before.1)?;
    let next = family.next_build_at.filter(|at| *at > now);
    let next = next.map(|at| format!(" The next attempt is at {}.", clock(at, now)));
    let why = failure.why.trim_end_matches('.');
    Some(Err(format!("{key}: the build failed: {why}.{}", next.unwrap_or_default())))
}

/// Returns what a family's build waits for; `None` if no build is in progress, ordered or due.
fn step(family: &FamilyStatus, on: bool, now: Time) -> Option<String> {
    if let Some(build) = &family.build {
        let machine = build.trial.as_ref().unwrap_or(&build.builder);
        return Some(format!("{} ({machine})", build.waits_for));
    }
    let is_due = on && !family.pools.is_empty() && family.next_build_at.is_none_or(|at| at <= now);
    (is_due || family.ordered_by.is_some())
        .then(|| "the build starts as soon as a machine is available".to_owned())
}

impl<W: Cloud + Console> Session<'_, W> {
    pub(super) async fn image(
        &mut self,
        watch: WatchArgs,
        command: Option<ImageCommand>,
    ) -> Result<String, Failure> {
        let command = command.unwrap_or(ImageCommand::Status(watch));
        if let ImageCommand::History { since } = command {
            return self.audit(Some("images"), since).await;
        }
        let before = match command.watches() || command.order().is_none() {
            true => Some(self.images().await?),
            false => None,
        };
        let Some((what, family, options)) = command.order() else {
            let (answer, status) = before.ok_or(Failure::Interrupted)?;
            return match command.watches() {
                true => self.follow_builds(&status.clone(), None, Some((answer, status))).await,
                false => Ok(self.shown_images(&answer, &status)),
            };
        };
        let order = Order::Image { what, family: family.cloned() };
        if options.dry_run {
            let plan = self.plan(&order, options.attribution.by.as_deref(), None).await?;
            return Ok(self.shown_plan(&order, &plan));
        }
        let done = self.ordered(&order, &options.attribution, options.yes, None).await?;
        // The first step repeats it.
        let Some((_, before)) = before else { return Ok(done) };
        self.follow_builds(&before, family.cloned(), None).await
    }

    fn shown_images(&mut self, answer: &Value, status: &ImagesStatus) -> String {
        if self.json {
            return pretty(answer);
        }
        if self.screen.width.is_none() {
            self.tell(&images::summary(status));
        }
        images::page(status, self.world.now(), self.screen)
    }

    /// Returns the images, as the function's answer and parsed.
    pub(super) async fn images(&mut self) -> Result<(Value, ImagesStatus), Failure> {
        let answer = self.answer(&json!(Request::Images(ImagesRequest::default()))).await?;
        let status = parsed("images", answer.clone())?;
        Ok((answer, status))
    }

    /// Sends an order about all images. Returns the images after it.
    pub(super) async fn order_images(
        &mut self,
        what: ImageOrder,
        reason: &str,
        by: Option<String>,
    ) -> Result<ImagesStatus, Failure> {
        let request = ImagesRequest {
            order: Some(what),
            reason: Some(reason.to_owned()),
            by,
            ..ImagesRequest::default()
        };
        self.asked("images", Request::Images(request)).await
    }

    /// Asks in setup whether to build images, unless that is known. Returns whether a build starts. A failure does not
    /// end setup: jobs run without an image.
    pub(super) async fn offer_images(
        &mut self,
        wanted: Option<bool>,
        yes: bool,
        by: Option<String>,
    ) -> Result<bool, Failure> {
        let status = match self.images().await {
            Ok((_, status)) => status,
            Err(failure) => {
                self.world.say(&format!("! no image is built: {}", failure.sentence()));
                return Ok(false);
            }
        };
        if status.on || status.families.is_empty() {
            self.tell(if status.on { "✓ images are on: muster image" } else { "" });
            return Ok(false);
        }
        let is_wanted = match wanted {
            Some(wanted) => wanted,
            None if yes => true,
            None if self.world.is_attended() => {
                self.world.say(images::OFFER);
                let said = self.world.offer("Build an image for your machines", "yes")?;
                matches!(said.trim(), "y" | "yes" | "Y")
            }
            None => false,
        };
        if !is_wanted {
            self.world.say(
                "Machines install packages and the agent at each boot. To build an image later: muster image on",
            );
            return Ok(false);
        }
        match self.order_images(ImageOrder::On, "setup", by).await {
            Ok(status) => {
                self.world.say(&format!("✓ {}", images::done(ImageOrder::On, &status)));
                Ok(true)
            }
            Err(failure) => {
                let why = failure.sentence();
                self.world
                    .say(&format!("! no image is built: {why}\nTo try again: muster image on"));
                Ok(false)
            }
        }
    }

    /// Orders the deletion of all images before a teardown. Returns whether it has to be waited for.
    pub(super) async fn delete_images(
        &mut self,
        reason: &str,
        by: Option<String>,
    ) -> Result<bool, Failure> {
        let status = match self.order_images(ImageOrder::Delete, reason, by).await {
            Ok(status) => status,
            // A release without images.
            Err(Failure::Refused { code, .. }) if code == "bad_request" => return Ok(false),
            Err(failure) => return Err(failure),
        };
        match images::deleted(&status.changes) {
            0 => {}
            1 => self.world.say("✓ 1 machine image will be deleted"),
            number => self.world.say(&format!("✓ {number} machine images will be deleted")),
        }
        Ok(images::left(&status).is_some())
    }

    /// Waits until the stack has no image and no build, for a limited time: the images cost little, and the last page
    /// lists those that remain.
    pub(super) async fn no_images(&mut self) -> Result<(), Failure> {
        let (since, mut told) = (self.world.now(), String::new());
        loop {
            let (_, status) = self.images().await?;
            let Some(left) = images::left(&status) else {
                self.world.say("✓ no machine images are left");
                return Ok(());
            };
            if self.world.now().is_past(since, DELETED_WITHIN) {
                self.world.say(&format!(
                    "! {left} after {}; for the reason: muster logs reaper. CloudFormation does not delete images. The \
                     last lines of this command show how to delete them",
                    span(DELETED_WITHIN)
                ));
                return Ok(());
            }
            let now = format!("{left}; this takes a few minutes. q stops waiting");
            if now != told {
                self.world.say(&now);
                told = now;
            }
            self.pause().await?;
        }
    }

    /// Prints each step of the builds until they have ended. `before`: the images before the builds;
    /// `first`: what the first check shows, if that is known.
    async fn follow_builds(
        &mut self,
        before: &ImagesStatus,
        only: Option<FamilyKey>,
        mut first: Option<(Value, ImagesStatus)>,
    ) -> Result<String, Failure> {
        let mut watch = BuildWatch::new(before, only);
        let (mut failures, mut printed) = (Some(0), Value::Null);
        loop {
            let outcome = match first.take() {
                Some(first) => Ok(first),
                None => self.images().await,
            };
            let (found, note) = self.forgiven(outcome, &mut failures)?;
            self.tell(&note.unwrap_or_default());
            if let Some((answer, status)) = found {
                let now = self.world.now();
                let news = watch.check(&status, now);
                if self.json {
                    if answer != printed {
                        self.world.print(&escaped_json(&format!("{answer}\n")));
                        printed = answer;
                    }
                } else {
                    self.print_steps(&news, now);
                }
                if watch.builds.is_empty() {
                    self.tell(if status.on {
                        "No build is in progress. For the next one: muster image"
                    } else {
                        "No build is in progress, because images are off. To turn them on: muster image on"
                    });
                }
                if watch.is_over() {
                    return self.ended_builds(watch);
                }
            }
            if !self.world.wait(EVERY).await {
                return Ok(String::new());
            }
        }
    }

    fn print_steps(&mut self, news: &[String], now: Time) {
        let mut page = TextPage::new(self.screen);
        for said in news {
            match page.is_piped() {
                true => page.tabs(&[&clock(now, now), said]),
                false => page.line([
                    Text::new(clock(now, now), TextStyle::Dim),
                    Text::from(format!("  {said}")),
                ]),
            }
        }
        self.world.print(&page.into_text());
    }

    fn ended_builds(&mut self, watch: BuildWatch) -> Result<String, Failure> {
        let mut page = TextPage::new(self.screen);
        let mut failed = Vec::new();
        for result in watch.builds.into_values().filter_map(|build| build.result) {
            match result {
                Ok(said) => {
                    page.line([Text::new("✓", TextStyle::Good), Text::from(format!(" {said}"))]);
                }
                Err(why) => failed.push(why),
            }
        }
        let done = if self.json { String::new() } else { page.into_text() };
        if failed.is_empty() {
            return Ok(done);
        }
        self.world.print(&done);
        Err(Failure::Ended(failed.join("\n")))
    }
}
