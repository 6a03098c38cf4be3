//! Writes CSV.

use crate::display::clean;

/// Comma-separated values (RFC 4180).
#[derive(Clone, Debug, Default)]
pub struct Csv {
    text: String,
}

impl Csv {
    #[must_use]
    pub fn new(header: &[&str]) -> Self {
        let mut csv = Self::default();
        csv.row(header);
        csv
    }

    pub fn row(&mut self, cells: &[impl AsRef<str>]) {
        let cells: Vec<String> = cells.iter().map(|cell| self::cell(cell.as_ref())).collect();
        self.text.push_str(&cells.join(","));
        self.text.push('\n');
    }

    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

/// Escapes a cell. Job names are untrusted, and spreadsheets evaluate cells that begin with one of
/// these characters.
fn cell(text: &str) -> String {
    let text = clean(text);
    let is_formula = text.starts_with(['=', '+', '-', '@']) && text.parse::<f64>().is_err();
    let text = if is_formula { format!("'{text}") } else { text };
    match text.contains(['"', ',']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_a_formula_or_another_cell() {
        let mut csv = Csv::new(&["a", "b"]);
        csv.row(&["=cmd()", "test (3), \"x\""]);
        csv.row(&["-1.5", "a\nb"]);
        assert_eq!(csv.into_text(), "a,b\n'=cmd(),\"test (3), \"\"x\"\"\"\n-1.5,a b\n");
    }
}
