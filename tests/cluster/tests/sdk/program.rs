//! An example of the client as a process of its own: its lines, its end, and signals to it.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;

use holdfast_lab::{Cluster, DEADLINE};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Addresses of all nodes.
pub(crate) fn addresses(cluster: &Cluster) -> Vec<String> {
    let address = |http: &str| http.trim_start_matches("http://").to_owned();
    cluster.nodes().iter().map(|node| address(node.http.base())).collect()
}

/// The folder of the client's examples: `HOLDFAST_EXAMPLES`, or built once a process.
fn examples() -> &'static Path {
    static EXAMPLES: OnceLock<PathBuf> = OnceLock::new();
    EXAMPLES.get_or_init(|| {
        if let Some(built) = std::env::var_os("HOLDFAST_EXAMPLES") {
            return PathBuf::from(built);
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = std::process::Command::new(cargo);
        command.args(["build", "-p", "holdfast-client", "--examples"]);
        command.arg("--message-format=json-render-diagnostics");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let output = command.current_dir(root).stderr(Stdio::inherit()).output();
        let output = output.expect("cargo runs");
        assert!(output.status.success(), "the examples build");
        let messages = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut built = messages.lines().filter_map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            Path::new(message.get("executable")?.as_str()?).parent().map(Path::to_owned)
        });
        built.next_back().expect("cargo names what it built")
    })
}

/// A running example. Killed when dropped.
pub(crate) struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Starts an example with these arguments.
    pub(crate) fn start(example: &str, args: &[&str]) -> Self {
        let mut command = Command::new(examples().join(example));
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the example starts");
        let lines = BufReader::new(child.stdout.take().expect("its stdout")).lines();
        Self { child, lines }
    }

    /// The next line; none at the end.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let line = tokio::time::timeout(DEADLINE, self.lines.next_line()).await;
        line.expect("a line in time").expect("its stdout can be read")
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).expect("it runs");
        kill(Pid::from_raw(id), signal).expect("it is ours");
    }

    /// Waits for its end.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        let end = tokio::time::timeout(DEADLINE, self.child.wait()).await;
        end.expect("it ends in time").expect("it can be waited for")
    }
}
