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
    Some(paragraphs.map(|lines| plain(&lines.join(" "), stack)).collect())
}

/// The first sentence of a paragraph.
#[must_use]
pub fn first_sentence(text: &str) -> &str {
    let ends = text.match_indices(". ").map(|(at, _)| at);
    let begins =
        |at: &usize| text[at + 2..].starts_with(|one: char| one.is_uppercase() || one == '`');
    ends.filter(|at| text[..*at].len() > 20).find(begins).map_or(text, |at| &text[..=at])
}

/// Without what Markdown needs: links lose their addresses, and the stack has its name.
fn plain(text: &str, stack: &str) -> String {
    let mut told = String::new();
    let mut rest = text;
    while let Some((before, (link, after))) =
        rest.split_once('[').and_then(|(before, link)| Some((before, link.split_once("](")?)))
    {
        let Some((address, after)) = after.split_once(')') else { break };
        // A bracket of a command is not a link's.
        if link.contains('[') || link.contains(']') || address.contains(' ') {
            break;
        }
        told.push_str(before);
        told.push_str(link);
        rest = after;
    }
    told.push_str(rest);
    told.replace("$STACK", stack)
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
        }
        let known: Vec<&str> = alarms().collect();
        assert_eq!(known.len(), of_template.len(), "{known:?}");
    }

    #[test]
    fn a_section_is_text_with_the_stacks_name() {
        let told = alarm("delete-stuck", "ci").unwrap_or_default().join("\n");
        assert!(told.contains("GitHub refuses us → entity-unhealthy. EC2"), "{told}");
        let told = alarm("reaper-silent", "ci").unwrap_or_default().join("\n");
        assert!(told.contains("aws logs tail /aws/lambda/ci-reaper") || !told.contains("$STACK"));
        assert_eq!(alarm("nothing", "ci"), None);
        assert_eq!(plain("a [b](c d) [e", "ci"), "a [b](c d) [e");
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
