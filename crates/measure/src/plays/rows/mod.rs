//! The rows of the table of mechanisms that other systems have: each is an act on their real servers.
//!
//! A row has the form of a play, with its number as the name. `measure show ROW` runs it; it is on no page of questions.

mod cluster;
mod database;
mod redis;
mod redlock;
mod waiting;

use std::time::Duration;

use tokio::task::JoinHandle;

use super::Play;
use super::actors::PlayClient;
use crate::lock::HeldLock;

/// All rows, by their numbers.
pub(super) const ALL: &[Play] = &[
    database::FOR_UPDATE,
    database::WAIT_OR_FAIL,
    database::LOCK_TABLE,
    redis::SET_NX_PX,
    redis::COMPARE_AND_DELETE,
    redis::UNCOUNTED_REENTRY,
    waiting::TIMEOUT,
    redis::REPAIRED_EXPIRY,
    redis::WATCHED_KEY,
    waiting::POLLING,
    waiting::LIST,
    redlock::GROUPS,
    redlock::ADVICE,
    cluster::EPHEMERAL,
    cluster::ETCD,
];

/// The actors of a row wait at most so long for something that happens.
const WAIT: Duration = Duration::from_secs(30);

/// The call of a client that waits, and the client.
type ClientCall = JoinHandle<(Result<Option<HeldLock>, String>, PlayClient)>;

/// Lets a client wait for the lock in the background.
fn waiting(mut client: PlayClient) -> ClientCall {
    tokio::spawn(async move { (client.acquire(WAIT).await, client) })
}

/// Returns the grant of a client that waited.
async fn grant(call: ClientCall) -> Result<(Option<HeldLock>, PlayClient), String> {
    let (held, client) = call.await.map_err(text)?;
    Ok((held?, client))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
