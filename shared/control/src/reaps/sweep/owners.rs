//! The records that machines are bound to.

use std::collections::BTreeMap;

use muster_domain::causes::with_causes;
use muster_domain::ids::{InstanceName, MachineId};
use muster_domain::instance::Instance;
use muster_domain::time::Time;
use muster_domain::usage;

use super::Sweep;
use crate::context::Wired;
use crate::ports::{Instances as _, ReadError, Table};

impl<W: Wired<Table: Table>> Sweep<'_, W> {
    /// Returns what looks after each machine. The listing of records may be late, so this reads the
    /// machine's own item and its instance by key.
    pub(super) async fn owners(
        &self,
        machines: &[MachineId],
    ) -> Result<BTreeMap<MachineId, OwnerState>, ReadError> {
        if machines.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (named, unreadable) = owners_of(self.context.table, machines).await?;
        let names: Vec<InstanceName> = named.values().cloned().collect();
        let known = self.known_among(&names).await?;
        let owner = |(machine, name)| Some((machine, *known.get(&name)?));
        let named = named.into_iter().filter_map(owner);
        Ok(named
            .chain(unreadable.into_iter().map(|machine| (machine, OwnerState::Lives)))
            .collect())
    }

    /// Reads instances by name. One that cannot be read counts as live: a different release may own it.
    async fn known_among(
        &self,
        names: &[InstanceName],
    ) -> Result<BTreeMap<InstanceName, OwnerState>, ReadError> {
        let table = self.context.table;
        match table.instances(names).await {
            Ok(rows) => {
                return Ok(rows
                    .iter()
                    .map(|row| (row.name.clone(), OwnerState::new(row)))
                    .collect());
            }
            Err(ReadError::Unreadable { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut all = BTreeMap::new();
        for name in names {
            let owner = match table.instance(name).await {
                Ok(row) => row.map(|row| OwnerState::new(&row)),
                Err(ReadError::Unreadable { .. }) => Some(OwnerState::Lives),
                Err(error) => return Err(error),
            };
            all.extend(owner.map(|owner| (name.clone(), owner)));
        }
        Ok(all)
    }
}

/// Returns the owners of machines, and the machines whose owner cannot be read: they were bound to an
/// instance, which looks after them.
pub(in crate::reaps) async fn owners_of<T: Table>(
    table: &T,
    machines: &[MachineId],
) -> Result<(BTreeMap<MachineId, InstanceName>, Vec<MachineId>), ReadError> {
    match table.owners_of(machines).await {
        Err(ReadError::Unreadable { .. }) => {}
        read => return Ok((read?, Vec::new())),
    }
    let (mut named, mut unreadable) = (BTreeMap::new(), Vec::new());
    for machine in machines {
        match table.owner_of(machine).await {
            Ok(owner) => named.extend(owner.map(|owner| (machine.clone(), owner))),
            Err(error @ ReadError::Unreadable { .. }) => {
                tracing::error!(machine.id = %machine, error = with_causes(&error), "left a machine alone");
                unreadable.push(machine.clone());
            }
            Err(error) => return Err(error),
        }
    }
    Ok((named, unreadable))
}

/// The state of the record that owns a machine.
#[derive(Clone, Copy)]
pub(super) enum OwnerState {
    /// The record is live and manages the machine.
    Lives,
    /// The record ended at this time; its usage record includes the machine's time until then.
    Ended(Time),
}

impl OwnerState {
    fn new(row: &Instance) -> Self {
        if row.state().is_live() { Self::Lives } else { Self::Ended(usage::end_of(row).0) }
    }
}
