//! Breadth-first search over every state of a world.
//!
//! States are told apart by a 64-bit fingerprint of what can matter later. With a few million
//! states the chance that two share one is about one in ten million. The first way to a state is a
//! shortest one, so a counterexample is as short as the world allows.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Instant;

use crate::act::Act;

/// A world: where it starts, what may happen next, and what must hold.
pub trait World: Sync {
    /// Everything there is at one moment.
    type State: Clone + Send + Sync;

    /// The states to start from.
    fn initial(&self) -> Vec<Self::State>;
    /// Equal for states from which the same can happen.
    fn fingerprint(&self, state: &Self::State) -> u64;
    /// Everything that may happen next. The same list each time it is asked for the same state.
    fn steps(&self, state: &Self::State, steps: &mut Vec<Step<Self::State>>);
    /// What is wrong with a state.
    fn violation(&self, state: &Self::State) -> Option<String>;
    /// Everything has come to its end.
    fn is_goal(&self, state: &Self::State) -> bool;
    /// A state in one line, for a trace.
    fn describe(&self, state: &Self::State) -> String;
}

/// Something that may happen.
pub struct Step<S> {
    /// In words.
    pub act: Act,
    /// Happens by itself sooner or later; faults, operators and chance do not. Only such steps may
    /// be needed to reach the goal.
    pub fair: bool,
    /// The state after it, or the rule that the step itself broke.
    pub next: Result<S, String>,
}

/// What a search found when everything held.
#[derive(Clone, Debug)]
pub struct Report {
    /// Distinct states.
    pub states: usize,
    /// Steps between them.
    pub edges: usize,
    /// Steps of the longest shortest way.
    pub depth: usize,
    /// Goal states.
    pub goals: usize,
    /// What happened anywhere, in words.
    pub acts: BTreeSet<&'static str>,
    /// Time taken.
    pub seconds: f64,
}

impl Report {
    /// Whether something with these words happened anywhere.
    #[must_use]
    pub fn did(&self, words: &str) -> bool {
        self.acts.iter().any(|act| act.contains(words))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} states, {} edges, depth {}, {} goal states, {:.1} s",
            self.states, self.edges, self.depth, self.goals, self.seconds
        )
    }
}

/// A way to something that must not be.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// What is wrong.
    pub what: String,
    /// The steps to it, each with the state after it.
    pub trace: Vec<(Act, String)>,
    /// States looked at before it was found.
    pub states: usize,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} (after {} steps, {} states)", self.what, self.trace.len(), self.states)?;
        // A world that does not close has long ways; its last steps say why.
        let skipped = self.trace.len().saturating_sub(60);
        for (number, (act, state)) in self.trace.iter().enumerate().skip(skipped) {
            writeln!(f, "{:>3}. {act}\n       {state}", number + 1)?;
        }
        Ok(())
    }
}

/// The fingerprint is a hash already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are keys");
    }
    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

/// Sentences by the address of their text, which is quicker than by the text.
type Acts = HashMap<u64, &'static str, BuildHasherDefault<AsIs>>;

fn note(acts: &mut Acts, act: &Act) {
    for words in act.words() {
        acts.insert(words.as_ptr() as u64, words);
    }
}

type Visited = HashMap<u64, u32, BuildHasherDefault<AsIs>>;

/// How a state was first reached: from which one, by which of its steps.
#[derive(Clone, Copy)]
struct Origin {
    parent: u32,
    step: u16,
}

const ROOT: u32 = u32::MAX;

/// A state seen for the first time by one thread.
struct Found<S> {
    fingerprint: u64,
    origin: Origin,
    state: S,
    violation: Option<String>,
    goal: bool,
}

/// What one thread makes of its part of a level.
struct Expanded<S> {
    found: Vec<Found<S>>,
    /// From, fingerprint, fair.
    edges: Vec<(u32, u64, bool)>,
    broken: Option<(Origin, String)>,
    acts: Acts,
}

struct Search<'a, W: World> {
    world: &'a W,
    visited: Visited,
    origins: Vec<Origin>,
    goals: Vec<u32>,
    edges: usize,
    fair: Vec<(u32, u32)>,
    acts: Acts,
}

/// Looks at every state. `limit` is a guard against worlds that do not close.
///
/// # Errors
/// A shortest way to a violation, or to a state from which the goal cannot be reached by fair
/// steps.
pub fn explore<W: World>(world: &W, limit: usize) -> Result<Report, Box<Counterexample>> {
    let start = Instant::now();
    let mut search = Search {
        world,
        visited: Visited::default(),
        origins: Vec::new(),
        goals: Vec::new(),
        edges: 0,
        fair: Vec::new(),
        acts: Acts::default(),
    };
    let mut level = search.roots()?;
    let mut depth = 0;
    while !level.is_empty() {
        let expanded = search.expand(&level);
        level = search.merge(expanded)?;
        depth += usize::from(!level.is_empty());
        if search.origins.len() > limit {
            let what = format!("does not close within {limit} states");
            return Err(search.counterexample(what, search.origins.len() - 1));
        }
    }
    search.goal_stays_reachable()?;
    Ok(Report {
        states: search.origins.len(),
        edges: search.edges,
        depth,
        goals: search.goals.len(),
        acts: search.acts.into_values().collect(),
        seconds: start.elapsed().as_secs_f64(),
    })
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn id(index: usize) -> u32 {
    u32::try_from(index).expect("fewer states than 2^32")
}

impl<W: World> Search<'_, W> {
    fn roots(&mut self) -> Result<Vec<(u32, W::State)>, Box<Counterexample>> {
        let found = self
            .world
            .initial()
            .into_iter()
            .zip(0..)
            .map(|(state, step)| self.found(state, Origin { parent: ROOT, step }))
            .collect();
        self.merge(vec![Expanded { found, edges: Vec::new(), broken: None, acts: Acts::default() }])
    }

    fn found(&self, state: W::State, origin: Origin) -> Found<W::State> {
        Found {
            fingerprint: self.world.fingerprint(&state),
            origin,
            violation: self.world.violation(&state),
            goal: self.world.is_goal(&state),
            state,
        }
    }

    fn expand(&self, level: &[(u32, W::State)]) -> Vec<Expanded<W::State>> {
        let threads = threads();
        if level.len() < 64 || threads == 1 {
            return vec![self.expand_part(level)];
        }
        let part = level.len().div_ceil(threads);
        std::thread::scope(|scope| {
            let parts: Vec<_> =
                level.chunks(part).map(|part| scope.spawn(|| self.expand_part(part))).collect();
            parts.into_iter().map(|part| part.join().expect("a search thread panicked")).collect()
        })
    }

    fn expand_part(&self, part: &[(u32, W::State)]) -> Expanded<W::State> {
        let mut expanded =
            Expanded { found: Vec::new(), edges: Vec::new(), broken: None, acts: Acts::default() };
        let mut new = Visited::default();
        let mut steps = Vec::new();
        for (from, state) in part {
            steps.clear();
            self.world.steps(state, &mut steps);
            for (step, number) in steps.drain(..).zip(0..) {
                note(&mut expanded.acts, &step.act);
                let origin = Origin { parent: *from, step: number };
                let next = match step.next {
                    Ok(next) => next,
                    Err(what) => {
                        expanded.broken.get_or_insert((origin, what));
                        continue;
                    }
                };
                let fingerprint = self.world.fingerprint(&next);
                expanded.edges.push((*from, fingerprint, step.fair));
                if !self.visited.contains_key(&fingerprint) && new.insert(fingerprint, 0).is_none()
                {
                    let mut found = self.found(next, origin);
                    found.fingerprint = fingerprint;
                    expanded.found.push(found);
                }
            }
        }
        expanded
    }

    /// Takes over what the threads found. Answers with the next level.
    fn merge(
        &mut self,
        expanded: Vec<Expanded<W::State>>,
    ) -> Result<Vec<(u32, W::State)>, Box<Counterexample>> {
        let mut level = Vec::new();
        let mut edges = Vec::new();
        for part in expanded {
            if let Some((origin, what)) = part.broken {
                return Err(self.broken(what, origin));
            }
            for found in part.found {
                let number = self.origins.len();
                if self.visited.contains_key(&found.fingerprint) {
                    continue;
                }
                self.visited.insert(found.fingerprint, id(number));
                self.origins.push(found.origin);
                if let Some(what) = found.violation {
                    return Err(self.counterexample(what, number));
                }
                if found.goal {
                    self.goals.push(id(number));
                }
                level.push((id(number), found.state));
            }
            edges.extend(part.edges);
            self.acts.extend(part.acts);
        }
        self.edges += edges.len();
        let fair = edges.into_iter().filter(|(_, _, fair)| *fair);
        self.fair.extend(fair.map(|(from, to, _)| (from, self.visited[&to])));
        Ok(level)
    }

    /// Walks the fair steps backward from the goal.
    fn goal_stays_reachable(&self) -> Result<(), Box<Counterexample>> {
        let states = self.origins.len();
        let mut starts = vec![0_u32; states + 1];
        for (_, to) in &self.fair {
            starts[*to as usize + 1] += 1;
        }
        for index in 0..states {
            starts[index + 1] += starts[index];
        }
        let mut sources = vec![0_u32; self.fair.len()];
        let mut filled = starts.clone();
        for (from, to) in &self.fair {
            sources[filled[*to as usize] as usize] = *from;
            filled[*to as usize] += 1;
        }
        let mut reaches = vec![false; states];
        let mut work = self.goals.clone();
        for goal in &work {
            reaches[*goal as usize] = true;
        }
        while let Some(to) = work.pop() {
            let to = to as usize;
            for from in &sources[starts[to] as usize..starts[to + 1] as usize] {
                if !std::mem::replace(&mut reaches[*from as usize], true) {
                    work.push(*from);
                }
            }
        }
        let lost = reaches.iter().filter(|reaches| !**reaches).count();
        match reaches.iter().position(|reaches| !reaches) {
            None => Ok(()),
            Some(first) => {
                let what = format!("I11: from here ({lost} states) the goal cannot be reached");
                Err(self.counterexample(what, first))
            }
        }
    }

    fn broken(&self, what: String, origin: Origin) -> Box<Counterexample> {
        let mut way = self.way_to(origin.parent as usize);
        way.push(origin.step);
        self.replay(what, &way)
    }

    fn counterexample(&self, what: String, state: usize) -> Box<Counterexample> {
        self.replay(what, &self.way_to(state))
    }

    /// The numbers of the steps that lead to a state, the number of its initial state first.
    fn way_to(&self, state: usize) -> Vec<u16> {
        let mut way = Vec::new();
        let mut at = id(state);
        while at != ROOT {
            let origin = self.origins[at as usize];
            way.push(origin.step);
            at = origin.parent;
        }
        way.reverse();
        way
    }

    fn replay(&self, what: String, way: &[u16]) -> Box<Counterexample> {
        let mut state = self.world.initial().swap_remove(usize::from(way[0]));
        let mut trace = Vec::new();
        for number in &way[1..] {
            let mut steps = Vec::new();
            self.world.steps(&state, &mut steps);
            let step = steps.swap_remove(usize::from(*number));
            match step.next {
                Ok(next) => {
                    trace.push((step.act, self.world.describe(&next)));
                    state = next;
                }
                Err(what) => trace.push((step.act, what)),
            }
        }
        Box::new(Counterexample { what, trace, states: self.origins.len() })
    }
}
