//! holdfast: nodes of the binary named by `HOLDFAST_BIN`, or of the binary beside this program.
//!
//! The configuration is the default, except for the addresses and the connections per address, as for ZooKeeper.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use super::process::{Lifetime, Server, ServerCommand};
use super::ready::{Readiness, wait_ready};
use super::{Missing, ServerError, make_directory, ports, system_error, version_of};

const MISSING: Missing = Missing {
    system: "holdfast, as HOLDFAST_BIN names it or beside this program,",
    package: "nothing; build it: cargo build -p holdfast",
};
/// The number of ports: HTTP, peers, ZooKeeper.
const PORTS: usize = 3;
const READY: Readiness<'_> = Readiness::Reply {
    request: "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    contains: "HTTP/1.1 200",
};

pub(super) fn missing() -> Option<Missing> {
    binary().is_none().then_some(MISSING)
}

pub(super) fn version() -> String {
    version_of(binary(), &["--version"])
}

pub(super) async fn cluster(
    home: &Path,
    nodes: usize,
    lifetime: Lifetime,
) -> Result<Vec<Server>, ServerError> {
    let program = binary().ok_or(ServerError::Missing(MISSING))?;
    let ports = ports::free_list(PORTS * nodes)?;
    let mut servers = Vec::new();
    for (at, addresses) in ports.chunks(PORTS).enumerate() {
        let directory = home.join((at + 1).to_string());
        let configuration = configure(&directory, at + 1, &ports)?;
        let Some(address) = addresses.first() else { continue };
        let command = ServerCommand {
            name: "holdfast",
            program: program.clone(),
            arguments: vec!["serve".into(), "--config".into(), configuration.into_os_string()],
            directory,
            address: *address,
            user: None,
            lifetime,
            stop: Signal::SIGKILL,
        };
        servers.push(command.start()?);
    }
    wait_ready(&mut servers, &READY).await?;
    Ok(servers)
}

/// Returns the ZooKeeper ports of the nodes, from their configuration.
pub fn zookeeper_addresses(servers: &[Server]) -> Result<Vec<SocketAddr>, ServerError> {
    let Some(server) = servers.first() else { return Ok(Vec::new()) };
    let file = server.directory().join("node.toml");
    let text = std::fs::read_to_string(&file);
    let text = text.map_err(system_error(format!("read {}", file.display())))?;
    let values = text.lines().filter_map(|line| line.strip_prefix("zookeeper = "));
    Ok(values.filter_map(|value| value.trim_matches('"').parse().ok()).collect())
}

fn configure(directory: &Path, node: usize, ports: &[SocketAddr]) -> Result<PathBuf, ServerError> {
    make_directory(directory)?;
    let data = directory.join("data").display().to_string();
    let mut text = format!(
        "cluster = \"comparison\"\nnode = {node}\ndata_dir = {data:?}\n\n[zookeeper]\nconnections_per_address_max = 10000\n"
    );
    for (at, addresses) in ports.chunks(PORTS).enumerate() {
        if let [http, peer, zookeeper] = addresses {
            let member = format!(
                "\n[[member]]\nid = {}\nhttp = \"{http}\"\npeer = \"{peer}\"\nzookeeper = \"{zookeeper}\"\n",
                at + 1
            );
            text.push_str(&member);
        }
    }
    let file = directory.join("node.toml");
    std::fs::write(&file, text).map_err(system_error(format!("write {}", file.display())))?;
    Ok(file)
}

/// Returns the program of `HOLDFAST_BIN`, or the one beside this program.
///
/// # Errors
/// There is none; the text says how to build it.
pub fn holdfast_program() -> Result<PathBuf, String> {
    binary().ok_or_else(|| {
        "there is no holdfast beside this program, nor where HOLDFAST_BIN names it: run cargo build --package holdfast"
            .to_owned()
    })
}

fn binary() -> Option<PathBuf> {
    let named = std::env::var_os("HOLDFAST_BIN").map(PathBuf::from);
    // A test binary is one directory deeper than the programs.
    let this = std::env::current_exe().unwrap_or_default();
    let beside = this.ancestors().skip(1).take(2).map(|directory| directory.join("holdfast"));
    named.into_iter().chain(beside).find(|path| path.is_file())
}
