//! The network: a VPC with a public and a private subnet, as EC2 shows it.

use muster_cli::doctor::facts::network::{
    Acl, AclEntry, Endpoint, FunctionNetwork, Nat, NetworkFacts, NetworkParameters, Route,
    RouteTable, SecurityGroup, Subnet, Traffic,
};
use muster_cli::doctor::{Facts, Unknown};
use muster_cli::xml;
use muster_domain::pool::proxy::Proxy;
use serde_json::Value;

use super::{may_not, running, told};

const SUBNETS: &str = "<DescribeSubnetsResponse><subnetSet>
    <item><subnetId>subnet-0a1b2c3d</subnetId><vpcId>vpc-1</vpcId><availabilityZone>us-east-1a</availabilityZone>
        <availableIpAddressCount>4091</availableIpAddressCount><mapPublicIpOnLaunch>true</mapPublicIpOnLaunch></item>
    <item><subnetId>subnet-0e1f2a3b</subnetId><vpcId>vpc-1</vpcId><availabilityZone>us-east-1b</availabilityZone>
        <availableIpAddressCount>251</availableIpAddressCount><mapPublicIpOnLaunch>false</mapPublicIpOnLaunch></item>
    </subnetSet></DescribeSubnetsResponse>";
const TABLES: &str = "<DescribeRouteTablesResponse><routeTableSet>
    <item><routeTableId>rtb-main</routeTableId><vpcId>vpc-1</vpcId>
        <routeSet>
            <item><destinationCidrBlock>10.0.0.0/16</destinationCidrBlock><gatewayId>local</gatewayId><state>active</state></item>
            <item><destinationCidrBlock>0.0.0.0/0</destinationCidrBlock><gatewayId>igw-1</gatewayId><state>active</state></item>
        </routeSet>
        <associationSet><item><main>true</main></item></associationSet></item>
    <item><routeTableId>rtb-private</routeTableId><vpcId>vpc-1</vpcId>
        <routeSet>
            <item><destinationCidrBlock>0.0.0.0/0</destinationCidrBlock><natGatewayId>nat-1</natGatewayId><state>active</state></item>
        </routeSet>
        <associationSet><item><subnetId>subnet-0e1f2a3b</subnetId><main>false</main></item></associationSet></item>
    </routeTableSet></DescribeRouteTablesResponse>";
const NATS: &str = "<DescribeNatGatewaysResponse><natGatewaySet>
    <item><natGatewayId>nat-1</natGatewayId><state>available</state></item>
    </natGatewaySet></DescribeNatGatewaysResponse>";
const ACLS: &str = "<DescribeNetworkAclsResponse><networkAclSet><item>
    <networkAclId>acl-1</networkAclId>
    <entrySet>
        <item><ruleNumber>32767</ruleNumber><protocol>-1</protocol><ruleAction>deny</ruleAction><egress>true</egress>
            <cidrBlock>0.0.0.0/0</cidrBlock></item>
        <item><ruleNumber>100</ruleNumber><protocol>-1</protocol><ruleAction>allow</ruleAction><egress>true</egress>
            <cidrBlock>0.0.0.0/0</cidrBlock></item>
        <item><ruleNumber>100</ruleNumber><protocol>6</protocol><ruleAction>allow</ruleAction><egress>false</egress>
            <cidrBlock>0.0.0.0/0</cidrBlock><portRange><from>1024</from><to>65535</to></portRange></item>
        <item><ruleNumber>101</ruleNumber><protocol>-1</protocol><ruleAction>allow</ruleAction><egress>false</egress>
            <ipv6CidrBlock>::/0</ipv6CidrBlock></item>
    </entrySet>
    <associationSet><item><subnetId>subnet-0a1b2c3d</subnetId></item><item><subnetId>subnet-0e1f2a3b</subnetId></item></associationSet>
    </item></networkAclSet></DescribeNetworkAclsResponse>";
const ENDPOINTS: &str = "<DescribeVpcEndpointsResponse><vpcEndpointSet>
    <item><vpcEndpointId>vpce-1</vpcEndpointId><serviceName>com.amazonaws.us-east-1.s3</serviceName>
        <privateDnsEnabled>true</privateDnsEnabled></item>
    </vpcEndpointSet></DescribeVpcEndpointsResponse>";
const DNS: &str = "<DescribeVpcAttributeResponse><vpcId>vpc-1</vpcId>
    <enableDnsSupport><value>true</value></enableDnsSupport></DescribeVpcAttributeResponse>";
const GROUPS: &str = "<DescribeSecurityGroupsResponse><securityGroupInfo>
    <item><groupId>sg-1</groupId><vpcId>vpc-1</vpcId><ipPermissions/>
        <ipPermissionsEgress><item><ipProtocol>-1</ipProtocol><groups/>
            <ipRanges><item><cidrIp>0.0.0.0/0</cidrIp></item></ipRanges>
            <prefixListIds/></item></ipPermissionsEgress></item>
    </securityGroupInfo></DescribeSecurityGroupsResponse>";

/// EC2's answers, in the order in which it is asked.
pub(super) fn answers() -> [Value; 7] {
    [SUBNETS, TABLES, NATS, ACLS, ENDPOINTS, DNS, GROUPS].map(|text| xml::read(text).expect("XML"))
}

pub(super) fn well() -> NetworkFacts {
    let [subnets, tables, nats, acls, endpoints, _, groups] = answers();
    let subnet = |id: &str, zone: &str, free, gives_public_ip| Subnet {
        id: id.to_owned(),
        vpc: "vpc-1".to_owned(),
        zone: zone.to_owned(),
        free,
        gives_public_ip,
    };
    let read = Subnet::read(&subnets);
    let expected = [
        subnet("subnet-0a1b2c3d", "us-east-1a", 4091, true),
        subnet("subnet-0e1f2a3b", "us-east-1b", 251, false),
    ];
    assert_eq!(read, expected);
    let acls = Acl::read(&acls);
    assert_eq!(acls.iter().map(|acl| acl.entries.len()).collect::<Vec<_>>(), [3], "IPv4 alone");
    NetworkFacts {
        given: NetworkParameters {
            vpc: "vpc-1".to_owned(),
            subnets: vec!["subnet-0a1b2c3d".to_owned(), "subnet-0e1f2a3b".to_owned()],
            groups: Vec::new(),
            public_ip: "subnet".to_owned(),
        },
        subnets: Ok(read),
        tables: Ok(RouteTable::read(&tables)),
        nats: Ok(Nat::read(&nats)),
        acls: Ok(acls),
        endpoints: Ok(Endpoint::read(&endpoints)),
        resolves: Ok(true),
        groups: Ok(SecurityGroup::read(&groups)),
    }
}

fn network(facts: &mut Facts) -> &mut NetworkFacts {
    running(facts).network.as_mut().expect("known")
}

fn subnet(facts: &mut Facts) -> &mut Subnet {
    &mut network(facts).subnets.as_mut().expect("known")[0]
}

fn table(facts: &mut Facts, index: usize) -> &mut RouteTable {
    &mut network(facts).tables.as_mut().expect("known")[index]
}

fn nat(facts: &mut Facts) -> &mut Nat {
    &mut network(facts).nats.as_mut().expect("known")[0]
}

fn entries(facts: &mut Facts) -> &mut Vec<AclEntry> {
    &mut network(facts).acls.as_mut().expect("known")[0].entries
}

fn group(facts: &mut Facts) -> &mut SecurityGroup {
    &mut network(facts).groups.as_mut().expect("known")[0]
}

#[test]
fn each_way_that_leads_nowhere_has_its_sentence() {
    told(
        "doctor_way_out.txt",
        &[
            ("an internet gateway, and no public address", |facts| {
                subnet(facts).gives_public_ip = false;
            }),
            ("the stack gives no public address", |facts| {
                network(facts).given.public_ip = "no".to_owned();
            }),
            ("no default route", |facts| table(facts, 1).out = None),
            ("the main table has no default route", |facts| table(facts, 0).out = None),
            ("the target is gone", |facts| {
                table(facts, 1).out = Some(Route { to: "nat-0".to_owned(), is_dead: true });
            }),
            ("the NAT gateway has failed", |facts| {
                nat(facts).state = "failed".to_owned();
                nat(facts).why = "Elastic IP address eipalloc-1 is already associated".to_owned();
            }),
            ("the NAT gateway is being made", |facts| nat(facts).state = "pending".to_owned()),
            ("nothing of the network may be seen", |facts| {
                running(facts).network = Err(may_not("cloudformation:DescribeStacks"));
            }),
            ("the route tables may not be seen", |facts| {
                network(facts).tables = Err(may_not("ec2:DescribeRouteTables"));
            }),
            ("the NAT gateways may not be seen", |facts| {
                network(facts).nats = Err(may_not("ec2:DescribeNatGateways"));
            }),
        ],
    );
}

#[test]
fn each_wrong_of_the_network_has_its_sentence() {
    told(
        "doctor_network.txt",
        &[
            ("a subnet is gone", |facts| {
                network(facts).subnets.as_mut().expect("known").pop();
            }),
            ("a subnet of another VPC", |facts| subnet(facts).vpc = "vpc-2".to_owned()),
            ("a subnet is nearly full", |facts| subnet(facts).free = 6),
            ("a subnet is full", |facts| subnet(facts).free = 0),
            ("the ACL lets nothing out", |facts| {
                entries(facts).retain(|entry| !(entry.is_out && entry.allows));
            }),
            ("an ACL's earlier rule refuses GitHub", |facts| {
                let network = (std::net::Ipv4Addr::new(140, 82, 112, 0), 20);
                let traffic = Traffic { network, ..Traffic::default() };
                entries(facts)
                    .insert(0, AclEntry { number: 1, is_out: true, allows: false, traffic });
            }),
            ("the ACL lets no answer in", |facts| {
                for entry in entries(facts).iter_mut().filter(|entry| !entry.is_out) {
                    entry.traffic.ports = (443, 443);
                }
            }),
            ("an endpoint takes the runner API's name", |facts| {
                network(facts).endpoints.as_mut().expect("known")[0].service =
                    "com.amazonaws.us-east-1.execute-api".to_owned();
            }),
            ("names are not resolved", |facts| network(facts).resolves = Ok(false)),
            ("a security group lets nothing out", |facts| group(facts).out.clear()),
            ("a security group of another VPC", |facts| group(facts).vpc = "vpc-2".to_owned()),
            ("a security group is gone", |facts| {
                network(facts).given.groups = vec!["sg-1".to_owned(), "sg-2".to_owned()];
            }),
            ("the stack's own group is not found", |facts| {
                network(facts).groups = Ok(Vec::new());
            }),
            ("the groups may not be seen", |facts| {
                network(facts).groups = Err(Unknown::NoAnswer("AWS had enough".to_owned()));
            }),
        ],
    );
}

/// A network of functions: a private subnet, whose route table a gateway for DynamoDB uses.
fn private() -> FunctionNetwork {
    let text = "<R><routeTableSet><item><routeTableId>rtb-f</routeTableId><vpcId>vpc-2</vpcId>
        <associationSet><item><subnetId>subnet-0f</subnetId><main>false</main></item></associationSet></item></routeTableSet></R>";
    let tables = RouteTable::read(&xml::read(text).expect("XML"));
    let endpoint = |service: &str| {
        format!(
        "<item><vpcEndpointId>vpce-{service}</vpcEndpointId><vpcId>vpc-2</vpcId>
        <serviceName>com.amazonaws.us-east-1.{service}</serviceName><privateDnsEnabled>true</privateDnsEnabled></item>"
    )
    };
    let gateway = "<item><vpcEndpointId>vpce-d</vpcEndpointId><vpcId>vpc-2</vpcId><privateDnsEnabled>false</privateDnsEnabled>
        <serviceName>com.amazonaws.us-east-1.dynamodb</serviceName><routeTableIdSet><item>rtb-f</item></routeTableIdSet></item>";
    let all = ["sqs", "ec2", "secretsmanager"].map(endpoint).concat();
    let text = format!("<R><vpcEndpointSet>{all}{gateway}</vpcEndpointSet></R>");
    let endpoints = Endpoint::read(&xml::read(&text).expect("XML"));
    let (id, vpc) = ("subnet-0f".to_owned(), "vpc-2".to_owned());
    let subnets = vec![Subnet { id: id.clone(), vpc, ..Subnet::default() }];
    FunctionNetwork { given: vec![id], subnets, tables, endpoints }
}

#[test]
fn each_way_of_the_functions_that_leads_nowhere_has_its_sentence() {
    fn broken(facts: &mut Facts, break_it: impl FnOnce(&mut FunctionNetwork)) {
        let mut network = private();
        break_it(&mut network);
        running(facts).function_network = Some(Ok(network));
    }
    let route = |to: &str| Some(Route { to: to.to_owned(), is_dead: false });
    let mut facts = super::well();
    broken(&mut facts, |_| ());
    assert_eq!(super::lines(&muster_cli::doctor::checks(&facts)), "");
    broken(&mut facts, |network| {
        network.endpoints.clear();
        network.tables[0].out = route("nat-1");
    });
    assert_eq!(super::lines(&muster_cli::doctor::checks(&facts)), "");
    told(
        "doctor_functions_network.txt",
        &[
            ("no endpoint for SQS", |facts| {
                broken(facts, |network| drop(network.endpoints.remove(0)));
            }),
            ("no endpoint and no route", |facts| {
                broken(facts, |network| network.endpoints.clear());
            }),
            ("the gateway is of another route table", |facts| {
                broken(facts, |network| network.endpoints[3].tables.clear());
            }),
            ("an endpoint without private DNS", |facts| {
                broken(facts, |network| network.endpoints[1].private_dns = false);
            }),
            ("an internet gateway", |facts| {
                broken(facts, |network| {
                    network.endpoints.clear();
                    network.tables[0].out = Some(Route { to: "igw-1".to_owned(), is_dead: false });
                });
            }),
            ("a subnet is gone", |facts| broken(facts, |network| network.subnets.clear())),
            ("nothing may be seen", |facts| {
                running(facts).function_network = Some(Err(may_not("ec2:DescribeSubnets")));
            }),
        ],
    );
}

/// The narrowest route decides, and one to somewhere else is none.
#[test]
fn the_route_to_github_is_the_narrowest() {
    let table = |routes: &[(&str, &str)]| {
        let route = |(network, to): &(&str, &str)| {
            format!(
                "<item><destinationCidrBlock>{network}</destinationCidrBlock><gatewayId>{to}</gatewayId></item>"
            )
        };
        let routes: String = routes.iter().map(route).collect();
        let text = format!(
            "<R><routeTableSet><item><routeSet>{routes}</routeSet></item></routeTableSet></R>"
        );
        let table = RouteTable::read(&xml::read(&text).expect("XML")).remove(0);
        table.out.map(|route| route.to)
    };
    let (local, all) = (("10.0.0.0/16", "local"), ("0.0.0.0/0", "igw-1"));
    assert_eq!(table(&[local]), None);
    assert_eq!(table(&[local, all]).as_deref(), Some("igw-1"));
    assert_eq!(table(&[all, ("140.82.112.0/20", "vgw-1")]).as_deref(), Some("vgw-1"));
    assert_eq!(table(&[("0.0.0.0/1", "a"), ("128.0.0.0/1", "b")]).as_deref(), Some("b"));
}

/// What looks strange and leads out all the same.
#[test]
fn other_ways_out_are_let_be() {
    let ways: [fn(&mut Facts); 6] = [
        // All machines of these subnets use a proxy.
        |facts| {
            table(facts, 1).out = None;
            for pool in running(facts).pools.as_mut().expect("known") {
                pool.proxy = Some(Proxy::default());
            }
        },
        |facts| {
            subnet(facts).gives_public_ip = false;
            network(facts).given.public_ip = "yes".to_owned();
        },
        |facts| table(facts, 1).out = Some(Route { to: "tgw-1".to_owned(), is_dead: false }),
        |facts| {
            group(facts).out.clear();
            group(facts).to_lists = true;
        },
        |facts| {
            network(facts).endpoints.as_mut().expect("known")[0] = Endpoint {
                service: "com.amazonaws.us-east-1.execute-api".to_owned(),
                private_dns: false,
                ..Endpoint::default()
            };
        },
        // An ACL of other subnets.
        |facts| {
            network(facts)
                .acls
                .as_mut()
                .expect("known")
                .push(Acl { subnets: vec!["subnet-0c0c0c0c".to_owned()], ..Acl::default() });
        },
    ];
    for way in ways {
        let mut facts = super::well();
        way(&mut facts);
        assert_eq!(super::lines(&muster_cli::doctor::checks(&facts)), "");
    }
}
