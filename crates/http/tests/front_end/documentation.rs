//! Checks docs/http-api.md against the code: its routes and its curl lines, which run from top to bottom.
//!
//! `HOLDFAST_REWRITE=1` rewrites the responses below the curl lines.

use std::process::Command;

use crate::described;
use crate::node::Node;

const DOCUMENT: &str = include_str!("../../../../docs/http-api.md");
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http-api.md");
/// The sections with executed curl lines.
const FIRST: &str = "\n## Locks\n";
const LAST: &str = "\n## Cluster and node\n";
/// Prefixes of numbers and times that differ between runs.
const VARIABLE: [&str; 20] = [
    "revision\":",
    "revision: ",
    "_at\":\"",
    "session_number\":",
    "incarnation\":",
    "restart_from\":",
    "id: ",
    "\"token\":",
    "\"ticket\":",
    "generation\":",
    "index\":",
    "waited_ms\":",
    "for_ms\":",
    "oldest_hold_ms\":",
    "longest_wait_ms\":",
    "_in_ms\":",
    "renewal_ms\":",
    "for another ",
    "retry_after_ms\":",
    "\"counter\":\"hits\",\"version\":",
];

#[test]
fn every_route_is_documented() {
    for (method, path, _) in described::operations() {
        let route = format!("{} {path}", method.to_uppercase());
        assert!(DOCUMENT.contains(&format!("`{route}")), "{route} is not documented");
    }
}

/// Commands with their expected responses.
fn commands(block: &str) -> Vec<(&str, String)> {
    let mut commands: Vec<(&str, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command, String::new())),
            (None, Some((_, answer))) => answer.extend([line, "\n"]),
            (None, None) => panic!("a block must begin with a command: {line}"),
        }
    }
    commands
}

/// Runs a curl line. Returns the response, without the headers of every response.
pub(crate) fn run_curl(command: &str, address: &str) -> String {
    let command = command.replace("localhost:7400", address).replace("curl ", "curl -s ");
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    assert!(output.stderr.is_empty(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    // Only a backup is not text.
    let text = String::from_utf8_lossy(&output.stdout).replace(address, "localhost:7400");
    let everywhere =
        ["content-", "date:", "keep-alive:", "holdfast-node", "holdfast-leader", "holdfast-re"];
    let lines = text.lines().filter(|line| !everywhere.iter().any(|name| line.starts_with(name)));
    let shown: Vec<&str> = lines.map(str::trim_end).collect();
    let shown = shown.join("\n").trim_end().to_owned();
    if shown.is_empty() { shown } else { format!("{shown}\n") }
}

/// Replaces every number and time that differs between runs by `N`.
fn masked(text: &str) -> String {
    let mut masked = text.to_owned();
    for before in VARIABLE {
        let mut from = 0;
        while let Some(at) = masked[from..].find(before) {
            let start = from + at + before.len();
            let varies = |byte: &u8| byte.is_ascii_digit() || b"-:.TZ".contains(byte);
            let length = masked[start..].bytes().take_while(varies).count();
            masked.replace_range(start..start + length, "N");
            from = start;
        }
    }
    masked
}

/// Formats commands and responses, separated by empty lines.
fn formatted(commands: &[(&str, String)]) -> String {
    let one = |(command, answer): &(&str, String)| format!("$ {command}\n{answer}");
    let all: Vec<String> = commands.iter().map(one).collect();
    let mut text = String::new();
    for (place, one) in all.iter().enumerate() {
        text.push_str(one);
        if place + 1 < all.len() && !commands[place].1.is_empty() {
            text.push('\n');
        }
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_curl_lines_return_the_documented_responses() {
    let node = Node::start().await;
    let address = node.address.to_string();
    let run = move || {
        let (begin, end) = (DOCUMENT.find(FIRST).unwrap(), DOCUMENT.find(LAST).unwrap());
        let mut page = DOCUMENT[..begin].to_owned();
        let mut differences = Vec::new();
        for (place, piece) in DOCUMENT[begin..end].split("```").enumerate() {
            let Some(block) = piece.strip_prefix("text\n").filter(|_| place % 2 == 1) else {
                page.extend([if place > 0 { "```" } else { "" }, piece]);
                continue;
            };
            let mut found = Vec::new();
            for (command, promised) in commands(block) {
                let answer = run_curl(command, &address);
                if masked(answer.trim()) != masked(promised.trim()) {
                    differences.push(format!("$ {command}\n{answer}documented:\n{promised}"));
                }
                found.push((command, answer));
            }
            page.extend(["```text\n", &formatted(&found)]);
        }
        page.push_str(&DOCUMENT[end..]);
        (page, differences)
    };
    let (page, differences) = tokio::task::spawn_blocking(run).await.unwrap();
    if std::env::var_os("HOLDFAST_REWRITE").is_some() {
        std::fs::write(PATH, page).unwrap();
    } else {
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

#[tokio::test]
async fn a_browser_on_the_same_machine_gets_the_page_with_the_script_that_sends_examples() {
    let node = Node::start().await;
    let page = node.call("GET", "/docs").await;
    assert!(page.body.contains("<script src=\"docs/try-it.js\" defer>"), "{page:?}");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("script-src 'self'; connect-src 'self'"), "{policy}");
    let script = node.call("GET", "/docs/try-it.js").await;
    assert_eq!(script.header("content-type"), Some("text/javascript; charset=utf-8"));
    assert!(script.body.contains("fetch(`.${target}`"), "{script:?}");
}

#[tokio::test]
async fn the_curl_lines_of_the_page_call_the_address_that_the_reader_has_called() {
    let node = Node::start().await;
    // The client of the tests calls the host `localhost`, without a port.
    let page = node.call("GET", "/docs").await.body;
    assert!(page.contains("'localhost/v1/locks/orders") && !page.contains("localhost:7400"));
}
