//! ZooKeeper: three nodes, as packaged by Debian or newer. Every write is synced; connections have no limit.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use super::newest::newest;
use super::process::{Lifetime, Server, ServerCommand};
use super::ready::{Readiness, wait_ready};
use super::{Missing, ServerError, make_directory, ports, program, system_error, version_of};

const MISSING: Missing = Missing { system: "ZooKeeper", package: "zookeeper default-jre-headless" };
const JAR: &str = "/usr/share/java/zookeeper.jar";
const LOGGING_JAR: &str = "/usr/share/java/slf4j-nop.jar";
/// The directory of jars among the newest servers.
const JARS: &str = "zookeeper";
const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
const VERSION: &str = "org.apache.zookeeper.version.VersionInfoMain";
const NODES: usize = 3;

pub(super) fn missing() -> Option<Missing> {
    let has_jars = newest(JARS).is_some() || Path::new(JAR).is_file();
    (program("java", &[]).is_none() || !has_jars).then_some(MISSING)
}

pub(super) fn version() -> String {
    version_of(program("java", &[]), &["-cp", &class_path(newest(JARS).as_deref()), VERSION])
}

/// Returns the class path of Debian's package, or of a directory of jars.
fn class_path(jars: Option<&Path>) -> String {
    jars.map_or_else(|| format!("{JAR}:{LOGGING_JAR}"), |jars| format!("{}/*", jars.display()))
}

pub(super) async fn three(home: &Path, lifetime: Lifetime) -> Result<Vec<Server>, ServerError> {
    let program = program("java", &[]).ok_or(ServerError::Missing(MISSING))?;
    let classes = class_path(newest(JARS).as_deref());
    let clients = ports::free::<NODES>()?;
    let peers = ports::free::<{ 2 * NODES }>()?;
    let mut servers = Vec::new();
    for (at, address) in clients.into_iter().enumerate() {
        let directory = home.join((at + 1).to_string());
        let configuration = configure(&directory, at + 1, address, &peers)?;
        let options = ["-Xmx256m", "-XX:+UseSerialGC", "-Djava.awt.headless=true", "-cp"];
        let mut arguments: Vec<_> = options.map(Into::into).to_vec();
        arguments.extend([classes.clone().into(), MAIN.into(), configuration.into_os_string()]);
        let command = ServerCommand {
            name: "zookeeper",
            program: program.clone(),
            arguments,
            directory,
            address,
            user: None,
            lifetime,
            stop: Signal::SIGKILL,
        };
        servers.push(command.start()?);
    }
    let ready = Readiness::Reply { request: "srvr", contains: "Mode: " };
    wait_ready(&mut servers, &ready).await?;
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
        let server = format!("server.{}=127.0.0.1:{}\n", at + 1, ports.join(":"));
        text.push_str(&server);
    }
    let file = directory.join("zoo.cfg");
    for (path, text) in [(data.join("myid"), id.to_string()), (file.clone(), text)] {
        std::fs::write(&path, text).map_err(system_error(format!("write {}", path.display())))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_path_has_the_jars_of_debian_or_all_of_a_directory() {
        assert_eq!(class_path(None), "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar");
        assert_eq!(class_path(Some(Path::new("/newest/zookeeper"))), "/newest/zookeeper/*");
    }
}
