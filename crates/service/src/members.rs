//! The members of the cluster, its feature level, and the metrics of this node. A cluster view calls all members in
//! parallel, with a timeout.
//!
//! Any node accepts a change of the level. It asks every member first, because a node whose program does not know the
//! level could not apply the commands of that level. A member that joins later proves in its handshake that its program
//! knows the level.

pub(crate) mod changes;
pub(crate) mod checks;
pub(crate) mod leader_priority;

use std::time::{Duration, Instant, UNIX_EPOCH};

use futures_util::future::{join, join_all};
use holdfast_machine::{Counts, Machine};
use holdfast_raft::Role as RaftRole;
use holdfast_types::{
    ClusterId, Command, FeatureLevel, MemberAddresses, NodeId, QuotaOwner, Reply, Revision, Right,
    Seal, Stamp, VotingRole, Zone,
};
use prometheus_client::registry::Registry;

use self::changes::pending_text;
use crate::quotas::rate_of;
use crate::request::{Failure, Response};
use crate::service::Service;
use crate::service_call::{HostReport, NodeReport, ReadHost, ReadReport};

/// A member that does not reply within this time counts as unreachable.
const REPORT_TIMEOUT: Duration = Duration::from_millis(400);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberRole {
    Leader,
    Follower,
    Candidate,
    /// The node receives the log and has no vote.
    Learner,
    /// A learner that replaces a voter that does not answer.
    Standby,
    /// The node replied, but has failed or is shutting down.
    Stopped,
    /// The node did not reply.
    Unreachable,
}

#[derive(Clone, Debug)]
pub struct ClusterView {
    pub cluster: String,
    /// `None` before the first command of the log.
    pub id: Option<ClusterId>,
    pub level: FeatureLevel,
    pub term: u64,
    /// The leader, if it has a quorum and has answered this node. Without it, the view may be old.
    pub leader: Option<NodeId>,
    /// The seal, if the cluster is sealed.
    pub seal: Option<Seal>,
    /// What the unfinished change of a member waits for, if the leader replied.
    pub change_waits_for: Option<String>,
    /// When the last complete backup was made.
    pub last_backup: Option<Stamp>,
    /// All members, by id.
    pub nodes: Vec<ClusterMember>,
}

#[derive(Clone, Debug)]
pub struct ClusterMember {
    pub id: NodeId,
    pub role: MemberRole,
    /// Whether the node votes in the log of the node that replies.
    pub votes: bool,
    pub addresses: MemberAddresses,
    pub zone: Option<Zone>,
    /// The unfinished change of the member, in words.
    pub change: Option<&'static str>,
    /// The version of its program; `None` if it is unreachable.
    pub version: Option<String>,
    /// The highest feature level that its program knows; `None` if it is unreachable.
    pub level_max: Option<FeatureLevel>,
    /// The last applied revision.
    pub applied: Revision,
    /// The digest of the state at that revision.
    pub digest: u64,
    /// The node replied, has not failed and has a leader.
    pub healthy: bool,
    /// Free bytes on the fullest disk of its data directory, log and snapshots.
    pub disk_free: Option<u64>,
    /// The size of its log.
    pub log_bytes: Option<u64>,
    /// When the first certificate of its listeners expires.
    pub certificate_expires_at: Option<Stamp>,
    /// The members that do not answer it.
    pub cannot_reach: Vec<NodeId>,
}

impl Service {
    /// Whether this node leads, as far as it knows.
    pub fn leads(&self) -> bool {
        self.raft().status().leader == Some(self.node())
    }

    pub(crate) fn report(&self) -> NodeReport {
        let status = self.raft().status();
        let (applied, digest) = self.raft().read(|machine| (machine.revision(), machine.digest()));
        NodeReport {
            term: status.term,
            // A follower without contact to its leader, and a leader without a quorum, have none.
            leader: status.leader.filter(|_| status.has_quorum),
            role: status.role,
            applied,
            digest,
            failed: self.failed().is_some(),
            change_waits_for: status.change_waits_for,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            level_max: FeatureLevel::NEWEST,
        }
    }

    pub(crate) fn host_report(&self) -> HostReport {
        let status = self.raft().status();
        let certificates = self.parts.certificates.lock();
        let first = certificates.iter().map(|of| of.expires_at).min();
        let first = first.map(|at| at.duration_since(UNIX_EPOCH).unwrap_or_default());
        let silent = status.peers.iter().filter(|(_, peer)| peer.unreachable.is_some());
        HostReport {
            disk_free: Some(status.disk_free_bytes).filter(|free| *free < u64::MAX),
            log_bytes: status.log_bytes,
            certificate_expires_at: first
                .map(|after| Stamp(u64::try_from(after.as_millis()).unwrap_or(u64::MAX))),
            cannot_reach: silent.map(|(id, _)| *id).collect(),
        }
    }

    /// Reads the states of all members. Takes at most about a second. The view is linearizable if it has a leader: a
    /// removed or cut-off node gets no answer from the leader, and its view has none.
    pub async fn cluster(&self) -> ClusterView {
        let mut own = self.report();
        if own.leader.is_some() {
            let passed = self.raft().read_barrier(Instant::now() + REPORT_TIMEOUT).await;
            own = self.report();
            own.leader = own.leader.filter(|_| passed.is_ok());
        }
        let members = self.members();
        let reads = members.into_iter().map(|(id, member)| self.read_member(id, member, &own));
        let (nodes, waits_for): (Vec<_>, Vec<_>) = join_all(reads).await.into_iter().unzip();
        let change_waits_for = waits_for.into_iter().flatten().next();
        let cluster = self.parts.cluster.clone();
        let (id, level, seal, last_backup) = self.raft().read(|machine| {
            let last_backup = machine.last_backup().map(|last| last.at);
            (machine.cluster_id(), machine.level(), machine.sealed().cloned(), last_backup)
        });
        let (term, leader) = (own.term, own.leader);
        ClusterView { cluster, id, level, term, leader, seal, change_waits_for, last_backup, nodes }
    }

    async fn read_member(
        &self,
        id: NodeId,
        addresses: MemberAddresses,
        own: &NodeReport,
    ) -> (ClusterMember, Option<String>) {
        let (found, host) = if id == self.node() {
            (Some(own.clone()), Some(self.host_report()))
        } else {
            let deadline = Instant::now() + REPORT_TIMEOUT;
            let report = self.call_service(id, ReadReport, deadline);
            let (report, host) = join(report, self.call_service(id, ReadHost, deadline)).await;
            (report.ok(), host.ok())
        };
        let (zone, change, is_standby) = self.raft().read(|machine| {
            let member = machine.member(id);
            let change = member.and_then(|member| pending_text(member, machine.now()));
            let is_standby = member.is_some_and(|member| member.role == VotingRole::Standby);
            (member.and_then(|member| member.zone.clone()), change, is_standby)
        });
        let waits_for = found.as_ref().and_then(|report| report.change_waits_for.clone());
        let member = ClusterMember {
            id,
            role: match found.as_ref().map(|report| role(report.role)) {
                Some(MemberRole::Learner) if is_standby => MemberRole::Standby,
                Some(role) => role,
                None => MemberRole::Unreachable,
            },
            votes: self.raft().status().voters.contains(&id),
            addresses,
            zone,
            change,
            version: found.as_ref().map(|report| report.version.clone()),
            level_max: found.as_ref().map(|report| report.level_max),
            applied: found.as_ref().map_or(Revision(0), |report| report.applied),
            digest: found.as_ref().map_or(0, |report| report.digest),
            healthy: found.is_some_and(|report| report.leader.is_some() && !report.failed),
            disk_free: host.as_ref().and_then(|host| host.disk_free),
            log_bytes: host.as_ref().map(|host| host.log_bytes),
            certificate_expires_at: host.as_ref().and_then(|host| host.certificate_expires_at),
            cannot_reach: host.map(|host| host.cannot_reach).unwrap_or_default(),
        };
        (member, waits_for)
    }

    /// Returns the numbers of sessions, znodes, locks and waiters. O(1).
    pub fn counts(&self) -> Counts {
        self.raft().read(Machine::counts)
    }

    pub fn register_raft_metrics(&self, registry: &mut Registry) {
        self.raft().register_metrics(registry);
    }

    /// Updates the gauges; call it before encoding the registry.
    pub fn refresh_metrics(&self) {
        let status = self.raft().status();
        let (revision, counts, limits, level) = self.raft().read(|machine| {
            (machine.revision(), machine.counts(), *machine.limits(), machine.level())
        });
        let last_backup =
            self.raft().read(Machine::last_backup).map_or(0, |last| last.at.0 / 1_000);
        let metrics = self.metrics();
        metrics.last_backup.set(last_backup.cast_signed());
        metrics.has_leader.set(i64::from(status.leader.is_some()));
        metrics.has_quorum.set(i64::from(status.has_quorum));
        metrics.follower_lag.clear();
        metrics.follower_silent.clear();
        for (node, peer) in &status.peers {
            if let (Some(matched), Some(last)) = (peer.matched, status.last_log_index) {
                let lag = last.saturating_sub(matched).cast_signed();
                metrics.follower_lag.get_or_create(&[("node", node.0)]).set(lag);
            }
            if let Some(silent) = peer.contact {
                let gauge = metrics.follower_silent.get_or_create(&[("node", node.0)]);
                gauge.set(silent.as_secs_f64());
            }
        }
        metrics.is_leader.set(i64::from(status.leader == Some(self.node())));
        metrics.term.set(status.term.cast_signed());
        metrics.revision.set(revision.0.cast_signed());
        metrics.sessions.set(counts.sessions.cast_signed());
        metrics.znodes.set(counts.znodes.cast_signed());
        metrics.tree_bytes.set(counts.tree_bytes.cast_signed());
        metrics.tree_bytes_max.set(limits.tree_bytes_max.cast_signed());
        metrics.locks_held.set(counts.locks_held.cast_signed());
        metrics.waiters.set(counts.waiters.cast_signed());
        metrics.feature_level.set(level.0.into());
        metrics.log_bytes.set(status.log_bytes.cast_signed());
        metrics.disk_free.set(status.disk_free_bytes.cast_signed());
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        metrics.parked.set(gauge(self.observer().waiter_permits.in_use()));
        metrics.streams.set(gauge(self.observer().streams.len()));
        metrics.watches.set(gauge(self.watch_counts().watches));
        metrics.watch_streams.set(gauge(self.observer().change_log.watchers()));
        self.refresh_namespace_metrics();
        metrics.set_alarms(&self.own_alarms());
    }

    fn refresh_namespace_metrics(&self) {
        let metrics = self.metrics();
        metrics.namespace_used.clear();
        metrics.namespace_limit.clear();
        self.raft().read(|machine| {
            for (namespace, quotas) in machine.namespaces() {
                for (quota, limit) in &quotas.0 {
                    let labels =
                        [("namespace", namespace.to_string()), ("quota", quota.to_string())];
                    metrics.namespace_limit.get_or_create(&labels).set(limit.cast_signed());
                    if let Some(used) = machine.namespace_used(namespace, *quota) {
                        metrics.namespace_used.get_or_create(&labels).set(used.cast_signed());
                    }
                }
            }
            let is_there = |owner: &QuotaOwner| match owner {
                QuotaOwner::Subject(subject) => machine.subject(subject).is_some(),
                QuotaOwner::Namespace(_) => true,
            };
            let has_rate =
                |owner: &QuotaOwner| is_there(owner) && rate_of(machine, owner).is_some();
            self.parts.call_rates.retain(has_rate);
        });
    }

    /// Raises or lowers the feature level by one. The present level changes nothing.
    ///
    /// # Errors
    /// [`Failure::LevelNotReady`] if a member is unreachable or its program does not know the level; a rejection if the
    /// level changes by more than one, or if the state has anything of the level to leave; the errors of any write.
    pub async fn set_level(&self, level: FeatureLevel) -> Result<Response<FeatureLevel>, Failure> {
        self.require(Right::ClusterManage)?;
        self.read_barrier().await?;
        for member in self.cluster().await.nodes {
            check_program(&member, level).map_err(Failure::LevelNotReady)?;
        }
        let set = self.propose(Command::SetLevel(level), Reply::into_level_set).await?;
        Ok(set.map(|()| level))
    }
}

fn role(role: RaftRole) -> MemberRole {
    match role {
        RaftRole::Leader => MemberRole::Leader,
        RaftRole::Follower => MemberRole::Follower,
        RaftRole::Candidate => MemberRole::Candidate,
        RaftRole::Learner => MemberRole::Learner,
        RaftRole::Stopped => MemberRole::Stopped,
    }
}

fn check_program(member: &ClusterMember, level: FeatureLevel) -> Result<(), String> {
    let ClusterMember { id, version, level_max, .. } = member;
    let (Some(version), Some(known)) = (version, level_max) else {
        return Err(format!("node {id} is unreachable, so its program is unknown"));
    };
    if *known < level {
        return Err(format!(
            "the program of node {id} ({version}) knows feature levels up to {known}"
        ));
    }
    Ok(())
}
