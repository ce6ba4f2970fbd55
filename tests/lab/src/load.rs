//! A load of many clients that acquire, hold and release locks until the test stops it.
//!
//! Each holder keeps its own lock for the whole load and renews it. Contenders share a few hot locks; each hot lock
//! protects the counter of a fenced store. A contender whose session expired continues under a new session id. One more client
//! reads the queues, so that the judges know the order of the waiters.
//! Every wait for a grant has a deadline: a waiter without a grant fails the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::actor::{Actor, Attempt};
use crate::history::History;
use crate::http::Http;
use crate::judge;
use crate::store::FencedStore;
use crate::unread::LateCopies;
use crate::until::until;

const TTL: Duration = Duration::from_mins(1);
const RENEWAL: Duration = Duration::from_millis(200);
const READ_EVERY: Duration = Duration::from_millis(100);
const WAIT: Duration = Duration::from_secs(5);
/// Deadline of a grant, many times an election, because tests kill leaders.
const GRANT_DEADLINE: Duration = Duration::from_mins(1);

/// Numbers of clients and locks.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Clients that each hold their own lock.
    pub holders: usize,
    /// Clients that compete for the hot locks.
    pub competing_clients: usize,
    /// Number of hot locks.
    pub hot_locks: usize,
}

/// A running load, and its result.
pub struct LoadReport {
    history: History,
    stores: Vec<FencedStore>,
    grants: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
    unread: LateCopies,
    clients: JoinSet<()>,
    /// Whether the hot locks have enough clients for queues.
    has_queues: bool,
}

impl Load {
    /// Fifty clients.
    pub const FIFTY: Load = Load { holders: 10, competing_clients: 40, hot_locks: 6 };

    /// Starts the clients, spread over the nodes.
    pub fn start(self, endpoints: &[Http], history: &History) -> LoadReport {
        self.start_with_late_copies(endpoints, history, &LateCopies::default())
    }

    /// Starts clients that also send copies of their calls to the stopped node of `unread`.
    pub fn start_with_late_copies(
        self,
        endpoints: &[Http],
        history: &History,
        unread: &LateCopies,
    ) -> LoadReport {
        let stores: Vec<FencedStore> =
            (0..self.hot_locks).map(|_| FencedStore::default()).collect();
        let (grants, stopping) = (Arc::default(), Arc::default());
        let mut report = LoadReport {
            history: history.clone(),
            stores,
            grants,
            stopping,
            unread: unread.clone(),
            clients: JoinSet::new(),
            has_queues: self.competing_clients > 2 * self.hot_locks,
        };
        report.clients.spawn(report.client("reader", 0, endpoints).read_queues(self.hot_locks));
        for index in 0..self.holders {
            report
                .clients
                .spawn(report.client("holder", index, endpoints).hold(format!("own/{index}")));
        }
        for index in 0..self.competing_clients {
            let hot = index % self.hot_locks;
            let store = report.stores[hot].clone();
            report.clients.spawn(
                report.client("taker", index, endpoints).contend(format!("hot/{hot}"), store),
            );
        }
        report
    }
}

impl LoadReport {
    /// Grants so far.
    pub fn grants(&self) -> u64 {
        self.grants.load(Ordering::Relaxed)
    }

    /// Waits until `more` further grants have been made.
    pub async fn wait_for_grants(&self, more: u64) {
        let goal = self.grants() + more;
        until("new grants to flow", GRANT_DEADLINE, || async { self.grants() >= goal }).await;
    }

    /// Stops the load, waits until every client has finished, and checks the history and the stores.
    pub async fn finish(mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        while let Some(client) = self.clients.join_next().await {
            if let Err(failed) = client {
                std::panic::resume_unwind(failed.into_panic());
            }
        }
        for store in &self.stores {
            self.history.require(judge::no_lost_update(&store.ops(), store.value()));
        }
        let queues_seen = judge::queues_seen(&self.history.operations());
        assert!(queues_seen > 0 || !self.has_queues, "no read showed a queue");
        judge::check_lock_history(&self.history);
    }

    fn client(&self, kind: &str, index: usize, endpoints: &[Http]) -> Client {
        let name = format!("{kind}-{index}");
        let actor = Actor::new(&name, endpoints.to_vec(), TTL, &self.history);
        let actor = actor.at_endpoint(index).leaving(&self.unread);
        let (grants, stopping) = (self.grants.clone(), self.stopping.clone());
        Client { name, lives: 0, actor, grants, stopping }
    }
}

struct Client {
    name: String,
    lives: u32,
    actor: Actor,
    grants: Arc<AtomicU64>,
    stopping: Arc<AtomicBool>,
}

impl Client {
    fn goes_on(&self) -> bool {
        !self.stopping.load(Ordering::Relaxed)
    }

    /// Holds one lock and renews it until the load stops: the token must never change.
    async fn hold(mut self, lock: String) {
        let first = self.take(&lock).await;
        let mut renewals = tokio::time::interval(RENEWAL);
        while self.goes_on() {
            renewals.tick().await;
            let again = self.take(&lock).await;
            assert_eq!(again, first, "{} lost {lock}, which no other client requests", self.name);
        }
    }

    /// Reads the hot locks in turns, at another node after a read without a reply.
    async fn read_queues(mut self, hot_locks: usize) {
        let mut reads = tokio::time::interval(READ_EVERY);
        for hot in (0..hot_locks).cycle() {
            reads.tick().await;
            if !self.goes_on() {
                return;
            }
            if self.actor.look(&format!("hot/{hot}")).await.is_none() {
                self.actor.next_endpoint();
            }
        }
    }

    async fn contend(mut self, lock: String, store: FencedStore) {
        while self.goes_on() {
            let token = self.take(&lock).await;
            self.grants.fetch_add(1, Ordering::Relaxed);
            let is_accepted = match store.read(token) {
                Some(value) => {
                    tokio::task::yield_now().await;
                    store.write(token, value + 1)
                }
                None => false,
            };
            let released = self.actor.release_until_known(&lock, GRANT_DEADLINE).await;
            assert!(matches!(released, Attempt::Done | Attempt::Expired), "{lock}: {released:?}");
            let is_over = released == Attempt::Expired;
            assert!(is_accepted || is_over, "{lock}: the store refused the live token {token}");
            if released == Attempt::Expired {
                self.begin_anew();
            }
        }
    }

    /// Waits for the lock; starts a new session each time the current one expires.
    async fn take(&mut self, lock: &str) -> u64 {
        loop {
            match self.actor.take(lock, WAIT, GRANT_DEADLINE).await {
                Attempt::Granted(token) => return token,
                Attempt::Expired => self.begin_anew(),
                other @ (Attempt::Done
                | Attempt::Busy
                | Attempt::Retry(_)
                | Attempt::Refused(_)) => {
                    panic!("{} at {lock}: {other:?}", self.name)
                }
            }
        }
    }

    fn begin_anew(&mut self) {
        self.lives += 1;
        self.actor.session = format!("{}-{}", self.name, self.lives);
    }
}
