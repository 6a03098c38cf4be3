//! The messages on the queues. They only wake a function; the tables are the truth.

use serde::{Deserialize, Serialize};

use crate::ids::{Entity, InstallationId, InstanceName, JobKey, MachineId, PoolName};
use crate::job::JobEvent;
use crate::pool::warm::RepositoryEvent;
use crate::time::Time;

/// A message for scale-up: an event on the jobs queue, or a wake-up on the launch queue. A single
/// function handles both and distinguishes them by this type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum JobsMessage {
    /// A `workflow_job` event, normalised by the webhook. Until its job record exists, this message
    /// is the only durable copy.
    JobEvent {
        /// The event.
        event: Box<JobEvent>,
        /// GitHub's ID of the delivery, for the logs.
        delivery: String,
    },
    /// An unreadable event from this repository: it may have queued jobs that no other event
    /// announces.
    Unreadable {
        /// `owner/repo`.
        repository: Entity,
        /// The App's installation, if the event names it.
        installation: Option<InstallationId>,
        /// GitHub's ID of the delivery, for the logs.
        delivery: String,
    },
    /// An event that may warm pools: only a forecast, so nothing is lost with it.
    Repository {
        /// The event.
        event: Box<RepositoryEvent>,
        /// GitHub's ID of the delivery, for the logs.
        delivery: String,
    },
    /// Requests a launch pass.
    WakePool(WakePool),
}

/// A request to run a pool's launch pass. May be lost: the sweep sends it again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WakePool {
    /// The pool.
    pub pool: PoolName,
    /// The jobs that caused the request. The pass reads them by key, since indexes may not show
    /// them yet, and skips its work if all of them have stopped waiting. If empty, the pass checks
    /// the whole pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobKey>,
}

impl WakePool {
    /// Maximum number of jobs in a message: the limit of one read by key.
    const MAX_JOBS: usize = 100;

    /// Creates a request for the whole pool.
    #[must_use]
    pub const fn whole(pool: PoolName) -> Self {
        Self { pool, jobs: Vec::new() }
    }

    /// Creates the requests for these jobs, as many messages as necessary.
    pub fn for_jobs(pool: &PoolName, jobs: &[JobKey]) -> impl Iterator<Item = Self> {
        let part = |part: &[JobKey]| Self { jobs: part.to_vec(), ..Self::whole(pool.clone()) };
        jobs.chunks(Self::MAX_JOBS).map(part)
    }
}

/// A message on the reap queue. May be lost: the sweep finds the due record and sends it again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ReapMessage {
    /// Run a pass over an instance.
    Reap {
        /// The instance.
        name: InstanceName,
        /// Identifies this message. Only the message whose nonce is in the record may re-delay
        /// itself.
        nonce: u64,
    },
    /// EC2's report that a machine changed. Muster does not send this itself: it is translated from
    /// EventBridge's envelope.
    MachineChanged {
        /// The machine.
        machine: MachineId,
        /// EC2's name of its state, or [`SPOT_INTERRUPTION`].
        what: String,
        /// When it happened, if EC2 reports that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Time>,
    },
}

/// The event of a machine that EC2 reclaims in two minutes.
/// Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
pub const SPOT_INTERRUPTION: &str = "spot-interruption";

/// Serializes a message as ASCII-only JSON. SQS accepts only the characters of XML 1.0, and a job's
/// name is untrusted text, so every non-ASCII and control character is written as `\u….`
///
/// Source: docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
#[must_use]
pub fn to_ascii_json<T: Serialize>(message: &T) -> String {
    use std::fmt::Write as _;

    let json = serde_json::to_string(message).unwrap_or_else(|error| {
        // Messages consist of strings, numbers and enums, all of which JSON can express.
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
