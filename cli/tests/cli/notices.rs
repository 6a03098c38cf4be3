//! `muster notices`: from no address to one, to another, and to none.

use serde_json::json;

use crate::fake::Fake;
use crate::orders::told;
use crate::setup::{Answer, no_stack, service, stack};

const ADDRESS: &str = "https://hooks.slack.com/services/T0/B0/x";

fn no(operation: &str, code: &str) -> Answer {
    service(&format!("secretsmanager:{operation}"), code, "said by Secrets Manager")
}

fn secret(text: &str) -> Answer {
    Ok(json!({ "Name": "muster/notices", "SecretString": text }))
}

#[test]
fn whom_the_stack_tells_is_set_shown_and_taken_away() {
    const NONE: &str = "ResourceNotFoundException";
    let done = || Ok(json!({}));
    let deployed = || stack("UPDATE_COMPLETE");
    let says = |said: &'static str, services: Vec<Answer>| Fake {
        says: [said].into(),
        ..Fake::aws(services)
    };
    let set = || vec!["notices", "set", "slack"];
    let file = |file: &'static str, services: Vec<Answer>| Fake { file, ..Fake::aws(services) };
    let from_file = || vec!["notices", "set", "teams", "--file", "address.txt"];
    told(
        "run_notices",
        [
            (Fake::aws([no("GetSecretValue", NONE)]), vec!["notices"]),
            (Fake::aws([secret(&format!("slack {ADDRESS}\n"))]), vec!["notices"]),
            (Fake::aws([secret(&format!("slack {ADDRESS}"))]), vec!["notices", "--json"]),
            (Fake::aws([secret("hooks.slack.com")]), vec!["notices"]),
            // The first address.
            (says(ADDRESS, vec![deployed(), no("PutSecretValue", NONE), done()]), set()),
            // Another one, after the AWS CLI took the last away with days of grace.
            (
                file(
                    "https://prod-1.westeurope.logic.azure.com/workflows/a?sig=b\n",
                    vec![
                        deployed(),
                        no("PutSecretValue", "InvalidRequestException"),
                        done(),
                        done(),
                    ],
                ),
                from_file(),
            ),
            // The name is not free yet: after `off`, or after the AWS CLI deleted it without grace.
            (
                Fake {
                    patience: 9,
                    ..says(
                        ADDRESS,
                        vec![
                            deployed(),
                            no("PutSecretValue", NONE),
                            no("CreateSecret", "InvalidRequestException"),
                            no("PutSecretValue", "InvalidRequestException"),
                            no("RestoreSecret", "InvalidRequestException"),
                            no("PutSecretValue", "InvalidRequestException"),
                            no("RestoreSecret", NONE),
                            done(),
                        ],
                    )
                },
                set(),
            ),
            // Somebody stops the wait.
            (
                Fake {
                    patience: 0,
                    ..says(
                        ADDRESS,
                        vec![
                            deployed(),
                            no("PutSecretValue", NONE),
                            no("CreateSecret", "InvalidRequestException"),
                        ],
                    )
                },
                set(),
            ),
            (says("http://hooks.slack.com/services/T0", vec![]), set()),
            (says(ADDRESS, vec![no_stack()]), set()),
            (says(ADDRESS, vec![deployed(), no("PutSecretValue", "AccessDeniedException")]), set()),
            (says("y", vec![done()]), vec!["notices", "off"]),
            (says("n", vec![]), vec!["notices", "off"]),
            (Fake::aws([no("DeleteSecret", NONE)]), vec!["notices", "off", "--yes"]),
        ],
    );
}
