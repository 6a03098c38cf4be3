//! Checks the signature of an App's JSON Web Token. What the claims must say is the model's part.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::Value;

use muster_cloud::github::{Claims, GitHubError};

#[derive(Deserialize)]
struct Header {
    alg: String,
}

#[derive(Deserialize)]
struct Body {
    iss: Value,
    iat: i64,
    exp: i64,
    jti: Option<String>,
}

/// The claims of a token that was signed with the key of the App it names.
pub(super) fn verify(
    token: &str,
    key_of: impl Fn(&str) -> Option<String>,
) -> Result<Claims, GitHubError> {
    let undecodable = || GitHubError::new(401, "A JSON web token could not be decoded");
    let parts: Vec<&str> = token.split('.').collect();
    let [header, body, signature] = parts[..] else { return Err(undecodable()) };
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| undecodable());
    let head: Header = serde_json::from_slice(&decode(header)?).map_err(|_| undecodable())?;
    if head.alg != "RS256" {
        return Err(undecodable());
    }
    let claims: Body = serde_json::from_slice(&decode(body)?).map_err(|_| undecodable())?;
    let iss = match claims.iss {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => return Err(undecodable()),
    };
    let key = key_of(&iss).ok_or_else(|| GitHubError::new(401, "Integration not found"))?;
    let key = public_key(&key).ok_or_else(|| {
        GitHubError::new(500, "world: the App's public key is not an RSA key in PEM form")
    })?;
    let signed = format!("{header}.{body}");
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key)
        .verify(signed.as_bytes(), &decode(signature)?)
        .map_err(|_| undecodable())?;
    Ok(Claims { iss, iat: claims.iat, exp: claims.exp, jti: claims.jti })
}

/// The PKCS #1 key that *ring* wants, out of `PUBLIC KEY` (SPKI) or `RSA PUBLIC KEY` (PKCS #1).
pub(crate) fn public_key(pem: &str) -> Option<Vec<u8>> {
    let body: String = pem.lines().map(str::trim).filter(|line| !line.starts_with("---")).collect();
    let der = STANDARD.decode(body).ok()?;
    if pem.contains("BEGIN RSA PUBLIC KEY") {
        return Some(der);
    }
    // SEQUENCE { SEQUENCE { algorithm }, BIT STRING { 0, key } }
    let (_, outer, _) = value(&der)?;
    let (_, _algorithm, rest) = value(outer)?;
    let (tag, bits, _) = value(rest)?;
    (tag == 0x03 && bits.first() == Some(&0)).then(|| bits[1..].to_vec())
}

/// Reads one DER value: its tag, its content, and what follows it.
fn value(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let (bytes, rest) = rest.split_at_checked(usize::from(*first & 0x7f))?;
        (bytes.iter().try_fold(0_usize, |n, b| n.checked_mul(256)?.checked_add((*b).into()))?, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}
