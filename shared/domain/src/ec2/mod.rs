//! EC2 terms: markets, places, errors and quota buckets. They depend only on identifiers, so that
//! every other module can use them.

pub mod classify;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

use self::classify::advice;
use crate::ids::PoolName;

/// Maximum number of type and subnet combinations in a fleet request. AWS documents this limit for
/// fleets of type `request` and `maintain`, and no limit for `instant`, which Muster uses.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_FleetLaunchTemplateConfigRequest.html
pub const MAX_OVERRIDES: usize = 300;
/// Maximum number of subnets in a request with requirements instead of types: EC2 counts the
/// requirements of each override, and rejects a fifth.
/// Source:
/// docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-attribute-based-instance-type-selection.html;
/// its message is in osbuild/osbuild-composer#3946
pub const MAX_REQUIREMENTS: usize = 4;

/// The purchasing option of a request to EC2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Market {
    /// Spot capacity.
    Spot,
    /// On-Demand capacity.
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

/// Type, place and market of a machine, from EC2's own responses. Unreported values are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Make {
    /// For example `m7i.large`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Arc<str>>,
    /// For example `us-east-1a`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Arc<str>>,
    /// For example `subnet-0abc`. Not part of usage records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<Arc<str>>,
    /// The purchasing option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub market: Option<Market>,
}

impl Make {
    /// Returns whether no value is known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Returns this make for a usage record, of which there are many.
    #[must_use]
    pub fn without_subnet(self) -> Self {
        Self { subnet: None, ..self }
    }

    /// Returns this make, with unknown values taken from the other one.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            kind: self.kind.clone().or_else(|| other.kind.clone()),
            zone: self.zone.clone().or_else(|| other.zone.clone()),
            subnet: self.subnet.clone().or_else(|| other.subnet.clone()),
            market: self.market.or(other.market),
        }
    }
}

/// One instance type in one subnet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Override {
    /// For example `m7i.large`. Empty if the request has requirements instead.
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

/// How to react to a launch error. [`classify`] maps EC2's error codes to these classes.
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
    /// Too many calls: repeat the request later.
    Throttle,
    /// No capacity for this type in this zone. Definite: try others.
    Capacity,
    /// An account quota is exhausted.
    Quota,
    /// The request is invalid: it fails until an operator changes the configuration.
    Configuration,
    /// Muster lacks a permission.
    Authorization,
    /// A newly created resource is not visible yet.
    Consistency,
    /// The token was used with different parameters.
    Idempotency,
    /// The machine cannot be terminated in its current state (protection, state).
    Blocked,
    /// The outcome is unknown: time-outs, resets, 5xx.
    Ambiguous,
}

impl ErrorClass {
    /// All classes.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns whether the call definitely launched no machine.
    #[must_use]
    pub const fn is_definite(self) -> bool {
        !matches!(self, Self::Ambiguous | Self::Idempotency)
    }

    /// Returns whether EC2 refuses the request until an operator changes the configuration.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::Configuration | Self::Authorization)
    }
}

/// Why EC2 changed a machine's state, in EC2's words.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StateReason {
    /// For example `Client.InternalError`.
    pub code: String,
    /// EC2's message.
    pub message: String,
}

impl StateReason {
    /// Creates a reason from EC2's response. EC2's message repeats the code (`Client.InternalError:
    /// Client error on launch`), which is removed.
    #[must_use]
    pub fn new(code: &str, message: &str) -> Self {
        let rest = message.strip_prefix(code).and_then(|rest| rest.strip_prefix(':'));
        Self { code: code.to_owned(), message: rest.unwrap_or(message).trim().to_owned() }
    }

    /// Returns whether the machine was shut down from within, which is how Muster's machines
    /// normally end.
    #[must_use]
    pub fn is_own_shutdown(&self) -> bool {
        self.code == "Client.InstanceInitiatedShutdown"
    }
}

/// The families whose vCPUs EC2 counts in one quota, separately for each market. A quota of a
/// different kind, such as of disks, names no family: it is closed only for the pool that exceeded
/// it.
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
    /// No known family: the requests of one pool.
    Pool(PoolName),
}

impl Bucket {
    /// Returns the bucket of a type, from the letters at the start of its name. `None` if the
    /// family is unknown or EC2 chooses the type.
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
            Self::Pool(pool) => return write!(f, "the requests of pool {pool}"),
        })
    }
}

/// The scope of a refusal by EC2, within which no request is made meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CooldownScope {
    /// All launch calls: EC2 throttles them.
    Calls,
    /// An account quota is exhausted.
    Quota {
        /// The market.
        market: Market,
        /// The quota's bucket.
        bucket: Bucket,
    },
    /// A pool: EC2 refuses all its requests.
    Pool(PoolName),
    /// A type in a subnet.
    Place {
        /// The market.
        market: Market,
        /// The type and subnet.
        place: Override,
        /// The pool, if the refusal applies only to it: EC2 refused how the pool requests machines,
        /// or its machines may have any type. Otherwise it applies to all pools.
        pool: Option<PoolName>,
    },
    /// A pool's launches on a market: the outcomes of the last ones are unknown.
    Unknown {
        /// The market.
        market: Market,
        /// The pool.
        pool: PoolName,
    },
}

impl CooldownScope {
    /// Returns the pool, if the scope is limited to one.
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
            Self::Pool(pool) => write!(f, "EC2 refuses launches in pool {pool}"),
            Self::Place { market, place, .. } => write!(f, "no {market} capacity for {place}"),
            Self::Unknown { market, pool } => {
                write!(f, "EC2 does not report the outcome of the {market} launches of pool {pool}")
            }
        }
    }
}

/// The processor architecture of a pool's machines. It is not sent to EC2: the image decides. It
/// exists to reject a pool file whose instance types do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arch {
    /// Intel and AMD.
    X64,
    /// Graviton.
    Arm64,
}

impl Arch {
    /// Returns the spelling in GitHub's labels and in the pool file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::X64 => "x64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns the architecture of an instance type: the letters after the generation number
    /// include `g` for Graviton.
    /// Source: docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
    #[must_use]
    pub fn of_type(instance_type: &str) -> Self {
        let family = instance_type.split(['.', '-']).next().unwrap_or_default();
        let behind = family
            .trim_start_matches(|c: char| c.is_ascii_alphabetic())
            .trim_start_matches(|c: char| c.is_ascii_digit());
        if family == "a1" || behind.contains('g') { Self::Arm64 } else { Self::X64 }
    }
}

/// An error from EC2: class, code and message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaunchError {
    /// How to react to it.
    pub class: ErrorClass,
    /// EC2's code, for example `InsufficientInstanceCapacity`.
    pub code: String,
    /// EC2's message.
    pub message: String,
    /// The type and subnet affected. `None` if it affects the whole call.
    pub place: Option<Override>,
}

impl LaunchError {
    /// Creates an error of a whole call: EC2's message, with advice if the message alone is not
    /// helpful.
    #[must_use]
    pub fn new(class: ErrorClass, code: impl Into<String>, message: impl Into<String>) -> Self {
        let (code, mut message) = (code.into(), message.into());
        if let Some(advice) = advice(&code) {
            message = format!("{message} ({advice})");
        }
        Self { class, code, message, place: None }
    }

    /// Formats the place, if known, and EC2's message.
    #[must_use]
    pub fn sentence(&self) -> String {
        match &self.place {
            Some(place) => format!("{place}: {}", self.message),
            None => self.message.clone(),
        }
    }
}

impl std::fmt::Display for LaunchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.sentence())
    }
}
