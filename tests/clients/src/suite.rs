//! Plays many scenarios, some at a time, and collects their results.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream;
use serde::{Deserialize, Serialize};

use crate::play::{Failure, play};
use crate::scenario::ScenarioFile;

/// A scenario that takes longer has failed.
const SCENARIO_TIME: Duration = Duration::from_mins(3);

/// The result of one scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScenarioResult {
    /// Everything was as expected.
    Passed,
    /// The client lacks this call or option.
    Unsupported(String),
    /// What was wrong.
    Failed(String),
}

/// A scenario with its result.
#[derive(Clone, Debug)]
pub struct Played {
    /// The short name of the scenario.
    pub id: String,
    /// The result.
    pub result: ScenarioResult,
    /// How long it took.
    pub took: Duration,
}

/// Plays scenarios, `jobs` at a time; `report` gets each result at once. The results have the order of the scenarios.
pub async fn play_all(
    scenarios: &[ScenarioFile],
    command: &str,
    jobs: usize,
    report: impl Fn(&Played),
) -> Vec<Played> {
    let plays = scenarios.iter().map(|file| play_one(file, command));
    let mut plays = stream::iter(plays).buffer_unordered(jobs);
    let mut results = Vec::new();
    while let Some(played) = plays.next().await {
        report(&played);
        results.push(played);
    }
    results.sort_by(|one, other| one.id.cmp(&other.id));
    results
}

/// Plays one scenario. A panic of the laboratory is a failure.
pub async fn play_one(file: &ScenarioFile, command: &str) -> Played {
    let began = Instant::now();
    let (scenario, command) = (file.scenario.clone(), command.to_owned());
    // The laboratory's futures stay on one thread, so each scenario has a runtime.
    let playing = tokio::task::spawn_blocking(move || {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Failed(error.to_string()))?;
        let result = runtime.block_on(async {
            tokio::time::timeout(SCENARIO_TIME, play(&scenario, &command)).await
        });
        let too_long = || format!("it took longer than {SCENARIO_TIME:?}");
        result.unwrap_or_else(|_| Err(Failure::Failed(too_long())))
    });
    let result = match playing.await {
        Ok(Ok(())) => ScenarioResult::Passed,
        Ok(Err(Failure::Unsupported(what))) => ScenarioResult::Unsupported(what),
        Ok(Err(Failure::Failed(reason))) => ScenarioResult::Failed(reason),
        Err(error) => ScenarioResult::Failed(format!("the laboratory failed: {error}")),
    };
    Played { id: file.id.clone(), result, took: began.elapsed() }
}

/// The results of each language, by scenario.
pub type Matrix = BTreeMap<String, BTreeMap<String, ScenarioResult>>;

/// The page with the results of all languages: one row a scenario, one column a language.
pub fn page(scenarios: &[ScenarioFile], matrix: &Matrix) -> String {
    let mut page = String::from(
        "# Clients and scenarios\n\n`scripts/clients --matrix` writes this page. `tests/clients/README.md` describes the scenarios and their checks.\n\n\
         `+` passed, `!` failed, `-` the client has no such call or option, a blank: not played.\n\n",
    );
    let languages: Vec<&String> = matrix.keys().collect();
    let heads: String =
        languages.iter().flat_map(|language| [" ", language.as_str(), " |"]).collect();
    let rule = "---|".repeat(languages.len());
    let mut ordered: Vec<&ScenarioFile> = scenarios.iter().collect();
    ordered.sort_by_key(|file| (file.scenario.group, file.id.clone()));
    writeln!(page, "| group | scenario |{heads}\n|---|---|{rule}").expect("a text");
    for file in ordered {
        let group = serde_json::to_value(file.scenario.group).unwrap_or_default();
        let group = group.as_str().unwrap_or_default().to_owned();
        write!(page, "| {group} | {} |", file.scenario.name).expect("a text");
        for language in &languages {
            let sign = match matrix[*language].get(&file.id) {
                Some(ScenarioResult::Passed) => "+",
                Some(ScenarioResult::Unsupported(_)) => "-",
                Some(ScenarioResult::Failed(_)) => "!",
                None => " ",
            };
            write!(page, " {sign} |").expect("a text");
        }
        page.push('\n');
    }
    page
}
