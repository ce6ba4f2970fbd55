//! Each defect of a client is found by one scenario.

use holdfast_tests_clients::scenario;
use holdfast_tests_clients::suite::{ScenarioResult, play_one};

/// Plays the scenario `by` with the mutation, which must fail for the `reason`.
async fn is_found(mutation: &str, by: &str, reason: &str) {
    let all = scenario::all().expect("scenarios");
    let file = all.iter().find(|file| file.id == by).expect("a scenario of this name");
    let command = format!("{} --mutation {mutation}", env!("CARGO_BIN_EXE_rust-adapter"));
    let played = play_one(file, &command).await;
    assert!(
        matches!(&played.result, ScenarioResult::Failed(found) if found.contains(reason)),
        "the scenario {by} does not find that the mutation {mutation} has the effect `{reason}`: {:?}",
        played.result
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_after_the_close_is_found() {
    is_found("renew-forever", "a-closed-client-releases-everything", "the lock is").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_local_deadline_is_found() {
    is_found("no-local-deadline", "a-holder-without-a-network-stops-in-time", "no event within")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_acquire_after_a_loss_is_found() {
    is_found("silent-reacquire", "a-lost-lock-is-never-acquired-again", "no event within").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_names_no_hold_is_found() {
    is_found("release-without-token", "a-late-copy-of-a-release", "released-elsewhere").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_from_the_receipt_is_found() {
    is_found("deadline-from-receipt", "the-deadline-counts-from-the-sending", "remaining_ms is")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_rejection_is_found() {
    is_found("retry-not-retryable", "a-rejected-call-is-not-repeated", "11 calls").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_session_for_all_clients_is_found() {
    is_found("session-shared", "clients-have-their-own-sessions", "session is").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_node_first_is_found() {
    is_found("prefers-frozen-node", "a-frozen-node-costs-little", "no answer within").await;
}
