//! PostgreSQL: one server that trusts every client on its loopback port, under an unprivileged user.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice::from_mut;

use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, User};

use super::process::{Lifetime, Server, ServerCommand};
use super::ready::{Readiness, wait_ready};
use super::{Durability, Missing, ServerError, ports, prepare, program, system_error, version_of};

const MISSING: Missing = Missing { system: "PostgreSQL", package: "postgresql" };
/// The variable with the directory of `postgres` and `initdb`, which takes precedence.
const BIN_DIRECTORY: &str = "HOLDFAST_POSTGRES_BIN";
const DEBIAN: &str = "/usr/lib/postgresql";

pub(super) fn missing() -> Option<Missing> {
    bin_directory().is_none().then_some(MISSING)
}

pub(super) fn version() -> String {
    version_of(bin_directory().map(|bin| bin.join("postgres")), &["--version"])
}

pub(super) async fn start(
    home: &Path,
    durability: Durability,
    lifetime: Lifetime,
) -> Result<Server, ServerError> {
    let bin = bin_directory().ok_or(ServerError::Missing(MISSING))?;
    let user = server_user()?;
    if let Some((uid, gid)) = user {
        chown(home, Some(uid.as_raw()), Some(gid.as_raw())).map_err(system_error("chown"))?;
    }
    let data = home.join("data");
    let mut initdb = Command::new(bin.join("initdb"));
    initdb.arg("--pgdata").arg(&data).args(["--auth=trust", "--username=postgres", "--no-sync"]);
    initdb.args(["--encoding=UTF8", "--locale=C", "--no-instructions"]).current_dir(home);
    if let Some((uid, gid)) = user {
        initdb.uid(uid.as_raw()).gid(gid.as_raw());
    }
    prepare("initdb", &mut initdb)?;
    let [address] = ports::free::<1>()?;
    let sync = if durability == Durability::Synced { "on" } else { "off" };
    let settings = [
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={}", address.port()),
        format!("fsync={sync}"),
        format!("synchronous_commit={sync}"),
        format!("full_page_writes={sync}"),
        "max_connections=300".to_owned(),
    ];
    let mut arguments = vec!["-D".into(), data.into_os_string(), "-k".into(), String::new().into()];
    arguments.extend(settings.into_iter().flat_map(|setting| ["-c".into(), setting.into()]));
    let command = ServerCommand {
        name: "postgres",
        program: bin.join("postgres"),
        arguments,
        directory: home.to_owned(),
        address,
        user,
        lifetime,
        stop: Signal::SIGQUIT,
    };
    let mut server = command.start()?;
    let ready = Readiness::Log("database system is ready to accept connections");
    wait_ready(from_mut(&mut server), &ready).await?;
    Ok(server)
}

/// Returns the directory with `postgres` and `initdb` of the newest version.
fn bin_directory() -> Option<PathBuf> {
    let named = std::env::var_os(BIN_DIRECTORY).map(PathBuf::from);
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let mut debian: Vec<PathBuf> = versions.map(|version| version.path()).collect();
    let major = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    debian.sort_by_key(|path| std::cmp::Reverse(major(path)));
    let on_path = program("initdb", &["/usr/local/bin"]);
    let on_path = on_path.and_then(|initdb| initdb.parent().map(Path::to_owned));
    let complete =
        |bin: &PathBuf| ["postgres", "initdb"].iter().all(|name| bin.join(name).is_file());
    let debian = debian.into_iter().map(|version| version.join("bin"));
    named.into_iter().chain(debian).chain(on_path).find(complete)
}

/// Returns the user of the server. It refuses to run as root: then the user `postgres`, or else `nobody`, runs it.
fn server_user() -> Result<Option<(Uid, Gid)>, ServerError> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let found = ["postgres", "nobody"].into_iter().find_map(|name| User::from_name(name).ok()?);
    let none = || ServerError::NotReady {
        name: "postgres".to_owned(),
        why: "run as root, and there is no user postgres or nobody to run it".to_owned(),
    };
    found.map(|user| Some((user.uid, user.gid))).ok_or_else(none)
}
