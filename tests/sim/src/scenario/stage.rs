//! A scenario that a test tells in parts, and looks at between them.

use super::{Scenario, commands, render};
use crate::agenda::Millis;
use crate::fault::FaultRates;
use crate::run;
use crate::summary::Summary;
use crate::world::World;

/// A scenario while a test tells it.
pub struct Stage(Scenario);

impl Stage {
    /// The scenario so far.
    ///
    /// # Errors
    /// As those of [`super::tell`].
    pub fn set(text: &str) -> Result<Self, String> {
        let mut stage = Self(Scenario::under(None));
        stage.tell(text)?;
        Ok(stage)
    }

    /// Goes on.
    ///
    /// # Errors
    /// As those of [`super::tell`].
    pub fn tell(&mut self, text: &str) -> Result<(), String> {
        for command in text.lines().flat_map(commands) {
            let told = self.0.obey(command);
            told.map_err(|problem| format!("{command}: {problem}\n{}", render(&self.0)))?;
        }
        Ok(())
    }

    /// What happened.
    #[must_use]
    pub fn timeline(&self) -> String {
        render(&self.0)
    }

    /// The outcome so far.
    pub fn outcome(&mut self) -> Summary {
        self.change(Summary::of)
    }

    /// Looks at the world, or changes it.
    pub fn change<R>(&mut self, change: impl FnOnce(&mut World) -> R) -> R {
        self.0.change(change)
    }

    /// Nothing fails any more, and nobody's word is needed: machines boot, GitHub gives jobs to
    /// runners, and those take `job` each. Goes on until nothing is left of anything.
    pub fn come_to_rest(&mut self, job: Millis) {
        self.change(|world| {
            super::disturbed::go_on_by_itself(world);
            // As by hand, so that nothing is left to chance.
            world.cloud_config.by_hand = true;
            (world.ec2.boots_alone, world.github.script.gives_jobs) = (true, true);
            world.github.jobs.iter_mut().for_each(|one| one.length = Some(job));
            world.fault_rates = FaultRates::none();
        });
        let executor = self.0.executor();
        let now = executor.sim().world.borrow().now;
        run::come_to_rest(executor, now);
        self.change(World::look_for_leftovers);
    }
}
