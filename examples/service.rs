//! A service with threads, and clients that call it over TCP on this machine.
//!
//! `cargo run --release --example service` starts the service on a free port of 127.0.0.1, lets
//! four clients loose on it for two seconds, and shows what each of them got.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tollgate::{Decision, Quota, RateLimiter};

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Error> {
    let quota: Quota = "20/s burst 30".parse()?;
    let limiter = Arc::new(RateLimiter::<String>::new(quota));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    println!("serving on {address}, each user limited to {quota}\n");

    // One thread for each connection; all share the limiter.
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || serve(connection, &limiter));
        }
    });

    let time = Duration::from_secs(2);
    let clients = [
        ("alice", "10 requests a second", Duration::from_millis(100)),
        ("bob", "20 requests a second", Duration::from_millis(50)),
        ("carol", "50 requests a second", Duration::from_millis(20)),
        ("mallory", "as fast as she can", Duration::ZERO),
    ];
    println!("{:8} {:21} {:>9} {:>6} {:>8}", "user", "sends", "requests", "served", "refused");
    let start = Instant::now();
    let mut most = 0_u32;
    let running = clients.map(|(user, style, pause)| {
        (user, style, thread::spawn(move || call(address, user, pause, time)))
    });
    for (user, style, client) in running {
        let (served, refused) = client.join().map_err(|_| "a client panicked")??;
        println!("{user:8} {style:21} {:>9} {served:>6} {refused:>8}", served + refused);
        most = most.max(served);
    }
    // 30 at once, and 20 for each second that it took.
    let bound = 30 + start.elapsed().as_millis() / 50;
    println!("\nThe quota allows at most {bound} in that time; the busiest user got {most}.");
    assert!(u128::from(most) <= bound, "oversold");
    Ok(())
}

/// Answers each line of the form `GET user` on this connection.
fn serve(connection: TcpStream, limiter: &RateLimiter<String>) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut answers = connection.try_clone()?;
    for line in BufReader::new(connection).lines() {
        let line = line?;
        let Some(user) = line.strip_prefix("GET ") else {
            writeln!(answers, "400 expected `GET user`")?;
            continue;
        };
        let answer = match limiter.try_acquire(user) {
            Decision::Allowed(allowed) => format!("200 remaining={}", allowed.remaining()),
            Decision::Denied(denied) => match denied.retry_after().whole_seconds() {
                Some(seconds) => format!("429 retry-after={seconds}"),
                None => "429".to_owned(),
            },
        };
        writeln!(answers, "{answer}")?;
    }
    Ok(())
}

/// Calls the service for that long, with a pause after each call; counts the answers.
fn call(
    address: SocketAddr,
    user: &str,
    pause: Duration,
    time: Duration,
) -> Result<(u32, u32), Error> {
    let mut requests = TcpStream::connect(address)?;
    requests.set_nodelay(true)?;
    let mut answers = BufReader::new(requests.try_clone()?);
    let (mut served, mut refused) = (0, 0);
    let end = Instant::now() + time;
    while Instant::now() < end {
        writeln!(requests, "GET {user}")?;
        let mut answer = String::new();
        answers.read_line(&mut answer)?;
        match answer.get(..3) {
            Some("200") => served += 1,
            Some("429") => refused += 1,
            _ => return Err(format!("unexpected answer {answer:?}").into()),
        }
        thread::sleep(pause);
    }
    Ok((served, refused))
}
