//! The same without an async runtime.
//!
//! `blocking ADDR[,ADDR] LOCK`: takes the lock if it is free, prints its token, gives it back. A lock that is busy is
//! exit code 1 with the holder's name.

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
