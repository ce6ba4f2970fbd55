//! Parameters of the members and of one node.

use std::time::Duration;

use holdfast_types::{FencingToken, Reason, RecentMetric, VotingRole, Zone};

use crate::param::{Absent, Param};

const ROLES: [&str; 3] =
    [VotingRole::Voter.as_str(), VotingRole::Learner.as_str(), VotingRole::Standby.as_str()];

pub const PEER: Param = Param::text("peer", "The address of the member for other nodes, host:port");
pub const NEW_PEER: Param = PEER.needed("10.0.0.4:7401");
pub const HTTP: Param = Param::text("http", "The address for HTTP clients, host:port");
pub const NEW_HTTP: Param = HTTP.needed("10.0.0.4:7400");
pub const ZOOKEEPER: Param =
    Param::text("zookeeper", "The address for ZooKeeper clients, host:port");
pub const NEW_ZOOKEEPER: Param = ZOOKEEPER.needed("10.0.0.4:7402");
pub const ZONE: Param = Param::name(
    "zone",
    Zone::MAX_LEN,
    "The failure domain of the member, such as a rack; contains neither '/' nor white space",
);
pub const ROLE: Param = Param::word(
    "role",
    &ROLES,
    "Whether the member votes. A learner receives the log and does not vote; a standby is a learner that replaces a voter that does not \
     answer for a long time. A new member has the role of the replaced member by default, or votes",
);
pub const REPLACES: Param = Param::number(
    "replaces",
    (1, FencingToken::END - 1),
    "The member that leaves in the same step in which this one gets its vote. It may be unreachable",
);
pub const REASON: Param =
    Param::bounded_text("reason", Reason::MAX_LEN, "The reason, for the audit trail")
        .needed("moved");
pub const FORCE: Param =
    Param::flag("force", "Accept that the cluster survives fewer failures after the change");
pub const DRY_RUN: Param = Param::flag("dry_run", "Only check the change, and propose nothing");
pub const TO: Param =
    Param::number("to", (1, FencingToken::END - 1), "The voter that leads next; without it, any");
pub const SEAL_REVISION: Param = Param::number(
    "revision",
    (1, FencingToken::END - 1),
    "The `revision` of the seal, from the response to the seal or from `GET /v1/cluster`. A later seal stays",
)
.needed("12")
.hint("GET /v1/cluster shows the seal: read its reason, and send its revision");
pub const LEVEL: Param = Param::number(
    "level",
    (1, 65_535),
    "The new feature level: one above or below the present one",
)
.needed("1")
.hint("GET /v1/cluster shows the present level: name one above or below it");

/// The longest time of a filter.
const LOG_FOR_MAX: Duration = Duration::from_hours(24);
/// The longest filter, bytes.
const LOG_BYTES_MAX: usize = 1_024;

pub const LOG: Param = Param::bounded_text(
    "log",
    LOG_BYTES_MAX,
    "error, warn, info, debug, trace, or a filter such as info,holdfast_raft=debug; by default the configured filter",
);
pub const LOG_FOR: Param = Param::duration(
    "for",
    (Duration::from_secs(1), LOG_FOR_MAX),
    "The time after which the configured filter applies again",
)
.absent(Absent::Duration(Duration::from_mins(10)));

/// How long a node remembers its figures.
pub const RECENT_MAX: Duration = Duration::from_mins(15);

const METRICS: [&str; RecentMetric::ALL.len()] = {
    let mut names = [""; RecentMetric::ALL.len()];
    let mut number = 0;
    while number < names.len() {
        names[number] = RecentMetric::ALL[number].as_str();
        number += 1;
    }
    names
};

pub const METRIC: Param = Param::word("metric", &METRICS, "Only this figure");
pub const LAST: Param =
    Param::duration("last", (Duration::from_secs(1), RECENT_MAX), "How far the values go back")
        .absent(Absent::Duration(RECENT_MAX));
pub const STEP: Param = Param::duration(
    "step",
    (Duration::from_secs(1), Duration::from_mins(1)),
    "The time between two values, in whole seconds. A value is the mean of a rate, and the largest of other figures",
)
.absent(Absent::Duration(Duration::from_secs(1)));
