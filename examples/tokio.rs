//! The same limiter in an asynchronous service: a decision never waits, so it is simply called.
//!
//! `cargo run --release --example tokio` answers HTTP on a free port of 127.0.0.1 and calls itself
//! eight times; `cargo run --release --example tokio -- 127.0.0.1:8080` serves until it is
//! interrupted, for `curl -i http://127.0.0.1:8080/`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tollgate::{Decision, Quota, RateLimiter};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let limiter = Arc::new(RateLimiter::<IpAddr>::new(Quota::per_minute(5)?));
    // Frees the memory of clients that have gone, also when no new ones come.
    limiter.start_sweeper(Duration::from_secs(60))?;

    if let Some(address) = std::env::args().nth(1) {
        return listen(TcpListener::bind(address).await?, limiter).await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(listen(listener, limiter));
    for number in 1..=8 {
        println!("request {number}: {}", get(address).await?);
    }
    Ok(())
}

async fn listen(listener: TcpListener, limiter: Arc<RateLimiter<IpAddr>>) -> Result<(), Error> {
    println!(
        "serving on http://{}, each address limited to {}",
        listener.local_addr()?,
        limiter.quota()
    );
    loop {
        let (connection, peer) = listener.accept().await?;
        let limiter = Arc::clone(&limiter);
        tokio::spawn(async move {
            if let Err(error) = serve(connection, peer.ip(), &limiter).await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}

/// Reads one request and answers it.
async fn serve(
    connection: TcpStream,
    peer: IpAddr,
    limiter: &RateLimiter<IpAddr>,
) -> Result<(), Error> {
    // Decide before reading: a refused client costs one short answer.
    let decision = limiter.try_acquire(&peer);
    let mut connection = BufReader::new(connection).take(8 * 1024);
    let mut line = String::new();
    while connection.read_line(&mut line).await? > 0 && line.trim() != "" {
        line.clear();
    }
    let answer = match decision {
        Decision::Allowed(_) => "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n".to_owned(),
        Decision::Denied(denied) => {
            let retry = denied.retry_after().whole_seconds();
            let header =
                retry.map(|seconds| format!("Retry-After: {seconds}\r\n")).unwrap_or_default();
            format!("HTTP/1.1 429 Too Many Requests\r\n{header}Content-Length: 0\r\n\r\n")
        }
    };
    connection.into_inner().write_all(answer.as_bytes()).await?;
    Ok(())
}

/// The status line of one request, and its Retry-After.
async fn get(address: SocketAddr) -> Result<String, Error> {
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let retry = answer.lines().find(|line| line.starts_with("Retry-After"));
    let status = answer.lines().next().unwrap_or("no answer");
    Ok(format!("{status} {}", retry.unwrap_or_default()))
}
