//! Locates the binaries under test: `HOLDFAST_BIN`, or the output of `cargo build -p holdfast`, built once per process; and a
//! newer program for upgrades.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Returns the path of the `holdfast` binary; builds it unless `HOLDFAST_BIN` is set.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("HOLDFAST_BIN") {
        Some(path) => existing(PathBuf::from(path)),
        None => existing(build()),
    })
}

/// Returns the path of a program that knows one feature level more: `HOLDFAST_NEWER_BIN`, or the output of
/// `scripts/maintain/newer-program`, built once per process.
pub fn newer_binary() -> &'static Path {
    static NEWER: OnceLock<PathBuf> = OnceLock::new();
    NEWER.get_or_init(|| match std::env::var_os("HOLDFAST_NEWER_BIN") {
        Some(path) => existing(PathBuf::from(path)),
        None => existing(build_newer()),
    })
}

fn build_newer() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("scripts/maintain/newer-program"));
    let output =
        command.stderr(Stdio::inherit()).output().expect("scripts/maintain/newer-program runs");
    assert!(output.status.success(), "scripts/maintain/newer-program failed");
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

fn existing(path: PathBuf) -> PathBuf {
    assert!(path.is_file(), "no holdfast binary at {}", path.display());
    path
}

/// Builds with the profile of this test; the path comes from cargo's JSON messages.
fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "-p", "holdfast", "--bin", "holdfast"]);
    command.arg("--message-format=json-render-diagnostics");
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = command.current_dir(root).stderr(Stdio::inherit()).output();
    let output = output.expect("cargo runs");
    assert!(output.status.success(), "cargo build -p holdfast failed");
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let executable = messages.lines().filter_map(executable_of).next_back();
    executable.expect("cargo names the executable it built")
}

fn executable_of(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let path = message.get("executable")?.as_str()?;
    path.ends_with("/holdfast").then(|| PathBuf::from(path))
}
