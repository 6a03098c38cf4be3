//! Just enough XML: EC2's answers, written and read.

/// `<name>text</name>`, escaped.
pub(crate) fn text(name: &str, value: &str) -> String {
    let mut out = format!("<{name}>");
    for c in value.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // XML has no way of writing these at all.
            c if c.is_control() && !"\t\n\r".contains(c) => out.push('?'),
            c => out.push(c),
        }
    }
    out.push_str(&format!("</{name}>"));
    out
}

/// `<name>inner</name>`, where the inner part is XML already.
pub(crate) fn wrap(name: &str, inner: &str) -> String {
    format!("<{name}>{inner}</{name}>")
}

/// `<name><item>…</item><item>…</item></name>`.
pub(crate) fn list(name: &str, items: impl IntoIterator<Item = String>) -> String {
    let inner: String = items.into_iter().map(|item| wrap("item", &item)).collect();
    wrap(name, &inner)
}

/// An element that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    pub name: String,
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    /// Reads a document. Attributes, comments and processing instructions are skipped.
    pub fn parse(document: &str) -> Result<Self, String> {
        let mut open = vec![Self::default()];
        let mut rest = document;
        while let Some(start) = rest.find('<') {
            let top = open.last_mut().ok_or("more ends than starts")?;
            top.text.push_str(&unescape(&rest[..start]));
            let end = rest[start..].find('>').ok_or("a tag without an end")? + start;
            let tag = &rest[start + 1..end];
            rest = &rest[end + 1..];
            if tag.starts_with(['?', '!']) {
                continue;
            }
            if let Some(name) = tag.strip_prefix('/') {
                let mut done = open.pop().ok_or("more ends than starts")?;
                if done.name != name.trim() {
                    return Err(format!("<{}> ends with </{name}>", done.name));
                }
                if !done.children.is_empty() {
                    done.text.clear();
                }
                open.last_mut().ok_or("more ends than starts")?.children.push(done);
                continue;
            }
            let name = tag.trim_end_matches('/').split_whitespace().next().unwrap_or("");
            let element = Self { name: name.to_owned(), ..Self::default() };
            if tag.ends_with('/') {
                top.children.push(element);
            } else {
                open.push(element);
            }
        }
        match open.as_mut_slice() {
            [root] if root.children.len() == 1 => Ok(root.children.remove(0)),
            _ => Err("not one whole element".to_owned()),
        }
    }

    /// The first descendant along a path of names.
    #[must_use]
    pub fn find(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |element, name| {
            element.children.iter().find(|child| child.name == *name)
        })
    }

    /// The text of the first descendant along a path of names; empty if there is none.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> &str {
        self.find(path).map_or("", |element| element.text.as_str())
    }

    /// The `<item>`s of the first descendant along a path of names.
    #[must_use]
    pub fn items(&self, path: &[&str]) -> &[Self] {
        self.find(path).map_or(&[], |element| element.children.as_slice())
    }
}

fn unescape(text: &str) -> String {
    // The ampersand last, so that an escaped ampersand does not start a second escape.
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&#x27;", "'")
        .replace("&apos;", "'")
        .replace("&#10;", "\n")
        .replace("&#13;", "\r")
        .replace("&amp;", "&")
}
