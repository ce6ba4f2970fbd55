//! The machine of a run: processor, memory, kernel, and the time of a disk sync. An unreadable value is "unknown".

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::statistics;

const UNKNOWN: &str = "unknown";
const SYNCS: usize = 200;
const PAGE: usize = 4096;
/// The number of pages of the file that the measurement rewrites.
const FILE_PAGES: usize = 256;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineInfo {
    pub cpu: String,
    /// The number of cores, shared by the generator and the servers.
    pub cores: u32,
    pub memory_mib: u64,
    pub kernel: String,
    pub system: String,
    /// The file system of the servers' directory.
    pub file_system: String,
    /// The median time of `fdatasync` after a write of 4 KiB into an existing file, microseconds.
    pub sync_p50_us: u64,
    pub sync_p99_us: u64,
    /// The load average of the last minute before the run: other work makes every number worse.
    #[serde(default)]
    pub load: String,
}

impl MachineInfo {
    /// Reads the data of this machine, with servers below `directory`.
    ///
    /// # Errors
    /// The disk cannot be measured.
    pub fn read(directory: &Path) -> std::io::Result<Self> {
        let syncs = syncs(directory)?;
        let at = |quantile| micros(statistics::quantile(&syncs, quantile));
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| UNKNOWN.to_owned()),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            memory_mib: memory_kib().unwrap_or(0) / 1024,
            kernel: line("/proc/sys/kernel/osrelease"),
            system: distribution(),
            file_system: file_system(directory),
            sync_p50_us: at(0.5),
            sync_p99_us: at(0.99),
            load: line("/proc/loadavg").split(' ').next().unwrap_or(UNKNOWN).to_owned(),
        })
    }
}

/// Returns the first line of a program's output, or "unknown".
pub fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok();
    let output = output.filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let first = text.as_deref().and_then(|text| text.lines().next()).map(str::trim);
    first.filter(|first| !first.is_empty()).unwrap_or(UNKNOWN).to_owned()
}

fn syncs(directory: &Path) -> std::io::Result<Vec<f64>> {
    use std::os::unix::fs::FileExt;
    // It has no name, so that two runs do not share it.
    let mut file = tempfile::tempfile_in(directory)?;
    let page = [7_u8; PAGE];
    for _ in 0..FILE_PAGES {
        file.write_all(&page)?;
    }
    file.sync_all()?;
    let mut took = Vec::with_capacity(SYNCS);
    for at in 0..SYNCS {
        let began = Instant::now();
        file.write_all_at(&page, u64::try_from(at % FILE_PAGES * PAGE).unwrap_or(0))?;
        file.sync_data()?;
        took.push(began.elapsed().as_secs_f64());
    }
    Ok(took)
}

fn micros(seconds: f64) -> u64 {
    u64::try_from(Duration::from_secs_f64(seconds.max(0.0)).as_micros()).unwrap_or(u64::MAX)
}

/// Returns the value of `name : value` or `name=value` in a file, without quotes.
fn field(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let value = line.trim_start().trim_start_matches([':', '=']).trim();
    Some(value.trim_matches('"').to_owned())
}

fn line(file: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().next().unwrap_or(UNKNOWN).to_owned()
}

fn distribution() -> String {
    field("/etc/os-release", "PRETTY_NAME").unwrap_or_else(|| UNKNOWN.to_owned())
}

fn memory_kib() -> Option<u64> {
    field("/proc/meminfo", "MemTotal")?.trim_end_matches("kB").trim().parse().ok()
}

/// Returns the type of the file system with the longest mount point that is a prefix of the path.
fn file_system(directory: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let fields = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let above = fields.filter(|(place, _)| directory.starts_with(place));
    // Of equal mount points, the last one hides the others.
    let nearest = above.max_by_key(|(place, _)| place.len());
    nearest.map_or(UNKNOWN, |(_, kind)| kind).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_memory_and_a_disk() {
        let directory = tempfile::tempdir().unwrap();
        let machine = MachineInfo::read(directory.path()).unwrap();
        assert!(machine.cores > 0 && machine.memory_mib > 0, "{machine:?}");
        assert!(machine.kernel != UNKNOWN && machine.file_system != UNKNOWN, "{machine:?}");
        assert!(machine.sync_p50_us <= machine.sync_p99_us, "{machine:?}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the file is removed");
    }

    #[test]
    fn a_missing_program_is_unknown() {
        assert_eq!(output_of("no-such-program", &[]), UNKNOWN);
        assert_eq!(output_of("echo", &["a\nb"]), "a");
    }
}
