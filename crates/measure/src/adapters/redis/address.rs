//! The address of a Redis: a server, or the master of a group that Sentinel watches.
//!
//! `redis://[:PASSWORD@]HOST:PORT` names a server. `sentinel://[:PASSWORD@]HOST:PORT,HOST:PORT/NAME` names a group by its
//! sentinels, which are asked in turn at each connection attempt; the password is the one of the group's servers.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, cmd};

use crate::LockError;

const SERVER: &str = "redis://";
const GROUP: &str = "sentinel://";
const EXPECTED: &str =
    "write redis://HOST:PORT for a server, or sentinel://HOST:PORT,HOST:PORT/NAME for a group";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisAddress {
    /// A URL of the driver.
    Server(String),
    Group {
        /// With the `@` at its end; empty without a password.
        credentials: String,
        sentinels: Vec<String>,
        name: String,
    },
}

impl FromStr for RedisAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{}` {why}: {EXPECTED}", masked(text));
        if let Some(group) = text.strip_prefix(GROUP) {
            let (hosts, name) = group.split_once('/').ok_or_else(|| wrong("has no group"))?;
            let at = hosts.rfind('@').map_or(0, |at| at + 1);
            let (credentials, hosts) = hosts.split_at(at);
            let sentinels: Vec<String> = hosts.split(',').map(str::to_owned).collect();
            for sentinel in &sentinels {
                server(&format!("{SERVER}{sentinel}")).map_err(|why| wrong(&why))?;
            }
            if name.is_empty() || name.contains('/') {
                return Err(wrong("has no group"));
            }
            let (credentials, name) = (credentials.to_owned(), name.to_owned());
            return Ok(Self::Group { credentials, sentinels, name });
        }
        server(text).map_err(|why| wrong(&why))?;
        Ok(Self::Server(text.to_owned()))
    }
}

/// Checks the URL of a server: the driver would use a default for a missing port.
fn server(url: &str) -> Result<(), String> {
    let rest = url.strip_prefix(SERVER).ok_or("is neither a server nor a group")?;
    let host = rest.rsplit('@').next().unwrap_or_default().split('/').next().unwrap_or_default();
    let port = host.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    port.and_then(|(_, port)| port.parse::<u16>().ok()).ok_or("has no host with a port")?;
    Client::open(url).map(drop).map_err(|error| format!("is no address ({error})"))
}

/// The addresses of a list; a comma within a group separates its sentinels.
pub fn addresses(list: &str) -> Result<Vec<RedisAddress>, String> {
    let mut pieces: Vec<String> = Vec::new();
    for piece in list.split(',') {
        match pieces.last_mut() {
            Some(group) if group.starts_with(GROUP) && !piece.contains("://") => {
                group.push(',');
                group.push_str(piece);
            }
            Some(_) | None => pieces.push(piece.trim().to_owned()),
        }
    }
    pieces.iter().map(|piece| piece.parse()).collect()
}

/// Replaces the credentials of each URL in a text.
pub(crate) fn masked(text: &str) -> String {
    let mut pieces = text.split("://");
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let host = piece.split('/').next().unwrap_or_default();
        let at = host.rfind('@').map_or(0, |at| at + 1);
        shown.push_str(if at > 0 { "://***@" } else { "://" });
        shown.push_str(piece.get(at..).unwrap_or_default());
    }
    shown
}

/// As text that can be parsed again, with the credentials.
impl fmt::Display for RedisAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(url) => formatter.write_str(url),
            Self::Group { credentials, sentinels, name } => {
                write!(formatter, "{GROUP}{credentials}{}/{name}", sentinels.join(","))
            }
        }
    }
}

impl RedisAddress {
    /// Returns the URL of the server, or of the group's current master.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] if no sentinel names a master.
    pub(super) async fn url(&self, timeout: Duration) -> Result<String, LockError> {
        let (credentials, sentinels, name) = match self {
            Self::Server(url) => return Ok(url.clone()),
            Self::Group { credentials, sentinels, name } => (credentials, sentinels, name),
        };
        let mut last = String::new();
        for sentinel in sentinels {
            match master(sentinel, name, timeout).await {
                Ok(Some((host, port))) => return Ok(format!("{SERVER}{credentials}{host}:{port}")),
                Ok(None) => last = format!("{sentinel} watches no group `{name}`"),
                Err(error) => last = format!("{sentinel}: {error}"),
            }
        }
        Err(LockError::Unreachable(format!("no sentinel names a master: {last}")))
    }
}

async fn master(
    sentinel: &str,
    name: &str,
    timeout: Duration,
) -> Result<Option<(String, u16)>, LockError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(timeout))
        .set_response_timeout(Some(timeout));
    let client = Client::open(format!("{SERVER}{sentinel}"))?;
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    let mut ask = cmd("SENTINEL");
    ask.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    Ok(ask.query_async(&mut connection).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_within_a_group_separates_its_sentinels() {
        let group = |hosts: &[&str]| RedisAddress::Group {
            credentials: ":secret@".to_owned(),
            sentinels: hosts.iter().map(|host| (*host).to_owned()).collect(),
            name: "mymaster".to_owned(),
        };
        let list = "redis://a:1,sentinel://:secret@b:2,c:3/mymaster,redis://:x@d:4/0";
        let found = addresses(list).unwrap();
        let server = |url: &str| RedisAddress::Server(url.to_owned());
        assert_eq!(
            found,
            [server("redis://a:1"), group(&["b:2", "c:3"]), server("redis://:x@d:4/0")]
        );
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown.join(","), list);
        assert_eq!(masked(list), "redis://a:1,sentinel://***@b:2,c:3/mymaster,redis://***@d:4/0");
    }

    #[test]
    fn an_address_that_is_none_is_an_error_that_says_what_to_write() {
        for (list, word) in [
            ("localhost:6379", "is neither a server nor a group"),
            ("http://a:1", "is neither"),
            ("rediss://a:1", "is neither"),
            ("redis://a", "has no host with a port"),
            ("redis://:1", "has no host with a port"),
            ("redis://a:1,", "is neither"),
            ("redis://a:70000", "has no host with a port"),
            ("sentinel://a:1", "has no group"),
            ("sentinel://a:1,b:2/", "has no group"),
            ("sentinel://a/x", "has no host with a port"),
            ("sentinel://:pw@a:1,b:2", "`sentinel://***@a:1,b:2` has no group"),
        ] {
            let error = addresses(list).unwrap_err();
            assert!(error.contains(word) && error.contains("write redis://HOST:PORT"), "{error}");
        }
    }
}
