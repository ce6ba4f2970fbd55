//! A value changes and changes back between a read and the write that depends on it.

use reqwest::Method;

use super::actors::{HttpCaller, holdfast, row, row_database};
use super::{Act, Play, PlayLog};
use crate::servers::ServerKind;

pub(super) const PLAY: Play = Play {
    name: "aba",
    question: "What if a value changes and changes back (ABA)?",
    answer: "A write that compares only the value does not see the two changes. A version sees them, in PostgreSQL and in \
             holdfast's tree, and so does a fencing token: both only grow.",
    acts: &[
        Act::on("PostgreSQL, an optimistic row", &[ServerKind::Postgres], |log| {
            Box::pin(on_postgres(log))
        }),
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(on_holdfast(log))),
    ],
};

async fn on_postgres(log: &PlayLog) -> Result<(), String> {
    let database = row_database(log).await?;
    let (mut web1, mut web2) = (row(&database, "stock").await?, row(&database, "stock").await?);
    let failed = |error: crate::LockError| error.to_string();
    let read = web1.read().await.map_err(failed)?;
    log.note("web1", format!("reads value {}, version {}", read.value, read.version));
    for by in [-1, 1] {
        web2.add(by).await.map_err(failed)?;
        log.outcome("web2", true, format!("adds {by}"));
    }
    let by_version = web1.write_if_version(read, read.value + 10).await.map_err(failed)?;
    log.outcome("web1", by_version, "writes if the version is the one that it read");
    let by_value = web1.write_if_value(read, read.value + 10).await.map_err(failed)?;
    log.outcome("web1", by_value, "writes if the value is the one that it read");
    log.verdict(!by_version, "the comparison of the version sees the two changes");
    log.verdict(by_value, "the comparison of the value does not");
    Ok(())
}

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let web2 = HttpCaller::new(log, &cluster, "web2", 1)?;
    let write = async |caller: &HttpCaller, version: Option<u64>, value: &str| {
        let reply = caller.write("tree/stock", version, value).await?;
        let only = version.map(|version| format!(" if version {version}")).unwrap_or_default();
        let text = format!("PUT tree/stock {value}{only}: {} {}", reply.status, reply.code());
        log.outcome(&caller.name, reply.is_ok(), text.trim_end());
        Ok::<_, String>(reply)
    };
    let read = write(&web2, None, "100").await?.number("version");
    for value in ["99", "100"] {
        write(&web2, None, value).await?;
    }
    let now = web1.call(Method::GET, "tree/stock").await?;
    let late = write(&web1, read, "110").await?;
    log.verdict(
        read.is_some() && now.is_ok() && late.code() == "version-mismatch",
        "the write that names the version of its read is rejected",
    );
    Ok(())
}
