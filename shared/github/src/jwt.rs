//! The App's JSON Web Token, signed with ring.
//!
//! octocrab can sign one too, but without `jti`: two functions that sign in the same second then
//! present the same token, and GitHub has answered the second one with 404
//! (terraform-aws-github-runner #5056).
//!
//! Source:
//! docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_control::causes::Cause;
use muster_domain::time::{Seconds, Time};
use ring::error::Unspecified;
use ring::rand::SecureRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

/// GitHub's clock may be behind ours; a token from its future would be refused.
const BACKDATED: Seconds = Seconds(60);
/// GitHub allows ten minutes. One is left for a clock that is ahead of ours.
const LIFETIME: Seconds = Seconds(540);

/// The key cannot be used. Says why, never what it holds.
#[derive(Debug, thiserror::Error)]
#[error("the App's private key: {what}")]
pub struct KeyError {
    what: &'static str,
    #[source]
    cause: Option<Cause>,
}

impl KeyError {
    /// Where there is no cause to keep: ring's `Unspecified` tells nothing, on purpose.
    const fn new(what: &'static str) -> Self {
        Self { what, cause: None }
    }
}

/// Something that no other token carries: 16 random bytes.
pub type Nonce = [u8; 16];

/// A fresh nonce.
///
/// # Errors
/// When the system has no random bytes.
pub fn nonce() -> Result<Nonce, KeyError> {
    let mut nonce = Nonce::default();
    ring::rand::SystemRandom::new()
        .fill(&mut nonce)
        .map_err(|Unspecified| KeyError::new("no random bytes"))?;
    Ok(nonce)
}

/// Whether a token can be signed with this key.
///
/// # Errors
/// Why not.
pub fn check(pem: &SecretString) -> Result<(), KeyError> {
    read_key(pem).map(drop)
}

/// Signs a token that GitHub accepts for nine minutes.
///
/// # Errors
/// When `pem` is no RSA key.
pub fn sign(
    app_id: &str,
    pem: &SecretString,
    now: Time,
    nonce: Nonce,
) -> Result<SecretString, KeyError> {
    let key = read_key(pem)?;
    let header = json!({"alg": "RS256", "typ": "JWT"});
    let claims = json!({
        "iss": app_id,
        "iat": (now - BACKDATED).as_secs(),
        "exp": (now + LIFETIME).as_secs(),
        "jti": URL_SAFE_NO_PAD.encode(nonce),
    });
    let mut token = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(header.to_string()),
        URL_SAFE_NO_PAD.encode(claims.to_string())
    );
    let mut signature = vec![0; key.public().modulus_len()];
    let random = ring::rand::SystemRandom::new();
    key.sign(&RSA_PKCS1_SHA256, &random, token.as_bytes(), &mut signature)
        .map_err(|Unspecified| KeyError::new("signing failed"))?;
    token.push('.');
    token.push_str(&URL_SAFE_NO_PAD.encode(signature));
    Ok(SecretString::from(token))
}

/// GitHub hands out PKCS#1 ("RSA PRIVATE KEY"); openssl converts to PKCS#8 ("PRIVATE KEY").
fn read_key(pem: &SecretString) -> Result<RsaKeyPair, KeyError> {
    // A key pasted into a JSON field or a shell often has `\n` spelt out.
    let pem = SecretString::from(pem.expose_secret().replace("\\n", "\n"));
    // The reader's error is left out: it quotes the line that it stopped at, and that is the whole
    // key where line breaks were lost.
    let der = PrivateKeyDer::from_pem_slice(pem.expose_secret().as_bytes())
        .map_err(|_| KeyError::new("not a private key in PEM form"))?;
    match &der {
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        _ => return Err(KeyError::new("not an RSA key")),
    }
    .map_err(|refused| KeyError {
        // Its reason alone: ring's errors are no `Error` without its feature `std`.
        cause: Some(Cause::new(refused.to_string())),
        ..KeyError::new("not a usable RSA key")
    })
}
