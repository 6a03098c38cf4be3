//! Keeps the cores awake while something is measured.
//!
//! A core with nothing to do sleeps, and on a virtual machine it wakes slowly and with cold caches;
//! that is charged to whoever runs next, and an event of a tenth of a millisecond costs half as
//! much again. The host of a Lambda never sleeps. A process of the lowest priority on each core
//! takes nothing from the others and keeps them awake.

use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// The argument with which this program does nothing, busily.
pub(crate) const SPIN: &str = "--spin";

/// The processes. They end with this value.
pub(crate) struct Awake(Vec<Child>);

impl Awake {
    /// One process a core.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("own path")?;
        let cores = std::thread::available_parallelism().context("number of cores")?.get();
        let mut awake = Self(Vec::new());
        for _ in 0..cores {
            let mut command = Command::new("nice");
            command.args(["-n", "19"]).arg(&own).arg(SPIN).stdin(Stdio::null());
            awake.0.push(command.spawn().context("starting nice")?);
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may be gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Until somebody ends the process, or its parent has gone.
pub(crate) fn spin() -> ! {
    let parent = std::os::unix::process::parent_id();
    loop {
        for _ in 0..10_000_000 {
            std::hint::spin_loop();
        }
        if std::os::unix::process::parent_id() != parent {
            std::process::exit(0);
        }
    }
}
