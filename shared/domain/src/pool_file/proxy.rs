//! The field `proxy` of a pool.

use super::fields::PROXY;
use super::node::Node;
use super::read::{self, Section, Wrongs};
use crate::pool::proxy::Proxy;

/// The maximum length of each text.
const MAX_LENGTH: usize = 255;

/// Reads a proxy.
pub(super) fn proxy(node: &Node, problems: &mut Wrongs) -> Option<Proxy> {
    let of = Section::open(node.clone(), PROXY, problems);
    if of.is_other {
        return None;
    }
    let https = of.read("https", problems, address);
    let http = of.read("http", problems, address);
    let no_proxy = of.read("no_proxy", problems, |node, w| {
        read::texts(
            node,
            "hosts, domains or networks, like .corp.example or 10.0.0.0/8",
            w,
            |text| is_made_of(text, b".-_:/*"),
        )
    });
    let password_secret = of.read("password_secret", problems, secret);
    if of.get("https").is_none() && of.get("http").is_none() {
        problems.add(&node.path, "write https, or http, or both");
        return None;
    }
    let has_user = [&https, &http].into_iter().flatten().any(|address| address.contains('@'));
    if password_secret.is_some() && !has_user {
        let what = "a password needs a user in the proxy's address: http://USER@HOST:PORT";
        problems.add(&of.path_of("password_secret"), what);
    }
    let no_proxy = no_proxy.unwrap_or_default();
    Some(Proxy { https, http, no_proxy, password_secret })
}

fn address(node: &Node, problems: &mut Wrongs) -> Option<String> {
    let text = read::text(node, problems)?;
    let rest = text.strip_prefix("http://").unwrap_or_default();
    let (user, host) = rest.rsplit_once('@').unwrap_or(("", rest));
    if user.contains(':') {
        let what = "the pool file is stored and shown, so it has no password; write http://USER@HOST:PORT, and \
                    the secret's name in password_secret";
        problems.add(&node.path, what);
        return None;
    }
    let (name, port) = host.split_once(':').unwrap_or((host, "80"));
    let is_user = user.is_empty() || is_made_of(user, b".-_%");
    if !is_user || !is_made_of(name, b".-_") || port.parse::<u16>().is_err() {
        let what =
            "a proxy's address is like http://proxy.corp.example:3128 or http://USER@HOST:PORT";
        problems.add(&node.path, what);
        return None;
    }
    Some(text)
}

fn secret(node: &Node, problems: &mut Wrongs) -> Option<String> {
    let text = read::text(node, problems)?;
    if !is_made_of(&text, b".-_") {
        let what = "write what follows STACK/proxy/ in the secret's name: letters, digits, \".\", \"-\" and \"_\"";
        problems.add(&node.path, what);
        return None;
    }
    Some(text)
}

/// Returns whether the text has letters, digits and these characters, and at least one.
fn is_made_of(text: &str, others: &[u8]) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || others.contains(&byte);
    !text.is_empty() && text.len() <= MAX_LENGTH && text.bytes().all(fits)
}
