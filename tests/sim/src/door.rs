//! The in-process door: what the passes hold instead of the real cloud.

use std::cell::Cell;
use std::rc::Rc;

use crate::agenda::Millis;
use crate::executor::{Pause, Sim};
use crate::world::World;

/// A caller's end of the simulated cloud: all four ports.
#[derive(Clone, Debug)]
pub struct Door {
    /// The world behind it.
    pub sim: Rc<Sim>,
    /// How far this invocation's clock is off.
    pub skew: Millis,
    /// No installation token is in its cache yet.
    pub cold: Cell<bool>,
    /// The caller is runner-api.
    pub is_api: bool,
}

impl Door {
    /// One call: it takes a moment, in which anything else may happen and the caller may be
    /// stopped; then it is carried out at once. The way back needs no moment of its own: until its
    /// next call the caller only computes, so the next call's way out stands for both. A call may
    /// arrive when its caller is no more.
    pub async fn call<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
        Pause::call(&self.sim).await;
        let (number, longer) = self.sim.world.borrow_mut().call_is_made(&act);
        if longer > 0 {
            Pause::new(&self.sim, longer).await;
        }
        self.sim.world.borrow_mut().carry_out(number);
        let answer = act(&mut self.sim.world.borrow_mut());
        self.sim.world.borrow_mut().carry_out(None);
        if self.sim.world.borrow().is_landing {
            std::future::pending::<()>().await;
        }
        answer
    }

    /// The time that this invocation's clock shows.
    #[must_use]
    pub fn now(&self) -> muster_domain::time::Time {
        let world = self.sim.world.borrow();
        muster_domain::time::Time::from_millis(world.now + self.skew)
    }

    /// A random number, for what is random in the functions too.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.sim.world.borrow_mut().rng.next()
    }
}
