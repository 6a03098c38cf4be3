//! I13, and I4 and I10 beside it: what stands on record before something is done outside. Asked
//! before each call that changes EC2 or GitHub. Before every call to GitHub: whether it uses the
//! installation of the account that it concerns.

use muster_control::ports::Registrar;
use muster_domain::ids::{LaunchId, MachineId, instance_of_runner};
use muster_domain::instance::State;
use muster_domain::launch::{LaunchRequest, LaunchState};
use muster_domain::stored::Stored;

use crate::github::scope_of;
use crate::world::World;

impl World {
    /// I13: a launch is on record, word for word, before EC2 is called.
    pub(crate) fn check_launch(&mut self, id: &LaunchId, request: &LaunchRequest) {
        let stored = self.tables.launches.get(id);
        // A pass that was overtaken while its call was out finds the launch settled by another.
        let intended = stored.is_some_and(|launch| launch.request == *request);
        let first_is_open =
            stored.is_some_and(|launch| launch.state == LaunchState::Open || launch.calls > 1);
        if !intended || !first_is_open {
            self.broken("I13", || format!("CreateFleet {id} without its record"));
        }
    }

    /// I4: never more machines than slots.
    pub(crate) fn check_machines_of(&mut self, id: &LaunchId, capacity: u32) {
        let living = self.ec2.living().rev().take(400);
        let live = living.filter(|machine| machine.launch.as_ref() == Some(id)).count();
        if live > capacity as usize {
            self.tally.doubled += (live - capacity as usize) as u64;
            self.broken("I4", || format!("{live} live machines of launch {id}, slots {capacity}"));
        }
    }

    /// I10, I13: only machines of ours, and only with a mark or a ledger entry.
    pub(crate) fn check_terminate(&mut self, id: &MachineId) {
        let ours = self.ec2.number(id).is_some_and(|number| self.ec2.at(number).launch.is_some());
        if !ours {
            self.broken("I10", || format!("terminate of {id}, which is not ours"));
            return;
        }
        let orphan = self.tables.orphans.contains_key(id);
        let marked = self.owner(id).is_some_and(|row| {
            row.mark().is_some() && !row.state().is_serving() && row.state() != State::Error
        });
        // Another pass may have ended it, and struck its entry, a moment ago.
        let gone = self.ec2.has_ended(id);
        if !orphan && !marked && !gone {
            self.broken("I13", || format!("terminate of {id} without an intent on record"));
        }
        if !gone {
            self.check_terminate_allowed(id);
        }
    }

    /// The token of an account's installation is refused everywhere else: GitHub then shows no runner
    /// and no job. Without an installation, the adapter looks up the entity's own.
    pub(crate) fn check_installation(&mut self, registrar: &Registrar, operation: &str) {
        let Registrar { entity, installation } = registrar;
        let own = self.github.installation_of(scope_of(entity).owner());
        if installation.is_some_and(|installation| installation != own) {
            self.broken("installation", || {
                format!("{operation} for {entity} as {installation:?}, not {own:?}")
            });
        }
    }

    /// I13: the configuration call is counted before it is made.
    pub(crate) fn check_configure(&mut self, name: &str) {
        let number = name.rsplit_once('-').and_then(|(_, n)| n.parse::<u32>().ok());
        let counted = instance_of_runner(name)
            .and_then(|row| self.tables.instances.get(&row))
            .zip(number)
            .is_some_and(|(row, n)| row.runner.n >= n);
        if !counted {
            self.broken("I13", || format!("configuration {name} without its count on record"));
        }
    }

    /// I13: a DELETE is sent for a marked row, or for a registration that a newer one replaced. No
    /// switch holds back runner-api: what it takes back is a registration that no machine was told
    /// of.
    pub(crate) fn check_deregister(&mut self, id: u64, by_api: bool) {
        let Some(runner) = self.github.truth.runner(id) else { return };
        let name = runner.name.clone();
        let row = instance_of_runner(&name);
        let row = row.and_then(|row| self.tables.instances.get(&row)).cloned();
        let intended = row.as_ref().is_some_and(|row| {
            row.mark().is_some() || !row.state().is_live() || row.runner_name() != name
        });
        if !intended {
            self.broken("I13", || format!("DELETE of {name} without a mark"));
        }
        if !by_api {
            self.check_deletes_off(
                row.as_deref().map(Stored::record),
                &format!("DELETE of {name}"),
            );
        }
    }
}
