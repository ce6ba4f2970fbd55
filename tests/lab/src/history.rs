//! What clients did and saw: invocations and completions with times of one monotonic clock, as values.
//!
//! An `unknown` completion may take effect at any later time, or never; it is never counted as failed. Judges get
//! [`Operation`]s, which pair both ends. Everything is JSON-able, so that a rejected history can be looked at.
//!
//! Bound: in memory, as long as the load that writes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What a client asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case")]
pub enum Call {
    /// Take a lock, wait for it, or renew it.
    Acquire {
        /// Which.
        lock: String,
        /// For whom.
        session: String,
        /// The session's life without renewal.
        ttl_ms: u64,
    },
    /// Give a lock up, or leave its queue.
    Release {
        /// Which.
        lock: String,
        /// Whose.
        session: String,
    },
    /// Renew a session.
    KeepAlive {
        /// Which.
        session: String,
        /// Its life without renewal.
        ttl_ms: u64,
    },
    /// End a session.
    Close {
        /// Which.
        session: String,
    },
    /// Look at a lock, linearizably.
    Read {
        /// Which.
        lock: String,
    },
}

impl Call {
    /// The lock it is about, if it is about one.
    pub fn lock(&self) -> Option<&str> {
        match self {
            Call::Acquire { lock, .. } | Call::Release { lock, .. } | Call::Read { lock } => {
                Some(lock)
            }
            Call::KeepAlive { .. } | Call::Close { .. } => None,
        }
    }
}

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// It holds the lock.
    Granted {
        /// With this fencing token.
        token: u64,
    },
    /// It is done: released, renewed, closed.
    Done,
    /// The lock at one moment.
    Lock {
        /// Who holds it, with which token.
        holder: Option<(String, u64)>,
        /// Who waits, in order.
        waiters: Vec<String>,
    },
}

/// One end of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum What {
    /// A client begins.
    Invoke(Call),
    /// It got the answer.
    Ok(Answer),
    /// Certainly nothing was done.
    Fail {
        /// The error code.
        code: String,
    },
    /// No answer, or one that says it does not know.
    Unknown {
        /// What was seen instead.
        why: String,
    },
}

/// An entry of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Microseconds since the history began.
    pub at_us: u64,
    /// Pairs both ends of an operation.
    pub op: u64,
    /// Which end.
    #[serde(flatten)]
    pub what: What,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// With an answer.
    Ok {
        /// When.
        at_us: u64,
        /// Which.
        answer: Answer,
    },
    /// Certainly without effect.
    Fail {
        /// When.
        at_us: u64,
        /// The error code.
        code: String,
    },
    /// It may take effect at any time after its invocation, or never.
    Unknown,
}

/// Both ends of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What was asked.
    pub call: Call,
    /// When it began.
    pub invoked_us: u64,
    /// How it ended.
    pub completion: Completion,
}

impl Operation {
    /// When it was answered, and how; nothing if it failed or is unknown.
    pub fn answered(&self) -> Option<(u64, &Answer)> {
        match &self.completion {
            Completion::Ok { at_us, answer } => Some((*at_us, answer)),
            Completion::Fail { .. } | Completion::Unknown => None,
        }
    }
}

/// The record all clients of a test write to. Clones share it.
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
    /// Now, microseconds since the history began.
    pub fn now_us(&self) -> u64 {
        micros(self.began.elapsed())
    }

    /// Records that a client begins; the number pairs its completion.
    pub fn invoke(&self, call: Call) -> u64 {
        let mut events = self.events.lock().expect("the history");
        let op = events.len() as u64;
        events.push(Event { at_us: micros(self.began.elapsed()), op, what: What::Invoke(call) });
        op
    }

    /// Records how an operation ended.
    pub fn complete(&self, op: u64, what: What) {
        let mut events = self.events.lock().expect("the history");
        events.push(Event { at_us: micros(self.began.elapsed()), op, what });
    }

    /// Everything so far, both ends paired, in order of invocation; what is still under way is unknown.
    pub fn operations(&self) -> Vec<Operation> {
        paired(&self.events.lock().expect("the history"))
    }

    /// Writes the events as JSON lines beside other temporary files, and returns where.
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

    /// Panics with the violation, and with where the history lies, unless a judge is content.
    #[track_caller]
    pub fn require(&self, verdict: Result<(), String>) {
        if let Err(violation) = verdict {
            panic!("{violation}\nthe history lies in {}", self.save().display());
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a place for the history");
}

fn paired(events: &[Event]) -> Vec<Operation> {
    let mut operations: BTreeMap<u64, Operation> = BTreeMap::new();
    for Event { at_us, op, what } in events {
        let completion = match what.clone() {
            What::Invoke(call) => {
                let completion = Completion::Unknown;
                operations.insert(*op, Operation { call, invoked_us: *at_us, completion });
                continue;
            }
            What::Ok(answer) => Completion::Ok { at_us: *at_us, answer },
            What::Fail { code } => Completion::Fail { at_us: *at_us, code },
            What::Unknown { .. } => Completion::Unknown,
        };
        operations.get_mut(op).expect("a completion has an invocation").completion = completion;
    }
    operations.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read() -> Call {
        Call::Read { lock: "a".into() }
    }

    #[test]
    fn both_ends_are_paired_and_what_is_under_way_is_unknown() {
        let history = History::default();
        let (first, second) = (history.invoke(read()), history.invoke(read()));
        let third = history.invoke(read());
        history.complete(second, What::Ok(Answer::Done));
        history.complete(third, What::Unknown { why: "timeout".into() });
        let operations = history.operations();
        assert_eq!(operations.len(), 3);
        assert_eq!(operations[0].completion, Completion::Unknown, "operation {first}");
        assert!(operations[1].answered().is_some());
        assert_eq!(operations[2].completion, Completion::Unknown);
    }

    #[test]
    fn an_event_survives_json() {
        let answer = Answer::Lock { holder: Some(("a".into(), 7)), waiters: vec!["b".into()] };
        for what in
            [What::Invoke(read()), What::Ok(answer), What::Fail { code: "no-leader".into() }]
        {
            let event = Event { at_us: 5, op: 1, what };
            let text = serde_json::to_string(&event).expect("to JSON");
            assert_eq!(serde_json::from_str::<Event>(&text).expect("from JSON"), event);
        }
    }
}
