//! The variables of the functions, as docs/configuration.md lists them.

use crate::environment::Variable;

pub(crate) const STACK: Variable = Variable {
    name: "MUSTER_STACK",
    meaning: "The stack's name: the value of the tag `muster:stack`, and of the metrics' dimension.",
};
pub(crate) const LAUNCH_TEMPLATE: Variable = Variable {
    name: "MUSTER_LAUNCH_TEMPLATE",
    meaning: "The id of the machines' launch template.",
};
pub(crate) const LAUNCH_TEMPLATE_VERSION: Variable =
    Variable { name: "MUSTER_LAUNCH_TEMPLATE_VERSION", meaning: "Its newest version, a number." };
pub(crate) const SUBNETS: Variable = Variable {
    name: "MUSTER_SUBNETS",
    meaning: "The parameter `Subnets`: those of the built-in pool, which serves until a pool file is applied.",
};
pub(crate) const MAX_MACHINES: Variable = Variable {
    name: "MUSTER_MAX_MACHINES",
    meaning: "The parameter `MaxMachines`: the most live instances, whatever a pool file says.",
};
pub(crate) const MACHINE_TAG_KEYS: Variable = Variable {
    name: "MUSTER_MACHINE_TAGS",
    meaning: "The parameter `MachineTagKeys`: tags that pools may give their machines.",
};
pub(crate) const TIMINGS: Variable = Variable {
    name: "MUSTER_TIMINGS",
    meaning: "The parameter `Timings`: durations in seconds, by name; the others keep their defaults.",
};
pub(crate) const MEASURES: Variable = Variable {
    name: "MUSTER_MEASURES",
    meaning: "The parameter `Measures`: which metrics are kept, `none` but those of alarms, those of the `stack`, or those of its `pools` as well.",
};
pub(crate) const INSTANCES_TABLE: Variable =
    Variable { name: "MUSTER_INSTANCES_TABLE", meaning: "The table of instances." };
pub(crate) const JOBS_TABLE: Variable =
    Variable { name: "MUSTER_JOBS_TABLE", meaning: "The table of jobs." };
pub(crate) const USAGE_TABLE: Variable =
    Variable { name: "MUSTER_USAGE_TABLE", meaning: "The table of usage." };
pub(crate) const CONTROL_TABLE: Variable = Variable {
    name: "MUSTER_CONTROL_TABLE",
    meaning: "The table of launches, pools, orphans, switches, health and audit.",
};
pub(crate) const JOBS_QUEUE: Variable =
    Variable { name: "MUSTER_JOBS_QUEUE_URL", meaning: "The address of the queue of job events." };
pub(crate) const LAUNCH_QUEUE: Variable = Variable {
    name: "MUSTER_LAUNCH_QUEUE_URL",
    meaning: "The address of the queue that wakes launch passes.",
};
pub(crate) const REAP_QUEUE: Variable =
    Variable { name: "MUSTER_REAP_QUEUE_URL", meaning: "The address of the queue of reap passes." };
pub(crate) const APP_KEY: Variable = Variable {
    name: "MUSTER_APP_KEY",
    meaning: "The secret that holds the GitHub App: its id, its private key, and the address of GitHub's \
              API where that is not `https://api.github.com`.",
};
pub(crate) const WEBHOOK_SECRET: Variable = Variable {
    name: "MUSTER_WEBHOOK_SECRET",
    meaning: "The secret that GitHub signs its deliveries with.",
};
pub(crate) const WEBHOOK_URL: Variable = Variable {
    name: "MUSTER_WEBHOOK_URL",
    meaning: "The address of the webhook. The App at GitHub is set to it; `status` and each check of the App \
              compare the two.",
};
pub(crate) const INSTANCE_ROLE_ID: Variable = Variable {
    name: "MUSTER_INSTANCE_ROLE_ID",
    meaning: "The id (`AROA…`) of the machines' role. A pool with a launch template of its own has another.",
};
