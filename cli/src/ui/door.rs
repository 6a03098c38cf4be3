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
use super::order::Order;

/// The path that gives a browser the cookie, once.
pub const ENTER: &str = "/enter";

/// The parts of a request that decide about access.
#[derive(Clone, Debug, Default)]
pub struct Knock {
    pub method: String,
    pub path: String,
    pub query: String,
    /// Each `Host` header: two would mean two things to two readers.
    pub hosts: Vec<String>,
    pub cookies: Vec<String>,
    pub origins: Vec<String>,
    /// `Sec-Fetch-Site`. Not every browser sends it.
    pub site: Option<String>,
    /// The fields of a form.
    pub form: Fields,
}

/// A request that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// The browser that has the entry address. It gets the cookie, and the address is used up.
    Enters,
    /// Reads a page.
    Looks,
    /// Asks what this order would do; a whole file comes with it.
    Drafts(Order),
    /// Gives an order that was confirmed.
    Orders(Order),
}

/// A request that was not let in, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub status: u16,
    pub why: &'static str,
}

/// The access control of one process.
pub struct Door {
    port: u16,
    /// The path above all pages, such as `/1f…`.
    root: String,
    /// What the next browser has to send; none once that is used up.
    entry: Option<String>,
    session: String,
    key: hmac::Key,
    is_read_only: bool,
}

impl Door {
    /// Access control at a port. `secrets` are a path, a session and a key; no browser can enter yet.
    #[must_use]
    pub fn new(port: u16, secrets: [[u8; 32]; 3], is_read_only: bool) -> Self {
        let [root, session, key] = secrets;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let root = format!("/{}", hex(&root));
        Self { port, root, entry: None, session: hex(&session), key, is_read_only }
    }

    /// Returns an address that lets one browser in. The one before is no longer valid.
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

    /// The path above all pages.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The path of a page without the secret path above it; none for any other path.
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

    /// Judges a request. Entering uses the entry address up.
    ///
    /// # Errors
    /// Why it is not let in.
    pub fn meets(&mut self, knock: &Knock) -> Result<Admitted, Refused> {
        let admitted = self.judge(knock)?;
        if admitted == Admitted::Enters {
            self.entry = None;
        }
        Ok(admitted)
    }

    fn judge(&self, knock: &Knock) -> Result<Admitted, Refused> {
        let [host] = knock.hosts.as_slice() else { return Err(WRONG_HOST) };
        let hosts = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port));
        if !hosts.contains(host) {
            return Err(WRONG_HOST);
        }
        match knock.method.as_str() {
            "GET" | "HEAD" => self.judge_look(knock),
            "POST" => self.judge_order(knock, host),
            _ => Err(Refused { status: 405, ..NOTHING }),
        }
    }

    fn judge_look(&self, knock: &Knock) -> Result<Admitted, Refused> {
        let site = knock.site.as_deref();
        if knock.path == ENTER {
            // The file that sends the browser here is of no site, which browsers call another site.
            if site == Some("same-site") {
                return Err(FROM_ELSEWHERE);
            }
            let is_invited = self.entry.as_ref().is_some_and(|entry| same(&knock.query, entry));
            return if is_invited { Ok(Admitted::Enters) } else { Err(USED_UP) };
        }
        if !matches!(site, None | Some("none" | "same-origin")) {
            return Err(FROM_ELSEWHERE);
        }
        if self.knows(knock) && self.inside(&knock.path).is_some() {
            Ok(Admitted::Looks)
        } else {
            Err(STRANGER)
        }
    }

    fn judge_order(&self, knock: &Knock, host: &str) -> Result<Admitted, Refused> {
        let is_ours = |origin: &String| *origin == format!("http://{host}");
        let is_own_site = knock.site.as_deref().is_none_or(|site| site == "same-origin");
        if !is_own_site || !knock.origins.iter().all(is_ours) {
            return Err(FROM_ELSEWHERE);
        }
        if !self.knows(knock) {
            return Err(STRANGER);
        }
        if self.is_read_only {
            return Err(Refused { status: 404, why: "This was started with --read-only." });
        }
        let path = self.inside(&knock.path).ok_or(STRANGER)?;
        let (admits, action): (fn(Order) -> Admitted, _) = match path.strip_prefix("/do/") {
            Some(action) => (Admitted::Orders, action),
            None if path == "/confirm/apply" => (Admitted::Drafts, "apply"),
            None => return Err(NOTHING),
        };
        let order = Order::read(action, &knock.form).ok_or(NOTHING)?;
        let admitted = admits(order.clone());
        let wanted = match &admitted {
            Admitted::Drafts(_) => self.draft(),
            Admitted::Orders(_) | Admitted::Looks | Admitted::Enters => self.token(&order),
        };
        if !same(knock.form.get("token").unwrap_or_default(), &wanted) {
            let why = "This form belongs to another muster ui, or it was changed. Go back and start again.";
            return Err(Refused { status: 403, why });
        }
        Ok(admitted)
    }

    fn knows(&self, knock: &Knock) -> bool {
        let name = self.cookie_name();
        let pairs = knock.cookies.iter().flat_map(|header| header.split(';'));
        let mut own = pairs.filter_map(|pair| {
            let (given, value) = pair.trim().split_once('=')?;
            (given == name).then_some(value)
        });
        // Two: another server of this machine has set a second one.
        match (own.next(), own.next()) {
            (Some(value), None) => same(value, &self.session),
            _ => false,
        }
    }

    fn cookie_name(&self) -> String {
        format!("muster-{}", self.port)
    }
}

const NOTHING: Refused = Refused { status: 404, why: "There is no such order." };
const WRONG_HOST: Refused =
    Refused { status: 403, why: "These pages are served at their own address only." };
const STRANGER: Refused = Refused {
    status: 403,
    why: "This browser has no access, or this is not the address of a page. Press Enter where muster ui runs: it prints a new \
          address.",
};
const USED_UP: Refused = Refused {
    status: 403,
    why: "This address was used already, and works once. Press Enter where muster ui runs: it prints a new one.",
};
const FROM_ELSEWHERE: Refused = Refused {
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
