//! The stderr of `holdfast run` while the command runs.
//!
//! A separate thread writes, so that a full pipe does not delay a kill. Bound: [`LINES_MAX`] lines wait; the queue
//! drops further lines.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use crate::output::write_stderr;

/// The maximum number of waiting lines.
const LINES_MAX: usize = 64;
/// The time limit for writing the last lines at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

/// The queue of the writing thread.
#[derive(Debug)]
pub(super) struct StderrQueue {
    lines: SyncSender<String>,
    written: Receiver<()>,
}

impl StderrQueue {
    pub(super) fn start() -> Self {
        let (lines, queue) = sync_channel::<String>(LINES_MAX);
        let (done, written) = sync_channel(1);
        std::thread::spawn(move || {
            for line in queue {
                write_stderr(&line);
            }
            drop(done);
        });
        Self { lines, written }
    }

    /// Writes a line, unless the queue is full.
    pub(super) fn print(&self, line: String) {
        drop(self.lines.try_send(line));
    }

    /// Waits until all lines are written, up to [`FLUSH_TIMEOUT`].
    pub(super) fn finish(self) {
        let Self { lines, written } = self;
        drop(lines);
        let _late = written.recv_timeout(FLUSH_TIMEOUT);
    }
}
