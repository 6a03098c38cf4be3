//! The one source of chance: a seed decides everything that follows.

/// `SplitMix64` (Steele, Lea, Flood 2014): small, fast, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts at a seed. Neighbouring seeds lead to unrelated sequences.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed ^ 0x6a09_e667_f3bc_c908)
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; zero when the bound is zero.
    pub const fn below(&mut self, bound: u64) -> u64 {
        // The bias of a plain multiply-shift is far below what a test could notice.
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub const fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low) as u64 + 1) as i64
    }

    /// True with a chance of `ppm` in a million.
    pub const fn chance(&mut self, ppm: u32) -> bool {
        self.below(1_000_000) < ppm as u64
    }

    /// An index into something of this length, which must not be zero.
    pub const fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_published_generator() {
        // The first numbers of SplitMix64 from the state 1234567, as its authors give them.
        let mut rng = Rng(1_234_567);
        let first =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([rng.next(), rng.next(), rng.next()], first);
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 5];
        for _ in 0..5_000 {
            seen[usize::try_from(rng.between(-2, 2) + 2).expect("from 0 to 4")] += 1;
        }
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.between(7, 7), 7);
    }

    #[test]
    fn a_chance_is_as_likely_as_it_says() {
        let mut rng = Rng::new(2);
        let mut hits = |ppm| (0..100_000).filter(|_| rng.chance(ppm)).count();
        assert_eq!((hits(0), hits(1_000_000)), (0, 100_000));
        assert!((900..1_100).contains(&hits(10_000)));
        assert!((49_000..51_000).contains(&hits(500_000)));
    }

    #[test]
    fn neighbouring_seeds_have_nothing_in_common() {
        let bits =
            (0..64).map(|seed| (Rng::new(seed).next() ^ Rng::new(seed + 1).next()).count_ones());
        assert!((24..40).contains(&(bits.sum::<u32>() / 64)));
    }
}
