//! How many states each world has at least. A world that shrinks below its floor has lost something
//! that could happen.

/// One machine's way out, every single fault, a GitHub that lies.
pub const STOP: usize = 200_000;
/// The same with an operator's order of any kind, without other faults.
pub const STOP_ORDERED: usize = 200_000;
/// The same with GitHub (401) and EC2 dead for good.
pub const STOP_UNAUTHORIZED: usize = 500_000;
/// The same with GitHub (5xx) and EC2 dead for good.
pub const STOP_UNAVAILABLE: usize = 600_000;

/// All together.
pub const ALL: usize = STOP + STOP_ORDERED + STOP_UNAUTHORIZED + STOP_UNAVAILABLE;

const _: () = assert!(ALL >= 1_000_000, "the exploration must cover a million states");
