//! Orders about machine images.

use serde_json::{Value, json};

use super::{DAY, Plan};
use crate::agenda::{Millis, START};
use crate::rng::Rng;

/// What an operator orders in the course of a day, and how often of ten times.
const ORDERS: [(&str, usize); 4] = [("build", 5), ("rollback", 3), ("off", 1), ("delete", 1)];

impl Plan {
    /// The same day with images on from its first moment, and with orders about them.
    #[must_use]
    pub fn with_images(mut self) -> Self {
        let mut rng = Rng::new(self.seed ^ 0x9e6c_63d0_876a_3f6b);
        // One order that changes nothing, so that images are on in every such day.
        self.images.push((START, "on"));
        for _ in 0..rng.below(6) {
            let all = ORDERS.iter().flat_map(|(order, times)| std::iter::repeat_n(*order, *times));
            let all: Vec<&str> = all.collect();
            let order = all[rng.index(all.len())];
            let at = START + rng.between(0, DAY);
            self.images.push((at, order));
            if matches!(order, "off" | "delete") {
                let again = at + rng.between(0, 2 * 3_600_000);
                self.images.push((again.min(self.faults_end), "on"));
            }
        }
        self
    }

    /// The requests of all these orders.
    pub(super) fn image_requests(&self) -> Vec<(Millis, Value)> {
        let request = |order: &str| json!({ "version": 1, "action": "images", "order": order, "by": "somebody" });
        self.images.iter().map(|(at, order)| (*at, request(order))).collect()
    }
}
