//! Settings that a function keeps between invocations.

use std::cell::RefCell;
use std::rc::Rc;

use muster_domain::stored::{Stored, Version};

use crate::Settings;
use crate::ports::{ReadError, Table, Write};

/// Settings with the set of pools, and the version of the set's record.
#[derive(Clone, Debug)]
pub struct VersionedSettings {
    settings: Settings,
    /// None if there was no record.
    set: Option<Version>,
}

impl VersionedSettings {
    /// Reads the set of pools.
    ///
    /// # Errors
    /// As for [`Settings::current_pools`].
    pub async fn read<T: Table>(parameters: &Settings, table: &T) -> Result<Self, ReadError> {
        let stored = match table.pool_set().await {
            Err(error @ ReadError::Unreadable { .. }) => {
                let settings = parameters.bridged(error, table).await?;
                return match settings.unknown_pools() {
                    Some(error) => Err(error.clone()),
                    None => Ok(Self { settings, set: None }),
                };
            }
            read => read?,
        };
        let set = stored.as_ref().map(Stored::version);
        let settings = parameters.with_set(stored.map(Stored::into_record)).into_owned();
        Ok(Self { settings, set })
    }

    /// Returns the settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns a write that makes a commit a conflict if the set has changed since it was read.
    pub(crate) const fn check(&self) -> Write {
        Write::PoolsUnchanged(self.set)
    }
}

/// The settings that the last invocation read. They may be out of date: use them only for a commit that
/// checks them ([`VersionedSettings::check`]).
#[derive(Debug, Default)]
pub struct SettingsCache(RefCell<Option<Rc<VersionedSettings>>>);

impl SettingsCache {
    pub(crate) fn get(&self) -> Option<Rc<VersionedSettings>> {
        self.0.borrow().clone()
    }

    /// Reads the settings and caches them; not if the record is damaged, because then a commit has no
    /// version to check.
    pub(crate) async fn refresh<T: Table>(
        &self,
        parameters: &Settings,
        table: &T,
    ) -> Result<Rc<VersionedSettings>, ReadError> {
        let read = Rc::new(VersionedSettings::read(parameters, table).await?);
        let is_sound = read.settings.damage.is_none();
        self.0.replace(is_sound.then(|| Rc::clone(&read)));
        Ok(read)
    }
}
