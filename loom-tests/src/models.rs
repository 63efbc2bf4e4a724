//! What every model needs: a runner that counts, a clock that moves, and the bound to check.

mod bucket;
mod retire;
mod slots;
mod table;

use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom::thread::JoinHandle;

use crate::{Bucket, Clock, Decision, Overflow, Quota, RateLimiter, Timestamp};

/// Runs a model over all interleavings, or over all with at most so many preemptions, and prints
/// how many there were.
fn explore(name: &str, preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let count = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&count);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 100_000;
    // Either of these would end a run early and report success.
    assert!(builder.max_permutations.is_none() && builder.max_duration.is_none());
    builder.check(move || {
        counter.fetch_add(1, Ordering::SeqCst);
        model();
    });
    let count = count.load(Ordering::SeqCst);
    let bound = preemptions
        .map_or("all interleavings".to_owned(), |n| format!("all with at most {n} preemptions"));
    println!("model {name}: {count} interleavings ({bound})");
}

/// A clock that moves while threads read it. A reading may be stale: it is a Relaxed load.
struct MovingClock {
    read: loom::sync::atomic::AtomicU64,
    /// The true time, which the models check answers against. Loom does not see it.
    truth: AtomicU64,
}

impl MovingClock {
    fn new(now: u64) -> Self {
        Self { read: loom::sync::atomic::AtomicU64::new(now), truth: AtomicU64::new(now) }
    }

    fn set(&self, now: u64) {
        self.truth.store(now, Ordering::SeqCst);
        self.read.store(now, Ordering::Relaxed);
    }

    fn truth(&self) -> u64 {
        self.truth.load(Ordering::SeqCst)
    }
}

impl Clock for MovingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.read.load(Ordering::Relaxed))
    }
}

type Limiter = RateLimiter<u8, MovingClock, BuildHasherDefault<DefaultHasher>>;

/// What is under test: one bucket, whatever the key, or a limiter.
trait Subject {
    fn try_acquire_at(&self, key: u8, now: Timestamp) -> Decision;
    fn quota(&self) -> &Quota;
    fn clock(&self) -> &MovingClock;
}

impl Subject for (Bucket, MovingClock) {
    fn try_acquire_at(&self, _key: u8, now: Timestamp) -> Decision {
        self.0.try_acquire_at(1, now).unwrap()
    }

    fn quota(&self) -> &Quota {
        self.0.quota()
    }

    fn clock(&self) -> &MovingClock {
        &self.1
    }
}

impl Subject for Limiter {
    fn try_acquire_at(&self, key: u8, now: Timestamp) -> Decision {
        self.try_acquire_at(&key, 1, now).unwrap()
    }

    fn quota(&self) -> &Quota {
        self.quota()
    }

    fn clock(&self) -> &MovingClock {
        self.clock()
    }
}

fn quota(tokens: u64, period: u64, capacity: u64) -> Quota {
    Quota::new(tokens, Duration::from_nanos(period)).unwrap().burst(capacity).unwrap()
}

fn limiter(quota: Quota, max_keys: usize, overflow: Overflow, now: u64) -> Limiter {
    RateLimiter::builder(quota)
        .max_keys(max_keys)
        .overflow(overflow)
        .shared_buckets(1)
        .clock(MovingClock::new(now))
        .hasher(BuildHasherDefault::default())
        .build()
        .unwrap()
}

/// A subject, and what it admitted: key and instant.
struct World<L> {
    subject: L,
    admitted: Mutex<Vec<(u8, u64)>>,
}

impl World<Limiter> {
    /// A limiter whose clock stands at `now`.
    fn limiter(quota: Quota, max_keys: usize, now: u64) -> Arc<Self> {
        Self::overflowing(Overflow::Deny, quota, max_keys, now)
    }

    fn overflowing(overflow: Overflow, quota: Quota, max_keys: usize, now: u64) -> Arc<Self> {
        crate::key_map::PEAK.set(0);
        Self::of(limiter(quota, max_keys, overflow, now))
    }

    fn sweep(&self, now: u64) {
        self.subject.sweep_at(Timestamp::from_nanos(now));
    }

    fn len(&self) -> usize {
        self.subject.len()
    }

    /// G8, at every moment so far.
    fn check_bound(&self) {
        let peak = crate::key_map::PEAK.get();
        assert!(peak <= self.subject.max_keys(), "G8: {peak} buckets");
        assert!(self.len() <= self.subject.max_keys(), "G8: len");
    }
}

impl World<(Bucket, MovingClock)> {
    /// A bucket, and a clock that stands at `now`.
    fn bucket(quota: Quota, now: u64) -> Arc<Self> {
        Self::of((Bucket::new(quota), MovingClock::new(now)))
    }
}

impl<L: Subject + 'static> World<L> {
    fn of(subject: L) -> Arc<Self> {
        Arc::new(Self { subject, admitted: Mutex::default() })
    }

    fn clock(&self) -> &MovingClock {
        self.subject.clock()
    }

    /// Reads the clock, asks for one token, and notes an admission.
    fn acquire(&self, key: u8) -> bool {
        self.acquire_at(key, self.clock().now())
    }

    /// The same with a clock reading that the caller took before.
    fn acquire_at(&self, key: u8, now: Timestamp) -> bool {
        let decision = self.subject.try_acquire_at(key, now);
        if let Decision::Allowed(allowed) = decision {
            let at = allowed.counted_at();
            assert!(at >= now, "an admission must not count before its call");
            let truth = self.clock().truth();
            assert!(at.as_nanos() <= truth, "an admission must not count after its call");
            self.admitted.lock().unwrap().push((key, at.as_nanos()));
        }
        decision.is_allowed()
    }

    fn spawn(self: &Arc<Self>, body: impl FnOnce(&Self) + 'static) -> JoinHandle<()> {
        let world = Arc::clone(self);
        loom::thread::spawn(move || body(&world))
    }

    fn admissions(&self) -> usize {
        self.admitted.lock().unwrap().len()
    }

    /// G1, for every key and every interval.
    fn check(&self) {
        let admitted = self.admitted.lock().unwrap();
        let quota = self.subject.quota();
        let period = quota.period().unwrap().as_nanos();
        for &(key, from) in admitted.iter() {
            for &(_, to) in admitted.iter().filter(|&&(other, to)| other == key && to >= from) {
                let inside = |&&(other, at): &&(u8, u64)| other == key && (from..=to).contains(&at);
                let spent = admitted.iter().filter(inside).count() as u128;
                // spent <= capacity + tokens * (to - from) / period, without the division.
                let refill = u128::from(quota.tokens()) * u128::from(to - from);
                assert!(
                    spent * period <= u128::from(quota.capacity()) * period + refill,
                    "G1: key {key} spent {spent} from {from} to {to}: {admitted:?}",
                );
            }
        }
    }
}
