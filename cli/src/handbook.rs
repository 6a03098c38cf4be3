//! What `infra/README.md` says of the alarms, cut out of it.

/// The page; it goes with the command.
const PAGE: &str = include_str!("../../infra/README.md");
const HEADING: &str = "### Alarm ";

/// The alarms that the page knows, by their names without the stack's.
pub fn alarms() -> impl Iterator<Item = &'static str> {
    PAGE.lines().filter_map(|line| line.strip_prefix(HEADING)).map(str::trim)
}

/// What an alarm asks of whoever is called: paragraphs.
#[must_use]
pub fn alarm(name: &str, stack: &str) -> Option<Vec<String>> {
    let own = |line: &&str| line.strip_prefix(HEADING).map(str::trim) != Some(name);
    let mut lines = PAGE.lines().skip_while(own);
    lines.next()?;
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with('#')).collect();
    let paragraphs = lines.split(|line| line.trim().is_empty()).filter(|lines| !lines.is_empty());
    Some(paragraphs.map(|lines| plain(&lines.join(" ")).replace("$STACK", stack)).collect())
}

/// The first sentence of a paragraph.
#[must_use]
pub fn first_sentence(text: &str) -> &str {
    let ends = text.match_indices(". ").map(|(at, _)| at);
    let begins =
        |at: &usize| text[at + 2..].starts_with(|one: char| one.is_uppercase() || one == '`');
    ends.filter(|at| text[..*at].len() > 20).find(begins).map_or(text, |at| &text[..=at])
}

/// Without what Markdown needs: links lose their addresses. Between backticks stands a command's own text.
fn plain(text: &str) -> String {
    let pieces = text.split('`').enumerate().map(|(index, piece)| {
        if index % 2 == 1 { piece.to_owned() } else { without_addresses(piece) }
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

    /// The template names the alarms, and this command finds them, their groups of logs and their queues by those names.
    const TEMPLATE: &str = include_str!("../../template.yaml");

    #[test]
    fn every_alarm_of_the_template_has_its_section() {
        const NAME: &str = "AlarmName: !Sub \"${AWS::StackName}-";
        let of_template: Vec<&str> = TEMPLATE
            .lines()
            .filter_map(|line| line.trim().strip_prefix(NAME)?.strip_suffix('"'))
            .collect();
        assert!(of_template.len() > 10, "{of_template:?}");
        for name in &of_template {
            let told = alarm(name, "muster").unwrap_or_default().join(" ");
            assert!(told.len() > 60, "{name}: {told}");
            assert!(!told.contains("$STACK") && !told.contains("]("), "{name}: {told}");
        }
        let known: Vec<&str> = alarms().collect();
        assert_eq!(known.len(), of_template.len(), "{known:?}");
    }

    #[test]
    fn a_section_is_text() {
        let told = alarm("delete-stuck", "ci").unwrap_or_default().join("\n");
        assert!(told.contains("GitHub refuses us → entity-unhealthy. EC2"), "{told}");
        assert_eq!(alarm("nothing", "ci"), None);
        assert_eq!(plain("a [b](c), `[d](e)` [f](g) [h"), "a b, `[d](e)` f [h");
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
