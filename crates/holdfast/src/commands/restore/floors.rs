//! The stores whose fence marks the tokens of a restored cluster must exceed.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use holdfast_cli::arguments::text_or_file;
use holdfast_cli::exit::CommandFailure;
use holdfast_fence::{FenceError, FencingToken};
use rusqlite::OpenFlags;
use serde::Serialize;
use tokio_postgres::NoTls;

/// The time limit for one store.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A store with fence marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FenceStore {
    Postgres(String),
    Redis(String),
    Sqlite(PathBuf),
}

/// The value of `--floor-from`: the URL of a store, or `@FILE` with the file that has it.
#[derive(Clone, Debug)]
pub(super) struct FloorSource {
    pub(super) store: FenceStore,
    /// With the `@`.
    file: Option<String>,
}

/// The largest mark of a store.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FenceMark {
    /// Without the user and the password.
    store: String,
    pub(super) token: u64,
}

impl FromStr for FloorSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let store = text_or_file(text)?.parse::<FenceStore>()?;
        Ok(Self { store, file: text.starts_with('@').then(|| text.to_owned()) })
    }
}

/// As given, but without a user and a password.
impl fmt::Display for FloorSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => f.write_str(file),
            None => write!(f, "{}", self.store),
        }
    }
}

impl FromStr for FenceStore {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Ok(Self::Postgres(text.to_owned()))
            }
            Some(("redis" | "redis+unix", rest)) if rest.starts_with("//") => {
                Ok(Self::Redis(text.to_owned()))
            }
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            Some(_) | None => Err("write postgres://…, redis://… or sqlite:FILE".to_owned()),
        }
    }
}

/// Without the user and the password.
impl fmt::Display for FenceStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Postgres(url) | Self::Redis(url) => f.write_str(&without_user(url)),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}

impl fmt::Display for FenceMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.token, self.store)
    }
}

fn without_user(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    // A password may also be a parameter.
    let (store, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    if parameters.contains('@') {
        // The password may have the '?', or a parameter the '@'.
        return format!("{scheme}://…");
    }
    // A password may have any other character, too.
    let store = store.rsplit_once('@').map_or(store, |(_, store)| store);
    format!("{scheme}://{store}")
}

impl FenceStore {
    /// # Errors
    /// Exit code 1 if the store cannot be read or has no mark: a restore then knows no safe floor.
    pub(super) async fn read(&self) -> Result<FenceMark, CommandFailure> {
        let failed = |reason: &dyn fmt::Display| {
            CommandFailure::failed(format!(
                "cannot read the fence marks of {self}: {reason}; for marks that only you can read, such as a column of your table, \
                 give their maximum to --token-floor instead"
            ))
        };
        let read = tokio::time::timeout(TIMEOUT, self.largest_mark()).await;
        let mark = read.map_err(|_| failed(&"no answer in time"))?;
        let mark = mark.map_err(|error| failed(&error))?;
        let FencingToken(token) = mark.ok_or_else(|| failed(&"it has none"))?;
        Ok(FenceMark { store: self.to_string(), token })
    }

    async fn largest_mark(&self) -> Result<Option<FencingToken>, FenceError> {
        match self {
            Self::Postgres(url) => {
                let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
                let connection = tokio::spawn(connection);
                let mark = holdfast_fence::postgres::largest_mark(&client).await;
                connection.abort();
                mark
            }
            Self::Redis(url) => {
                let store = |error| FenceError::Store(Box::new(error));
                let client = redis::Client::open(url.as_str()).map_err(store)?;
                let mut connection =
                    client.get_multiplexed_async_connection().await.map_err(store)?;
                holdfast_fence::redis::largest_mark(&mut connection).await
            }
            Self::Sqlite(path) => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
                let connection = rusqlite::Connection::open_with_flags(path, flags)?;
                holdfast_fence::sqlite::largest_mark(&connection)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_store_can_be_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("url");
        std::fs::write(&path, "postgres://me:secret@db/app\n").unwrap();
        let given = format!("@{}", path.display());
        let source: FloorSource = given.parse().unwrap();
        assert_eq!(source.store, FenceStore::Postgres("postgres://me:secret@db/app".to_owned()));
        assert_eq!(source.to_string(), given);
        let error = "@/nosuch".parse::<FloorSource>().unwrap_err();
        assert!(error.starts_with("/nosuch: "), "{error}");
    }

    #[test]
    fn a_store_is_named_without_its_secrets() {
        let shown = |text: &str| text.parse::<FenceStore>().map(|store| store.to_string());
        assert_eq!(
            shown("postgres://me:secret@db:5432/app?password=x"),
            Ok("postgres://db:5432/app".to_owned())
        );
        assert_eq!(shown("redis://:secret@cache/0"), Ok("redis://cache/0".to_owned()));
        for password in ["se/cret", "se/cr@et", "/se#cret", "se:cret", "@se/cret/"] {
            let url = format!("postgres://me:{password}@db/app?sslmode=disable");
            assert_eq!(shown(&url), Ok("postgres://db/app".to_owned()), "{url}");
        }
        for url in [
            "postgres://me:se?cret@db/app",
            "postgres://me:se@cr?et@db",
            "postgres://db/app?user=a@b&password=cret",
        ] {
            assert_eq!(shown(url), Ok("postgres://…".to_owned()), "{url}");
        }
        assert_eq!(shown("sqlite:app.db"), Ok("sqlite:app.db".to_owned()));
        for other in ["app.db", "mysql://db", "sqlite:", "postgres:me:secret@db"] {
            assert!(shown(other).unwrap_err().contains("sqlite:FILE"), "{other}");
        }
    }
}
