//! The machines' network, as reported by EC2.

use std::net::Ipv4Addr;

use serde_json::Value;

use super::{Deployed, Fact, text};

/// An address of GitHub's. Source: api.github.com/meta (`140.82.112.0/20`)
pub const GITHUB: Ipv4Addr = Ipv4Addr::new(140, 82, 121, 6);
/// Its port.
pub const HTTPS: u16 = 443;

/// Facts about the network.
#[derive(Clone, Debug)]
pub struct NetworkFacts {
    /// The stack's network parameters.
    pub given: NetworkParameters,
    pub subnets: Fact<Vec<Subnet>>,
    pub tables: Fact<Vec<RouteTable>>,
    pub nats: Fact<Vec<Nat>>,
    pub acls: Fact<Vec<Acl>>,
    pub endpoints: Fact<Vec<Endpoint>>,
    /// Whether AWS's own resolver answers in the VPC.
    pub resolves: Fact<bool>,
    /// The machines' security groups.
    pub groups: Fact<Vec<SecurityGroup>>,
}

/// The stack's network parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkParameters {
    pub vpc: String,
    pub subnets: Vec<String>,
    /// Security groups. Empty means the stack's own.
    pub groups: Vec<String>,
    /// `yes`, `no`, or `subnet`: each subnet's own setting.
    pub public_ip: String,
}

impl NetworkParameters {
    /// Reads the stack's parameters.
    #[must_use]
    pub fn read(deployed: &Deployed) -> Self {
        let parameter = |name: &str| deployed.parameters.get(name).cloned().unwrap_or_default();
        Self {
            vpc: parameter("VpcId"),
            subnets: deployed.list("Subnets"),
            groups: deployed.list("SecurityGroupIds"),
            public_ip: parameter("PublicIp"),
        }
    }
}

/// The network of the functions that call GitHub, if the stack names one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionNetwork {
    /// The stack parameter `FunctionSubnets`.
    pub given: Vec<String>,
    pub subnets: Vec<Subnet>,
    pub tables: Vec<RouteTable>,
    pub endpoints: Vec<Endpoint>,
}

/// Returns the elements of a list in an answer.
fn all<'a>(answer: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    answer[list].as_array().into_iter().flatten()
}

fn is_true(value: &Value, name: &str) -> bool {
    value[name] == "true"
}

fn number<T: std::str::FromStr>(value: &Value, name: &str) -> Option<T> {
    value[name].as_str()?.parse().ok()
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subnet {
    pub id: String,
    pub vpc: String,
    pub zone: String,
    /// Number of free addresses.
    pub free: u64,
    /// Whether machines get a public address automatically.
    pub gives_public_ip: bool,
}

impl Subnet {
    /// Parses the answer to `DescribeSubnets`.
    #[must_use]
    pub fn read(answer: &Value) -> Vec<Self> {
        let one = |one: &Value| Self {
            id: text(one, "subnetId"),
            vpc: text(one, "vpcId"),
            zone: text(one, "availabilityZone"),
            free: number(one, "availableIpAddressCount").unwrap_or_default(),
            gives_public_ip: is_true(one, "mapPublicIpOnLaunch"),
        };
        all(answer, "subnetSet").map(one).collect()
    }
}

/// A route table's default route and its subnets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteTable {
    pub id: String,
    pub vpc: String,
    /// Whether this is the VPC's main table, which applies to subnets without one.
    pub is_main: bool,
    /// Subnets that are associated with it.
    pub subnets: Vec<String>,
    /// The route to GitHub: the most specific one that matches.
    pub out: Option<Route>,
}

/// A route to the internet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Its target: `igw-…`, `nat-…`, or something else.
    pub to: String,
    /// Whether its target no longer exists.
    pub is_dead: bool,
}

impl RouteTable {
    /// Parses the answer to `DescribeRouteTables`.
    #[must_use]
    pub fn read(answer: &Value) -> Vec<Self> {
        const TARGETS: [&str; 7] = [
            "gatewayId",
            "natGatewayId",
            "transitGatewayId",
            "networkInterfaceId",
            "instanceId",
            "vpcPeeringConnectionId",
            "localGatewayId",
        ];
        let route = |one: &Value| Route {
            to: TARGETS.iter().find_map(|name| one[*name].as_str()).unwrap_or_default().to_owned(),
            is_dead: one["state"] == "blackhole",
        };
        let one = |one: &Value| Self {
            id: text(one, "routeTableId"),
            vpc: text(one, "vpcId"),
            is_main: all(one, "associationSet").any(|link| is_true(link, "main")),
            subnets: all(one, "associationSet")
                .filter_map(|link| link["subnetId"].as_str().map(str::to_owned))
                .collect(),
            out: all(one, "routeSet")
                .filter_map(|route| {
                    Some((
                        Traffic::read("-1", None, route["destinationCidrBlock"].as_str()?)?,
                        route,
                    ))
                })
                .filter(|(traffic, _)| traffic.has(GITHUB, HTTPS))
                .max_by_key(|(traffic, _)| traffic.network.1)
                .map(|(_, found)| route(found)),
        };
        all(answer, "routeTableSet").map(one).collect()
    }
}

/// A NAT gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nat {
    pub id: String,
    /// For example `available`.
    pub state: String,
    /// The reason why it failed.
    pub why: String,
}

impl Nat {
    /// Parses the answer to `DescribeNatGateways`.
    #[must_use]
    pub fn read(answer: &Value) -> Vec<Self> {
        let one = |one: &Value| Self {
            id: text(one, "natGatewayId"),
            state: text(one, "state"),
            why: text(one, "failureMessage"),
        };
        all(answer, "natGatewaySet").map(one).collect()
    }
}

/// A network ACL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    pub id: String,
    /// The subnets that it applies to.
    pub subnets: Vec<String>,
    /// Its rules, in the order in which they are evaluated.
    pub entries: Vec<AclEntry>,
}

/// A rule of a network ACL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclEntry {
    pub number: u32,
    /// Whether the rule is for outbound traffic.
    pub is_out: bool,
    pub allows: bool,
    pub traffic: Traffic,
}

impl Acl {
    /// Parses the answer to `DescribeNetworkAcls`.
    #[must_use]
    pub fn read(answer: &Value) -> Vec<Self> {
        let entry = |one: &Value| {
            let (from, to) = (&one["portRange"], &one["portRange"]);
            Some(AclEntry {
                number: number(one, "ruleNumber")?,
                is_out: is_true(one, "egress"),
                allows: one["ruleAction"] == "allow",
                traffic: Traffic::read(
                    &text(one, "protocol"),
                    number(from, "from").zip(number(to, "to")),
                    one["cidrBlock"].as_str()?,
                )?,
            })
        };
        let one = |one: &Value| {
            let mut entries: Vec<AclEntry> = all(one, "entrySet").filter_map(entry).collect();
            entries.sort_by_key(|entry| entry.number);
            let subnets = all(one, "associationSet").map(|link| text(link, "subnetId")).collect();
            Self { id: text(one, "networkAclId"), subnets, entries }
        };
        all(answer, "networkAclSet").map(one).collect()
    }

    /// Returns whether it allows TCP to this address and port: the first rule that matches decides.
    #[must_use]
    pub fn lets(&self, is_out: bool, address: Ipv4Addr, port: u16) -> bool {
        let mut fits = self.entries.iter().filter(|entry| entry.is_out == is_out);
        let first = fits.find(|entry| entry.traffic.has(address, port));
        first.is_some_and(|entry| entry.allows)
    }
}

/// TCP traffic of a range of addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub network: (Ipv4Addr, u32),
    pub ports: (u16, u16),
}

impl Default for Traffic {
    fn default() -> Self {
        Self { network: (Ipv4Addr::UNSPECIFIED, 0), ports: (0, u16::MAX) }
    }
}

impl Traffic {
    /// Returns `None` if the rule is not about TCP over IPv4.
    fn read(protocol: &str, ports: Option<(u16, u16)>, network: &str) -> Option<Self> {
        let every = (0, u16::MAX);
        let ports = match protocol {
            "-1" => every,
            "6" | "tcp" => ports.unwrap_or(every),
            _ => return None,
        };
        let (address, length) = network.split_once('/')?;
        Some(Self { network: (address.parse().ok()?, length.parse().ok()?), ports })
    }

    /// Returns whether this address and port are in the range.
    #[must_use]
    pub fn has(&self, address: Ipv4Addr, port: u16) -> bool {
        let (network, length) = self.network;
        let mask = u32::MAX.checked_shl(32_u32.saturating_sub(length)).unwrap_or_default();
        let is_in = u32::from(network) & mask == u32::from(address) & mask;
        is_in && (self.ports.0..=self.ports.1).contains(&port)
    }
}

/// An endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    pub id: String,
    /// For example `com.amazonaws.us-east-1.execute-api`.
    pub service: String,
    /// Whether it answers for the service's public names.
    pub private_dns: bool,
    pub vpc: String,
    /// The route tables that lead to it, if it is a gateway.
    pub tables: Vec<String>,
}

impl Endpoint {
    /// Parses the answer to `DescribeVpcEndpoints`.
    #[must_use]
    pub fn read(answer: &Value) -> Vec<Self> {
        let one = |one: &Value| Self {
            id: text(one, "vpcEndpointId"),
            service: text(one, "serviceName"),
            private_dns: is_true(one, "privateDnsEnabled"),
            vpc: text(one, "vpcId"),
            tables: all(one, "routeTableIdSet")
                .filter_map(|id| id.as_str().map(str::to_owned))
                .collect(),
        };
        all(answer, "vpcEndpointSet").map(one).collect()
    }
}

/// A security group's outbound rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityGroup {
    pub id: String,
    pub vpc: String,
    pub out: Vec<Traffic>,
    /// Whether a rule allows traffic to a prefix list, whose addresses are not checked.
    pub to_lists: bool,
}

impl SecurityGroup {
    /// Parses the answer to `DescribeSecurityGroups`.
    #[must_use]
    pub fn read(answer: &Value) -> Vec<Self> {
        let traffic = |rule: &Value| -> Vec<Traffic> {
            let protocol = text(rule, "ipProtocol");
            let ports = number(rule, "fromPort").zip(number(rule, "toPort"));
            let of = |range: &Value| Traffic::read(&protocol, ports, range["cidrIp"].as_str()?);
            all(rule, "ipRanges").filter_map(of).collect()
        };
        let one = |one: &Value| {
            let rules = || all(one, "ipPermissionsEgress");
            Self {
                id: text(one, "groupId"),
                vpc: text(one, "vpcId"),
                out: rules().flat_map(traffic).collect(),
                to_lists: rules().any(|rule| {
                    all(rule, "prefixListIds").next().is_some()
                        || all(rule, "groups").next().is_some()
                }),
            }
        };
        all(answer, "securityGroupInfo").map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_addresses_and_ports() {
        let github = Ipv4Addr::new(140, 82, 121, 6);
        let has = |protocol, ports, network, port| {
            Traffic::read(protocol, ports, network).is_some_and(|traffic| traffic.has(github, port))
        };
        for (protocol, ports, network, port, expected) in [
            ("-1", None, "0.0.0.0/0", 443, true),
            ("6", Some((443, 443)), "140.82.112.0/20", 443, true),
            ("tcp", Some((0, 1023)), "140.82.121.6/32", 443, true),
            ("6", Some((80, 80)), "0.0.0.0/0", 443, false),
            ("17", Some((443, 443)), "0.0.0.0/0", 443, false),
            ("-1", None, "10.0.0.0/8", 443, false),
            ("-1", None, "140.82.121.7/32", 443, false),
        ] {
            assert_eq!(has(protocol, ports, network, port), expected, "{protocol} {network}");
        }
    }
}
