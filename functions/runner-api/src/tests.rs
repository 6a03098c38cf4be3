use muster_control::ports::{ReadError, Unavailable};

use super::*;

const ROLE: &str = "AROAEXAMPLEROLEID0001";

fn request(event: &str) -> ApiGatewayV2httpRequest {
    serde_json::from_str(event).expect("an HTTP API event")
}

fn register() -> ApiGatewayV2httpRequest {
    request(include_str!("../../../events/runner-api-register.json"))
}

fn signed_by(user_id: &str) -> ApiGatewayV2httpRequest {
    let mut request = register();
    let authorizer = request.request_context.authorizer.as_mut().expect("an authorizer");
    authorizer.iam.as_mut().expect("of IAM").user_id = Some(user_id.to_owned());
    request
}

#[test]
fn the_caller_is_the_machine_that_the_session_is_named_after() {
    let request = register();
    let machine = "i-0a1b2c3d4e5f60718".parse().expect("an id");
    assert_eq!(caller(&request), Some(Caller { role: ROLE, machine }));
}

#[test]
fn only_a_session_of_a_role_named_after_a_machine_is_let_in() {
    for user_id in [
        "AIDAUSERUSERUSERUSER1:i-0a1b2c3d4e5f60718",
        "AROAEXAMPLEROLEID0001:somebody",
        "AROAEXAMPLEROLEID0001",
        "AROAEXAMPLEROLEID0001:i-0a1b2c3d4e5f60718:x",
        "AIDAUSERUSERUSERUSER1",
        "",
    ] {
        assert_eq!(caller(&signed_by(user_id)), None, "{user_id:?}");
    }
    let mut unsigned = register();
    unsigned.request_context.authorizer = None;
    assert_eq!(caller(&unsigned), None);
}

#[test]
fn a_call_signed_by_no_machine_is_answered_403() {
    assert!(admit(&register()).is_ok());
    let forged = signed_by("AROAEXAMPLEROLEID0001:somebody");
    let answer = admit(&forged).expect_err("turned away");
    assert_eq!(answer.status_code, 403);
    let Some(aws_lambda_events::encodings::Body::Text(body)) = &answer.body else {
        panic!("{:?}", answer.body)
    };
    assert!(body.contains("not_a_machine") && !body.contains("encoded"), "{body}");
}

#[test]
fn every_sample_report_is_read() {
    let runner = || "default-4kq7v2-1".to_owned();
    let read = |event: &str| read(&request(event)).expect("a report");
    let used = Used {
        s: 1266,
        cpus: 2,
        cpu: 38,
        cpu95: 95,
        half: 3,
        full: 4,
        steal: 0,
        mem: 3421,
        mem_of: 7811,
        oom: 0,
        wait: Some([12, 0, 3]),
        disk: 19_840,
        disk_of: 39_000,
        read: 812,
        write: 2210,
        got: 1533,
        sent: 44,
    };
    assert_eq!(
        read(include_str!("../../../events/runner-api-runner-started.json")),
        MachineReport::RunnerStarted { runner: runner() }
    );
    let job = StartReport {
        repository: "harbor-example/tide-tables".to_owned(),
        private: Some(true),
        run: 19_876_543_210,
        name: "test".to_owned(),
        pull_request: Some(123),
    };
    assert_eq!(
        read(include_str!("../../../events/runner-api-job-started.json")),
        MachineReport::JobStarted { runner: runner(), job }
    );
    assert_eq!(
        read(include_str!("../../../events/runner-api-job-completed.json")),
        MachineReport::JobCompleted { runner: runner(), used: Some(used) }
    );
    assert_eq!(
        read(include_str!("../../../events/runner-api-exited.json")),
        MachineReport::Exited { runner: runner(), code: 0, stopped_for: None, used: Some(used) }
    );
    assert_eq!(
        read(include_str!("../../../events/runner-api-interrupted.json")),
        MachineReport::Interrupted { runner: runner() }
    );
    let boot_failed = read(include_str!("../../../events/runner-api-boot-failed.json"));
    let MachineReport::BootFailed { log } = boot_failed else { panic!("{boot_failed:?}") };
    assert!(log.contains("giving up"));
}

#[test]
fn the_reason_for_an_agents_end_is_read_if_it_is_known() {
    for (text, expected) in [
        (r#""stopped_for":"interruption""#, Some(StopCause::Interruption)),
        (r#""stopped_for":"something""#, None),
        (r#""stopped_for":null"#, None),
        (r#""code":7"#, None),
    ] {
        let mut request = register();
        request.body = Some(format!(r#"{{"event":"exited","runner_name":"r-1",{text}}}"#));
        let report = read(&request).expect("a report");
        let MachineReport::Exited { stopped_for, .. } = report else { panic!("{report:?}") };
        assert_eq!(stopped_for, expected, "{text}");
    }
}

#[test]
fn a_report_counts_whatever_it_contains_about_the_job() {
    for used in ["null", "7", "{}", r#"{"s":-1}"#, r#"{"s":1,"cpus":2,"cpu":300}"#] {
        let mut request = register();
        let text = format!(r#"{{"event":"job-completed","runner_name":"r-1","used":{used}}}"#);
        request.body = Some(text);
        let expected = MachineReport::JobCompleted { runner: "r-1".to_owned(), used: None };
        assert_eq!(read(&request).expect("a report"), expected, "{used}");
    }
}

#[test]
fn a_machine_tells_its_agent_and_takes_another() {
    let read = |text: &str| {
        let mut request = register();
        request.body = Some(text.to_owned());
        body::<Register>(&request).map(|asked| asked.agent())
    };
    let version = |text: &str| text.parse().ok();
    let x64 = |version| Some(AgentReport { arch: Arch::X64, version });
    let sample = body::<Register>(&register()).map(|asked| asked.agent());
    assert_eq!(sample.expect("a body"), x64(version("2.336.0")));
    for (text, expected) in [
        ("{}", None),
        (r#"{"agent":"2.336.0"}"#, None),
        (r#"{"agent":"2.336.0","arch":"riscv64"}"#, None),
        (r#"{"agent":null,"arch":"x64"}"#, x64(None)),
        (r#"{"agent":"something","arch":"x64"}"#, x64(None)),
    ] {
        assert_eq!(read(text).expect("a body"), expected, "{text}");
    }
    assert!(read("no JSON").is_err());
    let sha256 = Some("ab".repeat(32));
    let url = "https://mirror.example/actions-runner-linux-x64-2.336.0.tar.gz".to_owned();
    let version = "2.336.0".parse().expect("a version");
    let download = AgentDownload { version, arch: Arch::X64, url: url.clone(), sha256 };
    let told = agent(&AgentOffer::Download(download));
    assert_eq!(told, json!({ "version": "2.336.0", "url": url, "sha256": "ab".repeat(32) }));
    assert_eq!(agent(&AgentOffer::Newest), json!({}));
}

#[test]
fn a_machine_tells_how_it_came_so_far() {
    let read = |text: &str| {
        let mut request = register();
        request.body = Some(text.to_owned());
        body::<Register>(&request).map(|Register { ages, .. }| Ages::from(ages))
    };
    let told = |running, booted, prepared| Ages { running, booted, prepared };
    let Register { ages, .. } = body(&register()).expect("a body");
    assert_eq!(Ages::from(ages), told(Some(61_240), Some(40_900), Some(300)));
    for (text, expected) in [
        ("{}", Ages::default()),
        (r#"{"ages":{"agent":1e300}}"#, told(None, None, Some(u32::MAX))),
        (r#"{"ages":{"kernel":1e9,"agent":-3}}"#, told(Some(u32::MAX), None, Some(0))),
    ] {
        assert_eq!(read(text).expect("a body"), expected, "{text}");
    }
    assert!(read("no JSON").is_err());
}

#[test]
fn a_long_log_keeps_its_end_in_whole_characters() {
    let log = "é".repeat(MAX_LOG);
    let kept = last(&log, MAX_LOG - 1);
    assert!(kept.len() < MAX_LOG && kept.chars().all(|character| character == 'é'));
    assert_eq!(last("short", MAX_LOG), "short");
}

#[test]
fn an_end_is_answered_with_what_comes_after_it() {
    use muster_domain::time::Seconds;
    for (after, told) in [
        (AfterEnd::ShutsDown, json!({ "version": 1 })),
        (AfterEnd::Asks(Seconds(5)), json!({ "version": 1, "ask_again_seconds": 5 })),
        (AfterEnd::Stays(Seconds(900)), json!({ "version": 1, "stay_seconds": 900 })),
    ] {
        assert_eq!(taken(after, None), told);
    }
}

#[test]
fn a_refusal_tells_the_machine_what_to_do() {
    let machine: MachineId = "i-0a1b2c3d4e5f60718".parse().expect("an id");
    let later = |hindrance| RunnerApiError::Later {
        after: muster_domain::time::Seconds(7),
        hindrance,
        why: "why".to_owned(),
    };
    let denied = Unavailable::new("GetItem: AccessDeniedException");
    let table = RunnerApiError::from(ReadError::Unavailable(denied));
    for (denied, status, code, action) in [
        (RunnerApiError::UnknownMachine, 403, "unknown_machine", "shutdown"),
        (RunnerApiError::Refused(ReportError::Draining), 409, "draining", "shutdown"),
        (later(Hindrance::NotKnownYet), 425, "not_known_yet", "retry"),
        (later(Hindrance::Overtaken), 425, "later_request", "retry"),
        (later(Hindrance::RemovalPending), 425, "removal_pending", "retry"),
        (later(Hindrance::NameTaken), 424, "name_taken", "retry"),
        (later(Hindrance::Refused), 424, "github_refuses", "retry"),
        (later(Hindrance::Unavailable), 424, "github_unavailable", "retry"),
        (later(Hindrance::NoPassword), 424, "no_proxy_password", "retry"),
        (later(Hindrance::RateLimit), 429, "github_rate_limit", "retry"),
        (table, 503, "unavailable", "retry"),
    ] {
        let response = refusal(&machine, "POST /runner/register", &denied);
        assert_eq!(response.status_code, status);
        let Some(aws_lambda_events::encodings::Body::Text(body)) = response.body else {
            panic!("a body")
        };
        let body: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(body["action"], action, "{denied:?}");
        assert_eq!(body["error"]["code"], code, "{denied:?}");
    }
}
