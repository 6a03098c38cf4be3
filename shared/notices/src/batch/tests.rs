use std::cell::RefCell;

use muster_api::answers::Severity;
use muster_control::notices::What;
use muster_domain::time::Time;

use super::*;

fn notice(key: &str, sentence: String) -> Notice {
    Notice {
        what: What::Begun,
        key: key.to_owned(),
        severity: Severity::Warning,
        message: sentence,
        since: Time::from_millis(1_800_000_000_000),
        until: None,
        fix: Some("muster status".to_owned()),
    }
}

fn message(sentences: impl IntoIterator<Item = String>) -> Message {
    let notices = sentences.into_iter().enumerate();
    let notices = notices.map(|(n, sentence)| notice(&format!("n{n}"), sentence)).collect();
    Message {
        stack: "ci".to_owned(),
        at: Time::from_millis(1_800_000_000_000),
        is_first: false,
        notices,
    }
}

/// The outcome of a message: the result, and the text of each call.
async fn sent(
    form: Form,
    message: &Message,
    refuses: impl Fn(&str) -> Option<u16>,
) -> (Result<usize, String>, Vec<String>) {
    let calls = RefCell::new(Vec::new());
    let call = async |body: Value| {
        let text = body.to_string();
        let answer = refuses(&text);
        calls.borrow_mut().push(text);
        match answer {
            None => Ok(()),
            Some(status) => {
                Err(PostError { status: Some(status), why: Unavailable::new(format!("{status}")) })
            }
        }
    };
    let result = send(form, message, call).await.map_err(|error| error.to_string());
    (result, calls.into_inner())
}

/// Sends a message completely, over several sweeps. Returns the size of each accepted call.
async fn told(form: Form, mut message: Message, most: usize) -> Vec<usize> {
    let mut sizes = Vec::new();
    while !message.notices.is_empty() {
        let refuses = |text: &str| (text.encode_utf16().count() > most).then_some(400);
        let (done, _) = sent(form, &message, refuses).await;
        let done = done.expect("accepted in the end");
        sizes.push(done);
        message.notices.drain(..done);
    }
    sizes
}

#[tokio::test]
async fn a_message_is_split_by_the_bound_of_its_receiver() {
    let pools = || {
        (0..20).map(|n| format!("pool-{n}: 10 of 10 machines are in use, and 25 jobs of it wait for one of them to end"))
    };
    let long = |one: char, count: usize| (0..3).map(move |_| one.to_string().repeat(count));
    // The receiver's limit exceeds the text sent by the surrounding JSON.
    let rows: [(Form, Message, usize, &[usize]); 8] = [
        (Form::Slack, message(pools()), 2_400, &[18, 2]),
        (Form::Slack, message(long('x', 5_000)), 2_400, &[1, 1, 1]),
        (Form::Slack, message(long('&', 5_000)), 2_400, &[1, 1, 1]),
        (Form::Slack, message(long('\u{1f534}', 5_000)), 2_400, &[1, 1, 1]),
        (Form::Teams, message(pools()), 28_000, &[20]),
        (Form::Teams, message(long('\u{1f534}', 50_000)), 28_000, &[3]),
        (Form::Json, message(pools()), usize::MAX, &[20]),
        // A custom receiver with an unknown limit.
        (Form::Json, message(pools()), 2_000, &[5, 7, 8]),
    ];
    for (form, message, most, sizes) in rows {
        assert_eq!(told(form, message, most).await, sizes, "{form:?} {most}");
    }
}

#[tokio::test]
async fn a_notice_that_is_refused_blocks_no_other() {
    let five = || message((0..5).map(|n| format!("sentence {n}.")));
    let poison = |text: &str, word: &str| text.contains(word).then_some(400);
    // Columns: the refused texts, the outcome, the number of calls.
    let rows: [(&dyn Fn(&str) -> Option<u16>, Result<usize, &str>, usize); 8] = [
        (&|_| None, Ok(5), 1),
        (&|text| poison(text, "sentence 4"), Ok(2), 2),
        // 5, 2, 1, 1 shortened, then the next one.
        (&|text| poison(text, "sentence 0"), Ok(2), 5),
        (&|text| poison(text, "sentence 1"), Ok(1), 3),
        (&|text| (text.len() > 200).then_some(413), Ok(2), 2),
        // The receiver refuses every message, so none are lost.
        (&|_| Some(400), Err("400"), 12),
        (&|_| Some(404), Err("404"), 1),
        (&|_| Some(500), Err("500"), 1),
    ];
    for (refuses, outcome, calls) in rows {
        let (result, made) = sent(Form::Slack, &five(), refuses).await;
        assert_eq!((result, made.len()), (outcome.map_err(str::to_owned), calls));
    }
}

#[tokio::test]
async fn a_long_sentence_is_shortened_with_a_mark() {
    let (result, calls) = sent(Form::Slack, &message(["y".repeat(3_000)]), |_| None).await;
    assert_eq!(result, Ok(1));
    assert!(calls[0].contains("y… (shortened)") && calls[0].matches('y').count() > 900);
    // A receiver that refuses it still gets the start of it.
    let refuses = |text: &str| (text.len() > 500).then_some(400);
    let (result, calls) = sent(Form::Slack, &message(["y".repeat(3_000)]), refuses).await;
    assert_eq!((result, calls.len()), (Ok(1), 2));
    let (result, calls) = sent(Form::Json, &message(std::iter::empty()), |_| Some(400)).await;
    assert_eq!((result, calls.len()), (Err("400".to_owned()), 2), "a greeting alone");
}
