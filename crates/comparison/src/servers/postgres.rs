//! `PostgreSQL`: one server that trusts everybody on its loopback port.
//!
//! Owns finding its programs, making its data directory, and the unprivileged user it insists on.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, User};

use super::process::{Launch, Lifetime, Server};
use super::ready::{Sign, serving};
use super::{Durable, Missing, ServerError, first_line, port, program, system_error};

const MISSING: Missing = Missing { system: "PostgreSQL", package: "postgresql" };
/// Names a directory with `postgres` and `initdb`, tried before all others.
const BIN_DIR: &str = "HOLDFAST_POSTGRES_BIN";
const DEBIAN: &str = "/usr/lib/postgresql";

pub(super) fn missing() -> Option<Missing> {
    bin_dir().is_none().then_some(MISSING)
}

pub(super) fn version() -> String {
    bin_dir().map_or_else(String::new, |bin| first_line(&bin.join("postgres"), "--version"))
}

pub(super) async fn start(
    home: &Path,
    durable: Durable,
    lifetime: Lifetime,
) -> Result<Server, ServerError> {
    let bin = bin_dir().ok_or(ServerError::Missing(MISSING))?;
    let user = server_user()?;
    if let Some((uid, gid)) = user {
        chown(home, Some(uid.as_raw()), Some(gid.as_raw())).map_err(system_error("chown"))?;
    }
    let data = home.join("data");
    make_data(&bin, &data, home, user)?;
    let [address] = port::free::<1>()?;
    let sync = if durable == Durable::Synced { "on" } else { "off" };
    let mut arguments = vec!["-D".into(), data.into_os_string(), "-k".into(), String::new().into()];
    let settings = [
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={}", address.port()),
        format!("fsync={sync}"),
        format!("synchronous_commit={sync}"),
        format!("full_page_writes={sync}"),
        "max_connections=300".to_owned(),
    ];
    arguments.extend(settings.into_iter().flat_map(|setting| ["-c".into(), setting.into()]));
    let program = bin.join("postgres");
    let launch = Launch {
        name: "postgres",
        program: &program,
        arguments,
        directory: home,
        address,
        user,
        lifetime,
        stop: Signal::SIGQUIT,
    };
    let mut server = launch.start()?;
    serving(&mut server, &Sign::Log("database system is ready to accept connections")).await?;
    Ok(server)
}

fn make_data(
    bin: &Path,
    data: &Path,
    home: &Path,
    user: Option<(Uid, Gid)>,
) -> Result<(), ServerError> {
    let mut initdb = Command::new(bin.join("initdb"));
    initdb.arg("--pgdata").arg(data).args(["--auth=trust", "--username=postgres", "--no-sync"]);
    initdb.args(["--encoding=UTF8", "--locale=C", "--no-instructions"]).current_dir(home);
    if let Some((uid, gid)) = user {
        initdb.uid(uid.as_raw()).gid(gid.as_raw());
    }
    let made = initdb.stdin(Stdio::null()).output().map_err(system_error("run initdb"))?;
    if made.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&made.stderr).into_owned();
    Err(ServerError::Broken { name: "initdb".to_owned(), why })
}

/// The directory with `postgres` and `initdb` of the newest version installed.
fn bin_dir() -> Option<PathBuf> {
    let named = std::env::var_os(BIN_DIR).map(PathBuf::from);
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let mut debian: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    debian.sort_by_key(|bin| std::cmp::Reverse(major(bin)));
    let on_path = program("initdb", &["/usr/local/bin"]);
    let on_path = on_path.and_then(|initdb| initdb.parent().map(Path::to_owned));
    let complete =
        |bin: &PathBuf| ["postgres", "initdb"].iter().all(|name| bin.join(name).is_file());
    named.into_iter().chain(debian).chain(on_path).find(complete)
}

/// `/usr/lib/postgresql/15/bin` is version 15.
fn major(bin: &Path) -> u32 {
    let name = bin.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).unwrap_or(0)
}

/// The server refuses to run as root: then `postgres`, or else `nobody`, runs it.
fn server_user() -> Result<Option<(Uid, Gid)>, ServerError> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let known = ["postgres", "nobody"].into_iter().find_map(|name| User::from_name(name).ok()?);
    let nobody = || ServerError::Broken {
        name: "postgres".to_owned(),
        why: "run as root, and there is neither a user postgres nor nobody to run it".to_owned(),
    };
    known.map(|user| Some((user.uid, user.gid))).ok_or_else(nobody)
}
