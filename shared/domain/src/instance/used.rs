//! What a job used of its machine, measured by the supervisor (`infra/machine-program.py`).

use serde::{Deserialize, Serialize};

/// What a job used of its machine, between its job-started hook and its end.
///
/// A machine runs one job, so the whole machine is measured, with all containers. The numbers are
/// the machine's word, and a job with root rights can change them: they are displayed and summed,
/// and decide nothing. Names are short because each record contains them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Used {
    /// The measured time, in seconds.
    pub s: u32,
    /// The number of CPUs.
    pub cpus: u16,
    /// Mean utilization of all CPUs, in percent. Steal and waiting for disks do not count.
    pub cpu: u8,
    /// The 95th percentile of the utilization in intervals of two seconds, in percent.
    pub cpu95: u8,
    /// How much longer the job would take on half the CPUs, at least, in percent.
    pub half: u8,
    /// The share of intervals with a utilization of 95 percent or more, in percent.
    pub full: u8,
    /// The share of CPU time that the hypervisor gave to others, in percent.
    pub steal: u8,
    /// The maximum memory in use, in MB.
    pub mem: u32,
    /// The machine's memory, in MB.
    pub mem_of: u32,
    /// The number of processes that the kernel killed because memory was used up.
    pub oom: u16,
    /// The share of time in which a process waited for CPU, memory, and disk, in percent. `None`
    /// where the kernel does not measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<[u8; 3]>,
    /// The maximum disk space in use, in MB.
    pub disk: u32,
    /// The size of the disk's file system, in MB.
    pub disk_of: u32,
    /// Data read from disks, in MB.
    pub read: u32,
    /// Data written to disks, in MB.
    pub write: u32,
    /// Data received from the network, in MB.
    pub got: u32,
    /// Data sent to the network, in MB.
    pub sent: u32,
}

impl Used {
    /// Returns the numbers with shares limited to 100, and maxima to their totals: a machine can
    /// report anything.
    #[must_use]
    pub fn bounded(self) -> Self {
        let share = |part: u8| part.min(100);
        Self {
            cpu: share(self.cpu),
            cpu95: share(self.cpu95),
            half: share(self.half),
            full: share(self.full),
            steal: share(self.steal),
            mem: self.mem.min(self.mem_of),
            wait: self.wait.map(|parts| parts.map(share)),
            disk: self.disk.min(self.disk_of),
            ..self
        }
    }
}
