//! Checks whether the functions that are in a VPC can reach AWS from there.

use muster_api::answers::Finding;

use super::facts::network::{FunctionNetwork, RouteTable};
use super::{Check, CheckGroup, Facts, error, judge};

/// The services that the functions call with every event.
const SERVICES: [(&str, &str); 4] = [
    ("sqs", "SQS"),
    ("dynamodb", "DynamoDB"),
    ("ec2", "EC2"),
    ("secretsmanager", "Secrets Manager"),
];

pub(super) fn check(facts: &Facts) -> Vec<Check> {
    let network = facts.running.as_ref().and_then(|running| running.function_network.as_ref());
    network.map_or_else(Vec::new, |network| {
        judge(CheckGroup::Network, "functions", network, |network| {
            network.given.iter().filter_map(|id| unreachable(id, network)).collect()
        })
    })
}

/// Returns the problem of a subnet from which the functions cannot reach a service.
fn unreachable(id: &str, network: &FunctionNetwork) -> Option<Finding> {
    let Some(subnet) = network.subnets.iter().find(|one| one.id == id) else {
        let said = format!(
            "There is no subnet {id}, which FunctionSubnets names: Lambda cannot start the functions."
        );
        return Some(error(said).fix("muster upgrade --function-subnets …"));
    };
    let of_vpc = || network.tables.iter().filter(|table| table.vpc == subnet.vpc);
    let own = of_vpc().find(|table| table.subnets.iter().any(|one| one == id));
    // Without permission to see the table, the routes are unknown.
    let table = own.or_else(|| of_vpc().find(|table| table.is_main))?;
    if has_way_out(table) {
        return None;
    }
    let missing = SERVICES.iter().filter(|(service, _)| !has_endpoint(service, table, network));
    let missing: Vec<&str> = missing.map(|(_, name)| *name).collect();
    if missing.is_empty() {
        return None;
    }
    let why = match &table.out {
        Some(route) if route.is_dead => {
            format!("its route leads to {}, which no longer exists", route.to)
        }
        Some(route) => format!("a function has no public address, so it cannot use {}", route.to),
        None => format!("it has no route out ({})", table.id),
    };
    let said = format!(
        "The functions in {id} cannot reach {}: {why}, and {} has no such endpoint.",
        missing.join(", "),
        subnet.vpc
    );
    Some(
        error(said)
            .fix("create these endpoints, or add a route to a NAT gateway (docs/network.md)"),
    )
}

fn has_way_out(table: &RouteTable) -> bool {
    table.out.as_ref().is_some_and(|route| !route.is_dead && !route.to.starts_with("igw-"))
}

/// Returns whether there is an endpoint that answers for the service's usual name: an interface with private DNS, or a
/// gateway that this route table uses.
fn has_endpoint(service: &str, table: &RouteTable, network: &FunctionNetwork) -> bool {
    network.endpoints.iter().any(|one| {
        let is_of_service = one.service.rsplit('.').next() == Some(service);
        is_of_service && (one.private_dns && one.vpc == table.vpc || one.tables.contains(&table.id))
    })
}
