//! The environment variables of the functions. docs/configuration.md lists them.

use crate::environment::Variable;

pub(crate) const STACK: Variable = Variable {
    name: "MUSTER_STACK",
    meaning: "The stack's name: the value of the tag `muster:stack` and of the metrics' dimension.",
};
pub(crate) const LAUNCH_TEMPLATE: Variable = Variable {
    name: "MUSTER_LAUNCH_TEMPLATE",
    meaning: "The ID of the machines' launch template.",
};
pub(crate) const LAUNCH_TEMPLATE_VERSION: Variable =
    Variable { name: "MUSTER_LAUNCH_TEMPLATE_VERSION", meaning: "Its newest version, a number." };
pub(crate) const SUBNETS: Variable = Variable {
    name: "MUSTER_SUBNETS",
    meaning: "The parameter `Subnets`: the subnets of the built-in pool, which is used until a pool file is applied.",
};
pub(crate) const MAX_MACHINES: Variable = Variable {
    name: "MUSTER_MAX_MACHINES",
    meaning: "The parameter `MaxMachines`: the maximum number of live instances, even if the pool file allows more.",
};
pub(crate) const MACHINE_TAG_KEYS: Variable = Variable {
    name: "MUSTER_MACHINE_TAGS",
    meaning: "The parameter `MachineTagKeys`: tags that pools can add to their machines.",
};
pub(crate) const TIMINGS: Variable = Variable {
    name: "MUSTER_TIMINGS",
    meaning: "The parameter `Timings`: durations in seconds, by name; the others keep their defaults.",
};
pub(crate) const MEASURES: Variable = Variable {
    name: "MUSTER_MEASURES",
    meaning: "The parameter `Measures`: metrics to write besides the alarms' metrics: `none`, `stack`, or `pools` (which includes `stack`).",
};
pub(crate) const INSTANCES_TABLE: Variable =
    Variable { name: "MUSTER_INSTANCES_TABLE", meaning: "The table of instances." };
pub(crate) const JOBS_TABLE: Variable =
    Variable { name: "MUSTER_JOBS_TABLE", meaning: "The table of jobs." };
pub(crate) const USAGE_TABLE: Variable =
    Variable { name: "MUSTER_USAGE_TABLE", meaning: "The table of usage records." };
pub(crate) const CONTROL_TABLE: Variable = Variable {
    name: "MUSTER_CONTROL_TABLE",
    meaning: "The table of launches, pools, orphans, switches, health and audit entries.",
};
pub(crate) const JOBS_QUEUE: Variable =
    Variable { name: "MUSTER_JOBS_QUEUE_URL", meaning: "The URL of the queue of job events." };
pub(crate) const LAUNCH_QUEUE: Variable = Variable {
    name: "MUSTER_LAUNCH_QUEUE_URL",
    meaning: "The URL of the queue that wakes launch passes.",
};
pub(crate) const REAP_QUEUE: Variable =
    Variable { name: "MUSTER_REAP_QUEUE_URL", meaning: "The URL of the queue of reap passes." };
pub(crate) const APP_KEY: Variable = Variable {
    name: "MUSTER_APP_KEY",
    meaning: "The secret with the GitHub App's ID, its private key, and the address of GitHub's API unless it is `https://api.github.com`.",
};
pub(crate) const CA_BUNDLE: Variable = Variable {
    name: "MUSTER_CA_BUNDLE",
    meaning: "The parameter `GitHubCaBundle`: the SSM parameter, or `s3://BUCKET/KEY`, with certificates that the connections to GitHub trust.",
};
pub(crate) const WEBHOOK_SECRET: Variable = Variable {
    name: "MUSTER_WEBHOOK_SECRET",
    meaning: "The secret with which GitHub signs its deliveries.",
};
pub(crate) const WEBHOOK_URL: Variable = Variable {
    name: "MUSTER_WEBHOOK_URL",
    meaning: "The URL of the webhook. Muster sets it in the App; `status` and each check of the App compare the two.",
};
pub(crate) const USAGE_ACTORS: Variable = Variable {
    name: "MUSTER_USAGE_ACTORS",
    meaning: "The parameter `UsageActors`: whether records of jobs and usage contain the GitHub user who caused the run: `no`, or `yes`.",
};
pub(crate) const INSTANCE_ROLE_ID: Variable = Variable {
    name: "MUSTER_INSTANCE_ROLE_ID",
    meaning: "The ID (`AROA…`) of the machines' role. A pool with its own launch template has a different one.",
};
