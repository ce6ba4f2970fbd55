//! Compares: what `scripts/compare` calls.
//!
//! Owns the order of the parts, and the end: whatever ends it, ^C included, every server that it started is stopped and
//! every file of theirs removed; rows that were written stay.

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use holdfast_comparison::progress::Progress;
use holdfast_comparison::servers::{command, group};
use holdfast_comparison::settings::{Arguments, Everything, Part, Wanted};
use holdfast_comparison::{Records, Row, Settings, failover, fairness, report, safety, workload};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell says of a program that ^C has ended.
const INTERRUPTED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    let part = Arguments::parse().part;
    if matches!(part, Part::Worker) {
        return safety::work().await;
    }
    let mut interrupts = match Interrupts::listen() {
        Ok(interrupts) => interrupts,
        Err(error) => {
            warn(&format!("cannot listen to signals: {error}"));
            return ExitCode::FAILURE;
        }
    };
    allow_connections();
    let progress = Progress::new();
    let ended = tokio::select! {
        done = act(&part, &progress) => done.map(|()| ExitCode::SUCCESS),
        why = interrupts.heard() => {
            progress.note(why);
            Ok(ExitCode::from(INTERRUPTED))
        }
    };
    progress.finish();
    ended.unwrap_or_else(|why| {
        warn(&why);
        ExitCode::FAILURE
    })
}

async fn act(part: &Part, progress: &Progress) -> Result<(), String> {
    match part {
        Part::Speed(wanted) => {
            let (settings, records) = begin(wanted)?;
            workload::run(&settings, &records, progress).await
        }
        Part::Safety(wanted) => {
            let (settings, records) = begin(wanted)?;
            safety::run(&settings, &records, progress).await
        }
        Part::Failover(wanted) => {
            let (settings, records) = begin(wanted)?;
            failover::run(&settings, &records, progress).await
        }
        Part::Fairness(wanted) => {
            let (settings, records) = begin(wanted)?;
            fairness::run(&settings, &records, progress).await
        }
        Part::Report(pages) => write_pages(&pages.out, pages.docs.as_deref()),
        Part::All(everything) => all(everything, progress).await,
        Part::Servers(action) => {
            command::run(action).await?.iter().for_each(|line| say(line));
            Ok(())
        }
        Part::Worker => Ok(()),
    }
}

async fn all(everything: &Everything, progress: &Progress) -> Result<(), String> {
    let (settings, records) = begin(&everything.wanted)?;
    workload::run(&settings, &records, progress).await?;
    fairness::run(&settings, &records, progress).await?;
    failover::run(&settings, &records, progress).await?;
    safety::run(&settings, &records, progress).await?;
    progress.finish();
    write_pages(&settings.out, everything.docs.as_deref())
}

/// Checks the command line, and writes down what begins.
fn begin(wanted: &Wanted) -> Result<(Settings, Records), String> {
    let settings = Settings::of(wanted).map_err(|error| error.to_string())?;
    let records = Records::at(&settings.out).map_err(|error| error.to_string())?;
    let plan = workload::Plan::of(&settings);
    let run = settings.run(plan.words()).map_err(|error| error.to_string())?;
    warn(&format!("repeat it with: {}", run.command));
    records.append(&Row::Run(run)).map_err(|error| error.to_string())?;
    for listed in &settings.systems {
        let about = Row::About(group::about(listed));
        records.append(&about).map_err(|error| error.to_string())?;
    }
    Ok((settings, records))
}

fn write_pages(rows: &Path, docs: Option<&Path>) -> Result<(), String> {
    let rows_read = Records::read(rows).map_err(|error| error.to_string())?;
    let pages = report::Pages::of(&rows_read);
    for directory in [Some(rows), docs].into_iter().flatten() {
        for file in
            pages.write(directory).map_err(|error| format!("{}: {error}", directory.display()))?
        {
            say(&file.display().to_string());
        }
    }
    Ok(())
}

/// What ends a run from outside. Listened to from before its first server starts: whatever comes later is heard.
struct Interrupts([Signal; 3]);

impl Interrupts {
    fn listen() -> std::io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [pressed, asked, hung_up] = kinds.map(signal);
        Ok(Self([pressed?, asked?, hung_up?]))
    }

    /// ^C, or to be asked to end; what runs is dropped then, and with it the servers.
    async fn heard(&mut self) -> &'static str {
        let [pressed, asked, hung_up] = &mut self.0;
        tokio::select! {
            _ = pressed.recv() => {}
            _ = asked.recv() => {}
            _ = hung_up.recv() => {}
        }
        "interrupted: the servers are stopped; what was measured so far can be reported on"
    }
}

/// 256 clients with five connections each are more than what most shells allow at first.
fn allow_connections() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // With fewer some clients will be refused, and their rows say so.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

#[expect(clippy::print_stdout, reason = "what the program is asked for")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "what went wrong, and what would repeat the run")]
fn warn(text: &str) {
    eprintln!("compare: {text}");
}
