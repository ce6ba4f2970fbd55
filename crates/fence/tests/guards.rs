//! The PostgreSQL guards against a real server, statement by statement.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "test code throughout")]

mod scratch;
mod skip;

use std::future::Future;

use holdfast_fence::postgres::{advance, begin, begin_as, largest_mark};
use holdfast_fence::{
    Claim, FenceError, FencingToken, guard_table_for_sql, guard_table_sql, schema_sql,
};
use scratch::Postgres;
use skip::postgres_or_skip;
use tokio_postgres::{Client, IsolationLevel};

const GOODS: &str = "CREATE TABLE good (id bigint PRIMARY KEY, stock bigint NOT NULL);
    INSERT INTO good VALUES (1, 100);";

fn token(number: u64) -> FencingToken {
    FencingToken(number)
}

async fn prepared(postgres: &Postgres, name: &str) -> Client {
    let client = postgres.connect(name).await.unwrap();
    client.batch_execute(schema_sql()).await.unwrap();
    client.batch_execute(GOODS).await.unwrap();
    client
}

async fn mark(client: &Client) -> Option<(i64, Option<String>)> {
    let row = client.query_opt("SELECT token, holder FROM fence WHERE resource = 'orders'", &[]);
    row.await.unwrap().map(|row| (row.get(0), row.get(1)))
}

async fn rejection<T>(
    attempt: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> FenceError {
    match attempt.await {
        Ok(_) => panic!("the statement was accepted"),
        Err(error) => error.into(),
    }
}

fn assert_stale(error: &FenceError, rejected: u64, newest: u64, by: Option<&str>) {
    let FenceError::Stale { resource, token, newest: seen, holder } = error else {
        panic!("not a stale token: {error}");
    };
    assert_eq!((resource.as_str(), token.0, seen.0), ("orders", rejected, newest), "{error}");
    assert_eq!(holder.as_deref(), by, "{error}");
}

/// Rule 2: equal and larger tokens are accepted, a smaller one is rejected, and only a commit makes the mark durable.
#[tokio::test]
async fn a_token_below_the_mark_is_rejected_with_all_facts() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let mut web = prepared(&postgres, "web1").await;
    let mut late = postgres.connect("web0").await.unwrap();

    begin(&mut web, "orders", token(71)).await.unwrap().commit().await.unwrap();
    begin(&mut web, "orders", token(71)).await.unwrap().commit().await.unwrap();
    assert_eq!(mark(&web).await, Some((71, Some("web1".into()))));

    let error = begin(&mut late, "orders", token(70)).await.err().unwrap();
    assert_stale(&error, 70, 71, Some("web1"));
    let text = error.to_string();
    for part in ["70", "71", "\"orders\"", "\"web1\"", "acquire it again"] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }

    let abandoned = begin_as(&mut late, "orders", token(90), "job-90").await.unwrap();
    abandoned.rollback().await.unwrap();
    assert_eq!(mark(&web).await, Some((71, Some("web1".into()))), "a rollback left a mark");
    begin_as(&mut late, "orders", token(72), "job-72").await.unwrap().commit().await.unwrap();
    let error = begin(&mut web, "orders", token(71)).await.err().unwrap();
    assert_stale(&error, 71, 72, Some("job-72"));

    begin(&mut web, "other", token(5)).await.unwrap().commit().await.unwrap();
}

/// The SQLSTATE, message and hint that psql and programs in other languages receive.
#[tokio::test]
async fn plain_sql_returns_sqlstates_and_facts() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let client = prepared(&postgres, "psql").await;
    client.batch_execute("SELECT fence_check('orders', 34, 'web2')").await.unwrap();
    let error = client.batch_execute("SELECT fence_check('orders', 33)").await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.code().code(), "FN001");
    assert_eq!(
        error.message(),
        "stale fencing token 33 for \"orders\": the newest is 34, shown by \"web2\""
    );
    assert!(error.hint().unwrap().contains("acquire it again"));

    for bad in ["'orders', NULL", "NULL, 7", "'', 7", "'orders', 0", "'orders', 9007199254740992"] {
        let error = client.batch_execute(&format!("SELECT fence_check({bad})")).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "FN002", "{bad}");
    }
    client.batch_execute("SELECT fence_check('orders', 9007199254740991)").await.unwrap();
}

/// An invalid token is rejected before it reaches the database.
#[tokio::test]
async fn an_invalid_token_is_rejected() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let mut client = prepared(&postgres, "web").await;
    for number in [0, FencingToken::END, u64::MAX] {
        let error = begin(&mut client, "orders", token(number)).await.err().unwrap();
        assert!(matches!(error, FenceError::MissingToken { .. }), "{number}: {error}");
    }
}

/// The trigger rejects every kind of statement without a current token, also after a fenced transaction has ended.
#[tokio::test]
async fn a_guarded_table_rejects_every_write_without_a_current_token() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let mut client = prepared(&postgres, "web").await;
    client.batch_execute(&guard_table_sql("good").unwrap()).await.unwrap();
    let writes = [
        "UPDATE good SET stock = 0",
        "DELETE FROM good",
        "INSERT INTO good VALUES (2, 5)",
        "INSERT INTO good VALUES (1, 5) ON CONFLICT DO NOTHING",
        "TRUNCATE good",
        "MERGE INTO good USING (VALUES (1)) AS v(id) ON good.id = v.id WHEN MATCHED THEN DELETE",
    ];
    for write in writes {
        let error = rejection(client.batch_execute(write)).await;
        let FenceError::MissingToken { reason } = &error else { panic!("{write}: {error}") };
        assert!(reason.contains("public.good"), "{reason}");
    }

    for write in writes {
        let transaction = begin(&mut client, "orders", token(7)).await.unwrap();
        transaction.batch_execute(write).await.unwrap();
        transaction.rollback().await.unwrap();
    }
    let transaction = begin(&mut client, "orders", token(8)).await.unwrap();
    transaction.batch_execute("UPDATE good SET stock = 99").await.unwrap();
    transaction.commit().await.unwrap();

    let after = rejection(client.batch_execute("UPDATE good SET stock = 0")).await;
    assert!(matches!(after, FenceError::MissingToken { .. }), "the token leaked: {after}");
    let stock: i64 = client.query_one("SELECT stock FROM good", &[]).await.unwrap().get(0);
    assert_eq!(stock, 99);
}

/// A stale write of code that only sets the transaction's settings fails at its statement.
#[tokio::test]
async fn the_trigger_alone_rejects_a_stale_write() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let mut web = prepared(&postgres, "web1").await;
    web.batch_execute(&guard_table_sql("public.good").unwrap()).await.unwrap();
    begin(&mut web, "orders", token(71)).await.unwrap().commit().await.unwrap();

    let mut old = postgres.connect("old").await.unwrap();
    let transaction = old.transaction().await.unwrap();
    let settings = "SELECT set_config('fence.resource', 'orders', true), set_config('fence.token', '70', true)";
    transaction.batch_execute(settings).await.unwrap();
    let error = rejection(transaction.execute("UPDATE good SET stock = 0", &[])).await;
    assert_stale(&error, 70, 71, Some("web1"));
    drop(transaction);

    for garbage in ["abc", "-1", "7.5", "99999999999999999999"] {
        let transaction = old.transaction().await.unwrap();
        let settings = format!(
            "SELECT set_config('fence.resource', 'orders', true), set_config('fence.token', '{garbage}', true)"
        );
        transaction.batch_execute(&settings).await.unwrap();
        let error = rejection(transaction.execute("UPDATE good SET stock = 0", &[])).await;
        assert!(matches!(error, FenceError::MissingToken { .. }), "{garbage}: {error}");
    }
}

/// Rule 4: a table bound to one resource rejects the token of another lock. Names with special characters are quoted.
#[tokio::test]
async fn a_table_bound_to_a_resource_rejects_tokens_of_others() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let mut client = prepared(&postgres, "web").await;
    let hostile = r#"my "good"; DROP TABLE fence; --"#;
    let quoted = hostile.replace('"', "\"\"");
    client.batch_execute(&format!("CREATE TABLE \"{quoted}\" (n bigint)")).await.unwrap();
    let resource = r"it's \ orders";
    client.batch_execute(&guard_table_for_sql(hostile, resource).unwrap()).await.unwrap();
    client.batch_execute(&guard_table_for_sql(hostile, resource).unwrap()).await.unwrap();

    let insert = format!("INSERT INTO \"{quoted}\" VALUES (1)");
    let transaction = begin(&mut client, "other", token(9)).await.unwrap();
    let error = rejection(transaction.batch_execute(&insert)).await;
    assert!(error.to_string().contains(resource), "{error}");
    assert!(matches!(error, FenceError::MissingToken { .. }), "{error}");
    drop(transaction);

    let transaction = begin(&mut client, resource, token(9)).await.unwrap();
    transaction.batch_execute(&insert).await.unwrap();
    transaction.commit().await.unwrap();
}

/// The newer holder waits for the older one's transaction and reads its write. Then the older token is rejected.
#[tokio::test]
async fn the_newer_holder_waits_for_the_older_and_reads_its_write() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let mut older = prepared(&postgres, "older").await;
    let mut newer = postgres.connect("newer").await.unwrap();
    begin(&mut older, "orders", token(69)).await.unwrap().commit().await.unwrap();

    let writing = begin(&mut older, "orders", token(70)).await.unwrap();
    writing.batch_execute("UPDATE good SET stock = 70").await.unwrap();
    let reading = async {
        let transaction = begin(&mut newer, "orders", token(71)).await.unwrap();
        let stock: i64 = transaction.query_one("SELECT stock FROM good", &[]).await.unwrap().get(0);
        transaction.commit().await.unwrap();
        stock
    };
    let observer = postgres.connect("observer").await.unwrap();
    let committing = async {
        wait_until_blocked(&observer, "newer").await;
        writing.commit().await.unwrap();
    };
    let (stock, ()) = tokio::join!(reading, committing);
    assert_eq!(stock, 70);
    let error = begin(&mut older, "orders", token(70)).await.err().unwrap();
    assert_stale(&error, 70, 71, Some("newer"));
}

/// Rule 2 with two connections of one holder: the second one waits for the first and is accepted, even on a new mark.
#[tokio::test]
async fn one_holder_may_write_over_two_connections_at_once() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let mut first = prepared(&postgres, "first").await;
    let mut second = postgres.connect("second").await.unwrap();
    let observer = postgres.connect("observer").await.unwrap();
    for number in [70, 71] {
        let writing = begin(&mut first, "orders", token(number)).await.unwrap();
        let joining = async {
            begin(&mut second, "orders", token(number)).await.unwrap().commit().await.unwrap();
        };
        let committing = async {
            wait_until_blocked(&observer, "second").await;
            writing.commit().await.unwrap();
        };
        tokio::join!(joining, committing);
    }
}

async fn wait_until_blocked(observer: &Client, name: &str) {
    let query = "SELECT 1 FROM pg_stat_activity \
        WHERE application_name = $1 AND cardinality(pg_blocking_pids(pid)) > 0";
    while observer.query_opt(query, &[&name]).await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
}

/// Above READ COMMITTED the guard cannot protect: function and trigger reject the transaction with FN003.
#[tokio::test]
async fn above_read_committed_the_guard_rejects_with_the_fix_in_its_hint() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let mut client = prepared(&postgres, "web").await;
    client.batch_execute(&guard_table_sql("good").unwrap()).await.unwrap();
    let show = "SELECT set_config('fence.resource', 'orders', true), set_config('fence.token', '70', true)";
    let trigger = format!("{show}; UPDATE good SET stock = 0");
    for (level, name) in [
        (IsolationLevel::RepeatableRead, "REPEATABLE READ"),
        (IsolationLevel::Serializable, "SERIALIZABLE"),
    ] {
        for statement in [
            "SELECT fence_check('orders', 70)",
            "SELECT fence_check_shared('orders', 71, 70)",
            &trigger,
        ] {
            let transaction =
                client.build_transaction().isolation_level(level).start().await.unwrap();
            let error = transaction.batch_execute(statement).await.unwrap_err();
            let rejection = error.as_db_error().unwrap();
            assert_eq!(rejection.code().code(), "FN003", "{statement}: {error}");
            assert!(rejection.message().contains(name), "{error}");
            assert_eq!(
                rejection.hint(),
                Some("begin it with: BEGIN ISOLATION LEVEL READ COMMITTED"),
                "{statement}"
            );
            let meaning = FenceError::from(error);
            assert!(matches!(meaning, FenceError::UnsafeSnapshot { .. }), "{meaning}");
            assert!(meaning.to_string().ends_with("READ COMMITTED"), "{meaning}");
        }
    }
    assert_eq!(mark(&client).await, None, "a rejected call left a mark");
    // PostgreSQL runs READ UNCOMMITTED as READ COMMITTED.
    let level = IsolationLevel::ReadUncommitted;
    let transaction = client.build_transaction().isolation_level(level).start().await.unwrap();
    advance(&transaction, "orders", token(70), None).await.unwrap();
    transaction.commit().await.unwrap();
}

/// `begin` sets READ COMMITTED, even if the default of the connection is SERIALIZABLE.
#[tokio::test]
async fn a_fenced_transaction_is_read_committed_whatever_the_default_is() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let mut client = prepared(&postgres, "web").await;
    let default = "SET default_transaction_isolation = 'serializable'";
    client.batch_execute(default).await.unwrap();
    for claim in [Claim::from(token(70)), Claim::shared(token(72), token(71))] {
        let transaction = begin(&mut client, "orders", claim).await.unwrap();
        let level = transaction.query_one("SHOW transaction_isolation", &[]).await.unwrap();
        assert_eq!(level.get::<_, String>(0), "read committed");
        transaction.commit().await.unwrap();
        let transaction = begin_as(&mut client, "orders", claim, "job").await.unwrap();
        transaction.commit().await.unwrap();
    }
}

/// An error unrelated to fencing is a `Store` error with its source.
#[tokio::test]
async fn other_errors_are_store_errors_with_their_source() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let mut client = prepared(&postgres, "web").await;
    let transaction = begin(&mut client, "orders", token(7)).await.unwrap();
    let error = rejection(transaction.batch_execute("SELECT 1/0")).await;
    let FenceError::Store(source) = error else { panic!("{error}") };
    let source = source.downcast_ref::<tokio_postgres::Error>().unwrap();
    assert_eq!(source.code().unwrap().code(), "22012");
}

/// The statements with which the page creates a role that writes.
fn roles_of_the_page() -> &'static str {
    let page = include_str!("../../../docs/fencing/postgresql.md");
    let (_, section) = page.split_once("## Roles\n").unwrap();
    section.split("```").nth(1).unwrap().strip_prefix("sql\n").unwrap()
}

/// The schema can be installed repeatedly and concurrently. A writer without rights on the table can neither lower a
/// mark nor substitute another table.
#[tokio::test]
async fn the_schema_installs_concurrently_and_cannot_be_bypassed() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let admin = prepared(&postgres, "admin").await;
    let installs = (0..6).map(|_| async {
        let client = postgres.connect("installer").await.unwrap();
        client.batch_execute(schema_sql()).await.unwrap();
    });
    futures_util::future::join_all(installs).await;
    admin.batch_execute("CREATE TABLE orders AS SELECT 7 AS id, 100 AS pieces").await.unwrap();
    admin.batch_execute(&guard_table_sql("orders").unwrap()).await.unwrap();
    admin.batch_execute(roles_of_the_page()).await.unwrap();
    admin.batch_execute("GRANT CREATE, TEMP ON DATABASE postgres TO shop").await.unwrap();

    let mut app = postgres.connect("app").await.unwrap();
    app.batch_execute("SET ROLE shop").await.unwrap();
    let exclusive = app.execute("SELECT fence_check('orders', 70)", &[]).await;
    assert_eq!(exclusive.unwrap(), 1);
    let writing = begin(&mut app, "orders", token(71)).await.unwrap();
    writing.batch_execute("UPDATE orders SET pieces = 99").await.unwrap();
    writing.commit().await.unwrap();
    let lowering = rejection(app.batch_execute("UPDATE fence SET token = 1")).await;
    assert!(matches!(lowering, FenceError::Store(_)), "{lowering}");
    app.batch_execute("CREATE TEMP TABLE fence (resource text, token bigint, holder text)")
        .await
        .unwrap();
    app.batch_execute("SET search_path = pg_temp, public").await.unwrap();
    let error = begin(&mut app, "orders", token(70)).await.err().unwrap();
    assert_stale(&error, 70, 71, Some("app"));
}

/// The marks of all schemas count. A table with the name of the fence table is none without its functions.
#[tokio::test]
async fn the_largest_mark_of_a_database_is_found_in_every_schema() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let mut client = prepared(&postgres, "web").await;
    assert_eq!(largest_mark(&client).await.unwrap(), None);
    begin(&mut client, "orders", token(7)).await.unwrap().commit().await.unwrap();
    assert_eq!(largest_mark(&client).await.unwrap(), Some(token(7)));
    let other = "CREATE SCHEMA \"Team B\"; SET search_path = \"Team B\";";
    client.batch_execute(&format!("{other} {}", schema_sql())).await.unwrap();
    begin(&mut client, "stock", token(9)).await.unwrap().commit().await.unwrap();
    let stranger =
        "CREATE SCHEMA s; CREATE TABLE s.fence (token bigint); INSERT INTO s.fence VALUES (99);";
    client.batch_execute(&format!("{stranger} SET search_path = public")).await.unwrap();
    assert_eq!(largest_mark(&client).await.unwrap(), Some(token(9)));
}

/// Thousands of statements in one fenced transaction leave one row version, not thousands.
#[tokio::test]
async fn many_statements_of_one_holder_write_the_mark_once() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let mut client = prepared(&postgres, "web").await;
    client.batch_execute(&guard_table_sql("good").unwrap()).await.unwrap();
    let transaction = begin(&mut client, "orders", token(7)).await.unwrap();
    let row_version = "SELECT ctid::text FROM fence WHERE resource = 'orders'";
    let before: String = transaction.query_one(row_version, &[]).await.unwrap().get(0);
    let many =
        "DO $$ BEGIN FOR i IN 1..2000 LOOP UPDATE good SET stock = stock - 1; END LOOP; END $$";
    transaction.batch_execute(many).await.unwrap();
    let after: String = transaction.query_one(row_version, &[]).await.unwrap().get(0);
    assert_eq!(before, after);
    transaction.commit().await.unwrap();
}

/// Shared holders raise the mark to their floor only, also with the trigger. They neither reject each other nor wait
/// for each other, and a token below the floor is rejected.
#[tokio::test]
async fn shared_holders_raise_the_mark_to_their_floor_only() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let mut first = prepared(&postgres, "first").await;
    first.batch_execute(&guard_table_sql("good").unwrap()).await.unwrap();
    let mut second = postgres.connect("second").await.unwrap();
    let shared = |number, floor| Claim::shared(token(number), token(floor));
    begin(&mut first, "orders", shared(72, 70)).await.unwrap().commit().await.unwrap();
    assert_eq!(mark(&first).await, Some((70, Some("first".into()))));

    let one = begin(&mut first, "orders", shared(72, 70)).await.unwrap();
    one.batch_execute("UPDATE good SET stock = 1 WHERE id = 2").await.unwrap();
    // The first one's transaction is still open.
    let other = begin(&mut second, "orders", shared(71, 70)).await.unwrap();
    other.batch_execute("UPDATE good SET stock = 1 WHERE id = 3").await.unwrap();
    other.commit().await.unwrap();
    one.commit().await.unwrap();
    assert_eq!(mark(&first).await, Some((70, Some("first".into()))));

    begin(&mut second, "orders", shared(73, 72)).await.unwrap().commit().await.unwrap();
    let error = begin(&mut first, "orders", shared(71, 70)).await.err().unwrap();
    assert_stale(&error, 71, 72, Some("second"));
    begin(&mut first, "orders", token(74)).await.unwrap().commit().await.unwrap();
    let error = begin(&mut second, "orders", shared(73, 72)).await.err().unwrap();
    assert_stale(&error, 73, 74, Some("first"));
    for wrong in [shared(75, 76), shared(75, 0), Claim::exclusive(token(0))] {
        let error = begin(&mut first, "orders", wrong).await.err().unwrap();
        assert!(matches!(error, FenceError::MissingToken { .. }), "{error}");
    }
}
