//! The GitHub App: the command's questions and pages, and the page on the loopback interface.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};

use muster_cli::app::door::BrowserRequest;
use muster_cli::ui::go::{self, Way};
use muster_cli::ui::memory::Memory;
use muster_cli::world::Visit;
use serde_json::{Value, json};

use crate::binary::{lambda, muster, with_credentials};
use crate::fake::{Fake, PORT};
use crate::orders::{refused, told};

/// What the fake world takes for random.
fn state() -> String {
    "20".repeat(32)
}

/// The answer to `github`: without an App, and with one.
pub(crate) fn none() -> Value {
    json!({
        "version": 1, "ok": true, "app": null, "installations": [], "hook": null, "lacks": [], "unknown": [],
        "webhook_url": "https://ab12.execute-api.us-east-1.amazonaws.com/webhook",
        "new_app": {
            "organization": "https://github.com/organizations/ORG/settings/apps/new?name=muster-ab12&public=false",
            "personal": "https://github.com/settings/apps/new?name=muster-ab12&public=false",
        },
    })
}

pub(crate) fn with(answer: Value, more: Value) -> Value {
    let (Value::Object(mut answer), Value::Object(more)) = (answer, more) else {
        panic!("objects")
    };
    answer.extend(more);
    Value::Object(answer)
}

fn made() -> Value {
    with(
        none(),
        json!({
            "app": {
                "id": 4242, "slug": "muster-acme", "name": "muster-acme", "owner": "acme",
                "html_url": "https://github.com/apps/muster-acme",
            },
            "hook": { "url": "https://ab12.execute-api.us-east-1.amazonaws.com/webhook", "ours": true },
        }),
    )
}

pub(crate) fn new() -> Value {
    with(made(), json!({ "install_url": "https://github.com/apps/muster-acme/installations/new" }))
}

pub(crate) fn installed() -> Value {
    with(
        made(),
        json!({ "installations": [{
            "account": "acme", "repositories": "selected", "suspended_at": null,
            "html_url": "https://github.com/organizations/acme/settings/installations/7",
        }] }),
    )
}

pub(crate) fn tested(status: u16) -> Value {
    // Nobody answered.
    let code = if status == 0 { Value::Null } else { json!(status) };
    let wrong = match status {
        200..300 => Value::Null,
        401 => json!("GitHub's \"ping\" was answered 401: save the secret in the App's settings"),
        status => {
            json!(format!("GitHub's \"ping\" was answered {status}: see the log of the webhook"))
        }
    };
    json!({
        "version": 1, "ok": true, "wrong": wrong,
        "tested": { "event": "ping", "status": code, "at": "2026-11-21T00:00:00Z" },
    })
}

fn not_yet() -> Value {
    json!({ "version": 1, "ok": true, "tested": null, "wrong": "GitHub never sent an event: tick Active" })
}

fn asked(method: &str, target: &str, host: &str) -> Visit {
    Visit::Asked(BrowserRequest {
        method: method.to_owned(),
        target: target.to_owned(),
        host: host.to_owned(),
    })
}

fn get(target: &str) -> Visit {
    asked("GET", target, &format!("127.0.0.1:{PORT}"))
}

pub(crate) fn created(code: &str) -> Visit {
    get(&format!("/created?code={code}&state={}", state()))
}

pub(crate) fn visited(
    visits: impl IntoIterator<Item = Visit>,
    answers: impl IntoIterator<Item = Value>,
) -> Fake {
    Fake { visits: visits.into_iter().collect(), patience: 9, ..Fake::of(answers) }
}

const CREATE: [&str; 6] = ["github", "create", "--org", "acme", "--by", "mira"];

#[test]
fn the_app_is_shown_with_what_is_wrong() {
    let wrong = with(
        installed(),
        json!({
            "hook": { "url": "https://old.example.com/webhook", "ours": false },
            "installations": [
                installed()["installations"][0],
                { "account": "zoo", "repositories": "all", "suspended_at": "2026-11-20T10:00:00Z",
                  "html_url": "https://github.com/organizations/zoo/settings/installations/8" },
            ],
            "lacks": ["GitHub sends events to https://old.example.com/webhook, not to this stack: muster github hook set"],
            "unknown": ["the groups of acme cannot be read"],
            "deliveries": [
                { "event": "workflow_job", "status": 202, "at": "2026-11-20T10:04:00Z" },
                { "event": "workflow_job", "status": null, "at": "2026-11-20T10:03:00Z" },
                { "event": "ping", "status": 503, "at": null },
            ],
        }),
    );
    let delivered = with(
        installed(),
        json!({ "deliveries": [{ "event": "ping", "status": 202, "at": "2026-11-20T10:04:00Z" }] }),
    );
    told(
        "run_github",
        [
            (Fake::of([none()]), vec!["github"]),
            (Fake::of([installed()]), vec!["github", "status"]),
            (Fake::of([delivered]), vec!["github"]),
            (Fake::of([wrong.clone()]), vec!["github"]),
            (Fake { width: None, ..Fake::of([wrong]) }, vec!["github"]),
            (Fake::of([installed()]), vec!["github", "--json"]),
        ],
    );
}

#[test]
fn an_app_is_made_with_the_browser() {
    let page = "10".repeat(16);
    let create = CREATE.to_vec();
    told(
        "run_github_create",
        [
            // As it should be.
            (
                visited(
                    [get(&format!("/{page}")), created("c0de")],
                    [none(), new(), made(), made(), installed(), tested(200), installed()],
                ),
                create.clone(),
            ),
            // Whoever else knocks gets nothing, and does not end it.
            (
                visited(
                    [
                        get("/"),
                        get("/favicon.ico"),
                        get(&format!("/created?code=stolen&state={}", "21".repeat(32))),
                        get("/created?code=stolen"),
                        asked("POST", &format!("/{page}"), &format!("127.0.0.1:{PORT}")),
                        asked("GET", &format!("/{page}"), &format!("evil.example.com:{PORT}")),
                        asked("GET", &format!("/{page}"), ""),
                        created("c0de"),
                    ],
                    [none(), new(), installed(), tested(200), installed()],
                ),
                create.clone(),
            ),
            // GitHub, or the person there, says no.
            (visited([get(&format!("/created?state={}", state()))], [none()]), create.clone()),
            (visited([created("../../user")], [none()]), create.clone()),
            (visited([], [none()]), create.clone()),
            (
                visited(
                    [created("01d")],
                    [
                        none(),
                        refused(
                            "github",
                            "GitHub knows no such code: it holds for an hour, and once",
                        ),
                    ],
                ),
                create.clone(),
            ),
            // Interrupted before it was installed; and again, with a webhook that has another
            // secret.
            (Fake { patience: 1, ..Fake::of([made(), made()]) }, create.clone()),
            (Fake::of([made(), installed(), tested(401), installed()]), create),
        ],
    );
}

/// A request to create an App for one account is never answered with the App of another.
#[test]
fn an_app_of_another_owner_is_refused() {
    let owned = |answer: Value, owner: &str| {
        let mut answer = answer;
        answer["app"]["owner"] = json!(owner);
        answer
    };
    let another = || {
        refused(
            "not_allowed",
            "GitHub created App muster-acme (4242) for the organization evil-corp, but the request was for acme",
        )
    };
    let rest = |answer: Value| vec![answer.clone(), tested(200), answer];
    let create = CREATE.to_vec();
    told(
        "run_github_owner",
        [
            // Someone else on the machine had the page, and GitHub's answer is theirs.
            (
                visited(
                    [
                        get(&format!("/{}", "10".repeat(16))),
                        get(&format!("/{}", "10".repeat(16))),
                        created("theirs"),
                    ],
                    [none(), another()],
                ),
                create.clone(),
            ),
            (Fake::of([owned(installed(), "evil-corp")]), create.clone()),
            (Fake::of([owned(installed(), "enterprises/acme")]), create.clone()),
            (
                Fake::of(
                    [vec![owned(installed(), "Acme")], rest(owned(installed(), "Acme"))].concat(),
                ),
                create,
            ),
            (
                visited([created("c0de")], [none(), new(), installed(), tested(200), installed()]),
                vec!["github", "create", "--user", "--by", "mira"],
            ),
        ],
    );
}

/// The operator's token goes to the GitHub of the stack's App, and to no other host.
#[test]
fn a_token_goes_to_the_stacks_github_alone() {
    const PATH: &str = "acme/x/actions/runs/1";
    let at = |page: &str| {
        let mut answer = installed();
        answer["app"]["html_url"] = json!(page);
        answer
    };
    let (cloud, server) =
        (at("https://github.com/apps/m"), at("https://ghe.acme.io:8443/github-apps/m"));
    // Address, the answer of the stack, the operator's GH_HOST, and the API that is called.
    let rows: [(&str, &Value, &str, Option<&str>); 24] = [
        ("https://github.com", &cloud, "github.com", Some("https://api.github.com/")),
        ("https://GitHub.COM", &cloud, "github.com", Some("https://api.github.com/")),
        ("http://github.com", &cloud, "github.com", Some("https://api.github.com/")),
        ("https://github.com", &cloud, "ghe.acme.io", Some("https://api.github.com/")),
        (
            "https://ghe.acme.io:8443",
            &server,
            "github.com",
            Some("https://ghe.acme.io:8443/api/v3/"),
        ),
        ("https://ghe.acme.io", &none(), "ghe.acme.io", Some("https://ghe.acme.io/api/v3/")),
        (
            "https://acme.ghe.com",
            &at("https://acme.ghe.com/apps/m"),
            "github.com",
            Some("https://api.acme.ghe.com/"),
        ),
        ("https://github.com", &none(), "github.com", Some("https://api.github.com/")),
        ("https://evil.example", &cloud, "github.com", None),
        ("https://evil.example", &none(), "github.com", None),
        ("https://evil.ghe.com", &at("https://acme.ghe.com/apps/m"), "github.com", None),
        ("https://ghe.acme.io", &server, "ghe.acme.io", None),
        ("https://ghe.acme.io:443", &server, "ghe.acme.io", None),
        ("https://github.com", &server, "github.com", None),
        ("https://api.github.com", &cloud, "github.com", None),
        ("https://github.com.evil.example", &cloud, "github.com", None),
        ("https://github.com.", &cloud, "github.com", None),
        ("https://github.com:8443", &cloud, "github.com", None),
        ("https://xn--github-9za.com", &cloud, "github.com", None),
        ("https://localhost", &cloud, "github.com", None),
        ("https://169.254.169.254", &cloud, "github.com", None),
        ("https://127.0.0.1:8080", &cloud, "github.com", None),
        ("http://evil.example", &cloud, "github.com", None),
        ("https://githud.com", &cloud, "github.com", None),
    ];
    let commands: [&[&str]; 6] = [
        &["explain"],
        &["show"],
        &["watch"],
        &["logs"],
        &["logs", "--machine"],
        &["delete", "--reason", "because", "--yes"],
    ];
    for (address, app, usual_github, api) in rows {
        let shown = app["app"]["html_url"].as_str().and_then(|url| url.split('/').nth(2));
        let way = go::way(
            &format!("{address}/{PATH}"),
            &Memory::default(),
            shown.unwrap_or(usual_github),
        );
        match (way, api) {
            (Way::Ask(_, calls), Some(api)) => {
                assert!(calls.iter().all(|call| call.starts_with(api)), "{address}: {calls:?}");
            }
            (Way::Wrong(_), None) => {}
            (way, _) => panic!("the search field, {address}: {way:?}"),
        }
        for command in commands {
            let address = format!("{address}/{PATH}");
            let line = [command, &[address.as_str()]].concat();
            // GitHub hides the run, so nothing else is asked.
            let github = api.map(|_| None).into_iter().collect();
            let told = Fake { usual_github, github, ..Fake::of([(*app).clone()]) }.run(&line);
            let called = told.lines().find_map(|line| line.strip_prefix("→ GET "));
            let expected = api.map(|api| format!("{api}repos/{PATH}"));
            assert_eq!(called.map(str::to_owned), expected, "{told}");
            assert!(api.is_some() || told.contains("exit 2\n"), "{told}");
        }
    }
    // What is no address of a host at all: not even the stack is asked.
    for host in [
        "https://github.com@evil.example",
        "https://mira:x@github.com",
        "https://github.com%40evil.example",
        "https://github.com\\@evil.example",
        "https://gıthub.com",
        "https://github.com:",
        "https://github.com:x",
        "https://[::1]",
        "https://",
    ] {
        for command in commands {
            let address = format!("{host}/{PATH}");
            let told = Fake::of([]).run(&[command, &[address.as_str()]].concat());
            assert!(told.contains("exit 2\n") && !told.contains("→ "), "{told}");
        }
    }
}

#[test]
fn an_answer_that_was_lost_is_asked_for_again() {
    let create = CREATE.to_vec();
    let left = "the App's key is stored, but its webhook is not set: GitHub gives no answer. Set it: \
                {\"action\":\"github\",\"hook\":\"set\"}";
    let in_part = with(new(), json!({ "left": left }));
    let unknown = with(none(), json!({ "unknown": ["GitHub did not answer get-app"] }));
    told(
        "run_github_lost",
        [
            (
                Fake {
                    lost: 1,
                    ..visited(
                        [created("c0de")],
                        [none(), in_part, installed(), tested(200), installed()],
                    )
                },
                create.clone(),
            ),
            // GitHub does not know the new App at once, or not at all; the release knows no test.
            (
                visited(
                    [created("c0de")],
                    [
                        none(),
                        new(),
                        none(),
                        installed(),
                        refused("bad_request", "a field of \"github\" has the wrong type"),
                        installed(),
                    ],
                ),
                create.clone(),
            ),
            (
                Fake {
                    patience: 99,
                    ..visited([created("c0de")], [vec![none(), new()], vec![none(); 21]].concat())
                },
                create.clone(),
            ),
            (Fake { lost: 2, ..visited([created("c0de")], [none()]) }, create.clone()),
            (Fake::of([unknown]), create),
        ],
    );
}

#[test]
fn an_app_is_made_without_a_browser_here() {
    let no_browser = || vec!["github", "create", "--org", "acme", "--no-browser", "--by", "mira"];
    let typed = |line: &str| Visit::Typed(format!("{line}\n"));
    let pasted =
        |state: &str| typed(&format!("http://127.0.0.1:{PORT}/created?code=c0de&state={state}"));
    told(
        "run_github_no_browser",
        [
            (
                visited(
                    [typed("what?"), pasted(&"21".repeat(32)), pasted(&state())],
                    [none(), new(), installed(), tested(200), installed()],
                ),
                no_browser(),
            ),
            (
                Fake {
                    file: KEY,
                    says: ["key.pem"].into(),
                    ..visited(
                        [typed("4242")],
                        [none(), made(), installed(), tested(200), installed()],
                    )
                },
                no_browser(),
            ),
            (
                Fake {
                    has_browser: false,
                    github: [None].into(),
                    says: ["a/b", ""].into(),
                    ..visited(
                        [created("c0de")],
                        [none(), new(), installed(), tested(200), installed()],
                    )
                },
                vec!["github", "create", "--github", "https://ghe.acme.io", "--by", "mira"],
            ),
            (Fake::of([none()]), vec!["github", "create"]),
            (Fake::of([none()]), vec!["github", "link", "--org", "acme"]),
            (
                Fake::of([none()]),
                vec!["github", "link", "--user", "--github", "https://ghe.acme.io"],
            ),
        ],
    );
}

/// Not a key. What stands in it must be seen nowhere.
const KEY: &str = "-----BEGIN RSA PRIVATE KEY-----\nc4n4ry\n-----END RSA PRIVATE KEY-----\n";

#[test]
fn an_app_that_exists_is_connected_and_looked_after() {
    let line = || vec!["github", "connect", "--app-id", "4242", "--key", "key.pem", "--by", "mira"];
    let file = |answers: Vec<Value>, says: &[&'static str]| Fake {
        file: KEY,
        says: says.iter().copied().collect(),
        ..Fake::of(answers)
    };
    let other = with(
        made(),
        json!({ "app": { "id": 7, "slug": "old", "name": "old", "owner": "acme", "html_url": "" } }),
    );
    told(
        "run_github_connect",
        [
            (file(vec![none(), made(), tested(200), made()], &[]), line()),
            (file(vec![other.clone()], &["n"]), line()),
            (file(vec![other], &[]), line()),
            (Fake { file: "a password", ..Fake::of([none()]) }, line()),
        ],
    );
    let listed = with(made(), json!({ "other_apps": ["two"] }));
    let two = || with(made(), json!({ "name": "two" }));
    let of_two =
        |rest: &[&'static str]| [&["github", "--app", "two"], rest, &["--by", "mira"]].concat();
    let left = json!({ "other_apps": [], "left": "the App is removed, but GitHub still sends its events: 404. Delete it at GitHub" });
    told(
        "run_github_two",
        [
            (Fake::of([listed]), vec!["github"]),
            (Fake::of([with(none(), json!({ "name": "two" }))]), of_two(&[])),
            (
                file(vec![with(none(), json!({ "name": "two" })), two(), tested(200), two()], &[]),
                of_two(&["connect", "--app-id", "4242", "--key", "key.pem"]),
            ),
            (Fake::of([two()]), of_two(&["hook", "set"])),
            (Fake { says: ["n"].into(), ..Fake::of([]) }, of_two(&["remove"])),
            (Fake { says: ["y"].into(), ..Fake::of([with(made(), left)]) }, of_two(&["remove"])),
        ],
    );
    told(
        "run_github_hook",
        [
            (Fake::of([made()]), vec!["github", "hook", "--by", "mira"]),
            (Fake::of([made()]), vec!["github", "hook", "set", "--by", "mira"]),
            (Fake::of([tested(202)]), vec!["github", "hook", "test", "--by", "mira"]),
            (Fake::of([tested(0)]), vec!["github", "hook", "test", "--by", "mira"]),
            (Fake::of([tested(503)]), vec!["github", "hook", "test", "--by", "mira"]),
            (
                Fake { patience: 9, ..Fake::of([not_yet(), not_yet(), not_yet()]) },
                vec!["github", "hook", "test", "--by", "mira"],
            ),
            (
                Fake { patience: 9, ..Fake::of([not_yet(), tested(200)]) },
                vec!["github", "hook", "test", "--by", "mira"],
            ),
            (
                Fake { says: ["n"].into(), ..Fake::of([made()]) },
                vec!["github", "hook", "remove", "--by", "mira"],
            ),
            (
                Fake::of([made(), with(made(), json!({ "hook": { "url": "", "ours": false } }))]),
                vec!["github", "hook", "remove", "--yes", "--by", "mira"],
            ),
            (
                Fake { says: ["y"].into(), ..Fake::of([made(), made(), tested(200)]) },
                vec!["github", "rotate", "--by", "mira"],
            ),
            (Fake::of([made()]), vec!["github", "rotate", "--by", "mira"]),
            // Nothing is reported as done where there is no App.
            (Fake::of([none()]), vec!["github", "rotate", "--yes", "--by", "mira"]),
            (Fake::of([none()]), vec!["github", "hook", "remove", "--yes", "--by", "mira"]),
        ],
    );
}

/// The program at its page, and where that is.
struct Open {
    child: Child,
    port: u16,
    path: String,
    stderr: BufReader<ChildStderr>,
    said: String,
}

impl Open {
    fn new(address: &str, line: &[&str]) -> Self {
        let mut command = with_credentials(muster(line));
        command.env("AWS_ENDPOINT_URL", address).env("USER", "mira");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let mut stderr = BufReader::new(child.stderr.take().expect("stderr"));
        let mut said = String::new();
        loop {
            let before = said.len();
            assert!(stderr.read_line(&mut said).expect("a line") > 0, "no address: {said}");
            let Some((_, rest)) = said[before..].split_once("machine: http://127.0.0.1:") else {
                continue;
            };
            let (port, path) = rest.trim().split_once('/').expect("a path");
            let (port, path) = (port.parse().expect("a port"), format!("/{path}"));
            return Self { child, port, path, stderr, said };
        }
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// An answer as it comes, if anybody is there.
    fn sends(&self, method: &str, target: &str, host: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let host = if host.is_empty() { String::new() } else { format!("host: {host}\r\n") };
        write!(stream, "{method} {target} HTTP/1.1\r\n{host}\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn status(&self, method: &str, target: &str, host: &str) -> u16 {
        let answer = self.sends(method, target, host).unwrap_or_default();
        answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
    }

    /// All that it said, on stdout and stderr, and its exit code.
    fn ended(mut self) -> (String, Option<i32>) {
        self.stderr.read_to_string(&mut self.said).expect("stderr");
        let mut out = self.child.stdout.take().expect("stdout");
        out.read_to_string(&mut self.said).expect("stdout");
        (self.said, self.child.wait().expect("an end").code())
    }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text.split_once(start).unwrap_or_else(|| panic!("no {start:?} in {text}")).1;
    rest.split_once(end).expect("an end").0
}

fn answers(all: &[Value]) -> Vec<(u16, &'static str, String)> {
    all.iter().map(|answer| (200, "", answer.to_string())).collect()
}

const OPEN: [&str; 7] =
    ["github", "create", "--org", "acme", "--no-browser", "--verbose", "--stack"];

#[test]
fn the_page_is_for_one_browser_and_one_use() {
    let all = [none(), new(), installed(), tested(200), installed()];
    let (address, requests) = lambda(answers(&all));
    let open = Open::new(&address, &[&OPEN[..], &["ci"]].concat());
    let page = open.sends("GET", &open.path, &open.host()).expect("a page");
    let (head, body) = page.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let policy = "content-security-policy: default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                  frame-ancestors 'none'; form-action https://github.com\r\n";
    assert!(format!("{head}\r\n").contains(policy), "{head}");
    assert!(head.contains("cache-control: no-store"), "{head}");
    assert!(!body.contains("<script") && !body.contains("src="), "{body}");
    let form = between(body, "<form action=\"", "\"");
    let (form, state) = form.split_once("?state=").expect("a state");
    assert_eq!(form, "https://github.com/organizations/acme/settings/apps/new");
    assert_eq!((state.len(), open.path.len()), (64, 33));
    let manifest = between(body, "name=\"manifest\" value=\"", "\"").replace("&quot;", "\"");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    let created = format!("/created?code=c4n4ry&state={state}");
    assert_eq!(manifest["redirect_url"], format!("http://{}/created", open.host()));
    assert_eq!(manifest["name"], "ci-acme");

    // None of these learns the state, none hands over a code, and none ends it.
    let own = open.host();
    let other = format!("/created?code=c4n4ry&state={}", "0".repeat(64));
    for (method, target, host, status) in [
        ("GET", "/", own.as_str(), 404),
        // The page and its state are shown once.
        ("GET", &open.path, &own, 410),
        ("GET", &other, &own, 403),
        ("GET", &created[..created.len() - 1], &own, 403),
        ("POST", &created, &own, 405),
        ("GET", &created, "evil.example.com", 421),
        ("GET", &created, &format!("localhost:{}", open.port), 421),
        ("GET", &open.path, "", 421),
        ("GET", &open.path, &format!("{own}\r\nhost: evil.example.com"), 421),
    ] {
        assert_eq!(open.status(method, target, host), status, "{method} {target} at {host}");
    }
    let sent: Vec<String> = requests.try_iter().collect();
    assert_eq!(sent.len(), 1, "{sent:?}");

    let answer = open.sends("GET", &created, &own).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 303 "), "{answer}");
    let to = "location: https://github.com/apps/muster-acme/installations/new\r\n";
    assert!(answer.contains(to), "{answer}");
    assert!(matches!(open.status("GET", &created, &own), 0 | 410), "used twice");
    let (said, code) = open.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("c4n4ry") && !said.contains(&state[..16]), "{said}");
    let sent: Vec<String> = requests.try_iter().filter(|sent| sent.contains("c4n4ry")).collect();
    let [sent] = sent.as_slice() else { panic!("{sent:?}") };
    let body = r#"{"action":"github","by":"mira","create":{"api_url":"https://api.github.com","code":"c4n4ry","owner":{"organization":"acme"}},"version":1}"#;
    assert!(sent.ends_with(body), "{sent}");
}

#[test]
fn an_address_is_pasted_and_a_no_ends_it() {
    let all = [none(), new(), installed(), tested(200), installed()];
    let (address, _requests) = lambda(answers(&all));
    let mut open = Open::new(&address, &[&OPEN[..], &["ci"]].concat());
    let page = open.sends("GET", &open.path, &open.host()).expect("a page");
    let state = between(&page, "?state=", "\"").to_owned();
    let mut stdin = open.child.stdin.take().expect("stdin");
    writeln!(stdin, "http://{}/created?code=c4n4ry&state={state}", open.host()).expect("a reader");
    let (said, code) = open.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("✓ App muster-acme (4242)") && !said.contains("c4n4ry"), "{said}");

    let (address, _requests) = lambda(answers(&[none()]));
    let open = Open::new(&address, &[&OPEN[..], &["ci"]].concat());
    let page = open.sends("GET", &open.path, &open.host()).expect("a page");
    let state = between(&page, "?state=", "\"");
    assert_eq!(open.status("GET", &format!("/created?state={state}"), &open.host()), 400);
    let (said, code) = open.ended();
    assert!(code == Some(1) && said.contains("GitHub created no App."), "{said}");
}

#[test]
fn a_key_is_seen_nowhere() {
    let folder = std::env::temp_dir().join(format!("muster-cli-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("key.pem");
    std::fs::write(&file, KEY).expect("writable");
    for key in [file.to_str().expect("a path"), "-"] {
        let (address, requests) = lambda(answers(&[none(), made(), tested(200), made()]));
        let line =
            ["github", "connect", "--app-id", "4242", "--key", key, "--verbose", "--stack", "ci"];
        let mut command = with_credentials(muster(&line));
        command.env("AWS_ENDPOINT_URL", address).env("HOME", &folder).env("TMPDIR", &folder);
        command.current_dir(&folder).stdin(std::fs::File::open(&file).expect("a file"));
        let output = command.output().expect("a process");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("\"private_key\":\"…\"") && !said.contains("c4n4ry"), "{said}");
        let sent = requests.try_iter().filter(|sent| sent.contains("c4n4ry")).count();
        assert_eq!(sent, 1, "the account gets it");
    }
    let files = std::fs::read_dir(&folder).expect("a folder").count();
    std::fs::remove_dir_all(&folder).expect("a folder");
    assert_eq!(files, 1, "only the key's own file");
}
