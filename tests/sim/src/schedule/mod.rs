//! What a seed makes of a day: pools, jobs, cancellations, orders of operators, outages, and the
//! rates of everything else.
//!
//! A day is a few rushes with long quiet between them: many jobs and machines at once is where bugs
//! live, and the quiet shows whether anything is left behind. Each rush may bring faults of its
//! own.

mod flips;
mod images;
mod orders;
mod pools;

use muster_control::Settings;
use muster_domain::image::Images;
use muster_domain::job::labels::Labels;
use muster_domain::launch::plan::STACK_TAG;
use muster_domain::stored::{Stored, Version};

use crate::agenda::{Event, HOUR, MINUTE, Millis, SECOND, START};
use crate::fault::{Fault, FaultRates};
use crate::github::Job;
use crate::rng::Rng;
use crate::world::{CloudConfig, Window, World};

pub use self::flips::{Flip, What};
pub use self::orders::{Aim, Order};
pub use self::pools::{STACK, pool};

/// How long a day is, from first to last job and fault.
pub const DAY: Millis = 24 * HOUR;

/// A job of the day.
#[derive(Clone, Debug)]
pub struct PlannedJob {
    /// When it is queued.
    pub at: Millis,
    /// When its workflow is cancelled.
    pub cancelled_at: Option<Millis>,
    /// When GitHub finds that its environment needs an approval, and what comes of that.
    pub gate: Option<(Millis, Approval)>,
    /// `owner/repo`.
    pub repository: &'static str,
    /// Of a private repository.
    pub private: bool,
    /// The labels of `runs-on`.
    pub labels: &'static [&'static str],
    /// How long its steps take.
    pub length: Millis,
}

/// What becomes of a job behind an approval.
#[derive(Clone, Copy, Debug)]
pub enum Approval {
    /// It is given then.
    Given(Millis),
    /// It is refused then.
    Refused(Millis),
    /// Nobody answers.
    Never,
}

/// A day under a seed. Each part of it can be left out, to make a failing seed shorter.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything that is not planned.
    pub seed: u64,
    /// The stack.
    pub settings: Settings,
    /// What the cloud is like.
    pub cloud_config: CloudConfig,
    /// From when on which rates hold.
    pub weathers: Vec<(Millis, FaultRates)>,
    /// Jobs.
    pub jobs: Vec<PlannedJob>,
    /// Orders of operators.
    pub orders: Vec<(Millis, Order)>,
    /// Settings of switches.
    pub flips: Vec<(Millis, Flip)>,
    /// Orders about machine images, which are on from the first moment if there are any.
    pub images: Vec<(Millis, &'static str)>,
    /// Outages.
    pub windows: Vec<Window>,
    /// Somebody else's machines: never to be touched.
    pub strangers: u64,
    /// How long ended records are kept; none: longer than the day.
    pub kept: Option<Millis>,
    /// When the schedule's minute begins.
    pub first_tick: Millis,
    /// When the last job is queued and the last fault strikes.
    pub faults_end: Millis,
}

/// One day in this many is one of hundreds of jobs and of large pools.
const BIG: u64 = 50;
/// On one day in this many, Muster builds machine images.
const WITH_IMAGES: u64 = 8;
/// The largest pool of such a day.
const BIG_POOL: u32 = 150;

/// A time with much to do.
struct Rush {
    from: Millis,
    length: Millis,
    fault_rates: FaultRates,
}

impl Plan {
    /// The day of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let settings = pools::settings(&mut rng, seed);
        let fault_rates =
            if rng.chance(50_000) { FaultRates::none() } else { FaultRates::swarm(&mut rng) };
        let cloud_config = CloudConfig {
            replay_shows_machines: rng.chance(500_000),
            slowest_call: [5, 40, 400, 3_000][rng.index(4)],
            redrives: seed.is_multiple_of(2),
            by_hand: false,
        };
        let rushes = rushes(&mut rng, &fault_rates);
        let mut plan = Self {
            seed: rng.next(),
            settings,
            cloud_config,
            weathers: vec![(START, fault_rates)],
            jobs: Vec::new(),
            orders: Vec::new(),
            flips: Vec::new(),
            images: Vec::new(),
            windows: Vec::new(),
            strangers: rng.below(3),
            kept: rng.chance(300_000).then_some(5 * HOUR),
            first_tick: START + rng.between(0, MINUTE),
            faults_end: START + DAY,
        };
        let mut flips = Rng::new(seed ^ 0xc2b2_ae3d_27d4_eb4f);
        for rush in &rushes {
            plan.rush_flips(&mut flips, rush);
            plan.weathers.push((rush.from, rush.fault_rates.clone()));
            plan.rush_jobs(&mut rng, rush);
            plan.rush_outages(&mut rng, rush);
            plan.rush_orders(&mut rng, rush);
        }
        for _ in 0..rng.below(6) {
            let at = START + rng.between(0, DAY);
            plan.jobs.push(job(&mut rng, at));
        }
        if seed % BIG == BIG - 1 {
            plan.swell(&mut Rng::new(seed ^ 0x2545_f491_4f6c_dd1d), &rushes);
        }
        plan.gates(&mut Rng::new(seed ^ 0x51ed_270b_9f3a_6c15));
        if rng.chance(300_000) {
            plan.apply_pools(&mut rng, &rushes);
        }
        if seed % WITH_IMAGES == WITH_IMAGES - 1 { plan.with_images() } else { plan }
    }

    /// Hundreds of jobs, most of them at once, as of a matrix or of a monorepo in the morning, and
    /// pools of a size for them.
    fn swell(&mut self, rng: &mut Rng, rushes: &[Rush]) {
        for pool in &mut self.settings.pools {
            pool.max = pool.max.max([20, 60, BIG_POOL][rng.index(3)]);
        }
        // Passes of hundreds of jobs in which each call takes seconds get nowhere in their time.
        self.cloud_config.slowest_call = self.cloud_config.slowest_call.min(400);
        let limits = &mut self.settings.limits;
        limits.stack.iter_mut().chain(limits.entities.values_mut()).for_each(|most| *most += 20);
        for rush in rushes {
            for _ in 0..rng.between(100, 400) / rushes.len() as i64 {
                let late = rng.chance(300_000);
                let at = if late { rush.from + rng.between(0, rush.length) } else { rush.from };
                self.jobs.push(job(rng, at));
            }
        }
    }

    /// Some jobs wait for somebody's approval, most of them from the first seconds on.
    fn gates(&mut self, rng: &mut Rng) {
        let end = self.faults_end;
        for job in &mut self.jobs {
            if !rng.chance(60_000) {
                continue;
            }
            let longest = [3 * SECOND, 3 * SECOND, 5 * MINUTE][rng.index(3)];
            let from = job.at + rng.between(0, longest);
            let wait = [MINUTE, 20 * MINUTE, 20 * HOUR][rng.index(3)];
            let at = (from + rng.between(0, wait)).clamp(from + 1, end.max(from + 1));
            let approval = match rng.index(8) {
                0 => Approval::Never,
                1 => Approval::Refused(at),
                _ => Approval::Given(at),
            };
            job.gate = Some((from, approval));
        }
    }

    /// In bursts and one by one.
    fn rush_jobs(&mut self, rng: &mut Rng, rush: &Rush) {
        let mut at = rush.from;
        for _ in 0..[1, 3, 8, 25][rng.index(4)] {
            at = if rng.chance(400_000) { at } else { rush.from + rng.between(0, rush.length) };
            let job = job(rng, at);
            self.jobs.push(job);
        }
    }

    fn rush_orders(&mut self, rng: &mut Rng, rush: &Rush) {
        if !rng.chance(400_000) {
            return;
        }
        let mut at = rush.from;
        for _ in 0..rng.between(1, 8) {
            let aim = [Aim::Any, Aim::AtWork, Aim::Unseen, Aim::Same][rng.index(4)];
            // A second order often follows the first one closely.
            at = match aim {
                Aim::Same => at + rng.between(0, 3 * MINUTE),
                _ => self.moment(rng, rush),
            };
            let order = Order {
                aim,
                pick: rng.next(),
                force: rng.chance(500_000),
                bypass: rng.chance(300_000),
                kill: rng.chance(150_000),
            };
            self.orders.push((at, order));
        }
    }

    /// Pool files, most of them in the middle of a rush.
    fn apply_pools(&mut self, rng: &mut Rng, rushes: &[Rush]) {
        for rush in rushes {
            for _ in 0..rng.between(1, 4) {
                let at = self.moment(rng, rush);
                self.orders.push((at, Order::of_pools(rng.next())));
            }
        }
    }

    /// In the end all pools are as they were: what nobody serves would wait for ever, and rightly.
    fn last_pools(&self) -> Option<(Millis, Order)> {
        let applied = self.orders.iter().filter(|(_, order)| order.aim == Aim::Pools);
        let last = applied.map(|(at, _)| *at).max()?;
        Some((last.max(self.faults_end) + MINUTE, Order::of_pools(0)))
    }

    /// An operator often acts just when something does not work.
    fn moment(&self, rng: &mut Rng, rush: &Rush) -> Millis {
        if !self.windows.is_empty() && rng.chance(500_000) {
            let window = self.windows[rng.index(self.windows.len())];
            return rng.between(window.from, window.until.max(window.from));
        }
        rush.from + rng.between(MINUTE, rush.length)
    }

    fn rush_outages(&mut self, rng: &mut Rng, rush: &Rush) {
        let kinds = [
            Fault::OutageEc2,
            Fault::OutageZone,
            Fault::OutageGithub,
            Fault::OutageCredentials,
            Fault::OutageTable,
            Fault::OutageBoots,
            Fault::OutageLambda,
            Fault::OutageWebhook,
        ];
        for fault in kinds {
            if !rng.chance(rush.fault_rates.of(fault)) {
                continue;
            }
            let from = rush.from + rng.between(0, rush.length);
            let longest = match fault {
                Fault::OutageTable => 5 * MINUTE,
                Fault::OutageWebhook => 4 * HOUR,
                _ => HOUR,
            };
            let until = (from + rng.between(MINUTE, longest)).min(self.faults_end);
            self.windows.push(Window { fault, from, until });
        }
    }

    /// The same day without some kinds of faults.
    #[must_use]
    pub fn without(mut self, faults: &[Fault]) -> Self {
        for (_, fault_rates) in &mut self.weathers {
            faults.iter().for_each(|fault| fault_rates.set(*fault, 0));
        }
        self.windows.retain(|window| !faults.contains(&window.fault));
        self
    }

    /// The world of the day, with everything entered in its agenda.
    #[must_use]
    pub fn world(&self) -> World {
        let mut world = World::new(
            self.seed,
            &self.settings.pools,
            FaultRates::none(),
            self.cloud_config.clone(),
        );
        world.checker.know(&self.settings);
        world.faults_end = self.faults_end;
        // A day has few deliveries: smaller pages than GitHub's 100, so that there are several.
        world.github.page_size = 2 + usize::try_from(self.seed % 7).unwrap_or(0);
        world.kept = self.kept;
        if !self.images.is_empty() {
            let on = Images { on: true, ..Images::default() };
            world.tables.images = Some(Stored::read(on, Version(0)));
        }
        for (number, (from, fault_rates)) in (0..).zip(&self.weathers) {
            world.weathers.push(fault_rates.clone());
            world.agenda.at(*from, Event::Weather(number));
        }
        for (number, job) in (0..).zip(&self.jobs) {
            let labels = Labels::new(job.labels);
            let length = Some(job.length);
            let planned = Job::planned(number, job.repository, job.private, labels, length);
            world.github.jobs.push(planned);
            world.agenda.at(job.at, Event::Queue(number));
            job.cancelled_at.into_iter().for_each(|at| world.agenda.at(at, Event::Cancel(number)));
            let Some((from, approval)) = job.gate else { continue };
            world.agenda.at(from, Event::Gate(number));
            match approval {
                Approval::Given(at) => world.agenda.at(at, Event::Approve(number)),
                Approval::Refused(at) => world.agenda.at(at, Event::Reject(number)),
                Approval::Never => {}
            }
        }
        for (number, (at, order)) in (0..).zip(self.orders.iter().chain(&self.last_pools())) {
            world.orders.push(*order);
            world.agenda.at(*at, Event::Operator(number));
        }
        let orders = u32::try_from(world.orders.len()).unwrap_or(u32::MAX);
        for (number, (at, request)) in
            (orders..).zip(self.flip_requests().into_iter().chain(self.image_requests()))
        {
            world.flips.push(request);
            world.agenda.at(at, Event::Operator(number));
        }
        for (number, window) in (0..).zip(&self.windows) {
            world.windows.push(*window);
            world.agenda.at(window.from, Event::Window(number));
            world.agenda.at(window.until, Event::Window(number));
        }
        for n in 0..self.strangers {
            let number = world.make_machine(None);
            // One that somebody gave our stack's tag, for the bill.
            if n == 0 {
                let instance = world.ec2.cloud.at_mut(number as usize);
                instance.tags.insert(STACK_TAG.to_owned(), STACK.to_owned());
            }
        }
        world.agenda.at(self.first_tick, Event::Tick);
        world
    }
}

fn rushes(rng: &mut Rng, day: &FaultRates) -> Vec<Rush> {
    let count = [1, 1, 2, 3][rng.index(4)];
    let mut rushes: Vec<Rush> = (0..count)
        .map(|_| Rush {
            // Many a day ends in the middle of a rush: everything must come to rest without help.
            from: match rng.chance(400_000) {
                true => START + DAY - 30 * MINUTE,
                false => START + rng.between(0, DAY - HOUR),
            },
            length: rng.between(10 * MINUTE, 40 * MINUTE),
            fault_rates: if rng.chance(700_000) { FaultRates::swarm(rng) } else { day.clone() },
        })
        .collect();
    rushes.sort_by_key(|rush| rush.from);
    rushes
}

fn job(rng: &mut Rng, at: Millis) -> PlannedJob {
    const LABELS: [&[&str]; 5] = [
        &["self-hosted", "linux"],
        &["self-hosted", "linux", "x64"],
        &["linux", "gpu"],
        &["ubuntu-latest"],
        &["self-hosted", "arm64"],
    ];
    let length = match rng.index(16) {
        0..4 => rng.between(5 * SECOND, MINUTE),
        4..8 => rng.between(10 * MINUTE, 40 * MINUTE),
        8 => rng.between(40 * MINUTE, 3 * HOUR),
        _ => rng.between(MINUTE, 10 * MINUTE),
    };
    let cancelled = rng.chance(80_000);
    let after = [MINUTE, 20 * MINUTE][rng.index(2)];
    PlannedJob {
        at,
        gate: None,
        cancelled_at: cancelled.then(|| at + rng.between(0, after)),
        repository: ["acme/web", "acme/api"][rng.index(2)],
        private: rng.chance(980_000),
        labels: LABELS[if rng.chance(930_000) { rng.index(3) } else { 3 + rng.index(2) }],
        length,
    }
}
