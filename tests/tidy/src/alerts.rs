//! Checks that each alert of the rules for Prometheus names a section of the page for operators.

use crate::markdown::Page;
use crate::{Tree, Violation};

/// The page with a section for each alert.
const PAGE: &str = "docs/operations.md";
/// The suffix of files with rules.
const RULES: &str = ".rules.yml";

/// Alerts without a runbook, and runbooks that are no section of the page.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let anchors = Page::parse(tree.text(PAGE).unwrap_or_default()).anchors;
    let mut found = Vec::new();
    for (path, text) in tree.ending(RULES) {
        let mut alert = None;
        for (number, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line.trim())) {
            if let Some(name) = line.strip_prefix("- alert: ") {
                found.extend(alert.replace((number, name)).map(|alert| without(path, alert)));
            } else if let Some(url) = line.strip_prefix("runbook_url: ") {
                alert = None;
                let anchor = url.split_once(&format!("{PAGE}#")).map(|(_, anchor)| anchor);
                if !anchor.is_some_and(|anchor| anchors.iter().any(|known| known == anchor)) {
                    let what = format!("`{url}` is no section of {PAGE}: write one, or correct it");
                    found.push(Violation::at(path, number, what));
                }
            }
        }
        found.extend(alert.map(|alert| without(path, alert)));
    }
    found
}

fn without(path: &str, (line, alert): (usize, &str)) -> Violation {
    let what = format!("the alert {alert} needs `runbook_url: …/{PAGE}#SECTION`");
    Violation::at(path, line, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rules: &str) -> Vec<usize> {
        let tree = Tree::of([("a.rules.yml", rules), (PAGE, "# Operations\n\n### disk-low\n")]);
        check(&tree).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn an_alert_without_a_section_is_caught() {
        let url = "    runbook_url: https://x.example/docs/operations.md#disk-low\n";
        assert_eq!(found(&format!("- alert: A\n{url}- alert: B\n{url}")), [0; 0]);
        assert_eq!(found(&format!("- alert: A\n- alert: B\n{url}")), [1]);
        assert_eq!(found(&format!("- alert: A\n{url}- alert: B\n")), [3]);
        assert_eq!(found(&format!("- alert: A\n{}", url.replace("disk-low", "disk-lov"))), [2]);
        assert_eq!(found("- alert: A\n    runbook_url: https://x.example/#disk-low\n"), [2]);
    }
}
