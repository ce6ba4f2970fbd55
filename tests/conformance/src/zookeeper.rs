//! The reference: one standalone ZooKeeper 3.8.0 from Debian's package.
//!
//! The settings disable automatic clean-up and disk syncs, because only the replies matter. Dropping the value stops the
//! process and removes its directory.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use holdfast_lab::{DEADLINE, Ports, until};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const JAR: &str = "/usr/share/java/zookeeper.jar";

/// A running server.
pub struct ZooKeeper {
    child: Child,
    address: SocketAddr,
    _ports: Ports,
    _directory: TempDir,
}

impl ZooKeeper {
    /// The reason why this machine cannot run it, if any.
    pub fn missing() -> Option<String> {
        let java = Command::new("java").arg("-version").stderr(Stdio::null()).status();
        if !Path::new(JAR).is_file() || !java.is_ok_and(|status| status.success()) {
            return Some(format!(
                "there is no {JAR} or no java; on Debian, as root: apt-get install zookeeper default-jre-headless"
            ));
        }
        None
    }

    /// Starts the server and waits until it serves.
    ///
    /// # Panics
    /// If the server does not serve in time.
    pub async fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("holdfast-zookeeper-").tempdir();
        let directory = directory.expect("a temporary directory");
        let mut ports = Ports::default();
        let address = ports.reserve();
        let child = spawn(directory.path(), address);
        let server = Self { child, address, _ports: ports, _directory: directory };
        until("ZooKeeper to serve", DEADLINE, || serves(address)).await;
        server
    }

    /// Listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        // The process may have exited on its own.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn spawn(directory: &Path, address: SocketAddr) -> Child {
    let configuration = directory.join("zoo.cfg");
    let text = format!(
        "tickTime=2000\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n",
        directory.join("data").display(),
        address.port()
    );
    std::fs::write(&configuration, text).expect("a configuration file");
    let log = File::create(directory.join("log")).expect("a log file");
    let properties = [
        "zookeeper.extendedTypesEnabled=true",
        "zookeeper.4lw.commands.whitelist=*",
        "zookeeper.forceSync=no",
        "znode.container.checkIntervalMs=86400000",
        "java.awt.headless=true",
        "file.encoding=UTF-8",
    ];
    let mut command = Command::new("java");
    command.args(["-Xmx256m", "-XX:+UseSerialGC"]);
    command.args(properties.iter().map(|property| format!("-D{property}")));
    command.args(["-cp", &format!("{JAR}:/usr/share/java/slf4j-nop.jar")]);
    command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(configuration);
    let errors = log.try_clone().expect("a second handle of the log");
    command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn().expect("java starts")
}

/// A starting server may accept the request and never reply.
async fn serves(address: SocketAddr) -> bool {
    let asked = tokio::time::timeout(Duration::from_secs(2), srvr(address)).await;
    asked.is_ok_and(|answer| answer.is_ok_and(|answer| answer.contains("Mode: standalone")))
}

async fn srvr(address: SocketAddr) -> std::io::Result<String> {
    let mut socket = TcpStream::connect(address).await?;
    socket.write_all(b"srvr").await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    Ok(answer)
}
