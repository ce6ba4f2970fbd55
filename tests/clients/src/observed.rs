//! What the driver learns of holds from the calls and answers of adapters.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::adapter::{Adapter, SeenAnswer};
use crate::checks::{RunRecord, SeenHold};
use crate::protocol::{AcquireOptions, Call, ErrorKind, LockMode};

const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// The holds so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    record: RunRecord,
    ttl: Duration,
}

impl Observed {
    /// Notes a call that the driver is about to send.
    pub(crate) fn sent(&mut self, on: &str, call: &Call, at: Instant) {
        match call {
            Call::Client(options) => {
                let ttl = options.ttl_ms.map_or(DEFAULT_TTL, Duration::from_millis);
                self.ttl = self.ttl.max(ttl);
            }
            Call::Release { guard }
            | Call::Upgrade { guard, .. }
            | Call::Transfer { guard, .. } => {
                self.end(at, |hold| hold.on == on && hold.guard == *guard);
            }
            Call::Close { client } => self.end(at, |hold| hold.on == on && hold.client == *client),
            Call::Downgrade { guard, mode } => {
                let mode = mode.unwrap_or(LockMode::Shared);
                let holds = self.record.holds.iter_mut();
                let holds = holds.filter(|hold| hold.on == on && hold.guard == *guard);
                holds.for_each(|hold| hold.mode = Some(mode));
            }
            _ => {}
        }
    }

    fn end(&mut self, at: Instant, is_ended: impl Fn(&SeenHold) -> bool) {
        let holds = self.record.holds.iter_mut();
        let ended = holds.filter(|hold| hold.ended_at.is_none() && is_ended(hold));
        ended.for_each(|hold| hold.ended_at = Some(at));
    }

    /// Notes an answer: each grant is a hold.
    pub(crate) fn answered(&mut self, on: &str, call: &Call, answer: &SeenAnswer) {
        let ok = match &answer.result {
            Ok(ok) => ok,
            Err(error) => return self.refused(on, call, error.kind),
        };
        match call {
            Call::Acquire(options) => {
                let AcquireOptions { client, lock, guard, mode, limit, .. } = &**options;
                let mode = limit.is_none().then(|| mode.unwrap_or_default());
                // The answer names the shard of a sharded lock.
                let lock = ok["lock"].as_str().unwrap_or(lock);
                self.grant(on, (client, guard), (lock, &ok["token"]), mode, answer);
            }
            Call::ReceiveTransfer { client, lock, guard, .. } => {
                let mode = Some(LockMode::Exclusive);
                self.grant(on, (client, guard), (lock, &ok["token"]), mode, answer);
            }
            Call::AcquireMany { client, guard, .. } => {
                for (lock, token) in ok["tokens"].as_object().into_iter().flatten() {
                    let mode = Some(LockMode::Exclusive);
                    self.grant(on, (client, guard), (lock, token), mode, answer);
                }
            }
            Call::Campaign { client, election, guard, .. } => {
                let (lock, mode) = (format!("elections/{election}"), Some(LockMode::Exclusive));
                self.grant(on, (client, guard), (&lock, &ok["token"]), mode, answer);
            }
            Call::Upgrade { guard, .. } => {
                let holds = self.record.holds.iter().rev();
                let mut before = holds.filter(|hold| hold.on == on && hold.guard == *guard);
                let Some(hold) = before.next().cloned() else { return };
                let token = ok["token"].as_u64().unwrap_or(hold.token);
                let (granted_at, mode) = (answer.at, Some(LockMode::Exclusive));
                self.record.holds.push(SeenHold {
                    token,
                    granted_at,
                    mode,
                    ended_at: None,
                    ..hold
                });
            }
            _ => {}
        }
    }

    /// A transfer that the cluster certainly refused leaves the hold.
    fn refused(&mut self, on: &str, call: &Call, kind: ErrorKind) {
        let Call::Transfer { guard, .. } = call else { return };
        let mut holds = self.record.holds.iter_mut().rev();
        let hold = holds.find(|hold| hold.on == on && hold.guard == *guard);
        if let Some(hold) = hold
            && matches!(kind, ErrorKind::InvalidArgument | ErrorKind::Rejected)
        {
            hold.ended_at = None;
        }
    }

    fn grant(
        &mut self,
        on: &str,
        (client, guard): (&str, &str),
        (lock, token): (&str, &Value),
        mode: Option<LockMode>,
        answer: &SeenAnswer,
    ) {
        let session = answer.result.as_ref().ok().and_then(|ok| ok["session"].as_str());
        self.record.holds.push(SeenHold {
            on: on.to_owned(),
            client: client.to_owned(),
            guard: guard.to_owned(),
            lock: lock.to_owned(),
            token: token.as_u64().unwrap_or(0),
            session: session.unwrap_or_default().to_owned(),
            mode,
            granted_at: answer.at,
            ended_at: None,
            lost_at: None,
            cause: None,
        });
    }

    /// The longest TTL of a client.
    pub(crate) fn longest_ttl(&self) -> Duration {
        self.ttl
    }

    /// Adds the events and the silences of the adapters.
    pub(crate) fn finish(&self, adapters: &BTreeMap<String, Adapter>) -> RunRecord {
        let mut record = self.record.clone();
        for (name, adapter) in adapters {
            let killed = adapter.killed_at.map(|at| (at, None));
            let silences = adapter.stops.iter().copied().chain(killed).collect();
            record.silences.insert(name.clone(), silences);
            for event in adapter.events() {
                if event.fields["event"] != "lost" {
                    continue;
                }
                let is_of = |hold: &&mut SeenHold| {
                    hold.on == *name
                        && event.fields["guard"] == hold.guard
                        && hold.lost_at.is_none()
                };
                // A lost multi-lock is one event: none of its other locks is held by the guard any more.
                let token = event.fields.get("token").and_then(Value::as_u64);
                let granted = record.holds.iter_mut().filter(is_of);
                let lost = granted.filter(|hold| hold.granted_at <= event.at);
                for hold in lost.filter(|hold| token.is_none_or(|token| hold.token <= token)) {
                    hold.lost_at = Some(event.at);
                    hold.cause =
                        event.fields.get("cause").and_then(Value::as_str).map(str::to_owned);
                }
            }
        }
        record
    }
}
