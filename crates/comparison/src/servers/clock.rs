//! The machine's monotonic clock, which all processes share, and wall clocks that are moved under a process.
//!
//! Owns the finding of libfaketime and what a process has to be told to run under it. It moves the wall clock alone, as a
//! step of NTP or an operator does; the monotonic clock stays. A program that asks the kernel without the C library,
//! as those in Go do, is not reached.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::time::ClockId;

const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
const LIBRARIES: &str = "/usr/lib";
/// Named behind it, so that memory comes from the C library: Redis's own allocator asks for the time before libfaketime
/// is ready to answer.
const LIBC: &str = "libc.so.6";
/// What to say when there is none.
pub const MISSING: &str =
    "libfaketime is not installed; on Debian, as root: apt-get install faketime";

/// Nanoseconds of the machine's monotonic clock.
pub fn now_ns() -> u64 {
    let now = ClockId::CLOCK_MONOTONIC.now().map(Duration::from).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Where libfaketime is, if it is.
pub fn library() -> Option<PathBuf> {
    let addresses = std::fs::read_dir(LIBRARIES).into_iter().flatten().flatten();
    let mut addresses = addresses.map(|place| place.path().join(LIBRARY));
    addresses.find(|library| library.is_file())
}

/// A wall clock that can be moved: the file that says how far it is off.
#[derive(Clone, Debug)]
pub struct WallClock {
    library: PathBuf,
    file: PathBuf,
}

impl WallClock {
    /// One that is right, kept in this file.
    ///
    /// # Errors
    /// If libfaketime is missing, or the file cannot be written.
    pub fn right(file: &Path) -> io::Result<Self> {
        let library = library().ok_or_else(|| io::Error::other(MISSING))?;
        let clock = Self { library, file: file.to_owned() };
        clock.move_by(Duration::ZERO)?;
        Ok(clock)
    }

    /// From now on it is ahead by so many seconds.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn move_by(&self, ahead: Duration) -> io::Result<()> {
        // Replaced as a whole: it is read at any moment.
        let fresh = self.file.with_extension("next");
        std::fs::write(&fresh, format!("+{}\n", ahead.as_secs()))?;
        std::fs::rename(fresh, &self.file)
    }

    /// The environment of a process that lives by it; it looks how far the clock is off whenever it asks for the time.
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
