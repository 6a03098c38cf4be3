//! The pages of `docs/alarms`, compiled into the command.

macro_rules! pages {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../docs/alarms/", $name, ".md")))),+]
    };
}

/// The pages by alarm name, without the stack's name. A test compares the names with the
/// template's.
const PAGES: [(&str, &str); 27] = pages![
    "api-5xx",
    "api-refused",
    "blast-radius",
    "delete-stuck",
    "entity-unhealthy",
    "image-builds",
    "in-vain",
    "job-waiting",
    "jobs-dead-letters",
    "jobs-refused",
    "jobs-unread",
    "jobs-unserved",
    "launch-failed",
    "messages-failing",
    "orphans",
    "pool-in-trouble",
    "pool-refused",
    "quota",
    "reaper-errors",
    "reaper-silent",
    "scale-up-errors",
    "scale-up-throttled",
    "spend",
    "switched-off",
    "wait-long",
    "webhooks-failing",
    "webhooks-unreadable",
];
const FIRST: &str = "Look first: ";

/// Returns an alarm's page as paragraphs and list items, which begin with `- `.
#[must_use]
pub fn alarm(name: &str, stack: &str) -> Option<Vec<String>> {
    let (_, page) = PAGES.iter().find(|(known, _)| *known == name)?;
    let mut told: Vec<String> = Vec::new();
    let mut is_new = true;
    for line in page.lines().skip_while(|line| line.starts_with('#')).map(str::trim) {
        match told.last_mut() {
            Some(last) if !is_new && !line.is_empty() && !line.starts_with("- ") => {
                last.push(' ');
                last.push_str(line);
            }
            _ if !line.is_empty() => told.push(line.to_owned()),
            _ => {}
        }
        is_new = line.is_empty();
    }
    Some(told.iter().map(|part| plain(part).replace("$STACK", stack)).collect())
}

/// Returns the first sentence of the page's "Look first".
#[must_use]
pub fn first(name: &str, stack: &str) -> Option<String> {
    let told = alarm(name, stack)?;
    let look = told.iter().find_map(|part| part.strip_prefix(FIRST))?;
    Some(first_sentence(look).to_owned())
}

/// Returns the first sentence of a paragraph.
#[must_use]
pub fn first_sentence(text: &str) -> &str {
    let ends = text.match_indices(". ").map(|(at, _)| at);
    let begins =
        |at: &usize| text[at + 2..].starts_with(|one: char| one.is_uppercase() || one == '`');
    ends.filter(|at| text[..*at].len() > 20).find(begins).map_or(text, |at| &text[..=at])
}

/// Removes Markdown: links lose their addresses, and bold text its marks. Text between backticks
/// stays as it is.
fn plain(text: &str) -> String {
    let pieces = text.split('`').enumerate().map(|(index, piece)| {
        if index % 2 == 1 { piece.to_owned() } else { without_addresses(&piece.replace("**", "")) }
    });
    pieces.collect::<Vec<_>>().join("`")
}

fn without_addresses(text: &str) -> String {
    let mut told = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[')
        && let Some((link, after)) = link.split_once("](")
        && let Some((_, after)) = after.split_once(')')
    {
        told.push_str(before);
        told.push_str(link);
        rest = after;
    }
    told + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The template names the alarms; this command finds pages by those names.
    const TEMPLATE: &str = include_str!("../../template.yaml");

    #[test]
    fn every_alarm_of_the_template_has_its_page() {
        const NAME: &str = "AlarmName: !Sub \"${AWS::StackName}-";
        let mut of_template: Vec<&str> = TEMPLATE
            .lines()
            .filter_map(|line| line.trim().strip_prefix(NAME)?.strip_suffix('"'))
            .collect();
        of_template.sort_unstable();
        let known: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        assert_eq!(known, of_template);
    }

    #[test]
    fn every_page_has_the_same_parts() {
        for (name, page) in PAGES {
            assert!(page.starts_with(&format!("# Alarm {name}: ")), "{name}");
            let told = alarm(name, "ci").unwrap_or_default();
            assert!(told[0].starts_with("For users: "), "{name}: {told:?}");
            assert!(told[1].starts_with(FIRST), "{name}: {told:?}");
            assert!(told.iter().any(|part| part.starts_with("- ")), "{name}: {told:?}");
            for part in &told {
                let is_text =
                    !part.contains("$STACK") && !part.contains("](") && !part.contains("**");
                assert!(is_text, "{name}: {part}");
            }
            assert!(first(name, "ci").is_some_and(|said| said.ends_with(['.', ':'])), "{name}");
        }
    }

    #[test]
    fn a_page_is_text() {
        let told = alarm("delete-stuck", "ci").unwrap_or_default();
        assert!(
            told.contains(&"- GitHub refuses Muster's credentials → entity-unhealthy.".to_owned()),
            "{told:?}"
        );
        assert_eq!(alarm("nothing", "ci"), None);
        assert_eq!(plain("**a** [b](c), `[d](e)` [f](g) [h"), "a b, `[d](e)` f [h");
    }

    #[test]
    fn a_sentence_ends_where_another_begins() {
        assert_eq!(
            first_sentence("It runs on m7i. large, no end. Then this."),
            "It runs on m7i. large, no end."
        );
        assert_eq!(first_sentence("One alone."), "One alone.");
    }
}
