//! The latency of single calls while new keys pour in.

use std::hash::RandomState;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use tollgate::{MonotonicClock, Overflow, Quota, RateLimiter};

use crate::contenders::{self, GOVERNOR};
use crate::key::{self, Key};
use crate::report;
use crate::subject::{Setup, Subject};

const MAX_KEYS: usize = 100_000;

/// What the new keys meet.
#[derive(Clone, Copy)]
enum Scenario {
    /// Nothing is called: what the measurement itself costs.
    Timer,
    /// A limiter that is far from its bound, and grows.
    Grow,
    /// The same for governor.
    GovernorGrow,
    /// A limiter at its bound, none of whose buckets will be full for hours.
    AtBound(Overflow),
    /// A limiter that was filled to its bound, but whose buckets are full by now; those of the new
    /// keys are so too after ten milliseconds. This is the usual case.
    AtBoundFull,
}

impl Scenario {
    const ALL: [(&str, &str, Self); 7] = [
        ("timer", "-", Self::Timer),
        ("grow", "tollgate-map", Self::Grow),
        ("grow", GOVERNOR, Self::GovernorGrow),
        ("at bound, Deny", "tollgate-map", Self::AtBound(Overflow::Deny)),
        ("at bound, Share", "tollgate-map", Self::AtBound(Overflow::Share)),
        ("at bound, Forget", "tollgate-map", Self::AtBound(Overflow::Forget)),
        ("at bound, full buckets", "tollgate-map", Self::AtBoundFull),
    ];

    /// A limiter that is ready for the flood, in which `calls` new keys come.
    fn subject(self, calls: usize) -> Box<dyn Subject<u64>> {
        let slow = Quota::per_day(1).and_then(|quota| quota.burst(1_000)).expect("it is valid");
        let filled = |quota, overflow| {
            let limiter = limiter(quota, MAX_KEYS, overflow);
            assert_eq!(limiter.run(&key::keys(MAX_KEYS)), MAX_KEYS, "there is room for these");
            limiter
        };
        match self {
            Self::Timer => Box::new(Nothing),
            Self::Grow => Box::new(limiter(slow, MAX_KEYS + calls, Overflow::Deny)),
            Self::GovernorGrow => {
                let quota = crate::case::Case::NewKey.quota();
                let mut all = contenders::all::<u64>().into_iter();
                let governor = all.find(|contender| contender.name == GOVERNOR);
                (governor.expect("it takes part").build)(&Setup { quota, keys: calls })
            }
            Self::AtBound(overflow) => Box::new(filled(slow, overflow)),
            Self::AtBoundFull => {
                // Full again ten milliseconds after the first check of a key.
                let quota = Quota::per_second(100).expect("it is valid");
                let limiter = filled(quota, Overflow::Deny);
                thread::sleep(Duration::from_millis(20));
                Box::new(limiter)
            }
        }
    }

    /// How many of so many new keys must be admitted, where that is certain.
    fn admits(self, calls: usize) -> Option<usize> {
        match self {
            Self::Timer | Self::Grow | Self::GovernorGrow | Self::AtBoundFull => Some(calls),
            Self::AtBound(Overflow::Deny) => Some(0),
            Self::AtBound(_) => None,
        }
    }
}

fn limiter(
    quota: Quota,
    max_keys: usize,
    overflow: Overflow,
) -> RateLimiter<u64, MonotonicClock, RandomState> {
    let builder = RateLimiter::builder(quota).max_keys(max_keys).overflow(overflow);
    builder.build().expect("the bound is in range")
}

struct Nothing;

impl<K: Key> Subject<K> for Nothing {
    fn check(&self, _key: &K) -> bool {
        true
    }
}

/// One line of `tail.json`.
#[derive(Serialize)]
struct Row {
    scenario: &'static str,
    #[serde(rename = "impl")]
    contender: &'static str,
    threads: usize,
    calls: usize,
    p50_ns: u32,
    p99_ns: u32,
    p999_ns: u32,
    max_ns: u32,
}

/// Measures, prints and writes `tail.json`.
pub fn run(is_quick: bool) {
    let calls = if is_quick { 100_000 } else { 1_000_000 };
    println!(
        "\ntail: latency of single calls for new keys, max_keys {}, {} calls per thread, in ns.\n\
         Two clock readings are in each figure (see `timer`). The max has the calls in which the\n\
         system ran something else on the core; `timer` has those too.",
        report::grouped(MAX_KEYS),
        report::grouped(calls),
    );
    println!(
        "  {:<24}{:<18}{:>7}{:>9}{:>9}{:>9}{:>12}",
        "scenario", "impl", "threads", "p50", "p99", "p99.9", "max"
    );
    let mut rows = Vec::new();
    for (name, contender, scenario) in Scenario::ALL {
        for threads in [1, 2] {
            let (latencies, admitted) = flood(&*scenario.subject(calls * threads), threads, calls);
            let expected = scenario.admits(calls * threads).unwrap_or(admitted);
            assert_eq!(admitted, expected, "{name}: admitted");
            let at = |thousandths| latencies[(latencies.len() - 1) * thousandths / 1_000];
            let row = Row {
                scenario: name,
                contender,
                threads,
                calls,
                p50_ns: at(500),
                p99_ns: at(990),
                p999_ns: at(999),
                max_ns: at(1_000),
            };
            println!(
                "  {name:<24}{contender:<18}{threads:>7}{:>9}{:>9}{:>9}{:>12}",
                row.p50_ns, row.p99_ns, row.p999_ns, row.max_ns
            );
            rows.push(row);
        }
    }
    report::write("tail.json", &rows);
}

/// The sorted latencies of all calls of all threads, each of which has keys of its own; and how many
/// of them were admitted.
fn flood(subject: &dyn Subject<u64>, threads: usize, calls: usize) -> (Vec<u32>, usize) {
    let runs: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    // Numbers that the limiter was not filled with.
                    let first = MAX_KEYS + thread * calls;
                    let keys = (first..first + calls).map(|number| u64::numbered(number as u32));
                    let keys: Vec<_> = keys.collect();
                    // Written once before, so that no page fault of its own is measured.
                    let mut latencies = vec![u32::MAX; calls];
                    let mut admitted = 0;
                    for (key, latency) in keys.iter().zip(&mut latencies) {
                        let began = Instant::now();
                        let is_admitted = subject.check(key);
                        *latency = began.elapsed().as_nanos().try_into().unwrap_or(u32::MAX);
                        admitted += usize::from(is_admitted);
                    }
                    (latencies, admitted)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no check panics")).collect()
    });
    let admitted = runs.iter().map(|&(_, admitted)| admitted).sum();
    let mut latencies: Vec<_> = runs.into_iter().flat_map(|(latencies, _)| latencies).collect();
    latencies.sort_unstable();
    (latencies, admitted)
}
