//! `holdfast audit`: what operators and administrators have changed.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use holdfast_api::parameters::LIMIT;
use holdfast_api::parameters::auth::{
    AUDIT_ACTION, AUDIT_AFTER, AUDIT_SUBJECT, AUDIT_TARGET, AUDIT_WAIT,
};
use holdfast_api::{
    AuditBody, AuditEvictedBody, AuditGapBody, AuditGapLine, AuditRecordBody, ClusterBody,
    LIST_LIMIT_MAX, Query, format_time,
};
use holdfast_client::{Call, Client, Error};
use holdfast_types::{AuditAction, AuditClass, AuditHash, Credential, NodeId, SubjectName};
use serde::Serialize;

use super::calls::StaleArgs;
use crate::arguments::{ClusterArgs, Format, list_length};
use crate::exit::CommandFailure;
use crate::output::{answer, answer_rows, cell, check, table, table_or};

/// How long one call of `follow` waits.
const FOLLOW_WAIT: Duration = Duration::from_mins(1);
const AUDIT: &str = "/v1/audit";

/// Show what operators and administrators have changed.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List the latest records.
    Ls(AuditLsArgs),
    /// Print new records until ^C, one line each.
    Follow(AuditFollowArgs),
    /// Check the hashes of all records, that none is missing, and that every node has the same; count the evicted ones.
    #[command(
        after_help = "Exit codes: 0 if every node has the same unchanged records, 1 otherwise."
    )]
    Verify(ClusterArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AuditLsArgs {
    #[command(flatten)]
    filter: AuditFilterArgs,
    /// The number of records.
    #[arg(short = 'n', long, default_value_t = 20, value_parser = list_length)]
    limit: usize,
    #[command(flatten)]
    stale: StaleArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuditFollowArgs {
    #[command(flatten)]
    filter: AuditFilterArgs,
    /// Also print the records after this number; by default only new records.
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// Stop after this number of records.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Which records to show.
#[derive(Debug, Args)]
struct AuditFilterArgs {
    /// Only the changes of this subject.
    #[arg(long)]
    subject: Option<SubjectName>,
    /// Only this action, such as force-release.
    #[arg(long, value_parser = audit_action)]
    action: Option<AuditAction>,
    /// Only the changes of this lock, session, role, subject or access token.
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
}

impl AuditFilterArgs {
    fn query(&self) -> Query {
        let query = Query::default().with_some(&AUDIT_SUBJECT, self.subject.as_ref());
        let query = query.with_some(&AUDIT_ACTION, self.action.as_ref());
        query.with_some(&AUDIT_TARGET, self.target.as_ref())
    }

    fn may_match(&self, class: AuditClass) -> bool {
        self.action.is_none_or(|action| action.class() == class)
    }
}

fn audit_action(text: &str) -> Result<AuditAction, String> {
    AuditAction::ALL.into_iter().find(|action| action.as_str() == text).ok_or_else(|| {
        let words: Vec<_> = AuditAction::ALL.iter().map(|action| action.as_str()).collect();
        format!("write one of {}", words.join(", "))
    })
}

pub(crate) async fn run(command: AuditCommand) -> Result<(), CommandFailure> {
    match command {
        AuditCommand::Ls(args) => ls(&args).await,
        AuditCommand::Follow(args) => follow(&args).await,
        AuditCommand::Verify(cluster) => verify(&cluster).await,
    }
}

async fn ls(args: &AuditLsArgs) -> Result<(), CommandFailure> {
    let query = args.stale.query(args.filter.query());
    let mut body = read_all(&args.cluster.quick_client()?, &query, args.stale).await?;
    let first = body.records.len().saturating_sub(args.limit);
    body.records.drain(..first);
    let numbers = body.records.iter().map(|record| record.number);
    let rows = body.records.iter().map(row);
    let header = ["number", "time", "subject", "action", "target", "detail", "reason"];
    let text = table_or("no records of the audit trail match", header, rows);
    answer_rows(args.cluster.format(), &body, &body.records, numbers, &text);
    Ok(())
}

async fn follow(args: &AuditFollowArgs) -> Result<(), CommandFailure> {
    let client = args.cluster.client()?;
    let mut after = match args.after {
        Some(after) => after,
        None => newest(&client).await?,
    };
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut reported = BTreeMap::new();
    while left > 0 {
        let read = async |wait| read_after(&client, &args.filter.query(), after, wait).await;
        let body = match read(FOLLOW_WAIT).await {
            // The node that held the call is gone. Another one answers, unless the cluster is unavailable.
            Err(Error::Unavailable(_)) => read(Duration::ZERO).await?,
            result => result?,
        };
        for gap in new_gaps(&body, after, &mut reported) {
            if args.filter.may_match(gap.class) {
                show_gap(args.cluster.format(), gap);
                check()?;
            }
        }
        for record in body.records {
            if left > 0 {
                let line = row(&record).join("  ");
                answer(args.cluster.format(), &record, record.number, &line);
                check()?;
                left -= 1;
            }
        }
        after = body.next_after;
    }
    Ok(())
}

/// Returns the records that the cluster evicted before they were read, once for each class.
fn new_gaps(
    body: &AuditBody,
    after: u64,
    reported: &mut BTreeMap<AuditClass, u64>,
) -> Vec<AuditGapBody> {
    let mut gaps = Vec::new();
    for AuditEvictedBody { class, newest, newest_at, .. } in &body.evicted {
        let known = reported.get(class).copied().unwrap_or_default().max(after);
        if *newest > known {
            reported.insert(*class, *newest);
            let (newest, newest_at) = (*newest, *newest_at);
            gaps.push(AuditGapBody { class: *class, after: known, newest, newest_at });
        }
    }
    gaps
}

/// Prints a gap as the copies of the nodes have it. It has no number of a record.
fn show_gap(format: Format, gap: AuditGapBody) {
    let (class, time) = (gap.class.as_str(), format_time(gap.newest_at.0));
    let text = format!(
        "the cluster has evicted records of {class} from after {} up to {} of {time}",
        gap.after, gap.newest
    );
    let line = AuditGapLine { gap };
    answer_rows(format, &line, [&line], None::<u64>, &text);
}

/// The number of the newest record; 0 before the first.
async fn newest(client: &Client) -> Result<u64, Error> {
    let query = Query::default().with(&LIMIT, &1_usize);
    let body = read_after(client, &query, 0, Duration::ZERO).await?;
    Ok(body.newest.unwrap_or_default())
}

/// Reads at most one page after a number.
async fn read_after(
    client: &Client,
    query: &Query,
    after: u64,
    wait: Duration,
) -> Result<AuditBody, Error> {
    let query = query.clone().with(&AUDIT_AFTER, &after).with(&AUDIT_WAIT, &wait);
    client.call(&Call::get(query.target(AUDIT)).wait(wait)).await
}

/// Reads every page.
async fn read_all(client: &Client, query: &Query, stale: StaleArgs) -> Result<AuditBody, Error> {
    let query = query.clone().with(&LIMIT, &LIST_LIMIT_MAX);
    let page = async |after: u64| -> Result<AuditBody, Error> {
        let query = query.clone().with(&AUDIT_AFTER, &after);
        stale.read(client, &Call::get(query.target(AUDIT))).await
    };
    let mut all = page(0).await?;
    while all.newest.is_some_and(|newest| all.next_after < newest) {
        let next = page(all.next_after).await?;
        all.records.extend(next.records);
        (all.next_after, all.newest, all.evicted) = (next.next_after, next.newest, next.evicted);
    }
    Ok(all)
}

fn row(record: &AuditRecordBody) -> [String; 7] {
    [
        record.number.to_string(),
        format_time(record.at.0),
        caller(record),
        record.action.as_str().to_owned(),
        record.target.clone(),
        cell(Some(&record.detail)),
        cell(record.reason.as_ref()),
    ]
}

/// The subject; `(node)` for a change that no caller requested, such as an automatic replacement.
fn caller(record: &AuditRecordBody) -> String {
    let is_node = record.subject.is_none() && record.credential == Credential::Node.as_str();
    if is_node { "(node)".to_owned() } else { cell(record.subject.as_ref()) }
}

/// The audit trail of one node.
#[derive(Debug, Serialize)]
struct NodeTrail {
    node: NodeId,
    address: String,
    /// The number of its records.
    records: usize,
    /// The number and the hash of its newest record.
    newest: Option<(u64, AuditHash)>,
    /// The records that the cluster no longer keeps.
    evicted: Vec<AuditEvictedBody>,
    /// Why the trail is not the same unchanged trail as those of the other nodes.
    problem: Option<String>,
}

async fn verify(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let view: ClusterBody = cluster.client()?.call(&Call::get("/v1/cluster")).await?;
    let mut read = Vec::new();
    for node in view.nodes {
        let only = cluster.nodes.only(&node.http);
        let client = only.client_with(|builder| builder.request_timeout(Duration::from_secs(5)))?;
        let records = read_all(&client, &Query::default(), StaleArgs::NO).await;
        read.push((node.id, node.http, records));
    }
    let trails = compared(read);
    let rows = trails.iter().map(|trail| {
        let newest = trail.newest.map(|(number, hash)| format!("{number} {hash}"));
        let verdict = trail.problem.clone().unwrap_or_else(|| "ok".to_owned());
        let (node, records) = (trail.node.to_string(), trail.records.to_string());
        let evicted: Vec<_> = trail.evicted.iter().map(shown_evicted).collect();
        let evicted = cell((!evicted.is_empty()).then(|| evicted.join(", ")));
        [node, trail.address.clone(), records, evicted, cell(newest), verdict]
    });
    let text = table(["node", "address", "records", "evicted", "newest", "result"], rows);
    let verdicts = trails.iter().map(|trail| trail.problem.as_deref().unwrap_or("ok"));
    answer_rows(cluster.format(), &trails, &trails, verdicts, &text);
    let is_sound = trails.iter().all(|trail| trail.problem.is_none());
    if is_sound { Ok(()) } else { Err(CommandFailure::Code(1, None)) }
}

/// `4205 of policy up to 2026-11-24T09:00:00Z`
fn shown_evicted(evicted: &AuditEvictedBody) -> String {
    let AuditEvictedBody { class, count, newest_at, .. } = evicted;
    format!("{count} of {} up to {}", class.as_str(), format_time(newest_at.0))
}

/// Checks each trail, and compares it with those of the other nodes.
fn compared(read: Vec<(NodeId, String, Result<AuditBody, Error>)>) -> Vec<NodeTrail> {
    let mut hashes: BTreeMap<u64, Vec<AuditHash>> = BTreeMap::new();
    let bodies = read.iter().filter_map(|(.., body)| body.as_ref().ok());
    for record in bodies.flat_map(|body| &body.records) {
        hashes.entry(record.number).or_default().push(record.hash);
    }
    let differs = |record: &&AuditRecordBody| {
        let all = hashes.get(&record.number).map_or(&[][..], Vec::as_slice);
        let same = all.iter().filter(|hash| **hash == record.hash).count();
        // Two nodes that differ contradict each other: neither is right.
        2 * same <= all.len()
    };
    let trail = |(node, address, body): (NodeId, String, Result<AuditBody, Error>)| {
        let (records, evicted, problem) = match body {
            Ok(body) => {
                let other = || {
                    let number = body.records.iter().find(differs)?.number;
                    Some(format!("record {number} differs from that of other nodes"))
                };
                let problem = broken_link(&body).or_else(other);
                (body.records, body.evicted, problem)
            }
            Err(error) => (Vec::new(), Vec::new(), Some(error.to_string())),
        };
        let newest = records.last().map(|record| (record.number, record.hash));
        NodeTrail { node, address, records: records.len(), newest, evicted, problem }
    };
    read.into_iter().map(trail).collect()
}

/// The first record that does not follow from the one of its class before it, or the number of missing records.
fn broken_link(body: &AuditBody) -> Option<String> {
    let is_whole = |class: &AuditClass| body.evicted.iter().all(|evicted| evicted.class != *class);
    // The hash of an evicted record is unknown.
    let whole = AuditClass::ALL.into_iter().filter(is_whole);
    let mut newest: BTreeMap<AuditClass, AuditHash> =
        whole.map(|class| (class, AuditHash::default())).collect();
    for record in &body.records {
        let (number, class) = (record.number, record.action.class());
        let hash = newest.insert(class, record.hash);
        let hash = hash.map(|before| Some(record.clone().record()?.hash_after(before)));
        if hash.is_some_and(|hash| hash != Some(record.hash)) {
            let class = class.as_str();
            return Some(format!("record {number} or the one of {class} before it was changed"));
        }
    }
    // While the pages were read, the cluster may have evicted records of the first ones.
    let was_evicted = |record: &&AuditRecordBody| {
        let class = record.action.class();
        body.evicted.iter().any(|evicted| evicted.class == class && record.number <= evicted.newest)
    };
    let evicted: u64 = body.evicted.iter().map(|evicted| evicted.count).sum();
    let kept = body.records.iter().filter(|record| !was_evicted(record)).count() as u64;
    let missing = body.newest.unwrap_or_default().saturating_sub(kept + evicted);
    (missing > 0).then(|| format!("{missing} records are missing"))
}

#[cfg(test)]
mod tests {
    use holdfast_api::Rfc3339Time;
    use holdfast_types::{AuditItem, AuditRecord, LockName, Revision, Stamp};

    use super::*;

    /// Records of two classes. Those before the range are evicted.
    fn trail(numbers: std::ops::RangeInclusive<u64>) -> AuditBody {
        let mut newest = BTreeMap::new();
        let records = (1..=*numbers.end()).map(|number| {
            let is_policy = number % 2 == 0;
            let action =
                if is_policy { AuditAction::SetLockPolicy } else { AuditAction::ForceRelease };
            let previous: AuditHash = newest.get(&action.class()).copied().unwrap_or_default();
            let mut record = AuditRecord {
                number,
                revision: Revision(10 * number),
                at: Stamp(1_000 * number),
                subject: SubjectName::new("ops").ok(),
                credential: Credential::Certificate,
                action,
                target: AuditItem::Lock(LockName::new(format!("lock{number}")).unwrap()),
                details: Vec::new(),
                reason: None,
                hash: previous,
            };
            record.hash = record.hash_after(previous);
            newest.insert(action.class(), record.hash);
            AuditRecordBody::from(record)
        });
        let start = *numbers.start();
        let records: Vec<_> = records.skip(usize::try_from(start - 1).unwrap()).collect();
        let evicted = |class, count, newest| {
            let (newest_at, evicted_at) = (Rfc3339Time(Stamp(newest)), Rfc3339Time(Stamp(99)));
            AuditEvictedBody { class, count, newest, newest_at, evicted_at }
        };
        let all = [
            evicted(AuditClass::Intervention, start / 2, (start - 1).saturating_sub(start % 2)),
            evicted(AuditClass::Policy, (start - 1) / 2, start - 1 - (start - 1) % 2),
        ];
        let evicted = all.into_iter().filter(|evicted| evicted.count > 0).collect();
        let newest = Some(*numbers.end());
        AuditBody { records, next_after: *numbers.end(), oldest: Some(start), newest, evicted }
    }

    fn problems(trails: Vec<AuditBody>) -> Vec<Option<String>> {
        let read = (1..).zip(trails).map(|(id, body)| (NodeId(id), String::new(), Ok(body)));
        compared(read.collect()).into_iter().map(|trail| trail.problem).collect()
    }

    #[test]
    fn a_change_without_a_caller_is_that_of_a_node() {
        let mut record = trail(1..=1).records.remove(0);
        assert_eq!(caller(&record), "ops");
        record.subject = None;
        assert_eq!(caller(&record), "-");
        record.credential = Credential::Node.as_str().to_owned();
        assert_eq!(caller(&record), "(node)");
    }

    #[test]
    fn equal_trails_are_sound_even_if_some_are_longer() {
        assert_eq!(problems(vec![trail(1..=9), trail(3..=9), trail(1..=7)]), [None, None, None]);
        let empty = AuditBody {
            records: Vec::new(),
            next_after: 0,
            oldest: None,
            newest: None,
            evicted: Vec::new(),
        };
        assert_eq!(problems(vec![trail(1..=9), empty]), [None, None]);
    }

    #[test]
    fn a_changed_record_is_named_with_its_node() {
        let mut changed = trail(1..=9);
        changed.records[4].target = "other".to_owned();
        let problem = Some("record 5 or the one of intervention before it was changed".to_owned());
        assert_eq!(problems(vec![trail(1..=9), changed, trail(1..=9)]), [None, problem, None]);
        let mut changed = trail(1..=9);
        changed.records[4].items = vec![AuditItem::Lock(LockName::new("lock4").unwrap())];
        assert_eq!(problems(vec![changed.clone(), trail(1..=9)])[1], None);
        assert!(problems(vec![changed])[0].is_some());
        let mut shorter = trail(1..=9);
        shorter.records.remove(4);
        let problem = Some("record 7 or the one of intervention before it was changed".to_owned());
        assert_eq!(problems(vec![shorter, trail(1..=9)]), [problem, None]);
    }

    /// The rest of each chain is sound after the removal of its first or last records.
    #[test]
    fn missing_records_are_counted() {
        for (from, count) in [(0, 1), (7, 2)] {
            let mut shorter = trail(4..=12);
            shorter.records.drain(from..from + count);
            let problem = Some(format!("{count} records are missing"));
            assert_eq!(problems(vec![trail(4..=12), shorter]), [None, problem]);
        }
    }

    #[test]
    fn evicted_records_are_counted_with_their_time() {
        let shown: Vec<_> = trail(4..=9).evicted.iter().map(shown_evicted).collect();
        let intervention = "2 of intervention up to 1970-01-01T00:00:00Z";
        assert_eq!(shown, [intervention, "1 of policy up to 1970-01-01T00:00:00Z"]);
    }

    #[test]
    fn records_that_were_evicted_before_they_were_read_are_reported_once() {
        let (body, mut reported) = (trail(4..=9), BTreeMap::new());
        let mut gaps = |body: &AuditBody, after| {
            let gaps = new_gaps(body, after, &mut reported).into_iter();
            gaps.map(|gap| (gap.class.as_str(), gap.after, gap.newest)).collect::<Vec<_>>()
        };
        assert!(gaps(&body, 3).is_empty());
        assert_eq!(gaps(&body, 1), [("intervention", 1, 3), ("policy", 1, 2)]);
        assert!(gaps(&body, 1).is_empty());
        assert_eq!(gaps(&trail(6..=9), 1), [("intervention", 3, 5), ("policy", 2, 4)]);
    }

    /// A trail whose hashes were computed again after a change.
    #[test]
    fn a_forged_trail_differs_from_the_others() {
        let mut forged = trail(1..=9);
        let mut previous = forged.records[2].hash;
        for body in forged.records[4..].iter_mut().step_by(2) {
            body.subject = SubjectName::new("dev").ok();
            body.hash = body.clone().record().unwrap().hash_after(previous);
            previous = body.hash;
        }
        let problem = Some("record 5 differs from that of other nodes".to_owned());
        let two = problems(vec![trail(1..=9), forged.clone()]);
        assert_eq!(two, [problem.clone(), problem.clone()]);
        assert_eq!(problems(vec![trail(1..=9), forged, trail(1..=9)]), [None, problem, None]);
    }
}
