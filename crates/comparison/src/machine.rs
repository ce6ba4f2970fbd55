//! On what was measured: processor, memory, kernel, and how long the disk needs for a sync.
//!
//! Owns reading that from `/proc`, and the measuring of the disk. Refuses to guess: what cannot be read is "unknown".

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::statistics;

const UNKNOWN: &str = "unknown";
/// How many syncs are timed.
const SYNCS: usize = 200;
const PAGE: usize = 4096;
/// The file that is written over and over.
const FILE_PAGES: usize = 256;

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its processor's name.
    pub cpu: String,
    /// Cores that the tool and the servers share.
    pub cores: u32,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// The file system on which servers keep their files.
    pub file_system: String,
    /// `fdatasync` after 4 KiB written into a file that is there already: half of them took at most this, microseconds.
    pub sync_p50_us: u64,
    /// 99 of 100.
    pub sync_p99_us: u64,
}

impl Machine {
    /// This one, with servers below this directory.
    ///
    /// # Errors
    /// What the system says when the disk is measured.
    pub fn look(directory: &Path) -> std::io::Result<Self> {
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
        })
    }
}

/// The first line of what a program says, or "unknown".
pub fn said_by(program: &str, arguments: &[&str]) -> String {
    let said = Command::new(program).args(arguments).output().ok();
    let said = said.filter(|said| said.status.success());
    let text = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    let first = text.as_deref().and_then(|text| text.lines().next()).map(str::trim);
    first.filter(|first| !first.is_empty()).unwrap_or(UNKNOWN).to_owned()
}

fn syncs(directory: &Path) -> std::io::Result<Vec<f64>> {
    use std::os::unix::fs::FileExt;
    let path = directory.join("disk-sync");
    let mut file: File = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
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
    std::fs::remove_file(path)?;
    Ok(took)
}

fn micros(seconds: f64) -> u64 {
    u64::try_from(Duration::from_secs_f64(seconds.max(0.0)).as_micros()).unwrap_or(u64::MAX)
}

/// `name : value` or `name=value` of a file, without quotes.
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

/// The type of the file system with the longest mount point that is a beginning of the path.
fn file_system(directory: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let fields = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let above = fields.filter(|(place, _)| directory.starts_with(place));
    // The last of equals is the one mounted over the others.
    let nearest = above.max_by_key(|(place, _)| place.len());
    nearest.map_or(UNKNOWN, |(_, kind)| kind).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_memory_and_a_disk() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::look(directory.path()).unwrap();
        assert!(machine.cores > 0 && machine.memory_mib > 0, "{machine:?}");
        assert!(machine.kernel != UNKNOWN && machine.file_system != UNKNOWN, "{machine:?}");
        assert!(machine.sync_p50_us <= machine.sync_p99_us, "{machine:?}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "it cleans up");
    }

    #[test]
    fn a_program_that_is_not_there_says_unknown() {
        assert_eq!(said_by("no-such-program", &[]), UNKNOWN);
        assert_eq!(said_by("echo", &["a\nb"]), "a");
    }
}
