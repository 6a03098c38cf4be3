//! The proxy through which a pool's machines reach the internet.

use serde::{Deserialize, Serialize};

/// A pool's proxy. It contains no password, because pools are stored, shown and compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    /// `http://[USER@]HOST[:PORT]` of the proxy for HTTPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https: Option<String>,
    /// The same for HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Hosts and domains that are reached directly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_proxy: Vec<String>,
    /// The name of the password's secret, after `STACK/proxy/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_secret: Option<String>,
}

impl Proxy {
    /// Returns the name of the password's secret, if there is one. Runner-api's role can read only
    /// secrets with this prefix (template.yaml, `ProxyPasswords`).
    #[must_use]
    pub fn secret(&self, stack: &str) -> Option<String> {
        self.password_secret.as_ref().map(|name| format!("{stack}/proxy/{name}"))
    }
}
