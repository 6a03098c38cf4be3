//! Makes a failing day shorter: leaves out one part after another as long as the same invariant
//! still breaks.

#[cfg(test)]
use crate::agenda::HOUR;
use crate::agenda::{Millis, SECOND, START};
use crate::fault::Fault;
use crate::run::{SeedOutcome, play};
use crate::schedule::Plan;

/// With how many other chances a shorter day is tried: what is left out changes when everything
/// else happens.
const CHANCES: u64 = 6;
/// How many passes over all parts, unless one changes nothing.
const PASSES: usize = 3;

/// A day that was made shorter.
#[derive(Debug)]
pub struct Shrunk {
    /// What is left of the day.
    pub plan: Plan,
    /// What happens in it, with a trace.
    pub outcome: SeedOutcome,
}

/// Makes the day of a failing seed shorter. None when it does not fail.
#[must_use]
pub fn shrink(seed: u64, plan: &Plan) -> Option<Shrunk> {
    let rule = play(seed, plan, false).violation?.rule;
    let breaks = |plan: &Plan| {
        let violation = play(seed, plan, false).violation?;
        (violation.rule == rule).then_some(violation.at)
    };
    let plan = shorten(plan.clone(), breaks);
    let outcome = play(seed, &plan, true);
    Some(Shrunk { plan, outcome })
}

/// Leaves out of a day what it can. `breaks` says when the invariant breaks, if it does.
fn shorten(plan: Plan, breaks: impl Fn(&Plan) -> Option<Millis>) -> Plan {
    let mut shrinker = Shrinker { plan, breaks };
    for _ in 0..PASSES {
        if !shrinker.pass() {
            break;
        }
    }
    shrinker.plan
}

struct Shrinker<B> {
    plan: Plan,
    breaks: B,
}

impl<B: Fn(&Plan) -> Option<Millis>> Shrinker<B> {
    /// Tries everything once. Whether anything could be left out.
    fn pass(&mut self) -> bool {
        let mut shorter = false;
        shorter |= self.drop_each(|plan| &mut plan.orders);
        shorter |= self.drop_each(|plan| &mut plan.flips);
        shorter |= self.drop_each(|plan| &mut plan.images);
        shorter |= self.drop_each(|plan| &mut plan.windows);
        shorter |= self.drop_each(|plan| &mut plan.jobs);
        shorter |= self.drop_each(|plan| &mut plan.weathers);
        for fault in Fault::ALL {
            let strikes =
                self.plan.weathers.iter().any(|(_, fault_rates)| fault_rates.of(*fault) > 0);
            shorter |= strikes && self.attempt(|plan| *plan = plan.clone().without(&[*fault]));
        }
        shorter |= self.plan.strangers > 0 && self.attempt(|plan| plan.strangers = 0);
        shorter |= self.plan.kept.is_some() && self.attempt(|plan| plan.kept = None);
        let cancelled = |plan: &Plan| plan.jobs.iter().any(|job| job.cancelled_at.is_some());
        shorter |= cancelled(&self.plan)
            && self.attempt(|plan| plan.jobs.iter_mut().for_each(|job| job.cancelled_at = None));
        let gated = |plan: &Plan| plan.jobs.iter().any(|job| job.gate.is_some());
        shorter |= gated(&self.plan)
            && self.attempt(|plan| plan.jobs.iter_mut().for_each(|job| job.gate = None));
        shorter | self.end_sooner()
    }

    /// Leaves out all, then halves, quarters … of a list.
    fn drop_each<T>(&mut self, list: fn(&mut Plan) -> &mut Vec<T>) -> bool {
        let mut shorter = false;
        let mut size = list(&mut self.plan).len();
        while size > 0 {
            let mut from = 0;
            while from < list(&mut self.plan).len() {
                let dropped = self.attempt(|plan| {
                    let list = list(plan);
                    list.drain(from..(from + size).min(list.len()));
                });
                shorter |= dropped;
                from += if dropped { 0 } else { size };
            }
            size /= 2;
        }
        shorter
    }

    /// No fault after the violation matters.
    fn end_sooner(&mut self) -> bool {
        let Some(at) = (self.breaks)(&self.plan) else { return false };
        let end = (at + SECOND).max(START + SECOND);
        end < self.plan.faults_end && self.attempt(|plan| plan.faults_end = end)
    }

    /// Keeps a change if the invariant still breaks.
    fn attempt(&mut self, change: impl Fn(&mut Plan)) -> bool {
        let mut plan = self.plan.clone();
        change(&mut plan);
        for chance in 0..CHANCES {
            plan.seed = self.plan.seed.wrapping_add(chance);
            if (self.breaks)(&plan).is_some() {
                self.plan = plan;
                return true;
            }
        }
        false
    }
}

impl Plan {
    /// The day in words: what is in it, one thing a line.
    #[must_use]
    pub fn tell(&self) -> String {
        let at = |when: Millis| {
            let seconds = (when - START) / SECOND;
            format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
        };
        let mut lines: Vec<(Millis, String)> = Vec::new();
        for (from, fault_rates) in &self.weathers {
            let words: Vec<String> = Fault::ALL
                .iter()
                .filter(|fault| fault_rates.of(**fault) > 0)
                .map(|fault| {
                    format!("{} {:.1} %", fault.as_str(), f64::from(fault_rates.of(*fault)) / 1e4)
                })
                .collect();
            lines.push((*from, format!("faults from here on: {}", words.join(", "))));
        }
        for job in &self.jobs {
            let length = job.length / SECOND;
            lines.push((job.at, format!("a job of {length} s, {}", job.labels.join(" "))));
        }
        for (when, order) in &self.orders {
            lines.push((*when, format!("{order:?}")));
        }
        for (when, order) in &self.images {
            lines.push((*when, format!("images: {order}")));
        }
        for (when, flip) in &self.flips {
            lines.push((*when, format!("{flip:?}")));
        }
        for window in &self.windows {
            let until = at(window.until);
            lines.push((window.from, format!("{} until {until}", window.fault.as_str())));
        }
        lines.sort();
        let lines: Vec<String> =
            lines.into_iter().map(|(when, line)| format!("{} {line}\n", at(when))).collect();
        lines.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let full = (0..100).map(Plan::of).max_by_key(|plan| plan.jobs.len()).expect("plans");
        let long = full.jobs.iter().map(|job| job.length).max();
        let crashes = |plan: &Plan| {
            plan.weathers.iter().any(|(_, fault_rates)| fault_rates.of(Fault::Crash) > 0)
        };
        let mut full = full.without(&[Fault::Crash]);
        full.weathers[0].1.set(Fault::Crash, 10_000);
        // "Breaks" with the longest job and a chance of a crash, and needs nothing else.
        let shrunk = shorten(full, |plan: &Plan| {
            let has_job = plan.jobs.iter().any(|job| Some(job.length) == long);
            (has_job && crashes(plan)).then_some(START + HOUR)
        });
        assert_eq!(shrunk.jobs.len(), 1);
        assert_eq!(shrunk.weathers.len(), 1);
        assert_eq!((shrunk.orders.len(), shrunk.windows.len(), shrunk.strangers), (0, 0, 0));
        assert_eq!(shrunk.faults_end, START + HOUR + SECOND);
        let words = shrunk.tell();
        assert!(words.contains("crash 1.0 %") && !words.contains("stall"), "{words}");
    }
}
