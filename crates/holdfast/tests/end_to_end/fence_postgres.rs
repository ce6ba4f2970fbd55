//! `holdfast fence drill --postgres` against a real database: tables with each guard of docs/fencing/postgresql.md,
//! and without a guard.

use holdfast_fence::{guard_table_for_sql, schema_sql};
use tokio::runtime::Runtime;

use crate::program::{DevCluster, End, holdfast};
use crate::scratch::Postgres;
use crate::skip::postgres_or_skip;

/// A database with the tables of a shop. A trigger guards `seckill_good`, `carts` and `orders` have no guard, and each
/// row of `rows` compares its own mark.
pub(crate) struct Shop {
    postgres: Postgres,
    runtime: Runtime,
}

/// `None`, with a printed line, if no server can start.
pub(crate) fn shop() -> Option<Shop> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let postgres = runtime.block_on(postgres_or_skip())?;
    let shop = Shop { postgres, runtime };
    let guard = guard_table_for_sql("seckill_good", "orders").unwrap();
    shop.run(&format!(
        "BEGIN; {schema}; COMMIT;
         CREATE TABLE seckill_good (id bigint PRIMARY KEY, stock_count bigint NOT NULL);
         INSERT INTO seckill_good VALUES (1, 100);
         {guard}
         CREATE TABLE carts (n bigint NOT NULL);
         INSERT INTO carts VALUES (0);
         CREATE TABLE orders (id bigint PRIMARY KEY, pieces bigint NOT NULL);
         INSERT INTO orders VALUES (7, 100);
         CREATE TABLE rows (id bigint PRIMARY KEY, n bigint NOT NULL, fence bigint NOT NULL DEFAULT 0);
         INSERT INTO rows VALUES (1, 0, 0);",
        schema = schema_sql()
    ));
    Some(shop)
}

impl Shop {
    pub(crate) fn url(&self) -> String {
        self.postgres.url()
    }

    fn run(&self, sql: &str) {
        self.runtime.block_on(async {
            self.postgres.connect("test").await.unwrap().batch_execute(sql).await.unwrap();
        });
    }

    fn number(&self, sql: &str) -> i64 {
        self.runtime.block_on(async {
            let client = self.postgres.connect("test").await.unwrap();
            client.query_one(sql, &[]).await.unwrap().get(0)
        })
    }

    fn drill(&self, cluster: &DevCluster, more: &[&str]) -> End {
        let url = self.url();
        let drill = ["fence", "drill", "--postgres", &url, "--lock", "orders"];
        cluster.client(&[&drill[..], more].concat())
    }
}

/// The statement updates the row only if the token is at least the row's mark.
const COMPARED: &str =
    "UPDATE rows SET n = n + 1, fence = {token} WHERE id = 1 AND fence <= {token}";
/// The same statement without the comparison.
const FORGOTTEN: &str = "UPDATE rows SET n = n + 1, fence = {token} WHERE id = 1";
const MARKED: &str = "SELECT fence_check('carts', {token}, 'drill'); UPDATE carts SET n = n + 1";

#[test]
fn the_drill_distinguishes_a_guarded_table_from_an_open_one() {
    let Some(shop) = shop() else { return };
    let cluster = DevCluster::start(&["--nodes", "1"]);
    for (write, code, word, words) in [
        (["--table", "seckill_good"], 0, "guarded", ""),
        (["--sql", COMPARED], 0, "guarded", ""),
        (["--sql", MARKED], 0, "guarded", ""),
        (["--table", "carts"], 1, "not-guarded", "NOT guarded"),
        (["--sql", FORGOTTEN], 1, "not-guarded", "NOT guarded"),
        (["--table", "nowhere"], 3, "unclear", "42P01"),
    ] {
        let ran = shop.drill(&cluster, &[&write[..], &["-o", "value"]].concat());
        assert_eq!((ran.code, ran.stdout.trim()), (Some(code), word), "{write:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{write:?}: {}", ran.stderr);
    }
    // The current holder wrote twice with each statement. The stale holder wrote only without a comparison. The write
    // without a token had no number and changed no row.
    assert_eq!(shop.number("SELECT n FROM carts"), 2);
    assert_eq!(shop.number("SELECT n FROM rows"), 2 + 3);
    assert_eq!(
        shop.number("SELECT stock_count FROM seckill_good"),
        100,
        "the drill changes no data"
    );
    // The trigger expects another resource.
    let other = shop.drill(&cluster, &["--table", "seckill_good", "--resource", "others"]);
    assert_eq!((other.code, other.stderr.contains("FN002")), (Some(3), true), "{}", other.stderr);
    let who = cluster.client(&["who", "orders"]);
    assert_eq!(who.stdout.trim(), "orders is free", "the drill released the lock");
}

/// The functions are installed but the table has no trigger: the drill prints the missing statement.
#[test]
fn the_drill_of_a_table_after_init_prints_the_trigger_that_is_missing() {
    const TRIGGER: &str = "CREATE OR REPLACE TRIGGER holdfast_fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON \"carts\" \
        FOR EACH STATEMENT EXECUTE FUNCTION fence_guard('orders');";
    let Some(shop) = shop() else { return };
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let open = shop.drill(&cluster, &["--table", "carts"]);
    assert_eq!(
        (open.code, open.stderr.lines().last()),
        (Some(1), Some(TRIGGER)),
        "{}",
        open.stderr
    );
    assert!(!open.stderr.contains("fence init"), "{}", open.stderr);
    shop.run(TRIGGER);
    let guarded = shop.drill(&cluster, &["--table", "carts", "-o", "value"]);
    assert_eq!(guarded.stdout.trim(), "guarded", "{}", guarded.stderr);

    // The same statement repairs a disabled trigger.
    shop.run("ALTER TABLE carts DISABLE TRIGGER ALL");
    let disabled = shop.drill(&cluster, &["--table", "carts"]);
    assert_eq!(disabled.stderr.lines().last(), Some(TRIGGER), "{}", disabled.stderr);
    shop.run(TRIGGER);
    let guarded = shop.drill(&cluster, &["--table", "carts", "-o", "value"]);
    assert_eq!(guarded.stdout.trim(), "guarded", "{}", guarded.stderr);

    // Without any installation the drill names both steps in order.
    shop.run("DROP FUNCTION fence_guard CASCADE");
    let bare = shop.drill(&cluster, &["--table", "carts"]);
    bare.assert_stderr_contains(["holdfast fence init --postgres"]);
    assert_eq!(bare.stderr.lines().last(), Some(TRIGGER), "{}", bare.stderr);
    let forgotten = shop.drill(&cluster, &["--sql", FORGOTTEN]);
    forgotten.assert_stderr_contains(["fence_check"]);
}

/// `fence init --table` installs the functions and the trigger in one step, which can be repeated.
#[test]
fn init_with_a_table_installs_its_trigger() {
    let Some(shop) = shop() else { return };
    let cluster = DevCluster::start(&["--nodes", "1"]);
    shop.run("DROP FUNCTION fence_guard CASCADE");
    let init = ["fence", "init", "--postgres", "--table", "orders", "--lock", "orders"];
    let migration = holdfast(&init).stdout;
    let guard = guard_table_for_sql("orders", "orders").unwrap();
    assert!(migration.ends_with(&format!("\n{guard}COMMIT;\n")), "{migration}");
    for _ in 0..2 {
        shop.run(&migration);
        let ran = shop.drill(&cluster, &["--table", "orders", "-o", "value"]);
        assert_eq!(ran.stdout.trim(), "guarded", "{}", ran.stderr);
    }
    assert_eq!(shop.number("SELECT pieces FROM orders"), 100, "the drill changes no data");
}

#[test]
fn a_drill_that_cannot_start_reports_what_to_change() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let absent = ["fence", "drill", "--postgres", "host=/nowhere user=me", "--table", "t"];
    cluster
        .client(&absent)
        .assert_code(3)
        .assert_stderr_contains(["write of the current holder was not accepted"]);
    let ran = cluster.client(&["fence", "drill", "--postgres", "nonsense", "--table", "t"]);
    assert_eq!((ran.code, ran.stderr.contains("--postgres")), (Some(2), true), "{}", ran.stderr);
    for arguments in [
        &["--postgres", "host=/nowhere"][..],
        &["--url", "http://127.0.0.1:1/", "--postgres", "host=/nowhere", "--table", "t"],
        &["--url", "http://127.0.0.1:1/", "--table", "t"],
        &["--postgres", "host=/nowhere", "--table", "t", "--body", "x"],
        &[],
    ] {
        let ran = holdfast(&[&["fence", "drill"], arguments].concat());
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.stderr);
    }
}
