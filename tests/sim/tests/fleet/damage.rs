//! Records that cannot be read: each in turn, and every request of an operator. Only the requests that need the record
//! fail, and the error names the record and the command that repairs it.

use muster_control::admin;
use muster_control::context::Context;
use muster_control::ports::Write;
use muster_domain::image::Images;
use muster_domain::launch::record::Cooldowns;
use muster_domain::stored::Change;
use muster_domain::switches::Switches;
use muster_domain::usage::Prices;
use serde_json::{Value, json};

use super::bench::{Bench, waiting};

pub(crate) fn ask(bench: &Bench, request: &Value) -> Value {
    let mut request = request.clone();
    request["version"] = json!(1);
    let door = &bench.door;
    let context = Context::new(door, door, door, door, &door.sim.settings);
    json!(bench.drive(admin::answer(context, request, door.now())))
}

/// The pool file with this maximum.
fn file(max: u32) -> String {
    json!({ "pools": [{ "name": "small", "labels": ["linux"], "subnets": ["subnet-0a1b2c3d"],
        "instances": { "types": ["m7i.large"] }, "limits": { "max": max } }] })
    .to_string()
}

/// Three versions of a pool file, an idle runner, a waiting job, and every record that commands read.
fn bench() -> (Bench, String) {
    let bench = Bench::new();
    for max in [3, 4, 5] {
        let applied = ask(&bench, &json!({ "action": "pools", "file": file(max) }));
        assert_eq!(applied["applied"], true, "{applied}");
    }
    let rows = bench.idle(1);
    bench.store(&rows);
    bench.put(&[
        Change::create(waiting(7, bench.door.now())).into(),
        Change::create(Switches::default()).into(),
        Change::create(Cooldowns::default()).into(),
        Change::create(Images { on: true, ..Images::default() }).into(),
        Change::create(Prices::default()).into(),
    ]);
    (bench, rows[0].name.to_string())
}

/// Every request, by a short name.
fn requests(instance: &str) -> Vec<(&'static str, Value)> {
    let why = "the record is damaged";
    vec![
        ("list", json!({ "action": "list" })),
        ("show", json!({ "action": "show", "name": instance })),
        ("phases", json!({ "action": "phases" })),
        ("jobs", json!({ "action": "jobs" })),
        ("adopt", json!({ "action": "jobs", "adopt": true, "repository": "acme/web" })),
        ("explain job", json!({ "action": "explain", "job": "1/7" })),
        ("explain instance", json!({ "action": "explain", "name": instance })),
        ("audit", json!({ "action": "audit" })),
        ("costs", json!({ "action": "costs" })),
        ("waits", json!({ "action": "waits" })),
        ("lines", json!({ "action": "lines" })),
        ("overview", json!({ "action": "overview" })),
        ("status", json!({ "action": "status" })),
        ("pools", json!({ "action": "pools" })),
        ("history", json!({ "action": "pools", "history": true })),
        ("restore, dry", json!({ "action": "pools", "restore": 2, "dry_run": true })),
        ("canary", json!({ "action": "canary", "pool": "small", "reason": why })),
        (
            "delete, dry",
            json!({ "action": "delete", "name": instance, "reason": why, "dry_run": true }),
        ),
        ("delete", json!({ "action": "delete", "name": instance, "reason": why })),
        ("pause", json!({ "action": "switch", "launches": "off", "reason": why })),
        ("resume", json!({ "action": "switch", "launches": "on", "reason": why })),
        ("restore", json!({ "action": "pools", "restore": 2, "reason": why })),
        ("apply", json!({ "action": "pools", "file": file(9), "reason": why })),
        ("images", json!({ "action": "images" })),
        ("image build", json!({ "action": "images", "order": "build" })),
        ("image off", json!({ "action": "images", "order": "off" })),
    ]
}

#[test]
fn a_record_that_cannot_be_read_fails_only_the_requests_that_need_it() {
    let pool = ["adopt", "explain job", "canary", "image build"];
    // The records, what the error about the first one names, the requests that need them.
    let table: [(&str, &str, &[&str]); 12] = [
        ("pools", "", &[]),
        ("pools pools#3", "muster pools restore N", &pool),
        ("pools#2", "version 2 is not stored or cannot be read", &["restore, dry", "restore"]),
        ("pools#3", "", &[]),
        (
            "switches",
            "muster resume launches",
            &["jobs", "explain job", "canary", "delete, dry", "delete"],
        ),
        ("cooldowns", "muster resume launches", &["jobs", "explain job", "canary"]),
        ("pool#small", "deploy the release that wrote it", &["jobs", "explain job", "canary"]),
        // Launches go on with the launch template's image.
        ("images", "muster image on", &["images", "image build"]),
        ("notices", "", &[]),
        ("inquiries", "", &[]),
        ("prices", "within a minute", &["costs", "waits", "lines"]),
        ("job#1/7", "deploy the release that wrote it", &["explain job"]),
    ];
    let (_, instance) = bench();
    let mut wrong = Vec::new();
    for (records, remedy, needed_by) in table {
        let record = records.split(' ').next().unwrap_or_default();
        for (name, request) in requests(&instance) {
            let (bench, _) = bench();
            let sound = ask(&bench, &request);
            let (bench, _) = self::bench();
            let broken = records.split(' ').map(str::to_owned);
            bench.change(|world| world.tables.broken.extend(broken));
            let answer = ask(&bench, &request);
            let told = answer["error"]["message"].as_str().unwrap_or_default();
            if !needed_by.contains(&name) {
                if answer["error"] != sound["error"] {
                    wrong.push(format!("{records}: {name}: {told}"));
                }
                continue;
            }
            let names_record = told.contains(record) || record == "pools#2";
            if sound["error"].is_null() && !(told.contains(remedy) && names_record) {
                wrong.push(format!("{records}: {name} should fail: {answer}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// The commands that an error names repair what it is about, and `status` says so before and not after.
#[test]
fn the_command_that_an_error_names_repairs_the_record() {
    let why = "the record is damaged";
    let restore = json!({ "action": "pools", "restore": 3, "reason": why });
    let apply = json!({ "action": "pools", "file": file(5), "reason": why });
    let resume = json!({ "action": "switch", "launches": "on", "reason": why });
    let pause = json!({ "action": "switch", "launches": "off", "reason": why });
    for (record, repair) in [
        ("pools", &restore),
        ("pools", &apply),
        ("switches", &pause),
        ("switches", &resume),
        ("cooldowns", &resume),
        ("images", &json!({ "action": "images", "order": "on" })),
        ("images", &json!({ "action": "images", "order": "off" })),
    ] {
        let (bench, _) = bench();
        let wanted = || {
            let status = ask(&bench, &json!({ "action": "status" }));
            let key = format!("unreadable-record:{record}");
            let all = status["findings"].as_array().expect("a list");
            all.iter().any(|one| one["key"] == key)
        };
        assert!(!wanted(), "{record}");
        bench.change(|world| world.tables.broken.insert(record.to_owned()));
        assert!(wanted(), "{record}");
        let repaired = ask(&bench, repair);
        assert!(repaired["error"].is_null(), "{record}: {repaired}");
        assert!(!wanted(), "{record}: {repaired}");
        assert!(bench.change(|world| world.tables.broken.is_empty()), "{record}");
        if record == "pools" {
            // Numbers go on, and a writer that read the record before does not succeed.
            let set = bench.change(|world| world.tables.pools.clone()).expect("a set");
            assert_eq!((set.version, set.pools[0].max), (4, 5));
            assert!(set.version().0 > 1_000_000_000_000, "{:?}", set.version());
        }
    }
}

/// Every kept version and the record are damaged: the pools of the parameters are shown, and a file can be applied.
#[test]
fn a_file_is_applied_where_no_version_can_be_read() {
    let (bench, _) = bench();
    bench.change(|world| {
        world.tables.broken.extend(["pools", "pools#1", "pools#2", "pools#3"].map(str::to_owned));
    });
    let listed = ask(&bench, &json!({ "action": "list" }));
    assert!(listed["error"].is_null(), "{listed}");
    let applied = ask(&bench, &json!({ "action": "pools", "file": file(6) }));
    assert_eq!(
        (&applied["applied"], &applied["pools_version"]),
        (&json!(true), &json!(4)),
        "{applied}"
    );
}

/// The record of the pools is damaged. Columns: the versions that are kept after the audit trail's last line; those that
/// cannot be read; the maximum of the pool that applies, if the newest version can be read, and of the one that is shown.
#[test]
fn the_newest_version_takes_the_place_of_a_damaged_record() {
    let rows: [(u64, &[u64], Option<u32>, u32); 6] = [
        (0, &[], Some(5), 5),
        (1, &[], Some(6), 6),
        (2, &[], Some(7), 7),
        (2, &[5], None, 6),
        (0, &[3], None, 4),
        (0, &[3, 2], None, 3),
    ];
    for (later, broken, applies, shown) in rows {
        let (bench, _) = bench();
        let newest = bench.change(|world| world.tables.pools.clone()).expect("a set");
        for version in 4..4 + later {
            let mut set = newest.record().clone();
            (set.version, set.pools[0].max) = (version, 2 + version as u32);
            bench.put(&[Write::PoolsVersion(Box::new(set))]);
        }
        bench.change(|world| {
            let kept = broken.iter().map(|version| format!("pools#{version}"));
            world.tables.broken.extend(kept.chain(["pools".to_owned()]));
        });
        let settings = &bench.door.sim.settings;
        let found = bench.drive(settings.current(&bench.door)).expect("read");
        let max = found.pools.first().map(|pool| pool.max);
        assert_eq!(max, applies, "{later} later, {broken:?} broken");
        let last = bench.drive(settings.current_or_last(&bench.door)).expect("read");
        assert_eq!(last.pools[0].max, shown, "{later} later, {broken:?} broken");
    }
}
