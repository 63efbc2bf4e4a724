//! Tollgate's own operations under criterion, for those who change it:
//!
//! ```text
//! cargo bench -p tollgate-benches
//! cargo bench -p tollgate-benches -- known       # by name
//! ```
//!
//! For a comparison with other crates, and with two threads, see `scripts/bench`.

#![allow(missing_docs, clippy::expect_used)]

use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tollgate::{
    Bucket, Clock, CoarseClock, ManualClock, MonotonicClock, Quota, RateLimiter, TscClock,
};

use tollgate_benches::key;

const KEYS: usize = 100_000;

/// Draws of random keys; a power of two.
const DRAWS: usize = 1 << 17;

/// Never refilled while this runs, so that no full bucket is ever retired.
fn plenty() -> Quota {
    Quota::per_minute(1).and_then(|quota| quota.burst(10_000_000)).expect("it is valid")
}

/// Spent by the first check.
fn scarce() -> Quota {
    Quota::per_day(1).expect("it is valid")
}

/// A token each nanosecond.
fn endless() -> Quota {
    Quota::per_second(1_000_000_000).expect("it is valid")
}

fn limiter<C: Clock, S: BuildHasher>(quota: Quota, clock: C, hasher: S) -> RateLimiter<u64, C, S> {
    let builder = RateLimiter::builder(quota).clock(clock).hasher(hasher);
    builder.build().expect("the default bound is in range")
}

fn clocks(c: &mut Criterion) {
    let mut group = c.benchmark_group("clock");
    clock(&mut group, "monotonic", &MonotonicClock::new());
    clock(&mut group, "tsc", &TscClock::new());
    clock(&mut group, "coarse", &CoarseClock::new());
    group.finish();
}

type Group<'c> = criterion::BenchmarkGroup<'c, criterion::measurement::WallTime>;

fn clock(group: &mut Group<'_>, name: &str, clock: &impl Clock) {
    group.bench_function(name, |bencher| bencher.iter(|| clock.now()));
}

/// Without a clock reading.
fn bucket(c: &mut Criterion) {
    let mut group = c.benchmark_group("bucket");
    let now = MonotonicClock::new().now();
    for (name, quota) in [("allow", endless()), ("deny", scarce())] {
        let bucket = Bucket::new(quota);
        assert!(bucket.try_acquire_at(1, now).is_ok_and(|decision| decision.is_allowed()));
        let mut now = now;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                now = now.saturating_add(std::time::Duration::from_nanos(1));
                bucket.try_acquire_at(black_box(1), now)
            });
        });
    }
    group.finish();
}

/// Random keys that are known: of the default limiter, then without one thing after the other.
fn known(c: &mut Criterion) {
    let mut group = c.benchmark_group("known");
    for (outcome, quota) in [("allow", plenty()), ("deny", scarce())] {
        let sip = RandomState::new();
        let fold = foldhash::fast::RandomState::default();
        let default = limiter(quota, MonotonicClock::new(), sip.clone());
        known_keys(&mut group, &format!("{outcome}/default"), &default);
        let foldhash = limiter(quota, MonotonicClock::new(), fold.clone());
        known_keys(&mut group, &format!("{outcome}/foldhash"), &foldhash);
        let tsc = limiter(quota, TscClock::new(), fold.clone());
        known_keys(&mut group, &format!("{outcome}/foldhash, tsc"), &tsc);
        let coarse = limiter(quota, CoarseClock::new(), fold.clone());
        known_keys(&mut group, &format!("{outcome}/foldhash, coarse"), &coarse);
        let no_clock = limiter(quota, ManualClock::new(), fold);
        known_keys(&mut group, &format!("{outcome}/foldhash, no clock"), &no_clock);
    }
    group.finish();
}

fn known_keys<C: Clock, S: BuildHasher>(
    group: &mut Group<'_>,
    name: &str,
    limiter: &RateLimiter<u64, C, S>,
) {
    let keys = key::keys::<u64>(KEYS);
    assert!(keys.iter().all(|key| limiter.try_acquire(key).is_allowed()), "each is new");
    let mut draws = key::shuffled(&keys, DRAWS, 0).into_iter().cycle();
    group.bench_function(name, |bencher| {
        bencher.iter(|| limiter.try_acquire(&draws.next().unwrap_or(0)));
    });
}

/// One key.
fn hot(c: &mut Criterion) {
    let mut group = c.benchmark_group("hot");
    for (name, quota) in [("allow", endless()), ("deny", scarce())] {
        let limiter = RateLimiter::<u64>::new(quota);
        assert!(limiter.try_acquire(&1).is_allowed());
        group.bench_function(name, |bencher| bencher.iter(|| limiter.try_acquire(black_box(&1))));
    }
    group.finish();
}

/// As many new keys as the parameter says, into an empty limiter; none of their buckets is retired.
fn new_keys(c: &mut Criterion) {
    let mut group = c.benchmark_group("new");
    for count in [1_000, KEYS] {
        let keys = key::keys::<u64>(count);
        group.throughput(Throughput::Elements(count as u64));
        group.sample_size(20);
        group.bench_with_input(BenchmarkId::from_parameter(count), &keys, |bencher, keys| {
            bencher.iter_batched_ref(
                || RateLimiter::<u64>::new(plenty()),
                |limiter| keys.iter().filter(|key| limiter.try_acquire(*key).is_allowed()).count(),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// New keys whose buckets are full again at once: each retires those of two others.
fn churn(c: &mut Criterion) {
    let limiter = limiter(endless(), MonotonicClock::new(), RandomState::new());
    let mut number = 0_u64;
    c.bench_function("churn", |bencher| {
        bencher.iter(|| {
            number += 1;
            limiter.try_acquire(&number)
        });
    });
}

criterion_group!(benches, clocks, bucket, known, hot, new_keys, churn);
criterion_main!(benches);
