//! Tollgate's own map, in three configurations, and its bucket without a map.

use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;

use ::tollgate::{Bucket, Clock, CoarseClock, MonotonicClock, Quota, RateLimiter, TscClock};

use crate::key::Key;
use crate::subject::{self, Contender, Setup, Subject};

/// As [`RateLimiter::new`] makes it, but for the bound.
pub(super) fn map<K: Key>() -> Contender<K> {
    Contender::keyed("tollgate-map", |setup| {
        build(setup, MonotonicClock::new(), RandomState::new())
    })
}

/// The fastest exact configuration.
pub(super) fn map_tsc_foldhash<K: Key>() -> Contender<K> {
    Contender::keyed("tollgate-map-tsc-foldhash", |setup| {
        build(setup, TscClock::new(), foldhash::fast::RandomState::default())
    })
}

/// The default hasher with the kernel's coarse clock.
pub(super) fn map_coarse<K: Key>() -> Contender<K> {
    Contender::keyed("tollgate-map-coarse", |setup| {
        build(setup, CoarseClock::new(), RandomState::new())
    })
}

/// [`Bucket`] and [`MonotonicClock`].
pub(super) fn bucket_alone<K: Key>() -> Contender<K> {
    Contender::single("tollgate-bucket-alone", |setup| {
        Box::new(Alone { bucket: Bucket::new(quota(setup.quota)), clock: MonotonicClock::new() })
    })
}

fn build<K, C, S>(setup: &Setup, clock: C, hasher: S) -> Box<dyn Subject<K>>
where
    K: Key,
    C: Clock + Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    let builder = RateLimiter::<K>::builder(quota(setup.quota));
    let limiter = builder.max_keys(setup.bound(1_000_000)).clock(clock).hasher(hasher).build();
    Box::new(limiter.expect("the bound is in range"))
}

fn quota(quota: subject::Quota) -> Quota {
    Quota::new(u64::from(quota.tokens), quota.period)
        .and_then(|rate| rate.burst(u64::from(quota.burst)))
        .expect("the quotas of the cases are valid")
}

impl<K, C, S> Subject<K> for RateLimiter<K, C, S>
where
    K: Key,
    C: Clock + Send + Sync,
    S: BuildHasher + Send + Sync,
{
    fn check(&self, key: &K) -> bool {
        black_box(self.try_acquire(key)).is_allowed()
    }

    fn keys(&self) -> Option<usize> {
        Some(self.len())
    }
}

struct Alone {
    bucket: Bucket,
    clock: MonotonicClock,
}

impl<K: Key> Subject<K> for Alone {
    fn check(&self, _key: &K) -> bool {
        let decision = self.bucket.try_acquire_at(1, self.clock.now());
        black_box(decision).is_ok_and(|decision| decision.is_allowed())
    }
}
