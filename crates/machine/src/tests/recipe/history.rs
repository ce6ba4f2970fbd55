//! Random histories of recipes: few names, sessions and ids, so that the commands interact.

use holdfast_types::*;
use proptest::prelude::*;

use crate::tests::script_commands::session_name;

/// One step of a history.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "most moves are commands")]
pub(super) enum Move {
    Command(Option<NumberedCall>, Recipe),
    /// The n-th member leaves the present generation or round.
    LeavePresent(usize),
    /// Cancels the n-th current wait, or an ended one.
    Cancel(usize),
    /// Repeats the n-th last command.
    Repeat(usize),
    /// Repeats a run of commands in order: the index of the first, and the count.
    RepeatFrom(usize, usize),
    Close(usize),
    Expire(usize),
    Limits(u32, u32),
    Reload,
}

pub(super) const SESSIONS: [&str; 5] = ["s1", "s2", "s3", "s4", "s5"];

pub(super) fn history(moves_max: usize) -> impl Strategy<Value = Vec<Move>> {
    prop::collection::vec(step(), 1..moves_max)
}

fn step() -> impl Strategy<Value = Move> {
    prop_oneof![
        30 => arrive().prop_map(|recipe| Move::Command(None, recipe)),
        8 => leave_barrier().prop_map(|recipe| Move::Command(None, recipe)),
        12 => (numbered_call(), latch()).prop_map(|(call, recipe)| Move::Command(call, recipe)),
        8 => (numbered_call(), counter()).prop_map(|(call, recipe)| Move::Command(call, recipe)),
        4 => (0..8_usize).prop_map(Move::LeavePresent),
        8 => (0..8_usize).prop_map(Move::Cancel),
        10 => (0..20_usize).prop_map(Move::Repeat),
        2 => (prop_oneof![Just(0), any::<usize>()], 1..20_usize)
            .prop_map(|(from, count)| Move::RepeatFrom(from, count)),
        3 => (0..SESSIONS.len()).prop_map(Move::Close),
        4 => (0..SESSIONS.len()).prop_map(Move::Expire),
        1 => (0..6_u32, 0..5_u32).prop_map(|(recipes, memo)| Move::Limits(recipes, memo)),
        4 => Just(Move::Reload),
    ]
}

fn recipe_name() -> impl Strategy<Value = RecipeName> {
    prop::sample::select(vec!["a", "b"]).prop_map(|name| RecipeName::new(name).unwrap())
}

fn session() -> impl Strategy<Value = SessionName> {
    prop::sample::select(SESSIONS.to_vec()).prop_map(session_name)
}

fn owner() -> impl Strategy<Value = Owner> {
    prop::sample::select(vec!["-", "-", "-", "o"]).prop_map(|owner| Owner::new(owner).unwrap())
}

fn request() -> impl Strategy<Value = Option<RequestNumber>> {
    prop::option::weighted(0.7, (0..12_u64).prop_map(RequestNumber))
}

fn numbered_call() -> impl Strategy<Value = Option<NumberedCall>> {
    prop::option::weighted(0.6, super::super::changes::call())
}

fn barrier_kind() -> impl Strategy<Value = BarrierKind> {
    prop_oneof![Just(BarrierKind::Barrier), Just(BarrierKind::Double)]
}

/// A random command of any recipe.
pub(in crate::tests) fn recipe() -> impl Strategy<Value = Recipe> {
    prop_oneof![20 => arrive(), 6 => leave_barrier(), 30 => latch(), 14 => counter()]
}

fn arrive() -> impl Strategy<Value = Recipe> {
    let parties = prop_oneof![8 => Just(3_u32), 3 => Just(2), 1 => Just(1), 1 => Just(0)];
    let wait = prop::option::weighted(0.85, 1..9_u64);
    let open = (session(), super::super::history::incarnation())
        .prop_map(|(session, incarnation)| OpenSession { incarnation, ..OpenSession::of(session) });
    (barrier_kind(), recipe_name(), parties, open, owner(), request(), wait).prop_map(
        |(barrier_kind, name, parties, open, owner, request, wait_ms)| {
            Recipe::Arrive(Arrive { barrier_kind, name, parties, open, owner, request, wait_ms })
        },
    )
}

fn leave_barrier() -> impl Strategy<Value = Recipe> {
    let generation = prop::option::weighted(0.4, (1..60_u64).prop_map(Revision));
    let request = prop::option::weighted(0.3, (0..12_u64).prop_map(RequestNumber));
    (barrier_kind(), recipe_name(), session(), owner(), generation, request).prop_map(
        |(barrier_kind, name, session, owner, generation, request)| {
            Recipe::LeaveBarrier(LeaveBarrier {
                barrier_kind,
                name,
                session,
                owner,
                generation,
                request,
            })
        },
    )
}

fn latch() -> impl Strategy<Value = Recipe> {
    let key = || (0..5_u8).prop_map(|key| RequestId::new(format!("k{key}")).unwrap());
    prop_oneof![
        3 => (recipe_name(), 0..4_u32).prop_map(|(latch, count)| Recipe::MakeLatch { latch, count }),
        6 => (recipe_name(), key()).prop_map(|(latch, key)| Recipe::CountDown { latch, key }),
        5 => (recipe_name(), key(), session())
            .prop_map(|(latch, key, session)| Recipe::Promise { latch, key, session }),
        1 => recipe_name().prop_map(|latch| Recipe::DeleteLatch { latch }),
    ]
}

fn counter() -> impl Strategy<Value = Recipe> {
    let amount = prop_oneof![4 => -3..9_i64, 1 => Just(i64::MAX), 1 => Just(i64::MIN)];
    let change = prop_oneof![
        6 => amount.prop_map(|amount| CounterChange::Add { amount }),
        3 => (0..9_i64, prop::option::of(0..40_u64))
            .prop_map(|(value, version)| CounterChange::Set { value, version }),
        1 => Just(CounterChange::Delete),
    ];
    (recipe_name(), change)
        .prop_map(|(counter, change)| Recipe::ChangeCounter(ChangeCounter { counter, change }))
}
