//! What is timed: a limiter behind one small trait.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::key::Key;

/// A limiter under test.
pub trait Subject<K>: Send + Sync {
    /// May this key spend one token now? Implementations pass the whole answer of the limiter to
    /// [`black_box`], so that no part of it is optimised away, and no part is asked for that it
    /// does not compute by itself.
    fn check(&self, key: &K) -> bool;

    /// Checks each key in turn and counts what was admitted. A provided method, so that the loop
    /// is compiled for each limiter and its check can be inlined: one virtual call per run, not
    /// per check.
    fn run(&self, keys: &[K]) -> usize {
        keys.iter().filter(|&key| self.check(black_box(key))).count()
    }

    /// As [`run`](Self::run), with a reading of `Instant` before each check, as of a server that
    /// notes when a request came. It waits for all that went before, so that the processor does
    /// not begin a check while the last one still waits for memory.
    fn run_apart(&self, keys: &[K]) -> usize {
        let check = |key| {
            black_box(Instant::now());
            self.check(black_box(key))
        };
        keys.iter().filter(|&key| check(key)).count()
    }

    /// The first check of each key, before anything is timed.
    fn prime(&self, keys: &[K]) -> usize {
        self.run(keys)
    }

    /// How many keys it holds, if it can tell.
    fn keys(&self) -> Option<usize> {
        None
    }
}

/// What every limiter is configured with: so many tokens per period, at most `burst` of them at
/// once, full at the start.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// Tokens that come back in a period.
    pub tokens: u32,
    /// That period.
    pub period: Duration,
    /// The capacity.
    pub burst: u32,
}

/// What a limiter is built for.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Of every key.
    pub quota: Quota,
    /// How many keys there will be. Not a hint for the initial capacity: nobody gets one. The
    /// limiters with a bound get twice that, or their default if it is larger.
    pub keys: usize,
}

impl Setup {
    /// A bound on the number of keys that is never reached.
    pub fn bound(&self, default: usize) -> usize {
        self.keys.saturating_mul(2).max(default)
    }
}

/// In which cases a contender takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In all: it has keys.
    Keyed,
    /// In those with a single key: it is one bucket, and the key is not looked at.
    Single,
}

/// One line of the tables.
pub struct Contender<K> {
    /// Its name in the tables.
    pub name: &'static str,
    /// Where it takes part.
    pub scope: Scope,
    /// Whether it remembers keys, so that its memory can be measured.
    pub remembers: bool,
    /// Makes one.
    pub build: fn(&Setup) -> Box<dyn Subject<K>>,
}

impl<K: Key> Contender<K> {
    /// A limiter with keys.
    pub fn keyed(name: &'static str, build: fn(&Setup) -> Box<dyn Subject<K>>) -> Self {
        Self { name, scope: Scope::Keyed, remembers: true, build }
    }

    /// A single bucket.
    pub fn single(name: &'static str, build: fn(&Setup) -> Box<dyn Subject<K>>) -> Self {
        Self { name, scope: Scope::Single, remembers: false, build }
    }
}
