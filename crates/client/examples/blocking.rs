//! A lock without an async runtime.
//!
//! `blocking ADDR[,ADDR] LOCK` acquires the lock if it is free, prints its token and releases it. If the lock is held,
//! the program prints the name of the holder and exits with code 1.

use std::error::Error;
use std::io::Write;

use holdfast_client::blocking::Client;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [addresses, lock] = args.as_slice() else {
        return Err("usage: blocking ADDR[,ADDR] LOCK".into());
    };
    let client = Client::new(addresses.split(','))?;
    let guard = match client.lock(lock).try_acquire() {
        Ok(guard) => guard,
        Err(error) => match error.holder() {
            Some(holder) => return Err(format!("busy: held by {}", holder.session).into()),
            None => return Err(error.into()),
        },
    };
    guard.ensure()?;
    writeln!(std::io::stdout(), "token {}", guard.token())?;
    guard.release()?;
    Ok(())
}
