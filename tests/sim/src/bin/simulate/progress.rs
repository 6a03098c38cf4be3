//! How far it is: a bar on a terminal, a line every few seconds anywhere else.

use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use muster_sim::totals::Totals;

const WIDTH: u64 = 30;

/// Shows how many seeds are done.
pub(crate) struct Progress {
    seeds: u64,
    begun: Instant,
    shown: Instant,
    is_terminal: bool,
}

impl Progress {
    pub(crate) fn new(seeds: u64) -> Self {
        let now = Instant::now();
        let is_terminal = std::io::stderr().is_terminal();
        Self { seeds, begun: now, shown: now, is_terminal }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn show(&mut self, totals: &Totals) {
        let pause = Duration::from_millis(if self.is_terminal { 200 } else { 5_000 });
        if self.shown.elapsed() < pause {
            return;
        }
        self.shown = Instant::now();
        let (done, all) = (totals.seeds, self.seeds);
        let rate = totals.seeds as f64 / self.elapsed().as_secs_f64();
        let left = (all.saturating_sub(done)) as f64 / rate.max(0.001);
        let failed = totals.failed;
        let line = format!(
            "{done}/{all} seeds, {rate:.0} schedules/s, {failed} failed, {left:.0} s to go"
        );
        let mut err = std::io::stderr().lock();
        // Nobody is helped by a failure to show how far it is.
        let _ = if self.is_terminal {
            let full = (WIDTH * done / all.max(1)).min(WIDTH);
            let (full, empty) = ("█".repeat(full as usize), "░".repeat((WIDTH - full) as usize));
            write!(err, "\r{full}{empty} {line}\x1b[K")
        } else {
            writeln!(err, "{line}")
        };
    }

    /// Removes the bar.
    pub(crate) fn end(&self) {
        if self.is_terminal {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}
