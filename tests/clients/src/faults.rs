//! The faults of scenarios.

use std::time::Duration;

use serde_json::Value;

use crate::play::Play;
use crate::poll::poll;
use crate::proxy::{CallFault, CallFaultKind, ClientProxies, LinkState};
use crate::scenario::{FaultStep, NodeChoice};
use crate::stage::NODE_TIME;

/// Injects a fault.
pub(crate) async fn inject(play: &mut Play, fault: &FaultStep) -> Result<(), String> {
    match fault {
        FaultStep::Kill { .. }
        | FaultStep::Stop { .. }
        | FaultStep::Freeze { .. }
        | FaultStep::Thaw { .. }
        | FaultStep::Start { .. }
        | FaultStep::RestartAll {}
        | FaultStep::Clock { .. } => of_nodes(play, fault).await,
        FaultStep::StopAdapter { on, for_ms } => stop_adapter(play, on.as_deref(), *for_ms).await,
        FaultStep::ContinueAdapter { on } => {
            play.stage.adapter(on.as_deref().unwrap_or("a")).map(crate::adapter::Adapter::go_on)
        }
        FaultStep::KillAdapter { on } => {
            play.stage.adapter(on.as_deref().unwrap_or("a"))?.kill().await;
            Ok(())
        }
        FaultStep::File { name, text } => {
            let text = play.stage.saved.resolve(&Value::from(text.as_str()))?;
            let path = play.stage.files.path().join(name);
            let text = text.as_str().unwrap_or_default();
            std::fs::write(path, text).map_err(|error| error.to_string())
        }
        FaultStep::Wait { ms } => {
            pause(*ms).await;
            Ok(())
        }
        FaultStep::Cut { .. }
        | FaultStep::Hold { .. }
        | FaultStep::Delay { .. }
        | FaultStep::Heal { .. }
        | FaultStep::LoseAnswer { .. }
        | FaultStep::FalseAnswer { .. }
        | FaultStep::Repeat { .. } => of_connections(play, fault).await,
    }
}

async fn of_nodes(play: &mut Play, fault: &FaultStep) -> Result<(), String> {
    match fault {
        FaultStep::Kill { node, save } => {
            let id = named(play, node, save.as_ref()).await?;
            play.stage.cluster.node(id).kill();
        }
        FaultStep::Stop { node, save } => {
            let id = named(play, node, save.as_ref()).await?;
            play.stage.cluster.node(id).stop().await;
        }
        FaultStep::Freeze { node, save } => {
            let id = named(play, node, save.as_ref()).await?;
            play.stage.cluster.node(id).pause().await;
        }
        FaultStep::Thaw { node } => {
            let id = chosen(play, node).await?;
            play.stage.cluster.node(id).resume();
        }
        FaultStep::Start { node } => {
            let id = chosen(play, node).await?;
            play.stage.cluster.node(id).start();
            play.stage.cluster.node(id).wait_ready().await;
        }
        FaultStep::RestartAll {} => {
            play.stage.cluster.kill_all();
            play.stage.cluster.start_all();
            play.stage.cluster.wait_ready().await;
        }
        FaultStep::Clock { node, ahead_ms } => {
            let id = chosen(play, node).await?;
            play.stage.cluster.node(id).clock().set_ahead_ms(*ahead_ms);
        }
        _ => return Err("no fault of nodes".to_owned()),
    }
    Ok(())
}

async fn of_connections(play: &mut Play, fault: &FaultStep) -> Result<(), String> {
    match fault {
        FaultStep::Cut { client, node } => {
            set(play, client, node.as_ref(), |proxies, node| proxies.set(node, LinkState::Cut))
                .await
        }
        FaultStep::Hold { client, node } => {
            set(play, client, node.as_ref(), |proxies, node| proxies.set(node, LinkState::Held))
                .await
        }
        FaultStep::Delay { client, node, ms } => {
            let delay = Duration::from_millis(*ms);
            set(play, client, node.as_ref(), |proxies, node| proxies.delay(node, delay)).await
        }
        FaultStep::Heal { client } => set(play, client, None, |proxies, _| proxies.heal()).await,
        FaultStep::LoseAnswer { client, call, times } => {
            let (call, times) = (call.clone(), *times);
            let fault = CallFault { call, times, kind: CallFaultKind::LoseAnswer };
            set(play, client, None, |proxies, _| proxies.add(fault.clone())).await
        }
        FaultStep::FalseAnswer { client, call, times, status, body } => {
            let kind = CallFaultKind::FalseAnswer(false_answer(*status, body));
            let fault = CallFault { call: call.clone(), times: *times, kind };
            set(play, client, None, |proxies, _| proxies.add(fault.clone())).await
        }
        FaultStep::Repeat { client, call } => {
            let proxies = play.stage.proxies.get(client).ok_or_else(|| no_client(client))?;
            let sent = proxies.repeat(call).await?;
            if sent == 0 {
                return Err(format!("no call of {client} begins with {call}"));
            }
            Ok(())
        }
        _ => Err("no fault of connections".to_owned()),
    }
}

fn no_client(client: &str) -> String {
    format!("no client {client}")
}

/// The bytes of an HTTP answer. The header `Retry-After` has the whole seconds of the fact `retry_after_ms`.
fn false_answer(status: u16, body: &Value) -> Vec<u8> {
    let retry_after = match body["retry_after_ms"].as_u64() {
        Some(ms) => format!("retry-after: {}\r\n", ms.div_ceil(1_000)),
        None => String::new(),
    };
    let (media, body) = match body {
        Value::String(text) => ("text/html", text.clone()),
        body if status >= 400 => ("application/problem+json", body.to_string()),
        body => ("application/json", body.to_string()),
    };
    let len = body.len();
    let head = format!(
        "HTTP/1.1 {status} Answer\r\ncontent-type: {media}\r\ncontent-length: {len}\r\n{retry_after}connection: close\r\n\r\n"
    );
    (head + &body).into_bytes()
}

async fn set(
    play: &Play,
    client: &str,
    node: Option<&NodeChoice>,
    change: impl Fn(&ClientProxies, Option<usize>),
) -> Result<(), String> {
    let index = match node {
        Some(node) => Some(chosen(play, node).await?),
        None => None,
    };
    // Node ids begin at 1, proxies at 0.
    let index =
        index.map(|id| usize::try_from(id - 1)).transpose().map_err(|error| error.to_string())?;
    let proxies = play.stage.proxies.get(client).ok_or_else(|| no_client(client))?;
    change(proxies, index);
    Ok(())
}

/// The id of the chosen node, and its new name.
async fn named(play: &mut Play, node: &NodeChoice, save: Option<&String>) -> Result<u64, String> {
    let id = chosen(play, node).await?;
    if let Some(name) = save {
        play.nodes.insert(name.clone(), id);
    }
    Ok(id)
}

async fn chosen(play: &Play, node: &NodeChoice) -> Result<u64, String> {
    let name = match node {
        NodeChoice::Id(id) => return Ok(*id),
        NodeChoice::Named(name) => name.as_str(),
    };
    if let Some(id) = play.nodes.get(name) {
        return Ok(*id);
    }
    let leader = leader(play).await?;
    match name {
        "leader" => Ok(leader),
        "follower" => {
            let node = play.stage.cluster.others(leader).find(|node| node.is_started());
            node.map(|node| node.id).ok_or_else(|| "no follower runs".to_owned())
        }
        name => Err(format!("no fault has named the node {name}")),
    }
}

/// Stops the process of an adapter, and waits for the end of the stop if it has one.
async fn stop_adapter(
    play: &mut Play,
    on: Option<&str>,
    for_ms: Option<u64>,
) -> Result<(), String> {
    let adapter = play.stage.adapter(on.unwrap_or("a"))?;
    adapter.stop();
    if let Some(ms) = for_ms {
        pause(ms).await;
        adapter.go_on();
    }
    Ok(())
}

/// Ends every fault: connections, processes and nodes.
pub(crate) async fn heal(play: &mut Play) -> Result<(), String> {
    play.stage.proxies.values().for_each(ClientProxies::heal);
    play.stage.adapters.values_mut().for_each(crate::adapter::Adapter::go_on);
    for node in play.stage.cluster.nodes() {
        if node.is_started() {
            node.resume();
        } else {
            node.start();
        }
    }
    leader(play).await.map(drop)
}

async fn leader(play: &Play) -> Result<u64, String> {
    let ask = async || play.stage.leader().await.ok_or_else(|| "no node knows a leader".to_owned());
    poll(NODE_TIME, ask).await
}

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
