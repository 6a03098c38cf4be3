//! Text that others write, and that a record keeps.

/// The first characters of a text. DynamoDB takes an item of 400 KB at most: a row that grew up to
/// that could never change again, and its machine never end.
#[must_use]
pub fn first(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::first;

    #[test]
    fn it_keeps_whole_characters() {
        for (text, most, kept) in [("", 0, ""), ("ab", 2, "ab"), ("abc", 2, "ab"), ("ééé", 2, "éé")]
        {
            assert_eq!(first(text, most), kept, "{text}");
        }
    }
}
