//! Lines on stderr. One thread writes them, so that a reader that does not read (a full pipe, a terminal after ^S) never
//! keeps a command from renewing a lock, killing its program, or ending.
//!
//! Bounds: [`LINES_MAX`] lines wait; the queue drops further lines. A caller waits for its line at most [`WRITE_TIMEOUT`],
//! and not at all while an earlier line is unwritten.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::SigSet;

use crate::terminal_text::for_terminal;

/// The maximum number of waiting lines.
const LINES_MAX: usize = 64;
const WRITE_TIMEOUT: Duration = Duration::from_millis(200);

/// The queue of the writing thread; `None` if the system has no thread for it.
static LINES: LazyLock<Option<SyncSender<String>>> = LazyLock::new(start);
/// The number of lines in the queue, and of the one that is being written.
static UNWRITTEN: Mutex<usize> = Mutex::new(0);
static WRITTEN: Condvar = Condvar::new();

fn start() -> Option<SyncSender<String>> {
    let (lines, queue) = sync_channel::<String>(LINES_MAX);
    let write_all = move || {
        // A signal is for the threads that wait for it.
        let _unblocked = SigSet::all().thread_block();
        for line in queue {
            write(&line);
            *unwritten() -= 1;
            WRITTEN.notify_all();
        }
    };
    std::thread::Builder::new().spawn(write_all).ok().map(|_| lines)
}

/// Queues a line, and never waits.
pub(crate) fn queue(line: &str) {
    let Some(lines) = &*LINES else { return write(line) };
    let mut unwritten = unwritten();
    if lines.try_send(line.to_owned()).is_ok() {
        *unwritten += 1;
    }
}

/// Waits until all lines are written.
pub(crate) fn flush() {
    drop(WRITTEN.wait_timeout_while(unwritten(), WRITE_TIMEOUT, |unwritten| *unwritten > 0));
}

/// Prints a line.
pub(crate) fn print(line: &str) {
    let is_stuck = *unwritten() > 0;
    queue(line);
    if !is_stuck {
        flush();
    }
}

fn write(line: &str) {
    let line = if io::stderr().is_terminal() { for_terminal(line) } else { line.into() };
    let mut out = io::stderr().lock();
    drop(out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")));
}

/// Ignores poisoning: the number is changed in one step.
fn unwritten() -> MutexGuard<'static, usize> {
    UNWRITTEN.lock().unwrap_or_else(PoisonError::into_inner)
}
