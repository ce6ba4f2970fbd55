//! `clients --language NAME --adapter COMMAND`: plays the scenarios with one adapter, runs the programs of the pages in
//! this language, and prints the results.
//!
//! `scripts/clients` builds the adapters and calls it. Exit codes: 0 passed, 1 a scenario failed, 2 a usage error.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use holdfast_lab::Cluster;
use holdfast_tests_clients::api_description::ApiDescription;
use holdfast_tests_clients::names::{self, NameTable};
use holdfast_tests_clients::rejections;
use holdfast_tests_clients::scenario::{self, ScenarioFile};
use holdfast_tests_clients::suite::{self, Matrix, Played, ScenarioResult};
use holdfast_tests_clients::{program_run, programs};

/// Plays the scenarios of client libraries with one adapter.
#[derive(Debug, Parser)]
struct Arguments {
    /// The command of the adapter, for the shell.
    #[arg(long)]
    adapter: String,
    /// The column of the matrix.
    #[arg(long, default_value = "other")]
    language: String,
    /// Only scenarios with this text in their names, and programs of pages with it in their paths; repeatable.
    #[arg(long)]
    scenario: Vec<String>,
    /// Only the quick scenarios.
    #[arg(long)]
    quick: bool,
    /// Only the names, the defaults and the errors of the library.
    #[arg(long, conflicts_with = "scenario")]
    names: bool,
    /// Scenarios at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Adds the results to this JSON file, and writes the page beside it from all results.
    #[arg(long, requires = "page")]
    results: Option<PathBuf>,
    /// The page of the matrix.
    #[arg(long)]
    page: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            write(&format!("clients: {reason}\n"));
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: &Arguments) -> Result<bool, String> {
    let all = scenario::all()?;
    let is_named = |name: &str| {
        let texts = &arguments.scenario;
        texts.is_empty() || texts.iter().any(|text| name.contains(text.as_str()))
    };
    let is_chosen =
        |file: &&ScenarioFile| is_named(&file.id) && (!arguments.quick || file.scenario.quick);
    let chosen: Vec<ScenarioFile> = all.iter().filter(is_chosen).cloned().collect();
    let mut programs = programs::all()?;
    programs.retain(|program| {
        program.language.names().0 == arguments.language && is_named(&program.place)
    });
    if chosen.is_empty() && programs.is_empty() {
        return Err("no scenario and no page has this name".to_owned());
    }
    let is_agreed = !arguments.scenario.is_empty() || check_names(arguments).await?;
    if arguments.names {
        return Ok(is_agreed);
    }
    let began = std::time::Instant::now();
    let played = suite::play_all(&chosen, &arguments.adapter, arguments.jobs, report).await;
    let is_passed = summarize(&format!("{}, scenarios", arguments.language), &played, began);
    let (began, mut ran) = (std::time::Instant::now(), Vec::new());
    let rust_programs = std::env::current_exe().map_err(|error| error.to_string())?;
    for program in &programs {
        ran.push(program_run::run(program, &rust_programs.with_file_name("page-programs")).await);
        ran.last().into_iter().for_each(report);
    }
    let is_as_shown = summarize(&format!("{}, programs of pages", arguments.language), &ran, began);
    if let (Some(results), Some(page)) = (&arguments.results, &arguments.page) {
        let text = std::fs::read_to_string(results).unwrap_or_else(|_| "{}".to_owned());
        let mut matrix: Matrix = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let column = matrix.entry(arguments.language.clone()).or_default();
        column.extend(played.into_iter().map(|played| (played.id, played.result)));
        let text = serde_json::to_string_pretty(&matrix).map_err(|error| error.to_string())?;
        std::fs::write(results, text + "\n").map_err(|error| error.to_string())?;
        std::fs::write(page, suite::page(&all, &matrix)).map_err(|error| error.to_string())?;
    }
    Ok(is_passed && is_as_shown && is_agreed)
}

/// Prints the numbers of the results. Returns `false` if one failed.
fn summarize(what: &str, played: &[Played], began: std::time::Instant) -> bool {
    let count = |is: fn(&ScenarioResult) -> bool| played.iter().filter(|p| is(&p.result)).count();
    let failed = count(|result| matches!(result, ScenarioResult::Failed(_)));
    write(&format!(
        "{what}: {} passed, {failed} failed, {} unsupported in {} s\n",
        count(|result| *result == ScenarioResult::Passed),
        count(|result| matches!(result, ScenarioResult::Unsupported(_))),
        began.elapsed().as_secs()
    ));
    failed == 0
}

/// Compares the names, the defaults and the errors of a library with the table. Prints the differences.
async fn check_names(arguments: &Arguments) -> Result<bool, String> {
    let table = NameTable::read()?;
    if !table.languages.contains_key(&arguments.language) {
        return Ok(true);
    }
    let cluster = Cluster::of(1).start().await;
    let api = ApiDescription::read(cluster.nodes()[0].http.base()).await?;
    let found = names::describe(&arguments.adapter).await?;
    let mut differences = table.differences(&arguments.language, &found)?;
    differences.extend(rejections::differences(&table, &api, &arguments.adapter).await?);
    let word = if differences.is_empty() { "pass" } else { "FAIL" };
    write(&format!("{word}         names and errors\n"));
    for difference in &differences {
        write(&format!("    {difference}\n"));
    }
    Ok(differences.is_empty())
}

fn report(played: &Played) {
    let seconds = played.took.as_secs_f64();
    let line = match &played.result {
        ScenarioResult::Passed => format!("pass {seconds:5.1} s  {}\n", played.id),
        ScenarioResult::Unsupported(what) => {
            format!("-    {seconds:5.1} s  {}: {what}\n", played.id)
        }
        ScenarioResult::Failed(reason) => {
            format!("FAIL {seconds:5.1} s  {}\n    {reason}\n", played.id)
        }
    };
    write(&line);
}

fn write(text: &str) {
    let mut out = std::io::stdout();
    // A reader that has gone away is no reason to stop the scenarios.
    drop(out.write_all(text.as_bytes()));
    if !out.is_terminal() {
        drop(out.flush());
    }
}
