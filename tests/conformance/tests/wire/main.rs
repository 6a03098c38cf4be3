//! The suite with the real adapters: EC2 and GitHub at the wire doors of the simulated cloud,
//! tables and queues at an emulator. This binary links the SDKs; the simulator's half of the suite
//! does not.

mod ec2;
mod github;
mod names;
mod setup;
mod tables;
// A server with a certificate of a private authority, as the adapter's own tests make it.
#[path = "../../../../shared/github/tests/support/tls.rs"]
mod tls;
// The emulator, and a stack's tables and queues on it: as the adapters' own tests make them.
#[path = "../../../../shared/aws/tests/emulator/support.rs"]
#[expect(dead_code, reason = "the adapters' own tests use all of it")]
mod support;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use muster_cloud::{Millis, Timings};
use muster_github::{CaSource, ClientSettings};
use muster_world::wire::Credentials;
use muster_world::{Running, WorldSettings};
use tokio::runtime::Runtime;

use crate::tls::{Authority, Bundle};

/// Later than any check.
const NEVER_MS: Millis = 1_000_000_000;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// A world of its own for a check. Nothing moves in it by itself, and no machine boots.
async fn open() -> Running {
    static WORLDS: AtomicU64 = AtomicU64::new(0);
    let number = WORLDS.fetch_add(1, Ordering::Relaxed);
    let timings = Timings {
        pending_ms: NEVER_MS,
        image_pending_ms: NEVER_MS,
        boot_ms: NEVER_MS * 1000,
        shutting_down_ms: 0,
        stopping_ms: 0,
        ..Timings::default()
    };
    muster_world::start(WorldSettings {
        // No machine boots, so nothing is ever written there.
        state_dir: directory().join("worlds"),
        ec2_port: 0,
        github_port: 0,
        control_port: 0,
        machine_port: 0,
        region: "us-east-1".into(),
        emulator: None,
        credentials: Credentials {
            access_key_id: "test".into(),
            secret_access_key: "test".into(),
            session_token: None,
        },
        timings,
        seed: number,
    })
    .await
    .expect("the world starts")
}

/// Returns the URL of a world's GitHub behind TLS, with a certificate of a private authority, and
/// the settings of a client that has that authority's certificate as its CA bundle.
async fn github_behind_tls(running: &Running) -> (String, ClientSettings) {
    let authority = Authority::until(2100);
    let url = authority.front(running.github.to_string()).await;
    let ca_source = Some(Arc::new(Bundle::of(&authority.pem)) as Arc<dyn CaSource>);
    (url, ClientSettings { ca_source, ..ClientSettings::default() })
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}
