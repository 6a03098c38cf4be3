//! The page on this machine that sends the browser to GitHub and receives GitHub's answer.
//!
//! A program without a public address gets the answer of a manifest by a redirect to the loopback
//! interface (RFC 8252, 7.3). Every user and program of this machine, and every page in a browser, can
//! send requests there. So each step needs a secret that only the operator's browser has: the page has
//! a path that cannot be guessed and is shown once, and GitHub's answer brings back the page's `state`.

use serde_json::Value;
use subtle::ConstantTimeEq as _;

use super::{Host, Owner};

/// The path that GitHub sends the browser back to.
const CREATED: &str = "/created";

/// A request of the browser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrowserRequest {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub host: String,
}

/// An HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserResponse {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// Send this answer, and continue to wait.
    Reply(BrowserResponse),
    /// GitHub created the App. The browser waits for an answer.
    Code(String),
    /// GitHub created no App. The browser gets this answer, and the wait ends.
    Refused(BrowserResponse),
}

/// The page that creates one App.
#[derive(Clone, Debug)]
pub struct SetupPage {
    port: u16,
    path: String,
    state: String,
    form: String,
    /// The only host that a form may be sent to.
    host: String,
    owner: Owner,
    manifest: Value,
    /// Whether the page, and with it its `state`, was shown.
    is_shown: bool,
}

impl SetupPage {
    /// Creates a page at a port. `path` and `state` must be random and long enough not to be guessed.
    #[must_use]
    pub fn new(port: u16, path: &[u8], state: &[u8], owner: &Owner, host: &Host) -> Self {
        Self {
            port,
            path: format!("/{}", hex(path)),
            state: hex(state),
            form: owner.form(host),
            host: host.address().to_owned(),
            owner: owner.clone(),
            manifest: Value::Null,
            is_shown: false,
        }
    }

    /// Adds the description of the App.
    #[must_use]
    pub fn with(self, manifest: Value) -> Self {
        Self { manifest, ..self }
    }

    /// Returns the page's address.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.path)
    }

    /// Returns the address that GitHub redirects the browser to.
    #[must_use]
    pub fn redirect(&self) -> String {
        format!("http://127.0.0.1:{}{CREATED}", self.port)
    }

    /// Decides how to answer a request.
    pub fn handle(&mut self, asked: &BrowserRequest) -> PageOutcome {
        // A page of another name that resolves to this machine could read what it gets (DNS
        // rebinding).
        if asked.host != format!("127.0.0.1:{}", self.port) {
            return PageOutcome::Reply(said(421, "This page is served at its own address only."));
        }
        if asked.method != "GET" {
            return PageOutcome::Reply(said(405, "This page accepts no data."));
        }
        let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
        if same(path, &self.path) {
            return PageOutcome::Reply(match std::mem::replace(&mut self.is_shown, true) {
                false => self.page(),
                true => said(410, SHOWN),
            });
        }
        if path == CREATED {
            return self.created(query);
        }
        PageOutcome::Reply(said(404, "There is no such page."))
    }

    fn created(&self, query: &str) -> PageOutcome {
        if !same(&field(query, "state").unwrap_or_default(), &self.state) {
            let text = "This request does not come from the page that muster opened: its state differs. No App was created.";
            return PageOutcome::Reply(said(403, text));
        }
        match field(query, "code").filter(|code| is_code(code)) {
            Some(code) => PageOutcome::Code(code),
            None => PageOutcome::Refused(said(
                400,
                "GitHub created no App. The terminal shows how to try again.",
            )),
        }
    }

    /// Reads the code from an address that the operator pastes: the browser was on another machine.
    ///
    /// # Errors
    /// Explains why it is not accepted.
    pub fn pasted(&self, address: &str) -> Result<String, String> {
        let query = address.split_once('?').map_or("", |(_, query)| query);
        match self.created(query) {
            PageOutcome::Code(code) => Ok(code),
            PageOutcome::Reply(reply) | PageOutcome::Refused(reply) => Err(reply.text()),
        }
    }

    /// Describes the App and its permissions, with one button.
    fn page(&self) -> BrowserResponse {
        let rights = self
            .owner
            .permissions()
            .map(|(name, level, why)| format!("<li><code>{name}: {level}</code> – {why}</li>"));
        let manifest = self.manifest.to_string();
        let name = self.manifest["name"].as_str().unwrap_or_default();
        let body = format!(
            "<h1>A GitHub App for Muster</h1>\
             <p><b>{name}</b> will belong to <b>{owner}</b> at {host}. It is private, and GitHub asks you to confirm it there.</p>\
             <ul><li>the event <code>workflow_job</code> – reports each job</li>{rights}</ul>\
             <p>Its key goes from GitHub into your AWS account and nowhere else.</p>\
             <p><b>First sign in to <a href=\"{host}\" target=\"_blank\" rel=\"noreferrer\">{host}</a> in this browser{sign_in}, \
             including single sign-on if your organization uses it.</b> GitHub drops this form when you are not signed in, and shows \
             an empty one.</p>\
             <form action=\"{form}?state={state}\" method=\"post\">\
             <input type=\"hidden\" name=\"manifest\" value=\"{manifest}\">\
             <button>Go to GitHub</button></form>",
            name = escaped(name),
            owner = escaped(self.owner.told()),
            sign_in = match &self.owner {
                Owner::Organization(name) => format!(" as an owner of {}", escaped(name.as_str())),
                Owner::Person => " with that account".to_owned(),
            },
            host = escaped(&self.host),
            rights = rights.concat(),
            form = escaped(&self.form),
            state = self.state,
            manifest = escaped(&manifest),
        );
        html(200, &body, &self.host)
    }
}

impl BrowserResponse {
    /// Redirects the browser to a different page.
    #[must_use]
    pub fn to(address: &str) -> Self {
        let mut reply = said(303, "The App is created.");
        reply.headers.push(("location", address.to_owned()));
        reply
    }

    /// A failure after GitHub's answer.
    #[must_use]
    pub fn failed(why: &str) -> Self {
        said(502, &format!("That failed; see the terminal for details. {why}"))
    }

    /// Returns the sentence that the page shows.
    fn text(&self) -> String {
        let text = self.body.split("<p>").nth(1).and_then(|rest| rest.split("</p>").next());
        text.unwrap_or_default().to_owned()
    }
}

const SHOWN: &str = "This page was shown already, and it is shown once: it contains a secret. If you did not open it, someone else on \
                     this machine did. Stop muster with Ctrl-C and run it again.";

fn said(status: u16, text: &str) -> BrowserResponse {
    html(status, &format!("<p>{}</p>", escaped(text)), "'none'")
}

/// Renders a page without scripts. It can send its form to one host and loads no resources.
fn html(status: u16, body: &str, form: &str) -> BrowserResponse {
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; form-action {form}"
    );
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Muster</title>\
         <style>body{{font:1.1em/1.5 system-ui,sans-serif;max-width:40em;margin:3em auto;padding:0 1em}}\
         button{{font:inherit;padding:.4em 1em}}</style>{body}</html>\n"
    );
    let headers = vec![
        ("content-type", "text/html; charset=utf-8".to_owned()),
        ("content-security-policy", policy),
        ("cache-control", "no-store".to_owned()),
        ("x-content-type-options", "nosniff".to_owned()),
    ];
    BrowserResponse { status, headers, body }
}

/// Compares in constant time.
fn same(given: &str, wanted: &str) -> bool {
    given.as_bytes().ct_eq(wanted.as_bytes()).into()
}

/// Returns a value of a query. GitHub's codes and our states need no decoding.
fn field(query: &str, name: &str) -> Option<String> {
    let fields = query.split('&').filter_map(|field| field.split_once('='));
    fields.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
}

/// Returns whether a text is a code: it becomes part of a path at GitHub.
fn is_code(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    (1..=200).contains(&text.len()) && text.chars().all(is_plain)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn escaped(text: &str) -> String {
    let one = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(one).collect()
}
