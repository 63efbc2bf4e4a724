//! Counts the bytes that each limiter keeps per key; see `scripts/bench --case memory`.
//!
//! A program of its own, because the counting allocator would slow down the timed cases.

#![allow(clippy::cast_precision_loss, clippy::print_stdout)]

use std::alloc::System;

use cap::Cap;
use serde::Serialize;

use tollgate_benches::case::Case;
use tollgate_benches::subject::Setup;
use tollgate_benches::{contenders, key, report};

/// Counts what programs ask for. What the system's allocator adds to it, 8 to 16 bytes for each
/// allocation, is not in the figures.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

#[derive(Serialize)]
struct Row {
    #[serde(rename = "impl")]
    contender: &'static str,
    keys: usize,
    bytes_per_key: f64,
}

fn main() {
    let mut impls: Vec<String> = std::env::args().skip(1).collect();
    let is_quick = impls.first().is_some_and(|first| first == "--quick");
    if is_quick {
        impls.remove(0);
    }
    let keys = key::keys::<u64>(if is_quick { 100_000 } else { 1_000_000 });
    // The quota of new keys: every limiter keeps them all.
    let setup = Setup { quota: Case::NewKey.quota(), keys: keys.len() };
    println!(
        "\nmemory, {} u64 keys: live bytes after inserting them / keys",
        report::grouped(keys.len())
    );
    println!("  {:<27}{:>14}", "impl", "bytes per key");
    let mut rows = Vec::new();
    let contenders = contenders::all().into_iter();
    for contender in contenders.filter(|contender| contender.remembers) {
        if !impls.is_empty() && !impls.iter().any(|name| name == contender.name) {
            continue;
        }
        // What it starts once for all limiters (a thread, a calibration) is not counted.
        drop((contender.build)(&setup));
        let before = ALLOCATOR.allocated();
        let subject = (contender.build)(&setup);
        assert_eq!(subject.run(&keys), keys.len(), "{}: each is admitted", contender.name);
        let bytes = ALLOCATOR.allocated().saturating_sub(before);
        drop(subject);
        let bytes_per_key = (bytes as f64 / keys.len() as f64 * 10.0).round() / 10.0;
        println!("  {:<27}{bytes_per_key:>14.1}", contender.name);
        rows.push(Row { contender: contender.name, keys: keys.len(), bytes_per_key });
    }
    report::write("memory.json", &rows);
}
