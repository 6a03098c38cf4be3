//! The body of a call, in the receiver's format.

use muster_api::answers::Severity;
use muster_control::notices::{Message, Notice, What};
use serde_json::{Value, json};

/// Maximum length of text in Slack's format, in UTF-16 units: Discord's limit. Slack recommends at
/// most 4,000.
/// Source: docs.discord.com/developers/resources/webhook#execute-webhook
const MAX_TEXT: usize = 2_000;
/// Maximum size of a body for Teams, in bytes; the limit is 28 KB.
/// Source:
/// learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook
const MAX_CARD: usize = 27_000;
/// Inserted to break up links and mentions.
const JOINT: &str = "\u{200b}";

/// The receiver's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An incoming webhook of Slack, or of a service that accepts this format, such as Discord.
    /// Source: docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
    Slack,
    /// A Teams workflow that posts what a webhook receives.
    /// Source:
    /// learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using
    Teams,
    /// The message itself, for custom receivers.
    Json,
}

impl Form {
    /// Parses the format's name.
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
                let text: Vec<String> = lines(message).map(|line| line.slack()).collect();
                json!({ "text": text.join("\n"), "mrkdwn": false, "unfurl_links": false, "unfurl_media": false })
            }
            Self::Teams => teams(message),
            Self::Json => json!(message),
        }
    }

    /// Returns whether the receiver accepts a body of this size.
    pub(crate) fn fits(self, body: &Value) -> bool {
        match self {
            Self::Slack => {
                body["text"].as_str().is_none_or(|text| text.encode_utf16().count() <= MAX_TEXT)
            }
            Self::Teams => body.to_string().len() <= MAX_CARD,
            Self::Json => true,
        }
    }
}

/// A line of text, and what to do.
struct MessageLine {
    sign: &'static str,
    text: String,
    fix: Option<String>,
}

impl MessageLine {
    /// Formats for Slack. Text that others can choose (labels, names) must not form a link, a
    /// mention or a code span: Slack interprets three characters, links URLs and may expand names;
    /// Discord interprets Markdown and `@everyone`.
    /// Source: docs.slack.dev/messaging/formatting-message-text
    fn slack(&self) -> String {
        let escaped = |text: &str| {
            let text =
                one_line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let text = text.replace('@', &format!("@{JOINT}")).replace('`', "'");
            text.replace("://", &format!(":{JOINT}//")).replace("](", &format!("]{JOINT}("))
        };
        let fix = self.fix.as_ref().map(|fix| format!(" → {}", escaped(fix)));
        format!("{} {}{}", self.sign, escaped(&self.text), fix.unwrap_or_default())
    }

    fn plain(&self) -> String {
        let fix = self.fix.as_ref().map(|fix| format!(" → {}", one_line(fix)));
        format!("{} {}{}", self.sign, one_line(&self.text), fix.unwrap_or_default())
    }
}

/// Replaces line breaks: one in a quoted name could start a line that looks like a notification.
fn one_line(text: &str) -> String {
    let is_break = |one: char| one.is_control() || matches!(one, '\u{2028}' | '\u{2029}');
    text.replace(is_break, " ")
}

fn lines(message: &Message) -> impl Iterator<Item = MessageLine> {
    let stack = &message.stack;
    let first = message.is_first.then(|| MessageLine {
        sign: "\u{1f44b}",
        text: format!("{stack}: this address now receives the stack's notices."),
        fix: None,
    });
    first.into_iter().chain(message.notices.iter().map(|notice| line(stack, notice)))
}

fn line(stack: &str, notice: &Notice) -> MessageLine {
    let Notice { what, severity, message, since, until, fix, .. } = notice;
    match (what, until) {
        (What::Over, Some(until)) => MessageLine {
            sign: "\u{2705}",
            text: format!("{stack}: resolved after {}: {message}", until.since(*since)),
            fix: None,
        },
        _ => MessageLine {
            sign: if *severity == Severity::Error { "\u{1f534}" } else { "\u{1f7e0}" },
            text: format!("{stack}: {message}"),
            fix: fix.clone(),
        },
    }
}

/// Formats for Teams, as text runs without markup, because a sentence may quote untrusted text.
fn teams(message: &Message) -> Value {
    let block = |line: MessageLine| json!({ "type": "RichTextBlock", "inlines": [{ "type": "TextRun", "text": line.plain() }] });
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
            message: "<!channel> & [x](http://y).".to_owned(),
            since: at,
            until: None,
            fix: Some("muster alarms orphans".to_owned()),
        };
        let over = Notice {
            what: What::Over,
            key: "limit-reached:stack".to_owned(),
            severity: Severity::Warning,
            message: "The stack is at its limit.".to_owned(),
            until: Some(at + Seconds(600)),
            fix: None,
            ..begun.clone()
        };
        Message { stack: "ci".to_owned(), at, is_first: true, notices: vec![begun, over] }
    }

    #[test]
    fn slack_gets_a_text_in_which_nothing_calls_anybody() {
        let text = "\u{1f44b} ci: this address now receives the stack's notices.\n\
                    \u{1f534} ci: &lt;!channel&gt; &amp; [x]\u{200b}(http:\u{200b}//y). → muster alarms orphans\n\
                    \u{2705} ci: resolved after 10 min: The stack is at its limit.";
        let body =
            json!({ "text": text, "mrkdwn": false, "unfurl_links": false, "unfurl_media": false });
        assert_eq!(Form::Slack.body(&message()), body);
    }

    #[test]
    fn what_a_stranger_writes_is_text_for_every_receiver() {
        const J: &str = "\u{200b}";
        let rows = [
            ("<!channel> <!here>", "&lt;!channel&gt; &lt;!here&gt;".to_owned()),
            ("<@U123> <#C1>", format!("&lt;@{J}U123&gt; &lt;#C1&gt;")),
            ("@here @everyone @channel", format!("@{J}here @{J}everyone @{J}channel")),
            ("<https://evil.example|GitHub>", format!("&lt;https:{J}//evil.example|GitHub&gt;")),
            ("see https://evil.example/a", format!("see https:{J}//evil.example/a")),
            ("[GitHub](https://evil.example)", format!("[GitHub]{J}(https:{J}//evil.example)")),
            ("mailto:a@evil.example", format!("mailto:a@{J}evil.example")),
            ("`; rm -rf /`", "'; rm -rf /'".to_owned()),
            ("AT&amp;T &lt;", "AT&amp;amp;T &amp;lt;".to_owned()),
            ("x\n\u{2705} ci: over\r\u{2028}y\u{1b}[2J", "x \u{2705} ci: over  y [2J".to_owned()),
            ("linux, self_hosted *x64*", "linux, self_hosted *x64*".to_owned()),
        ];
        for (text, slack) in rows {
            let mut one = message();
            one.is_first = false;
            one.notices.truncate(1);
            one.notices[0].message = text.to_owned();
            let body = Form::Slack.body(&one);
            let expected = format!("\u{1f534} ci: {slack} → muster alarms orphans");
            assert_eq!(body["text"], json!(expected));
            // A text run is not Markdown, so the sentence is unchanged, on one line.
            let body = Form::Teams.body(&one);
            let run = &body["attachments"][0]["content"]["body"][0]["inlines"][0];
            assert_eq!(run["type"], "TextRun");
            let expected = format!("\u{1f534} ci: {} → muster alarms orphans", one_line(text));
            assert_eq!(run["text"], json!(expected));
            assert_eq!(Form::Json.body(&one)["notices"][0]["message"], json!(text));
        }
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
                "\u{1f44b} ci: this address now receives the stack's notices.",
                "\u{1f534} ci: <!channel> & [x](http://y). → muster alarms orphans",
                "\u{2705} ci: resolved after 10 min: The stack is at its limit.",
            ]
        );
        assert_eq!((&body["type"], &card["type"]), (&json!("message"), &json!("AdaptiveCard")));
    }

    #[test]
    fn json_is_the_message() {
        let body = Form::Json.body(&message());
        assert_eq!((&body["stack"], &body["first"]), (&json!("ci"), &json!(true)));
        let expected = json!({
            "what": "over", "key": "limit-reached:stack", "severity": "warning",
            "message": "The stack is at its limit.", "since": "2027-01-15T08:00:00.000Z",
            "until": "2027-01-15T08:10:00.000Z", "fix": null,
        });
        assert_eq!(body["notices"][1], expected);
    }
}
