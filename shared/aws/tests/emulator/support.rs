//! The emulator, with a stack's tables and queues.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::config::{Credentials, Region, SharedCredentialsProvider};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, GlobalSecondaryIndex, KeySchemaElement,
    KeyType, Projection, ProjectionType, ScalarAttributeType,
};
use aws_sdk_sqs::types::QueueAttributeName;
use muster_aws::SdkConfig;
use muster_aws::queue::{QueueUrls, SqsQueue};
use muster_aws::table::{DynamoTable, TableNames};
use muster_domain::timings::Timings;

/// Kept for its standard input: when this process ends for any reason, the shell reads end of file
/// and stops the emulator.
static EMULATOR: OnceLock<(Child, SocketAddr)> = OnceLock::new();

const KEEPER: &str = r#""$0" >"$1" 2>&1 & emulator=$!; cat >/dev/null; kill "$emulator""#;

pub(crate) fn emulator() -> SocketAddr {
    EMULATOR.get_or_init(start).1
}

fn start() -> (Child, SocketAddr) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = root.join(".local/ministack/bin/ministack");
    assert!(
        program.exists(),
        "the emulator is not installed ({} is missing): run `make test`, which installs it",
        program.display()
    );
    (0..5).find_map(|_| listening(&program)).expect("a port that nobody else takes meanwhile")
}

/// Starts the emulator on a port that was just free. `None` if a different process has taken the
/// port.
fn listening(program: &Path) -> Option<(Child, SocketAddr)> {
    let address = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port");
    let log = std::env::temp_dir().join(format!("muster-emulator-{}.log", address.port()));
    let _ = std::fs::remove_file(&log);
    let child = Command::new("sh")
        .args(["-c", KEEPER])
        .arg(program)
        .arg(&log)
        .env("GATEWAY_PORT", address.port().to_string())
        .env("BIND_HOST", "127.0.0.1")
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh starts");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(90) {
        // Read from the log: an open port alone may belong to a different process.
        let told = std::fs::read_to_string(&log).unwrap_or_default();
        if told.contains(&format!("Running on http://{address}")) {
            return Some((child, address));
        }
        if told.contains("already in use") {
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the emulator does not start: see {}", log.display());
}

/// The functions' configuration with a different endpoint.
pub(crate) async fn config_at(address: SocketAddr) -> SdkConfig {
    muster_aws::client::load()
        .await
        .into_builder()
        .endpoint_url(format!("http://{address}"))
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::for_tests()))
        .build()
}

pub(crate) async fn config() -> SdkConfig {
    config_at(emulator()).await
}

/// Separate tables and queues for each test.
pub(crate) struct Stack {
    pub(crate) config: SdkConfig,
    pub(crate) names: TableNames,
    pub(crate) table: DynamoTable,
    pub(crate) queue: SqsQueue,
    pub(crate) urls: QueueUrls,
    pub(crate) dynamodb: aws_sdk_dynamodb::Client,
    pub(crate) sqs: aws_sdk_sqs::Client,
}

static STACKS: AtomicU32 = AtomicU32::new(0);

impl Stack {
    pub(crate) async fn new() -> Self {
        let config = config().await;
        let stack = format!("s{}", STACKS.fetch_add(1, Ordering::Relaxed));
        let names = TableNames {
            instances: format!("{stack}-instances"),
            jobs: format!("{stack}-jobs"),
            control: format!("{stack}-control"),
            usage: format!("{stack}-usage"),
        };
        let dynamodb = aws_sdk_dynamodb::Client::new(&config);
        // As in template.yaml.
        let due = ("due", "due_shard", "due_at");
        let live = ("pool", "live_pool", "live_order");
        let waiting = ("pool", "waiting_pool", "waiting_order");
        let kind = ("kind", "kind", "sort");
        create(&dynamodb, &names.instances, &["name"], &[due, live]).await;
        create(&dynamodb, &names.jobs, &["job"], &[waiting]).await;
        create(&dynamodb, &names.control, &["id"], &[kind]).await;
        create(&dynamodb, &names.usage, &["day", "at"], &[]).await;

        let sqs = aws_sdk_sqs::Client::new(&config);
        let urls = QueueUrls {
            jobs: create_queue(&sqs, &format!("{stack}-q-jobs")).await,
            launch: create_queue(&sqs, &format!("{stack}-q-launch")).await,
            reap: create_queue(&sqs, &format!("{stack}-q-reap")).await,
        };
        Self {
            table: DynamoTable::new(&config, names.clone(), Timings::default()),
            queue: SqsQueue::new(&config, urls.clone()),
            config,
            names,
            urls,
            dynamodb,
            sqs,
        }
    }

    /// The same tables at a different endpoint.
    pub(crate) async fn table_at(&self, address: SocketAddr) -> DynamoTable {
        DynamoTable::new(&config_at(address).await, self.names.clone(), Timings::default())
    }

    /// Returns an item as stored.
    pub(crate) async fn raw(&self, table: &str, key: (&str, &str)) -> Option<Item> {
        self.dynamodb
            .get_item()
            .table_name(table)
            .key(key.0, AttributeValue::S(key.1.to_owned()))
            .consistent_read(true)
            .send()
            .await
            .expect("GetItem")
            .item
    }

    pub(crate) async fn put_raw(&self, table: &str, item: Item) {
        let put = self.dynamodb.put_item().table_name(table).set_item(Some(item));
        put.send().await.expect("PutItem");
    }
}

pub(crate) type Item = std::collections::HashMap<String, AttributeValue>;

type Index<'a> = (&'a str, &'a str, &'a str);

async fn create(
    client: &aws_sdk_dynamodb::Client,
    table: &str,
    key: &[&str],
    indexes: &[Index<'_>],
) {
    let mut attributes = key.to_vec();
    attributes.extend(indexes.iter().flat_map(|(_, hash, range)| [*hash, *range]));
    let definitions = attributes.into_iter().map(|name| {
        AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S)
            .build()
            .expect("complete")
    });
    let part = |name: &str, kind| {
        KeySchemaElement::builder().attribute_name(name).key_type(kind).build().expect("complete")
    };
    let indexes = indexes.iter().map(|(name, hash, range)| {
        GlobalSecondaryIndex::builder()
            .index_name(*name)
            .key_schema(part(hash, KeyType::Hash))
            .key_schema(part(range, KeyType::Range))
            .projection(Projection::builder().projection_type(ProjectionType::All).build())
            .build()
            .expect("complete")
    });
    let keys = key.iter().zip([KeyType::Hash, KeyType::Range]).map(|(name, kind)| part(name, kind));
    // An empty list is rejected.
    let indexes = Some(indexes.collect::<Vec<_>>()).filter(|some| !some.is_empty());
    client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(Some(definitions.collect()))
        .set_key_schema(Some(keys.collect()))
        .set_global_secondary_indexes(indexes)
        .send()
        .await
        .expect("CreateTable");
}

async fn create_queue(client: &aws_sdk_sqs::Client, name: &str) -> String {
    let create = client
        .create_queue()
        .queue_name(name)
        .attributes(QueueAttributeName::VisibilityTimeout, "30");
    create.send().await.expect("CreateQueue").queue_url.expect("an address")
}
