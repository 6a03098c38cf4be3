//! The messages on the two queues. Both only wake somebody up; the tables are the truth.

use serde::{Deserialize, Serialize};

use crate::ids::{InstanceName, MachineId, PoolName};
use crate::job::JobEvent;

/// A message on the jobs queue.
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
    /// Run the launch pass of a pool. May be lost: the sweep sends it again.
    WakePool {
        /// The pool.
        pool: PoolName,
    },
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
    fn any_text_travels_as_ascii_and_arrives_whole() {
        let text = "naïve 👷 \u{0}\u{7f}\u{2028}\u{ffff} \"quoted\"";
        let ascii = to_ascii_json(&text);
        assert!(ascii.bytes().all(|b| (0x20..0x7f).contains(&b)), "{ascii}");
        assert_eq!(serde_json::from_str::<String>(&ascii).expect("valid JSON"), text);
    }
}
