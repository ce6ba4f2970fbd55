//! A lock about to be taken: what is asked for, in words.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_api::TermsParams;
use holdfast_types::{Labels, LockName, Mode, Owner, SegmentChoice, Segments};

use crate::claim::own_name;
use crate::error::argument;
use crate::wanted::{Patience, Wanted};
use crate::{Client, Error, Guard, Hold, Loss, random};

/// Attempts of one call of [`Lock::try_acquire`] whose session turns out to have ended while it was idle.
const FRESH_SESSIONS_MAX: u32 = 3;

/// Who within the session.
#[derive(Clone, Debug)]
enum Who {
    /// Somebody new: this guard.
    Itself,
    Named(String),
    Session,
}

/// A lock about to be taken. Nothing is sent before [`Lock::acquire`], [`Lock::try_acquire`] or [`Lock::with_lock`].
///
/// ```no_run
/// # async fn example(client: holdfast_client::Client) -> Result<(), holdfast_client::Error> {
/// use std::time::Duration;
/// let guard = client.lock("orders/eu").ttl(Duration::from_secs(10)).wait(Duration::from_secs(5)).acquire().await?;
/// println!("token {}, certain for {:?}", guard.token(), guard.remaining());
/// guard.release().await
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `acquire`"]
pub struct Lock {
    pub(crate) client: Client,
    name: String,
    who: Who,
    pub(crate) ttl: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    labels: BTreeMap<String, String>,
    beacon: Option<Duration>,
    mode: Option<Mode>,
    terms: TermsParams,
}

impl Lock {
    pub(crate) fn new(client: Client, name: String) -> Self {
        Self {
            client,
            name,
            who: Who::Itself,
            ttl: None,
            wait: None,
            labels: BTreeMap::new(),
            beacon: None,
            mode: None,
            terms: TermsParams::default(),
        }
    }

    /// How long the lock outlives a holder that died; 1 s to 24 h, the client's if not said. A client has one session
    /// for each time-to-live that its locks ask for.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Queues for so long, instead of as long as it takes.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Shown to those who wait for the lock. Labels belong to the session: the last acquire's are shown.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Holds for this owner, who may hold the same lock several times over: each guard counts, and the lock is free when
    /// the last one has left. Without it every guard excludes every other one, those of the same client too.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.who = Who::Named(owner.into());
        self
    }

    /// Holds for the session as such, so that whoever knows its name can release the lock
    /// (`DELETE /v1/locks/NAME?session=…`). The session may hold it several times over, like an [owner](Lock::owner).
    pub fn as_session(mut self) -> Self {
        self.who = Who::Session;
        self
    }

    /// The guard must be [touched](Hold::touch) at least so often, or the lock is given back: a renewal shows that the
    /// process lives, this shows that the work does.
    pub fn beacon(mut self, every: Duration) -> Self {
        self.beacon = Some(every);
        self
    }

    /// The hold ends after so long, whether the work has ended or not, and however often it is renewed. The guard says so
    /// first, the cluster a moment later. From 1 ms to 30 days.
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.terms.max_hold = Some(max);
        self
    }

    /// Nobody else gets the lock for so long after the grant, even if it is given back before: a job that must not run
    /// twice in that time. From 1 ms to 30 days.
    pub fn min_hold(mut self, min: Duration) -> Self {
        self.terms.min_hold = Some(min);
        self
    }

    /// Holds beside others who share it, and beside one upgradable holder.
    pub fn shared(mut self) -> Self {
        self.mode = Some(Mode::Shared);
        self
    }

    /// Holds beside those who share it, with the right to become exclusive: [`Guard::upgrade`]. There is one such holder at
    /// a time.
    pub fn upgradable(mut self) -> Self {
        self.mode = Some(Mode::Upgradable);
        self
    }

    /// Says that it is a semaphore of so many permits; the first who says so makes it one. See [`Client::semaphore`].
    pub fn limit(mut self, limit: u32) -> Self {
        self.terms.limit = Some(limit);
        self
    }

    /// Takes so many permits of a semaphore at once, or none; one if not said.
    pub fn permits(mut self, permits: u32) -> Self {
        self.terms.permits = Some(permits);
        self
    }

    /// Takes one of so many segments of it, each a lock of its own: the one that its owner has already, else one that can be had
    /// at once, else the emptiest. The first who says so cuts it, and all must say the same number. [`Hold::segment`] tells
    /// which one it is.
    pub fn segments(mut self, count: u32) -> Self {
        let choice = self.terms.segments.map(|cut| cut.choice).unwrap_or_default();
        self.terms.segments = Some(Segments { count: Some(count), choice });
        self
    }

    /// Takes this segment, from 0; without [`segments`](Lock::segments), of as many as there are.
    pub fn segment(mut self, segment: u32) -> Self {
        let count = self.terms.segments.and_then(|cut| cut.count);
        self.terms.segments = Some(Segments { count, choice: SegmentChoice::At(segment) });
        self
    }

    /// How urgent it is, from 0 to 9: a level is worth ten seconds of waiting unless the lock's rules say otherwise, so that
    /// nobody waits for ever.
    pub fn priority(mut self, priority: u8) -> Self {
        self.terms.priority = priority;
        self
    }

    /// An [owner](Lock::owner) who has it already is refused at once, instead of entering once more.
    pub fn not_reentrant(mut self) -> Self {
        self.terms.reentrant = false;
        self
    }

    /// Shown beside the place to everybody who looks: an address, the number of a job. At most 4 KiB.
    pub fn value(mut self, value: impl Into<String>) -> Self {
        self.terms.value = Some(value.into());
        self
    }

    /// Takes the lock, waiting for it as long as it takes or as [`Lock::wait`] says, and keeps it until the guard
    /// is released, dropped or lost. Dropping the future gives up the place in the queue.
    ///
    /// # Errors
    /// [`Error::Busy`] if it was not free in time; [`Error::Argument`] for a bad name, ttl or label;
    /// [`Error::Lost`] if a session that the caller named has ended; otherwise see [`Error`].
    pub async fn acquire(self) -> Result<Guard, Error> {
        let patience = self.wait.map_or(Patience::FOR_EVER, Patience::of);
        self.take(patience).await
    }

    /// Takes the lock if it is free, and does not queue.
    ///
    /// # Errors
    /// [`Error::Busy`] if it is not free; otherwise as [`Lock::acquire`].
    pub async fn try_acquire(self) -> Result<Guard, Error> {
        self.take(Patience::none()).await
    }

    /// Takes the lock, does the work, gives the lock back. If the lock is lost before the work is done, the work is
    /// cancelled (its future is dropped) and the loss is the error: what it had begun must be expected to be half done.
    ///
    /// ```no_run
    /// # async fn example(client: holdfast_client::Client) -> Result<(), holdfast_client::Error> {
    /// let written = client.lock("orders").with_lock(async |hold| format!("fence = {}", hold.token())).await?;
    /// # drop(written); Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Lock::acquire`], and [`Error::Lost`].
    pub async fn with_lock<T, F>(self, work: impl FnOnce(Hold) -> F) -> Result<T, Error>
    where
        F: Future<Output = T>,
    {
        let guard = self.acquire().await?;
        let hold = guard.hold();
        let done = tokio::select! {
            biased;
            loss = hold.lost() => return Err(Error::Lost(loss)),
            done = work(guard.hold()) => done,
        };
        match guard.release().await {
            Err(Error::Lost(loss)) => Err(Error::Lost(loss)),
            // The work was done while the lock was held. That the lock is not certainly free yet is no reason to
            // hide the result: it is given back in the background.
            Ok(()) | Err(_) => Ok(done),
        }
    }

    async fn take(self, patience: Patience) -> Result<Guard, Error> {
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

    /// Whether the caller chose the owner.
    pub(crate) fn names_an_owner(&self) -> bool {
        matches!(self.who, Who::Named(_))
    }

    pub(crate) fn checked(&self) -> Result<Wanted, Error> {
        let owner = match &self.who {
            Who::Itself => Some(Owner::new(own_name(random::bits()?)).map_err(argument)?),
            Who::Named(owner) => Some(Owner::new(owner).map_err(argument)?),
            Who::Session => None,
        };
        let mut labels = self.client.labels().clone();
        labels.extend(self.labels.clone());
        Ok(Wanted {
            lock: LockName::new(&self.name).map_err(argument)?,
            owner,
            is_given: false,
            labels: if self.labels.is_empty() {
                Labels::default()
            } else {
                Labels::new(labels).map_err(argument)?
            },
            beacon: self.beacon,
            mode: self.mode,
            terms: self.terms.clone(),
            call_patience: self.client.call_patience(),
        })
    }
}

/// The answer to an asking; none if it is to be begun anew, in a new session, because nothing was held when its own one
/// ended.
pub(crate) fn settled<T>(
    answer: Result<T, Error>,
    own: bool,
    attempt: u32,
    patience: Patience,
) -> Option<Result<T, Error>> {
    match answer {
        // It ended while nobody needed it, or with the place in the queue.
        Err(Error::Lost(_)) if own && (attempt < FRESH_SESSIONS_MAX || !patience.is_over()) => None,
        // Nothing is lost but the place: no node was to be reached for too long.
        Err(Error::Lost(Loss::NotRenewed { reason })) => Some(Err(Error::Retry(reason))),
        answer => Some(answer),
    }
}
