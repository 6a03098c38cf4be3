//! Invalid files: each is rejected, with the path of the problem.

use super::{file, read, right, yaml};

/// Two valid pools; `{}` marks what a row changes in the first.
fn around(first: &str) -> String {
    let second = "
  - name: other
    labels: [other]
    instances: { types: [m7i.large] }
    subnets: [subnet-0a1b2c3d]
    limits: { max: 3 }";
    format!("pools:\n  - {}{second}\n", first.replace('\n', "\n    "))
}

/// A pool of these lines on top of the required fields.
fn with(lines: &str) -> String {
    let needed = [
        ("name", "name: big"),
        ("labels", "labels: [linux]"),
        ("instances", "instances: { types: [m7i.large] }"),
        ("subnets", "subnets: [subnet-0a1b2c3d]"),
        ("limits", "limits: { max: 3 }"),
    ];
    let is_said = |name: &str| lines.lines().any(|line| line.starts_with(&format!("{name}:")));
    let mut all: Vec<&str> =
        needed.iter().filter(|(name, _)| !is_said(name)).map(|(_, line)| *line).collect();
    all.push(lines);
    around(&all.join("\n"))
}

/// Lines of a pool, the reported path, and words that the sentence must contain.
const POOLS: &[(&str, &str, &str)] = &[
    // Spelling.
    ("lables: [x]", "pools[0].lables", "did you mean \"labels\""),
    ("instance_types: [m7i.large]", "pools[0].instance_types", "no such field"),
    ("limits: { max: 3, min_idel: 1 }", "pools[0].limits.min_idel", "did you mean \"min_idle\""),
    ("instances: { type: [m7i.large] }", "pools[0].instances.type", "did you mean \"types\""),
    ("image: { ami: ami-0a1b2c3d }", "pools[0].image.ami", "no such field"),
    // Names.
    ("name: big pool", "pools[0].name", "is not a pool name"),
    ("name: ''", "pools[0].name", "empty"),
    ("name: OTHER", "pools[1].name", "is the name of pools[0] too"),
    ("name_prefix: other", "pools[1].name_prefix", "begin with other too"),
    ("name_prefix: a/b", "pools[0].name_prefix", "is not a pool name"),
    // Entities and groups.
    ("entity: acme/web/x", "pools[0].entity", "is not an entity"),
    ("entity: enterprise/acme", "pools[0].entity", "write enterprises/acme"),
    ("entity: orgs/acme", "pools[0].entity", "only the organization's name: acme"),
    ("entity: https://github.com/acme", "pools[0].entity", "is not an entity"),
    ("entity: [acme]", "pools[0].entity", "a list; write a text"),
    ("entity: 9919", "pools[0].entity", "write { organization: 9919 }"),
    ("entity: {}", "pools[0].entity", "one of organization, repository, enterprise"),
    ("entity: { organization: 1, repository: 2 }", "pools[0].entity", "one of organization"),
    ("entity: { organization: acme }", "pools[0].entity.organization", "whole number"),
    ("entity: { repository: 0 }", "pools[0].entity.repository", "from 1"),
    ("entity: { organisation: 1 }", "pools[0].entity.organisation", "did you mean"),
    ("runner_group: 0", "pools[0].runner_group", "from 1"),
    ("runner_group: [build]", "pools[0].runner_group", "whole number"),
    ("runner_group: ''", "pools[0].runner_group", "empty"),
    ("runner_group: build", "pools[0].runner_group", "a group's name requires an entity"),
    ("entity: acme/web\nrunner_group: build", "pools[0].runner_group", "no runner groups"),
    ("entity: acme/web\nrunner_group: 3", "pools[0].runner_group", "no runner groups"),
    // Labels.
    ("labels: []", "pools[0].labels", "empty"),
    ("labels: linux", "pools[0].labels", "a list of labels"),
    ("labels: [linux, 'a,b']", "pools[0].labels[1]", "without commas"),
    ("labels: [linux, ' x']", "pools[0].labels[1]", "blanks at its ends"),
    ("labels: [linux, Linux]", "pools[0].labels", "twice"),
    ("labels: [self-hosted]", "pools[0].labels", "every job"),
    ("labels: [[linux], x64]", "pools[0].labels[1]", "a list of labels"),
    ("labels: [[linux], []]", "pools[0].labels[1]", "empty"),
    ("labels: [linux, ~]", "pools[0].labels[1]", "in quotes"),
    ("match: exakt", "pools[0].match", "did you mean \"exact\""),
    ("priority: -1", "pools[0].priority", "from 0 to 1000"),
    // Machines.
    ("arch: amd64", "pools[0].arch", "one of x64, arm64"),
    ("arch: arm64", "pools[0].instances.types[0]", "m7i.large is x64, but arch is arm64"),
    ("instances: {}", "pools[0].instances", "either types, or vcpus"),
    ("instances: { types: [] }", "pools[0].instances.types", "empty"),
    ("instances: { types: [m7i] }", "pools[0].instances.types[0]", "instance types"),
    ("instances: { types: [m7i.large, m7i.large] }", "pools[0].instances.types[1]", "twice"),
    ("instances: { vcpus: { min: 2 } }", "pools[0].instances", "memory_mib is missing"),
    ("instances: { memory_mib: { min: 2 } }", "pools[0].instances", "vcpus is missing"),
    (
        "instances: { types: [m7i.large], vcpus: { min: 2 }, memory_mib: { min: 2 } }",
        "pools[0].instances",
        "not both",
    ),
    (
        "instances: { vcpus: { min: 8, max: 4 }, memory_mib: { min: 2 } }",
        "pools[0].instances.vcpus.max",
        "less than min",
    ),
    (
        "instances: { vcpus: { max: 4 }, memory_mib: { min: 2 } }",
        "pools[0].instances.vcpus",
        "min is missing",
    ),
    (
        "instances: { vcpus: 4, memory_mib: { min: 2 } }",
        "pools[0].instances.vcpus",
        "a group of fields",
    ),
    ("subnets: [vpc-0a1b2c3d]", "pools[0].subnets[0]", "subnet ids"),
    ("subnets: [subnet-xyz]", "pools[0].subnets[0]", "subnet ids"),
    ("subnets: []", "pools[0].subnets", "empty"),
    ("launch_template: linux", "pools[0].launch_template", "like lt-0a1b2c3d"),
    ("launch_template: { version: 3 }", "pools[0].launch_template", "id is missing"),
    (
        "launch_template: { id: lt-0a1b2c3d, version: 0 }",
        "pools[0].launch_template.version",
        "from 1",
    ),
    (
        "launch_template: { id: lt-0a1b2c3d, version: $Latest }",
        "pools[0].launch_template.version",
        "whole number",
    ),
    ("image: { id: ami-1 }", "pools[0].image.id", "is not an image id"),
    ("image: { ssm: 'resolve:ssm:/a' }", "pools[0].image.ssm", "without \"resolve:ssm:\""),
    ("image: { id: ami-0a1b2c3d, ssm: /a }", "pools[0].image", "one of id, ssm and filter"),
    ("image: ami-0a1b2c3d", "pools[0].image", "a group of fields: id, ssm, filter"),
    ("image: { filter: acme-* }", "pools[0].image.filter", "a group of fields: name, owner"),
    ("image: { filter: {} }", "pools[0].image.filter", "name is missing"),
    ("image: { filter: { name: '*' } }", "pools[0].image.filter.name", "three plain characters"),
    ("image: { filter: { name: 'acme,web' } }", "pools[0].image.filter.name", "the name of images"),
    (
        "image: { filter: { name: acme, owner: me } }",
        "pools[0].image.filter.owner",
        "twelve digits",
    ),
    (
        "image: { id: ami-0a1b2c3d, filter: { name: acme } }",
        "pools[0].image",
        "one of id, ssm and filter",
    ),
    (
        "instances: { vcpus: { min: 2 }, memory_mib: { min: 2 } }\nimage: { filter: { name: acme-* } }",
        "pools[0].image",
        "a filter requires an architecture; write arch",
    ),
    (
        "instances: { types: [m7i.large, m7g.large] }\nimage: { filter: { name: acme-* } }",
        "pools[0].image",
        "a filter requires an architecture; write arch",
    ),
    ("disk: { size_gib: 40 }", "pools[0].disk", "device is missing"),
    ("disk: { device: xvda, size_gib: 40 }", "pools[0].disk.device", "is not a device"),
    ("disk: { device: /dev/xvda, size_gib: 0 }", "pools[0].disk.size_gib", "from 1 to 65536"),
    ("disk: { device: /dev/xvda, size_gib: 8, iops: 5000 }", "pools[0].disk.iops", "per GiB"),
    (
        "disk: { device: /dev/xvda, size_gib: 40, throughput_mib: 1000 }",
        "pools[0].disk.throughput_mib",
        "raise iops",
    ),
    ("proxy: 'http://proxy:3128'", "pools[0].proxy", "a group of fields: https, http"),
    ("proxy: { no_proxy: [a] }", "pools[0].proxy", "write https, or http, or both"),
    ("proxy: { https: 'http://a:b@proxy:3128' }", "pools[0].proxy.https", "it has no password"),
    ("proxy: { https: 'https://proxy:3128' }", "pools[0].proxy.https", "is like http://proxy"),
    ("proxy: { http: 'http://proxy:3128/' }", "pools[0].proxy.http", "is like http://proxy"),
    ("proxy: { http: 'http://proxy:70000' }", "pools[0].proxy.http", "is like http://proxy"),
    ("proxy: { http: 'http://p', no_proxy: ['a,b'] }", "pools[0].proxy.no_proxy[0]", "hosts"),
    ("proxy: { http: 'http://p', password_secret: a }", "pools[0].proxy.password_secret", "a user"),
    (
        "proxy: { http: 'http://a@p', password_secret: 's/a' }",
        "pools[0].proxy.password_secret",
        "what follows STACK/proxy/",
    ),
    ("placement: acme-build", "pools[0].placement", "a group of fields: group, dedicated"),
    ("placement: {}", "pools[0].placement", "write group, or dedicated"),
    ("placement: { group: 'ä' }", "pools[0].placement.group", "the name of a placement group"),
    ("placement: { dedicated: host }", "pools[0].placement.dedicated", "true or false"),
    ("tags: { 'aws:x': y }", "pools[0].tags.aws:x", "Amazon's own"),
    ("tags: { 'Muster:stack': y }", "pools[0].tags.Muster:stack", "Muster's own"),
    ("tags: { Name: y }", "pools[0].tags.Name", "names the machines itself"),
    ("tags: { a: 'x;y' }", "pools[0].tags.a", "letters, digits"),
    // The market.
    ("market: ondemand", "pools[0].market", "did you mean \"on-demand\""),
    (
        "market: spot\nallocation: prioritized",
        "pools[0].allocation",
        "capacity-optimized-prioritized",
    ),
    ("allocation: capacity-optimized", "pools[0].allocation", "for spot machines"),
    (
        "instances: { vcpus: { min: 2 }, memory_mib: { min: 2 } }\nallocation: prioritized",
        "pools[0].allocation",
        "the list is empty",
    ),
    ("max_price: '0.05'", "pools[0].max_price", "only Spot machines"),
    (
        "market: spot\nreserved_first: true",
        "pools[0].reserved_first",
        "on-demand machines use reserved",
    ),
    ("rerun_on_interruption: some", "pools[0].rerun_on_interruption", "true, false or all"),
    (
        "market: spot\nmerge_queue: on-demand",
        "pools[0].merge_queue",
        "this pool has only Spot machines",
    ),
    ("merge_queue: spot", "pools[0].merge_queue", "one of on-demand, as-others"),
    ("market: spot\nmax_price: cheap", "pools[0].max_price", "decimal"),
    ("market: spot\nmax_price: 0", "pools[0].max_price", "decimal"),
    // Limits.
    ("limits: {}", "pools[0].limits", "max is missing"),
    ("limits: { max: 0 }", "pools[0].limits.max", "from 1"),
    ("limits: { max: 2.5 }", "pools[0].limits.max", "whole number"),
    ("limits: { max: many }", "pools[0].limits.max", "the text \"many\""),
    (
        "entity: acme\nlimits: { max: 3, min_idle: 4 }",
        "pools[0].limits.min_idle",
        "more than max, 3",
    ),
    ("limits: { max: 3, min_idle: 1 }", "pools[0].limits.min_idle", "requires an entity"),
    // Events that warm the pool.
    ("warm_on: push", "pools[0].warm_on", "a list of rules"),
    ("warm_on: []", "pools[0].warm_on", "empty"),
    ("warm_on: [push]", "pools[0].warm_on[0]", "a group of fields"),
    ("warm_on: [{ event: push }]", "pools[0].warm_on[0]", "idle is missing"),
    ("warm_on: [{ idle: 1 }]", "pools[0].warm_on[0]", "event is missing"),
    ("warm_on: [{ event: pull-request, idle: 1 }]", "pools[0].warm_on[0].event", "did you mean"),
    ("warm_on: [{ event: push, idle: 0 }]", "pools[0].warm_on[0].idle", "from 1"),
    ("warm_on: [{ event: push, idle: 4 }]", "pools[0].warm_on[0].idle", "more than max, 3"),
    ("warm_on: [{ event: push, idle: 1, for: 30s }]", "pools[0].warm_on[0].for", "from 1m to 4h"),
    ("warm_on: [{ event: push, idle: 1, for: 5h }]", "pools[0].warm_on[0].for", "from 1m to 4h"),
    ("warm_on: [{ event: push, idle: 1, branch: x }]", "pools[0].warm_on[0].branch", "branches"),
    (
        "warm_on: [{ event: push, idle: 1, branches: [refs/heads/main] }]",
        "pools[0].warm_on[0].branches[0]",
        "branches, like main",
    ),
    (
        "warm_on: [{ event: push, idle: 1, branches: ['*/main'] }]",
        "pools[0].warm_on[0].branches[0]",
        "start of names",
    ),
    (
        "warm_on: [{ event: push, idle: 1, repositories: [web] }]",
        "pools[0].warm_on[0].repositories[0]",
        "owner/repo",
    ),
    (
        "repositories: [acme/web]\nwarm_on: [{ event: push, idle: 1, repositories: [acme/api] }]",
        "pools[0].warm_on[0].repositories",
        "does not serve acme/api",
    ),
    (
        "entity: acme\nwarm_on: [{ event: push, idle: 1, repositories: [other/api] }]",
        "pools[0].warm_on[0].repositories",
        "does not serve other/api",
    ),
    ("limits: { max: 3, job_age: 2h }", "pools[0].limits.job_age", "from 0s to 1h"),
    ("limits: { max: 3, boot_deadline: 5 minutes }", "pools[0].limits.boot_deadline", "90s, 15m"),
    ("limits: { max: 3, keep_failed: 5h }", "pools[0].limits.keep_failed", "from 0s to 4h"),
    ("limits: { max: 3, max_lifetime: 30d }", "pools[0].limits.max_lifetime", "from 1m to 7d"),
    (
        "limits: { max: 3, idle_limit: 2h, max_lifetime: 1h }",
        "pools[0].limits.idle_limit",
        "not less than half of max_lifetime",
    ),
    (
        "limits: { max: 3, boot_deadline: 30m, max_lifetime: 1h }",
        "pools[0].limits.boot_deadline",
        "not less than half of max_lifetime, 30m",
    ),
    // Repositories and the runners' environment.
    ("repositories: [web]", "pools[0].repositories[0]", "owner/repo"),
    ("repositories: ['acme/w*']", "pools[0].repositories[0]", "owner/repo"),
    ("entity: acme\nrepositories: [other/web]", "pools[0].repositories", "does not belong to acme"),
    ("public_repositories: 'no'", "pools[0].public_repositories", "true or false"),
    ("environment: { 1A: x }", "pools[0].environment.1A", "begins with no digit"),
    (
        "environment: { ACTIONS_RUNNER_HOOK_JOB_STARTED: /x }",
        "pools[0].environment.ACTIONS_RUNNER_HOOK_JOB_STARTED",
        "sets this variable itself",
    ),
    ("boot_hook: [a]", "pools[0].boot_hook", "a list; write a text"),
    ("image_hook: [a]", "pools[0].image_hook", "a list; write a text"),
    ("agent_mirror: http://mirror.example", "pools[0].agent_mirror", "https://"),
    ("agent_mirror: 'https://mirror.example/?x'", "pools[0].agent_mirror", "https://"),
    ("sudo: 'yes'", "pools[0].sudo", "true or false"),
    ("log_usage: 0", "pools[0].log_usage", "true or false"),
    ("enabled: 1", "pools[0].enabled", "true or false"),
];

/// Whole files.
const FILES: &[(&str, &str, &str)] = &[
    ("[]", "", "a list; write a group of fields"),
    ("~", "", "nothing; write a group of fields"),
    ("pool: []", "pool", "did you mean \"pools\""),
    ("limits: { stack: 3 }", "", "pools is missing"),
    ("pools: []", "pools", "empty"),
    ("pools: { big: {} }", "pools", "a list of pools"),
    ("pools: [big]", "pools[0]", "a group of fields"),
    ("pools: [{ name: a }]", "pools[0]", "labels is missing"),
    ("balance: packs\npools: [{ name: a }]", "balance", "did you mean \"pack\""),
    ("limits: { stack: 0 }\npools: [{ name: a }]", "limits.stack", "from 1"),
    (
        "limits: { entities: { acme: x } }\npools: [{ name: a }]",
        "limits.entities.acme",
        "whole number",
    ),
    (
        "limits: { entities: { a/b/c: 1 } }\npools: [{ name: a }]",
        "limits.entities.a/b/c",
        "is not an entity",
    ),
    ("limits: { max: 3 }\npools: [{ name: a }]", "limits.max", "no such field"),
    ("defaults: { name: a }\npools: [{ name: a }]", "defaults.name", "no such field"),
    (
        "defaults: { limits: { max: no } }\npools: [{ name: a, limits: { max: 1 } }]",
        "defaults.limits.max",
        "whole number",
    ),
    (
        "defaults: { market: spott }\npools: [{ name: a }]",
        "defaults.market",
        "did you mean \"spot\"",
    ),
];

#[test]
fn every_mistake_is_named_by_its_place() {
    assert!(POOLS.len() + FILES.len() >= 40);
    right(&around(
        "name: big\nlabels: [linux]\ninstances: { types: [m7i.large] }\nsubnets: [subnet-0a1b2c3d]\nlimits: { max: 3 }",
    ));
    right(&with(""));
    let pools = POOLS.iter().map(|(lines, path, words)| (with(lines), *path, *words));
    let files = FILES.iter().map(|(text, path, words)| ((*text).to_owned(), *path, *words));
    for (text, path, words) in pools.chain(files) {
        let Err(problems) = file(&text) else { panic!("accepted: {text}") };
        let told = problems.iter().any(|wrong| wrong.path == path && wrong.what.contains(words));
        assert!(told, "{path:?} {words:?} is not among {problems:#?}\n{text}");
    }
}

#[test]
fn idle_runners_leave_room_for_jobs() {
    let kept = "
pools:
  - { name: a, entity: acme, labels: [x], instances: { types: [m7i.large] }, subnets: [subnet-0a1b2c3d],
      limits: { max: 9, min_idle: 3 } }
  - { name: b, entity: other, labels: [x], instances: { types: [m7i.large] }, subnets: [subnet-0a1b2c3d],
      limits: { max: 9, min_idle: 2 } }";
    for (limits, path) in [
        ("limits: { stack: 6, entities: { ACME: 4 } }", None),
        ("limits: { stack: 5 }", Some("limits.stack")),
        ("limits: { entities: { ACME: 3 } }", Some("limits.entities.ACME")),
    ] {
        let read = file(&format!("{limits}{kept}"));
        let path = path.map(str::to_owned);
        assert_eq!(read.err().map(|problems| problems[0].path.clone()), path, "{limits}");
    }
    let warmed =
        kept.replace("min_idle: 2 }", "min_idle: 2 }, warm_on: [{ event: push, idle: 4 }]");
    for (limits, is_accepted) in [("limits: { stack: 8 }", true), ("limits: { stack: 7 }", false)] {
        assert_eq!(file(&format!("{limits}{warmed}")).is_ok(), is_accepted, "{limits}");
    }
}

/// One problem in a pool causes one sentence: its consequences are not reported.
#[test]
fn a_mistake_is_told_once() {
    for (lines, path, _) in POOLS {
        let Err(problems) = file(&with(lines)) else { panic!("accepted: {lines}") };
        let alone = problems.len() == 1
            // A misspelt required field is also missing.
            || (problems.len() == 2 && problems.iter().any(|wrong| wrong.what.contains("no such field")));
        assert!(alone, "{path}: {problems:#?}\n{lines}");
    }
}

/// Each problem used to be compared with all others: 50,000 unknown fields took minutes in a debug
/// build.
#[expect(clippy::disallowed_methods, reason = "the reader has no clock; its test measures it")]
#[test]
fn a_file_full_of_mistakes_is_read_in_seconds() {
    let fields = (0..50_000).map(|n| (format!("field{n}"), serde_json::Value::Null)).collect();
    let begun = std::time::Instant::now();
    let Err(problems) = read(serde_json::Value::Object(fields)) else { panic!("accepted") };
    let took = begun.elapsed();
    assert!(problems.len() >= 50_000 && took.as_secs() < 20, "{} in {took:?}", problems.len());
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text = "
limits: { stack: 0 }
defaults: { subnets: [x], tagz: {} }
pools:
  - { name: a, labels: [], instances: { types: [m7i.large] }, limits: { max: 1 } }
  - { name: b b, labels: [x], instances: { types: [m7i.large] }, limits: { max: 0 } }";
    let Err(problems) = file(text) else { panic!("accepted") };
    let paths: Vec<&str> = problems.iter().map(|wrong| wrong.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "limits.stack",
            "defaults.tagz",
            "defaults.subnets[0]",
            "pools[0].labels",
            "pools[1].name",
            "pools[1].limits.max",
        ]
    );
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(told.iter().all(|line| line.contains(": ")), "{told:#?}");
}

#[test]
fn what_is_too_much_is_refused() {
    let many = |count: u32, one: &dyn Fn(u32) -> String| {
        (0..count).map(one).collect::<Vec<_>>().join(", ")
    };
    let big = "x".repeat(20_000);
    let rows = [
        (format!("tags: {{ {} }}", many(41, &|n| format!("t{n}: x"))), "pools[0].tags"),
        (format!("labels: [{}]", many(101, &|n| format!("l{n}"))), "pools[0].labels"),
        (format!("labels: [{}]", "x".repeat(257)), "pools[0].labels[0]"),
        (format!("boot_hook: {big}"), "pools[0].boot_hook"),
        (format!("image_hook: {big}"), "pools[0].image_hook"),
        (format!("environment: {{ A: {big} }}"), "pools[0].environment"),
        (
            format!(
                "instances: {{ types: [{}] }}\nsubnets: [{}]",
                many(61, &|n| format!("m7i.{n}xlarge")),
                many(5, &|n| format!("subnet-0000000{n}"))
            ),
            "pools[0].instances.types",
        ),
    ];
    for (lines, path) in rows {
        let Err(problems) = file(&with(&lines)) else { panic!("accepted: {path}") };
        assert_eq!(problems.iter().map(|wrong| wrong.path.as_str()).collect::<Vec<_>>(), [path]);
    }
    let pool = |n: u32| {
        format!(
            "{{ name: p{n}, labels: [x], instances: {{ types: [m7i.large] }}, subnets: [subnet-00000000], \
             limits: {{ max: 1 }}, boot_hook: '{}' }}",
            "x".repeat(16_000)
        )
    };
    let text = format!("pools: [{}]", many(20, &pool));
    let Err(problems) = read(yaml(&text)) else { panic!("accepted") };
    assert_eq!(problems[0].path, "pools");
}
