//! What machines cost.

/// Millionths of a dollar an hour: the list prices of Linux in us-east-1
/// (aws.amazon.com/ec2/pricing/on-demand), and one for all others.
#[must_use]
pub fn on_demand(kind: &str) -> u64 {
    match kind {
        "m7i.large" => 100_800,
        "m7a.large" => 115_920,
        _ => 96_000,
    }
}

/// Spot's price moves; here it is 40 % of the list's.
#[must_use]
pub fn spot(kind: &str) -> u64 {
    on_demand(kind) * 2 / 5
}

/// A month of a GiB of gp3.
pub const DISK: u64 = 80_000;
