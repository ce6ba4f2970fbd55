//! The directories, ports and files of a development cluster.
//!
//! Node *n* (from 1) listens for HTTP on `port + 10(n-1)`, for peers on the next port and for ZooKeeper clients on the one
//! after. Its directory is `node<n>` with `node.toml`, `node.log` and `data`.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};

use holdfast_client::Client;

use super::secure::SecureFiles;

/// The number of nodes without `--nodes` and without existing data.
const NODES_DEFAULT: u64 = 3;
/// The largest cluster that the command line allows.
const NODES_MAX: u64 = 5;

/// The name of the cluster.
const CLUSTER: &str = "dev";

/// An existing directory. Drop removes a temporary directory.
#[derive(Debug)]
pub struct DevDataDir {
    path: PathBuf,
    temporary: bool,
}

impl DevDataDir {
    /// Opens or creates a given directory, or creates a temporary one.
    ///
    /// # Errors
    /// The directory and the reason.
    pub fn open(given: Option<&Path>) -> Result<Self, String> {
        let (path, temporary) = match given {
            Some(path) => (path.to_owned(), false),
            None => (unused_path(), true),
        };
        let failed = |error| {
            format!("cannot use {} for data: {error}; use another one with --data", path.display())
        };
        fs::create_dir_all(&path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        Ok(Self { path, temporary })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_temporary(&self) -> bool {
        self.temporary
    }
}

impl Drop for DevDataDir {
    fn drop(&mut self) {
        if self.temporary {
            // Files that `remove_dir_all` cannot remove stay in the temporary directory of the system.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// The paths and ports of a development cluster.
#[derive(Clone, Debug)]
pub struct Layout {
    dir: PathBuf,
    nodes: u64,
    port: u16,
    log_level: String,
    /// The size of the log between two snapshots; `None` for the default.
    snapshot_log: Option<String>,
    /// The program of the nodes; `None` for this program.
    program: Option<PathBuf>,
    tls: DevTls,
}

/// The ports of a development cluster that require TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DevTls {
    None,
    /// The ports for other nodes.
    Peers,
    /// The HTTP and ZooKeeper ports.
    Clients,
    All,
}

impl Layout {
    /// Creates the layout of a cluster in a directory. Writes no files.
    ///
    /// # Errors
    /// The directory holds a cluster of another size, or a port would be above 65535.
    pub fn new(
        data: &DevDataDir,
        nodes: Option<u64>,
        port: u16,
        log_level: &str,
    ) -> Result<Self, String> {
        let found =
            (1..=NODES_MAX).take_while(|node| node_dir(data.path(), *node).is_dir()).count();
        let found = u64::try_from(found).unwrap_or(0);
        let nodes = match (nodes, found) {
            (None, 0) => NODES_DEFAULT,
            (None, found) => found,
            (Some(nodes), found) if found == 0 || found == nodes => nodes,
            (Some(nodes), found) => {
                return Err(format!(
                    "{} holds a cluster of {found} nodes, not {nodes}: use --nodes {found}, or another --data",
                    data.path().display()
                ));
            }
        };
        let offset_max = u16::try_from(10 * (nodes - 1) + 2).unwrap_or(u16::MAX);
        if port.checked_add(offset_max).is_none() {
            return Err(format!(
                "--port {port} leaves no room for {nodes} nodes: use {} or less",
                u16::MAX - offset_max
            ));
        }
        let (dir, log_level) = (data.path().to_owned(), log_level.to_owned());
        Ok(Self {
            dir,
            nodes,
            port,
            log_level,
            snapshot_log: None,
            program: None,
            tls: DevTls::None,
        })
    }

    /// Sets the size of the log between two snapshots, in the format of the configuration.
    #[must_use]
    pub fn with_snapshot_log(mut self, size: &str) -> Self {
        self.snapshot_log = Some(size.to_owned());
        self
    }

    /// Sets the program of the nodes, for example another build of holdfast.
    #[must_use]
    pub fn with_program(mut self, program: &Path) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// Uses TLS, with certificates in the directory of the cluster.
    #[must_use]
    pub fn with_tls(mut self, tls: DevTls) -> Self {
        self.tls = tls;
        self
    }

    /// The certificates and the access token; `None` if the ports for clients have no TLS.
    pub fn security(&self) -> Option<SecureFiles> {
        let is_for_clients = matches!(self.tls, DevTls::Clients | DevTls::All);
        is_for_clients.then(|| SecureFiles::new(&self.dir))
    }

    /// A client of one node.
    pub(super) fn client(&self, node: u64) -> Result<Client, String> {
        let endpoint = self.http(node).to_string();
        match self.security() {
            Some(secure) => secure.client(&endpoint),
            None => Client::new([endpoint]).map_err(|error| error.to_string()),
        }
    }

    /// The section `[tls]` of a node, and the keys of the ports without TLS.
    fn tls_section(&self, node: u64) -> String {
        let plain = match self.tls {
            DevTls::None => return String::new(),
            DevTls::All => "",
            DevTls::Peers => "\n[http]\ntls = \"off\"\n\n[zookeeper]\ntls = \"off\"\n",
            DevTls::Clients => "\n[raft]\ntls = \"off\"\n",
        };
        format!("{}{plain}", SecureFiles::new(&self.dir).section(node))
    }

    pub(super) fn program(&self) -> std::io::Result<PathBuf> {
        self.program.clone().map_or_else(std::env::current_exe, Ok)
    }

    pub fn ids(&self) -> impl Iterator<Item = u64> + use<> {
        1..=self.nodes
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The HTTP address of a node.
    pub fn http(&self, node: u64) -> SocketAddr {
        self.address(node, 0)
    }

    /// Returns the HTTP addresses of all nodes, in order.
    pub fn endpoints(&self) -> Vec<String> {
        self.ids().map(|node| self.http(node).to_string()).collect()
    }

    pub fn node_dir(&self, node: u64) -> PathBuf {
        node_dir(&self.dir, node)
    }

    /// The data directory of a node.
    pub fn data_dir(&self, node: u64) -> PathBuf {
        self.node_dir(node).join("data")
    }

    pub fn config_file(&self, node: u64) -> PathBuf {
        self.node_dir(node).join("node.toml")
    }

    pub fn log_file(&self, node: u64) -> PathBuf {
        self.node_dir(node).join("node.log")
    }

    fn address(&self, node: u64, listener: u16) -> SocketAddr {
        // The offset fits: `new` checks the largest offset.
        let offset = u16::try_from(10 * node.saturating_sub(1)).unwrap_or(0) + listener;
        SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port.saturating_add(offset)))
    }

    /// Creates the directories and writes the configuration files.
    ///
    /// # Errors
    /// The file and the reason.
    pub fn write(&self) -> Result<(), String> {
        if self.tls != DevTls::None {
            SecureFiles::new(&self.dir).create(CLUSTER, self.ids())?;
        }
        for node in self.ids() {
            let file = self.config_file(node);
            fs::create_dir_all(self.data_dir(node))
                .and_then(|()| fs::write(&file, self.config(node)))
                .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        }
        Ok(())
    }

    fn config(&self, node: u64) -> String {
        let data = toml::Value::from(self.data_dir(node).display().to_string());
        let level = toml::Value::from(self.log_level.clone());
        let member = |id: u64| {
            let [http, peer, zookeeper] = [0, 1, 2].map(|listener| self.address(id, listener));
            format!(
                "\n[[member]]\nid = {id}\nhttp = \"{http}\"\npeer = \"{peer}\"\nzookeeper = \"{zookeeper}\"\n"
            )
        };
        let members: String = self.ids().map(member).collect();
        let storage = self.snapshot_log.as_ref().map_or_else(String::new, |size| {
            format!("\n[storage]\nsnapshot_log = {}\n", toml::Value::from(size.clone()))
        });
        let tls = self.tls_section(node);
        format!(
            "# Written by `holdfast dev` at every start.\ncluster = \"{CLUSTER}\"\nnode = {node}\ndata_dir = {data}\n\n\
             [log]\nlevel = {level}\nformat = \"text\"\n{tls}{storage}{members}"
        )
    }

    /// Checks that all ports are free.
    ///
    /// # Errors
    /// A port is in use; the error names the flag for other ports.
    pub fn check_ports(&self) -> Result<(), String> {
        for node in self.ids() {
            for (listener, name) in [(0, "HTTP"), (1, "peers"), (2, "ZooKeeper")] {
                let address = self.address(node, listener);
                if let Err(error) = TcpListener::bind(address) {
                    return Err(format!(
                        "port {} ({name} of node {node}) cannot be used: {error}; stop the process that uses it, \
                         or choose other ports with --port",
                        address.port()
                    ));
                }
            }
        }
        Ok(())
    }
}

fn node_dir(dir: &Path, node: u64) -> PathBuf {
    dir.join(format!("node{node}"))
}

/// Returns a path that no running process uses, from the process id and a counter.
fn unused_path() -> PathBuf {
    let base = std::env::temp_dir();
    let pid = std::process::id();
    (0..=u16::MAX)
        .map(|count| base.join(format!("holdfast-dev-{pid}-{count}")))
        .find(|path| !path.exists())
        .unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary() -> (tempfile::TempDir, DevDataDir) {
        let dir = tempfile::tempdir().unwrap();
        let data = DevDataDir::open(Some(dir.path())).unwrap();
        (dir, data)
    }

    #[test]
    fn every_node_has_three_ports() {
        let (_dir, data) = temporary();
        let layout = Layout::new(&data, Some(3), 7400, "info").unwrap();
        assert_eq!(layout.endpoints(), ["127.0.0.1:7400", "127.0.0.1:7410", "127.0.0.1:7420"]);
        assert_eq!(layout.address(3, 1).port(), 7421);
        assert_eq!(layout.address(3, 2).port(), 7422);
    }

    #[test]
    fn existing_data_sets_the_default_node_count_and_rejects_another_count() {
        let (_dir, data) = temporary();
        Layout::new(&data, Some(5), 7400, "info").unwrap().write().unwrap();
        let error = Layout::new(&data, Some(3), 7400, "info").unwrap_err();
        assert!(error.contains("cluster of 5 nodes, not 3: use --nodes 5"), "{error}");
        assert_eq!(Layout::new(&data, None, 7400, "info").unwrap().ids().count(), 5);
    }

    #[test]
    fn ports_above_65535_are_rejected() {
        let (_dir, data) = temporary();
        let error = Layout::new(&data, Some(3), 65_530, "info").unwrap_err();
        assert!(error.contains("use 65513 or less"), "{error}");
    }

    #[test]
    fn the_error_for_a_port_in_use_names_the_flag() {
        let (_dir, data) = temporary();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let layout = Layout::new(&data, Some(1), port, "info").unwrap();
        let error = layout.check_ports().unwrap_err();
        assert!(error.contains(&format!("port {port} (HTTP of node 1)")), "{error}");
        assert!(error.contains("--port"), "{error}");
    }

    #[test]
    fn a_temporary_directory_is_removed_on_drop() {
        let data = DevDataDir::open(None).unwrap();
        let path = data.path().to_owned();
        assert!(path.is_dir() && data.is_temporary());
        drop(data);
        assert!(!path.exists());
    }
}
