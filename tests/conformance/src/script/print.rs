//! Prints steps as text, with one arm for each kind of request. `parse` is the inverse.

use std::fmt;

use holdfast_zkwire::{
    Acl, AddWatchMode, Create, CreateMode, CreateOp, MultiOp, ReadOp, Request, SetWatches,
    WatcherType,
};

use super::words::{data_word, word};
use super::{SEEN, Step};

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { slot } => write!(f, "open {slot}"),
            Self::Close { slot } => write!(f, "close {slot}"),
            Self::Drop { slot } => write!(f, "drop {slot}"),
            Self::Resume { slot } => write!(f, "resume {slot}"),
            Self::Impostor { slot } => write!(f, "impostor {slot}"),
            Self::Burst { slot, requests } => {
                let requests: Vec<String> = requests.iter().map(request).collect();
                write!(f, "{slot}: {}", requests.join(" ; "))
            }
        }
    }
}

fn request(request: &Request) -> String {
    match request {
        Request::Create(each) => create(each),
        Request::Delete { path, version } => format!("delete {} {version}", word(path)),
        Request::Exists { path, watch } => read("exists", path, *watch),
        Request::GetData { path, watch } => read("get", path, *watch),
        Request::SetData { path, data, version } => {
            format!("set {} {} {version}", word(path), data_word(data.as_ref()))
        }
        Request::GetAcl { path } => format!("get-acl {}", word(path)),
        Request::SetAcl { path, acl, version } => {
            format!("set-acl {} {} {version}", word(path), acls(acl))
        }
        Request::GetChildren { path, watch } => read("list", path, *watch),
        Request::GetChildren2 { path, watch } => read("list2", path, *watch),
        Request::Sync { path } => format!("sync {}", word(path)),
        Request::Ping => "ping".to_owned(),
        Request::Check { path, version } => format!("check {} {version}", word(path)),
        Request::Multi(ops) => items("multi", ops.iter().map(multi_op)),
        Request::MultiRead(ops) => items("multi-read", ops.iter().map(read_op)),
        Request::Reconfig(_) => "reconfig".to_owned(),
        Request::CheckWatches { path, kind } => watches("check-watches", path, *kind),
        Request::RemoveWatches { path, kind } => watches("remove-watches", path, *kind),
        Request::DeleteContainer => "delete-container".to_owned(),
        Request::Auth { scheme, auth, .. } => {
            format!("auth {} {}", word(scheme), data_word(auth.as_ref()))
        }
        Request::SetWatches(each) => set_watches(each),
        Request::Sasl { token } => format!("sasl {}", data_word(token.as_ref())),
        Request::GetEphemerals { prefix } => format!("ephemerals {}", word(prefix)),
        Request::GetAllChildrenNumber { path } => format!("count {}", word(path)),
        Request::AddWatch { path, mode } => {
            format!("add-watch {} {}", word(path), watch_mode(*mode))
        }
        Request::WhoAmI => "who-am-i".to_owned(),
        Request::CloseSession => "close-session".to_owned(),
        Request::Unknown(op) => format!("op {op}"),
    }
}

fn create(create: &Create) -> String {
    let name = match create.op {
        CreateOp::Create => "create",
        CreateOp::Create2 => "create2",
        CreateOp::Container => "create-container",
        CreateOp::Ttl => "create-ttl",
    };
    let data = data_word(create.data.as_ref());
    format!("{name} {} {data} {} {}", word(&create.path), acls(&create.acl), mode(create.mode))
}

fn mode(mode: CreateMode) -> String {
    match mode {
        CreateMode::Persistent => "persistent".to_owned(),
        CreateMode::Ephemeral => "ephemeral".to_owned(),
        CreateMode::PersistentSequential => "persistent-sequential".to_owned(),
        CreateMode::EphemeralSequential => "ephemeral-sequential".to_owned(),
        CreateMode::Container => "container".to_owned(),
        CreateMode::Ttl(ms) => format!("ttl={ms}"),
        CreateMode::TtlSequential(ms) => format!("ttl-sequential={ms}"),
        CreateMode::Unknown(flags) => format!("flags={flags}"),
    }
}

/// Entries joined by commas; `open` is the list that permits all, `none` an empty one.
fn acls(acls: &[Acl]) -> String {
    if acls == [Acl::open()] {
        return "open".to_owned();
    }
    if acls.is_empty() {
        return "none".to_owned();
    }
    let entry = |acl: &Acl| format!("{}:{}:{}", acl.perms, word(&acl.scheme), word(&acl.id));
    acls.iter().map(entry).collect::<Vec<_>>().join(",")
}

fn read(name: &str, path: &str, watch: bool) -> String {
    format!("{name} {}{}", word(path), if watch { " watch" } else { "" })
}

fn items(name: &str, items: impl Iterator<Item = String>) -> String {
    items.fold(name.to_owned(), |text, item| format!("{text} | {item}"))
}

fn multi_op(op: &MultiOp) -> String {
    match op {
        MultiOp::Create(each) => create(each),
        MultiOp::Delete { path, version } => format!("delete {} {version}", word(path)),
        MultiOp::SetData { path, data, version } => {
            format!("set {} {} {version}", word(path), data_word(data.as_ref()))
        }
        MultiOp::Check { path, version } => format!("check {} {version}", word(path)),
    }
}

fn read_op(op: &ReadOp) -> String {
    match op {
        ReadOp::GetData { path, watch } => read("get", path, *watch),
        ReadOp::GetChildren { path, watch } => read("list", path, *watch),
    }
}

fn watches(name: &str, path: &str, kind: WatcherType) -> String {
    let kind = match kind {
        WatcherType::Children => "children".to_owned(),
        WatcherType::Data => "data".to_owned(),
        WatcherType::Any => "any".to_owned(),
        WatcherType::Unknown(code) => code.to_string(),
    };
    format!("{name} {} {kind}", word(path))
}

fn watch_mode(mode: AddWatchMode) -> String {
    match mode {
        AddWatchMode::Persistent => "persistent".to_owned(),
        AddWatchMode::PersistentRecursive => "recursive".to_owned(),
        AddWatchMode::Unknown(code) => code.to_string(),
    }
}

fn set_watches(watches: &SetWatches) -> String {
    let since = match watches.relative_zxid {
        SEEN => "seen".to_owned(),
        number => number.to_string(),
    };
    let lists = [
        ("data", &watches.data),
        ("exist", &watches.exist),
        ("child", &watches.child),
        ("persistent", &watches.persistent),
        ("recursive", &watches.recursive),
    ];
    lists
        .iter()
        .flat_map(|(name, paths)| paths.iter().map(move |path| (name, path)))
        .fold(format!("set-watches {since}"), |text, (name, path)| {
            format!("{text} {name}:{}", word(path))
        })
}
