//! Subnets of one zone. EC2 refuses a fleet request with one type in two of them, and no rule here
//! knows the zone of a subnet: the refusal is how that is found out.

use std::sync::Arc;

use super::Cooldowns;
use crate::ec2::Override;
use crate::ec2::classify::is_of_duplicate_pools;
use crate::launch::{Launch, LaunchAnswer, LaunchError};

/// Most sets of subnets that the record keeps; the newest stay.
const MAX_APART: usize = 50;

/// The subnets of a request that EC2 refused for two of one zone. None where it had only one: then
/// something else is wrong with it.
pub(super) fn refused_together(
    launch: &Launch,
    answer: &Result<LaunchAnswer, LaunchError>,
) -> Option<Arc<[Arc<str>]>> {
    let errors = match answer {
        Ok(answer) => answer.errors.as_slice(),
        Err(error) => std::slice::from_ref(error),
    };
    let is_refused = errors.iter().any(|one| is_of_duplicate_pools(&one.code, &one.message));
    let subnets = subnets(&launch.request.overrides);
    (is_refused && subnets.len() > 1).then(|| subnets.into())
}

impl Cooldowns {
    /// Whether EC2 is known to refuse these places in one request.
    pub(super) fn are_apart(&self, places: &[Override]) -> bool {
        if self.apart.is_empty() {
            return false;
        }
        let subnets = subnets(places);
        self.apart.iter().any(|known| known.iter().all(|one| subnets.contains(one)))
    }

    /// The record with such subnets, if they are new to it.
    pub(super) fn with_apart(&self, subnets: Arc<[Arc<str>]>) -> Option<Self> {
        if self.apart.contains(&subnets) {
            return None;
        }
        let others = self.apart.iter().take(MAX_APART - 1).cloned();
        Some(Self { apart: std::iter::once(subnets).chain(others).collect(), ..self.clone() })
    }
}

fn subnets(places: &[Override]) -> Vec<Arc<str>> {
    let mut subnets: Vec<Arc<str>> = places.iter().map(|place| Arc::clone(&place.subnet)).collect();
    subnets.sort();
    subnets.dedup();
    subnets
}
