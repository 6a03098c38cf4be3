//! The machines behind the instances: power, boot, and how they misbehave.
//!
//! The model only knows that a machine has power and what was scripted for it. What runs on it is
//! the driver's business: a real bash process, or a coroutine in virtual time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Millis;

/// What goes wrong with a machine. The default is a machine that simply works.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behaviour {
    /// EC2 says `running`, and nothing ever runs.
    pub never_boots: bool,
    /// Added to the usual boot time.
    pub boot_delay_ms: Millis,
    /// The machine dies this long after it was launched.
    pub dies_after_ms: Option<Millis>,
    /// How it dies.
    pub death: Death,
    /// The runner never runs its hooks.
    pub loses_hooks: bool,
    /// The version of the agent that its image has brought; `none` for an image without one. Left
    /// out: one that every GitHub here takes.
    pub agent: Option<String>,
    /// The launch ends in `pending` → `terminated` with this state reason code.
    pub launch_fails: Option<String>,
    /// `shutting-down` never becomes `terminated`.
    pub stuck_shutting_down: bool,
}

/// What EC2 sees of a dying machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Death {
    /// The system hangs: EC2 goes on saying `running`.
    #[default]
    Hangs,
    /// The host is lost: EC2 terminates the instance.
    Terminated,
    /// The system is halted and EC2 stops the instance.
    Stopped,
}

/// Whether a machine has power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Power {
    /// Launched; the boot script has not started.
    Waiting,
    /// The boot script has started.
    On,
    /// Gone.
    Off,
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    pub instance: String,
    pub stack: Option<String>,
    pub power: Power,
    pub behaviour: Behaviour,
    pub powered_on_at: Option<Millis>,
    pub powered_off_at: Option<Millis>,
    /// Why it lost its power.
    pub cause: Option<String>,
}

/// A behaviour for the next machines that a stack launches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Only machines of this stack; any machine without it.
    #[serde(default)]
    pub stack: Option<String>,
    /// How many machines; all that follow without it.
    #[serde(default)]
    pub times: Option<u32>,
    pub behaviour: Behaviour,
}

/// All machines, and what is scripted for the next ones.
#[derive(Clone, Debug, Default)]
pub struct Machines {
    all: BTreeMap<String, Machine>,
    scripts: Vec<Script>,
}

impl Machines {
    /// Every machine there ever was.
    pub fn iter(&self) -> impl Iterator<Item = &Machine> {
        self.all.values()
    }

    /// The machine behind an instance.
    #[must_use]
    pub fn get(&self, instance: &str) -> Option<&Machine> {
        self.all.get(instance)
    }

    /// Scripts the behaviour of machines that are launched from now on. Scripts are used up in the
    /// order in which they were given.
    pub fn script(&mut self, script: Script) {
        self.scripts.push(script);
    }

    /// Forgets what was scripted for one stack, or for all.
    pub fn clear_scripts(&mut self, stack: Option<&str>) {
        self.scripts.retain(|script| stack.is_some() && script.stack.as_deref() != stack);
    }

    pub(crate) fn launch(&mut self, instance: &str, stack: Option<&str>) -> &Machine {
        let behaviour = self.next_behaviour(stack);
        self.all.entry(instance.to_owned()).or_insert(Machine {
            instance: instance.to_owned(),
            stack: stack.map(str::to_owned),
            power: Power::Waiting,
            behaviour,
            powered_on_at: None,
            powered_off_at: None,
            cause: None,
        })
    }

    pub(crate) fn get_mut(&mut self, instance: &str) -> Option<&mut Machine> {
        self.all.get_mut(instance)
    }

    fn next_behaviour(&mut self, stack: Option<&str>) -> Behaviour {
        let found = self
            .scripts
            .iter()
            .position(|script| script.stack.is_none() || script.stack.as_deref() == stack);
        let Some(index) = found else { return Behaviour::default() };
        let script = &mut self.scripts[index];
        let behaviour = script.behaviour.clone();
        match &mut script.times {
            Some(times) if *times <= 1 => {
                self.scripts.remove(index);
            }
            Some(times) => *times -= 1,
            None => {}
        }
        behaviour
    }
}
