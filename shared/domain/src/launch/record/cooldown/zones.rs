//! Subnets that share a zone. EC2 rejects a fleet request with one type in two of them. Muster does
//! not know the zone of a subnet, so it learns this from the rejection.

use std::sync::Arc;

use super::Cooldowns;
use crate::ec2::classify::is_of_duplicate_pools;
use crate::ec2::{LaunchError, Override};
use crate::launch::{Launch, LaunchAnswer};

/// Maximum number of sets of subnets in the record; the newest are kept.
const MAX_APART: usize = 50;

/// Returns the subnets of a request that EC2 rejected because two of them share a zone. `None` if
/// the request had only one subnet: then the cause is different.
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
    /// Returns whether EC2 is known to reject these places in one request.
    pub(super) fn are_apart(&self, places: &[Override]) -> bool {
        if self.apart.is_empty() {
            return false;
        }
        let subnets = subnets(places);
        self.apart.iter().any(|known| known.iter().all(|one| subnets.contains(one)))
    }

    /// Returns the record with these subnets, if they are not recorded yet.
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
