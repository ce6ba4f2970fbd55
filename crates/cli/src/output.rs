//! Output: results on stdout, everything else on stderr.
//!
//! The first failed write to stdout is reported on stderr and sets exit code 1, so a full disk does not lose output
//! silently. A closed pipe (`holdfast ls | head -1`) is not an error, except for a result that must be complete.
//!
//! One thread writes to stderr, so that a reader that does not read (a full pipe, a terminal after ^S) never keeps a command
//! from renewing a lock, killing its program, or ending. Bounds: `LINES_MAX` lines wait; the queue drops further lines. A
//! caller waits for its line at most `WRITE_TIMEOUT`, and not at all while an earlier line is unwritten.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use nix::sys::signal::SigSet;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::arguments::Format;
use crate::exit::CommandFailure;
use crate::terminal_text::{self, data_for_terminal, for_terminal};

/// The narrowest terminal for which tables and the help wrap.
const WIDTH_MIN: u16 = 40;
/// The kind of the first failed write to stdout.
static FAILED: OnceLock<ErrorKind> = OnceLock::new();

/// The maximum number of lines that wait for stderr.
const LINES_MAX: usize = 64;
const WRITE_TIMEOUT: Duration = Duration::from_millis(200);

/// The queue of the thread that writes to stderr; `None` if the system has no thread for it.
static LINES: LazyLock<Option<SyncSender<String>>> = LazyLock::new(start_stderr_thread);
/// The number of lines in the queue, and of the one that is being written.
static UNWRITTEN: Mutex<usize> = Mutex::new(0);
static WRITTEN: Condvar = Condvar::new();

/// Prints a result and a line end on stdout.
pub fn print(text: &str) {
    let text = if io::stdout().is_terminal() { for_terminal(text) } else { text.into() };
    print_bytes(format!("{text}\n").as_bytes());
}

/// Prints the data of a client: as it is, or visible on a terminal.
pub(crate) fn print_data(data: &[u8]) {
    if io::stdout().is_terminal() {
        print_bytes(data_for_terminal(data).as_bytes());
    } else {
        print_bytes(data);
    }
}

pub fn print_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    record_write_error(out.write_all(bytes).and_then(|()| out.flush()));
}

/// Records the first error of a write to stdout, and reports it on stderr.
pub fn record_write_error(written: io::Result<()>) {
    let Err(error) = written else { return };
    let first = FAILED.set(error.kind()).is_ok();
    if first && error.kind() != ErrorKind::BrokenPipe {
        write_stderr(&format!("holdfast: cannot write to stdout: {error}"));
    }
}

/// Checks that all output was written.
///
/// # Errors
/// Exit code 0 if the pipe was closed, otherwise 1.
pub fn check() -> Result<(), CommandFailure> {
    match FAILED.get() {
        None => Ok(()),
        Some(ErrorKind::BrokenPipe) => Err(CommandFailure::Code(0, None)),
        Some(_) => Err(CommandFailure::Code(1, None)),
    }
}

/// Checks that all output was written to its end, for a result that is useless in part: a backup, data, a secret.
///
/// # Errors
/// Exit code 1, also if the pipe was closed.
pub fn check_complete() -> Result<(), CommandFailure> {
    match FAILED.get() {
        Some(ErrorKind::BrokenPipe) => Err(CommandFailure::failed(
            "the output is incomplete: the reader of stdout closed the pipe before the end",
        )),
        None | Some(_) => check(),
    }
}

/// Prints in another thread: a reader of stdout that does not read must not keep this one from renewing. Resolves with
/// whether all was written.
pub(crate) fn print_in_thread(print: impl FnOnce() + Send + 'static) -> oneshot::Receiver<bool> {
    let (printed, printing) = oneshot::channel();
    let thread = std::thread::Builder::new().spawn(move || {
        print();
        let _ended = printed.send(check().is_ok());
    });
    // If the system has no thread, the sender is gone, and so the result is not printed.
    drop(thread);
    printing
}

/// Prints text for people. Its colors are removed if `NO_COLOR` is set or stdout is not a terminal.
fn print_text(text: &str) {
    let text = if io::stdout().is_terminal() { for_terminal(text) } else { text.into() };
    let mut out = anstream::AutoStream::auto(io::stdout()).lock();
    record_write_error(writeln!(out, "{text}").and_then(|()| out.flush()));
}

/// Prints progress or an error and a line end on stderr. A reader that does not read delays the caller by 200 ms, once.
pub fn write_stderr(text: &str) {
    let is_stuck = *unwritten() > 0;
    queue_stderr(text);
    if !is_stuck {
        flush_stderr();
    }
}

/// Queues a line for stderr, and never waits.
pub(crate) fn queue_stderr(line: &str) {
    let Some(lines) = &*LINES else { return write_line(line) };
    let mut unwritten = unwritten();
    if lines.try_send(line.to_owned()).is_ok() {
        *unwritten += 1;
    }
}

/// Waits until all lines are written on stderr.
pub(crate) fn flush_stderr() {
    drop(WRITTEN.wait_timeout_while(unwritten(), WRITE_TIMEOUT, |unwritten| *unwritten > 0));
}

fn start_stderr_thread() -> Option<SyncSender<String>> {
    let (lines, queue) = sync_channel::<String>(LINES_MAX);
    let write_all = move || {
        // A signal is for the threads that wait for it.
        let _unblocked = SigSet::all().thread_block();
        for line in queue {
            write_line(&line);
            *unwritten() -= 1;
            WRITTEN.notify_all();
        }
    };
    std::thread::Builder::new().spawn(write_all).ok().map(|_| lines)
}

fn write_line(line: &str) {
    let line = if io::stderr().is_terminal() { for_terminal(line) } else { line.into() };
    let mut out = io::stderr().lock();
    drop(out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")));
}

/// Ignores poisoning: the number is changed in one step.
fn unwritten() -> MutexGuard<'static, usize> {
    UNWRITTEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn print_json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => print(&text),
        Err(error) => write_stderr(&format!("holdfast: cannot write the answer as JSON: {error}")),
    }
}

/// Prints a result: the JSON document, the most important value, or text.
pub fn answer(format: Format, body: &impl Serialize, value: impl Display, text: &str) {
    answer_rows(format, body, [body], [value], text);
}

/// Prints a result with several rows: one JSON document, one document or value for each row, or text.
pub fn answer_rows<R: Serialize, V: Display>(
    format: Format,
    body: &impl Serialize,
    rows: impl IntoIterator<Item = R>,
    values: impl IntoIterator<Item = V>,
    text: &str,
) {
    match format {
        Format::Json => print_json(body),
        Format::Jsonl => rows.into_iter().for_each(|row| print_json(&row)),
        Format::Value => values.into_iter().for_each(|value| print(&value.to_string())),
        Format::Table => print_text(text),
    }
}

/// The columns of the terminal, at least `WIDTH_MIN`; `None` if stdout is not a terminal.
pub fn terminal_width() -> Option<u16> {
    let (columns, _) = io::stdout().is_terminal().then(crossterm::terminal::size)?.ok()?;
    Some(columns.max(WIDTH_MIN))
}

/// Formats a table without borders, as wide as its text. On a terminal, long cells wrap at its width, between words: a
/// broken id could not be copied.
pub fn table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    table_within(terminal_width(), header, rows)
}

fn table_within<const COLUMNS: usize>(
    width: Option<u16>,
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.set_header(header);
    let mut longest = header.map(longest_word);
    for row in rows {
        for (longest, cell) in longest.iter_mut().zip(&row) {
            *longest = (*longest).max(longest_word(cell));
        }
        table.add_row(row);
    }
    for (column, longest) in table.column_iter_mut().zip(longest) {
        let padding = column.padding_width();
        let width = u16::try_from(longest).unwrap_or(u16::MAX).saturating_add(padding);
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// The columns of the longest word of a cell.
fn longest_word(cell: impl AsRef<str>) -> usize {
    cell.as_ref().split_whitespace().map(terminal_text::width).max().unwrap_or(0)
}

/// Formats a table, or returns `empty` if it has no rows.
pub fn table_or<const COLUMNS: usize>(
    empty: &str,
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() { empty.to_owned() } else { table(header, rows) }
}

/// Formats a table of names and values.
pub fn facts<'f>(header: [&str; 2], rows: impl IntoIterator<Item = (&'f str, String)>) -> String {
    table(header, rows.into_iter().map(|(name, value)| [name.to_owned(), value]))
}

/// Formats the cell of a table: a dash for an absent or empty value.
pub fn cell(value: Option<impl Display>) -> String {
    let text = value.map(|value| value.to_string()).unwrap_or_default();
    if text.is_empty() { "-".to_owned() } else { text }
}

/// The line below a list that shows only the first items; empty if the list is complete.
pub fn more(total: usize, listed: usize) -> String {
    match total.saturating_sub(listed) {
        0 => String::new(),
        more => format!("\nand {more} more"),
    }
}

/// Formats a time: `812ms`, `12s`, `4m12s`, `3h5m`, `2d4h`.
pub fn short_time(ms: u64) -> String {
    let seconds = Duration::from_millis(ms).as_secs();
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_not_broken_on_a_narrow_terminal() {
        let id = "vm-28296-3e6836c3520177d0";
        let row = ["2026-11-26T18:16:38Z (6m16s ago)", id, "released", id].map(str::to_owned);
        let table = table_within(Some(60), ["since", "session", "cause", "owner"], [row]);
        for word in [id, "2026-11-26T18:16:38Z", "released"] {
            assert!(table.split_whitespace().any(|shown| shown == word), "{table}");
        }
    }

    #[test]
    fn a_table_wraps_long_cells_at_the_width_of_the_terminal() {
        let found = "1 of 3 members are in --addr, so a command fails while that node is down";
        let rows = || [["warn".to_owned(), "members".to_owned(), found.to_owned()]];
        let header = ["", "check", "found"];
        assert_eq!(table_within(None, header, rows()).lines().count(), 2);
        let narrow = table_within(Some(50), header, rows());
        assert!(narrow.lines().all(|line| terminal_text::width(line) <= 50), "{narrow}");
        assert!(
            narrow
                .split_whitespace()
                .eq("check found warn members".split_whitespace().chain(found.split_whitespace())),
            "{narrow}"
        );
    }

    #[test]
    fn times_are_short() {
        for (ms, text) in [
            (0, "0ms"),
            (812, "812ms"),
            (12_000, "12s"),
            (252_000, "4m12s"),
            (11_100_000, "3h5m"),
            (187_200_000, "2d4h"),
        ] {
            assert_eq!(short_time(ms), text);
        }
    }
}
