//! The App's JSON Web Token, signed with ring.
//!
//! octocrab can also sign one, but without `jti`: two functions that sign in one second then
//! present equal tokens, and GitHub has answered the second one with 404
//! (terraform-aws-github-runner #5056).
//!
//! Source:
//! docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_domain::causes::Cause;
use muster_domain::time::{Seconds, Time};
use ring::error::Unspecified;
use ring::rand::SecureRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

/// How far tokens are backdated. GitHub's clock may lag behind ours, and a token from the future
/// would be rejected.
const BACKDATED: Seconds = Seconds(60);
/// The lifetime of a token. GitHub allows ten minutes; one is reserved for a clock that is ahead of
/// ours.
const LIFETIME: Seconds = Seconds(540);

/// The error for an unusable key. Never contains any part of the key.
#[derive(Debug, thiserror::Error)]
#[error("the App's private key: {what}")]
pub struct KeyError {
    what: &'static str,
    #[source]
    cause: Option<Cause>,
}

impl KeyError {
    /// Creates an error without a cause: ring's `Unspecified` deliberately has no details.
    const fn new(what: &'static str) -> Self {
        Self { what, cause: None }
    }
}

/// A value that makes a token unique: 16 random bytes.
pub type Nonce = [u8; 16];

/// Creates a nonce.
///
/// # Errors
/// If the system has no random bytes.
pub fn nonce() -> Result<Nonce, KeyError> {
    let mut nonce = Nonce::default();
    ring::rand::SystemRandom::new()
        .fill(&mut nonce)
        .map_err(|Unspecified| KeyError::new("no random bytes"))?;
    Ok(nonce)
}

/// Checks whether a token can be signed with this key.
///
/// # Errors
/// If it cannot.
pub fn check(pem: &SecretString) -> Result<(), KeyError> {
    read_key(pem).map(drop)
}

/// Signs a token that GitHub accepts for nine minutes.
///
/// # Errors
/// If `pem` is not an RSA key.
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

/// Parses the key. GitHub provides PKCS#1 ("RSA PRIVATE KEY"); openssl converts to PKCS#8 ("PRIVATE
/// KEY").
fn read_key(pem: &SecretString) -> Result<RsaKeyPair, KeyError> {
    // A key pasted into a JSON field or a shell often has literal `\n` sequences.
    let pem = SecretString::from(pem.expose_secret().replace("\\n", "\n"));
    // The parser's error is dropped because it quotes the line where it stopped, which is the whole
    // key if line breaks were lost.
    let der = PrivateKeyDer::from_pem_slice(pem.expose_secret().as_bytes())
        .map_err(|_| KeyError::new("not a private key in PEM form"))?;
    match &der {
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        _ => return Err(KeyError::new("not an RSA key")),
    }
    .map_err(|refused| KeyError {
        // As text: ring's errors do not implement `Error` without its feature `std`.
        cause: Some(Cause::new(refused.to_string())),
        ..KeyError::new("not a usable RSA key")
    })
}
