//! A deliberately naive machine of recipes: plain vectors, linear searches, no index. Written from the sentences of
//! docs/semantics.md, not from the code it judges.

mod counted;

use holdfast_types::SessionRejection;
use holdfast_types::*;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Session {
    pub(super) name: SessionName,
    pub(super) id: SessionId,
    memo: Vec<(String, Outcome)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Latch {
    name: RecipeName,
    view: LatchView,
    counted: Vec<(RequestId, u32)>,
    promised: Vec<(RequestId, SessionId)>,
}

/// Somebody at or in a barrier.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Who {
    pub(super) gate: BarrierKind,
    pub(super) name: RecipeName,
    session: SessionId,
    owner: Owner,
    request: Option<String>,
    ticket: u64,
    pub(super) asked: u64,
    pub(super) wait_ms: u64,
    parties: u32,
    /// Of a double barrier: which round it entered and as which.
    inside: Option<(u64, u32)>,
    left: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::tests) struct Model {
    revision: u64,
    minted: u64,
    pub(super) limits: Limits,
    pub(super) sessions: Vec<Session>,
    expired: Vec<SessionName>,
    latches: Vec<Latch>,
    /// Everybody at any barrier, in the order of arrival.
    pub(super) there: Vec<Who>,
    counters: Vec<(RecipeName, CounterView)>,
    /// Whether the last answer is one given before.
    pub(in crate::tests) is_recalled: bool,
}

fn no(rejection: RecipeRejection) -> Outcome {
    Err(Rejection::Recipe(rejection))
}

#[expect(clippy::unnecessary_wraps, reason = "the other half of `no`")]
fn yes(reply: RecipeReply) -> Outcome {
    Ok(Reply::Recipe(reply))
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
            latches: Vec::new(),
            there: Vec::new(),
            counters: Vec::new(),
            is_recalled: false,
        }
    }

    /// As a part of a larger model: what that one knows, before its next command.
    pub(in crate::tests) fn follow(
        &mut self,
        (revision, minted): (u64, u64),
        limits: Limits,
        expired: Vec<SessionName>,
    ) {
        (self.revision, self.minted) = (revision, minted);
        (self.limits, self.expired) = (limits, expired);
    }

    /// A session begins elsewhere.
    pub(in crate::tests) fn begin(&mut self, name: &SessionName, id: SessionId) {
        if self.live(name).is_none() {
            self.sessions.push(Session { name: name.clone(), id, memo: Vec::new() });
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
            Recipe::MakeLatch { latch, count } => self.make(latch, count),
            Recipe::CountDown { latch, key } => self.down(&latch, key),
            Recipe::Promise { latch, key, session } => self.promise(&latch, key, session),
            Recipe::DeleteLatch { latch } => {
                let before = self.latches.len();
                self.latches.retain(|known| known.name != latch);
                yes(RecipeReply::Deleted { existed: self.latches.len() < before })
            }
            Recipe::Arrive(arrive) => self.arrive(arrive),
            Recipe::LeaveBarrier(depart) => self.depart(depart),
            Recipe::CancelArrival(give_up) => self.give_up(give_up),
            Recipe::ChangeCounter(count) => self.count(count),
        }
    }

    /// Barriers exist while somebody is there.
    fn recipes(&self) -> u32 {
        let mut gates: Vec<_> = self.there.iter().map(|who| (who.gate, &who.name)).collect();
        gates.sort();
        gates.dedup();
        (gates.len() + self.latches.len() + self.counters.len()) as u32
    }

    fn gone(&self, session: SessionName) -> Outcome {
        if self.expired.contains(&session) {
            return Err(SessionRejection::Expired { session }.into());
        }
        Err(Rejection::Session(SessionRejection::Unknown { session }))
    }

    pub(in crate::tests) fn recall(
        &self,
        id: SessionId,
        request: Option<&String>,
    ) -> Option<Outcome> {
        let session = self.sessions.iter().find(|session| session.id == id)?;
        session
            .memo
            .iter()
            .find(|(known, _)| Some(known) == request)
            .map(|(_, first)| first.clone())
    }

    pub(in crate::tests) fn remember(
        &mut self,
        id: SessionId,
        request: Option<&String>,
        outcome: &Outcome,
    ) {
        let (Some(request), None) = (request, self.recall(id, request)) else { return };
        let most = self.limits.memo_per_session_max as usize;
        if let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) {
            session.memo.push((request.clone(), outcome.clone()));
            let over = session.memo.len().saturating_sub(most);
            session.memo.drain(..over);
        }
    }

    /// What clients have named in the answers that are remembered: the id of a request, 33 bytes whatever it is, and the
    /// paths that were made.
    pub(in crate::tests) fn bytes_remembered(&self) -> usize {
        let made = |result: &OpReply| match result {
            OpReply::Created { path, .. } => path.as_str().len(),
            _ => 0,
        };
        let answers = self.sessions.iter().flat_map(|session| &session.memo);
        let bytes = answers.map(|(_, outcome)| match outcome {
            Ok(Reply::Multi { results, .. }) => 33 + results.iter().map(made).sum::<usize>(),
            _ => 33,
        });
        bytes.sum()
    }

    /// Who waits at a barrier, in order.
    fn waiting(&self, gate: BarrierKind, name: &RecipeName) -> Vec<Who> {
        let waits = |who: &&Who| who.gate == gate && who.name == *name && who.inside.is_none();
        self.there.iter().filter(waits).cloned().collect()
    }

    fn round(&self, name: &RecipeName) -> Vec<Who> {
        let inside = |who: &&Who| who.name == *name && who.inside.is_some();
        self.there.iter().filter(inside).cloned().collect()
    }

    /// The place of a session and owner that it has not left.
    fn place(
        &self,
        gate: BarrierKind,
        name: &RecipeName,
        id: SessionId,
        owner: &Owner,
    ) -> Option<Who> {
        let own = |who: &&Who| {
            who.gate == gate
                && who.name == *name
                && who.session == id
                && who.owner == *owner
                && !who.left
        };
        self.there.iter().find(own).cloned()
    }

    fn generation(&self, gate: BarrierKind, name: &RecipeName) -> Revision {
        let first = self.waiting(gate, name).first().map_or(0, |who| who.ticket);
        Revision(if gate == BarrierKind::Barrier { first } else { 0 })
    }

    fn arrive(&mut self, arrive: Arrive) -> Outcome {
        let Arrive { gate, name, parties, open, owner, request, wait_ms } = arrive;
        if parties == 0 {
            return no(RecipeRejection::OutOfBounds { max: Recipe::PARTIES_MAX });
        }
        let request = request.map(|request| format!("{gate:?} {name} {owner} {request}"));
        let id = self.live(&open.session);
        if id.is_none() && self.expired.contains(&open.session) {
            return self.gone(open.session);
        }
        if let Some(first) = id.and_then(|id| self.recall(id, request.as_ref())) {
            self.is_recalled = true;
            return first;
        }
        let known = self.there.iter().find(|who| who.gate == gate && who.name == name);
        if let Some(other) = known.map(|who| who.parties).filter(|other| *other != parties) {
            return no(RecipeRejection::PartiesMismatch { parties: other });
        }
        let arrived = self.waiting(gate, &name).len() as u32;
        let not_yet = no(RecipeRejection::NotYet { arrived, parties });
        if let Some(mine) = id.and_then(|id| self.place(gate, &name, id, &owner)) {
            if let Some((round, index)) = mine.inside {
                let passed = Tripped { generation: Revision(round), index, parties };
                let outcome = yes(RecipeReply::Tripped(passed));
                self.remember(mine.session, request.as_ref(), &outcome);
                return outcome;
            }
            let Some(wait_ms) = wait_ms else { return not_yet };
            let revision = self.revision;
            let place = self.there.iter_mut().find(|who| who.ticket == mine.ticket).unwrap();
            (place.asked, place.wait_ms) = (revision, wait_ms);
            place.request = request.or(mine.request);
            return self.arrived(gate, &name, mine.session, mine.ticket, revision);
        }
        let opens = arrived + 1 >= parties && self.round(&name).iter().all(|who| who.gate != gate);
        if wait_ms.is_none() && !opens {
            return not_yet;
        }
        if known.is_none() && self.recipes() >= self.limits.recipes_max {
            return full(Bound::Recipes, self.limits.recipes_max);
        }
        let session = id.unwrap_or_else(|| {
            self.minted += 1;
            let id = SessionId(self.minted);
            self.sessions.push(Session { name: open.session, id, memo: Vec::new() });
            id
        });
        let (ticket, asked, wait_ms) = (self.revision, self.revision, wait_ms.unwrap_or(0));
        let (inside, left) = (None, false);
        self.there.push(Who {
            gate,
            name: name.clone(),
            session,
            owner,
            request,
            ticket,
            asked,
            wait_ms,
            parties,
            inside,
            left,
        });
        match self.settle(gate, &name).into_iter().find(|(at, _)| *at == ticket) {
            Some((_, passed)) => yes(RecipeReply::Tripped(passed)),
            None => self.arrived(gate, &name, session, ticket, asked),
        }
    }

    fn arrived(
        &self,
        gate: BarrierKind,
        name: &RecipeName,
        session: SessionId,
        ticket: u64,
        asked: u64,
    ) -> Outcome {
        let waiting = self.waiting(gate, name);
        yes(RecipeReply::Arrived(Arrived {
            ticket: Ticket(ticket),
            asked: Revision(asked),
            generation: self.generation(gate, name),
            arrived: waiting.len() as u32,
            parties: waiting[0].parties,
            session,
            ttl: Ttl::DEFAULT,
        }))
    }

    /// Lets in whoever may go in, after all rounds that everybody has left are over.
    fn settle(&mut self, gate: BarrierKind, name: &RecipeName) -> Vec<(u64, Tripped)> {
        if gate == BarrierKind::Double {
            if self.round(name).iter().all(|who| who.left) {
                self.there.retain(|who| who.inside.is_none() || who.name != *name);
            }
            if !self.round(name).is_empty() {
                return Vec::new();
            }
        }
        let waiting = self.waiting(gate, name);
        let Some(first) = waiting.first() else { return Vec::new() };
        let parties = first.parties;
        if (waiting.len() as u32) < parties {
            return Vec::new();
        }
        let number = if gate == BarrierKind::Barrier { first.ticket } else { self.revision };
        let mut all = Vec::new();
        for (index, who) in (0..parties).zip(waiting) {
            let passed = Tripped { generation: Revision(number), index, parties };
            self.remember(
                who.session,
                who.request.as_ref(),
                &yes(RecipeReply::Tripped(passed.clone())),
            );
            if gate == BarrierKind::Barrier {
                self.there.retain(|other| other.ticket != who.ticket);
            } else {
                let place = self.there.iter_mut().find(|other| other.ticket == who.ticket);
                place.unwrap().inside = Some((number, index));
            }
            all.push((who.ticket, passed));
        }
        all
    }

    fn break_all(&mut self, name: &RecipeName, by: SessionId, cause: BreachCause) {
        let (gate, session) = (BarrierKind::Barrier, self.name_of(by));
        let breach = Breach { generation: self.generation(gate, name), session, cause };
        for who in self.waiting(gate, name) {
            let told = no(RecipeRejection::Broken(breach.clone()));
            self.remember(who.session, who.request.as_ref(), &told);
            self.there.retain(|other| other.ticket != who.ticket);
        }
    }

    /// Out of a double barrier, or of the places before it.
    fn go(&mut self, who: &Who) {
        if who.inside.is_none() {
            self.there.retain(|other| other.ticket != who.ticket);
        } else {
            self.there.iter_mut().find(|other| other.ticket == who.ticket).unwrap().left = true;
        }
    }

    fn depart(&mut self, depart: LeaveBarrier) -> Outcome {
        let LeaveBarrier { gate, name, session, owner } = depart;
        let Some(id) = self.live(&session) else { return self.gone(session) };
        let mine = self.place(gate, &name, id, &owner);
        let changed = mine.is_some();
        if gate == BarrierKind::Barrier {
            if changed {
                self.break_all(&name, id, BreachCause::Left);
            }
            return yes(RecipeReply::LeftBarrier { leaving: None, changed });
        }
        if let Some(mine) = &mine {
            self.go(mine);
            self.settle(gate, &name);
        }
        let round = self.round(&name);
        let inside = round.iter().filter(|who| !who.left).count() as u32;
        let was = round.iter().any(|who| who.session == id && who.owner == owner && who.left);
        let was = was && mine.is_none_or(|mine| mine.inside.is_some());
        let number = round.first().and_then(|who| who.inside).map(|(number, _)| Revision(number));
        let leaving = number.filter(|_| was).map(|number| (number, inside));
        yes(RecipeReply::LeftBarrier { leaving, changed })
    }

    fn give_up(&mut self, give_up: CancelArrival) -> Outcome {
        let CancelArrival { gate, name, session, owner, asked, request } = give_up;
        let Some(id) = self.live(&session) else { return yes(RecipeReply::ArrivalCancelled) };
        let request = request.map(|request| format!("{gate:?} {name} {owner} {request}"));
        if let Some(first) = self.recall(id, request.as_ref()) {
            return first;
        }
        let Some(mine) = self.place(gate, &name, id, &owner) else {
            return yes(RecipeReply::ArrivalCancelled);
        };
        if let Some((round, index)) = mine.inside {
            let (generation, parties) = (Revision(round), mine.parties);
            return yes(RecipeReply::Tripped(Tripped { generation, index, parties }));
        }
        if mine.asked != asked.0 {
            return self.arrived(gate, &name, id, mine.ticket, mine.asked);
        }
        if gate == BarrierKind::Barrier {
            self.break_all(&name, id, BreachCause::TimedOut);
        } else {
            self.go(&mine);
        }
        yes(RecipeReply::ArrivalCancelled)
    }

    /// What the end of a session means: promises are kept, barriers break, who is inside has left.
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
                drop(self.down(&latch, key));
            }
        }
        let mut own: Vec<Who> =
            self.there.iter().filter(|who| who.session == id).cloned().collect();
        own.sort_by_key(|who| (who.gate, who.name.clone(), who.owner.clone()));
        for who in own.iter().filter(|who| !who.left) {
            match who.gate {
                BarrierKind::Barrier => {
                    self.break_all(&who.name, id, BreachCause::SessionEnded(end));
                }
                BarrierKind::Double => self.go(who),
            }
        }
        for who in own.iter().filter(|who| who.gate == BarrierKind::Double) {
            self.settle(BarrierKind::Double, &who.name);
        }
        self.sessions.retain(|session| session.id != id);
        if end == SessionEnd::Expired {
            self.expired.push(name.clone());
        }
    }

    /// A closed session that had expired frees its name.
    pub(super) fn acknowledge(&mut self, name: &SessionName) {
        self.expired.retain(|expired| expired != name);
    }

    pub(super) fn gate(&self, gate: BarrierKind, name: &RecipeName) -> BarrierView {
        let waiting = self.waiting(gate, name);
        let round = if gate == BarrierKind::Double { self.round(name) } else { Vec::new() };
        let names = |all: &[Who]| {
            all.iter().filter(|who| !who.left).map(|who| self.name_of(who.session)).collect()
        };
        let any = waiting.first().or(round.first());
        BarrierView {
            parties: any.map_or(0, |who| who.parties),
            generation: waiting
                .first()
                .filter(|_| gate == BarrierKind::Barrier)
                .map(|who| Revision(who.ticket)),
            arrived: names(&waiting),
            round: round.first().and_then(|who| who.inside).map(|(number, _)| Revision(number)),
            inside: names(&round),
        }
    }

    /// What ends the waits that go on, oldest asking first.
    pub(in crate::tests) fn waits(&self) -> Vec<(CancelArrival, u64)> {
        let mut waits: Vec<&Who> = self.there.iter().filter(|who| who.inside.is_none()).collect();
        waits.sort_by_key(|who| who.asked);
        let give_up = |who: &Who| CancelArrival {
            gate: who.gate,
            name: who.name.clone(),
            session: self.name_of(who.session),
            owner: who.owner.clone(),
            asked: Revision(who.asked),
            request: None,
        };
        waits.into_iter().map(|who| (give_up(who), who.wait_ms)).collect()
    }
}
