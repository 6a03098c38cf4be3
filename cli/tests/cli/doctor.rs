//! `doctor`: every rule over the facts of a stack that is well but for one, and what is asked.

mod account;
mod asked;
mod canary;
mod machines;
mod network;

use muster_api::answers::{Finding, Location, Severity, StackStatus};
use muster_cli::alarms::{Alarm, AlarmState};
use muster_cli::args::Dead;
use muster_cli::doctor::backlog::Backlog;
use muster_cli::doctor::facts::{
    AlarmFacts, Deployed, Drifted, Function, Mapping, Running, Subscription, Unknown,
};
use muster_cli::doctor::stack::FUNCTIONS;
use muster_cli::doctor::{Check, Facts, Level, checks};
use muster_cli::page::Screen;
use muster_cli::views;
use muster_domain::pool::Pool;
use muster_domain::time::Seconds;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fake::NOW;
use crate::pages::with_findings;
use crate::{compare, drawn, recorded};

fn read<T: DeserializeOwned>(answer: Value) -> T {
    serde_json::from_value(answer).expect("an answer")
}

/// A stack that is well.
pub(crate) fn well() -> Facts {
    let function = || Function {
        state: "Active".to_owned(),
        update: "Successful".to_owned(),
        ..Function::default()
    };
    let mapping = |id: &str, function: &str, queue: &str| Mapping {
        id: id.to_owned(),
        function: function.to_owned(),
        queue: queue.to_owned(),
        state: "Enabled".to_owned(),
        last: "OK".to_owned(),
    };
    let mappings = vec![
        mapping("1", "muster-scale-up", "muster-JobsQueue-1"),
        mapping("2", "muster-scale-up", "muster-LaunchQueue-2"),
        mapping("3", "muster-reaper", "muster-ReapQueue-3"),
    ];
    let alarm = |name: &str| AlarmFacts {
        alarm: Alarm {
            name: name.to_owned(),
            state: AlarmState::Quiet,
            since: Some(NOW - Seconds(700)),
            what: "A machine should have ended half an hour ago. It has not.".to_owned(),
            page: format!("https://github.com/x/muster/blob/main/docs/alarms/{name}.md"),
            ..Alarm::default()
        },
        is_enabled: true,
        topics: vec!["arn:aws:sns:us-east-1:1:t".to_owned()],
    };
    let subscription = Subscription { endpoint: "ops@acme.io".to_owned(), is_confirmed: true };
    Facts {
        stack: "muster".to_owned(),
        region: "us-east-1".to_owned(),
        now: NOW,
        account: account::well(),
        deployed: Ok(Some(Deployed {
            status: "UPDATE_COMPLETE".to_owned(),
            parameters: [
                ("Subnets", "subnet-0a1b2c3d,subnet-0e1f2a3b"),
                ("MachineTagKeys", "team"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
            ..Deployed::default()
        })),
        running: Some(Running {
            status: Ok(read(recorded("status_quiet"))),
            pools: Ok(vec![Pool::built_in(
                "muster",
                vec!["subnet-0a1b2c3d".into(), "subnet-0e1f2a3b".into()],
                20,
            )]),
            functions: FUNCTIONS.map(|name| (name, Ok(Some(function())))).into(),
            drift: None,
            reserved: Ok(FUNCTIONS.map(|name| (name, (name == "webhook").then_some(5))).into()),
            rules: Ok(["ReaperFunctionTick", "MachineEndedRule", "SpotWarningRule"]
                .map(|name| (format!("muster-{name}-1A"), true))
                .into()),
            mappings: Ok(mappings),
            dead_letters: Ok(0),
            backlogs: Ok(Vec::new()),
            alarms: Ok(vec![alarm("delete-stuck"), alarm("quota")]),
            subscriptions: Ok(vec![subscription]),
            swept_at: Ok(Some(NOW - Seconds(90))),
            network: Ok(network::well()),
            function_network: None,
            machines: machines::well(),
        }),
    }
}

fn not_installed() -> Finding {
    let page = "https://github.com/apps/muster-acme/installations/new";
    let message = format!(
        "the App is not installed anywhere, so GitHub sends no job events: install it at {page}"
    );
    let finding = Finding::new("app-installed", Severity::Error, Location::Github, &message);
    finding.fix("muster github").url(page.to_owned())
}

fn running(facts: &mut Facts) -> &mut Running {
    facts.running.as_mut().expect("a stack")
}

fn status(facts: &mut Facts) -> &mut StackStatus {
    running(facts).status.as_mut().expect("a status")
}

fn deployed(facts: &mut Facts) -> &mut Deployed {
    facts.deployed.as_mut().expect("known").as_mut().expect("a stack")
}

fn lines(all: &[Check]) -> String {
    let wrongs = all.iter().filter(|one| one.level != Level::Ok);
    let told = wrongs.map(|one| {
        let level = json!(one.level);
        let sentence = one.message().expect("a message");
        let next = one.finding.iter().flat_map(|one| [&one.fix, &one.url]).flatten();
        let next = next.map(|text| format!("  → {text}\n"));
        let (level, next) = (level.as_str().unwrap_or_default(), next.collect::<String>());
        format!("{level} {} {}: {sentence}\n{next}", one.group.title(), one.id)
    });
    told.collect()
}

/// A row: its name, and what is wrong with an otherwise healthy stack.
type Row = (&'static str, fn(&mut Facts));

fn told(page: &str, rows: &[Row]) {
    assert_eq!(lines(&checks(&well())), "", "it is well");
    let all = rows.iter().map(|(name, break_it)| {
        let mut facts = well();
        break_it(&mut facts);
        let said = lines(&checks(&facts));
        assert!(!said.is_empty(), "{name}");
        format!("== {name}\n{said}")
    });
    compare(page, &all.collect::<Vec<_>>().join("\n"));
}

fn may_not(right: &str) -> Unknown {
    Unknown::MayNot(right.to_owned())
}

#[test]
fn each_wrong_of_github_and_jobs_has_its_sentence() {
    told(
        "doctor_jobs.txt",
        &[
            ("the App is not installed anywhere", |facts| {
                status(facts).overview.findings.push(not_installed());
            }),
            ("a finding of a kind that this release does not know", |facts| {
                let message = "a later release knows more";
                let finding = Finding::new("later", Severity::Warning, Location::Stack, message);
                status(facts).overview.findings.push(finding);
            }),
            ("GitHub refuses registrations, a pool is at its maximum, EC2 refuses", |facts| {
                running(facts).status = Ok(read(with_findings(drawn("status"))));
            }),
            ("switches, orphans, machines that serve nothing", |facts| {
                running(facts).status = Ok(read(recorded("status")));
            }),
            ("the admin function may not be asked", |facts| {
                running(facts).status = Err(may_not("lambda:InvokeFunction"));
            }),
            ("the admin function is broken", |facts| {
                let said = "muster-admin ended without an answer: panicked";
                running(facts).status = Err(Unknown::NoAnswer(said.to_owned()));
            }),
        ],
    );
}

#[test]
fn each_wrong_of_the_stack_has_its_sentence() {
    fn function(facts: &mut Facts, function: Option<Function>) {
        running(facts).functions[2].1 = Ok(function);
    }
    told(
        "doctor_stack.txt",
        &[
            ("there is none", |facts| {
                (facts.deployed, facts.running) = (Ok(None), None);
            }),
            ("CloudFormation does not know it", |facts| facts.deployed = Ok(None)),
            ("it may not be seen", |facts| {
                facts.deployed = Err(may_not("cloudformation:DescribeStacks"));
            }),
            ("its first deployment failed", |facts| {
                deployed(facts).status = "ROLLBACK_COMPLETE".to_owned();
            }),
            ("its last change failed", |facts| {
                deployed(facts).status = "UPDATE_ROLLBACK_COMPLETE".to_owned();
            }),
            ("the way back failed too", |facts| {
                deployed(facts).status = "UPDATE_ROLLBACK_FAILED".to_owned();
                deployed(facts).reason = Some("[AdminRole] is not authorized.".to_owned());
            }),
            ("it is being changed", |facts| {
                deployed(facts).status = "UPDATE_IN_PROGRESS".to_owned();
            }),
            ("it is being deleted", |facts| deployed(facts).status = "DELETE_FAILED".to_owned()),
            ("a function is gone", |facts| function(facts, None)),
            ("a function cannot run", |facts| {
                let (state, reason) = ("Failed".to_owned(), "the key is disabled".to_owned());
                function(facts, Some(Function { state, reason, ..Function::default() }));
            }),
            ("a function was not changed", |facts| {
                let (update, why) = ("Failed".to_owned(), "the package is too large".to_owned());
                let failed = Function { update, update_reason: why, ..Function::default() };
                function(facts, Some(failed));
            }),
            ("somebody has changed a role and deleted a rule", |facts| {
                let of = |name: &str, kind: &str, is_deleted, differs: &[&str]| Drifted {
                    name: name.to_owned(),
                    kind: kind.to_owned(),
                    id: format!("muster-{name}-1A"),
                    is_deleted,
                    differs: differs.iter().map(|path| (*path).to_owned()).collect(),
                };
                running(facts).drift = Some(Ok(vec![
                    of("AdminRole", "AWS::IAM::Role", false, &["/Policies/0", "/Path"]),
                    of("SpotWarningRule", "AWS::Events::Rule", true, &[]),
                ]));
            }),
            ("nobody may compare the resources", |facts| {
                running(facts).drift = Some(Err(may_not("cloudformation:DetectStackDrift")));
            }),
            ("a function was stopped", |facts| {
                running(facts).reserved.as_mut().expect("known")[2].1 = Some(0);
            }),
            ("the rule of the sweep is disabled", |facts| {
                running(facts).rules.as_mut().expect("known")[0].1 = false;
            }),
            ("a rule of machines is disabled", |facts| {
                running(facts).rules.as_mut().expect("known")[2].1 = false;
            }),
            ("a function may not be seen", |facts| {
                running(facts).functions[0].1 = Err(may_not("lambda:GetFunctionConfiguration"));
            }),
        ],
    );
}

#[test]
fn each_wrong_of_queues_and_alarms_has_its_sentence() {
    fn mappings(facts: &mut Facts) -> &mut Vec<Mapping> {
        running(facts).mappings.as_mut().expect("known")
    }
    fn alarms(facts: &mut Facts) -> &mut Vec<AlarmFacts> {
        running(facts).alarms.as_mut().expect("known")
    }
    told(
        "doctor_queues.txt",
        &[
            ("a queue is not read", |facts| mappings(facts)[0].state = "Disabled".to_owned()),
            ("a queue cannot be read", |facts| {
                mappings(facts)[2].last = "PROBLEM: Function call failed".to_owned();
            }),
            ("nothing reads a queue", |facts| drop(mappings(facts).pop())),
            ("the sweep stopped", |facts| {
                running(facts).swept_at = Ok(Some(NOW - Seconds(420)));
            }),
            ("no sweep is known", |facts| running(facts).swept_at = Ok(None)),
            ("the stack is young", |facts| {
                running(facts).swept_at = Ok(None);
                deployed(facts).created = Some(NOW - Seconds(200));
            }),
            ("messages were given up", |facts| running(facts).dead_letters = Ok(2)),
            ("scale-up fails on every event", |facts| {
                let error = "failed to record a job event: table unavailable: GetItem: AccessDeniedException";
                let error = Some(error.to_owned());
                running(facts).backlogs =
                    Ok(vec![Backlog { queue: Dead::Jobs, messages: 3, error }]);
            }),
            ("an alarm is red", |facts| alarms(facts)[0].alarm.state = AlarmState::Red),
            ("the alarms tell nobody", |facts| {
                alarms(facts).iter_mut().for_each(|one| one.topics.clear());
            }),
            ("an alarm was muted", |facts| alarms(facts)[1].is_enabled = false),
            ("nobody has subscribed", |facts| running(facts).subscriptions = Ok(vec![])),
            ("nobody has confirmed", |facts| {
                let endpoint = "ops@acme.io".to_owned();
                let waits = Subscription { endpoint, is_confirmed: false };
                running(facts).subscriptions = Ok(vec![waits]);
            }),
            ("who hears them may not be asked", |facts| {
                running(facts).subscriptions = Err(may_not("sns:ListSubscriptionsByTopic"));
            }),
        ],
    );
}

/// What was measured at the limits of a rule: one second less is well.
#[test]
fn a_sweep_of_five_minutes_ago_is_no_silence() {
    let at = |seconds: u32| {
        let mut facts = well();
        running(&mut facts).swept_at = Ok(Some(NOW - Seconds(seconds)));
        lines(&checks(&facts))
    };
    assert_eq!(at(299), "");
    assert!(at(301).contains("The last sweep was 5 min ago"), "{}", at(301));
}

/// The rules go by the template's names, which CloudFormation puts the stack's before.
#[test]
fn every_rule_is_the_templates() {
    let template = include_str!("../../../template.yaml");
    for line in
        ["  ReaperFunction:\n", "        Tick:\n", "  MachineEndedRule:\n", "  SpotWarningRule:\n"]
    {
        assert!(template.contains(line), "{line}");
    }
}

#[test]
fn the_page_has_a_line_for_each_group() {
    let mut facts = well();
    status(&mut facts).overview.findings.push(not_installed());
    running(&mut facts).dead_letters = Ok(2);
    running(&mut facts).subscriptions = Err(may_not("sns:ListSubscriptionsByTopic"));
    let screens = [("80 columns", Some(80)), ("120 columns", Some(120)), ("a pipe", None)];
    let looks = |facts: &Facts| {
        let shown = screens.map(|(title, width)| {
            let page = views::doctor::page(facts, &checks(facts), Screen { width, colour: false });
            let longest = page.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            assert!(width.is_none_or(|width| longest <= usize::from(width)), "{title}: {longest}");
            format!("== {title}\n{page}")
        });
        shown.join("\n")
    };
    compare("doctor.txt", &looks(&facts));
    compare("doctor_well.txt", &looks(&well()));
}
