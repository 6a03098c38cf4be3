//! A CA bundle: PEM certificates of authorities that the system does not know, such as a company's
//! own.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{self, PemObject as _};

use crate::time::Time;

/// The code of an error caused by a certificate of GitHub that is not trusted.
pub const UNTRUSTED: &str = "certificate";
/// The maximum size of a bundle in bytes. Machines get it with their configuration.
pub const MAX_BUNDLE: usize = 1 << 20;

/// The certificates of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaBundle {
    /// In the order of the file.
    pub certificates: Vec<CaCertificate>,
}

/// A certificate of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaCertificate {
    /// The DER form.
    pub der: CertificateDer<'static>,
    /// The end of its validity.
    pub expires_at: Time,
}

/// Why a bundle cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaBundleError {
    /// It contains no certificate.
    #[error("contains no certificate in PEM form (\"-----BEGIN CERTIFICATE-----\")")]
    Empty,
    /// It contains more than certificates of authorities.
    #[error("is larger than {} KiB", MAX_BUNDLE >> 10)]
    TooLarge,
    /// This certificate cannot be parsed. The first one is 1.
    #[error("has a certificate that cannot be parsed, number {0}")]
    Unreadable(usize),
}

impl CaBundle {
    /// Parses a PEM file. Other contents, such as comments, are ignored.
    ///
    /// # Errors
    /// If a certificate cannot be parsed, or there is none.
    pub fn read(text: &str) -> Result<Self, CaBundleError> {
        if text.len() > MAX_BUNDLE {
            return Err(CaBundleError::TooLarge);
        }
        let mut certificates = Vec::new();
        for (number, der) in (1..).zip(CertificateDer::pem_slice_iter(text.as_bytes())) {
            let read = |der: Result<CertificateDer<'static>, pem::Error>| {
                let der = der.ok()?;
                Some(CaCertificate { expires_at: end(&der)?, der })
            };
            certificates.push(read(der).ok_or(CaBundleError::Unreadable(number))?);
        }
        if certificates.is_empty() { Err(CaBundleError::Empty) } else { Ok(Self { certificates }) }
    }

    /// Returns the certificates that have not expired. TLS libraries do not check the validity of a
    /// trusted root, so the others must not be given to one.
    pub fn valid(&self, now: Time) -> impl Iterator<Item = &CaCertificate> {
        self.certificates.iter().filter(move |one| one.expires_at >= now)
    }

    /// Describes the first expired certificate of the bundle `name` and the fix, without a full
    /// stop. `None` if all are valid.
    #[must_use]
    pub fn expired(&self, name: &str, now: Time) -> Option<String> {
        let mut ends = (1..).zip(self.certificates.iter().map(|one| one.expires_at));
        let (number, end) = ends.find(|(_, end)| *end < now)?;
        let text = end.to_string();
        let day = text.split('T').next().unwrap_or_default();
        Some(format!(
            "certificate {number} of the CA bundle {name} expired on {day}; replace it with the authority's current one"
        ))
    }
}

impl CaBundleError {
    /// Describes the problem with the bundle `name` and its fix, without a full stop.
    #[must_use]
    pub fn sentence(&self, name: &str) -> String {
        format!("the CA bundle {name} {self}; replace it with the authority's certificates as PEM")
    }
}

/// Returns the end of a certificate's validity. `None` if it is not an X.509 certificate.
///
/// Source: RFC 5280, sections 4.1 and 4.1.2.5
fn end(certificate: &[u8]) -> Option<Time> {
    const VERSION: u8 = 0xA0;
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    let (_, certificate, _) = element(certificate)?;
    let (_, mut fields, _) = element(certificate)?;
    if fields.first() == Some(&VERSION) {
        fields = element(fields)?.2;
    }
    // The serial number, the signature's algorithm, and the issuer.
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let (_, validity, _) = element(fields)?;
    let (_, _, not_after) = element(validity)?;
    let (tag, text, _) = element(not_after)?;
    let text = std::str::from_utf8(text).ok()?;
    let text = match tag {
        // Two digits of the year.
        UTC_TIME if text.get(..2)? < "50" => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| text.get(from..to);
    let (day, time) = ((part(0, 4)?, part(4, 6)?, part(6, 8)?), (part(8, 10)?, part(10, 12)?));
    let seconds = part(12, 14)?;
    format!("{}-{}-{}T{}:{}:{seconds}Z", day.0, day.1, day.2, time.0, time.1).parse().ok()
}

/// Splits DER into the first element's tag and contents, and the rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        ..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

#[cfg(test)]
mod tests;
