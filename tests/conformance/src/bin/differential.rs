//! Campaigns of the differential run against ZooKeeper: `differential [OPERATIONS] [SEED] [NODES]`.
//!
//! `differential play FILE [NODES]` plays one script or regression. `differential record FILE [SEED OPERATIONS]` writes
//! the replies of ZooKeeper to a file, for the script in the file or for a new one. Exit codes: 0 if all replies match, 1
//! if one differs, 3 without ZooKeeper. A difference is shrunk, printed, and written to the build directory, in the
//! format of `tests/conformance/regressions`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program: this is its output")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use holdfast_tests_conformance::{
    Failure, Generator, Pair, Recording, Target, Transcript, ZooKeeper, compare, play, print_script,
};

/// Requests of one run.
const RUN: usize = 400;
/// A campaign stops after this number of differences.
const FAILURES_MAX: usize = 10;

#[tokio::main]
async fn main() -> ExitCode {
    if let Some(why) = ZooKeeper::missing() {
        eprintln!("differential: cannot run here: {why}");
        return ExitCode::from(3);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("play") => replay(&arguments[1..]).await,
        Some("record") => record(&arguments[1..]).await.map(|()| true),
        _ => campaign(&arguments).await,
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("differential: {why}");
            ExitCode::from(2)
        }
    }
}

fn number(arguments: &[String], at: usize, default: u64) -> Result<u64, String> {
    let Some(word) = arguments.get(at) else { return Ok(default) };
    word.parse().map_err(|_| {
        format!("`{word}` is not a number; usage: differential [OPERATIONS] [SEED] [NODES]")
    })
}

async fn campaign(arguments: &[String]) -> Result<bool, String> {
    let operations = number(arguments, 0, 100_000)?;
    let (first, nodes) = (number(arguments, 1, 1)?, number(arguments, 2, 1)?);
    let mut pair = Pair::start(nodes).await;
    let began = Instant::now();
    let (mut played, mut failures) = (0, 0);
    for seed in first.. {
        if played >= operations || failures >= FAILURES_MAX {
            break;
        }
        let steps = Generator::script(seed, RUN);
        let failure = pair.failure(&steps).await.map_err(|why| format!("seed {seed}: {why}"))?;
        if let Some(failure) = failure {
            failures += 1;
            println!("\nseed {seed} differs: {:#?}\nshrinking it ...", failure.difference);
            report(seed, pair.shrink(failure).await)?;
        }
        played += u64::try_from(RUN).unwrap_or(u64::MAX);
        if seed % 25 == 0 {
            println!(
                "{played} operations, {failures} differences, {} s",
                began.elapsed().as_secs()
            );
        }
    }
    println!(
        "{played} operations from seed {first} on {nodes} nodes in {} s: {failures} differences",
        began.elapsed().as_secs()
    );
    Ok(failures == 0)
}

fn report(seed: u64, failure: Failure) -> Result<(), String> {
    let Failure { mut recording, difference } = failure;
    println!("\n== seed {seed}: {}\n{}", difference.what, print_script(&recording.steps));
    println!("ZooKeeper:\n  {}", difference.expected.join("\n  "));
    println!("holdfast:\n  {}", difference.found.join("\n  "));
    recording.about = format!("Seed {seed}: {}.\n", difference.what);
    let folder = folder();
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let file = folder.join(format!("seed-{seed}.txt"));
    std::fs::write(&file, recording.print()).map_err(|error| error.to_string())?;
    println!("kept as {}", file.display());
    Ok(())
}

fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target =
        target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    target.join("conformance/differential")
}

async fn record(arguments: &[String]) -> Result<(), String> {
    let file = arguments.first().ok_or("usage: differential record FILE [SEED OPERATIONS]")?;
    let mut recording = if let Ok(text) = std::fs::read_to_string(file) {
        Recording::parse(&text)?
    } else {
        let (seed, requests) = (number(arguments, 1, 1)?, number(arguments, 2, 100)?);
        let about = format!("Seed {seed}, {requests} operations.\n");
        let steps = Generator::script(seed, usize::try_from(requests).unwrap_or(100));
        Recording { about, steps, transcript: Transcript::new() }
    };
    let zookeeper = ZooKeeper::start().await;
    let target = Target { nodes: vec![zookeeper.address()] };
    recording.transcript = play(&target, "/run1", &recording.steps).await?;
    std::fs::write(file, recording.print()).map_err(|error| format!("{file}: {error}"))
}

async fn replay(arguments: &[String]) -> Result<bool, String> {
    let file = arguments.first().ok_or("usage: differential play FILE [NODES]")?;
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let recording = Recording::parse(&text)?;
    let mut pair = Pair::start(number(arguments, 1, 1)?).await;
    let (theirs, ours) = pair.play(&recording.steps).await?;
    let differs = compare(&recording.steps, &theirs, &ours);
    for (at, step) in recording.steps.iter().enumerate() {
        println!("> {step}");
        theirs[at].iter().for_each(|line| println!("  {line}"));
        if differs.as_ref().is_some_and(|difference| difference.step == at) {
            ours[at].iter().for_each(|line| println!("! {line}"));
        }
    }
    if let Some(difference) = &differs {
        println!("differs: {}", difference.what);
    }
    Ok(differs.is_none())
}
