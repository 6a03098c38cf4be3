//! Problems caused by the permissions of the stack's role.

use super::right;
use crate::pool_file::{Problem, Rights};

const FILE: &str = "
defaults:
  labels: [linux]
  instances: { types: [m7i.large] }
  limits: { max: 3 }
pools:
  - { name: a, subnets: [subnet-0000000a], tags: { team: build }, image: { ssm: /aws/service/x } }
  - { name: b, subnets: [subnet-0000000a, subnet-0000000c], image: { ssm: /muster/images/x64 } }
  - name: c
    subnets: [subnet-0000000b]
    tags: { Team: build }
    image: { ssm: /muster-two/images/x64:3 }
  - { name: d, subnets: [subnet-0000000b], image: { id: ami-0a1b2c3d } }";

#[test]
fn what_the_role_refuses_is_named_by_its_place() {
    let rights = Rights {
        stack: "muster".to_owned(),
        subnets: vec!["subnet-0000000a".into(), "subnet-0000000b".into()],
        tag_keys: vec!["team".to_owned()],
    };
    let refused = rights.refused(&right(FILE).pools);
    for (Problem { path, what }, (at, words)) in refused.iter().zip([
        ("pools[1].subnets[1]", "subnet-0000000c is not in the stack's parameter Subnets"),
        ("pools[2].image.ssm", "only parameters under /muster/images/ and /aws/service/"),
        ("pools[2].tags.Team", "parameter MachineTagKeys"),
    ]) {
        assert!(path == at && what.contains(words), "{path}: {what}");
    }
    assert_eq!(refused.len(), 3, "{refused:?}");
}
