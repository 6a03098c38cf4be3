//! A server behind a certificate of a private authority.

use std::sync::{Arc, Mutex};

use muster_control::ports::Unavailable;
use muster_github::{CaSource, CaText};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub(crate) pem: String,
}

impl Authority {
    /// Creates an authority whose certificate ends in this year.
    pub(crate) fn until(year: i32) -> Self {
        let mut own = CertificateParams::new(Vec::new()).expect("parameters");
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        own.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let pem = own.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(own, key), pem }
    }

    /// Starts a server on a free port of this host that passes connections to `to`, an address with
    /// a port. Returns its URL.
    pub(crate) async fn front(&self, to: String) -> String {
        let key = KeyPair::generate().expect("a key");
        let names = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        let certificate = names.signed_by(&key, &self.issuer).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("a certificate and its key");
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.expect("a connection");
                let (tls, to) = (tls.clone(), to.clone());
                tokio::spawn(async move {
                    // A client that rejects the certificate ends the handshake.
                    let Ok(mut client) = tls.accept(client).await else { return };
                    let mut server = TcpStream::connect(to).await.expect("the server");
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        format!("https://localhost:{port}")
    }
}

/// A bundle that can be replaced; `None` cannot be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bundle {
    pub(crate) text: Arc<Mutex<Option<String>>>,
    pub(crate) reads: Arc<Mutex<u32>>,
}

impl Bundle {
    pub(crate) fn of(text: &str) -> Self {
        let text = Arc::new(Mutex::new(Some(text.to_owned())));
        Self { text, ..Self::default() }
    }
}

impl CaSource for Bundle {
    fn name(&self) -> &'static str {
        "/github/ca"
    }

    fn read(&self) -> CaText<'_> {
        *self.reads.lock().expect("lock") += 1;
        let text = self.text.lock().expect("lock").clone();
        Box::pin(async { text.ok_or_else(|| Unavailable::new("ParameterNotFound")) })
    }
}
