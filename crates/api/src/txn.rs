//! Bodies of transactions.

use serde::{Deserialize, Serialize};

use holdfast_types::{Op, OpReply, Revision, ZnodePath};

use crate::StatBody;

/// The answer to a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TxnBody {
    /// Whether the conditions held: `then` was done, or else `else`.
    pub succeeded: bool,
    /// One to each operation, in order.
    pub results: Vec<OpBody>,
    /// The revision of the change.
    pub revision: Revision,
}

/// What one operation did: its key and path, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum OpBody {
    /// The node exists now.
    Created {
        /// With its number, if it is sequential.
        create: ZnodePath,
        /// Its stat.
        stat: StatBody,
    },
    /// The data is replaced.
    DataSet {
        /// Of which node.
        set: ZnodePath,
        /// Its stat.
        stat: StatBody,
    },
    /// The access list is replaced.
    AclSet {
        /// Of which node.
        set_acl: ZnodePath,
        /// Its stat.
        stat: StatBody,
    },
    /// The nodes are gone.
    Deleted {
        /// Which node, and with `recursive` what was below it.
        delete: ZnodePath,
        /// How many.
        count: u32,
    },
    /// The node is as expected.
    Checked {
        /// Which.
        check: ZnodePath,
    },
}

impl OpBody {
    /// The body for what an operation on a node did.
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

/// The node that an operation is about; of a create, its directory: the answer names the node.
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
