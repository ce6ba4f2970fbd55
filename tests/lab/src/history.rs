//! The history of a test: invocations and completions of client calls, timed by one monotonic clock.
//!
//! An `unknown` operation may take effect at any later time, or never; it never counts as failed. Judges receive
//! [`Operation`]s, each an invocation with its completion. Events serialize to JSON for inspection.
//!
//! Bound: the history is in memory and grows with the load.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A client's call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case")]
pub enum ClientCall {
    /// Acquire a lock, wait in its queue, or renew its session.
    Acquire {
        /// Lock name.
        lock: String,
        /// Session id.
        session: String,
        /// TTL of the session.
        ttl_ms: u64,
        /// The same for all calls of one wait.
        attempt: u64,
    },
    /// Release a lock, or leave its queue.
    Release {
        /// Lock name.
        lock: String,
        /// Session id.
        session: String,
    },
    /// Renew a session.
    KeepAlive {
        /// Session id.
        session: String,
        /// TTL of the session.
        ttl_ms: u64,
    },
    /// Close a session.
    Close {
        /// Session id.
        session: String,
    },
    /// Read a lock linearizably.
    Read {
        /// Lock name.
        lock: String,
    },
}

impl ClientCall {
    /// The lock of the call; `None` for session calls.
    pub fn lock(&self) -> Option<&str> {
        match self {
            ClientCall::Acquire { lock, .. }
            | ClientCall::Release { lock, .. }
            | ClientCall::Read { lock } => Some(lock),
            ClientCall::KeepAlive { .. } | ClientCall::Close { .. } => None,
        }
    }
}

/// The content of a successful reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum CallReply {
    /// The session holds the lock.
    Granted {
        /// Fencing token.
        token: u64,
        /// The queue entry that got the grant.
        ticket: u64,
    },
    /// The release, renewal or close succeeded.
    Done,
    /// The state of a lock.
    Lock {
        /// Session and fencing token of the holder.
        holder: Option<(String, u64)>,
        /// Tickets of the waiters, in queue order.
        waiters: Vec<u64>,
    },
}

/// The invocation or the completion of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum HistoryEventKind {
    /// The client sends the call.
    Invoke(ClientCall),
    /// The call succeeded.
    Ok(CallReply),
    /// The call certainly had no effect.
    Fail {
        /// The error code.
        code: String,
    },
    /// No reply, or a reply with an unknown outcome.
    Unknown {
        /// The error instead of a reply.
        why: String,
    },
}

/// An entry of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Microseconds since the history began.
    pub at_us: u64,
    /// Operation id, the same for invocation and completion.
    pub op: u64,
    /// Invocation or completion.
    #[serde(flatten)]
    pub what: HistoryEventKind,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The call succeeded.
    Ok {
        /// Microseconds since the history began.
        at_us: u64,
        /// Content of the reply.
        answer: CallReply,
    },
    /// The call certainly had no effect.
    Fail {
        /// Microseconds since the history began.
        at_us: u64,
        /// The error code.
        code: String,
    },
    /// It may take effect at any time after its invocation, or never.
    Unknown,
}

/// An invocation with its completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The call.
    pub call: ClientCall,
    /// Time of the invocation, microseconds since the history began.
    pub invoked_us: u64,
    /// The outcome.
    pub completion: Completion,
}

impl Operation {
    /// Time and content of a successful reply; `None` if the call failed or its outcome is unknown.
    pub fn answered(&self) -> Option<(u64, &CallReply)> {
        match &self.completion {
            Completion::Ok { at_us, answer } => Some((*at_us, answer)),
            Completion::Fail { .. } | Completion::Unknown => None,
        }
    }
}

/// The record of all clients of a test. Clones share it.
#[derive(Clone)]
pub struct History {
    began: Instant,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Default for History {
    fn default() -> Self {
        Self { began: Instant::now(), events: Arc::default() }
    }
}

impl History {
    /// Microseconds since the history began.
    pub fn now_us(&self) -> u64 {
        micros(self.began.elapsed())
    }

    /// Records an invocation; returns the operation id for [`History::complete`].
    pub fn invoke(&self, call: ClientCall) -> u64 {
        let mut events = self.events.lock().expect("the history");
        let op = events.len() as u64;
        events.push(Event {
            at_us: micros(self.began.elapsed()),
            op,
            what: HistoryEventKind::Invoke(call),
        });
        op
    }

    /// Records the completion of an operation.
    pub fn complete(&self, op: u64, what: HistoryEventKind) {
        let mut events = self.events.lock().expect("the history");
        events.push(Event { at_us: micros(self.began.elapsed()), op, what });
    }

    /// All operations so far, in order of invocation; a pending operation is `Unknown`.
    pub fn operations(&self) -> Vec<Operation> {
        paired(&self.events.lock().expect("the history"))
    }

    /// Writes the events as JSON lines to the temporary directory, and returns the path.
    pub fn save(&self) -> PathBuf {
        let name = format!("holdfast-history-{}-{}.jsonl", std::process::id(), self.now_us());
        let path = std::env::temp_dir().join(name);
        let events = self.events.lock().expect("the history");
        let lines =
            events.iter().map(|event| serde_json::to_string(event).expect("an event is JSON"));
        let text: Vec<String> = lines.collect();
        write(&path, &text.join("\n"));
        path
    }

    /// Panics with the violation and the path of the saved history if `verdict` is an error.
    #[track_caller]
    pub fn require(&self, verdict: Result<(), String>) {
        if let Err(violation) = verdict {
            panic!("{violation}\nthe history is saved in {}", self.save().display());
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a writable temporary directory");
}

fn paired(events: &[Event]) -> Vec<Operation> {
    let mut operations: BTreeMap<u64, Operation> = BTreeMap::new();
    for Event { at_us, op, what } in events {
        let completion = match what.clone() {
            HistoryEventKind::Invoke(call) => {
                let completion = Completion::Unknown;
                operations.insert(*op, Operation { call, invoked_us: *at_us, completion });
                continue;
            }
            HistoryEventKind::Ok(answer) => Completion::Ok { at_us: *at_us, answer },
            HistoryEventKind::Fail { code } => Completion::Fail { at_us: *at_us, code },
            HistoryEventKind::Unknown { .. } => Completion::Unknown,
        };
        operations.get_mut(op).expect("a completion has an invocation").completion = completion;
    }
    operations.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read() -> ClientCall {
        ClientCall::Read { lock: "a".into() }
    }

    #[test]
    fn completions_are_paired_with_invocations_and_pending_operations_are_unknown() {
        let history = History::default();
        let (first, second) = (history.invoke(read()), history.invoke(read()));
        let third = history.invoke(read());
        history.complete(second, HistoryEventKind::Ok(CallReply::Done));
        history.complete(third, HistoryEventKind::Unknown { why: "timeout".into() });
        let operations = history.operations();
        assert_eq!(operations.len(), 3);
        assert_eq!(operations[0].completion, Completion::Unknown, "operation {first}");
        assert!(operations[1].answered().is_some());
        assert_eq!(operations[2].completion, Completion::Unknown);
    }

    #[test]
    fn an_event_round_trips_through_json() {
        let answer = CallReply::Lock { holder: Some(("a".into(), 7)), waiters: vec![9] };
        for what in [
            HistoryEventKind::Invoke(read()),
            HistoryEventKind::Ok(answer),
            HistoryEventKind::Fail { code: "no-leader".into() },
        ] {
            let event = Event { at_us: 5, op: 1, what };
            let text = serde_json::to_string(&event).expect("to JSON");
            assert_eq!(serde_json::from_str::<Event>(&text).expect("from JSON"), event);
        }
    }
}
