//! Both loops against planted locks: what is counted, what is charged with a stall, and that a case ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use holdfast_comparison::record::{Load, Locks, Measured};
use holdfast_comparison::statistics::number;
use holdfast_comparison::workload::{Case, Plan, measure};

use crate::simulated::{Manner, Simulated};

const WINDOW: Duration = Duration::from_millis(400);

async fn measured(manner: Manner, locks: Locks, load: Load, clients: u32) -> Measured {
    let case = Case { locks, load, clients };
    let warmup = Duration::from_millis(50);
    let plan = Plan { cases: vec![case], repetitions: 1, warmup, window: WINDOW };
    measure(&Simulated::system(manner), &case, &plan, || None).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_loop_begins_nothing_before_the_last_has_ended() {
    let slow = Manner::Slow(Duration::from_millis(20));
    let measured = measured(slow, Locks::Spread, Load::Closed, 2).await;
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
async fn everything_that_the_open_loop_scheduled_is_accounted_for() {
    for (manner, rate) in [
        (Manner::Slow(Duration::from_millis(1)), 100),
        // One client, 50 ms each: of 40 in the window some 9 a 450 ms can be served; the drain serves more.
        (Manner::Slow(Duration::from_millis(50)), 100),
        (Manner::Busy, 100),
    ] {
        let measured = measured(manner, Locks::Spread, Load::Open(rate), 1).await;
        let failed: u64 = measured.errors.values().sum();
        assert_eq!(measured.scheduled, 40, "{measured:?}");
        assert_eq!(measured.cycles + measured.unserved + failed, 40, "{manner:?}: {measured:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_open_loop_never_served_is_in_its_quantiles() {
    let stuck = Manner::Slow(Duration::from_mins(10));
    let measured = measured(stuck, Locks::Spread, Load::Open(100), 2).await;
    assert_eq!((measured.cycles, measured.unserved, measured.scheduled), (0, 40, 40));
    assert!(measured.p50_ms > 1_000.0, "as long as it was waited for: {measured:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_stall_is_charged_with_all_whom_it_kept_waiting_in_the_open_loop_alone() {
    let stall = Duration::from_millis(300);
    // After the warm-up, within the window.
    let open = measured(Manner::Stalls(10, stall), Locks::Spread, Load::Open(100), 1).await;
    assert!(open.p50_ms >= 50.0, "half of them came during the stall: {open:?}");
    let closed = measured(Manner::Stalls(1_000, stall), Locks::Spread, Load::Closed, 1).await;
    assert!(closed.cycles > 100, "{closed:?}");
    assert!(closed.p50_ms < open.p50_ms, "the closed loop hides it: {closed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_hangs_ends_its_case_and_is_an_error() {
    let hangs = Manner::Slow(Duration::from_mins(10));
    let measured = measured(hangs, Locks::Hot, Load::Closed, 3).await;
    assert_eq!((measured.cycles, measured.errors["unfinished"]), (0, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_lets_everybody_in_is_seen_and_one_that_excludes_is_not_blamed() {
    let open = Manner::Slow(Duration::from_micros(1));
    let measured_open = measured(open, Locks::Hot, Load::Closed, 16).await;
    assert!(measured_open.overlaps > 0, "{measured_open:?}");
    let excludes = measured(Manner::FirstIn, Locks::Hot, Load::Closed, 16).await;
    assert!(excludes.cycles > 0 && excludes.overlaps == 0, "{excludes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_processors_time_is_that_of_the_window() {
    let case = Case { locks: Locks::Spread, load: Load::Closed, clients: 1 };
    let plan = Plan { cases: vec![case], repetitions: 1, warmup: Duration::ZERO, window: WINDOW };
    let asked = Arc::new(AtomicU64::new(0));
    let system = Simulated::system(Manner::Slow(Duration::from_millis(1)));
    let before_and_after =
        || Some([3.0, 5.0][usize::try_from(asked.fetch_add(1, SeqCst)).unwrap()]);
    let measured = measure(&system, &case, &plan, before_and_after).await.unwrap();
    let used = measured.cpu_seconds.unwrap() * measured.per_second * measured.seconds / 1_000.0;
    assert!((used - 2.0).abs() < 1e-6, "{measured:?}");
}
