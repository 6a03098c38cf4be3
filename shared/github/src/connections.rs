//! The connections to GitHub, and the certificates that they trust: the system's roots, and those of
//! the stack's CA bundle.

use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::HttpsConnectorBuilder;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use muster_control::ports::Unavailable;
use muster_domain::ca_bundle::CaBundle;
use muster_domain::causes::{Cause, causes, with_causes};
use muster_domain::time::{Seconds, Time};
use octocrab::{AuthState, OctoBody, Octocrab, OctocrabBuilder};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use tokio::sync::Mutex;

use crate::{ClientSettings, SetupError};

/// How long an idle connection is reused. When a frozen function resumes, the server has closed its
/// connections, and a request sent on one of those is lost.
const IDLE_KEPT: Duration = Duration::from_secs(5);
/// Minimum interval between two reads of the bundle.
const READ_PAUSE: Seconds = Seconds(60);

/// The store of the CA bundle.
pub trait CaSource: Debug + Send + Sync {
    /// The bundle's name, for messages.
    fn name(&self) -> &str;
    /// Reads the bundle.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self) -> CaText<'_>;
}

/// A bundle that is being read: PEM certificates.
pub type CaText<'a> = Pin<Box<dyn Future<Output = Result<String, Unavailable>> + Send + 'a>>;

/// Connections that are replaced when the CA bundle changes.
pub(crate) struct Connections {
    settings: ClientSettings,
    /// With the system's roots.
    public: Octocrab,
    /// With the bundle's, once it has been read.
    extended: Mutex<Option<Extended>>,
}

/// The result of a read of the bundle.
#[derive(Clone)]
struct Extended {
    octocrab: Octocrab,
    at: Time,
    bundle: Result<Usable, String>,
}

/// A bundle with at least one certificate that is valid.
#[derive(Clone)]
struct Usable {
    text: Arc<str>,
    /// The sentence about a certificate that has expired, if there is one.
    expired: Option<String>,
}

impl Connections {
    pub(crate) fn new(settings: &ClientSettings) -> Result<Self, SetupError> {
        let public = connect(settings, Vec::new())?;
        Ok(Self { settings: settings.clone(), public, extended: Mutex::default() })
    }

    /// Returns the connections. Reads the bundle if there is one and it was not read yet.
    pub(crate) async fn current(&self) -> Octocrab {
        match self.extended(None).await {
            Some(extended) => extended.octocrab,
            None => self.public.clone(),
        }
    }

    /// Returns the bundle's PEM text if there is one and it is usable.
    pub(crate) async fn bundle(&self) -> Option<Result<Arc<str>, String>> {
        Some(self.extended(None).await?.bundle.map(|bundle| bundle.text))
    }

    /// Returns connections with the bundle as it is now, after a certificate was rejected. `None`
    /// if there is no bundle, or it was read less than a minute ago.
    pub(crate) async fn renewed(&self) -> Option<Octocrab> {
        let now = (self.settings.clock)();
        let last = self.extended.lock().await.as_ref().map(|last| last.at)?;
        if !now.is_past(last, READ_PAUSE) {
            return None;
        }
        self.extended(Some(last)).await.map(|extended| extended.octocrab)
    }

    /// Reads the bundle, unless it was read after `outdated`.
    async fn extended(&self, outdated: Option<Time>) -> Option<Extended> {
        let source = self.settings.ca_source.as_deref()?;
        let mut known = self.extended.lock().await;
        if let Some(known) = known.as_ref().filter(|known| Some(known.at) != outdated) {
            return Some(known.clone());
        }
        let now = (self.settings.clock)();
        let (octocrab, bundle) = match self.extend(source, now).await {
            Ok((octocrab, bundle)) => (octocrab, Ok(bundle)),
            Err(problem) => {
                tracing::error!(problem, "the connections to GitHub do not trust the CA bundle");
                (self.public.clone(), Err(problem))
            }
        };
        let extended = Extended { octocrab, at: now, bundle };
        *known = Some(extended.clone());
        Some(extended)
    }

    async fn extend(&self, source: &dyn CaSource, now: Time) -> Result<(Octocrab, Usable), String> {
        let name = source.name();
        let text = source.read().await.map_err(|error| {
            let why = with_causes(&error);
            format!("the CA bundle {name} cannot be read ({why}); check the stack's parameter GitHubCaBundle")
        })?;
        let bundle = CaBundle::read(&text).map_err(|error| error.sentence(name))?;
        let expired = bundle.expired(name, now);
        let valid: Vec<CertificateDer<'static>> =
            bundle.valid(now).map(|one| one.der.clone()).collect();
        if let (true, Some(expired)) = (valid.is_empty(), &expired) {
            return Err(expired.clone());
        }
        let octocrab = connect(&self.settings, valid).map_err(|error| {
            let why = with_causes(&error);
            format!("the CA bundle {name} has no certificate of an authority ({why}); replace it")
        })?;
        Ok((octocrab, Usable { text: text.into(), expired }))
    }

    /// Returns why a call failed if GitHub's certificate was rejected, with the fix; otherwise
    /// `None`.
    pub(crate) async fn rejection(&self, error: &(dyn Error + 'static)) -> Option<String> {
        let rejected = causes(error).find_map(rejected)?;
        // A signature of another key is that of an authority which has the same name, such as a renewed one.
        let is_unknown =
            matches!(rejected, CertificateError::UnknownIssuer | CertificateError::BadSignature);
        let server = "GitHub's certificate";
        let unknown = format!("{server} is signed by an unknown authority");
        Some(match self.extended(None).await.map(|extended| extended.bundle) {
            Some(Err(problem)) => format!("{server} is not trusted: {problem}"),
            Some(Ok(bundle)) if is_unknown => {
                let name = self.settings.ca_source.as_ref().map_or("", |source| source.name());
                let expired = bundle.expired.map_or_else(String::new, |one| format!("; {one}"));
                format!("{unknown}: add its root certificate to the CA bundle {name}{expired}")
            }
            None if is_unknown => format!(
                "{unknown}: name its root certificate in the stack's parameter GitHubCaBundle (docs/network.md)"
            ),
            Some(Ok(_)) | None => {
                let why = rustls::Error::InvalidCertificate(rejected.clone());
                format!("{server} is rejected ({why}): renew it on the server")
            }
        })
    }
}

/// Returns why TLS rejected a certificate. An I/O error contains another error, which is not its
/// source.
fn rejected<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a CertificateError> {
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return rejected(error.get_ref()?);
    }
    match cause.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(rejected) => Some(rejected),
        _ => None,
    }
}

/// Creates octocrab with custom connections: ring, trusted roots, HTTP/1.1, and no retrying layer.
fn connect(
    settings: &ClientSettings,
    bundle: Vec<CertificateDer<'static>>,
) -> Result<Octocrab, SetupError> {
    let provider = rustls::crypto::ring::default_provider();
    let no_roots = |cause| SetupError { what: "no trusted roots".to_owned(), cause: Some(cause) };
    let builder = match bundle.is_empty() {
        true => HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)
            .map_err(|error| no_roots(Cause::new(error)))?,
        false => {
            let mut roots = RootCertStore::empty();
            if let (0, _) = roots.add_parsable_certificates(bundle) {
                return Err(no_roots(Cause::new("none can be parsed")));
            }
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            let config = ClientConfig::builder_with_provider(Arc::new(provider))
                .with_safe_default_protocol_versions()
                .map_err(|error| no_roots(Cause::new(error)))?;
            let config = config.with_root_certificates(roots).with_no_client_auth();
            HttpsConnectorBuilder::new().with_tls_config(config)
        }
    };
    // `Base` has already rejected http except for localhost.
    let tls = builder.https_or_http().enable_http1().build();
    let mut connector = TimeoutConnector::new(tls);
    connector.set_connect_timeout(Some(settings.connect_timeout));
    connector.set_read_timeout(Some(settings.read_timeout));
    connector.set_write_timeout(Some(settings.read_timeout));
    let connections: HttpClient<_, OctoBody> =
        HttpClient::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_KEPT).build(connector);
    let built =
        OctocrabBuilder::new_empty().with_service(connections).with_auth(AuthState::None).build();
    match built {
        Ok(octocrab) => Ok(octocrab),
        Err(never) => match never {},
    }
}
