//! What EC2's error codes mean. Pure: code, status and sentence in, class out.
//!
//! Source: docs.aws.amazon.com/ec2/latest/devguide/ec2-api-error-codes.html, and what fleets were
//! seen to answer.

use super::ErrorClass;

/// The class of an error. `code` is none when EC2 did not answer, `status` is that of the HTTP
/// answer.
///
/// The code decides wherever it is known: EC2 sends `InsufficientInstanceCapacity` with status 500
/// and `RequestLimitExceeded` with 503, and both are definite.
#[must_use]
pub fn classify(code: Option<&str>, status: Option<u16>, message: &str) -> ErrorClass {
    let Some(code) = code else { return ErrorClass::Ambiguous };
    let code = code.strip_prefix("Client.").or(code.strip_prefix("Server.")).unwrap_or(code);
    by_name(code, message).or_else(|| by_form(code)).unwrap_or(match status {
        // The request did not get past EC2's checks. What nobody has named yet stays as it is until
        // somebody looks.
        Some(400..=499) => ErrorClass::Configuration,
        _ => ErrorClass::Ambiguous,
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

fn by_name(code: &str, message: &str) -> Option<ErrorClass> {
    use ErrorClass::{
        Ambiguous, Authorization, Blocked, Capacity, Configuration, Consistency, Idempotency,
        Quota, Throttle,
    };
    let class = match code {
        "RequestLimitExceeded"
        | "EC2ThrottledException"
        | "RequestThrottled"
        | "RequestThrottledException"
        | "TooManyRequestsException"
        | "SlowDown"
        | "ConcurrentTagAccess" => Throttle,

        "InsufficientInstanceCapacity"
        | "InsufficientHostCapacity"
        | "InsufficientCapacity"
        | "InsufficientCapacityOnHost"
        | "InsufficientReservedInstanceCapacity"
        | "ReservationCapacityExceeded"
        | "InsufficientFreeAddressesInSubnet"
        | "UnfulfillableCapacity"
        | "SpotMaxPriceTooLow"
        // The account never asked for Spot, and we may not make the role that EC2 wants for that:
        // there is no Spot here, on demand there may be machines. It comes once for each place.
        // Source: the errorSet in aws/karpenter-provider-aws#7998
        | "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
        | "Unsupported" => Capacity,
        // A type that this zone does not have: the others may.
        "InvalidFleetConfiguration" | "InvalidParameterValue" | "UnsupportedOperation"
            if message.contains("not supported in your requested Availability Zone") =>
        {
            Capacity
        }

        "MaxSpotInstanceCountExceeded"
        | "MaxSpotFleetRequestCountExceeded"
        // Source: aws/karpenter-provider-aws#8698
        | "MaxFleetCountExceeded" => Quota,
        // These end like quotas, and no waiting helps.
        "TagLimitExceeded" | "FilterLimitExceeded" => Configuration,

        // A profile is unknown to EC2 for seconds to minutes after it was made.
        "InvalidParameterValue" if message.contains("Invalid IAM Instance Profile") => Consistency,
        "InvalidInstanceID.NotFound" => Consistency,

        "IdempotentParameterMismatch" | "IdempotentInstanceTerminated" => Idempotency,

        "OperationNotPermitted" | "IncorrectInstanceState" | "IncorrectState" => Blocked,

        "UnauthorizedOperation"
        | "AuthFailure"
        | "OptInRequired"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "RequestExpired"
        | "Blocked"
        | "AccessDenied"
        | "AccessDeniedException"
        | "InvalidClientTokenId"
        | "UnrecognizedClientException"
        | "SignatureDoesNotMatch"
        | "IncompleteSignature"
        | "MissingAuthenticationToken"
        | "PendingVerification" => Authorization,

        "InternalError"
        | "InternalFailure"
        | "InternalServerError"
        | "ServerInternal"
        | "Unavailable"
        | "ServiceUnavailable"
        | "RequestTimeout" => Ambiguous,

        "ValidationError" | "UnknownParameter" | "UnsupportedOperation" | "VPCIdNotSpecified" => {
            Configuration
        }
        _ => return None,
    };
    Some(class)
}

/// Families that are told by the form of their code.
fn by_form(code: &str) -> Option<ErrorClass> {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| code.starts_with(prefix));
    if starts(&["Throttl"]) {
        Some(ErrorClass::Throttle)
    } else if code.ends_with("LimitExceeded") || code.ends_with("LimitExceededException") {
        Some(ErrorClass::Quota)
    } else if starts(&["AuthFailure."]) {
        Some(ErrorClass::Authorization)
    } else if starts(&["Invalid", "Missing", "Malformed"]) {
        Some(ErrorClass::Configuration)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use ErrorClass::{
        Ambiguous, Authorization, Blocked, Capacity, Configuration, Consistency, Idempotency,
        Quota, Throttle,
    };

    use super::*;

    /// Every code of the project's taxonomy, with the status EC2 sends it with.
    const TABLE: &[(ErrorClass, u16, &[&str])] = &[
        (Throttle, 503, &["RequestLimitExceeded", "EC2ThrottledException"]),
        (Throttle, 400, &["Throttling", "ThrottlingException", "ThrottledException"]),
        (Capacity, 500, &["InsufficientInstanceCapacity", "InsufficientHostCapacity"]),
        (
            Capacity,
            400,
            &[
                "UnfulfillableCapacity",
                "Unsupported",
                "InsufficientFreeAddressesInSubnet",
                "SpotMaxPriceTooLow",
                "InsufficientCapacityOnHost",
                "InsufficientReservedInstanceCapacity",
                "ReservationCapacityExceeded",
            ],
        ),
        (
            Quota,
            400,
            &[
                "VcpuLimitExceeded",
                "MaxSpotInstanceCountExceeded",
                "MaxSpotFleetRequestCountExceeded",
                "MaxFleetCountExceeded",
                "InstanceLimitExceeded",
                "VolumeLimitExceeded",
                "TargetCapacityLimitExceeded",
                "TargetCapacityLimitExceededException",
                "ResourceLimitExceeded",
                "Client.VolumeLimitExceeded",
            ],
        ),
        (
            Configuration,
            400,
            &[
                "InvalidAMIID.NotFound",
                "InvalidAMIID.Malformed",
                "InvalidAMIID.Unavailable",
                "InvalidSubnetID.NotFound",
                "InvalidGroup.NotFound",
                "InvalidParameter",
                "InvalidParameterValue",
                "InvalidParameterCombination",
                "InvalidUserData.Malformed",
                "InvalidLaunchTemplateId.NotFound",
                "InvalidLaunchTemplateId.VersionNotFound",
                "InvalidLaunchTemplateName.NotFoundException",
                "InvalidFleetConfiguration",
                "InvalidInstanceID.Malformed",
                "InvalidKeyPair.NotFound",
                "MissingParameter",
                "TagLimitExceeded",
                "UnsupportedOperation",
                "SomethingNobodyHasNamedYet",
            ],
        ),
        (
            Authorization,
            403,
            &["UnauthorizedOperation", "OptInRequired", "AccessDenied", "RequestExpired"],
        ),
        (Authorization, 401, &["AuthFailure", "AuthFailure.SomethingElse"]),
        (Capacity, 401, &["AuthFailure.ServiceLinkedRoleCreationNotPermitted"]),
        (Authorization, 400, &["ExpiredToken", "Blocked", "InvalidClientTokenId"]),
        (Consistency, 400, &["InvalidInstanceID.NotFound"]),
        (Idempotency, 400, &["IdempotentParameterMismatch", "IdempotentInstanceTerminated"]),
        (Blocked, 400, &["OperationNotPermitted", "IncorrectInstanceState"]),
        (Ambiguous, 500, &["InternalError", "InternalFailure", "Server.InternalError"]),
        (Ambiguous, 503, &["Unavailable", "ServiceUnavailable", "SomethingNobodyHasNamedYet"]),
    ];

    #[test]
    fn every_code_of_the_taxonomy_has_its_class() {
        for (class, status, codes) in TABLE {
            for code in *codes {
                assert_eq!(classify(Some(code), Some(*status), ""), *class, "{code} {status}");
            }
        }
    }

    #[test]
    fn silence_is_ambiguous() {
        for status in [None, Some(200), Some(400), Some(500), Some(503)] {
            assert_eq!(classify(None, status, "dispatch failure"), Ambiguous);
        }
        assert_eq!(classify(Some("SomethingNobodyHasNamedYet"), None, ""), Ambiguous);
    }

    #[test]
    fn the_sentence_decides_where_the_code_is_shared() {
        let class = |code, message| classify(Some(code), Some(400), message);
        let profile = "Value (arn:x) for parameter iamInstanceProfile.arn is invalid. \
                       Invalid IAM Instance Profile ARN";
        assert_eq!(class("InvalidParameterValue", profile), Consistency);
        let zone = "Your requested instance type (m7i.large) is not supported in your requested \
                    Availability Zone (us-east-1e).";
        assert_eq!(class("InvalidFleetConfiguration", zone), Capacity);
        assert_eq!(class("Unsupported", zone), Capacity);
        assert_eq!(class("InvalidFleetConfiguration", "no overrides"), Configuration);
    }

    #[test]
    fn a_part_of_an_answer_is_definite_unless_ec2_failed() {
        assert_eq!(classify_part(Some("InsufficientInstanceCapacity"), ""), Capacity);
        assert_eq!(classify_part(Some("SomethingNobodyHasNamedYet"), ""), Configuration);
        assert_eq!(classify_part(Some("InternalError"), ""), Ambiguous);
        assert_eq!(classify_part(None, ""), Ambiguous);
    }
}
