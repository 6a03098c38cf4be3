//! The one world behind all doors, its clock, and what waits for it to change.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use super::emulator::{Emulator, RoleCredentials};
use muster_cloud::{Happening, Millis, World, calls::CallInfo};

/// What becomes of a held call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Release {
    /// As the fault says: by default it is performed and really answered.
    Continue,
    /// It is not performed, and the connection is cut.
    Drop,
}

/// A call that waits to be released.
pub(crate) struct Hold {
    pub(crate) call: u64,
    pub(crate) info: CallInfo,
    pub(crate) release: oneshot::Sender<Release>,
}

/// Everything the doors share.
pub struct Cloud {
    world: Mutex<World>,
    changed: watch::Sender<()>,
    happenings: mpsc::UnboundedSender<Happening>,
    pub(crate) holds: Mutex<BTreeMap<u64, Hold>>,
    /// Role credentials of machines, and when they were fetched.
    pub(crate) credentials: Mutex<BTreeMap<String, (Millis, RoleCredentials)>>,
    pub(crate) emulator: Option<Emulator>,
    pub(crate) state_dir: PathBuf,
    pub(crate) region: String,
    pub(crate) account: String,
}

impl Cloud {
    pub(crate) fn new(
        world: World,
        emulator: Option<Emulator>,
        state_dir: PathBuf,
        region: String,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Happening>) {
        let (happenings, happened) = mpsc::unbounded_channel();
        let cloud = Self {
            world: Mutex::new(world),
            changed: watch::Sender::new(()),
            happenings,
            holds: Mutex::default(),
            credentials: Mutex::default(),
            emulator,
            state_dir,
            region,
            account: "000000000000".to_owned(),
        };
        (Arc::new(cloud), happened)
    }

    /// Does something to the world at the present time, and passes on what happens by it.
    pub fn with<T>(&self, act: impl FnOnce(&mut World, Millis) -> T) -> T {
        let mut world = lock(&self.world);
        let now = now();
        world.advance(now);
        let answer = act(&mut world, now);
        // What the act put on the agenda for this very moment happens now, not at the next tick.
        world.advance(now);
        for happening in world.take_happenings() {
            // The receiver only goes away when the whole process does.
            let _ = self.happenings.send(happening);
        }
        drop(world);
        self.changed.send_replace(());
        answer
    }

    /// Reads the world as it is now.
    pub fn look<T>(&self, look: impl FnOnce(&World, Millis) -> T) -> T {
        let due = {
            let world = lock(&self.world);
            world.next_due().is_some_and(|due| due <= now())
        };
        if due {
            self.with(|_, _| ());
        }
        look(&lock(&self.world), now())
    }

    /// Wakes whenever something was done to the world.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Lets things happen when they are due, for ever.
    pub(crate) async fn tick(self: Arc<Self>) {
        let mut changes = self.changes();
        loop {
            let due = lock(&self.world).next_due();
            let wait = due.map_or(Duration::from_secs(3600), |due| {
                Duration::from_millis(u64::try_from(due - now()).unwrap_or(0))
            });
            tokio::select! {
                () = tokio::time::sleep(wait) => self.with(|_, _| ()),
                _ = changes.changed() => {}
            }
        }
    }
}

/// A poisoned lock means that a test's assertion failed while it held it; the data is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
