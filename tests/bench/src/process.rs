//! One process of a function, and what the kernel says about it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// How many of its last lines are kept for a complaint.
const LINES_KEPT: usize = 20;

/// A running function. Ends with this value.
pub(crate) struct Process {
    child: Child,
    /// When it was started.
    pub(crate) born: Instant,
    lines: Arc<Mutex<VecDeque<String>>>,
}

impl Process {
    /// Starts a binary with exactly this environment.
    pub(crate) fn start(binary: &Path, environment: &[(String, String)]) -> anyhow::Result<Self> {
        let mut command = Command::new(binary);
        command
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            // Pipes, as in Lambda: writing a log line is part of the work.
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let born = Instant::now();
        let mut child =
            command.spawn().with_context(|| format!("starting {}", binary.display()))?;
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(output) = child.stdout.take() {
            drain(output, &lines);
        }
        if let Some(output) = child.stderr.take() {
            drain(output, &lines);
        }
        Ok(Self { child, born, lines })
    }

    /// Time on a processor so far, of all its threads, to the nanosecond.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
        let mut nanos = 0;
        for task in tasks {
            let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
            let spent = text.split(' ').next().unwrap_or_default();
            nanos += spent.parse::<u64>().context("schedstat")?;
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// The most memory it ever held, KiB.
    pub(crate) fn peak_memory(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.context("VmHWM")?.parse().context("VmHWM")
    }

    /// Its last lines of output.
    pub(crate) fn last_lines(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn drain(output: impl Read + Send + 'static, lines: &Arc<Mutex<VecDeque<String>>>) {
    let lines = Arc::clone(lines);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() == LINES_KEPT {
                lines.pop_front();
            }
            lines.push_back(line);
        }
    });
}
