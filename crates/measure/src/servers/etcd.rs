//! etcd: three nodes. Every write is synced.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use super::newest::newest;
use super::process::{Lifetime, Server, ServerCommand};
use super::ready::{Readiness, wait_ready};
use super::{Missing, ServerError, make_directory, ports, program, version_of};

const MISSING: Missing = Missing { system: "etcd", package: "etcd-server" };
const NODES: usize = 3;
const READY: Readiness<'_> =
    Readiness::Reply { request: "GET /health HTTP/1.0\r\n\r\n", contains: r#""health":"true""# };

pub(super) fn missing() -> Option<Missing> {
    etcd().is_none().then_some(MISSING)
}

pub(super) fn version() -> String {
    version_of(etcd(), &["--version"])
}

fn etcd() -> Option<PathBuf> {
    newest("etcd").or_else(|| program("etcd", &[]))
}

pub(super) async fn three(home: &Path, lifetime: Lifetime) -> Result<Vec<Server>, ServerError> {
    let program = etcd().ok_or(ServerError::Missing(MISSING))?;
    let ports = ports::free::<{ 2 * NODES }>()?;
    let (clients, peers) = ports.split_at(NODES);
    let nodes = peers.iter().enumerate().map(|(at, peer)| format!("n{}=http://{peer}", at + 1));
    let cluster = nodes.collect::<Vec<_>>().join(",");
    let mut servers = Vec::new();
    for (at, (client, peer)) in clients.iter().zip(peers).enumerate() {
        let directory = home.join((at + 1).to_string());
        make_directory(&directory)?;
        let (client_url, peer_url) = (format!("http://{client}"), format!("http://{peer}"));
        let (name, data) = (format!("n{}", at + 1), directory.join("data").display().to_string());
        let arguments = [
            ["--name", &name],
            ["--data-dir", &data],
            ["--listen-client-urls", &client_url],
            ["--advertise-client-urls", &client_url],
            ["--listen-peer-urls", &peer_url],
            ["--initial-advertise-peer-urls", &peer_url],
            ["--initial-cluster", &cluster],
            ["--initial-cluster-state", "new"],
        ];
        let command = ServerCommand {
            name: "etcd",
            program: program.clone(),
            arguments: arguments.into_iter().flatten().map(Into::into).collect(),
            directory,
            address: *client,
            user: None,
            lifetime,
            stop: Signal::SIGKILL,
        };
        servers.push(command.start()?);
    }
    wait_ready(&mut servers, &READY).await?;
    Ok(servers)
}
