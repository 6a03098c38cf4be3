//! The fields of a query or a form.

use muster_sigv4::encoded;

/// Fields in the order in which they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Parses a query or a form.
    #[must_use]
    pub fn read(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    /// Returns a value that is not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns a parsed value; `None` if it cannot be parsed.
    #[must_use]
    pub fn parsed<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }
}

/// Returns a path with a query; empty values are omitted.
#[must_use]
pub fn address(path: &str, fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// Encodes a name as a part of a path.
#[must_use]
pub fn part(name: &str) -> String {
    encoded(name)
}

/// Decodes a part of a path.
#[must_use]
pub fn name(part: &str) -> String {
    // In a path, a plus is not a space.
    let query = format!("={}", part.replace('+', "%2B"));
    form_urlencoded::parse(query.as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}
