//! Whose App a request is for, and whose App GitHub creates: that is the account that is signed in there.

use muster_cloud::github::{AppOwner, HookAttributes, Manifest};
use serde_json::{Value, json};

use super::{API, ask, audit, bench, error, is_set_up, kept};

/// The account that GitHub names, or the way in which it names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Organization(&'static str),
    Person(&'static str),
    Enterprise,
}

use Made::{Enterprise, Organization, Person};

/// What the refusal calls an owner.
fn called(made: Made) -> String {
    match made {
        Organization(login) => format!("the organization {login}"),
        Person(login) => format!("the personal account {login}"),
        Enterprise => "another account".to_owned(),
    }
}

/// The owner of the new App; and whether its key is kept if the request is for the organization acme,
/// for a personal account, and for any account.
const ROWS: [(Made, [bool; 3]); 9] = [
    (Organization("acme"), [true, false, true]),
    (Organization("Acme"), [true, false, true]),
    (Organization("ACME"), [true, false, true]),
    (Organization("globex"), [false, false, true]),
    (Organization("acme-corp"), [false, false, true]),
    (Organization("acm"), [false, false, true]),
    (Person("mira"), [false, true, true]),
    // A person can have no organization's login, but the answer is what counts.
    (Person("acme"), [false, true, true]),
    (Enterprise, [false, false, true]),
];

#[test]
fn the_key_of_an_app_of_an_unexpected_owner_is_not_kept() {
    let expected = [json!({ "organization": "acme" }), json!("person"), Value::Null];
    for (made, kept_for) in ROWS {
        for (owner, is_kept) in expected.iter().zip(kept_for) {
            let row = format!("{made:?} for {owner}");
            let bench = bench();
            let (login, is_organization) = match made {
                Organization(login) => (login, true),
                Person(login) => (login, false),
                Enterprise => ("acme", true),
            };
            let owned = AppOwner { login: login.to_owned(), id: 9919, is_organization };
            let manifest = Manifest {
                hook_attributes: Some(HookAttributes {
                    url: Some("https://old.example/webhook".to_owned()),
                    active: true,
                }),
                ..Manifest::default()
            };
            let code = bench.change(|world| {
                world.github.script.hides_app_owner = made == Enterprise;
                world.make_app(owned, "muster", &manifest)
            });
            let create = json!({ "code": code, "api_url": API, "owner": owner });
            let answer = ask(&bench, json!({ "create": create, "by": "mira" }));
            assert_eq!(kept(&bench).is_some(), is_kept, "{row}: {answer}");
            // GitHub created it either way.
            assert_eq!(audit(&bench).len(), 1, "{row}");
            if is_kept {
                assert_eq!(answer["ok"], true, "{row}: {answer}");
                assert!(is_set_up(&bench), "{row}");
                continue;
            }
            let (kind, message) = error(&answer);
            assert_eq!(kind, "not_allowed", "{row}: {message}");
            let number = bench.change(|world| world.github.truth.newest_app()).expect("an App");
            let begin = format!("GitHub created App muster ({number}) for {}, but ", called(made));
            assert!(message.starts_with(&begin), "{row}: {message}");
            assert!(message.contains("The stack did not store its key"), "{row}: {message}");
            let key = bench.change(|world| {
                let key = world.github.truth.private_key(&number).expect("a key");
                key.lines().nth(1).expect("a line").to_owned()
            });
            assert!(!answer.to_string().contains(&key), "{row}: {answer}");
            // The code is used up, so the same request keeps no key either.
            let again = json!({ "code": code, "api_url": API, "owner": owner });
            assert_eq!(error(&ask(&bench, json!({ "create": again }))).0, "not_found", "{row}");
            assert_eq!(kept(&bench), None, "{row}");
        }
    }
}
