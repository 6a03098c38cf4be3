use http::{HeaderMap, StatusCode};
use muster_domain::time::Time;

use super::ApiResponse;

fn message(status: u16, body: &str) -> String {
    let answer = ApiResponse {
        operation: "generate-jitconfig",
        at: Time::from_millis(0),
        status: StatusCode::from_u16(status).expect("a status"),
        headers: HeaderMap::new(),
        body: body.to_owned(),
    };
    answer.fault().message
}

/// Every form in which GitHub, or a proxy before it, has been observed to refuse.
#[test]
fn every_refusal_has_words() {
    let validation =
        |errors: &str| format!(r#"{{"message":"Validation Failed","errors":{errors}}}"#);
    let rows: [(&str, u16, String, &str); 23] = [
        ("a message", 404, r#"{"message":"Not Found","status":"404"}"#.into(), "Not Found"),
        ("an empty message", 422, r#"{"message":""}"#.into(), "Unprocessable Entity"),
        ("a blank message", 422, r#"{"message":" \n "}"#.into(), "Unprocessable Entity"),
        ("no message", 403, "{}".into(), "Forbidden"),
        ("a message of null", 403, r#"{"message":null}"#.into(), "Forbidden"),
        ("a message that is a number", 403, r#"{"message":7}"#.into(), "Forbidden"),
        ("no body", 503, String::new(), "Service Unavailable"),
        ("a page of a proxy", 502, "<html>no</html>".into(), "Bad Gateway"),
        ("a list", 500, r#"["echo"]"#.into(), "Internal Server Error"),
        ("a text", 500, r#""echo""#.into(), "Internal Server Error"),
        ("an unknown status", 599, String::new(), "no reason given"),
        (
            "an error with a message",
            422,
            validation(
                r#"[{"resource":"Runner","code":"custom","field":"name","message":"name is too long"}]"#,
            ),
            "Validation Failed: name is too long",
        ),
        (
            "an error with codes",
            422,
            validation(r#"[{"resource":"Runner","code":"missing_field","field":"labels"}]"#),
            "Validation Failed: Runner labels missing_field",
        ),
        (
            "an error with a code alone",
            422,
            validation(r#"[{"code":"invalid"}]"#),
            "Validation Failed: invalid",
        ),
        (
            "an error with a field alone",
            422,
            validation(r#"[{"field":"labels"}]"#),
            "Validation Failed: labels",
        ),
        (
            "an error with an empty message",
            422,
            validation(r#"[{"message":"","code":"invalid","field":"labels"}]"#),
            "Validation Failed: labels invalid",
        ),
        (
            "several errors",
            422,
            validation(r#"["no such group",{"code":"invalid","field":"labels"},null,""]"#),
            "Validation Failed: no such group; labels invalid",
        ),
        (
            "errors as a text",
            422,
            validation(r#""no such group""#),
            "Validation Failed: no such group",
        ),
        (
            "errors by field",
            422,
            validation(r#"{"labels":["are too many"]}"#),
            "Validation Failed: labels are too many",
        ),
        (
            "errors without a message",
            422,
            r#"{"message":"","errors":["no such group"]}"#.into(),
            "no such group",
        ),
        ("no errors", 422, validation("[]"), "Validation Failed"),
        (
            "an error that repeats the message",
            409,
            r#"{"message":"Already exists","errors":["Already exists"]}"#.into(),
            "Already exists",
        ),
        (
            "OAuth's form",
            401,
            r#"{"error":"bad_verification_code","error_description":"The code is incorrect."}"#
                .into(),
            "The code is incorrect.",
        ),
    ];
    for (shape, status, body, expected) in rows {
        assert_eq!(message(status, &body), expected, "{shape}");
    }
}

#[test]
fn details_are_bounded_and_hold_no_token() {
    let body = format!(
        r#"{{"message":"a\nb","errors":["ghs_{0} is bad","{1}"]}}"#,
        "x".repeat(36),
        "é".repeat(9_000)
    );
    let kept = message(422, &body);
    assert!(kept.starts_with("a b: [redacted] is bad; é"), "{kept}");
    assert_eq!(kept.chars().count(), 300);
}
