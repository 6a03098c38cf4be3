//! The messages on the queues. They only wake somebody up; the tables are the truth.

use serde::{Deserialize, Serialize};

use crate::ids::{Entity, InstallationId, InstanceName, JobKey, MachineId, PoolName};
use crate::job::JobEvent;
use crate::time::Time;

/// A message for scale-up: an event on the jobs queue, or a wake-up on the launch queue. One
/// function takes both, and the type tells them apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum JobsMessage {
    /// A `workflow_job` event, normalised by the webhook. Durable only here until its row exists.
    JobEvent {
        /// The event.
        event: Box<JobEvent>,
        /// GitHub's number of the delivery, for the logs.
        delivery: String,
    },
    /// An event that cannot be read came from this repository: jobs may be queued there that nobody
    /// has told of.
    Unreadable {
        /// `owner/repo`.
        repository: Entity,
        /// The App's installation, where the event names it.
        installation: Option<InstallationId>,
        /// GitHub's number of the delivery, for the logs.
        delivery: String,
    },
    /// Asks for a launch pass.
    WakePool(WakePool),
}

/// Run the launch pass of a pool. May be lost: the sweep sends it again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WakePool {
    /// The pool.
    pub pool: PoolName,
    /// The jobs for whose sake alone: the pass reads them by key, since no index may show them yet,
    /// and there is nothing to do when none of them waits any more. None: look at the whole pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobKey>,
}

impl WakePool {
    /// Most jobs that one message names: as many as one read by key takes.
    const MAX_JOBS: usize = 100;

    /// Look at the whole pool.
    #[must_use]
    pub const fn whole(pool: PoolName) -> Self {
        Self { pool, jobs: Vec::new() }
    }

    /// For these jobs, in as many messages as they need.
    pub fn for_jobs(pool: &PoolName, jobs: &[JobKey]) -> impl Iterator<Item = Self> {
        let part = |part: &[JobKey]| Self { jobs: part.to_vec(), ..Self::whole(pool.clone()) };
        jobs.chunks(Self::MAX_JOBS).map(part)
    }
}

/// A message on the reap queue. May be lost: the sweep finds the due row and sends it again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ReapMessage {
    /// Run a pass over an instance.
    Reap {
        /// The instance.
        name: InstanceName,
        /// Names this message. Only the one whose nonce stands in the row may hide itself again.
        nonce: u64,
    },
    /// EC2 says that something happened to a machine. Not sent by us: EventBridge's envelope is
    /// translated to this.
    MachineChanged {
        /// The machine.
        machine: MachineId,
        /// EC2's word for its state, or [`SPOT_INTERRUPTION`].
        what: String,
        /// When it happened, where EC2 tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Time>,
    },
}

/// What happened to a machine that EC2 takes back in two minutes.
/// Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
pub const SPOT_INTERRUPTION: &str = "spot-interruption";

/// JSON in ASCII alone. SQS takes only the characters of XML 1.0, and a job's name is the text of
/// strangers, so everything beyond ASCII and every control character is written as `\u….`
///
/// Source: docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
#[must_use]
pub fn to_ascii_json<T: Serialize>(message: &T) -> String {
    use std::fmt::Write as _;

    let json = serde_json::to_string(message).unwrap_or_else(|error| {
        // Our messages hold strings, numbers and enums: nothing that JSON cannot express.
        unreachable!("message cannot be written as JSON: {error}")
    });
    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() && character != '\u{7f}' {
            ascii.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                // Writing to a String cannot fail.
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_is_read_as_it_is_written() {
        let pool: PoolName = "default".parse().expect("valid");
        let text = r#"{"type":"wake_pool","pool":"default"}"#;
        let whole = JobsMessage::WakePool(WakePool::whole(pool.clone()));
        assert_eq!(serde_json::from_str::<JobsMessage>(text).expect("read"), whole);
        assert_eq!(to_ascii_json(&whole), text);
        let key = "700800900/56789012345".parse().expect("a key");
        let named =
            WakePool::for_jobs(&pool, &[key]).map(JobsMessage::WakePool).next().expect("one");
        let read: JobsMessage = serde_json::from_str(&to_ascii_json(&named)).expect("read");
        assert_eq!(read, named);
    }

    #[test]
    fn no_message_names_more_jobs_than_one_read_takes() {
        let pool: PoolName = "default".parse().expect("valid");
        let keys: Vec<JobKey> =
            (1..=250).map(|n| format!("1/{n}").parse().expect("a key")).collect();
        let parts: Vec<usize> =
            WakePool::for_jobs(&pool, &keys).map(|one| one.jobs.len()).collect();
        assert_eq!(parts, [100, 100, 50]);
    }

    #[test]
    fn any_text_travels_as_ascii_and_arrives_whole() {
        let text = "naïve 👷 \u{0}\u{7f}\u{2028}\u{ffff} \"quoted\"";
        let ascii = to_ascii_json(&text);
        assert!(ascii.bytes().all(|b| (0x20..0x7f).contains(&b)), "{ascii}");
        assert_eq!(serde_json::from_str::<String>(&ascii).expect("valid JSON"), text);
    }
}
