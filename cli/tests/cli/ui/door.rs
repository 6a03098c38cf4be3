//! Access to the pages. Each row is a request that differs in one thing from one that is let in.

use muster_cli::orders::Order;
use muster_cli::ui::door::{Access, ENTER, Guard, PageRequest};
use muster_cli::ui::fields::Fields;

const PORT: u16 = 49_213;
/// Path, session and key.
const SECRETS: [[u8; 32]; 3] = [[3; 32], [1; 32], [2; 32]];

fn guard() -> Guard {
    Guard::new(PORT, SECRETS, false)
}

/// The secret path.
fn root() -> String {
    format!("/{}", "03".repeat(32))
}

/// From a browser that was let in.
fn request(method: &str, path: &str) -> PageRequest {
    let cookie = guard().cookie();
    let (pair, _) = cookie.split_once(';').expect("attributes");
    PageRequest {
        method: method.to_owned(),
        path: if path == ENTER { path.to_owned() } else { root() + path },
        hosts: vec![format!("127.0.0.1:{PORT}")],
        cookies: vec![format!("other=1; {pair}")],
        ..PageRequest::default()
    }
}

/// A form of an order, as its page sends it.
fn order() -> PageRequest {
    let form = |token: &str| {
        Fields::read(format!("name=small-l0-0&reason=moving&token={token}").as_bytes())
    };
    let order = Order::read("force", &form("")).expect("an order");
    PageRequest {
        origins: vec![format!("http://127.0.0.1:{PORT}")],
        site: Some("same-origin".to_owned()),
        form: form(&guard().token(&order)),
        ..request("POST", "/do/force")
    }
}

/// A page on another port of this machine: the browser sends no cookie outside the secret path.
fn foreign_page(request: &mut PageRequest) {
    request.site = Some("same-site".to_owned());
    request.origins = vec!["http://127.0.0.1:8000".to_owned()];
    request.cookies.clear();
}

/// A program of another user knows the port, from the list of connections.
fn other_user(request: &mut PageRequest) {
    let knows_none = |path: &str| path.replace(&root(), "");
    request.path = knows_none(&request.path);
    (request.site, request.cookies) = (None, Vec::new());
}

#[test]
fn the_cookie_goes_to_the_secret_path_alone() {
    let cookie = guard().cookie();
    assert_eq!(
        cookie,
        format!("muster-{PORT}={}; HttpOnly; SameSite=Strict; Path={}", "01".repeat(32), root())
    );
    // Every link, form, file and stream of a page is below it.
    let page = "<a href=\"/\">x</a><form action=\"/do/x\"><script src=\"/s/1.js\"></script>&quot; href=&quot;/y&quot;";
    let root = root();
    assert_eq!(
        muster_cli::ui::frame::below(&root, page),
        format!(
            "<a href=\"{root}/\">x</a><form action=\"{root}/do/x\"><script src=\"{root}/s/1.js\"></script>&quot; href=&quot;/y&quot;"
        )
    );
}

#[test]
fn whoever_looks_has_the_cookie_and_comes_to_our_own_address() {
    type Change = fn(&mut PageRequest);
    let rows: [(&str, Change, u16); 30] = [
        ("a page", |_| (), 200),
        ("its head", |k| k.method = "HEAD".into(), 200),
        ("another name of this machine", |k| k.hosts = vec![format!("localhost:{PORT}")], 200),
        ("a link that was typed", |k| k.site = Some("none".into()), 200),
        ("a link of ours", |k| k.site = Some("same-origin".into()), 200),
        ("a link of another site", |k| k.site = Some("cross-site".into()), 403),
        ("a page on another port", |k| k.site = Some("same-site".into()), 403),
        ("an unknown kind of site", |k| k.site = Some("same".into()), 403),
        ("a page on another port, as its browser sends it", foreign_page, 403),
        (
            "the same with a guessed path",
            |k| {
                foreign_page(k);
                k.path = "/machines".into();
            },
            403,
        ),
        ("another user of this machine", other_user, 403),
        (
            "another user who saw the path",
            |k| {
                other_user(k);
                k.path = root() + "/machines";
            },
            403,
        ),
        (
            "another user who has the cookie of another port",
            |k| {
                other_user(k);
                k.cookies = vec!["muster-49214=01".into()];
            },
            403,
        ),
        ("outside the secret path", |k| k.path = "/machines".into(), 403),
        ("another path", |k| k.path = k.path.replace("03", "04"), 403),
        ("the path and more", |k| k.path = k.path.replace("/machines", "x/machines"), 403),
        ("the path alone", |k| k.path = root(), 403),
        (
            "a name that resolves to this machine",
            |k| k.hosts = vec![format!("evil.example:{PORT}")],
            403,
        ),
        ("a name that begins like it", |k| k.hosts = vec![format!("127.0.0.1.nip.io:{PORT}")], 403),
        ("another port", |k| k.hosts = vec!["127.0.0.1:80".into()], 403),
        ("no port", |k| k.hosts = vec!["127.0.0.1".into()], 403),
        ("no host", |k| k.hosts.clear(), 403),
        ("two hosts", |k| k.hosts.push(format!("localhost:{PORT}")), 403),
        ("no cookie", |k| k.cookies.clear(), 403),
        ("another cookie", |k| k.cookies = vec![format!("muster-{PORT}=00")], 403),
        (
            "the cookie of another port",
            |k| k.cookies[0] = k.cookies[0].replace("muster-4", "muster-5"),
            403,
        ),
        ("two cookies", |k| k.cookies.push(format!("muster-{PORT}=00")), 403),
        ("an empty cookie", |k| k.cookies = vec![format!("muster-{PORT}=")], 403),
        ("another method", |k| k.method = "PUT".into(), 405),
        ("an order by GET", |k| k.path = root() + "/do/force", 200),
    ];
    for (what, change, status) in rows {
        let mut request = request("GET", "/machines");
        change(&mut request);
        let met = guard().check(&request);
        assert_eq!(met.map_or_else(|refused| refused.status, |_| 200), status, "{what}");
    }
}

#[test]
fn whoever_orders_brings_back_the_form_that_was_shown() {
    type Change = fn(&mut PageRequest);
    let of = |k: &mut PageRequest, form: &str| {
        let token = k.form.get("token").unwrap_or_default().to_owned();
        k.form = Fields::read(format!("{form}&token={token}").as_bytes());
    };
    let rows: [(&str, Change, u16); 18] = [
        ("a form", |_| (), 200),
        ("from a browser that says no site", |k| k.site = None, 200),
        ("from a browser that says no origin", |k| k.origins.clear(), 200),
        ("from another page", |k| k.site = Some("cross-site".into()), 403),
        ("from another port of this machine", |k| k.site = Some("same-site".into()), 403),
        ("typed", |k| k.site = Some("none".into()), 403),
        (
            "from a page on another port that knows all",
            |k| k.origins = vec!["http://127.0.0.1:1".into()],
            403,
        ),
        ("outside the secret path", |k| k.path = "/do/force".into(), 403),
        ("by another user of this machine", other_user, 403),
        ("from another origin", |k| k.origins = vec!["http://evil.example".into()], 403),
        ("from a page without one", |k| k.origins = vec!["null".into()], 403),
        ("from our other name", |k| k.origins = vec![format!("http://localhost:{PORT}")], 403),
        ("to another host", |k| k.hosts = vec![format!("evil.example:{PORT}")], 403),
        ("without the cookie", |k| k.cookies.clear(), 403),
        ("without its token", |k| k.form = Fields::read(b"name=small-l0-0&reason=moving"), 403),
        ("for another order", |k| k.path = root() + "/do/kill", 403),
        ("for no order", |k| k.path = root() + "/do/nothing", 404),
        ("to a page", |k| k.path = root() + "/machines", 404),
    ];
    for (what, change, status) in rows {
        let mut request = order();
        change(&mut request);
        let met = guard().check(&request);
        assert_eq!(met.map_or_else(|refused| refused.status, |_| 200), status, "{what}");
    }
    let mut another = order();
    of(&mut another, "name=small-l0-1&reason=moving");
    assert_eq!(guard().check(&another).map_err(|refused| refused.status), Err(403));
}

/// Each order that a page gives, as its form sends it.
const ORDERS: [(&str, &str); 17] = [
    ("pause", "what=launches"),
    ("resume", "what=gpu"),
    ("delete", "name=small-l0-0"),
    ("force", "name=small-l0-0"),
    ("kill", "name=small-l0-0"),
    ("bypass", "name=small-l0-0"),
    ("restore", "version=1"),
    ("canary", "pool=small"),
    ("canary", "pool=small&entity=acme"),
    ("redrive", "queue=jobs"),
    ("redrive", "queue=reaps"),
    ("adopt", "repository=acme%2Fweb"),
    ("adopt", "repository=acme%2Fapp"),
    ("hook", "what=test"),
    ("hook", "what=set"),
    ("hook", "what=rotate"),
    ("hook", "what=remove"),
];

#[test]
fn a_form_orders_what_was_shown_and_nothing_else() {
    for (index, (action, fields)) in ORDERS.into_iter().enumerate() {
        let order = Order::read(action, &Fields::read(fields.as_bytes())).expect("an order");
        let token = guard().token(&order);
        for (other, (action, fields)) in ORDERS.into_iter().enumerate() {
            let request = PageRequest {
                form: Fields::read(format!("{fields}&reason=moving&token={token}").as_bytes()),
                ..request("POST", &format!("/do/{action}"))
            };
            let met = guard().check(&request).map_err(|refused| refused.status);
            let wanted = if other == index { Ok(Access::Submit(order.clone())) } else { Err(403) };
            assert_eq!(met, wanted, "{action} {fields} with the form of {order:?}");
            let foreign = PageRequest { site: Some("cross-site".to_owned()), ..request.clone() };
            assert_eq!(guard().check(&foreign).map_err(|refused| refused.status), Err(403));
            let mut read_only = Guard::new(PORT, SECRETS, true);
            assert_eq!(read_only.check(&request).map_err(|refused| refused.status), Err(404));
        }
    }
}

#[test]
fn a_draft_has_a_token_and_is_no_order() {
    let mut request = order();
    request.path = root() + "/confirm/apply";
    let status = |request: &PageRequest| guard().check(request).map_err(|refused| refused.status);
    request.form = Fields::read(b"file=pools%3A+%5B%5D%0D%0A&token=00");
    assert_eq!(status(&request), Err(403));
    let draft = guard().draft();
    request.form = Fields::read(format!("file=pools%3A+%5B%5D%0D%0A&token={draft}").as_bytes());
    let apply = Order::Apply { file: "pools: []\n".to_owned() };
    assert_eq!(status(&request), Ok(Access::Draft(apply)));
    request.path = root() + "/do/apply";
    assert_eq!(status(&request), Err(403));
}

#[test]
fn read_only_has_no_orders() {
    let mut guard = Guard::new(PORT, SECRETS, true);
    assert_eq!(guard.check(&order()).map_err(|refused| refused.status), Err(404));
    assert_eq!(guard.check(&request("GET", "/")), Ok(Access::View));
}

#[test]
fn an_address_lets_one_browser_in() {
    let mut guard = guard();
    let enter = |address: &str| {
        let (_, entry) = address.split_once('?').expect("an entry");
        PageRequest { cookies: Vec::new(), query: entry.to_owned(), ..request("GET", ENTER) }
    };
    let first = enter(&guard.invite([3; 32]));
    let second = enter(&guard.invite([4; 32]));
    let mut status = |request: &PageRequest| guard.check(request).map_err(|refused| refused.status);
    assert_eq!(status(&first), Err(403), "another one was printed since");
    assert_eq!(status(&PageRequest { query: String::new(), ..second.clone() }), Err(403));
    let of = |site: &str| PageRequest { site: Some(site.to_owned()), ..second.clone() };
    assert_eq!(status(&of("same-site")), Err(403), "a page on another port");
    // What browsers call the file that leads here.
    assert_eq!(status(&of("cross-site")), Ok(Access::Enter));
    assert_eq!(status(&second), Err(403), "it is used up");
}
