//! GitHub's webhook signature.
//!
//! Source: docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries

use hmac::{Hmac, KeyInit, Mac};
use muster_domain::ids::AppName;
use sha2::Sha256;

/// Minimum length of a webhook secret, in bytes. With a shorter one, and especially an empty one,
/// anyone could forge signatures.
pub const MIN_SECRET: usize = 32;

const PREFIX: &str = "sha256=";

/// Returns whether `header` is the signature of `body` with one of the secrets.
///
/// `header` must be exactly `sha256=` and 64 hexadecimal digits; this excludes two headers joined
/// by a comma, as the gateway delivers duplicates. Several secrets are accepted so that one can be
/// changed without losing deliveries signed with the other. The comparison takes constant time.
#[must_use]
pub fn is_valid<S: AsRef<[u8]>>(secrets: &[S], header: Option<&str>, body: &[u8]) -> bool {
    let Some(digest) = header.and_then(decode) else {
        return false;
    };
    // No short cut on the first match: the timing must not reveal which secret matches.
    secrets.iter().fold(false, |valid, secret| valid | matches(secret.as_ref(), &digest, body))
}

/// Returns the secret of an App's webhook: the main App's is the stack's own. The others' are derived
/// from it, so that the webhook needs no further secret: knowing one App's secret reveals neither the
/// stack's nor another App's.
#[must_use]
pub fn secret_of(app: AppName, stacks: &str) -> String {
    if app == AppName::MAIN {
        return stacks.to_owned();
    }
    let mut mac =
        Hmac::<Sha256>::new_from_slice(stacks.as_bytes()).expect("HMAC accepts keys of any length");
    mac.update(format!("webhook secret of App {app}").as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

fn decode(header: &str) -> Option<[u8; 32]> {
    let digits = header.strip_prefix(PREFIX)?;
    let mut digest = [0; 32];
    hex::decode_to_slice(digits, &mut digest).ok()?;
    Some(digest)
}

fn matches(secret: &[u8], digest: &[u8; 32], body: &[u8]) -> bool {
    if secret.len() < MIN_SECRET {
        return false;
    }
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else {
        return false;
    };
    mac.update(body);
    mac.verify_slice(digest).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn sign(secret: &[u8], body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length");
        mac.update(body);
        format!("{PREFIX}{}", hex::encode(mac.finalize().into_bytes()))
    }

    /// The example in GitHub's documentation. Its secret is only 28 bytes long, so it is checked
    /// directly against the digest, below our minimum length.
    #[test]
    fn agrees_with_githubs_example() {
        let digest = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let signed = sign(b"It's a Secret to Everybody", b"Hello, World!");
        assert_eq!(signed, format!("{PREFIX}{digest}"));
    }

    #[test]
    fn current_and_previous_secret_are_accepted() {
        let other = b"ffffffffffffffffffffffffffffffff".as_slice();
        let header = sign(SECRET, b"body");
        assert!(is_valid(&[SECRET], Some(&header), b"body"));
        assert!(is_valid(&[other, SECRET], Some(&header), b"body"));
        assert!(!is_valid(&[other], Some(&header), b"body"));
        assert!(!is_valid::<&[u8]>(&[], Some(&header), b"body"));
    }

    /// A delivery that is signed with one App's secret proves nothing about another.
    #[test]
    fn each_app_has_its_own_secret() {
        let stacks = std::str::from_utf8(SECRET).expect("text");
        let apps = ["main", "one", "two"].map(|name| name.parse::<AppName>().expect("a name"));
        let secrets = apps.map(|app| secret_of(app, stacks));
        assert_eq!(secrets[0], stacks);
        for (signer, secret) in secrets.iter().enumerate() {
            assert!(secret.len() >= MIN_SECRET);
            let header = sign(secret.as_bytes(), b"body");
            for (app, own) in secrets.iter().enumerate() {
                assert_eq!(is_valid(&[own], Some(&header), b"body"), app == signer);
            }
        }
    }

    #[test]
    fn short_secrets_never_match() {
        for secret in [b"".as_slice(), b"short"] {
            assert!(!is_valid(&[secret], Some(&sign(secret, b"body")), b"body"));
        }
    }

    #[test]
    fn only_the_exact_form_of_the_header_is_read() {
        let good = sign(SECRET, b"body");
        let digits = &good[PREFIX.len()..];
        let upper = format!("{PREFIX}{}", digits.to_uppercase());
        assert!(is_valid(&[SECRET], Some(&upper), b"body"));
        let bad = [
            String::new(),
            digits.to_owned(),
            format!("sha1={digits}"),
            format!("SHA256={digits}"),
            format!(" {good}"),
            format!("{good} "),
            format!("{good},{good}"),
            format!("{good}00"),
            good[..good.len() - 1].to_owned(),
            good[..good.len() - 2].to_owned(),
            format!("{PREFIX}{}", "é".repeat(32)),
            format!("{PREFIX}{}", "zz".repeat(32)),
            format!("{PREFIX}{PREFIX}{digits}"),
        ];
        for header in bad {
            assert!(!is_valid(&[SECRET], Some(&header), b"body"), "{header:?}");
        }
        assert!(!is_valid(&[SECRET], None, b"body"));
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let body = b"{\"action\":\"queued\"}";
        let header = sign(SECRET, body);
        for bit in 0..body.len() * 8 {
            let mut changed = body.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_valid(&[SECRET], Some(&header), &changed));
        }
        for bit in 0..SECRET.len() * 8 {
            let mut changed = SECRET.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_valid(&[changed], Some(&header), body));
        }
    }
}
