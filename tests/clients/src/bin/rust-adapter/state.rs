//! What the adapter keeps: clients, guards, pending requests and streams; and its output.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_client::recipes::{DoubleBarrierGuard, Membership};
use holdfast_client::{CancellationToken, Client, Error, Loss, SessionHandle};
use holdfast_tests_clients::protocol::{AnswerError, ErrorKind};
use serde_json::{Value, json};

use crate::guards::KeptGuard;
use crate::mutation::Mutation;

/// The fields of `ok`, or the error.
pub(crate) type Answered = Result<Value, AnswerError>;

/// A client with what mutations need to know.
#[derive(Clone)]
pub(crate) struct KeptClient {
    pub(crate) client: Client,
    pub(crate) first_address: String,
}

/// Everything that requests share.
pub(crate) struct AdapterState {
    pub(crate) mutation: Option<Mutation>,
    pub(crate) clients: Mutex<BTreeMap<String, KeptClient>>,
    pub(crate) guards: Mutex<BTreeMap<String, Arc<KeptGuard>>>,
    pub(crate) inside: Mutex<BTreeMap<(String, String), DoubleBarrierGuard>>,
    pub(crate) streams: Mutex<BTreeMap<String, CancellationToken>>,
    /// The open session of a client.
    pub(crate) sessions: Mutex<BTreeMap<String, SessionHandle>>,
    /// Each membership with its client.
    pub(crate) members: tokio::sync::Mutex<BTreeMap<String, (String, Membership)>>,
    pending: Mutex<BTreeMap<u64, CancellationToken>>,
    output: Mutex<std::io::Stdout>,
}

/// Ignores poisoning: each map is consistent after every change.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AdapterState {
    pub(crate) fn new(mutation: Option<Mutation>) -> Self {
        Self {
            mutation,
            clients: Mutex::default(),
            guards: Mutex::default(),
            inside: Mutex::default(),
            streams: Mutex::default(),
            sessions: Mutex::default(),
            members: tokio::sync::Mutex::default(),
            pending: Mutex::default(),
            output: Mutex::new(std::io::stdout()),
        }
    }

    pub(crate) fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    pub(crate) fn client(&self, name: &str) -> Result<KeptClient, AnswerError> {
        let found = lock(&self.clients).get(name).cloned();
        found.ok_or_else(|| invalid(format!("no client {name}")))
    }

    pub(crate) fn guard(&self, name: &str) -> Result<Arc<KeptGuard>, AnswerError> {
        let found = lock(&self.guards).get(name).cloned();
        found.ok_or_else(|| invalid(format!("no guard {name}")))
    }

    /// Registers a request, and returns what cancels it.
    pub(crate) fn pend(&self, id: u64) -> CancellationToken {
        lock(&self.pending).entry(id).or_default().clone()
    }

    pub(crate) fn finish(&self, id: u64) {
        lock(&self.pending).remove(&id);
    }

    pub(crate) fn cancel(&self, id: u64) {
        if let Some(pending) = lock(&self.pending).get(&id) {
            pending.cancel();
        }
    }

    /// Closes a client: its guards are gone.
    pub(crate) async fn close(&self, name: &str) -> Answered {
        let client = self.client(name)?;
        if self.has(Mutation::RenewForever) {
            return Ok(json!({}));
        }
        lock(&self.clients).remove(name);
        let kept: Vec<_> = lock(&self.guards).values().cloned().collect();
        for guard in kept.iter().filter(|guard| guard.client == name) {
            guard.end();
        }
        lock(&self.inside).retain(|(client, _), _| client != name);
        lock(&self.sessions).remove(name);
        self.members.lock().await.retain(|_, (client, _)| client != name);
        client.client.close().await.map_err(|error| error_of(&error))?;
        Ok(json!({}))
    }

    pub(crate) async fn close_all(&self) {
        lock(&self.streams).values().for_each(CancellationToken::cancel);
        let names: Vec<String> = lock(&self.clients).keys().cloned().collect();
        for name in names {
            // The sessions end after their TTL otherwise.
            drop(self.close(&name).await);
        }
    }

    pub(crate) fn answer(&self, id: u64, result: Answered) {
        match result {
            Ok(ok) => self.write(&json!({ "id": id, "ok": ok })),
            Err(error) => self.write(&json!({ "id": id, "error": error })),
        }
    }

    pub(crate) fn write(&self, line: &Value) {
        let mut output = lock(&self.output);
        // Without a reader there is nothing left to do; the end of the input follows.
        drop(writeln!(output, "{line}").and_then(|()| output.flush()));
    }
}

fn error(kind: ErrorKind, message: String) -> AnswerError {
    AnswerError { kind, code: None, retryable: None, message, cause: None }
}

pub(crate) fn invalid(message: String) -> AnswerError {
    error(ErrorKind::InvalidArgument, message)
}

/// The awaited event did not happen.
pub(crate) fn busy(message: &str) -> AnswerError {
    error(ErrorKind::Busy, message.to_owned())
}

pub(crate) fn cancelled() -> AnswerError {
    error(ErrorKind::Cancelled, "the request was cancelled".to_owned())
}

pub(crate) fn unsupported(message: &str) -> AnswerError {
    error(ErrorKind::Unsupported, message.to_owned())
}

pub(crate) fn lost(loss: &Loss) -> AnswerError {
    let cause = Some(cause_of(loss).to_owned());
    AnswerError { cause, ..error(ErrorKind::Lost, loss.to_string()) }
}

/// The word of a loss in the protocol.
pub(crate) fn cause_of(loss: &Loss) -> &'static str {
    match loss {
        Loss::NotRenewed { .. } => "not-renewed",
        Loss::SessionEnded => "session-ended",
        Loss::ReleasedElsewhere => "released-elsewhere",
        Loss::ForceReleased { .. } => "force-released",
        Loss::Revoked { .. } => "revoked",
        Loss::Transferred => "transferred",
        Loss::Stalled { .. } => "stalled",
        Loss::MaxHoldExceeded { .. } => "max-hold-exceeded",
    }
}

pub(crate) fn error_of(from: &Error) -> AnswerError {
    let kind = match from {
        Error::Busy(_) => ErrorKind::Busy,
        Error::Lost(loss) => return lost(loss),
        Error::Unavailable(_) => ErrorKind::Unavailable,
        Error::OutcomeUnknown(_) => ErrorKind::OutcomeUnknown,
        Error::Rejected(_) => ErrorKind::Rejected,
        Error::UnexpectedResponse(_) => ErrorKind::UnexpectedResponse,
        Error::InvalidArgument(_) => ErrorKind::InvalidArgument,
    };
    let problem = from.problem();
    AnswerError {
        code: problem.map(|problem| problem.code.as_str().to_owned()),
        retryable: problem.map(|problem| problem.retryable),
        ..error(kind, from.to_string())
    }
}
