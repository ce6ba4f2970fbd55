//! Collects the facts of the alarms, and the alarms of all members.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_machine::{AccessTokenRecord, LastBackup, Machine, OverdueLock};
use holdfast_types::{
    HolderView, LockName, NodeId, Revision, RoleName, Stamp, SubjectName, SubtreeQuotaView,
    ZnodePath, millis,
};

use crate::health::alarms::{
    Alarm, AlarmFacts, ExpectedBackup, Expiring, FollowerFacts, ListenerCertificate, MemoryUse,
    NAMED_MAX, QuotaUse, SILENT, alarms_of,
};
use crate::service::Service;
use crate::service_call::ReadAlarms;

/// A member that does not reply within this time counts as unreachable.
const CALL_TIMEOUT: Duration = Duration::from_millis(400);
/// The roles whose access tokens the alarm `token-expires` watches.
const PRIVILEGED: [&str; 2] = [RoleName::ADMIN, "operator"];
/// A token with a shorter lifetime, milliseconds, is replaced by a program. One hour less than two weeks, because the creation of a
/// token of two weeks is stamped after its expiry is computed.
const LIFETIME_MIN: u64 = (14 * 24 - 1) * 3_600_000;

/// The most subtrees of each kind that the alarms of quotas read.
const SUBTREES_MAX: usize = 1_000;

/// An alarm, and the members that raise it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedAlarm {
    pub alarm: Alarm,
    pub nodes: Vec<NodeId>,
}

/// The alarms of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlarmsView {
    /// The most urgent first.
    pub alarms: Vec<ReportedAlarm>,
    /// The members that did not reply.
    pub unreachable: Vec<NodeId>,
}

impl AlarmsView {
    fn of(replies: Vec<(NodeId, Option<Vec<Alarm>>)>) -> Self {
        let mut view = Self { alarms: Vec::new(), unreachable: Vec::new() };
        for (node, alarms) in replies {
            let Some(alarms) = alarms else {
                view.unreachable.push(node);
                continue;
            };
            for alarm in alarms {
                match view.alarms.iter_mut().find(|known| known.alarm == alarm) {
                    Some(known) => known.nodes.push(node),
                    None => view.alarms.push(ReportedAlarm { alarm, nodes: vec![node] }),
                }
            }
        }
        let urgency = |of: &ReportedAlarm| (std::cmp::Reverse(of.alarm.severity), of.alarm.kind);
        view.alarms.sort_by_key(urgency);
        view
    }
}

impl Service {
    /// Reads the alarms of all members. Takes at most about half a second.
    pub async fn alarms(&self) -> AlarmsView {
        let members = self.members();
        let reads = members.keys().map(|id| self.read_alarms(*id));
        AlarmsView::of(futures_util::future::join_all(reads).await)
    }

    async fn read_alarms(&self, node: NodeId) -> (NodeId, Option<Vec<Alarm>>) {
        if node == self.node() {
            return (node, Some(self.own_alarms()));
        }
        let deadline = Instant::now() + CALL_TIMEOUT;
        (node, self.call_service(node, ReadAlarms, deadline).await.ok())
    }

    pub fn set_certificates(&self, certificates: Vec<ListenerCertificate>) {
        let gauges = &self.metrics().certificate_expires;
        for of in &certificates {
            let expires = of.expires_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            gauges.get_or_create(&[("listener", of.listener)]).set(expires.cast_signed());
        }
        *self.parts.certificates.lock() = certificates;
    }

    /// Sets the memory of this process; `None` if it is unknown.
    pub fn set_memory(&self, memory: Option<MemoryUse>) {
        *self.parts.memory.lock() = memory;
        if let Some(MemoryUse { limit, .. }) = memory {
            self.metrics().memory_limit.set(limit.cast_signed());
        }
    }

    /// Sets why the last scheduled backup failed; `None` after a success.
    pub fn set_backup_failure(&self, reason: Option<String>) {
        *self.parts.backup_failure.lock() = reason;
    }

    pub(crate) fn own_alarms(&self) -> Vec<Alarm> {
        alarms_of(&self.alarm_facts())
    }

    fn alarm_facts(&self) -> AlarmFacts {
        let status = self.raft().status();
        let now = self.log_time();
        let (tokens, quotas, soft_quotas) = self.raft().read(|machine| {
            let soft = machine.quotas_above_soft_limit().take(SUBTREES_MAX).collect();
            (expiring_tokens(machine, now), near_quotas(machine), soft)
        });
        let leads = status.leader == Some(self.node());
        let (long_waits, old_holds) =
            if leads { self.overdue_locks(now) } else { (Vec::new(), Vec::new()) };
        let followers = status.peers.iter().filter(|(id, _)| leads && status.voters.contains(id));
        let followers = followers.map(|(id, peer)| FollowerFacts {
            node: *id,
            contact: peer.contact,
            connected: peer.connected,
            stalled: peer.stalled,
            refusal: peer.refusal.clone(),
            unreachable: peer.unreachable.as_ref().map(|(reason, _)| reason.clone()),
            lag: peer
                .matched
                .zip(status.last_log_index)
                .map(|(matched, last)| last.saturating_sub(matched)),
        });
        // A silent member has an alarm of its own.
        let wrong = status.peers.iter().filter_map(|(id, peer)| {
            let (reason, since) = peer.unreachable.as_ref()?;
            (leads && peer.connected && *since > SILENT).then(|| (*id, reason.clone()))
        });
        let differs_at = self.parts.digests_differ_at.load(Ordering::Relaxed);
        AlarmFacts {
            node: self.node(),
            leader: status.leader,
            has_quorum: status.has_quorum,
            waiting_for: status.waiting_for,
            voters: status.voters.len(),
            followers: followers.collect(),
            disk_free: status.disk_free_bytes,
            disk_reserve: self.parts.disk_reserve,
            syncs: status.recent_syncs,
            now: SystemTime::now(),
            certificates: self.parts.certificates.lock().clone(),
            tokens,
            quotas,
            history_gap: self.observer().hold_recorder.recent_gap(),
            differs_at: (differs_at > 0).then_some(Revision(differs_at)),
            unprotected: self.config().unprotected.clone(),
            clocks: self.parts.clocks.lock().clone(),
            addresses: wrong.collect(),
            memory: *self.parts.memory.lock(),
            backup_failure: self.parts.backup_failure.lock().clone(),
            backup: self.expected_backup(now),
            state_check: self.state_check(),
            foreign: self.foreign_znode().filter(|_| leads),
            audit_sinks: self.audit_sink_problems(Instant::now()),
            soft_quotas,
            long_waits,
            old_holds,
            durable_holds: self.old_durable_holds(now),
            audit_evicted: (self.raft().read(|machine| machine.audit_evicted().collect()), now),
            seal: self.raft().read(|machine| machine.sealed().cloned()).map(|seal| {
                let age = Duration::from_millis(now.0.saturating_sub(seal.since.0));
                (seal, age)
            }),
        }
    }

    fn foreign_znode(&self) -> Option<(ZnodePath, usize)> {
        self.raft().read(|machine| {
            machine.first_foreign_znode().map(|(path, count)| (path.clone(), count))
        })
    }

    /// One more than an alarm names.
    fn old_durable_holds(&self, now: Stamp) -> Vec<(LockName, HolderView, Duration)> {
        let after = millis(self.config().durable_hold_alarm_after);
        let before = Stamp(now.0.saturating_sub(after));
        let old = self.raft().read(|machine| machine.durable_holds_before(before, NAMED_MAX + 1));
        let aged = old.into_iter().map(|(lock, holder)| {
            let age = Duration::from_millis(now.0.saturating_sub(holder.granted_at.0));
            (lock, holder, age)
        });
        aged.collect()
    }

    /// Locks with a long wait, and locks with an old hold. One more of each than an alarm names.
    fn overdue_locks(&self, now: Stamp) -> (Vec<OverdueLock>, Vec<OverdueLock>) {
        self.raft().read(|machine| {
            let waits = machine.locks_with_long_waits(now, NAMED_MAX + 1);
            (waits, machine.locks_with_old_holds(now, NAMED_MAX + 1))
        })
    }

    /// `None` if this node expects no backups.
    fn expected_backup(&self, now: Stamp) -> Option<ExpectedBackup> {
        let every = self.config().backup_expected_every?;
        let age = |last: LastBackup| Duration::from_millis(now.0.saturating_sub(last.at.0));
        Some(ExpectedBackup { every, age: self.raft().read(Machine::last_backup).map(age) })
    }
}

/// The privileged subjects whose latest access token expires, and has to be replaced by a person.
fn expiring_tokens(machine: &Machine, now: Stamp) -> Vec<Expiring> {
    let mut latest = BTreeMap::<&SubjectName, &AccessTokenRecord>::new();
    // A program replaces short-lived tokens.
    let is_of_person = |token: &AccessTokenRecord| {
        expiry(token).saturating_sub(token.created_at.0) >= LIFETIME_MIN
    };
    let tokens = machine.access_tokens().map(|(_, token)| token);
    for token in tokens.filter(|token| is_privileged(machine, token) && is_of_person(token)) {
        let known = latest.entry(&token.subject).or_insert(token);
        if expiry(known) < expiry(token) {
            *known = token;
        }
    }
    let expiring = latest.into_iter().filter_map(|(name, token)| {
        let within = Duration::from_millis(token.expires_at?.0.saturating_sub(now.0));
        Some(Expiring { name: name.to_string(), within })
    });
    expiring.collect()
}

fn is_privileged(machine: &Machine, token: &AccessTokenRecord) -> bool {
    let subject = machine.subject(&token.subject);
    subject.is_some_and(|of| of.roles.iter().any(|role| PRIVILEGED.contains(&role.as_str())))
}

fn expiry(token: &AccessTokenRecord) -> u64 {
    token.expires_at.map_or(u64::MAX, |at| at.0)
}

fn near_quotas(machine: &Machine) -> Vec<QuotaUse> {
    let (counts, limits) = (machine.counts(), machine.limits());
    let cluster = [
        ("sessions", counts.sessions, limits.sessions_max.into()),
        ("znodes", counts.znodes, limits.znodes_max.into()),
        ("bytes", counts.tree_bytes, limits.tree_bytes_max),
    ];
    let cluster =
        cluster.map(|(name, used, limit)| QuotaUse { name: name.to_owned(), used, limit });
    let namespaces = machine.namespaces().flat_map(|(namespace, quotas)| {
        quotas.0.iter().filter_map(move |(quota, limit)| {
            let used = machine.namespace_used(namespace, *quota)?;
            Some(QuotaUse { name: format!("{quota} of {namespace}"), used, limit: *limit })
        })
    });
    let subtrees = machine.quotas_near_hard_limit().take(SUBTREES_MAX).flat_map(|quota| {
        let SubtreeQuotaView { path, limits, used_znodes, used_bytes } = quota;
        let of = [("znodes", used_znodes, limits.znodes), ("bytes", used_bytes, limits.bytes)];
        of.into_iter().filter_map(move |(what, used, limit)| {
            Some(QuotaUse { name: format!("{what} of {path}"), used, limit: limit? })
        })
    });
    cluster.into_iter().chain(namespaces).chain(subtrees).filter(QuotaUse::is_near).collect()
}

#[cfg(test)]
mod tests {
    use holdfast_types::{
        AccessTokenId, Actor, AuthChange, Command, Entry, NewAccessToken, SecretHash,
    };

    use super::*;
    use crate::health::alarms::{AlarmKind, AlarmSeverity};

    fn alarm(kind: AlarmKind, severity: AlarmSeverity, detail: &str) -> Alarm {
        Alarm { kind, severity, detail: detail.to_owned() }
    }

    /// The token of a year ends in five days, and a program gets one of a week.
    #[test]
    fn a_short_lived_token_hides_no_token_that_a_person_replaces() {
        let at = |day: u64| Stamp(day * 86_400_000);
        let subject = SubjectName::new("eva").unwrap();
        let token = |id: u8, day| NewAccessToken {
            id: AccessTokenId(id.into()),
            hash: SecretHash([id; 32]),
            expires_at: Some(at(day)),
        };
        let first = AuthChange::AddAdministrator {
            subject: subject.clone(),
            token: token(1, 365),
            mode: None,
        };
        let next = AuthChange::AddToken { subject: subject.clone(), token: token(2, 367) };
        let mut machine = Machine::new();
        for (day, change, actor) in
            [(0, first, Actor::Anonymous), (360, next, Actor::Subject(subject))]
        {
            let commands = vec![Command::Auth(change).by(actor)];
            let applied = machine.apply(Entry { stamped_at: at(day), commands });
            assert!(applied.outcomes[0].is_ok(), "{:?}", applied.outcomes);
        }
        let expiring = expiring_tokens(&machine, at(360));
        let within: Vec<Duration> = expiring.iter().map(|of| of.within).collect();
        assert_eq!(within, [Duration::from_hours(5 * 24)]);
    }

    #[test]
    fn the_same_alarm_of_several_members_is_one_and_the_most_urgent_is_first() {
        let near = alarm(AlarmKind::QuotaNear, AlarmSeverity::Warning, "sessions 9 of 10");
        let disk = alarm(AlarmKind::DiskLow, AlarmSeverity::Critical, "1 MiB");
        let replies = vec![
            (NodeId(1), Some(vec![near.clone()])),
            (NodeId(2), None),
            (NodeId(3), Some(vec![disk.clone(), near.clone()])),
        ];
        let view = AlarmsView::of(replies);
        let expected = [
            ReportedAlarm { alarm: disk, nodes: vec![NodeId(3)] },
            ReportedAlarm { alarm: near, nodes: vec![NodeId(1), NodeId(3)] },
        ];
        assert_eq!((view.alarms, view.unreachable), (expected.to_vec(), vec![NodeId(2)]));
    }
}
