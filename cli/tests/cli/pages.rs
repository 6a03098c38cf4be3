//! Every page at two widths, and for a pipe.

use muster_api::answers::{
    AdoptedJobs, AppliedPools, AuditList, CostsList, DeleteDryRun, ExplainedInstance, ExplainedJob,
    InstanceList, JobList, LineList, OrderedDelete, Overview, PhaseList, PoolsHistory,
    ShownInstance, ShownPools, StackStatus, SwitchedNow, WaitsList,
};
use muster_cli::page::Screen;
use muster_cli::views::{self, costs, instances, jobs, lines, phases, pools, status, waits};
use muster_control::admin::findings::{StackFacts, findings};
use muster_domain::launch::record::trouble::Trouble;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::By;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fake::{Fake, NOW};
use crate::{compare, drawn, recorded};

fn read<T: DeserializeOwned>(answer: Value) -> T {
    serde_json::from_value(answer).expect("an answer")
}

/// Records what a page looks like on each screen.
fn looks<T: DeserializeOwned>(
    name: &str,
    answer: Value,
    page: impl Fn(&T, Time, Screen) -> String,
) {
    let answer: T = read(answer);
    let screens = [
        ("80 columns", Screen { width: Some(80), colour: false }),
        ("120 columns", Screen { width: Some(120), colour: false }),
        ("a pipe", Screen::PIPE),
    ];
    let shown = screens.map(|(title, screen)| {
        let text = page(&answer, NOW, screen);
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
        if let Some(width) = screen.width {
            let told = name != "delete" && name != "pools_diff";
            assert!(!told || longest <= usize::from(width), "{name} at {width}: {longest} columns");
        }
        format!("== {title}\n{text}")
    });
    compare(&format!("{name}.txt"), &shown.join("\n"));
}

#[test]
fn status_shows_the_pools_and_what_is_wrong() {
    let page = |told: &StackStatus, _, screen| of_status(told, screen);
    looks("status", recorded("status"), page);
    looks("status_quiet", recorded("status_quiet"), page);
    looks("status_busy", with_findings(drawn("status")), page);
    let mut deaf = recorded("status_quiet");
    deaf["findings"] = recorded("status_without_github");
    looks("status_without_github", deaf, page);
    let mut warm = recorded("status_quiet");
    warm["pools"][0]["warm"] = json!("kept warm until 10:15:00 for a push to main of acme/app");
    looks("status_warm", warm, page);
}

fn of_status(told: &StackStatus, screen: Screen) -> String {
    status::page(&told.overview, "us-east-1", screen)
}

/// An answer that nobody recorded, with what the function would say of it.
pub(crate) fn with_findings(answer: Value) -> Value {
    let mut told: StackStatus = read(answer);
    let troubles: Vec<Trouble> =
        told.entities.iter().flat_map(|entity| entity.troubles.clone()).collect();
    told.overview.findings = findings(&StackFacts {
        overview: &told.overview,
        app: None,
        failing: &[],
        foreign: &[],
        troubles: &troubles,
        cooldowns: told.cooldowns.as_deref().unwrap_or_default(),
        orphans: &told.orphans,
        notices: None,
        refused_prices: None,
        images: None,
    });
    json!(told)
}

#[test]
fn colours_are_where_something_is_wrong() {
    let told: StackStatus = read(recorded("status"));
    let text = of_status(&told, Screen { width: Some(120), colour: true });
    compare("status_in_colour.txt", &text.replace('\u{1b}', "␛"));
}

#[test]
fn jobs_say_why_they_wait() {
    looks::<JobList>("jobs", recorded("jobs"), jobs::list);
    looks::<JobList>("jobs_in_part", recorded("jobs_in_part"), jobs::list);
    looks::<JobList>("jobs_none", recorded("jobs_of_a_pool"), jobs::list);
    looks::<JobList>("jobs_many", drawn("jobs"), jobs::list);
    looks::<AdoptedJobs>("jobs_adopted", recorded("jobs_adopted"), jobs::adopted);
}

#[test]
fn a_job_is_explained() {
    let job = |told: &ExplainedJob, _, screen| views::job::page(told, screen);
    looks("explain_job", recorded("explain_job"), job);
    looks("explain_job_over", recorded("explain_job_over"), job);
    let instance =
        |told: &ExplainedInstance, _, screen| views::sentences(&told.explanation, screen);
    looks("explain_instance", recorded("explain_instance"), instance);
}

/// What is one column on other screens stands apart on a wide one.
#[test]
fn a_wide_screen_has_room_for_a_machines_market() {
    let several: InstanceList = read(drawn("list"));
    let text = instances::list(&several, NOW, Screen { width: Some(160), colour: false });
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    assert!(longest <= 160, "{text}");
    compare("list_wide.txt", &text);
}

#[test]
fn instances_are_listed_and_shown() {
    looks::<InstanceList>("list", recorded("list"), instances::list);
    looks::<InstanceList>("list_at_work", recorded("list_at_work"), instances::list);
    let mut several = drawn("list");
    several["unreadable"] = json!(["small-l7-0"]);
    let running = several["instances"].as_array_mut().expect("instances").iter_mut();
    for one in running.filter(|one| one["state"] == "running").take(1) {
        one["kept_until"] = json!("2026-11-21T00:09:00.000Z");
        one["runner_state"] = json!("terminated");
    }
    looks::<InstanceList>("list_many", several, instances::list);
    looks::<ShownInstance>("show", recorded("show"), instances::show);
    let mut troubled = recorded("show");
    troubled["instance"]["last_error"] = json!({
        "at": "2026-11-20T23:58:00.000Z", "operation": "TerminateInstances",
        "code": "UnauthorizedOperation", "message": "You are not authorized to perform this operation.",
    });
    troubled["audit"] = json!([{
        "at": "2026-11-20T23:57:00.000Z", "kind": "ordered", "subject": "small-l0-0", "by": "mira",
        "why": "old image",
    }]);
    looks::<ShownInstance>("show_with_an_error", troubled, instances::show);
    looks::<ShownInstance>("show_planned", recorded("show_planned"), instances::show);
    looks::<ShownInstance>("show_booting", booting(), instances::show);
    looks::<ShownInstance>("show_with_a_job", at_work(), instances::show);
}

/// EC2 has made it, and it has not called.
fn booting() -> Value {
    let mut told = recorded("show_planned");
    told["instance"]["state"] = json!("running");
    told["instance"]["machine"] = json!("i-0c0ffee0123456789");
    told["instance"]["bound_at"] = told["instance"]["created_at"].clone();
    told
}

/// A machine whose packages took long, and its job.
fn at_work() -> Value {
    let mut told = recorded("show");
    let at = |second| json!((NOW - Seconds(3_600)) + Seconds(second));
    let one = &mut told["instance"];
    one["bound_at"] = at(1);
    one["phases"] = json!({
        "running": at(6), "booted": at(24), "prepared": at(158), "registered": at(160), "started": at(162),
    });
    one["runner"]["started"] = json!({
        "at": at(1_166), "repository": "acme/app", "run": 17, "name": "build", "completed_at": null,
    });
    told
}

#[test]
fn phases_are_a_table() {
    let mut told = recorded("phases");
    looks::<PhaseList>("phases", told.clone(), phases::page);
    told["pools"].as_array_mut().expect("pools").remove(0);
    looks::<PhaseList>("phases_none", told, phases::page);
}

#[test]
fn the_audit_trail_is_a_table() {
    let page = |told: &AuditList, now, screen| views::trail(&told.lines, now, screen);
    looks("audit", recorded("audit"), page);
    looks("audit_none", json!({ "lines": [], "next": null }), page);
}

#[test]
fn pools_are_shown_compared_and_kept() {
    let shown: ShownPools = read(recorded("pools"));
    compare("pools.txt", &format!("{}\n{}", pools::about(&shown, NOW), pools::file(&shown)));
    let page = |told: &AppliedPools, _, screen| pools::changes(told, screen);
    looks("pools_diff", recorded("pools_dry_run"), page);
    looks::<PoolsHistory>("pools_history", recorded("pools_history"), pools::history);
    looks::<PoolsHistory>("pools_history_none", recorded("pools_history_empty"), pools::history);
}

/// What is shown as a pool file is one: it is read again as what it was.
#[test]
fn a_shown_file_is_a_pool_file() {
    for name in ["pools", "pools_of_parameters"] {
        let shown: ShownPools = read(recorded(name));
        let text = pools::file(&shown);
        assert_eq!(muster_api::yaml::read(&text).expect("YAML"), shown.file, "{text}");
    }
}

/// Nothing of an answer is lost between the function and whoever reads it.
#[test]
fn each_answer_is_read_as_it_was_written() {
    fn back<T: DeserializeOwned + Serialize>(names: &[&str]) {
        for name in names {
            let answer = recorded(name);
            let mut written = json!(read::<T>(answer.clone()));
            written["version"] = json!(1);
            written["ok"] = json!(true);
            assert_eq!(written, answer, "{name}");
        }
    }
    back::<Overview>(&["overview"]);
    back::<StackStatus>(&["status", "status_quiet"]);
    back::<JobList>(&["jobs", "jobs_in_part", "jobs_of_a_pool", "jobs_unserved"]);
    back::<AdoptedJobs>(&["jobs_adopted"]);
    back::<InstanceList>(&["list", "list_at_work", "list_in_part"]);
    back::<PhaseList>(&["phases"]);
    back::<ShownInstance>(&["show", "show_planned"]);
    back::<ExplainedJob>(&["explain_job", "explain_job_over"]);
    back::<ExplainedInstance>(&["explain_instance", "explain_machine"]);
    back::<ShownPools>(&["pools", "pools_of_parameters"]);
    back::<PoolsHistory>(&["pools_history", "pools_history_empty"]);
    back::<AppliedPools>(&["pools_applied", "pools_dry_run", "pools_restored", "pools_unchanged"]);
    back::<AuditList>(&["audit", "audit_in_part"]);
    back::<SwitchedNow>(&["switch"]);
    back::<OrderedDelete>(&["delete", "delete_forced", "delete_killing"]);
    back::<DeleteDryRun>(&["delete_dry_run"]);
}

#[test]
fn costs_say_what_was_for_nothing_and_what_is_not_in_them() {
    let by = ["costs_by_type", "costs_by_pull_request", "costs_by_actor"];
    for name in ["costs", "costs_spread", "costs_none"].into_iter().chain(by) {
        looks::<CostsList>(name, recorded(name), costs::page);
    }
    let told: CostsList = read(recorded("costs"));
    compare("costs.csv", &costs::csv(&told));
    let mut told: CostsList = read(recorded("costs_by_actor"));
    told.rows.retain(|row| row.name == By::NO_ACTOR);
    let notice = "UsageActors=yes";
    assert!(costs::page(&told, NOW, Screen { width: Some(120), colour: false }).contains(notice));
}

/// Forty minutes ran on two CPUs, ten on four, and five on an unknown number.
#[test]
fn own_rates_price_githubs_runners() {
    let mut told = recorded("costs");
    let all = &mut told["all"];
    (all["minutes"], all["private_minutes"]) = (json!(60), json!(55));
    all["cpu_minutes"] = json!({ "2": 40, "4": 10 });
    all["interrupted"] = json!({ "machines": 2, "time": 600_000, "money": 4_000 });
    all["ordered_reruns"] = json!({ "machines": 1, "time": 600_000, "money": 11_000 });
    told["by"] = json!("attempt");
    told["rows"][0]["name"] = json!("1");
    told["rows"][1]["name"] = json!("2");
    let run = |file, width| {
        let line = ["costs", "--by", "attempt", "--prices", "own.yaml"];
        Fake { file, width, ..Fake::of([told.clone()]) }.run(&line)
    };
    let rates = "github: { 2: 0.006, 4: 0.012 }";
    let shown = [run(rates, Some(100)), run(rates, None), run("github: { 2: 0.006 }", Some(100))];
    compare("run_costs.txt", &shown.join("\n"));
    let wrong = Fake { file: "github: { two: 0.006 }", ..Fake::default() };
    let told = wrong.run(&["costs", "--prices", "own.yaml"]);
    assert!(told.contains("own.yaml: github: \"two\" is not a number of vCPUs"), "{told}");
}

#[test]
fn waits_say_what_the_longest_were_for() {
    let mut apart = recorded("waits");
    // Each percentile has its own column.
    for row in ["p95", "p99"] {
        apart["pools"][0][row] = json!(if row == "p95" { 240_000 } else { 600_000 });
    }
    looks::<WaitsList>("waits", apart, waits::page);
    let mut none = recorded("waits");
    none["all"]["jobs"] = json!(0);
    none["pools"] = json!([]);
    looks::<WaitsList>("waits_none", none, waits::page);
}

#[test]
fn lines_tell_machine_by_machine() {
    let page = |told: &LineList, now, screen| lines::page(&told.lines, now, screen);
    looks::<LineList>("lines", recorded("lines"), page);
    let told: LineList = read(recorded("lines"));
    compare("lines.csv", &(lines::csv_header() + &lines::csv(told.lines.into_iter())));
}

/// A name takes as many columns as its characters do, not as many as there are characters.
#[test]
fn wide_names_break_no_line_and_no_column() {
    use muster_cli::display::width;
    use muster_cli::page::TextPage;
    use muster_cli::table::{Column, DataTable, Text};
    use muster_cli::views::watch::{Followed, followed};

    const COLUMNS: u16 = 40;
    let screen = Screen { width: Some(COLUMNS), colour: false };
    for name in [
        "build",
        "日本語のビルドとテスト",
        "한국어 빌드",
        "ﾋﾞﾙﾄﾞ",
        "构建与测试",
        "👷 deploy 🚀",
        "👩\u{200d}💻 and 👩\u{200d}👩\u{200d}👧",
        "⚙\u{fe0f} build ❤\u{fe0f}",
        "🇯🇵 🇩🇪 flags",
        "e\u{301}te\u{301} combining",
        "Größe → fertig",
        "שלום עולם",
        "a\u{200b}b\u{202e}c",
    ] {
        let long = name.repeat(12);
        let mut page = TextPage::new(screen);
        page.cut([Text::from("07:02:41  "), Text::from(&long), Text::from("  end")]);
        let line = page.into_text();
        let columns = width(line.trim_end());
        assert!((36..=40).contains(&columns), "{columns} columns: {line}");

        let story = vec![(NOW, long.clone()); 3];
        let one = Followed { title: name.to_owned(), sentences: vec![long.clone()], story };
        for line in followed(&one, 20, NOW, screen).lines() {
            assert!(width(line) <= 40, "{} columns: {line}", width(line));
        }

        let mut page = TextPage::new(screen);
        let row = |name: &str| vec![Text::from(name), Text::from("small"), Text::from("12 s")];
        let header = [Column::text("Job"), Column::name("Pool"), Column::number("Waited")];
        page.table(&DataTable::new(header, [row(name), row("a"), row(&long)]));
        let table = page.into_text();
        let at = |line: &str, word: &str| line.find(word).map(|at| width(&line[..at]));
        let pool = table.lines().next().and_then(|line| at(line, "POOL")).expect("a header");
        for line in table.lines() {
            assert!(width(line) <= 40, "{} columns: {line}", width(line));
            assert!(at(line, "small").is_none_or(|at| at == pool), "{line} in {table}");
        }
    }
}

/// Long names leave room for the sentence: optional columns go, the last one first.
#[test]
fn an_optional_column_goes_before_a_sentence_is_squeezed() {
    use muster_cli::page::TextPage;
    use muster_cli::table::{Column, DataTable};

    let header = [
        Column::name("Instance"),
        Column::short("Type").optional(),
        Column::short("Age").optional(),
        Column::text("Job").at_least(20),
    ];
    for (name, shown) in [
        ("default-1", "INSTANCE TYPE AGE JOB"),
        ("linux-x64-1", "INSTANCE TYPE JOB"),
        ("linux-x64-large-spot-1", "INSTANCE JOB"),
    ] {
        let mut page = TextPage::new(Screen { width: Some(50), colour: false });
        let row = [name, "m7i.large", "4 min", "acme/app integration (postgres, 3)"];
        page.table(&DataTable::new(header, [row.to_vec()]));
        let text = page.into_text();
        let titles: Vec<&str> =
            text.lines().next().unwrap_or_default().split_whitespace().collect();
        assert_eq!(titles.join(" "), shown, "{text}");
        assert!(text.lines().count() <= 4, "{text}");
    }
}
