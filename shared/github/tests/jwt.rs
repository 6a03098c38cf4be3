//! The App's token, verified with the public key.

mod support;

use std::error::Error as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_domain::causes::with_causes;
use muster_domain::time::Time;
use muster_github::jwt::{nonce, sign};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use support::{START, key};

fn part(token: &str, n: usize) -> Value {
    let part = token.split('.').nth(n).expect("three parts");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("base64url")).expect("JSON")
}

fn assert_signed(token: &str) {
    let (signed, signature) = token.rsplit_once('.').expect("three parts");
    let signature = URL_SAFE_NO_PAD.decode(signature).expect("base64url");
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key::public())
        .verify(signed.as_bytes(), &signature)
        .expect("our signature");
}

#[test]
fn the_claims_are_what_github_asks_for() {
    let token = sign("4242", &key::pkcs1(), START, [0; 16]).expect("signed");
    let token = token.expose_secret();
    assert_signed(token);
    assert_eq!(part(token, 0), json!({"alg": "RS256", "typ": "JWT"}));
    let now = START.as_secs();
    assert_eq!(
        part(token, 1),
        json!({"iss": "4242", "iat": now - 60, "exp": now + 540, "jti": "AAAAAAAAAAAAAAAAAAAAAA"})
    );
}

#[test]
fn both_forms_of_the_key_sign_alike() {
    let one = sign("1", &key::pkcs1(), START, [7; 16]).expect("PKCS#1");
    let eight = sign("1", &key::pkcs8(), START, [7; 16]).expect("PKCS#8");
    // PKCS#1 v1.5 signatures are deterministic.
    assert_eq!(one.expose_secret(), eight.expose_secret());
    let spelt_out = SecretString::from(key::pkcs1().expose_secret().replace('\n', "\\n"));
    let spelt_out = sign("1", &spelt_out, START, [7; 16]).expect("spelt out");
    assert_eq!(one.expose_secret(), spelt_out.expose_secret());
}

#[test]
fn two_tokens_of_one_second_differ() {
    let token = || sign("1", &key::pkcs1(), START, nonce().expect("random")).expect("signed");
    let (a, b) = (token(), token());
    assert_ne!(part(a.expose_secret(), 1)["jti"], part(b.expose_secret(), 1)["jti"]);
    assert_ne!(a.expose_secret(), b.expose_secret());
}

#[test]
fn a_changed_token_does_not_verify() {
    let token = sign("1", &key::pkcs1(), START, [1; 16]).expect("signed");
    let changed = token.expose_secret().replacen("ey", "eZ", 1);
    let (signed, signature) = changed.rsplit_once('.').expect("three parts");
    let signature = URL_SAFE_NO_PAD.decode(signature).expect("base64url");
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key::public());
    assert!(key.verify(signed.as_bytes(), &signature).is_err());
}

#[test]
fn keys_that_cannot_sign_are_refused_without_being_shown() {
    let whole = key::pkcs1().expose_secret().to_owned();
    let bad = [
        SecretString::from(""),
        SecretString::from(r#"{"placeholder":"CANARY"}"#),
        SecretString::from(whole[..whole.len() / 2].to_owned()),
        key::frame("EC PRIVATE KEY", b"CANARY"),
        key::frame("RSA PRIVATE KEY", b"CANARY"),
        key::frame("PRIVATE KEY", b"CANARY"),
        key::frame("RSA PUBLIC KEY", &key::public()),
        // Line breaks lost in a shell.
        SecretString::from(whole.replace('\n', " ")),
    ];
    for pem in bad {
        let Err(error) = sign("1", &pem, START, [0; 16]) else { panic!("accepted") };
        let shown = format!("{error} {error:?} {}", with_causes(&error));
        assert!(shown.starts_with("the App's private key: "), "{shown}");
        let bytes = format!("{:?}", &whole.as_bytes()[100..120]);
        let bytes = bytes.trim_matches(['[', ']']);
        for secret in ["CANARY", "Q0FOQVJZ", &whole[100..120], bytes] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

#[test]
fn a_key_that_is_refused_keeps_rings_reason() {
    let pem = key::frame("RSA PRIVATE KEY", b"no DER");
    let Err(error) = sign("1", &pem, START, [0; 16]) else { panic!("accepted") };
    assert_eq!(error.to_string(), "the App's private key: not a usable RSA key");
    assert!(error.source().is_some(), "ring's reason is lost: {error:?}");
}

#[test]
fn a_clock_before_the_epoch_does_not_panic() {
    assert!(sign("1", &key::pkcs1(), Time::from_millis(0), [0; 16]).is_ok());
}
