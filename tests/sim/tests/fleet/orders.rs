//! What operators may not order now, and what they must always be able to take back.

use muster_control::ports::{Operations, Write};
use muster_domain::ids::JobKey;
use muster_domain::pool::limits::{Balance, Limits};
use muster_domain::pool_set::PoolSet;
use muster_domain::stored::{Change, Stored};
use muster_domain::switches::{Switch, SwitchedOff, Switches};
use muster_sim::schedule;
use serde_json::json;

use super::bench::Bench;
use super::listings::{ask, ask_with};

fn switched_off(bench: &Bench, switch: &Switch) {
    let off = SwitchedOff {
        since: bench.door.now(),
        by: "mira".to_owned(),
        reason: "moving subnets".to_owned(),
    };
    let next = Switches::default().with(switch, Some(off));
    bench.put(&[Change::create(next).into()]);
}

#[test]
fn a_plain_delete_is_refused_while_nothing_is_deleted() {
    let bench = Bench::new();
    let rows = bench.idle(1);
    bench.store(&rows);
    switched_off(&bench, &Switch::Deletes);
    let name = rows[0].name.as_str();
    let order = |force| json!({"version": 1, "action": "delete", "name": name, "reason": "a test", "by": "a", "force": force});
    let refused = ask(&bench, order(false));
    assert_eq!(refused["error"]["code"], "switched_off", "{refused}");
    let message = refused["error"]["message"].as_str().expect("a message");
    assert!(message.starts_with("deletes are"), "{message}");
    assert!(message.contains("by mira: moving subnets"), "{message}");
    let ordered = ask(&bench, order(true));
    assert_eq!(ordered.get("error"), None, "{ordered}");
}

#[test]
fn the_switch_of_a_pool_that_is_gone_can_be_set_on_again() {
    let bench = Bench::new();
    switched_off(&bench, &Switch::Pool("gone".parse().expect("a pool")));
    let set = |pool: &str, to: &str| {
        ask(
            &bench,
            json!({"version": 1, "action": "switch", "pools": {pool: to}, "reason": "a test", "by": "a"}),
        )
    };
    assert_eq!(set("gone", "off")["error"]["code"], "not_found");
    assert_eq!(set("never", "on")["error"]["code"], "not_found");
    assert_eq!(set("gone", "on")["switches"]["pools"], json!({}));
    let stored = bench.drive(bench.door.switches()).expect("read").expect("stored");
    assert_eq!(stored.off_since(), None);
}

#[test]
fn a_file_that_is_too_large_with_the_pools_it_removes_says_so_in_a_dry_run() {
    let bench = Bench::new();
    let hook = "x".repeat(130_000);
    let set = |version, name: &str| {
        let mut pool = schedule::pool(name, &["linux"], 5, "spot", None);
        pool.boot_hook = Some(hook.clone());
        let set = PoolSet::from_parameters(vec![pool], Limits::default(), Balance::default());
        PoolSet { version, ..set }
    };
    let next = set(8, "old");
    bench.put(&[Change::create(next).into(), Write::PoolsVersion(Box::new(set(7, "new")))]);
    for dry_run in [true, false] {
        let request =
            json!({"version": 1, "action": "pools", "restore": 7, "by": "a", "dry_run": dry_run});
        let refused = ask(&bench, request);
        assert_eq!(refused["error"]["code"], "bad_pool_file", "{refused}");
        let what = refused["error"]["errors"][0]["error"].as_str().expect("a sentence");
        assert!(what.contains("Take pools out first"), "{what}");
    }
}

/// Whatever another writes before any of its calls, and wherever it is stopped: a row is marked for
/// an operator when it carries his order, and a refused order leaves nothing behind.
#[test]
fn an_order_marks_nothing_unless_it_is_accepted() {
    let mut accepted = 0;
    for at in 0.. {
        let bench = Bench::new();
        let mut row = bench.idle(1).remove(0);
        bench.make_due(&mut row);
        row.clear_mark(bench.door.now(), "the test");
        bench.store(std::slice::from_ref(&row));
        let stored = || bench.change(|world| Stored::clone(&world.tables.instances[&row.name]));
        let mut came = false;
        let order = json!({"version": 1, "action": "delete", "name": row.name.as_str(), "reason": "a test", "by": "a"});
        let answer = ask_with(&bench, order, |call| {
            let now = stored();
            assert_eq!(now.mark().is_some(), now.order().is_some(), "before call {call}");
            if call == at && now.order().is_none() {
                came = true;
                let mut next = now.record().clone();
                assert!(next.github_started(JobKey { repository: 1, job: 1 }, bench.door.now()));
                bench.put(&[now.change(next).into()]);
            }
        });
        let after = stored();
        let refused = answer["error"]["code"] == "busy";
        assert_eq!(after.order().is_none(), refused, "call {at}: {answer}");
        assert_eq!(after.mark().is_none(), refused, "call {at}: {after:?}");
        assert_eq!(refused, came, "call {at}: {answer}");
        if !came {
            accepted += 1;
            assert!(at > 3, "it reads, asks GitHub and writes");
            break;
        }
    }
    assert_eq!(accepted, 1);
}
