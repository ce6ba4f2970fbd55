//! A lock over plain HTTP, as any program would take it.
//!
//! Owns one seller's session: its name, its keepalive while the seller waits or holds, and a new name after the old
//! session expired. Refuses to know what the lock protects; the token is handed out and not looked at.

use std::time::Duration;

use holdfast_fence::FencingToken;
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::Fallible;

/// How long a session lives without a sign of life.
pub(crate) const TTL: Duration = Duration::from_secs(2);
const KEEPALIVE_EVERY: Duration = Duration::from_millis(600);
/// Between two tries when the cluster has no leader for a moment.
const RETRY_EVERY: Duration = Duration::from_millis(50);
/// Longer than one wait at the server (10 s).
const CALL_DEADLINE: Duration = Duration::from_secs(15);
const TRIES_MAX: usize = 200;

/// An HTTP client with a deadline on every call.
pub(crate) fn http() -> Fallible<Client> {
    Ok(Client::builder().timeout(CALL_DEADLINE).no_proxy().build()?)
}

/// One seller's session at one node.
pub(crate) struct Locker {
    http: Client,
    node: String,
    lock: String,
    name: String,
    generation: u32,
}

/// The lock, held; its session is kept alive until this is dropped.
pub(crate) struct Held {
    pub(crate) token: FencingToken,
    alive: Alive,
}

impl Locker {
    pub(crate) fn new(http: Client, node: &str, lock: &str, name: &str) -> Self {
        let (node, lock, name) = (node.to_owned(), lock.to_owned(), name.to_owned());
        Self { http, node, lock, name, generation: 1 }
    }

    /// Queues until the lock is ours. A session that expired meanwhile is replaced by a new one.
    pub(crate) async fn acquire(&mut self) -> Fallible<Held> {
        for _ in 0..TRIES_MAX {
            let alive = Alive::start(&self.http, &self.node, &self.session());
            let url = format!("{}&ttl={}s&wait=10s", self.url(), TTL.as_secs());
            let response = self.http.put(url).send().await?;
            match response.status() {
                StatusCode::OK => return Ok(Held { token: token(response).await?, alive }),
                StatusCode::GONE => self.generation += 1,
                StatusCode::LOCKED => {}
                StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                    tokio::time::sleep(RETRY_EVERY).await;
                }
                _ => return Err(unexpected("acquire", response).await),
            }
        }
        Err(format!("{} did not get the lock in {TRIES_MAX} tries", self.name).into())
    }

    /// Gives the lock back. Somebody else's lock, or an expired session, is no error: then it is not ours any more.
    pub(crate) async fn release(&self, held: Held) -> Fallible<()> {
        let Held { token: _, alive: _alive } = held;
        for _ in 0..TRIES_MAX {
            let response = self.http.delete(self.url()).send().await?;
            match response.status() {
                status if status.is_success() => return Ok(()),
                StatusCode::CONFLICT | StatusCode::GONE => return Ok(()),
                StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                    tokio::time::sleep(RETRY_EVERY).await;
                }
                _ => return Err(unexpected("release", response).await),
            }
        }
        Err(format!("{} could not release the lock in {TRIES_MAX} tries", self.name).into())
    }

    fn url(&self) -> String {
        format!("http://{}/v1/locks/{}?session={}", self.node, self.lock, self.session())
    }

    fn session(&self) -> String {
        format!("{}.{}", self.name, self.generation)
    }
}

/// Renews a session in the background until dropped, or until the process is stopped.
struct Alive(JoinHandle<()>);

impl Alive {
    fn start(http: &Client, node: &str, session: &str) -> Self {
        let (http, url) = (http.clone(), format!("http://{node}/v1/sessions/{session}/keepalive"));
        Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(KEEPALIVE_EVERY).await;
                // A failed renewal is found out by the next call of the seller.
                drop(http.post(&url).send().await);
            }
        }))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Who holds a lock, and the newest token minted for it.
pub(crate) struct Look {
    pub(crate) holder: Option<String>,
    pub(crate) last_token: u64,
}

/// Asks a node about a lock.
pub(crate) async fn look(http: &Client, node: &str, lock: &str) -> Fallible<Look> {
    let response = http.get(format!("http://{node}/v1/locks/{lock}")).send().await?;
    if !response.status().is_success() {
        return Err(unexpected("look at the lock", response).await);
    }
    let body: Value = response.json().await?;
    Ok(Look {
        holder: body["holders"][0]["session"].as_str().map(str::to_owned),
        last_token: body["last_token"].as_u64().unwrap_or(0),
    })
}

async fn token(response: Response) -> Fallible<FencingToken> {
    let body: Value = response.json().await?;
    let number =
        body["token"].as_u64().ok_or_else(|| format!("a grant without a token: {body}"))?;
    Ok(FencingToken(number))
}

async fn unexpected(what: &str, response: Response) -> Box<dyn std::error::Error + Send + Sync> {
    let status = response.status();
    format!("{what}: {status} {}", response.text().await.unwrap_or_default()).into()
}
