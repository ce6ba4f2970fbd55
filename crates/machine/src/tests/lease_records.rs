//! Records of leases.

use holdfast_types::*;

use super::auth::{CI, rejected};
use super::script_commands::{lock_name, open, session_name};
use crate::Machine;

fn apply(machine: &mut Machine, command: Command) -> Outcome {
    let outcome =
        machine.apply(Entry { stamped_at: Stamp(1), commands: vec![command] }).outcomes.remove(0);
    machine.check_invariants().unwrap();
    outcome
}

/// A machine in which `web1` holds `a`, and `web2` waits for it.
fn contended() -> Machine {
    let mut machine = Machine::new();
    for session in ["web1", "web2"] {
        let acquire = Acquire::new(lock_name("a"), open(session), Owner::unnamed());
        apply(&mut machine, Command::Acquire(Acquire { wait: true, ..acquire })).unwrap();
    }
    machine
}

fn record(session: SessionId, generation: u64, used_ms: u32) -> Command {
    let leases = vec![LeaseRecord { session, generation, used_ms }];
    Command::RecordLeases { leases }.by(Actor::Node)
}

fn used_ms(machine: &Machine, session: SessionId) -> Option<u128> {
    machine.lease_used(session).map(|used| used.as_millis())
}

const FIRST: SessionId = SessionId(1);

fn renew(session: &str) -> Command {
    Command::RenewSession { session: session_name(session) }
}

fn close(session: &str, incarnation: Option<SessionId>) -> Command {
    Command::CloseSession { session: session_name(session), attachment: None, incarnation }
}

#[test]
fn a_record_grows_and_ends_with_the_next_renewal() {
    let mut machine = contended();
    assert_eq!(used_ms(&machine, FIRST), None);
    for (used, stored) in [(2_000, 2_000), (1_000, 2_000), (3_000, 3_000), (30_000, 3_000)] {
        let outcome = apply(&mut machine, record(FIRST, 1, used));
        assert_eq!(outcome, Ok(Reply::LeasesRecorded));
        assert_eq!(used_ms(&machine, FIRST), Some(stored), "after {used}");
    }
    let loaded = Machine::load(machine.dump()).unwrap();
    assert_eq!(used_ms(&loaded, FIRST), Some(3_000));
    assert_eq!(loaded.state_digest(), machine.state_digest());
    apply(&mut machine, renew("web1")).unwrap();
    assert_eq!(used_ms(&machine, FIRST), None);
    // A late copy names the lease before the renewal.
    apply(&mut machine, record(FIRST, 1, 4_000)).unwrap();
    assert_eq!(used_ms(&machine, FIRST), None);
    apply(&mut machine, record(SessionId(9), 1, 4_000)).unwrap();
    assert_eq!(machine.leases_used().count(), 0);
}

#[test]
fn only_nodes_write_records() {
    let mut machine = super::auth::guarded();
    let by_ci = apply(&mut machine, Command::RecordLeases { leases: Vec::new() }.by(CI));
    assert_eq!(rejected(&by_ci), Some(&AuthRejection::NoCredential));
}

#[test]
fn outdated_records_are_forgotten() {
    let mut machine = contended();
    for generation in 1..100 {
        apply(&mut machine, record(FIRST, generation, 1)).unwrap();
        let session = format!("s{generation}");
        apply(&mut machine, Command::OpenSession { open: open(&session), attempt: None }).unwrap();
        let (id, _) = machine.session_id(&session_name(&session)).unwrap();
        apply(&mut machine, record(id, 1, 1)).unwrap();
        apply(&mut machine, close(&session, None)).unwrap();
        apply(&mut machine, renew("web1")).unwrap();
    }
    assert!(machine.lease_records.len() <= 5, "{}", machine.lease_records.len());
}

/// Renewals are not in the log, so a later leader knows only the TTLs.
#[test]
fn a_replaced_ttl_counts_until_no_caller_relies_on_it() {
    let mut machine = Machine::new();
    let mut set = |at: u64, ttl_ms: u64| {
        let ttl = Some(Ttl::from_millis(ttl_ms).unwrap());
        let open = OpenSession { ttl, ..open("web1") };
        let commands = vec![Command::OpenSession { open, attempt: None }];
        let outcomes = machine.apply(Entry { stamped_at: Stamp(at), commands }).outcomes;
        assert!(outcomes[0].is_ok(), "{outcomes:?}");
        let loaded = Machine::load(machine.dump()).unwrap();
        let longest = |machine: &Machine| machine.leases().next().unwrap().longest_ttl.as_millis();
        assert_eq!(longest(&loaded), longest(&machine));
        longest(&machine)
    };
    assert_eq!(set(0, 60_000), 60_000);
    assert_eq!(set(10_000, 2_000), 60_000);
    assert_eq!(set(129_999, 2_000), 60_000, "the same TTL again");
    assert_eq!(set(130_000, 2_000), 2_000, "twice the replaced TTL has passed");
    // The longest of several counts, as long as any of them.
    assert_eq!(set(200_000, 8_000), 8_000);
    assert_eq!(set(201_000, 4_000), 8_000);
    assert_eq!(set(202_000, 1_000), 8_000);
    assert_eq!(set(216_999, 1_000), 8_000);
    assert_eq!(set(217_000, 1_000), 1_000);
    // A TTL that is as long replaces all.
    assert_eq!(set(300_000, 8_000), 8_000);
    assert_eq!(set(301_000, 4_000), 8_000);
    assert_eq!(set(302_000, 8_000), 8_000);
    assert_eq!(set(303_000, 9_000), 9_000);
    assert_eq!(set(304_000, 3_000), 9_000);
}
