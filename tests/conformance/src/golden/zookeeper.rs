//! The golden scripts over the ZooKeeper port: a connection for each session, and one for each set of identities.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use holdfast_zkwire::{
    Acl, Create, CreateMode, CreateOp, MultiOp, MultiResult, ReplyHeader, Request, Response, perms,
};

use super::ScriptPlayer;
use super::command::{Entry, Kind, Op, ScriptCommand, What, Who};
use super::common_form::{self, Stat};
use super::front_end::FrontEnd;
use holdfast_lab::zk::{ZkConnection, ZkIncoming, new_session};

type Reply = (ReplyHeader, Option<Response>);

/// The ZooKeeper port of one node.
pub(super) struct ZooKeeperPlayer {
    address: SocketAddr,
    /// By session, or by the proofs of a caller without a session.
    connections: BTreeMap<String, ZkConnection>,
}

impl ZooKeeperPlayer {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, connections: BTreeMap::new() }
    }

    /// The caller's connection; `None` if the session does not exist or the caller also has proofs.
    async fn connection(&mut self, who: &Who) -> Option<&mut ZkConnection> {
        let name = match (&who.session, who.proofs.as_slice()) {
            (Some(session), []) => return self.connections.get_mut(&format!("session {session}")),
            (Some(_), _) => return None,
            (None, proofs) => format!("proofs {}", proofs.join(",")),
        };
        if !self.connections.contains_key(&name) {
            let mut connection = self.open().await;
            for proof in &who.proofs {
                let auth = Some(proof.clone().into());
                let proved = call(
                    &mut connection,
                    &Request::Auth { kind: 0, scheme: "digest".into(), auth },
                )
                .await;
                assert_eq!(proved.0.err, 0, "{proof}");
            }
            self.connections.insert(name.clone(), connection);
        }
        self.connections.get_mut(&name)
    }

    async fn open(&self) -> ZkConnection {
        let hello = new_session(40_000);
        let (connection, answer) =
            ZkConnection::open(self.address, &hello).await.expect("the port listens");
        assert!(answer.is_some_and(|answer| answer.session_id != 0), "a session");
        connection
    }

    async fn change(&mut self, ops: &[Op], multi: bool, who: &Who) -> Option<String> {
        // Every connection has a session, so no client can request an ephemeral without one.
        let ephemeral = |op: &Op| matches!(op, Op::Create { kind: Kind::Ephemeral, .. });
        if who.session.is_none() && ops.iter().any(ephemeral) {
            return None;
        }
        let single = ops.first().filter(|op| !multi && !matches!(op, Op::Check { .. }));
        if let Some(op) = single {
            let request = request(op)?;
            let (header, body) = call(self.connection(who).await?, &request).await;
            return Some(if header.err == 0 { changed(op, body) } else { refused(header.err, 0) });
        }
        let request = Request::Multi(ops.iter().map(multi_op).collect::<Option<_>>()?);
        match call(self.connection(who).await?, &request).await {
            (_, Some(Response::Multi(results))) => Some(many(&results)),
            (header, _) => Some(refused(header.err, 0)),
        }
    }

    async fn look(&mut self, what: What, path: &str, who: &Who) -> Option<String> {
        let path = path.to_owned();
        let request = match what {
            What::Node => Request::GetData { path, watch: false },
            What::Stat => Request::Exists { path, watch: false },
            What::Children => Request::GetChildren { path, watch: false },
            What::Acl => Request::GetAcl { path },
        };
        let (header, body) = call(self.connection(who).await?, &request).await;
        Some(match body {
            Some(Response::Stat(of)) => stat(&of),
            Some(Response::Data { data, stat: of }) => {
                format!("{} {}", stat(&of), common_form::data(&data.unwrap_or_default()))
            }
            Some(Response::Children(mut names)) => {
                names.sort();
                format!("[{}]", names.join(" "))
            }
            Some(Response::Acl { acl, stat: of }) => {
                let entries = acl
                    .iter()
                    .map(|acl| (acl.scheme.as_str(), acl.id.as_str(), letters(acl.perms)));
                common_form::acl(entries, of.aversion.into())
            }
            _ if what == What::Stat && header.err == -101 => "none".to_owned(),
            _ => refused(header.err, 0),
        })
    }
}

impl ScriptPlayer for ZooKeeperPlayer {
    const FRONT_END: FrontEnd = FrontEnd::ZooKeeper;

    async fn execute(&mut self, command: &ScriptCommand) -> Option<String> {
        match command {
            ScriptCommand::Open(session) => {
                let name = format!("session {session}");
                if self.connections.contains_key(&name) {
                    return None;
                }
                let connection = self.open().await;
                self.connections.insert(name, connection);
                Some("opened".to_owned())
            }
            ScriptCommand::Close(session) => {
                let mut connection = self.connections.remove(&format!("session {session}"))?;
                let (header, _) = call(&mut connection, &Request::CloseSession).await;
                Some(if header.err == 0 { "closed".to_owned() } else { refused(header.err, 0) })
            }
            ScriptCommand::Ops { ops, multi, who } => self.change(ops, *multi, who).await,
            ScriptCommand::Look { what, path, who } => self.look(*what, path, who).await,
        }
    }
}

async fn call(connection: &mut ZkConnection, request: &Request) -> Reply {
    connection.send(request).await;
    match connection.next().await {
        ZkIncoming::Reply { header, body, .. } => (header, body),
        other => panic!("{request:?}: {other:?}"),
    }
}

fn refused(code: i32, at: usize) -> String {
    format!("error {code} at {at}")
}

fn letters(bits: i32) -> String {
    let named = [
        (perms::CREATE, 'c'),
        (perms::DELETE, 'd'),
        (perms::READ, 'r'),
        (perms::WRITE, 'w'),
        (perms::ADMIN, 'a'),
    ];
    named.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| *letter).collect()
}

fn acls(acl: &[Entry]) -> Vec<Acl> {
    let bit = |letter| match letter {
        'c' => perms::CREATE,
        'd' => perms::DELETE,
        'r' => perms::READ,
        'w' => perms::WRITE,
        _ => perms::ADMIN,
    };
    let entry = |(scheme, id, letters): &Entry| Acl {
        perms: letters.chars().map(bit).sum(),
        scheme: scheme.clone(),
        id: id.clone(),
    };
    acl.iter().map(entry).collect()
}

/// −1 means any version.
fn any(version: Option<i32>) -> i32 {
    version.unwrap_or(-1)
}

fn multi_op(op: &Op) -> Option<MultiOp> {
    Some(match op {
        Op::Create { path, data, kind, sequential, parents: false, acl } => {
            let (op, mode) = mode(*kind, *sequential);
            let acl = acl.as_ref().map_or_else(|| vec![Acl::open()], |acl| acls(acl));
            MultiOp::Create(Create {
                op,
                path: path.clone(),
                data: Some(data.clone().into()),
                acl,
                mode,
            })
        }
        Op::Delete { path, version, recursive: false } => {
            MultiOp::Delete { path: path.clone(), version: any(*version) }
        }
        Op::Set { path, data, version } => MultiOp::SetData {
            path: path.clone(),
            data: Some(data.clone().into()),
            version: any(*version),
        },
        Op::Check { path, version } => {
            MultiOp::Check { path: path.clone(), version: any(*version) }
        }
        Op::SetAcl { .. } | Op::Create { .. } | Op::Delete { .. } => return None,
    })
}

fn mode(kind: Kind, sequential: bool) -> (CreateOp, CreateMode) {
    match (kind, sequential) {
        (Kind::Persistent, false) => (CreateOp::Create2, CreateMode::Persistent),
        (Kind::Persistent, true) => (CreateOp::Create2, CreateMode::PersistentSequential),
        (Kind::Ephemeral, false) => (CreateOp::Create2, CreateMode::Ephemeral),
        (Kind::Ephemeral, true) => (CreateOp::Create2, CreateMode::EphemeralSequential),
        (Kind::Container, false) => (CreateOp::Container, CreateMode::Container),
        // No flags express both; the operation determines that the node is a container.
        (Kind::Container, true) => (CreateOp::Container, CreateMode::PersistentSequential),
        (Kind::Ttl(ms), false) => (CreateOp::Ttl, CreateMode::Ttl(ms)),
        (Kind::Ttl(ms), true) => (CreateOp::Ttl, CreateMode::TtlSequential(ms)),
    }
}

fn request(op: &Op) -> Option<Request> {
    if let Op::SetAcl { path, acl, version } = op {
        return Some(Request::SetAcl {
            path: path.clone(),
            acl: acls(acl),
            version: any(*version),
        });
    }
    Some(match multi_op(op)? {
        MultiOp::Create(create) => Request::Create(create),
        MultiOp::Delete { path, version } => Request::Delete { path, version },
        MultiOp::SetData { path, data, version } => Request::SetData { path, data, version },
        MultiOp::Check { path, version } => Request::Check { path, version },
    })
}

fn changed(op: &Op, body: Option<Response>) -> String {
    match (op, body) {
        (_, Some(Response::Created2 { path, stat: of })) => format!("created {path} {}", stat(&of)),
        (Op::SetAcl { .. }, Some(Response::Stat(of))) => format!("acl set {}", stat(&of)),
        (_, Some(Response::Stat(of))) => format!("set {}", stat(&of)),
        (Op::Delete { .. }, _) => "deleted".to_owned(),
        (_, body) => format!("{body:?}"),
    }
}

fn many(results: &[MultiResult]) -> String {
    let failed = results.iter().position(|result| matches!(result, MultiResult::Failed(_)));
    if let Some((at, MultiResult::Failed(error))) = failed.map(|at| (at, &results[at])) {
        return refused(error.code(), at);
    }
    let said = results.iter().map(|result| match result {
        MultiResult::Created { path } | MultiResult::Created2 { path, .. } => {
            format!("created {path}")
        }
        MultiResult::Deleted => "deleted".to_owned(),
        MultiResult::DataSet { stat: of } => format!("set {}", stat(of)),
        MultiResult::Checked => "checked".to_owned(),
        other => format!("{other:?}"),
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() { "nothing".to_owned() } else { said.join(" | ") }
}

fn stat(stat: &holdfast_zkwire::Stat) -> String {
    let stat = Stat {
        created: stat.czxid,
        modified: stat.mzxid,
        children_changed: stat.pzxid,
        version: stat.version.into(),
        children_version: stat.cversion.into(),
        acl_version: stat.aversion.into(),
        owner: stat.ephemeral_owner,
        bytes: stat.data_length.into(),
        children: stat.num_children.into(),
    };
    stat.print()
}
