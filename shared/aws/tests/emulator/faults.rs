//! Lost, late and failed responses.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use muster_aws::table::DynamoTable;
use muster_control::ports::{CommitError, Instances, Jobs, Launches, ReadError, Table as _, Write};
use muster_domain::causes::with_causes;
use muster_domain::stored::Committed;
use muster_domain::timings::Timings;

use crate::proxy::{Deed, Proxy};
use crate::records::*;
use crate::support::{Stack, config_at, emulator};
use crate::table::{capacity, new, over, stored};

fn error(status: u16, code: &str) -> Deed {
    let kind = format!("com.amazonaws.dynamodb.v20120810#{code}");
    Deed::Answer(status, format!(r#"{{"__type":"{kind}","message":"scripted"}}"#))
}

fn cancelled(reasons: &[&str]) -> Deed {
    let reasons: Vec<String> =
        reasons.iter().map(|code| format!(r#"{{"Code":"{code}","Message":"scripted"}}"#)).collect();
    Deed::Answer(
        400,
        format!(
            r#"{{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
            "message":"scripted","CancellationReasons":[{}]}}"#,
            reasons.join(",")
        ),
    )
}

#[tokio::test]
async fn a_put_whose_answer_is_lost_is_recognised_as_our_own() {
    let stack = Stack::new().await;
    let proxy = Proxy::new("PutItem", vec![Deed::LoseAnswer]);
    let table = stack.table_at(proxy.address).await;
    let instance = planned(1, None);
    assert_eq!(table.commit(&[new(&instance)]).await, Ok(Committed::by_table()));
    assert_eq!(proxy.seen(), 2, "the SDK tried again");
    let mut next = instance.clone();
    next.tell(at(9), "changed".into());
    let proxy = Proxy::new("PutItem", vec![Deed::LoseAnswer, Deed::LoseAnswer]);
    let table = stack.table_at(proxy.address).await;
    assert_eq!(table.commit(&[over(0, &next)]).await, Ok(Committed::by_table()));
    assert_eq!(stack.table.instance(&instance.name).await, Ok(Some(stored(1, next))));
}

#[tokio::test]
async fn a_put_whose_answer_is_lost_still_conflicts_with_another_writers() {
    let stack = Stack::new().await;
    let instance = planned(1, None);
    stack.table.commit(&[new(&instance)]).await.expect("committed");
    let proxy = Proxy::new("PutItem", vec![Deed::LoseAnswer]);
    let table = stack.table_at(proxy.address).await;
    let outcome = table.commit(&[new(&instance)]).await;
    assert_eq!(outcome, Err(CommitError::Conflict), "same content, other writer");
}

#[tokio::test]
async fn a_transaction_whose_answer_is_lost_is_carried_out_once() {
    let stack = Stack::new().await;
    stack.table.commit(&[new(&capacity(5, None))]).await.expect("committed");
    let proxy = Proxy::new("TransactWriteItems", vec![Deed::LoseAnswer]);
    let table = stack.table_at(proxy.address).await;
    let writes = [new(&queued(1)), Write::CapacityDown(pool())];
    assert_eq!(table.commit(&writes).await, Ok(Committed::by_table()));
    assert_eq!(proxy.seen(), 2, "the SDK tried again");
    let left = stack.table.capacity(&pool()).await.expect("read").expect("there");
    assert_eq!(left.live, 4);
}

#[tokio::test]
async fn a_counter_alone_is_taken_from_once_as_well() {
    let stack = Stack::new().await;
    stack.table.commit(&[new(&capacity(5, None))]).await.expect("committed");
    let proxy = Proxy::new("TransactWriteItems", vec![Deed::LoseAnswer]);
    let table = stack.table_at(proxy.address).await;
    assert_eq!(table.commit(&[Write::CapacityDown(pool())]).await, Ok(Committed::by_table()));
    let left = stack.table.capacity(&pool()).await.expect("read").expect("there");
    assert_eq!(left.live, 4);
}

#[tokio::test]
async fn a_commit_that_stays_unanswered_is_unclear_and_not_a_conflict() {
    let stack = Stack::new().await;
    let lost = vec![Deed::LoseAnswer; 3];
    let proxy = Proxy::new("PutItem", lost.clone());
    let table = stack.table_at(proxy.address).await;
    let outcome = table.commit(&[new(&planned(1, None))]).await;
    assert!(matches!(outcome, Err(CommitError::Unavailable(_))), "{outcome:?}");
    assert_eq!(proxy.seen(), muster_aws::client::ATTEMPTS);
    // It was executed: that is why the caller reads before it retries.
    assert!(stack.table.instance(&planned(1, None).name).await.expect("read").is_some());

    let proxy = Proxy::new("TransactWriteItems", lost);
    let table = stack.table_at(proxy.address).await;
    let outcome = table.commit(&[new(&queued(1)), new(&queued(2))]).await;
    assert!(matches!(outcome, Err(CommitError::Unavailable(_))), "{outcome:?}");
}

#[tokio::test]
async fn silence_ends_after_the_time_limit_as_unclear() {
    let stack = Stack::new().await;
    let proxy = Proxy::new("PutItem", vec![Deed::Silence; 9]);
    let config = config_at(proxy.address).await;
    let limits = config.timeout_config().expect("there are limits");
    assert_eq!(limits.operation_timeout(), Some(muster_aws::client::OPERATION_TIMEOUT));
    assert_eq!(limits.operation_attempt_timeout(), Some(muster_aws::client::ATTEMPT_TIMEOUT));
    let short = limits.to_builder().operation_timeout(Duration::from_millis(200)).build();
    let config = config.into_builder().timeout_config(short).build();
    let table = DynamoTable::new(&config, stack.names.clone(), Timings::default());
    let outcome = table.commit(&[new(&planned(1, None))]).await;
    let Err(CommitError::Unavailable(why)) = outcome else { panic!("{outcome:?}") };
    let why = with_causes(&why);
    assert!(why.contains("timeout") || why.contains("timed out"), "{why}");
}

#[tokio::test]
async fn server_errors_and_throttling_are_tried_again_and_then_unavailable() {
    let stack = Stack::new().await;
    let once = vec![error(500, "InternalServerError"), error(400, "ThrottlingException")];
    let proxy = Proxy::new("PutItem", once.clone());
    let table = stack.table_at(proxy.address).await;
    assert_eq!(table.commit(&[new(&planned(1, None))]).await, Ok(Committed::by_table()));
    assert_eq!(proxy.seen(), 3);

    let proxy = Proxy::new("GetItem", vec![error(500, "InternalServerError"); 3]);
    let table = stack.table_at(proxy.address).await;
    let outcome = table.instance(&planned(1, None).name).await;
    let Err(ReadError::Unavailable(why)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(with_causes(&why), "GetItem: InternalServerError: scripted");
}

/// A burst above a table's earlier peak is throttled for moments, and all ends of a pool's machines
/// write its counter.
#[tokio::test]
async fn a_throttled_transaction_is_tried_again_and_another_cancelled_one_is_not() {
    let stack = Stack::new().await;
    let rows: [(&[&str], bool); 7] = [
        (&["None", "ThrottlingError"], true),
        (&["ProvisionedThroughputExceeded", "None"], true),
        (&["None", "TransactionConflict"], true),
        (&["ThrottlingError", "TransactionConflict"], true),
        (&["ConditionalCheckFailed", "TransactionConflict"], false),
        (&["ThrottlingError", "ConditionalCheckFailed"], false),
        (&["None", "ValidationError"], false),
    ];
    for (n, (reasons, again)) in (0..).zip(rows) {
        let proxy = Proxy::new("TransactWriteItems", vec![cancelled(reasons); 2]);
        let table = stack.table_at(proxy.address).await;
        let outcome = table.commit(&[new(&queued(2 * n)), new(&queued(2 * n + 1))]).await;
        let tries = if again { 3 } else { 1 };
        assert_eq!((outcome.is_ok(), proxy.seen()), (again, tries), "{reasons:?}: {outcome:?}");
    }
    let proxy = Proxy::new("PutItem", vec![error(400, "TransactionConflictException"); 2]);
    let table = stack.table_at(proxy.address).await;
    assert_eq!(table.commit(&[new(&planned(1, None))]).await, Ok(Committed::by_table()));
    assert_eq!(proxy.seen(), 3);
}

#[tokio::test]
async fn a_cancelled_transaction_says_why() {
    let stack = Stack::new().await;
    let cases: [(Deed, bool); 5] = [
        (cancelled(&["ConditionalCheckFailed", "None"]), true),
        (cancelled(&["None", "TransactionConflict"]), true),
        (cancelled(&["None", "ValidationError"]), false),
        (error(400, "ValidationException"), false),
        (error(400, "IdempotentParameterMismatchException"), false),
    ];
    for (deed, is_conflict) in cases {
        let proxy = Proxy::new("TransactWriteItems", vec![deed.clone(); 3]);
        let table = stack.table_at(proxy.address).await;
        let outcome = table.commit(&[new(&queued(1)), new(&queued(2))]).await;
        assert_eq!(outcome == Err(CommitError::Conflict), is_conflict, "{deed:?}: {outcome:?}");
        assert!(outcome.is_err());
    }
    let proxy = Proxy::new("PutItem", vec![error(400, "TransactionConflictException"); 3]);
    let table = stack.table_at(proxy.address).await;
    let outcome = table.commit(&[new(&queued(1))]).await;
    assert_eq!(outcome, Err(CommitError::Conflict));
}

#[tokio::test]
async fn keys_that_a_batch_leaves_over_are_asked_for_again() {
    let stack = Stack::new().await;
    let jobs = [new(&queued(1)), new(&queued(2))];
    stack.table.commit(&jobs).await.expect("committed");
    let left_over = format!(
        r#"{{"Responses":{{}},"UnprocessedKeys":{{"{}":{{"ConsistentRead":true,"Keys":[
            {{"job":{{"S":"1/1"}}}},{{"job":{{"S":"1/2"}}}}]}}}}}}"#,
        stack.names.jobs
    );
    let busy = vec![Deed::Answer(200, left_over); 2];
    let proxy = Proxy::new("BatchGetItem", busy.clone());
    let table = stack.table_at(proxy.address).await;
    assert_eq!(table.jobs(&[key(1), key(2)]).await.expect("read").len(), 2);
    assert_eq!(proxy.seen(), 3);

    let proxy = Proxy::new("BatchGetItem", busy.into_iter().cycle().take(20).collect());
    let table = stack.table_at(proxy.address).await;
    assert!(table.jobs(&[key(1), key(2)]).await.is_err(), "not for ever");
}

/// Runs in a separate process, because all tests share this one's environment.
#[test]
fn endpoints_come_from_the_environment() {
    let address = format!("http://{}", emulator());
    let nowhere = "http://127.0.0.1:1".to_owned();
    let cases = [
        ([("AWS_ENDPOINT_URL", &address), ("AWS_REGION", &"us-east-1".to_owned())], true),
        ([("AWS_ENDPOINT_URL", &nowhere), ("AWS_ENDPOINT_URL_DYNAMODB", &address)], true),
        ([("AWS_ENDPOINT_URL", &address), ("AWS_ENDPOINT_URL_DYNAMODB", &nowhere)], false),
    ];
    for (variables, works) in cases {
        let output = std::process::Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "faults::child_that_calls_dynamodb", "--ignored"])
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .envs(variables)
            .output()
            .expect("this program starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("running 1 test"), "{text}");
        assert_eq!(output.status.success(), works, "{variables:?}: {text}");
    }
}

#[tokio::test]
#[ignore = "run by endpoints_come_from_the_environment"]
async fn child_that_calls_dynamodb() {
    let client = aws_sdk_dynamodb::Client::new(&muster_aws::client::load().await);
    let table = format!("child-{}", std::process::id());
    let key = AttributeValue::S("x".to_owned());
    let error = client.get_item().table_name(table).key("k", key).send().await.err();
    let code = error.and_then(|error| muster_aws::error::ServiceError::from_sdk(&error).code);
    assert_eq!(code.as_deref(), Some("ResourceNotFoundException"), "the emulator answered");
}
