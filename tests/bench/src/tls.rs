//! A certificate authority of our own, for the length of a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Where systems keep their trusted roots; the first one is Lambda's.
const SYSTEM_ROOTS: &[&str] = &[
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/cert.pem",
];

/// The stubs' side of TLS, and the file of roots that the functions are to trust.
pub(crate) struct Tls {
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) roots: PathBuf,
}

/// Makes a certificate for this machine and writes a file with its authority among the system's
/// roots: reading a hundred of them is part of a real start.
pub(crate) fn prepare(folder: &Path) -> anyhow::Result<Tls> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate()?;
    let root = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(names)?.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;

    let system = SYSTEM_ROOTS.iter().find_map(|path| std::fs::read_to_string(path).ok());
    let roots = folder.join("roots.pem");
    std::fs::write(&roots, format!("{}\n{root}", system.context("the system has no roots")?))?;
    Ok(Tls { server: Arc::new(server), roots })
}
