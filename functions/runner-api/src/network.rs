//! What a machine needs to reach the internet: the stack's CA bundle, and its pool's proxy. Without
//! either, a response is unchanged, and nothing is read.

use std::sync::Arc;

use muster_control::ports::Unavailable;
use muster_control::runner_api::{Hindrance, RunnerApiError};
use muster_domain::causes::with_causes;
use muster_domain::pool::proxy::Proxy;
use muster_domain::time::Seconds;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

/// The program that measures jobs and applies the settings. Machines execute it with machine.py's
/// functions.
pub(crate) const PROGRAM: &str = include_str!("../../../infra/machine-program.py");
/// When a machine retries if the password cannot be read, which an operator must fix.
const RETRY: Seconds = Seconds(15);

/// The stores of the settings.
#[expect(async_fn_in_trait, reason = "functions run on one thread")]
pub trait NetworkSource {
    /// Returns the PEM text of the CA bundle, if there is a usable one.
    async fn ca_bundle(&self) -> Option<Arc<str>>;
    /// Reads the password of a proxy from its secret.
    ///
    /// # Errors
    /// If it cannot be read.
    async fn password(&self, secret: &str) -> Result<SecretString, Unavailable>;
}

/// Adds the settings, and the program that applies them, to a configuration or an order. The password is in no
/// record and no log, only in this response.
pub(crate) async fn with_network(
    mut body: Value,
    proxy: Option<&Proxy>,
    stack: &str,
    source: &impl NetworkSource,
) -> Result<Value, RunnerApiError> {
    let ca = source.ca_bundle().await;
    if ca.is_none() && proxy.is_none() {
        return Ok(body);
    }
    let password = match proxy.and_then(|proxy| proxy.secret(stack)) {
        Some(secret) => {
            let read = source.password(&secret).await.map_err(|error| {
                let why = with_causes(&error);
                let why =
                    format!("the proxy's password cannot be read from secret {secret}: {why}");
                RunnerApiError::Later { after: RETRY, hindrance: Hindrance::NoPassword, why }
            })?;
            Some(read.expose_secret().trim().to_owned())
        }
        None => None,
    };
    body["program"] = json!(PROGRAM);
    body["network"] = json!({
        "ca": ca,
        "proxy": proxy.map(|proxy| json!({
            "https": proxy.https,
            "http": proxy.http,
            "no_proxy": proxy.no_proxy,
            "password": password,
        })),
    });
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Store(Option<&'static str>, Option<&'static str>);

    impl NetworkSource for Store {
        async fn ca_bundle(&self) -> Option<Arc<str>> {
            self.0.map(Arc::from)
        }

        async fn password(&self, secret: &str) -> Result<SecretString, Unavailable> {
            assert_eq!(secret, "muster/proxy/office");
            let text = self.1.ok_or_else(|| Unavailable::new("there is no such secret"))?;
            Ok(text.to_owned().into())
        }
    }

    fn added(proxy: Option<&Proxy>, store: &Store) -> Result<Value, RunnerApiError> {
        let body = json!({ "version": 1 });
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(with_network(body, proxy, "muster", store))
    }

    #[test]
    fn a_configuration_has_the_settings_that_there_are() {
        let address = || Some("http://ada@proxy:3128".to_owned());
        let plain = Proxy { https: address(), ..Proxy::default() };
        let named = Proxy { password_secret: Some("office".to_owned()), ..plain.clone() };
        let unchanged = added(None, &Store(None, None)).expect("no settings");
        assert_eq!(unchanged, json!({ "version": 1 }));
        for (proxy, store, expected) in [
            (None, Store(Some("PEM"), None), json!({ "ca": "PEM", "proxy": null })),
            (
                Some(&plain),
                Store(None, None),
                json!({ "ca": null, "proxy": { "https": "http://ada@proxy:3128", "http": null, "no_proxy": [], "password": null } }),
            ),
            (
                Some(&named),
                Store(None, Some("s3cret\n")),
                json!({ "ca": null, "proxy": { "https": "http://ada@proxy:3128", "http": null, "no_proxy": [], "password": "s3cret" } }),
            ),
        ] {
            let body = added(proxy, &store).expect("a configuration");
            assert_eq!((&body["network"], &body["program"]), (&expected, &json!(PROGRAM)));
        }
        let denied = added(Some(&named), &Store(None, None)).expect_err("no password");
        assert_eq!(
            denied.to_string(),
            "try again in 15 s: the proxy's password cannot be read from secret muster/proxy/office: there is no such secret"
        );
    }
}
