//! What a limiter cannot do without: one reading of the clock, then one compare-and-swap of a
//! random cache line in a table with one line for each key. No map; no key is stored or compared;
//! the position comes from the key's bits by one multiplication. A denial writes nothing, so there
//! the floor is the reading and one load.
//!
//! `floor` reads `Instant`, and is the floor of the ratios. `floor-tsc` reads the time-stamp counter
//! through quanta: limiters that do so can be below the first floor, but not below this one.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tollgate::{Clock, TscClock};

use crate::key::{Key, scale};
use crate::subject::{Contender, Setup, Subject};

/// In the word of a line that denies.
const SPENT: u64 = u64::MAX;

/// With `Instant`.
pub(super) fn instant<K: Key>() -> Contender<K> {
    contender(super::FLOOR, |setup| {
        let epoch = Instant::now();
        Floor::boxed(setup, move || epoch.elapsed().as_nanos() as u64)
    })
}

/// With quanta.
pub(super) fn tsc<K: Key>() -> Contender<K> {
    contender("floor-tsc", |setup| {
        let clock = TscClock::new();
        Floor::boxed(setup, move || clock.now().as_nanos())
    })
}

fn contender<K: Key>(name: &'static str, build: fn(&Setup) -> Box<dyn Subject<K>>) -> Contender<K> {
    Contender { remembers: false, ..Contender::keyed(name, build) }
}

struct Floor<C> {
    clock: C,
    lines: Box<[Line]>,
    denies: bool,
}

#[repr(align(64))]
struct Line(AtomicU64);

impl<C: Fn() -> u64 + Send + Sync + 'static> Floor<C> {
    fn boxed<K: Key>(setup: &Setup, clock: C) -> Box<dyn Subject<K>> {
        let lines = (0..setup.keys).map(|_| Line(AtomicU64::new(0))).collect();
        // The quota of the cases that deny.
        Box::new(Self { clock, lines, denies: setup.quota.burst == 1 })
    }
}

impl<K: Key, C: Fn() -> u64 + Send + Sync> Subject<K> for Floor<C> {
    fn check(&self, key: &K) -> bool {
        let now = black_box((self.clock)());
        let word = &self.lines[scale(key.mixed(), self.lines.len())].0;
        let mut seen = word.load(Ordering::Acquire);
        while seen != SPENT {
            let next = now.max(seen);
            match word.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return true,
                Err(newer) => seen = newer,
            }
        }
        false
    }

    fn prime(&self, keys: &[K]) -> usize {
        for line in self.lines.iter().filter(|_| self.denies) {
            line.0.store(SPENT, Ordering::Relaxed);
        }
        keys.len()
    }
}
