//! The commands `play` and `show`. `show` shows rows of the table of mechanisms; `play` plays the named questions, or lists all of them, as a menu on a terminal.
//!
//! With `--record` it also keeps what was seen and renders the page. It records no play with a missing server or with
//! a claim that was not seen.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::sync::oneshot;

use super::{ALL, Play, PlayRecording, ROWS, named, page};

/// Stands for all questions.
const EVERY: &str = "all";

#[derive(Clone, Debug, Args)]
pub struct PlayArguments {
    /// The questions to play, or `all`. Without a question: a menu on a terminal, and the list elsewhere.
    #[arg(value_name = "QUESTION")]
    pub questions: Vec<String>,
    /// Keep what was seen in DIR/questions.json, and render DIR/questions.md from all recordings.
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct ShowArguments {
    /// The numbers of the rows in `docs/contributing/features.md`, or `all`.
    #[arg(value_name = "ROW")]
    pub rows: Vec<String>,
}

/// Shows rows of the table of mechanisms; returns `true` if each was seen.
///
/// # Errors
/// An unknown row.
pub async fn show(arguments: &ShowArguments) -> Result<bool, String> {
    let rows = chosen(&arguments.rows, ROWS, "row")?;
    if rows.is_empty() {
        let line = |row: &Play| format!("{:>3}  {}", row.name, row.question);
        for row in ROWS {
            say(&line(row));
        }
    }
    let mut all_hold = true;
    for row in rows {
        all_hold &= row.perform(say).await.holds();
        say("");
    }
    Ok(all_hold)
}

/// Returns `true` if every play showed what it claims.
///
/// # Errors
/// An unknown question, or a page that cannot be written.
pub async fn run(arguments: &PlayArguments) -> Result<bool, String> {
    let plays = chosen(&arguments.questions, ALL, "question")?;
    if plays.is_empty() && arguments.record.is_none() {
        say(&list());
        return Ok(!std::io::stdin().is_terminal() || ask().await);
    }
    let (mut all_hold, mut recordings) = (true, Vec::new());
    for play in plays {
        let recording = play.perform(say).await;
        say("");
        all_hold &= recording.holds();
        recordings.push(recording);
    }
    if let Some(directory) = &arguments.record {
        record(directory, recordings)?;
    }
    Ok(all_hold)
}

fn chosen(
    names: &[String],
    all: &'static [Play],
    what: &str,
) -> Result<Vec<&'static Play>, String> {
    if names.iter().any(|name| name == EVERY) {
        return Ok(all.iter().collect());
    }
    let known = || all.iter().map(|play| play.name).collect::<Vec<_>>().join(", ");
    let unknown = |name: &String| format!("unknown {what} `{name}`; the {what}s are: {}", known());
    let find = |name: &String| all.iter().find(|play| play.name == name);
    names.iter().map(|name| find(name).ok_or_else(|| unknown(name))).collect()
}

/// One line for each question.
fn list() -> String {
    let line =
        |(at, play): (usize, &Play)| format!("{:>3}  {:<12}{}", at + 1, play.name, play.question);
    let lines: Vec<String> = ALL.iter().enumerate().map(line).collect();
    format!(
        "{}\n\n`scripts/demo NAME` plays one of them on real servers, `scripts/demo all` all.",
        lines.join("\n")
    )
}

/// Plays what a person chooses by number or name, until an empty line.
async fn ask() -> bool {
    let mut all_hold = true;
    loop {
        say("\nNumber or name (empty: end):");
        let Some(line) = read_line().await else { return all_hold };
        let choice = line.trim();
        if choice.is_empty() {
            return all_hold;
        }
        let number = choice.parse::<usize>().ok();
        let by_number = number.and_then(|number| ALL.get(number.checked_sub(1)?));
        match by_number.or_else(|| named(choice)) {
            Some(play) => all_hold &= play.perform(say).await.holds(),
            None => say("no such question"),
        }
    }
}

/// Reads a line in a thread of its own, so that ^C ends the program meanwhile. `None` at the end of the input.
async fn read_line() -> Option<String> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        if read.is_ok_and(|len| len > 0) {
            // The program may have ended.
            drop(sender.send(line));
        }
    });
    receiver.await.ok()
}

/// Replaces the recordings of the plays that hold on every system, and renders the page.
fn record(directory: &Path, recordings: Vec<PlayRecording>) -> Result<(), String> {
    let file = directory.join(page::RECORDINGS);
    let mut all = if file.is_file() { super::read(&file)? } else { Vec::new() };
    let (complete, incomplete): (Vec<_>, Vec<_>) =
        recordings.into_iter().partition(PlayRecording::is_complete);
    for recording in complete {
        all.retain(|old| old.play != recording.play);
        all.push(recording);
    }
    all.sort_by_key(|recording| ALL.iter().position(|play| play.name == recording.play));
    let json = serde_json::to_string_pretty(&all).map_err(|error| error.to_string())?;
    std::fs::write(&file, json + "\n").map_err(|error| format!("{}: {error}", file.display()))?;
    page::write(&all, directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let names: Vec<&str> = incomplete.iter().map(|recording| recording.play.as_str()).collect();
    if names.is_empty() { Ok(()) } else { Err(format!("not recorded: {}", names.join(", "))) }
}

/// Prints a line. A closed output does not end a play: its servers are stopped at its end.
fn say(text: &str) {
    let _closed = writeln!(std::io::stdout(), "{text}");
}
