//! Sharded locks in single cases.

use holdfast_types::LockRejection;
use holdfast_types::*;

use super::script_commands::{self, Words, lock_name, run_line, session_name};
use super::shards::{acquire, name, resource, shard};
use crate::Machine;
use crate::session::attempts::EndedAttempts;

/// A waiter for any shard stands in the queue of one. A call that waits finds the entry by its ticket, wherever it is.
#[test]
fn a_waiter_for_any_shard_gets_the_first_that_becomes_free() {
    let mut machine = Machine::new();
    let any = |n, wait| {
        let shards = ShardRequest { count: Some(2), choice: ShardChoice::Any };
        acquire(n, Some(shards), wait)
    };
    let apply = |machine: &mut Machine, command| {
        let applied = machine.apply(Entry { stamped_at: Stamp(0), commands: vec![command] });
        machine.check_invariants().unwrap();
        let loaded = Machine::load(machine.dump()).unwrap();
        assert_eq!(loaded.state_digest(), machine.state_digest());
        applied.outcomes.into_iter().next().unwrap()
    };
    apply(&mut machine, any(0, false)).unwrap();
    apply(&mut machine, any(1, false)).unwrap();
    let Ok(Reply::Acquired(EntryState::Waiting(queued))) = apply(&mut machine, any(2, true)) else {
        panic!("it waits")
    };
    let Queued { lock, ticket, requested_in, .. } = queued[0].clone();
    assert_eq!(lock, shard(0));
    let (owner, target) = (Owner::unnamed(), ReleaseTarget::AnyEntry);
    let locks = shard(1).into();
    let release = Release { locks, session: name(1), owner: owner.clone(), target };
    apply(&mut machine, Command::Release(release)).unwrap();
    let state = machine.entry_state(&shard(0).into(), &name(2), &owner, Some(ticket));
    let grant = state.and_then(EntryState::into_single_grant).unwrap();
    assert_eq!((&grant.lock, grant.ticket, grant.token.0), (&shard(1), ticket, 3));
    let cancel = Cancel { lock, session: name(2), owner, ticket, requested_in };
    let outcome = apply(&mut machine, Command::Cancel(cancel));
    assert!(matches!(outcome, Ok(Reply::Acquired(EntryState::Holding(_)))), "{outcome:?}");
    assert_eq!(machine.lock(&shard(0), 9).waiters_total, 0);
}

/// At the maximum number of shards each acquire gets another shard, and the next one queues at the first.
#[test]
fn shards_are_independent_locks_up_to_their_maximum() {
    let mut machine = Machine::new();
    let count = LockPolicy::SHARDS_MAX;
    let shards = Some(ShardRequest { count: Some(count), choice: ShardChoice::Any });
    for n in 0..=count as usize {
        let commands = vec![acquire(n, shards, true)];
        let applied = machine.apply(Entry { stamped_at: Stamp(0), commands });
        match applied.outcomes.into_iter().next() {
            Some(Ok(Reply::Acquired(EntryState::Holding(grant)))) => {
                assert_eq!(grant[0].lock, shard(n));
            }
            Some(Ok(Reply::Acquired(EntryState::Waiting(queued)))) => {
                assert_eq!((n as u32, &queued[0].lock), (count, &shard(0)));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(machine.lock(&resource(), 1).shards.len() as u32, count);
}

#[test]
fn a_late_copy_acquires_nothing_after_the_shards_were_introduced_or_dropped() {
    let over = Err(Rejection::Lock(LockRejection::AttemptOver { newest: Attempt(5) }));
    for (before, after) in [("none", "2"), ("2", "none"), ("2", "4")] {
        for release in ["release stock/1 a attempt=5", "release stock/1 a token=1"] {
            let mut machine = Machine::new();
            let copied = "acquire stock/1 a attempt=5";
            for line in [format!("policy stock shards={before}").as_str(), copied, release] {
                run_line(&mut machine, line).unwrap();
            }
            run_line(&mut machine, &format!("policy stock shards={after}")).unwrap();
            assert_eq!(run_line(&mut machine, copied), over, "{before} to {after}, {release}");
        }
    }
}

#[test]
fn a_session_has_one_record_of_a_sharded_lock_and_none_of_its_shards() {
    let mut machine = Machine::new();
    let mut run = |line: String| run_line(&mut machine, &line);
    for n in 0..EndedAttempts::COUNT_MAX {
        run(format!("acquire stock{n} a shards=2 attempt=9")).unwrap();
        run(format!("release stock{n} a attempt=9")).unwrap();
    }
    run("acquire other a attempt=1".into()).unwrap();
}

#[test]
fn a_plain_lock_is_no_shard_of_the_plain_lock_above_it() {
    let mut machine = Machine::new();
    for line in ["acquire x a attempt=2", "release x a attempt=2", "acquire x/1 a attempt=1"] {
        run_line(&mut machine, line).unwrap();
    }
}

#[test]
fn a_waiter_gets_another_shard_when_its_request_or_the_room_there_changes() {
    let permits = [
        "acquire s a shards=2 limit=2 permits=2",
        "acquire s b shards=2 limit=2",
        "acquire s c shards=2 limit=2 permits=2",
    ];
    let modes = [
        "acquire s a shards=2 attempt=1",
        "acquire s b shards=2 attempt=1",
        "acquire s c shards=2 mode=shared",
    ];
    for (lines, change) in [
        (permits, "release s c permits=1"),
        (permits, "release s b permits=1"),
        (permits, "policy s/1 limit=3"),
        (modes, "acquire s b change=1 attempt=2 mode=shared shards=2"),
        (modes, "release s b"),
    ] {
        let mut machine = Machine::new();
        for line in lines.into_iter().chain([change]) {
            run_line(&mut machine, line).unwrap();
        }
        let holders = machine.lock(&lock_name("s/1"), 9).holders;
        let c = session_name("c");
        assert!(holders.iter().any(|holder| holder.session == c), "{change}: {holders:?}");
    }
}

#[test]
fn no_acquire_and_no_hand_over_gives_an_owner_a_second_shard() {
    // The shards are looked up if the session has more entries than the lock has shards.
    (0..5).for_each(gives_no_second_shard_to_a_session_with);
}

fn gives_no_second_shard_to_a_session_with(entries: usize) {
    let mut machine = Machine::new();
    for number in 0..entries {
        run_line(&mut machine, &format!("acquire x{number} a")).unwrap();
    }
    let mut run = |line| run_line(&mut machine, line);
    let queued = |lock| LockRejection::AlreadyQueued { lock: lock_name(lock) };
    let rejected = |lock| Err(Rejection::Lock(queued(lock)));
    for line in ["acquire stock a shards=3", "acquire stock b shards=3"] {
        run(line).unwrap();
    }
    assert_eq!(run("acquire stock/2 a"), rejected("stock/0"));
    assert_eq!(run("hand_over stock/1 b a"), rejected("stock/0"));
    let why = Box::new(queued("stock/2").into());
    let of_multi_lock = LockRejection::OfMultiLock { lock: lock_name("stock/1"), why };
    assert_eq!(run("acquire stock/1,stock/2 c"), Err(of_multi_lock.into()));
    // Its own shard, another owner, a lock that is no shard, and a receiver without a shard.
    for line in [
        "acquire stock/0 a",
        "acquire stock/2 a owner=t",
        "acquire stock/3 a",
        "acquire other c",
        "hand_over stock/1 b c",
    ] {
        run(line).unwrap();
    }
}

#[test]
fn an_operator_names_one_shard_and_a_holder_transfers_its_own() {
    let mut machine = Machine::new();
    let mut run = |line| run_line(&mut machine, line);
    for line in ["acquire stock a shards=3", "acquire stock b shards=3", "open c"] {
        run(line).unwrap();
    }
    let mismatch = Err(Rejection::Lock(LockRejection::ShardsMismatch { shards: Some(3) }));
    for line in
        ["break stock reason=stuck", "request_release stock deadline=1000", "hand_over stock c b"]
    {
        assert_eq!(run(line), mismatch, "{line}");
    }
    let places = |outcome| matches!(outcome, Ok(Reply::ForceReleased { places: 1 }));
    assert!(places(run("break stock/0 reason=stuck")));
    run("hand_over stock b c").unwrap();
    let holder = machine.lock(&lock_name("stock/1"), 9).holders.remove(0);
    assert_eq!(holder.session, session_name("c"));
}

#[test]
fn a_sharded_lock_has_no_other_setting_than_its_shards() {
    let mut machine = Machine::new();
    let mut run = |line| run_line(&mut machine, line);
    let mismatch = |shards| Err(Rejection::Lock(LockRejection::ShardsMismatch { shards }));
    assert_eq!(run("policy stock shards=2 cooldown=1"), mismatch(Some(2)));
    run("policy stock cooldown=1").unwrap();
    run("policy stock shards=3").unwrap();
    for line in ["policy stock limit=2", "policy stock cooldown=0", "policy stock shards=2 limit=1"]
    {
        assert!(
            matches!(run(line), Err(Rejection::Lock(LockRejection::ShardsMismatch { .. }))),
            "{line}"
        );
    }
    run("policy stock/0 cooldown=2").unwrap();
    // The settings of the lock return with it.
    run("policy stock shards=none cooldown=3").unwrap();
    assert_eq!(machine.lock(&lock_name("stock"), 9).policy.cooldown_ms, 3);
}

#[test]
fn a_waiter_for_any_shard_is_deadlocked_only_if_all_shards_are_blocked() {
    let waits = |outcome: Outcome| match outcome {
        Ok(Reply::Acquired(EntryState::Waiting(_))) => Ok(()),
        Err(Rejection::Lock(LockRejection::Deadlock { cycle })) => {
            let named = |(session, _, lock): &Blocked| format!("{session} {lock}");
            Err(cycle.iter().map(named).collect::<Vec<_>>())
        }
        other => panic!("{other:?}"),
    };
    let start = || {
        let mut machine = Machine::new();
        for line in ["acquire s a shards=2", "acquire s b shards=2", "acquire x c"] {
            run_line(&mut machine, line).unwrap();
        }
        machine
    };
    let mut machine = start();
    waits(run_line(&mut machine, "acquire x a")).unwrap();
    // The shard with the fewest entries is the one of a, which waits for c.
    waits(run_line(&mut machine, "acquire s c shards=2")).unwrap();
    run_line(&mut machine, "release s b").unwrap();
    let view = machine.lock(&lock_name("s/1"), 9);
    assert_eq!(view.holders[0].session, session_name("c"));
    // All shards are blocked before.
    let mut machine = start();
    waits(run_line(&mut machine, "acquire x a")).unwrap();
    waits(run_line(&mut machine, "acquire x b")).unwrap();
    let cycle = waits(run_line(&mut machine, "acquire s c shards=2")).unwrap_err();
    assert_eq!(cycle, ["c s/1", "b x"]);
    // A waiter for a named shard waits for that one alone.
    waits(run_line(&mut machine, "acquire s d shards=2")).unwrap();
    let mut machine = start();
    waits(run_line(&mut machine, "acquire x a")).unwrap();
    waits(run_line(&mut machine, "acquire s c shards=2 shard=0")).unwrap_err();
}

/// In a semaphore, each attempt has an entry.
#[test]
fn all_attempts_of_an_owner_wait_for_one_shard() {
    let holders = |machine: &Machine, at| {
        let holders = machine.lock(&lock_name(&format!("s/{at}")), 9).holders;
        holders.iter().map(|holder| holder.session.to_string()).collect::<Vec<_>>()
    };
    // The owner holds a shard, or waits in the queue of one.
    for (lines, release, first) in [
        (&["acquire s a shards=2 limit=1 attempt=1"][..], "release s/0 a attempt=1", "a"),
        (
            &[
                "acquire s x shards=2 limit=1",
                "acquire s/1 b limit=1",
                "acquire s a shards=2 attempt=1",
            ],
            "release s/0 x",
            "a",
        ),
    ] {
        for second in ["acquire s a shards=2 attempt=2", "acquire s/0 a attempt=2"] {
            let mut machine = Machine::new();
            for line in lines.iter().chain(&["acquire s/1 b limit=1", second, "release s/1 b"]) {
                run_line(&mut machine, line).unwrap();
            }
            assert!(holders(&machine, 1).is_empty(), "{second}");
            run_line(&mut machine, release).unwrap();
            assert_eq!((holders(&machine, 0), holders(&machine, 1)), (vec![first.into()], vec![]));
        }
    }
    // The waiter behind one that stays gets the room in another shard at once.
    let mut machine = Machine::new();
    for line in [
        "acquire s a shards=2 limit=3 permits=2",
        "acquire s b shards=2 limit=3",
        "acquire s e shards=2 limit=3 permits=2",
        "acquire s c shards=2 limit=3 permits=3 attempt=1",
        "acquire s d shards=2 limit=3 permits=2",
        "release s e",
        "acquire s c shards=2 limit=3 permits=2 attempt=2",
    ] {
        run_line(&mut machine, line).unwrap();
    }
    assert_eq!(holders(&machine, 1), ["b", "d"]);
}

/// The sessions that hold a shard of `s`.
fn holders_of(machine: &Machine, shard: &str) -> Vec<String> {
    let holders = machine.lock(&lock_name(shard), 9).holders;
    holders.iter().map(|holder| holder.session.to_string()).collect()
}

/// A free shard goes to a waiter for any shard only if a new acquire with its request could hold it.
#[test]
fn no_waiter_moves_to_a_shard_that_rejects_its_request() {
    for (shards, request, holder) in [
        ("acquire s/1 y limit=1", "mode=shared", ""),
        ("acquire s/1 y limit=1", "mode=upgradable", ""),
        ("acquire s/1 y limit=1", "", "w"),
        ("acquire s/1 y", "mode=shared", "w"),
        ("acquire s/1 y limit=1", "permits=2", ""),
        ("acquire s/1 y", "permits=2", ""),
        ("acquire s/1 y limit=2 permits=2", "permits=2", "w"),
    ] {
        let mut machine = Machine::new();
        let limit = if request.starts_with("permits") { "limit=2 permits=2" } else { "" };
        for line in [
            "policy s shards=2",
            &format!("acquire s/0 x {limit}"),
            shards,
            &format!("acquire s w shards=2 {request}"),
            "release s/1 y",
        ] {
            run_line(&mut machine, line).unwrap();
            machine.check_invariants().unwrap();
        }
        assert_eq!(holders_of(&machine, "s/1").join(","), holder, "{shards}, {request}");
        // A new acquire with the same request gets it exactly if the waiter does.
        let again = run_line(&mut machine, &format!("acquire s/1 n {request}"));
        assert_eq!(again.is_ok(), !holder.is_empty(), "{shards}, {request}: {again:?}");
        run_line(&mut machine, "release s/0 x").unwrap();
        let own = if holder.is_empty() { "w" } else { "" };
        assert_eq!(holders_of(&machine, "s/0").join(","), own, "{shards}, {request}");
    }
}

/// `s/1` is in cooldown while it becomes a sharded lock.
#[test]
fn no_waiter_moves_to_a_shard_that_is_a_sharded_lock() {
    let mut machine = Machine::new();
    for line in [
        "policy s/1 lock_delay=10",
        "acquire s x shards=2",
        "acquire s y shards=2",
        "acquire s w shards=2",
        "break s/1 reason=test",
        "policy s/1 shards=2",
    ] {
        run_line(&mut machine, line).unwrap();
    }
    let commands = vec![Words::of("due s/1").command(&machine)];
    machine.apply(Entry { stamped_at: Stamp(10), commands }).outcomes.remove(0).unwrap();
    machine.check_invariants().unwrap();
    assert_eq!(holders_of(&machine, "s/1"), [""; 0]);
    run_line(&mut machine, "release s x").unwrap();
    assert_eq!(holders_of(&machine, "s/0"), ["w"]);
}

/// As if its acquire had named the limit.
#[test]
fn a_waiter_of_a_semaphore_brings_the_limit_to_a_shard_that_was_deleted() {
    let mut machine = Machine::new();
    for line in [
        "acquire s x shards=2 limit=2 permits=2",
        "acquire s y shards=2 limit=2 permits=2",
        "acquire s w shards=2 limit=2 permits=2",
        "delete /locks/s/1 recursive",
    ] {
        run_line(&mut machine, line).unwrap();
        machine.check_invariants().unwrap();
    }
    assert_eq!(holders_of(&machine, "s/1"), ["w"]);
    assert_eq!(machine.lock(&lock_name("s/1"), 9).policy.limit, Some(2));
    run_line(&mut machine, "release s w").unwrap();
    run_line(&mut machine, "acquire s n shards=2 limit=2").unwrap();
    assert_eq!(holders_of(&machine, "s/1"), ["n"]);
}

/// `w` waits for any shard in the queue of `s/0`, and gets `s/1` with the last line of each case.
#[test]
fn each_end_of_what_keeps_a_shard_offers_it_to_the_waiters_of_the_others() {
    let held = [
        "release s y",
        "release s y attempt=1",
        "release s/1 y token=2",
        "acquire s y shards=2 attempt=2; release s y attempt=1; release s y attempt=2",
        "close y",
        "expire y",
        "end y",
        "seal; close y; unseal",
        "break s/1 reason=test",
        "break s/1 reason=test sequence=0",
        "request_release s/1 session=y deadline=5 revoke; at 5; due s/1",
        "open n; hand_over s/1 y n; release s n",
        "delete /locks/s/1/0000000000__WRIT__0000000000__lock__0000000000",
        "delete /locks/s/1 recursive",
    ];
    let in_cooldown = [
        "close y",
        "release s y",
        "at 10; due s/1",
        "policy s/1 lock_delay=0",
        "delete /locks/s/1",
        "delete /locks/s/1 recursive",
    ];
    let reserved = ["release s/1,other y", "close y", "break s/1 reason=test sequence=0"];
    let ended_otherwise = [
        ("acquire s y shards=2 max_hold=5", "at 5; due s/1"),
        ("acquire s y shards=2 min_hold=5", "release s y; at 5; due s/1"),
        ("acquire s y shards=2 anonymous", "release s y"),
        ("acquire s/1 y limit=1", "release s y"),
        ("acquire s/1,other y", "release s/1,other y"),
        (
            "create /locks/s/1; open y; create /locks/s/1/m-lock- ephemeral sequential session=y",
            "close y",
        ),
    ];
    // A client that does not see HTTP callers enters beside another ZooKeeper client.
    let foreign = [
        ("x ephemeral", "delete /locks/s/1/x"),
        ("x ephemeral", "delete /locks/s/1 recursive"),
        ("x ephemeral", "close z"),
        ("lock-0000000007", "delete /locks/s/1/lock-0000000007"),
        ("lock-0000000007 ttl=5", "at 6; sweep before=0"),
        ("leases/x ephemeral", "delete /locks/s/1/leases/x"),
        ("leases/x ephemeral", "delete /locks/s/1/leases recursive"),
        ("leases/x ephemeral", "expire z"),
        ("leases/lock-0000000007 ttl=5", "at 6; sweep before=0"),
        ("leases/x- ephemeral sequential", "delete /locks/s/1/leases/x-0000000000"),
        ("leases/x- ephemeral sequential", "delete /locks/s/1 recursive"),
        ("leases/x- ephemeral sequential", "end z"),
        ("leases/x- ephemeral sequential", "break s/1/leases reason=test"),
    ];
    let client = "create /locks/s/1; create /locks/s/1/leases; open y; open z; \
        create /locks/s/1/m-lock- ephemeral sequential session=y";
    let cases = held.map(|ends| ("acquire s y shards=2 attempt=1".to_owned(), ends.to_owned()));
    let in_cooldown = in_cooldown.map(|ends| {
        let first = "policy s/1 lock_delay=10; acquire s y shards=2";
        (first.to_owned(), format!("break s/1 reason=test; {ends}"))
    });
    let reserved =
        reserved.map(|ends| ("acquire other o; acquire s/1,other y".to_owned(), ends.to_owned()));
    let foreign = foreign.map(|(znode, ends)| {
        (client.to_owned(), format!("create /locks/s/1/{znode} session=z; close y; {ends}"))
    });
    let otherwise = ended_otherwise.map(|(first, ends)| (first.to_owned(), ends.to_owned()));
    let cases =
        cases.into_iter().chain(in_cooldown).chain(reserved).chain(foreign).chain(otherwise);
    for (first, ends) in cases {
        check_last_line_grants(&first, &ends);
    }
}

/// `w` waits in the queue of `s/0`, and gets `s/1` with the last line of `ends`.
fn check_last_line_grants(first: &str, ends: &str) {
    let mut machine = Machine::new();
    let mut stamp = Stamp(0);
    let ends: Vec<_> = ends.split("; ").collect();
    let start = ["policy s shards=2", "acquire s/0 x"].into_iter().chain(first.split("; "));
    let lines = start.chain(["acquire s w shards=2"]).chain(ends.iter().copied());
    let last = lines.clone().count() - 1;
    for (at, line) in lines.enumerate() {
        let command = match line.split_once(' ').unwrap_or((line, "")) {
            ("at", ms) => {
                stamp = Stamp(ms.parse().unwrap());
                continue;
            }
            ("seal", _) => Command::Seal { reason: Reason::new("test").unwrap() },
            ("unseal", _) => Command::Unseal { seal: machine.sealed().unwrap().revision },
            _ => Words::of(line).command(&machine),
        };
        let entry = Entry { stamped_at: stamp, commands: vec![command] };
        let outcome = machine.apply(entry).outcomes.remove(0);
        assert!(outcome.is_ok(), "{first} | {ends:?}: {line}: {outcome:?}");
        machine.check_invariants().unwrap();
        let is_granted = holders_of(&machine, "s/1").contains(&"w".to_owned());
        assert_eq!(is_granted, at == last, "{first} | {ends:?}: {line}");
    }
}

/// The delete of a shard ends the session of its durable holder. Nothing is granted in the directory before it is gone.
#[test]
fn the_delete_of_a_durably_held_shard_leaves_a_whole_index() {
    for (path, holder) in [("/locks/s/1", Some("w")), ("/locks/s", None)] {
        let mut machine = Machine::new();
        for line in ["policy s shards=2", "acquire s/0 x"] {
            run_line(&mut machine, line).unwrap();
        }
        let commands = vec![Command::Acquire(super::durable::durable("s/1", "carol"))];
        machine.apply(Entry { stamped_at: Stamp(0), commands }).outcomes.remove(0).unwrap();
        run_line(&mut machine, "acquire s w shards=2").unwrap();
        run_line(&mut machine, &format!("delete {path} recursive")).unwrap();
        machine.check_invariants().unwrap();
        assert_eq!(holders_of(&machine, "s/1"), Vec::from_iter(holder));
    }
}

/// `s/0` is free, and admits neither a reader nor two permits.
#[test]
fn an_acquire_of_any_shard_selects_one_that_admits_it() {
    for (request, holder) in [("mode=shared", "s/1 h"), ("limit=2 permits=2", "s/1 h limit=2")] {
        let mut machine = Machine::new();
        for line in ["policy s shards=2", "policy s/0 limit=1", &format!("acquire {holder}")] {
            run_line(&mut machine, line).unwrap();
        }
        run_line(&mut machine, &format!("acquire s w shards=2 {request}")).unwrap();
        assert_eq!(machine.lock(&lock_name("s/1"), 9).waiters[0].session, session_name("w"));
    }
    // A ZooKeeper client has a znode of its own in `s/0`.
    let mut machine = Machine::new();
    for line in ["policy s shards=2", "policy s/0 cooldown=1"] {
        run_line(&mut machine, line).unwrap();
    }
    let create = script_commands::create("/locks/s/0/e", CreateKind::Ephemeral, false, Vec::new());
    run_line(&mut machine, "open z").unwrap();
    let create = script_commands::multi(script_commands::of_session("z"), vec![create]);
    let created = machine.apply(Entry { stamped_at: Stamp(0), commands: vec![create] });
    assert!(created.outcomes[0].is_ok(), "{:?}", created.outcomes);
    run_line(&mut machine, "acquire s w shards=2").unwrap();
    assert_eq!(machine.lock(&lock_name("s/1"), 9).holders[0].session, session_name("w"));
    let mut machine = Machine::new();
    for line in ["policy s shards=2", "policy s/0 limit=1", "policy s/1 limit=1"] {
        run_line(&mut machine, line).unwrap();
    }
    let outcome = run_line(&mut machine, "acquire s w shards=2 permits=2");
    assert!(matches!(outcome, Err(Rejection::LimitReached { .. })), "{outcome:?}");
}
