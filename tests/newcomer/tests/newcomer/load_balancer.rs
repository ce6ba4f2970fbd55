//! The configurations of docs/how-to/load-balancer.md in a real `HAProxy` and a real nginx, before three nodes.

use std::path::PathBuf;
use std::process::Command;

use holdfast_lab::{Program, eventually};

use crate::desk::Desk;

const PAGE: &str = "docs/how-to/load-balancer.md";
/// Paths that a careless proxy changes: the node must see them as they are.
const PATHS: [&str; 5] = ["a%2Fb", "a//b", "a/../b", "a%20b", "a%3Fb"];

/// Three nodes behind a balancer.
struct Balanced {
    desk: Desk,
    _balancer: Program,
}

fn curl(port: u16, arguments: &[&str], path: &str) -> Command {
    let mut command = Command::new("curl");
    command.args(["--silent", "--no-buffer", "--path-as-is"]).args(arguments);
    command.arg(format!("http://127.0.0.1:{port}/{path}"));
    command
}

impl Balanced {
    /// Starts the balancer with the configuration of the page. `None`, with a printed line, if it is not installed;
    /// with `HOLDFAST_REQUIRE_HAPROXY` or `HOLDFAST_REQUIRE_NGINX` the test then fails.
    fn start(program: &str, arguments: &[&str], change: fn(&str) -> String) -> Option<Self> {
        let folders = std::env::split_paths(&std::env::var_os("PATH")?).collect::<Vec<_>>();
        let folders = folders.into_iter().chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
        let Some(found) = folders.map(|folder| folder.join(program)).find(|path| path.is_file())
        else {
            let required = format!("HOLDFAST_REQUIRE_{}", program.to_uppercase());
            assert!(std::env::var_os(required).is_none(), "{program} is not installed");
            eprintln!("SKIPPED: no {program} found; install it: apt-get install {program}");
            return None;
        };
        let desk = Desk::new();
        for block in desk.localized_blocks(PAGE) {
            if let Some(name) = block.file_name() {
                std::fs::write(desk.directory().join(name), change(&block.text)).unwrap();
            }
        }
        let mut command = Command::new(found);
        command.args(arguments).current_dir(desk.directory());
        let balanced = Self { desk, _balancer: Program::start(command) };
        eventually("the balancer serves", || balanced.status("GET", "readyz") == "200");
        Some(balanced)
    }

    /// The status of a call through the balancer.
    fn status(&self, method: &str, path: &str) -> String {
        let arguments = ["-X", method, "-o", "/dev/null", "-w", "%{http_code}"];
        let port = self.desk.balancer_port();
        String::from_utf8(curl(port, &arguments, path).output().unwrap().stdout).unwrap()
    }

    /// A call through the balancer that goes on.
    fn begin(&self, arguments: &[&str], path: &str) -> Program {
        Program::start(curl(self.desk.balancer_port(), arguments, path))
    }

    fn has(&self, name: &str, fact: &str) -> bool {
        self.desk.holdfast(&["who", name, "-o", "json"]).stdout.contains(fact)
    }
}

/// The facts that a read of a lock returns, up to the first that changes by itself.
fn read(port: u16, name: &str) -> String {
    let body = curl(port, &[], &format!("v1/locks/{name}")).output().unwrap().stdout;
    let body = String::from_utf8(body).unwrap();
    body.split(r#","mode""#).next().unwrap().to_owned()
}

/// What the page promises about a balancer.
fn serves_as_the_page_says(balanced: &Balanced) {
    assert_eq!(balanced.status("PUT", "v1/locks/orders?session=web1&attempt=1"), "200");
    assert_eq!(balanced.status("PUT", "v1/locks/orders?session=web2&attempt=1"), "423");
    for name in PATHS {
        let [direct, through] = [balanced.desk.port(), balanced.desk.balancer_port()];
        assert_eq!(read(through, name), read(direct, name), "{name}");
    }
    let mut waiter = balanced.begin(&["-X", "PUT"], "v1/locks/orders?wait=5m");
    eventually("an anonymous call waits", || balanced.has("orders", r#""waiters":1"#));
    waiter.kill();
    eventually("its caller has left the queue", || balanced.has("orders", r#""waiters":0"#));

    let stream = ["-X", "PUT", "-H", "accept:text/event-stream"];
    let mut queue = balanced.begin(&stream, "v1/locks/orders?session=web3&wait=5m");
    while queue.next_stdout_line() != "event: queued" {}
    let mut attached = balanced.begin(&["-X", "PUT"], "v1/locks/attached?hold=connection");
    while attached.next_stdout_line() != "event: granted" {}
    attached.kill();
    eventually("the lock of a closed connection is free", || {
        balanced.has("attached", r#""held":false"#)
    });

    balanced.desk.kill(3);
    eventually("a leader", || balanced.status("GET", "v1/locks/orders") == "200");
    for attempt in 1..=10 {
        let call = format!("v1/locks/after?session=web4&attempt={attempt}");
        assert_eq!(balanced.status("PUT", &call), "200", "a node is dead");
        assert_eq!(balanced.status("DELETE", &call), "204");
    }
}

#[test]
fn haproxy_before_three_nodes_does_what_the_page_says() {
    let arguments = ["-db", "-f", "haproxy.cfg"];
    let Some(balanced) = Balanced::start("haproxy", &arguments, str::to_owned) else { return };
    serves_as_the_page_says(&balanced);
}

#[test]
fn nginx_before_three_nodes_does_what_the_page_says() {
    // Its own files are in the directory of the test, for users without rights on those of the system.
    let change = |text: &str| {
        let own = "access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; \
                   uwsgi_temp_path uwsgi; scgi_temp_path scgi;";
        text.replace("http {", &format!("http {{ {own}"))
    };
    let own = "daemon off; master_process off; pid nginx.pid;";
    let arguments = ["-p", ".", "-c", "nginx.conf", "-e", "stderr", "-g", own];
    let Some(balanced) = Balanced::start("nginx", &arguments, change) else { return };
    serves_as_the_page_says(&balanced);
}
