//! Redis servers that somebody else runs: they are checked before a run, and described in its rows.

use redis::cmd;

use crate::LockError;
use crate::adapters::redis::{RedisConnection, masked};

/// What given servers say about themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenRedis {
    pub count: u32,
    pub version: String,
    pub durability: String,
}

impl GivenRedis {
    /// Calls each server, or the master of each group.
    ///
    /// # Errors
    /// A server that does not reply or is a replica, with what to do.
    pub async fn of(urls: &[String]) -> Result<Self, String> {
        let (mut version, mut durability) = (String::new(), String::new());
        for url in urls {
            let failed = |what: &str| format!("--redis: {}: {what}", masked(url));
            let unreachable = |error: LockError| {
                failed(&format!("{error}; start the server, or correct its address and password"))
            };
            let connection = RedisConnection::open(url).await.map_err(unreachable)?;
            let info: String = connection.query(&cmd("INFO")).await.map_err(unreachable)?;
            if field(&info, "role") != Some("master") {
                return Err(failed("it is no master; name its master, or the group's Sentinel"));
            }
            if version.is_empty() {
                let number = field(&info, "redis_version").unwrap_or("unknown");
                version = format!("Redis {number}, not started by this tool");
                durability = durability_of(&connection).await;
            }
        }
        let count = u32::try_from(urls.len()).unwrap_or(u32::MAX);
        Ok(Self { count, version, durability })
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The settings of the append-only file; a server may not allow to read them.
async fn durability_of(connection: &RedisConnection) -> String {
    let mut get = cmd("CONFIG");
    let settings: Result<Vec<(String, String)>, _> =
        connection.query(get.arg("GET").arg("append*")).await;
    let settings = settings.unwrap_or_default();
    let value =
        |name: &str| settings.iter().find(|(found, _)| found == name).map(|(_, value)| value);
    match (value("appendonly"), value("appendfsync")) {
        (Some(only), Some(sync)) => format!("appendonly {only}, appendfsync {sync}"),
        _ => "unknown: the server does not show its settings".to_owned(),
    }
}
