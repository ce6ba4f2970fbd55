//! Records of the wall clocks, and jumps of the log's time.

use holdfast_types::*;

use super::auth::{CI, rejected};
use super::script_commands::{create, lock_name, multi, open, session_name};
use crate::{ClockLead, ClockRecord, Machine};

fn apply_at(machine: &mut Machine, at: u64, command: Command) -> Outcome {
    let entry = Entry { stamped_at: Stamp(at), commands: vec![command] };
    let outcome = machine.apply(entry).outcomes.remove(0);
    machine.check_invariants().unwrap();
    outcome
}

/// A cluster with the members 1 and 2, at the time 1,000.
fn cluster() -> Machine {
    let mut machine = Machine::new();
    let members = super::members::first_members(2);
    let level = FeatureLevel::FIRST;
    let bootstrap = Command::Bootstrap { cluster_id: ClusterId(1), level, members };
    apply_at(&mut machine, 1_000, bootstrap.by(Actor::Node)).unwrap();
    machine
}

fn record(clocks: &[(u64, u64)], jump: Option<TimeJump>) -> Command {
    let reading = |(node, wall): &(u64, u64)| {
        (NodeId(*node), ClockReading { wall: Stamp(*wall), run: node * 11 })
    };
    Command::RecordClocks { readings: clocks.iter().map(reading).collect(), jump }.by(Actor::Node)
}

/// Returns the time after a record with this jump at the time 2,000.
fn time_after(mut machine: Machine, jump: TimeJump) -> u64 {
    apply_at(&mut machine, 2_000, record(&[], Some(jump))).unwrap();
    machine.now().0
}

const LOST: TimeJump = TimeJump::Lost(Stamp(9_000));
const UNUSED: TimeJump = TimeJump::Unused(Stamp(9_000));

#[test]
fn a_record_has_the_leads_of_the_members_that_replied() {
    let mut machine = cluster();
    assert_eq!(machine.clocks(), None);
    apply_at(&mut machine, 2_000, record(&[(1, 2_500), (2, 1_500), (7, 2_000)], None)).unwrap();
    let lead = |ms, run| ClockLead { ms, run };
    let leads = [(NodeId(1), lead(500, 11)), (NodeId(2), lead(-500, 22))].into();
    let expected = ClockRecord { at: Stamp(2_000), leads };
    assert_eq!(machine.clocks(), Some(&expected));
    let loaded = Machine::load(machine.dump()).unwrap();
    assert_eq!(loaded.clocks(), Some(&expected));
    assert_eq!(loaded.state_digest(), machine.state_digest());
    // A silent member's lead grows as that of the other one: here the log has lost two seconds.
    apply_at(&mut machine, 3_000, record(&[(2, 4_500)], None)).unwrap();
    let leads = [(NodeId(1), lead(2_500, 11)), (NodeId(2), lead(1_500, 22))].into();
    assert_eq!(machine.clocks(), Some(&ClockRecord { at: Stamp(3_000), leads }));
    // Now its clock was set back, which must not make time of the silent one.
    apply_at(&mut machine, 4_000, record(&[(2, 3_001)], Some(TimeJump::Lost(Stamp(4_500)))))
        .unwrap();
    let leads = [(NodeId(1), lead(2_500, 11)), (NodeId(2), lead(-1_499, 22))].into();
    assert_eq!(machine.clocks(), Some(&ClockRecord { at: Stamp(4_500), leads }));
    // A jump without lost time shortens all leads.
    apply_at(&mut machine, 5_000, record(&[(2, 3_501)], Some(TimeJump::Unused(Stamp(5_300)))))
        .unwrap();
    let leads = [(NodeId(1), lead(2_200, 11)), (NodeId(2), lead(-1_799, 22))].into();
    assert_eq!(machine.clocks(), Some(&ClockRecord { at: Stamp(5_300), leads }));
}

#[test]
fn only_nodes_record_clocks_and_no_other_machine_gets_them() {
    let mut machine = super::auth::guarded();
    let (.., by_node) = record(&[], None).into_parts();
    let by_ci = apply_at(&mut machine, 1, by_node.by(CI));
    assert_eq!(rejected(&by_ci), Some(&AuthRejection::NoCredential));

    let mut machine = cluster();
    apply_at(&mut machine, 2_000, record(&[(1, 2_500)], None)).unwrap();
    let restored = machine.restored(&super::restore::options()).unwrap();
    assert_eq!(restored.clocks(), None);
}

#[test]
fn lost_time_passes_only_after_a_record_and_never_back() {
    let mut machine = cluster();
    assert_eq!(time_after(machine.clone(), LOST), 2_000, "no record");
    apply_at(&mut machine, 1_500, record(&[], None)).unwrap();
    assert_eq!(time_after(machine.clone(), LOST), 9_000);
    assert_eq!(time_after(machine, TimeJump::Lost(Stamp(500))), 2_000);
}

#[test]
fn the_time_jumps_without_lost_time_only_while_nothing_depends_on_it() {
    assert_eq!(time_after(cluster(), UNUSED), 9_000);
    assert_eq!(time_after(cluster(), TimeJump::Unused(Stamp(500))), 2_000);
    let mut machine = cluster();
    machine.limits.tombstones_max = 0;
    apply_at(&mut machine, 1_500, Command::OpenSession { open: open("s1"), attempt: None })
        .unwrap();
    assert_eq!(time_after(machine.clone(), UNUSED), 2_000, "a session");
    let options = AcquireOptions { min_hold_ms: Some(60_000), ..AcquireOptions::PLAIN };
    let plain = Acquire::new(lock_name("a"), open("s1"), Owner::unnamed());
    apply_at(&mut machine, 1_500, Command::Acquire(Acquire { options, ..plain })).unwrap();
    let session = session_name("s1");
    let close = Command::CloseSession { session, attachment: None, incarnation: None };
    apply_at(&mut machine, 1_500, close).unwrap();
    assert_eq!(time_after(machine, UNUSED), 2_000, "a cooldown");
    let mut machine = cluster();
    apply_at(&mut machine, 1_500, Command::OpenSession { open: open("s1"), attempt: None })
        .unwrap();
    let session = session_name("s1");
    let close = Command::CloseSession { session, attachment: None, incarnation: None };
    apply_at(&mut machine, 1_500, close).unwrap();
    assert_eq!(time_after(machine, UNUSED), 2_000, "the record of an ended session");
    let mut machine = cluster();
    let held = super::durable::durable("a", "carol");
    apply_at(&mut machine, 1_500, Command::Acquire(held)).unwrap();
    assert_eq!(time_after(machine, UNUSED), 2_000, "a durable hold");
    let mut machine = cluster();
    let ttl = create("/t", CreateKind::Ttl { ms: 500 }, false, Vec::new());
    apply_at(&mut machine, 1_500, multi(Caller::default(), vec![ttl])).unwrap();
    assert_eq!(time_after(machine, UNUSED), 2_000, "a znode with a time-to-live");
    for (expires_at, time) in
        [(None, 9_000), (Some(Stamp(1_900)), 9_000), (Some(Stamp(5_000)), 2_000)]
    {
        let mut machine = cluster();
        let subject = SubjectName::new("root").unwrap();
        let token = NewAccessToken { expires_at, ..super::auth::token(1) };
        let first = AuthChange::AddAdministrator { subject, token, mode: None };
        apply_at(&mut machine, 1_500, Command::Auth(first).by(Actor::Node)).unwrap();
        assert_eq!(
            time_after(machine, UNUSED),
            time,
            "an access token that ends at {expires_at:?}"
        );
    }
}

#[test]
fn a_sealed_cluster_records_its_clocks() {
    let mut machine = cluster();
    let reason = Reason::new("move").unwrap();
    apply_at(&mut machine, 1_500, Command::Seal { reason }).unwrap();
    apply_at(&mut machine, 2_000, record(&[(1, 2_500)], None)).unwrap();
    assert_eq!(machine.clocks().map(|record| record.leads.len()), Some(1));
}

/// Timed rules count the jump as time that passed.
#[test]
fn a_cooldown_ends_with_the_lost_time() {
    let mut machine = cluster();
    apply_at(&mut machine, 1_500, record(&[], None)).unwrap();
    let acquire = |session: &str, min_hold_ms| {
        let options = AcquireOptions { min_hold_ms, ..AcquireOptions::PLAIN };
        let plain = Acquire::new(lock_name("a"), open(session), Owner::unnamed());
        Command::Acquire(Acquire { options, wait: true, ..plain })
    };
    apply_at(&mut machine, 1_500, acquire("s1", Some(6_000))).unwrap();
    apply_at(&mut machine, 1_500, acquire("s2", None)).unwrap();
    let session = session_name("s1");
    let close = Command::CloseSession { session, attachment: None, incarnation: None };
    apply_at(&mut machine, 1_600, close).unwrap();
    let holders = |machine: &Machine| machine.lock(&lock_name("a"), 10).holders.len();
    let run = || Command::RunTimers { lock: lock_name("a") }.by(Actor::Node);
    apply_at(&mut machine, 1_700, run()).unwrap();
    assert_eq!(holders(&machine), 0, "the minimum hold time is not over");
    apply_at(&mut machine, 1_800, record(&[], Some(TimeJump::Lost(Stamp(7_500))))).unwrap();
    apply_at(&mut machine, 1_900, run()).unwrap();
    assert_eq!(holders(&machine), 1);
}
