//! Converts output of the state machine to a form that both front-ends can produce.
//!
//! The form omits times, the number of nodes of a deletion, and the kind of a node without an owner, because the
//! ZooKeeper front-end does not show them.

use super::command::scripted;
use super::front_end::FrontEnd;

/// The group of rejections for which both front-ends have a name.
const TREE: &str = "Tree(";

/// A stat in the common form.
pub(super) struct Stat {
    pub(super) created: i64,
    pub(super) modified: i64,
    pub(super) children_changed: i64,
    pub(super) version: i64,
    pub(super) children_version: i64,
    pub(super) acl_version: i64,
    pub(super) owner: i64,
    pub(super) bytes: i64,
    pub(super) children: i64,
}

impl Stat {
    pub(super) fn print(&self) -> String {
        let Self { created, modified, children_changed, version, children_version, .. } = self;
        let Self { acl_version, owner, bytes, children, .. } = self;
        format!(
            "c=z:{created} m=z:{modified} p=z:{children_changed} version={version} cversion={children_version} aversion={acl_version} owner=s:{owner} bytes={bytes} children={children}"
        )
    }
}

/// Data in the format of the scripts.
pub(super) fn data(bytes: &[u8]) -> String {
    format!("data={:?}", String::from_utf8_lossy(bytes)).replace(' ', "_")
}

/// An access list.
pub(super) fn acl<'a>(
    entries: impl Iterator<Item = (&'a str, &'a str, String)>,
    version: i64,
) -> String {
    let entry = |(scheme, id, perms): (&str, &str, String)| {
        let id = if scheme == "digest" { scripted(id) } else { id.to_owned() };
        format!("{scheme}:{id}:{perms} ")
    };
    format!("{}aversion={version}", entries.map(entry).collect::<String>())
}

/// The machine's line in the common form, or `None` if the front-end has no single reply for it.
pub(super) fn by_machine(line: &str, front_end: FrontEnd) -> Option<String> {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    let numbered = first.strip_prefix('r').is_some_and(|number| number.parse::<u64>().is_ok());
    let said = if numbered { rest } else { line };
    if let Some(refused) = said.strip_prefix("REJECTED ") {
        return refusal(refused, front_end);
    }
    if front_end.name_of(rejection(said)).is_some() {
        return refusal(said, front_end);
    }
    if said.starts_with("session #") {
        return Some("opened".to_owned());
    }
    if said == "SessionEnded" {
        return Some("closed".to_owned());
    }
    Some(said.split(" | ").map(item).collect::<Vec<_>>().join(" | "))
}

/// In a multi, ZooKeeper's protocol returns only the path of a created node.
pub(super) fn without_stats_of_new_nodes(said: &str) -> String {
    let short =
        |item: &str| match item.starts_with("created ").then(|| item.find(" c=z:")).flatten() {
            Some(at) => item[..at].to_owned(),
            None => item.to_owned(),
        };
    said.split(" | ").map(short).collect::<Vec<_>>().join(" | ")
}

fn refusal(refused: &str, front_end: FrontEnd) -> Option<String> {
    let (at, refused) = match refused.strip_prefix("at ").and_then(|rest| rest.split_once(": ")) {
        Some((at, refused)) => (at, refused),
        None => ("0", refused),
    };
    let name = front_end.name_of(rejection(refused))?;
    Some(format!("error {name} at {at}"))
}

/// The name of a rejection without its group and its fields.
fn rejection(text: &str) -> &str {
    let text = text.strip_prefix(TREE).unwrap_or(text);
    text.split([' ', '{', ')']).next().unwrap_or_default()
}

fn item(item: &str) -> String {
    if item.starts_with("deleted ") {
        return "deleted".to_owned();
    }
    match item.find("c=r") {
        Some(at) => format!("{}{}", &item[..at], stat(&item[at..])),
        None => item.to_owned(),
    }
}

/// The words of a stat, and the text after them.
fn stat(words: &str) -> String {
    let (stat, data) =
        words.split_once(" data=").map_or((words, None), |(stat, data)| (stat, Some(data)));
    let value = |key: &str| {
        stat.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('=')).unwrap_or("0")
    };
    let number = |key: &str| value(key).trim_start_matches(['r', '#']).parse().unwrap_or(0);
    let printed = Stat {
        created: number("c"),
        modified: number("m"),
        children_changed: number("p"),
        version: number("version"),
        children_version: number("cversion"),
        acl_version: number("aversion"),
        owner: number("owner"),
        bytes: number("bytes"),
        children: number("children"),
    };
    let data = data.map_or(String::new(), |data| format!(" data={}", data.replace(' ', "_")));
    format!("{}{data}", printed.print())
}
