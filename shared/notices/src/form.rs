//! The body of a call, in the form of its receiver.

use muster_control::admin::answers::Severity;
use muster_control::notices::{Message, Notice, What};
use serde_json::{Value, json};

/// Longest text in Slack's form, UTF-16 units: Discord's bound. Slack recommends 4,000 at most.
/// Source: docs.discord.com/developers/resources/webhook#execute-webhook
const MAX_TEXT: usize = 2_000;
/// Largest body for Teams, bytes; its bound is 28 KB.
/// Source: learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/add-incoming-webhook
const MAX_CARD: usize = 27_000;
/// Separates what would make a link or a mention.
const JOINT: &str = "\u{200b}";

/// The form that a receiver reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An incoming webhook of Slack, or of a service that accepts its form, such as Discord.
    /// Source: docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
    Slack,
    /// A workflow of Teams that posts what a webhook receives.
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
                let text: Vec<String> = lines(message).map(|line| line.slack()).collect();
                json!({ "text": text.join("\n"), "mrkdwn": false, "unfurl_links": false, "unfurl_media": false })
            }
            Self::Teams => teams(message),
            Self::Json => json!(message),
        }
    }

    /// Whether the receiver accepts a body of this length.
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

/// A line of text, and the command behind it.
struct Line {
    sign: &'static str,
    text: String,
    run: Option<String>,
}

impl Line {
    /// In text that a stranger can choose (labels, names) nothing makes a link, a mention or a code
    /// span: Slack reads three characters, links addresses and may expand names; Discord reads
    /// Markdown and `@everyone`.
    /// Source: docs.slack.dev/messaging/formatting-message-text
    fn slack(&self) -> String {
        let escaped = |text: &str| {
            let text =
                one_line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let text = text.replace('@', &format!("@{JOINT}")).replace('`', "'");
            text.replace("://", &format!(":{JOINT}//")).replace("](", &format!("]{JOINT}("))
        };
        let run = self.run.as_ref().map(|run| format!(" `{}`", escaped(run)));
        format!("{} {}{}", self.sign, escaped(&self.text), run.unwrap_or_default())
    }

    fn plain(&self) -> String {
        let run = self.run.as_ref().map(|run| format!(" ({run})"));
        format!("{} {}{}", self.sign, one_line(&self.text), run.unwrap_or_default())
    }
}

/// A line break in a quoted name would begin a line that looks like a notice.
fn one_line(text: &str) -> String {
    let is_break = |one: char| one.is_control() || matches!(one, '\u{2028}' | '\u{2029}');
    text.replace(is_break, " ")
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
                    \u{1f534} ci: &lt;!channel&gt; &amp; [x]\u{200b}(http:\u{200b}//y). `muster alarms orphans`\n\
                    \u{2705} ci: over after 10 min: the stack is at its limit.";
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
            one.notices[0].sentence = text.to_owned();
            let body = Form::Slack.body(&one);
            let expected = format!("\u{1f534} ci: {slack}. `muster alarms orphans`");
            assert_eq!(body["text"], json!(expected));
            // A text run is not Markdown, so the sentence stays what it is, on one line.
            let body = Form::Teams.body(&one);
            let run = &body["attachments"][0]["content"]["body"][0]["inlines"][0];
            assert_eq!(run["type"], "TextRun");
            let expected = format!("\u{1f534} ci: {}. (muster alarms orphans)", one_line(text));
            assert_eq!(run["text"], json!(expected));
            assert_eq!(Form::Json.body(&one)["notices"][0]["sentence"], json!(text));
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
