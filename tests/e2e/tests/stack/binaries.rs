//! The binaries as they are deployed.

use anyhow::{Context as _, Result, ensure};
use e2e::Test;
use e2e::local::root;
use e2e::logs::FUNCTIONS;

/// What Lambda's `provided.al2023` has.
const NEWEST: (u32, u32) = (2, 34);

pub(super) async fn glibc(test: Test) -> Result<()> {
    for function in FUNCTIONS {
        let path = root().join("dist").join(function).join("bootstrap");
        let binary =
            std::fs::read(&path).with_context(|| format!("{}: `make build`", path.display()))?;
        ensure!(binary.starts_with(b"\x7fELF"), "{} is no ELF binary", path.display());
        let needed = versions(&binary);
        let most = needed.iter().max().copied().with_context(|| {
            format!("{function} names no version of glibc: is it linked in another way now?")
        })?;
        ensure!(most <= NEWEST, "{function} needs GLIBC_{}.{}", most.0, most.1);
        let size = binary.len() as f64 / 1e6;
        test.shows(format!("{function}: GLIBC_{}.{} at most, {size:.1} MB", most.0, most.1));
    }
    Ok(())
}

/// Every `GLIBC_x.y` in the file. The names of the versions that symbols need stand in its string
/// table; what stands there beyond that can only make the answer stricter.
fn versions(binary: &[u8]) -> Vec<(u32, u32)> {
    const PREFIX: &[u8] = b"GLIBC_";
    let starts = binary.windows(PREFIX.len()).enumerate().filter(|(_, window)| *window == PREFIX);
    starts
        .filter_map(|(at, _)| {
            let rest = &binary[at + PREFIX.len()..];
            let text: String = rest
                .iter()
                .map(|byte| char::from(*byte))
                .take_while(|c| c.is_ascii_digit() || *c == '.')
                .collect();
            let mut parts = text.split('.').map(|part| part.parse::<u32>().ok());
            Some((parts.next()??, parts.next()??))
        })
        .collect()
}
