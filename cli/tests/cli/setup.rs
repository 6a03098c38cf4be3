//! From an account to a first job: what is found, asked, deployed and told, and what goes on after
//! a stop.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use muster_cli::failure::Failure;
use muster_cli::world::ProgramResult;
use serde_json::{Value, json};

use crate::binary::{muster, serve, with_credentials};
use crate::fake::Fake;
use crate::github::{created, installed, new, none, tested, visited};
use crate::image;
use crate::orders::{refused, told};
use crate::recorded;

const ID: &str = "arn:aws:cloudformation:us-east-1:111122223333:stack/muster/9";
/// A checkout after `make build`.
pub(crate) const BUILT: &[&str] =
    &["./template.yaml", "./samconfig.toml", "./dist/admin/bootstrap", "./dist/architecture"];
/// An unpacked release.
const RELEASE: &[&str] = &[
    "muster-0.3.0/template.yaml",
    "muster-0.3.0/samconfig.toml",
    "muster-0.3.0/dist/admin/bootstrap",
];
pub(crate) const TEMPLATE: &str = "Description: >-\n  Muster 0.3.0: ephemeral runners.\n";

pub(crate) type Answer = Result<Value, Failure>;

fn who() -> Answer {
    Ok(json!({ "GetCallerIdentityResult": {
        "Account": "111122223333", "Arn": "arn:aws:iam::111122223333:role/Admin", "UserId": "AROA:mira" } }))
}

pub(crate) fn service(action: &str, code: &str, said: &str) -> Answer {
    let (action, code, said) = (action.to_owned(), code.to_owned(), said.to_owned());
    Err(Failure::Service { action, code, said })
}

pub(crate) fn no_stack() -> Answer {
    service(
        "cloudformation:DescribeStacks",
        "ValidationError",
        "Stack with id muster does not exist",
    )
}

pub(crate) fn stack(status: &str) -> Answer {
    Ok(json!({ "DescribeStacksResult": { "Stacks": [{
        "StackId": ID, "StackStatus": status,
        "Outputs": [
            { "OutputKey": "ControlTableName", "OutputValue": "muster-ControlTable-1" },
            { "OutputKey": "MachineLogsPrefix", "OutputValue": "s3://muster-machinelogs-1/AROA7:" }] }] } }))
}

pub(crate) fn resources(all: &[(&str, &str)]) -> Answer {
    let all =
        all.iter().map(|(id, status)| json!({ "LogicalResourceId": id, "ResourceStatus": status }));
    Ok(json!({ "ListStackResourcesResult": { "StackResourceSummaries": all.collect::<Vec<_>>() } }))
}

/// The default network, in two zones, and the limits of an old account.
fn network() -> Vec<Answer> {
    [&networks()[..], &account(1_000, 640.0)].concat()
}

fn networks() -> [Answer; 3] {
    let subnet = |id: &str, zone: &str| json!({ "subnetId": id, "vpcId": "vpc-0f3a", "availabilityZone": zone, "mapPublicIpOnLaunch": "true" });
    let route =
        json!({ "destinationCidrBlock": "0.0.0.0/0", "gatewayId": "igw-1", "state": "active" });
    [
        Ok(json!({ "vpcSet": [{ "vpcId": "vpc-0f3a", "isDefault": "true" }] })),
        Ok(
            json!({ "subnetSet": [subnet("subnet-0a", "us-east-1a"), subnet("subnet-0b", "us-east-1b")] }),
        ),
        Ok(json!({ "routeTableSet": [
            { "vpcId": "vpc-0f3a", "associationSet": [{ "main": "true" }], "routeSet": [route] }] })),
    ]
}

/// An account's concurrency, and its quota of vCPUs in each market.
fn account(free: u64, vcpus: f64) -> [Answer; 6] {
    let limit = json!({ "ConcurrentExecutions": free, "UnreservedConcurrentExecutions": free });
    let quota = || Ok(json!({ "Quota": { "Value": vcpus } }));
    let plan = service("freetier:GetAccountPlanState", "ResourceNotFoundException", "no plan");
    [who(), Ok(json!({ "AccountLimit": limit })), Ok(json!({})), quota(), quota(), plan]
}

pub(crate) fn ended(is_good: bool, said: &str) -> Option<ProgramResult> {
    Some(ProgramResult { is_good, said: said.to_owned() })
}

/// One repository, in which nothing waits.
fn private() -> Value {
    let one = json!({ "name": "acme/app", "private": true, "queued": 0 });
    json!({ "ok": true, "version": 1, "repositories": [one], "more": false })
}

/// What the App and the first job are answered.
fn app() -> Vec<Value> {
    let mut all = vec![none(), new(), installed(), tested(200), installed()];
    all.extend([images(false), built(), private(), recorded("status"), recorded("jobs")]);
    all
}

/// The images of a stack with one pool.
fn images(on: bool) -> Value {
    image::status(on, &[image::family(&json!({}))], 0)
}

/// The answer to the order that turns images on.
fn built() -> Value {
    let mut answer = images(true);
    answer["changes"] =
        json!(["images are on: a build starts within a minute for each family without one"]);
    answer
}

/// The same for a person who wants no images.
fn without_images() -> VecDeque<Value> {
    let mut all = app();
    all.retain(|answer| *answer != built());
    all.into()
}

/// A stack whose App is connected already.
fn again(answers: impl IntoIterator<Item = Value>) -> Fake {
    let app = [installed(), installed(), tested(200), installed()];
    Fake {
        files: BUILT,
        services: [who(), stack("CREATE_COMPLETE")].into(),
        ..Fake::of(app.into_iter().chain(answers))
    }
}

fn fresh(services: Vec<Answer>, child: Vec<Option<ProgramResult>>) -> Fake {
    let services = [vec![who(), no_stack()], services].concat();
    Fake {
        files: BUILT,
        file: TEMPLATE,
        services: services.into(),
        child: child.into(),
        ..visited([created("c0de")], app())
    }
}

/// The same in a new account, which runs ten functions and four machines at once.
fn small_account(mut services: Vec<Answer>) -> Vec<Answer> {
    services.splice(3..9, account(10, 5.0));
    services
}

/// A deployment of two looks.
fn deploys() -> (Vec<Answer>, Vec<Option<ProgramResult>>) {
    let services = [
        no_stack(),
        stack("CREATE_IN_PROGRESS"),
        resources(&[("Api", "CREATE_COMPLETE"), ("InstanceRole", "CREATE_IN_PROGRESS")]),
        stack("CREATE_COMPLETE"),
        resources(&[("Api", "CREATE_COMPLETE"), ("InstanceRole", "CREATE_COMPLETE")]),
    ];
    let services = [network(), services.to_vec()].concat();
    (services, vec![None, None, None, ended(true, "done")])
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn an_account_comes_to_a_first_job() {
    let (services, child) = deploys();
    let owned = json!([
        { "role": "admin", "organization": { "login": "acme" } },
        { "role": "member", "organization": { "login": "zoo" } },
    ]);
    let release = Fake { files: RELEASE, ..fresh(services.clone(), child.clone()) };
    told(
        "run_setup",
        [
            // Enter, six times.
            (
                Fake {
                    says: ["", "", "", "", "", ""].into(),
                    github: [Some(owned)].into(),
                    ..fresh(services.clone(), child.clone())
                },
                vec!["setup", "--by", "mira"],
            ),
            // Answers that are none are asked for again.
            (
                Fake {
                    says: [
                        "acme",
                        "vpc-9",
                        "vpc-0f3a",
                        "",
                        "many",
                        "7",
                        "o'ps@acme.io",
                        "ops@acme.io",
                        "y",
                        "no",
                    ]
                    .into(),
                    github: [None].into(),
                    answers: without_images(),
                    ..fresh(small_account(services.clone()), child.clone())
                },
                vec!["setup", "--by", "mira"],
            ),
            // Everything by options, nobody there.
            (
                release,
                vec![
                    "setup",
                    "--by",
                    "mira",
                    "--yes",
                    "--org",
                    "acme",
                    "--from",
                    "muster-0.3.0",
                    "--max",
                    "4",
                    "--mail",
                    "ops@acme.io",
                    "--public-ip",
                    "yes",
                    "--boundary",
                    "arn:aws:iam::111122223333:policy/edge",
                ],
            ),
            // Jobs were queued before: they are taken in, or not.
            (
                Fake {
                    files: BUILT,
                    services: [who(), stack("CREATE_COMPLETE")].into(),
                    says: [""].into(),
                    ..Fake::of([
                        installed(),
                        installed(),
                        tested(200),
                        installed(),
                        images(true),
                        recorded("github_repositories"),
                        recorded("jobs_adopted"),
                        recorded("status"),
                        recorded("jobs"),
                    ])
                },
                vec!["setup", "--by", "mira"],
            ),
            (
                Fake {
                    files: BUILT,
                    services: [who(), stack("CREATE_COMPLETE")].into(),
                    says: ["no"].into(),
                    ..Fake::of([
                        installed(),
                        installed(),
                        tested(200),
                        installed(),
                        images(true),
                        recorded("github_repositories"),
                        recorded("status"),
                        recorded("jobs"),
                    ])
                },
                vec!["setup", "--by", "mira"],
            ),
            // Stopped at the App, and again.
            (
                Fake {
                    files: BUILT,
                    services: [who(), stack("CREATE_COMPLETE")].into(),
                    patience: 2,
                    ..Fake::of([
                        new(),
                        installed(),
                        tested(200),
                        installed(),
                        refused("bad_request", "unknown variant `images`"),
                        private(),
                        recorded("status"),
                        recorded("jobs"),
                    ])
                },
                vec!["setup", "--by", "mira"],
            ),
            // The image is refused, and by an option.
            (
                again([
                    images(false),
                    refused("unavailable", "the tables do not answer"),
                    private(),
                    recorded("status"),
                    recorded("jobs"),
                ]),
                vec!["setup", "--by", "mira", "--image", "yes"],
            ),
            (
                again([images(false), private(), recorded("status"), recorded("jobs")]),
                vec!["setup", "--by", "mira", "--image", "no"],
            ),
            // Stopped while CloudFormation went on.
            (
                Fake {
                    services: [
                        who(),
                        stack("CREATE_IN_PROGRESS"),
                        stack("CREATE_IN_PROGRESS"),
                        stack("CREATE_COMPLETE"),
                    ]
                    .into(),
                    patience: 9,
                    ..Fake::of([
                        installed(),
                        installed(),
                        tested(200),
                        installed(),
                        images(false),
                        private(),
                        recorded("status"),
                        recorded("jobs"),
                    ])
                },
                vec!["setup", "--by", "mira"],
            ),
        ],
    );
}

pub(crate) fn event(id: &str, status: &str, why: &str) -> Value {
    json!({ "LogicalResourceId": id, "ResourceStatus": status,
        "ResourceStatusReason": why })
}

#[test]
fn what_goes_wrong_has_one_reason() {
    let yes = || vec!["setup", "--by", "mira", "--yes", "--user"];
    let stopped = |services: Vec<Answer>, child: Vec<Option<ProgramResult>>, patience| Fake {
        answers: [].into(),
        visits: [].into(),
        patience,
        ..fresh(services, child)
    };
    let denied = "API: iam:CreateRole User is not authorized to perform: iam:CreateRole with an explicit deny in a service control policy";
    let events = [
        event("muster", "DELETE_COMPLETE", ""),
        event("Api", "CREATE_FAILED", "Resource creation cancelled"),
        event("InstanceRole", "CREATE_FAILED", denied),
    ];
    let events = Ok(json!({ "DescribeStackEventsResult": { "StackEvents": events } }));
    let seen =
        || vec![stack("CREATE_IN_PROGRESS"), resources(&[("InstanceRole", "CREATE_IN_PROGRESS")])];
    let error = "Uploading\n\nError: Failed to create changeset: no such bucket\n";
    let no_vpc = [
        Ok(
            json!({ "vpcSet": [{ "vpcId": "vpc-1", "isDefault": "false" }, { "vpcId": "vpc-2", "isDefault": "false" }] }),
        ),
        Ok(json!({ "subnetSet": null })),
        service("ec2:DescribeRouteTables", "UnauthorizedOperation", "You are not authorized"),
    ];
    let no_vpc = [&no_vpc[..], &account(1_000, 640.0)].concat();
    // Whoever may deploy need not be able to read the account's limits.
    let denied = service("lambda:GetAccountSettings", "AccessDeniedException", "not authorized");
    let no_settings = [&networks()[..], &vec![denied; 6]].concat();
    told(
        "run_setup_failures",
        [
            (
                stopped(
                    [network(), seen(), vec![events]].concat(),
                    vec![None, ended(false, "")],
                    9,
                ),
                yes(),
            ),
            (stopped(network(), vec![ended(false, error)], 9), yes()),
            (stopped(network(), vec![None], 1), yes()),
            (stopped(no_vpc, vec![], 9), yes()),
            (stopped(no_settings, vec![], 9), vec!["setup", "--user", "--by", "mira"]),
            (Fake { files: &[], ..stopped(vec![], vec![], 9) }, yes()),
            (stopped(network(), vec![], 9), vec!["setup", "--user", "--by", "mira"]),
            (stopped(vec![], vec![], 9), vec!["setup", "--yes", "--by", "mira"]),
            (Fake::aws([who(), stack("ROLLBACK_COMPLETE")]), yes()),
            (Fake::aws([service("sts:GetCallerIdentity", "AccessDenied", "no")]), yes()),
            (
                Fake { says: ["n"].into(), ..stopped(network(), vec![], 9) },
                vec![
                    "setup", "--user", "--by", "mira", "--vpc", "vpc-0f3a", "--max", "1", "--mail",
                    "a@b",
                ],
            ),
        ],
    );
}

#[test]
fn a_value_that_another_command_line_would_read_is_refused() {
    use clap::Parser as _;
    for value in ["a'b@c", "a b@c", "$(id)@c", "", "`id`@c", "a\"b@c", "a\\b@c"] {
        let line = ["muster", "setup", "--mail", value];
        let refused = muster_cli::args::Muster::try_parse_from(line).map(|_| ());
        assert_eq!(refused.map_err(|error| error.exit_code()), Err(2), "{value}");
    }
}

/// A folder that a release was unpacked in, and a `sam` that is a script.
fn unpacked(name: &str, script: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("muster-setup-{name}-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("dist/admin")).expect("a folder");
    let files = [
        ("template.yaml", TEMPLATE),
        ("samconfig.toml", ""),
        ("dist/admin/bootstrap", ""),
        ("sam", script),
    ];
    for (file, text) in files {
        std::fs::write(folder.join(file), text).expect("writable");
    }
    let may_run = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.join("sam"), may_run).expect("a file");
    folder
}

/// AWS, by what it is asked. There is no stack before `sam` ran.
fn aws(asked: &str, folder: &std::path::Path) -> (u16, String) {
    let xml = |action: &str, body: &str| {
        let text =
            format!("<{action}Response><{action}Result>{body}</{action}Result></{action}Response>");
        (200, text)
    };
    let is_there = folder.join("ran").exists();
    let action = asked.split("Action=").nth(1).and_then(|rest| rest.split('&').next());
    match action.unwrap_or_default() {
        "GetCallerIdentity" => xml("GetCallerIdentity", "<Account>111122223333</Account><Arn>arn:me</Arn>"),
        "DescribeStacks" if is_there => xml(
            "DescribeStacks",
            "<Stacks><member><StackId>arn:stack</StackId><StackStatus>CREATE_COMPLETE</StackStatus></member></Stacks>",
        ),
        "DescribeStacks" => (
            400,
            "<ErrorResponse><Error><Code>ValidationError</Code><Message>Stack with id ci does not exist</Message></Error>\
             </ErrorResponse>".to_owned(),
        ),
        "DescribeVpcs" => (
            200,
            "<a><vpcSet><item><vpcId>vpc-1</vpcId><isDefault>true</isDefault></item></vpcSet></a>".to_owned(),
        ),
        "DescribeSubnets" => (
            200,
            "<a><subnetSet><item><subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId><availabilityZone>z</availabilityZone>\
             <mapPublicIpOnLaunch>true</mapPublicIpOnLaunch></item></subnetSet></a>".to_owned(),
        ),
        "DescribeRouteTables" => (
            403,
            "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors></Response>"
                .to_owned(),
        ),
        "ListStackResources" => xml("ListStackResources", "<StackResourceSummaries/>"),
        _ => (200, json!({ "version": 1, "ok": false, "error": { "code": "bad_request", "message": "no github" } }).to_string()),
    }
}

fn setup(folder: &std::path::Path, address: &str) -> Command {
    let mut command = with_credentials(muster(&[
        "setup", "--yes", "--org", "acme", "--stack", "ci", "--by", "mira",
    ]));
    command.current_dir(folder).env("AWS_ENDPOINT_URL", address);
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_release_is_deployed_by_sam_in_its_folder() {
    let script = "#!/bin/sh\nprintf '%s\\n' \"$PWD\" \"$AWS_REGION\" \"$@\" > ran\n";
    let folder = unpacked("deploys", script);
    let of = folder.clone();
    let (address, _requests) = serve(move |asked| aws(asked, &of));
    let output = setup(&folder, &address).output().expect("a process");
    let ran = std::fs::read_to_string(folder.join("ran")).expect("sam ran");
    std::fs::remove_dir_all(&folder).expect("a folder");
    let said = String::from_utf8_lossy(&output.stderr);
    let ran: Vec<&str> = ran.lines().skip(1).collect();
    let line = [
        "us-east-1",
        "deploy",
        "--stack-name",
        "ci",
        "--no-confirm-changeset",
        "--no-fail-on-empty-changeset",
        "--parameter-overrides",
        "VpcId='vpc-1'",
        "Subnets='subnet-1'",
        "PublicIp='subnet'",
        "MaxMachines='20'",
    ];
    assert_eq!(ran, line, "{said}");
    assert!(said.contains("✓ stack ci, "), "{said}");
    assert!(said.contains("no github") && output.status.code() == Some(1), "{said}");
}

#[test]
fn whoever_stops_it_hears_where_it_goes_on() {
    let folder = unpacked("stops", "#!/bin/sh\necho $$ > pid\nexec sleep 60\n");
    let of = folder.clone();
    let (address, _requests) = serve(move |asked| aws(asked, &of));
    let mut child = setup(&folder, &address).spawn().expect("a process");
    let mut stderr = BufReader::new(child.stderr.take().expect("stderr"));
    let mut said = String::new();
    while !said.contains("Deploying") {
        assert!(stderr.read_line(&mut said).expect("a line") > 0, "{said}");
    }
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().expect("kill");
    assert!(sent.success());
    stderr.read_to_string(&mut said).expect("stderr");
    let code = child.wait().expect("an end").code();
    std::fs::remove_dir_all(&folder).expect("a folder");
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.ends_with("Stopped. Run muster setup to continue from \"deployment\".\n"),
        "{said}"
    );
}
