//! Late copies of numbered calls, of barriers and of release requests (docs/semantics.md, "Late copies of a call").

use holdfast_types::*;

use super::script_commands::{Words, numbered, open, session_name};
use crate::Machine;
use crate::session::memo::Memo;

fn apply(machine: &mut Machine, command: Command) -> Outcome {
    machine.apply(Entry { stamped_at: Stamp(0), commands: vec![command] }).outcomes.remove(0)
}

fn line(machine: &mut Machine, line: &str) -> Outcome {
    let command = Words::of(line).command(machine);
    apply(machine, command)
}

fn add(number: u64) -> Command {
    let counter = RecipeName::new("c").unwrap();
    let change = CounterChange::Add { amount: 1_000 };
    Command::Recipe(Recipe::ChangeCounter(ChangeCounter { counter, change }))
        .once(Some(numbered("s1", number)))
}

fn value(machine: &Machine) -> i64 {
    machine.counter(&RecipeName::new("c").unwrap()).value
}

fn opened() -> Machine {
    let mut machine = Machine::new();
    apply(&mut machine, Command::OpenSession { open: open("s1"), attempt: None }).unwrap();
    machine
}

fn over(newest: u64) -> Outcome {
    let newest = RequestNumber(newest);
    Err(Rejection::Session(SessionRejection::RequestOver { newest }))
}

/// C-M3: the answer to the first call is forgotten after as many calls as the session remembers.
#[test]
fn a_forgotten_call_is_not_executed_again() {
    let mut machine = opened();
    let count = u64::from(Limits::default().memo_per_session_max) + 6;
    for number in 1..=count {
        apply(&mut machine, add(number)).unwrap();
    }
    let before = value(&machine);
    assert_eq!(apply(&mut machine, add(1)), over(count));
    assert_eq!(value(&machine), before);
    // A number that was left out, and that is not above the floor, is over as well.
    apply(&mut machine, add(count + 10)).unwrap();
    let loaded = Machine::load(machine.dump()).unwrap();
    for machine in [&mut machine, &mut loaded.clone()] {
        assert_eq!(apply(machine, add(2)), over(count + 10));
        apply(machine, add(count + 5)).unwrap();
    }
}

/// C-L2: the copy has the revision of the first answer.
#[test]
fn a_copy_has_the_revision_of_the_first_answer() {
    let mut machine = opened();
    let first = apply(&mut machine, add(7)).unwrap();
    let revision = machine.revision();
    apply(&mut machine, add(8)).unwrap();
    let (reply, at) = apply(&mut machine, add(7)).unwrap().into_first();
    assert_eq!((reply, at), (first, Some(revision)));
    assert_eq!(value(&machine), 2_000);
}

#[test]
fn a_number_belongs_to_one_call() {
    let mut machine = opened();
    apply(&mut machine, add(1)).unwrap();
    let revision = machine.revision();
    let call = NumberedCall { scope: CallScope(1), ..numbered("s1", 1) };
    let (_, _, command) = add(2).into_parts();
    let other = apply(&mut machine, command.once(Some(call)));
    assert_eq!(other, Err(SessionRejection::RequestMismatch { revision }.into()));
    assert_eq!(value(&machine), 1_000);
}

/// A command that itself remembers an answer under the number of the call leaves one answer.
#[test]
fn a_number_has_one_answer() {
    let mut machine = opened();
    let (_, _, arrive) =
        Words::of("arrive b s1 parties=1 request=5").command(&machine).into_parts();
    apply(&mut machine, arrive.once(Some(numbered("s1", 5)))).unwrap();
    assert_eq!(Machine::load(machine.dump()).unwrap().state_digest(), machine.state_digest());
    assert_eq!(apply(&mut machine, add(0)), over(5));
}

#[test]
fn a_closed_session_executes_no_late_copy_also_after_it_is_opened_again() {
    let mut machine = opened();
    apply(&mut machine, add(7)).unwrap();
    line(&mut machine, "close s1").unwrap();
    let unknown = SessionRejection::Unknown { session: session_name("s1") };
    assert_eq!(apply(&mut machine, add(7)), Err(unknown.into()));
    let mut loaded = Machine::load(machine.dump()).unwrap();
    for machine in [&mut machine, &mut loaded] {
        // The end of an attempt of the closed session renews its record.
        line(machine, "release a s1 attempt=9").unwrap();
        assert_eq!(line(machine, "arrive b s1 parties=1 request=7"), over(7));
        apply(machine, Command::OpenSession { open: open("s1"), attempt: None }).unwrap();
        assert_eq!(apply(machine, add(7)), over(7));
        assert_eq!(value(machine), 1_000);
        apply(machine, add(8)).unwrap();
    }
}

/// Bytes forget as well as the count.
#[test]
fn large_answers_raise_the_floor() {
    let long = "x".repeat(200);
    let mut machine = opened();
    let change = |n: u64| {
        let create = |i| format!("create /{n}-{i}-{long}");
        let ops = (0..500).filter_map(|i| match Words::of(&create(i)).command(&Machine::new()) {
            Command::Multi(multi) => multi.then.into_iter().next(),
            _ => None,
        });
        let multi = Multi { then: ops.collect(), ..Multi::default() };
        Command::Multi(multi).once(Some(numbered("s1", n)))
    };
    for n in 1..=4 {
        apply(&mut machine, change(n)).unwrap();
    }
    const { assert!(500 * 300 * 2 > Memo::BYTES_MAX) };
    line(&mut machine, &format!("delete /1-0-{long}")).unwrap();
    assert_eq!(apply(&mut machine, change(1)), over(4));
}

fn left(outcome: &Outcome) -> bool {
    match outcome {
        Ok(Reply::Recipe(RecipeReply::LeftBarrier(left))) => left.changed,
        other => panic!("{other:?}"),
    }
}

/// C-M1: w1's DELETE of round 1 arrives in round 2.
#[test]
fn a_late_leave_of_a_double_barrier_does_not_leave_the_next_round() {
    let mut machine = Machine::new();
    let name = RecipeName::new("d").unwrap();
    let enter = |machine: &mut Machine| {
        line(machine, "arrive d w1 double parties=2").unwrap();
        line(machine, "arrive d w2 double parties=2").unwrap();
        machine.barrier(BarrierKind::Double, &name).round.unwrap()
    };
    let first = enter(&mut machine);
    let copy = format!("leave_barrier d w1 double generation={first}");
    assert!(left(&line(&mut machine, &copy)));
    // The member waits for the next round, first while another one is still inside, and then is inside.
    for last in ["", "leave_barrier d w2 double"] {
        if !last.is_empty() {
            line(&mut machine, last).unwrap();
        }
        line(&mut machine, "arrive d w1 double parties=2").unwrap();
        assert!(!left(&line(&mut machine, &copy)));
        assert_eq!(machine.barrier(BarrierKind::Double, &name).arrived, [session_name("w1")]);
    }
    let second = enter(&mut machine);
    assert!(!left(&line(&mut machine, &copy)));
    let view = machine.barrier(BarrierKind::Double, &name);
    assert_eq!(view.inside, [session_name("w1"), session_name("w2")]);
    assert!(left(&line(&mut machine, &format!("leave_barrier d w1 double generation={second}"))));
}

#[test]
fn a_late_leave_of_a_barrier_does_not_break_the_next_generation() {
    let mut machine = Machine::new();
    let name = RecipeName::new("b").unwrap();
    line(&mut machine, "arrive b w1 parties=2 request=1").unwrap();
    let first = machine.barrier(BarrierKind::Barrier, &name).generation.unwrap();
    line(&mut machine, "arrive b w2 parties=2 request=1").unwrap();
    line(&mut machine, "arrive b w1 parties=2 request=2").unwrap();
    let second = machine.barrier(BarrierKind::Barrier, &name).generation.unwrap();
    for copy in [format!("generation={first}"), "request=1".to_owned()] {
        assert!(!left(&line(&mut machine, &format!("leave_barrier b w1 {copy}"))));
    }
    assert_eq!(machine.barrier(BarrierKind::Barrier, &name).generation, Some(second));
    let both = format!("leave_barrier b w1 generation={second} request=2");
    assert!(left(&line(&mut machine, &both)));
}

/// A late copy of an arrival that was withdrawn, or that another arrival followed, does not arrive.
#[test]
fn a_withdrawn_arrival_does_not_come_back() {
    for kind in ["", " double"] {
        let mut machine = Machine::new();
        let arrive = |n: u64| format!("arrive x s1{kind} parties=2 request={n}");
        line(&mut machine, &arrive(1)).unwrap();
        line(&mut machine, &format!("leave_barrier x s1{kind}")).unwrap();
        line(&mut machine, &arrive(1)).unwrap_err();
        line(&mut machine, &arrive(2)).unwrap();
        // A withdrawal may overtake its arrival.
        line(&mut machine, &format!("leave_barrier x s1{kind} request=4")).unwrap();
        line(&mut machine, &arrive(4)).unwrap_err();
        line(&mut machine, &arrive(3)).unwrap();
        assert_eq!(line(&mut machine, &arrive(2)), over(2));
        // A refused call that did not wait is refused for ever.
        line(&mut machine, &format!("leave_barrier x s1{kind} request=3")).unwrap();
        line(&mut machine, &format!("{} nowait", arrive(5))).unwrap_err();
        line(&mut machine, "open s2").unwrap();
        line(&mut machine, &format!("arrive x s2{kind} parties=2")).unwrap();
        line(&mut machine, &format!("{} nowait", arrive(5))).unwrap_err();
        line(&mut machine, &format!("{} nowait", arrive(6))).unwrap();
    }
}

/// A call with a larger number stands for the arrival: the older number does not arrive in the next generation.
#[test]
fn a_replaced_number_does_not_arrive_again() {
    for kind in ["", " double"] {
        for withdrawn in [false, true] {
            let mut machine = Machine::new();
            let arrive = |n: u64| format!("arrive x s1{kind} parties=2 request={n}");
            line(&mut machine, &arrive(5)).unwrap();
            assert_eq!(line(&mut machine, &arrive(4)), over(5), "a copy of an earlier call");
            line(&mut machine, &arrive(6)).unwrap();
            if withdrawn {
                line(&mut machine, &format!("leave_barrier x s1{kind} request=6")).unwrap();
            } else {
                line(&mut machine, &format!("arrive x s2{kind} parties=2")).unwrap();
                line(&mut machine, &format!("leave_barrier x s1{kind}")).unwrap();
            }
            assert_eq!(line(&mut machine, &arrive(5)), over(5));
        }
    }
}

/// All members of one session get their answers, as many as the session remembers.
#[test]
fn each_arrival_of_a_session_takes_one_answer() {
    let mut machine = Machine::new();
    let count = Limits::default().memo_per_session_max;
    let arrive = |n: u32| format!("arrive x s1 owner=o{n} parties={count} request={n}");
    for n in 1..=count {
        line(&mut machine, &arrive(n)).unwrap();
    }
    for n in 1..=count {
        let first = line(&mut machine, &arrive(n)).unwrap().into_first().0;
        assert!(matches!(first, Reply::Recipe(RecipeReply::Tripped(_))), "{n}: {first:?}");
    }
}

/// A repeated call that does not wait leaves the arrival and its number alone.
#[test]
fn a_copy_without_a_wait_does_not_answer_an_arrival_that_waits() {
    let mut machine = Machine::new();
    line(&mut machine, "arrive x s1 parties=2 request=1").unwrap();
    line(&mut machine, "arrive x s1 parties=2 request=1 nowait").unwrap_err();
    line(&mut machine, "arrive x s2 parties=2").unwrap();
    let first = line(&mut machine, "arrive x s1 parties=2 request=1").unwrap().into_first().0;
    assert!(matches!(first, Reply::Recipe(RecipeReply::Tripped(_))), "{first:?}");
}

/// C-L3: a late release request with revoke does not end the next hold of the session.
#[test]
fn a_late_release_request_does_not_ask_the_next_hold() {
    let mut machine = Machine::new();
    line(&mut machine, "acquire rr s1").unwrap();
    line(&mut machine, "release rr s1").unwrap();
    line(&mut machine, "acquire rr s1").unwrap();
    for (who, token, asked) in
        [("", 1, 0), (" session=s1", 1, 0), ("", 2, 1), (" session=s1", 2, 1)]
    {
        let ask = format!("request_release rr{who} deadline=1000 revoke token={token}");
        let outcome = line(&mut machine, &ask);
        assert_eq!(outcome, Ok(Reply::ReleaseRequested { holders: asked }), "{ask}");
    }
    line(&mut machine, "request_release rr session=s2 deadline=1000").unwrap_err();
    line(&mut machine, "release rr s1").unwrap();
    let late = line(&mut machine, "request_release rr session=s1 deadline=1000 token=2");
    assert_eq!(late, Ok(Reply::ReleaseRequested { holders: 0 }));
}
