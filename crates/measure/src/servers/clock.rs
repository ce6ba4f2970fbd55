//! The machine's monotonic clock, shared by all processes, and wall clocks that run ahead for one process.
//!
//! libfaketime changes only the wall clock, like a step of NTP or an operator. It does not affect a program that reads
//! the time from the kernel without the C library, such as a Go program.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::time::ClockId;

const LIBRARIES: &str = "/usr/lib";
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
/// The C library, loaded after libfaketime, so that memory comes from the C library. Redis's own allocator reads the
/// time before libfaketime is ready.
const LIBC: &str = "libc.so.6";
const MISSING: &str = "libfaketime is not installed; on Debian, as root: apt-get install faketime";

/// Returns the nanoseconds of the machine's monotonic clock.
pub fn now_ns() -> u64 {
    let now = ClockId::CLOCK_MONOTONIC.now().map(Duration::from).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

fn library() -> Option<PathBuf> {
    let directories = std::fs::read_dir(LIBRARIES).into_iter().flatten().flatten();
    directories.map(|directory| directory.path().join(LIBRARY)).find(|library| library.is_file())
}

/// Returns the reason why wall clocks cannot be changed on this machine.
pub fn missing() -> Option<&'static str> {
    library().is_none().then_some(MISSING)
}

/// A wall clock with its offset in a file.
#[derive(Clone, Debug)]
pub struct WallClock {
    library: PathBuf,
    file: PathBuf,
}

impl WallClock {
    /// Creates a clock without an offset, and the file's directory.
    ///
    /// # Errors
    /// libfaketime is missing, or the file is not writable.
    pub fn new(file: &Path) -> io::Result<Self> {
        let library = library().ok_or_else(|| io::Error::other(MISSING))?;
        file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let clock = Self { library, file: file.to_owned() };
        clock.set_ahead(Duration::ZERO)?;
        Ok(clock)
    }

    pub fn set_ahead(&self, ahead: Duration) -> io::Result<()> {
        // A rename replaces the whole file, because the process may read it at any time.
        let next = self.file.with_extension("next");
        std::fs::write(&next, format!("+{}\n", ahead.as_secs()))?;
        std::fs::rename(next, &self.file)
    }

    /// Returns the environment of a process that uses this clock. The process reads the offset at every read of the
    /// time.
    pub fn variables(&self) -> Vec<(String, String)> {
        let pairs = [
            ("LD_PRELOAD", format!("{}:{LIBC}", self.library.display())),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}
