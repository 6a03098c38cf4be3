//! What Muster does, shown on the local stack: the real template, the real functions, simulated
//! EC2, GitHub and machines. `make test` runs it; `cargo test --profile local --workspace --test
//! stack -- NAME` runs one.

mod alarms;
mod apps;
mod batches;
mod boot;
mod busy;
mod canary;
mod command;
mod crash;
mod deletes;
mod doctor;
mod health;
mod image;
mod interrupted;
mod jobs;
mod orders;
mod pools;
mod records;
mod roles;
mod switches;
mod theft;
mod webhook;

use std::process::ExitCode;

use muster_e2e::Scenario;

#[expect(clippy::too_many_lines, reason = "a table: an entry for each scenario")]
fn main() -> ExitCode {
    // The longest first: they decide when the last one ends.
    muster_e2e::suite::main(vec![
        Scenario::new(
            "crash",
            "scale-up is killed while EC2 holds its CreateFleet: one machine in the end, performed or dropped, \
             whatever EC2 answers to the replay",
            crash::killed_in_create_fleet,
        ),
        Scenario::new(
            "many",
            "30 jobs at once, maximum 5: never more than 5 live machines, all served, nothing dead-lettered",
            jobs::many,
        ),
        Scenario::new(
            "interrupted",
            "EC2 takes a Spot machine while its job runs: GitHub knows before the machine ends, and Muster re-runs the \
             job On-Demand",
            interrupted::job_is_rerun,
        ),
        Scenario::new(
            "alarms",
            "every alarm watches a metric as the functions report it, and fires when that metric is put",
            alarms::alarms,
        ),
        Scenario::new(
            "apps",
            "two Apps of two organizations, each with its own address, secret and key: a job of each is served",
            apps::two_apps,
        ),
        Scenario::new(
            "image",
            "an image is built, tried and made current; jobs boot it, the one before it after a rollback, and the \
             launch template's once all are deleted",
            image::built_used_and_deleted,
        ),
        Scenario::new(
            "theft-dead",
            "a job whose runner took another one gets a new machine when the spared machine serves nothing",
            theft::spared_machine_is_dead,
        ),
        Scenario::new(
            "backoff",
            "terminate fails five times: attempts after 0, 1, 2, 4, 8, 16 s, on record, then the machine is gone",
            deletes::backoff,
        ),
        Scenario::new(
            "forever",
            "terminate fails for ever: plain delete keeps trying, force ends in the orphan ledger, and the \
             sweep kills the orphan once EC2 heals",
            deletes::forever,
        ),
        Scenario::new(
            "orders",
            "queued, in_progress and completed in all six orders, each three times: one machine a job at most",
            orders::six_orders,
        ),
        Scenario::new(
            "liar",
            "a GitHub that lies about everything does not get a started job killed",
            busy::liar,
        ),
        Scenario::new(
            "command",
            "a public repository, a label with a typo and a machine that never calls are each named by the \
             operator's command, and every one of its views answers",
            command::first_mistakes,
        ),
        Scenario::new(
            "doctor",
            "each thing that can be wrong with the simulated account is named by the first doctor, with its exit code",
            doctor::each_wrong_is_told,
        )
        .alone(),
        Scenario::new(
            "canary",
            "one machine that no job needs goes all the way, is followed by the operator's command and ended; a \
             job may take it, and a full pool has none",
            canary::one_machine_to_see,
        ),
        Scenario::new(
            "unauthorized",
            "a GitHub that answers 401 marks the entity unhealthy, bypass passes it, and it heals",
            health::unauthorized,
        ),
        Scenario::new(
            "boot",
            "a runner that never registers is reaped at its boot deadline and its job served by another",
            boot::never_registers,
        ),
        Scenario::new(
            "happy",
            "a job is served from a real signed payload to a deleted machine, without a delete call by us",
            jobs::happy,
        ),
        Scenario::new(
            "gated",
            "a job that waits for an approval needs no machine more, and is served after it",
            jobs::gated,
        ),
        Scenario::new(
            "switches",
            "launches and deletes that are switched off are held back and explained, and go on when switched on",
            switches::held_back,
        ),
        Scenario::new(
            "pools",
            "a pool file is refused with every mistake named, applied, its pool serves, and taken out again it drains",
            pools::applied_and_removed,
        ),
        Scenario::new(
            "theft",
            "a runner takes the other's job: both jobs are served, and there is no third machine",
            theft::swapped,
        ),
        Scenario::new(
            "busy",
            "delete of a busy runner is refused, forced or not; kill_running_job alone does it, audited",
            busy::refused_and_killed,
        ),
        Scenario::new(
            "schema",
            "a record of another schema is named and left alone, and holds up no other",
            records::other_schema,
        ),
        Scenario::new(
            "webhook",
            "every wrong delivery is answered as documented and puts no job on the queue",
            webhook::conformance,
        ),
        Scenario::new(
            "batch",
            "a message that cannot be read stays in its queue and holds up no other of its batch",
            batches::answered_one_by_one,
        ),
        Scenario::new(
            "unheard",
            "the door is closed when GitHub delivers a job's first event: a later sweep has it delivered again",
            jobs::unheard,
        ),
        Scenario::new(
            "roles",
            "permissions are enforced, and no function may do another's work",
            roles::enforced,
        ),
    ])
}
