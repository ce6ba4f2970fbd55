//! A separate wall clock for a node under test, which the test can set at any time.
//!
//! A small library (`clock.c`, compiled once per cluster) is preloaded into the process. It shifts only `CLOCK_REALTIME`,
//! by the offset in a file. Monotonic clocks and timers are unchanged.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clock.c");

/// The wall clock of one node.
#[derive(Debug)]
pub struct WallClock {
    library: PathBuf,
    offset: PathBuf,
}

impl WallClock {
    /// Creates the clock of node `id` with offset 0; its files are in `dir`.
    pub(crate) fn make(dir: &Path, id: u64) -> Self {
        let library = dir.join("clock.so");
        if !library.exists() {
            let mut compile = Command::new("cc");
            compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(SOURCE);
            let compiled = compile.status().expect("a C compiler");
            assert!(compiled.success(), "{SOURCE} does not compile");
        }
        let offset = dir.join(format!("node{id}.clock"));
        std::fs::write(&offset, 0_i64.to_ne_bytes()).expect("the file of a clock");
        Self { library, offset }
    }

    /// Sets the clock `ms` milliseconds ahead of the system clock, or behind it if negative.
    pub fn set_ahead_ms(&self, ms: i64) {
        let file = File::options().write(true).open(&self.offset).expect("the file of a clock");
        file.write_all_at(&ms.to_ne_bytes(), 0).expect("the clock is set");
    }

    /// Environment variables of a process with this clock.
    pub(crate) fn environment(&self) -> [(&'static str, &Path); 2] {
        [("LD_PRELOAD", &self.library), ("TEST_CLOCK_OFFSET", &self.offset)]
    }
}
