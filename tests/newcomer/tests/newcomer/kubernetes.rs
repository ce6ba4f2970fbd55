//! The commands in the Kubernetes manifests for clients. `scripts/maintain/check-operations` validates the manifests.

use holdfast_lab::{Program, binary};

use crate::desk::Desk;
use crate::page;

const PAGE: &str = "docs/how-to/kubernetes.md";
const FOLDER: &str = "cluster-config/kubernetes/client";
/// Where the init container puts the program.
const COPIED: &str = "/tools/holdfast";

/// The last line that begins with `key`, and the words of its list. The manifests write each list on one line.
fn list<'a>(manifest: &'a str, key: &str) -> (&'a str, Vec<&'a str>) {
    let line = manifest.lines().map(str::trim).rfind(|line| line.starts_with(key)).unwrap();
    let words =
        line.strip_prefix(key).and_then(|list| list.strip_prefix(" [\"")?.strip_suffix("\"]"));
    (line, words.unwrap().split("\", \"").collect())
}

/// Starts the command of the last container, and returns the first line that it prints.
fn start(desk: &Desk, file: &str) -> (Program, String) {
    let (manifest, page) = (page::text(&format!("{FOLDER}/{file}")), page::text(PAGE));
    let (command, args) = (list(&manifest, "command:"), list(&manifest, "args:"));
    assert!(page.contains(command.0) && page.contains(args.0), "{PAGE} differs from {file}");
    let words = [command.1, args.1].concat();
    assert_eq!(words[0], COPIED, "{file}");
    let mut program = desk.command(binary());
    program.args(words[1..].iter().map(|word| word.replace("$(POD_IP)", "10.0.0.7")));
    let mut program = Program::start(program);
    let line = program.next_stdout_line();
    (program, line)
}

#[test]
fn the_cron_job_of_kubernetes_runs_once() {
    let desk = Desk::with_one_node();
    let (mut program, line) = start(&desk, "cron-job.yaml");
    assert!(line.starts_with("working with token "), "{line}");
    assert_eq!(program.wait().code, Some(0));
    let who = desk.holdfast(&["who", "cron/nightly"]).stdout;
    assert!(who.contains("minimum hold of the last holder"), "{who}");
}

#[test]
fn the_deployment_of_kubernetes_has_a_leader_until_its_pod_is_deleted() {
    let desk = Desk::with_one_node();
    let (mut program, line) = start(&desk, "leader.yaml");
    assert!(line.starts_with("leading with token "), "{line}");
    assert_eq!(
        desk.holdfast(&["elect", "who", "web", "-o", "value"]).stdout.trim(),
        "10.0.0.7:8080"
    );
    program.signal(nix::sys::signal::Signal::SIGTERM);
    program.wait();
    let who = desk.holdfast(&["elect", "who", "web"]).stdout;
    assert_eq!(who.trim(), "web has no leader");
}
