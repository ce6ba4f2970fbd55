//! How a cluster comes into being: once, and never again out of a majority that lost its disks.
//!
//! Owns what a node does as long as it has no log: it asks all members whether they have one. When every member is
//! here and none has, the one with the lowest id asks all others to write down who founds the cluster with them (the
//! [`roster::Roster`]), and makes the first entry of the log when they all have. Whoever has written it down, or has
//! a log, founds no other cluster. Refuses to judge what was asked: that is `survey`'s.
//!
//! Bounds: one question to each member at a time, [`ASK_BOUND`] long.

pub(crate) mod roster;
mod survey;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use holdfast_types::{Incarnation, NodeId};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use self::roster::{Roster, RosterBook};
use self::survey::{Setting, Step, View, judge};
use crate::error::CallError;
use crate::failure::Failure;
use crate::peers::Peers;
use crate::transport::handshake::{Doorman, Visitor, disowned};
use crate::type_config::Raft;
use crate::wire::{Purpose, ReplyBody, RequestBody, SurveyDto};

/// A member has so long for its answer.
const ASK_BOUND: Duration = Duration::from_secs(2);
/// Between two rounds of questions: at first, and later on.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Absent members are left out, if an operator wants that, only after so long: they may just be starting.
const ALONE_AFTER: Duration = Duration::from_secs(5);

/// See the module.
pub(crate) struct Founding {
    pub(crate) raft: Raft,
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) members: BTreeSet<NodeId>,
    pub(crate) book: Arc<RosterBook>,
    pub(crate) doorman: Arc<Doorman>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) failure: Failure,
    /// Whether an operator wants a cluster without waiting for absent members.
    pub(crate) alone: bool,
    /// What this node waits for, as long as it has no log.
    pub(crate) waits_for: Mutex<Option<String>>,
    /// One founder is agreed with at a time.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

impl Founding {
    /// Asks and answers until this node has a log.
    pub(crate) async fn run(self: Arc<Self>) {
        let began = Instant::now();
        let mut pause = PAUSE_MIN;
        while self.is_blank().await {
            let views = self.ask_all().await;
            let setting = Setting {
                node: self.node,
                incarnation: self.incarnation,
                members: self.members.clone(),
                roster: self.book.current(),
                alone: self.alone && began.elapsed() >= ALONE_AFTER,
            };
            match judge(&setting, &views) {
                Step::Found(roster) => self.found(roster).await,
                Step::Join(roster) => self.join(roster).await,
                Step::Wait(why) => self.wait_for(why),
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        self.waits_for.lock().take();
    }

    async fn is_blank(&self) -> bool {
        // An error means that openraft has stopped.
        !self.raft.is_initialized().await.unwrap_or(true)
    }

    fn wait_for(&self, why: String) {
        let mut waits_for = self.waits_for.lock();
        if waits_for.as_ref() != Some(&why) {
            tracing::info!(why, "this node has no log yet and waits");
            *waits_for = Some(why);
        }
    }

    async fn ask_all(&self) -> BTreeMap<NodeId, View> {
        let others = self.members.iter().filter(|id| **id != self.node);
        join_all(others.map(|id| async { (*id, self.ask(*id).await) })).await.into_iter().collect()
    }

    async fn ask(&self, node: NodeId) -> View {
        let deadline = Instant::now() + ASK_BOUND;
        match self.peers.call(node, Purpose::Founding, &RequestBody::Survey, deadline).await {
            Ok(ReplyBody::Survey(survey)) => View::Told(survey),
            Ok(_) => View::Silent("it answers something else".into()),
            Err(CallError::NotSent(reason)) if disowned(&reason) => View::Disowned,
            Err(CallError::NotSent(reason) | CallError::Unknown(reason)) => View::Silent(reason),
        }
    }

    /// All on the roster write it down, this node last; then the log begins.
    async fn found(&self, roster: Roster) {
        let others = roster.members.keys().filter(|id| **id != self.node);
        let asked = others.map(|id| self.enlist(*id, &roster));
        if let Some(why) = join_all(asked).await.into_iter().find_map(Result::err) {
            return self.wait_for(why);
        }
        let _turn = self.turn.lock().await;
        let other = self.book.current().is_some_and(|old| old.founder != roster.founder);
        if other || !self.is_blank().await || self.write(roster).await.is_err() {
            return;
        }
        let members: BTreeSet<u64> = self.members.iter().map(|id| id.0).collect();
        match self.raft.initialize(members).await {
            Ok(()) => tracing::info!(members = %listed(&self.members), "made a new cluster"),
            Err(error) => tracing::warn!(%error, "failed to make a new cluster"),
        }
    }

    async fn enlist(&self, node: NodeId, roster: &Roster) -> Result<(), String> {
        let deadline = Instant::now() + ASK_BOUND;
        let body = RequestBody::Found(roster.clone());
        match self.peers.call(node, Purpose::Founding, &body, deadline).await {
            Ok(ReplyBody::Founded) => Ok(()),
            Ok(ReplyBody::Refused(reason)) => Err(format!("node {node} refuses: {reason}")),
            Ok(_) => Err(format!("node {node} answers something else")),
            Err(error) => Err(format!("waiting for node {node}: {error}")),
        }
    }

    /// A cluster that exists has registered this node; it may now be called by its members.
    async fn join(&self, roster: Roster) {
        let _turn = self.turn.lock().await;
        if self.is_blank().await && self.write(roster).await.is_ok() {
            tracing::info!("joining a cluster that has registered this node");
        }
    }

    async fn write(&self, roster: Roster) -> Result<(), ()> {
        let book = self.book.clone();
        let written = tokio::task::spawn_blocking(move || book.write(roster)).await;
        let written = written.unwrap_or_else(|error| Err(error.to_string()));
        written
            .map_err(|reason| self.failure.report(format!("disk error while founding: {reason}")))
    }

    /// Answers what a member without a log asks.
    pub(crate) async fn survey(&self, visitor: Visitor) -> ReplyBody {
        ReplyBody::Survey(SurveyDto {
            incarnation: self.incarnation,
            blank: self.is_blank().await,
            knows_you: self.doorman.known(visitor.node) == Some(visitor.incarnation),
            roster: self.book.current(),
        })
    }

    /// Agrees to a founding, durably, unless this node has a log or agreed to another founder.
    pub(crate) async fn agree(&self, visitor: Visitor, roster: Roster) -> ReplyBody {
        let refuse = |reason: &str| ReplyBody::Refused(reason.to_owned());
        let _turn = self.turn.lock().await;
        if roster.founder != visitor.incarnation
            || roster.members.get(&self.node) != Some(&self.incarnation)
        {
            return refuse("the roster names other data directories");
        }
        if self.book.current().is_some_and(|old| old.founder != roster.founder) {
            return refuse("it agreed to another founding");
        }
        if !self.is_blank().await {
            return refuse("it has a log");
        }
        match self.write(roster).await {
            Ok(()) => ReplyBody::Founded,
            Err(()) => refuse("its disk failed"),
        }
    }
}

/// Ids for the log, separated by commas.
pub(crate) fn listed<'a>(nodes: impl IntoIterator<Item = &'a NodeId>) -> String {
    let ids: Vec<String> = nodes.into_iter().map(NodeId::to_string).collect();
    ids.join(",")
}
