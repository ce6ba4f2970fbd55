//! Deadlocks in single cases, and the bounds of the search.

use holdfast_types::LockRejection;
use holdfast_types::*;

use super::script_commands::{self, lock_name, run_line, session_name};
use crate::Machine;

/// A reported cycle is cut at its bound. A cycle beyond the bound of the search is not detected.
#[test]
fn a_reported_cycle_and_the_search_for_one_are_bounded() {
    let ring = |length: usize| {
        let mut machine = Machine::new();
        let acquire = |machine: &mut Machine, lock: usize, session: usize| {
            let lock = lock_name(&format!("l{lock}"));
            let acquire =
                Acquire::new(lock, script_commands::open(&format!("s{session}")), Owner::unnamed());
            let commands = vec![Command::Acquire(acquire)];
            machine.apply(Entry { stamped_at: Stamp(0), commands }).outcomes.remove(0)
        };
        for n in 0..length {
            acquire(&mut machine, n, n).unwrap();
        }
        for n in 1..length {
            acquire(&mut machine, n, n - 1).unwrap();
        }
        acquire(&mut machine, 0, length - 1)
    };
    let Err(Rejection::Lock(LockRejection::Deadlock { cycle })) = ring(3) else {
        panic!("no deadlock detected")
    };
    let locks: Vec<_> =
        cycle.iter().map(|(session, _, lock)| format!("{session} {lock}")).collect();
    assert_eq!(locks, ["s2 l0", "s0 l1", "s1 l2"]);
    let Err(Rejection::Lock(LockRejection::Deadlock { cycle })) = ring(500) else {
        panic!("no deadlock detected")
    };
    assert_eq!(cycle.len(), LockRejection::CYCLE_MAX);
    assert!(matches!(ring(5_000), Ok(Reply::Acquired(EntryState::Waiting(_)))));
}

/// `s1~n` works for `s1`, as a `holdfast run` below another one.
#[test]
fn a_session_waits_for_the_sessions_that_are_nested_in_it() {
    let run = |steps: &[(&str, &str)]| {
        let mut machine = Machine::new();
        let outcomes = steps.iter().map(|(session, lock)| {
            let open = script_commands::open(session);
            let acquire = Acquire::new(lock_name(lock), open, Owner::unnamed());
            let commands = vec![Command::Acquire(acquire)];
            machine.apply(Entry { stamped_at: Stamp(0), commands }).outcomes.remove(0)
        });
        let outcomes: Vec<Outcome> = outcomes.collect();
        let last = outcomes.last().cloned().unwrap();
        assert!(outcomes[..outcomes.len() - 1].iter().all(Result::is_ok), "{outcomes:?}");
        last
    };
    let open = |name| (name, "own");
    let cycle = run(&[
        ("s1", "a"),
        ("s2", "b"),
        open("s1~1"),
        ("s1~1~1", "c"),
        ("s2~2", "a"),
        ("s1~1~1", "b"),
    ]);
    let Err(Rejection::Lock(LockRejection::Deadlock { cycle })) = cycle else {
        panic!("no deadlock detected: {cycle:?}")
    };
    let waits: Vec<_> =
        cycle.iter().map(|(session, _, lock)| format!("{session} {lock}")).collect();
    assert_eq!(waits, ["s1~1~1 b", "s2 a", "s2~2 a", "s1 b"]);
    // The acquire opens the nested session.
    let cycle = run(&[("s1", "a"), ("s2", "b"), ("s2", "a"), ("s1~1", "b")]);
    let Err(Rejection::Lock(LockRejection::Deadlock { cycle })) = cycle else {
        panic!("no deadlock detected: {cycle:?}")
    };
    assert_eq!(cycle.len(), 3, "{cycle:?}");
    // A running nested command, a nested command of another session, and a session with a similar name.
    for steps in [
        &[("s1", "a"), ("s2", "b"), ("s2~2", "c"), ("s3~2", "a"), ("s1~1", "b")][..],
        &[("s1", "a"), ("s2", "b"), ("s22~2", "a"), ("s1~1", "b")],
        &[("s1", "a"), ("s1~1", "a")],
    ] {
        let waits = matches!(run(steps), Ok(Reply::Acquired(EntryState::Waiting(_))));
        assert!(waits, "{steps:?}");
    }
}

/// `s1` waits for `s1~0`, which waits for `s2`. The search also reads whether `s1~1` waits.
#[test]
fn the_search_reads_no_more_keys_of_a_nested_session_than_its_bound() {
    for (entries, is_found) in [(10, true), (5_000, false)] {
        let mut machine = Machine::new();
        let mut acquire = |session: &str, lock: &str, owner: &str| {
            let owner =
                if owner.is_empty() { Owner::unnamed() } else { Owner::new(owner).unwrap() };
            let open = script_commands::open(session);
            let acquire = Command::Acquire(Acquire::new(lock_name(lock), open, owner));
            let entry = Entry { stamped_at: Stamp(0), commands: vec![acquire] };
            machine.apply(entry).outcomes.remove(0)
        };
        acquire("s1", "x", "").unwrap();
        acquire("s2", "z", "").unwrap();
        for n in 0..entries {
            acquire("s1~1", &format!("a{n}"), "other").unwrap();
        }
        acquire("s1~0", "z", "").unwrap();
        let outcome = acquire("s2", "x", "");
        let found = matches!(outcome, Err(Rejection::Lock(LockRejection::Deadlock { .. })));
        assert_eq!(found, is_found, "{outcome:?}");
    }
}

/// `s1` waits for itself: its ZooKeeper entry is behind `s3`, which is behind its multi-lock. A hand-over to `s1` closes
/// another cycle, but `s1` was in one before.
#[test]
fn a_waiter_between_two_entries_of_an_agent_makes_it_wait_for_itself() {
    let mut machine = Machine::new();
    let mut apply = |command| {
        machine.apply(Entry { stamped_at: Stamp(0), commands: vec![command] }).outcomes.remove(0)
    };
    let mut acquire = |session: &str, locks: &[&str]| {
        let open = script_commands::open(session);
        let acquire = Acquire::new(script_commands::lock_set(locks), open, Owner::unnamed());
        apply(Command::Acquire(acquire)).unwrap();
    };
    acquire("s2", &["a"]);
    acquire("s5", &["b"]);
    acquire("s4", &["a", "b"]);
    acquire("s1", &["a", "s"]);
    acquire("s3", &["a"]);
    let create =
        script_commands::create("/locks/a/m-lock-", CreateKind::Ephemeral, true, Vec::new());
    apply(script_commands::multi(script_commands::of_session("s1"), vec![create])).unwrap();
    let [from, to] = ["s5", "s1"].map(|name| (session_name(name), Owner::unnamed()));
    let hand_over = HandOver { lock: lock_name("b"), from, to, token: None };
    let handed_over = apply(Command::HandOver(hand_over));
    assert!(matches!(handed_over, Ok(Reply::HandedOver(_))), "{handed_over:?}");
}

/// The shards are plain locks until the acquire of `c`.
#[test]
fn the_first_acquire_of_a_sharded_lock_is_deadlocked_only_if_all_shards_are_blocked() {
    let mut machine = Machine::new();
    for line in
        ["acquire s/0 a", "acquire s/1 b", "acquire x c", "acquire x a", "acquire s c shards=2"]
    {
        run_line(&mut machine, line).unwrap();
    }
    run_line(&mut machine, "release s/1 b").unwrap();
    assert_eq!(machine.lock(&lock_name("s/1"), 9).holders[0].session, session_name("c"));
}

/// The holder of `s/1` waits for `w`, which can get `s/0`. The search ends among the waiters of `s/0`.
#[test]
fn an_overtaken_waiter_is_not_blocked_in_shards_that_the_search_does_not_reach() {
    let mut machine = Machine::new();
    let waiters = (0..5_000).map(|n| format!("acquire s w{n} shards=2 shard=0"));
    let lines: Vec<String> =
        ["acquire s a shards=2", "acquire s b shards=2", "acquire y w"].map(String::from).into();
    let last = ["acquire s w shards=2", "acquire y b"].map(String::from);
    let lines = lines.into_iter().chain(waiters).chain(last);
    let commands = lines.map(|line| script_commands::Words::of(&line).command(&machine)).collect();
    let applied = machine.apply(Entry { stamped_at: Stamp(0), commands });
    assert!(applied.outcomes.iter().all(Result::is_ok));
    let overtakes = run_line(&mut machine, "acquire s c shards=2 shard=1 priority=9");
    assert!(matches!(overtakes, Ok(Reply::Acquired(EntryState::Waiting(_)))), "{overtakes:?}");
}

/// Of any two shards or permits, `w` gets the one that is given back first.
#[test]
fn agents_that_wait_only_for_one_another_are_deadlocked() {
    for any in ["shards=2", "limit=2"] {
        let mut machine = Machine::new();
        let mut run = |line: &str| run_line(&mut machine, &line.replace("ANY", any));
        for line in [
            "acquire s a ANY",
            "acquire s b ANY",
            "acquire x c",
            "acquire y w",
            "acquire z b",
            "acquire s w ANY",
            "acquire y b",
        ] {
            run(line).unwrap();
        }
        run("acquire z c").unwrap();
        run("release z c").unwrap();
        run("acquire x a").unwrap();
        let Err(Rejection::Lock(LockRejection::Deadlock { cycle })) = run("acquire z c") else {
            panic!("no deadlock detected: {any}")
        };
        let sessions: Vec<_> = cycle.iter().map(|(session, ..)| session.as_str()).collect();
        assert_eq!(sessions, ["c", "b", "w", "a"], "{any}");
        // A caller that waits for a deadlock, and for which none of its agents waits, is not in it.
        for line in ["policy z deadlocks=false", "acquire z c", "acquire q d", "acquire q e"] {
            run(line).unwrap();
        }
        assert!(matches!(run("acquire y d"), Ok(Reply::Acquired(EntryState::Waiting(_)))));
    }
}

/// A ZooKeeper client holds a semaphore alone, whatever the limit becomes.
#[test]
fn a_raised_limit_leaves_a_zookeeper_client_in_the_way_of_every_waiter() {
    let mut machine = Machine::new();
    for line in [
        "open z",
        "policy s limit=1",
        "create /locks/s/m-lock- ephemeral sequential session=z",
        "policy s limit=2",
        "acquire x a",
        "create /locks/x/m-lock- ephemeral sequential session=z",
    ] {
        run_line(&mut machine, line).unwrap();
    }
    let outcome = run_line(&mut machine, "acquire s a limit=2");
    let is_deadlock = matches!(outcome, Err(Rejection::Lock(LockRejection::Deadlock { .. })));
    assert!(is_deadlock, "{outcome:?}");
}

/// Runs lines that succeed. Returns the cycle for which the last one is rejected, if it is.
fn cycle_of(lines: &[&str]) -> Option<Vec<String>> {
    let mut machine = Machine::new();
    let (last, before) = lines.split_last().unwrap();
    for line in before {
        run_line(&mut machine, line).unwrap();
    }
    let unchanged = machine.clone();
    let outcome = run_line(&mut machine, last);
    machine.check_invariants().unwrap();
    let Err(Rejection::Lock(LockRejection::Deadlock { cycle })) = outcome else {
        outcome.unwrap();
        return None;
    };
    assert_eq!(machine.counts(), unchanged.counts(), "{last} changes nothing");
    Some(cycle.iter().map(|(session, _, lock)| format!("{session} {lock}")).collect())
}

/// The first attempt of `a` could get `s/1`, until the second one keeps it in `s/0`. `x` holds a permit there, and waits for `a`.
#[test]
fn a_second_attempt_that_keeps_the_first_in_one_shard_may_close_a_cycle() {
    let start = [
        "acquire s x shards=2 limit=3",
        "acquire s/1 y limit=3",
        "acquire l a",
        "acquire s a shards=2 limit=3 permits=3 attempt=1",
    ];
    for second in [
        "acquire s a shards=2 limit=3 attempt=2",
        "acquire s/0 a attempt=2",
        // This one is granted at once, before the first.
        "acquire s a shards=2 limit=3 attempt=2 priority=1",
        "acquire s a shards=2 limit=3 attempt=2 priority=1 nowait",
    ] {
        let lines: Vec<_> = start.into_iter().chain(["acquire l x", second]).collect();
        assert_eq!(cycle_of(&lines), Some(vec!["a s/0".into(), "x l".into()]), "{second}");
        if second.ends_with("nowait") {
            continue;
        }
        let lines: Vec<_> = start.into_iter().chain([second, "acquire l x"]).collect();
        assert_eq!(cycle_of(&lines), Some(vec!["x l".into(), "a s/0".into()]), "{second}");
    }
    // No agent of the shard waits for `a`.
    let lines: Vec<_> =
        start.into_iter().chain(["acquire l y", "acquire s a shards=2 attempt=2"]).collect();
    assert_eq!(cycle_of(&lines), None);
}

/// `a` waits for `m` of `b`, and then overtakes `b` in the queue of `q`.
#[test]
fn a_second_wait_or_grant_of_an_agent_may_close_a_cycle_of_its_first_wait() {
    let cycle = Some(vec!["a m".to_owned(), "b q".to_owned()]);
    for (first, of_b, last) in [
        ("acquire q c", "acquire q b", "acquire q a priority=9"),
        // These are granted at once.
        ("acquire q c mode=shared", "acquire q b", "acquire q a mode=shared priority=9"),
        ("acquire q c limit=3", "acquire q b permits=3", "acquire q a priority=9"),
        ("acquire q c limit=3", "acquire q b permits=3", "acquire q a priority=9 nowait"),
    ] {
        let lines = [first, "acquire m b", "acquire m a", of_b, last];
        assert_eq!(cycle_of(&lines), cycle, "{last}");
        // The wait of another owner of the session is none of this one.
        let other = "acquire m a owner=t";
        assert_eq!(cycle_of(&[first, "acquire m b", other, of_b, last]), None, "{last}");
    }
    // `b` reads `q` only after the cooldown, and then not beside the exclusive hold of `a`.
    let lines = [
        "policy q cooldown=1000",
        "acquire q a mode=shared",
        "acquire m b",
        "acquire q b mode=shared",
        "acquire m a",
        "acquire q a mode=exclusive change=0",
    ];
    assert_eq!(cycle_of(&lines), cycle);
}

/// As above, but no agent waits for itself.
#[test]
fn an_agent_with_two_waits_is_no_cycle_while_the_others_go_on() {
    // Beside the permit of `a`, there is room for `b` after `c`.
    let lines = [
        "acquire q c limit=3 permits=2",
        "acquire m b",
        "acquire m a",
        "acquire q b permits=2",
        "acquire q a priority=9",
    ];
    assert_eq!(cycle_of(&lines), None);
    // The first attempt of `a` waits behind `b`, and the second one before it. There is room for all.
    let lines = [
        "acquire q c limit=3 permits=3",
        "acquire q b priority=1",
        "acquire q a attempt=1",
        "acquire q a attempt=2 priority=2",
    ];
    assert_eq!(cycle_of(&lines), None);
    // `x` releases the lock, and then there is room for `a` and `b`.
    let lines = [
        "acquire q c limit=3 permits=3",
        "acquire q x permits=3 priority=9",
        "acquire m b",
        "acquire m a",
        "acquire q b",
        "acquire q a priority=5",
    ];
    assert_eq!(cycle_of(&lines), None);
    // `x` releases the lock, and then `a` and `b` both read.
    let lines = [
        "acquire q c mode=shared",
        "acquire q x priority=9",
        "acquire m b",
        "acquire m a",
        "acquire q b mode=shared",
        "acquire q a mode=shared priority=5",
    ];
    assert_eq!(cycle_of(&lines), None);
    // `b` waits for the other upgradable holder alone.
    let lines = [
        "acquire q c mode=upgradable",
        "acquire m b",
        "acquire m a",
        "acquire q b mode=upgradable",
        "acquire q a mode=shared priority=9",
    ];
    assert_eq!(cycle_of(&lines), None);
    // `a` was in a cycle before.
    let lines = [
        "policy n deadlocks=false",
        "acquire n a",
        "acquire m b",
        "acquire m a",
        "acquire n b",
        "acquire q c",
        "acquire q b",
        "acquire q a priority=9",
    ];
    assert_eq!(cycle_of(&lines), None);
}

/// `c` would wait in the queue of `s/0`, before `w`, which waits for any shard in the queue of `s/1`.
#[test]
fn a_place_before_waiters_of_other_shards_may_close_a_cycle() {
    let lines = [
        "open c",
        "policy s shards=2",
        "acquire s/0 h limit=3",
        "acquire s/0 k limit=3 permits=2",
        "acquire s/1 g",
        "acquire y w",
        "acquire s w shards=2",
        "acquire y h",
        "acquire y g",
        "acquire s/0 c permits=3",
    ];
    assert_eq!(cycle_of(&lines), Some(vec!["c s/0".into(), "h y".into(), "w s/0".into()]));
    // `g` releases the shard, and `w` gets `s/1`.
    let lines: Vec<_> = lines.into_iter().filter(|line| *line != "acquire y g").collect();
    assert_eq!(cycle_of(&lines), None);
    // `c` takes a permit of `s/1` at once, which leaves too few for `w`. It waits for `w` elsewhere.
    let lines = [
        "policy s shards=2",
        "acquire s/0 h limit=3",
        "acquire s/1 g limit=3",
        "acquire y w",
        "acquire s w shards=2 permits=3",
        "acquire y h",
        "acquire y c",
        "acquire s/1 c",
    ];
    assert_eq!(cycle_of(&lines), Some(vec!["c y".into(), "w s/1".into()]));
    let lines: Vec<_> = lines.into_iter().filter(|line| *line != "acquire y h").collect();
    assert_eq!(cycle_of(&lines), None);
}

/// `w` cannot hold `s/1`, so it waits for `s/0` alone.
#[test]
fn a_shard_that_never_admits_a_waiter_does_not_save_it_from_a_deadlock() {
    for (other, request) in [
        ("acquire s/1 y limit=1", "mode=shared"),
        ("acquire s/1 y limit=1", "permits=2"),
        ("acquire s/1 y", "permits=2"),
    ] {
        let first =
            if request == "mode=shared" { "acquire s/0 x" } else { "acquire s/0 x limit=2" };
        let last = format!("acquire s w shards=2 {request}");
        let lines = ["policy s shards=2", first, other, "acquire l w", "acquire l x", &last];
        assert_eq!(
            cycle_of(&lines),
            Some(vec!["w s/0".into(), "x l".into()]),
            "{other}, {request}"
        );
    }
}

/// `c` waits behind `e`, which then holds `x` beside it. `e` waits for a lock of `c`, too.
#[test]
fn a_waiter_for_an_upgradable_lock_blocks_a_reader_only_before_another_such_waiter() {
    let lines = |between: &[&'static str], last: &[&'static str]| {
        let first = ["acquire x u mode=upgradable", "acquire y c", "acquire x e mode=upgradable"];
        let lines = [&first[..], between, last, &["acquire x c mode=shared"]].concat();
        cycle_of(&lines)
    };
    assert_eq!(lines(&[], &["acquire y e"]), None);
    // `f` waits for `e`, and `c` for `f`.
    let cycle = Some(vec!["c x".into(), "e y".into()]);
    assert_eq!(lines(&["acquire x f mode=upgradable"], &["acquire y e"]), cycle);
    assert_eq!(lines(&["acquire z f", "acquire x f mode=upgradable"], &["acquire y e"]), cycle);
    assert_eq!(lines(&["acquire x f"], &["acquire y e"]), cycle);
    // `e` waits for `u`, and so does `c`.
    let cycle = Some(vec!["c x".into(), "u y".into()]);
    assert_eq!(lines(&["acquire z e"], &["acquire y u"]), cycle);
}

/// `m` is first in the queue of `x`, but gets it only with `y`.
#[test]
fn an_entry_behind_a_multi_lock_waits_for_all_of_its_locks() {
    for (holder, request) in [
        ("acquire x o limit=2", "acquire x h"),
        ("acquire x o mode=shared", "acquire x h mode=shared"),
        ("acquire x o mode=shared", "acquire x h mode=upgradable"),
        ("acquire x o mode=shared", "acquire x h"),
    ] {
        let multi = if holder.contains("limit") { "" } else { "mode=shared" };
        let multi = format!("acquire x,y m {multi}");
        let cycle = cycle_of(&[holder, "acquire y h", multi.trim(), request]);
        assert_eq!(cycle, Some(vec!["h x".into(), "m y".into()]), "{request}");
        assert_eq!(cycle_of(&[holder, "acquire y k", multi.trim(), request]), None, "{request}");
    }
}

/// `m` gets both locks at once, and `w` gets `s/1` as soon as its holder releases it.
#[test]
fn a_multi_lock_that_is_granted_at_once_counts_as_a_holder() {
    let modes = [
        "policy s shards=2",
        "acquire s/1 u mode=upgradable",
        "acquire s/0 v",
        "acquire y w",
        "acquire s w shards=2 mode=upgradable",
        "acquire y v",
        "acquire y m",
        "acquire s/1,z m mode=shared",
    ];
    assert_eq!(cycle_of(&modes), None);
    let permits = |of_g: &'static str, of_w: &'static str| {
        let lines = [
            "policy s shards=2",
            "acquire s/0 h limit=3 permits=2",
            of_g,
            "acquire y w",
            of_w,
            "acquire y h",
            "acquire y c",
            "acquire s/1,z c",
        ];
        cycle_of(&lines)
    };
    let of_g = "acquire s/1 g limit=3 permits=2";
    assert_eq!(permits(of_g, "acquire s w shards=2 permits=2"), None);
    let cycle = Some(vec!["c y".into(), "w s/1".into()]);
    assert_eq!(permits("acquire s/1 g limit=3", "acquire s w shards=2 permits=3"), cycle);
}
