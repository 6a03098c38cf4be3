//! Tables of a page that are made from the code.

use std::path::Path;

/// Compares the rows below `header` with these, or writes them with `UPDATE=1`. The path is from
/// the folder `tests`.
pub(crate) fn table(path: &str, header: &str, rows: &[String]) -> Result<(), String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    let page = std::fs::read_to_string(&file).map_err(|error| format!("{path}: {error}"))?;
    let told = with_rows(&page, header, rows).ok_or(format!("{path} has no {header:?}"))?;
    if told == page {
        return Ok(());
    }
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(&file, told).map_err(|error| format!("{path}: {error}"));
    }
    let line = told.lines().zip(page.lines()).find(|(told, page)| told != page);
    Err(format!("{path} is out of date, UPDATE=1 writes it anew: {line:?}"))
}

/// The page with other rows in the table that has this header.
fn with_rows(page: &str, header: &str, rows: &[String]) -> Option<String> {
    let mut lines = page.lines();
    let mut told: Vec<&str> = lines.by_ref().take_while(|line| *line != header).collect();
    let rule = lines.next()?;
    told.extend([header, rule]);
    told.extend(rows.iter().map(String::as_str));
    told.extend(lines.skip_while(|line| line.starts_with('|')));
    Some(told.join("\n") + "\n")
}
