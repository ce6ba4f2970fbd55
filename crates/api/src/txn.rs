//! Bodies of transactions.

use serde::{Deserialize, Serialize};

use holdfast_types::{Op, OpReply, Revision, ZnodePath};

use crate::StatBody;

/// The response to a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TxnBody {
    /// Whether every condition held and `then` was applied; otherwise `else` was applied.
    pub succeeded: bool,
    /// The result of each applied operation, in order.
    pub results: Vec<OpBody>,
    /// The revision of the change.
    pub revision: Revision,
}

/// The result of one operation: its key and path, and the outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum OpBody {
    /// The znode was created.
    Created {
        /// The path, with the number of a sequential znode.
        create: ZnodePath,
        /// The stat.
        stat: StatBody,
    },
    /// The data was replaced.
    DataSet {
        /// The path.
        set: ZnodePath,
        /// The stat.
        stat: StatBody,
    },
    /// The access list was replaced.
    AclSet {
        /// The path.
        set_acl: ZnodePath,
        /// The stat.
        stat: StatBody,
    },
    /// The znode was deleted.
    Deleted {
        /// The path; with `recursive`, everything below it was deleted as well.
        delete: ZnodePath,
        /// The number of deleted znodes.
        count: u32,
    },
    /// The znode exists, with the expected version.
    Checked {
        /// The path.
        check: ZnodePath,
    },
}

impl OpBody {
    pub fn new(path: ZnodePath, reply: OpReply) -> Self {
        match reply {
            OpReply::Created { path, stat } => Self::Created { create: path, stat: stat.into() },
            OpReply::DataSet { stat } => Self::DataSet { set: path, stat: stat.into() },
            OpReply::AclSet { stat } => Self::AclSet { set_acl: path, stat: stat.into() },
            OpReply::Deleted { count } => Self::Deleted { delete: path, count },
            OpReply::Checked => Self::Checked { check: path },
        }
    }
}

/// The path of an operation; for a create, the path of the directory.
pub fn path_of(op: &Op) -> &ZnodePath {
    match op {
        Op::Create(create) => &create.directory,
        Op::Delete { path, .. }
        | Op::SetData { path, .. }
        | Op::SetAcl { path, .. }
        | Op::Check { path, .. } => path,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::Stat;

    use super::*;

    fn path(path: &str) -> ZnodePath {
        ZnodePath::new(path).unwrap()
    }

    #[test]
    fn results_repeat_the_key_and_path_of_their_operation() {
        let created = OpReply::Created { path: path("/q/n-0000000001"), stat: Stat::default() };
        let results = vec![
            OpBody::new(path("/q"), created),
            OpBody::new(path("/a"), OpReply::DataSet { stat: Stat::default() }),
            OpBody::new(path("/b"), OpReply::Deleted { count: 2 }),
            OpBody::new(path("/a"), OpReply::Checked),
        ];
        let body = TxnBody { succeeded: true, results, revision: Revision(7) };
        let json = serde_json::to_value(&body).unwrap();
        assert_eq!(json["results"][0]["create"], "/q/n-0000000001");
        assert_eq!(json["results"][0]["stat"]["version"], 0);
        assert_eq!(json["results"][1]["set"], "/a");
        assert_eq!(json["results"][2].to_string(), r#"{"count":2,"delete":"/b"}"#);
        assert_eq!(json["results"][3].to_string(), r#"{"check":"/a"}"#);
        assert_eq!(serde_json::from_value::<TxnBody>(json).unwrap(), body);
    }
}
