//! Access control of the pages.
//!
//! Every user and program of this machine, and every page in its browser, can send requests to a port
//! of the loopback interface. So the whole `Host` is compared (a foreign name may resolve to this
//! machine: DNS rebinding), a request needs the cookie that one browser got for the entry address, and
//! an order needs the token of the form that was shown.
//!
//! Cookies know no ports: a browser sends one of 127.0.0.1 to every server there. All pages therefore
//! live below a path that cannot be guessed, and the cookie is limited to that path.

use ring::hmac;
use subtle::ConstantTimeEq as _;

use super::fields::Fields;
use crate::orders::Order;

/// The path that gives a browser the cookie, once.
pub const ENTER: &str = "/enter";

/// The parts of a request that decide about access.
#[derive(Clone, Debug, Default)]
pub struct PageRequest {
    pub method: String,
    pub path: String,
    pub query: String,
    /// All `Host` headers: with two, two readers could disagree.
    pub hosts: Vec<String>,
    pub cookies: Vec<String>,
    pub origins: Vec<String>,
    /// The header `Sec-Fetch-Site`, which not every browser sends.
    pub site: Option<String>,
    /// The fields of a form.
    pub form: Fields,
}

/// A request that has access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// The browser with the entry address. It gets the cookie, and the address becomes invalid.
    Enter,
    /// Reads a page.
    View,
    /// Requests a dry run of an order that includes a whole file.
    Draft(Order),
    /// Submits a confirmed order.
    Submit(Order),
}

/// A request without access, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    pub status: u16,
    pub why: &'static str,
}

/// The access control of one process.
pub struct Guard {
    port: u16,
    /// The path above all pages, such as `/1f…`.
    root: String,
    /// The secret of the entry address; `None` after its use.
    entry: Option<String>,
    session: String,
    key: hmac::Key,
    is_read_only: bool,
}

impl Guard {
    /// Creates the access control of a port. `secrets` are a path, a session and a key. No browser can enter yet.
    #[must_use]
    pub fn new(port: u16, secrets: [[u8; 32]; 3], is_read_only: bool) -> Self {
        let [root, session, key] = secrets;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let root = format!("/{}", hex(&root));
        Self { port, root, entry: None, session: hex(&session), key, is_read_only }
    }

    /// Returns an address that gives one browser access, and invalidates the previous one.
    pub fn invite(&mut self, entry: [u8; 32]) -> String {
        let entry = hex(&entry);
        let address = format!("http://127.0.0.1:{}{ENTER}?{entry}", self.port);
        self.entry = Some(entry);
        address
    }

    /// Returns the header that gives a browser its cookie. It names the port, so that two of these
    /// commands do not overwrite each other's.
    #[must_use]
    pub fn cookie(&self) -> String {
        let (name, root) = (self.cookie_name(), &self.root);
        format!("{name}={}; HttpOnly; SameSite=Strict; Path={root}", self.session)
    }

    /// Returns the path above all pages.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the path of a page without the secret path above it; `None` for any other path.
    #[must_use]
    pub fn inside<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (root, page) = path.split_at_checked(self.root.len())?;
        (same(root, &self.root) && page.starts_with('/')).then_some(page)
    }

    /// Returns the token that the form of an order sends back.
    #[must_use]
    pub fn token(&self, order: &Order) -> String {
        self.signed(&order.identity())
    }

    /// Returns the token of a form that only asks what an order would do.
    #[must_use]
    pub fn draft(&self) -> String {
        self.signed("draft")
    }

    fn signed(&self, text: &str) -> String {
        hex(hmac::sign(&self.key, text.as_bytes()).as_ref())
    }

    /// Decides about a request. Entering invalidates the entry address.
    ///
    /// # Errors
    /// Explains why it has no access.
    pub fn check(&mut self, request: &PageRequest) -> Result<Access, Denied> {
        let admitted = self.judge(request)?;
        if admitted == Access::Enter {
            self.entry = None;
        }
        Ok(admitted)
    }

    fn judge(&self, request: &PageRequest) -> Result<Access, Denied> {
        let [host] = request.hosts.as_slice() else { return Err(WRONG_HOST) };
        let hosts = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port));
        if !hosts.contains(host) {
            return Err(WRONG_HOST);
        }
        match request.method.as_str() {
            "GET" | "HEAD" => self.judge_view(request),
            "POST" => self.judge_order(request, host),
            _ => Err(Denied { status: 405, ..NOTHING }),
        }
    }

    fn judge_view(&self, request: &PageRequest) -> Result<Access, Denied> {
        let site = request.site.as_deref();
        if request.path == ENTER {
            // The file that redirects the browser has no site, which browsers report as cross-site.
            if site == Some("same-site") {
                return Err(FROM_ELSEWHERE);
            }
            let is_invited = self.entry.as_ref().is_some_and(|entry| same(&request.query, entry));
            return if is_invited { Ok(Access::Enter) } else { Err(USED_UP) };
        }
        if !matches!(site, None | Some("none" | "same-origin")) {
            return Err(FROM_ELSEWHERE);
        }
        if self.has_session(request) && self.inside(&request.path).is_some() {
            Ok(Access::View)
        } else {
            Err(STRANGER)
        }
    }

    fn judge_order(&self, request: &PageRequest, host: &str) -> Result<Access, Denied> {
        let is_ours = |origin: &String| *origin == format!("http://{host}");
        let is_own_site = request.site.as_deref().is_none_or(|site| site == "same-origin");
        if !is_own_site || !request.origins.iter().all(is_ours) {
            return Err(FROM_ELSEWHERE);
        }
        if !self.has_session(request) {
            return Err(STRANGER);
        }
        if self.is_read_only {
            return Err(Denied {
                status: 404,
                why: "Not available: muster ui runs with --read-only.",
            });
        }
        let path = self.inside(&request.path).ok_or(STRANGER)?;
        let (admits, action): (fn(Order) -> Access, _) = match path.strip_prefix("/do/") {
            Some(action) => (Access::Submit, action),
            None if path == "/confirm/apply" => (Access::Draft, "apply"),
            None => return Err(NOTHING),
        };
        let order = Order::read(action, &request.form).ok_or(NOTHING)?;
        let admitted = admits(order.clone());
        let wanted = match &admitted {
            Access::Draft(_) => self.draft(),
            Access::Submit(_) | Access::View | Access::Enter => self.token(&order),
        };
        if !same(request.form.get("token").unwrap_or_default(), &wanted) {
            let why = "This form belongs to a different muster ui, or it was changed. Go back and \
                start again.";
            return Err(Denied { status: 403, why });
        }
        Ok(admitted)
    }

    fn has_session(&self, request: &PageRequest) -> bool {
        let name = self.cookie_name();
        let pairs = request.cookies.iter().flat_map(|header| header.split(';'));
        let mut own = pairs.filter_map(|pair| {
            let (given, value) = pair.trim().split_once('=')?;
            (given == name).then_some(value)
        });
        // Two cookies: a different server of this machine has set the second one.
        match (own.next(), own.next()) {
            (Some(value), None) => same(value, &self.session),
            _ => false,
        }
    }

    fn cookie_name(&self) -> String {
        format!("muster-{}", self.port)
    }
}

const NOTHING: Denied = Denied { status: 404, why: "There is no such order." };
const WRONG_HOST: Denied =
    Denied { status: 403, why: "These pages are served at their own address only." };
const STRANGER: Denied = Denied {
    status: 403,
    why: "This browser has no access, or this is not the address of a page. Press Enter where muster ui runs: it prints a new \
          address.",
};
const USED_UP: Denied = Denied {
    status: 403,
    why: "This address was already used; it works only once. Press Enter where muster ui runs: it prints a new one.",
};
const FROM_ELSEWHERE: Denied = Denied {
    status: 403,
    why: "This request comes from another page. Type the address into the browser yourself.",
};

/// Compares in constant time.
fn same(given: &str, wanted: &str) -> bool {
    given.as_bytes().ct_eq(wanted.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
