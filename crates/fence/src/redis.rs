//! Fenced reads and writes on Redis and Valkey: a Lua script compares, raises the mark and acts in one step.
//!
//! Owns the head of every script (`lua/fence_guard.lua`), the names of keys (mark and data in one slot), and the
//! mapping from the scripts' error codes to [`FenceError`]. Refuses to know what the keys hold, and holds nothing
//! between calls.
//!
//! A mark that is forgotten protects nothing: the server needs `appendonly yes` and `maxmemory-policy noeviction`, and
//! a failover to a replica that lags forgets what it has not received.

use std::sync::LazyLock;

use holdfast_types::FencingToken;
use redis::aio::ConnectionLike;
use redis::{FromRedisValue, RedisError, Script, ToRedisArgs};

use crate::claim::named;
use crate::{Claim, FenceError};

pub use crate::recipes::{REDIS_GUARD as GUARD_LUA, REDIS_KEY as KEY_LUA};

/// Error code of a refused stale token.
pub const STALE: &str = "STALEFENCE";
/// Error code of a call without a usable token.
pub const MISSING_TOKEN: &str = "NOFENCE";

static ADVANCE: LazyLock<FencedScript> = LazyLock::new(|| FencedScript::new("return 'OK'"));
static KEY: LazyLock<FencedScript> = LazyLock::new(|| FencedScript(Script::new(KEY_LUA)));

/// The key of something that belongs to a resource, in the slot of its mark: `{orders}:stock`.
pub fn key(resource: &str, name: &str) -> String {
    format!("{{{resource}}}:{name}")
}

/// Commands of your own behind the guard.
#[derive(Clone, Debug)]
pub struct FencedScript(Script);

impl FencedScript {
    /// The guard, and then `body`: your keys are `KEYS[2]` and on, your arguments `ARGV[3]` and on.
    pub fn new(body: &str) -> Self {
        Self(Script::new(&format!("{GUARD_LUA}{body}")))
    }
}

/// A holder at work on a resource. There are no transactions in between: each call compares again, and is one step.
#[derive(Debug)]
pub struct Fenced<'a, C> {
    connection: &'a mut C,
    resource: String,
    claim: Claim,
}

/// Raises the mark of `resource`, before anything can be read through what it answers.
///
/// # Errors
/// [`FenceError::Stale`] if a newer token was seen.
pub async fn begin<'a, C: ConnectionLike>(
    connection: &'a mut C,
    resource: &str,
    token: impl Into<Claim>,
) -> Result<Fenced<'a, C>, FenceError> {
    let claim = token.into().check()?;
    let mut fenced = Fenced { connection, resource: named(resource)?.to_owned(), claim };
    fenced.run::<()>(&ADVANCE, &[], &[] as &[&str]).await?;
    Ok(fenced)
}

impl<C: ConnectionLike> Fenced<'_, C> {
    /// Reads a key, named as by [`key`].
    ///
    /// # Errors
    /// [`FenceError::Stale`] if a newer token was seen meanwhile.
    pub async fn get<T: FromRedisValue>(&mut self, key: &str) -> Result<T, FenceError> {
        self.run(&KEY, &[key], &[] as &[&str]).await
    }

    /// Writes a key, named as by [`key`].
    ///
    /// # Errors
    /// [`FenceError::Stale`] if a newer token was seen meanwhile; nothing was written.
    pub async fn set(&mut self, key: &str, value: impl ToRedisArgs) -> Result<(), FenceError> {
        self.run(&KEY, &[key], &[value]).await
    }

    /// Runs commands of your own, if the token is still good.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if a newer token was seen meanwhile; the script has done nothing.
    pub async fn run<T: FromRedisValue>(
        &mut self,
        script: &FencedScript,
        keys: &[&str],
        arguments: &[impl ToRedisArgs],
    ) -> Result<T, FenceError> {
        let mut call = script.0.key(key(&self.resource, "fence"));
        for key in keys {
            call.key(*key);
        }
        call.arg(self.claim.token().0).arg(self.claim.floor().0);
        for argument in arguments {
            call.arg(argument);
        }
        let answer = call.invoke_async(self.connection).await;
        answer.map_err(|error| meaning(&self.resource, error))
    }
}

fn meaning(resource: &str, error: RedisError) -> FenceError {
    let detail = error.detail().unwrap_or_default();
    match error.code() {
        Some(MISSING_TOKEN) => FenceError::MissingToken { reason: detail.to_owned() },
        Some(STALE) => match stale(resource, detail) {
            Some(stale) => stale,
            None => FenceError::Store(Box::new(error)),
        },
        Some(_) | None => FenceError::Store(Box::new(error)),
    }
}

/// The facts of a refusal: the token and the newest, which may be larger than any of ours.
fn stale(resource: &str, detail: &str) -> Option<FenceError> {
    let mut numbers = detail.split_whitespace();
    let token = FencingToken(numbers.next()?.parse().ok()?);
    let newest = FencingToken(numbers.next()?.parse().unwrap_or(u64::MAX));
    Some(FenceError::Stale { resource: resource.to_owned(), token, newest, holder: None })
}
