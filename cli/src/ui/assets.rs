//! The style, script and icon of the pages, compiled into the binary. Their addresses contain a hash of their contents,
//! so a browser can cache them.

use std::sync::LazyLock;

use ring::digest;

/// A static file.
pub struct Asset {
    pub path: String,
    pub kind: &'static str,
    pub text: &'static str,
}

pub static STYLE: LazyLock<Asset> =
    LazyLock::new(|| asset("css", "text/css; charset=utf-8", include_str!("style.css")));
pub static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| asset("js", "text/javascript; charset=utf-8", include_str!("live.js")));
pub static ICON: LazyLock<Asset> =
    LazyLock::new(|| asset("svg", "image/svg+xml", include_str!("icon.svg")));

/// Returns the file at an address.
#[must_use]
pub fn at(path: &str) -> Option<&'static Asset> {
    [&*STYLE, &*SCRIPT, &*ICON].into_iter().find(|asset| asset.path == path)
}

fn asset(end: &str, kind: &'static str, text: &'static str) -> Asset {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    let hash: String = digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    Asset { path: format!("/s/{hash}.{end}"), kind, text }
}

/// Response headers of every page: it loads nothing from elsewhere, and no other site may frame, read or keep it.
pub const HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    // With `no-referrer`, a browser sends our own forms without an origin.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];
