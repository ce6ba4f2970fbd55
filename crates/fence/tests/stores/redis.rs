//! The Lua guard against a real Redis.

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncCommands, Client, RedisResult, Script};
use holdfast_fence::redis::{FencedScript, GUARD_LUA, KEY_LUA, begin, key, largest_mark};
use holdfast_fence::{Claim, FenceError, FencingToken};
use proptest::prelude::*;

use crate::model::{TestStore, a_store_judges_as_the_rule_says, invalid_claims_are_rejected};
use crate::pausing::{Pauses, STOCK, StockStore, StoreConnection, WriterSchedule};
use crate::search::{
    cases, half_a_guard_loses_updates, no_interleaving_loses_an_update, runner, runtime,
};
use crate::servers::{Server, redis_or_skip};

pub(crate) const RESOURCE: &str = "shop";
/// Stock and order, in one step with the comparison.
pub(crate) const SALE: &str =
    "redis.call('SET', KEYS[2], ARGV[3]); redis.call('RPUSH', KEYS[3], ARGV[1])";

/// Connects when the server answers `PING`: after a start it accepts connections while it still loads its data.
pub(crate) async fn connection(server: &mut Server) -> MultiplexedConnection {
    let open = |socket: std::path::PathBuf| async move {
        let client = Client::open(format!("redis+unix://{}", socket.display()))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let () = ::redis::cmd("PING").query_async(&mut connection).await?;
        ::redis::RedisResult::Ok(connection)
    };
    server.connect(open).await
}

pub(crate) struct RedisStore {
    pub(crate) server: Server,
    pub(crate) observer: MultiplexedConnection,
}

impl RedisStore {
    pub(crate) async fn open(mut server: Server) -> Self {
        let observer = connection(&mut server).await;
        Self { server, observer }
    }

    async fn flush(&mut self) {
        let _: () = ::redis::cmd("FLUSHDB").query_async(&mut self.observer).await.unwrap();
    }
}

impl StockStore for RedisStore {
    type StoreConnection = RedisConnection;

    fn resource(&self) -> String {
        RESOURCE.to_owned()
    }

    async fn reset(&mut self) {
        self.flush().await;
        let _: () = self.observer.set(key(RESOURCE, "stock"), STOCK).await.unwrap();
    }

    async fn desk(&mut self, _: usize, _: &WriterSchedule) -> RedisConnection {
        RedisConnection(connection(&mut self.server).await)
    }

    async fn count(&mut self) -> (i64, Vec<u64>) {
        let stock = self.observer.get(key(RESOURCE, "stock")).await.unwrap();
        (stock, self.observer.lrange(key(RESOURCE, "orders"), 0, -1).await.unwrap())
    }
}

pub(crate) struct RedisConnection(MultiplexedConnection);

impl StoreConnection for RedisConnection {
    async fn read(&mut self) -> Result<i64, FenceError> {
        Ok(self.0.get(key(RESOURCE, "stock")).await.unwrap())
    }

    async fn write(&mut self, token: FencingToken, stock: i64) -> Result<(), FenceError> {
        let _: () = self.0.set(key(RESOURCE, "stock"), stock).await.unwrap();
        let _: () = self.0.rpush(key(RESOURCE, "orders"), token.0).await.unwrap();
        Ok(())
    }

    async fn read_fenced(
        &mut self,
        token: FencingToken,
        pauses: &Pauses,
    ) -> Result<i64, FenceError> {
        let mut store = begin(&mut self.0, RESOURCE, token).await?;
        pauses.pause().await;
        store.get(&key(RESOURCE, "stock")).await
    }

    async fn write_fenced(
        &mut self,
        token: FencingToken,
        stock: i64,
        pauses: &Pauses,
    ) -> Result<(), FenceError> {
        let mut store = begin(&mut self.0, RESOURCE, token).await?;
        pauses.pause().await;
        let (stock_key, orders) = (key(RESOURCE, "stock"), key(RESOURCE, "orders"));
        store.run(&FencedScript::new(SALE), &[&stock_key, &orders], &[stock]).await
    }
}

impl TestStore for RedisStore {
    fn resource(&self) -> String {
        RESOURCE.to_owned()
    }

    async fn forget(&mut self) {
        self.flush().await;
    }

    async fn show(&mut self, claim: Claim) -> Result<(), FenceError> {
        begin(&mut self.observer, RESOURCE, claim).await.map(drop)
    }
}

#[test]
fn redis_judges_as_the_rule_says() {
    let Some(server) = redis_or_skip() else { return };
    let runtime = runtime();
    let mut store = runtime.block_on(RedisStore::open(server));
    invalid_claims_are_rejected(&runtime, &mut store);
    a_store_judges_as_the_rule_says(&runtime, store);
}

#[test]
fn no_interleaving_of_paused_writers_loses_an_update_in_redis() {
    let Some(server) = redis_or_skip() else { return };
    let runtime = runtime();
    let store = runtime.block_on(RedisStore::open(server));
    no_interleaving_loses_an_update(&runtime, store);
}

#[test]
fn half_a_guard_loses_updates_in_redis() {
    let Some(server) = redis_or_skip() else { return };
    let runtime = runtime();
    let store = runtime.block_on(RedisStore::open(server));
    half_a_guard_loses_updates(&runtime, store);
}

/// Pairs of close tokens, and of tokens with different lengths.
fn neighbours() -> impl Strategy<Value = (u64, u64)> {
    let close = (1..FencingToken::END - 1).prop_map(|token| (token, token + 1));
    let lengths = (0..16_u32, 0..16_u32, 1..10_u64, 1..10_u64)
        .prop_map(|(one, two, a, b)| (a * 10_u64.pow(one), b * 10_u64.pow(two)));
    let either =
        prop_oneof![close, lengths.prop_filter("tokens", |(a, b)| *a.max(b) < FencingToken::END)];
    (either, any::<bool>()).prop_map(|((a, b), turned)| if turned { (b, a) } else { (a, b) })
}

async fn write(
    connection: &mut MultiplexedConnection,
    script: &str,
    token: &str,
    value: &str,
) -> RedisResult<String> {
    let script = Script::new(script);
    let mut call = script.key(key("orders", "fence"));
    call.key(key("orders", "stock")).arg(token).arg("").arg(value);
    call.invoke_async(connection).await
}

/// Whether the script orders every pair of neighbours; `None` without a server.
fn neighbours_are_ordered(script: &str) -> Option<bool> {
    let server = redis_or_skip()?;
    let runtime = runtime();
    let mut store = runtime.block_on(RedisStore::open(server));
    let observer = store.observer.clone();
    let ordered = runner(cases(), 0).run(&neighbours(), |(first, second)| {
        runtime.block_on(async {
            shop_flush(&observer).await;
            let mut connection = observer.clone();
            prop_assert!(write(&mut connection, script, &first.to_string(), "1").await.is_ok());
            let outcome = write(&mut connection, script, &second.to_string(), "2").await;
            let stock: i64 = connection.get(key("orders", "stock")).await.unwrap();
            if second < first {
                let rejection = outcome.unwrap_err();
                prop_assert_eq!(
                    (rejection.code(), stock),
                    (Some("STALEFENCE"), 1),
                    "{} < {}",
                    second,
                    first
                );
            } else {
                prop_assert_eq!((outcome.is_ok(), stock), (true, 2), "{} >= {}", second, first);
            }
            Ok(())
        })
    });
    runtime.block_on(store.flush());
    Some(ordered.is_ok())
}

async fn shop_flush(connection: &MultiplexedConnection) {
    let _: () = ::redis::cmd("FLUSHDB").query_async(&mut connection.clone()).await.unwrap();
}

#[test]
fn tokens_are_compared_exactly() {
    let Some(ordered) = neighbours_are_ordered(KEY_LUA) else { return };
    assert!(ordered);
}

/// Control: a script that compares the texts treats 9 as larger than 10.
#[test]
fn comparing_texts_orders_tokens_wrongly() {
    let exact = "return tonumber(a) < tonumber(b)";
    assert!(KEY_LUA.contains(exact));
    let Some(ordered) = neighbours_are_ordered(&KEY_LUA.replace(exact, "return a < b")) else {
        return;
    };
    assert!(!ordered);
}

/// A mark must survive a restart.
#[test]
fn the_mark_survives_a_restart_of_redis() {
    let Some(server) = redis_or_skip() else { return };
    runtime().block_on(async {
        let mut store = RedisStore::open(server).await;
        let mut fenced = begin(&mut store.observer, "orders", FencingToken(34)).await.unwrap();
        fenced.set(&key("orders", "stock"), 99).await.unwrap();
        store.server.restart();
        let mut connection = connection(&mut store.server).await;
        let rejection = begin(&mut connection, "orders", FencingToken(33)).await.unwrap_err();
        assert_eq!(
            rejection.to_string(),
            "stale fencing token 33 for \"orders\": the newest is 34, from an unnamed holder; \
             another holder has the lock: stop, and acquire it again to continue"
        );
        let stock: i64 = begin(&mut connection, "orders", FencingToken(34))
            .await
            .unwrap()
            .get(&key("orders", "stock"))
            .await
            .unwrap();
        assert_eq!(stock, 99);
    });
}

#[test]
fn the_largest_mark_of_redis_is_found_among_other_keys() {
    let Some(server) = redis_or_skip() else { return };
    runtime().block_on(async {
        let mut store = RedisStore::open(server).await;
        let redis = &mut store.observer;
        assert_eq!(largest_mark(redis).await.unwrap(), None);
        for number in 1..3_000 {
            let _: () = redis.set(key(&format!("r{number}"), "fence"), number).await.unwrap();
        }
        let _: () = redis.set(key("orders", "stock"), 9_000).await.unwrap();
        let _: () = redis.set("fence", 9_000).await.unwrap();
        assert_eq!(largest_mark(redis).await.unwrap(), Some(FencingToken(2_999)));
        let _: () = redis.set(key("orders", "fence"), "text").await.unwrap();
        let rejection = largest_mark(redis).await.unwrap_err();
        assert!(matches!(rejection, FenceError::MissingToken { .. }), "{rejection}");
    });
}

/// A mark with other content, and arguments that are not numbers, are rejected without a change.
#[test]
fn the_script_rejects_values_that_are_not_numbers() {
    let Some(server) = redis_or_skip() else { return };
    runtime().block_on(async {
        let mut store = RedisStore::open(server).await;
        let redis = &mut store.observer;
        for token in [
            "",
            "0",
            "01",
            "-1",
            "1.0",
            "1e3",
            " 1",
            "x",
            "9007199254740992",
            "99999999999999999999999",
        ] {
            let rejection = write(redis, KEY_LUA, token, "1").await.unwrap_err();
            assert_eq!(rejection.code(), Some("NOFENCE"), "{token:?}");
        }
        let _: () = redis.set(key("orders", "fence"), "text").await.unwrap();
        assert_eq!(write(redis, KEY_LUA, "1", "1").await.unwrap_err().code(), Some("NOFENCE"));
        let stock: Option<i64> = redis.get(key("orders", "stock")).await.unwrap();
        assert_eq!(stock, None);
        assert!(KEY_LUA.starts_with(GUARD_LUA));
    });
}
