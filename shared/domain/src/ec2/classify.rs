//! Classification of EC2's error codes. Pure: a function from code, status and message to a class.
//!
//! Sources: docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html, all of whose codes
//! `shared/domain/tests/ec2_error_codes.txt` lists, and codes that fleets have been observed to
//! return.

use super::ErrorClass::{
    self, Ambiguous, Authorization, Blocked, Capacity, Configuration, Consistency, Idempotency,
    Quota, Throttle,
};

/// Returns the class of an error. `code` is `None` if EC2 did not answer; `status` is that of the
/// HTTP response.
///
/// A known code takes precedence over the status: EC2 sends `InsufficientInstanceCapacity` with
/// status 500 and `RequestLimitExceeded` with 503, and both are definite.
#[must_use]
pub fn classify(code: Option<&str>, status: Option<u16>, message: &str) -> ErrorClass {
    let Some(code) = code else { return Ambiguous };
    let code = code.strip_prefix("Client.").or(code.strip_prefix("Server.")).unwrap_or(code);
    by_message(code, message).or_else(|| by_code(code)).unwrap_or(match status {
        Some(429) => Throttle,
        Some(401 | 403) => Authorization,
        Some(408) | None => Ambiguous,
        // The request failed EC2's validation.
        Some(400..=499) => Configuration,
        Some(_) => Ambiguous,
    })
}

/// Returns the class of an error that a fleet reports for one of its types and zones in a
/// successful response: that part launched no machine, unless EC2 itself failed.
#[must_use]
pub fn classify_part(code: Option<&str>, message: &str) -> ErrorClass {
    const REFUSED: u16 = 400;
    classify(code, Some(REFUSED), message)
}

/// Returns whether EC2 rejects a fleet because it has one type twice in one zone, in two subnets.
/// EC2's message mentions neither: `The fleet configuration contains duplicate instance pools.`
/// Source: github-aws-runners/terraform-aws-github-runner#5297
#[must_use]
pub fn is_of_duplicate_pools(code: &str, message: &str) -> bool {
    code.starts_with("InvalidFleetConfig") && message.contains("duplicate instance pools")
}

/// Returns advice for a code whose message names neither an action nor a resource.
#[must_use]
pub fn advice(code: &str) -> Option<&'static str> {
    code.ends_with("SsmAccessDenied").then_some(
        "EC2 reads an image's SSM parameter with the permissions of Muster's scale-up role, which \
         allow ssm:GetParameter and ssm:GetParameters only for /aws/service/* and \
         /STACK/images/*, where STACK is the stack's name: move the parameter there",
    )
}

/// Returns the class of a code that several problems share.
fn by_message(code: &str, message: &str) -> Option<ErrorClass> {
    let is_offered_elsewhere =
        message.contains("not supported in your requested Availability Zone");
    match code {
        "InvalidFleetConfiguration" | "InvalidParameterValue" | "UnsupportedOperation"
            if is_offered_elsewhere =>
        {
            Some(Capacity)
        }
        // EC2 does not see a new profile for seconds to minutes.
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
    // For example `SecurityGroupsPerInterfaceLimitExceeded`: the request itself exceeds a limit.
    Some(if *class == Quota && is_per_resource(code) { Configuration } else { *class })
}

/// Returns whether a code matches a form, in which `*` matches any text, only at the beginning and
/// end.
fn fits(code: &str, form: &str) -> bool {
    let text = form.trim_matches('*');
    match (form.starts_with('*'), form.ends_with('*')) {
        (true, true) => code.contains(text),
        (true, false) => code.ends_with(text),
        (false, true) => code.starts_with(text),
        (false, false) => code == text,
    }
}

/// Returns whether a limit is that of one resource, according to its code: `…Per` and the
/// resource's name.
fn is_per_resource(code: &str) -> bool {
    code.match_indices("Per").any(|(at, per)| {
        let of = &code[at + per.len()..];
        of.starts_with(|first: char| first.is_ascii_uppercase())
            && !["Account", "Region"].iter().any(|all| of.starts_with(all))
    })
}

/// Codes whose form does not determine their class.
const NAMES: &[(ErrorClass, &[&str])] = &[
    (
        Throttle,
        &["RequestLimitExceeded", "TooManyRequestsException", "SlowDown", "ConcurrentTagAccess"],
    ),
    // Temporary or local: another type, zone or market, or a later attempt, may succeed.
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
            // The account has never requested Spot, and Muster may not create the role that EC2
            // needs for it: no Spot, but perhaps On-Demand. Source: aws/karpenter-provider-aws#7998
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
    // These look like quotas, but the request itself is too large; waiting does not help.
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
    // Codes of operations that a launch does not use.
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

/// Families of codes, known and unknown; `*` matches any text. The first match counts:
/// `InvalidInterface.IpAddressLimitExceeded` does not concern a quota.
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
