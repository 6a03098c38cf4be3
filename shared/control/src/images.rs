//! Builds machine images, one step of a build per sweep, and deletes unused images.
//!
//! Every step is a conditional write of the record of images, and every effect can be repeated: an image's name at EC2
//! is the ID of its builder's launch, so that an image whose answer was lost is found by its name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_domain::agent::{AgentVersion, Agents};
use muster_domain::causes::with_causes;
use muster_domain::hash::fnv1a;
use muster_domain::ids::{Entity, FamilyKey, ImageId, InstanceName};
use muster_domain::image::{
    self, Build, BuildEnd, BuildStep, BuiltImage, EC2_CREATES_FOR, EC2_HIDES_FOR, Family,
    ImageChoice, Images, MAX_TRIALS, MachineEnd, TRIED_WITHIN, Trust, Verdict, has_booted,
};
use muster_domain::instance::{Baked, BootMethod, BuildPart, Instance, RunnerState};
use muster_domain::launch::plan::{LAUNCH_TAG, POOL_TAG, STACK_TAG};
use muster_domain::launch::verdict::Block;
use muster_domain::observation::RunnerSeen;
use muster_domain::pool::{Image, Pool};
use muster_domain::provider::ProviderError;
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};

use crate::context::{Context, Ports};
use crate::image_record::{boots, entry};
use crate::launches::single::{self, NotPlanned, SingleLaunch};
use crate::metrics::{Measure, Metric};
use crate::ports::{
    CommitError, CreateImageError, Github as _, ImageState, ImageStore, Instances as _,
    Launches as _, NewImage, Operations as _, Queue as _, StackImage, Table, Write,
};
use crate::reaps::reap::registrar;
use crate::wake::reap_message;
use crate::writes::{self, PassError};

/// The script that prepares a builder's disk.
pub const BAKE: &str = include_str!("../../../infra/image/bake.sh");
/// Where a builder is registered if its pool does not show where: it never registers a runner.
const NOWHERE: &str = "muster-image";
/// The cursor of the search for images that no record names.
const TIDIED: &str = "images";
/// How often that search runs.
const TIDIES_EVERY: Seconds = Seconds(3600);
/// Minimum age of an image that no record names before it is deleted.
const STRAY_AFTER: Seconds = Seconds(2 * 3600);
/// Maximum number of images that a sweep deletes.
const MAX_DELETED: usize = 10;

/// The result of the pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImagesReport {
    /// The largest number of builds in a row that failed for a family; zero while images are off.
    pub failures: u32,
    /// Problems of this sweep.
    pub problems: Vec<String>,
}

impl ImagesReport {
    /// Returns the metrics.
    #[must_use]
    pub fn measures(&self) -> Vec<Measure> {
        vec![Measure::count(Metric::ImageBuildsFailed, self.failures as usize)]
    }
}

/// The pass over images.
pub struct ImageBuilds<'a, P: Ports> {
    /// The ports, and the settings with the current pools.
    pub context: Context<'a, P>,
}

/// What a build does next.
enum Advance {
    /// Nothing changed.
    Waits,
    /// Its next step.
    Step(BuildStep),
    /// It ends.
    Ends(BuildEnd),
}

/// Why a family gets no machine for its build now.
enum NoMachine {
    Blocked(Block),
    NoName,
}

impl<P: Ports<Compute: ImageStore>> ImageBuilds<'_, P> {
    /// Does what is due. A failure leaves the rest to the next sweep.
    pub async fn run(&self, now: Time) -> ImagesReport {
        let mut report = ImagesReport::default();
        if self.context.settings.unknown_pools().is_some() {
            return report;
        }
        match self.work(&mut report, now).await {
            // A concurrent sweep or an operator was faster.
            Ok(()) | Err(PassError::Commit(CommitError::Conflict)) => {}
            Err(error) => {
                tracing::error!(error = with_causes(&error), "images: the pass stopped");
                report.problems.push(format!("images: {}", with_causes(&error)));
            }
        }
        report
    }

    async fn work(&self, report: &mut ImagesReport, now: Time) -> Result<(), PassError> {
        let Some(mut stored) = self.context.table.images().await? else { return Ok(()) };
        report.failures = stored.failures();
        stored = self.note_pools(stored, now).await?;
        stored = self.judge(stored, now).await?;
        stored = match stored.build() {
            Some((key, build)) => {
                let (key, build) = (key.clone(), build.clone());
                self.progress(stored, &key, &build, report, now).await?
            }
            None if stored.on => self.begin(stored, now).await?,
            None => stored,
        };
        self.tidy(stored, report, now).await
    }

    /// Commits the record with further writes.
    async fn put(
        &self,
        stored: &Stored<Images>,
        next: Images,
        others: Vec<Write>,
    ) -> Result<Stored<Images>, PassError> {
        let change = stored.change(next);
        let mut writes = vec![change.clone().into()];
        writes.extend(others);
        let committed = self.context.table.commit(&writes).await?;
        Ok(change.stored(&committed))
    }

    /// Forgets families whose pools are gone, and cancels their builds.
    async fn note_pools(
        &self,
        stored: Stored<Images>,
        now: Time,
    ) -> Result<Stored<Images>, PassError> {
        let mut next = stored.record().clone();
        next.note_pools(&self.context.settings.pools, now);
        match next == *stored {
            true => Ok(stored),
            false => self.put(&stored, next, Vec::new()).await,
        }
    }

    /// Decides about images on probation.
    async fn judge(&self, stored: Stored<Images>, now: Time) -> Result<Stored<Images>, PassError> {
        let mut names = BTreeSet::new();
        for current in stored.families.values().filter_map(|family| family.current.as_ref()) {
            if let Trust::Probation(machines) = &current.trust {
                names.extend(machines.iter().cloned());
            }
        }
        if names.is_empty() {
            return Ok(stored);
        }
        let machines = self.instances(names).await?;
        let mut next = stored.record().clone();
        let verdicts = next.judge(|name| machines.get(name).map(Stored::record), now);
        if next == *stored {
            return Ok(stored);
        }
        let audit = verdicts.iter().map(|(key, verdict)| {
            let what = match verdict {
                Verdict::Proven(image) => format!("a machine of {key} booted {image}: all machines boot it now"),
                Verdict::Rejected(image, why) => {
                    tracing::error!(family = %key, image = %image, why, "went back to the image before");
                    format!("no machine of {key} boots {image}; they boot {} now: {why}", boots(&next, key))
                }
            };
            entry("muster", &what, now)
        });
        let audit = audit.collect();
        self.put(&stored, next, audit).await
    }

    /// Reads instances by name. Leaves out missing and unreadable records.
    async fn instances(
        &self,
        names: BTreeSet<InstanceName>,
    ) -> Result<BTreeMap<InstanceName, Stored<Instance>>, PassError> {
        let mut all = BTreeMap::new();
        for name in names {
            let read = writes::readable(self.context.table.instance(&name).await)?;
            all.extend(read.map(|instance| (name, instance)));
        }
        Ok(all)
    }

    /// Starts a build if one is due. Only one runs at a time.
    async fn begin(&self, stored: Stored<Images>, now: Time) -> Result<Stored<Images>, PassError> {
        let settings = self.context.settings;
        let agents = writes::readable(self.context.table.cooldowns().await)?;
        let newest = agents.as_ref().and_then(|record| newest_agent(&record.agents));
        let none = Family::default();
        let mut blocked = BTreeMap::new();
        for (key, pools) in image::families(&settings.pools) {
            let family = stored.families.get(&key).unwrap_or(&none);
            let Some(pool) = image::building_pool(&pools) else { continue };
            let scripts = scripts_of(pool);
            let Some(reason) = family.due(&scripts, newest, now) else { continue };
            let home = image::home(pool).or_else(|| NOWHERE.parse().ok());
            let Some(home) = home else { continue };
            let boot = family.boot_method(&scripts);
            let part = BuildPart::Builder { boot, baked: None };
            let single = match self.plan(pool, home, part, None, &key, now).await? {
                Ok(single) => single,
                Err(NoMachine::Blocked(block)) => {
                    tracing::info!(family = %key, why = block.why, "a build waits for a machine");
                    blocked.insert(key, block.why);
                    continue;
                }
                Err(NoMachine::NoName) => {
                    blocked.insert(key, format!("the name of pool {} is too long", pool.name));
                    continue;
                }
            };
            let launch = &single.planned.launch;
            let Some(builder) = launch.slots.first().cloned() else { continue };
            let mut next = stored.record().clone();
            let family = next.family_mut(&key);
            family.blocked = None;
            let by = family.ordered_by.take();
            let what = format!(
                "build of an image for {key} started, in pool {}: {}",
                pool.name,
                reason.sentence()
            );
            let audit = entry(by.as_deref().unwrap_or("muster"), &what, now);
            family.build = Some(Build {
                pool: pool.name.clone(),
                builder,
                launch: launch.id.clone(),
                since: now,
                reason,
                by,
                scripts,
                step: BuildStep::Preparing,
            });
            let mut others = single.writes(settings);
            others.push(audit);
            let stored = self.put(&stored, next, others).await?;
            single::wake(self.context, pool).await;
            return Ok(stored);
        }
        let mut next = stored.record().clone();
        for family in next.families.values_mut() {
            family.blocked = None;
        }
        for (key, why) in blocked {
            next.family_mut(&key).blocked = Some(why);
        }
        if next == *stored { Ok(stored) } else { self.put(&stored, next, Vec::new()).await }
    }

    /// Plans a machine of a build.
    async fn plan(
        &self,
        pool: &Pool,
        home: Entity,
        part: BuildPart,
        image: Option<&ImageId>,
        key: &FamilyKey,
        now: Time,
    ) -> Result<Result<SingleLaunch, NoMachine>, PassError> {
        let Context { table, settings, .. } = self.context;
        let pool = &Pool { entity: Some(home), ..pool.clone() };
        let what = if image.is_some() { "trial" } else { "builder" };
        let seed = fnv1a(format!("{what} {key} {now}").as_bytes());
        let choice = ImageChoice { image: image.cloned(), ..ImageChoice::default() };
        let single = SingleLaunch::plan(table, settings, pool, |_| choice, seed, now).await;
        let mut single = match single {
            Ok(single) => single,
            Err(NotPlanned::Read(error)) => return Err(error.into()),
            Err(NotPlanned::Blocked(block)) => return Ok(Err(NoMachine::Blocked(block))),
            Err(NotPlanned::NoName) => return Ok(Err(NoMachine::NoName)),
        };
        for one in &mut single.planned.idle {
            one.build = Some(part.clone());
            one.tell(now, format!("the {what} of an image for {key}"));
        }
        Ok(Ok(single))
    }

    /// Takes a build one step further.
    async fn progress(
        &self,
        stored: Stored<Images>,
        key: &FamilyKey,
        build: &Build,
        report: &mut ImagesReport,
        now: Time,
    ) -> Result<Stored<Images>, PassError> {
        let has_pool =
            image::families(&self.context.settings.pools).iter().any(|(own, _)| own == key);
        let next = match &build.step {
            _ if !stored.on || !has_pool => Advance::Ends(BuildEnd::Cancelled),
            BuildStep::Preparing => self.prepared(build, now).await?,
            BuildStep::Creating { since, baked, image: None } => {
                self.create(build, *since, baked, report, now).await?
            }
            BuildStep::Creating { since, baked, image: Some(image) } => {
                self.created(build, *since, baked, image, report, now).await?
            }
            BuildStep::Trying { since, image, trial: None, lost } => {
                self.leave(&build.builder, now).await;
                return self.launch_trial(stored, key, build, (*since, image, *lost), now).await;
            }
            BuildStep::Trying { since, image, trial: Some(trial), lost } => {
                self.leave(&build.builder, now).await;
                self.tried(*since, image, trial, *lost).await?
            }
        };
        match next {
            Advance::Waits => Ok(stored),
            Advance::Step(step) => {
                // The intent is on record: EC2 can be called.
                let calls = match &step {
                    BuildStep::Creating { image, .. } => image.is_none(),
                    BuildStep::Trying { trial, .. } => trial.is_none(),
                    BuildStep::Preparing => false,
                };
                let stored = self.step(&stored, key, step).await?;
                match stored.build().map(|(_, build)| build.clone()) {
                    Some(build) if calls => {
                        Box::pin(self.progress(stored, key, &build, report, now)).await
                    }
                    _ => Ok(stored),
                }
            }
            Advance::Ends(end) => self.end(&stored, key, build, end, now).await,
        }
    }

    async fn step(
        &self,
        stored: &Stored<Images>,
        key: &FamilyKey,
        step: BuildStep,
    ) -> Result<Stored<Images>, PassError> {
        let mut next = stored.record().clone();
        if let Some(build) = &mut next.family_mut(key).build {
            build.step = step;
        }
        self.put(stored, next, Vec::new()).await
    }

    /// Ends a build, and then its machines. If this is interrupted, the machines end at their own deadlines.
    async fn end(
        &self,
        stored: &Stored<Images>,
        key: &FamilyKey,
        build: &Build,
        end: BuildEnd,
        now: Time,
    ) -> Result<Stored<Images>, PassError> {
        let what = match &end {
            BuildEnd::Made(made) => described(key, made),
            BuildEnd::Failed(why) => format!("build of an image for {key} failed: {why}"),
            BuildEnd::UnitFailed => {
                format!(
                    "a machine of the new image for {key} did not boot by Muster's unit: the next build uses cloud-init"
                )
            }
            BuildEnd::Lost => {
                format!("build of an image for {key} was lost, and starts again soon")
            }
            BuildEnd::Cancelled => format!("build of an image for {key} was cancelled"),
        };
        tracing::info!(family = %key, what, "a build ended");
        let mut next = stored.record().clone();
        next.end_build(key, end, now);
        let stored = self.put(stored, next, vec![entry("muster", &what, now)]).await?;
        for name in build.instances() {
            self.leave(name, now).await;
        }
        Ok(stored)
    }

    /// Marks a machine that the build no longer needs. If that fails, the next sweep or the machine's deadline does it.
    async fn leave(&self, name: &InstanceName, now: Time) {
        let left = async {
            let Some(stored) = self.context.table.instance(name).await? else { return Ok(()) };
            let mut next = stored.record().clone();
            next.leave_build(now);
            if let Some(change) = stored.changed(next) {
                let committed = self.context.table.commit(&[change.clone().into()]).await?;
                let message = reap_message(&change.stored(&committed), now);
                self.context.queue.send_reap(&[message]).await?;
            }
            Ok::<(), PassError>(())
        };
        if let Err(error) = left.await {
            tracing::info!(instance.id = %name, error = with_causes(&error), "a build's machine ends later");
        }
    }

    /// Checks whether the builder's disk is ready.
    async fn prepared(&self, build: &Build, now: Time) -> Result<Advance, PassError> {
        let builder = writes::readable(self.context.table.instance(&build.builder).await)?;
        if let Some(baked) = builder.as_ref().and_then(|builder| builder.baked()) {
            let baked = baked.clone();
            return Ok(Advance::Step(BuildStep::Creating { since: now, baked, image: None }));
        }
        Ok(match MachineEnd::of(builder.as_deref()) {
            None => Advance::Waits,
            Some(MachineEnd::Failed(why)) => Advance::Ends(BuildEnd::Failed(why)),
            Some(MachineEnd::Lost(_)) => Advance::Ends(BuildEnd::Lost),
        })
    }

    /// Creates the image, or finds the one of an earlier call.
    async fn create(
        &self,
        build: &Build,
        since: Time,
        baked: &Baked,
        report: &mut ImagesReport,
        now: Time,
    ) -> Result<Advance, PassError> {
        let compute = self.context.compute;
        let known = |image| {
            Advance::Step(BuildStep::Creating { since, baked: baked.clone(), image: Some(image) })
        };
        let is_late = now.is_past(since, EC2_HIDES_FOR);
        if since < now {
            match compute.stack_images().await {
                Ok(all) => {
                    let own = all.into_iter().find(|image| image.name == build.launch.as_str());
                    if let Some(own) = own {
                        return Ok(known(own.id));
                    }
                }
                Err(error) => return Ok(refused(&error, is_late, report)),
            }
        }
        let builder = writes::readable(self.context.table.instance(&build.builder).await)?;
        let Some(machine) = builder.as_ref().and_then(|builder| builder.machine()) else {
            return Ok(Advance::Ends(BuildEnd::Lost));
        };
        let tags = [
            (STACK_TAG, self.context.settings.stack.as_str()),
            (LAUNCH_TAG, build.launch.as_str()),
            (POOL_TAG, build.pool.as_str()),
            ("Name", build.launch.as_str()),
        ];
        let image = NewImage {
            name: build.launch.to_string(),
            description: format!("Muster machine image of stack {}", self.context.settings.stack),
            tags: tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        };
        Ok(match compute.create_image(machine, &image).await {
            Ok(image) => known(image),
            // The listing shows it soon.
            Err(CreateImageError::NameTaken) if !is_late => Advance::Waits,
            Err(CreateImageError::NameTaken) => Advance::Ends(BuildEnd::Failed(
                "EC2 does not show the image that it created".to_owned(),
            )),
            // An earlier call may have succeeded.
            Err(CreateImageError::MachineGone(_)) if since < now && !is_late => Advance::Waits,
            Err(CreateImageError::MachineGone(_)) => Advance::Ends(BuildEnd::Lost),
            Err(CreateImageError::Provider(error)) => refused(&error, is_late, report),
        })
    }

    /// Checks whether EC2 has created the image.
    async fn created(
        &self,
        build: &Build,
        since: Time,
        baked: &Baked,
        image: &ImageId,
        report: &mut ImagesReport,
        now: Time,
    ) -> Result<Advance, PassError> {
        let all = match self.context.compute.stack_images().await {
            Ok(all) => all,
            Err(error) => return Ok(refused(&error, now.is_past(since, EC2_CREATES_FOR), report)),
        };
        let seen = all.into_iter().find(|one| one.id == *image);
        let failed = |why: String| Advance::Ends(BuildEnd::Failed(why));
        Ok(match seen {
            Some(StackImage { state: ImageState::Available, disk_gib, .. }) => {
                let image = Box::new(build.built(image.clone(), baked, disk_gib));
                Advance::Step(BuildStep::Trying { since: now, image, trial: None, lost: 0 })
            }
            Some(StackImage { state: ImageState::Failed(why), .. }) => {
                failed(format!("EC2 could not create the image: {why}"))
            }
            Some(_) if now.is_past(since, EC2_CREATES_FOR) => {
                failed(format!("EC2 has not created the image in {EC2_CREATES_FOR}"))
            }
            None if now.is_past(since, EC2_HIDES_FOR) => {
                failed("EC2 no longer shows the image".to_owned())
            }
            Some(_) | None => Advance::Waits,
        })
    }

    /// Launches the machine that tries an image.
    async fn launch_trial(
        &self,
        stored: Stored<Images>,
        key: &FamilyKey,
        build: &Build,
        (since, image, lost): (Time, &BuiltImage, u32),
        now: Time,
    ) -> Result<Stored<Images>, PassError> {
        let settings = self.context.settings;
        let untried = |why: &str| made(image, Some(why.to_owned()));
        let families = image::families(&settings.pools);
        let pools = families.iter().find(|(own, _)| own == key).map(|(_, pools)| pools.as_slice());
        let Some(pool) = image::building_pool(pools.unwrap_or_default()) else { return Ok(stored) };
        let Some(home) = image::home(pool) else {
            let why =
                format!("pool {} does not say where to register a runner without a job", pool.name);
            return self.end(&stored, key, build, untried(&why), now).await;
        };
        if lost >= MAX_TRIALS {
            let why = format!("EC2 ended {lost} machines that tried it");
            return self.end(&stored, key, build, untried(&why), now).await;
        }
        match self.plan(pool, home, BuildPart::Trial, Some(&image.id), key, now).await? {
            Ok(single) => {
                let trial = single.planned.launch.slots.first().cloned();
                let step = BuildStep::Trying { since, image: Box::new(image.clone()), trial, lost };
                let mut next = stored.record().clone();
                if let Some(build) = &mut next.family_mut(key).build {
                    build.step = step;
                }
                let stored = self.put(&stored, next, single.writes(settings)).await?;
                single::wake(self.context, pool).await;
                Ok(stored)
            }
            Err(NoMachine::Blocked(block)) if now.is_past(since, TRIED_WITHIN) => {
                let why = format!("no machine could try it in {TRIED_WITHIN}: {}", block.why);
                self.end(&stored, key, build, untried(&why), now).await
            }
            Err(NoMachine::Blocked(_)) => Ok(stored),
            Err(NoMachine::NoName) => {
                self.end(&stored, key, build, untried("the pool's name is too long"), now).await
            }
        }
    }

    /// Checks whether the trial's runner is online.
    async fn tried(
        &self,
        since: Time,
        image: &BuiltImage,
        trial: &InstanceName,
        lost: u32,
    ) -> Result<Advance, PassError> {
        let stored = writes::readable(self.context.table.instance(trial).await)?;
        let instance = stored.as_deref();
        if let Some(instance) = instance.filter(|one| one.runner.state == RunnerState::Idle)
            && let Some(id) = instance.runner.id
        {
            match self.context.github.runner(&registrar(instance), id).await {
                Ok(RunnerSeen::NotBusy(_) | RunnerSeen::Busy(_)) => {
                    return Ok(Advance::Ends(made(image, None)));
                }
                Ok(RunnerSeen::Offline(_) | RunnerSeen::Absent) => {}
                Err(error) => {
                    let why = format!("its runner started, and GitHub did not confirm it: {error}");
                    return Ok(Advance::Ends(made(image, Some(why))));
                }
            }
        }
        Ok(match MachineEnd::of(instance) {
            None => Advance::Waits,
            Some(MachineEnd::Lost(_)) => {
                let image = Box::new(image.clone());
                Advance::Step(BuildStep::Trying { since, image, trial: None, lost: lost + 1 })
            }
            Some(MachineEnd::Failed(why)) => match instance.and_then(by_github) {
                Some(why) => Advance::Ends(made(image, Some(why))),
                None if image.boot == BootMethod::Unit && !instance.is_some_and(has_booted) => {
                    tracing::warn!(instance.id = %trial, why, "a trial did not boot by Muster's unit");
                    Advance::Ends(BuildEnd::UnitFailed)
                }
                None => {
                    Advance::Ends(BuildEnd::Failed(format!("the machine that tried it: {why}")))
                }
            },
        })
    }

    /// Deletes unused images, and finds images that are in no record.
    async fn tidy(
        &self,
        stored: Stored<Images>,
        report: &mut ImagesReport,
        now: Time,
    ) -> Result<(), PassError> {
        let table = self.context.table;
        let is_due = stored.unused.values().any(|unused| unused.at <= now);
        let tidied = table.cursor(TIDIED).await?;
        let searches = tidied.is_none_or(|at| now.is_past(at, TIDIES_EVERY));
        if !is_due && !searches {
            return Ok(());
        }
        if searches && !writes::take_turn(table, TIDIED, now).await? {
            return Ok(());
        }
        let all = match self.context.compute.stack_images().await {
            Ok(all) => all,
            Err(error) => {
                report.problems.push(format!("images: {error}"));
                return Ok(());
            }
        };
        let mut next = stored.record().clone();
        let building = stored.build().map(|(_, build)| build.launch.as_str());
        for image in &all {
            let is_old = image.created_at.is_some_and(|at| now.is_past(at, STRAY_AFTER));
            let is_in_use = stored.uses(&image.id) || building == Some(image.name.as_str());
            if is_old && !is_in_use && !stored.unused.contains_key(&image.id) {
                next.disuse(Some(image.id.clone()), now);
            }
            if let Some(unused) = next.unused.get_mut(&image.id) {
                unused.snapshots.clone_from(&image.snapshots);
            }
        }
        let stored = match next == *stored {
            true => stored,
            false => self.put(&stored, next, Vec::new()).await?,
        };
        let deleted = self.delete_unused(&stored, &all, report, now).await;
        if deleted.is_empty() {
            return Ok(());
        }
        let mut next = stored.record().clone();
        next.unused.retain(|id, _| !deleted.contains(id));
        self.put(&stored, next, Vec::new()).await?;
        Ok(())
    }

    /// Deletes images whose time has come. Returns the deleted images; their snapshots are gone too.
    async fn delete_unused(
        &self,
        stored: &Images,
        all: &[StackImage],
        report: &mut ImagesReport,
        now: Time,
    ) -> BTreeSet<ImageId> {
        let is_named = |id: &ImageId| {
            let id = Image::Id(id.to_string());
            self.context.settings.pools.iter().any(|pool| pool.image.as_ref() == Some(&id))
        };
        let due = stored.unused.iter().filter(|(id, unused)| {
            let seen = all.iter().find(|image| image.id == **id);
            // EC2 may not show a new image yet, and cannot delete an image while it creates it.
            let wait = match seen.map(|image| &image.state) {
                Some(ImageState::Pending) => EC2_CREATES_FOR,
                Some(_) => Seconds(0),
                None => EC2_HIDES_FOR,
            };
            now.is_past(unused.at, wait) && !stored.uses(id) && !is_named(id)
        });
        let mut deleted = BTreeSet::new();
        for (id, unused) in due.take(MAX_DELETED) {
            let image = StackImage {
                id: id.clone(),
                name: String::new(),
                state: ImageState::Available,
                created_at: None,
                disk_gib: 0,
                snapshots: unused.snapshots.clone(),
            };
            match self.context.compute.delete_image(&image).await {
                Ok(()) => {
                    tracing::info!(image = %id, "deleted an image");
                    deleted.insert(id.clone());
                }
                Err(error) => {
                    tracing::warn!(image = %id, error = with_causes(&error), "failed to delete an image");
                    report.problems.push(format!("image {id}: {error}"));
                }
            }
        }
        deleted
    }
}

/// Returns the end of a build whose image is used from now on.
fn made(image: &BuiltImage, untried: Option<String>) -> BuildEnd {
    BuildEnd::Made(Box::new(BuiltImage { untried, ..image.clone() }))
}

/// Returns why a trial that booted got no runner, if GitHub is to blame.
fn by_github(trial: &Instance) -> Option<String> {
    let refused = trial.runner.exit.as_ref().and_then(|exit| exit.refused.as_ref());
    let last = trial.unregistered.as_ref().map(|failed| &failed.last);
    let why = refused.map(ToString::to_string).or_else(|| last.map(ToString::to_string))?;
    has_booted(trial).then(|| format!("its machine booted, and GitHub registered no runner: {why}"))
}

/// Returns the next step after an error of EC2.
fn refused(error: &ProviderError, is_late: bool, report: &mut ImagesReport) -> Advance {
    match error {
        ProviderError::Unauthorized(detail) => Advance::Ends(BuildEnd::Failed(format!(
            "EC2 refused {}: {}: {}",
            detail.operation, detail.code, detail.message
        ))),
        _ if is_late => Advance::Ends(BuildEnd::Failed(format!("EC2 did not answer: {error}"))),
        _ => {
            report.problems.push(format!("images: {error}"));
            Advance::Waits
        }
    }
}

/// Returns the version of the scripts that prepare an image, and of the launch template that starts them.
pub(crate) fn scripts_of(pool: &Pool) -> Arc<str> {
    format!("{}-{:08x}", pool.launch_template_version, fnv1a(BAKE.as_bytes()) >> 32).into()
}

/// Returns the newest agent that GitHub has listed, with the time when it was first seen.
pub(crate) fn newest_agent(agents: &Agents) -> Option<(AgentVersion, Time)> {
    agents.listed.last().map(|listed| (listed.version, listed.since))
}

/// Describes a new image.
fn described(key: &FamilyKey, image: &BuiltImage) -> String {
    let agent = image.agent.map(|agent| format!(", agent {agent}")).unwrap_or_default();
    let boot = match (&image.why, image.boot) {
        (Some(why), _) => format!("boots by cloud-init, because {why}"),
        (None, boot) => format!("boots by {}", boot.as_str()),
    };
    let tried = image.untried.as_ref().map(|why| format!("; not tried: {why}")).unwrap_or_default();
    format!("machines of {key} boot {} now{agent}, {boot}{tried}", image.id)
}
