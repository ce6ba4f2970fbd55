//! Detects deadlocks: rejects a caller that would wait for itself through other waits.
//!
//! An agent is an owner of a session. It waits for the holders that block it, for the waiters before it, and for the
//! sessions nested in it: `holdfast run` waits for its command. A waiter for any shard is blocked only if every shard is
//! that can serve it. On a semaphore, holders block only if the remaining permits cannot suffice. An acquire or a hand-over
//! that closes a cycle is rejected (`wait_graph.rs`), also a cycle of an earlier wait of its owner. Entries of ZooKeeper
//! clients count but are never rejected, because their protocol has no error for it. Timeouts are ignored. Bounds: a search
//! reads [`STEPS_MAX`] entries and misses larger cycles; a rejection names [`LockRejection::CYCLE_MAX`] entries. A caller that
//! blocks no agent, and precedes no waiter, needs no search. A change of a policy and a deletion are never rejected.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use holdfast_types::{Blocked, LockName, LockRejection, Mode, Owner, Rejection, SessionId};

use crate::Machine;
use crate::lock::entry_name::EntryRecipe;
use crate::lock::index::Lock;
use crate::lock::lock_entry::LockEntry;
use crate::lock::policy::check_servable;
use crate::lock::rank::{GrantRequest, PlaceAhead, Rank};
use crate::lock::shard_moves::all_shards_with;
use crate::lock::wait_graph::WaitGraph;

/// Entries that one search reads. A key of an entry, and a shard, count as one.
const STEPS_MAX: usize = 4_096;

/// An owner of a session.
type Agent<'a> = (SessionId, &'a Owner);

/// The kind of wait that a caller would add.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewWait {
    /// A new entry in the queue.
    NewEntry {
        request: GrantRequest,
        rank: Rank,
        /// The number of shards, if any of them will do. The sharded lock may not have it yet.
        any_of: Option<u32>,
        /// Whether the lock is granted to it at once: it waits for no agent, but takes permits from waiters behind it.
        is_admitted: bool,
    },
    /// The upgrade to exclusive of the caller's hold with this sequence number, even if it is granted at once.
    Upgrade(u64),
}

/// The request and the place of an entry in a queue.
#[derive(Clone, Copy, Debug)]
struct QueuePlace<'a> {
    request: GrantRequest,
    rank: &'a Rank,
    /// The number of shards, if it waits for any of them.
    any_of: Option<u32>,
}

/// The graph of waits found so far. Agent 0 is the caller, or the receiver of a hand-over.
#[derive(Debug)]
struct DeadlockSearch<'a> {
    machine: &'a Machine,
    /// The new waits of the caller. Empty for a hand-over, after which an earlier wait of agent 0 may close a cycle.
    wanted: &'a [(LockName, NewWait)],
    /// A hold that the search ignores.
    without: Option<(&'a LockName, u64)>,
    numbers: BTreeMap<Agent<'a>, usize>,
    /// A wait for any shard has one more agent for each shard, which is not in `numbers`.
    agents: Vec<Agent<'a>>,
    graph: WaitGraph<'a>,
    steps: usize,
}

impl Machine {
    /// Rejects a caller that would wait for itself. `session` is `None` for a session that is not open yet.
    pub(crate) fn check_deadlock(
        &self,
        session: Option<SessionId>,
        owner: &Owner,
        wanted: &[(LockName, NewWait)],
    ) -> Result<(), Rejection> {
        let searched = |(lock, _): &&(LockName, NewWait)| {
            self.locks.get(lock).is_some_and(|lock| lock.policy().detect_deadlocks)
        };
        let wanted: Vec<_> = wanted.iter().filter(searched).cloned().collect();
        let overtakes = |(lock, wanted): &(LockName, NewWait)| match wanted {
            NewWait::NewEntry { request, rank, .. } => self.is_before_others(lock, rank, *request),
            NewWait::Upgrade(_) => false,
        };
        let unnamed = Owner::unnamed();
        let is_waited_for = |session| {
            let outer = self.sessions.outer_of(session).map(|outer| (outer, &unnamed));
            self.is_waited_for(std::iter::once((session, owner)).chain(outer))
        };
        if wanted.is_empty()
            || !(wanted.iter().any(overtakes) || session.is_some_and(is_waited_for))
        {
            return Ok(());
        }
        // No live session has the number 0.
        let caller = (session.unwrap_or(SessionId(0)), owner);
        self.check_cycle(caller, &wanted, None)
    }

    /// Rejects a cycle that a new wait closes, or any cycle through the caller or receiver that did not exist before.
    fn check_cycle(
        &self,
        agent: Agent<'_>,
        wanted: &[(LockName, NewWait)],
        handed_over: Option<(&LockName, u64)>,
    ) -> Result<(), Rejection> {
        match DeadlockSearch::of(self, agent, wanted, None).cycle() {
            Some((is_new, cycle))
                if is_new
                    || DeadlockSearch::of(self, agent, &[], handed_over).cycle().is_none() =>
            {
                Err(Rejection::Lock(LockRejection::Deadlock { cycle }))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Rejects a hand-over that closes a cycle through the receiver.
    pub(crate) fn check_handover_deadlock(
        &self,
        lock: &LockName,
        receiver: &LockEntry,
    ) -> Result<(), Rejection> {
        let searched = self.locks.get(lock).is_some_and(|lock| lock.policy().detect_deadlocks);
        if !searched {
            return Ok(());
        }
        let agent = (receiver.session, &receiver.owner);
        self.check_cycle(agent, &[], Some((lock, receiver.sequence())))
    }

    /// Whether a new place is before a waiter that its agent may keep waiting longer than the agents before it do. A waiter
    /// for any shard with an equal request waits as long as the new entry does.
    pub(super) fn is_before_others(
        &self,
        lock: &LockName,
        rank: &Rank,
        request: GrantRequest,
    ) -> bool {
        let last = self.locks.get(lock).and_then(|lock| lock.waiters.get_max());
        let for_any_shard = || self.locks.first_for_any_shard(&self.remembered_as(lock));
        last.is_some_and(|(last, _)| last > rank)
            || self.locks.has_any_shard_waiter()
                && for_any_shard().is_some_and(|(_, waiter)| waiter.request() != request)
    }

    /// Whether another agent may wait for one of these.
    fn is_waited_for<'a>(&self, agents: impl Iterator<Item = Agent<'a>>) -> bool {
        let keys = agents.flat_map(|(session, owner)| {
            self.locks.keys_of(session).map(move |key| (key, key.owner == *owner))
        });
        keys.take(STEPS_MAX).filter(|(_, is_own)| *is_own).any(|(key, _)| {
            let Some(lock) = self.locks.get(&key.lock) else { return false };
            let last = lock.waiters.get_max().is_some_and(|(last, _)| *last > key.rank);
            let holds = lock.holders.get(key.rank.sequence).is_some();
            let for_any_shard = || self.locks.first_for_any_shard(&self.remembered_as(&key.lock));
            last || (holds && (!lock.waiters.is_empty() || lock.holders.upgrading().is_some()))
                || for_any_shard().is_some()
        })
    }
}

impl<'a> DeadlockSearch<'a> {
    /// Collects, within the bound, all agents for which agent 0 waits or would wait, directly or indirectly.
    fn of(
        machine: &'a Machine,
        first: Agent<'a>,
        wanted: &'a [(LockName, NewWait)],
        without: Option<(&'a LockName, u64)>,
    ) -> Self {
        let mut search = Self {
            machine,
            wanted,
            without,
            numbers: BTreeMap::new(),
            agents: Vec::new(),
            graph: WaitGraph::default(),
            steps: 0,
        };
        search.number(first);
        for (name, wanted) in wanted {
            let Some(lock) = machine.locks.get(name) else { continue };
            match wanted {
                NewWait::NewEntry { is_admitted: true, .. } => {}
                NewWait::NewEntry { request, rank, any_of, .. } => {
                    let place = QueuePlace { request: *request, rank, any_of: *any_of };
                    search.waits_in_queues(0, true, (name, lock), place);
                }
                NewWait::Upgrade(sequence) => {
                    let wait = search.graph.add_wait(0, name, true);
                    search.waits_to_be_alone(wait, name, lock, *sequence);
                }
            }
        }
        let mut at = 0;
        while let Some(agent) = search.agents.get(at).copied()
            && search.steps <= STEPS_MAX
        {
            if search.numbers.get(&agent) == Some(&at) {
                search.waits_already(at, agent);
                search.waits_for_nested(at, agent);
            }
            at += 1;
        }
        search
    }

    fn number(&mut self, agent: Agent<'a>) -> usize {
        if let Some(number) = self.numbers.get(&agent) {
            return *number;
        }
        let number = self.add_agent(agent);
        self.numbers.insert(agent, number);
        number
    }

    fn add_agent(&mut self, agent: Agent<'a>) -> usize {
        self.agents.push(agent);
        self.graph.add_agent();
        self.agents.len() - 1
    }

    /// Counts one step. Returns false beyond the bound.
    fn count_step(&mut self) -> bool {
        self.steps += 1;
        self.steps <= STEPS_MAX
    }

    fn agent_of(&self, wait: usize) -> Option<Agent<'a>> {
        self.agents.get(self.graph.agent_of(wait)?).copied()
    }

    /// Records that an agent blocks a wait. An agent never blocks its own wait.
    fn block(&mut self, wait: usize, agent: usize, weight: u64) {
        if self.agent_of(wait).is_some_and(|waits| self.agents.get(agent) != Some(&waits)) {
            self.graph.block(wait, agent, weight);
        }
    }

    fn blocked_by(&mut self, wait: usize, blocker: &'a LockEntry, weight: u64) {
        let agent = self.number((blocker.session, &blocker.owner));
        self.block(wait, agent, weight);
    }

    /// Adds the current waits of an agent.
    fn waits_already(&mut self, at: usize, (session, owner): Agent<'a>) {
        let machine = self.machine;
        for key in machine.locks.keys_of(session) {
            if !self.count_step() {
                return;
            }
            let name = &key.lock;
            let indexed = machine.locks.get(name).filter(|_| key.owner == *owner);
            let Some(lock) = indexed else { continue };
            let Some(entry) = lock.entry(&key.rank).filter(|entry| entry.waits()) else {
                continue;
            };
            if entry.converts() {
                let wait = self.graph.add_wait(at, name, false);
                self.waits_to_be_alone(wait, name, lock, entry.sequence());
                continue;
            }
            let any_of = machine.shard_count_with(name).filter(|_| entry.any_shard);
            let place = QueuePlace { request: entry.request(), rank: &entry.rank, any_of };
            self.waits_in_queues(at, false, (name, lock), place);
        }
    }

    /// Adds the waits of a session for the sessions that are nested in it and wait.
    fn waits_for_nested(&mut self, at: usize, (session, owner): Agent<'a>) {
        if *owner != Owner::unnamed() {
            return;
        }
        let machine = self.machine;
        for nested in machine.sessions.nested_in(session) {
            if !self.count_step() {
                return;
            }
            if let Some(lock) = self.lock_waited_for((nested, owner)) {
                let nested = self.number((nested, owner));
                let wait = self.graph.add_wait(at, lock, false);
                self.block(wait, nested, u64::MAX);
            }
        }
    }

    /// A lock for which an agent waits.
    fn lock_waited_for(&mut self, agent: Agent<'a>) -> Option<&'a LockName> {
        if let (Some(0), Some((lock, _))) = (self.numbers.get(&agent), self.wanted.first()) {
            return Some(lock);
        }
        let (machine, (session, owner)) = (self.machine, agent);
        let mut keys = machine.locks.keys_of(session).take_while(|_| self.count_step());
        keys.find_map(|key| {
            let entry = machine.locks.get(&key.lock)?.entry(&key.rank)?;
            (key.owner == *owner && entry.waits()).then_some(&key.lock)
        })
    }

    /// Adds the wait of an entry in a queue. A waiter for any shard is blocked if each of the shards is blocked for it, or
    /// never admits it.
    fn waits_in_queues(
        &mut self,
        agent: usize,
        new: bool,
        (name, lock): (&'a LockName, &'a Lock),
        place: QueuePlace<'_>,
    ) {
        let wait = self.graph.add_wait(agent, name, new);
        let Some(shards) = place.any_of.and_then(|count| all_shards_with(name, count)) else {
            return self.waits_in_queue(wait, name, lock, place, false);
        };
        let mut others = shards.len().saturating_sub(1) as u64;
        self.graph.set_slack(wait, others);
        for shard in &shards {
            let indexed = self.machine.locks.named(shard).filter(|_| self.count_step());
            // A shard without any state is free.
            let Some((shard, indexed)) = indexed else { break };
            if check_servable(indexed.policy(), place.request).is_err() {
                others = others.saturating_sub(1);
                self.graph.set_slack(wait, others);
                continue;
            }
            let Some(identity) = self.agents.get(agent).copied() else { break };
            let in_shard = self.add_agent(identity);
            self.graph.block(wait, in_shard, 1);
            let at_shard = self.graph.add_wait(in_shard, shard, false);
            self.waits_in_queue(at_shard, shard, indexed, place, shard != name);
        }
    }

    /// Returns the holders of a lock, without the ignored hold.
    fn holders(
        &self,
        name: &LockName,
        lock: &'a Lock,
    ) -> impl Iterator<Item = &'a Arc<LockEntry>> + use<'a> {
        let without = self.without.filter(|(lock, _)| *lock == name).map(|(_, sequence)| sequence);
        lock.holders.iter().filter(move |holder| Some(holder.sequence()) != without)
    }

    /// Adds the agents that block an entry in a queue. An earlier waiter without another entry can only wait for this
    /// lock. Its blockers therefore count as blockers of the entry, and the waiter itself is not searched. This
    /// shortcut does not apply behind another entry of the agent: a ZooKeeper client may hold a lock, or wait for it, and
    /// wait for it again. An earlier waiter with other entries counts by its `PlaceAhead`, and so does the caller. The largest
    /// request before such a place is searched, because it waits for the places before it alone.
    fn waits_in_queue(
        &mut self,
        wait: usize,
        name: &LockName,
        lock: &'a Lock,
        place: QueuePlace<'_>,
        behind_all: bool,
    ) {
        let QueuePlace { request, rank, any_of } = place;
        let mut wanted = BTreeSet::from([(request.mode, request.recipe)]);
        let (mut earlier, mut last_writer, mut last_upgradable) = (vec![], None, None);
        let mut largest: Option<PlaceAhead<'_>> = None;
        let mut new = self.new_place(name, lock).filter(|new| behind_all || new.rank < *rank);
        let first_session = self.agents.first().map(|(session, _)| *session);
        let agent_of_wait = self.agent_of(wait);
        let is_own = |entry: &'a LockEntry| agent_of_wait == Some((entry.session, &entry.owner));
        let mut own_ahead = agent_of_wait.is_some_and(|agent| self.holds(agent, name));
        let end = if behind_all { Bound::Unbounded } else { Bound::Excluded(*rank) };
        for (_, ahead) in lock.waiters.range((Bound::Unbounded, end)) {
            if !self.count_step() {
                break;
            }
            if new.is_some_and(|new| new.rank < ahead.rank) {
                earlier.extend(largest.take().into_iter().chain(new.take()));
            }
            let place = ahead.place_ahead();
            own_ahead |= is_own(ahead);
            let session = self.machine.sessions.get(ahead.session);
            let has_other_entries = session.is_some_and(|session| session.queue_entries > 1);
            // A waiter for any shard is blocked exactly if an equal request for any shard is.
            let is_equal = any_of.is_some() && place.request == request;
            if has_other_entries
                || own_ahead
                || Some(ahead.session) == first_session
                || ahead.any_shard && !is_equal
            {
                earlier.extend(largest.take().into_iter().chain([place]));
                continue;
            }
            if ahead.any_shard {
                continue;
            }
            if !place.request.is_beside_readers() {
                last_writer = Some(ahead.rank);
            }
            if place.waits_for_upgradable() {
                last_upgradable = Some(ahead.rank);
            }
            wanted.insert((ahead.mode, ahead.recipe()));
            largest = largest.filter(|of| of.request.permits >= ahead.permits).or(Some(place));
        }
        earlier.extend(new.map(|_| largest.take()).into_iter().flatten().chain(new));
        let most = largest.map_or(0, |largest| largest.request.permits).max(request.permits);
        if let Some(limit) = lock.policy().limit {
            self.graph.set_slack(wait, limit.saturating_sub(most).into());
        }
        let upgradables = earlier.iter().filter(|place| place.waits_for_upgradable());
        last_upgradable = last_upgradable.max(upgradables.map(|place| place.rank).max());
        if last_upgradable.is_some() {
            wanted.insert((Mode::Upgradable, EntryRecipe::Own));
        }
        self.waits_for_holders(wait, name, lock, &wanted);
        for place in earlier {
            let weight = match lock.policy().limit {
                Some(_) if place.is_a_holder() => place.request.permits.into(),
                // The entry also waits for the agents for which the earlier place waits.
                None if place.admits(request, last_writer, last_upgradable) => continue,
                Some(_) | None => u64::MAX,
            };
            let agent = self.number(place.agent);
            self.block(wait, agent, weight);
        }
    }

    /// Returns the caller's new place in a queue. A waiter that is kept in this queue is in it.
    fn new_place(&self, name: &LockName, lock: &Lock) -> Option<PlaceAhead<'a>> {
        let agent = self.agents.first().copied()?;
        self.wanted.iter().find_map(|(other, wanted)| match wanted {
            NewWait::NewEntry { request, rank, any_of, is_admitted }
                if other == name && !lock.waiters.contains_key(rank) =>
            {
                // A multi-lock that is granted at once holds all its locks.
                let never_overtaken = request.never_overtaken && !is_admitted;
                let request = GrantRequest { never_overtaken, ..*request };
                Some(PlaceAhead { request, rank: *rank, any_shard: any_of.is_some(), agent })
            }
            NewWait::NewEntry { .. } | NewWait::Upgrade(_) => None,
        })
    }

    /// Adds the holders that block one of the wanted grants.
    fn waits_for_holders(
        &mut self,
        wait: usize,
        name: &LockName,
        lock: &'a Lock,
        wanted: &BTreeSet<(Mode, EntryRecipe)>,
    ) {
        for holder in self.holders(name, lock) {
            if !self.count_step() {
                return;
            }
            let in_the_way =
                |(mode, recipe): &(_, _)| self.is_in_the_way(name, holder, *mode, *recipe);
            let weight = match lock.policy().limit {
                // A ZooKeeper client holds a semaphore alone, with the permits of an earlier limit.
                Some(_) if holder.recipe() != EntryRecipe::Own => u64::MAX,
                Some(_) => holder.permits.into(),
                None if wanted.iter().any(in_the_way) => u64::MAX,
                None => continue,
            };
            self.blocked_by(wait, holder, weight);
        }
    }

    /// Whether an agent holds a lock, without the ignored hold.
    fn holds(&mut self, (session, owner): Agent<'a>, name: &LockName) -> bool {
        let (machine, without) = (self.machine, self.without);
        let mut own =
            machine.entries_of_owner(session, name, owner).take_while(|_| self.count_step());
        own.any(|entry| {
            let is_ignored = without == Some((name, entry.sequence()));
            entry.hold.is_some() && !is_ignored
        })
    }

    /// Adds the agents that block an upgrade: all other holders.
    fn waits_to_be_alone(&mut self, wait: usize, name: &LockName, lock: &'a Lock, sequence: u64) {
        for holder in self.holders(name, lock).filter(|holder| holder.sequence() != sequence) {
            if !self.count_step() {
                return;
            }
            self.blocked_by(wait, holder, u64::MAX);
        }
    }

    /// Whether a holder blocks a grant in this mode and for this recipe. A holder that waits for an upgrade blocks each new
    /// holder. The caller counts as one if it requests the upgrade.
    fn is_in_the_way(
        &self,
        name: &LockName,
        holder: &LockEntry,
        mode: Mode,
        recipe: EntryRecipe,
    ) -> bool {
        let Some(held) = holder.hold.as_ref().map(|hold| hold.mode) else { return false };
        let upgrades = |(lock, wanted): &(LockName, NewWait)| {
            let own = matches!(wanted, NewWait::Upgrade(own) if *own == holder.sequence());
            own && lock == name
        };
        let by_mode = match (held, mode) {
            (Mode::Exclusive, _) | (_, Mode::Exclusive) | (Mode::Upgradable, Mode::Upgradable) => {
                true
            }
            (Mode::Shared | Mode::Upgradable, Mode::Shared) | (Mode::Shared, Mode::Upgradable) => {
                holder.converts() || self.wanted.iter().any(upgrades)
            }
        };
        by_mode || holder.makes_wait(recipe)
    }

    /// Returns the waits of a cycle, and whether a new wait closes it; of an earlier wait only if no new one does. They
    /// start with the caller's, and are at most [`LockRejection::CYCLE_MAX`].
    fn cycle(self) -> Option<(bool, Vec<Blocked>)> {
        let Self { machine, agents, graph, .. } = self;
        let mut cycle = Vec::new();
        let (is_new, waits) = graph.cycle()?;
        for (agent, lock) in waits {
            if cycle.len() == LockRejection::CYCLE_MAX {
                break;
            }
            if let Some((session, owner)) = agents.get(agent)
                && let Some(session) = machine.session_name(*session)
            {
                // The wait for any shard is followed by the wait for one of them.
                cycle.pop_if(|(last, of, _): &mut Blocked| *last == session && *of == **owner);
                cycle.push((session, (*owner).clone(), lock.clone()));
            }
        }
        Some((is_new, cycle))
    }
}
