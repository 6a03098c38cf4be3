//! The network that machines are in, as EC2 shows it.

use std::net::Ipv4Addr;

use serde_json::Value;

use super::{Deployed, Fact, text};

/// An address of GitHub's. Source: api.github.com/meta (`140.82.112.0/20`)
pub const GITHUB: Ipv4Addr = Ipv4Addr::new(140, 82, 121, 6);
/// Where it listens.
pub const HTTPS: u16 = 443;

/// All of it.
#[derive(Clone, Debug)]
pub struct Network {
    /// What the stack was given.
    pub given: Given,
    pub subnets: Fact<Vec<Subnet>>,
    pub tables: Fact<Vec<RouteTable>>,
    pub nats: Fact<Vec<Nat>>,
    pub acls: Fact<Vec<Acl>>,
    pub endpoints: Fact<Vec<Endpoint>>,
    /// Whether AWS's own resolver answers in the VPC.
    pub resolves: Fact<bool>,
    /// Those of the machines.
    pub groups: Fact<Vec<SecurityGroup>>,
}

/// The parameters of the stack about its network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    pub vpc: String,
    pub subnets: Vec<String>,
    /// None: the stack's own.
    pub groups: Vec<String>,
    /// `yes`, `no`, or `subnet`: each subnet's own setting.
    pub public_ip: String,
}

impl Given {
    /// From the stack's parameters.
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

/// The elements of a list in an answer.
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
    /// Addresses that are not taken.
    pub free: u64,
    /// Whether machines get a public address by themselves.
    pub gives_public_ip: bool,
}

impl Subnet {
    /// From `DescribeSubnets`.
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

/// A route table, as far as it leads out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteTable {
    pub id: String,
    pub vpc: String,
    /// Whether it is that of subnets that name none.
    pub is_main: bool,
    /// Subnets that name it.
    pub subnets: Vec<String>,
    /// The route to GitHub: the default route, where none is narrower.
    pub out: Option<Route>,
}

/// A route that leads out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// `igw-…`, `nat-…`, or something else.
    pub to: String,
    /// It leads to what is gone.
    pub is_dead: bool,
}

impl RouteTable {
    /// From `DescribeRouteTables`.
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
    /// `available`.
    pub state: String,
    /// Why it failed.
    pub why: String,
}

impl Nat {
    /// From `DescribeNatGateways`.
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
    /// The subnets that it holds for.
    pub subnets: Vec<String>,
    /// In the order in which they are asked.
    pub entries: Vec<AclEntry>,
}

/// A rule of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclEntry {
    pub number: u32,
    /// Of what leaves the subnet, or of what comes.
    pub is_out: bool,
    pub allows: bool,
    pub traffic: Traffic,
}

impl Acl {
    /// From `DescribeNetworkAcls`.
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

    /// Whether it lets TCP of that address and port through: the first rule that fits decides.
    #[must_use]
    pub fn lets(&self, is_out: bool, address: Ipv4Addr, port: u16) -> bool {
        let mut fits = self.entries.iter().filter(|entry| entry.is_out == is_out);
        let first = fits.find(|entry| entry.traffic.has(address, port));
        first.is_some_and(|entry| entry.allows)
    }
}

/// TCP of some addresses and ports.
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
    /// None: it is not about TCP, or not about these addresses.
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

    /// Whether this is some of it.
    #[must_use]
    pub fn has(&self, address: Ipv4Addr, port: u16) -> bool {
        let (network, length) = self.network;
        let mask = u32::MAX.checked_shl(32_u32.saturating_sub(length)).unwrap_or_default();
        let is_in = u32::from(network) & mask == u32::from(address) & mask;
        is_in && (self.ports.0..=self.ports.1).contains(&port)
    }
}

/// An interface endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    pub id: String,
    /// `com.amazonaws.us-east-1.execute-api`.
    pub service: String,
    /// It takes the service's usual names over.
    pub private_dns: bool,
}

impl Endpoint {
    /// From `DescribeVpcEndpoints`.
    #[must_use]
    pub fn read(answer: &Value) -> Vec<Self> {
        let one = |one: &Value| Self {
            id: text(one, "vpcEndpointId"),
            service: text(one, "serviceName"),
            private_dns: is_true(one, "privateDnsEnabled"),
        };
        all(answer, "vpcEndpointSet").map(one).collect()
    }
}

/// A security group, as far as it lets out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityGroup {
    pub id: String,
    pub vpc: String,
    pub out: Vec<Traffic>,
    /// It lets out to a list of addresses that is not looked at.
    pub to_lists: bool,
}

impl SecurityGroup {
    /// From `DescribeSecurityGroups`.
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
