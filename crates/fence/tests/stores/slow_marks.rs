//! The layer for HTTP services over marks that answer late, in every order of steps.
//!
//! A call pauses before and after its mark is raised, and before and after its write. A schedule names the call that
//! takes the next step, so one schedule is one interleaving, without a clock. A schedule may also drop a call, as a
//! server does when the client disconnects.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use ::http::{Request, Response};
use futures_util::poll;
use holdfast_fence::http::{FENCING_TOKEN, Fence, FenceLayer, Marks, MemoryMarks};
use holdfast_fence::{Claim, FenceError, FencingToken};
use http_body_util::Full;
use hyper::body::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::task::yield_now;
use tower::{Layer, ServiceExt, service_fn};

use crate::search::{cases, runner, runtime};

/// The most calls of a case.
const CALLS_MAX: usize = 5;
/// The factor on the cases of a search in a real store: a case without a store takes microseconds.
const CASES_FACTOR: u32 = 50;
/// The number of rounds after which a call counts as stuck.
const ROUNDS_MAX: usize = 100;

/// Marks that pause before and after they are raised.
struct SlowMarks(MemoryMarks);

impl Marks for SlowMarks {
    async fn raise(&self, resource: &str, claim: Claim) -> Result<FencingToken, FenceError> {
        yield_now().await;
        let mark = self.0.raise(resource, claim).await;
        yield_now().await;
        mark
    }
}

/// One step of a schedule; the number is the call's.
#[derive(Clone, Copy, Debug)]
enum Step {
    Go(usize),
    Drop(usize),
}

/// One interleaving: the claims of the calls, and their steps. After the schedule the remaining calls take turns.
#[derive(Clone, Debug)]
struct Case {
    calls: Vec<Claim>,
    schedule: Vec<Step>,
}

fn claim() -> impl Strategy<Value = Claim> {
    (2..6_u64, 0..3_u64).prop_map(|(token, below)| {
        Claim::shared(FencingToken(token), FencingToken(token.saturating_sub(below).max(1)))
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![15 => (0..CALLS_MAX).prop_map(Step::Go), 1 => (0..CALLS_MAX).prop_map(Step::Drop)]
}

fn case() -> impl Strategy<Value = Case> {
    let calls = vec(claim(), 2..=CALLS_MAX);
    (calls, vec(step(), 0..50)).prop_map(|(calls, schedule)| Case { calls, schedule })
}

/// The claims of the handler's calls: one item when a call begins, and one when it writes.
type Acts = Arc<Mutex<Vec<Claim>>>;
type Call = Pin<Box<dyn Future<Output = u16>>>;

/// The result of a case.
#[derive(Debug)]
struct Seen {
    acts: Vec<Claim>,
    /// The status of each call; `None` for a dropped call.
    statuses: Vec<Option<u16>>,
}

async fn play(case: &Case) -> Seen {
    let acts = Acts::default();
    let handled = Arc::clone(&acts);
    let service = service_fn(move |request: Request<()>| {
        let acts = Arc::clone(&handled);
        async move {
            let claim = request.extensions().get::<Fence>().unwrap().claim;
            acts.lock().unwrap().push(claim);
            yield_now().await;
            acts.lock().unwrap().push(claim);
            yield_now().await;
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        }
    });
    let guarded = FenceLayer::new("orders", SlowMarks(MemoryMarks::default())).layer(service);
    let mut calls: Vec<Option<Call>> = Vec::new();
    for claim in &case.calls {
        let header = Fence::new("orders", *claim).header().unwrap();
        let request = Request::put("/").header(FENCING_TOKEN, header).body(()).unwrap();
        let answer = guarded.clone().oneshot(request);
        calls.push(Some(Box::pin(async move { answer.await.unwrap().status().as_u16() })));
    }
    let statuses = conduct(&mut calls, &case.schedule).await;
    let acts = std::mem::take(&mut *acts.lock().unwrap());
    Seen { acts, statuses }
}

/// Lets the calls take their steps, until each has ended.
async fn conduct(calls: &mut [Option<Call>], schedule: &[Step]) -> Vec<Option<u16>> {
    let mut statuses = vec![None; calls.len()];
    let rounds = (0..ROUNDS_MAX).flat_map(|_| (0..calls.len()).map(Step::Go));
    for step in schedule.iter().copied().chain(rounds.collect::<Vec<_>>()) {
        let (Step::Go(number) | Step::Drop(number)) = step;
        let Some(call) = calls.get_mut(number) else { continue };
        match (step, &mut *call) {
            (Step::Drop(_), _) => *call = None,
            (Step::Go(_), Some(running)) => {
                if let Poll::Ready(status) = poll!(running) {
                    statuses[number] = Some(status);
                    *call = None;
                }
            }
            (Step::Go(_), None) => {}
        }
        // The runtime limits the number of polls without a yield.
        yield_now().await;
    }
    assert!(calls.iter().all(Option::is_none), "a call does not end");
    statuses
}

/// After a claim has entered, no call with a token below its floor enters or writes.
fn no_stale_call_acts(seen: &Seen) -> Result<(), TestCaseError> {
    let mut floor = FencingToken(0);
    for claim in &seen.acts {
        prop_assert!(claim.token() >= floor, "{} acts after {floor}: {seen:?}", claim.token());
        floor = floor.max(claim.floor());
    }
    Ok(())
}

/// Each call ends, and a call whose token is not below any floor is admitted.
fn only_stale_calls_are_rejected(case: &Case, seen: &Seen) -> Result<(), TestCaseError> {
    let floor = case.calls.iter().map(|claim| claim.floor()).max().unwrap();
    for (claim, status) in case.calls.iter().zip(&seen.statuses) {
        let expected: &[Option<u16>] =
            if claim.token() >= floor { &[Some(200), None] } else { &[Some(200), Some(412), None] };
        prop_assert!(expected.contains(status), "{claim:?}: {status:?}: {seen:?}");
    }
    Ok(())
}

#[test]
fn no_order_of_slow_marks_and_calls_lets_a_stale_call_write() {
    let runtime = runtime();
    let outcome = runner(cases() * CASES_FACTOR, 2_000).run(&case(), |case| {
        let seen = runtime.block_on(play(&case));
        no_stale_call_acts(&seen)?;
        only_stale_calls_are_rejected(&case, &seen)
    });
    outcome.unwrap();
}

/// Call 5 has raised the mark and waits for the answer; call 6 raises it further, writes and ends.
#[test]
fn a_call_whose_mark_answers_after_its_successor_has_ended_is_rejected() {
    let calls = vec![FencingToken(5).into(), FencingToken(6).into()];
    let mut schedule = vec![Step::Go(0); 2];
    schedule.extend([Step::Go(1); 20]);
    let seen = runtime().block_on(play(&Case { calls, schedule }));
    let tokens: Vec<u64> = seen.acts.iter().map(|claim| claim.token().0).collect();
    assert_eq!((tokens, seen.statuses), (vec![6, 6], vec![Some(412), Some(200)]));
}

/// The caller of 5 disconnects while a thread still writes for it.
#[test]
fn a_call_whose_caller_disconnects_ends_before_its_successor_enters() {
    let acts = Arc::new(Mutex::new(Vec::new()));
    let (write, may_write) = std::sync::mpsc::channel::<()>();
    let may_write = Arc::new(Mutex::new(Some(may_write)));
    let handled = Arc::clone(&acts);
    let service = service_fn(move |request: Request<()>| {
        let (acts, may_write) = (Arc::clone(&handled), may_write.lock().unwrap().take());
        let token = request.extensions().get::<Fence>().unwrap().claim.token();
        let work = tokio::task::spawn_blocking(move || {
            // Only the first call waits.
            may_write.map(|wait| wait.recv());
            acts.lock().unwrap().push(token.0);
        });
        async move {
            work.await.unwrap();
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        }
    });
    let guarded = FenceLayer::new("orders", MemoryMarks::default()).layer(service);
    let call = |token| {
        let header = Fence::new("orders", FencingToken(token)).header().unwrap();
        let request = Request::put("/").header(FENCING_TOKEN, header).body(()).unwrap();
        Box::pin(guarded.clone().oneshot(request))
    };
    runtime().block_on(async {
        let mut first = call(5);
        assert!(poll!(&mut first).is_pending());
        drop(first);
        let mut second = call(6);
        for _ in 0..ROUNDS_MAX {
            assert!(poll!(&mut second).is_pending());
            yield_now().await;
        }
        write.send(()).unwrap();
        assert_eq!(second.await.unwrap().status(), 200);
    });
    assert_eq!(*acts.lock().unwrap(), [5, 6]);
}
