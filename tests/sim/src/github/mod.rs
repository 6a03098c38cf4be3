//! GitHub: its truth, which the model of it keeps, and what stands before that here: faults, and
//! what the judge must know besides.

mod agents;
mod jobs;
mod outcome;
mod port;
mod reruns;
mod webhook;

use self::jobs::run_of;
pub use self::outcome::CallOutcome;
pub use muster_cloud::github::JobStatus as Status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_cloud::Ids;
use muster_cloud::github::{
    self as model, AppOwner, CODE_LIFETIME_MS, GitHub, Group, Lies, Manifest, OwnerKind, OwnerSpec,
    RunnerScope,
};
use muster_control::ports::JitError;
use muster_domain::ids::{AppName, Entity, EntityKind, InstallationId, JobKey};
use muster_domain::job::labels::Labels;
use muster_domain::pool::Pool;

use self::outcome::Outcomes;
use crate::agenda::Millis;

/// A workflow job: what is planned of it, and what the judge knows of it besides GitHub's truth.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its key.
    pub key: JobKey,
    /// `owner/repo`.
    pub repository: Arc<str>,
    /// Of a private repository.
    pub private: bool,
    /// Its name.
    pub name: Arc<str>,
    /// The labels of `runs-on`.
    pub labels: Labels,
    /// The branch of its run.
    pub branch: Option<Arc<str>>,
    /// It belongs to a deployment environment.
    pub deploys: bool,
    /// The machine that EC2 took while the job ran.
    pub interrupted: Option<u32>,
    /// GitHub gave up on its runner.
    pub given_up: bool,
    /// Its run, if it is not that of its number.
    pub run: Option<u64>,
    /// How long its steps take; for ever when none.
    pub length: Option<Millis>,
    /// None of its webhooks is ever sent.
    pub unheard: bool,
    /// An event of it was lost for good, before or behind the webhook.
    pub event_lost: bool,
    /// It asked for what no pool carried then, and not for a runner of one's own.
    pub turned_away: bool,
    /// Its runner has hooks.
    pub hooked: bool,
    /// GitHub removed its runner while nobody had told us of the job.
    pub given_up_unseen: bool,
    /// When GitHub last answered us that its runner is idle while it ran.
    pub lied_at: Option<Millis>,
    /// GitHub calls its runner idle from then until then.
    lies: [(Millis, Millis); 2],
}

impl Job {
    /// A job that will be queued later.
    #[must_use]
    pub fn planned(
        number: u32,
        repository: &str,
        private: bool,
        labels: Labels,
        length: Option<Millis>,
    ) -> Self {
        Self {
            key: key_of(repository, id_of(number)),
            repository: repository.into(),
            private,
            name: format!("job {number}").into(),
            labels,
            branch: None,
            deploys: false,
            interrupted: None,
            given_up: false,
            run: None,
            length,
            unheard: false,
            event_lost: false,
            turned_away: false,
            hooked: false,
            given_up_unseen: false,
            lied_at: None,
            lies: [(0, 0); 2],
        }
    }
}

impl Job {
    /// The same job in a later attempt.
    pub(super) fn again(&self) -> Self {
        let Self { repository, private, name, labels, length, branch, deploys, .. } = self.clone();
        Self { name, branch, deploys, ..Self::planned(0, &repository, private, labels, length) }
    }
}

/// Added to the run of a job that is of another repository than the job before.
const OTHER_REPOSITORY: u64 = 10_000;
/// The number of every repository.
const REPOSITORY: u64 = 77;
/// Where GitHub's numbers of jobs start.
const FIRST_JOB: u64 = 1000;
/// Our App.
const APP: &str = "123";
/// The account whose installation has the number of [`account`]; each other one has its own.
const FIRST_ACCOUNT: &str = "acme";

/// The key of a job: a repository's name says which App reports it.
fn key_of(repository: &str, job: u64) -> JobKey {
    let app = AppName::split(repository).map_or(AppName::MAIN, |(app, _)| app);
    JobKey { app, repository: REPOSITORY, job }
}

/// GitHub's number of a job.
const fn id_of(number: u32) -> u64 {
    FIRST_JOB + number as u64
}

/// Our number of one of GitHub's jobs.
const fn number_of(id: u64) -> u32 {
    (id - FIRST_JOB) as u32
}

/// Where an entity's runners are registered.
pub(crate) fn scope_of(entity: &Entity) -> RunnerScope {
    let text = entity.as_str();
    let (owner, name) = text.split_once('/').unwrap_or((text, text));
    match entity.kind() {
        EntityKind::Organization => RunnerScope::Organization(text.to_owned()),
        EntityKind::Repository => {
            RunnerScope::Repository { owner: owner.to_owned(), name: name.to_owned() }
        }
        EntityKind::Enterprise => RunnerScope::Enterprise(entity.app().qualify(name)),
    }
}

/// How GitHub answers an App.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppTrouble {
    /// Its key was revoked.
    Revoked,
    /// Its rate limit is used up until then.
    Limited(Millis),
    /// Its host does not answer.
    Silent,
}

/// What a scenario has GitHub do.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Every runner is called idle.
    pub always_lies: bool,
    /// That many of the next webhooks are never sent.
    pub drop_next: u32,
    /// That many of the next webhooks find our door closed.
    pub fail_next: u32,
    /// That many of the next webhooks cannot be read.
    pub spoil_next: u32,
    /// Owners whose installation is refused.
    pub refuses: BTreeSet<String>,
    /// An owner for whom nothing but the registration of runners is refused.
    pub forbids_runners: Option<String>,
    /// What every registration is answered.
    pub registration: Option<JitError>,
    /// A runner group that the App may not use: registrations that name it are answered 403.
    pub forbids_group: Option<u64>,
    /// Apps that GitHub does not answer as usual.
    pub apps: BTreeMap<AppName, AppTrouble>,
    /// An owner whose installation has used its rate limit up, and until when.
    pub limits: Option<(String, Millis)>,
    /// The same for registrations alone: a secondary limit.
    pub limits_runners: Option<(String, Millis)>,
    /// It gives jobs to runners without being told to.
    pub gives_jobs: bool,
    /// Lists and looks show no runner.
    pub hides_runners: bool,
    /// DELETEs of runners are not done and not answered.
    pub removes_nothing: bool,
    /// It goes on calling a dead runner busy.
    pub never_gives_up: bool,
    /// What keeps GitHub from re-running jobs.
    pub rerun_trouble: Option<RerunTrouble>,
    /// A run that began more than a month ago.
    pub old_run: Option<u64>,
    /// A new App has an owner that is neither an organization nor a person, as an enterprise.
    pub hides_app_owner: bool,
}

/// What keeps GitHub from re-running jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RerunTrouble {
    /// The App has no permission.
    Forbidden,
    /// The call has no effect and gets no answer.
    Ignored,
}

/// All of GitHub.
#[derive(Debug)]
pub struct Github {
    /// The truth.
    pub truth: GitHub,
    ids: Ids,
    /// What every account that installs our App is like.
    account: OwnerSpec,
    /// Every job that there is or will be.
    pub jobs: Vec<Job>,
    /// When we were answered of a runner that it is not busy, or that there is no such runner.
    not_busy: BTreeMap<u64, Vec<Millis>>,
    /// How many deliveries there were.
    delivered: u32,
    /// Deliveries that cannot be read.
    spoiled: BTreeSet<u32>,
    /// Deliveries that GitHub was asked to redeliver, in this order.
    pub redelivered: Vec<u32>,
    /// How many attempts a page of deliveries holds.
    pub page_size: usize,
    /// How many deliveries are on their way, or not answered yet.
    pub in_flight: usize,
    outcomes: Outcomes,
    /// What a scenario has it do.
    pub script: Script,
}

impl Github {
    /// No jobs and no runners; the accounts and groups of these pools.
    #[must_use]
    pub fn new(seed: u64, pools: &[Pool]) -> Self {
        let mut truth = GitHub::default();
        truth.removes_lost_runners = true;
        let mut github = Self {
            truth,
            ids: Ids::after(100 + seed % 50),
            account: account(pools),
            jobs: Vec::new(),
            not_busy: BTreeMap::new(),
            delivered: 0,
            spoiled: BTreeSet::new(),
            redelivered: Vec::new(),
            page_size: 100,
            in_flight: 0,
            outcomes: Outcomes::default(),
            script: Script::default(),
        };
        for entity in pools.iter().filter_map(|pool| pool.entity.as_ref()) {
            github.install(scope_of(entity).owner());
        }
        github
    }

    /// An account installs our App, if it has not done so.
    pub fn install(&mut self, login: &str) {
        if self.truth.owner(login).is_none() {
            let id = 1 + self.truth.owners().count() as u64;
            let mut spec = OwnerSpec { owner: login.to_owned(), ..self.account.clone() };
            // Records that tests write are of the first one.
            if !login.eq_ignore_ascii_case(FIRST_ACCOUNT) {
                spec.installation_id += id;
            }
            self.truth.register_owner(spec, id);
        }
    }

    /// The App's installation in an account.
    #[must_use]
    pub fn installation_of(&self, login: &str) -> InstallationId {
        let spec = self.truth.owner(login).map_or(&self.account, |owner| &owner.spec);
        InstallationId(spec.installation_id)
    }

    /// An App is made of a manifest; the code that comes of it.
    pub fn make_app(
        &mut self,
        owner: AppOwner,
        name: &str,
        manifest: &Manifest,
        now: Millis,
    ) -> String {
        self.truth.make_app(&mut self.ids, owner, name, manifest, now + CODE_LIFETIME_MS)
    }

    /// Changes which runner groups are deleted, in every account.
    pub fn change_deleted_groups(&mut self, change: impl Fn(&mut BTreeSet<u64>)) {
        change(&mut self.account.deleted_groups);
        self.truth.specs_mut().for_each(|spec| change(&mut spec.deleted_groups));
    }

    /// A job by number.
    #[must_use]
    pub fn job(&self, number: u32) -> &Job {
        &self.jobs[number as usize]
    }

    /// A job by number.
    pub fn job_mut(&mut self, number: u32) -> &mut Job {
        &mut self.jobs[number as usize]
    }

    /// The workflow run of a job.
    #[must_use]
    pub fn run_of(&self, number: u32) -> u64 {
        let job = self.job(number);
        job.run.unwrap_or_else(|| {
            let run = run_of(number);
            // A run is of one repository.
            let first = (0..number).find(|other| {
                run_of(*other) == run && self.job(*other).repository == job.repository
            });
            let first = first.unwrap_or(number);
            run + OTHER_REPOSITORY * u64::from(first % 3)
        })
    }

    /// A job by its id at GitHub; none of one that a test has made up.
    #[must_use]
    pub fn job_of(&self, id: u64) -> Option<&Job> {
        self.jobs.get(usize::try_from(id.checked_sub(FIRST_JOB)?).ok()?)
    }

    /// A job by its id at GitHub; none of one that a test has made up.
    pub fn job_of_mut(&mut self, id: u64) -> Option<&mut Job> {
        self.jobs.get_mut(usize::try_from(id.checked_sub(FIRST_JOB)?).ok()?)
    }

    /// What is true of a job. None while nobody has queued it yet.
    #[must_use]
    pub fn truth_of(&self, number: u32) -> Option<&model::Job> {
        self.truth.job(id_of(number))
    }

    /// Where GitHub is with a job. None while nobody has queued it yet.
    #[must_use]
    pub fn status(&self, number: u32) -> Option<Status> {
        self.truth_of(number).map(|job| job.status)
    }

    /// Jobs that need a runner.
    pub fn queued(&self) -> impl Iterator<Item = u32> {
        self.truth.queued().iter().map(|id| number_of(*id))
    }

    /// Whether the agent of a registration hears that it is gone.
    #[must_use]
    pub fn is_told_to_go(&self, runner: u64) -> bool {
        self.truth.session(runner).is_none_or(|session| session.deregistered)
    }

    /// The job that runs on a runner.
    fn job_on(&self, runner: u64) -> Option<u32> {
        self.truth.job_on(runner).map(number_of)
    }

    /// Every job that was queued, with what is true of it.
    pub fn known(&self) -> impl Iterator<Item = (&Job, &model::Job)> {
        self.truth.jobs().map(|truth| (self.job(number_of(truth.id)), truth))
    }

    /// When we were answered that a runner is not busy, or that there is no such runner.
    #[must_use]
    pub fn not_busy(&self, runner: u64) -> &[Millis] {
        self.not_busy.get(&runner).map_or(&[], Vec::as_slice)
    }
}

/// An account with the groups of these pools. Which pools serve public repositories is theirs to
/// say, so every group does.
fn account(pools: &[Pool]) -> OwnerSpec {
    let group = |id: u64| Group {
        id,
        name: format!("group {id}"),
        public_repositories: true,
        restricted_to_workflows: false,
    };
    let ids: BTreeSet<u64> = pools.iter().map(|pool| pool.runner_group_id).collect();
    OwnerSpec {
        owner: String::new(),
        kind: OwnerKind::Organization,
        enterprise: None,
        installation_id: 7,
        app_id: APP.to_owned(),
        app_public_key: String::new(),
        webhook_url: None,
        webhook_secret: None,
        stack: None,
        public_repositories: true,
        groups: ids.into_iter().filter(|id| *id != 1).map(group).collect(),
        deleted_groups: BTreeSet::new(),
        rate_limit: u32::MAX,
        lies: Lies::default(),
        suspended_at: None,
        accepted: None,
        selected: false,
        installed_at: None,
    }
}
