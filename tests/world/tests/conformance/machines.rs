//! Machines: the user data of `template.yaml`, run by bash, from its first line to the power-off.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use crate::common::{cloud::Cloud, runner_api::RunnerApi};
use serde_json::{Value, json};

const TEMPLATE: &str = include_str!("../../../../template.yaml");

/// The boot script as the template has it: `infra/boot.sh` with `infra/machine` packed into it.
fn boot() -> String {
    let (_, rest) = TEMPLATE.split_once("# boot.sh: begin").expect("its first marker");
    let (block, _) = rest.split_once("# boot.sh: end").expect("its last marker");
    let lines: Vec<&str> = block.lines().skip(2).collect();
    let margin = lines[0].len() - lines[0].trim_start().len();
    let shorn = lines.iter().map(|line| line.get(margin..).unwrap_or_default().to_owned() + "\n");
    shorn.collect::<String>().trim_end().to_owned() + "\n"
}

/// A world whose machines boot against a stand-in for the runner API.
async fn open(exports: &str) -> (Cloud, RunnerApi) {
    let api = RunnerApi::default();
    let url = api.serve().await;
    let header = format!(
        "#!/bin/bash\nexport MUSTER_RUNNER_API='{url}' MUSTER_REGION=us-east-1 MUSTER_STACK=dev\n\
         {exports}\n"
    );
    let cloud = Cloud::open(&(header + &boot())).await;
    api.connect(std::sync::Arc::clone(&cloud.running.cloud));
    (cloud, api)
}

async fn instance(cloud: &Cloud, id: &str) -> Value {
    let instances = cloud.ask("instances").await;
    instances.as_array().unwrap().iter().find(|i| i["id"] == id).cloned().unwrap()
}

async fn until_terminated(cloud: &Cloud, id: &str) {
    cloud
        .until("the machine is terminated", async |c| {
            instance(c, id).await["state"] == "terminated"
        })
        .await;
}

/// Processes of this world's machines: their directory is in the environment of each.
fn processes_of(cloud: &Cloud) -> Vec<u32> {
    let directory = cloud.state_dir.display().to_string().into_bytes();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok())
        .filter(|process| {
            let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            environment.windows(directory.len()).any(|window| window == directory)
        })
        .collect()
}

/// The signals that a process ignores, one bit each; none once it has ended.
fn ignored_signals(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    u64::from_str_radix(line.trim(), 16).unwrap()
}

#[tokio::test]
async fn machine_boots_registers_runs_its_job_and_powers_off() {
    let (cloud, api) = open("").await;
    let job = cloud.queue_job(json!({ "duration_ms": 100 })).await;
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    // The agent's start and its job are reported by processes that do not wait for each other.
    let mut events = api.events();
    events[1..3].sort_unstable();
    assert_eq!(events, ["register", "job-started", "runner-started", "job-completed", "exited"]);
    let started = api.event("job-started");
    assert_eq!((&started["repository"], &started["private"]), (&json!("acme/app"), &json!(true)));
    assert_eq!(started["job_name"], "build");
    assert_eq!(started["run_id"], cloud.job(job).await["run_id"]);
    assert_eq!(started["run_attempt"], 1);
    assert_eq!(started["runner_name"], "r-1");
    assert_eq!(api.event("exited")["code"], 0);
    let job = cloud.job(job).await;
    assert_eq!((&job["conclusion"], &job["killed"]), (&json!("success"), &json!(false)));
    assert_eq!(job["runner"]["machine"], id.as_str());
    assert_eq!(instance(&cloud, &id).await["reason"]["code"], "Client.InstanceInitiatedShutdown");
    assert_eq!(cloud.ask("kills").await, json!([]));
    cloud.until("nothing runs on it", async |c| processes_of(c).is_empty()).await;
}

#[tokio::test]
async fn machine_runs_its_user_data_word_for_word_and_keeps_the_configuration_to_itself() {
    let (cloud, api) = open("").await;
    let id = cloud.launch("t", 1).await.remove(0);
    cloud.until("it is up", async |_| api.events().contains(&"runner-started".to_owned())).await;
    let root = cloud.state_dir.join("machines").join(&id);
    let user_data = std::fs::read_to_string(root.join("user-data")).unwrap();
    assert!(user_data.ends_with(&boot()));
    // What was handed out is in no file, no argument and no log.
    let given = root.join("muster/environment");
    assert_eq!(std::fs::metadata(given).unwrap().permissions().mode() & 0o777, 0o600);
    for process in processes_of(&cloud) {
        let line = std::fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
        assert!(!line.contains("eyIuY3JlZGVudGlhbHMi"), "{line}");
    }
    cloud
        .until("the runner is online", async |c| {
            c.ask("runners?owner=acme").await["registered"][0]["status"] == "online"
        })
        .await;
    let mut files = vec![root];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(path).unwrap().flatten().map(|entry| entry.path()));
        } else {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            // Every configuration begins with the same bytes: `{".credentials":`.
            assert!(!text.contains("eyIuY3JlZGVudGlhbHMi"), "{path:?}");
        }
    }
    assert!(!cloud.console(&id).await.contains("eyIuY3JlZGVudGlhbHMi"));
}

#[tokio::test]
async fn machine_that_boots_again_powers_off() {
    let (cloud, api) = open("").await;
    let id = cloud.launch("t", 1).await.remove(0);
    cloud.until("it is up", async |_| api.events().contains(&"runner-started".to_owned())).await;
    let root = cloud.state_dir.join("machines").join(&id);
    // Some images run user data at every boot.
    let path = format!("{}:/usr/bin:/bin", root.join("bin").display());
    let again = tokio::process::Command::new("bash")
        .arg(root.join("user-data"))
        .env("PATH", path)
        .env("MUSTER_UNITS", root.join("units"))
        .status();
    assert_eq!(again.await.unwrap().code(), Some(1));
    until_terminated(&cloud, &id).await;
    let reason = instance(&cloud, &id).await["reason"]["code"].clone();
    assert_eq!(reason, "Client.InstanceInitiatedShutdown");
}

#[tokio::test]
async fn machine_gives_its_runner_the_environment_of_its_pool_and_nothing_else() {
    let (cloud, api) = open("export NOT_FOR_JOBS=1").await;
    let id = cloud.launch("t", 1).await.remove(0);
    cloud.until("it is up", async |_| api.events().contains(&"runner-started".to_owned())).await;
    let run_sh = cloud.state_dir.join("machines").join(&id).join("actions-runner/run.sh");
    let run_sh = run_sh.display().to_string();
    let environment = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.first() == Some(&&b"bash"[..]) && words.get(1) == Some(&run_sh.as_bytes())
        })
        .find_map(|entry| std::fs::read_to_string(entry.path().join("environ")).ok())
        .expect("the runner runs");
    let names: Vec<&str> =
        environment.split('\0').filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(environment.contains("GREETING=it's \"fine\" $HOME\n\0"), "{environment}");
    assert!(names.contains(&"ACTIONS_RUNNER_HOOK_JOB_STARTED"));
    for absent in ["NOT_FOR_JOBS", "MUSTER_RUNNER_API", "no-name", "TMPDIR"] {
        assert!(!names.contains(&absent), "{absent}");
    }
}

#[tokio::test]
async fn machine_runs_the_boot_hook_of_its_pool_before_its_runner() {
    let (cloud, api) = open("export NOT_FOR_HOOKS=1").await;
    api.boot_hook(
        "echo \"$USER for $RUNNER_USER in $PWD: $GREETING ${NOT_FOR_HOOKS:-clean}\" >hooked\nfalse || true\n",
    );
    let id = cloud.launch("t", 1).await.remove(0);
    cloud.until("it is up", async |_| api.events().contains(&"runner-started".to_owned())).await;
    let runner = cloud.state_dir.join("machines").join(&id).join("actions-runner");
    let hooked = std::fs::read_to_string(runner.join("hooked")).expect("the hook ran in its place");
    let user = hooked.split(' ').next().expect("a user");
    let expected =
        format!("{user} for {user} in {}: it's \"fine\" $HOME\n clean\n", runner.display());
    assert_eq!(hooked, expected);
    assert!(cloud.console(&id).await.contains("running the boot hook"));
}

#[tokio::test]
async fn machine_boots_as_root_and_runs_its_job_as_its_runners_user() {
    let whoami = std::process::Command::new("id").arg("-u").output().unwrap();
    if whoami.stdout != b"0\n" {
        // Only root can become somebody else; the machines of the other tests have one user. Past
        // the harness, which keeps the words of a test that passes.
        let told = "skipped: machine_boots_as_root_and_runs_its_job_as_its_runners_user needs root";
        return writeln!(std::io::stderr(), "{told}").unwrap();
    }
    let (cloud, api) = open("export MUSTER_RUNNER_USER=nobody").await;
    api.boot_hook("echo \"hooked by $(id -un) for $RUNNER_USER\"\n");
    let job = cloud.queue_job(json!({ "duration_ms": 10 })).await;
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    let console = cloud.console(&id).await;
    assert!(console.contains("hooked by root for nobody"), "{console}");
    assert!(console.contains("The clean-up runs (always(), nobody)."), "{console}");
    assert_eq!(cloud.job(job).await["conclusion"], "success");
}

#[tokio::test]
async fn machine_whose_boot_hook_fails_starts_no_runner() {
    let (cloud, api) = open("").await;
    api.boot_hook(
        "echo the image lacks docker\ndocker-that-is-not-there pull x\necho not reached\n",
    );
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    assert_eq!(api.events(), ["register", "boot-failed"]);
    let log = api.event("boot-failed")["log"].as_str().unwrap().to_owned();
    assert!(log.contains("lacks docker") && !log.contains("not reached"), "{log}");
}

/// A machine shares its disk with the system that runs the tests, so no builder may clean it.
#[tokio::test]
async fn machine_that_builds_an_image_reports_it_and_waits_for_its_end() {
    let (cloud, api) = open("").await;
    let ran = cloud.state_dir.join("ran");
    let builder = json!({ "script": format!("touch {}", ran.display()), "boot": "unit" });
    let order = json!({ "version": 1, "runner_name": "b-1", "builder": builder, "agent": null,
        "environment": {}, "boot_hook": "echo \"the image hook\"" });
    api.answer("register", 200, order);
    next_image_has(&cloud, "2.400.0").await;
    let id = cloud.launch("t", 1).await.remove(0);
    cloud.until("it is baked", async |_| api.events().contains(&"baked".to_owned())).await;
    let mut baked = api.event("baked");
    for (key, expected) in [
        ("agent", json!("2.400.0")),
        ("boot", json!("unit")),
        ("disk_bytes", json!(3_000_000_000_u64)),
    ] {
        assert_eq!(baked[key].take(), expected, "{key}");
    }
    let console = cloud.console(&id).await;
    assert!(console.contains("the image hook") && console.contains("baked"), "{console}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(instance(&cloud, &id).await["state"], "running");
    assert_eq!(api.events(), ["register", "baked"]);
    assert!(!ran.exists(), "the script ran");
    let terminate = [("Action", "TerminateInstances"), ("InstanceId.1", id.as_str())];
    assert_eq!(cloud.ec2(&terminate).await.0, 200);
    until_terminated(&cloud, &id).await;
    assert_eq!(processes_of(&cloud), [] as [u32; 0]);
}

/// GitHub lists an agent and takes no older one; machines take that one.
async fn list_agent(cloud: &Cloud, api: &RunnerApi, version: &str) -> Value {
    let said = json!({ "lists": version, "takes_from": version });
    let listed = cloud.control("agents", said).await["listed"][0].clone();
    let text = |name: &str| listed[name].as_str().unwrap().to_owned();
    api.agent(&text("download_url"), &text("sha256"));
    listed
}

async fn next_image_has(cloud: &Cloud, agent: &str) {
    cloud.control("behaviours", json!({ "times": 1, "behaviour": { "agent": agent } })).await;
}

#[tokio::test]
async fn machine_tells_its_images_agent_and_runs_its_job_with_the_one_that_it_is_given() {
    let (cloud, api) = open("").await;
    list_agent(&cloud, &api, "2.336.0").await;
    for (agent, told) in [("2.334.0", json!("2.334.0")), ("none", Value::Null)] {
        next_image_has(&cloud, agent).await;
        let job = cloud.queue_job(json!({ "duration_ms": 10 })).await;
        let id = cloud.launch(agent, 1).await.remove(0);
        until_terminated(&cloud, &id).await;
        let console = cloud.console(&id).await;
        assert_eq!(api.event("register")["agent"], told, "{console}");
        assert_eq!(cloud.job(job).await["conclusion"], "success", "{console}");
        assert_eq!(api.event("exited")["code"], 0);
    }
}

#[tokio::test]
async fn machine_takes_no_other_archive_than_the_one_that_github_lists() {
    let (cloud, api) = open("").await;
    let listed = list_agent(&cloud, &api, "2.336.0").await;
    api.agent(listed["download_url"].as_str().unwrap(), &"0".repeat(64));
    next_image_has(&cloud, "none").await;
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    assert_eq!(api.events(), ["register", "boot-failed"]);
    let log = api.event("boot-failed")["log"].as_str().unwrap().to_owned();
    assert!(log.contains("not the archive that GitHub lists"), "{log}");
}

#[tokio::test]
async fn machine_whose_agent_github_calls_too_old_says_so() {
    let (cloud, api) = open("").await;
    cloud.control("agents", json!({ "takes_from": "2.336.0" })).await;
    next_image_has(&cloud, "2.335.0").await;
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    assert_eq!(api.event("register")["agent"], "2.335.0");
    assert_eq!(api.event("exited")["code"], 7);
    assert!(cloud.console(&id).await.contains("since GitHub calls it too old"));
}

#[tokio::test]
async fn machine_whose_job_is_refused_fails_it_before_its_first_step_and_says_why() {
    let (cloud, api) = open("").await;
    api.answer("job-started", 409, json!({ "version": 1, "error": { "code": "draining" } }));
    let job = cloud.queue_job(json!({})).await;
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    let job = cloud.job(job).await;
    let console = cloud.console(&id).await;
    let end = (&job["conclusion"], &job["refused"]);
    assert_eq!(end, (&json!("failure"), &json!(true)), "{job} {console}");
    assert_eq!(job["began_at"], Value::Null);
    assert!(console.contains("This runner is being deleted"), "{console}");
    // Nor a step that is there for the failure: it would clean up what was never made.
    assert!(!console.contains("The clean-up runs"), "{console}");
    let asked = api.events().iter().filter(|event| *event == "job-started").count();
    assert_eq!(asked, 1, "a clear no is not asked twice");
}

#[tokio::test]
async fn machine_whose_job_is_not_for_its_pool_fails_it_and_says_so() {
    let (cloud, api) = open("").await;
    let no = json!({ "version": 1, "error": { "code": "foreign_job", "message": "x" } });
    api.answer("job-started", 409, no);
    let job = cloud.queue_job(json!({})).await;
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    assert_eq!(cloud.job(job).await["refused"], true);
    let console = cloud.console(&id).await;
    assert!(console.contains("The pool of this runner does not serve acme/app"), "{console}");
    assert!(!console.contains("The clean-up runs"), "{console}");
}

#[tokio::test]
async fn machine_does_not_start_a_job_that_muster_was_not_told_about() {
    let (cloud, api) = open("export MUSTER_START_LIMIT_SECONDS=3").await;
    (0..9).for_each(|_| api.answer("job-started", 500, json!({})));
    let job = cloud.queue_job(json!({})).await;
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    assert_eq!(cloud.job(job).await["refused"], true);
    let console = cloud.console(&id).await;
    assert!(console.contains("could not be reported to Muster for 3 seconds (status 500)"));
    assert!(!console.contains("The clean-up runs"), "{console}");
}

#[tokio::test]
async fn machine_waits_with_its_job_until_muster_can_be_told() {
    let (cloud, api) = open("").await;
    for status in [429, 503, 403, 500] {
        api.answer("job-started", status, json!({ "message": "not now" }));
    }
    let job = cloud.queue_job(json!({ "duration_ms": 10 })).await;
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    assert_eq!(cloud.job(job).await["conclusion"], "success");
    assert!(cloud.console(&id).await.contains("does not answer yet (status 429)"));
}

#[tokio::test]
async fn machine_reaches_muster_whatever_proxy_its_pool_names() {
    let (cloud, api) = open("").await;
    for name in ["http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
        api.environment(name, "http://127.0.0.1:9");
    }
    let job = cloud.queue_job(json!({ "duration_ms": 10 })).await;
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    assert_eq!(cloud.job(job).await["conclusion"], "success");
    assert!(api.events().contains(&"job-completed".to_owned()));
}

#[tokio::test]
async fn machine_runs_nothing_that_ignores_the_end_of_a_job_or_of_the_system() {
    let (cloud, api) = open("").await;
    let job = cloud.queue_job(json!({})).await;
    cloud.launch("t", 1).await;
    cloud.until("the job runs", async |c| !c.job(job).await["began_at"].is_null()).await;
    assert!(api.events().contains(&"job-started".to_owned()));
    for (process, ignored) in processes_of(&cloud).iter().map(|id| (id, ignored_signals(*id))) {
        let name = std::fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
        // systemd waits 90 seconds at each power-off for a process that ignores SIGTERM.
        assert_eq!(ignored & (1 << (15 - 1)), 0, "{name} ignores SIGTERM");
        // The agent interrupts the steps of a cancelled job with SIGINT.
        let agent = name.starts_with("bash") && name.contains("/run.sh");
        assert!(!agent || ignored & (1 << (2 - 1)) == 0, "{name} ignores SIGINT");
    }
}

#[tokio::test]
async fn machine_asks_again_while_it_is_told_to() {
    let (cloud, api) = open("").await;
    let retry = json!({ "version": 1, "action": "retry", "retry_after_seconds": 0,
                        "error": { "code": "busy", "message": "later" } });
    api.answer("register", 503, retry);
    api.answer("register", 403, json!({ "message": "Forbidden" }));
    api.answer("job-started", 502, json!({}));
    let job = cloud.queue_job(json!({ "duration_ms": 10 })).await;
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    assert_eq!(cloud.job(job).await["conclusion"], "success");
    let registered = api.events().iter().filter(|event| *event == "register").count();
    assert_eq!(registered, 3);
}

#[tokio::test]
async fn machine_that_is_not_wanted_powers_off_at_once_and_in_silence() {
    let (cloud, api) = open("").await;
    let unknown = json!({ "version": 1, "action": "shutdown",
                          "error": { "code": "unknown_machine", "message": "who?" } });
    api.answer("register", 404, unknown);
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    assert_eq!(api.events(), ["register"]);
}

#[tokio::test]
async fn machine_that_cannot_boot_reports_its_last_lines_without_secrets() {
    let (cloud, api) = open("export MUSTER_REGISTER_LIMIT_SECONDS=0").await;
    let secret = "Bearer0123456789abcdefghijklmnopqrstuvwxyz";
    let error = json!({ "error": { "code": secret, "message": "x" }, "action": "retry" });
    api.answer("register", 503, error);
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    assert_eq!(api.events(), ["register", "boot-failed"]);
    let log = api.event("boot-failed")["log"].as_str().unwrap().to_owned();
    assert!(log.contains("status 503") && log.contains("giving up after 1 attempts"), "{log}");
    assert!(!log.contains(secret) && log.len() <= 4096);
}

#[tokio::test]
async fn machine_powers_off_at_the_end_of_its_longest_life_whatever_runs() {
    let (cloud, api) =
        open("export MUSTER_MAX_LIFETIME_SECONDS=10 MUSTER_LIFETIME_GRACE_SECONDS=0").await;
    let job = cloud.queue_job(json!({})).await;
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    assert_eq!(cloud.job(job).await["killed"], true);
    assert_eq!(api.events().last().unwrap(), "exited");
    let kills = cloud.ask("kills").await;
    assert_eq!(
        (&kills[0]["begun"], &kills[0]["cause"]),
        (&json!(true), &json!("shut itself down"))
    );
}

#[tokio::test]
async fn machine_that_is_terminated_leaves_no_process_behind_and_its_job_is_killed() {
    let (cloud, api) = open("").await;
    let job = cloud.queue_job(json!({})).await;
    let id = cloud.launch("t", 1).await.remove(0);
    cloud.until("the job runs", async |c| !c.job(job).await["began_at"].is_null()).await;
    assert!(!processes_of(&cloud).is_empty());
    cloud.ec2(&[("Action", "TerminateInstances"), ("InstanceId.1", &id)]).await;
    cloud.until("nothing runs on it", async |c| processes_of(c).is_empty()).await;
    let kills = cloud.ask("kills").await;
    assert_eq!((&kills[0]["job"], &kills[0]["cause"]), (&json!(job), &json!("terminated")));
    assert!(!api.events().contains(&"exited".to_owned()));
}

#[tokio::test]
async fn idle_machine_whose_runner_is_deregistered_powers_off() {
    let (cloud, api) = open("").await;
    let id = cloud.launch("t", 1).await.remove(0);
    cloud
        .until("the runner listens", async |c| {
            let runners = c.ask("runners").await;
            runners["registered"][0]["truth"]["session"]["listening"] == true
        })
        .await;
    let token = cloud.token("a").await;
    let runner = cloud.ask("runners").await["registered"][0]["id"].clone();
    let path = format!("/orgs/acme/actions/runners/{runner}");
    assert_eq!(cloud.github(reqwest::Method::DELETE, &path, &token, None).await.0, 204);
    until_terminated(&cloud, &id).await;
    assert_eq!(api.events().last().unwrap(), "exited");
}

#[tokio::test]
async fn machine_can_lose_its_hooks_or_never_boot_and_a_runner_can_crash() {
    let (cloud, api) = open("").await;
    let behaviour = |more: Value| json!({ "times": 1, "behaviour": more });
    cloud.control("behaviours", behaviour(json!({ "never_boots": true }))).await;
    let dark = cloud.launch("dark", 1).await.remove(0);
    cloud.control("behaviours", behaviour(json!({ "loses_hooks": true }))).await;
    let job = cloud.queue_job(json!({ "behaviour": { "runner_crashes_after_ms": 50 } })).await;
    let id = cloud.launch("t", 1).await.remove(0);
    until_terminated(&cloud, &id).await;
    assert_eq!(api.events(), ["register", "runner-started", "exited"]);
    assert_eq!(api.event("exited")["code"], 0, "run.sh makes no difference");
    let job = cloud.job(job).await;
    assert_eq!((&job["status"], &job["killed"]), (&json!("in_progress"), &json!(true)));
    assert_eq!(instance(&cloud, &dark).await["state"], "running");
    assert_eq!(cloud.console(&dark).await, "");
}

/// The machine sees EC2's notice and stops its agent 40 seconds before the end.
#[tokio::test]
async fn an_interrupted_job_is_over_at_github_before_its_machine_is() {
    let (cloud, api) = open("").await;
    cloud.control("timings", json!({ "spot_notice_ms": 48_000 })).await;
    let job = cloud.queue_job(json!({ "duration_ms": 600_000 })).await;
    let id = cloud.launch("t", 1).await.remove(0);
    cloud.until("the job begins", async |_| api.events().contains(&"job-started".into())).await;
    cloud.control(&format!("instances/{id}/interrupt"), json!({})).await;
    cloud.until("the job is over", async |c| c.job(job).await["conclusion"] == "failure").await;
    assert_eq!(instance(&cloud, &id).await["state"], "running");
    until_terminated(&cloud, &id).await;
    assert_eq!(api.event("exited")["stopped_for"], "interruption");
    assert!(api.events().contains(&"interrupted".to_owned()));
    assert!(!api.events().contains(&"job-completed".to_owned()), "its hook does not run");
}

#[tokio::test]
async fn metadata_service_wants_a_token_and_serves_each_machine_its_own() {
    let cloud = Cloud::open("#!/bin/sh\nsleep 60\n").await;
    let ids = cloud.launch("t", 2).await;
    let url =
        |id: &str, path: &str| format!("http://{}/imds/{id}/latest/{path}", cloud.running.machines);
    let ttl = "x-aws-ec2-metadata-token-ttl-seconds";
    let token = async |id: &str, seconds: &str| {
        let answer = cloud.http.put(url(id, "api/token")).header(ttl, seconds).send().await;
        answer.unwrap().text().await.unwrap()
    };
    let get = async |id: &str, path: &str, token: &str| {
        let request = cloud.http.get(url(id, path)).header("x-aws-ec2-metadata-token", token);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let good = token(&ids[0], "60").await;
    let path = "meta-data/instance-id";
    assert_eq!(get(&ids[0], path, &good).await, (200, ids[0].clone()));
    assert_eq!(get(&ids[0], path, "").await.0, 401);
    assert_eq!(get(&ids[1], path, &good).await.0, 401, "the token of another machine");
    let short = token(&ids[0], "1").await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(get(&ids[0], path, &short).await.0, 401);
    assert_eq!(token(&ids[0], "0").await, "Bad Request");
    let roles = "meta-data/iam/security-credentials/";
    assert_eq!(get(&ids[0], roles, &good).await.1, "machine");
    let (_, document) = get(&ids[0], &format!("{roles}machine"), &good).await;
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["SecretAccessKey"], crate::common::cloud::ROLE[1]);
    assert_eq!(get(&ids[0], "meta-data/instance-life-cycle", &good).await.1, "spot");
    assert_eq!(get(&ids[0], "meta-data/spot/instance-action", &good).await.0, 404);
    cloud.control(&format!("instances/{}/interrupt", ids[0]), json!({})).await;
    assert_eq!(get(&ids[0], "meta-data/spot/instance-action", &good).await.0, 200);
    assert_eq!(get(&ids[0], "meta-data/tags/instance/Name", &good).await.0, 404);
}

#[tokio::test]
async fn user_data_that_is_no_script_runs_nothing() {
    let cloud = Cloud::open("Content-Type: multipart/mixed; boundary=x\n").await;
    let id = cloud.launch("t", 1).await.remove(0);
    cloud
        .until("the console says so", async |c| c.console(&id).await.contains("not a script"))
        .await;
    assert_eq!(instance(&cloud, &id).await["state"], "running");
}
