//! The files that `make up` and `tests/local/deploy` leave: where everything is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tokio::sync::Semaphore;

use crate::HINT;

/// Deployments are the one thing here that needs a processor; more at a time only take longer.
static DEPLOYMENTS: Semaphore = Semaphore::const_new(2);

/// The checkout: the one that this was built in, unless `MUSTER_CHECKOUT` names another.
#[must_use]
pub fn root() -> PathBuf {
    if let Some(other) = std::env::var_os("MUSTER_CHECKOUT") {
        return other.into();
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// An env file of the local stack.
#[derive(Clone, Debug)]
pub struct Env(BTreeMap<String, String>);

impl Env {
    /// The stack that `make up` deploys.
    ///
    /// # Errors
    /// When it is not up.
    pub fn main() -> Result<Self> {
        Self::read(&root().join(".local/stack.env")).context(HINT)
    }

    fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Ok(Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }

    /// A value.
    ///
    /// # Errors
    /// When the file has none, or an empty one.
    pub fn get(&self, name: &str) -> Result<&str> {
        let value = self.0.get(name).map(String::as_str).filter(|value| !value.is_empty());
        value.with_context(|| format!("the stack's env file has no {name}"))
    }
}

/// Deploys the template once more, under another name, and reads its env file.
///
/// # Errors
/// When the deployment fails; the message is the script's.
pub async fn deploy(name: &str, parameters: &[(&str, &str)]) -> Result<Env> {
    // Says so in one sentence, instead of a script's failure per test.
    Env::main()?;
    let _turn = DEPLOYMENTS.acquire().await?;
    let output = tokio::process::Command::new(root().join("tests/local/deploy"))
        .arg(name)
        .args(parameters.iter().map(|(parameter, value)| format!("{parameter}={value}")))
        .output()
        .await
        .context("tests/local/deploy")?;
    if !output.status.success() {
        bail!("tests/local/deploy {name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Env::read(Path::new(&path))
}

/// Forgets the env file of a stack that is gone.
pub fn forget(name: &str) {
    let _ = std::fs::remove_file(root().join(format!(".local/stacks/{name}.env")));
}
