//! Golden bytes. All later versions must read bytes on disk; a change of other bytes between nodes needs a new
//! version in `PROTOCOLS`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use bytes::Bytes;
use holdfast_codec::Kind;
use holdfast_trace::TraceContext;
use holdfast_types::{
    Actor, ClusterId, Command, Entry, FeatureLevel, Incarnation, LockName, LockRejection, NodeId,
    Reason, Rejection, Reply as CommandReply, Revision, SessionName, Stamp, TreeRejection,
};
use serde::de::DeserializeOwned;
use serde::ser::SerializeTuple as _;
use serde::{Serialize, Serializer};

use super::*;
use crate::start::join::JoinRequest;
use crate::type_config::{
    Batch, LeaderId, LogId, Membership, Payload, RaftEntry, SnapshotMeta, StoredMembership,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

fn log_id() -> LogId {
    LogId::new(LeaderId { term: 7, node_id: 2 }, 0x0102)
}

fn membership() -> Membership {
    let all = BTreeSet::from([1, 2, 3]);
    Membership::new(vec![all.clone()], all).unwrap()
}

fn batch() -> Batch {
    let session = SessionName::new("me").unwrap();
    let commands = vec![Command::CloseSession { session, attachment: None, incarnation: None }];
    Batch::encode(Entry { stamped_at: Stamp(5), commands }).unwrap()
}

#[track_caller]
fn golden<T>(kind: Kind, value: &T, expected: &str)
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let bytes = holdfast_codec::encode(kind, value).unwrap();
    assert_eq!(hex(&bytes), expected, "the format has changed: that needs a new version");
    assert_eq!(&holdfast_codec::decode::<T>(kind, &bytes).unwrap(), value);
}

#[track_caller]
fn golden_record(payload: Payload, expected: &str) {
    let entry = RaftEntry { log_id: log_id(), payload };
    let bytes = encode_record(&entry).unwrap();
    assert_eq!(hex(&bytes), expected, "the format has changed: that needs a new version");
    assert_eq!(decode_record(&bytes).unwrap(), entry);
}

#[test]
fn records_keep_their_bytes() {
    golden_record(
        Payload::Blank,
        "484601011c000000915b9e250700000000000000020000000000000002010000000000000000\
         0000",
    );
    golden_record(
        Payload::Normal(batch()),
        "4846010150000000389584f90700000000000000020000000000000002010000000000000100\
         00002c000000000000004846010d200000009c1678f805000000000000000100000000000000\
         0200000002000000000000006d650000",
    );
    golden_record(
        Payload::Membership(membership()),
        "4846010164000000c0b83d340700000000000000020000000000000002010000000000000200\
         0000010000000000000003000000000000000100000000000000020000000000000003000000\
         000000000300000000000000010000000000000002000000000000000300000000000000",
    );
}

#[test]
fn the_commands_of_the_seal_keep_their_bytes() {
    let reason = Reason::new("move").unwrap();
    let payload = |command| {
        let entry = Entry { stamped_at: Stamp(5), commands: vec![command] };
        Payload::Normal(Batch::encode(entry).unwrap())
    };
    golden_record(
        payload(Command::Seal { reason }),
        "4846010150000000a9c170fe0700000000000000020000000000000002010000000000000100\
         00002c000000000000004846010d20000000598a0cc705000000000000000100000000000000\
         1b00000004000000000000006d6f7665",
    );
    golden_record(
        payload(Command::Unseal { seal: Revision(3) }),
        "484601014c0000002ff06c990700000000000000020000000000000002010000000000000100\
         000028000000000000004846010d1c00000072cadef605000000000000000100000000000000\
         1c0000000300000000000000",
    );
}

#[test]
fn votes_and_positions_keep_their_bytes() {
    golden(
        Kind::Vote,
        &VoteDto { term: 7, node: 2, committed: true },
        "4846010211000000180283de0700000000000000020000000000000001",
    );
    golden(
        Kind::Committed,
        &LogIdDto::from(log_id()),
        "4846010318000000a7e14e52070000000000000002000000000000000201000000000000",
    );
}

#[test]
fn snapshot_metas_keep_their_bytes() {
    let meta = SnapshotMeta {
        last_log_id: Some(log_id()),
        last_membership: StoredMembership::new(Some(log_id()), membership()),
    };
    let dto = SnapshotMetaDto::from(&meta);
    golden(
        Kind::SnapshotMeta,
        &dto,
        "484601057a0000003143d7a90107000000000000000200000000000000020100000000000001\
         0700000000000000020000000000000002010000000000000100000000000000030000000000\
         0000010000000000000002000000000000000300000000000000030000000000000001000000\
         0000000002000000000000000300000000000000",
    );
    assert_eq!(dto.into_meta().unwrap(), meta);
    let empty = SnapshotMeta::default();
    assert_eq!(SnapshotMetaDto::from(&empty).into_meta().unwrap(), empty);
}

#[test]
fn hellos_keep_their_bytes() {
    let hello = Hello {
        protocols: ProtocolRange { oldest: 5, newest: 5 },
        cluster: "c".into(),
        cluster_id: Some(ClusterId(0xC1)),
        level_max: FeatureLevel(1),
        from: NodeId(1),
        incarnation: Incarnation(0xAB),
        to: NodeId(2),
        purpose: Purpose::Calls,
        extensions: vec![(7, Bytes::from_static(b"x"))],
    };
    golden(
        Kind::Hello,
        &hello,
        "484601124f000000610fc2040500050001000000000000006301c10000000000000000000000\
         0000000001000100000000000000ab0000000000000002000000000000000300000001000000\
         000000000700010000000000000078",
    );
    let accepted = HelloAccepted {
        protocol: 3,
        node: NodeId(2),
        incarnation: Incarnation(0xCD),
        level_max: FeatureLevel(1),
        extensions: Vec::new(),
    };
    golden(
        Kind::Hello,
        &HelloReply::Accepted(accepted),
        "48460112200000008922d2ad0000000003000200000000000000cd0000000000000001000000\
         000000000000",
    );
    golden(
        Kind::Hello,
        &HelloReply::Refused(Refusal::Incarnation),
        "48460112080000008522f8da0100000004000000",
    );
    golden(
        Kind::Hello,
        &HelloReply::Refused(Refusal::Retired { why: "x".into() }),
        "4846011211000000a5bd6a3a010000000a000000010000000000000078",
    );
    golden(
        Kind::Hello,
        &HelloReply::Refused(Refusal::Readmitted { node: NodeId(4), cluster_id: ClusterId(5) }),
        "48460112200000006746c884010000000c000000040000000000000005000000000000000000000000000000",
    );
    let why = InvitationRefusal::Wrong;
    golden(
        Kind::Hello,
        &HelloReply::Refused(Refusal::Invitation { why }),
        "484601120c000000729317d0010000000b00000001000000",
    );
}

#[track_caller]
fn golden_request(call: impl Into<RequestBody>, expected: &str) {
    let request = Request { id: 9, remaining_ms: 250, body: call.into() };
    golden(Kind::PeerRequest, &request, expected);
}

#[track_caller]
fn golden_reply<C: PeerCall>(result: Result<C::Reply, String>, expected: &str)
where
    C::Reply: PartialEq + std::fmt::Debug,
{
    golden(Kind::PeerReply, &Reply { id: 9, result }, expected);
}

const TRACE: TraceContext = TraceContext { trace: 0xAB, span: 0xCD };

fn run() -> CommandRun {
    let session = SessionName::new("me").unwrap();
    let command = Command::CloseSession { session, attachment: None, incarnation: None };
    CommandRun { commands: vec![command], urgency: Urgency::MayWait }
}

#[test]
fn requests_keep_their_bytes() {
    golden_request(
        Append {
            vote: VoteDto { term: 7, node: 2, committed: true },
            previous: Some(log_id().into()),
            commit: None,
            records: vec![Bytes::from_static(b"r")],
        },
        "484601094c000000aa2c344e0900000000000000fa0000000100000007000000000000000200\
         0000000000000101070000000000000002000000000000000201000000000000000100000000\
         000000010000000000000072",
    );
    golden_request(
        Propose { runs: vec![run()], traces: Vec::new() },
        "484601093c0000001124c5380900000000000000fa0000000800000001000000000000000100\
         0000000000000200000002000000000000006d650000010000000000000000000000",
    );
    golden_request(
        Propose { runs: vec![run()], traces: vec![Some(TRACE)] },
        "4846010955000000f256a0840900000000000000fa0000000800000001000000000000000100\
         0000000000000200000002000000000000006d65000001000000010000000000000001ab0000\
         00000000000000000000000000cd00000000000000",
    );
    golden_request(
        ServiceRequest(Bytes::new()),
        "4846010918000000d47954310900000000000000fa0000000b0000000000000000000000",
    );
    golden_request(ReadBootstrapState, "4846010910000000b8a751b50900000000000000fa0000000c000000");
    golden_request(
        CheckPeer(NodeId(4)),
        "4846010918000000497fffe40900000000000000fa0000000e0000000400000000000000",
    );
    golden_request(
        ConfirmLoss { leader: NodeId(2), term: 7 },
        "4846010920000000ec5097200900000000000000fa0000000f00000002000000000000000700\
         000000000000",
    );
    golden_request(
        AcceptMembers(initial_members()),
        "4846010942000000f17a81b30900000000000000fa0000000d000000c1000000000000000000\
         0000000000000100ab0000000000000001000000000000000100000000000000ab0000000000\
         0000",
    );
}

#[test]
fn replies_keep_their_bytes() {
    golden_reply::<Propose>(
        Ok(vec![Err(ProposeRefusal::Unknown)]),
        "4846010a1c000000b5367b8a09000000000000000000000001000000000000000100000004000000",
    );
    golden_reply::<Propose>(
        Ok(vec![Err(ProposeRefusal::DisksFull([NodeId(2)].into()))]),
        "4846010a2c0000000dc783090900000000000000000000000100000000000000010000000500000001\
         000000000000000200000000000000",
    );
    golden_reply::<ReadIndex>(
        Ok(7),
        "4846010a140000008fea12fb0900000000000000000000000700000000000000",
    );
    golden_reply::<ReadIndex>(
        Err("no".into()),
        "4846010a1600000056b7fac909000000000000000100000002000000000000006e6f",
    );
    golden_reply::<ConfirmLoss>(
        Ok(LossReply { is_lost: true, last: Some(log_id().into()), uptime: 12 }),
        "4846010a27000000d6bcc9f609000000000000000000000001010700000000000000020000000000\
         000002010000000000000c",
    );
    let state = BootstrapState {
        incarnation: Incarnation(7),
        blank: true,
        has_registered_caller: false,
        level_max: FeatureLevel(1),
        initial_members: None,
    };
    golden_reply::<ReadBootstrapState>(
        Ok(state),
        "4846010a19000000df96eeef09000000000000000000000007000000000000000100010000",
    );
    golden_reply::<AcceptMembers>(Ok(()), "4846010a0c000000d70aa102090000000000000000000000");
}

#[test]
fn join_requests_keep_their_bytes() {
    let (cluster, cluster_id) = ("c".to_owned(), ClusterId(0xC1));
    let request = JoinRequest { cluster, cluster_id, node: NodeId(4), secret: [7; 32] };
    golden(
        Kind::JoinRequest,
        &request,
        "4846011941000000b9e377be010000000000000063c100000000000000000000000000000004\
         000000000000000707070707070707070707070707070707070707070707070707070707070707",
    );
}

fn initial_members() -> InitialMembers {
    let members = BTreeMap::from([(NodeId(1), Incarnation(0xAB))]);
    let (cluster_id, level) = (ClusterId(0xC1), FeatureLevel(1));
    InitialMembers { cluster_id, level, initiator: Incarnation(0xAB), members }
}

#[test]
fn initial_members_keep_their_bytes() {
    golden(
        Kind::InitialMembers,
        &initial_members(),
        "48460113320000006feeaaa6c10000000000000000000000000000000100ab00000000000000\
         01000000000000000100000000000000ab00000000000000",
    );
}

#[test]
fn damaged_records_are_errors() {
    let bytes = encode_record(&RaftEntry { log_id: log_id(), payload: Payload::Blank }).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 1;
        assert!(decode_record(&damaged).is_err(), "bit {at}");
        assert!(decode_record(&bytes[..at]).is_err(), "cut at {at}");
    }
}

/// Bytes without their length before them.
struct Raw(Vec<u8>);

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(self.0.len())?;
        self.0.iter().try_for_each(|byte| tuple.serialize_element(byte))?;
        tuple.end()
    }
}

/// Decodes `outer`, which ends with `inner`, with everything before `inner` repeated.
#[track_caller]
fn check_nesting<T: Serialize + DeserializeOwned>(outer: &T, inner: &T) {
    let payload = |value| holdfast_codec::encode(Kind::Batch, value).unwrap().split_off(12);
    let (outer, inner) = (payload(outer), payload(inner));
    let around = outer.strip_suffix(&inner[..]).unwrap();
    for (depth, is_decoded) in [(1, true), (2, true), (500_000, false), (2, true)] {
        let nested = Raw([&around.repeat(depth)[..], &inner].concat());
        let frame = holdfast_codec::encode(Kind::Batch, &nested).unwrap();
        let decoded = holdfast_codec::decode::<T>(Kind::Batch, &frame);
        assert_eq!(decoded.is_ok(), is_decoded, "{depth}");
    }
}

/// Their decoding would exhaust the stack, and end the process.
#[test]
fn deeply_nested_values_of_a_peer_are_errors() {
    check_nesting(&Command::VerifyState.by(Actor::Node), &Command::VerifyState);
    let reply = Box::new(CommandReply::LevelSet);
    let repeated = CommandReply::Repeated { revision: Revision(1), reply };
    check_nesting(&repeated, &CommandReply::LevelSet);
    let inner = Rejection::NodeIdTaken;
    let of_operation = TreeRejection::OfOperation { at: 0, why: Box::new(inner.clone()) };
    check_nesting(&Rejection::Tree(of_operation), &inner);
    let lock = LockName::new("a").unwrap();
    let of_lock = LockRejection::OfMultiLock { lock, why: Box::new(inner.clone()) };
    check_nesting(&Rejection::Lock(of_lock), &inner);
}
