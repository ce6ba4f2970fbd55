//! The commands of the column `see it` in the table of mechanisms, each in a shell of its own beside one cluster.

use std::process::{Child, Stdio};

use holdfast_lab::binary;

use crate::desk::Desk;
use crate::page;

const TABLE: &str = "docs/contributing/features.md";
/// What the page tells its readers to run first.
const PRELUDE: &str = r#"PATH=$PWD/target/release:$PATH; H=http://${HOLDFAST_ADDR%%,*}; curl() { command curl -sS "$@"; }"#;
/// How many commands run at once: some wait for the end of a time.
const AT_ONCE: usize = 6;

/// Shows a row on the servers of other systems, and fails if it does not see what the row says.
const COMPARE: &str = "scripts/compare show ";

/// A row with its command, and the text that the command prints; `None` for a play.
struct SeenRow {
    number: String,
    command: String,
    prints: Option<String>,
}

fn rows() -> Vec<SeenRow> {
    let text = page::text(TABLE);
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let (number, see) = (cells.first()?, cells.last()?);
        number.starts_with(|c: char| c.is_ascii_digit()).then_some(())?;
        let mut spans = see.strip_prefix('`')?.split('`');
        let command = spans.next()?.to_owned();
        let prints = (spans.next()? == " prints ").then(|| spans.next()).flatten();
        Some(SeenRow { number: (*number).to_owned(), command, prints: prints.map(str::to_owned) })
    };
    text.lines().filter_map(row).collect()
}

/// Starts the command of a row.
fn start(desk: &Desk, row: &SeenRow) -> Child {
    let mut bash = desk.command("bash");
    // `cargo run -q -p CRATE --example NAME -- …`, without a build.
    let examples = binary().with_file_name("examples");
    let cargo = format!(r#"cargo() {{ "{}/$6" "${{@:8}}"; }}"#, examples.display());
    bash.args(["-c", &format!("{PRELUDE}; {cargo}; {}", row.command)]);
    bash.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    bash.spawn().unwrap()
}

/// Returns `true` if no act ran, because its servers are missing.
fn is_left_out(stdout: &str) -> bool {
    stdout.contains(" is not installed; on Debian")
        && !stdout.contains("seen:")
        && !stdout.contains("SEEN:")
}

/// The objection to a row, if its command did not print the text.
fn objection(row: &SeenRow, prints: &str, running: Child) -> Option<String> {
    let output = running.wait_with_output().unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    // An act whose servers are not installed says so, and the row has nothing else.
    if row.command.starts_with(COMPARE) && !output.status.success() && is_left_out(&stdout) {
        let why =
            stdout.lines().find(|line| line.contains(" is not installed")).unwrap_or_default();
        eprintln!("SKIPPED: row {}: {why}", row.number);
        return None;
    }
    let is_seen = !row.command.starts_with(COMPARE) || output.status.success();
    (!is_seen || !stdout.contains(prints))
        .then(|| format!("row {}: no {prints} in\n{stdout}\n{stderr}", row.number))
}

#[test]
fn each_command_of_the_table_shows_its_row() {
    let (desk, questions) = (Desk::with_one_node(), page::text("docs/questions.md"));
    let rows = rows();
    assert!(rows.len() >= 80, "{} rows have a command", rows.len());
    // The rows on this cluster share sessions, which must not expire while servers of others start.
    let (others, own): (Vec<&SeenRow>, Vec<&SeenRow>) =
        rows.iter().partition(|row| row.command.starts_with(COMPARE));
    for batch in own.chunks(AT_ONCE).chain(others.chunks(AT_ONCE)) {
        let commands = batch.iter().filter_map(|row| Some((*row, row.prints.as_deref()?)));
        let running: Vec<_> =
            commands.map(|(row, prints)| (row, prints, start(&desk, row))).collect();
        let objections =
            running.into_iter().filter_map(|(row, prints, child)| objection(row, prints, child));
        let objections: Vec<String> = objections.collect();
        assert!(objections.is_empty(), "{}", objections.join("\n"));
    }
    for SeenRow { number, command, .. } in rows.iter().filter(|row| row.prints.is_none()) {
        assert!(questions.contains(&format!("`{command}`")), "row {number}: no {command}");
    }
}
