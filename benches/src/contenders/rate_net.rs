//! rate-net: better-bucket's bucket per key, in shards behind a read-write lock each (4 shards per
//! core, or as many as keep a shard at 16,384 keys of the bound), found by ahash. It bounds the
//! number of keys, as tollgate does, and has its own key type.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Duration;

use ::rate_net::{CoarseClock, DEFAULT_MAX_KEYS, Eviction, Limiter, RateLimiter};

use crate::key::Key;
use crate::subject::{Contender, Setup, Subject};

/// As it comes, but for the bound. (`Eviction::unbounded()` would leave it with 4 shards per core
/// however many the keys.)
pub(super) fn keyed<K: Key>() -> Contender<K> {
    Contender::keyed("rate-net", |setup| {
        let limiter = build(setup);
        Box::new(RateNet { count: RateLimiter::tracked_keys, limiter })
    })
}

/// With its coarse clock: one load of a word that a thread writes each millisecond, and every 61st
/// time a look at the real clock.
pub(super) fn keyed_coarse<K: Key>() -> Contender<K> {
    static CLOCK: OnceLock<CoarseClock> = OnceLock::new();
    Contender::keyed("rate-net-coarse", |setup| {
        let clock = CLOCK.get_or_init(|| {
            CoarseClock::spawn(Duration::from_millis(1)).expect("a thread can start")
        });
        let limiter = build(setup).with_clock(clock.clone());
        Box::new(RateNet { count: RateLimiter::tracked_keys, limiter })
    })
}

fn build(setup: &Setup) -> RateLimiter {
    RateLimiter::builder()
        .quota(setup.quota.tokens, setup.quota.period)
        .burst(setup.quota.burst)
        .eviction(Eviction::capacity(setup.bound(DEFAULT_MAX_KEYS)))
        .try_build()
        .expect("the quotas of the cases are valid")
}

struct RateNet<L> {
    limiter: L,
    count: fn(&L) -> usize,
}

impl<K: Key, L: Limiter + Send + Sync> Subject<K> for RateNet<L> {
    fn check(&self, key: &K) -> bool {
        black_box(self.limiter.check(key.for_rate_net())).is_allow()
    }

    fn keys(&self) -> Option<usize> {
        Some((self.count)(&self.limiter))
    }
}
