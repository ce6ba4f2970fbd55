//! `holdfast audit`: what operators and administrators have changed.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use holdfast_api::parameters::LIMIT;
use holdfast_api::parameters::audit::{
    AUDIT_ACTION, AUDIT_AFTER, AUDIT_SUBJECT, AUDIT_TARGET, AUDIT_WAIT,
};
use holdfast_api::{AuditBody, AuditRecordBody, ClusterBody, LIST_LIMIT_MAX, Query, format_time};
use holdfast_client::{Call, Client, Error};
use holdfast_types::{AuditAction, AuditHash, Credential, NodeId, SubjectName};
use serde::Serialize;

use super::auth::subject_name;
use super::stale::StaleArgs;
use crate::arguments::{ClusterArgs, NodesArgs, list_length};
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
    /// Check the hashes of all records, and that every node has the same records.
    #[command(
        after_help = "Exit codes: 0 if every node has the same unchanged records, 1 otherwise."
    )]
    Verify(ClusterArgs),
}

/// List the latest records.
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

/// Print new records.
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
    #[arg(long, value_parser = subject_name)]
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
    while left > 0 {
        let read = async |wait| read_after(&client, &args.filter.query(), after, wait).await;
        let body = match read(FOLLOW_WAIT).await {
            // The node that held the call is gone. Another one answers, unless the cluster is unavailable.
            Err(Error::Unavailable(_)) => read(Duration::ZERO).await?,
            result => result?,
        };
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
        (all.next_after, all.newest) = (next.next_after, next.newest);
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
    /// Why the trail is not the same unchanged trail as those of the other nodes.
    problem: Option<String>,
}

async fn verify(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let view: ClusterBody = cluster.client()?.call(&Call::get("/v1/cluster")).await?;
    let mut read = Vec::new();
    for node in view.nodes {
        let only = NodesArgs { addr: vec![node.http.clone()], ..cluster.nodes.clone() };
        let client = only.client_with(|builder| builder.request_timeout(Duration::from_secs(5)))?;
        let records = read_all(&client, &Query::default(), StaleArgs::NO).await;
        read.push((node.id, node.http, records.map(|body| body.records)));
    }
    let trails = compared(read);
    let rows = trails.iter().map(|trail| {
        let newest = trail.newest.map(|(number, hash)| format!("{number} {hash}"));
        let verdict = trail.problem.clone().unwrap_or_else(|| "ok".to_owned());
        let (node, records) = (trail.node.to_string(), trail.records.to_string());
        [node, trail.address.clone(), records, cell(newest), verdict]
    });
    let text = table(["node", "address", "records", "newest", "result"], rows);
    let verdicts = trails.iter().map(|trail| trail.problem.as_deref().unwrap_or("ok"));
    answer_rows(cluster.format(), &trails, &trails, verdicts, &text);
    let is_sound = trails.iter().all(|trail| trail.problem.is_none());
    if is_sound { Ok(()) } else { Err(CommandFailure::Code(1, None)) }
}

/// Checks each trail, and compares it with those of the other nodes.
fn compared(read: Vec<(NodeId, String, Result<Vec<AuditRecordBody>, Error>)>) -> Vec<NodeTrail> {
    let mut hashes: BTreeMap<u64, Vec<AuditHash>> = BTreeMap::new();
    for record in read.iter().filter_map(|(.., records)| records.as_ref().ok()).flatten() {
        hashes.entry(record.number).or_default().push(record.hash);
    }
    let differs = |record: &&AuditRecordBody| {
        let all = hashes.get(&record.number).map_or(&[][..], Vec::as_slice);
        let same = all.iter().filter(|hash| **hash == record.hash).count();
        // Two nodes that differ contradict each other: neither is right.
        2 * same <= all.len()
    };
    let trail = |(node, address, records): (NodeId, String, Result<Vec<_>, Error>)| {
        let (records, problem) = match records {
            Ok(records) => {
                let other = || {
                    let number = records.iter().find(differs)?.number;
                    Some(format!("record {number} differs from that of other nodes"))
                };
                let problem = broken_link(&records).or_else(other);
                (records, problem)
            }
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let newest = records.last().map(|record| (record.number, record.hash));
        NodeTrail { node, address, records: records.len(), newest, problem }
    };
    read.into_iter().map(trail).collect()
}

/// The first record that does not follow from the one before it.
fn broken_link(records: &[AuditRecordBody]) -> Option<String> {
    let mut previous: Option<(u64, AuditHash)> = None;
    for body in records {
        let number = body.number;
        let before = match previous {
            Some((before, hash)) if before + 1 == number => Some(hash),
            Some((before, _)) => return Some(format!("record {} is missing", before + 1)),
            // The hash of a discarded record is unknown.
            None => (number == 1).then(AuditHash::default),
        };
        let hash = before.map(|before| Some(body.clone().record()?.hash_after(before)));
        if hash.is_some_and(|hash| hash != Some(body.hash)) {
            return Some(format!("record {number} was changed: its hash is wrong"));
        }
        previous = Some((number, body.hash));
    }
    None
}

#[cfg(test)]
mod tests {
    use holdfast_types::{AuditRecord, Revision, Stamp};

    use super::*;

    fn trail(numbers: std::ops::RangeInclusive<u64>) -> Vec<AuditRecordBody> {
        let mut previous = AuditHash::default();
        let records = (1..=*numbers.end()).map(|number| {
            let mut record = AuditRecord {
                number,
                revision: Revision(10 * number),
                at: Stamp(1_000 * number),
                subject: SubjectName::new("ops").ok(),
                credential: Credential::Certificate,
                action: AuditAction::BreakLock,
                target: format!("lock{number}"),
                detail: String::new(),
                reason: None,
                hash: previous,
            };
            record.hash = record.hash_after(previous);
            previous = record.hash;
            AuditRecordBody::from(record)
        });
        records.skip(usize::try_from(numbers.start() - 1).unwrap()).collect()
    }

    fn problems(trails: Vec<Vec<AuditRecordBody>>) -> Vec<Option<String>> {
        let read = (1..).zip(trails).map(|(id, records)| (NodeId(id), String::new(), Ok(records)));
        compared(read.collect()).into_iter().map(|trail| trail.problem).collect()
    }

    #[test]
    fn a_change_without_a_caller_is_that_of_a_node() {
        let mut record = trail(1..=1).remove(0);
        assert_eq!(caller(&record), "ops");
        record.subject = None;
        assert_eq!(caller(&record), "-");
        record.credential = Credential::Node.as_str().to_owned();
        assert_eq!(caller(&record), "(node)");
    }

    #[test]
    fn equal_trails_are_sound_even_if_some_are_longer() {
        assert_eq!(problems(vec![trail(1..=9), trail(3..=9), trail(1..=7)]), [None, None, None]);
        assert_eq!(problems(vec![trail(1..=9), Vec::new()]), [None, None]);
    }

    #[test]
    fn a_changed_record_is_named_with_its_node() {
        let mut changed = trail(1..=9);
        changed[4].target = "other".to_owned();
        let problem = Some("record 5 was changed: its hash is wrong".to_owned());
        assert_eq!(problems(vec![trail(1..=9), changed, trail(1..=9)]), [None, problem, None]);
        let mut shorter = trail(1..=9);
        shorter.remove(4);
        let problem = Some("record 5 is missing".to_owned());
        assert_eq!(problems(vec![shorter, trail(1..=9)]), [problem, None]);
    }

    /// A trail whose hashes were computed again after a change.
    #[test]
    fn a_forged_trail_differs_from_the_others() {
        let mut forged = trail(1..=9);
        let mut previous = forged[3].hash;
        for body in &mut forged[4..] {
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
