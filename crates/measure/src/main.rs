//! The program behind `scripts/bench`, `scripts/compare` and `scripts/demo`.
//!
//! At any end, including ^C, it stops every server that it started and removes their files; rows stay.

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use holdfast_cli::exit::CommandFailure;
use holdfast_measure::catalogue::{BASELINE, named};
use holdfast_measure::failover::FailoverCause;
use holdfast_measure::progress::Progress;
use holdfast_measure::record::SystemInfo;
use holdfast_measure::servers::{GivenRedis, ServerKind, command};
use holdfast_measure::settings::{
    MeasureArguments, MeasureCommand, RunArguments, SectionArguments,
};
use holdfast_measure::workload::SpeedPlan;
use holdfast_measure::writers::WritersPlan;
use holdfast_measure::{
    Records, Row, Settings, bench, failover, fairness, nodes, plays, report, safety, workload,
    writers,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

/// The exit code of shells for a program ended by ^C.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let command = MeasureArguments::parse().command;
    let mut runtime = if matches!(command, MeasureCommand::Stage(_)) {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    if let MeasureCommand::Bench(arguments) = &command {
        runtime.worker_threads(usize::try_from(arguments.threads()).unwrap_or(1));
    }
    match runtime.enable_all().build() {
        Ok(runtime) => runtime.block_on(run_to_end(command)),
        Err(error) => {
            warn(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

async fn run_to_end(command: MeasureCommand) -> ExitCode {
    if matches!(command, MeasureCommand::Worker) {
        return safety::worker::run().await;
    }
    // The handlers precede the first server.
    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = signals.map(signal) else {
        warn("cannot install signal handlers");
        return ExitCode::FAILURE;
    };
    allow_connections();
    let progress = Progress::new();
    // Dropping the run stops its servers.
    let done = tokio::select! {
        done = run(&command, &progress) => done,
        _ = interrupt.recv() => Ok(ExitCode::from(INTERRUPTED)),
        _ = terminate.recv() => Ok(ExitCode::from(INTERRUPTED)),
        _ = hangup.recv() => Ok(ExitCode::from(INTERRUPTED)),
    };
    progress.finish();
    done.unwrap_or_else(|error| {
        warn(&error);
        ExitCode::FAILURE
    })
}

async fn run(command: &MeasureCommand, progress: &Progress) -> Result<ExitCode, String> {
    match command {
        MeasureCommand::Bench(arguments) => {
            progress.finish();
            return Ok(exit_code(bench::run(arguments).await));
        }
        MeasureCommand::Stages(arguments) => {
            progress.finish();
            return Ok(exit_code(bench::stages::run(arguments).await));
        }
        MeasureCommand::Stage(arguments) => {
            progress.finish();
            bench::stages::run_stage(arguments).await?;
        }
        MeasureCommand::Speed(arguments) => {
            let (settings, records) = begin(arguments).await?;
            workload::run(&settings, &records, progress).await?;
            say_where(&settings, progress);
        }
        MeasureCommand::Safety(arguments) => {
            let (settings, records) = begin(own_servers(arguments)?).await?;
            safety::run(&settings, &records, progress).await?;
        }
        MeasureCommand::Failover(arguments) => {
            let (settings, records) = begin(own_servers(&arguments.run)?).await?;
            let rows =
                failover::run(&settings, arguments.trials, arguments.loss, &records, progress)
                    .await?;
            progress.finish();
            say(&failover::text(&rows));
        }
        MeasureCommand::Fairness(arguments) => {
            let (settings, records) = begin(arguments).await?;
            fairness::run(&settings, &records, progress).await?;
            say_where(&settings, progress);
        }
        MeasureCommand::Writers(arguments) => measure_writers(arguments, progress).await?,
        MeasureCommand::Nodes(arguments) => measure_nodes(arguments, progress).await?,
        MeasureCommand::All(arguments) => {
            let (settings, records) = begin(own_servers(&arguments.run)?).await?;
            workload::run(&settings, &records, progress).await?;
            fairness::run(&settings, &records, progress).await?;
            failover::run(&settings, None, FailoverCause::Kill, &records, progress).await?;
            safety::run(&settings, &records, progress).await?;
            let writers =
                Settings::of_writers(&arguments.run).map_err(|error| error.to_string())?;
            writers::run(&writers, &records, progress).await?;
            nodes::run(&settings, &records, progress).await?;
            progress.finish();
            write_report(&settings.out, arguments.docs.as_deref())?;
        }
        MeasureCommand::Report(arguments) => {
            write_report(&arguments.out, arguments.docs.as_deref())?;
        }
        MeasureCommand::Servers(command) => {
            command::run(command).await?.iter().for_each(|line| say(line));
        }
        MeasureCommand::Play(arguments) => {
            progress.finish();
            return Ok(shown(plays::menu::run(arguments).await?));
        }
        MeasureCommand::Show(arguments) => {
            progress.finish();
            return Ok(shown(plays::menu::show(arguments).await?));
        }
        MeasureCommand::Acquire { url } => plays::caller::acquire_once(url).await?,
        MeasureCommand::Worker => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures writers of one value, and prints the section.
async fn measure_writers(arguments: &SectionArguments, progress: &Progress) -> Result<(), String> {
    let settings = Settings::of_writers(&arguments.run).map_err(|error| error.to_string())?;
    let plan = WritersPlan::of(&settings).describe();
    let (records, mut rows) = begin_with(&settings, plan).await?;
    rows.extend(writers::run(&settings, &records, progress).await?);
    progress.finish();
    write_section(&report::Section::writers(&rows), arguments.docs.as_deref())
}

/// Measures clusters of each size, and prints the section.
async fn measure_nodes(arguments: &SectionArguments, progress: &Progress) -> Result<(), String> {
    let mut settings = Settings::of(&arguments.run).map_err(|error| error.to_string())?;
    settings.systems = named(BASELINE).into_iter().collect();
    let plan = nodes::describe(&settings);
    let (records, mut rows) = begin_with(&settings, plan).await?;
    rows.extend(nodes::run(&settings, &records, progress).await?);
    progress.finish();
    write_section(&report::Section::nodes(&rows), arguments.docs.as_deref())
}

fn exit_code(result: Result<(), CommandFailure>) -> ExitCode {
    let Err(failure) = result else { return ExitCode::SUCCESS };
    warn(&failure.to_string());
    failure.code()
}

fn shown(is_shown: bool) -> ExitCode {
    if is_shown { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Rejects servers that somebody else runs: this measurement kills its servers.
fn own_servers(arguments: &RunArguments) -> Result<&RunArguments, String> {
    if arguments.redis.is_empty() {
        return Ok(arguments);
    }
    Err("--redis: `safety` and `failover`, and `all` with them, kill and restart their servers, so they start own ones; with \
         --redis run `speed`, `fairness` or `writers`"
        .to_owned())
}

/// Checks the arguments and writes the first rows.
async fn begin(arguments: &RunArguments) -> Result<(Settings, Records), String> {
    let settings = Settings::of(arguments).map_err(|error| error.to_string())?;
    let (records, _) = begin_with(&settings, SpeedPlan::of(&settings).describe()).await?;
    Ok((settings, records))
}

/// Writes the first rows of a run, and returns them.
async fn begin_with(
    settings: &Settings,
    plan: Vec<(String, String)>,
) -> Result<(Records, Vec<Row>), String> {
    let records = Records::at(&settings.out).map_err(|error| error.to_string())?;
    let info = settings.info(plan).map_err(|error| error.to_string())?;
    let is_of_other = |row: &Row| matches!(row, Row::Run(run) if run.commit != info.commit);
    if Records::read(&settings.out).is_ok_and(|rows| rows.iter().any(is_of_other)) {
        let out = settings.out.display();
        return Err(format!("{out} has rows of another build: give another directory with --out"));
    }
    warn(&format!("repeat it with: {}", info.command));
    let given = match settings.redis.as_slice() {
        [] => None,
        urls => Some(GivenRedis::of(urls).await?),
    };
    let systems = settings.systems.iter().map(|system| {
        let given = given.as_ref().filter(|_| system.kind == ServerKind::Redis);
        let of_own = || SystemInfo::of(system);
        Row::System(given.map_or_else(of_own, |given| SystemInfo::given(system, given)))
    });
    let rows: Vec<Row> = std::iter::once(Row::Run(info)).chain(systems).collect();
    for row in &rows {
        records.append(row).map_err(|error| error.to_string())?;
    }
    Ok((records, rows))
}

/// Prints a section of the report, and replaces it in the page of this directory.
fn write_section(section: &report::Section, docs: Option<&Path>) -> Result<(), String> {
    say(&section.markdown());
    let Some(docs) = docs else { return Ok(()) };
    let written = section.write(docs);
    let written = written.map_err(|error| format!("{}: {error}", docs.display()))?;
    for file in &written {
        say(&file.display().to_string());
    }
    Ok(())
}

fn write_report(rows: &Path, docs: Option<&Path>) -> Result<(), String> {
    let report = report::Report::of(&Records::read(rows).map_err(|error| error.to_string())?);
    for directory in [Some(rows), docs].into_iter().flatten() {
        let written = report.write(directory);
        let written = written.map_err(|error| format!("{}: {error}", directory.display()))?;
        for file in &written {
            say(&file.display().to_string());
        }
    }
    Ok(())
}

/// Raises the limit of open files: 256 clients with five connections exceed the default of most shells.
fn allow_connections() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // With a lower limit some clients fail, and their rows contain the error.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn say_where(settings: &Settings, progress: &Progress) {
    progress.finish();
    let out = settings.out.display();
    say(&format!("the rows are in {out}: measure report --out {out} shows them"));
}

#[expect(clippy::print_stdout, reason = "the program's output")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "errors, and the command that repeats the run")]
fn warn(text: &str) {
    eprintln!("measure: {text}");
}
