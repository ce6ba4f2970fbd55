//! Both loops with simulated locks: the counts, the effect of a stall, and the end of a case.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use holdfast_measure::record::{LoadLoop, LockLayout, Measured};
use holdfast_measure::statistics::number;
use holdfast_measure::workload::{SpeedCase, SpeedPlan, is_flat, measure, rates_until_flat};

use crate::simulated::{Behaviour, Simulated};

const WINDOW: Duration = Duration::from_millis(400);

async fn measured(
    behaviour: Behaviour,
    locks: LockLayout,
    load: LoadLoop,
    clients: u32,
) -> Measured {
    let case = SpeedCase { locks, load, clients };
    let warmup = Duration::from_millis(50);
    let plan = SpeedPlan { cases: vec![case], repetitions: 1, warmup, window: WINDOW };
    measure(&Simulated::connector(behaviour), &case, &plan, || None).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_loop_begins_nothing_before_the_last_has_ended() {
    let slow = Behaviour::Slow(Duration::from_millis(20));
    let measured = measured(slow, LockLayout::Spread, LoadLoop::Closed, 2).await;
    assert!(measured.p50_ms >= 20.0, "{measured:?}");
    let each = measured.seconds / 0.02 + 1.0;
    assert!(
        measured.cycles > 0 && number(measured.cycles) <= 2.0 * each,
        "two clients: {measured:?}"
    );
    assert_eq!((measured.scheduled, measured.unserved), (0, 0));
    assert!(measured.round_trips.unwrap() >= 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_servers_have_load_until_its_rate_is_flat_or_the_time_is_over() {
    let connector = Simulated::connector(Behaviour::Slow(Duration::from_millis(1)));
    let case = SpeedCase { locks: LockLayout::Spread, load: LoadLoop::Closed, clients: 2 };
    let (warmup, window) = (Duration::ZERO, Duration::from_millis(20));
    let plan = SpeedPlan { cases: vec![case], repetitions: 1, warmup, window };
    let rates = rates_until_flat(&connector, &plan, Duration::from_mins(1)).await.unwrap();
    assert!(rates.len() >= 6 && is_flat(&rates), "{rates:?}");
    let none = rates_until_flat(&connector, &plan, Duration::ZERO).await.unwrap();
    assert!(none.is_empty(), "{none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_the_open_loop_scheduled_is_accounted_for() {
    for (behaviour, rate) in [
        (Behaviour::Slow(Duration::from_millis(1)), 100),
        // One client with 50 ms per cycle serves about 9 of 40 cycles in the window of 450 ms; the drain serves more.
        (Behaviour::Slow(Duration::from_millis(50)), 100),
        (Behaviour::Busy, 100),
    ] {
        let measured = measured(behaviour, LockLayout::Spread, LoadLoop::Open(rate), 1).await;
        let failed: u64 = measured.errors.values().sum();
        assert_eq!(measured.scheduled, 40, "{measured:?}");
        assert_eq!(measured.cycles + measured.unserved, 40, "{behaviour:?}: {measured:?}");
        assert!(failed <= measured.unserved, "a failed cycle was not served: {measured:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cycle_that_the_open_loop_never_served_is_in_its_quantiles() {
    let stuck = Behaviour::Slow(Duration::from_mins(10));
    let measured = measured(stuck, LockLayout::Spread, LoadLoop::Open(100), 2).await;
    assert_eq!((measured.cycles, measured.unserved, measured.scheduled), (0, 40, 40));
    assert!(measured.p50_ms > 1_000.0, "the whole waiting time: {measured:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_is_charged_with_every_cycle_that_it_delayed_in_the_open_loop_alone() {
    let stall = Duration::from_millis(300);
    // The stall occurs after the warm-up, within the window.
    let open =
        measured(Behaviour::Stalls(10, stall), LockLayout::Spread, LoadLoop::Open(100), 1).await;
    assert!(open.p50_ms >= 50.0, "half of the cycles were scheduled during the stall: {open:?}");
    let closed =
        measured(Behaviour::Stalls(1_000, stall), LockLayout::Spread, LoadLoop::Closed, 1).await;
    assert!(closed.cycles > 100, "{closed:?}");
    assert!(closed.p50_ms < open.p50_ms, "the closed loop hides it: {closed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_hangs_ends_its_case_and_is_an_error() {
    let hangs = Behaviour::Slow(Duration::from_mins(10));
    let measured = measured(hangs, LockLayout::Hot, LoadLoop::Closed, 3).await;
    assert_eq!((measured.cycles, measured.errors["unfinished"]), (0, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_excludes_nobody_is_detected_and_one_that_excludes_is_not() {
    let open = Behaviour::Slow(Duration::from_micros(1));
    let measured_open = measured(open, LockLayout::Hot, LoadLoop::Closed, 16).await;
    assert!(measured_open.overlaps > 0, "{measured_open:?}");
    let excludes =
        measured(Behaviour::FirstInFirstOut, LockLayout::Hot, LoadLoop::Closed, 16).await;
    assert!(excludes.cycles > 0 && excludes.overlaps == 0, "{excludes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_processor_time_is_that_of_the_window() {
    let case = SpeedCase { locks: LockLayout::Spread, load: LoadLoop::Closed, clients: 1 };
    let plan =
        SpeedPlan { cases: vec![case], repetitions: 1, warmup: Duration::ZERO, window: WINDOW };
    let asked = Arc::new(AtomicU64::new(0));
    let connector = Simulated::connector(Behaviour::Slow(Duration::from_millis(1)));
    let before_and_after =
        || Some([3.0, 5.0][usize::try_from(asked.fetch_add(1, SeqCst)).unwrap()]);
    let measured = measure(&connector, &case, &plan, before_and_after).await.unwrap();
    let used = measured.cpu_seconds.unwrap() * measured.per_second * measured.seconds / 1_000.0;
    assert!((used - 2.0).abs() < 1e-6, "{measured:?}");
}
