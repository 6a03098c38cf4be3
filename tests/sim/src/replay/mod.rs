//! Some days of a real stack once more: its jobs as they came, on other pools. What takes how long is drawn from what
//! the same days took, by the seed.
//!
//! Muster's own pass re-runs the jobs whose machines EC2 takes here. Re-runs in the records are not replayed.
//! Not modelled are what EC2 refuses, what GitHub limits, machines that do not boot, and images that change.

mod drawn;
mod facts;
mod jobs;
mod measured;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use muster_control::Settings;
use muster_domain::ids::Entity;
use muster_domain::job::labels::Labels;
use muster_domain::pool::Pool;
use muster_domain::pool_file::PoolFile;
use muster_domain::pool_set::PoolSet;
use muster_domain::stored::{Stored, Version};
use muster_domain::timings::Timings;
use muster_domain::usage::Line;

pub(crate) use self::drawn::Drawn;
pub use self::facts::{Facts, PriceBook};
pub use self::jobs::owner;
pub use self::measured::{Measured, Only};

use crate::agenda::{Event, HOUR, MINUTE, Millis, SECOND, START};
use crate::executor::Executor;
use crate::fault::FaultRates;
use crate::github::Job;
use crate::invariants::Violation;
use crate::many::threads;
use crate::names::app_of;
use crate::run::come_to_rest;
use crate::schedule::STACK;
use crate::world::{CloudConfig, World};

/// How long before the first job the stack is there.
const EARLIER: Millis = 5 * MINUTE;
/// How long ended records are kept: what is at work is looked through often, and should not grow for a month.
const KEPT: Millis = 5 * HOUR;
/// GitHub ends what was queued for so long.
/// Source: docs.github.com/en/actions/reference/limits ("Job queue time" of self-hosted runners)
const LONGEST_WAIT: Millis = 24 * HOUR;
/// The longest time of a call that is not drawn: of a table, or a queue.
const SLOWEST_CALL: Millis = 10;

/// A job as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayedJob {
    /// When it was queued, after the first moment.
    pub at: Millis,
    /// When it went without a machine of the stack: cancelled, or served elsewhere.
    pub left_at: Option<Millis>,
    /// `owner/repo`.
    pub repository: String,
    /// Of a private repository.
    pub private: bool,
    /// The ID of its workflow run.
    pub run: u64,
    /// Its name.
    pub name: Arc<str>,
    /// The labels of `runs-on`.
    pub labels: Labels,
    /// From its start to its end, if it does not end early; until it is cancelled where that is not known.
    pub length: Option<Millis>,
}

/// What happened, and all that is known of how.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The jobs, by when they came.
    pub jobs: Vec<ReplayedJob>,
    /// How long it lasted.
    pub length: Millis,
    /// Seconds, prices and interruptions.
    pub facts: Facts,
    /// Whose the App is: the owner of most of the repositories.
    pub owner: Option<Entity>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was measured.
    pub measured: Measured,
    /// The first rule of the judge that broke.
    pub violation: Option<Violation>,
}

impl Replay {
    /// Of the lines of some days.
    #[must_use]
    pub fn of(lines: &[Line]) -> Self {
        let begin = lines.iter().map(|line| line.since.as_millis()).min().unwrap_or(START);
        let end = lines.iter().map(|line| line.at.as_millis()).max().unwrap_or(begin);
        Self {
            jobs: jobs::of(lines, begin),
            length: end - begin,
            facts: Facts::of(lines),
            owner: jobs::owner(lines),
        }
    }

    /// Lets it happen with these pools.
    #[must_use]
    pub fn run(&self, file: &PoolFile, seed: u64, only: &Only) -> Outcome {
        let settings = settings(file);
        let mut executor = Executor::new(self.world(file, &settings, seed), settings);
        let end = START + EARLIER + self.length;
        let mut measured = Measured::default();
        let played = catch_unwind(AssertUnwindSafe(|| {
            executor.run(end);
            measured = executor.sim().world.borrow().measure(only);
            executor.sim().world.borrow_mut().faults_end = end;
            come_to_rest(&mut executor, end);
        }));
        let mut world = executor.sim().world.borrow_mut();
        if let Err(panic) = played {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            world.broken("panic", || text.unwrap_or_default());
        }
        world.look_for_leftovers();
        Outcome { measured, violation: world.violation.clone() }
    }

    /// The same with each of these files, on all cores. Equal files are replayed once.
    #[must_use]
    pub fn run_all(&self, files: &[PoolFile], seed: u64, only: &Only) -> Vec<Outcome> {
        let first = |file: &PoolFile| files.iter().position(|other| other == file).unwrap_or(0);
        let own: Vec<usize> = files.iter().map(first).collect();
        let places: Vec<OnceLock<Outcome>> = files.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some((file, place)) = files.get(number).zip(places.get(number)) else { return };
                if own[number] == number {
                    place.get_or_init(|| self.run(file, seed, only));
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..threads().min(files.len()) {
                scope.spawn(work);
            }
        });
        own.iter().filter_map(|number| places[*number].get().cloned()).collect()
    }

    fn world(&self, file: &PoolFile, settings: &Settings, seed: u64) -> World {
        let cloud_config = CloudConfig {
            replay_shows_machines: true,
            slowest_call: SLOWEST_CALL,
            redrives: false,
            by_hand: false,
        };
        let mut world = World::new(seed, &settings.pools, FaultRates::none(), cloud_config);
        world.kept = Some(KEPT);
        world.checker.know(settings);
        if let Some(owner) = &self.owner {
            world.checker.know_app_owner(Some(owner.clone()));
            let known = PoolSet::owned_by(None, owner);
            world.tables.pools = known.map(|set| Stored::read(set, Version(0)));
            world.app = app_of(owner.as_str());
        }
        world.replayed = Some(Box::new(Drawn::new(self.facts.clone(), &file.pools, seed)));
        let begin = START + EARLIER;
        for (number, job) in (0..).zip(&self.jobs) {
            let ReplayedJob { at, left_at, repository, private, run, name, labels, length } = job;
            let mut planned = Job::planned(number, repository, *private, labels.clone(), *length);
            (planned.run, planned.name) = (Some(*run), name.clone());
            world.github.jobs.push(planned);
            world.agenda.at(begin + at, Event::Queue(number));
            let left_at = left_at.unwrap_or(at + LONGEST_WAIT);
            world.agenda.at(begin + left_at, Event::Cancel(number));
        }
        world.agenda.at(START + SECOND, Event::Tick);
        world
    }
}

/// The stack of a pool file, with the durations that a stack has by default. What only EC2 sees of a pool is the
/// simulated cloud's own: which types there are, and where, is drawn.
fn settings(file: &PoolFile) -> Settings {
    let pools = file.pools.iter().map(plain).collect();
    let mut settings = Settings::from_parameters(STACK.to_owned(), pools, Timings::default());
    (settings.limits, settings.balance) = (file.limits.clone(), file.balance);
    settings
}

fn plain(pool: &Pool) -> Pool {
    let mut pool = Pool {
        launch_template_id: "lt-0123456789abcdef0".into(),
        launch_template_version: "1".into(),
        own_template: None,
        template_device: None,
        instance_types: vec!["m7i.large".into()],
        requirements: None,
        subnets: vec!["subnet-a".into(), "subnet-b".into()],
        allocation: None,
        max_price: None,
        image: None,
        disk: None,
        placement: None,
        reserved_first: false,
        boot_hook: None,
        image_hook: None,
        ..pool.clone()
    };
    pool.tags.clear();
    pool
}
