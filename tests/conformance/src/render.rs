//! Renders replies and events as lines of words for comparison.
//!
//! Prefixes mark numbers that differ between servers: `z:` a change number, `h:` the number in the header of a reply
//! that changed nothing, `s:` a session. Times are reduced to whether they are consistent with the change numbers.
//! Unordered lists are sorted.

use holdfast_zkwire::{
    Acl, MultiResult, ReadResult, ReplyHeader, Response, Stat, WatchEventType, WatchedEvent,
};

use crate::script::words::{data_word, short, word};

/// Removes the folder of the run from a path.
pub(crate) struct Folder<'a>(pub(crate) &'a str);

impl Folder<'_> {
    fn word(&self, path: &str) -> String {
        let below =
            path.strip_prefix(self.0).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        match below {
            Some("") => "/".to_owned(),
            Some(rest) => word(rest),
            None => format!("^{}", word(path)),
        }
    }

    /// An event.
    pub(crate) fn event(&self, header: ReplyHeader, event: &WatchedEvent) -> String {
        let kind = match event.kind {
            WatchEventType::Created => "created",
            WatchEventType::Deleted => "deleted",
            WatchEventType::DataChanged => "changed",
            WatchEventType::ChildrenChanged => "children",
            ref other => &format!("{other:?}"),
        };
        let ReplyHeader { zxid, err, .. } = header;
        let odd = (zxid, err, event.state.code()) != (-1, 0, 3);
        let odd = if odd { format!(" {header:?} {:?}", event.state) } else { String::new() };
        format!("event {kind} {}{odd}", self.word(&event.path))
    }

    /// A reply.
    pub(crate) fn reply(&self, header: ReplyHeader, body: Option<&Response>) -> String {
        let ReplyHeader { zxid, err, .. } = header;
        let Some(body) = body else { return format!("h:{zxid} error {err}") };
        let mark = if changes(body) { 'z' } else { 'h' };
        format!("{mark}:{zxid} {}", self.body(body))
    }

    fn body(&self, body: &Response) -> String {
        match body {
            Response::Created { path } => format!("created {}", self.word(path)),
            Response::Created2 { path, stat: of } => {
                format!("created2 {} {}", self.word(path), stat(of))
            }
            Response::Stat(of) => format!("stat {}", stat(of)),
            Response::Data { data, stat: of } => {
                format!("data {} {}", data_of(data.as_ref()), stat(of))
            }
            Response::Acl { acl, stat: of } => format!("acl {} {}", acls(acl), stat(of)),
            Response::Children(names) => format!("children {}", sorted(names.iter().map(word))),
            Response::Children2 { children, stat: of } => {
                format!("children {} {}", sorted(children.iter().map(word)), stat(of))
            }
            Response::Sync { path } => format!("sync {}", self.word(path)),
            Response::Multi(results) => {
                items("multi", results.iter().map(|each| self.result(each)))
            }
            Response::MultiRead(results) => items("multi-read", results.iter().map(read_result)),
            Response::Ephemerals(paths) => {
                format!("ephemerals {}", sorted(paths.iter().map(|path| self.word(path))))
            }
            Response::ChildrenCount(count) => format!("count {count}"),
            Response::AddWatch => "add-watch".to_owned(),
            Response::WhoAmI(ids) => {
                let id =
                    |id: &holdfast_zkwire::AuthId| format!("{}:{}", word(&id.scheme), word(&id.id));
                format!("who {}", sorted(ids.iter().map(id)))
            }
            Response::Sasl { token } => format!("sasl {}", data_word(token.as_ref())),
            Response::Empty => "done".to_owned(),
        }
    }

    fn result(&self, result: &MultiResult) -> String {
        match result {
            MultiResult::Created { path } => format!("created {}", self.word(path)),
            MultiResult::Created2 { path, stat: of } => {
                format!("created2 {} {}", self.word(path), stat(of))
            }
            MultiResult::Deleted => "deleted".to_owned(),
            MultiResult::DataSet { stat: of } => format!("set {}", stat(of)),
            MultiResult::Checked => "checked".to_owned(),
            MultiResult::RolledBack => "rolled-back".to_owned(),
            MultiResult::Failed(error) => format!("error {}", error.code()),
        }
    }
}

/// True for the reply to the client's own change, whose number is exact.
fn changes(body: &Response) -> bool {
    match body {
        Response::Created { .. } | Response::Created2 { .. } => true,
        Response::Multi(results) => results.iter().any(|result| {
            use MultiResult::{Created, Created2, DataSet, Deleted};
            matches!(result, Created { .. } | Created2 { .. } | DataSet { .. } | Deleted)
        }),
        _ => false,
    }
}

fn stat(stat: &Stat) -> String {
    let Stat { czxid, mzxid, pzxid, ctime, mtime, .. } = *stat;
    let fits = if czxid == mzxid { ctime == mtime } else { ctime <= mtime };
    let times = if fits { "fit" } else { "odd" };
    let Stat { version, cversion, aversion, ephemeral_owner, data_length, num_children, .. } = stat;
    format!(
        "c=z:{czxid} m=z:{mzxid} p=z:{pzxid} times={times} v={version} cv={cversion} av={aversion} owner=s:{ephemeral_owner} len={data_length} kids={num_children}"
    )
}

fn read_result(result: &ReadResult) -> String {
    match result {
        ReadResult::Data { data, stat: of } => {
            format!("data {} {}", data_of(data.as_ref()), stat(of))
        }
        ReadResult::Children(names) => format!("children {}", sorted(names.iter().map(word))),
        ReadResult::Failed(error) => format!("error {}", error.code()),
    }
}

fn data_of(data: Option<&bytes::Bytes>) -> String {
    data.map_or_else(|| data_word(None), |data| short(data))
}

/// Sorted, because the order of entries has no meaning.
fn acls(acls: &[Acl]) -> String {
    sorted(acls.iter().map(|acl| format!("{}:{}:{}", acl.perms, word(&acl.scheme), word(&acl.id))))
}

fn items(name: &str, items: impl Iterator<Item = String>) -> String {
    items.fold(name.to_owned(), |text, item| format!("{text} | {item}"))
}

fn sorted(words: impl Iterator<Item = String>) -> String {
    let mut words: Vec<String> = words.collect();
    words.sort();
    format!("[{}]", words.join(","))
}
