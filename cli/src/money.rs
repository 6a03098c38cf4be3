//! Formats money and counts for people. Money is in millionths of a dollar.

const DOLLAR: u64 = 1_000_000;

/// Formats dollars, such as `$1,204.50`; amounts below a dollar keep their significant digits, such
/// as `$0.0040`.
#[must_use]
pub fn dollars(micros: u64) -> String {
    if micros < DOLLAR {
        let digits = micros.div_ceil(100).min(9_999);
        return if micros == 0 { "$0".to_owned() } else { format!("$0.{digits:04}") };
    }
    let cents = (micros + 5_000) / 10_000;
    format!("${}.{:02}", thousands(cents / 100), cents % 100)
}

/// Formats dollars with all digits and without a sign, for programs.
#[must_use]
pub fn exact(micros: u64) -> String {
    format!("{}.{:06}", micros / DOLLAR, micros % DOLLAR)
}

/// Formats a count, such as `9,412`.
#[must_use]
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

/// Formats a share, such as `62 %`; empty if the whole is zero.
#[must_use]
pub fn share(part: u64, whole: u64) -> String {
    match (u128::from(part) * 100 + u128::from(whole) / 2).checked_div(u128::from(whole)) {
        None => String::new(),
        Some(0) if part > 0 => "<1 %".to_owned(),
        Some(percent) => format!("{percent} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_keeps_the_digits_that_matter() {
        let told = [0, 1, 4_000, 999_999, 1_000_000, 73_324_900, 1_204_500_000].map(dollars);
        let expected = ["$0", "$0.0001", "$0.0040", "$0.9999", "$1.00", "$73.32", "$1,204.50"];
        assert_eq!(told, expected);
        let rounded = [101, 1_004_999, 1_005_000, 999_995_000].map(dollars);
        assert_eq!(rounded, ["$0.0002", "$1.00", "$1.01", "$1,000.00"]);
        assert_eq!(exact(73_324_901), "73.324901");
        assert_eq!(exact(42), "0.000042");
    }

    #[test]
    fn a_share_is_of_something() {
        assert_eq!(
            [share(0, 0), share(1, 900), share(62, 100), share(0, 5)],
            ["", "<1 %", "62 %", "0 %"]
        );
        let rounded = [share(1, 200), share(1, 201), share(624, 1_000), share(625, 1_000)];
        assert_eq!(rounded, ["1 %", "<1 %", "62 %", "63 %"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
