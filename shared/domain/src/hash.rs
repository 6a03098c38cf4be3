//! The hash function for values that must not change between releases: shards, IDs and nonces. The
//! standard library's hash may differ between compiler versions.

/// Computes FNV-1a, 64 bits.
/// Source: isthe.com/chongo/tech/comp/fnv
#[must_use]
pub fn fnv1a(bytes: &[u8]) -> u64 {
    fnv1a_on(0xcbf2_9ce4_8422_2325, bytes)
}

/// Continues FNV-1a from the hash of the preceding bytes.
#[must_use]
pub fn fnv1a_on(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::{fnv1a, fnv1a_on};

    #[test]
    fn the_hash_is_fnv1a() {
        // Test vectors of the authors of FNV.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(fnv1a_on(fnv1a(b"foo"), b"bar"), fnv1a(b"foobar"));
    }
}
