//! Latches, barriers, double barriers and counters, for callers of any protocol.
//!
//! Owns what is asked of them and what is answered. Changes are commands; a call that waits is parked on this node and
//! woken by its own apply (`parked.rs`). Refuses to know when a latch or a barrier opens: that is the machine's.
//! Bounds: a call that waits has a seat, like one that waits for a lock.

mod arriving;
mod departing;
mod latch;
mod leaving;
mod parked;
mod patience;

use std::time::Duration;

use holdfast_machine::Machine;
use holdfast_types::{
    Command, Count, CountChange, CounterView, Gate, GateView, Labels, LatchView, Owner, Passed,
    Recipe, RecipeName, RecipeRejection, RecipeReply, Rejection, Reply, RequestId, Revision,
    SessionName, Ttl,
};

use crate::answer::{Answer, Failure, Response};
use crate::request::ReadMode;
use crate::service::{Service, respond};
use crate::waiters::Seat;

pub(crate) use parked::Gatherers;
pub(crate) use patience::ArrivalPatience;

/// One thing asked of a recipe.
#[derive(Clone, Debug)]
pub enum RecipeRequest {
    /// Make a latch, or find that there is one of the same count.
    MakeLatch {
        /// Which.
        latch: RecipeName,
        /// How often it has to be counted down.
        count: u32,
    },
    /// Count a latch down, once for each key.
    CountDown {
        /// Which.
        latch: RecipeName,
        /// What is counted.
        key: RequestId,
        /// Count it not now, but when this session ends.
        when_ended: Option<SessionName>,
    },
    /// Wait for a latch to open.
    AwaitLatch {
        /// Which.
        latch: RecipeName,
        /// How long; zero only looks.
        wait: Duration,
        /// How fresh the look at the latch is that begins it.
        read: ReadMode,
    },
    /// Remove a latch.
    DeleteLatch {
        /// Which.
        latch: RecipeName,
    },
    /// Arrive at a barrier, or enter a double barrier.
    Arrive(ArriveRequest),
    /// Leave a barrier, which breaks it, or a double barrier, which waits for the others to leave.
    Depart {
        /// Of which kind.
        gate: Gate,
        /// Which.
        name: RecipeName,
        /// Whose place.
        session: SessionName,
        /// Who within the session.
        owner: Option<Owner>,
        /// How long to wait for the others to leave a double barrier. The caller has left in any case.
        wait: Duration,
    },
    /// Who is at a barrier.
    Gate {
        /// Of which kind.
        gate: Gate,
        /// Which.
        name: RecipeName,
        /// How fresh.
        read: ReadMode,
    },
    /// Change a counter.
    Count {
        /// Which.
        counter: RecipeName,
        /// Keeper of the memo. It must be open; the change does not renew it.
        session: Option<SessionName>,
        /// With a session: a retry under the same id gets the first answer.
        request: Option<RequestId>,
        /// What to do.
        change: CountChange,
    },
    /// What a counter is.
    Counter {
        /// Which.
        counter: RecipeName,
        /// How fresh.
        read: ReadMode,
    },
}

/// See [`RecipeRequest::Arrive`].
#[derive(Clone, Debug)]
pub struct ArriveRequest {
    /// Of which kind.
    pub gate: Gate,
    /// Which.
    pub name: RecipeName,
    /// How many pass together.
    pub parties: u32,
    /// For which session; opened if it is new.
    pub session: SessionName,
    /// Who within the session.
    pub owner: Option<Owner>,
    /// A retry under the same id gets the first final answer.
    pub request: Option<RequestId>,
    /// The session's time-to-live.
    pub ttl: Option<Ttl>,
    /// How long to wait for the others; zero arrives only if that opens the barrier at once.
    pub wait: Duration,
    /// Labels of a session that is opened by this call.
    pub labels: Labels,
}

/// What is answered about a recipe.
#[derive(Clone, Debug)]
pub enum RecipeAnswer {
    /// The latch exists.
    Latch {
        /// As it is.
        view: LatchView,
        /// True if the call made it.
        created: bool,
    },
    /// The key is counted.
    Counted {
        /// What was left right after it.
        left: u32,
        /// False if the latch was open before the key came.
        counted: bool,
    },
    /// The key will be counted when the session ends.
    Promised {
        /// What is left now.
        left: u32,
    },
    /// The latch is open.
    Open(LatchView),
    /// It is gone.
    Deleted {
        /// False if there was none.
        existed: bool,
    },
    /// The barrier opened for the caller, or it entered.
    Passed(Passed),
    /// The caller has left; of a double barrier, everybody has.
    Departed {
        /// The round of a double barrier that is over.
        round: Option<Revision>,
        /// False if there was nothing to leave.
        changed: bool,
    },
    /// A barrier.
    Gate(GateView),
    /// A counter.
    Counter(CounterView),
}

/// What has not happened yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotYet {
    /// The latch is not at zero.
    Latch(LatchView),
    /// Others are missing. The caller's arrival, if there was one, is taken back.
    Arrivals {
        /// Who had arrived.
        arrived: u32,
        /// How many pass together.
        parties: u32,
    },
    /// Others are still inside. The caller has left.
    Inside {
        /// Which round.
        round: Revision,
        /// How many.
        inside: u32,
    },
}

impl Service {
    pub(crate) async fn recipe(&self, request: RecipeRequest) -> Result<Response, Failure> {
        match request {
            RecipeRequest::MakeLatch { latch, count } => {
                self.change_recipe(Recipe::MakeLatch { latch, count }).await
            }
            RecipeRequest::CountDown { latch, key, when_ended: None } => {
                self.change_recipe(Recipe::CountDown { latch, key }).await
            }
            RecipeRequest::CountDown { latch, key, when_ended: Some(session) } => {
                self.change_recipe(Recipe::Promise { latch, key, session }).await
            }
            RecipeRequest::DeleteLatch { latch } => {
                self.change_recipe(Recipe::DeleteLatch { latch }).await
            }
            RecipeRequest::AwaitLatch { latch, wait, read } => {
                self.await_latch(latch, wait, read).await
            }
            RecipeRequest::Arrive(arrive) => self.arrive(arrive).await,
            RecipeRequest::Depart { gate, name, session, owner, wait } => {
                let owner = owner.unwrap_or_else(Owner::unnamed);
                self.depart(holdfast_types::Depart { gate, name, session, owner }, wait).await
            }
            RecipeRequest::Count { counter, session, request, change } => {
                let count = Count { counter, session, request, change };
                self.change_recipe(Recipe::Count(count)).await
            }
            RecipeRequest::Gate { gate, name, read } => {
                self.read_recipe(read, |m| RecipeAnswer::Gate(m.gate(gate, &name))).await
            }
            RecipeRequest::Counter { counter, read } => {
                self.read_recipe(read, |m| RecipeAnswer::Counter(m.counter(&counter))).await
            }
        }
    }

    async fn read_recipe(
        &self,
        mode: ReadMode,
        look: impl FnOnce(&Machine) -> RecipeAnswer,
    ) -> Result<Response, Failure> {
        if mode == ReadMode::Linearizable {
            self.raft().read_barrier(self.deadline()).await?;
        }
        let (answer, revision) = self.raft().read(|machine| (look(machine), machine.revision()));
        Ok(self.labelled(Answer::Recipe(answer), revision, mode))
    }

    /// A change that is answered at once.
    async fn change_recipe(&self, recipe: Recipe) -> Result<Response, Failure> {
        let (reply, revision) = self.propose_recipe(recipe).await?;
        let answer = match reply {
            RecipeReply::Latch { view, created } => RecipeAnswer::Latch { view, created },
            RecipeReply::Counted { left, counted } => RecipeAnswer::Counted { left, counted },
            RecipeReply::Promised { left } => RecipeAnswer::Promised { left },
            RecipeReply::Deleted { existed } => RecipeAnswer::Deleted { existed },
            RecipeReply::Counter(view) => RecipeAnswer::Counter(view),
            RecipeReply::Arrived(_)
            | RecipeReply::Passed(_)
            | RecipeReply::Departed { .. }
            | RecipeReply::GaveUp => return Err(Failure::OutcomeUnknown),
        };
        Ok(respond(Answer::Recipe(answer), revision))
    }

    async fn propose_recipe(&self, recipe: Recipe) -> Result<(RecipeReply, Revision), Failure> {
        let (outcome, revision) = self.propose(Command::Recipe(recipe)).await?;
        match outcome {
            Ok(Reply::Recipe(reply)) => Ok((reply, revision)),
            Ok(_) => Err(Failure::OutcomeUnknown),
            Err(Rejection::Recipe(RecipeRejection::NotYet { arrived, parties })) => {
                let what = NotYet::Arrivals { arrived, parties };
                Err(Failure::NotYet { what, waited: Duration::ZERO })
            }
            Err(rejection) => Err(Failure::Rejected(rejection)),
        }
    }

    /// What can be refused before anything is written. No seat for a call that does not wait.
    fn seat_for(&self, wait: Duration) -> Result<Option<Seat>, Failure> {
        let max = self.tunables().wait_max;
        if wait > max {
            return Err(Failure::WaitTooLong { max });
        }
        if self.is_draining() {
            return Err(Failure::ShuttingDown);
        }
        if wait.is_zero() {
            return Ok(None);
        }
        self.waiters().seat().map(Some).map_err(|limit| Failure::TooManyWaiters { limit })
    }
}
