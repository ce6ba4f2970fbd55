//! Clients that lock and release while a test changes the cluster, and one lock that is held all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use holdfast_api::GrantBody;
use holdfast_client::http::{ClientTls, Method};
use holdfast_client::{Call, Client};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::program::eventually;

const WORKERS: usize = 3;

/// How clients reach the nodes at the moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientAccess {
    /// `host:port` of each node.
    pub(crate) nodes: Vec<String>,
    /// `None` without TLS.
    pub(crate) ca: Option<Vec<u8>>,
}

/// Clients that acquire and release locks, and one lock that is held all the time.
pub(crate) struct ClientLoad {
    access: Arc<Mutex<ClientAccess>>,
    cycles: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Result<(), String>>>,
}

impl ClientLoad {
    pub(crate) fn start(access: ClientAccess) -> Self {
        let access = Arc::new(Mutex::new(access));
        let (cycles, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let mut tasks = Vec::new();
        for number in 0..WORKERS {
            let (access, cycles, stop) = (access.clone(), cycles.clone(), stop.clone());
            tasks.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    // A new client opens new connections.
                    let client = client(&access.lock().clone());
                    cycle(&client, number).await.map_err(|error| format!("{error:?}"))?;
                    cycles.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }));
        }
        let (current, ended) = (access.clone(), stop.clone());
        tasks.push(tokio::spawn(keep(current, ended)));
        Self { access, cycles, stop, tasks }
    }

    pub(crate) fn switch(&self, access: ClientAccess) {
        *self.access.lock() = access;
    }

    /// Waits for cycles that began after the call.
    pub(crate) fn wait_for_cycles(&self) {
        let before = self.cycles.load(Ordering::Relaxed);
        let enough = before + 3 * u64::try_from(WORKERS).unwrap();
        eventually("more cycles", || self.cycles.load(Ordering::Relaxed) >= enough);
        assert!(self.tasks.iter().all(|task| !task.is_finished()), "a client has failed");
    }

    /// Ends the load. No call has failed, and the lock is still held.
    pub(crate) async fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap().unwrap();
        }
    }
}

fn client(access: &ClientAccess) -> Client {
    let scheme = if access.ca.is_some() { "https" } else { "http" };
    let addresses = access.nodes.iter().map(|node| format!("{scheme}://{node}"));
    let mut builder = Client::builder(addresses);
    if let Some(ca) = &access.ca {
        builder = builder.tls(ClientTls { ca: Some(ca.clone()), identity: None });
    }
    builder.build().unwrap()
}

async fn cycle(client: &Client, number: usize) -> Result<(), holdfast_client::Error> {
    for _ in 0..5 {
        client.lock(format!("rotation/{number}")).acquire().await?.release().await?;
    }
    client.close().await
}

/// Holds a lock with one session, and renews it. Each answer has the first token.
async fn keep(access: Arc<Mutex<ClientAccess>>, stop: Arc<AtomicBool>) -> Result<(), String> {
    let mut token = None;
    let mut renewals = tokio::time::interval(Duration::from_millis(200));
    while !stop.load(Ordering::Relaxed) {
        renewals.tick().await;
        let client = client(&access.lock().clone());
        let call = Call::new(Method::PUT, "/v1/locks/kept?session=keeper&ttl=20s");
        let grant: GrantBody = client.call(&call).await.map_err(|error| format!("{error:?}"))?;
        if *token.get_or_insert(grant.token) != grant.token {
            return Err(format!("the lock was lost: token {} after {token:?}", grant.token));
        }
    }
    Ok(())
}
