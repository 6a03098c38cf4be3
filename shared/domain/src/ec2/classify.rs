//! What EC2's error codes mean. Pure: code, status and message in, class out.
//!
//! Sources: docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html, all of whose codes
//! `shared/domain/tests/ec2_error_codes.txt` lists, and what fleets have been seen to return.

use super::ErrorClass::{
    self, Ambiguous, Authorization, Blocked, Capacity, Configuration, Consistency, Idempotency,
    Quota, Throttle,
};

/// The class of an error. `code` is none when EC2 did not answer, `status` is that of the HTTP
/// answer.
///
/// The code decides wherever it is known: EC2 sends `InsufficientInstanceCapacity` with status 500
/// and `RequestLimitExceeded` with 503, and both are definite.
#[must_use]
pub fn classify(code: Option<&str>, status: Option<u16>, message: &str) -> ErrorClass {
    let Some(code) = code else { return Ambiguous };
    let code = code.strip_prefix("Client.").or(code.strip_prefix("Server.")).unwrap_or(code);
    by_message(code, message).or_else(|| by_code(code)).unwrap_or(match status {
        Some(429) => Throttle,
        Some(401 | 403) => Authorization,
        Some(408) | None => Ambiguous,
        // The request did not pass EC2's checks.
        Some(400..=499) => Configuration,
        Some(_) => Ambiguous,
    })
}

/// The class of an error that a fleet reports for one of its types and zones, inside an answer: no
/// machine came of that part, unless EC2 itself failed.
#[must_use]
pub fn classify_part(code: Option<&str>, message: &str) -> ErrorClass {
    const REFUSED: u16 = 400;
    classify(code, Some(REFUSED), message)
}

/// Whether EC2 refuses a fleet because one type stands twice in one zone, in two subnets of it. Its
/// sentence says neither: `The fleet configuration contains duplicate instance pools.`
/// Source: github-aws-runners/terraform-aws-github-runner#5297
#[must_use]
pub fn is_of_duplicate_pools(code: &str, message: &str) -> bool {
    code.starts_with("InvalidFleetConfig") && message.contains("duplicate instance pools")
}

/// What an operator can do about a code whose message names neither an action nor a resource.
#[must_use]
pub fn advice(code: &str) -> Option<&'static str> {
    code.ends_with("SsmAccessDenied").then_some(
        "EC2 reads an image's SSM parameter with the permissions of Muster's scale-up role, which \
         allow ssm:GetParameter and ssm:GetParameters only for /aws/service/* and \
         /STACK/images/*, where STACK is the stack's name: move the parameter there",
    )
}

/// Codes that several problems share.
fn by_message(code: &str, message: &str) -> Option<ErrorClass> {
    let is_offered_elsewhere =
        message.contains("not supported in your requested Availability Zone");
    match code {
        "InvalidFleetConfiguration" | "InvalidParameterValue" | "UnsupportedOperation"
            if is_offered_elsewhere =>
        {
            Some(Capacity)
        }
        // A new profile is unknown to EC2 for seconds to minutes.
        "InvalidParameterValue" if message.contains("Invalid IAM Instance Profile") => {
            Some(Consistency)
        }
        _ => None,
    }
}

fn by_code(code: &str) -> Option<ErrorClass> {
    let named = NAMES.iter().find(|(_, codes)| codes.contains(&code));
    let (class, _) = named
        .or_else(|| FORMS.iter().find(|(_, forms)| forms.iter().any(|form| fits(code, form))))?;
    // `SecurityGroupsPerInterfaceLimitExceeded`, say: the request itself asks for too much.
    Some(if *class == Quota && is_per_resource(code) { Configuration } else { *class })
}

/// Whether a code has this form, in which `*` stands for any text, at its beginning and end only.
fn fits(code: &str, form: &str) -> bool {
    let text = form.trim_matches('*');
    match (form.starts_with('*'), form.ends_with('*')) {
        (true, true) => code.contains(text),
        (true, false) => code.ends_with(text),
        (false, true) => code.starts_with(text),
        (false, false) => code == text,
    }
}

/// Whether a limit is that of one resource, as its code says: `…Per` and the resource's name.
fn is_per_resource(code: &str) -> bool {
    code.match_indices("Per").any(|(at, per)| {
        let of = &code[at + per.len()..];
        of.starts_with(|first: char| first.is_ascii_uppercase())
            && !["Account", "Region"].iter().any(|all| of.starts_with(all))
    })
}

/// Codes whose form does not tell their class.
const NAMES: &[(ErrorClass, &[&str])] = &[
    (
        Throttle,
        &["RequestLimitExceeded", "TooManyRequestsException", "SlowDown", "ConcurrentTagAccess"],
    ),
    // Not now, not here: another type, zone or market, or a later attempt, may succeed.
    (
        Capacity,
        &[
            "UnfulfillableCapacity",
            "ReservationCapacityExceeded",
            "InvalidCapacityReservationState.PendingActivation",
            "ReservedInstancesUnavailable",
            "ScheduledInstanceSlotNotOpen",
            "ScheduledInstanceSlotUnavailable",
            "IncompatibleHostRequirements",
            "UnavailableHostRequirements",
            "UnsupportedInstanceTypeOnHost",
            "InvalidHostState",
            "ZonesMismatched",
            "SpotMaxPriceTooLow",
            "Unsupported",
            // The account has never requested Spot, and we may not create the role that EC2 needs
            // for it: no Spot, but perhaps On-Demand. Source: aws/karpenter-provider-aws#7998
            "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        ],
    ),
    (Quota, &["MaxScheduledInstanceCapacityExceeded"]),
    (Consistency, &["InvalidInstanceID.NotFound", "CreditSpecificationUpdateInProgress"]),
    (Idempotency, &["IdempotentParameterMismatch", "IdempotentInstanceTerminated"]),
    (Blocked, &["OperationNotPermitted", "InvalidInstanceState", "InvalidState"]),
    (
        Authorization,
        &[
            "AuthFailure",
            "Blocked",
            "AccountDisabled",
            "OptInRequired",
            "PendingVerification",
            "RequestExpired",
            "ExpiredToken",
            "ExpiredTokenException",
            "InvalidSecurity.RequestHasExpired",
            "InvalidClientTokenId",
            "UnrecognizedClientException",
            "SignatureDoesNotMatch",
            "IncompleteSignature",
            "MissingAuthenticationToken",
            "CustomerKeyHasBeenRevoked",
            "LogDestinationPermissionIssue",
        ],
    ),
    (
        Ambiguous,
        &["InternalFailure", "ServerInternal", "Unavailable", "RequestTimeout", "RetryableError"],
    ),
    // They end like quotas, but the request itself is too large; no waiting helps.
    (
        Configuration,
        &[
            "TagLimitExceeded",
            "FilterLimitExceeded",
            "AttachmentLimitExceeded",
            "PrivateIpAddressLimitExceeded",
            "SecurityGroupLimitExceeded",
            "VolumeIOPSLimit",
        ],
    ),
    // Nothing that a launch asks for.
    (
        Configuration,
        &[
            "BundlingInProgress",
            "CannotDelete",
            "ClientInvalidParameterValue",
            "DeclarativePoliciesNotEnabledException",
            "DeleteConversionTaskError",
            "DependencyViolation",
            "DisallowedForDedicatedTenancyNetwork",
            "DiskImageSizeTooLarge",
            "DryRunOperation",
            "DuplicateSubnetsInSameZone",
            "EIPMigratedToVpc",
            "ExistingVpcEndpointConnections",
            "FleetNotInModifiableState",
            "Gateway.NotAttached",
            "InstanceEventStartTimeCannotChange",
            "LegacySecurityGroup",
            "LimitPriceExceeded",
            "NoSuchVersion",
            "NonEBSInstance",
            "NotExportable",
            "ScheduledInstanceParameterMismatch",
            "TagPolicyViolation",
            "VPCIdNotSpecified",
            "VPCResourceNotSpecified",
            "ValidationError",
        ],
    ),
];

/// Families of codes, known and unknown ones; `*` stands for any text. The first that fits counts:
/// `InvalidInterface.IpAddressLimitExceeded` is not about a quota.
const FORMS: &[(ErrorClass, &[&str])] = &[
    (
        Authorization,
        &["*AccessDenied*", "*Unauthorized*", "*NotAuthorized*", "AuthFailure.*", "Inaccessible*"],
    ),
    (Throttle, &["*Throttl*", "*RateExceeded*"]),
    (Capacity, &["Insufficient*", "*NotAvailableInZone", "*CapacityNotAvailable*"]),
    (Ambiguous, &["InternalError*", "InternalServer*", "ServiceUnavailable*"]),
    (Blocked, &["Incorrect*"]),
    (
        Configuration,
        &[
            "Invalid*",
            "Missing*",
            "*Malformed*",
            "Unknown*",
            "*Unsupported*",
            "*NotSupported*",
            "*NotFound*",
            "*DoesNotExist",
            "*Exists",
            "*Already*",
            "*Conflict",
            "*InUse*",
        ],
    ),
    (
        Quota,
        &[
            "*LimitExceeded",
            "*LimitExceededException",
            "*QuotaExceeded",
            "*QuotaExceededException",
            // `MaxFleetCountExceeded` is documented nowhere: aws/karpenter-provider-aws#8698.
            "*CountExceeded",
        ],
    ),
];

#[cfg(test)]
mod tests;
