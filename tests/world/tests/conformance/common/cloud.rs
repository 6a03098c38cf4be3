//! A world with open doors, an emulator that is just good enough for it, and clients.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use muster_cloud::Timings;
use muster_world::{
    Running, WorldSettings,
    wire::{Credentials, Element},
};
use serde_json::{Value, json};

/// What machines get for their role. The token has every character that real ones have.
pub(crate) const ROLE: [&str; 3] =
    ["ASIATESTTESTTEST0001", "s3cr3t/with+odd=characters", "tok/en+with=odd/chars=="];

/// The queue messages that the world sent: queue URL and body.
pub(crate) type Queue = Arc<Mutex<Vec<(String, Value)>>>;

pub(crate) struct Cloud {
    pub(crate) running: Running,
    pub(crate) queue: Queue,
    pub(crate) http: reqwest::Client,
    pub(crate) state_dir: PathBuf,
}

impl Cloud {
    /// Opens a world with the stack `dev` and the organization `acme`, whose machines run
    /// `user_data` (which an emulator serves as launch template `lt-1`, version 1).
    pub(crate) async fn open(user_data: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let state_dir = std::env::temp_dir().join(format!("world-{}-{number}", std::process::id()));
        let queue = Queue::default();
        let emulator = emulator(Arc::clone(&queue), user_data.to_owned()).await;
        let running = muster_world::start(WorldSettings {
            state_dir: state_dir.clone(),
            ec2_port: 0,
            github_port: 0,
            control_port: 0,
            machine_port: 0,
            region: "us-east-1".to_owned(),
            emulator: Some(emulator),
            credentials: Credentials {
                access_key_id: "test".to_owned(),
                secret_access_key: "test".to_owned(),
                session_token: None,
            },
            timings: Timings { pending_ms: 20, shutting_down_ms: 20, ..Timings::default() },
            seed: number.into(),
        })
        .await
        .expect("the world starts");
        let cloud = Self { running, queue, http: reqwest::Client::new(), state_dir };
        let stack = json!({
            "stack": "dev",
            "reap_queue_url": "http://queue/reap",
            "role_arn": "arn:aws:iam::000000000000:role/machine",
        });
        cloud.control("stacks", stack).await;
        cloud.control("owners", cloud.owner("http://127.0.0.1:9/")).await;
        cloud
    }

    pub(crate) fn owner(&self, webhook_url: &str) -> Value {
        json!({
            "owner": "acme", "installation_id": 77, "app_id": 123, "stack": "dev",
            "app_public_key": key().1, "webhook_url": webhook_url, "webhook_secret": "s3cret",
        })
    }

    fn control_url(&self, path: &str) -> String {
        format!("http://{}/control/{path}", self.running.control)
    }

    /// Says something to the control door.
    pub(crate) async fn control(&self, path: &str, body: Value) -> Value {
        let answer = self.http.post(self.control_url(path)).json(&body).send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Asks the control door.
    pub(crate) async fn ask(&self, path: &str) -> Value {
        self.http.get(self.control_url(path)).send().await.unwrap().json().await.unwrap()
    }

    pub(crate) async fn forget(&self, path: &str) {
        let answer = self.http.delete(self.control_url(path)).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}");
    }

    /// A signed EC2 request, as the AWS SDK for Rust writes it.
    pub(crate) fn ec2_request(&self, pairs: &[(&str, &str)]) -> reqwest::RequestBuilder {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        self.http
            .post(format!("http://{}/", self.running.ec2))
            .header("content-type", "application/x-www-form-urlencoded")
            .header(
                "authorization",
                "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/ec2/aws4_request, \
                 SignedHeaders=host, Signature=00",
            )
            .body(body)
    }

    pub(crate) async fn ec2(&self, pairs: &[(&str, &str)]) -> (u16, Element) {
        let answer = self.ec2_request(pairs).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, Element::parse(&answer.text().await.unwrap()).unwrap())
    }

    /// Launches machines of stack `dev` and returns their ids.
    pub(crate) async fn launch(&self, token: &str, count: u32) -> Vec<String> {
        let count = count.to_string();
        let (status, answer) = self.ec2(&fleet(token, &count)).await;
        assert_eq!(status, 200, "{answer:?}");
        let groups = answer.items(&["fleetInstanceSet"]);
        let ids = groups.iter().flat_map(|group| group.items(&["instanceIds"]));
        ids.map(|id| id.text.clone()).collect()
    }

    /// A GitHub request: status and body.
    pub(crate) async fn github(
        &self,
        method: reqwest::Method,
        path: &str,
        token: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let url = format!("http://{}{path}", self.running.github);
        let mut request = self
            .http
            .request(method, url)
            .header("authorization", format!("Bearer {token}"))
            .header("user-agent", "muster-test");
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// An installation token for `acme`.
    pub(crate) async fn token(&self, jti: &str) -> String {
        let path = "/app/installations/77/access_tokens";
        let (status, answer) =
            self.github(reqwest::Method::POST, path, &jwt(&claims(jti)), None).await;
        assert_eq!(status, 201, "{answer}");
        answer["token"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn queue_job(&self, more: Value) -> u64 {
        let mut job = json!({ "owner": "acme", "repo": "app", "labels": ["linux"] });
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.control("jobs", job).await["id"].as_u64().unwrap()
    }

    pub(crate) async fn job(&self, id: u64) -> Value {
        self.ask(&format!("jobs/{id}")).await
    }

    pub(crate) async fn console(&self, machine: &str) -> String {
        let url = self.control_url(&format!("machines/{machine}/console"));
        self.http.get(url).send().await.unwrap().text().await.unwrap()
    }

    /// Waits until `what` holds, for two minutes at most: a loaded machine boots slowly.
    pub(crate) async fn until(&self, what: &str, holds: impl AsyncFn(&Self) -> bool) {
        let begun = Instant::now();
        while !holds(self).await {
            assert!(begun.elapsed() < Duration::from_secs(120), "it never came true: {what}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.state_dir);
        }
    }
}

/// A fleet of spot machines, in the very parameters that the AWS SDK for Rust writes.
pub(crate) fn fleet<'a>(token: &'a str, count: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("Action", "CreateFleet"),
        ("Version", "2016-11-15"),
        ("ClientToken", token),
        ("SpotOptions.AllocationStrategy", "price-capacity-optimized"),
        ("LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateId", "lt-1"),
        ("LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version", "1"),
        ("LaunchTemplateConfigs.1.Overrides.1.InstanceType", "m7i.large"),
        ("LaunchTemplateConfigs.1.Overrides.1.SubnetId", "subnet-a"),
        ("LaunchTemplateConfigs.1.Overrides.2.InstanceType", "m7a.large"),
        ("LaunchTemplateConfigs.1.Overrides.2.SubnetId", "subnet-b"),
        ("TargetCapacitySpecification.TotalTargetCapacity", count),
        ("TargetCapacitySpecification.DefaultTargetCapacityType", "spot"),
        ("Type", "instant"),
        ("TagSpecification.1.ResourceType", "instance"),
        ("TagSpecification.1.Tag.1.Key", "muster:stack"),
        ("TagSpecification.1.Tag.1.Value", "dev"),
        ("TagSpecification.1.Tag.2.Key", "muster:launch"),
        ("TagSpecification.1.Tag.2.Value", token),
        ("TagSpecification.2.ResourceType", "volume"),
        ("TagSpecification.2.Tag.1.Key", "muster:stack"),
        ("TagSpecification.2.Tag.1.Value", "dev"),
    ]
}

/// Answers `AssumeRole` and `DescribeLaunchTemplateVersions`, and keeps what is sent to queues.
async fn emulator(queue: Queue, user_data: String) -> String {
    async fn handle(
        State((queue, user_data)): State<(Queue, String)>,
        headers: HeaderMap,
        body: Bytes,
    ) -> String {
        if headers.get("x-amz-target").is_some_and(|t| t == "AmazonSQS.SendMessage") {
            let message: Value = serde_json::from_slice(&body).unwrap();
            let text = message["MessageBody"].as_str().unwrap();
            let url = message["QueueUrl"].as_str().unwrap().to_owned();
            queue.lock().unwrap().push((url, serde_json::from_str(text).unwrap()));
            return json!({ "MessageId": "1" }).to_string();
        }
        let form: std::collections::BTreeMap<_, _> =
            form_urlencoded::parse(&body).into_owned().collect();
        match form["Action"].as_str() {
            "AssumeRole" => {
                assert!(form["RoleSessionName"].starts_with("i-0"));
                let [id, secret, token] = ROLE;
                format!(
                    "<AssumeRoleResponse><AssumeRoleResult><Credentials>\
                     <AccessKeyId>{id}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>\
                     <SessionToken>{token}</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>\
                     </Credentials></AssumeRoleResult></AssumeRoleResponse>"
                )
            }
            "DescribeLaunchTemplateVersions" if form["LaunchTemplateId"] == "lt-1" => format!(
                "<DescribeLaunchTemplateVersionsResponse><launchTemplateVersionSet><item>\
                 <launchTemplateId>lt-1</launchTemplateId><launchTemplateName>n</launchTemplateName>\
                 <versionNumber>1</versionNumber><launchTemplateData><imageId>ami-1</imageId>\
                 <userData>{}</userData>\
                 <instanceInitiatedShutdownBehavior>terminate</instanceInitiatedShutdownBehavior>\
                 </launchTemplateData></item></launchTemplateVersionSet>\
                 </DescribeLaunchTemplateVersionsResponse>",
                base64::engine::general_purpose::STANDARD.encode(user_data)
            ),
            "DescribeLaunchTemplateVersions" => "<R><launchTemplateVersionSet/></R>".to_owned(),
            other => panic!("the emulator was asked for {other}"),
        }
    }
    let router = Router::new().route("/", post(handle)).with_state((queue, user_data));
    serve(router).await
}

/// Serves a router on any free port; its address.
pub(crate) async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// The App's key, made for this run: the path of the private one, and the public one.
pub(crate) fn key() -> &'static (PathBuf, String) {
    static KEY: OnceLock<(PathBuf, String)> = OnceLock::new();
    KEY.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("world-key-{}.pem", std::process::id()));
        let openssl = |arguments: &[&str]| {
            let run = Command::new("openssl").args(arguments).stderr(Stdio::null()).output();
            String::from_utf8(run.expect("openssl is installed").stdout).unwrap()
        };
        let file = path.to_str().unwrap();
        openssl(&["genrsa", "-out", file, "2048"]);
        let public = openssl(&["rsa", "-in", file, "-pubout"]);
        (path, public)
    })
}

pub(crate) fn claims(jti: &str) -> Value {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    json!({ "iss": "123", "iat": now - 30, "exp": now + 300, "jti": jti })
}

/// A token signed with the App's key.
pub(crate) fn jwt(claims: &Value) -> String {
    signed(&json!({ "alg": "RS256", "typ": "JWT" }), claims)
}

pub(crate) fn signed(header: &Value, claims: &Value) -> String {
    signed_by(&key().0, header, claims)
}

/// The same with another App's key.
pub(crate) fn signed_by(key: &std::path::Path, header: &Value, claims: &Value) -> String {
    use std::io::Write;
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(header), part(claims));
    let mut openssl = Command::new("openssl")
        .args(["dgst", "-sha256", "-sign", key.to_str().unwrap(), "-binary"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    openssl.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let signature = openssl.wait_with_output().unwrap().stdout;
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}
