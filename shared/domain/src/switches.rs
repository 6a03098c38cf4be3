//! What operators have switched off. One record for the whole stack; there is none while all is on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::ids::PoolName;
use crate::time::Time;

/// Something that can be switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Switch {
    /// New machines, of every pool. Jobs wait, and machines that are there go on.
    Launches,
    /// Every delete that is not forced. Nothing is deregistered or terminated, and no machine that
    /// could live on is marked.
    Deletes,
    /// New machines of one pool.
    Pool(PoolName),
}

impl std::fmt::Display for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Launches => f.write_str("launches"),
            Self::Deletes => f.write_str("deletes"),
            Self::Pool(name) => write!(f, "pool {name}"),
        }
    }
}

/// When, by whom and why something was switched off.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SwitchedOff {
    /// Since when.
    pub since: Time,
    /// Who did it.
    pub by: String,
    /// Why, in the operator's words.
    pub reason: String,
}

impl std::fmt::Display for SwitchedOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "switched off at {} by {}: {}", self.since, self.by, self.reason)
    }
}

/// The record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Switches {
    /// Version of the record's form.
    pub schema: u16,
    /// See [`Switch::Launches`].
    pub launches: Option<SwitchedOff>,
    /// See [`Switch::Deletes`].
    pub deletes: Option<SwitchedOff>,
    /// See [`Switch::Pool`].
    pub pools: BTreeMap<PoolName, SwitchedOff>,
}

impl Default for Switches {
    /// All is on.
    fn default() -> Self {
        Self { schema: SCHEMA, launches: None, deletes: None, pools: BTreeMap::new() }
    }
}

impl Switches {
    /// Why no machine of this pool is launched, if none is.
    #[must_use]
    pub fn launches_off(&self, pool: &PoolName) -> Option<&SwitchedOff> {
        self.launches.as_ref().or_else(|| self.pools.get(pool))
    }

    /// Why nothing is deleted but by force, if so.
    #[must_use]
    pub fn deletes_off(&self) -> Option<&SwitchedOff> {
        self.deletes.as_ref()
    }

    /// Since when the first of what is off has been off.
    #[must_use]
    pub fn off_since(&self) -> Option<Time> {
        let stack = self.launches.iter().chain(&self.deletes);
        stack.chain(self.pools.values()).map(|off| off.since).min()
    }

    /// The record with one switch set. Switching off what is off keeps its first time and reason.
    #[must_use]
    pub fn with(&self, switch: &Switch, off: Option<SwitchedOff>) -> Self {
        let mut next = self.clone();
        let before = match switch {
            Switch::Launches => next.launches.take(),
            Switch::Deletes => next.deletes.take(),
            Switch::Pool(name) => next.pools.remove(name),
        };
        let off = off.map(|off| before.unwrap_or(off));
        match switch {
            Switch::Launches => next.launches = off,
            Switch::Deletes => next.deletes = off,
            Switch::Pool(name) => next.pools.extend(off.map(|off| (name.clone(), off))),
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn off(seconds: i64) -> SwitchedOff {
        let since = Time::from_millis(seconds * 1000);
        SwitchedOff { since, by: "ada".to_owned(), reason: "moving subnets".to_owned() }
    }

    fn pool(name: &str) -> PoolName {
        name.parse().expect("valid")
    }

    #[test]
    fn a_pool_is_off_by_its_own_switch_or_by_that_of_all() {
        let own = Switches::default().with(&Switch::Pool(pool("big")), Some(off(5)));
        assert_eq!(own.launches_off(&pool("big")), Some(&off(5)));
        assert_eq!(own.launches_off(&pool("small")), None);
        let all = own.with(&Switch::Launches, Some(off(9)));
        assert_eq!(all.launches_off(&pool("small")), Some(&off(9)));
        assert_eq!(all.deletes, None);
        assert_eq!(all.off_since(), Some(Time::from_millis(5000)));
    }

    #[test]
    fn what_is_off_keeps_its_first_time_and_what_is_on_has_none() {
        for switch in [Switch::Launches, Switch::Deletes, Switch::Pool(pool("big"))] {
            let first = Switches::default().with(&switch, Some(off(5)));
            assert_eq!(first.with(&switch, Some(off(9))), first);
            let on = first.with(&switch, None);
            assert_eq!(on.off_since(), None);
            assert_eq!(on.with(&switch, None), on);
        }
    }
}
