//! `TerminateInstances` and `CreateTags`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Ec2, Ec2Error, InstanceState, check_id, not_found};
use crate::Millis;

/// One line of the answer to `TerminateInstances`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    pub id: String,
    pub previous: InstanceState,
    pub current: InstanceState,
}

impl Ec2 {
    /// Decides about a batch without changing anything: which instances end, and the answer.
    /// One unknown or malformed id fails the whole batch; a protected instance fails its zone.
    pub fn judge_termination(
        &self,
        ids: &[String],
        now: Millis,
        kept_ms: Millis,
    ) -> (Vec<StateChange>, Option<Ec2Error>) {
        if let Err(error) = self.check_batch(ids, now, kept_ms) {
            return (vec![], Some(error));
        }
        let distinct: BTreeSet<&String> = ids.iter().collect();
        let instances = || distinct.iter().filter_map(|id| self.instance(id));
        let protected: Vec<_> = instances().filter(|i| i.protected).collect();
        let spared: BTreeSet<&String> = protected.iter().map(|i| &i.zone).collect();
        let changes = instances()
            .filter(|i| !spared.contains(&i.zone))
            .map(|i| StateChange {
                id: i.id.clone(),
                previous: i.state,
                current: if i.state == InstanceState::Terminated {
                    InstanceState::Terminated
                } else {
                    InstanceState::ShuttingDown
                },
            })
            .collect();
        let refusal = protected.first().map(|i| {
            Ec2Error::new(
                "OperationNotPermitted",
                format!(
                    "The instance '{}' may not be terminated. Modify its \
                     'disableApiTermination' instance attribute and try again.",
                    i.id
                ),
            )
        });
        (changes, refusal)
    }

    fn check_batch(&self, ids: &[String], now: Millis, kept_ms: Millis) -> Result<(), Ec2Error> {
        if ids.is_empty() {
            return Err(Ec2Error::new(
                "MissingParameter",
                "The request must contain the parameter InstanceId",
            ));
        }
        ids.iter().try_for_each(|id| check_id(id))?;
        let unknown: Vec<&str> = ids
            .iter()
            .filter(|id| self.visible(id, now, kept_ms).is_none())
            .map(String::as_str)
            .collect();
        if unknown.is_empty() { Ok(()) } else { Err(not_found(&unknown)) }
    }

    pub(crate) fn create_tags(
        &mut self,
        ids: &[String],
        tags: &BTreeMap<String, String>,
        now: Millis,
        kept_ms: Millis,
    ) -> Result<(), Ec2Error> {
        if tags.is_empty() {
            return Err(Ec2Error::new(
                "MissingParameter",
                "The request must contain the parameter Tag",
            ));
        }
        check_tags(tags)?;
        if let Some(other) = ids.iter().find(|id| !id.starts_with("i-")) {
            return Err(Ec2Error::new(
                "UnsupportedOperation",
                format!("The simulated cloud only tags instances, not '{other}'."),
            ));
        }
        self.check_batch(ids, now, kept_ms)?;
        for id in ids {
            if let Some(instance) = self.instance_mut(id) {
                instance.tags.extend(tags.clone());
            }
        }
        Ok(())
    }
}

pub(super) fn check_tags(tags: &BTreeMap<String, String>) -> Result<(), Ec2Error> {
    for (key, value) in tags {
        if key.to_ascii_lowercase().starts_with("aws:") {
            return Err(Ec2Error::new(
                "InvalidParameterValue",
                "Tag keys starting with 'aws:' are reserved for internal use",
            ));
        }
        if key.is_empty() || key.chars().count() > 128 || value.chars().count() > 256 {
            return Err(Ec2Error::new(
                "InvalidParameterValue",
                "Tag keys have 1 to 128 characters, tag values at most 256.",
            ));
        }
    }
    Ok(())
}
