//! The program that serves them, before a function of a few lines.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::binary::{muster, serve, with_credentials};
use crate::fake::Fake;
use crate::{compare, drawn, recorded};

struct Served {
    process: Child,
    port: String,
    entry: String,
    /// The secret path, once a browser was let in.
    root: OnceLock<String>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Served {
    /// Starts it, and reads the address that it prints.
    fn start(flags: &[&str]) -> (Self, Receiver<String>) {
        let (mut command, asked) = Self::command(&[flags, &["--no-open"]].concat());
        let mut process = command.spawn().expect("a process");
        let mut line = String::new();
        let mut out = BufReader::new(process.stdout.take().expect("stdout"));
        out.read_line(&mut line).expect("a line");
        (Self::at(process, line.trim()), asked)
    }

    fn at(process: Child, address: &str) -> Self {
        let rest = address.strip_prefix("http://127.0.0.1:").expect("an address");
        let (port, entry) = rest.split_once('/').expect("a path");
        Self { process, port: port.to_owned(), entry: format!("/{entry}"), root: OnceLock::new() }
    }

    /// The command before a function of a few lines, and what that is asked.
    fn command(flags: &[&str]) -> (Command, Receiver<String>) {
        let (address, asked) = serve(|request| {
            let (head, body) = request.split_once("\r\n\r\n").unwrap_or_default();
            if let Some(operation) = head.split("AmazonSQS.").nth(1) {
                return (200, sqs(operation.lines().next().unwrap_or_default()).to_string());
            }
            if head.contains(".GetMetricData") {
                return (200, json!({ "MetricDataResults": [] }).to_string());
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
        let line = [&["ui", "--stack", "ci", "--by", "mira"], flags].concat();
        let mut command = with_credentials(muster(&line));
        command.env("AWS_ENDPOINT_URL", address).stdin(Stdio::piped()).stdout(Stdio::piped());
        (command, asked)
    }

    /// The secret path; empty before a browser was let in.
    fn root(&self) -> &str {
        self.root.get().map(String::as_str).unwrap_or_default()
    }

    /// Sends a request below the secret path, and returns its status, its head and its body.
    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String, String) {
        let root = if path == self.entry { "" } else { self.root() };
        self.send_to(method, &format!("{root}{path}"), headers, body)
    }

    fn send_to(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> (u16, String, String) {
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
        let (status, head, page) = self.send("GET", &self.entry, "", "");
        assert_eq!(status, 200, "{head}");
        let cookie =
            head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        let (pair, attributes) = cookie.split_once("; ").expect("attributes");
        let root = attributes.strip_prefix("HttpOnly; SameSite=Strict; Path=").expect("a path");
        assert_eq!(root.len(), 65, "{cookie}");
        assert!(page.contains(&format!("content=\"0; url={root}/\"")), "{page}");
        self.root.set(root.to_owned()).expect("one browser");
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
    assert!(page.contains("Needs attention"), "{page}");
    for attribute in ["href=\"", "src=\"", "action=\""] {
        for own in page.split(attribute).skip(1).filter(|own| own.starts_with('/')) {
            assert!(own.starts_with(served.root()), "outside of the secret path: {own:.80}");
        }
    }
    let style = page.split("href=\"").find(|part| part.contains("/s/"));
    let style = style.and_then(|part| part.split('"').next()).expect("a style");
    let (status, head, _) = served.send_to("GET", style, &cookie, "");
    assert!(status == 200 && head.contains("immutable") && head.contains("text/css"), "{head}");
    let foreign = format!("{cookie}host: 127.0.0.1.nip.io:{}\r\n", served.port);
    assert_eq!(served.send("GET", "/", &foreign, "").0, 403);
    assert_eq!(served.send("GET", "/nothing", &cookie, "").0, 404);
    let (status, _, page) = served.send_to("GET", "/machines", &cookie, "");
    assert!(status == 403 && !page.contains(served.root()), "a refusal shows the path: {page}");
    let same_site = format!("{cookie}sec-fetch-site: same-site\r\n");
    assert_eq!(served.send("GET", "/go?name=https%3A%2F%2Fevil.example%2F", &same_site, "").0, 403);

    let (status, _, page) = served.send("GET", "/confirm/force?name=small-l0-0", &cookie, "");
    let token =
        page.split("name=\"token\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let token = token.unwrap_or_else(|| panic!("{status}: {page}"));
    let form =
        |reason: &str| format!("token={token}&name=small-l0-0&reason={reason}&typed=small-l0-0");
    let post = format!("{cookie}content-type: application/x-www-form-urlencoded\r\n");
    let (status, _, page) = served.send("POST", "/do/force", &post, &form("why"));
    assert!(status == 422 && page.contains("Give a reason"), "{status}: {page}");
    let ours = |request: &String| {
        request.contains("\"action\":\"delete\"") && request.contains("\"dry_run\":false")
    };
    assert!(!asked.try_iter().any(|request| ours(&request)), "nothing is ordered without a reason");
    let (status, head, _) = served.send("POST", "/do/force", &post, &form("old+image"));
    let there = format!("location: {}/machines/small-l0-0\r\n", served.root());
    assert!(status == 303 && head.contains(&there), "{head}");
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

/// Waits until something is so.
fn until<T>(mut known: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        match known() {
            Some(found) => return found,
            None if begun.elapsed() > Duration::from_secs(20) => panic!("it never was"),
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A folder with an `xdg-open` in it that writes down its arguments, the page it was given, and their modes.
#[cfg(target_os = "linux")]
fn opener(name: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = std::env::temp_dir().join(format!("muster-opener-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("run")).expect("a folder");
    let here = folder.display();
    let script = format!(
        "#!/bin/sh\ncp \"$1\" {here}/page\nstat -c %a \"$1\" \"$(dirname \"$1\")\" >{here}/modes\n\
         tr '\\0' '\\n' </proc/$$/cmdline >{here}/part\nmv {here}/part {here}/arguments\n"
    );
    std::fs::write(folder.join("xdg-open"), script).expect("written");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.join("xdg-open"), executable).expect("executable");
    folder
}

/// All users of a machine can read the arguments of its processes.
#[cfg(target_os = "linux")]
#[test]
fn the_browser_gets_the_address_by_a_private_file() {
    for (name, variable) in [("runtime", "XDG_RUNTIME_DIR"), ("temporary", "TMPDIR")] {
        let folder = opener(name);
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
        let (mut command, _asked) = Served::command(&[]);
        let path = format!("{}:/usr/bin:/bin", folder.display());
        command
            .envs([("PATH", path.as_str()), ("DISPLAY", ":9")])
            .env(variable, folder.join("run"));
        let mut process = command.spawn().expect("a process");
        let mut out = BufReader::new(process.stdout.take().expect("stdout"));
        let mut typed = process.stdin.take().expect("stdin");
        let arguments = until(|| read("arguments"));
        let page = read("page").expect("a page");
        let address = page.split("url=").nth(1).and_then(|rest| rest.split('"').next());
        let served = Served::at(process, address.expect("an address"));
        let (_, token) = served.entry.split_once('?').expect("a token");
        assert!(token.len() == 64 && !arguments.contains(token), "{arguments}");
        assert_eq!(read("modes").as_deref(), Some("600\n700\n"));
        let left = || std::fs::read_dir(folder.join("run")).expect("a folder").count();
        assert_eq!(left(), 1, "it stays until the browser has read it");
        served.enter();
        until(|| (left() == 0).then_some(()));
        // Nothing was printed: the first line is the address that Enter asks for.
        typed.write_all(b"\n").expect("typed");
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        assert!(line.contains("/enter?") && !line.contains(token), "{line}");
        let _ = std::fs::remove_dir_all(&folder);
    }
}

#[test]
fn without_a_display_the_address_is_printed() {
    let (mut command, _asked) = Served::command(&[]);
    let mut process = command.env("PATH", "/usr/bin:/bin").spawn().expect("a process");
    let mut line = String::new();
    let mut out = BufReader::new(process.stdout.take().expect("stdout"));
    out.read_line(&mut line).expect("a line");
    Served::at(process, line.trim()).enter();
}

#[test]
fn idle_connections_do_not_accumulate() {
    let (served, _asked) = Served::start(&[]);
    let cookie = served.enter();
    let address = format!("127.0.0.1:{}", served.port);
    let begun = |_| {
        let mut stream = TcpStream::connect(&address).expect("a listener");
        stream.write_all(b"GET / HTTP/1.1\r\nhost: ").expect("sent");
        stream
    };
    let idle: Vec<TcpStream> = (0..400).map(begun).collect();
    assert_eq!(served.send("GET", "/", &cookie, "").0, 200);
    for mut stream in idle {
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        let mut left = Vec::new();
        let ended = stream.read_to_end(&mut left);
        let is_open = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!is_open, "a connection without a request stays open");
    }
}
