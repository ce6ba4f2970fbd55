//! holdfast: three nodes of the binary that `HOLDFAST_BIN` names, or of the one beside this program.
//!
//! Owns their configuration: what a user gets who changes nothing but addresses.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use super::process::{Launch, Lifetime, Server};
use super::ready::{Sign, serving};
use super::{Missing, ServerError, first_line, make_directory, port, system_error};

const MISSING: Missing = Missing {
    system: "holdfast, where HOLDFAST_BIN says or beside this program,",
    package: "nothing; build it: cargo build -p holdfast",
};
const BINARY: &str = "HOLDFAST_BIN";
const NODES: usize = 3;
const READY: &str = "GET /readyz HTTP/1.1\r\nHost: holdfast\r\nConnection: close\r\n\r\n";

pub(super) fn missing() -> Option<Missing> {
    binary().is_none().then_some(MISSING)
}

pub(super) fn version() -> String {
    binary().map_or_else(String::new, |holdfast| first_line(&holdfast, "--version"))
}

/// Three for each node: HTTP, peers, `ZooKeeper`.
pub(super) async fn three(home: &Path, lifetime: Lifetime) -> Result<Vec<Server>, ServerError> {
    let program = binary().ok_or(ServerError::Missing(MISSING))?;
    let ports = port::free::<{ 3 * NODES }>()?;
    let mut servers = Vec::new();
    for (at, addresses) in ports.chunks(3).enumerate() {
        let directory = home.join((at + 1).to_string());
        let configuration = configure(&directory, at + 1, &ports)?;
        let Some(address) = addresses.first() else { continue };
        let launch = Launch {
            name: "holdfast",
            program: &program,
            arguments: vec!["serve".into(), "--config".into(), configuration.into_os_string()],
            directory: &directory,
            address: *address,
            user: None,
            lifetime,
            stop: Signal::SIGKILL,
        };
        servers.push(launch.start()?);
    }
    for server in &mut servers {
        serving(server, &Sign::Word(READY, "HTTP/1.1 200")).await?;
    }
    Ok(servers)
}

/// Where the nodes answer `ZooKeeper` clients, as their configurations say.
pub(super) fn zookeeper_doors(servers: &[Server]) -> Result<Vec<SocketAddr>, ServerError> {
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
    // As many connections from one address as `ZooKeeper` is given.
    let mut text = format!(
        "cluster = \"clients\"\nnode = {node}\ndata_dir = {data:?}\n\n[zookeeper]\nconnections_per_address_max = 10000\n"
    );
    for (at, addresses) in ports.chunks(3).enumerate() {
        write_member(&mut text, at + 1, addresses);
    }
    let file = directory.join("node.toml");
    std::fs::write(&file, text).map_err(system_error(format!("write {}", file.display())))?;
    Ok(file)
}

fn write_member(text: &mut String, id: usize, addresses: &[SocketAddr]) {
    if let [http, peer, zookeeper] = addresses {
        // A string takes everything.
        let _ = write!(
            text,
            "\n[[member]]\nid = {id}\nhttp = \"{http}\"\npeer = \"{peer}\"\nzookeeper = \"{zookeeper}\"\n"
        );
    }
}

fn binary() -> Option<PathBuf> {
    let named = std::env::var_os(BINARY).map(PathBuf::from);
    // A test lies one directory deeper than the programs.
    let this = std::env::current_exe().unwrap_or_default();
    let beside = this.ancestors().skip(1).take(2).map(|place| place.join("holdfast"));
    named.into_iter().chain(beside).find(|path| path.is_file())
}
