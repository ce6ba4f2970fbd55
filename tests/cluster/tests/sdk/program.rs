//! Runs the client's examples as separate processes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use holdfast_lab::{Cluster, Program};

/// Addresses of all nodes.
pub(crate) fn addresses(cluster: &Cluster) -> Vec<String> {
    let address = |http: &str| http.trim_start_matches("http://").to_owned();
    cluster.nodes().iter().map(|node| address(node.http.base())).collect()
}

/// The folder of the client's examples: `HOLDFAST_EXAMPLES`, or built once per process.
fn examples() -> &'static Path {
    static EXAMPLES: OnceLock<PathBuf> = OnceLock::new();
    EXAMPLES.get_or_init(|| {
        if let Some(built) = std::env::var_os("HOLDFAST_EXAMPLES") {
            return PathBuf::from(built);
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
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

/// Starts an example with these arguments.
pub(crate) fn start_example(example: &str, args: &[&str]) -> Program {
    let mut command = Command::new(examples().join(example));
    command.args(args);
    Program::start(command)
}
