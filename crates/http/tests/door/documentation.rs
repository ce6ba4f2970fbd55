//! docs/http-api.md against the code.

use holdfast_api::ErrorCode;

use crate::node::Node;

const DOCUMENT: &str = include_str!("../../../../docs/http-api.md");

/// Rows of the table of codes: code, status, whether it may be retried.
fn rows() -> Vec<(String, String, String)> {
    let cells = |line: &str| -> Vec<String> {
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let table = DOCUMENT.lines().skip_while(|line| !line.starts_with("| code | status |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|')).map(cells);
    rows.map(|row| (row[1].trim_matches('`').to_owned(), row[2].clone(), row[3].clone())).collect()
}

#[tokio::test]
async fn the_table_of_codes_equals_the_code() {
    let node = Node::start().await;
    let rows = rows();
    let documented: Vec<&str> = rows.iter().map(|(code, _, _)| code.as_str()).collect();
    let known: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(documented, known);
    for (code, status, retry) in &rows {
        let known: ErrorCode = code.parse().unwrap();
        assert_eq!(retry, if known.retryable() { "yes" } else { "no" }, "{code}");
        let page = node.call("GET", known.type_uri()).await.body;
        assert!(page.contains(&format!("\nstatus {status}; ")), "{code}: {page}");
    }
}

#[tokio::test]
async fn every_route_is_documented() {
    for route in [
        "PUT /v1/locks/{name}",
        "GET /v1/locks/{name}",
        "DELETE /v1/locks/{name}",
        "GET /v1/locks",
        "POST /v1/sessions",
        "PUT /v1/sessions/{id}",
        "GET /v1/sessions/{id}",
        "DELETE /v1/sessions/{id}",
        "GET /v1/sessions",
        "POST /v1/sessions/{id}/keepalive",
        "GET /v1/fence/{name}",
        "GET /v1/cluster",
        "GET /livez",
        "GET /readyz",
        "GET /metrics",
        "GET /version",
        "GET /errors/{code}",
    ] {
        assert!(DOCUMENT.contains(&format!("`{route}")), "{route} is not documented");
    }
}
