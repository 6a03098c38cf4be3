use std::collections::BTreeMap;

use super::*;

/// The documented codes, listed under their classes.
const DOCUMENTED: &str = include_str!("../../../tests/ec2_error_codes.txt");

fn documented() -> BTreeMap<&'static str, ErrorClass> {
    let class_of = |heading: &str| {
        let name = heading.trim_matches(['[', ']']);
        let named = |class: &&ErrorClass| format!("{class:?}") == name;
        *ErrorClass::ALL.iter().find(named).expect("a class")
    };
    let (mut class, mut all) = (Configuration, BTreeMap::new());
    for line in DOCUMENTED.lines().filter(|line| !line.starts_with('#')) {
        match line.starts_with('[') {
            true => class = class_of(line),
            false => all.extend(line.split_whitespace().map(|code| (code, class))),
        }
    }
    all
}

/// Codes that the documentation does not list, with the status that EC2 has been observed to send,
/// or would send.
const OTHERS: &[(ErrorClass, u16, &[&str])] = &[
    (Throttle, 503, &["EC2ThrottledException", "SlowDown"]),
    (Throttle, 400, &["Throttling", "ThrottlingException", "ThrottledException"]),
    (Throttle, 400, &["RequestThrottled", "RequestThrottledException", "NewRateExceeded"]),
    (Throttle, 429, &["TooManyRequestsException", "NotYetNamed"]),
    (
        Capacity,
        400,
        &["InsufficientCapacityOnOutpost", "InsufficientNewCapacity", "NewTypeNotAvailableInZone"],
    ),
    (Capacity, 401, &["AuthFailure.ServiceLinkedRoleCreationNotPermitted"]),
    (
        Quota,
        400,
        &[
            "MaxFleetCountExceeded",
            "TargetCapacityLimitExceeded",
            "LimitExceeded",
            "LimitExceededException",
            "QuotaExceeded",
            "ServiceQuotaExceeded",
            "ServiceQuotaExceededException",
            "NewLimitExceeded",
            "InstancesPerAccountLimitExceeded",
            "InstancesPerRegionQuotaExceeded",
            "Client.VolumeLimitExceeded",
        ],
    ),
    (
        Configuration,
        400,
        &[
            "InvalidFleetConfig",
            "InvalidFleetConfiguration",
            "InvalidUserData.Malformed",
            "RulesPerInterfaceLimitExceeded",
            "NewPerResourceQuotaExceeded",
            "NewNotSupported",
            "NotYetNamed",
        ],
    ),
    (Configuration, 404, &["NotYetNamed"]),
    (Authorization, 401, &["AuthFailure.SomethingElse", "NotYetNamed"]),
    (Authorization, 403, &["AccessDenied", "AccessDeniedException", "NotYetNamed"]),
    (Authorization, 400, &["SsmAccessDenied", "Client.SsmAccessDenied", "ExpiredToken"]),
    (Ambiguous, 408, &["RequestTimeout", "NotYetNamed"]),
    (Ambiguous, 500, &["InternalServerError", "Server.InternalError", "NotYetNamed"]),
    (Ambiguous, 503, &["ServiceUnavailableException", "NotYetNamed"]),
];

#[test]
fn every_documented_code_has_the_class_of_its_description() {
    let documented = documented();
    assert!(documented.len() > 400, "{} codes", documented.len());
    let differs = |(code, class): (&&str, &ErrorClass)| {
        let known = by_code(code);
        (known != Some(*class)).then(|| format!("{code}: {known:?}, not {class:?}"))
    };
    let wrong: Vec<String> = documented.iter().filter_map(differs).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The status does not change the class of a documented code: EC2 sends lack of capacity with 500
/// and throttling with 503.
#[test]
fn a_documented_code_counts_more_than_the_status() {
    for (code, class) in documented() {
        for status in [None, Some(400), Some(403), Some(500), Some(503)] {
            assert_eq!(classify(Some(code), status, ""), class, "{code} {status:?}");
        }
    }
}

#[test]
fn other_codes_are_told_by_their_form_then_by_the_status() {
    for (class, status, codes) in OTHERS {
        for code in *codes {
            assert_eq!(classify(Some(code), Some(*status), ""), *class, "{code} {status}");
        }
    }
}

/// A duplicate would be updated in only one place.
#[test]
fn every_name_stands_in_the_table_once() {
    let mut names: Vec<&str> = NAMES.iter().flat_map(|(_, codes)| *codes).copied().collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn silence_is_ambiguous() {
    for status in [None, Some(200), Some(400), Some(500), Some(503)] {
        assert_eq!(classify(None, status, "dispatch failure"), Ambiguous);
    }
    assert_eq!(classify(Some("NotYetNamed"), None, ""), Ambiguous);
}

#[test]
fn the_message_decides_where_the_code_is_shared() {
    let class = |code, message| classify(Some(code), Some(400), message);
    let profile = "Value (arn:x) for parameter iamInstanceProfile.arn is invalid. Invalid IAM \
                   Instance Profile ARN";
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
    assert_eq!(classify_part(Some("NotYetNamed"), ""), Configuration);
    assert_eq!(classify_part(Some("InternalError"), ""), Ambiguous);
    assert_eq!(classify_part(None, ""), Ambiguous);
}

#[test]
fn a_denied_image_parameter_comes_with_advice() {
    for code in ["SsmAccessDenied", "Client.SsmAccessDenied"] {
        assert!(advice(code).is_some_and(|advice| advice.contains("/STACK/images/*")), "{code}");
    }
    assert_eq!(advice("UnauthorizedOperation"), None);
}
