//! `ZooKeeper`: three nodes, as Debian packages it.
//!
//! Owns its configuration: every write synced, no limit of connections, no web page.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use super::process::{Launch, Lifetime, Server};
use super::ready::{Sign, serving};
use super::{Missing, ServerError, make_directory, port, program, system_error};

const MISSING: Missing = Missing { system: "ZooKeeper", package: "zookeeper default-jre-headless" };
const JAR: &str = "/usr/share/java/zookeeper.jar";
const LOGGER: &str = "/usr/share/java/slf4j-nop.jar";
const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
const VERSION: &str = "org.apache.zookeeper.version.VersionInfoMain";
const NODES: usize = 3;

pub(super) fn missing() -> Option<Missing> {
    (program("java", &[]).is_none() || !Path::new(JAR).is_file()).then_some(MISSING)
}

pub(super) fn version() -> String {
    let Some(java) = program("java", &[]) else { return String::new() };
    let said = Command::new(java).args(["-cp", &format!("{JAR}:{LOGGER}"), VERSION]).output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    said.unwrap_or_default().lines().next().unwrap_or("unknown").to_owned()
}

pub(super) async fn three(home: &Path, lifetime: Lifetime) -> Result<Vec<Server>, ServerError> {
    let clients = port::free::<NODES>()?;
    let peers = port::free::<{ 2 * NODES }>()?;
    let mut servers = Vec::new();
    for (at, address) in clients.into_iter().enumerate() {
        let directory = home.join((at + 1).to_string());
        let configuration = configure(&directory, at + 1, address, &peers)?;
        servers.push(launch(&directory, configuration, address, lifetime)?);
    }
    for server in &mut servers {
        serving(server, &Sign::Word("srvr", "Mode: ")).await?;
    }
    Ok(servers)
}

fn configure(
    directory: &Path,
    id: usize,
    address: SocketAddr,
    peers: &[SocketAddr],
) -> Result<PathBuf, ServerError> {
    let data = directory.join("data");
    make_directory(&data)?;
    let mut text = format!(
        "tickTime=1000\ninitLimit=20\nsyncLimit=10\nmaxClientCnxns=0\nadmin.enableServer=false\n\
         4lw.commands.whitelist=*\nclientPortAddress=127.0.0.1\nclientPort={}\ndataDir={}\n",
        address.port(),
        data.display()
    );
    for (at, pair) in peers.chunks(2).enumerate() {
        let ports: Vec<String> = pair.iter().map(|peer| peer.port().to_string()).collect();
        // A string takes everything.
        let _ = writeln!(text, "server.{}=127.0.0.1:{}", at + 1, ports.join(":"));
    }
    let file = directory.join("zoo.cfg");
    let write = |file: &Path, text: String| {
        std::fs::write(file, text).map_err(system_error(format!("write {}", file.display())))
    };
    write(&data.join("myid"), id.to_string())?;
    write(&file, text)?;
    Ok(file)
}

fn launch(
    directory: &Path,
    configuration: PathBuf,
    address: SocketAddr,
    lifetime: Lifetime,
) -> Result<Server, ServerError> {
    let program = program("java", &[]).ok_or(ServerError::Missing(MISSING))?;
    let options = ["-Xmx256m", "-XX:+UseSerialGC", "-Djava.awt.headless=true", "-cp"];
    let mut arguments: Vec<_> = options.map(Into::into).to_vec();
    arguments.extend([
        format!("{JAR}:{LOGGER}").into(),
        MAIN.into(),
        configuration.into_os_string(),
    ]);
    Launch {
        name: "zookeeper",
        program: &program,
        arguments,
        directory,
        address,
        user: None,
        lifetime,
        stop: Signal::SIGKILL,
    }
    .start()
}
