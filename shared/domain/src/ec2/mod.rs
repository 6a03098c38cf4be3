//! EC2's words: markets, places, errors and what a quota counts. They depend on nothing but ids, so
//! that every other room may use them.

pub mod classify;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

use crate::ids::PoolName;

/// EC2's purchasing option of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Market {
    /// Spot capacity.
    Spot,
    /// On-demand capacity.
    OnDemand,
}

impl std::fmt::Display for Market {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        })
    }
}

/// What a machine is, by EC2's own answers. What none of them has told is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Make {
    /// `m7i.large`, say.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Arc<str>>,
    /// `us-east-1a`, say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Arc<str>>,
    /// How it was bought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub market: Option<Market>,
}

impl Make {
    /// Whether nothing is known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// This, and what only the other one knows.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            kind: self.kind.clone().or_else(|| other.kind.clone()),
            zone: self.zone.clone().or_else(|| other.zone.clone()),
            market: self.market.or(other.market),
        }
    }
}

/// One instance type in one subnet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Override {
    /// For example `m7i.large`. Empty where the request has requirements instead.
    pub instance_type: Arc<str>,
    /// For example `subnet-0abc`.
    pub subnet: Arc<str>,
}

impl std::fmt::Display for Override {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.instance_type.is_empty() { "any type" } else { &self.instance_type };
        write!(f, "{kind} in {}", self.subnet)
    }
}

/// What a launch error means for the next step. [`classify`] maps EC2's error codes to these
/// classes.
/// Source: docs.aws.amazon.com/ec2/latest/devguide/ec2-api-errors.html
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// Too many calls: the same again, later.
    Throttle,
    /// No capacity for this type in this zone: definite, try others.
    Capacity,
    /// An account quota is used up.
    Quota,
    /// The request is wrong: it fails until somebody changes the configuration.
    Configuration,
    /// We may not.
    Authorization,
    /// Something just made is not visible yet.
    Consistency,
    /// The token was used with other parameters.
    Idempotency,
    /// The machine cannot be terminated as it is (protection, state).
    Blocked,
    /// Nobody knows whether it happened: time-outs, resets, 5xx.
    Ambiguous,
}

impl ErrorClass {
    /// All of them.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Whether the call certainly did not launch anything.
    #[must_use]
    pub const fn is_definite(self) -> bool {
        !matches!(self, Self::Ambiguous | Self::Idempotency)
    }

    /// Whether EC2 refuses what is asked for until somebody changes it.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::Configuration | Self::Authorization)
    }
}

/// Why EC2 changed a machine's state, in its words.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StateReason {
    /// `Client.InternalError`, say.
    pub code: String,
    /// A sentence.
    pub message: String,
}

impl StateReason {
    /// As EC2 answers it: the message begins with the code again, `Client.InternalError:
    /// Client error on launch`, which nobody wants to read twice.
    #[must_use]
    pub fn new(code: &str, message: &str) -> Self {
        let rest = message.strip_prefix(code).and_then(|rest| rest.strip_prefix(':'));
        Self { code: code.to_owned(), message: rest.unwrap_or(message).trim().to_owned() }
    }

    /// The machine was shut down from within, as each of ours is in the end.
    #[must_use]
    pub fn is_own_shutdown(&self) -> bool {
        self.code == "Client.InstanceInitiatedShutdown"
    }
}

/// EC2 counts the vCPUs of some families together, on each market apart. A quota of another kind,
/// of disks say, names no family: it is closed for the pool that met it.
/// Source: docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bucket {
    /// A, C, D, H, I, M, R, T and Z.
    Standard,
    /// Deep learning.
    Dl,
    /// FPGAs.
    F,
    /// Graphics, and video transcoding.
    GAndVt,
    /// High memory.
    HighMemory,
    /// High performance computing.
    Hpc,
    /// Inference.
    Inf,
    /// GPUs.
    P,
    /// Training.
    Trn,
    /// Memory.
    X,
    /// No family that is known here: what one pool asks for.
    Pool(PoolName),
}

impl Bucket {
    /// The bucket of a type, by the letters that its name begins with. None where it is not known,
    /// or EC2 chooses the type.
    #[must_use]
    pub fn from_instance_type(instance_type: &str) -> Option<Self> {
        let family = instance_type.split(|letter: char| !letter.is_ascii_lowercase()).next()?;
        Some(match family {
            "a" | "c" | "d" | "h" | "i" | "im" | "is" | "m" | "r" | "t" | "z" => Self::Standard,
            "dl" => Self::Dl,
            "f" => Self::F,
            "g" | "gr" | "vt" => Self::GAndVt,
            "u" => Self::HighMemory,
            "hpc" => Self::Hpc,
            "inf" => Self::Inf,
            "p" => Self::P,
            "trn" => Self::Trn,
            "x" => Self::X,
            _ => return None,
        })
    }
}

impl std::fmt::Display for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Standard => "standard instances",
            Self::Dl => "DL instances",
            Self::F => "F instances",
            Self::GAndVt => "G and VT instances",
            Self::HighMemory => "high memory instances",
            Self::Hpc => "HPC instances",
            Self::Inf => "Inf instances",
            Self::P => "P instances",
            Self::Trn => "Trn instances",
            Self::X => "X instances",
            Self::Pool(pool) => return write!(f, "what pool {pool} asks for"),
        })
    }
}

/// What EC2 refuses, and nobody asks for meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CooldownScope {
    /// Launch calls at all: EC2 throttles them.
    Calls,
    /// A quota of the account is used up.
    Quota {
        /// On which market.
        market: Market,
        /// Of what.
        bucket: Bucket,
    },
    /// A pool: EC2 refuses its requests, whatever they ask for.
    Pool(PoolName),
    /// A type in a subnet.
    Place {
        /// On which market.
        market: Market,
        /// Type and subnet.
        place: Override,
        /// For this pool alone: what EC2 refused is how it asks, or its machines may be of any
        /// type. None: for all.
        pool: Option<PoolName>,
    },
    /// A pool's launches on a market: nobody knows what became of the last ones.
    Unknown {
        /// On which market.
        market: Market,
        /// Of which pool.
        pool: PoolName,
    },
}

impl CooldownScope {
    /// The pool whose launches alone it closes.
    pub(crate) const fn pool(&self) -> Option<&PoolName> {
        match self {
            Self::Pool(pool) | Self::Unknown { pool, .. } => Some(pool),
            Self::Place { pool, .. } => pool.as_ref(),
            Self::Calls | Self::Quota { .. } => None,
        }
    }
}

impl std::fmt::Display for CooldownScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Calls => f.write_str("EC2 throttles launches"),
            Self::Quota { market, bucket } => {
                write!(f, "the {market} quota of {bucket} is used up")
            }
            Self::Pool(pool) => write!(f, "EC2 refuses the launches of pool {pool}"),
            Self::Place { market, place, .. } => write!(f, "no {market} capacity for {place}"),
            Self::Unknown { market, pool } => {
                write!(f, "EC2 does not say what became of the {market} launches of pool {pool}")
            }
        }
    }
}
