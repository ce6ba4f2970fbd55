//! The checks of a whole run. Each one is a pure function of what the driver has seen.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::grant_log::GrantLog;
use crate::protocol::LockMode;

/// A report may reach the driver this much later than the next grant: both cross pipes and a loaded machine.
const TOLERANCE: Duration = Duration::from_millis(150);
/// Causes of holds that the cluster ended while their session lived: no client can know of them before.
const FORCED: [&str; 5] =
    ["force-released", "revoked", "transferred", "released-elsewhere", "session-ended"];

/// A hold as an adapter has seen it.
#[derive(Clone, Debug)]
pub struct SeenHold {
    /// The adapter's process.
    pub on: String,
    /// The adapter's client.
    pub client: String,
    /// The guard's name.
    pub guard: String,
    /// The lock.
    pub lock: String,
    /// The fencing token.
    pub token: u64,
    /// The session.
    pub session: String,
    /// The mode; `None` for permits of a semaphore.
    pub mode: Option<LockMode>,
    /// When the driver read the answer.
    pub granted_at: Instant,
    /// When the driver sent a release, a close or another call that ends the hold.
    pub ended_at: Option<Instant>,
    /// When the driver read the event of the loss.
    pub lost_at: Option<Instant>,
    /// The cause in the event.
    pub cause: Option<String>,
}

/// What the driver has seen of all adapters.
#[derive(Clone, Debug, Default)]
pub struct RunRecord {
    /// The holds, in the order of their answers.
    pub holds: Vec<SeenHold>,
    /// The times in which a process could not report: stopped, or killed for ever.
    pub silences: BTreeMap<String, Vec<(Instant, Option<Instant>)>>,
}

impl RunRecord {
    fn is_silent(&self, on: &str, at: Instant) -> bool {
        let silences = self.silences.get(on).into_iter().flatten();
        silences
            .into_iter()
            .any(|(from, until)| *from <= at && until.is_none_or(|until| at <= until + TOLERANCE))
    }

    /// Whether every hold of a lock that an adapter has seen is exclusive.
    fn is_exclusive(&self, lock: &str) -> bool {
        let mut holds = self.holds.iter().filter(|hold| hold.lock == lock);
        holds.all(|hold| hold.mode == Some(LockMode::Exclusive))
    }
}

/// At most one holder of an exclusive lock at every point of the log; no exclusive holder beside a shared one.
///
/// # Errors
/// The first point with two holders.
pub fn one_holder(log: &GrantLog, record: &RunRecord) -> Result<(), String> {
    let mut holders: BTreeMap<&str, BTreeMap<u64, &str>> = BTreeMap::new();
    for change in &log.changes {
        let of_lock = holders.entry(&change.lock).or_default();
        let Some(token) = change.token else {
            let ended = of_lock.iter().find(|(_, session)| **session == change.session);
            if let Some(ended) = ended.map(|(token, _)| *token) {
                of_lock.remove(&ended);
            }
            continue;
        };
        if record.is_exclusive(&change.lock)
            && let Some((other, session)) = of_lock.iter().find(|(other, _)| **other != token)
        {
            return Err(format!(
                "{}: token {token} was granted at revision {} beside token {other} of {session}",
                change.lock, change.revision
            ));
        }
        of_lock.insert(token, &change.session);
    }
    Ok(())
}

/// Tokens grow with the log, and each answer has the token of a grant in the log.
///
/// # Errors
/// The first grant with a smaller token, or an answer without a grant.
pub fn tokens_grow(log: &GrantLog, record: &RunRecord) -> Result<(), String> {
    let mut newest = (0, 0);
    for change in &log.changes {
        let Some(token) = change.token else { continue };
        let (revision, largest) = newest;
        // The grants of one entry are reported by lock. A conversion may report a token again.
        let is_known = log.changes.iter().any(|other| {
            other.token == Some(token)
                && other.lock == change.lock
                && other.revision < change.revision
        });
        if token < largest && change.revision > revision && !is_known {
            return Err(format!(
                "{}: token {token} at revision {} after token {largest}",
                change.lock, change.revision
            ));
        }
        newest = (change.revision, largest.max(token));
    }
    if log.has_gap {
        return Ok(());
    }
    for hold in &record.holds {
        let in_log = |change: &&crate::grant_log::LockChange| {
            change.lock == hold.lock
                && change.token == Some(hold.token)
                && is_session(&change.session, &hold.session)
        };
        if log.changes.iter().find(in_log).is_none() {
            return Err(format!("the log has no grant of {} for {hold:?}", hold.lock));
        }
    }
    Ok(())
}

/// Whether the name in the log, which may begin with a subject and `:`, is that of a session.
fn is_session(in_log: &str, name: &str) -> bool {
    in_log == name || in_log.strip_suffix(name).is_some_and(|subject| subject.ends_with(':'))
}

/// A loss is reported before the answer of the next holder.
///
/// # Errors
/// The first hold whose loss came too late, or never.
pub fn loss_before_grant(record: &RunRecord) -> Result<(), String> {
    for next in &record.holds {
        let earlier = record.holds.iter().filter(|hold| {
            hold.lock == next.lock
                && hold.token < next.token
                && (hold.mode == Some(LockMode::Exclusive)
                    || next.mode == Some(LockMode::Exclusive))
        });
        for hold in earlier {
            let was_ended = hold.ended_at.is_some_and(|at| at <= next.granted_at);
            let was_told = hold.lost_at.is_some_and(|at| at <= next.granted_at + TOLERANCE);
            let was_forced = hold.cause.as_deref().is_some_and(|cause| FORCED.contains(&cause));
            let is_silent = record.is_silent(&hold.on, next.granted_at);
            if !(was_ended || was_told || was_forced || is_silent) {
                let (guard, lock, token) = (&hold.guard, &hold.lock, hold.token);
                let late = match hold.lost_at {
                    Some(at) => format!("{:?} later", at - next.granted_at),
                    None => "never".to_owned(),
                };
                return Err(format!(
                    "{guard} held {lock} with token {token} when {} was granted it with token {}: the loss was reported {late}",
                    next.guard, next.token
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant_log::LockChange;

    fn log(changes: &[(u64, &str, &str, Option<u64>)]) -> GrantLog {
        let change = |(revision, lock, session, token): &(u64, &str, &str, Option<u64>)| {
            let (lock, session) = ((*lock).to_owned(), (*session).to_owned());
            LockChange { revision: *revision, lock, session, token: *token }
        };
        GrantLog { changes: changes.iter().map(change).collect(), ..GrantLog::default() }
    }

    fn hold(session: &str, token: u64, granted_at: Instant) -> SeenHold {
        SeenHold {
            on: "a".into(),
            client: "c".into(),
            guard: format!("g{token}"),
            lock: "l".into(),
            token,
            session: session.into(),
            mode: Some(LockMode::Exclusive),
            granted_at,
            ended_at: None,
            lost_at: None,
            cause: None,
        }
    }

    fn record(holds: Vec<SeenHold>) -> RunRecord {
        RunRecord { holds, ..RunRecord::default() }
    }

    #[test]
    fn a_second_holder_is_found() {
        let handed_over = [
            (1, "l", "s", Some(1)),
            (2, "l", "s", None),
            (2, "l", "t", Some(2)),
            (3, "m", "s", Some(3)),
        ];
        assert_eq!(one_holder(&log(&handed_over), &RunRecord::default()), Ok(()));
        let doubled = [(1, "l", "s", Some(1)), (2, "l", "t", Some(2))];
        assert!(one_holder(&log(&doubled), &RunRecord::default()).is_err());
        let mut shared = hold("s", 1, Instant::now());
        shared.mode = Some(LockMode::Shared);
        assert_eq!(one_holder(&log(&doubled), &record(vec![shared])), Ok(()));
    }

    #[test]
    fn a_token_that_goes_back_is_found_and_one_that_no_grant_has() {
        let now = Instant::now();
        let grown = log(&[(1, "l", "s", Some(1)), (2, "l", "s", None), (3, "l", "t", Some(2))]);
        assert_eq!(tokens_grow(&grown, &record(vec![hold("t", 2, now)])), Ok(()));
        assert!(tokens_grow(&grown, &record(vec![hold("t", 9, now)])).is_err());
        let back = log(&[(1, "l", "s", Some(2)), (2, "l", "s", None), (3, "l", "t", Some(1))]);
        assert!(tokens_grow(&back, &RunRecord::default()).is_err());
    }

    #[test]
    fn a_loss_after_the_next_grant_is_found() {
        let began = Instant::now();
        let later = |ms| began + Duration::from_millis(ms);
        let holds = |change: fn(&mut SeenHold, Instant)| {
            let mut first = hold("s", 1, began);
            change(&mut first, began);
            record(vec![first, hold("t", 2, later(3_000))])
        };
        assert!(loss_before_grant(&holds(|_, _| {})).is_err(), "never reported");
        assert!(
            loss_before_grant(&holds(|first, began| {
                first.lost_at = Some(began + Duration::from_millis(3_500));
            }))
            .is_err(),
            "reported too late"
        );
        let in_time: [fn(&mut SeenHold, Instant); 3] = [
            |first, began| first.lost_at = Some(began + Duration::from_millis(2_900)),
            |first, began| first.ended_at = Some(began + Duration::from_secs(2)),
            |first, began| {
                first.lost_at = Some(began + Duration::from_secs(9));
                first.cause = Some("force-released".into());
            },
        ];
        for change in in_time {
            assert_eq!(loss_before_grant(&holds(change)), Ok(()));
        }
        let mut stopped = holds(|_, _| {});
        stopped.silences.insert("a".into(), vec![(later(1_000), Some(later(4_000)))]);
        assert_eq!(loss_before_grant(&stopped), Ok(()), "the process was stopped");
    }
}
