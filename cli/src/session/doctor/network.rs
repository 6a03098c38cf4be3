//! Queries the network.

use muster_sigv4::Call;

use super::{Answer, fact, next};
use crate::doctor::facts::network::{
    Acl, Endpoint, Given, Nat, Network, RouteTable, SecurityGroup, Subnet,
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

/// Returns the calls whose answers [`read`] reads.
pub(in crate::session) fn calls(given: &Given, stack: &str) -> [Call; 7] {
    let vpc: &[String] = std::slice::from_ref(&given.vpc);
    let own = [stack.to_owned()];
    let groups: (&str, &[String]) = match given.groups.as_slice() {
        [] => ("tag:aws:cloudformation:stack-name", &own),
        groups => ("group-id", groups),
    };
    [
        ec2("DescribeSubnets", &[("subnet-id", &given.subnets)], &[]),
        ec2("DescribeRouteTables", &[("vpc-id", vpc)], &[]),
        ec2("DescribeNatGateways", &[("vpc-id", vpc)], &[]),
        ec2("DescribeNetworkAcls", &[("vpc-id", vpc)], &[]),
        ec2("DescribeVpcEndpoints", &[("vpc-id", vpc)], &[]),
        ec2(
            "DescribeVpcAttribute",
            &[],
            &[("VpcId", given.vpc.as_str()), ("Attribute", "enableDnsSupport")],
        ),
        ec2("DescribeSecurityGroups", &[groups], &[]),
    ]
}

pub(in crate::session) fn read(
    given: Given,
    answers: &mut impl Iterator<Item = Answer>,
) -> Network {
    Network {
        given,
        subnets: fact(next(answers), |answer| Subnet::read(&answer)),
        tables: fact(next(answers), |answer| RouteTable::read(&answer)),
        nats: fact(next(answers), |answer| Nat::read(&answer)),
        acls: fact(next(answers), |answer| Acl::read(&answer)),
        endpoints: fact(next(answers), |answer| Endpoint::read(&answer)),
        resolves: fact(next(answers), |answer| {
            answer.pointer("/enableDnsSupport/value").is_none_or(|value| value != "false")
        }),
        groups: fact(next(answers), |answer| SecurityGroup::read(&answer)),
    }
}
