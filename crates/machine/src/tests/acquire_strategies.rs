//! Random acquire options and lock policies. Durations are short, as the histories are.

use holdfast_types::*;
use proptest::prelude::*;

use super::script_commands::{lock_name, session_name};

/// The lock that usually is a semaphore.
const SEMAPHORE: &str = "s";

pub(super) fn lock() -> impl Strategy<Value = LockName> {
    let names = vec!["a", "a", "a", "b", "a/c", SEMAPHORE, SEMAPHORE];
    prop::sample::select(names).prop_map(lock_name)
}

/// An acquire with random options.
pub(super) fn with_options(plain: Acquire) -> impl Strategy<Value = Acquire> {
    let semaphore = plain.locks.first().as_str() == SEMAPHORE;
    let often = if semaphore { 0.5 } else { 0.04 };
    let counted = (
        prop::option::weighted(often, prop::sample::select(vec![1, 2, 2, 3, 3])),
        prop::option::weighted(often, prop::sample::select(vec![2, 3, 3, 3])),
        mode(),
        prop::bool::weighted(0.1),
    );
    let timed = (
        prop_oneof![6 => Just(0), 4 => 1..=AcquireOptions::PRIORITY_MAX],
        prop::bool::weighted(0.85),
        prop::option::weighted(0.2, 5..80_u64),
        prop::option::weighted(0.15, 5..80_u64),
        prop::option::weighted(0.1, prop::collection::vec(any::<u8>(), 0..3)),
    );
    let queue_max = prop::option::weighted(0.1, 0..4_u32);
    let counted = (counted, prop::bool::weighted(0.3));
    let durable = prop::option::weighted(0.06, 0..8_u8);
    (counted, timed, queue_max, prop::option::weighted(0.01, 0..7_u8), durable).prop_map(
        move |(
            ((permits, limit, mode, has_mode), enters),
            timed,
            queue_max,
            out_of_bounds_field,
            durable,
        )| {
            let (priority, reentrant, max_hold_ms, min_hold_ms, value) = timed;
            let mode = mode.filter(|_| !semaphore || has_mode);
            let value = value.map(Data::from);
            let plain = plain.clone();
            let options = AcquireOptions {
                priority,
                reentrant,
                max_hold_ms,
                min_hold_ms,
                value,
                durable: None,
            };
            let acquire = Acquire { permits, limit, mode, enters, queue_max, options, ..plain };
            let acquire = durable.map_or(acquire.clone(), |how| made_durable(acquire, how));
            out_of_bounds_field.map_or(acquire.clone(), |which| out_of_bounds(acquire, which))
        },
    )
}

/// A durable acquire of the same lock and owner; a few have an option that they cannot have.
fn made_durable(acquire: Acquire, how: u8) -> Acquire {
    let name = if acquire.open.session.as_str() == "s1" { "s1" } else { "s2" };
    let session = SessionName::durable(&session_name(name)).unwrap();
    let open = OpenSession { session, ttl: None, password: None, ..acquire.open.clone() };
    let options = AcquireOptions {
        durable: Some(Reason::new("maintenance").unwrap()),
        max_hold_ms: acquire.options.max_hold_ms.filter(|_| how == 0),
        ..acquire.options.clone()
    };
    let mode = acquire.mode.filter(|mode| how < 2 || *mode != Mode::Upgradable);
    let wait_ms = acquire.wait_ms.or((how > 2).then_some(50));
    let attempt = acquire.attempt.or((how > 1).then_some(Attempt(u64::from(how))));
    Acquire { open, options, mode, wait_ms, attempt, ..acquire }
}

/// An acquire with one option out of bounds.
fn out_of_bounds(acquire: Acquire, which: u8) -> Acquire {
    let options = acquire.options.clone();
    let options = match which {
        0 => return Acquire { permits: Some(0), ..acquire },
        1 => return Acquire { limit: Some(0), ..acquire },
        2 => return Acquire { limit: Some(LockPolicy::LIMIT_MAX + 1), ..acquire },
        3 => AcquireOptions { priority: AcquireOptions::PRIORITY_MAX + 1, ..options },
        4 => AcquireOptions { max_hold_ms: Some(0), ..options },
        5 => AcquireOptions { min_hold_ms: Some(AcquireOptions::HOLD_MAX_MS + 1), ..options },
        _ => {
            let value = Some(vec![0; AcquireOptions::VALUE_MAX + 1].into());
            AcquireOptions { value, ..options }
        }
    };
    Acquire { options, ..acquire }
}

fn mode() -> impl Strategy<Value = Option<Mode>> {
    let [exclusive, shared, upgradable] = Mode::ALL.map(Some);
    prop::sample::select(vec![
        None, None, exclusive, shared, shared, shared, upgradable, upgradable,
    ])
}

/// A random policy change. Most change one or two values.
pub(super) fn policy() -> impl Strategy<Value = Command> {
    let few = |choices: Vec<u64>| prop::option::weighted(0.3, prop::sample::select(choices));
    let limit = |often| prop::option::weighted(often, prop::option::weighted(0.8, 1..4_u32));
    let lock = lock().prop_flat_map(move |lock| {
        let often = if lock.as_str() == SEMAPHORE { 0.7 } else { 0.2 };
        (Just(lock), limit(often))
    });
    let order = prop::option::weighted(0.3, prop::sample::select(QueueOrder::ALL.to_vec()));
    let rare = prop::option::weighted(0.04, 0..5_u8);
    let times = (few(vec![0, 5, 20, 10_000]), few(vec![0, 20, 60]), few(vec![0, 0, 10, 40]));
    (lock, order, times, rare).prop_map(
        |((lock, limit), order, (ageing_ms, lock_delay_ms, cooldown_ms), rare)| {
            let plain = PolicyChange::default();
            let change = PolicyChange { limit, order, ageing_ms, ..plain };
            let change = PolicyChange { lock_delay_ms, cooldown_ms, ..change };
            let change = match rare {
                Some(0) => PolicyChange { detect_deadlocks: Some(false), ..change },
                Some(1) => PolicyChange { limit: Some(Some(0)), ..change },
                Some(2) => PolicyChange { shards: Some(Some(0)), ..change },
                Some(3) => PolicyChange { wait_alarm_ms: Some(30), ..change },
                Some(_) => PolicyChange { hold_alarm_ms: Some(30), ..change },
                None => change,
            };
            Command::SetPolicy { lock, change }
        },
    )
}
