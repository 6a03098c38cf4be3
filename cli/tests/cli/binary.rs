//! The program itself: its help, its exit codes, and what it sends, before a Lambda of a few lines.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output};
use std::sync::mpsc;

use crate::{compare, recorded};

const MUSTER: &str = env!("CARGO_BIN_EXE_muster");

/// The program without anything of whoever runs the test.
pub(crate) fn muster(line: &[&str]) -> Command {
    let mut command = Command::new(MUSTER);
    command.args(line).env_clear().envs([
        ("AWS_CONFIG_FILE", "/dev/null"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]);
    command
}

pub(crate) fn with_credentials(mut command: Command) -> Command {
    command.envs([
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "us-east-1"),
    ]);
    command
}

fn told(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}--\n{err}exit {}\n", output.status.code().expect("an exit"))
}

/// Answers each request in turn; each answer has a status, headers, and a body. Returns what was asked.
pub(crate) fn lambda(
    answers: Vec<(u16, &'static str, String)>,
) -> (String, mpsc::Receiver<String>) {
    let mut answers = answers.into_iter();
    listening(move |_| answers.next())
}

/// The same for whoever asks for more than one thing at once: answers by what is asked.
pub(crate) fn serve(
    mut answer: impl FnMut(&str) -> (u16, String) + Send + 'static,
) -> (String, mpsc::Receiver<String>) {
    listening(move |asked| {
        let (status, body) = answer(asked);
        Some((status, "", body))
    })
}

fn listening(
    mut answer: impl FnMut(&str) -> Option<(u16, &'static str, String)> + Send + 'static,
) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (asked, requests) = mpsc::channel();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(reader.read_line(&mut head).expect("a line") > 0, "no head: {head}");
            }
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
            });
            let mut sent = vec![0; length.unwrap_or_default()];
            reader.read_exact(&mut sent).expect("a body");
            let request = format!("{head}{}", String::from_utf8_lossy(&sent));
            let Some((status, header, body)) = answer(&request) else { break };
            let _ = asked.send(request);
            let stream = reader.get_mut();
            let answer = format!(
                "HTTP/1.1 {status} X\r\n{header}content-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).expect("a reader");
        }
    });
    (address, requests)
}

/// Runs a command line before a Lambda with these answers.
fn before(answers: Vec<(u16, &'static str, String)>, line: &[&str]) -> (Output, Vec<String>) {
    let (address, requests) = lambda(answers);
    let output = with_credentials(muster(line)).env("AWS_ENDPOINT_URL", address).output();
    (output.expect("a process"), requests.try_iter().collect())
}

#[test]
fn help_is_as_recorded() {
    let commands: [&[&str]; 41] = [
        &[],
        &["status"],
        &["doctor"],
        &["jobs"],
        &["explain"],
        &["list"],
        &["show"],
        &["watch"],
        &["ui"],
        &["report"],
        &["logs"],
        &["alarms"],
        &["dead-letters"],
        &["audit"],
        &["delete"],
        &["pause"],
        &["resume"],
        &["pools"],
        &["pools", "check"],
        &["pools", "diff"],
        &["pools", "apply"],
        &["pools", "edit"],
        &["pools", "history"],
        &["pools", "restore"],
        &["image"],
        &["image", "on"],
        &["image", "off"],
        &["image", "build"],
        &["image", "history"],
        &["image", "rollback"],
        &["image", "delete"],
        &["setup"],
        &["upgrade"],
        &["teardown"],
        &["github"],
        &["github", "create"],
        &["github", "link"],
        &["github", "connect"],
        &["github", "hook"],
        &["github", "remove"],
        &["github", "rotate"],
    ];
    let pages = commands.map(|command| {
        // In short, but for what needs a second sentence.
        let long: [&[&str]; 7] = [
            &[],
            &["delete"],
            &["watch"],
            &["image"],
            &["setup"],
            &["teardown"],
            &["github", "create"],
        ];
        let is_long = long.contains(&command);
        let line = [command, &[if is_long { "--help" } else { "-h" }]].concat();
        let output = muster(&line).output().expect("a process");
        assert!(output.status.success() && output.stderr.is_empty(), "{line:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // What holds for all commands is the same for each, and recorded once.
        let (own, all) = text.split_once("Global options:\n").expect("the options of all");
        assert!(all.contains("--stack <STACK>") && all.contains("--json"), "{line:?}: {all}");
        let shown = if command.is_empty() { &text } else { own.trim_end() };
        format!("$ muster {}\n{shown}\n", line.join(" "))
    });
    compare("help.txt", &pages.join("\n"));
}

#[test]
fn an_answer_goes_to_stdout_and_the_call_is_signed() {
    let (output, requests) =
        before(vec![(200, "", recorded("jobs").to_string())], &["jobs", "--stack", "ci"]);
    compare("binary_jobs.txt", &told(&output));
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert!(
        request.starts_with("POST /2015-03-31/functions/ci-admin/invocations HTTP/1.1"),
        "{request}"
    );
    assert!(request.contains("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{request}");
    assert!(request.contains("/us-east-1/lambda/aws4_request"), "{request}");
    let body =
        r#"{"action":"jobs","adopt":false,"limit":5000,"pool":null,"repository":null,"version":1}"#;
    assert!(request.ends_with(body), "{request}");
}

#[test]
fn each_service_is_called_by_its_own_name() {
    let denied = r#"{"__type":"AccessDeniedException","Message":"it says no"}"#;
    let queues = r#"{"QueueUrls":["http://x/1/ci-JobsDeadLetters-1"]}"#;
    let attributes = r#"{"Attributes":{"ApproximateNumberOfMessages":"3"}}"#;
    type Case<'a> = (&'a [&'a str], &'a str, &'a [&'a str], Vec<(u16, &'a str)>);
    let cases: [Case<'_>; 3] = [
        (
            &["logs", "reaper"],
            "logs",
            &["Logs_20140328.FilterLogEvents", "application/x-amz-json-1.1"],
            vec![(200, r#"{"events":[{"timestamp":0,"message":"a line"}]}"#)],
        ),
        (
            &["alarms"],
            "monitoring",
            &["GraniteServiceVersion20100801.DescribeAlarms", "application/x-amz-json-1.0"],
            vec![(400, denied)],
        ),
        (
            &["dead-letters", "jobs"],
            "sqs",
            &["AmazonSQS.", "application/x-amz-json-1.0"],
            vec![(200, queues), (200, attributes)],
        ),
    ];
    let all = cases.map(|(line, service, headers, answers)| {
        let answers = answers.into_iter().map(|(status, body)| (status, "", body.to_owned()));
        let line = [line, &["--stack", "ci"]].concat();
        let (output, requests) = before(answers.collect(), &line);
        let scope = format!("/us-east-1/{service}/aws4_request");
        for request in &requests {
            assert!(request.starts_with("POST / HTTP/1.1"), "{request}");
            let told = headers.iter().chain([&scope.as_str()]).all(|part| request.contains(part));
            assert!(told, "{headers:?} {scope}: {request}");
        }
        format!("== muster {}\n{}", line.join(" "), told(&output))
    });
    compare("binary_services.txt", &all.join("\n"));
}

#[test]
fn what_goes_wrong_has_a_sentence_and_a_code() {
    let error =
        |kind: &str| serde_json::json!({ "__type": kind, "Message": "it says no" }).to_string();
    let functions = |names: &[&str]| {
        let all: Vec<_> =
            names.iter().map(|name| serde_json::json!({ "FunctionName": name })).collect();
        serde_json::json!({ "Functions": all }).to_string()
    };
    let unhandled = "x-amz-function-error: Unhandled\r\n";
    let timed_out = r#"{"errorMessage":"2026-11-25 Task timed out after 60.00 seconds"}"#;
    let none = || (404, "", error("ResourceNotFoundException"));
    let cases = [
        ("denied", vec![(403, "", error("AccessDeniedException"))], vec!["status"]),
        ("expired", vec![(403, "", error("ExpiredTokenException"))], vec!["status"]),
        ("no stack", vec![none(), (200, "", functions(&[]))], vec!["status"]),
        (
            "others",
            vec![none(), (200, "", functions(&["a-admin", "a-reaper", "b-admin", "b-reaper"]))],
            vec!["status"],
        ),
        (
            "may not look",
            vec![none(), (403, "", error("AccessDeniedException"))],
            vec!["status", "--stack", "ci"],
        ),
        (
            "the only one",
            vec![
                none(),
                (200, "", functions(&["ci-admin", "ci-reaper", "x"])),
                (200, "", recorded("jobs_of_a_pool").to_string()),
            ],
            vec!["jobs"],
        ),
        ("too late", vec![(200, unhandled, timed_out.to_owned())], vec!["status"]),
        (
            "broken",
            vec![(200, unhandled, r#"{"errorMessage":"panicked"}"#.to_owned())],
            vec!["status", "--json"],
        ),
        ("refused", vec![(200, "", recorded("error").to_string())], vec!["show", "nothing"]),
        (
            "refused, as JSON",
            vec![(200, "", recorded("error").to_string())],
            vec!["show", "nothing", "--json"],
        ),
    ];
    let all = cases.map(|(name, answers, line)| {
        let (output, _) = before(answers, &line);
        format!("== {name}: muster {}\n{}", line.join(" "), told(&output))
    });
    compare("binary_failures.txt", &all.join("\n"));
}

#[test]
fn what_is_missing_is_said_before_anything_is_asked() {
    let cases = [
        ("no credentials", {
            let mut command = muster(&["status"]);
            command.env("AWS_REGION", "us-east-1");
            command
        }),
        ("no region", muster(&["status"])),
        ("no server", {
            let mut command = with_credentials(muster(&["status"]));
            // Port 9 of this machine: nobody listens there.
            command.env("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
            command
        }),
        ("no such file", muster(&["pools", "check", "nothing.yaml"])),
        ("no CA bundle", muster(&["status", "--ca-bundle", "Cargo.toml"])),
        ("no such command", muster(&["stauts"])),
        ("a yes without a reason", muster(&["delete", "small-l0-0", "--yes"])),
    ];
    let all = cases.map(|(name, mut command)| {
        format!("== {name}\n{}", told(&command.output().expect("a process")))
    });
    compare("binary_missing.txt", &all.join("\n"));
}

#[test]
fn completions_load_in_bash() {
    let script = format!(
        "set -eu; PATH={}:$PATH; eval \"$(muster completions bash)\"; complete -p muster; \
         COMP_WORDS=(muster pools ''); COMP_CWORD=2; _muster muster '' pools; echo \"${{COMPREPLY[*]}}\"",
        std::path::Path::new(MUSTER).parent().expect("a folder").display()
    );
    let output = Command::new("bash").args(["-c", &script]).output().expect("bash");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for word in ["-F _muster muster", "check", "diff", "apply", "edit", "history", "restore"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn the_man_page_has_every_command() {
    let output = muster(&["man"]).output().expect("a process");
    let said = String::from_utf8_lossy(&output.stdout);
    for word in [".TH", "explain", "delete", "kill", "pools"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

/// What others word, in each way that it can come.
const HOSTILE: &str = "\u{1b}]52;c;b3du\u{7}\u{1b}[2J\u{1b}[31m\u{9b}31m\u{7f}\u{202e}\u{2066}\u{200b}\u{200f}\u{61c}\u{2028}\u{feff}\u{ad}\u{e0041}x";

#[test]
fn text_of_others_is_never_obeyed() {
    let json = |value: serde_json::Value| value.to_string();
    let refused = json(serde_json::json!({
        "version": 1, "ok": false, "error": { "code": "not_found", "message": HOSTILE },
    }));
    let with_mistakes = json(serde_json::json!({
        "version": 1, "ok": false,
        "error": { "code": "bad_pool_file", "message": "no", "errors": [{ "path": HOSTILE, "what": HOSTILE }] },
    }));
    let mut unread = recorded("jobs");
    unread["jobs"][0]["reason"] = serde_json::json!(HOSTILE);
    let denied = json(serde_json::json!({ "__type": "AccessDeniedException", "Message": HOSTILE }));
    let other = json(serde_json::json!({ "__type": HOSTILE, "Message": HOSTILE }));
    let broken = json(serde_json::json!({ "errorMessage": HOSTILE }));
    let unhandled = "x-amz-function-error: Unhandled\r\n";
    let events = json(serde_json::json!({ "events": [{ "timestamp": 0, "message": HOSTILE }] }));
    let mut named = recorded("jobs");
    named["jobs"][0]["name"] = serde_json::json!(HOSTILE);
    let failure = serde_json::json!({ "count": 1, "at": "2026-11-20T23:30:00Z", "why": HOSTILE });
    let family = serde_json::json!({ "failure": failure, "next_build_at": "2199-01-01T00:00:00Z" });
    let failed = crate::image::status(true, &[crate::image::family(&family)], 0);
    type Answer<'a> = (u16, &'static str, String);
    let cases: [(&str, &[&str], Answer<'_>); 16] = [
        ("a refusal", &["show", "x"], (200, "", refused.clone())),
        ("a refusal, as JSON", &["show", "x", "--json"], (200, "", refused.clone())),
        ("a refusal, told of", &["show", "x", "-v"], (200, "", refused)),
        ("a refused file", &["pools", "restore", "1", "--yes"], (200, "", with_mistakes)),
        ("an unknown word", &["jobs"], (200, "", json(unread))),
        ("a name", &["jobs"], (200, "", json(named.clone()))),
        ("a name, as JSON", &["jobs", "--json"], (200, "", json(named))),
        ("a failed build", &["image"], (200, "", json(failed.clone()))),
        ("a failed build, followed", &["image", "--watch", "--json"], (200, "", json(failed))),
        ("AWS's own no", &["status"], (403, "", denied.clone())),
        ("AWS's error", &["status"], (400, "", other.clone())),
        ("a function that broke", &["status"], (200, unhandled, broken)),
        ("no JSON", &["status"], (502, "", HOSTILE.to_owned())),
        ("a service's no", &["logs", "reaper"], (400, "", denied)),
        ("a line of a log", &["logs", "reaper"], (200, "", events.clone())),
        ("a line of a log, as it is", &["logs", "reaper", "--json"], (200, "", events)),
    ];
    for (what, line, answer) in cases {
        let (output, _) = before(vec![answer], &[line, &["--stack", "ci"]].concat());
        let said = told(&output);
        let is_obeyed = |one: &char| muster_cli::display::is_hidden(*one) && !"\n\t".contains(*one);
        let obeyed: Vec<char> = said.chars().filter(is_obeyed).collect();
        assert!(obeyed.is_empty() && said.contains('x'), "{what}: {obeyed:?} in {said:?}");
    }
}

/// Every place of the command that starts a process. All users of a machine can read its arguments.
#[test]
fn no_process_gets_a_secret_as_an_argument() {
    const STARTS: [&str; 4] = ["Command::new(", "that_detached(", "open::that(", "Editor::new("];
    // Where, by what, and what its arguments are.
    const SITES: [(&str, &str, &str); 4] = [
        ("browser.rs", "that_detached(", "an address that is public"),
        ("browser.rs", "that_detached(", "the path of a file that only the operator can read"),
        (
            "terminal.rs",
            "Command::new(",
            "sam: parameters without secrets; aws ssm: a machine's ID",
        ),
        ("terminal.rs", "Editor::new(", "the path of a temporary file with pools"),
    ];
    let mut found = Vec::new();
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).expect("text");
            for start in STARTS {
                found.extend(text.matches(start).map(|_| (name.clone(), start)));
            }
        }
    }
    found.sort();
    let sites = SITES.map(|(file, start, _)| (file.to_owned(), start));
    assert_eq!(found, sites, "a new process: what are its arguments?");
}
