//! Pages of other sites in a real browser, Debian's `chromium`: none changes a node without authorization, or reads from it.
//!
//! Without the program the test skips; `HOLDFAST_REQUIRE_CHROMIUM=1` then fails.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Command;

use holdfast_lab::{Http, Program};

use crate::program::DevCluster;

/// Sends a call in every way that a page has.
const PAGE: &str = include_str!("browser.html");

/// Serves the page to every call, also for the names of other hosts; returns the port.
fn serve(node: u16) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = BufReader::new(&stream).lines().map_while(Result::ok);
            let Some(first) = head.next() else { continue };
            // The path names the host by which the page calls the node.
            let host = first.split(['/', ' ']).nth(2).unwrap_or_default().to_owned();
            head.take_while(|line| !line.is_empty()).for_each(drop);
            let page = PAGE.replace("HOST", &host).replace("PORT", &node.to_string());
            let length = page.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(format!("{head}{page}").as_bytes()).ok();
        }
    });
    port
}

/// The document at this address after its scripts have run.
fn document(profile: &std::path::Path, address: &str) -> String {
    let mut chromium = Command::new("chromium");
    chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    chromium.args(["--no-first-run", "--disable-extensions", "--no-proxy-server", "--dump-dom"]);
    // A site whose name resolves to the address of the node.
    chromium.arg("--host-resolver-rules=MAP evil.example 127.0.0.1");
    chromium.args(["--timeout=40000", "--virtual-time-budget=30000"]);
    chromium.arg(format!("--user-data-dir={}", profile.display())).arg(address);
    Program::start(chromium).wait().stdout
}

fn is_installed() -> bool {
    let found = Command::new("chromium").arg("--version").output().is_ok();
    let required = std::env::var_os("HOLDFAST_REQUIRE_CHROMIUM").is_some();
    assert!(found || !required, "install chromium");
    if !found {
        eprintln!("SKIPPED: install chromium");
    }
    found
}

async fn refused(node: &Http) -> u64 {
    let text = node.get("/metrics").await.body;
    let lines = text.lines().filter(|line| {
        line.starts_with("holdfast_http_requests_total{") && line.contains("code=\"403\"")
    });
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_of_another_site_changes_a_node_or_reads_from_it() {
    if !is_installed() {
        return;
    }
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let (port, profile) = (cluster.port(), tempfile::tempdir().unwrap());
    let node = Http::new(format!("127.0.0.1:{port}"));
    let held = node.put("/v1/locks/held?session=owner&attempt=1&ttl=1h").await;
    held.assert_status(200);
    let state = async || {
        let mut state = Vec::new();
        for target in ["/v1/locks/held", "/v1/locks", "/v1/tree/?children", "/v1/sessions"] {
            let reply = node.get(target).await;
            let mut json = reply.json();
            assert_eq!(reply.status, 200, "{target}: {reply}");
            without_times(&mut json);
            state.push(json);
        }
        state
    };
    let before = state().await;
    let foreign = serve(port);
    // The page's host, and the host by which it calls the node.
    for (own, called) in [
        ("localhost", "localhost"),
        ("127.0.0.1", "localhost"),
        ("evil.example", "127.0.0.1"),
        ("evil.example", "evil.example"),
    ] {
        let refused_before = refused(&node).await;
        let page = document(profile.path(), &format!("http://{own}:{foreign}/{called}"));
        let (_, shown) = page.split_once(r#"<pre id="shown">"#).unwrap();
        let (shown, _) = shown.split_once("</pre>").unwrap();
        let sent = shown.lines().filter(|line| line.starts_with("SENT")).count() as u64;
        assert!(sent > 0 && shown.contains(&format!("ALL {sent}\n")), "{own}, {called}: {shown}");
        assert!(!shown.contains("READ"), "{own}, {called}: {shown}");
        let refused = refused(&node).await - refused_before;
        assert!(refused >= sent, "{own}, {called}: {refused} were refused\n{shown}");
        assert_eq!(state().await, before, "{own}, {called}");
    }
    // The node's own pages are shown, but not under the name of another site.
    let docs = |host: &str| document(profile.path(), &format!("http://{host}:{port}/docs"));
    assert!(docs("localhost").contains("/v1/locks/"));
    let rebound = docs("evil.example");
    assert!(rebound.contains("foreign-site"), "{rebound}");
}

/// Removes what changes by itself.
fn without_times(json: &mut serde_json::Value) {
    if let Some(fields) = json.as_object_mut() {
        fields.retain(|name, _| !name.ends_with("_ms") && name != "revision");
        fields.values_mut().for_each(without_times);
    } else if let Some(items) = json.as_array_mut() {
        items.iter_mut().for_each(without_times);
    }
}
