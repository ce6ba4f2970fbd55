//! `MariaDB`: one server that asks nobody for a password on its loopback port.
//!
//! Owns making its data directory, and its settings.

use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use super::process::{Launch, Lifetime, Server};
use super::ready::{Sign, serving};
use super::{Durable, Missing, ServerError, first_line, port, program, system_error};

const MISSING: Missing = Missing { system: "MariaDB", package: "mariadb-server" };
const PLACES: [&str; 3] = ["/usr/sbin", "/usr/bin", "/usr/libexec"];

pub(super) fn missing() -> Option<Missing> {
    let needed = ["mariadbd", "mariadb-install-db"];
    needed.iter().any(|name| program(name, &PLACES).is_none()).then_some(MISSING)
}

pub(super) fn version() -> String {
    program("mariadbd", &PLACES).map_or_else(String::new, |server| first_line(&server, "--version"))
}

pub(super) async fn start(
    home: &Path,
    durable: Durable,
    lifetime: Lifetime,
) -> Result<Server, ServerError> {
    let data = home.join("data");
    make_data(&data)?;
    let program = program("mariadbd", &PLACES).ok_or(ServerError::Missing(MISSING))?;
    let [address] = port::free::<1>()?;
    let sync = if durable == Durable::Synced { "1" } else { "0" };
    let mut arguments = vec!["--no-defaults".to_owned()];
    arguments.push(format!("--datadir={}", data.display()));
    arguments.push(format!("--socket={}", home.join("socket").display()));
    arguments.push(format!("--port={}", address.port()));
    arguments.push(format!("--innodb-flush-log-at-trx-commit={sync}"));
    let fixed = ["--bind-address=127.0.0.1", "--skip-grant-tables", "--max-connections=300"];
    arguments.extend(fixed.map(str::to_owned));
    if nix::unistd::Uid::effective().is_root() {
        arguments.push("--user=root".to_owned());
    }
    let launch = Launch {
        name: "mariadbd",
        program: &program,
        arguments: arguments.into_iter().map(Into::into).collect(),
        directory: home,
        address,
        user: None,
        lifetime,
        stop: Signal::SIGKILL,
    };
    let mut server = launch.start()?;
    serving(&mut server, &Sign::Log("ready for connections")).await?;
    Ok(server)
}

fn make_data(data: &Path) -> Result<(), ServerError> {
    let program = program("mariadb-install-db", &PLACES).ok_or(ServerError::Missing(MISSING))?;
    let mut install = Command::new(program);
    install.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
    install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    if nix::unistd::Uid::effective().is_root() {
        install.arg("--user=root");
    }
    let made = install.stdin(Stdio::null()).output().map_err(system_error("run install-db"))?;
    if made.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&made.stderr).into_owned();
    Err(ServerError::Broken { name: "mariadb-install-db".to_owned(), why })
}
