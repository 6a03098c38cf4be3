use std::fmt::Write as _;
use std::path::Path;

use muster_domain::launch::verdict::WaitReason;
use muster_domain::pool::Pool;
use muster_domain::timings::Timings;

use super::{Dimensions, MAX_POOLS, Measures, Metric, MetricSubject, NAMESPACE, OTHER_POOLS, pool};
use crate::Settings;

fn row(metric: Metric) -> String {
    let by = metric.dimensions().iter().map(|by| by.names().join("+"));
    let by = by.collect::<Vec<_>>().join("; ");
    format!("| `{}` | {} | {by} | {} |", metric.name(), metric.unit(), metric.meaning())
}

fn page() -> String {
    let mut page = format!(
        "# Metrics\n\n\
        The functions write these metrics to their logs, and CloudWatch extracts them into the namespace `{NAMESPACE}`, once for each set of\n\
        dimensions listed here. `UPDATE=1 cargo test -p muster-control --lib metrics` generates this page.\n\n\
        `Stack` is the stack's name. `Pool` is the name of one of the first {MAX_POOLS} pools in the pool file; all others share `{OTHER_POOLS}`.\n"
    );
    let reasons: Vec<&str> = WaitReason::ALL.iter().map(|one| one.as_str()).collect();
    writeln!(page, "`Reason` is one of {}.\n", list(&reasons)).expect("a text");
    for (title, is_watched) in [("What alarms watch", true), ("What is shown", false)] {
        writeln!(page, "## {title}\n").expect("a text");
        page.push_str(match is_watched {
            true => {
                "[Alarms](alarms/README.md) use the dimension `Stack` only. `Measures` turns off only the metrics of pools here.\n\n"
            }
            false => {
                "The parameter `Measures` turns these off: `stack` turns off those of pools, `none` turns off all.\n\n"
            }
        });
        page.push_str("| Name | Unit | Dimensions | What it is |\n|---|---|---|---|\n");
        for metric in Metric::ALL.iter().filter(|metric| metric.is_watched() == is_watched) {
            writeln!(page, "{}", row(*metric)).expect("a text");
        }
        page.push('\n');
    }
    page.push_str(
        "CloudWatch can count a log line twice, so sums are approximate; the [usage records](usage.md) count each machine once.\n",
    );
    page
}

fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_page_lists_all_metrics() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, page()).expect("docs/metrics.md");
    }
    let written = std::fs::read_to_string(&path).expect("docs/metrics.md");
    assert_eq!(written, page(), "UPDATE=1 generates docs/metrics.md");
}

#[test]
fn an_alarm_has_its_metric_whatever_is_turned_off() {
    for metric in Metric::ALL.iter().filter(|metric| metric.is_watched()) {
        assert!(metric.dimensions().contains(&Dimensions::Stack), "{metric:?}");
        assert!(Measures::None.keeps(*metric, Dimensions::Stack), "{metric:?}");
    }
}

#[test]
fn what_is_shown_can_be_turned_off() {
    let kept = |measures: Measures, metric: Metric| -> Vec<Dimensions> {
        let by = metric.dimensions().iter().copied();
        by.filter(|by| measures.keeps(metric, *by)).collect()
    };
    let (stack, pool, reason) = (Dimensions::Stack, Dimensions::Pool, Dimensions::Reason);
    for (metric, none, some, all) in [
        (Metric::Orphans, vec![stack], vec![stack], vec![stack]),
        (Metric::JobWaitSeconds, vec![stack], vec![stack], vec![stack, pool]),
        (Metric::JobsGated, vec![], vec![stack], vec![stack]),
        (Metric::JobsWaiting, vec![], vec![reason], vec![pool, reason]),
        (Metric::MachinesLive, vec![], vec![], vec![pool]),
    ] {
        let found = [Measures::None, Measures::Stack, Measures::Pools].map(|one| kept(one, metric));
        assert_eq!(found, [none, some, all], "{metric:?}");
    }
}

#[test]
fn at_most_twenty_pools_have_a_name() {
    let named = |n| Pool {
        name: format!("p{n}").parse().expect("a name"),
        ..Pool::built_in("s", Vec::new(), 1)
    };
    let pools = (0..30).map(named).collect();
    let settings = Settings::from_parameters("s".to_owned(), pools, Timings::default());
    let filed = |name: &str| pool(&settings, &name.parse().expect("a name"));
    let named = |name: &str| MetricSubject::Pool(name.to_owned());
    assert_eq!(filed("p0"), named("p0"));
    assert_eq!(filed("p19"), named("p19"));
    assert_eq!(filed("p20"), named("other"));
    assert_eq!(filed("gone"), named("other"));
}
