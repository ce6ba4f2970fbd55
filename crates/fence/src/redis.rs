//! Fenced reads and writes on Redis and Valkey: a Lua script compares, raises the mark and acts in one step.
//!
//! Every script starts with `lua/fence_guard.lua`. The keys of the mark and the data are in one slot.
//!
//! A lost mark protects nothing: the server needs `appendonly yes` and `maxmemory-policy noeviction`. A failover to a
//! replica that lags loses marks.

use std::sync::LazyLock;

use holdfast_types::FencingToken;
use redis::aio::ConnectionLike;
use redis::{FromRedisValue, RedisError, Script, ToRedisArgs};

use crate::claim::named;
use crate::{Claim, FenceError};

pub use crate::recipes::{REDIS_GUARD as GUARD_LUA, REDIS_KEY as KEY_LUA};

/// Error code of a stale token.
pub const STALE: &str = "STALEFENCE";
/// Error code of a call without a valid token.
pub const MISSING_TOKEN: &str = "NOFENCE";

static ADVANCE: LazyLock<FencedScript> = LazyLock::new(|| FencedScript::new("return 'OK'"));
static KEY: LazyLock<FencedScript> = LazyLock::new(|| FencedScript(Script::new(KEY_LUA)));

/// A key in the slot of the mark of a resource: `{orders}:stock`.
pub fn key(resource: &str, name: &str) -> String {
    format!("{{{resource}}}:{name}")
}

/// Your own commands after the guard.
#[derive(Clone, Debug)]
pub struct FencedScript(Script);

impl FencedScript {
    /// The guard, then `body`: your keys start at `KEYS[2]`, your arguments at `ARGV[3]`.
    pub fn new(body: &str) -> Self {
        Self(Script::new(&format!("{GUARD_LUA}{body}")))
    }
}

/// A resource with the claim of its holder. Each call compares the claim again and is atomic by itself.
#[derive(Debug)]
pub struct FencedResource<'a, C> {
    connection: &'a mut C,
    resource: String,
    claim: Claim,
}

/// Raises the mark of `resource`, and returns it for reads and writes.
///
/// # Errors
/// [`FenceError::Stale`] if the resource has seen a newer token.
pub async fn begin<'a, C: ConnectionLike>(
    connection: &'a mut C,
    resource: &str,
    token: impl Into<Claim>,
) -> Result<FencedResource<'a, C>, FenceError> {
    let claim = token.into().check()?;
    let mut fenced = FencedResource { connection, resource: named(resource)?.to_owned(), claim };
    fenced.run::<()>(&ADVANCE, &[], &[] as &[&str]).await?;
    Ok(fenced)
}

impl<C: ConnectionLike> FencedResource<'_, C> {
    /// Reads a key of [`key`].
    ///
    /// # Errors
    /// [`FenceError::Stale`] if the resource has seen a newer token.
    pub async fn get<T: FromRedisValue>(&mut self, key: &str) -> Result<T, FenceError> {
        self.run(&KEY, &[key], &[] as &[&str]).await
    }

    /// Writes a key of [`key`].
    ///
    /// # Errors
    /// [`FenceError::Stale`] if the resource has seen a newer token; nothing was written.
    pub async fn set(&mut self, key: &str, value: impl ToRedisArgs) -> Result<(), FenceError> {
        self.run(&KEY, &[key], &[value]).await
    }

    /// Runs your own commands, if the token is valid.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if the resource has seen a newer token; the script did nothing.
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
        answer.map_err(|error| to_fence_error(&self.resource, error))
    }
}

/// The largest mark of the database of the connection; `None` without a mark. Reads all keys `{…}:fence`, some at a time.
///
/// # Errors
/// [`FenceError::MissingToken`] for a mark that is not a number, [`FenceError::Store`], also for a node of a Redis Cluster, which has
/// only a part of the marks.
pub async fn largest_mark<C: ConnectionLike>(
    connection: &mut C,
) -> Result<Option<FencingToken>, FenceError> {
    const KEYS: usize = 1_000;
    let store = |error: RedisError| FenceError::Store(Box::new(error));
    let mut info = redis::cmd("INFO");
    let info: String = info.arg("cluster").query_async(connection).await.map_err(store)?;
    if info.contains("cluster_enabled:1") {
        let reason = "a node of a Redis Cluster has only a part of the marks";
        return Err(FenceError::Store(reason.into()));
    }
    let (mut cursor, mut largest) = (0_u64, None);
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg("{*}:fence").arg("COUNT").arg(KEYS);
        let (next, keys): (u64, Vec<String>) = scan.query_async(connection).await.map_err(store)?;
        for key in keys {
            let mark: Option<String> =
                redis::cmd("GET").arg(&key).query_async(connection).await.map_err(store)?;
            let Some(mark) = mark else { continue };
            let number = mark.parse().map_err(|_| FenceError::MissingToken {
                reason: format!("the mark {key} is not a number"),
            })?;
            largest = largest.max(Some(FencingToken(number)));
        }
        cursor = next;
        if cursor == 0 {
            return Ok(largest);
        }
    }
}

fn to_fence_error(resource: &str, error: RedisError) -> FenceError {
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

/// The facts of a stale token: the token and the mark.
fn stale(resource: &str, detail: &str) -> Option<FenceError> {
    let mut numbers = detail.split_whitespace();
    let token = FencingToken(numbers.next()?.parse().ok()?);
    let newest = FencingToken(numbers.next()?.parse().ok()?);
    Some(FenceError::Stale { resource: resource.to_owned(), token, newest, holder: None })
}
