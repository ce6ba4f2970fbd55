//! The guard of Redis in plain calls and in `MULTI`. A script has no snapshot in either case.

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncCommands, RedisError};
use holdfast_fence::redis::{FencedScript, GUARD_LUA, KEY_LUA, begin, key};
use holdfast_fence::{Claim, FenceError, FencingToken};

use crate::levels::{First, Holder, cases, play};
use crate::pausing::{STOCK, StockStore};
use crate::redis::{RESOURCE, RedisStore, SALE, connection};
use crate::search::runtime;
use crate::servers::redis_or_skip;

#[derive(Clone, Copy, Debug)]
enum Call {
    Plain,
    Multi,
}

struct RedisHolder {
    connection: MultiplexedConnection,
    call: Call,
}

impl RedisHolder {
    /// One script in a `MULTI` of its own.
    async fn in_multi<T: ::redis::FromRedisValue>(
        &mut self,
        script: &str,
        claim: Claim,
        arguments: &[i64],
    ) -> Result<T, FenceError> {
        let mut pipe = ::redis::pipe();
        pipe.atomic().cmd("EVAL").arg(script).arg(3);
        for name in ["fence", "stock", "orders"] {
            pipe.arg(key(RESOURCE, name));
        }
        pipe.arg(claim.token().0).arg(claim.floor().0).arg(arguments);
        let outcome: Result<(T,), RedisError> = pipe.query_async(&mut self.connection).await;
        outcome.map(|(answer,)| answer).map_err(|error| {
            assert!(error.to_string().contains("STALEFENCE"), "{error}");
            let (resource, newest) = (RESOURCE.to_owned(), FencingToken(80));
            FenceError::Stale { resource, token: claim.token(), newest, holder: None }
        })
    }
}

impl Holder for RedisHolder {
    async fn read(
        &mut self,
        claim: Claim,
        early: Option<impl AsyncFnOnce()>,
    ) -> Result<i64, FenceError> {
        if let Some(early) = early {
            let _: i64 = self.connection.get(key(RESOURCE, "stock")).await.unwrap();
            early().await;
        }
        match self.call {
            Call::Plain => {
                let mut store = begin(&mut self.connection, RESOURCE, claim).await?;
                store.get(&key(RESOURCE, "stock")).await
            }
            Call::Multi => self.in_multi(KEY_LUA, claim, &[]).await,
        }
    }

    async fn write(&mut self, claim: Claim, stock: i64) -> Result<(), FenceError> {
        let script = format!("{GUARD_LUA}{SALE}");
        match self.call {
            Call::Plain => {
                let mut store = begin(&mut self.connection, RESOURCE, claim).await?;
                let (stock_key, orders) = (key(RESOURCE, "stock"), key(RESOURCE, "orders"));
                store.run(&FencedScript::new(SALE), &[&stock_key, &orders], &[stock]).await
            }
            Call::Multi => self.in_multi(&script, claim, &[stock]).await,
        }
    }
}

#[test]
fn plainly_and_in_multi_a_successor_reads_its_predecessors_writes_in_redis() {
    let Some(server) = redis_or_skip() else { return };
    runtime().block_on(async {
        let mut store = RedisStore::open(server).await;
        let connections =
            [connection(&mut store.server).await, connection(&mut store.server).await];
        let [mut predecessor, mut successor] =
            connections.map(|connection| RedisHolder { connection, call: Call::Plain });
        for before in [Call::Plain, Call::Multi] {
            for after in [Call::Plain, Call::Multi] {
                (predecessor.call, successor.call) = (before, after);
                for case in cases() {
                    store.reset().await;
                    let _: () = store.observer.set(key(RESOURCE, "fence"), 60).await.unwrap();
                    let first = play(&mut predecessor, &mut successor, case).await;
                    let (stock, sales) = store.count().await;
                    let sold = i64::try_from(sales.len()).unwrap();
                    let what = format!("{before:?}, then {after:?}: {case:?}");
                    assert_eq!((first, stock + sold), (First::Read, STOCK), "{what}");
                }
            }
        }
    });
}
