//! Describing and terminating machines.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::operation::describe_instances::DescribeInstancesOutput;
use aws_sdk_ec2::types::{
    Filter, Instance, InstanceLifecycleType, InstanceState, InstanceStateName, Reservation,
};
use muster_control::ports::{ListedMachine, NOT_FOUND, Page, ShownMachine, TerminationError};
use muster_domain::ec2::{ErrorClass, Make, Market, StateReason};
use muster_domain::ids::{LaunchId, MachineId};
use muster_domain::launch::plan::{LAUNCH_TAG, STACK_TAG};
use muster_domain::observation::{Machine, MachineSeen};
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::time::Time;

use crate::{CONSOLE_TIMEOUT, Ec2, classified, once, once_within};

/// The states of machines that are not gone.
const PRESENT: [InstanceStateName; 4] = [
    InstanceStateName::Pending,
    InstanceStateName::Running,
    InstanceStateName::Stopping,
    InstanceStateName::Stopped,
];

/// Number of entries per page. Describe calls with filters and pages have the larger rate limit.
pub(crate) const PAGE: i32 = 500;

pub(crate) async fn of_launch(
    ec2: &Ec2,
    id: &LaunchId,
) -> Result<BTreeMap<MachineId, Make>, ProviderError> {
    let launch = filter(&format!("tag:{LAUNCH_TAG}"), [id.as_str()]);
    let mut machines = BTreeMap::new();
    let mut page = None;
    loop {
        let answer = describe_present(ec2, Some(launch.clone()), page).await?;
        machines.extend(instances(&answer).filter_map(|instance| {
            let id = instance.instance_id()?.parse().ok()?;
            Some((id, make_of(instance)))
        }));
        page = next_page(&answer);
        if page.is_none() {
            return Ok(machines);
        }
    }
}

pub(crate) async fn list(
    ec2: &Ec2,
    page: Option<String>,
) -> Result<Page<ListedMachine>, ProviderError> {
    let answer = describe_present(ec2, None, page).await?;
    let mut page = Page { items: Vec::new(), unreadable: Vec::new(), next: next_page(&answer) };
    for instance in instances(&answer) {
        match listed(instance) {
            Some(machine) => page.items.push(machine),
            None => page.unreadable.push(instance.instance_id().unwrap_or_default().to_owned()),
        }
    }
    Ok(page)
}

pub(crate) async fn state(ec2: &Ec2, id: &MachineId) -> Result<MachineSeen, ProviderError> {
    let Some(instance) = find(ec2, id).await? else { return Ok(Machine::Absent.into()) };
    let Some(state) = machine_of(instance.state()) else {
        return Err(odd(id, "OddState", "EC2 names no state that is known"));
    };
    // EC2 removes the tags of a terminated machine; then the ID is sufficient proof. A live machine
    // without our tag is not Muster's, and must not be reported as absent.
    if state != Machine::Gone && !is_ours(ec2, &instance) {
        return Err(odd(id, "NotOurs", "the machine does not carry the stack's tag"));
    }
    let reason = instance.state_reason().and_then(|reason| {
        Some(StateReason::new(reason.code()?, reason.message().unwrap_or_default()))
    });
    let ended_at = instance.state_transition_reason().filter(|_| state == Machine::Gone);
    let ended_at = ended_at.and_then(transition_time);
    Ok(MachineSeen { state, reason, ended_at, make: make_of(&instance) })
}

/// Returns the time in the reason of a machine's last transition: "User initiated (2026-11-27
/// 10:00:00 GMT)". AWS documents that the text may be empty, but not its format; without a time in
/// it, the end is the time at which Muster observed it.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Instance.html ("reason")
fn transition_time(reason: &str) -> Option<Time> {
    let (_, at) = reason.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    let (day, time) = at.strip_suffix(" GMT")?.split_once(' ')?;
    format!("{day}T{time}Z").parse().ok()
}

/// Describes machines by a filter, because a call that names an unknown ID fails. The IDs must fit
/// in one page.
pub(crate) async fn shown(
    ec2: &Ec2,
    ids: &BTreeSet<MachineId>,
) -> Result<BTreeMap<MachineId, ShownMachine>, ProviderError> {
    let named = filter("instance-id", ids.iter().map(MachineId::as_str));
    let call = ec2.client.describe_instances().filters(named).max_results(PAGE);
    let answer = call.send().await.map_err(|error| trouble(classified(DESCRIBE, &error)))?;
    if next_page(&answer).is_some() {
        // Machines on a second page must not appear absent.
        return Err(ProviderError::Unavailable(fault(DESCRIBE, "OddAnswer", "a page too many")));
    }
    let shown = instances(&answer).filter_map(|instance| {
        let shown = ShownMachine {
            state: machine_of(instance.state()),
            is_ours: is_ours(ec2, instance),
            launch: launch_of(instance),
        };
        Some((instance.instance_id()?.parse().ok()?, shown))
    });
    Ok(shown.collect())
}

/// Returns the machine's current console output. Machines not on Nitro do not support that; for
/// them, returns the last stored output
/// (docs.aws.amazon.com/AWSEC2/latest/APIReference/API_GetConsoleOutput.html).
pub(crate) async fn console(ec2: &Ec2, id: &MachineId) -> Result<String, ProviderError> {
    let output = match console_output(ec2, id, true).await {
        Err((_, fault)) if fault.code == "UnsupportedOperation" => {
            console_output(ec2, id, false).await
        }
        answer => answer,
    };
    let encoded: String = output.map_err(trouble)?.split_whitespace().collect();
    let decoded = aws_smithy_types::base64::decode(encoded).map_err(|error| {
        ProviderError::Unavailable(fault(CONSOLE, "OddAnswer", &format!("{id}: {error}")))
    })?;
    Ok(String::from_utf8_lossy(&decoded).into_owned())
}

/// Returns the console output as EC2 encodes it.
async fn console_output(
    ec2: &Ec2,
    id: &MachineId,
    latest: bool,
) -> Result<String, (ErrorClass, ErrorDetail)> {
    let call = ec2.client.get_console_output().instance_id(id.as_str()).latest(latest);
    match call.customize().config_override(once_within(CONSOLE_TIMEOUT)).send().await {
        Ok(answer) => Ok(answer.output().unwrap_or_default().to_owned()),
        Err(error) => Err(classified(CONSOLE, &error)),
    }
}

const CONSOLE: &str = "GetConsoleOutput";

pub(crate) async fn terminate(
    ec2: &Ec2,
    machines: &BTreeSet<MachineId>,
) -> Result<BTreeMap<MachineId, Machine>, TerminationError> {
    let ids = machines.iter().map(|id| id.as_str().to_owned()).collect();
    let call = ec2.client.terminate_instances().set_instance_ids(Some(ids));
    match call.customize().config_override(once()).send().await {
        Ok(answer) => {
            let shown = answer.terminating_instances().iter().filter_map(|change| {
                Some((change.instance_id()?.parse().ok()?, machine_of(change.current_state())?))
            });
            Ok(shown.collect())
        }
        Err(error) => {
            let (class, fault) = classified("TerminateInstances", &error);
            Err(TerminationError::from_call(class, fault, machines))
        }
    }
}

/// Returns a machine by ID. `None` if EC2 does not know it.
async fn find(ec2: &Ec2, id: &MachineId) -> Result<Option<Instance>, ProviderError> {
    match ec2.client.describe_instances().instance_ids(id.as_str()).send().await {
        Ok(answer) => {
            let found = instances(&answer).find(|one| one.instance_id() == Some(id.as_str()));
            Ok(found.cloned())
        }
        Err(error) => match trouble(classified(DESCRIBE, &error)) {
            ProviderError::Unavailable(fault) if fault.code == NOT_FOUND => Ok(None),
            trouble => Err(trouble),
        },
    }
}

/// Returns a page of the stack's machines that are not gone.
async fn describe_present(
    ec2: &Ec2,
    more: Option<Filter>,
    page: Option<String>,
) -> Result<DescribeInstancesOutput, ProviderError> {
    let mut filters = vec![
        filter(&format!("tag:{STACK_TAG}"), [ec2.stack.as_str()]),
        filter("instance-state-name", PRESENT.iter().map(InstanceStateName::as_str)),
    ];
    filters.extend(more);
    ec2.client
        .describe_instances()
        .set_filters(Some(filters))
        .max_results(PAGE)
        .set_next_token(page)
        .send()
        .await
        .map_err(|error| trouble(classified(DESCRIBE, &error)))
}

const DESCRIBE: &str = "DescribeInstances";

pub(crate) fn trouble((class, fault): (ErrorClass, ErrorDetail)) -> ProviderError {
    match class {
        ErrorClass::Authorization => ProviderError::Unauthorized(fault),
        _ => ProviderError::Unavailable(fault),
    }
}

fn odd(id: &MachineId, code: &str, message: &str) -> ProviderError {
    ProviderError::Unavailable(fault(DESCRIBE, code, &format!("{id}: {message}")))
}

pub(crate) fn fault(operation: &str, code: &str, message: &str) -> ErrorDetail {
    ErrorDetail {
        at: muster_aws::clock::now(),
        operation: operation.to_owned(),
        code: code.to_owned(),
        message: message.to_owned(),
    }
}

/// Creates a filter. For machines, names and values come from Muster and do not contain EC2's
/// wildcards.
pub(crate) fn filter<'a>(name: &str, values: impl IntoIterator<Item = &'a str>) -> Filter {
    let values = values.into_iter().map(str::to_owned).collect();
    Filter::builder().name(name).set_values(Some(values)).build()
}

fn instances(answer: &DescribeInstancesOutput) -> impl Iterator<Item = &Instance> {
    answer.reservations().iter().flat_map(Reservation::instances)
}

/// Returns the token of the next page. An empty token ends a listing like a missing one.
fn next_page(answer: &DescribeInstancesOutput) -> Option<String> {
    answer.next_token().filter(|token| !token.is_empty()).map(str::to_owned)
}

fn tag<'a>(instance: &'a Instance, key: &str) -> Option<&'a str> {
    instance.tags().iter().find(|tag| tag.key() == Some(key)).and_then(|tag| tag.value())
}

fn is_ours(ec2: &Ec2, instance: &Instance) -> bool {
    tag(instance, STACK_TAG) == Some(ec2.stack.as_str())
}

fn listed(instance: &Instance) -> Option<ListedMachine> {
    Some(ListedMachine {
        id: instance.instance_id()?.parse().ok()?,
        state: machine_of(instance.state())?,
        launched_at: Time::from_millis(instance.launch_time()?.to_millis().ok()?),
        launch: launch_of(instance),
        make: make_of(instance),
    })
}

fn launch_of(instance: &Instance) -> Option<LaunchId> {
    tag(instance, LAUNCH_TAG)?.parse().ok()
}

/// Returns the make of a machine. EC2 omits the lifecycle of an On-Demand machine.
fn make_of(instance: &Instance) -> Make {
    let zone = instance.placement().and_then(|place| place.availability_zone());
    Make {
        kind: instance.instance_type().map(|kind| kind.as_str().into()),
        zone: zone.map(Into::into),
        subnet: instance.subnet_id().map(Into::into),
        market: match instance.instance_lifecycle() {
            Some(InstanceLifecycleType::Spot) => Some(Market::Spot),
            None => Some(Market::OnDemand),
            Some(_) => None,
        },
    }
}

/// Converts a machine's state. `None` for an unknown state, on which no decision is based.
fn machine_of(state: Option<&InstanceState>) -> Option<Machine> {
    match state?.name()? {
        InstanceStateName::Pending => Some(Machine::Pending),
        InstanceStateName::Running => Some(Machine::Running),
        InstanceStateName::Stopping | InstanceStateName::Stopped => Some(Machine::Stopped),
        InstanceStateName::ShuttingDown | InstanceStateName::Terminated => Some(Machine::Gone),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::transition_time;

    #[test]
    fn the_end_of_a_machine_is_read_where_ec2_says_it() {
        let at = |text: &str| transition_time(text).map(|at| at.to_string());
        let expected = Some("2026-11-27T10:00:05.000Z".to_owned());
        for text in [
            "User initiated (2026-11-27 10:00:05 GMT)",
            "Server.SpotInstanceTermination: terminated by EC2 (2026-11-27 10:00:05 GMT)",
            "a reason (with a note) (2026-11-27 10:00:05 GMT) ",
        ] {
            assert_eq!(at(text), expected, "{text}");
        }
        for text in ["", "User initiated", "User initiated shutdown", "(soon)", "(2026-11-27)"] {
            assert_eq!(at(text), None, "{text}");
        }
    }
}
