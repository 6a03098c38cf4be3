//! What is measured, and how.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::json;

use crate::Binaries;
use crate::function::{self, Function};
use crate::process::Process;
use crate::report::{Report, Unit};
use crate::runtime_api::RuntimeApi;
use crate::stubs::{Calls, Stubs};
use crate::tls::{self, Tls};

/// Events before counting starts: caches fill, allocators settle.
const WARM_UP: usize = 50;
/// CPU time is taken over so many events at a time.
const BATCH: usize = 50;
/// Processes that share the warm events. Where the kernel puts a process, and where its memory
/// lies, makes a fifth of what an event costs; the median of several is less of a draw.
const PROCESSES: usize = 5;

/// What was seen of a function's processes once they were warm.
#[derive(Default)]
struct Warm {
    /// Of each event, ms.
    times: Vec<f64>,
    /// Per event, ms; of each process.
    cpu: Vec<f64>,
    calls: Calls,
    /// Of events that must be refused.
    unwanted_cpu: Vec<f64>,
    unwanted_calls: usize,
    /// Peaks, MB.
    memory: Vec<f64>,
}

/// The stubs, and where the binaries are.
pub(crate) struct Bench {
    binaries: Binaries,
    rounds: usize,
    events: usize,
    folder: PathBuf,
    tls: Tls,
    stubs: Stubs,
}

impl Drop for Bench {
    fn drop(&mut self) {
        // A leftover in the system's temporary folder is no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Bench {
    pub(crate) fn start(binaries: Binaries, rounds: usize, events: usize) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("muster-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let tls = tls::prepare(&folder).context("certificates")?;
        let stubs = Stubs::start(Arc::clone(&tls.server))?;
        Ok(Self { binaries, rounds, events, folder, tls, stubs })
    }

    /// All numbers of one function.
    pub(crate) fn measure(&self, function: &Function, report: &mut Report) -> anyhow::Result<()> {
        let (name, goals) = (function.name, function.goals);
        self.cold(function, report)?;
        let mut seen = Warm::default();
        for _ in 0..PROCESSES {
            let (process, api) = self.launch(function)?;
            self.warm(function, &process, &api, &mut seen)?;
            seen.memory.push(count(usize::try_from(process.peak_memory()?)?) / 1024.0);
        }
        report.add(name, "warm p50", quantile(&mut seen.times, 0.5), Unit::Millis, None);
        report.add(name, "warm p99", quantile(&mut seen.times, 0.99), Unit::Millis, None);
        let cpu = median(&mut seen.cpu);
        report.add(name, "warm: CPU per event", cpu, Unit::Millis, goals.cpu_ms);
        let each = |calls: usize| count(calls) / count(self.events_each() * PROCESSES);
        let calls: serde_json::Map<_, _> =
            seen.calls.into_iter().map(|(call, times)| (call, json!(each(times)))).collect();
        report.note(name, "calls per event", calls.into());
        if function.unwanted.is_some() {
            let cpu = median(&mut seen.unwanted_cpu);
            report.add(name, "bad signature: CPU", cpu, Unit::Millis, goals.unwanted_cpu_ms);
            let calls = count(seen.unwanted_calls);
            report.add(name, "bad signature: calls to AWS", calls, Unit::Count, Some(0.0));
        }
        let memory = seen.memory.iter().copied().fold(0.0, f64::max);
        report.add(name, "peak memory", memory, Unit::Megabytes, goals.memory_mb);
        let zip = self.zip_size(function)?;
        report.add(name, "zip", count(zip) / 1e6, Unit::Megabytes, goals.zip_mb);
        Ok(())
    }

    /// Starts the function anew, round by round.
    fn cold(&self, function: &Function, report: &mut Report) -> anyhow::Result<()> {
        let (mut inits, mut firsts, mut sums) = (Vec::new(), Vec::new(), Vec::new());
        let mut start_cpu = Vec::new();
        for _ in 0..self.rounds {
            let (process, api) = self.launch(function)?;
            let init = api.ready()? - process.born;
            start_cpu.push(millis(process.cpu()?));
            inits.push(millis(init));
            let (first, _) = self.invoke(&process, &api, &function.event)?;
            firsts.push(millis(first));
            sums.push(millis(init + first));
        }
        let (name, goals) = (function.name, function.goals);
        report.add(name, "init", median(&mut inits), Unit::Millis, goals.init_ms);
        report.add(name, "init: CPU", median(&mut start_cpu), Unit::Millis, None);
        report.add(name, "first invocation", median(&mut firsts), Unit::Millis, None);
        let sum = median(&mut sums);
        report.add(name, "init + first", sum, Unit::Millis, goals.init_and_first_ms);
        Ok(())
    }

    /// Events per process.
    const fn events_each(&self) -> usize {
        self.events / PROCESSES / BATCH * BATCH
    }

    /// One process that has served some events already.
    fn warm(
        &self,
        function: &Function,
        process: &Process,
        api: &RuntimeApi,
        seen: &mut Warm,
    ) -> anyhow::Result<()> {
        let times = &mut seen.times;
        let (cpu, calls) = self.repeat(process, api, &function.event, |time, _| {
            times.push(millis(time));
            Ok(())
        })?;
        seen.cpu.push(cpu);
        for (call, count) in calls {
            *seen.calls.entry(call).or_default() += count;
        }
        let Some(event) = &function.unwanted else { return Ok(()) };
        let (cpu, calls) = self.repeat(process, api, event, |_, answer| {
            ensure!(answer.contains("401"), "not refused: {answer}");
            Ok(())
        })?;
        seen.unwanted_cpu.push(cpu);
        seen.unwanted_calls += calls.values().sum::<usize>();
        Ok(())
    }

    /// Sends an event many times. Answers with the CPU time of one, ms, and all calls to the stubs.
    /// The time is the median of batches: a neighbour that was busy for a moment does not count.
    fn repeat(
        &self,
        process: &Process,
        api: &RuntimeApi,
        event: &Arc<[u8]>,
        mut each: impl FnMut(Duration, String) -> anyhow::Result<()>,
    ) -> anyhow::Result<(f64, Calls)> {
        for _ in 0..WARM_UP {
            self.invoke(process, api, event)?;
        }
        self.stubs.take_calls();
        let mut batches = Vec::new();
        for _ in 0..self.events_each() / BATCH {
            let before = process.cpu()?;
            for _ in 0..BATCH {
                let (time, answer) = self.invoke(process, api, event)?;
                each(time, answer)?;
            }
            batches.push(millis(process.cpu()? - before) / count(BATCH));
        }
        Ok((median(&mut batches), self.stubs.take_calls()))
    }

    fn launch(&self, function: &Function) -> anyhow::Result<(Process, RuntimeApi)> {
        let api = RuntimeApi::start()?;
        let environment = function::environment(
            function.binary,
            &api.address.to_string(),
            &format!("https://{}", self.stubs.address),
            &self.tls.roots.display().to_string(),
        );
        let process = Process::start(&self.binaries.of(function), &environment)?;
        api.ready().with_context(|| process.last_lines())?;
        Ok((process, api))
    }

    fn invoke(
        &self,
        process: &Process,
        api: &RuntimeApi,
        event: &Arc<[u8]>,
    ) -> anyhow::Result<(Duration, String)> {
        let (time, answer) = api.invoke(event).with_context(|| process.last_lines())?;
        Ok((time, String::from_utf8(answer)?))
    }

    /// The size of a zip with the binary as `bootstrap`, bytes.
    fn zip_size(&self, function: &Function) -> anyhow::Result<usize> {
        let binary = std::fs::read(self.binaries.of(function))?;
        let packed = miniz_oxide::deflate::compress_to_vec(&binary, 9).len();
        // One local header, one entry of the directory, its end.
        Ok(packed + 30 + 46 + 22 + 2 * "bootstrap".len())
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
const fn count(number: usize) -> f64 {
    number as f64
}

fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index below the length"
)]
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let index = (count(values.len() - 1) * share).round() as usize;
    values[index]
}
