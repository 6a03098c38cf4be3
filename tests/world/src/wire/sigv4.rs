//! AWS Signature Version 4, for what the world itself asks of the emulator.

use ring::hmac;
use sha2::{Digest, Sha256};

use muster_cloud::{Millis, rfc3339};

/// Long-lived or temporary credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub access_key_id: String,
    pub secret_access_key: String,
    pub session_token: Option<String>,
}

/// A POST request to be signed.
#[derive(Clone, Copy, Debug)]
pub struct Signable<'a> {
    pub host: &'a str,
    pub path: &'a str,
    pub body: &'a [u8],
    pub region: &'a str,
    pub service: &'a str,
}

impl Credentials {
    /// The headers that sign a POST without a query.
    #[must_use]
    pub fn sign(&self, request: Signable<'_>, now: Millis) -> Vec<(&'static str, String)> {
        let Signable { host, path, body, region, service } = request;
        let time: String = rfc3339(now).chars().filter(|c| !"-:".contains(*c)).collect();
        let day = &time[..8];
        let mut headers = vec![("host", host.to_owned()), ("x-amz-date", time.clone())];
        if let Some(token) = &self.session_token {
            headers.push(("x-amz-security-token", token.clone()));
        }
        let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lines: String =
            headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let digest = hex::encode(Sha256::digest(body));
        let canonical = format!("POST\n{path}\n\n{lines}\n{names}\n{digest}");
        let scope = format!("{day}/{region}/{service}/aws4_request");
        let digest = hex::encode(Sha256::digest(canonical));
        let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}");
        let secret = format!("AWS4{}", self.secret_access_key).into_bytes();
        let key = [day, region, service, "aws4_request"]
            .iter()
            .fold(secret, |key, part| hmac_sha256(&key, part.as_bytes()));
        let signature = hex::encode(hmac_sha256(&key, to_sign.as_bytes()));
        let id = &self.access_key_id;
        headers.push((
            "authorization",
            format!(
                "AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, \
                 Signature={signature}"
            ),
        ));
        headers
    }
}

pub(crate) fn hmac_sha256(key: &[u8], message: &[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, message).as_ref().to_vec()
}
