//! The outcome of a run in twelve numbers: what it cost, and what it left behind. The invariants
//! state what must never happen; these numbers change when a pass does more than it has to, keeps
//! what it should give back, or retries too soon.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use muster_control::ports::Write;
use muster_domain::ids::PoolName;
use muster_domain::message::{JobsMessage, ReapMessage};
use muster_domain::time::Time;

use crate::agenda::{Millis, SECOND, Which};
use crate::queue::Body;
use crate::world::World;

/// The place of the shortest time between a refused call and the next one.
const AGAIN: usize = 7;

/// The outcome of a run. None stands for a time between two calls that were never made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary([Option<u64>; 12]);

/// A kind of disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A function is stopped at a call, or the call arrives late.
    Interrupted,
    /// One call gets another answer.
    Once,
    /// All calls of a kind get another answer.
    Always,
    /// An operator or GitHub acts in the middle of the pass.
    Meanwhile,
}

/// How much larger a number may be than that of the undisturbed run: so many times as much, and so
/// much more.
type Factor = (u64, u64);

/// The twelve numbers in the order in which they are recorded, and the factors of each [`Kind`].
/// They are what the passes need at most, with a tenth to a third more.
///
/// - `reads`, `writes`, `ec2`, `github`: calls of each kind, refused ones included
/// - `sent`: messages sent to the queues
/// - `configs`: configurations that GitHub issued for a runner
/// - `alike`: most messages about one record in a queue at one time
/// - `again`: shortest time between a refused call and its caller's next one of that kind, in
///   seconds; a lower bound has no factor, and a lost answer is asked for again at once
/// - `waited`: how long jobs waited, all together, in seconds
/// - `due`: time until live records are due and messages are visible, all together, in seconds
/// - `leased`: how long launch passes held their pools, all together, in seconds
/// - `wasted`: cost of machines that were launched for a job and ran none, in millionths of a dollar
const FACTORS: [(&str, [Factor; 4]); 12] = [
    ("reads", [(1, 1_000), (1, 500), (1, 500), (1, 400)]),
    ("writes", [(1, 70), (1, 40), (1, 70), (1, 45)]),
    ("ec2", [(1, 20), (1, 10), (1, 16), (1, 12)]),
    ("github", [(1, 30), (1, 15), (1, 18), (1, 18)]),
    ("sent", [(1, 25), (1, 12), (1, 12), (1, 25)]),
    ("configs", [(1, 4), (1, 1), (1, 1), (1, 3)]),
    ("alike", [(1, 4), (1, 2), (1, 3), (1, 5)]),
    ("again", [(0, 0), (0, 0), (0, 0), (0, 0)]),
    ("waited", [(1, 900), (1, 450), (1, 450), (2, 300)]),
    ("due", [(1, 60), (1, 60), (1, 60), (1, 250)]),
    ("leased", [(1, 100), (1, 1), (1, 95), (1, 2)]),
    ("wasted", [(1, 40_000), (1, 20_000), (1, 20_000), (1, 30_000)]),
];

impl Summary {
    /// The names of the numbers.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FACTORS.iter().map(|(name, _)| *name)
    }

    /// The numbers so far.
    #[must_use]
    pub fn of(world: &mut World) -> Self {
        let seconds = |time: Millis| u64::try_from(time / SECOND).unwrap_or(0);
        let (now, sent) = (world.now, world.queues.sent());
        let calls = world.calls;
        let waits = world
            .github
            .truth
            .jobs()
            .map(|job| job.began_at.or(job.completed_at).unwrap_or(now) - job.queued_at);
        let waited = seconds(waits.sum());
        let due = world.tables.live_rows().filter_map(|row| Some(row.due_at()?.as_millis() - now));
        let due: Millis = due.map(|left| left.max(0)).sum();
        let hidden: Millis = [Which::Jobs, Which::Launch, Which::Reap]
            .into_iter()
            .flat_map(|which| world.queues.of(which).visible_times().collect::<Vec<_>>())
            .map(|at| (at - now).max(0))
            .sum();
        let held = world.tables.capacities.values().filter_map(|pool| {
            let until = pool.lease_until?.as_millis().min(now);
            Some((until - world.noted.held_since.get(&pool.pool)?).max(0))
        });
        let leased = seconds(world.noted.held + held.sum::<Millis>());
        let noted = &world.noted;
        let all = [
            calls.reads,
            calls.commits + calls.conflicts,
            calls.ec2(),
            calls.github,
            sent,
            noted.configurations,
            noted.alike,
            0,
            waited,
            seconds(due + hidden),
            leased,
            world.tally.wasted,
        ];
        let mut all = all.map(Some);
        all[AGAIN] = noted.again.map(seconds);
        Self(all)
    }

    /// What is out of bounds beside the undisturbed run, a sentence each.
    #[must_use]
    pub fn differs_from(&self, usual: &Self, kind: Kind) -> Vec<String> {
        let compared = FACTORS.iter().zip(self.0.iter().zip(usual.0));
        let wrong = compared.filter_map(|((name, factors), (now, usual))| {
            let ((times, more), now, usual) = (factors[kind as usize], (*now)?, usual?);
            let is_bound = times > 0;
            (is_bound && now > usual * times + more)
                .then(|| format!("{name}: {now}, beside {usual} undisturbed"))
        });
        wrong.collect()
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut line = String::new();
        for number in self.0 {
            let number = number.map_or_else(|| "-".to_owned(), |number| number.to_string());
            write!(line, "{number:>8}")?;
        }
        f.write_str(&line)
    }
}

/// What a summary needs and nothing else keeps.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// When each call was refused last, by its kind and its caller.
    refused: BTreeMap<String, Millis>,
    again: Option<Millis>,
    alike: u64,
    configurations: u64,
    held_since: BTreeMap<PoolName, Millis>,
    held: Millis,
}

impl World {
    /// A call that `caller` may repeat was answered. `call` names both.
    pub(crate) fn note_answer(&mut self, call: impl FnOnce() -> String, is_refused: bool) {
        if self.story.is_none() {
            return;
        }
        let (call, now, noted) = (call(), self.now, &mut self.noted);
        if let Some(at) = noted.refused.remove(&call) {
            noted.again = Some(noted.again.map_or(now - at, |least| least.min(now - at)));
        }
        if is_refused {
            noted.refused.insert(call, now);
        }
    }

    /// GitHub has issued a configuration.
    pub(crate) const fn note_configuration(&mut self) {
        self.noted.configurations += 1;
    }

    /// A message enters a queue.
    pub(crate) fn note_alike(&mut self, which: Which, body: &Body) {
        if self.story.is_some() {
            let about = self.queues.of(which).bodies().filter(|one| is_alike(one, body)).count();
            self.noted.alike = self.noted.alike.max(about as u64 + 1);
        }
    }

    /// Launch passes take pools, and give them back.
    pub(crate) fn note_leases(&mut self, writes: &[Write]) {
        for write in writes {
            let Write::Capacity(next) = write else { continue };
            let (pool, noted) = (&next.pool, &mut self.noted);
            let stored = self.tables.capacities.get(pool);
            if stored.and_then(|stored| stored.holder.as_ref()) == next.holder.as_ref() {
                continue;
            }
            let until = stored.and_then(|stored| stored.lease_until).map(Time::as_millis);
            if let (Some(since), Some(until)) = (noted.held_since.remove(pool), until) {
                noted.held += self.now.min(until) - since;
            }
            if next.holder.is_some() {
                noted.held_since.insert(pool.clone(), self.now);
            }
        }
    }
}

/// Whether two messages are about one record.
fn is_alike(one: &Body, other: &Body) -> bool {
    match (one, other) {
        (Body::Jobs(JobsMessage::WakePool(one)), Body::Jobs(JobsMessage::WakePool(other))) => {
            one.pool == other.pool
        }
        (
            Body::Jobs(JobsMessage::JobEvent { event: one, .. }),
            Body::Jobs(JobsMessage::JobEvent { event: other, .. }),
        ) => one.key == other.key,
        (
            Body::Reap(ReapMessage::Reap { name: one, .. }),
            Body::Reap(ReapMessage::Reap { name: other, .. }),
        ) => one == other,
        (
            Body::Reap(ReapMessage::MachineChanged { machine: one, .. }),
            Body::Reap(ReapMessage::MachineChanged { machine: other, .. }),
        ) => one == other,
        _ => false,
    }
}
