//! What people and scripts read: stdout for answers, stderr for everything else.
//!
//! The first failed write to stdout is reported on stderr at once and kept, so that the command exits with 1: output that
//! does not fit on a full disk is not lost in silence. A reader that went away (`holdfast ls | head -1`) is no error.

use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::cli::Format;
use crate::exit::Stop;

/// The first write to stdout that failed.
static FAILED: OnceLock<ErrorKind> = OnceLock::new();

/// Writes an answer and a line end to stdout.
pub(crate) fn print(text: &str) {
    print_bytes(format!("{text}\n").as_bytes());
}

/// Writes bytes to stdout as they are.
pub(crate) fn print_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    note(out.write_all(bytes).and_then(|()| out.flush()));
}

/// Keeps the error of a write to stdout.
pub(crate) fn note(written: io::Result<()>) {
    let Err(error) = written else { return };
    let first = FAILED.set(error.kind()).is_ok();
    if first && error.kind() != ErrorKind::BrokenPipe {
        complain(&format!("holdfast: cannot write to stdout: {error}"));
    }
}

/// Whether everything was written.
///
/// # Errors
/// The end of a command whose output cannot be written any more: code 0 if its reader went away, else 1.
pub(crate) fn check() -> Result<(), Stop> {
    match FAILED.get() {
        None => Ok(()),
        Some(ErrorKind::BrokenPipe) => Err(Stop::Code(0, None)),
        Some(_) => Err(Stop::Code(1, None)),
    }
}

/// Writes progress or a complaint and a line end to stderr.
pub(crate) fn complain(text: &str) {
    let mut out = io::stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")));
}

/// Writes a value as one line of JSON to stdout.
pub(crate) fn print_json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => print(&text),
        Err(error) => complain(&format!("holdfast: cannot write the answer as JSON: {error}")),
    }
}

/// Writes one answer: a document, the value that matters, or what people read.
pub(crate) fn answer(
    format: Format,
    body: &impl Serialize,
    value: impl FnOnce() -> String,
    people: impl FnOnce() -> String,
) {
    match format {
        Format::Json | Format::Jsonl => print_json(body),
        Format::Value => print(&value()),
        Format::Table => print(&people()),
    }
}

/// Writes an answer of many rows: the whole as one document, a document or a value to each row, or what people read.
pub(crate) fn answer_rows<R: Serialize>(
    format: Format,
    body: &impl Serialize,
    rows: impl IntoIterator<Item = R>,
    value: impl Fn(R) -> String,
    people: impl FnOnce() -> String,
) {
    match format {
        Format::Json => print_json(body),
        Format::Jsonl => rows.into_iter().for_each(|row| print_json(&row)),
        Format::Value => rows.into_iter().for_each(|row| print(&value(row))),
        Format::Table => print(&people()),
    }
}

/// A table without lines, as wide as its text.
pub(crate) fn table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
    lines.join("\n")
}
