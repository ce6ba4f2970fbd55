//! The audit trail: what operators and administrators have changed, the newest first.

use futures_util::FutureExt as _;
use holdfast_api::{AuditBody, AuditRecordBody, escape_query};
use holdfast_types::Stamp;
use maud::{Markup, html};

use crate::call::ApiResult;
use crate::form::{FormFields, link};
use crate::page::{ConsolePage, PageContent, PageRequest};
use crate::text::{at, count, name, visible};

pub(super) static PAGE: ConsolePage = ConsolePage {
    path: "audit",
    title: "Audit",
    in_navigation: true,
    render: |request| render(request).boxed(),
};

/// The records of one call.
const ROWS: u64 = 200;
/// The most calls for one page: a filter can skip many records.
const READS_MAX: usize = 10;
const FILTERS: [(&str, &str); 3] =
    [("subject", "Subject"), ("action", "Action"), ("target", "Target")];

async fn render(request: &PageRequest) -> ApiResult<PageContent> {
    let (found, before) = find(request).await?;
    let live = html! {
        p id="found" { (count(found.len() as u64, "record")) }
        @if !found.is_empty() { (table(&found, request.now)) }
        @else if before.is_none() { p id="empty" { "No record matches. A change by an operator or an administrator makes one." } }
        @if let Some(before) = before {
            p { "This page has read the records back to number " (before) ". " a id="next" href=(link("audit", &fields(&request.fields, &before.to_string()))) { "Older records" } }
        }
    };
    Ok(PageContent {
        title: "Audit trail".to_owned(),
        above: filters(&request.fields),
        live,
        revision: request.api.place().revision,
        ..PageContent::default()
    })
}

fn fields<'a>(of: &'a FormFields, before: &'a str) -> [(&'static str, &'a str); 5] {
    let [subject, action, target] =
        FILTERS.map(|(field, _)| (field, of.get(field).unwrap_or_default()));
    let revision = ("revision", of.get("revision").unwrap_or_default());
    [subject, action, target, revision, ("before", before)]
}

/// Reads backwards until a page is full: the API reads forwards from a number. Also returns the number of the oldest record
/// that it has read, if there are older ones.
async fn find(request: &PageRequest) -> ApiResult<(Vec<AuditRecordBody>, Option<u64>)> {
    // The link of a notice names the revision of its change.
    let revision = request.fields.get("revision").and_then(|text| text.parse::<u64>().ok());
    let wanted = if revision.is_some() { 1 } else { ROWS };
    let query = query(&request.fields);
    let newest: AuditBody = request.api.read("/v1/audit?limit=1").await?;
    let oldest = newest.oldest.unwrap_or(1);
    let before = request.fields.get("before").and_then(|before| before.parse().ok());
    let mut before = before.unwrap_or_else(|| newest.newest.unwrap_or(0) + 1);
    let mut found: Vec<AuditRecordBody> = Vec::new();
    for _ in 0..READS_MAX {
        if before <= oldest || found.len() as u64 >= wanted {
            break;
        }
        let after = before.saturating_sub(ROWS + 1);
        let target = format!("/v1/audit?limit={ROWS}&after={after}{query}");
        let page: AuditBody = request.api.read(&target).await?;
        let matches = |record: &AuditRecordBody| {
            record.number < before && revision.is_none_or(|revision| record.revision.0 == revision)
        };
        let mut older: Vec<_> = page.records.into_iter().filter(matches).collect();
        older.append(&mut found);
        (found, before) = (older, after + 1);
    }
    Ok((found, Some(before).filter(|before| *before > oldest)))
}

fn query(fields: &FormFields) -> String {
    let of = |(field, _): (&str, &str)| {
        let value = fields.typed(field)?;
        Some(format!("&{field}={}", escape_query(value)))
    };
    FILTERS.into_iter().filter_map(of).collect()
}

fn filters(fields: &FormFields) -> Markup {
    html! {
        form method="get" action="audit" class="filters" role="search" {
            @for (at, (field, label)) in FILTERS.into_iter().enumerate() {
                @let id = if at == 0 { "filter" } else { field };
                label for=(id) { (label) }
                input type="search" id=(id) name=(field) value=[fields.get(field)] autocomplete="off" spellcheck="false";
            }
            button type="submit" { "Apply" }
        }
    }
}

fn table(records: &[AuditRecordBody], now: Stamp) -> Markup {
    html! {
        div class="scroll" {
            table class="rows" id="records" {
                thead { tr {
                    th scope="col" class="number" { "Number" } th scope="col" { "Time" } th scope="col" { "Subject" } th scope="col" { "Action" }
                    th scope="col" { "Target" } th scope="col" { "Reason and details" }
                } }
                tbody { @for record in records.iter().rev() { (row(record, now)) } }
            }
        }
    }
}

fn row(record: &AuditRecordBody, now: Stamp) -> Markup {
    let json = serde_json::to_string_pretty(record).unwrap_or_default();
    html! {
        tr id={ "record-" (record.number) } data-action=(record.action.as_str()) data-revision=(record.revision) {
            td class="number" { (record.number) }
            td { (at(record.at.0, now)) }
            td { @match &record.subject { Some(subject) => (name(subject.as_str())), None => span.quiet { (record.credential) } } }
            td { (record.action.as_str()) }
            th scope="row" { (name(&record.target)) }
            td {
                @if let Some(reason) = &record.reason { p { (visible(reason.as_str())) } }
                @if !record.detail.is_empty() { p.quiet { (visible(&record.detail)) } }
                details { summary { "JSON" } pre tabindex="0" { code { (json) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_becomes_the_query_of_the_api() {
        let fields = FormFields::parse("subject=eva&target=a%2Fb&before=7&x=1");
        assert_eq!(query(&fields), "&subject=eva&target=a%2Fb");
        assert_eq!(
            link("audit", &super::fields(&fields, "5")),
            "audit?subject=eva&target=a%2Fb&before=5"
        );
        assert_eq!(query(&FormFields::default()), "");
    }

    #[test]
    fn a_record_shows_who_did_what_and_why_and_escapes_it() {
        let text = r#"{"number":3,"revision":12,"at":"2026-03-01T14:05:09.000Z","credential":"none","class":"intervention",
            "action":"force-release","target":"<b>","detail":"token 7","items":[],"reason":"<i>stuck",
            "hash":"0000000000000000000000000000000000000000000000000000000000000000"}"#;
        let record: AuditRecordBody = serde_json::from_str(text).unwrap();
        let text = row(&record, Stamp(1_772_373_969_000)).into_string();
        assert!(!text.contains("<b>") && !text.contains("<i>"), "{text}");
        assert!(text.contains("&lt;i&gt;stuck") && text.contains("force-release"), "{text}");
        assert!(text.contains(r#"data-revision="12""#) && text.contains("1 min 0 s"), "{text}");
    }
}
