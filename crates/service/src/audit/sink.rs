//! The state of a durable copy of the audit trail that this node writes, for the alarm `audit-behind`.
//!
//! A copy is a problem if it fails, if it is behind for a while, or if records were evicted before they were written.

use std::time::{Duration, Instant};

/// A copy that is behind for longer raises an alarm.
const BEHIND_FOR: Duration = Duration::from_secs(10);
/// How long lost records raise an alarm.
const LOST_FOR: Duration = Duration::from_hours(24);

/// The state of one copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSinkState {
    /// The file or the server.
    pub target: String,
    /// The number of the newest written record.
    pub written: u64,
    /// Why the last write failed.
    pub error: Option<String>,
    /// The first moment at which it was behind; `None` if it has everything.
    pub behind_since: Option<Instant>,
    /// When records were found evicted before they were written.
    pub lost_at: Option<Instant>,
}

impl AuditSinkState {
    /// Records whether it has every record up to `newest`.
    pub fn count_behind(&mut self, newest: u64) {
        let is_behind = self.written < newest;
        self.behind_since = is_behind.then(|| self.behind_since.unwrap_or_else(Instant::now));
    }

    pub(crate) fn problem(&self, newest: u64, now: Instant) -> Option<String> {
        let Self { target, written, error, behind_since, lost_at } = self;
        let unwritten = newest.saturating_sub(*written);
        let is_behind = behind_since.is_some_and(|since| now - since > BEHIND_FOR);
        if let Some(error) = error {
            return Some(format!("{target}: {error}; {unwritten} records are not written"));
        }
        if is_behind {
            return Some(format!("{target}: {unwritten} records are not written"));
        }
        let is_lost = lost_at.is_some_and(|lost| now - lost < LOST_FOR);
        is_lost.then(|| format!("{target}: records were evicted before they were written"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_fails_or_is_behind_or_has_lost_records_is_a_problem() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let sound = AuditSinkState {
            target: "audit.jsonl".to_owned(),
            written: 5,
            error: None,
            behind_since: None,
            lost_at: None,
        };
        let after = |state: &AuditSinkState, wait| state.problem(9, start + wait);
        assert_eq!(after(&sound, second), None);
        let behind = AuditSinkState { behind_since: Some(start), ..sound.clone() };
        assert_eq!(after(&behind, BEHIND_FOR), None);
        let unwritten = Some("audit.jsonl: 4 records are not written".to_owned());
        assert_eq!(after(&behind, BEHIND_FOR + second), unwritten);
        let failed = AuditSinkState { error: Some("disk full".to_owned()), ..sound.clone() };
        let full = "audit.jsonl: disk full; 4 records are not written";
        assert_eq!(after(&failed, second).as_deref(), Some(full));
        let lost = AuditSinkState { lost_at: Some(start), ..sound };
        let text = "audit.jsonl: records were evicted before they were written";
        assert_eq!(after(&lost, LOST_FOR.saturating_sub(second)).as_deref(), Some(text));
        assert_eq!(after(&lost, LOST_FOR), None);
    }
}
