//! Switches that operators set, and set back later.

use serde_json::{Value, json};

use super::{Plan, Rush};
use crate::agenda::{MINUTE, Millis, SECOND};
use crate::rng::Rng;

/// What is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Launches of all pools.
    Launches,
    /// Deletes.
    Deletes,
    /// Launches of one pool, by its place.
    Pool(usize),
}

/// A setting of a switch.
#[derive(Clone, Copy, Debug)]
pub struct Flip {
    /// Which.
    pub what: What,
    /// Whether it holds back from now on.
    pub holds: bool,
    /// After how many seconds it ends by itself.
    pub length: Option<Millis>,
}

impl Plan {
    /// At any time of a rush, for up to an hour. What is not set back when the faults end, is then.
    pub(super) fn rush_flips(&mut self, rng: &mut Rng, rush: &Rush) {
        if !rng.chance(250_000) {
            return;
        }
        for _ in 0..rng.between(1, 3) {
            let pool = rng.index(self.settings.pools.len());
            let what = [What::Launches, What::Deletes, What::Pool(pool)][rng.index(3)];
            let from = rush.from + rng.between(0, rush.length);
            let until: Millis = from + rng.between(MINUTE, 60 * MINUTE);
            if from > self.faults_end - 2 * MINUTE {
                continue;
            }
            let until = until.min(self.faults_end);
            // Every second one ends by itself.
            let length = (until % 2 == 0).then_some((until - from) / SECOND);
            self.flips.push((from, Flip { what, holds: true, length }));
            if length.is_none() {
                self.flips.push((until, Flip { what, holds: false, length }));
            }
        }
    }

    /// The requests of all settings.
    pub(super) fn flip_requests(&self) -> Vec<(Millis, Value)> {
        let flips = self.flips.iter();
        flips.map(|(at, flip)| (*at, flip.request(self))).collect()
    }
}

impl Flip {
    fn request(self, plan: &Plan) -> Value {
        let off = if self.holds { "off" } else { "on" };
        let mut request =
            json!({ "version": 1, "action": "switch", "reason": "by the schedule", "by": "flip" });
        if let Some(length) = self.length {
            request["for_seconds"] = length.into();
        }
        match self.what {
            What::Launches => request["launches"] = off.into(),
            What::Deletes => request["deletes"] = off.into(),
            What::Pool(place) => {
                let name = plan.settings.pools.get(place).map_or("", |pool| pool.name.as_str());
                request["pools"] = json!({ name: off });
            }
        }
        request
    }
}
