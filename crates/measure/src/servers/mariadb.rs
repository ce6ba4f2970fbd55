//! MariaDB: one server without passwords on its loopback port.

use std::path::Path;
use std::process::Command;
use std::slice::from_mut;

use nix::sys::signal::Signal;
use nix::unistd::Uid;

use super::process::{Lifetime, Server, ServerCommand};
use super::ready::{Readiness, wait_ready};
use super::{Durability, Missing, ServerError, ports, prepare, program, version_of};

const MISSING: Missing = Missing { system: "MariaDB", package: "mariadb-server" };
const DIRECTORIES: [&str; 3] = ["/usr/sbin", "/usr/bin", "/usr/libexec"];

pub(super) fn missing() -> Option<Missing> {
    let needed = ["mariadbd", "mariadb-install-db"];
    needed.iter().any(|name| program(name, &DIRECTORIES).is_none()).then_some(MISSING)
}

pub(super) fn version() -> String {
    version_of(program("mariadbd", &DIRECTORIES), &["--version"])
}

pub(super) async fn start(
    home: &Path,
    durability: Durability,
    lifetime: Lifetime,
) -> Result<Server, ServerError> {
    let find = |name| program(name, &DIRECTORIES).ok_or(ServerError::Missing(MISSING));
    let datadir = format!("--datadir={}", home.join("data").display());
    // A starting server deletes the temporary tables in this directory, also those of another server.
    let tmpdir = format!("--tmpdir={}", home.display());
    let user = Uid::effective().is_root().then_some("--user=root");
    let mut install = Command::new(find("mariadb-install-db")?);
    install.args(["--no-defaults", &datadir, &tmpdir]).args(user);
    install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    prepare("mariadb-install-db", &mut install)?;
    let [address] = ports::free::<1>()?;
    let sync = if durability == Durability::Synced { "1" } else { "0" };
    let mut arguments = vec![
        "--no-defaults".to_owned(),
        datadir,
        tmpdir,
        format!("--socket={}", home.join("socket").display()),
        format!("--port={}", address.port()),
        format!("--innodb-flush-log-at-trx-commit={sync}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--skip-grant-tables".to_owned(),
        "--max-connections=300".to_owned(),
    ];
    arguments.extend(user.map(str::to_owned));
    let command = ServerCommand {
        name: "mariadbd",
        program: find("mariadbd")?,
        arguments: arguments.into_iter().map(Into::into).collect(),
        directory: home.to_owned(),
        address,
        user: None,
        lifetime,
        stop: Signal::SIGKILL,
    };
    let mut server = command.start()?;
    wait_ready(from_mut(&mut server), &Readiness::Log("ready for connections")).await?;
    Ok(server)
}
