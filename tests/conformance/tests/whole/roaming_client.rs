//! A client that keeps one session, reconnects to other nodes, and sets its watches again.
//!
//! The client tracks its one-shot watches: a read arms a watch, its event removes it. [`RoamingClient::wrong`] lists events
//! without an armed watch or without a change. [`RoamingClient::missed`] returns changes without an event. A rejected session
//! fails the test immediately.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use holdfast_lab::zk::{ZkConnection, ZkIncoming, new_session};
use holdfast_zkwire::{
    ConnectRequest, PASSWORD_LEN, Request, Response, SetWatches, WatchEventType, WatchedEvent,
};

/// Session timeout, longer than any outage of these tests.
const SESSION_MS: i32 = 30_000;
/// Deadline for a reconnect to a recovered cluster.
const AWAY_MAX: Duration = Duration::from_secs(25);

/// The target of a watch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WatchTarget {
    /// A node's data.
    Data(String),
    /// A node's children.
    Children(String),
}

/// See the module.
pub(crate) struct RoamingClient {
    nodes: Vec<SocketAddr>,
    at: usize,
    identity: (i64, [u8; PASSWORD_LEN]),
    connection: Option<ZkConnection>,
    seen: i64,
    /// Armed watches, with the change shown by the read that armed each.
    armed: BTreeMap<WatchTarget, i64>,
    /// The change before the last event: the next read must show a newer one.
    told: BTreeMap<WatchTarget, i64>,
    /// Unexpected events.
    pub(crate) wrong: Vec<String>,
    /// Number of events.
    pub(crate) events: usize,
    /// Number of reconnects.
    pub(crate) moves: usize,
}

impl RoamingClient {
    /// Opens a session at node `at`, from 0.
    pub(crate) async fn open(nodes: Vec<SocketAddr>, at: usize) -> Self {
        let opened = ZkConnection::open(nodes[at], &new_session(SESSION_MS))
            .await
            .expect("the node listens");
        let (connection, Some(answer)) = opened else { panic!("no session") };
        Self {
            nodes,
            at,
            identity: (answer.session_id, answer.password),
            connection: Some(connection),
            seen: 0,
            armed: BTreeMap::new(),
            told: BTreeMap::new(),
            wrong: Vec::new(),
            events: 0,
            moves: 0,
        }
    }

    /// The connection; reconnects to any node that accepts the session if the old one is closed.
    async fn connected(&mut self) {
        let since = Instant::now();
        while self.connection.is_none() {
            assert!(since.elapsed() < AWAY_MAX, "no node takes the session {:#x}", self.identity.0);
            self.at = (self.at + 1) % self.nodes.len();
            let (session_id, password) = self.identity;
            let again = ConnectRequest {
                session_id,
                password: Some(password),
                last_zxid_seen: self.seen,
                ..new_session(SESSION_MS)
            };
            let opened = ZkConnection::open(self.nodes[self.at], &again);
            let opened = tokio::time::timeout(Duration::from_secs(5), opened).await;
            let Ok(Ok((connection, Some(answer)))) = opened else {
                tokio::task::yield_now().await;
                continue;
            };
            assert_eq!(answer.session_id, session_id, "the session ended before its timeout");
            self.connection = Some(connection);
            self.moves += 1;
            self.take_watches_along().await;
        }
    }

    async fn take_watches_along(&mut self) {
        let mut watches = SetWatches { relative_zxid: self.seen, ..SetWatches::default() };
        for target in self.armed.keys() {
            match target {
                WatchTarget::Data(path) => watches.data.push(path.clone()),
                WatchTarget::Children(path) => watches.child.push(path.clone()),
            }
        }
        // Without a reply the client retries.
        self.exchange(&Request::SetWatches(watches)).await;
    }

    /// Sends one request on the current connection; `None` if the connection closes first.
    async fn exchange(&mut self, request: &Request) -> Option<(i32, Option<Response>)> {
        let mut connection = self.connection.take()?;
        let number = connection.send(request).await;
        loop {
            match connection.next().await {
                ZkIncoming::Event { event, .. } => self.told(&event),
                ZkIncoming::Reply { number: of, header, body, .. } if of == number => {
                    self.connection = Some(connection);
                    self.seen = self.seen.max(header.zxid);
                    return Some((header.err, body));
                }
                ZkIncoming::Closed | ZkIncoming::Silence => return None,
                other => panic!("{request:?}: {other:?}"),
            }
        }
    }

    fn told(&mut self, event: &WatchedEvent) {
        self.events += 1;
        let path = event.path.clone();
        let target = match event.kind {
            WatchEventType::DataChanged => WatchTarget::Data(path),
            WatchEventType::ChildrenChanged => WatchTarget::Children(path),
            _ => panic!("nobody does such a thing: {event:?}"),
        };
        match self.armed.remove(&target) {
            Some(change) => drop(self.told.insert(target, change)),
            None => self.wrong.push(format!("{event:?}, for which nothing was armed")),
        }
    }

    /// Sends until there is an answer, on any node. Repeats a request whose outcome is not known.
    pub(crate) async fn ask(&mut self, request: &Request) -> (i32, Option<Response>) {
        loop {
            self.connected().await;
            if let Some(answer) = self.exchange(request).await {
                return answer;
            }
        }
    }

    /// Reads, and leaves a watch unless there is one.
    pub(crate) async fn watch(&mut self, target: &WatchTarget) {
        if self.armed.contains_key(target) {
            return;
        }
        let change = self.read(target, true).await;
        if let Some(before) = self.told.remove(target)
            && change <= before
        {
            self.wrong.push(format!("{target:?} is told, and the same as at {before:#x}"));
        }
        self.armed.insert(target.clone(), change);
    }

    /// The number of the last change of it.
    async fn read(&mut self, target: &WatchTarget, watch: bool) -> i64 {
        let request = match target.clone() {
            WatchTarget::Data(path) => Request::GetData { path, watch },
            WatchTarget::Children(path) => Request::GetChildren2 { path, watch },
        };
        match self.ask(&request).await.1 {
            Some(Response::Data { stat, .. }) => stat.mzxid,
            Some(Response::Children2 { stat, .. }) => stat.pzxid,
            other => panic!("{target:?}: {other:?}"),
        }
    }

    /// Targets that have changed since their watch was armed, though nobody said so.
    pub(crate) async fn missed(&mut self) -> Vec<WatchTarget> {
        self.ask(&Request::Sync { path: "/".to_owned() }).await;
        let targets: Vec<WatchTarget> = self.armed.keys().cloned().collect();
        let mut missed = Vec::new();
        for target in targets {
            let now = self.read(&target, false).await;
            // What is told by now was not missed.
            if self.armed.get(&target).is_some_and(|armed| *armed != now) {
                missed.push(target);
            }
        }
        missed
    }
}
