//! The quick scenarios with the Rust client. `scripts/clients` plays all scenarios with every client.

use holdfast_tests_clients::scenario::{self, ScenarioFile};
use holdfast_tests_clients::suite::{ScenarioResult, play_all};

#[tokio::test(flavor = "multi_thread")]
async fn the_rust_client_passes_the_quick_scenarios() {
    let all = scenario::all().expect("scenarios");
    let quick: Vec<ScenarioFile> = all.into_iter().filter(|file| file.scenario.quick).collect();
    assert!(quick.len() >= 20, "{} quick scenarios", quick.len());
    let played = play_all(&quick, env!("CARGO_BIN_EXE_rust-adapter"), 2, |_| {}).await;
    let failed: Vec<String> = played
        .iter()
        .filter(|played| played.result != ScenarioResult::Passed)
        .map(|played| format!("{}: {:?}", played.id, played.result))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
