//! What people and scripts read: stdout for answers, stderr for everything else.
//!
//! A reader that went away (`holdfast ls | head -1`) is no error, so nothing here panics or fails.

use std::io::Write;

use comfy_table::{ContentArrangement, Table, presets};

/// Writes an answer and a line end to stdout.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(
        out.write_all(text.as_bytes())
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush()),
    );
}

/// Writes progress or a complaint and a line end to stderr.
pub(crate) fn complain(text: &str) {
    let mut out = std::io::stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")));
}

/// Writes a value as one line of JSON to stdout.
pub(crate) fn print_json(value: &impl serde::Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => print(&text),
        Err(error) => complain(&format!("holdfast: cannot write the answer as JSON: {error}")),
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
