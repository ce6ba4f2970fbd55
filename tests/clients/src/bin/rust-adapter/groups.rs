//! The calls of sessions and groups.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_client::{CancellationToken, Error, Subtree};
use holdfast_tests_clients::protocol::Call;
use serde_json::{Value, json};

use crate::calls::{done, kept_guard};
use crate::recipes::{self, begin_stream};
use crate::state::{AdapterState, Answered, busy, error_of, invalid, lock};

pub(crate) async fn execute(state: &Arc<AdapterState>, call: Call) -> Answered {
    match call {
        Call::OpenSession { client } => {
            let session = state.client(&client)?.client.session().await;
            let session = session.map_err(|error| error_of(&error))?;
            let answer = json!({ "session": session.name() });
            lock(&state.sessions).insert(client, session);
            Ok(answer)
        }
        Call::ReceiveTransfer { client, lock: name, guard, owner, wait_ms } => {
            let wait = Duration::from_millis(wait_ms.unwrap_or(0));
            let prepared = state.client(&client)?.client.lock(&name).timeout(wait);
            let prepared = owner.into_iter().fold(prepared, holdfast_client::Lock::owner);
            match prepared.receive_transfer().await.map_err(|error| error_of(&error))? {
                Some(received) => Ok(kept_guard(state, (&client, &guard), received)),
                None => Err(busy("no transfer arrived")),
            }
        }
        Call::GroupJoin { client, group, member, value } => {
            let membership = state.client(&client)?.client.group(group).join(value).await;
            let membership = membership.map_err(|error| error_of(&error))?;
            let answer = json!({ "session": membership.session() });
            state.members.lock().await.insert(member, (client, membership));
            Ok(answer)
        }
        Call::GroupSetValue { member, value } => {
            let members = state.members.lock().await;
            let (_, membership) = members.get(&member).ok_or_else(|| unknown(&member))?;
            done(membership.set_value(value).await)
        }
        Call::GroupLeave { member } => {
            let left = state.members.lock().await.remove(&member);
            done(left.ok_or_else(|| unknown(&member))?.1.leave().await)
        }
        Call::GroupMembers { client, group } => {
            let members = state.client(&client)?.client.group(group).members().await;
            let members = members.map_err(|error| error_of(&error))?.into_iter();
            let members: BTreeMap<String, String> =
                members.map(|member| (member.session.to_string(), member.value)).collect();
            Ok(json!({ "members": members }))
        }
        Call::GroupWatch { client, group, watcher } => {
            let subtree = state.client(&client)?.client.group(group).watch().await;
            let subtree = subtree.map_err(|error| error_of(&error))?;
            let until = begin_stream(state, &watcher);
            tokio::spawn(report_members(state.clone(), watcher, subtree, until));
            Ok(json!({}))
        }
        call => recipes::execute(state, call).await,
    }
}

fn unknown(member: &str) -> holdfast_tests_clients::protocol::AnswerError {
    invalid(format!("no member {member}"))
}

async fn report_members(
    state: Arc<AdapterState>,
    watcher: String,
    mut subtree: Subtree,
    until: CancellationToken,
) {
    loop {
        state.write(
            &json!({ "event": "members", "watcher": watcher, "members": members_of(&subtree) }),
        );
        let change = tokio::select! {
            biased;
            () = until.cancelled() => return,
            change = subtree.next_change() => change,
        };
        match change {
            Ok(_) | Err(Error::Unavailable(_) | Error::OutcomeUnknown(_)) => {}
            Err(_) => return,
        }
    }
}

/// The members in a cached group: its ephemeral children.
fn members_of(subtree: &Subtree) -> BTreeMap<&str, Value> {
    let nodes = subtree.nodes().iter().filter(|(_, node)| node.is_ephemeral);
    nodes
        .filter_map(|(path, node)| {
            let session = path.as_str().strip_prefix(subtree.root().as_str())?.strip_prefix('/')?;
            (!session.contains('/')).then(|| (session, node.text().into()))
        })
        .collect()
}
