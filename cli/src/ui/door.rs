//! Who may come to the pages, and with what.
//!
//! Anything on this machine and any page in its browser may knock at a port of the loopback
//! interface. So the whole `Host` is compared (a foreign name may resolve to this machine: DNS
//! rebinding), whoever comes has the cookie that the printed address gave to one browser, and what
//! changes something brings back the token of the very form that was shown.

use ring::hmac;
use subtle::ConstantTimeEq as _;

use super::fields::Fields;
use super::order::Order;

/// What gives the cookie, once.
pub const ENTER: &str = "/enter";

/// A request, as far as the door looks at it.
#[derive(Clone, Debug, Default)]
pub struct Knock {
    pub method: String,
    pub path: String,
    pub query: String,
    /// Each of them: two would mean two things to two readers.
    pub hosts: Vec<String>,
    pub cookies: Vec<String>,
    pub origins: Vec<String>,
    /// What the browser says of where the request comes from. Not every browser does.
    pub site: Option<String>,
    /// What a form sent.
    pub form: Fields,
}

/// Who was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// The browser that has the printed address. It gets the cookie, and the address is used up.
    Enters,
    /// Somebody who looks.
    Looks,
    /// Somebody who wants to know what this would do, and sends a whole file with it.
    Drafts(Order),
    /// Somebody who confirmed this.
    Orders(Order),
}

/// Who was not, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub status: u16,
    pub why: &'static str,
}

/// The door of one process.
pub struct Door {
    port: u16,
    /// What the next browser brings; none while that is used up.
    entry: Option<String>,
    session: String,
    key: hmac::Key,
    is_read_only: bool,
}

impl Door {
    /// A door at a port, that nobody can enter yet.
    #[must_use]
    pub fn new(port: u16, session: [u8; 32], key: [u8; 32], is_read_only: bool) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        Self { port, entry: None, session: hex(&session), key, is_read_only }
    }

    /// Another address that lets one browser in; the one before is good no more.
    pub fn invite(&mut self, entry: [u8; 32]) -> String {
        let entry = hex(&entry);
        let address = format!("http://127.0.0.1:{}{ENTER}?{entry}", self.port);
        self.entry = Some(entry);
        address
    }

    /// The header that gives a browser its cookie. Cookies know no ports, hence the name.
    #[must_use]
    pub fn cookie(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie_name(), self.session)
    }

    /// What the form of an order brings back.
    #[must_use]
    pub fn token(&self, order: &Order) -> String {
        self.signed(&order.identity())
    }

    /// What a form brings back that orders nothing yet.
    #[must_use]
    pub fn draft(&self) -> String {
        self.signed("draft")
    }

    fn signed(&self, text: &str) -> String {
        hex(hmac::sign(&self.key, text.as_bytes()).as_ref())
    }

    /// A request, judged. Whoever enters uses the address up.
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
        if knock.site.as_deref() == Some("cross-site") {
            return Err(FROM_ELSEWHERE);
        }
        if knock.path == ENTER {
            let is_invited = self.entry.as_ref().is_some_and(|entry| same(&knock.query, entry));
            return if is_invited { Ok(Admitted::Enters) } else { Err(USED_UP) };
        }
        if self.knows(knock) { Ok(Admitted::Looks) } else { Err(STRANGER) }
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
        let (admits, action): (fn(Order) -> Admitted, _) = match knock.path.split_once("/do/") {
            Some(("", action)) => (Admitted::Orders, action),
            _ if knock.path == "/confirm/apply" => (Admitted::Drafts, "apply"),
            _ => return Err(NOTHING),
        };
        let order = Order::read(action, &knock.form).ok_or(NOTHING)?;
        let admitted = admits(order.clone());
        let wanted = match &admitted {
            Admitted::Drafts(_) => self.draft(),
            Admitted::Orders(_) | Admitted::Looks | Admitted::Enters => self.token(&order),
        };
        if !same(knock.form.get("token").unwrap_or_default(), &wanted) {
            let why = "This form is of another muster ui, or was changed. Go back and begin again.";
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
        // Two: somebody on this machine has set another.
        match (own.next(), own.next()) {
            (Some(value), None) => same(value, &self.session),
            _ => false,
        }
    }

    fn cookie_name(&self) -> String {
        format!("muster-{}", self.port)
    }
}

const NOTHING: Refused = Refused { status: 404, why: "There is nothing of that kind to do here." };
const WRONG_HOST: Refused =
    Refused { status: 403, why: "These pages answer to their own address only." };
const STRANGER: Refused = Refused {
    status: 403,
    why: "This browser was not let in. Press Enter where muster ui runs, or run muster ui again.",
};
const USED_UP: Refused = Refused {
    status: 403,
    why: "This address was used already. Press Enter where muster ui runs: it prints another one.",
};
const FROM_ELSEWHERE: Refused = Refused {
    status: 403,
    why: "This comes from another page. Type the address into the browser yourself.",
};

/// Compares without telling by its time how much is right.
fn same(given: &str, wanted: &str) -> bool {
    given.as_bytes().ct_eq(wanted.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
