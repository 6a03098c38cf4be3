//! Scripted faults: which calls they hit, and what becomes of those calls.
//!
//! A fault says three things about a call: when it goes on (at once, after a delay, once it is
//! released), whether it is performed, and what the caller hears. The model decides *which* fault
//! hits a call; carrying it out is the driver's part.

use serde::{Deserialize, Serialize};

use super::calls::CallInfo;

/// What the caller hears.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The real answer.
    #[default]
    Real,
    /// Nothing: the connection is cut.
    Drop,
    /// An error, or anything else.
    Error {
        status: u16,
        /// EC2's error code. GitHub has none.
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
        #[serde(default)]
        headers: Vec<(String, String)>,
        /// The whole body, instead of one made of code and message.
        #[serde(default)]
        body: Option<String>,
    },
}

/// A fault as a test writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    /// `ec2`, `github`, `imds` or `agent`.
    #[serde(default)]
    pub door: Option<String>,
    /// For instance `CreateFleet`, `generate-jitconfig`; see the call log for the names.
    #[serde(default)]
    pub operation: Option<String>,
    #[serde(default)]
    pub stack: Option<String>,
    #[serde(default)]
    pub owner: Option<String>,
    /// Only calls with a target that contains this text (an instance id, a runner's name …).
    #[serde(default)]
    pub target: Option<String>,
    /// Lets this many matching calls pass first.
    #[serde(default)]
    pub skip: u32,
    /// How many calls it hits; for ever without it.
    #[serde(default)]
    pub times: Option<u32>,
    #[serde(default)]
    pub delay_ms: u64,
    /// Waits until it is released through the control API.
    #[serde(default)]
    pub hold: bool,
    /// Whether the call is performed. Without it: only if the answer is not an error.
    #[serde(default)]
    pub perform: Option<bool>,
    #[serde(default)]
    pub answer: Answer,
}

impl FaultSpec {
    /// Whether a call that it hits is performed.
    #[must_use]
    pub fn performs(&self) -> bool {
        self.perform.unwrap_or(self.answer == Answer::Real)
    }

    /// Why the fault makes no sense, if it makes none.
    pub fn check(&self) -> Result<(), String> {
        if self.answer == Answer::Drop && self.perform.is_none() {
            return Err("a drop must say whether the call is performed: \"perform\"".to_owned());
        }
        if self.answer == Answer::Real && self.perform == Some(false) {
            return Err("a call that is not performed has no real answer".to_owned());
        }
        if let Answer::Error { status, .. } = self.answer
            && !(200..=599).contains(&status)
        {
            return Err(format!("{status} is no status to answer with"));
        }
        Ok(())
    }

    fn matches(&self, call: &CallInfo) -> bool {
        let same = |wanted: &Option<String>, value: Option<&str>| {
            wanted
                .as_deref()
                .is_none_or(|wanted| value.is_some_and(|value| wanted.eq_ignore_ascii_case(value)))
        };
        same(&self.door, Some(call.door))
            && same(&self.operation, Some(&call.operation))
            && same(&self.stack, call.stack.as_deref())
            && same(&self.owner, call.owner.as_deref())
            && self
                .target
                .as_ref()
                .is_none_or(|wanted| call.targets.iter().any(|t| t.contains(wanted)))
    }
}

/// A scripted fault and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    pub id: u64,
    pub hits: u32,
    seen: u32,
    pub spec: FaultSpec,
}

/// All scripted faults.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    faults: Vec<Fault>,
    count: u64,
}

impl Faults {
    /// Scripts a fault. The first one that matches a call and is not used up decides about it.
    pub fn add(&mut self, spec: FaultSpec) -> Result<u64, String> {
        spec.check()?;
        self.count += 1;
        self.faults.push(Fault { id: self.count, hits: 0, seen: 0, spec });
        Ok(self.count)
    }

    /// Every fault, used up or not.
    #[must_use]
    pub fn all(&self) -> &[Fault] {
        &self.faults
    }

    /// Forgets one fault.
    pub fn remove(&mut self, id: u64) -> bool {
        let before = self.faults.len();
        self.faults.retain(|fault| fault.id != id);
        self.faults.len() < before
    }

    /// Forgets the faults of one stack, or all.
    pub fn clear(&mut self, stack: Option<&str>) {
        self.faults.retain(|fault| stack.is_some() && fault.spec.stack.as_deref() != stack);
    }

    /// The fault that hits this call.
    pub fn strike(&mut self, call: &CallInfo) -> Option<Fault> {
        let left = |f: &Fault| f.spec.times.is_none_or(|times| f.hits < times);
        let fault = self.faults.iter_mut().find(|f| left(f) && f.spec.matches(call))?;
        fault.seen += 1;
        if fault.seen <= fault.spec.skip {
            return None;
        }
        fault.hits += 1;
        Some(fault.clone())
    }
}
