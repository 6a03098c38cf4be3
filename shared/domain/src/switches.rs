//! What operators have paused: one record for the whole stack, absent while everything is running.
//! A pause can have an end. After that it counts as over without any write, so every query takes a
//! time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::ids::PoolName;
use crate::time::{Seconds, Time};

/// Minimum duration of a pause with an end. The sweep runs once a minute.
pub const SHORTEST_PAUSE: Seconds = Seconds(60);
/// Maximum duration of a pause with an end.
pub const LONGEST_PAUSE: Seconds = Seconds(30 * 86_400);

/// Something that can be paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Switch {
    /// New machines of every pool. Jobs wait, and existing machines continue.
    Launches,
    /// Every delete that is not forced. No machine is deregistered or terminated, and no machine
    /// that could continue is marked.
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

/// The time, the operator and the reason of a pause.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SwitchedOff {
    /// When it was paused.
    pub since: Time,
    /// The operator who paused it.
    pub by: String,
    /// The operator's reason.
    pub reason: String,
    /// When the pause ends automatically. `None` if it lasts until an operator resumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

impl SwitchedOff {
    fn is_on(&self, now: Time) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Formats the end as a clause (", until 14:30:00"); empty without an end.
    #[must_use]
    pub fn end(&self, now: Time) -> String {
        self.until.map(|until| format!(", until {}", until.clock(now))).unwrap_or_default()
    }
}

impl std::fmt::Display for SwitchedOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "paused at {} by {}", self.since, self.by)?;
        if let Some(until) = self.until {
            write!(f, " until {until}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// The record. Its fields are private because whether a pause still applies depends on the time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Switches {
    /// The record's schema version.
    schema: u16,
    /// See [`Switch::Launches`].
    launches: Option<SwitchedOff>,
    /// See [`Switch::Deletes`].
    deletes: Option<SwitchedOff>,
    /// See [`Switch::Pool`].
    pools: BTreeMap<PoolName, SwitchedOff>,
}

impl Default for Switches {
    /// Creates a record without pauses.
    fn default() -> Self {
        Self { schema: SCHEMA, launches: None, deletes: None, pools: BTreeMap::new() }
    }
}

impl Switches {
    /// Returns the pause of all launches, if it applies.
    #[must_use]
    pub fn all_launches_off(&self, now: Time) -> Option<&SwitchedOff> {
        self.launches.as_ref().filter(|off| !off.is_on(now))
    }

    /// Returns the pause of deletes, if it applies.
    #[must_use]
    pub fn deletes_off(&self, now: Time) -> Option<&SwitchedOff> {
        self.deletes.as_ref().filter(|off| !off.is_on(now))
    }

    /// Returns the pools that are individually paused.
    pub fn pools_off(&self, now: Time) -> impl Iterator<Item = (&PoolName, &SwitchedOff)> {
        self.pools.iter().filter(move |(_, off)| !off.is_on(now))
    }

    /// Returns the pause that prevents launches of this pool, if any. If two apply, the one that
    /// ends later.
    #[must_use]
    pub fn launches_off(&self, pool: &PoolName, now: Time) -> Option<&SwitchedOff> {
        let own = self.pools.get(pool).filter(|off| !off.is_on(now));
        let both = own.into_iter().chain(self.all_launches_off(now));
        both.max_by_key(|off| (off.until.is_none(), off.until))
    }

    /// Returns when the oldest pause that still applies began.
    #[must_use]
    pub fn off_since(&self, now: Time) -> Option<Time> {
        let stack = self.all_launches_off(now).into_iter().chain(self.deletes_off(now));
        stack.chain(self.pools_off(now).map(|(_, off)| off)).map(|off| off.since).min()
    }

    /// Returns the record without pauses that have ended.
    #[must_use]
    pub fn still_off(&self, now: Time) -> Self {
        let pools = self.pools_off(now).map(|(name, off)| (name.clone(), off.clone()));
        Self {
            schema: self.schema,
            launches: self.all_launches_off(now).cloned(),
            deletes: self.deletes_off(now).cloned(),
            pools: pools.collect(),
        }
    }

    /// Returns the record with one switch changed. Pausing something that is already paused changes
    /// only its end and keeps the original time and reason. Requires a record without ended pauses
    /// ([`Self::still_off`]).
    #[must_use]
    pub fn with(&self, switch: &Switch, off: Option<SwitchedOff>) -> Self {
        let mut next = self.clone();
        let before = match switch {
            Switch::Launches => next.launches.take(),
            Switch::Deletes => next.deletes.take(),
            Switch::Pool(name) => next.pools.remove(name),
        };
        let off = off.map(|off| match before {
            Some(before) => SwitchedOff { until: off.until, ..before },
            None => off,
        });
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
    use crate::instance::tests::at;

    fn off(seconds: u32) -> SwitchedOff {
        SwitchedOff {
            since: at(seconds),
            by: "ada".to_owned(),
            reason: "moving subnets".to_owned(),
            until: None,
        }
    }

    fn off_until(seconds: u32, until: u32) -> SwitchedOff {
        SwitchedOff { until: Some(at(until)), ..off(seconds) }
    }

    fn pool(name: &str) -> PoolName {
        name.parse().expect("valid")
    }

    #[test]
    fn a_pool_is_off_by_its_own_switch_or_by_that_of_all() {
        let own = Switches::default().with(&Switch::Pool(pool("big")), Some(off(5)));
        assert_eq!(own.launches_off(&pool("big"), at(6)), Some(&off(5)));
        assert_eq!(own.launches_off(&pool("small"), at(6)), None);
        let all = own.with(&Switch::Launches, Some(off(9)));
        assert_eq!(all.launches_off(&pool("small"), at(9)), Some(&off(9)));
        assert_eq!(all.deletes_off(at(9)), None);
        assert_eq!(all.off_since(at(9)), Some(at(5)));
    }

    #[test]
    fn what_is_off_keeps_its_first_time_and_what_is_on_has_none() {
        for switch in [Switch::Launches, Switch::Deletes, Switch::Pool(pool("big"))] {
            let first = Switches::default().with(&switch, Some(off(5)));
            assert_eq!(first.with(&switch, Some(off(9))), first);
            let on = first.with(&switch, None);
            assert_eq!(on.off_since(at(9)), None);
            assert_eq!(on.with(&switch, None), on);
        }
    }

    /// A query of the record, and whether it finds a pause.
    type Reader = (&'static str, fn(&Switches, Time) -> bool);

    #[test]
    fn every_reader_takes_an_ended_switch_for_on() {
        let launches: &[Reader] = &[
            ("all_launches_off", |all, now| all.all_launches_off(now).is_some()),
            ("launches_off", |all, now| all.launches_off(&pool("big"), now).is_some()),
        ];
        let pools: &[Reader] = &[
            ("pools_off", |all, now| all.pools_off(now).count() == 1),
            ("launches_off", |all, now| all.launches_off(&pool("big"), now).is_some()),
        ];
        let deletes: &[Reader] = &[("deletes_off", |all, now| all.deletes_off(now).is_some())];
        let any: &[Reader] = &[
            ("off_since", |all, now| all.off_since(now).is_some()),
            ("still_off", |all, now| all.still_off(now) != Switches::default()),
        ];
        let ends = [
            ("without an end", off(5), true),
            ("with an end to come", off_until(5, 101), true),
            ("with an end now", off_until(5, 100), false),
            ("with an end long ago", off_until(5, 6), false),
        ];
        let rows = [
            (Switch::Launches, launches),
            (Switch::Deletes, deletes),
            (Switch::Pool(pool("big")), pools),
        ];
        for (switch, own) in rows {
            for (name, off, is_off) in &ends {
                let all = Switches::default().with(&switch, Some(off.clone()));
                for (reader, says_off) in own.iter().chain(any) {
                    assert_eq!(says_off(&all, at(100)), *is_off, "{switch} {name}: {reader}");
                }
            }
        }
    }

    #[test]
    fn another_pause_changes_the_end_and_the_later_end_explains_a_pool() {
        let big = Switch::Pool(pool("big"));
        for (second, until) in [(off_until(9, 50), Some(at(50))), (off(9), None)] {
            let twice =
                Switches::default().with(&big, Some(off_until(5, 20))).with(&big, Some(second));
            let expected = SwitchedOff { until, ..off(5) };
            assert_eq!(twice.launches_off(&pool("big"), at(10)), Some(&expected));
        }
        let later = |own: SwitchedOff, all: SwitchedOff| {
            let both = Switches::default().with(&big, Some(own)).with(&Switch::Launches, Some(all));
            both.launches_off(&pool("big"), at(10)).and_then(|off| off.until)
        };
        assert_eq!(later(off_until(5, 20), off_until(5, 30)), Some(at(30)));
        assert_eq!(later(off_until(5, 30), off_until(5, 20)), Some(at(30)));
        assert_eq!(later(off(5), off_until(5, 20)), None);
        assert_eq!(later(off_until(5, 20), off(5)), None);
    }

    #[test]
    fn the_end_is_said_and_kept() {
        let now = at(10);
        assert_eq!((off(5).end(now), off_until(5, 3600).end(now)), {
            (String::new(), format!(", until {}", at(3600).clock(now)))
        });
        assert_eq!(
            off_until(5, 3600).to_string(),
            format!("paused at {} by ada until {}: moving subnets", at(5), at(3600))
        );
        let all = Switches::default().with(&Switch::Deletes, Some(off_until(5, 3600)));
        let text = serde_json::to_string(&all).expect("written");
        assert_eq!(serde_json::from_str::<Switches>(&text).expect("read"), all);
    }
}
