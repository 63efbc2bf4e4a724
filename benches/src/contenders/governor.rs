//! governor: GCRA in an `AtomicU64`, in a `DashMap`; every read of an entry takes the read lock of
//! its shard (4 shards per core).
//!
//! It has no bound on the number of keys and nothing that drops old ones unless the user calls
//! `retain_recent`, so a new key costs it no housekeeping. Its keys must be passed as `&K`: with
//! `String` keys a caller that has a `&str` must first allocate. Here it is handed a `String`, for
//! free.

use std::hash::BuildHasher;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Duration;

use ::governor::clock::{Clock, DefaultClock, QuantaUpkeepClock};
use ::governor::middleware::NoOpMiddleware;
use ::governor::state::keyed::DashMapStateStore;
use ::governor::state::{InMemoryState, NotKeyed};
use ::governor::{Quota, RateLimiter};

use crate::key::Key;
use crate::subject::{self, Contender, Setup, Subject};

type Keyed<K, S, C> =
    RateLimiter<K, DashMapStateStore<K, S>, C, NoOpMiddleware<<C as Clock>::Instant>>;

type Direct = RateLimiter<
    NotKeyed,
    InMemoryState,
    DefaultClock,
    NoOpMiddleware<<DefaultClock as Clock>::Instant>,
>;

/// As its own documentation makes it: the default hasher, and the time-stamp counter through quanta.
pub(super) fn dashmap<K: Key>() -> Contender<K> {
    Contender::keyed(super::GOVERNOR, |setup| {
        Box::new(RateLimiter::<K, _, _>::dashmap(quota(setup)))
    })
}

/// Its fastest configuration: foldhash, the middleware that does nothing (the default), and
/// `QuantaUpkeepClock`, whose reading is one load of a word that a thread of its own writes each
/// millisecond. Of its clocks, its default (quanta's counter) is the next, then `Instant`.
pub(super) fn dashmap_best<K: Key>() -> Contender<K> {
    Contender::keyed("governor-dashmap-best", |setup| {
        Box::new(RateLimiter::<K, _, _, NoOpMiddleware<_>>::dashmap_with_clock_and_hasher(
            quota(setup),
            upkeep_clock(),
            foldhash::fast::RandomState::default(),
        ))
    })
}

/// Its single bucket, with its default clock.
pub(super) fn direct<K: Key>() -> Contender<K> {
    Contender::single("governor-direct", |setup| Box::new(RateLimiter::direct(quota(setup))))
}

/// There can be only one of these in a process, which runs until the end.
fn upkeep_clock() -> QuantaUpkeepClock {
    static CLOCK: OnceLock<QuantaUpkeepClock> = OnceLock::new();
    let clock = CLOCK.get_or_init(|| {
        QuantaUpkeepClock::from_interval(Duration::from_millis(1)).expect("a thread can start")
    });
    clock.clone()
}

fn quota(setup: &Setup) -> Quota {
    let subject::Quota { tokens, period, burst } = setup.quota;
    Quota::with_period(period / tokens)
        .expect("no period of the cases is zero")
        .allow_burst(burst.try_into().expect("no burst is zero"))
}

impl<K, S, C> Subject<K> for Keyed<K, S, C>
where
    K: Key,
    S: BuildHasher + Clone + Send + Sync,
    C: Clock + Send + Sync,
    C::Instant: Send + Sync,
{
    fn check(&self, key: &K) -> bool {
        black_box(self.check_key(key)).is_ok()
    }

    fn keys(&self) -> Option<usize> {
        Some(self.len())
    }
}

impl<K: Key> Subject<K> for Direct {
    fn check(&self, _key: &K) -> bool {
        black_box(RateLimiter::check(self)).is_ok()
    }
}
