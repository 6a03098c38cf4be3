use super::{CaBundle, CaBundleError};
use crate::time::Time;

/// Two self-signed certificates: the first one's validity ends before 2050, which has a different form.
const BUNDLE: &str = "# A comment
-----BEGIN CERTIFICATE-----
MIIBfzCCASWgAwIBAgIUUki9f1ECNXNg+czPZHp5wSnMDn0wCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKRXhhbXBsZSBDQTAeFw0yNjExMjgxNjQ3NDNaFw0zNjExMjUx
NjQ3NDNaMBUxEzARBgNVBAMMCkV4YW1wbGUgQ0EwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASJ4AHCXv8x9du84CngaxxLXW9xCVTDpoWne5mGs1XXmEUPYqzj+6VO
PUlBB4WRrzvpSVtVnoA9CPyPsZ2ZIMXGo1MwUTAdBgNVHQ4EFgQUJSqYCYgF0fp2
4nHn+zhdkIqWPM4wHwYDVR0jBBgwFoAUJSqYCYgF0fp24nHn+zhdkIqWPM4wDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiBa5Uggua+eRlkFMOR1DL77
KwpAPjpCrj7xwH/hnZYqDQIhANlPtDsiz8LA14VxTZ0eUUYEd+ykNDNMwHaH3kM5
RaZz
-----END CERTIFICATE-----
-----BEGIN CERTIFICATE-----
MIIBgjCCASegAwIBAgIUE2GXkDC/eRrWB5KDXojPHrEOksowCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKRXhhbXBsZSBDQTAgFw0yNjExMjgxNjQ3NDNaGA8yMDY3MTIy
MzE2NDc0M1owFTETMBEGA1UEAwwKRXhhbXBsZSBDQTBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABLgq1nVzcsv4kwklq20HgNscgF4Fr6Is95AFd3KNYP7lswHTM7fd
HBQTAO84haq+rA0hCJBDuHYkyIRO3M7Yt1KjUzBRMB0GA1UdDgQWBBSkq+O/BsOK
iBh5rQJg0+k40d2+rjAfBgNVHSMEGDAWgBSkq+O/BsOKiBh5rQJg0+k40d2+rjAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0kAMEYCIQDYfynz+uKtTbw4BbJh
kEuBaL+b9JQiSpEgJxfnzztyqQIhAJSc55dL3YkJwT6LG/4unwk/xnanbBDgW9XM
ze4t+A1g
-----END CERTIFICATE-----
";

fn at(text: &str) -> Time {
    text.parse().expect("a time")
}

#[test]
fn a_bundle_has_each_certificate_with_its_end() {
    let bundle = CaBundle::read(BUNDLE).expect("a bundle");
    let ends: Vec<Time> = bundle.certificates.iter().map(|one| one.expires_at).collect();
    assert_eq!(ends, [at("2036-11-25T16:47:43Z"), at("2067-12-23T16:47:43Z")]);
    let expired = |now| bundle.expired("/github/ca", at(now));
    assert_eq!(expired("2036-11-25T16:47:43Z"), None);
    assert_eq!(bundle.valid(at("2036-11-25T16:47:44Z")).count(), 1);
    let told = expired("2036-11-25T16:47:44Z").expect("expired");
    assert_eq!(
        told,
        "certificate 1 of the CA bundle /github/ca expired on 2036-11-25; replace it with the authority's current one"
    );
}

#[test]
fn what_is_not_a_bundle_is_described() {
    let (first, second) = BUNDLE.split_at(BUNDLE.rfind("-----BEGIN").expect("two"));
    let cut = &second[second.len() - 60..];
    let key = first.replace("CERTIFICATE", "PRIVATE KEY");
    let other = first.replace("MIIBfzCCASWg", "MIIBfzCCASWh").replace("MIIBfzCC", "MIIBfzCD");
    for (text, error) in [
        ("", CaBundleError::Empty),
        ("no certificate", CaBundleError::Empty),
        (key.as_str(), CaBundleError::Empty),
        (other.as_str(), CaBundleError::Unreadable(1)),
        (&format!("{first}-----BEGIN CERTIFICATE-----\n{cut}"), CaBundleError::Unreadable(2)),
        (&" ".repeat(super::MAX_BUNDLE + 1), CaBundleError::TooLarge),
    ] {
        assert_eq!(CaBundle::read(text), Err(error), "{text}");
    }
    assert_eq!(
        CaBundleError::Unreadable(2).sentence("s3://b/ca.pem"),
        "the CA bundle s3://b/ca.pem has a certificate that cannot be parsed, number 2; replace it with the authority's certificates as PEM"
    );
}
