//! What `holdfast run` writes to stderr while the command runs.
//!
//! A thread of its own writes, because nobody may read the pipe: a write that blocks must not hold up a kill. Bound:
//! [`LINES_MAX`] lines wait; more are left out.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use crate::output::complain;

/// Lines that wait for a reader of stderr.
const LINES_MAX: usize = 64;
/// How long the end waits for them to be read.
const FAREWELL: Duration = Duration::from_millis(200);

/// See the module.
#[derive(Debug)]
pub(super) struct Stderr {
    lines: SyncSender<String>,
    written: Receiver<()>,
}

impl Stderr {
    pub(super) fn start() -> Self {
        let (lines, queue) = sync_channel::<String>(LINES_MAX);
        let (done, written) = sync_channel(1);
        std::thread::spawn(move || {
            for line in queue {
                complain(&line);
            }
            drop(done);
        });
        Self { lines, written }
    }

    /// Writes a line, unless too many wait already.
    pub(super) fn say(&self, line: String) {
        drop(self.lines.try_send(line));
    }

    /// Waits until everything is written, or nobody reads it.
    pub(super) fn finish(self) {
        let Self { lines, written } = self;
        drop(lines);
        let _late = written.recv_timeout(FAREWELL);
    }
}
