//! Unpacks a machine's log. A job may have replaced it with something else, so it is only shown as text.

use miniz_oxide::inflate::decompress_to_vec_with_limit;

use crate::display::clean;

/// Maximum length of the text in bytes: a machine uploads less (`infra/machine/machine.py`).
const MAX_TEXT: usize = 256 << 20;
/// The length of a gzip header without optional fields.
/// Source: RFC 1952, 2.3
const HEADER: usize = 10;
/// The length of the trailer: checksum and size.
const TRAILER: usize = 8;

/// Returns the text of a log, safe for a terminal.
///
/// # Errors
/// Fails when it is not a log.
pub fn text(file: &[u8]) -> Result<String, &'static str> {
    let is_plain_gzip = matches!(file, [0x1f, 0x8b, 8, 0, ..]);
    let packed = file.get(HEADER..file.len().saturating_sub(TRAILER)).filter(|_| is_plain_gzip);
    let text = decompress_to_vec_with_limit(packed.ok_or("not a gzip file")?, MAX_TEXT)
        .map_err(|_| "its compression is broken, or it is too long")?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().map(|line| clean(line) + "\n").collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_text_and_nothing_else() {
        // `gzip.compress(b"==> journal <==\n\x1b[31mred\n", mtime=0)`, as Python has it.
        let log: &[u8] = &[
            31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 179, 181, 181, 83, 200, 202, 47, 45, 202, 75, 204, 81,
            176, 177, 181, 229, 146, 142, 54, 54, 204, 45, 74, 77, 225, 2, 0, 55, 109, 57, 38, 25,
            0, 0, 0,
        ];
        assert_eq!(text(log), Ok("==> journal <==\n [31mred\n".to_owned()));
        for broken in [&b""[..], b"plain", &log[..12], &log[..30]] {
            assert!(text(broken).is_err(), "{broken:?}");
        }
    }
}
