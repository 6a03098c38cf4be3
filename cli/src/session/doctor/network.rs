//! Queries the network.

use muster_sigv4::Call;
use serde_json::Value;
use tokio::join;

use super::super::batch::CallBatch;
use crate::doctor::Fact;
use crate::doctor::facts::network::{
    Acl, Endpoint, FunctionNetwork, Nat, NetworkFacts, NetworkParameters, RouteTable,
    SecurityGroup, Subnet,
};

/// Returns an EC2 call with filters: a name and its values. A filter that matches nothing returns
/// an empty list; an ID that does not exist would fail the whole call.
pub(super) fn ec2(action: &str, filters: &[(&str, &[String])], fields: &[(&str, &str)]) -> Call {
    let mut all: Vec<(String, &str)> =
        vec![("Action".to_owned(), action), ("Version".to_owned(), "2016-11-15")];
    for (filter, (name, values)) in (1..).zip(filters) {
        all.push((format!("Filter.{filter}.Name"), *name));
        let values = (1..).zip(*values);
        all.extend(
            values.map(|(at, value)| (format!("Filter.{filter}.Value.{at}"), value.as_str())),
        );
    }
    all.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), *value)));
    let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    Call::query("ec2", &all)
}

/// Queries the network of the functions that call GitHub. Returns `None`, without a call, if the stack names no subnets.
pub(super) async fn of_functions(
    batch: &CallBatch,
    given: Vec<String>,
) -> Option<Fact<FunctionNetwork>> {
    if given.is_empty() {
        return None;
    }
    let subnets = ec2("DescribeSubnets", &[("subnet-id", &given)], &[]);
    let subnets = match batch.fact(subnets, Subnet::read).await {
        Ok(subnets) => subnets,
        Err(unknown) => return Some(Err(unknown)),
    };
    let vpcs: Vec<String> = subnets.iter().map(|one| one.vpc.clone()).collect();
    let of_vpcs = |action: &str| ec2(action, &[("vpc-id", &vpcs)], &[]);
    let (tables, endpoints) = join!(
        batch.fact(of_vpcs("DescribeRouteTables"), RouteTable::read),
        batch.fact(of_vpcs("DescribeVpcEndpoints"), Endpoint::read),
    );
    Some(
        tables.and_then(|tables| {
            Ok(FunctionNetwork { given, subnets, tables, endpoints: endpoints? })
        }),
    )
}

pub(in crate::session) async fn facts(
    batch: &CallBatch,
    given: NetworkParameters,
    stack: &str,
) -> NetworkFacts {
    let vpc: &[String] = std::slice::from_ref(&given.vpc);
    let own = [stack.to_owned()];
    let groups: (&str, &[String]) = match given.groups.as_slice() {
        [] => ("tag:aws:cloudformation:stack-name", &own),
        groups => ("group-id", groups),
    };
    let of_vpc = |action: &str| ec2(action, &[("vpc-id", vpc)], &[]);
    let dns = [("VpcId", given.vpc.as_str()), ("Attribute", "enableDnsSupport")];
    let has_dns = |answer: &Value| {
        answer.pointer("/enableDnsSupport/value").is_none_or(|value| value != "false")
    };
    let (subnets, tables, nats, acls, endpoints, resolves, groups) = join!(
        batch.fact(ec2("DescribeSubnets", &[("subnet-id", &given.subnets)], &[]), Subnet::read),
        batch.fact(of_vpc("DescribeRouteTables"), RouteTable::read),
        batch.fact(of_vpc("DescribeNatGateways"), Nat::read),
        batch.fact(of_vpc("DescribeNetworkAcls"), Acl::read),
        batch.fact(of_vpc("DescribeVpcEndpoints"), Endpoint::read),
        batch.fact(ec2("DescribeVpcAttribute", &[], &dns), has_dns),
        batch.fact(ec2("DescribeSecurityGroups", &[groups], &[]), SecurityGroup::read),
    );
    NetworkFacts { given, subnets, tables, nats, acls, endpoints, resolves, groups }
}
