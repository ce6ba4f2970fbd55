//! A sharded stock: each piece is sold once, and the sum is exact, whatever processes are killed.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use holdfast_client::{Client, Error, blocking};
use holdfast_lab::{Cluster, DEADLINE, FencedStore, StoreOp, judge, until};
use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::program::{addresses, start_example};

const SHARDS: usize = 8;
const EACH: u64 = 100;
const ALL: u64 = EACH * SHARDS as u64;
/// Sellers per process.
const SELLERS: &str = "6";

/// The stock: a counter of sold pieces per shard, which rejects stale tokens.
#[derive(Clone, Default)]
struct Shop {
    sold: Arc<[FencedStore; SHARDS]>,
}

impl Shop {
    fn sold(&self) -> u64 {
        self.sold.iter().map(FencedStore::value).sum()
    }

    /// Serves sellers until the returned set is dropped.
    async fn open(&self) -> (String, JoinSet<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let (shop, mut open) = (self.clone(), JoinSet::new());
        open.spawn(async move {
            let mut sellers = JoinSet::new();
            while let Ok((seller, _)) = listener.accept().await {
                sellers.spawn(serve(shop.clone(), seller));
            }
        });
        (address, open)
    }

    fn answer(&self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        let store = || self.sold.get(usize::try_from(number(1)?).ok()?);
        Some(match *words.first()? {
            "read" => match store()?.read(number(2)?) {
                Some(EACH) => "full".to_owned(),
                Some(sold) => format!("sold {sold}"),
                None => "stale".to_owned(),
            },
            "write" if store()?.write(number(2)?, number(3)?) => "ok".to_owned(),
            "write" => "stale".to_owned(),
            "open" => {
                let open = self.sold.iter().position(|store| store.value() < EACH);
                open.map_or("none".to_owned(), |shard| shard.to_string())
            }
            _ => return None,
        })
    }
}

async fn serve(shop: Shop, seller: TcpStream) {
    let (read, mut write) = seller.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Some(answer) = shop.answer(&line) else { return };
        if write.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Checks the sales: each shard has sold all its pieces once, with tokens that never decrease, and no token belongs to
/// two shards.
fn judge_sales(stores: &[FencedStore]) -> Result<(), String> {
    let mut of: BTreeMap<u64, usize> = BTreeMap::new();
    for (shard, store) in stores.iter().enumerate() {
        let (ops, sold) = (store.ops(), store.value());
        judge::no_lost_update(&ops, sold).map_err(|what| format!("shard {shard}: {what}"))?;
        if sold != EACH {
            return Err(format!("shard {shard} has sold {sold} of {EACH}"));
        }
        for op in ops {
            let (StoreOp::Read { token, .. } | StoreOp::Write { token, .. }) = op;
            if *of.entry(token).or_insert(shard) != shard {
                return Err(format!("the token {token} is of two shards, one is {shard}"));
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_hundred_pieces_are_sold_once_each_while_leaders_and_sellers_die() {
    let cluster = Cluster::three().await;
    let nodes = addresses(&cluster).join(",");
    let shop = Shop::default();
    let (address, _open) = shop.open().await;
    let start = || start_example("stock", &[&nodes, "stock", "8", &address, SELLERS]);
    let mut sellers = [start(), start(), start()];
    let reached = async |pieces: u64| {
        until(&format!("{pieces} to be sold"), DEADLINE, || async { shop.sold() >= pieces }).await;
    };
    for (sold, dies) in [(100, 0), (400, 1)] {
        reached(sold).await;
        let leader = cluster.wait_ready().await;
        cluster.node(leader).kill();
        reached(sold + 100).await;
        sellers[dies].signal(Signal::SIGKILL);
        sellers[dies].end().await;
        sellers[dies] = start();
        cluster.node(leader).start();
    }
    reached(ALL).await;
    for mut seller in sellers {
        let line = seller.line().await.expect("a line");
        assert!(line.ends_with("nothing is left"), "{line}");
        assert!(seller.end().await.success());
    }
    judge_sales(&shop.sold[..]).expect("the sum is exact");
}

/// The judge finds a stock that ignores tokens and a seller that was paused.
#[test]
fn a_sale_that_was_made_twice_is_seen() {
    let sound: Vec<FencedStore> = (0..SHARDS as u64).map(sold_out).collect();
    judge_sales(&sound).expect("sound");
    let short = FencedStore::default();
    short.write(1, 1);
    for wrong in [short, sold_out(1)] {
        let mut stores = sound.clone();
        stores[0] = wrong;
        judge_sales(&stores).expect_err("one is not sold, or a token is of two shards");
    }
    let twice = sold_out(0);
    twice.write(u64::MAX, EACH);
    let mut stores = sound;
    stores[0] = twice;
    assert!(judge_sales(&stores).expect_err("sold twice").contains("accepted increment 101"));
}

/// A shard sold under its own tokens.
fn sold_out(shard: u64) -> FencedStore {
    let store = FencedStore::default();
    for piece in 1..=EACH {
        let token = shard * 1_000 + piece;
        store.read(token);
        store.write(token, piece);
    }
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_of_one_client_have_a_shard_each_and_one_too_many_waits() {
    let cluster = Cluster::three().await;
    let client = Client::new(addresses(&cluster)).expect("a client");
    let stock = client.lock("stock").shards(2);
    let first = stock.clone().acquire().await.expect("one");
    let second = stock.clone().acquire().await.expect("the other");
    assert_eq!((first.shard(), second.shard()), (Some(0), Some(1)));
    assert_eq!(second.lock().as_str(), "stock/1");
    assert!(matches!(stock.clone().try_acquire().await, Err(Error::Busy(_))));
    let other = client.lock("stock").shards(3).acquire().await.expect_err("there are two");
    assert!(matches!(other, Error::Rejected(_)), "{other}");
    let again = second.reenter().await.expect("once more");
    assert_eq!((again.shard(), again.token()), (Some(1), second.token()));
    let waiting = tokio::spawn(stock.acquire());
    until("somebody to wait", DEADLINE, || async {
        client.lock_state(first.lock()).await.is_ok_and(|body| body.waiters == 1)
    })
    .await;
    let token = first.token();
    first.release().await.expect("released");
    let third = waiting.await.expect("a task").expect("its turn");
    assert!(third.shard() == Some(0) && third.token() > token);
    drop((second, again));
    let named =
        client.lock("stock").shard(1).timeout(DEADLINE).acquire().await.expect("free again");
    assert_eq!(named.shard(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_without_async_take_shards_too() {
    let cluster = Cluster::of(1).start().await;
    let nodes = addresses(&cluster);
    let work = move || -> Result<(), Error> {
        let client = blocking::Client::new(nodes)?;
        let first = client.lock("stock").shards(4).acquire()?;
        let last = client.lock("stock").shards(4).shard(3).acquire()?;
        assert_eq!((first.shard(), last.shard()), (Some(0), Some(3)));
        first.release()?;
        last.release()
    };
    let done = tokio::task::spawn_blocking(move || std::thread::spawn(work).join()).await;
    done.expect("a thread").expect("no panic").expect("all of it");
}
