//! A scenario told again for each call that its functions make, or for each pair of them, with that
//! one gone wrong.
//!
//! The story is not the same any more then, so nothing is expected of it, and what cannot be done
//! is left out. The rules hold all the same, and once everything works again, all comes to its end.
//! What chance finds once in ten thousand days, two writers at one record with the one in the
//! middle of its pass, is here one telling of a few hundred.

use super::{Scenario, commands};
use crate::agenda::{Event, MINUTE, Millis, SECOND};
use crate::fault::FaultRates;
use crate::run;
use crate::summary::Summary;
use crate::world::World;

/// What befalls a call of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It arrives this much later.
    HeldUp(Millis),
    /// It is never made: the function is stopped before it.
    Stopped,
}

/// A call that waits for eight seconds meets the next commands of the story, in the time that its
/// function has. One that waits for forty meets sweeps and other messages, and what time its
/// function has left runs out.
const WAYS: [Way; 3] = [Way::Stopped, Way::HeldUp(8 * SECOND), Way::HeldUp(40 * SECOND)];

/// The call that goes wrong, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disturbance {
    /// Its number among all calls of functions in the story; they count from 0.
    pub call: usize,
    /// What befalls it.
    pub way: Way,
}

/// A rule that broke, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// What had gone wrong, in the order in which it did.
    pub disturbances: Vec<Disturbance>,
    /// The rule, and what broke it.
    pub what: String,
    /// Everything that happened.
    pub trace: String,
}

/// The functions' calls so far, and those among them that go wrong.
#[derive(Clone, Debug)]
pub(crate) struct Disturbed {
    disturbances: Vec<Disturbance>,
    made: usize,
    pub(super) is_traced: bool,
}

impl Disturbed {
    /// What befalls the next call.
    pub(crate) fn next(&mut self) -> Option<Way> {
        let number = self.made;
        self.made += 1;
        let disturbance = self.disturbances.iter().find(|one| one.call == number)?;
        Some(disturbance.way)
    }
}

/// How many calls the functions make in a story where nothing goes wrong.
///
/// # Errors
/// The rule that breaks all the same.
pub fn calls_of(text: &str) -> Result<usize, Box<Broken>> {
    disturb(text, &[], true).map(|(calls, _)| calls)
}

/// The outcome of a story where nothing goes wrong, once it has come to rest as a disturbed one
/// does.
///
/// # Errors
/// The rule that breaks all the same.
pub fn undisturbed(text: &str) -> Result<Summary, Box<Broken>> {
    disturb(text, &[], true).map(|(_, outcome)| outcome)
}

/// Tells a scenario with each call of its functions disturbed in each way; `calls` of them in each
/// telling, so that two are every pair. `watch` gets, after each, how often that was so far, what
/// went wrong, and the outcome. Answers how often it was in all.
///
/// # Errors
/// The first telling that broke a rule.
pub fn disturb_each(
    text: &str,
    calls: usize,
    mut watch: impl FnMut(usize, &[Disturbance], &Summary),
) -> Result<usize, Box<Broken>> {
    let mut told = 0;
    let mut count = |disturbances: &[Disturbance], outcome: &Summary| {
        told += 1;
        watch(told, disturbances, outcome);
    };
    disturb_after(text, &mut Vec::new(), calls, &mut count)?;
    Ok(told)
}

/// The same for what stands behind the calls that go wrong so far.
fn disturb_after(
    text: &str,
    so_far: &mut Vec<Disturbance>,
    calls: usize,
    count: &mut impl FnMut(&[Disturbance], &Summary),
) -> Result<(), Box<Broken>> {
    let first = so_far.last().map_or(0, |last| last.call + 1);
    for call in first.. {
        for way in WAYS {
            so_far.push(Disturbance { call, way });
            // One that breaks a rule is told once more, with its trace.
            let (made, outcome) = disturb(text, so_far, false)
                .map_err(|broken| disturb(text, so_far, true).err().unwrap_or(broken))?;
            let is_beyond = made <= call;
            if !is_beyond {
                count(so_far, &outcome);
                if calls > 1 {
                    disturb_after(text, so_far, calls - 1, count)?;
                }
            }
            so_far.pop();
            if is_beyond {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Tells a scenario with these calls disturbed, and goes on until nothing is left of anything.
/// Answers how many calls its functions had made by the end of the story, and the outcome.
fn disturb(
    text: &str,
    disturbances: &[Disturbance],
    is_traced: bool,
) -> Result<(usize, Summary), Box<Broken>> {
    let disturbed = Disturbed { disturbances: disturbances.to_vec(), made: 0, is_traced };
    let mut scenario = Scenario { disturbed: Some(disturbed), ..Scenario::under(None) };
    for order in text.lines().flat_map(commands) {
        // An error is an expectation of the undisturbed story, or an order for what is not there
        // now.
        let _ = scenario.obey(order);
    }
    let made = scenario.change(|world| world.disturbed.as_ref().map_or(0, |one| one.made));
    scenario.change(go_on_by_itself);
    let executor = scenario.executor();
    let now = executor.sim().world.borrow().now;
    run::come_to_rest(executor, now);
    scenario.change(|world| {
        world.look_for_leftovers();
        match world.violation.take() {
            None => Ok((made, Summary::of(world))),
            Some(violation) => Err(Box::new(Broken {
                disturbances: disturbances.to_vec(),
                what: format!("{} broken: {}", violation.rule, violation.what),
                trace: world.trace().to_owned(),
            })),
        }
    })
}

/// Nothing fails any more, machines boot, and jobs run for a minute, without anybody's word.
pub(super) fn go_on_by_itself(world: &mut World) {
    world.cloud_config.by_hand = false;
    world.fault_rates = FaultRates::none();
    world.windows.clear();
    world.ec2.script.clear();
    world.ec2.without_spot = false;
    world.ec2.without_quota = None;
    world.ec2.forbidden_type = None;
    world.ec2.spot_errs = false;
    world.github.truth.agents.takes_from = None;
    let script = &mut world.github.script;
    (script.always_lies, script.hides_runners, script.never_gives_up) = (false, false, false);
    script.removes_nothing = false;
    (script.drop_next, script.fail_next) = (0, 0);
    script.refuses.clear();
    script.apps.clear();
    script.limits_runners = None;
    world.github.jobs.iter_mut().for_each(|job| job.length = Some(MINUTE));
    world.github.finish_all();
    for number in 0..u32::try_from(world.ec2.machines.len()).unwrap_or(u32::MAX) {
        world.ec2.at_mut(number).told = 1;
        world.wake_machine(number);
    }
    // What waits and who idles have both been there before.
    world.agenda.at(world.now, Event::Dispatch);
}
