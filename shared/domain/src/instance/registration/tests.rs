use super::*;
use crate::instance::DeleteReason;
use crate::testkit::{With, at, booting, fault};

fn error(operation: &str, code: &str, message: &str) -> ErrorDetail {
    let (operation, code, message) = (operation.into(), code.into(), message.into());
    ErrorDetail { at: at(30), operation, code, message }
}

/// For every way in which a registration can fail: the sentence of `explain`, with the service and
/// the fix.
#[test]
fn every_failure_names_who_failed_and_what_to_do() {
    const JIT: &str = "generate-jitconfig";
    const TOKEN: &str = "create-installation-token";
    let key = "the App's key cannot be read: GetSecretValue: AccessDeniedException";
    let absent = "the App is not installed on acme: install it there";
    let rows = [
        (
            error(JIT, "503", "Service Unavailable"),
            "GitHub answers 503 to the registration: Service Unavailable",
            "githubstatus.com",
        ),
        (error(JIT, "500", ""), "GitHub answers 500 to the registration", "githubstatus.com"),
        (
            error(TOKEN, "502", "Bad Gateway"),
            "GitHub answers 502 to the request for an installation token: Bad Gateway",
            "githubstatus.com",
        ),
        (
            error("get-installation", "504", "x"),
            "GitHub answers 504 to the request for the App's installation: x",
            "githubstatus.com",
        ),
        (
            error(JIT, "timeout", "no answer within 12s"),
            "GitHub does not answer the registration: no answer within 12s",
            "githubstatus.com",
        ),
        (
            error(JIT, "refused", "tcp connect error"),
            "GitHub refuses the connection for the registration: tcp connect error",
            "githubstatus.com",
        ),
        (
            error(JIT, "reset", "connection reset"),
            "GitHub does not answer the registration: connection reset",
            "githubstatus.com",
        ),
        (
            error(JIT, "no-answer", "dns error"),
            "GitHub does not answer the registration: dns error",
            "githubstatus.com",
        ),
        (
            error(JIT, "unreadable", "status 200"),
            "GitHub's answer to the registration cannot be read: status 200",
            "githubstatus.com",
        ),
        (
            error(TOKEN, "401", "Bad credentials"),
            "GitHub answers 401 to the request for an installation token: Bad credentials",
            "App's key",
        ),
        (
            error(TOKEN, "401", "'Expiration time' claim is too far in the future"),
            "GitHub answers 401 to the request for an installation token: 'Expiration time' claim is too far in the future",
            "muster doctor",
        ),
        (
            error(JIT, "403", "Resource not accessible"),
            "GitHub answers 403 to the registration: Resource not accessible",
            "runner group",
        ),
        (
            error(JIT, "404", "Not Found"),
            "GitHub answers 404 to the registration: Not Found",
            "entity and runner group",
        ),
        (
            error(JIT, "422", "Validation Failed: labels"),
            "GitHub answers 422 to the registration: Validation Failed: labels",
            "entity and runner group",
        ),
        (
            error(JIT, NAME_TAKEN, "the runner's name is in use"),
            "GitHub answers 409 to the registration: the runner's name is in use",
            "new name",
        ),
        (
            error(JIT, RATE_LIMIT, "until 12:30:00"),
            "GitHub limits the rate of registrations: until 12:30:00",
            "limit ends",
        ),
        (error("get-installation", NOT_INSTALLED, absent), absent, "retries"),
        (error("read-app-key", "no-key", key), key, "muster doctor"),
        (
            error("sign-app-token", "bad-key", "the key is not an RSA key"),
            "the key is not an RSA key",
            "muster doctor",
        ),
    ];
    for (error, who, fix) in rows {
        let instance = booting().with(|i| (0..7).for_each(|_| i.registration_failed(&error)));
        let failed = instance.unregistered.as_ref().expect("recorded");
        let sentence = failed.sentence(at(60));
        assert!(sentence.starts_with(&format!("{who}; tried 7 times since ")), "{sentence}");
        assert!(sentence.contains(fix), "{sentence}");
        assert!(!sentence.contains("rate") || error.code == RATE_LIMIT, "{sentence}");
        let told = crate::explain::instance(&instance, at(60));
        assert!(told.contains(&format!("{sentence}.")), "{told:?}");
        assert_eq!(told[1], "Its machine has booted and has no runner yet for job 1/1.");
        // After the boot deadline, this is why the pool's machine served nothing.
        let mut late = instance.clone();
        late.set_mark(DeleteReason::BootTimeout, at(600));
        let why = instance.served_nothing(&late).expect("it served nothing");
        assert_eq!(why, format!("the machine did not start a runner: {who}"));
    }
    // No attempt failed: the machine never asked.
    let mut late = booting();
    late.set_mark(DeleteReason::BootTimeout, at(600));
    assert_eq!(
        booting().served_nothing(&late).as_deref(),
        Some("the machine did not start a runner")
    );
}

#[test]
fn failures_are_counted_until_a_success() {
    let late = ErrorDetail { at: at(90), ..fault("503") };
    let mut instance = booting().with(|i| i.registration_failed(&fault("500")));
    instance.registration_failed(&late);
    let failed = instance.unregistered.clone().expect("recorded");
    assert_eq!((failed.tries, failed.since, failed.last), (2, fault("500").at, late));
    instance.configured(crate::ids::RunnerId(7), at(95));
    assert_eq!(instance.unregistered, None);
}

#[test]
fn a_long_message_is_cut() {
    let long = ErrorDetail { message: "é".repeat(9_000), ..fault("503") };
    let instance = booting().with(|i| i.registration_failed(&long));
    let kept = instance.unregistered.expect("recorded").last.message;
    assert_eq!(kept.chars().count(), MAX_MESSAGE);
}
