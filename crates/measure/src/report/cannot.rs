//! What each kind of lock cannot do, from the catalogue; nothing of it is measured.

use super::document::{Block, Table};
use crate::Limitation;
use crate::catalogue::{ALL, OPTIMISTIC};

/// The writers of a limitation that no system of the catalogue has.
const BY_VALUE: &str = "a write that compares only the value";

pub(super) fn cannot() -> Vec<Block> {
    let mut table = Table::with(["what happens", "where", "shown by"]);
    for limitation in Limitation::ALL {
        let command = limitation.command().unwrap_or_else(|| limitation.test());
        let shown = format!("`{command}`");
        table.add([limitation.text().to_owned(), systems(*limitation), shown]);
    }
    vec![
        Block::Heading("What each cannot do".to_owned()),
        Block::Text(
            "All systems, measured or not. A command shows each act on the real server; elsewhere a test in \
             `crates/measure` does. Every limitation has such a test. Without a fencing token, nothing rejects the late write \
             of a former holder. `+always` stands for the same lock on a Redis that syncs each write."
                .to_owned(),
        ),
        Block::Table(table),
        Block::Text(
            "RedLock's own authors advise caution. Redis' page about it asks for `fsync` at each write, or for a crashed server \
             that stays out for a whole TTL, and for fencing tokens where correctness matters; RedLock has none. Redisson has \
             marked its RedLock as deprecated since 3.12.5. `scripts/compare show 39` shows the missing token, `scripts/demo \
             redlock` the restart, and `scripts/compare show 29` that groups behind the addresses do not help."
                .to_owned(),
        ),
    ]
}

/// The systems with this limitation; `+always` joins the variant with synced writes.
fn systems(limitation: Limitation) -> String {
    const SYNCED: &str = "-always";
    let all = ALL.iter().chain(&OPTIMISTIC);
    let names: Vec<&str> = all
        .filter(|system| system.lock.limitations.contains(&limitation))
        .map(|system| system.name)
        .collect();
    let bare = names.iter().filter(|name| !name.ends_with(SYNCED));
    let shown = bare.map(|name| {
        let is_both = names.iter().any(|other| other.strip_suffix(SYNCED) == Some(name));
        format!("{name}{}", if is_both { " +always" } else { "" })
    });
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() { BY_VALUE.to_owned() } else { shown.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Section;

    #[test]
    fn only_a_value_without_a_version_has_no_system() {
        for limitation in Limitation::ALL {
            let is_nowhere = systems(*limitation) == BY_VALUE;
            assert_eq!(is_nowhere, *limitation == Limitation::ChangedBack, "{limitation:?}");
        }
        assert!(systems(Limitation::Polls).contains("redis-set-nx-px +always, redlock +always"));
    }

    #[test]
    fn the_page_has_the_section() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let section = Section::cannot();
        if std::env::var_os("HOLDFAST_REWRITE").is_some() {
            section.write(&docs).unwrap();
        }
        let page = std::fs::read_to_string(docs.join("comparison.md")).unwrap();
        assert_eq!(section.replaced_in(&page), page, "renew it: HOLDFAST_REWRITE=1, and this test");
    }
}
