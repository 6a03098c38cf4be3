//! A scenario's timeline, with names that a person can follow.

use super::Scenario;
use crate::agenda::{HOUR, MINUTE, SECOND, START};

/// The timeline so far. Names made of random numbers are replaced by `instance-1`, `launch-1` and
/// so on, in the order in which they came up.
#[must_use]
pub fn render(scenario: &Scenario) -> String {
    let mut names: Vec<(String, String)> = Vec::new();
    if let Some(executor) = &scenario.executor {
        let world = executor.sim().world.borrow();
        let mut rows: Vec<_> = world.tables.instances.values().collect();
        rows.sort_by_key(|row| (row.created_at, row.name.clone()));
        for (number, row) in (1..).zip(rows) {
            names.push((row.name.to_string(), format!("instance-{number}")));
        }
        let mut launches: Vec<_> = world.tables.launches.values().collect();
        launches.sort_by_key(|launch| (launch.created_at, launch.id.clone()));
        for (number, launch) in (1..).zip(launches) {
            names.push((launch.id.to_string(), format!("launch-{number}")));
        }
        for (number, machine) in (1..).zip(&world.ec2.machines) {
            names.push((machine.id.to_string(), format!("machine-{number}")));
        }
        for (number, job) in (0..).zip(&world.github.jobs) {
            names.push((job.key.to_string(), format!("{number}")));
        }
        // A launch's id begins its instances' names, and one instance's name may begin another's.
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    }
    let mut text = String::new();
    for (at, line) in &scenario.timeline {
        let since = at - START;
        let (hours, minutes, seconds) = (since / HOUR, since / MINUTE % 60, since / SECOND % 60);
        let mut line = line.clone();
        for (name, plain) in &names {
            line = line.replace(name.as_str(), plain);
        }
        let indent = if line.starts_with('>') { "" } else { "    " };
        text.push_str(&format!("{hours:02}:{minutes:02}:{seconds:02}  {indent}{line}\n"));
    }
    text
}
