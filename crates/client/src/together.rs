//! Several locks at once, all or none: one place in every queue, granted when it is first in all of them.
//!
//! Owns the asking for all; what comes of it is a [`GuardAll`] (`guard_all.rs`). Each lock is a claim of its own.
//! Bounds: as many locks as one call may name, 16.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{AcquireAllParams, GrantAllBody, GrantBody, TermsParams};
use holdfast_types::{Attempt, Labels, LockName, Mode, Owner, SessionName};
use tokio::sync::watch;

use crate::attempt;
use crate::calls::Calls;
use crate::claim::{Claim, Stage, own_name};
use crate::clock::Moment;
use crate::error::argument;
use crate::exchange::{Answered, Ended};
use crate::guard_all::GuardAll;
use crate::lease::Acknowledged;
use crate::limit::Limits;
use crate::lock::settled;
use crate::session::{Session, Use};
use crate::wanted::{Patience, State, Wanted, is_certain, over, own_end};
use crate::{Client, Error, Guard, Hold, random};

impl Client {
    /// Begins to take several locks at once, all or none. Such calls never wait for each other in a circle, whatever the
    /// order in which they name the locks.
    ///
    /// ```no_run
    /// # async fn example(client: holdfast_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let both = client.lock_all(["account/7", "account/9"]).acquire().await?;
    /// for hold in both.holds() {
    ///     println!("write {} with token {}", hold.lock(), hold.token());
    /// }
    /// both.ensure()?;
    /// both.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_all<T: Into<String>>(&self, names: impl IntoIterator<Item = T>) -> LockAll {
        LockAll {
            client: self.clone(),
            names: names.into_iter().map(Into::into).collect(),
            owner: OwnerOf::Itself,
            ttl: None,
            wait: None,
            mode: None,
            max_hold: None,
            labels: BTreeMap::new(),
        }
    }
}

/// Who within the session.
#[derive(Clone, Debug)]
enum OwnerOf {
    Itself,
    Named(String),
    Session,
}

/// Several locks about to be taken; see [`Client::lock_all`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `acquire`"]
pub struct LockAll {
    client: Client,
    names: Vec<String>,
    owner: OwnerOf,
    ttl: Option<Duration>,
    wait: Option<Duration>,
    mode: Option<Mode>,
    max_hold: Option<Duration>,
    labels: BTreeMap<String, String>,
}

impl LockAll {
    /// How long the locks outlive a holder that died; see [`Lock::ttl`](crate::Lock::ttl).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Queues for so long, instead of as long as it takes.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Holds them beside others who share them.
    pub fn shared(mut self) -> Self {
        self.mode = Some(Mode::Shared);
        self
    }

    /// The holds end after so long; see [`Lock::max_hold`](crate::Lock::max_hold).
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.max_hold = Some(max);
        self
    }

    /// Holds for this owner of the session, so that whoever knows both names can release a lock or hand it on.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = OwnerOf::Named(owner.into());
        self
    }

    /// Holds for the session as such; see [`Lock::as_session`](crate::Lock::as_session).
    pub fn as_session(mut self) -> Self {
        self.owner = OwnerOf::Session;
        self
    }

    /// Shown to those who wait for one of them; see [`Lock::label`](crate::Lock::label).
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Takes all of them, waiting as long as it takes or as [`LockAll::wait`] says. Dropping the future gives up every
    /// place.
    ///
    /// # Errors
    /// [`Error::Busy`] if they were not free together in time; [`Error::Refused`] if one is named twice, or too many, or
    /// the owner has a place in one of them; otherwise as [`Lock::acquire`](crate::Lock::acquire).
    pub async fn acquire(self) -> Result<GuardAll, Error> {
        let patience = self.wait.map_or(Patience::FOR_EVER, Patience::of);
        self.take(patience).await
    }

    /// Takes all of them if all are free, and does not queue.
    ///
    /// # Errors
    /// As [`LockAll::acquire`].
    pub async fn try_acquire(self) -> Result<GuardAll, Error> {
        self.take(Patience::none()).await
    }

    async fn take(self, patience: Patience) -> Result<GuardAll, Error> {
        let wanted = self.checked()?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let used = self.client.session_for(self.ttl).await?;
            let own = used.session().own;
            let answer = wanted.clone().ask(used, patience).await;
            if let Some(answer) = settled(answer, own, attempt, patience) {
                return answer;
            }
        }
    }

    fn checked(&self) -> Result<WantedAll, Error> {
        let owner = match &self.owner {
            OwnerOf::Itself => Some(Owner::new(own_name(random::bits()?)).map_err(argument)?),
            OwnerOf::Named(owner) => Some(Owner::new(owner).map_err(argument)?),
            OwnerOf::Session => None,
        };
        if self.names.is_empty() {
            return Err(Error::Argument("no lock is named: name at least one".to_owned()));
        }
        let locks: Result<Vec<LockName>, _> = self.names.iter().map(LockName::new).collect();
        let mut labels = self.client.labels().clone();
        labels.extend(self.labels.clone());
        let labels = if self.labels.is_empty() { BTreeMap::new() } else { labels };
        Ok(WantedAll {
            locks: locks.map_err(argument)?,
            owner,
            mode: self.mode,
            max_hold: self.max_hold,
            labels: Labels::new(labels).map_err(argument)?,
            call_patience: self.client.call_patience(),
        })
    }
}

/// Everything that was checked before anything is sent.
#[derive(Clone, Debug)]
struct WantedAll {
    locks: Vec<LockName>,
    owner: Option<Owner>,
    mode: Option<Mode>,
    max_hold: Option<Duration>,
    labels: Labels,
    call_patience: Duration,
}

impl WantedAll {
    /// Asks until all are granted, the patience ends, or the session does.
    async fn ask(self, used: Use, patience: Patience) -> Result<GuardAll, Error> {
        let first = attempt::next_after(Attempt::UNNAMED);
        let claim = |lock: &LockName| Claim::new(lock.clone(), self.owner.clone(), first);
        let claims = self.locks.iter().map(|lock| Arc::new(claim(lock)));
        let mut asked = AskedAll::new(used, claims.collect());
        loop {
            let session = asked.used.session();
            let wait = patience.of_one_call();
            let params = self.params(session.name.clone(), asked.attempt(), wait);
            let calls = Calls { patience: self.call_patience, ..session.calls.clone() };
            asked.state = State::Doubtful;
            let ended = tokio::select! {
                ended = calls.acquire_all(&params) => ended,
                loss = session.lost() => return Err(Error::Lost(loss)),
                // All are ours already, said the node that renewed.
                () = asked.nudged() => continue,
            };
            let Ended { result, doubtful } = ended;
            match result {
                Ok(answered) => return asked.granted(answered, &self),
                Err(Error::Unknown(_) | Error::Retry(_)) if !patience.is_over() => {}
                // What came before is over, whatever became of it: this is another attempt.
                Err(Error::Refused(problem)) if let Some(newest) = over(&problem) => {
                    let next = attempt::next_after(newest);
                    asked.claims.iter().for_each(|claim| claim.begin_attempt(next));
                }
                Err(Error::Busy(_)) if !wait.is_zero() && !patience.is_over() => {}
                Err(error) => {
                    if is_certain(&error, doubtful) {
                        asked.state = State::Nothing;
                    }
                    return Err(error);
                }
            }
        }
    }

    fn params(
        &self,
        session: SessionName,
        attempt: Option<Attempt>,
        wait: Duration,
    ) -> AcquireAllParams {
        AcquireAllParams {
            locks: self.locks.clone(),
            session: Some(session),
            owner: self.owner.clone(),
            attempt,
            wait,
            mode: self.mode,
            max_hold: self.max_hold,
            labels: self.labels.clone(),
            ..AcquireAllParams::default()
        }
    }

    fn one(&self, lock: &LockName) -> Wanted {
        Wanted {
            lock: lock.clone(),
            owner: self.owner.clone(),
            is_given: false,
            labels: self.labels.clone(),
            beacon: None,
            mode: self.mode,
            terms: TermsParams { max_hold: self.max_hold, ..TermsParams::default() },
            call_patience: self.call_patience,
        }
    }
}

/// Places that are asked for and no guards yet. Dropped as such, what may be left of them is given back.
#[derive(Debug)]
struct AskedAll {
    used: Use,
    claims: Vec<Arc<Claim>>,
    state: State,
}

impl AskedAll {
    fn new(used: Use, claims: Vec<Arc<Claim>>) -> Self {
        for claim in &claims {
            used.session().claims.add(claim.clone());
        }
        Self { used, claims, state: State::Nothing }
    }

    /// They are asked for together, in one attempt.
    fn attempt(&self) -> Option<Attempt> {
        self.claims.first().and_then(|claim| claim.attempt())
    }

    /// They come together, so one of them tells of all.
    async fn nudged(&self) {
        match self.claims.first() {
            Some(first) => first.nudge.notified().await,
            None => std::future::pending().await,
        }
    }

    fn granted(
        mut self,
        answered: Answered<GrantAllBody>,
        wanted: &WantedAll,
    ) -> Result<GuardAll, Error> {
        let Answered { body, sent } = answered;
        let session = self.used.session();
        let mut members = Vec::new();
        for grant in body.grants {
            let counted_from = sent.plus(Duration::from_millis(grant.waited_ms));
            let held = Duration::from_millis(grant.expires_in_ms);
            session.acknowledge(Acknowledged { counted_from, held })?;
            let Some(claim) = self.claims.iter().find(|claim| *claim.lock() == grant.lock) else {
                let complaint = format!("{} was granted, and nobody asked for it", grant.lock);
                return Err(Error::Foreign(complaint));
            };
            members.push((claim.clone(), grant, counted_from));
        }
        if members.len() != self.claims.len() {
            return Err(Error::Foreign("not all locks were granted".to_owned()));
        }
        self.state = State::Granted;
        let guard = |(claim, grant, from)| member(session, claim, grant, from, wanted);
        Ok(GuardAll::new(members.into_iter().map(guard).collect()))
    }
}

fn member(
    session: &Arc<Session>,
    claim: Arc<Claim>,
    grant: GrantBody,
    counted_from: Moment,
    wanted: &WantedAll,
) -> Guard {
    let end = own_end(&grant, wanted.max_hold, counted_from);
    claim.limits.send_replace(Limits::new(None, end, Moment::now()));
    claim.enter(Stage::Held(grant.token));
    let wanted = wanted.one(claim.lock());
    let grant = Arc::new(watch::Sender::new(Arc::new(grant)));
    Guard::new(Hold { session: session.clone(), claim, grant }, wanted, Use::of(session))
}

impl Drop for AskedAll {
    fn drop(&mut self) {
        let session = self.used.session();
        match self.state {
            State::Granted => {}
            State::Nothing => self.claims.iter().for_each(|claim| session.claims.remove(claim)),
            State::Doubtful => session.give_back_all_later(std::mem::take(&mut self.claims)),
        }
    }
}
