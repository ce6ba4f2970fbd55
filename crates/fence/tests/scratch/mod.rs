//! A real PostgreSQL server for tests, in a temporary directory and on a unix socket.
//!
//! Dropping it stops the server and removes its data, also after a panic or a kill of this process (see [`child_process`]). If
//! the caller is root, an unprivileged user runs the server. The server accepts at most 64 connections and does not
//! sync its disk, because the data is disposable.

pub(crate) mod child_process;

use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::{Gid, Uid, User};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use child_process::ChildProcess;

/// The variable with the directory of `postgres` and `initdb`, which is tried before all others.
const BIN_DIR: &str = "HOLDFAST_POSTGRES_BIN";
const START_DEADLINE: Duration = Duration::from_mins(1);
const RETRY_EVERY: Duration = Duration::from_millis(20);
/// The maximum length of a unix socket's path in bytes.
const SOCKET_PATH_MAX: usize = 107;

/// A script for `sh`: creates the data directory, then executes the server.
const LAUNCH: &str = r#"
"$0/initdb" --pgdata="$1/data" --auth=trust --username=postgres --encoding=UTF8 --locale=C \
    --no-sync --no-instructions >"$1/log" 2>&1 || exit 1
exec "$0/postgres" -D "$1/data" -k "$1" -h '' -c fsync=off -c synchronous_commit=off \
    -c full_page_writes=off -c max_connections=64 -c shared_buffers=16MB -c autovacuum=off >>"$1/log" 2>&1
"#;

/// A running server. Dropping it stops the server and removes its data.
pub(crate) struct Postgres {
    // Dropped in this order: first the server ends, then its directory goes.
    server: ChildProcess,
    dir: TempDir,
}

impl Postgres {
    /// Starts the server of [`bin_dir`] and waits until it accepts connections.
    pub(crate) async fn start(bin: &Path) -> Result<Self, String> {
        let user = server_user()?;
        let dir = make_dir(user).map_err(|error| format!("no temporary directory: {error}"))?;
        let socket_len = dir.path().as_os_str().len() + "/.s.PGSQL.5432".len();
        if socket_len > SOCKET_PATH_MAX {
            return Err(format!(
                "{} is too long for a unix socket: set TMPDIR",
                dir.path().display()
            ));
        }
        let arguments: [OsString; 4] = ["-c".into(), LAUNCH.into(), bin.into(), dir.path().into()];
        let (server, _) = ChildProcess::spawn("sh", &arguments, "INT", user, Stdio::null())
            .map_err(|error| format!("sh did not start: {error}"))?;
        let mut postgres = Self { server, dir };
        postgres.wait_until_ready().await?;
        Ok(postgres)
    }

    /// A connection to the database `postgres`; `name` is its `application_name`.
    pub(crate) async fn connect(&self, name: &str) -> Result<Client, tokio_postgres::Error> {
        connect(&self.url(), name).await
    }

    /// A connection string for other processes.
    pub(crate) fn url(&self) -> String {
        format!("host={} user=postgres dbname=postgres", self.dir.path().display())
    }

    /// Connects repeatedly until the server accepts, has ended, or the deadline has passed.
    async fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_DEADLINE;
        let mut retry = tokio::time::interval(RETRY_EVERY);
        loop {
            retry.tick().await;
            let Err(error) = self.connect("readiness").await else { return Ok(()) };
            if self.server.ended() || Instant::now() > deadline {
                return Err(format!("{error}\n{}", self.log()));
            }
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

/// Connects; the connection's driver ends with the client.
pub(crate) async fn connect(url: &str, name: &str) -> Result<Client, tokio_postgres::Error> {
    let mut config: tokio_postgres::Config = url.parse()?;
    let (client, connection) = config.application_name(name).connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The message for a machine without the server.
pub(crate) const MISSING: &str = "no PostgreSQL server found (looked in $HOLDFAST_POSTGRES_BIN, \
    `pg_config --bindir`, /usr/lib/postgresql/*/bin, /usr/local/bin, $PATH); \
    install it: apt-get install postgresql";

/// The directory with `postgres` and `initdb` of the newest version installed.
pub(crate) fn bin_dir() -> Option<PathBuf> {
    let named = std::env::var_os(BIN_DIR).map(PathBuf::from);
    let mut debian: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    debian.sort_by_key(|dir| std::cmp::Reverse(version(dir)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates: Vec<PathBuf> = named.into_iter().chain(pg_config()).collect();
    candidates.extend(debian);
    candidates.push("/usr/local/bin".into());
    candidates.extend(std::env::split_paths(&path));
    let complete = |dir: &Path| ["postgres", "initdb"].iter().all(|name| dir.join(name).is_file());
    candidates.into_iter().find(|dir| complete(dir))
}

/// `/usr/lib/postgresql/15/bin` is version 15.
fn version(dir: &Path) -> u32 {
    let name = dir.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).unwrap_or(0)
}

fn pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let dir = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(dir.trim()))
}

/// Returns the user for the server, which does not run as root: `postgres`, otherwise `nobody`.
fn server_user() -> Result<Option<(Uid, Gid)>, String> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let known = ["postgres", "nobody"].into_iter().find_map(|name| User::from_name(name).ok()?);
    match known {
        Some(user) => Ok(Some((user.uid, user.gid))),
        None => Err("PostgreSQL cannot run as root: create a user postgres or nobody".into()),
    }
}

fn make_dir(user: Option<(Uid, Gid)>) -> std::io::Result<TempDir> {
    let dir = tempfile::Builder::new().prefix("holdfast-pg-").tempdir()?;
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755))?;
    if let Some((uid, gid)) = user {
        chown(dir.path(), Some(uid.as_raw()), Some(gid.as_raw()))?;
    }
    Ok(dir)
}
