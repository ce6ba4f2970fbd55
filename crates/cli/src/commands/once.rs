//! Changes that the cluster executes once: a late copy of the command undoes no later change of somebody else. The
//! command has a session for its calls, and closes it at the end.

use std::time::Duration;

use holdfast_api::JsonBody;
use holdfast_client::http::HttpResponse;
use holdfast_client::{Call, Client};

use crate::exit::CommandFailure;

/// The time limit for closing the session at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes a change with this client, and closes its session.
pub(super) async fn closing<T, E>(
    client: &Client,
    change: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let result = change.await;
    let _in_time = tokio::time::timeout(CLOSE_TIMEOUT, client.close()).await;
    result
}

/// As [`send`], for a change that a sealed cluster accepts. It opens no session for a number, so there the change has none.
pub(super) async fn send_also_sealed(
    client: &Client,
    call: Call,
) -> Result<HttpResponse, CommandFailure> {
    match client.cluster().await?.seal {
        Some(_) => Ok(client.call_raw(&call).await?),
        None => Ok(closing(client, client.call_once_raw(call)).await?),
    }
}

/// Sends a change that the cluster executes once.
pub(super) async fn send(client: &Client, call: Call) -> Result<(), CommandFailure> {
    Ok(closing(client, client.call_once_raw(call)).await.map(drop)?)
}

/// As [`send`], and returns the body of the response.
pub(super) async fn receive<T: JsonBody>(client: &Client, call: Call) -> Result<T, CommandFailure> {
    Ok(closing(client, client.call_once(call)).await?)
}
