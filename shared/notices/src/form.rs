//! How a message looks to its receiver.

use muster_control::admin::answers::Severity;
use muster_control::notices::{Message, Notice, What};
use serde_json::{Value, json};

/// Who is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An incoming webhook of Slack, or of whoever takes Slack's form.
    /// Source: docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
    Slack,
    /// A workflow of Teams that posts what a webhook tells it.
    /// Source: learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using
    Teams,
    /// The message itself, for whatever the operator makes of it.
    Json,
}

impl Form {
    /// By its word.
    pub(crate) fn read(word: &str) -> Option<Self> {
        match word {
            "slack" => Some(Self::Slack),
            "teams" => Some(Self::Teams),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    pub(crate) fn body(self, message: &Message) -> Value {
        match self {
            Self::Slack => {
                json!({ "text": lines(message).map(|line| line.slack()).collect::<Vec<_>>().join("\n") })
            }
            Self::Teams => teams(message),
            Self::Json => json!(message),
        }
    }
}

/// A line of text, and the command behind it.
struct Line {
    sign: &'static str,
    text: String,
    run: Option<String>,
}

impl Line {
    /// Slack takes three characters for its own, and nothing else makes a link or calls somebody.
    /// Source: docs.slack.dev/messaging/formatting-message-text
    fn slack(&self) -> String {
        let escaped =
            |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let run = self.run.as_ref().map(|run| format!(" `{}`", escaped(run)));
        format!("{} {}{}", self.sign, escaped(&self.text), run.unwrap_or_default())
    }

    fn plain(&self) -> String {
        let run = self.run.as_ref().map(|run| format!(" ({run})"));
        format!("{} {}{}", self.sign, self.text, run.unwrap_or_default())
    }
}

fn lines(message: &Message) -> impl Iterator<Item = Line> {
    let stack = &message.stack;
    let first = message.is_first.then(|| Line {
        sign: "\u{1f44b}",
        text: format!("{stack}: notices of this stack come here from now on."),
        run: None,
    });
    first.into_iter().chain(message.notices.iter().map(|notice| line(stack, notice)))
}

fn line(stack: &str, notice: &Notice) -> Line {
    let Notice { what, severity, sentence, since, until, run, .. } = notice;
    match (what, until) {
        (What::Over, Some(until)) => Line {
            sign: "\u{2705}",
            text: format!("{stack}: over after {}: {sentence}.", until.since(*since)),
            run: None,
        },
        _ => Line {
            sign: if *severity == Severity::Error { "\u{1f534}" } else { "\u{1f7e0}" },
            text: format!("{stack}: {sentence}."),
            run: run.clone(),
        },
    }
}

/// Runs of text, which know no markup: a sentence may quote a stranger.
fn teams(message: &Message) -> Value {
    let block = |line: Line| json!({ "type": "RichTextBlock", "inlines": [{ "type": "TextRun", "text": line.plain() }] });
    let body: Vec<Value> = lines(message).map(block).collect();
    let card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    });
    let attachment = json!({ "contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": null, "content": card });
    json!({ "type": "message", "attachments": [attachment] })
}

#[cfg(test)]
mod tests {
    use muster_domain::time::{Seconds, Time};

    use super::*;

    fn message() -> Message {
        let at = Time::from_millis(1_800_000_000_000);
        let begun = Notice {
            what: What::Begun,
            key: "orphans".to_owned(),
            severity: Severity::Error,
            sentence: "<!channel> & [x](http://y)".to_owned(),
            since: at,
            until: None,
            run: Some("muster alarms orphans".to_owned()),
        };
        let over = Notice {
            what: What::Over,
            key: "limit:stack".to_owned(),
            severity: Severity::Warning,
            sentence: "the stack is at its limit".to_owned(),
            until: Some(at + Seconds(600)),
            run: None,
            ..begun.clone()
        };
        Message { stack: "ci".to_owned(), at, is_first: true, notices: vec![begun, over] }
    }

    #[test]
    fn slack_gets_a_text_in_which_nothing_calls_anybody() {
        let text = "\u{1f44b} ci: notices of this stack come here from now on.\n\
                    \u{1f534} ci: &lt;!channel&gt; &amp; [x](http://y). `muster alarms orphans`\n\
                    \u{2705} ci: over after 10 min: the stack is at its limit.";
        assert_eq!(Form::Slack.body(&message()), json!({ "text": text }));
    }

    #[test]
    fn teams_gets_a_card_of_plain_runs() {
        let body = Form::Teams.body(&message());
        let card = &body["attachments"][0]["content"];
        let texts: Vec<&str> = card["body"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|block| block["inlines"][0]["text"].as_str())
            .collect();
        assert_eq!(
            texts,
            [
                "\u{1f44b} ci: notices of this stack come here from now on.",
                "\u{1f534} ci: <!channel> & [x](http://y). (muster alarms orphans)",
                "\u{2705} ci: over after 10 min: the stack is at its limit.",
            ]
        );
        assert_eq!((&body["type"], &card["type"]), (&json!("message"), &json!("AdaptiveCard")));
    }

    #[test]
    fn json_is_the_message() {
        let body = Form::Json.body(&message());
        assert_eq!((&body["stack"], &body["first"]), (&json!("ci"), &json!(true)));
        let expected = json!({
            "what": "over", "key": "limit:stack", "severity": "warning",
            "sentence": "the stack is at its limit", "since": "2027-01-15T08:00:00.000Z",
            "until": "2027-01-15T08:10:00.000Z", "run": null,
        });
        assert_eq!(body["notices"][1], expected);
    }
}
