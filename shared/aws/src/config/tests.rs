use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use muster_control::metrics::Measures;
use muster_domain::timings::Timings;

use super::*;
use crate::environment::Variable;

/// Returns each variable that a function reads, and whether it must be set.
fn reads(of: Reads) -> BTreeMap<String, bool> {
    let asked = RefCell::new(Vec::new());
    let get = |name: &str| {
        asked.borrow_mut().push(name.to_owned());
        None
    };
    let mut reader = EnvironmentReader::new(&get);
    of(&mut reader);
    let problems = reader.finish(()).map_or_else(|error| error.0, |()| Vec::new());
    let must = |name: &str| problems.contains(&format!("{name} is not set"));
    asked.take().into_iter().map(|name| (name.clone(), must(&name))).collect()
}

type Reads = fn(&mut EnvironmentReader<'_>);

const FUNCTIONS: [(&str, Reads); 5] = [
    ("webhook", |read| drop(WebhookConfig::read(read))),
    ("scale-up", |read| drop(ScaleUpConfig::read(read))),
    ("reaper", |read| drop(ReaperConfig::read(read))),
    ("runner-api", |read| drop(RunnerApiConfig::read(read))),
    ("admin", |read| drop(AdminConfig::read(read))),
];

const VARIABLES: [&Variable; 21] = [
    &variables::STACK,
    &variables::LAUNCH_TEMPLATE,
    &variables::LAUNCH_TEMPLATE_VERSION,
    &variables::SUBNETS,
    &variables::MAX_MACHINES,
    &variables::MACHINE_TAG_KEYS,
    &variables::TIMINGS,
    &variables::MEASURES,
    &variables::INSTANCES_TABLE,
    &variables::JOBS_TABLE,
    &variables::CONTROL_TABLE,
    &variables::USAGE_TABLE,
    &variables::JOBS_QUEUE,
    &variables::LAUNCH_QUEUE,
    &variables::REAP_QUEUE,
    &variables::APP_KEY,
    &variables::CA_BUNDLE,
    &variables::WEBHOOK_SECRET,
    &variables::WEBHOOK_URL,
    &variables::USAGE_ACTORS,
    &variables::INSTANCE_ROLE_ID,
];

fn page() -> String {
    let read = FUNCTIONS.map(|(name, of)| (name, reads(of)));
    let mut page = String::from(
        "# Configuration\n\n\
        The template sets these environment variables; you do not set them by hand. A function with a missing or wrong variable\n\
        fails to start and logs all such problems. `UPDATE=1 cargo test -p muster-aws --lib config` generates this page.\n\n\
        | Variable | Meaning | Required by | Optional for |\n|---|---|---|---|\n",
    );
    for Variable { name, meaning } in VARIABLES {
        let of = |must: bool| {
            let functions = read.iter().filter(|(_, read)| read.get(*name) == Some(&must));
            functions.map(|(function, _)| *function).collect::<Vec<_>>().join(", ")
        };
        let (must, may) = (of(true), of(false));
        assert!(!must.is_empty() || !may.is_empty(), "{name} is read by no function");
        writeln!(page, "| `{name}` | {meaning} | {must} | {may} |").expect("a text");
    }
    page.push_str(
        "\nLambda itself sets `AWS_LAMBDA_LOG_LEVEL` from the function's logging configuration. The SDK reads its own\n\
        variables, such as `AWS_REGION` and `AWS_ENDPOINT_URL`.\n\n\
        ## Timings\n\n\
        The parameter `Timings` changes durations; all others keep the release's defaults. A pool file sets the boot deadline, the\n\
        idle limit and the maximum lifetime of each pool. `sam deploy` needs quotes around the JSON:\n\n    \
        sam deploy --parameter-overrides \"Timings='{\\\"idle_limit_seconds\\\":120}'\"\n\n\
        | Name | Default, in seconds | Meaning |\n|---|---|---|\n",
    );
    for (name, default, meaning) in Timings::FIELDS {
        writeln!(page, "| `{name}` | {} |{meaning} |", default.0).expect("a text");
    }
    page
}

#[test]
fn the_page_lists_what_the_functions_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, page()).expect("docs/configuration.md");
    }
    let written = std::fs::read_to_string(&path).expect("docs/configuration.md");
    assert_eq!(written, page(), "UPDATE=1 generates docs/configuration.md");
}

#[test]
fn every_variable_that_a_function_reads_is_listed() {
    for (function, of) in FUNCTIONS {
        for name in reads(of).into_keys() {
            assert!(VARIABLES.iter().any(|variable| variable.name == name), "{function}: {name}");
        }
    }
}

#[test]
fn every_problem_is_named_at_once() {
    let get = |name: &str| {
        Some(match name {
            "MUSTER_LAUNCH_TEMPLATE_VERSION" => "$Latest".to_owned(),
            "MUSTER_MAX_MACHINES" => "many".to_owned(),
            "MUSTER_TIMINGS" => r#"{"boot_deadlin":1}"#.to_owned(),
            "MUSTER_MEASURES" => "everything".to_owned(),
            "MUSTER_STACK" | "MUSTER_SUBNETS" => return None,
            other => other.to_lowercase(),
        })
    };
    let mut reader = EnvironmentReader::new(&get);
    let config = ScaleUpConfig::read(&mut reader);
    let Err(ConfigError(problems)) = reader.finish(config) else { panic!("accepted") };
    assert_eq!(problems.len(), 6, "{problems:#?}");
}

#[test]
fn timings_default_to_production() {
    let get = |name: &str| {
        (name == "MUSTER_TIMINGS").then(|| r#"{"boot_deadline_seconds":20}"#.to_owned())
    };
    let mut reader = EnvironmentReader::new(&get);
    let timings = AdminConfig::read(&mut reader).stack.settings.timings;
    assert_eq!(timings.boot_deadline_seconds.0, 20);
    assert_eq!(timings.busy_reads_apart_seconds.0, 180);
}

#[test]
fn a_stack_without_a_pool_file_has_one_pool_within_its_ceiling() {
    let get = |name: &str| {
        Some(match name {
            "MUSTER_STACK" => "staging".to_owned(),
            "MUSTER_SUBNETS" => "subnet-a,subnet-b".to_owned(),
            "MUSTER_MAX_MACHINES" => "7".to_owned(),
            "MUSTER_LAUNCH_TEMPLATE_VERSION" => "3".to_owned(),
            "MUSTER_MEASURES" => "stack".to_owned(),
            other => other.to_lowercase(),
        })
    };
    let mut reader = EnvironmentReader::new(&get);
    let settings = ScaleUpConfig::read(&mut reader).stack.settings;
    let [pool] = &settings.pools[..] else { panic!("{:?}", settings.pools) };
    assert_eq!(serde_json::to_string(&pool.labels).expect("text"), r#"[["staging"]]"#);
    assert_eq!(&*pool.launch_template_id, "muster_launch_template");
    assert_eq!((&*pool.launch_template_version, pool.subnets.len(), pool.max), ("3", 2, 7));
    assert_eq!(settings.measures, Measures::Stack);
    assert_eq!((settings.limits.stack, settings.max_machines), (Some(7), Some(7)));
    // Only the admin function needs to know what the parameters permit a pool file.
    assert_eq!(settings.rights, None);
    let get = |name: &str| match name {
        "MUSTER_MACHINE_TAGS" => Some("team, cost".to_owned()),
        other => get(other),
    };
    let mut reader = EnvironmentReader::new(&get);
    let rights = AdminConfig::read(&mut reader).stack.settings.rights.expect("known");
    assert_eq!((rights.stack.as_str(), rights.subnets.len()), ("staging", 2));
    assert_eq!(rights.tag_keys, ["team", "cost"]);
}
