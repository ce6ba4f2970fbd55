//! The calls of the protocol.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_client::http::ClientTls;
use holdfast_client::{AccessToken, Client, Error, Guard, Lock, LockName, Reason, RequestRelease};
use holdfast_tests_clients::protocol::{
    AcquireOptions, AnswerError, Call, ClientOptions, LockMode,
};
use serde_json::{Value, json};

use crate::describe::describe;
use crate::groups;
use crate::guards::{self, AnyGuard, keep};
use crate::mutation::Mutation;
use crate::state::{
    AdapterState, Answered, KeptClient, error_of, invalid, lock, lost, unsupported,
};

const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);
/// How long the mutation that prefers a node waits for it.
const PREFERRED_NODE_TIME: Duration = Duration::from_secs(4);

pub(crate) async fn execute(state: &Arc<AdapterState>, call: Call) -> Answered {
    match call {
        Call::Info {} => Ok(json!({ "language": "rust", "unsupported": ["fork"] })),
        Call::Describe {} => describe(),
        Call::Client(options) => new_client(state, *options),
        Call::Acquire(options) => acquire(state, *options).await,
        Call::Transfer { guard, to, owner } => {
            guards::transfer(state, &guard, (&to, owner.as_deref())).await
        }
        Call::AcquireMany { client, locks, guard, wait_ms } => {
            acquire_many(state, (&client, &guard), locks, wait_ms).await
        }
        Call::Cancel { request } => {
            state.cancel(request.as_u64().unwrap_or(0));
            Ok(json!({}))
        }
        Call::Release { guard } => guards::release(state, &guard).await,
        Call::Ensure { guard } => {
            state.guard(&guard)?.check(state).map_err(|loss| lost(&loss))?;
            Ok(json!({}))
        }
        Call::Remaining { guard } => {
            let remaining = state.guard(&guard)?.remaining(state, Duration::from_secs(6));
            Ok(json!({ "remaining_ms": u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX) }))
        }
        Call::ReportProgress { guard } => {
            state.guard(&guard)?.report_progress().map_err(|loss| lost(&loss))?;
            Ok(json!({}))
        }
        Call::Upgrade { guard, wait_ms } => guards::upgrade(state, &guard, wait_ms).await,
        Call::Downgrade { guard, mode } => guards::downgrade(state, &guard, mode).await,
        Call::ReleasePermits { guard, permits } => {
            let kept = state.guard(&guard)?;
            let mut slot = kept.slot().await;
            done(guards::one(&mut slot)?.release_permits(permits).await)
        }
        Call::Headers { guard } => headers(state, &guard),
        Call::Block { ms } => {
            std::thread::sleep(Duration::from_millis(ms));
            Ok(json!({}))
        }
        Call::Fork { .. } => Err(unsupported("fork")),
        Call::Close { client } => state.close(&client).await,
        Call::Shutdown {} => Ok(json!({})),
        Call::LockState { client, lock } => lock_state(state, &client, &lock).await,
        Call::ForceRelease { client, lock, reason } => {
            let reason = Reason::new(reason).map_err(|error| invalid(error.to_string()))?;
            let client = state.client(&client)?.client;
            let ended = client.force_release(&name(&lock)?, None, &reason).await;
            done(ended)
        }
        Call::RequestRelease { client, lock, reason, deadline_ms, revoke } => {
            let reason = reason.map(Reason::new).transpose();
            let request = RequestRelease {
                lock: name(&lock)?,
                holder: None,
                token: None,
                reason: reason.map_err(|error| invalid(error.to_string()))?,
                deadline_ms: deadline_ms
                    .unwrap_or(u64::try_from(DEFAULT_DEADLINE.as_millis()).unwrap_or(0)),
                revoke,
            };
            done(state.client(&client)?.client.request_release(&request).await)
        }
        call => groups::execute(state, call).await,
    }
}

/// An answer without fields.
pub(crate) fn done<T>(result: Result<T, Error>) -> Answered {
    result.map_err(|error| error_of(&error))?;
    Ok(json!({}))
}

pub(crate) fn name(lock: &str) -> Result<LockName, AnswerError> {
    LockName::new(lock).map_err(|error| invalid(error.to_string()))
}

fn read(path: &str) -> Result<Vec<u8>, AnswerError> {
    std::fs::read(path).map_err(|error| invalid(format!("{path}: {error}")))
}

fn new_client(state: &AdapterState, options: ClientOptions) -> Answered {
    let mut builder = Client::builder(&options.addresses);
    if let Some(ms) = options.ttl_ms {
        builder = builder.ttl(Duration::from_millis(ms));
    }
    if let Some(prefix) = options.session_prefix {
        builder = builder.session_prefix(prefix);
    }
    let shared = state.has(Mutation::SessionShared).then(|| "shared".to_owned());
    if let Some(session) = options.session.or(shared) {
        builder = builder.named_session(session);
    }
    for (key, value) in &options.labels {
        builder = builder.label(key, value.as_str().unwrap_or_default());
    }
    if let Some(ms) = options.request_timeout_ms {
        builder = builder.request_timeout(Duration::from_millis(ms));
    }
    if options.ca.is_some() || options.certificate.is_some() {
        let ca = options.ca.as_deref().map(read).transpose()?;
        let identity = match (&options.certificate, &options.key) {
            (Some(certificate), Some(key)) => Some([read(certificate)?, read(key)?].concat()),
            (Some(_) | None, _) => None,
        };
        builder = builder.tls(ClientTls { ca, identity });
    }
    if let Some(token) = options.access_token {
        builder = builder.access_token(AccessToken::text(token));
    }
    if let Some(path) = options.access_token_file {
        let token =
            AccessToken::file(&path).map_err(|error| invalid(format!("{path}: {error}")))?;
        builder = builder.access_token(token);
    }
    let client = builder.build().map_err(|error| invalid(error.to_string()))?;
    let first_address = options.addresses.first().cloned().unwrap_or_default();
    lock(&state.clients).insert(options.name, KeptClient { client, first_address });
    Ok(json!({}))
}

async fn acquire(state: &Arc<AdapterState>, options: AcquireOptions) -> Answered {
    let kept = state.client(&options.client)?;
    if state.has(Mutation::PrefersFrozenNode) {
        ask_first_node(&kept).await;
    }
    let prepared = with_options(kept.client.lock(&options.lock), &options);
    let mut result = acquire_within(prepared.clone(), options.wait_ms).await;
    if state.has(Mutation::RetryNotRetryable) {
        for _ in 0..10 {
            let Err(Error::Rejected(_)) = &result else { break };
            result = acquire_within(prepared.clone(), options.wait_ms).await;
        }
    }
    let guard = result.map_err(|error| error_of(&error))?;
    Ok(kept_guard(state, (&options.client, &options.guard), guard))
}

/// The mutation: a call to the first node, whatever its state.
async fn ask_first_node(kept: &KeptClient) {
    if let Ok(client) = Client::new([&kept.first_address]) {
        let client = client.request_timeout(PREFERRED_NODE_TIME);
        drop(client.locks(&holdfast_client::LockQuery::default()).await);
    }
}

async fn acquire_within(lock: Lock, wait_ms: Option<u64>) -> Result<Guard, Error> {
    match wait_ms {
        None => lock.acquire().await,
        Some(0) => lock.try_acquire().await,
        Some(ms) => lock.timeout(Duration::from_millis(ms)).acquire().await,
    }
}

fn with_options(mut lock: Lock, options: &AcquireOptions) -> Lock {
    match options.mode {
        Some(LockMode::Shared) => lock = lock.shared(),
        Some(LockMode::Upgradable) => lock = lock.upgradable(),
        Some(LockMode::Exclusive) | None => {}
    }
    match options.reentrant {
        Some(true) => lock = lock.entering(),
        Some(false) => lock = lock.not_reentrant(),
        None => {}
    }
    let AcquireOptions { permits, limit, priority, queue_max, shards, shard, .. } = *options;
    lock = permits.into_iter().fold(lock, Lock::permits);
    lock = limit.into_iter().fold(lock, Lock::limit);
    lock = priority.into_iter().fold(lock, Lock::priority);
    lock = queue_max.into_iter().fold(lock, Lock::queue_max);
    lock = shards.into_iter().fold(lock, Lock::shards);
    lock = shard.into_iter().fold(lock, Lock::shard);
    lock = options.owner.iter().fold(lock, Lock::owner);
    lock = options.value.iter().fold(lock, Lock::value);
    let ms = |time: Option<u64>| time.map(Duration::from_millis).into_iter();
    lock = ms(options.max_hold_ms).fold(lock, Lock::max_hold);
    lock = ms(options.min_hold_ms).fold(lock, Lock::min_hold);
    lock = ms(options.progress_timeout_ms).fold(lock, Lock::progress_timeout);
    ms(options.ttl_ms).fold(lock, Lock::ttl)
}

/// Keeps the guard of a grant, and returns the answer.
pub(crate) fn kept_guard(
    state: &Arc<AdapterState>,
    (client, guard_name): (&str, &str),
    guard: Guard,
) -> Value {
    let answer =
        json!({ "token": guard.token(), "session": guard.session(), "lock": guard.lock() });
    keep(state, client, guard_name, AnyGuard::One(guard));
    answer
}

async fn acquire_many(
    state: &Arc<AdapterState>,
    (client, guard): (&str, &str),
    locks: Vec<String>,
    wait_ms: Option<u64>,
) -> Answered {
    let prepared = state.client(client)?.client.lock_many(locks);
    let result = match wait_ms {
        None => prepared.acquire().await,
        Some(0) => prepared.try_acquire().await,
        Some(ms) => prepared.timeout(Duration::from_millis(ms)).acquire().await,
    };
    let many = result.map_err(|error| error_of(&error))?;
    let session = many.holds().next().map(|hold| hold.session().clone());
    let answer = json!({ "tokens": many.tokens(), "session": session });
    keep(state, client, guard, AnyGuard::Many(many));
    Ok(answer)
}

fn headers(state: &AdapterState, guard: &str) -> Answered {
    let kept = state.guard(guard)?;
    kept.check(state).map_err(|loss| lost(&loss))?;
    let hold = kept.first().ok_or_else(|| invalid("no hold".to_owned()))?;
    let headers: BTreeMap<&str, String> = hold.headers().into();
    Ok(json!({ "headers": headers }))
}

async fn lock_state(state: &AdapterState, client: &str, lock: &str) -> Answered {
    let body = state.client(client)?.client.lock_state(&name(lock)?).await;
    let body = body.map_err(|error| error_of(&error))?;
    let holders = body.holders.iter();
    let holders = holders.map(|holder| json!({ "session": holder.session, "token": holder.token }));
    Ok(json!({ "holders": holders.collect::<Vec<_>>(), "waiters": body.waiters }))
}
