//! What is asked of CloudWatch and SQS, and what is watched.

use muster_cli::failure::Failure;
use muster_domain::time::{Seconds, Time};
use serde_json::{Value, json};

use crate::fake::{Fake, NOW};
use crate::orders::{refused, told};
use crate::recorded;

type Answer = Result<Value, Failure>;

fn service(code: &str, action: &str) -> Answer {
    let (action, said) = (action.to_owned(), "it says no".to_owned());
    Err(Failure::Service { action, code: code.to_owned(), said })
}

fn ago(seconds: u32) -> Time {
    NOW - Seconds(seconds)
}

fn event(id: &str, seconds: u32, message: &Value) -> Value {
    let text = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
    json!({ "eventId": id, "timestamp": ago(seconds).as_millis(), "message": format!("{text}\n") })
}

fn events(all: &[Value]) -> Answer {
    Ok(json!({ "events": all, "searchedLogStreams": [] }))
}

/// Lines of every kind, as the functions, Lambda and the gateway write them.
fn of_six_groups() -> Vec<Answer> {
    let line = |level: &str, message: &str, more: Value| {
        let mut line = json!({ "timestamp": "x", "level": level, "message": message, "target": "muster_control",
            "span": { "requestId": "r", "name": "Lambda runtime invoke" } });
        line.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        line
    };
    let platform = |status: &str| json!({ "time": "x", "type": "platform.report", "record": { "status": status } });
    vec![
        events(&[event("1", 40, &line("INFO", "queued a job event", json!({ "job": "1/2" })))]),
        events(&[
            event(
                "2",
                30,
                &line(
                    "WARN",
                    "EC2 refuses a launch",
                    json!({ "pool": "small", "code": "InvalidAMIID", "error": "no such image" }),
                ),
            ),
            event("3", 30, &json!({ "_aws": { "Timestamp": 1 }, "LaunchFailed": 1 })),
            event("4", 29, &platform("success")),
        ]),
        events(&[
            event("5", 86_400, &line("INFO", "swept", json!({ "due": 3 }))),
            event("6", 5, &platform("timeout")),
        ]),
        events(&[]),
        events(&[event("7", 20, &json!("thread 'main' panicked at \u{1b}[31msrc/main.rs"))]),
        events(&[event(
            "8",
            35,
            &json!({ "requestId": "r", "time": "1", "route": "POST /webhook", "status": "502",
            "error": "-", "integrationError": "no room", "latencyMs": "12", "sourceIp": "-", "caller": "-" }),
        )]),
    ]
}

#[test]
fn logs_are_read_side_by_side() {
    let missing = || service("ResourceNotFoundException", "logs:FilterLogEvents");
    let throttled = || service("ThrottlingException", "logs:FilterLogEvents");
    let one = |id, seconds, text: &str| event(id, seconds, &json!(text));
    let paged = |id| Ok(json!({ "events": [one(id, 9, "a page")], "nextToken": "more" }));
    let waits = |patience, services: Vec<Answer>| Fake { patience, ..Fake::aws(services) };
    told(
        "run_logs",
        [
            (Fake::aws(of_six_groups()), vec!["logs"]),
            (Fake { width: None, ..Fake::aws(of_six_groups()) }, vec!["logs", "--since", "2d"]),
            (Fake::aws(of_six_groups()), vec!["logs", "--json"]),
            (Fake::aws([paged("1"), events(&[one("2", 3, "the last")])]), vec!["logs", "reaper"]),
            (Fake::aws([events(&[])]), vec!["logs", "api"]),
            (
                waits(9, vec![throttled(), events(&[one("1", 3, "after all")])]),
                vec!["logs", "reaper"],
            ),
            (waits(9, (0..6).map(|_| throttled()).collect()), vec!["logs", "reaper"]),
            // A line that was shown is not shown again, and one that comes late is.
            (
                waits(
                    3,
                    vec![
                        events(&[one("1", 9, "first")]),
                        events(&[one("1", 9, "first"), one("0", 10, "late")]),
                        events(&[one("2", 0, "second")]),
                    ],
                ),
                vec!["logs", "reaper", "-f"],
            ),
            (
                Fake {
                    stacks: ["muster", "ci"].into(),
                    ..Fake::aws([missing(), events(&[one("1", 3, "of ci")])])
                },
                vec!["logs", "reaper"],
            ),
            (Fake::aws([missing()]), vec!["logs", "reaper"]),
            (
                Fake::aws([service("AccessDeniedException", "logs:FilterLogEvents")]),
                vec!["logs", "reaper"],
            ),
        ],
    );
}

#[test]
fn logs_are_those_of_a_job_by_any_of_its_names() {
    let lines = || {
        let own = event("1", 9, &json!("planned small-l0-0 for 1/2"));
        let other = event("2", 8, &json!("planned small-l0-01 for 11/2"));
        std::iter::once(events(&[own, other])).chain((0..4).map(|_| events(&[])))
    };
    let (mut job, gone) = (recorded("explain_job"), || refused("not_found", "there is none"));
    job["job"]["claim"] = json!("small-l0-0");
    let asked = |answers: Vec<Value>| Fake { answers: answers.into(), ..Fake::aws(lines()) };
    told(
        "run_logs_of_a_job",
        [
            (asked(vec![job.clone(), recorded("show")]), vec!["logs", "1/2"]),
            (asked(vec![recorded("show")]), vec!["logs", "i-000000a0000000000"]),
            // Records go after a week, and lines may be kept for longer.
            (asked(vec![gone(), gone()]), vec!["logs", "small-l0-0"]),
            (asked(vec![gone()]), vec!["logs", "1/2"]),
            // While it is followed, the job gets an instance.
            (
                Fake {
                    patience: 6,
                    answers: [recorded("explain_job"), job.clone(), recorded("show")].into(),
                    ..Fake::aws((0..30).map(|_| events(&[])))
                },
                vec!["logs", "1/2", "-f"],
            ),
        ],
    );
}

/// A log as a machine sends it.
fn packed(text: &str) -> Vec<u8> {
    let body = miniz_oxide::deflate::compress_to_vec(text.as_bytes(), 6);
    [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &body, &[0; 8]].concat()
}

#[test]
fn what_a_machine_wrote_is_shown_by_any_name_of_its_job() {
    let outputs = |all: Value| {
        Ok(json!({ "DescribeStacksResult": { "Stacks": [{ "StackId": "x", "Outputs": all }] } }))
    };
    let here = || {
        outputs(json!([{ "OutputKey": "MachineLogsPrefix", "OutputValue": "s3://logs-1/AROA7:" }]))
    };
    let log =
        || Ok(packed("==> journal <==\nmuster: runner small-l0-0-1 started\n\u{1b}]0;mine\u{7}\n"));
    let none = || match service("NoSuchKey", "s3:GetObject") {
        Err(failure) => Err(failure),
        Ok(_) => Ok(Vec::new()),
    };
    let asked =
        |answers: Vec<Value>, stack: Answer, object: Option<Result<Vec<u8>, Failure>>| Fake {
            answers: answers.into(),
            objects: object.into_iter().collect(),
            ..Fake::aws([stack])
        };
    let (mut job, gone) = (recorded("explain_job"), || refused("not_found", "there is none"));
    job["job"]["claim"] = json!("small-l0-0");
    let mut deleted = recorded("show");
    deleted["instance"]["state"] = json!("deleted");
    let mut planned = recorded("show");
    planned["instance"]["machine"] = Value::Null;
    let mut of_its_pool = recorded("show");
    of_its_pool["instance"]["role"] = json!("AROA9");
    told(
        "run_logs_of_a_machine",
        [
            (asked(vec![of_its_pool], here(), Some(log())), vec!["logs", "small-l0-0", "-m"]),
            (
                asked(vec![job, recorded("show")], here(), Some(log())),
                vec!["logs", "1/2", "--machine"],
            ),
            // Logs may be kept for longer than records.
            (asked(vec![gone()], here(), Some(log())), vec!["logs", "i-000000a0000000000", "-m"]),
            (asked(vec![gone()], here(), Some(none())), vec!["logs", "i-000000a0000000000", "-m"]),
            (asked(vec![recorded("show")], here(), Some(none())), vec!["logs", "small-l0-0", "-m"]),
            (asked(vec![deleted], here(), Some(none())), vec!["logs", "small-l0-0", "-m"]),
            (Fake::of([planned]), vec!["logs", "small-l0-0", "-m"]),
            (
                asked(vec![recorded("show")], outputs(json!([])), None),
                vec!["logs", "small-l0-0", "-m"],
            ),
            (
                asked(vec![recorded("show")], here(), Some(Ok(b"not packed".to_vec()))),
                vec!["logs", "small-l0-0", "-m"],
            ),
            (Fake::of([gone(), gone()]), vec!["logs", "small-l0-0", "-m"]),
        ],
    );
}

#[test]
fn a_shell_is_opened_where_the_stack_allows_it_and_the_machine_lives() {
    let stack = |sessions: &str| {
        let parameters = json!([{ "ParameterKey": "Sessions", "ParameterValue": sessions }]);
        Ok(
            json!({ "DescribeStacksResult": { "Stacks": [{ "StackId": "x", "Parameters": parameters }] } }),
        )
    };
    let asked = |answers: Vec<Value>, services: Vec<Answer>, says: Option<&'static str>| Fake {
        answers: answers.into(),
        says: says.into_iter().collect(),
        ..Fake::aws(services)
    };
    let mut job = recorded("explain_job");
    job["job"]["claim"] = json!("small-l0-0");
    let mut deleted = recorded("show");
    deleted["instance"]["state"] = json!("deleted");
    told(
        "run_connect",
        [
            (
                asked(vec![job, recorded("show")], vec![stack("yes")], Some("")),
                vec!["connect", "1/2"],
            ),
            (
                asked(vec![recorded("show")], vec![stack("yes")], None),
                vec!["connect", "small-l0-0"],
            ),
            (
                asked(vec![recorded("show")], vec![stack("yes")], Some("")),
                vec!["connect", "small-l0-0", "--print"],
            ),
            (
                asked(vec![recorded("show")], vec![stack("no")], Some("")),
                vec!["connect", "small-l0-0"],
            ),
            (asked(vec![deleted], vec![], Some("")), vec!["connect", "small-l0-0"]),
        ],
    );
}

fn alarm(name: &str, state: &str, seconds: u32) -> Value {
    let name_of_stack =
        ["muster-prod-", "muster-"].into_iter().find(|stack| name.starts_with(stack));
    let anchor = name.trim_start_matches(name_of_stack.unwrap_or_default());
    let at = ago(seconds).as_millis();
    json!({
        "AlarmName": name, "StateValue": state, "StateTransitionedTimestamp": f64::from(i32::try_from(at / 1000).expect("seconds")),
        "StateUpdatedTimestamp": 1, "StateReason": "Threshold Crossed: 1 datapoint [1800.0] was greater.",
        "AlarmDescription": format!("What {anchor} means. What to do: docs/alarms/{anchor}.md"),
    })
}

fn described(more: bool) -> Vec<Answer> {
    let page =
        |alarms: Value, next: Value| Ok(json!({ "MetricAlarms": alarms, "NextToken": next }));
    let red = [alarm("muster-delete-stuck", "ALARM", 700), alarm("muster-quota", "ALARM", 90_000)];
    let others = [
        alarm("muster-orphans", "OK", 1),
        alarm("muster-prod-orphans", "ALARM", 1),
        alarm("muster-reaper-silent", "INSUFFICIENT_DATA", 60),
    ];
    match more {
        true => vec![page(json!(others), json!("more")), page(json!(red), Value::Null)],
        false => vec![page(json!(others), Value::Null)],
    }
}

#[test]
fn alarms_come_with_what_they_ask_for() {
    let none = || Ok(json!({ "MetricAlarms": [] }));
    told(
        "run_alarms",
        [
            (Fake::aws(described(true)), vec!["alarms"]),
            (Fake { width: None, ..Fake::aws(described(true)) }, vec!["alarms"]),
            (Fake::aws(described(false)), vec!["alarms", "--json"]),
            (Fake::aws(described(true)), vec!["alarms", "delete-stuck"]),
            (Fake::aws(described(true)), vec!["alarms", "muster-quota"]),
            (Fake::aws(described(true)), vec!["alarms", "delete-stukc"]),
            (Fake::aws([none()]), vec!["alarms"]),
            (Fake::aws([service("AccessDenied", "cloudwatch:DescribeAlarms")]), vec!["alarms"]),
        ],
    );
}

pub(crate) fn queues() -> Answer {
    let names =
        ["JobsDeadLetters-1A", "JobsQueue-2B", "LaunchDeadLetters-3C", "ReapDeadLetters-4D"];
    let mut urls =
        names.map(|name| format!("https://sqs.us-east-1.amazonaws.com/1/muster-{name}")).to_vec();
    urls.push("https://sqs.us-east-1.amazonaws.com/1/muster-prod-JobsDeadLetters-5E".to_owned());
    Ok(json!({ "QueueUrls": urls }))
}

pub(crate) fn attributes(messages: u32, hidden: u32) -> Answer {
    Ok(json!({ "Attributes": {
        "ApproximateNumberOfMessages": messages.to_string(),
        "ApproximateNumberOfMessagesNotVisible": hidden.to_string(),
        "QueueArn": "arn:aws:sqs:us-east-1:1:dead",
    } }))
}

fn received(ids: &[&str]) -> Answer {
    let message = |id: &&str| {
        json!({ "MessageId": id, "ReceiptHandle": format!("handle-{id}"), "Body": format!("{{\"job\":\"1/{id}\"}}"),
            "Attributes": { "SentTimestamp": ago(60).as_millis().to_string(), "ApproximateReceiveCount": "1" } })
    };
    Ok(json!({ "Messages": ids.iter().map(message).collect::<Vec<_>>() }))
}

#[test]
fn dead_letters_are_counted_shown_and_sent_back() {
    let done = || Ok(json!({}));
    let three = || vec![queues(), attributes(2, 0), attributes(0, 0), attributes(7, 1)];
    let looked = || {
        let looks = [received(&["1", "2"]), received(&["2", "3"]), done(), done()];
        [queues(), attributes(4, 0)].into_iter().chain(looks)
    };
    let back = || [queues(), attributes(1, 0), Ok(json!({ "TaskHandle": "t" }))];
    let says = |said: &'static str, services: Vec<Answer>| Fake {
        says: [said].into(),
        ..Fake::aws(services)
    };
    told(
        "run_dead_letters",
        [
            (Fake::aws(three()), vec!["dead-letters"]),
            (Fake { width: None, ..Fake::aws(three()) }, vec!["dead-letters"]),
            (Fake::aws(three()), vec!["dead-letters", "--json"]),
            (Fake::aws(looked()), vec!["dead-letters", "jobs", "--show"]),
            (Fake { width: None, ..Fake::aws(looked()) }, vec!["dead-letters", "jobs", "--show"]),
            (
                Fake::aws([queues(), attributes(0, 0), done()]),
                vec!["dead-letters", "reaps", "--show"],
            ),
            // What was taken is given back, whatever comes then.
            (
                Fake::aws([
                    queues(),
                    attributes(4, 0),
                    received(&["1"]),
                    service("AccessDenied", "sqs:ReceiveMessage"),
                    done(),
                ]),
                vec!["dead-letters", "jobs", "--show"],
            ),
            (says("y", back().into()), vec!["dead-letters", "jobs", "--redrive"]),
            (says("n", back()[..2].to_vec()), vec!["dead-letters", "jobs", "--redrive"]),
            (Fake::aws(back()), vec!["dead-letters", "jobs", "--redrive", "--yes", "--json"]),
            (Fake::aws(back()[..2].to_vec()), vec!["dead-letters", "jobs", "--redrive"]),
            (Fake::aws([queues(), attributes(0, 0)]), vec!["dead-letters", "jobs", "--redrive"]),
            (Fake::aws([Ok(json!({}))]), vec!["dead-letters"]),
            // The queues are on the second page of the account's.
            (
                Fake::aws(
                    [Ok(json!({ "QueueUrls": [], "NextToken": "2" }))].into_iter().chain(three()),
                ),
                vec!["dead-letters"],
            ),
        ],
    );
}

/// Six receives of ten messages would show more than fifty: the last one is not made.
#[test]
fn fifty_dead_letters_are_shown_at_most() {
    let names: Vec<String> = (0..60).map(|n| n.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let given_back = (0..5).map(|_| Ok(json!({})));
    let received = names.chunks(10).take(5).map(received);
    let answers = [queues(), attributes(60, 0)].into_iter().chain(received).chain(given_back);
    let shown = Fake::aws(answers).run(&["dead-letters", "jobs", "--show"]);
    assert_eq!(shown.matches("ReceiveMessage").count(), 5, "{shown}");
    assert!(shown.contains("1/49") && shown.contains("exit 0"), "{shown}");
}

#[test]
fn the_audit_trail_is_read_to_its_end() {
    let mut last = recorded("audit");
    let first = recorded("audit_in_part");
    let lines = last["lines"].as_array_mut().expect("lines");
    // The second page begins with the moment where the first one ends.
    lines.drain(..lines.len() - 1);
    let both = || Fake::of([first.clone(), last.clone()]);
    // Two lines of one moment: the first page ends between them, and the second one has both.
    let (mut part, mut rest) = (first.clone(), recorded("audit"));
    let mut line = part["lines"][1].clone();
    part["next"] = line["at"].clone();
    line["subject"] = json!("pools");
    rest["lines"] = json!([part["lines"][1], line]);
    let split = Fake::of([part, rest]);
    told(
        "run_audit",
        [
            (both(), vec!["audit"]),
            (split, vec!["audit"]),
            (both(), vec!["audit", "--json"]),
            (Fake::of([recorded("audit")]), vec!["audit", "switches", "--since", "90d"]),
            (Fake::of([recorded("show"), recorded("audit")]), vec!["audit", "i-000000a0000000000"]),
            (
                Fake::of([refused("not_found", "there is none"), recorded("audit")]),
                vec!["audit", "i-0a"],
            ),
            (Fake::of([refused("bad_request", "unknown variant `audit`")]), vec!["audit"]),
            (
                Fake::of([refused("too_far", "\"since\" must be less than 400 days back")]),
                vec!["audit", "--since", "500d"],
            ),
        ],
    );
}

/// The stack in two looks: what is the same is drawn again on a terminal, and not written again without one.
#[test]
fn the_stack_is_watched() {
    let line = |id: &str, text: &str| {
        event(
            id,
            5,
            &json!({ "level": "INFO", "message": text, "instance.id": "small-l0-0", "by": "pool" }),
        )
    };
    let logs = || {
        let read = |id, text: &str| {
            let routine = event("r", 6, &json!({ "level": "INFO", "message": "sweep finished" }));
            std::iter::once(events(&[line(id, text), routine])).chain((0..4).map(|_| events(&[])))
        };
        read("1", "launched").chain(read("2", "registered"))
    };
    let mut later = recorded("overview_quiet");
    later["pools"][0]["live"] = json!(3);
    let looks = || [recorded("overview_quiet"), later.clone(), later.clone()];
    let watched = |width| Fake { width, patience: 3, answers: looks().into(), ..Fake::aws(logs()) };
    let denied = || (0..5).map(|_| service("AccessDeniedException", "logs:FilterLogEvents"));
    told(
        "run_watch",
        [
            (watched(Some(100)), vec!["watch"]),
            (watched(None), vec!["watch"]),
            (
                Fake { patience: 3, answers: looks().into(), ..Fake::default() },
                vec!["watch", "--json"],
            ),
            (
                Fake {
                    patience: 1,
                    answers: [recorded("overview_quiet")].into(),
                    ..Fake::aws(denied())
                },
                vec!["watch"],
            ),
            (
                Fake { patience: 3, width: None, answers: looks().into(), ..Fake::aws(denied()) },
                vec!["watch"],
            ),
            // What is wrong does not hide the log.
            (
                Fake {
                    patience: 1,
                    answers: [recorded("overview")].into(),
                    ..Fake::aws(logs().take(5))
                },
                vec!["watch"],
            ),
            // What does not answer at once is not waited for; what does not answer later is.
            (Fake::of([refused("unavailable", "the tables do not answer")]), vec!["watch"]),
            (
                Fake {
                    patience: 3,
                    width: None,
                    answers: [
                        recorded("overview_quiet"),
                        refused("unavailable", "the tables do not answer"),
                        later.clone(),
                    ]
                    .into(),
                    ..Fake::aws(logs())
                },
                vec!["watch"],
            ),
        ],
    );
}

#[test]
fn a_job_is_followed_to_its_end() {
    let waits = recorded("explain_job");
    let mut runs = waits.clone();
    runs["job"]["claim"] = json!("small-l0-0");
    runs["explanation"] = json!(["Job 1/2 runs on small-l0-0-1."]);
    let ended = |how: &str| {
        let mut ended = runs.clone();
        ended["job"]["status"] = json!("completed");
        ended["job"]["conclusion"] = json!(how);
        ended["job"]["completed_at"] = json!(NOW);
        ended["explanation"] = json!([format!("Job 1/2 is over: {how}.")]);
        ended
    };
    let story = |how: &str| {
        [waits.clone(), waits.clone(), runs.clone(), recorded("show"), ended(how), recorded("show")]
    };
    let follows = |width, answers: Vec<Value>| Fake { width, patience: 9, ..Fake::of(answers) };
    let mut deleted = recorded("show");
    deleted["instance"]["state"] = json!("deleted");
    deleted["explanation"] = json!(["Instance small-l0-0 is deleted."]);
    let gone = refused("not_found", "there is no instance or machine \"small-l9\"; see list");
    told(
        "run_watch_to_an_end",
        [
            (follows(None, story("success").into()), vec!["watch", "1/2"]),
            (follows(None, story("failure").into()), vec!["watch", "1/2"]),
            (follows(Some(100), story("success")[3..].to_vec().split_off(1)), vec!["watch", "1/2"]),
            (follows(None, story("success").into()), vec!["watch", "1/2", "--json"]),
            (
                follows(None, vec![recorded("show"), deleted.clone()]),
                vec!["watch", "i-000000a0000000000"],
            ),
            (follows(None, vec![gone]), vec!["watch", "small-l9"]),
            (
                follows(
                    None,
                    vec![
                        recorded("show"),
                        refused("unavailable", "the tables do not answer"),
                        deleted.clone(),
                    ],
                ),
                vec!["watch", "small-l0-0"],
            ),
        ],
    );
}

/// What AWS answers where the queues hold messages: their addresses, each function's concurrency, the counts, and the log of
/// scale-up.
fn queues_with(jobs: u32, stopped: Option<usize>, log: &[Value]) -> Vec<Answer> {
    let urls = ["JobsQueue", "JobsDeadLetters", "LaunchQueue", "ReapQueue"]
        .map(|name| format!("https://sqs.us-east-1.amazonaws.com/1/muster-{name}-1A"));
    let count = |messages: u32| {
        Ok(json!({ "Attributes": { "ApproximateNumberOfMessages": "0",
            "ApproximateNumberOfMessagesNotVisible": messages.to_string() } }))
    };
    let concurrency = |number| match stopped == Some(number) {
        true => Ok(json!({ "ReservedConcurrentExecutions": 0 })),
        false => Ok(json!({})),
    };
    let mut all = vec![Ok(json!({ "QueueUrls": urls }))];
    all.extend((0..5).map(concurrency));
    all.extend([count(jobs), count(0), count(0)]);
    if jobs > 0 {
        all.extend([events(log), events(&[])]);
    }
    all
}

#[test]
fn status_and_explain_say_why_events_stay_in_the_queue() {
    let denied = json!({ "level": "ERROR", "message": "failed to record a job event; it is retried",
        "error": "table unavailable: GetItem: AccessDeniedException: not authorized to perform dynamodb:GetItem" });
    let failing = || queues_with(3, None, &[event("1", 20, &denied)]);
    let gone = || refused("not_found", "job 1/2 has no record: its webhook event never arrived");
    let asked = |answer: Value, services: Vec<Answer>| Fake {
        answers: [answer].into(),
        ..Fake::aws(services)
    };
    told(
        "run_backlog",
        [
            (asked(recorded("status_quiet"), failing()), vec!["status"]),
            (asked(recorded("status_quiet"), queues_with(0, None, &[])), vec!["status"]),
            (asked(recorded("status_quiet"), queues_with(2, Some(1), &[])), vec!["status"]),
            (asked(recorded("status_quiet"), queues_with(0, Some(0), &[])), vec!["status"]),
            (asked(gone(), failing()), vec!["explain", "1/2"]),
            (asked(gone(), queues_with(1, None, &[])), vec!["explain", "1/2"]),
            (asked(gone(), queues_with(0, None, &[])), vec!["explain", "1/2"]),
            // Without the rights, the answers are the admin function's alone.
            (
                asked(gone(), vec![service("AccessDenied", "sqs:ListQueues"); 6]),
                vec!["explain", "1/2"],
            ),
        ],
    );
}
