//! A key of no real App. Stored without its PEM frame, so that secret scanners do not report it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;

const PKCS1: &str = "\
MIIEowIBAAKCAQEA8LbYCbzy4ilppb2HK1RN3+RMmPpJUwONvG8+3px1VMs6V/N/RB2ULSfpC0JwFFljybdrJmnhlPZg\
Ve+JMYFNMMKaDnvJphD7Z4UH4Xi6kBF8MOWZH+ZbpdTngVMyGN8J+E1rE8fKPv6+pil/HD534MsX0RN0kGSTQaOvL18w\
XvdzhccQ6uNHGyxJWE6B2B21vZbVmJ2vHo0kJVF7QsH0O4nuGkpTyT6PQwIdGGTK3I378W1pppiM8ShBzCOovf0+U/m8\
/3OBzhF4ZJd5/AuEe4oXs5OpiLv8+LT72ZlXdNnjCeKVb2Kj2oBa9l9Wb2bQZdatDrEdZuZTQiq8xlSiAwIDAQABAoIB\
AF2p+ARKBoRkMtywE9GTWz38WqXH9hIcNuGUs/TxEmKtNYWVlPbPP6IWfoLIFk6EveR2v3XSC1noSHIH4+1kb8HCZymt\
lzhMMVcFl5xvWsDGXPm1zVBxVUYAwxg6ZCrzVrDMhxbKTfMXMt37FZ/K2uCYhirvlBK/X+FRrNAVDQBWLeEHlIAQ4kJI\
OpqihAYSOdkc5iYg/zbugb8PexXppVYmPezJSIc1mQ+uuf7Av0BfgDU0EoZHUSr/zNxWZtllp2LNrbU6k9RjSc5e0/I0\
rcWZ8rK3HZpa+90+zvd730NQGNhlmLbwSS+8BwF9lZhkD/+cjwLU6RohNwKkqApQf7ECgYEA/Je41l4FBRoKGg8J++FA\
3lC8YnUAoXPaAU6Tr+jrSJ1Cc34nuYKp8zbihjsG+0d3ZWHedy7u5TpGXbM5ej423savos2PTy6X3+E8gsk3YuXhy09f\
NYlMgL+7BYIEnSNBbxKKz5z6JQjKt+iVvXsDbPCgMolW5sYnz8q6ddu2thkCgYEA8/YaI7SZFksx78/lqOxzLHXuUvG/\
y1dMzbbGhtJtdgXnd4cXefnSiU1T4oCez+woTQJhLtE7DY4YUBf1XO5B0qR1Wr7VZmIqrbqDJdk+9u1E3vOZ7rADMbtx\
uSmf9rsCc4oi2NHtIxghNJyQUKpTQyLZRZzGFMlgz00eRecgxHsCgYAIH+k2G/gVXe0NQYaUr34iqH4mvJS0nMFaYWim\
s9s9jrFgfaJReT52MEHBB40F8BqLDEbXlo7gmKtCwE0M/YtORx3HIs2FQn5oGRqVKlu5tqM4oujxE+V+Dqy5VKFJXKTy\
KaqFWwtAvbOnjreiTJ6jlmnQtlIxQhZtvJuaxuJtoQKBgBibD9PeGTqoZub7HvzErHEli94Nx/xoV7S/5JIgky2+NrRV\
icahrdxvUjCcLGhoN0BdJxQjwkMBu+4IHJU86qKmN7fpW3iyGf/fue6NVM5u6+1YwIPUeN4BO90jF6E5B2xD2HPp6HML\
sf2udNfN9gvlbeiZgVkDXqJJ8u21/BYVAoGBANMXKbcgaW6qZTMYqAeyA+6ouCW8IWdTMdQFdgrxWHEB2fMMC1dCPxB1\
1DF6DqUPp2xvUIp0csXni6higwoIPmqGqc3q3Dgmh0fwzXckMrEqfuEJU0L49ZiJTmF6LufUMndcMnEnrH3U+eT5bjSB\
E+UgYLid0i7iXkKDY1rI9yzz";

const PUBLIC: &str = "\
MIIBCgKCAQEA8LbYCbzy4ilppb2HK1RN3+RMmPpJUwONvG8+3px1VMs6V/N/RB2ULSfpC0JwFFljybdrJmnhlPZgVe+J\
MYFNMMKaDnvJphD7Z4UH4Xi6kBF8MOWZH+ZbpdTngVMyGN8J+E1rE8fKPv6+pil/HD534MsX0RN0kGSTQaOvL18wXvdz\
hccQ6uNHGyxJWE6B2B21vZbVmJ2vHo0kJVF7QsH0O4nuGkpTyT6PQwIdGGTK3I378W1pppiM8ShBzCOovf0+U/m8/3OB\
zhF4ZJd5/AuEe4oXs5OpiLv8+LT72ZlXdNnjCeKVb2Kj2oBa9l9Wb2bQZdatDrEdZuZTQiq8xlSiAwIDAQAB";

/// `SEQUENCE { rsaEncryption, NULL }`, which identifies the algorithm of every RSA key in PKCS#8.
const ALGORITHM: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

/// The key in GitHub's format.
pub(crate) fn pkcs1() -> SecretString {
    frame("RSA PRIVATE KEY", &STANDARD.decode(PKCS1).expect("base64"))
}

/// The key as openssl converts it.
pub(crate) fn pkcs8() -> SecretString {
    let key = element(0x04, &STANDARD.decode(PKCS1).expect("base64"));
    let version = [0x02, 0x01, 0x00];
    frame("PRIVATE KEY", &element(0x30, &[&version, ALGORITHM, &key].concat()))
}

/// The public key, in ring's format.
pub(crate) fn public() -> Vec<u8> {
    STANDARD.decode(PUBLIC).expect("base64")
}

pub(crate) fn frame(label: &str, der: &[u8]) -> SecretString {
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in STANDARD.encode(der).as_bytes().chunks(64) {
        pem.push_str(std::str::from_utf8(line).expect("ascii"));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    SecretString::from(pem)
}

/// A DER element whose length needs two bytes.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("short").to_be_bytes();
    [&[tag, 0x82], length.as_slice(), content].concat()
}
