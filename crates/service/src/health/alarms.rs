//! Alarms: conditions of a node or the cluster that an operator should end. They block nothing.
//!
//! [`alarms_of`] computes the alarms of one node from [`AlarmFacts`], a copy of its state. Each node raises an alarm at
//! most once, and names at most [`NAMED_MAX`] things in it. Only the leader knows how far its followers are.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use holdfast_machine::OverdueLock;
use holdfast_raft::{RecentSyncs, SLOW_SYNC};
use holdfast_types::{
    AuditClass, AuditEvicted, HolderView, LockName, NodeId, Reason, Revision, Seal, Stamp,
    SubtreeQuotaView, ZnodePath, format_time, is_nearly_full,
};
use serde::{Deserialize, Serialize};

use crate::digests::StateCheck;

mod kind;

pub use kind::{AlarmKind, CLOCK_OFFSET_MAX};

use kind::{
    BEHIND_MAX, EVICTED_FOR, EXPIRES_WITHIN, LAG_MAX, MEMORY_CRITICAL, MEMORY_HIGH, RESERVES_MIN,
    SYNCS_MIN,
};
pub(crate) use kind::{NAMED_MAX, SILENT};

/// How urgent an alarm is. Services exchange it: append-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AlarmSeverity {
    /// The cluster works; another event can stop it.
    Warning,
    /// Calls fail, or state is in danger.
    Critical,
}

impl AlarmSeverity {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// An alarm of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    pub kind: AlarmKind,
    pub severity: AlarmSeverity,
    /// The fact, without a full stop.
    pub detail: String,
}

/// A follower, as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FollowerFacts {
    pub(crate) node: NodeId,
    /// The time since its last acknowledgement; `None` before the first.
    pub(crate) contact: Option<Duration>,
    pub(crate) connected: bool,
    /// Entries that it has not acknowledged.
    pub(crate) lag: Option<u64>,
    /// How long it has been behind without progress.
    pub(crate) stalled: Option<Duration>,
    /// Why it refused the last connection.
    pub(crate) refusal: Option<String>,
    /// The address that does not answer, and the reason.
    pub(crate) unreachable: Option<String>,
}

impl FollowerFacts {
    fn is_silent(&self) -> bool {
        self.contact.map_or(!self.connected, |contact| contact > SILENT)
    }

    /// Returns how far the follower is behind, if that is too far or for too long.
    fn lags(&self) -> Option<String> {
        let (node, lag) = (self.node, self.lag?);
        let stalled = self.stalled.filter(|stalled| *stalled > SILENT);
        let stalled =
            stalled.map(|stalled| format!(", without progress for {} s", stalled.as_secs()));
        (lag > LAG_MAX || stalled.is_some()).then(|| {
            format!("node {node} by {lag} entries{}{}", stalled.unwrap_or_default(), self.reason())
        })
    }

    fn reason(&self) -> String {
        let reason = self.refusal.as_ref().or(self.unreachable.as_ref());
        reason.map(|reason| format!(" ({reason})")).unwrap_or_default()
    }
}

/// The certificate of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerCertificate {
    /// `http`, `peer` or `zookeeper`.
    pub listener: &'static str,
    pub expires_at: SystemTime,
    /// Why the changed files cannot be used.
    pub reload_error: Option<String>,
}

/// Something that expires after this time; zero once it has expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expiring {
    pub(crate) name: String,
    pub(crate) within: Duration,
}

impl Expiring {
    fn is_over(&self) -> bool {
        self.within.is_zero()
    }

    fn when(&self) -> String {
        if self.is_over() {
            return format!("{} has expired", self.name);
        }
        format!("{} in {}", self.name, days(self.within))
    }
}

/// The memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Resident bytes.
    pub resident: u64,
    /// The limit of the process, or the memory of the machine, bytes.
    pub limit: u64,
}

/// What is used of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuotaUse {
    pub(crate) name: String,
    pub(crate) used: u64,
    pub(crate) limit: u64,
}

impl QuotaUse {
    pub(crate) fn is_near(&self) -> bool {
        is_nearly_full(self.used, self.limit)
    }
}

/// What this node knows about the clocks; empty unless it leads.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockFacts {
    /// How far the clocks of other nodes are ahead of this node's, milliseconds.
    pub(crate) offsets: BTreeMap<NodeId, i64>,
    /// How far the log's time is behind the clocks of a majority, milliseconds.
    pub(crate) behind_ms: Option<i64>,
}

/// The state that alarms depend on.
#[derive(Clone, Debug)]
pub(crate) struct AlarmFacts {
    pub(crate) node: NodeId,
    pub(crate) leader: Option<NodeId>,
    pub(crate) has_quorum: bool,
    /// What a node without a log waits for.
    pub(crate) waiting_for: Option<String>,
    /// The number of voters, including this node.
    pub(crate) voters: usize,
    /// The followers that vote; empty unless this node leads.
    pub(crate) followers: Vec<FollowerFacts>,
    pub(crate) disk_free: u64,
    pub(crate) disk_reserve: u64,
    pub(crate) syncs: RecentSyncs,
    pub(crate) now: SystemTime,
    pub(crate) certificates: Vec<ListenerCertificate>,
    /// The access tokens of administrators and operators that expire soon.
    pub(crate) tokens: Vec<Expiring>,
    /// The quotas that are near.
    pub(crate) quotas: Vec<QuotaUse>,
    /// Why the lock history of this node has a recent gap.
    pub(crate) history_gap: Option<&'static str>,
    /// The revision at which the states of the nodes differ.
    pub(crate) differs_at: Option<Revision>,
    /// An address that other machines reach without TLS.
    pub(crate) unprotected: Option<String>,
    /// Empty unless this node leads.
    pub(crate) clocks: ClockFacts,
    /// The members that answer no longer at their registered address, with the address and the reason; empty unless this node leads.
    pub(crate) addresses: BTreeMap<NodeId, String>,
    /// `None` if it is unknown.
    pub(crate) memory: Option<MemoryUse>,
    /// Why the last scheduled backup of this node failed.
    pub(crate) backup_failure: Option<String>,
    pub(crate) backup: Option<ExpectedBackup>,
    pub(crate) state_check: StateCheck,
    /// The seal of the cluster, and its age.
    pub(crate) seal: Option<(Seal, Duration)>,
    /// A znode of a client that does not see HTTP callers, and the number of all of them; `None` unless this node leads.
    pub(crate) foreign: Option<(ZnodePath, usize)>,
    /// The problems of the durable copies of the audit trail.
    pub(crate) audit_sinks: Vec<String>,
    /// The evicted records of the audit trail, and the log's time.
    pub(crate) audit_evicted: (Vec<(AuditClass, AuditEvicted)>, Stamp),
    /// The durable holds that are too old, with their ages.
    pub(crate) durable_holds: Vec<(LockName, HolderView, Duration)>,
    /// The subtrees above a soft limit.
    pub(crate) soft_quotas: Vec<SubtreeQuotaView>,
    /// The locks with a wait beyond the threshold of their policy; empty unless this node leads.
    pub(crate) long_waits: Vec<OverdueLock>,
    /// The locks with a hold beyond the threshold of their policy; empty unless this node leads.
    pub(crate) old_holds: Vec<OverdueLock>,
}

/// When the next backup is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedBackup {
    pub(crate) every: Duration,
    /// The time since the last backup; `None` before the first.
    pub(crate) age: Option<Duration>,
}

/// Computes the alarms of a node, in the order of their kinds.
pub(crate) fn alarms_of(facts: &AlarmFacts) -> Vec<Alarm> {
    let found = AlarmKind::ALL.map(|kind| {
        let (severity, detail) = raised(kind, facts)?;
        Some(Alarm { kind, severity, detail })
    });
    found.into_iter().flatten().collect()
}

/// The severity and the fact of an alarm; `None` if its condition is not met.
fn raised(kind: AlarmKind, facts: &AlarmFacts) -> Option<(AlarmSeverity, String)> {
    let critical = |detail: Option<String>| Some((AlarmSeverity::Critical, detail?));
    let warning = |detail: Option<String>| Some((AlarmSeverity::Warning, detail?));
    match kind {
        AlarmKind::NoLeader => {
            let AlarmFacts { node, leader, has_quorum, waiting_for, .. } = facts;
            critical(no_leader(*node, *leader, *has_quorum, waiting_for.as_deref()))
        }
        AlarmKind::Diverged => {
            let detail = |at| format!("the states of the nodes differ at revision {at}");
            critical(facts.differs_at.map(detail))
        }
        AlarmKind::OneFailureLeft => critical(one_failure_left(facts)),
        AlarmKind::MemberSilent => warning(silent_members(&facts.followers)),
        AlarmKind::MemberLagging => warning(lagging_members(&facts.followers)),
        AlarmKind::DiskLow => disk_low(facts.disk_free, facts.disk_reserve),
        AlarmKind::LogSyncSlow => warning(log_sync_slow(facts.syncs)),
        AlarmKind::CertificateExpires => expiring_certificates(facts),
        AlarmKind::TlsReloadFailed => critical(failed_reloads(&facts.certificates)),
        AlarmKind::TokenExpires => {
            expires(&facts.tokens, "the last access token of a privileged subject")
        }
        AlarmKind::QuotaNear => warning(near_quotas(&facts.quotas)),
        AlarmKind::HistoryGap => warning(facts.history_gap.map(str::to_owned)),
        AlarmKind::OpenMode => {
            let detail = |address| format!("other machines reach {address} without TLS");
            warning(facts.unprotected.as_ref().map(detail))
        }
        AlarmKind::ClockSkew => warning(clock_skew(&facts.clocks)),
        AlarmKind::BackupOld => warning(facts.backup.and_then(backup_old)),
        AlarmKind::Unverified => warning(unverified(facts.state_check)),
        AlarmKind::Sealed => warning(facts.seal.as_ref().map(sealed)),
        AlarmKind::ForeignRecipe => warning(facts.foreign.as_ref().map(foreign_recipe)),
        AlarmKind::MemberAddress => warning(member_address(facts)),
        AlarmKind::MemoryHigh => memory_high(facts.memory?),
        AlarmKind::BackupFailed => warning(facts.backup_failure.clone()),
        AlarmKind::TimeBehind => warning(facts.clocks.behind_ms.and_then(time_behind)),
        AlarmKind::AuditBehind => warning(named(facts.audit_sinks.iter().cloned(), "")),
        AlarmKind::AuditEvicted => warning(audit_evicted(&facts.audit_evicted)),
        AlarmKind::DurableHoldOld => warning(durable_holds(&facts.durable_holds)),
        AlarmKind::TreeQuotaSoft => warning(soft_quotas(&facts.soft_quotas)),
        AlarmKind::LockWaitLong => warning(long_waits(&facts.long_waits)),
        AlarmKind::LockHoldOld => warning(old_holds(&facts.old_holds)),
    }
}

fn silent_members(followers: &[FollowerFacts]) -> Option<String> {
    let silent = followers.iter().filter(|follower| follower.is_silent());
    named(silent.map(silence), "no acknowledgement")
}

fn lagging_members(followers: &[FollowerFacts]) -> Option<String> {
    let others = followers.iter().filter(|follower| !follower.is_silent());
    named(others.filter_map(FollowerFacts::lags), "behind the leader")
}

fn expiring_certificates(facts: &AlarmFacts) -> Option<(AlarmSeverity, String)> {
    let left = facts.certificates.iter().map(|of| Expiring {
        name: of.listener.to_owned(),
        within: of.expires_at.duration_since(facts.now).unwrap_or_default(),
    });
    expires(&left.collect::<Vec<_>>(), "the certificate of a listener")
}

fn failed_reloads(certificates: &[ListenerCertificate]) -> Option<String> {
    let failed = certificates
        .iter()
        .filter_map(|of| Some(format!("{}: {}", of.listener, of.reload_error.as_ref()?)));
    named(failed, "")
}

fn near_quotas(quotas: &[QuotaUse]) -> Option<String> {
    let near = quotas.iter().filter(|quota| quota.is_near());
    named(near.map(|QuotaUse { name, used, limit }| format!("{name} {used} of {limit}")), "")
}

fn unverified(check: StateCheck) -> Option<String> {
    let detail = "no majority has confirmed the state of this node since its start";
    (check == StateCheck::Unverified).then(|| detail.to_owned())
}

/// What expires soon, or has expired, which is critical.
fn expires(items: &[Expiring], what: &str) -> Option<(AlarmSeverity, String)> {
    let is_over = items.iter().any(Expiring::is_over);
    let severity = if is_over { AlarmSeverity::Critical } else { AlarmSeverity::Warning };
    let soon = items.iter().filter(|of| of.within <= EXPIRES_WITHIN);
    Some((severity, named(soon.map(Expiring::when), what)?))
}

fn sealed((Seal { by, reason, .. }, age): &(Seal, Duration)) -> String {
    let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    format!("sealed{by} {} ago: {reason}", days(*age))
}

fn foreign_recipe((path, count): &(ZnodePath, usize)) -> String {
    format!("{count} znodes of clients that do not see HTTP callers, first {path}")
}

fn member_address(facts: &AlarmFacts) -> Option<String> {
    let wrong = facts.addresses.iter().map(|(node, reason)| format!("node {node} at {reason}"));
    named(wrong, "no answer")
}

fn memory_high(MemoryUse { resident, limit }: MemoryUse) -> Option<(AlarmSeverity, String)> {
    let percent = u128::from(resident) * 100 / u128::from(limit.max(1));
    let severity = match percent {
        MEMORY_CRITICAL.. => AlarmSeverity::Critical,
        MEMORY_HIGH.. => AlarmSeverity::Warning,
        _ => return None,
    };
    let [resident, limit] = [resident, limit].map(|bytes| bytes >> 20);
    Some((severity, format!("{resident} MiB resident, {percent} % of the limit of {limit} MiB")))
}

fn audit_evicted((evicted, now): &(Vec<(AuditClass, AuditEvicted)>, Stamp)) -> Option<String> {
    let is_recent = |evicted: &AuditEvicted| now.0 < evicted.evicted_at.0 + EVICTED_FOR;
    let recent = evicted.iter().filter(|(_, evicted)| is_recent(evicted));
    let detail = recent.map(|(class, AuditEvicted { count, at, .. })| {
        format!("{count} records of {} up to {}", class.as_str(), format_time(*at))
    });
    named(detail, "evicted from the audit trail")
}

fn durable_holds(old: &[(LockName, HolderView, Duration)]) -> Option<String> {
    let detail = old.iter().map(|(lock, HolderView { owner, durable, .. }, age)| {
        let reason = durable.as_ref().map_or("", Reason::as_str);
        format!("{lock} by {owner} for {}: {reason}", days(*age))
    });
    named(detail, "")
}

/// `orders: a wait of 45 s (threshold 30 s), held by web-3 with token 7`
fn long_waits(locks: &[OverdueLock]) -> Option<String> {
    let detail = locks.iter().map(|of| {
        let held =
            held_by(of).map_or_else(|| "free".to_owned(), |holder| format!("held by {holder}"));
        format!("{}: a wait of {}, {held}", of.lock, beyond(of))
    });
    named(detail, "")
}

/// `orders: a hold of 45 s (threshold 30 s) by web-3 with token 7`
fn old_holds(locks: &[OverdueLock]) -> Option<String> {
    let detail = locks.iter().map(|of| {
        format!("{}: a hold of {} by {}", of.lock, beyond(of), held_by(of).unwrap_or_default())
    });
    named(detail, "")
}

/// `45 s (threshold 30 s)`
fn beyond(OverdueLock { ms, threshold_ms, .. }: &OverdueLock) -> String {
    let [age, threshold] = [*ms, *threshold_ms].map(Duration::from_millis).map(seconds);
    format!("{age} (threshold {threshold})")
}

/// `web-3 with token 7`
fn held_by(OverdueLock { holder, .. }: &OverdueLock) -> Option<String> {
    let HolderView { session, token, .. } = holder.as_ref()?;
    Some(format!("{session} with token {token}"))
}

/// `znodes of /orders 12 of 10`
fn soft_quotas(above: &[SubtreeQuotaView]) -> Option<String> {
    let of = |quota: &SubtreeQuotaView| {
        let SubtreeQuotaView { path, limits, used_znodes, used_bytes } = quota;
        [("znodes", *used_znodes, limits.soft_znodes), ("bytes", *used_bytes, limits.soft_bytes)]
            .map(|(what, used, limit)| {
                let limit = limit.filter(|limit| used > *limit)?;
                Some(format!("{what} of {path} {used} of {limit}"))
            })
    };
    named(above.iter().flat_map(of).flatten(), "")
}

fn time_behind(ms: i64) -> Option<String> {
    let seconds = ms / 1_000;
    let detail = || format!("the log's time is behind the clocks of a majority by {seconds} s");
    (ms > BEHIND_MAX).then(detail)
}

fn clock_skew(clocks: &ClockFacts) -> Option<String> {
    let wrong = clocks.offsets.iter().filter(|(_, ms)| ms.unsigned_abs() > CLOCK_OFFSET_MAX);
    let detail = wrong.map(|(node, ms)| {
        let direction = if *ms > 0 { "ahead of" } else { "behind" };
        let tenths = ms.unsigned_abs() / 100;
        let (seconds, tenths) = (tenths / 10, tenths % 10);
        format!("the clock of node {node} is {seconds}.{tenths} s {direction} the leader's")
    });
    named(detail, "")
}

fn backup_old(ExpectedBackup { every, age }: ExpectedBackup) -> Option<String> {
    let made = match age {
        None => "no backup".to_owned(),
        Some(age) if age > every => format!("the last backup was made {} ago", days(age)),
        Some(_) => return None,
    };
    Some(format!("{made}, expected every {}", days(every)))
}

/// Why a node is not in contact with the leader and a majority.
pub(crate) fn no_leader(
    node: NodeId,
    leader: Option<NodeId>,
    has_quorum: bool,
    waiting_for: Option<&str>,
) -> Option<String> {
    match leader {
        None => Some(waiting_for.unwrap_or("no leader is known").to_owned()),
        Some(_) if has_quorum => None,
        Some(leader) if leader == node => {
            Some("this node leads, but no majority acknowledges it".to_owned())
        }
        Some(leader) => Some(format!("no message from the leader, node {leader}")),
    }
}

/// A cluster with fewer than three voters never survives a failure, so it has no alarm.
fn one_failure_left(facts: &AlarmFacts) -> Option<String> {
    let silent = facts.followers.iter().filter(|follower| follower.is_silent()).count();
    let (all, healthy) = (facts.voters, facts.voters.saturating_sub(silent));
    let leads = facts.leader == Some(facts.node);
    (leads && all >= 3 && healthy == all / 2 + 1)
        .then(|| format!("{healthy} of {all} voters answer: the next failure stops the cluster"))
}

fn silence(follower: &FollowerFacts) -> String {
    let (node, reason) = (follower.node, follower.reason());
    match follower.contact {
        Some(contact) => format!("node {node} for {} s{reason}", contact.as_secs()),
        None => format!("node {node} since this leader started{reason}"),
    }
}

/// Below the reserve, which is critical, the node rejects writes.
pub(crate) fn disk_low(free: u64, reserve: u64) -> Option<(AlarmSeverity, String)> {
    let severity = match () {
        () if free < reserve => AlarmSeverity::Critical,
        () if free < reserve.saturating_mul(RESERVES_MIN) => AlarmSeverity::Warning,
        () => return None,
    };
    let [free, reserve] = [free, reserve].map(|bytes| bytes >> 20);
    Some((severity, format!("{free} MiB are free, the reserve is {reserve} MiB")))
}

fn log_sync_slow(RecentSyncs { count, slow }: RecentSyncs) -> Option<String> {
    let limit = SLOW_SYNC.as_millis();
    (count >= SYNCS_MIN && slow.saturating_mul(100) > count).then(|| {
        format!("{slow} of {count} syncs of the log took longer than {limit} ms in the last minute")
    })
}

/// `what: first, second and 3 more`, or without `what: ` if it is empty; `None` without items.
fn named(items: impl Iterator<Item = String>, what: &str) -> Option<String> {
    let mut items: Vec<String> = items.collect();
    let more = items.len().saturating_sub(NAMED_MAX);
    items.truncate(NAMED_MAX);
    let mut text = items.join(", ");
    if more > 0 {
        text = format!("{text} and {more} more");
    }
    if items.is_empty() {
        return None;
    }
    Some(if what.is_empty() { text } else { format!("{what}: {text}") })
}

/// `45 s` below two minutes, otherwise as [`days`].
fn seconds(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        _ => days(time),
    }
}

/// `3 days`, or hours below two days, or minutes below two hours.
fn days(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    match minutes / 60 {
        0 | 1 => format!("{minutes} minutes"),
        hours @ 2..48 => format!("{hours} hours"),
        hours => format!("{} days", hours / 24),
    }
}

#[cfg(test)]
mod tests;
