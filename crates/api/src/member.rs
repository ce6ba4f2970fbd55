//! Bodies of changes of the members, and the text of a join token.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_types::{ClusterId, MemberAddresses, NodeId, Reason, Revision, SubjectName};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Rfc3339Time;

/// An invited member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InvitedMemberBody {
    /// The id of the new member; null after a trial run.
    pub id: Option<NodeId>,
    /// For `holdfast join` on the new machine, within one hour. It contains a secret; null after a trial run.
    pub join_token: Option<String>,
}

/// The leader after a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferredLeadershipBody {
    /// The leader.
    pub leader: NodeId,
}

/// The seal of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SealBody {
    /// The revision of the call that sealed the cluster. It names the seal.
    pub revision: Revision,
    /// When the cluster was sealed.
    pub since: Rfc3339Time,
    /// The subject that sealed the cluster; absent without a credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<SubjectName>,
    /// Why the cluster is sealed.
    pub reason: Reason,
}

/// The states of all members at one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StateVerificationBody {
    /// The revision after which the members hashed their states.
    pub revision: Revision,
    /// Whether all members have the same state.
    pub same: bool,
    /// The members, by id.
    pub members: Vec<VerifiedMemberBody>,
}

/// The state of one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerifiedMemberBody {
    /// The member.
    pub id: NodeId,
    /// The digest of its state, 16 hexadecimal digits; absent if the member has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// How its state compares with the majority's.
    pub state: VerifiedState,
}

/// How the state of a member compares with the majority's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum VerifiedState {
    /// The same.
    Same,
    /// A state other than the majority's.
    Different,
    /// The member has no digest, or no majority has the same state.
    Unknown,
}

impl VerifiedState {
    /// The word in JSON and in texts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Different => "different",
            Self::Unknown => "unknown",
        }
    }
}

/// Everything that a new node needs to join a cluster. Its text is `hfj_` and base64url of JSON.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
    /// The name of the cluster.
    pub cluster: String,
    /// 32 hexadecimal digits.
    cluster_id: String,
    /// The id of the new member.
    pub node: NodeId,
    secret: String,
    /// All members, the new one included.
    pub members: BTreeMap<NodeId, MemberAddresses>,
}

/// The text is not a join token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a join token: copy the whole line that 'holdfast member add' printed")]
pub struct NotJoinToken;

impl JoinToken {
    /// The beginning of every join token.
    pub const PREFIX: &str = "hfj_";

    pub fn new(
        cluster: String,
        cluster_id: ClusterId,
        node: NodeId,
        secret: [u8; 32],
        members: BTreeMap<NodeId, MemberAddresses>,
    ) -> Self {
        let secret = URL_SAFE_NO_PAD.encode(secret);
        Self { cluster, cluster_id: cluster_id.to_string(), node, secret, members }
    }

    /// # Errors
    /// [`NotJoinToken`] for a changed token.
    pub fn cluster_id(&self) -> Result<ClusterId, NotJoinToken> {
        u128::from_str_radix(&self.cluster_id, 16).map(ClusterId).map_err(|_| NotJoinToken)
    }

    /// # Errors
    /// As [`JoinToken::cluster_id`].
    pub fn secret(&self) -> Result<[u8; 32], NotJoinToken> {
        let secret = URL_SAFE_NO_PAD.decode(&self.secret).map_err(|_| NotJoinToken)?;
        secret.try_into().map_err(|_| NotJoinToken)
    }

    /// The whole token, with its secret.
    pub fn reveal(&self) -> String {
        // Strings and numbers always have a JSON form.
        let json = serde_json::to_vec(self).unwrap_or_default();
        format!("{}{}", Self::PREFIX, URL_SAFE_NO_PAD.encode(json))
    }
}

/// The secret is left out.
impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken").field("node", &self.node).finish_non_exhaustive()
    }
}

impl FromStr for JoinToken {
    type Err = NotJoinToken;

    fn from_str(text: &str) -> Result<Self, NotJoinToken> {
        let body = text.trim().strip_prefix(Self::PREFIX).ok_or(NotJoinToken)?;
        let json = URL_SAFE_NO_PAD.decode(body).map_err(|_| NotJoinToken)?;
        let token: Self = serde_json::from_slice(&json).map_err(|_| NotJoinToken)?;
        token.cluster_id()?;
        token.secret()?;
        if token.members.contains_key(&token.node) { Ok(token) } else { Err(NotJoinToken) }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::Address;

    use super::*;

    #[test]
    fn a_join_token_is_read_back_and_a_damaged_one_is_rejected() {
        let address = |port: u16| Address::parse(&format!("10.0.0.4:{port}")).unwrap();
        let addresses =
            MemberAddresses { peer: address(1), http: address(2), zookeeper: address(3) };
        let members = BTreeMap::from([(NodeId(4), addresses)]);
        let token = JoinToken::new("prod".into(), ClusterId(7), NodeId(4), [9; 32], members);
        let text = token.reveal();
        assert_eq!(text.parse(), Ok(token.clone()));
        assert_eq!((token.secret(), token.cluster_id()), (Ok([9; 32]), Ok(ClusterId(7))));
        assert!(!format!("{token:?}").contains("CQkJ"), "{token:?}");
        for bad in ["", "hfj_", "hfj_????", &text[..text.len() - 4], &text[4..]] {
            assert_eq!(bad.parse::<JoinToken>(), Err(NotJoinToken), "{bad}");
        }
        let other = JoinToken { node: NodeId(5), ..token };
        assert_eq!(other.reveal().parse::<JoinToken>(), Err(NotJoinToken));
    }
}
