//! The golden scripts of `scripts/`: transcripts of commands and queries with their results.
//!
//! A line starts with `> ` for a command, `? ` for a query, and `#` for a comment. Commands separated by ` ; ` form one
//! entry. `> at N` sets the stamp of the next entries, and `> reload` dumps a snapshot and loads it. The machine wrote
//! all other lines: the test runs the commands and compares. `UPDATE_GOLDEN=1` rewrites the files. The test checks all
//! invariants after every entry.
#![expect(clippy::disallowed_methods, reason = "the scripts are files")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use holdfast_types::{Entry, Stamp};

use super::render;
use super::script_commands::{Words, multi_of};
use crate::Machine;

/// A machine and the stamp of its next entry.
struct Run {
    machine: Machine,
    stamp: Stamp,
    transcript: String,
}

#[test]
fn golden_scripts_match_the_machine() {
    let mut wrong = Vec::new();
    for path in scripts() {
        let golden = std::fs::read_to_string(&path).unwrap();
        let transcript = match run(&golden) {
            Ok(transcript) if transcript == golden => continue,
            Ok(transcript) => transcript,
            Err(broken) => {
                wrong.push(format!("{}: {broken}", path.display()));
                continue;
            }
        };
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, transcript).unwrap();
        } else {
            wrong.push(difference(&path, &golden, &transcript));
        }
    }
    assert!(wrong.is_empty(), "{}\n(UPDATE_GOLDEN=1 rewrites them)", wrong.join("\n"));
}

/// Each file covers one topic, named in a comment that quotes the guarantee.
#[test]
fn every_script_starts_with_a_comment() {
    for path in scripts() {
        let script = std::fs::read_to_string(&path).unwrap();
        assert!(script.starts_with("# "), "{} does not start with a comment", path.display());
        assert!(script.contains("\n> "), "{} has no commands", path.display());
    }
}

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut scripts: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|ext| ext == "txt")).collect();
    scripts.sort();
    assert!(scripts.len() >= 25, "only {} scripts found", scripts.len());
    scripts
}

fn difference(path: &Path, golden: &str, transcript: &str) -> String {
    let mut lines = golden.lines().zip(transcript.lines()).enumerate();
    let (number, (expected, actual)) = lines
        .find(|(_, (expected, actual))| expected != actual)
        .unwrap_or((golden.lines().count(), ("(its end)", "(more)")));
    format!("{}:{}\n  expected {expected}\n  actual   {actual}", path.display(), number + 1)
}

/// The transcript, or the first violated invariant.
fn run(golden: &str) -> Result<String, String> {
    let mut run = Run { machine: Machine::new(), stamp: Stamp(0), transcript: String::new() };
    for line in golden.lines() {
        let is_input = line.starts_with("> ") || line.starts_with("? ") || line.starts_with('#');
        if is_input || line.is_empty() {
            run.write_line(line);
        }
        if let Some(commands) = line.strip_prefix("> ") {
            run.commands(commands)?;
        } else if let Some(question) = line.strip_prefix("? ") {
            let answer = Words::of(&format!("show {question}")).show(&run.machine);
            answer.iter().for_each(|line| run.write_line(&format!("  {line}")));
        }
    }
    Ok(run.transcript)
}

impl Run {
    fn write_line(&mut self, line: &str) {
        writeln!(self.transcript, "{line}").unwrap();
    }

    fn commands(&mut self, line: &str) -> Result<(), String> {
        if let Some(stamp) = line.strip_prefix("at ") {
            self.stamp = Stamp(stamp.parse().unwrap());
        } else if line == "reload" {
            self.reload();
        } else {
            self.entry(line)?;
        }
        Ok(())
    }

    fn entry(&mut self, line: &str) -> Result<(), String> {
        let command = |line: &str| {
            let words = Words::of(line);
            let command = if line.starts_with("multi") {
                multi_of(line)
            } else {
                words.command(&self.machine)
            };
            command.once(words.call())
        };
        let commands = line.split(" ; ").map(command);
        let entry = Entry { stamped_at: self.stamp, commands: commands.collect() };
        let applied = self.machine.apply(entry);
        let first = applied.revision.0 + 1 - applied.outcomes.len() as u64;
        for (outcome, revision) in applied.outcomes.iter().zip(first..) {
            self.write_line(&format!("  r{revision} {}", render::outcome(outcome)));
            for (_, event) in applied.events.iter().filter(|(r, _)| r.0 == revision) {
                self.write_line(&format!("    ! {}", render::event(event)));
            }
        }
        self.machine.check_invariants().map_err(|broken| format!("{line}: {broken}"))
    }

    fn reload(&mut self) {
        let loaded = Machine::load(self.machine.dump()).unwrap();
        assert_eq!(loaded.state_digest(), self.machine.state_digest());
        assert_eq!(loaded.digest(), self.machine.digest());
        self.machine = loaded;
        self.write_line("  the same state");
    }
}
