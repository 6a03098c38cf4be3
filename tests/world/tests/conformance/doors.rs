//! The doors: requests as the AWS SDK and octocrab write them, answers as they read them, and what
//! faults make of both.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::common::cloud::{Cloud, claims, fleet, jwt, serve, signed};
use axum::{Router, body::Bytes, http::HeaderMap, routing::post};
use reqwest::Method;
use serde_json::{Value, json};

const NOTHING: &str = "#!/bin/sh\n";

// The EC2 door.

#[tokio::test]
async fn ec2_answers_in_the_words_that_the_sdk_reads() {
    let cloud = Cloud::open(NOTHING).await;
    cloud
        .control(
            "capacity",
            json!([{ "subnet_id": "subnet-a", "left": 1, "message": "a < b & c" }]),
        )
        .await;
    let (status, answer) = cloud.ec2(&fleet("launch-1", "2")).await;
    assert_eq!((status, answer.name.as_str()), (200, "CreateFleetResponse"));
    assert!(answer.at(&["fleetId"]).starts_with("fleet-"));
    let error = &answer.items(&["errorSet"])[0];
    assert_eq!(error.at(&["errorCode"]), "InsufficientInstanceCapacity");
    assert_eq!(error.at(&["errorMessage"]), "a < b & c");
    assert_eq!(error.at(&["lifecycle"]), "spot");
    let [first, second] = answer.items(&["fleetInstanceSet"]) else { panic!("{answer:?}") };
    let overrides = ["launchTemplateAndOverrides", "overrides", "subnetId"];
    assert_eq!((first.at(&overrides), second.at(&overrides)), ("subnet-a", "subnet-b"));
    assert_eq!(second.at(&["instanceType"]), "m7a.large");
    let template = ["launchTemplateAndOverrides", "launchTemplateSpecification", "version"];
    assert_eq!(first.at(&template), "1");
    let id = first.items(&["instanceIds"])[0].text.clone();

    let (_, answer) = cloud
        .ec2(&[
            ("Action", "DescribeInstances"),
            ("Version", "2016-11-15"),
            ("Filter.1.Name", "tag:muster:launch"),
            ("Filter.1.Value.1", "launch-1"),
            ("Filter.2.Name", "instance-id"),
            ("Filter.2.Value.1", &id),
            ("MaxResults", "100"),
        ])
        .await;
    assert_eq!(answer.name, "DescribeInstancesResponse");
    let [reservation] = answer.items(&["reservationSet"]) else { panic!("{answer:?}") };
    let [instance] = reservation.items(&["instancesSet"]) else { panic!("{answer:?}") };
    assert_eq!(instance.at(&["instanceId"]), id);
    assert_eq!(instance.at(&["imageId"]), "ami-1");
    assert_eq!(instance.at(&["instanceLifecycle"]), "spot");
    assert!(instance.at(&["launchTime"]).ends_with('Z'));
    assert!(instance.at(&["placement", "availabilityZone"]).starts_with("us-east-1"));
    let tag = |key: &str| {
        let tags = instance.items(&["tagSet"]).iter();
        tags.filter(|tag| tag.at(&["key"]) == key).map(|tag| tag.at(&["value"])).next()
    };
    assert_eq!(tag("muster:stack"), Some("dev"));

    let (_, answer) = cloud.ec2(&[("Action", "TerminateInstances"), ("InstanceId.1", &id)]).await;
    let [change] = answer.items(&["instancesSet"]) else { panic!("{answer:?}") };
    assert_eq!(change.at(&["currentState", "name"]), "shutting-down");
    assert_eq!(change.at(&["currentState", "code"]), "32");
    assert!(!change.at(&["previousState", "name"]).is_empty());

    let tags = [
        ("Action", "CreateTags"),
        ("ResourceId.1", id.as_str()),
        ("Tag.1.Key", "muster:x"),
        ("Tag.1.Value", "<&>"),
    ];
    assert_eq!(cloud.ec2(&tags).await.1.at(&["return"]), "true");
}

#[tokio::test]
async fn ec2_lists_the_images_of_an_owner_by_name_and_page_by_page() {
    let cloud = Cloud::open(NOTHING).await;
    for number in 1..=6 {
        let image = json!({ "id": format!("ami-{number}"), "name": format!("runner-{number}"),
            "created_at": 1_800_000_000_000_u64 + number });
        cloud.control("images", image).await;
    }
    for other in [
        json!({ "id": "ami-7", "name": "runner-7", "owner": "amazon" }),
        json!({ "id": "ami-8", "name": "runner-8", "architecture": "arm64" }),
        json!({ "id": "ami-9", "name": "runner-9", "state": "pending" }),
        json!({ "id": "ami-10", "name": "other" }),
    ] {
        cloud.control("images", other).await;
    }
    let request = |more: [(&'static str, &'static str); 1]| {
        let asked = [
            ("Action", "DescribeImages"),
            ("Version", "2016-11-15"),
            ("Owner.1", "self"),
            ("Filter.1.Name", "name"),
            ("Filter.1.Value.1", "runner-*"),
            ("Filter.2.Name", "architecture"),
            ("Filter.2.Value.1", "x86_64"),
            ("Filter.3.Name", "state"),
            ("Filter.3.Value.1", "available"),
            ("MaxResults", "5"),
        ];
        [asked.as_slice(), &more].concat()
    };
    let (status, answer) = cloud.ec2(&request([("DryRun", "false")])).await;
    assert_eq!((status, answer.name.as_str()), (200, "DescribeImagesResponse"));
    let [first, .., fifth] = answer.items(&["imagesSet"]) else { panic!("{answer:?}") };
    assert_eq!((first.at(&["imageId"]), fifth.at(&["imageId"])), ("ami-1", "ami-5"));
    assert_eq!(first.at(&["creationDate"]), "2027-01-15T08:00:00.001Z");
    assert_eq!(answer.at(&["nextToken"]), "page-5");
    let (_, answer) = cloud.ec2(&request([("NextToken", "page-5")])).await;
    let [last] = answer.items(&["imagesSet"]) else { panic!("{answer:?}") };
    assert_eq!((last.at(&["name"]), answer.at(&["nextToken"])), ("runner-6", ""));
    let unknown = [("Action", "DescribeImages"), ("Filter.1.Name", "colour")];
    assert_eq!(cloud.ec2(&unknown).await.0, 400);
}

#[tokio::test]
async fn ec2_refuses_in_words_whatever_it_does_not_know() {
    let cloud = Cloud::open(NOTHING).await;
    let mut weighted = fleet("t", "1");
    weighted.push(("LaunchTemplateConfigs.1.Overrides.1.WeightedCapacity", "2"));
    let mut dry = fleet("t", "1");
    dry.push(("DryRun", "true"));
    let mut elsewhere = fleet("t", "1");
    elsewhere[4].1 = "lt-2";
    for (request, status, code) in [
        (weighted, 400, "UnknownParameter"),
        (dry, 412, "DryRunOperation"),
        (elsewhere, 400, "InvalidLaunchTemplateId.NotFound"),
        (vec![("Action", "RunInstances")], 400, "InvalidAction"),
        (vec![], 400, "InvalidAction"),
    ] {
        let (answered, answer) = cloud.ec2(&request).await;
        let error = answer.find(&["Errors", "Error"]).expect("an error");
        assert_eq!((answer.name.as_str(), answered), ("Response", status));
        assert_eq!(error.at(&["Code"]), code);
        assert!(!error.at(&["Message"]).is_empty());
    }
    let url = format!("http://{}/", cloud.running.ec2);
    let unsigned = cloud.http.post(url).body("Action=DescribeInstances").send().await.unwrap();
    assert_eq!(unsigned.status(), 401);
    assert_eq!(cloud.ask("instances").await, json!([]));
}

#[tokio::test]
async fn ec2_events_reach_the_reap_queue_in_the_envelope_of_eventbridge() {
    let cloud = Cloud::open(NOTHING).await;
    let id = cloud.launch("t", 1).await.remove(0);
    cloud.control(&format!("instances/{id}/interrupt"), json!({})).await;
    cloud.ec2(&[("Action", "TerminateInstances"), ("InstanceId.1", &id)]).await;
    cloud.until("three events", async |c| c.queue.lock().unwrap().len() == 3).await;
    let sent = cloud.queue.lock().unwrap().clone();
    assert!(sent.iter().all(|(url, _)| url == "http://queue/reap"));
    let [warning, shutting_down, terminated] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(warning.1["detail-type"], "EC2 Spot Instance Interruption Warning");
    assert_eq!(warning.1["detail"]["instance-action"], "terminate");
    let event = &shutting_down.1;
    assert_eq!(event["source"], "aws.ec2");
    assert_eq!(event["detail-type"], "EC2 Instance State-change Notification");
    assert_eq!(event["detail"], json!({ "instance-id": id, "state": "shutting-down" }));
    let arn = format!("arn:aws:ec2:us-east-1:000000000000:instance/{id}");
    assert_eq!(event["resources"], json!([arn]));
    assert_eq!(terminated.1["detail"]["state"], "terminated");
    assert_ne!(event["id"], terminated.1["id"]);
}

// The GitHub door.

#[tokio::test]
async fn github_checks_the_signature_of_the_app() {
    let cloud = Cloud::open(NOTHING).await;
    let path = "/app/installations/77/access_tokens";
    let good = jwt(&claims("good"));
    let (start, signature) = good.rsplit_once('.').unwrap();
    let twisted: String = signature.chars().rev().collect();
    let none = signed(&json!({ "alg": "none" }), &claims("none"));
    let hmac = signed(&json!({ "alg": "HS256" }), &claims("hmac"));
    for (token, status) in [
        (format!("{start}.{twisted}"), 401),
        (none, 401),
        (hmac, 401),
        ("not-a-token".to_owned(), 401),
        (String::new(), 401),
        (good.clone(), 201),
        (good, 404),
    ] {
        assert_eq!(cloud.github(Method::POST, path, &token, None).await.0, status, "{token}");
    }
}

#[tokio::test]
async fn github_registers_lists_and_deletes_runners_over_the_wire() {
    let cloud = Cloud::open(NOTHING).await;
    let token = cloud.token("a").await;
    let body = json!({ "name": "r-1", "runner_group_id": 1, "labels": ["self-hosted", "linux"] });
    for base in ["/orgs/acme", "/api/v3/orgs/ACME", "/repos/acme/app"] {
        let runners = format!("{base}/actions/runners");
        let jit = format!("{runners}/generate-jitconfig");
        let (status, made) = cloud.github(Method::POST, &jit, &token, Some(body.clone())).await;
        assert_eq!(status, 201, "{made}");
        assert!(made["encoded_jit_config"].as_str().unwrap().len() > 1000);
        let id = made["runner"]["id"].as_u64().unwrap();
        assert!(u32::try_from(id).is_ok(), "octocrab reads runner ids of jobs as 32 bits");
        assert_eq!(cloud.github(Method::POST, &jit, &token, Some(body.clone())).await.0, 409);
        let (_, listed) =
            cloud.github(Method::GET, &format!("{runners}?per_page=100"), &token, None).await;
        assert_eq!((&listed["total_count"], &listed["runners"][0]["id"]), (&json!(1), &json!(id)));
        let one = format!("{runners}/{id}");
        let (_, found) = cloud.github(Method::GET, &one, &token, None).await;
        assert_eq!((&found["status"], &found["busy"]), (&json!("offline"), &json!(false)));
        assert_eq!(cloud.github(Method::DELETE, &one, &token, None).await.0, 204);
        assert_eq!(cloud.github(Method::DELETE, &one, &token, None).await.0, 404);
    }
}

#[tokio::test]
async fn github_lists_installations_repositories_and_groups() {
    let cloud = Cloud::open(NOTHING).await;
    cloud.control("owners/acme/groups", json!([{ "id": 5, "name": "gpu" }])).await;
    cloud.queue_job(json!({})).await;
    let id = cloud.ask("owners").await[0]["id"].clone();
    let listed = cloud.github(Method::GET, "/app/installations", &jwt(&claims("a")), None).await;
    let (200, installations) = listed else { panic!("{listed:?}") };
    assert_eq!(installations[0]["account"]["id"], id);
    assert_eq!(installations[0]["account"]["login"], "acme");
    assert_eq!(installations[0]["target_type"], "Organization");
    let look_up = async |path: &str, jti: &str| {
        cloud.github(Method::GET, path, &jwt(&claims(jti)), None).await
    };
    let of_repository = look_up("/repos/acme/app/installation", "d").await;
    assert_eq!(of_repository, (200, installations[0].clone()));
    assert_eq!(look_up("/orgs/other/installation", "e").await.0, 404);
    let token = cloud.token("b").await;
    let get = async |path: &str| cloud.github(Method::GET, path, &token, None).await;
    let (_, all) = get("/installation/repositories").await;
    assert_eq!(
        (&all["total_count"], &all["repositories"][0]["full_name"]),
        (&json!(1), &json!("acme/app"))
    );
    let (_, first) = get("/orgs/acme/actions/runner-groups?per_page=1").await;
    assert_eq!(first["runner_groups"][0]["name"], "Default");
    let (_, second) = get("/orgs/acme/actions/runner-groups?per_page=1&page=2").await;
    assert_eq!((&second["runner_groups"][0]["id"], &second["total_count"]), (&json!(5), &json!(2)));
    // Installations are the App's to see, the rest an installation's.
    assert_eq!(get("/app/installations").await.0, 401);
    let repositories = "/installation/repositories";
    let as_app = cloud.github(Method::GET, repositories, &jwt(&claims("c")), None).await;
    assert_eq!(as_app.0, 401);
    assert_eq!(get("/orgs/other/actions/runner-groups").await.0, 404);
}

#[tokio::test]
async fn github_refuses_in_words_whatever_it_does_not_know() {
    let cloud = Cloud::open(NOTHING).await;
    let token = cloud.token("a").await;
    let jit = "/orgs/acme/actions/runners/generate-jitconfig";
    for (method, path, body, status) in [
        (Method::GET, "/orgs/acme/actions/secrets", None, 501),
        (Method::POST, "/orgs/acme/actions/runners/registration-token", None, 501),
        (Method::GET, "/orgs/other/actions/runners", None, 404),
        (Method::GET, "/repos/acme/app/actions/jobs/1", None, 404),
        (Method::GET, "/repos/acme/app/actions/runs/1", None, 404),
        (Method::POST, jit, Some(json!({ "name": "r" })), 422),
        (Method::GET, "/orgs/acme/actions/runners?per_page=x", None, 422),
    ] {
        let (answered, answer) = cloud.github(method, path, &token, body).await;
        assert_eq!(answered, status, "{path}: {answer}");
        assert!(answer["message"].is_string());
    }
    let url = format!("http://{}/orgs/acme/actions/runners", cloud.running.github);
    let nameless = cloud.http.get(url).header("authorization", format!("Bearer {token}"));
    assert_eq!(nameless.send().await.unwrap().status(), 403);
}

#[tokio::test]
async fn github_sends_signed_webhooks_in_the_order_of_each_job() {
    type Seen = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;
    let cloud = Cloud::open(NOTHING).await;
    let seen = Seen::default();
    let keep = Arc::clone(&seen);
    let hook = async move |headers: HeaderMap, body: Bytes| {
        keep.lock().unwrap().push((headers, body));
    };
    let url = serve(Router::new().route("/hook", post(hook))).await;
    cloud.control("owners", cloud.owner(&format!("{url}/hook"))).await;
    let id = cloud.queue_job(json!({})).await;
    cloud.control(&format!("jobs/{id}/cancel"), json!({})).await;
    cloud.until("two deliveries", async |_| seen.lock().unwrap().len() == 2).await;
    let seen = seen.lock().unwrap().clone();
    for ((headers, body), action) in seen.iter().zip(["queued", "completed"]) {
        let read: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(read["action"], action);
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"s3cret");
        let signature = hex::encode(ring::hmac::sign(&key, body));
        assert_eq!(headers["x-hub-signature-256"], format!("sha256={signature}"));
        assert_eq!(headers["x-github-event"], "workflow_job");
        assert_eq!(headers["x-github-hook-installation-target-id"], "123");
        assert!(headers.contains_key("x-github-delivery"));
    }
    cloud
        .until("answers are kept", async |c| {
            let all = c.ask("deliveries?owner=acme").await;
            all.as_array().unwrap().iter().all(|d| d["answer"] == "200")
        })
        .await;
}

// Faults, and the log.

#[tokio::test]
async fn fault_answers_a_number_of_times_and_then_lets_pass() {
    let cloud = Cloud::open(NOTHING).await;
    let fault = json!({
        "door": "ec2", "operation": "TerminateInstances", "stack": "dev", "skip": 1, "times": 2,
        "answer": { "error": {
            "status": 503, "code": "RequestLimitExceeded", "message": "slow down",
            "headers": [["retry-after", "7"]],
        } },
    });
    cloud.control("faults", fault).await;
    let id = cloud.launch("t", 1).await.remove(0);
    let request = [("Action", "TerminateInstances"), ("InstanceId.1", id.as_str())];
    let mut statuses = vec![];
    for _ in 0..4 {
        let answer = cloud.ec2_request(&request).send().await.unwrap();
        if answer.status() == 503 {
            assert_eq!(answer.headers()["retry-after"], "7");
        }
        statuses.push(answer.status().as_u16());
    }
    assert_eq!(statuses, [200, 503, 503, 200]);
    // Others are not hit: neither other operations nor instances of other stacks.
    let calls = cloud.ask("calls?operation=TerminateInstances").await;
    let outcomes: Vec<&str> =
        calls.as_array().unwrap().iter().map(|c| c["outcome"].as_str().unwrap()).collect();
    let limited = "error 503 RequestLimitExceeded";
    assert_eq!(outcomes, ["ok", limited, limited, "ok"]);
    assert_eq!(calls[1]["performed"], false);
    assert_eq!(calls[1]["targets"], json!([id]));
}

#[tokio::test]
async fn fault_cuts_the_connection_before_or_after_performing() {
    let cloud = Cloud::open(NOTHING).await;
    for (perform, launched) in [(false, 0), (true, 1)] {
        let fault = json!({
            "operation": "CreateFleet", "times": 1, "perform": perform, "answer": "drop",
        });
        cloud.control("faults", fault).await;
        let token = format!("t-{perform}");
        assert!(cloud.ec2_request(&fleet(&token, "1")).send().await.is_err());
        assert_eq!(cloud.ask("instances").await.as_array().unwrap().len(), launched);
        let calls = cloud.ask(&format!("calls?target={token}")).await;
        assert_eq!(
            (&calls[0]["outcome"], &calls[0]["performed"]),
            (&json!("dropped"), &json!(perform))
        );
    }
    // The lost answer can be asked for again.
    assert_eq!(cloud.launch("t-true", 1).await.len(), 1);
    assert_eq!(cloud.ask("instances").await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn fault_can_perform_and_still_answer_an_error() {
    let cloud = Cloud::open(NOTHING).await;
    let token = cloud.token("a").await;
    let fault = json!({
        "door": "github", "operation": "generate-jitconfig", "owner": "acme", "times": 1,
        "perform": true, "answer": { "error": { "status": 502, "message": "Bad Gateway" } },
    });
    cloud.control("faults", fault).await;
    let path = "/orgs/acme/actions/runners/generate-jitconfig";
    let body = json!({ "name": "r-1", "runner_group_id": 1, "labels": ["linux"] });
    let (status, answer) = cloud.github(Method::POST, path, &token, Some(body.clone())).await;
    assert_eq!((status, &answer["message"]), (502, &json!("Bad Gateway")));
    assert_eq!(cloud.github(Method::POST, path, &token, Some(body)).await.0, 409);
}

#[tokio::test]
async fn held_call_is_performed_after_its_caller_has_given_up() {
    let cloud = Cloud::open(NOTHING).await;
    cloud.control("faults", json!({ "operation": "CreateFleet", "times": 2, "hold": true })).await;
    for (then, launched) in [("drop", 0), ("continue", 1)] {
        let request = cloud.ec2_request(&fleet("t", "1")).timeout(Duration::from_millis(200));
        assert!(request.send().await.is_err_and(|error| error.is_timeout()));
        let holds = cloud.ask("holds").await;
        let call = &holds[0]["call"];
        assert_eq!(holds[0]["info"]["operation"], "CreateFleet");
        cloud.control(&format!("holds/{call}"), json!({ "then": then })).await;
        cloud
            .until("the call is over", async |c| {
                let calls = c.ask("calls?operation=CreateFleet").await;
                calls.as_array().unwrap().iter().all(|call| call["outcome"] != "open")
            })
            .await;
        assert_eq!(cloud.ask("instances").await.as_array().unwrap().len(), launched);
        assert_eq!(cloud.ask("holds").await, json!([]));
    }
}

#[tokio::test]
async fn fault_delays_a_call_and_the_log_has_the_times() {
    let cloud = Cloud::open(NOTHING).await;
    cloud.control("faults", json!({ "operation": "CreateFleet", "delay_ms": 300 })).await;
    let before = Instant::now();
    cloud.launch("t", 1).await;
    assert!(before.elapsed() >= Duration::from_millis(300));
    let call = cloud.ask("calls").await[0].clone();
    let took = call["done_ms"].as_u64().unwrap() - call["at_ms"].as_u64().unwrap();
    assert!(took >= 300, "{call}");
}

#[tokio::test]
async fn faults_that_make_no_sense_are_refused() {
    let cloud = Cloud::open(NOTHING).await;
    let url = format!("http://{}/control/faults", cloud.running.control);
    for fault in [
        json!({ "answer": "drop" }),
        json!({ "perform": false }),
        json!({ "answer": { "error": { "status": 42 } } }),
        json!({ "operatoin": "CreateFleet" }),
    ] {
        let answer = cloud.http.post(&url).json(&fault).send().await.unwrap();
        assert_eq!(answer.status(), 422, "{fault}");
    }
}

#[tokio::test]
async fn calls_are_counted_by_stack_and_can_be_forgotten() {
    let cloud = Cloud::open(NOTHING).await;
    cloud.token("a").await;
    let ids = cloud.launch("t", 2).await;
    cloud
        .ec2(&[
            ("Action", "DescribeInstances"),
            ("Filter.1.Name", "tag:muster:stack"),
            ("Filter.1.Value.1", "other"),
        ])
        .await;
    cloud.ec2(&[("Action", "DescribeInstances"), ("InstanceId.1", &ids[1])]).await;
    let count = async |query: &str| cloud.ask(&format!("counters?{query}")).await;
    assert_eq!(
        count("stack=dev").await,
        json!({ "ec2:CreateFleet": 1, "ec2:DescribeInstances": 1, "github:access-token": 1 })
    );
    assert_eq!(count("stack=other").await, json!({ "ec2:DescribeInstances": 1 }));
    let calls = cloud.ask("calls?operation=CreateFleet").await;
    assert_eq!(calls[0]["targets"], json!(["t", ids[0], ids[1]]));
    cloud.forget("calls?stack=dev").await;
    assert_eq!(count("").await, json!({ "ec2:DescribeInstances": 1 }));
}

#[tokio::test]
async fn ec2_images_a_machine_and_deletes_the_image_with_its_snapshots() {
    let cloud = Cloud::open(NOTHING).await;
    let id = cloud.launch("t", 1).await.remove(0);
    cloud.until("it runs", async |c| c.ask("instances").await[0]["state"] == "running").await;
    let create = [
        ("Action", "CreateImage"),
        ("InstanceId", id.as_str()),
        ("Name", "runner-1"),
        ("Description", "an image"),
        ("NoReboot", "true"),
        ("TagSpecification.1.ResourceType", "image"),
        ("TagSpecification.1.Tag.1.Key", "muster:stack"),
        ("TagSpecification.1.Tag.1.Value", "dev"),
        ("TagSpecification.2.ResourceType", "snapshot"),
        ("TagSpecification.2.Tag.1.Key", "muster:stack"),
        ("TagSpecification.2.Tag.1.Value", "dev"),
    ];
    let (status, answer) = cloud.ec2(&create).await;
    assert_eq!((status, answer.name.as_str()), (200, "CreateImageResponse"));
    let image = answer.at(&["imageId"]).to_owned();
    assert_eq!(
        cloud.ec2(&create).await.1.at(&["Errors", "Error", "Code"]),
        "InvalidAMIName.Duplicate"
    );
    let describe = [
        ("Action", "DescribeImages"),
        ("Owner.1", "self"),
        ("IncludeDeprecated", "true"),
        ("IncludeDisabled", "true"),
        ("Filter.1.Name", "tag:muster:stack"),
        ("Filter.1.Value.1", "dev"),
    ];
    cloud
        .until("it is available", async |c| {
            c.ec2(&describe).await.1.items(&["imagesSet"])[0].at(&["imageState"]) == "available"
        })
        .await;
    let (_, answer) = cloud.ec2(&describe).await;
    let [shown] = answer.items(&["imagesSet"]) else { panic!("{answer:?}") };
    assert_eq!((shown.at(&["imageId"]), shown.at(&["name"])), (image.as_str(), "runner-1"));
    let [disk] = shown.items(&["blockDeviceMapping"]) else { panic!("{shown:?}") };
    let snapshot = disk.at(&["ebs", "snapshotId"]).to_owned();
    assert_eq!(disk.at(&["ebs", "volumeSize"]), "40");
    let delete = [("Action", "DeleteSnapshot"), ("SnapshotId", snapshot.as_str())];
    assert_eq!(
        cloud.ec2(&delete).await.1.at(&["Errors", "Error", "Code"]),
        "InvalidSnapshot.InUse"
    );
    let deregister = [
        ("Action", "DeregisterImage"),
        ("ImageId", image.as_str()),
        ("DeleteAssociatedSnapshots", "true"),
    ];
    let (_, answer) = cloud.ec2(&deregister).await;
    let [deletion] = answer.items(&["deleteSnapshotResultSet"]) else { panic!("{answer:?}") };
    let expected = (snapshot.as_str(), "success");
    assert_eq!((deletion.at(&["snapshotId"]), deletion.at(&["returnCode"])), expected);
    let code = async |request: &[(&str, &str)]| {
        cloud.ec2(request).await.1.at(&["Errors", "Error", "Code"]).to_owned()
    };
    assert_eq!(code(&deregister).await, "InvalidAMIID.Unavailable");
    assert_eq!(code(&delete).await, "InvalidSnapshot.NotFound");
}
