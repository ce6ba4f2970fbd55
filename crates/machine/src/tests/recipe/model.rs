//! A deliberately naive model of recipes: plain vectors, linear searches, no index. Written from the sentences of
//! docs/semantics.md, not from the code under test.

mod counted;
mod leaving;
mod memo;

use holdfast_types::SessionRejection;
use holdfast_types::*;

pub(in crate::tests) use memo::{Called, repeated};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Session {
    pub(super) name: SessionName,
    pub(super) id: SessionId,
    memo: Vec<(Called, Outcome, u64)>,
    /// The largest number of a forgotten call.
    floor: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Latch {
    name: RecipeName,
    view: LatchView,
    counted: Vec<(RequestId, u32)>,
    promised: Vec<(RequestId, SessionId)>,
}

/// A participant that waits at a barrier or is inside a double barrier.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Participant {
    pub(super) barrier_kind: BarrierKind,
    pub(super) name: RecipeName,
    session: SessionId,
    owner: Owner,
    request: Option<u64>,
    ticket: u64,
    pub(super) requested_in: u64,
    pub(super) wait_ms: u64,
    parties: u32,
    /// For a double barrier: the round and the index of the participant.
    inside: Option<(u64, u32)>,
    pub(super) left: bool,
}

impl Participant {
    /// The command that leaves one generation, with the number of the arrival.
    pub(super) fn leave(&self, generation: Option<Revision>, model: &Model) -> LeaveBarrier {
        LeaveBarrier {
            barrier_kind: self.barrier_kind,
            name: self.name.clone(),
            session: model.name_of(self.session),
            owner: self.owner.clone(),
            generation,
            request: self.request.filter(|_| self.inside.is_none()).map(RequestNumber),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::tests) struct Model {
    revision: u64,
    minted: u64,
    pub(super) limits: Limits,
    pub(super) sessions: Vec<Session>,
    expired: Vec<SessionName>,
    /// The largest number of an ended session.
    over: Vec<(SessionName, u64)>,
    latches: Vec<Latch>,
    /// All participants, in order of arrival.
    pub(super) participants: Vec<Participant>,
    counters: Vec<(RecipeName, CounterView)>,
    /// Whether the last reply came from the memo.
    pub(in crate::tests) is_recalled: bool,
}

fn rejected(rejection: RecipeRejection) -> Outcome {
    Err(Rejection::Recipe(rejection))
}

#[expect(clippy::unnecessary_wraps, reason = "the counterpart of `rejected`")]
fn replied(reply: RecipeReply) -> Outcome {
    Ok(Reply::Recipe(reply))
}

/// What an arrival does, whatever its wait is.
fn scope(barrier_kind: BarrierKind, name: &RecipeName, owner: &Owner) -> String {
    format!("{barrier_kind:?} {name} {owner}")
}

fn full(bound: Bound, limit: u32) -> Outcome {
    Err(Rejection::LimitReached { bound, limit: limit.into() })
}

impl Model {
    pub(in crate::tests) fn new() -> Self {
        Self {
            revision: 0,
            minted: 0,
            limits: Limits::default(),
            sessions: Vec::new(),
            expired: Vec::new(),
            over: Vec::new(),
            latches: Vec::new(),
            participants: Vec::new(),
            counters: Vec::new(),
            is_recalled: false,
        }
    }

    /// Copies the state of the enclosing model before its next command.
    pub(in crate::tests) fn follow(
        &mut self,
        (revision, minted): (u64, u64),
        limits: Limits,
        expired: Vec<SessionName>,
    ) {
        (self.revision, self.minted) = (revision, minted);
        (self.limits, self.expired) = (limits, expired);
    }

    /// The enclosing model opens a session.
    pub(in crate::tests) fn begin(&mut self, name: &SessionName, id: SessionId) {
        if self.live(name).is_none() {
            let floor = self.over(name);
            self.sessions.push(Session { name: name.clone(), id, memo: Vec::new(), floor });
        }
    }

    pub(in crate::tests) fn live(&self, name: &SessionName) -> Option<SessionId> {
        self.sessions.iter().find(|session| session.name == *name).map(|session| session.id)
    }

    pub(super) fn name_of(&self, id: SessionId) -> SessionName {
        self.sessions.iter().find(|session| session.id == id).unwrap().name.clone()
    }

    pub(super) fn tick(&mut self) {
        self.revision += 1;
    }

    pub(in crate::tests) fn apply(&mut self, recipe: Recipe) -> Outcome {
        self.tick();
        self.is_recalled = false;
        match recipe {
            Recipe::MakeLatch { latch, count } => self.make_latch(latch, count),
            Recipe::CountDown { latch, key } => self.count_down(&latch, key),
            Recipe::Promise { latch, key, session } => self.promise(&latch, key, session),
            Recipe::DeleteLatch { latch } => {
                let before = self.latches.len();
                self.latches.retain(|known| known.name != latch);
                replied(RecipeReply::Deleted { existed: self.latches.len() < before })
            }
            Recipe::Arrive(arrive) => self.arrive(arrive),
            Recipe::LeaveBarrier(leave_barrier) => self.leave_barrier(leave_barrier),
            Recipe::CancelArrival(cancel_arrival) => self.cancel_arrival(cancel_arrival),
            Recipe::ChangeCounter(count) => self.count(count),
        }
    }

    /// A barrier exists while it has participants.
    fn recipes(&self) -> u32 {
        let mut barriers: Vec<_> =
            self.participants.iter().map(|party| (party.barrier_kind, &party.name)).collect();
        barriers.sort();
        barriers.dedup();
        (barriers.len() + self.latches.len() + self.counters.len()) as u32
    }

    fn gone(&self, session: SessionName) -> Outcome {
        if self.expired.contains(&session) {
            return Err(SessionRejection::Expired { session }.into());
        }
        Err(Rejection::Session(SessionRejection::Unknown { session }))
    }

    /// The participants that wait at a barrier, in order.
    fn waiting(&self, barrier_kind: BarrierKind, name: &RecipeName) -> Vec<Participant> {
        let waits = |party: &&Participant| {
            party.barrier_kind == barrier_kind && party.name == *name && party.inside.is_none()
        };
        self.participants.iter().filter(waits).cloned().collect()
    }

    fn round(&self, name: &RecipeName) -> Vec<Participant> {
        let inside = |party: &&Participant| party.name == *name && party.inside.is_some();
        self.participants.iter().filter(inside).cloned().collect()
    }

    /// The participant of a session and owner, unless it has left.
    fn participant_of(
        &self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
        id: SessionId,
        owner: &Owner,
    ) -> Option<Participant> {
        let own = |party: &&Participant| {
            party.barrier_kind == barrier_kind
                && party.name == *name
                && party.session == id
                && party.owner == *owner
                && !party.left
        };
        self.participants.iter().find(own).cloned()
    }

    fn generation(&self, barrier_kind: BarrierKind, name: &RecipeName) -> Revision {
        let first = self.waiting(barrier_kind, name).first().map_or(0, |party| party.ticket);
        Revision(if barrier_kind == BarrierKind::Barrier { first } else { 0 })
    }

    fn arrive(&mut self, arrive: Arrive) -> Outcome {
        let Arrive { barrier_kind, name, parties, open, owner, request, .. } = arrive.clone();
        if parties == 0 {
            return rejected(RecipeRejection::OutOfBounds { max: Recipe::PARTIES_MAX });
        }
        let live = self.live(&open.session);
        if live.is_none() && self.expired.contains(&open.session) {
            return self.gone(open.session);
        }
        if let Some(incarnation) = open.incarnation.filter(|required| live != Some(*required)) {
            let session = open.session;
            return Err(SessionRejection::IncarnationEnded { session, incarnation }.into());
        }
        let Some(id) = live else {
            let over = self.over(&open.session);
            if request.is_some_and(|request| request.0 <= over) {
                let newest = RequestNumber(over);
                return Err(SessionRejection::RequestOver { newest }.into());
            }
            return self.arrive_once(arrive);
        };
        let mine = self.participant_of(barrier_kind, &name, id, &owner);
        let waiting = mine.filter(|mine| mine.inside.is_none()).and_then(|mine| mine.request);
        if let Some(request) = request {
            match self.recall_number(id, (request.0, &scope(barrier_kind, &name, &owner))) {
                Ok(Some(first)) => {
                    self.is_recalled = true;
                    return first;
                }
                Err(over) if waiting != Some(request.0) => return Err(over),
                Ok(None) if waiting.is_some_and(|waiting| request.0 < waiting) => {
                    let newest = RequestNumber(waiting.unwrap());
                    return Err(SessionRejection::RequestOver { newest }.into());
                }
                Ok(None) | Err(_) => {}
            }
        }
        let outcome = self.arrive_once(arrive);
        if let (Some(RequestNumber(request)), Err(_)) = (request, &outcome)
            && waiting != Some(request)
        {
            let call = Called::Number(request, scope(barrier_kind, &name, &owner));
            self.remember(id, call, (&outcome, self.revision));
        }
        outcome
    }

    fn arrive_once(&mut self, arrive: Arrive) -> Outcome {
        let Arrive { barrier_kind, name, parties, open, owner, request, wait_ms } = arrive;
        let request = request.map(|request| request.0);
        let id = self.live(&open.session);
        let known = self
            .participants
            .iter()
            .find(|party| party.barrier_kind == barrier_kind && party.name == name);
        if let Some(other) = known.map(|party| party.parties).filter(|other| *other != parties) {
            return rejected(RecipeRejection::PartiesMismatch { parties: other });
        }
        let arrived = self.waiting(barrier_kind, &name).len() as u32;
        let not_yet = rejected(RecipeRejection::NotYet { arrived, parties });
        if let Some(mine) = id.and_then(|id| self.participant_of(barrier_kind, &name, id, &owner)) {
            if let Some((round, index)) = mine.inside {
                let tripped = Tripped { generation: Revision(round), index, parties };
                let outcome = replied(RecipeReply::Tripped(tripped));
                if let Some(request) = request {
                    let call = Called::Number(request, scope(barrier_kind, &name, &owner));
                    self.remember(mine.session, call, (&outcome, self.revision));
                }
                return outcome;
            }
            let Some(wait_ms) = wait_ms else { return not_yet };
            let revision = self.revision;
            let entry =
                self.participants.iter_mut().find(|party| party.ticket == mine.ticket).unwrap();
            (entry.requested_in, entry.wait_ms) = (revision, wait_ms);
            entry.request = request.or(mine.request);
            if request.is_some() && request != mine.request {
                self.end_number(&mine, mine.request);
            }
            return self.arrived(barrier_kind, &name, mine.session, mine.ticket, revision);
        }
        let opens = arrived + 1 >= parties
            && self.round(&name).iter().all(|party| party.barrier_kind != barrier_kind);
        if wait_ms.is_none() && !opens {
            return not_yet;
        }
        if known.is_none() && self.recipes() >= self.limits.recipes_max {
            return full(Bound::Recipes, self.limits.recipes_max);
        }
        let session = id.unwrap_or_else(|| {
            self.minted += 1;
            let id = SessionId(self.minted);
            let floor = self.over(&open.session);
            self.sessions.push(Session { name: open.session, id, memo: Vec::new(), floor });
            id
        });
        let (ticket, requested_in, wait_ms) = (self.revision, self.revision, wait_ms.unwrap_or(0));
        let (inside, left) = (None, false);
        self.participants.push(Participant {
            barrier_kind,
            name: name.clone(),
            session,
            owner,
            request,
            ticket,
            requested_in,
            wait_ms,
            parties,
            inside,
            left,
        });
        match self.trip_if_complete(barrier_kind, &name).into_iter().find(|(at, _)| *at == ticket) {
            Some((_, tripped)) => replied(RecipeReply::Tripped(tripped)),
            None => self.arrived(barrier_kind, &name, session, ticket, requested_in),
        }
    }

    fn arrived(
        &self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
        session: SessionId,
        ticket: u64,
        requested_in: u64,
    ) -> Outcome {
        let waiting = self.waiting(barrier_kind, name);
        replied(RecipeReply::Arrived(Arrived {
            ticket: Ticket(ticket),
            requested_in: Revision(requested_in),
            generation: self.generation(barrier_kind, name),
            arrived: waiting.len() as u32,
            parties: waiting[0].parties,
            session,
            ttl: Ttl::DEFAULT,
        }))
    }

    /// Trips the barrier if all parties have arrived. A double barrier first ends a round that all participants have
    /// left.
    fn trip_if_complete(
        &mut self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
    ) -> Vec<(u64, Tripped)> {
        if barrier_kind == BarrierKind::Double {
            if self.round(name).iter().all(|party| party.left) {
                self.participants.retain(|party| party.inside.is_none() || party.name != *name);
            }
            if !self.round(name).is_empty() {
                return Vec::new();
            }
        }
        let waiting = self.waiting(barrier_kind, name);
        let Some(first) = waiting.first() else { return Vec::new() };
        let parties = first.parties;
        if (waiting.len() as u32) < parties {
            return Vec::new();
        }
        let number =
            if barrier_kind == BarrierKind::Barrier { first.ticket } else { self.revision };
        let mut all = Vec::new();
        for (index, party) in (0..parties).zip(waiting) {
            let tripped = Tripped { generation: Revision(number), index, parties };
            self.answer(&party, &replied(RecipeReply::Tripped(tripped.clone())));
            if barrier_kind == BarrierKind::Barrier {
                self.participants.retain(|other| other.ticket != party.ticket);
            } else {
                let entry = self.participants.iter_mut().find(|other| other.ticket == party.ticket);
                entry.unwrap().inside = Some((number, index));
            }
            all.push((party.ticket, tripped));
        }
        all
    }

    fn break_all(&mut self, name: &RecipeName, by: SessionId, cause: BreachCause) {
        let (barrier_kind, session) = (BarrierKind::Barrier, self.name_of(by));
        let breach = Breach { generation: self.generation(barrier_kind, name), session, cause };
        for party in self.waiting(barrier_kind, name) {
            let outcome = rejected(RecipeRejection::Broken(breach.clone()));
            self.answer(&party, &outcome);
            self.participants.retain(|other| other.ticket != party.ticket);
        }
    }

    /// Leaves a double barrier, or the queue in front of it.
    fn leave(&mut self, party: &Participant) {
        if party.inside.is_none() {
            self.participants.retain(|other| other.ticket != party.ticket);
            self.end_number(party, party.request);
        } else {
            self.participants.iter_mut().find(|other| other.ticket == party.ticket).unwrap().left =
                true;
        }
    }

    /// Ends a session: counts its promises down, breaks its barriers, and leaves its double barriers.
    pub(in crate::tests) fn end(&mut self, name: &SessionName, end: SessionEnd) {
        let id = self.live(name).unwrap();
        let mut promises: Vec<(RecipeName, RequestId)> = Vec::new();
        for latch in &self.latches {
            let own = latch.promised.iter().filter(|(_, session)| *session == id);
            promises.extend(own.map(|(key, _)| (latch.name.clone(), key.clone())));
        }
        promises.sort();
        for (latch, key) in promises {
            if self.latch(&latch).unwrap().left > 0 {
                drop(self.count_down(&latch, key));
            }
        }
        let mut own: Vec<Participant> =
            self.participants.iter().filter(|party| party.session == id).cloned().collect();
        own.sort_by_key(|party| (party.barrier_kind, party.name.clone(), party.owner.clone()));
        for party in own.iter().filter(|party| !party.left) {
            match party.barrier_kind {
                BarrierKind::Barrier => {
                    self.break_all(&party.name, id, BreachCause::SessionEnded(end));
                }
                BarrierKind::Double => self.leave(party),
            }
        }
        for party in own.iter().filter(|party| party.barrier_kind == BarrierKind::Double) {
            self.trip_if_complete(BarrierKind::Double, &party.name);
        }
        let over = (name.clone(), self.newest(id));
        self.over.push(over);
        self.sessions.retain(|session| session.id != id);
        if end == SessionEnd::Expired {
            self.expired.push(name.clone());
        }
    }

    /// Closing an expired session frees its name.
    pub(super) fn acknowledge(&mut self, name: &SessionName) {
        self.expired.retain(|expired| expired != name);
    }

    pub(super) fn barrier(&self, barrier_kind: BarrierKind, name: &RecipeName) -> BarrierView {
        let waiting = self.waiting(barrier_kind, name);
        let round = if barrier_kind == BarrierKind::Double { self.round(name) } else { Vec::new() };
        let names = |all: &[Participant]| {
            all.iter()
                .filter(|party| !party.left)
                .map(|party| self.name_of(party.session))
                .collect()
        };
        let any = waiting.first().or(round.first());
        BarrierView {
            parties: any.map_or(0, |party| party.parties),
            generation: waiting
                .first()
                .filter(|_| barrier_kind == BarrierKind::Barrier)
                .map(|party| Revision(party.ticket)),
            arrived: names(&waiting),
            round: round.first().and_then(|party| party.inside).map(|(number, _)| Revision(number)),
            inside: names(&round),
        }
    }

    /// The cancel commands of all waits with their wait times, ordered by the last request.
    pub(in crate::tests) fn waits(&self) -> Vec<(CancelArrival, u64)> {
        let mut waits: Vec<&Participant> =
            self.participants.iter().filter(|party| party.inside.is_none()).collect();
        waits.sort_by_key(|party| party.requested_in);
        let cancel_arrival = |party: &Participant| CancelArrival {
            barrier_kind: party.barrier_kind,
            name: party.name.clone(),
            session: self.name_of(party.session),
            owner: party.owner.clone(),
            requested_in: Revision(party.requested_in),
            ticket: Ticket(party.ticket),
        };
        waits.into_iter().map(|party| (cancel_arrival(party), party.wait_ms)).collect()
    }
}
