//! Keeps a copy of a part of the tree, and follows its changes.
//!
//! `cached_subtree ADDR[,ADDR] PATH CHANGES` prints the nodes, waits for a line on stdin or its end, and then prints as many
//! changes. A copy that is behind by more changes than a node keeps (65,536, of any path) reads everything again and reports
//! a gap. To see one, change another znode so often before you press Enter.

use std::error::Error;
use std::io::Write;

use holdfast_client::{Client, SubtreeChange};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [addresses, path, changes] = args.as_slice() else {
        return Err("usage: cached_subtree ADDR[,ADDR] PATH CHANGES".into());
    };
    let client = Client::new(addresses.split(','))?;
    let mut subtree = client.subtree(path).await?;
    let mut out = std::io::stdout();
    for (path, node) in subtree.nodes() {
        writeln!(out, "{path} = {}", node.text())?;
    }
    std::io::stdin().read_line(&mut String::new())?;
    for _ in 0..changes.parse::<u32>()? {
        let change = subtree.next_change().await?;
        if let SubtreeChange::Gap { since, until } = change {
            writeln!(out, "gap: the changes from {since} to {until} are unknown")?;
        } else {
            writeln!(out, "{change:?}")?;
        }
    }
    Ok(())
}
