//! The calls of elections, recipes, and the tree.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_client::api::{StatBody, node_headers};
use holdfast_client::http::Method;
use holdfast_client::{
    CancellationToken, Client, ElectionChange, Error, Observer, Subtree, SubtreeChange,
};
use holdfast_tests_clients::protocol::Call;
use serde_json::{Value, json};

use crate::calls::{done, kept_guard};
use crate::state::{AdapterState, Answered, error_of, invalid, lock, unsupported};

pub(crate) async fn execute(state: &Arc<AdapterState>, call: Call) -> Answered {
    match call {
        Call::Campaign { client, election, guard, value, wait_ms } => {
            let election = state.client(&client)?.client.election(election);
            // The Rust client has no campaign without a value.
            let value = value.unwrap_or_else(|| client.clone());
            let result = match wait_ms {
                None => election.campaign(value).await,
                Some(0) => election.try_campaign(value).await,
                Some(ms) => election.timeout(Duration::from_millis(ms)).campaign(value).await,
            };
            let leadership = result.map_err(|error| error_of(&error))?;
            Ok(kept_guard(state, (&client, &guard), leadership.into_guard()))
        }
        Call::Observe { client, election, observer } => {
            let stream = state.client(&client)?.client.election(election).observe();
            let stream = stream.map_err(|error| error_of(&error))?;
            let until = begin_stream(state, &observer);
            tokio::spawn(report_leaders(state.clone(), observer, stream, until));
            Ok(json!({}))
        }
        Call::Watch { client, prefix, watcher } => {
            let client = state.client(&client)?.client;
            let root = Some(prefix.trim_end_matches('/')).filter(|root| !root.is_empty());
            let subtree = client.subtree(root.unwrap_or("/")).await;
            let subtree = subtree.map_err(|error| error_of(&error))?;
            let until = begin_stream(state, &watcher);
            tokio::spawn(report_changes(state.clone(), watcher, subtree, until));
            Ok(json!({}))
        }
        Call::Unobserve { observer: name } | Call::Unwatch { watcher: name } => {
            let stream = lock(&state.streams).remove(&name);
            stream.ok_or_else(|| invalid(format!("no stream {name}")))?.cancel();
            Ok(json!({}))
        }
        Call::TreeGet { client, path } => tree_get(&state.client(&client)?.client, &path).await,
        Call::TreePut { client, path, value, version } => {
            let call = holdfast_client::Call::new(Method::PUT, target(&path));
            let body = value.into_bytes();
            let call = with_version(holdfast_client::Call { body, ..call }, version.as_ref());
            let stat = state.client(&client)?.client.call_once::<StatBody>(call).await;
            let stat = stat.map_err(|error| error_of(&error))?;
            Ok(json!({ "version": stat.version }))
        }
        Call::TreeDelete { client, path, version } => {
            let call = holdfast_client::Call::new(Method::DELETE, target(&path));
            let call = with_version(call, version.as_ref());
            done(state.client(&client)?.client.call_once_raw(call).await)
        }
        Call::CounterAdd { client, name, add } => {
            let added = state.client(&client)?.client.counter(name).add(add).await;
            Ok(json!({ "value": added.map_err(|error| error_of(&error))?.value }))
        }
        call => barrier_or_latch(state, call).await,
    }
}

async fn barrier_or_latch(state: &AdapterState, call: Call) -> Answered {
    let ms = Duration::from_millis;
    match call {
        Call::LatchSet { client, name, count } => {
            done(state.client(&client)?.client.latch(name).create(count).await)
        }
        Call::LatchCountDown { client, name } => {
            static KEY: AtomicU64 = AtomicU64::new(0);
            let key = format!("{}-{}", std::process::id(), KEY.fetch_add(1, Ordering::Relaxed));
            let left = state.client(&client)?.client.latch(name).count_down(key).await;
            Ok(json!({ "left": left.map_err(|error| error_of(&error))? }))
        }
        Call::LatchWait { client, name, wait_ms } => {
            done(state.client(&client)?.client.latch(name).wait(ms(wait_ms)).await)
        }
        Call::BarrierWait { client, name, parties, wait_ms } => {
            done(state.client(&client)?.client.barrier(name, parties).arrive(ms(wait_ms)).await)
        }
        Call::DoubleBarrierEnter { client, name, parties, wait_ms } => {
            let barrier = state.client(&client)?.client.double_barrier(&name, parties);
            let inside = barrier.enter(ms(wait_ms)).await.map_err(|error| error_of(&error))?;
            lock(&state.inside).insert((client, name), inside);
            Ok(json!({}))
        }
        Call::DoubleBarrierLeave { client, name, wait_ms } => {
            let inside = lock(&state.inside).remove(&(client, name));
            let inside = inside.ok_or_else(|| invalid("not inside".to_owned()))?;
            done(inside.leave(ms(wait_ms)).await)
        }
        call => Err(unsupported(&call.name())),
    }
}

pub(crate) fn begin_stream(state: &AdapterState, name: &str) -> CancellationToken {
    let until = CancellationToken::new();
    lock(&state.streams).insert(name.to_owned(), until.clone());
    until
}

async fn report_leaders(
    state: Arc<AdapterState>,
    observer: String,
    mut stream: Observer,
    until: CancellationToken,
) {
    loop {
        let change = tokio::select! {
            biased;
            () = until.cancelled() => return,
            change = stream.next_change() => change,
        };
        let event = match change {
            Ok(ElectionChange::Leader { leader, .. }) => {
                json!({ "event": "leader", "observer": observer, "leader": leader })
            }
            Ok(ElectionChange::Vacant { .. }) => {
                json!({ "event": "leader", "observer": observer, "leader": null })
            }
            Ok(ElectionChange::Gap { .. }) => json!({ "event": "gap", "observer": observer }),
            // The next call continues from the same point.
            Err(Error::Unavailable(_) | Error::UnexpectedResponse(_)) => continue,
            Err(_) => return,
        };
        state.write(&event);
    }
}

async fn report_changes(
    state: Arc<AdapterState>,
    watcher: String,
    mut subtree: Subtree,
    until: CancellationToken,
) {
    loop {
        let change = tokio::select! {
            biased;
            () = until.cancelled() => return,
            change = subtree.next_change() => change,
        };
        let event = |path: &dyn ToString, kind: &str| json!({ "event": "change", "watcher": watcher, "path": path.to_string(), "kind": kind });
        let event = match change {
            Ok(SubtreeChange::Created(path)) => event(&path, "created"),
            Ok(SubtreeChange::Changed(path)) => event(&path, "changed"),
            Ok(SubtreeChange::Deleted(path)) => event(&path, "deleted"),
            Ok(SubtreeChange::Gap { .. }) => json!({ "event": "gap", "watcher": watcher }),
            Err(Error::Unavailable(_) | Error::OutcomeUnknown(_)) => continue,
            Err(_) => return,
        };
        state.write(&event);
    }
}

fn target(path: &str) -> String {
    format!("/v1/tree/{}", path.trim_start_matches('/'))
}

fn with_version(mut call: holdfast_client::Call, version: Option<&Value>) -> holdfast_client::Call {
    if let Some(version) = version {
        call.headers.push(("if-match".to_owned(), format!("\"{version}\"")));
    }
    call
}

async fn tree_get(client: &Client, path: &str) -> Answered {
    let answer = client.call_raw(&holdfast_client::Call::get(target(path))).await;
    match answer {
        Ok(answer) => {
            let version = answer.headers.get(node_headers::VERSION);
            let version = version.and_then(|version| version.parse::<i64>().ok());
            let value = String::from_utf8_lossy(&answer.body);
            Ok(json!({ "value": value, "version": version }))
        }
        Err(error)
            if error.problem().is_some_and(|problem| problem.code.as_str() == "not-found") =>
        {
            Ok(json!({ "value": null }))
        }
        Err(error) => Err(error_of(&error)),
    }
}
