//! Each alarm is raised by one change of a healthy node, and its text has the fact.

use holdfast_types::{
    FencingToken, Labels, Mode, Owner, Reason, SessionName, SubjectName, SubtreeLimits,
};

use super::*;

/// Seconds.
const DAY: u64 = 86_400;

/// The leader of a healthy cluster of three nodes.
fn healthy() -> AlarmFacts {
    AlarmFacts {
        node: NodeId(1),
        leader: Some(NodeId(1)),
        has_quorum: true,
        waiting_for: None,
        voters: 3,
        followers: vec![follower(2), follower(3)],
        disk_free: 100 << 30,
        disk_reserve: 64 << 20,
        syncs: RecentSyncs { count: 1_000, slow: 10 },
        now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 * DAY),
        certificates: vec![certificate(15)],
        tokens: vec![Expiring { name: "ops".to_owned(), within: Duration::from_secs(15 * DAY) }],
        quotas: vec![QuotaUse { name: "sessions".to_owned(), used: 89, limit: 100 }],
        history_gap: None,
        differs_at: None,
        unprotected: None,
        clocks: ClockFacts {
            offsets: BTreeMap::from([(NodeId(2), 500), (NodeId(3), -500)]),
            behind_ms: Some(5_000),
        },
        backup: Some(ExpectedBackup { every: hours(24), age: Some(hours(24)) }),
        state_check: StateCheck::Verified,
        seal: None,
        foreign: None,
        addresses: BTreeMap::new(),
        memory: Some(MemoryUse { resident: 79, limit: 100 }),
        backup_failure: None,
        audit_sinks: Vec::new(),
        audit_evicted: (Vec::new(), Stamp(0)),
        durable_holds: Vec::new(),
        soft_quotas: Vec::new(),
        long_waits: Vec::new(),
        old_holds: Vec::new(),
    }
}

fn hours(hours: u64) -> Duration {
    Duration::from_hours(hours)
}

fn follower(id: u64) -> FollowerFacts {
    let contact = Some(Duration::from_millis(90));
    let (lag, stalled) = (Some(LAG_MAX), Some(SILENT));
    let (node, connected, refusal, unreachable) = (NodeId(id), true, None, None);
    FollowerFacts { node, contact, connected, lag, stalled, refusal, unreachable }
}

/// A certificate that expires `days` days after `healthy().now`.
fn certificate(days: u64) -> ListenerCertificate {
    let expires_at = SystemTime::UNIX_EPOCH + Duration::from_secs((1_000 + days) * DAY);
    ListenerCertificate { listener: "http", expires_at, reload_error: None }
}

/// The alarms after a change of a healthy node: kind, severity and detail.
fn after(change: impl FnOnce(&mut AlarmFacts)) -> Vec<(&'static str, &'static str, String)> {
    let mut facts = healthy();
    change(&mut facts);
    let alarms = alarms_of(&facts).into_iter();
    alarms.map(|alarm| (alarm.kind.as_str(), alarm.severity.as_str(), alarm.detail)).collect()
}

#[track_caller]
fn expect(
    change: impl FnOnce(&mut AlarmFacts),
    name: &'static str,
    severity: &'static str,
    detail: &str,
) {
    assert_eq!(after(change), [(name, severity, detail.to_owned())]);
}

#[test]
fn a_healthy_node_raises_no_alarm() {
    assert_eq!(alarms_of(&healthy()), []);
}

#[test]
fn a_node_without_a_leader_or_its_messages_raises_no_leader() {
    let no_leader = |facts: &mut AlarmFacts| facts.leader = None;
    expect(no_leader, "no-leader", "critical", "no leader is known");
    let starting = |facts: &mut AlarmFacts| {
        facts.leader = None;
        facts.waiting_for = Some("node 2 is missing".to_owned());
    };
    expect(starting, "no-leader", "critical", "node 2 is missing");
    let cut_off = |facts: &mut AlarmFacts| facts.has_quorum = false;
    let detail = "this node leads, but no majority acknowledges it";
    expect(cut_off, "no-leader", "critical", detail);
    let follows = |facts: &mut AlarmFacts| {
        (facts.leader, facts.has_quorum) = (Some(NodeId(2)), false);
        facts.followers.clear();
    };
    expect(follows, "no-leader", "critical", "no message from the leader, node 2");
}

#[test]
fn different_states_raise_diverged() {
    let differ = |facts: &mut AlarmFacts| facts.differs_at = Some(Revision(1_024));
    expect(differ, "diverged", "critical", "the states of the nodes differ at revision 1024");
}

#[test]
fn a_silent_follower_of_three_leaves_no_failure() {
    let found = after(|facts| facts.followers[0].contact = Some(Duration::from_secs(11)));
    let left = "2 of 3 voters answer: the next failure stops the cluster".to_owned();
    let silent = "no acknowledgement: node 2 for 11 s".to_owned();
    let expected = [("one-failure-left", "critical", left), ("member-silent", "warning", silent)];
    assert_eq!(found, expected);
}

#[test]
fn a_silent_follower_of_five_leaves_one_failure() {
    let five = |facts: &mut AlarmFacts| {
        facts.voters = 5;
        facts.followers = (2..=5).map(follower).collect();
        (facts.followers[3].contact, facts.followers[3].connected) = (None, false);
    };
    let detail = "no acknowledgement: node 5 since this leader started";
    expect(five, "member-silent", "warning", detail);
}

#[test]
fn a_follower_that_needs_a_snapshot_soon_raises_member_lagging() {
    let lagging = |facts: &mut AlarmFacts| facts.followers[1].lag = Some(LAG_MAX + 1);
    expect(lagging, "member-lagging", "warning", "behind the leader: node 3 by 4097 entries");
}

#[test]
fn a_follower_without_progress_raises_member_lagging_with_the_reason() {
    let stalled = |facts: &mut AlarmFacts| {
        let follower = &mut facts.followers[1];
        (follower.lag, follower.stalled) = (Some(1), Some(Duration::from_secs(11)));
    };
    let detail = "behind the leader: node 3 by 1 entries, without progress for 11 s";
    expect(stalled, "member-lagging", "warning", detail);
    let refused = |facts: &mut AlarmFacts| {
        stalled(facts);
        facts.followers[1].refusal = Some("its log ends at entry 5".to_owned());
    };
    let detail = format!("{detail} (its log ends at entry 5)");
    expect(refused, "member-lagging", "warning", &detail);
}

#[test]
fn a_disk_near_the_reserve_is_a_warning_and_below_it_critical() {
    let low = |facts: &mut AlarmFacts| facts.disk_free = 1_000 << 20;
    expect(low, "disk-low", "warning", "1000 MiB are free, the reserve is 64 MiB");
    let full = |facts: &mut AlarmFacts| facts.disk_free = 63 << 20;
    expect(full, "disk-low", "critical", "63 MiB are free, the reserve is 64 MiB");
}

#[test]
fn more_than_one_slow_sync_in_a_hundred_raises_log_sync_slow() {
    let slow = |facts: &mut AlarmFacts| facts.syncs.slow = 11;
    let detail = "11 of 1000 syncs of the log took longer than 50 ms in the last minute";
    expect(slow, "log-sync-slow", "warning", detail);
    let few = |facts: &mut AlarmFacts| facts.syncs = RecentSyncs { count: 19, slow: 1 };
    assert_eq!(after(few), []);
}

#[test]
fn a_certificate_raises_an_alarm_two_weeks_before_its_end() {
    let soon = |facts: &mut AlarmFacts| facts.certificates = vec![certificate(14)];
    let detail = "the certificate of a listener: http in 14 days";
    expect(soon, "certificate-expires", "warning", detail);
    let expired = |facts: &mut AlarmFacts| {
        facts.certificates = vec![certificate(0)];
        facts.now += Duration::from_secs(1);
    };
    let detail = "the certificate of a listener: http has expired";
    expect(expired, "certificate-expires", "critical", detail);
}

#[test]
fn files_that_a_node_cannot_use_raise_tls_reload_failed() {
    let broken = |facts: &mut AlarmFacts| {
        facts.certificates[0].reload_error = Some("a.pem has no key".to_owned());
    };
    expect(broken, "tls-reload-failed", "critical", "http: a.pem has no key");
}

#[test]
fn the_last_token_of_an_operator_raises_token_expires() {
    let soon = |facts: &mut AlarmFacts| facts.tokens[0].within = Duration::from_hours(47);
    let detail = "the last access token of a privileged subject: ops in 47 hours";
    expect(soon, "token-expires", "warning", detail);
    let over = |facts: &mut AlarmFacts| facts.tokens[0].within = Duration::ZERO;
    let detail = "the last access token of a privileged subject: ops has expired";
    expect(over, "token-expires", "critical", detail);
}

#[test]
fn ninety_percent_of_a_quota_is_near_and_a_quota_of_zero_never_is() {
    let near = |facts: &mut AlarmFacts| facts.quotas[0].used = 90;
    expect(near, "quota-near", "warning", "sessions 90 of 100");
    let none = |facts: &mut AlarmFacts| {
        (facts.quotas[0].used, facts.quotas[0].limit) = (0, 0);
    };
    assert_eq!(after(none), []);
}

#[test]
fn lost_records_of_the_history_and_the_open_mode_raise_alarms() {
    let gap = |facts: &mut AlarmFacts| facts.history_gap = Some("records were dropped");
    expect(gap, "history-gap", "warning", "records were dropped");
    let open = |facts: &mut AlarmFacts| facts.unprotected = Some("0.0.0.0:7400".to_owned());
    expect(open, "open-mode", "warning", "other machines reach 0.0.0.0:7400 without TLS");
}

#[test]
fn a_clock_that_differs_from_the_leaders_raises_clock_skew() {
    for (ms, detail) in [
        (501, "the clock of node 3 is 0.5 s ahead of the leader's"),
        (-61_250, "the clock of node 3 is 61.2 s behind the leader's"),
    ] {
        let change = |facts: &mut AlarmFacts| facts.clocks.offsets = [(NodeId(3), ms)].into();
        expect(change, "clock-skew", "warning", detail);
    }
}

#[test]
fn a_time_behind_the_clocks_of_a_majority_raises_time_behind() {
    let change = |facts: &mut AlarmFacts| facts.clocks.behind_ms = Some(3_600_999);
    let detail = "the log's time is behind the clocks of a majority by 3600 s";
    expect(change, "time-behind", "warning", detail);
    assert_eq!(after(|facts| facts.clocks.behind_ms = Some(-3_600_000)), []);
    assert_eq!(after(|facts| facts.clocks.behind_ms = None), []);
}

#[test]
fn a_missing_or_old_backup_raises_backup_old_only_if_one_is_expected() {
    let backup = |age| Some(ExpectedBackup { every: hours(24), age });
    let old = "the last backup was made 3 days ago, expected every 24 hours";
    expect(|facts| facts.backup = backup(Some(hours(80))), "backup-old", "warning", old);
    let none = "no backup, expected every 24 hours";
    expect(|facts| facts.backup = backup(None), "backup-old", "warning", none);
    assert_eq!(after(|facts| facts.backup = None), []);
}

#[test]
fn a_client_that_does_not_see_http_callers_raises_foreign_recipe() {
    let path = ZnodePath::new("/locks/a/x-1-0000000000").unwrap();
    let foreign = |facts: &mut AlarmFacts| facts.foreign = Some((path.clone(), 2));
    let detail = "2 znodes of clients that do not see HTTP callers, first /locks/a/x-1-0000000000";
    expect(foreign, "foreign-recipe", "warning", detail);
}

#[test]
fn resident_memory_near_the_limit_raises_memory_high() {
    let used = |resident: u64| {
        move |facts: &mut AlarmFacts| {
            facts.memory = Some(MemoryUse { resident: resident << 20, limit: 2_048 << 20 });
        }
    };
    let detail = "1639 MiB resident, 80 % of the limit of 2048 MiB";
    expect(used(1_639), "memory-high", "warning", detail);
    let detail = "1885 MiB resident, 92 % of the limit of 2048 MiB";
    expect(used(1_885), "memory-high", "critical", detail);
    assert_eq!(after(used(1_638)), []);
    assert_eq!(after(|facts| facts.memory = None), []);
}

#[test]
fn a_registered_address_that_does_not_answer_is_named() {
    let reason = "10.0.0.5:7491: Connection refused".to_owned();
    let wrong =
        |facts: &mut AlarmFacts| facts.addresses = BTreeMap::from([(NodeId(5), reason.clone())]);
    let detail = "no answer: node 5 at 10.0.0.5:7491: Connection refused";
    expect(wrong, "member-address", "warning", detail);
    let silent = |facts: &mut AlarmFacts| {
        facts.followers[0].contact = Some(hours(1));
        facts.followers[0].unreachable = Some(reason.clone());
    };
    let named = after(silent).into_iter().any(|(_, _, detail)| detail.contains(&reason));
    assert!(named, "{:?}", after(silent));
}

#[test]
fn a_failed_scheduled_backup_raises_backup_failed() {
    let failed =
        |facts: &mut AlarmFacts| facts.backup_failure = Some("/backup: disk full".to_owned());
    expect(failed, "backup-failed", "warning", "/backup: disk full");
}

#[test]
fn an_eviction_from_the_audit_trail_raises_audit_evicted_for_a_day() {
    let (at, evicted_at) = (Stamp(951_868_799_000), Stamp(951_868_800_000));
    let evicted = AuditEvicted { count: 4_205, number: 4_300, at, evicted_at };
    let evicted = vec![(AuditClass::Policy, evicted)];
    let at = |ms: u64| (evicted.clone(), Stamp(evicted_at.0 + ms));
    let detail = "evicted from the audit trail: 4205 records of policy up to 2000-02-29T23:59:59Z";
    let day = 86_400_000;
    expect(|facts| facts.audit_evicted = at(day - 1), "audit-evicted", "warning", detail);
    assert_eq!(after(|facts| facts.audit_evicted = at(day)), []);
}

#[test]
fn a_problem_of_a_copy_of_the_audit_trail_raises_audit_behind() {
    let detail = "audit.jsonl: 4 records are not written";
    let behind = |facts: &mut AlarmFacts| facts.audit_sinks = vec![detail.to_owned()];
    expect(behind, "audit-behind", "warning", detail);
}

#[test]
fn a_sealed_cluster_raises_sealed() {
    let seal = |by: Option<&str>| {
        let by = by.map(|name| SubjectName::new(name).unwrap());
        let reason = Reason::new("new machines").unwrap();
        Some((Seal { revision: Revision(1), since: Stamp(1), by, reason }, hours(3)))
    };
    let by_eva = "sealed by eva 3 hours ago: new machines";
    expect(|facts| facts.seal = seal(Some("eva")), "sealed", "warning", by_eva);
    let anonymous = "sealed 3 hours ago: new machines";
    expect(|facts| facts.seal = seal(None), "sealed", "warning", anonymous);
}

#[test]
fn an_alarm_names_at_most_five_things() {
    let many = |facts: &mut AlarmFacts| {
        let quota = |name| QuotaUse { name: format!("q{name}"), used: 9, limit: 9 };
        facts.quotas = (1..=7).map(quota).collect();
    };
    let detail = "q1 9 of 9, q2 9 of 9, q3 9 of 9, q4 9 of 9, q5 9 of 9 and 2 more";
    expect(many, "quota-near", "warning", detail);
}

#[test]
fn the_names_and_next_steps_are_different_and_not_empty() {
    let texts = AlarmKind::ALL.iter().flat_map(|kind| [kind.as_str(), kind.next_step()]);
    let unique: std::collections::BTreeSet<&str> = texts.filter(|text| !text.is_empty()).collect();
    assert_eq!(unique.len(), 2 * AlarmKind::ALL.len());
}

#[test]
fn every_alarm_has_a_section_in_the_operations_page() {
    let page = include_str!("../../../../../docs/operations.md");
    for kind in AlarmKind::ALL {
        assert!(page.contains(&format!("\n### {}\n", kind.as_str())), "{}", kind.as_str());
    }
}

#[test]
fn only_a_node_that_serves_without_a_comparison_raises_unverified() {
    let detail = "no majority has confirmed the state of this node since its start";
    let unverified = |facts: &mut AlarmFacts| facts.state_check = StateCheck::Unverified;
    expect(unverified, "unverified", "warning", detail);
    assert_eq!(after(|facts| facts.state_check = StateCheck::Pending), []);
}

fn holder(session: &str, owner: &str) -> HolderView {
    HolderView {
        session: SessionName::new(session).unwrap(),
        owner: Owner::new(owner).unwrap(),
        token: FencingToken(4),
        granted_at: Stamp(0),
        hold_count: 1,
        labels: Labels::default(),
        mode: Mode::Exclusive,
        permits: 1,
        slots: Vec::new(),
        upgrading: false,
        ends_at: None,
        value: None,
        durable: None,
    }
}

#[test]
fn a_wait_and_a_hold_beyond_the_thresholds_of_a_policy_raise_alarms_that_name_lock_and_holder() {
    let overdue = |lock: &str, ms, holder| OverdueLock {
        lock: LockName::new(lock).unwrap(),
        ms,
        threshold_ms: 30_000,
        holder,
    };
    let held = || Some(holder("web-3", "w"));
    let waits = |facts: &mut AlarmFacts| {
        facts.long_waits = vec![overdue("orders", 45_900, held()), overdue("cold", 31_000, None)];
    };
    let detail = "orders: a wait of 45 s (threshold 30 s), held by web-3 with token 4, cold: a wait of 31 s (threshold 30 s), free";
    expect(waits, "lock-wait-long", "warning", detail);
    let holds = |facts: &mut AlarmFacts| {
        facts.old_holds = vec![overdue("orders", 7_200_000, held())];
    };
    let detail = "orders: a hold of 2 hours (threshold 30 s) by web-3 with token 4";
    expect(holds, "lock-hold-old", "warning", detail);
}

#[test]
fn a_durable_hold_that_is_too_old_raises_durable_hold_old() {
    let old = |facts: &mut AlarmFacts| {
        let durable = Some(Reason::new("moving").unwrap());
        let holder = HolderView { durable, ..holder("durable!carol", "carol") };
        facts.durable_holds = vec![(LockName::new("freeze").unwrap(), holder, hours(72))];
    };
    expect(old, "durable-hold-old", "warning", "freeze by carol for 3 days: moving");
}

#[test]
fn a_subtree_above_a_soft_limit_raises_tree_quota_soft() {
    let limits =
        SubtreeLimits { soft_znodes: Some(10), soft_bytes: Some(100), ..SubtreeLimits::default() };
    let of = |used_znodes, used_bytes| {
        move |facts: &mut AlarmFacts| {
            let path = ZnodePath::new("/orders").unwrap();
            facts.soft_quotas = vec![SubtreeQuotaView { path, limits, used_znodes, used_bytes }];
        }
    };
    expect(of(11, 100), "tree-quota-soft", "warning", "znodes of /orders 11 of 10");
    let both = "znodes of /orders 12 of 10, bytes of /orders 101 of 100";
    expect(of(12, 101), "tree-quota-soft", "warning", both);
    assert_eq!(after(of(10, 100)), []);
}
