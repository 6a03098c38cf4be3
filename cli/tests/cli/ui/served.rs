//! The program that serves them, before a function of a few lines.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::binary::{muster, serve, with_credentials};
use crate::fake::Fake;
use crate::{compare, drawn, recorded};

struct Served {
    process: Child,
    port: String,
    entry: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Served {
    /// Starts it, and reads the address that it prints.
    fn start(flags: &[&str]) -> (Self, std::sync::mpsc::Receiver<String>) {
        let (address, asked) = serve(|request| {
            let (head, body) = request.split_once("\r\n\r\n").unwrap_or_default();
            if let Some(operation) = head.split("AmazonSQS.").nth(1) {
                return (200, sqs(operation.lines().next().unwrap_or_default()).to_string());
            }
            let request: Value = serde_json::from_str(body).expect("a request");
            let answer = match request["action"].as_str().expect("an action") {
                "overview" => recorded("overview"),
                "list" => drawn("list"),
                "show" => recorded("show"),
                "delete" if request["dry_run"] == true => recorded("delete_dry_run"),
                "delete" => recorded("delete"),
                _ => recorded("error"),
            };
            (200, answer.to_string())
        });
        let line = [&["ui", "--stack", "ci", "--no-open", "--by", "mira"], flags].concat();
        let mut command = with_credentials(muster(&line));
        command.env("AWS_ENDPOINT_URL", address).stdin(Stdio::piped());
        let mut process = command.stdout(Stdio::piped()).spawn().expect("a process");
        let mut line = String::new();
        let mut out = BufReader::new(process.stdout.take().expect("stdout"));
        out.read_line(&mut line).expect("a line");
        let (host, entry) = line
            .trim()
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'))
            .expect("an address");
        let (_, port) = host.split_once(':').expect("a port");
        (Self { process, port: port.to_owned(), entry: format!("/{entry}") }, asked)
    }

    /// Sends a request, and returns its status, its head and its body.
    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String, String) {
        let mut stream =
            TcpStream::connect(format!("127.0.0.1:{}", self.port)).expect("a listener");
        let host = if headers.contains("host:") {
            String::new()
        } else {
            format!("host: 127.0.0.1:{}\r\n", self.port)
        };
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.1\r\n{host}{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}")
            .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status =
            head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, head.to_owned(), body.to_owned())
    }

    /// Enters, and returns the cookie as a header.
    fn enter(&self) -> String {
        let (status, head, _) = self.send("GET", &self.entry, "", "");
        assert_eq!(status, 303, "{head}");
        let cookie =
            head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        assert!(cookie.contains("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
        let (pair, _) = cookie.split_once(';').expect("attributes");
        format!("cookie: {pair}\r\n")
    }
}

#[test]
fn a_browser_that_was_let_in_looks_and_orders() {
    let (served, asked) = Served::start(&[]);
    assert_eq!(served.send("GET", "/", "", "").0, 403);
    let cookie = served.enter();
    assert_eq!(served.send("GET", &served.entry, "", "").0, 403, "the address is used up");
    let (status, head, page) = served.send("GET", "/", &cookie, "");
    assert_eq!(status, 200, "{page}");
    for told in [
        "content-security-policy: default-src 'none'; script-src 'self';",
        "cache-control: no-store",
        "nosniff",
        // Otherwise a browser sends our own forms with `Origin: null`.
        "referrer-policy: same-origin",
    ] {
        assert!(head.contains(told), "{told}: {head}");
    }
    assert!(page.contains("Wants you"), "{page}");
    let style = page
        .split("href=\"")
        .find(|part| part.starts_with("/s/"))
        .and_then(|part| part.split('"').next());
    let (status, head, _) = served.send("GET", style.expect("a style"), &cookie, "");
    assert!(status == 200 && head.contains("immutable") && head.contains("text/css"), "{head}");
    let foreign = format!("{cookie}host: 127.0.0.1.nip.io:{}\r\n", served.port);
    assert_eq!(served.send("GET", "/", &foreign, "").0, 403);
    assert_eq!(served.send("GET", "/nothing", &cookie, "").0, 404);

    let (status, _, page) = served.send("GET", "/confirm/force?name=small-l0-0", &cookie, "");
    let token =
        page.split("name=\"token\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let token = token.unwrap_or_else(|| panic!("{status}: {page}"));
    let form =
        |reason: &str| format!("token={token}&name=small-l0-0&reason={reason}&typed=small-l0-0");
    let post = format!("{cookie}content-type: application/x-www-form-urlencoded\r\n");
    let (status, _, page) = served.send("POST", "/do/force", &post, &form("why"));
    assert!(status == 422 && page.contains("Say why"), "{status}: {page}");
    let ours = |request: &String| {
        request.contains("\"action\":\"delete\"") && request.contains("\"dry_run\":false")
    };
    assert!(!asked.try_iter().any(|request| ours(&request)), "nothing is ordered without a reason");
    let (status, head, _) = served.send("POST", "/do/force", &post, &form("old+image"));
    assert!(status == 303 && head.contains("location: /machines/small-l0-0"), "{head}");
    let ordered: Vec<String> = asked.try_iter().filter(ours).collect();
    let [ordered] = ordered.as_slice() else { panic!("{ordered:?}") };
    for told in [
        "\"force\":true",
        "\"reason\":\"old image\"",
        "\"by\":\"mira\"",
        "\"kill_running_job\":false",
    ] {
        assert!(ordered.contains(told), "{told}: {ordered}");
    }
}

/// Two messages of jobs that were given up.
fn sqs(operation: &str) -> Value {
    match operation {
        "ListQueues" => json!({ "QueueUrls": ["https://sqs/1/ci-JobsDeadLetters-1A"] }),
        "GetQueueAttributes" => {
            json!({ "Attributes": { "ApproximateNumberOfMessages": "2", "QueueArn": "arn:dead" } })
        }
        "ReceiveMessage" => {
            json!({ "Messages": [{ "MessageId": "m", "ReceiptHandle": "h", "Body": "<b>{}" }] })
        }
        _ => json!({}),
    }
}

#[test]
fn what_a_queue_gave_up_is_read_and_sent_back() {
    let (served, asked) = Served::start(&[]);
    let cookie = served.enter();
    let (status, _, page) = served.send("GET", "/dead-letters/jobs", &cookie, "");
    assert!(status == 200 && page.contains("&lt;b&gt;{}"), "{status}: {page}");
    let sqs = |all: Vec<String>| -> Vec<String> {
        let operation =
            |one: &String| Some(one.split("AmazonSQS.").nth(1)?.lines().next()?.to_owned());
        all.iter().filter_map(operation).collect()
    };
    let read = sqs(asked.try_iter().collect());
    assert_eq!(read.last().map(String::as_str), Some("ChangeMessageVisibilityBatch"), "{read:?}");
    let (_, _, page) = served.send("GET", "/confirm/redrive?queue=jobs", &cookie, "");
    let token =
        page.split("name=\"token\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let token = token.unwrap_or_else(|| panic!("{page}"));
    assert!(!sqs(asked.try_iter().collect()).contains(&"StartMessageMoveTask".to_owned()));
    let form = format!("token={token}&queue=jobs");
    let (status, _, page) = served.send("POST", "/do/redrive", &cookie, &form);
    assert!(status == 200 && page.contains("2 messages on the way back."), "{status}: {page}");
    let ordered: Vec<String> = asked.try_iter().collect();
    let moved: Vec<&String> =
        ordered.iter().filter(|one| one.contains("StartMessageMoveTask")).collect();
    assert!(moved.len() == 1 && moved[0].contains("\"SourceArn\":\"arn:dead\""), "{moved:?}");
}

#[test]
fn read_only_serves_no_question_of_an_order() {
    let (served, _asked) = Served::start(&["--read-only"]);
    let cookie = served.enter();
    assert_eq!(served.send("GET", "/", &cookie, "").0, 200);
    assert_eq!(served.send("GET", "/confirm/force?name=small-l0-0", &cookie, "").0, 404);
    assert_eq!(served.send("POST", "/do/force", &cookie, "name=small-l0-0").0, 404);
}

#[test]
fn the_command_asks_before_it_serves() {
    let told = [
        Fake::of([recorded("overview"), recorded("error_unavailable")])
            .run(&["ui", "--port", "8080", "--by", "mira"]),
        Fake::of([recorded("error_unavailable")]).run(&["ui", "--read-only", "--no-open"]),
    ];
    let report = [recorded("overview"), recorded("costs")];
    let report = Fake::of(report).run(&["report", "--since", "7d"]);
    assert!(
        report.contains("\"action\":\"costs\"") && report.contains("<!DOCTYPE html>"),
        "{report}"
    );
    compare("run_ui.txt", &told.join("\n"));
}
