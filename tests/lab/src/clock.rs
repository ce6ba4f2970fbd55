//! A wall clock of its own for a node under test, which the test sets at any time.
//!
//! Owns a small library (`clock.c`, compiled by the C compiler when the first clock is made) that is preloaded into the
//! process and shifts `CLOCK_REALTIME` alone, and the file that says by how much. Monotonic clocks and timers are the
//! system's.

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
    /// The clock of node `id`, right at first; its files are in `dir`.
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

    /// Sets the clock to `ms` milliseconds after the right time, or before it.
    pub fn set_ahead_ms(&self, ms: i64) {
        let file = File::options().write(true).open(&self.offset).expect("the file of a clock");
        file.write_all_at(&ms.to_ne_bytes(), 0).expect("the clock is set");
    }

    /// The environment of a process with this clock.
    pub(crate) fn environment(&self) -> [(&'static str, &Path); 2] {
        [("LD_PRELOAD", &self.library), ("TEST_CLOCK_OFFSET", &self.offset)]
    }
}
