//! The plays on the built program, with their verdicts as exit codes, and the page that their recordings render.
#![expect(
    clippy::unwrap_used,
    reason = "a harness: what does not hold is a failed test, everywhere"
)]

#[path = "../adapters/skip.rs"]
mod skip;

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use holdfast_measure::plays::{self, ALL, PlayLog, PlayRecording, ROWS, page};
use holdfast_measure::servers::ServerKind;

use crate::skip::is_here;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn compare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_measure"));
    command.stdin(Stdio::null());
    command
}

fn play(names: &[&str], path: Option<&Path>) -> Output {
    let mut command = compare();
    command.arg("play").args(names);
    if let Some(first) = path {
        let rest = std::env::var_os("PATH").unwrap();
        let all = std::iter::once(first.to_owned()).chain(std::env::split_paths(&rest));
        command.env("PATH", std::env::join_paths(all).unwrap());
    }
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_page_is_what_the_recordings_render() {
    let recordings = plays::read(&docs().join(page::RECORDINGS)).unwrap();
    let on_disk = |path: &str| std::fs::read_to_string(docs().join(path)).unwrap();
    let is_current = on_disk("questions.md") == page::markdown(&recordings);
    assert!(is_current, "renew it: scripts/demo --record docs");
    let images = page::images(&recordings);
    for (path, svg) in &images {
        assert!(&on_disk(path) == svg, "renew {path}: scripts/demo --record docs");
    }
    let drawn: BTreeSet<String> = images.into_iter().map(|(path, _)| path).collect();
    let files = std::fs::read_dir(docs().join("images/questions")).unwrap().flatten();
    let files = files.map(|file| format!("images/questions/{}", file.file_name().display()));
    assert_eq!(files.collect::<BTreeSet<_>>(), drawn);
}

#[test]
fn every_question_has_a_section_that_ran_on_every_system_within_20_seconds() {
    let recordings = plays::read(&docs().join(page::RECORDINGS)).unwrap();
    let names: Vec<&str> = recordings.iter().map(|recording| recording.play.as_str()).collect();
    assert_eq!(names, ALL.iter().map(|play| play.name).collect::<Vec<_>>());
    let page = page::markdown(&recordings);
    for (play, recording) in ALL.iter().zip(&recordings) {
        assert_eq!(page.matches(&format!("\n## {}\n", play.question)).count(), 1, "{}", play.name);
        assert!(recording.holds(), "{}", play.name);
        assert_eq!(recording.acts.len(), play.acts.len(), "{}", play.name);
        let took_ms: u64 = recording.acts.iter().map(|act| act.took_ms).sum();
        assert!(took_ms <= 20_000, "{}: {took_ms} ms", play.name);
        for act in &recording.acts {
            assert!(act.missing.is_none() && !act.steps.is_empty(), "{}", play.name);
        }
    }
}

#[test]
fn without_a_question_and_a_terminal_the_program_lists_all_of_them() {
    let output = play(&[], None);
    assert!(output.status.success());
    for play in ALL {
        assert!(text(&output).contains(play.question), "{}", text(&output));
    }
    let unknown = play(&["pauze"], None);
    assert!(!unknown.status.success());
    let error = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(error.contains("unknown question `pauze`; the questions are: pause, "), "{error}");
}

#[test]
fn fast_plays_show_what_they_claim() {
    if !is_here(ServerKind::Holdfast) {
        return;
    }
    let output = play(&["disconnect", "retry", "nested", "power"], None);
    assert!(output.status.success(), "{}", text(&output));
    assert!(!text(&output).contains("NOT SEEN"), "{}", text(&output));
    assert!(text(&output).contains("  seen: the late copy acquires nothing"), "{}", text(&output));
}

/// Writes a script that runs instead of a server.
fn wrapper(path: &Path, line: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{line}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A Redis that keeps its data on the disk is not the one that the play of a power cut claims to see, and a holdfast that
/// forgets its data has lost its holds.
#[test]
fn a_claim_that_is_not_seen_fails_the_play() {
    if !is_here(ServerKind::Redis) || !is_here(ServerKind::Holdfast) {
        return;
    }
    let bin = tempfile::tempdir().unwrap();
    let redis = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|place| place.join("redis-server"))
        .find(|file| file.is_file());
    let redis = redis.unwrap().display().to_string();
    wrapper(&bin.path().join("redis-server"), &format!("exec {redis} \"$@\" --appendonly yes"));
    let output = play(&["power"], Some(bin.path()));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("  NOT SEEN: two holders"), "{}", text(&output));
    assert!(text(&output).contains("NOT SHOWN"), "{}", text(&output));

    let program = std::env::var("HOLDFAST_BIN").unwrap_or_else(|_| {
        let compare = Path::new(env!("CARGO_BIN_EXE_measure"));
        compare.with_file_name("holdfast").display().to_string()
    });
    let forgetful = bin.path().join("forgetful");
    wrapper(&forgetful, &format!("rm -rf \"$PWD/data\"\nexec {program} \"$@\""));
    let output = compare().args(["play", "power"]).env("HOLDFAST_BIN", forgetful).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    for claim in ["holders, modes, tokens", "the holder renews", "the waiter repeats"] {
        assert!(text(&output).contains(&format!("NOT SEEN: {claim}")), "{}", text(&output));
    }
}

#[test]
fn on_a_terminal_the_list_is_a_menu() {
    let program = env!("CARGO_BIN_EXE_measure");
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &format!("{program} play"), "/dev/null"]);
    let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"pauze\n99\n\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(text(&output).matches("no such question").count(), 2, "{}", text(&output));
    assert_eq!(text(&output).matches("Number or name").count(), 3, "{}", text(&output));
}

/// The recording of one act with these verdicts, and with an end that it did not reach.
fn recording(verdicts: &[bool], failure: Option<&str>) -> PlayRecording {
    let log = PlayLog::silent();
    for holds in verdicts {
        log.verdict(*holds, "two and two are four");
    }
    let (steps, verdicts) = log.entries();
    let act = plays::ActRecording {
        system: "holdfast".into(),
        version: String::new(),
        took_ms: 0,
        steps,
        verdicts,
        missing: None,
        failure: failure.map(str::to_owned),
    };
    PlayRecording { play: "pause".into(), acts: vec![act] }
}

#[test]
fn a_play_holds_only_with_a_verdict_all_verdicts_and_its_end() {
    assert!(recording(&[true, true], None).holds());
    for (verdicts, failure) in
        [(vec![], None), (vec![true, false], None), (vec![true], Some("no reply"))]
    {
        assert!(!recording(&verdicts, failure).holds(), "{verdicts:?} {failure:?}");
    }
    let mut missing = recording(&[], None);
    missing.acts[0].missing = Some("Redis is not installed".into());
    assert!(!missing.holds(), "a play in which no act ran has shown nothing");
    missing.acts.extend(recording(&[true], None).acts);
    assert!(missing.holds() && !missing.is_complete(), "the page shows every system");
}

#[test]
fn a_row_of_the_table_is_shown_with_its_verdict_as_exit_code() {
    let show = |rows: &[&str], path: &str| {
        let path = if path.is_empty() { std::env::var("PATH").unwrap() } else { path.to_owned() };
        compare().arg("show").args(rows).env("PATH", path).output().unwrap()
    };
    let list = show(&[], "");
    assert!(list.status.success());
    assert_eq!(text(&list).lines().count(), ROWS.len(), "{}", text(&list));
    let unknown = show(&["9"], "");
    let error = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(!unknown.status.success(), "{error}");
    assert!(error.contains("unknown row `9`; the rows are: 10, 11, 15, 17, "), "{error}");
    let missing = show(&["23"], "/nowhere");
    assert_eq!(missing.status.code(), Some(1), "{}", text(&missing));
    assert!(text(&missing).contains("Redis is not installed"), "{}", text(&missing));
    if !is_here(ServerKind::Redis) {
        return;
    }
    let seen = show(&["23"], "");
    assert!(seen.status.success(), "{}", text(&seen));
    assert!(text(&seen).contains("  seen: the key that changed"), "{}", text(&seen));
}
