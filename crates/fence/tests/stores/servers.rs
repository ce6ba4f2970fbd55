//! A real Redis or MariaDB for a test, in a temporary directory and on a unix socket.
//!
//! Dropping a server stops it and removes its data, also after a panic or a kill of this process (see `child_process`). Without
//! the program, a test is skipped or fails. The servers do not sync their disks, because the data is disposable.

use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::unistd::Uid;
use tempfile::TempDir;

use crate::child_process::ChildProcess;

const START_DEADLINE: Duration = Duration::from_mins(2);
const RETRY_EVERY: Duration = Duration::from_millis(20);
/// The directories of servers on Debian, searched after `$PATH`.
const SERVER_DIRS: [&str; 3] = ["/usr/sbin", "/usr/libexec", "/usr/local/sbin"];

/// `$0` is the directory. The server writes an append-only file, because the mark must survive a restart.
const REDIS: &str = r#"exec redis-server --port 0 --unixsocket "$0/socket" --dir "$0" --save '' \
    --appendonly yes --appendfsync no --daemonize no --databases 1 >"$0/log" 2>&1"#;

/// Creates the data directory, then executes the server. `$1` is the option with the user, if one is required. A server
/// that starts removes all temporary tables of its temporary directory, so each server has its own.
const MARIADB: &str = r#"PATH="$PATH:/usr/sbin:/usr/libexec:/usr/local/sbin"
export TMPDIR="$0"
[ -d "$0/data" ] || mariadb-install-db --no-defaults --datadir="$0/data" --skip-test-db $1 \
    --auth-root-authentication-method=normal >"$0/log" 2>&1 || exit 1
exec mariadbd --no-defaults --datadir="$0/data" --socket="$0/socket" --pid-file="$0/pid" --skip-networking $1 \
    --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=16M --innodb-log-file-size=8M \
    --skip-log-bin >>"$0/log" 2>&1"#;

/// A running server. Dropping it stops the server and removes its data.
pub(crate) struct Server {
    // Dropped in this order: first the server ends, then its directory goes.
    process: Option<ChildProcess>,
    dir: TempDir,
    script: &'static str,
    user: &'static str,
}

impl Server {
    fn new(script: &'static str) -> Self {
        let dir = tempfile::Builder::new().prefix("holdfast-store-").tempdir().unwrap();
        let user = if Uid::effective().is_root() { "--user=root" } else { "" };
        let mut server = Self { process: None, dir, script, user };
        server.start();
        server
    }

    fn start(&mut self) {
        let arguments: [OsString; 4] =
            ["-c".into(), self.script.into(), self.dir.path().into(), self.user.into()];
        let spawned = ChildProcess::spawn("sh", &arguments, "TERM", None, Stdio::null());
        self.process = Some(spawned.unwrap().0);
    }

    /// The path of the server's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// Shuts the server down and starts it again on the same data.
    pub(crate) fn restart(&mut self) {
        drop(self.process.take());
        self.start();
    }

    /// Connects repeatedly until the server accepts. Panics if it has ended or the deadline has passed.
    pub(crate) async fn connect<T, E: std::fmt::Display, F: Future<Output = Result<T, E>>>(
        &mut self,
        mut connect: impl FnMut(PathBuf) -> F,
    ) -> T {
        let deadline = Instant::now() + START_DEADLINE;
        let mut retry = tokio::time::interval(RETRY_EVERY);
        loop {
            retry.tick().await;
            match connect(self.socket()).await {
                Ok(connection) => return connection,
                Err(error) => {
                    let over = Instant::now() > deadline || self.process.as_mut().unwrap().ended();
                    assert!(!over, "{error}\n{}", self.log());
                }
            }
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

/// Starts Redis; `None`, with a line on stderr, if it is not installed.
pub(crate) fn redis_or_skip() -> Option<Server> {
    installed("redis-server", "HOLDFAST_REQUIRE_REDIS").then(|| Server::new(REDIS))
}

/// Starts MariaDB; `None`, with a line on stderr, if it is not installed.
pub(crate) fn mariadb_or_skip() -> Option<Server> {
    installed("mariadbd", "HOLDFAST_REQUIRE_MARIADB").then(|| Server::new(MARIADB))
}

fn installed(program: &str, require: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(SERVER_DIRS.map(PathBuf::from));
    let found = places.any(|place: PathBuf| place.join(Path::new(program)).is_file());
    let package = if program == "mariadbd" { "mariadb-server" } else { program };
    let missing = format!(
        "no {program} found (looked in $PATH and {SERVER_DIRS:?}); install it: apt-get install {package}"
    );
    if !found {
        assert!(std::env::var_os(require).is_none(), "{missing}");
        eprintln!("SKIPPED: {missing}");
    }
    found
}
