//! Plain reference implementations of the other rate-limiting algorithms.
//!
//! They exist to be compared with, so they favour being easy to check over being fast: one key,
//! one thread, the caller's time in nanoseconds, integer arithmetic only. The parameters (limit,
//! period, burst) belong to the policy and are shared by all keys, so `state_bytes` does not count
//! them.
//!
//! A clock set back never panics here and never earns a request: each algorithm then judges at the
//! latest moment that it remembers, or refuses.

use std::collections::VecDeque;

/// One key under one algorithm.
pub(crate) trait Baseline {
    /// The algorithm's usual name.
    fn name(&self) -> &'static str;

    /// Whether a request at `now` nanoseconds is admitted; if it is, it is also counted.
    fn allow(&mut self, now: u64) -> bool;

    /// The bytes that a store has to keep for this key at this moment.
    fn state_bytes(&self) -> usize;
}

/// At most `limit` requests in each window; windows start at the multiples of `period`.
pub(crate) struct FixedWindow {
    limit: u32,
    period: u64,
    window: u64,
    count: u32,
}

impl FixedWindow {
    pub(crate) fn new(limit: u32, period: u64) -> Self {
        check(limit, period);
        Self { limit, period, window: 0, count: 0 }
    }
}

impl Baseline for FixedWindow {
    fn name(&self) -> &'static str {
        "fixed window"
    }

    fn allow(&mut self, now: u64) -> bool {
        let window = now / self.period;
        // Only a later window starts a new count: an earlier one is a clock set back, and its
        // count has been forgotten.
        if window > self.window {
            self.window = window;
            self.count = 0;
        }
        let allowed = self.count < self.limit;
        self.count += u32::from(allowed);
        allowed
    }

    fn state_bytes(&self) -> usize {
        size_of_val(&self.window) + size_of_val(&self.count)
    }
}

/// At most `limit` requests in any interval `[t, t + period)`, by remembering each of them.
pub(crate) struct SlidingLog {
    limit: u32,
    period: u64,
    admitted: VecDeque<u64>,
}

impl SlidingLog {
    pub(crate) fn new(limit: u32, period: u64) -> Self {
        check(limit, period);
        Self { limit, period, admitted: VecDeque::new() }
    }
}

impl Baseline for SlidingLog {
    fn name(&self) -> &'static str {
        "sliding log"
    }

    fn allow(&mut self, now: u64) -> bool {
        // The log has to stay in order for the loop below to find all the old entries in front.
        let now = self.admitted.back().map_or(now, |&last| last.max(now));
        while self.admitted.front().is_some_and(|&oldest| now - oldest >= self.period) {
            self.admitted.pop_front();
        }
        let allowed = self.admitted.len() < self.limit as usize;
        if allowed {
            self.admitted.push_back(now);
        }
        allowed
    }

    fn state_bytes(&self) -> usize {
        self.admitted.len() * size_of::<u64>()
    }
}

/// Two fixed windows: the previous one counts in proportion to how much of it the last `period`
/// still covers, and a request is admitted while that estimate is below the limit.
///
/// The estimate is compared without dividing: everything is multiplied by `period` instead. For a
/// whole limit this decides like the common implementations that round the estimate down.
pub(crate) struct SlidingCounter {
    limit: u32,
    period: u64,
    window: u64,
    previous: u32,
    current: u32,
}

impl SlidingCounter {
    pub(crate) fn new(limit: u32, period: u64) -> Self {
        check(limit, period);
        Self { limit, period, window: 0, previous: 0, current: 0 }
    }
}

impl Baseline for SlidingCounter {
    fn name(&self) -> &'static str {
        "sliding counter"
    }

    fn allow(&mut self, now: u64) -> bool {
        let window = now / self.period;
        // After a clock set back we are at the start of the window we know, where the previous
        // window weighs most.
        let mut elapsed = 0;
        if window >= self.window {
            elapsed = now % self.period;
        }
        if window > self.window {
            let adjacent = window - self.window == 1;
            self.previous = if adjacent { self.current } else { 0 };
            self.current = 0;
            self.window = window;
        }
        let scaled = |requests: u32, time: u64| u128::from(requests) * u128::from(time);
        let estimate =
            scaled(self.previous, self.period - elapsed) + scaled(self.current, self.period);
        let allowed = estimate < scaled(self.limit, self.period);
        self.current += u32::from(allowed);
        allowed
    }

    fn state_bytes(&self) -> usize {
        size_of_val(&self.window) + size_of_val(&self.previous) + size_of_val(&self.current)
    }
}

/// The leaky bucket as a meter without burst: one request in each `period / limit`.
///
/// Nothing waits in a queue here; a request that comes too early is refused.
pub(crate) struct LeakyBucketQueueless {
    interval: u64,
    next: u64,
}

impl LeakyBucketQueueless {
    pub(crate) fn new(limit: u32, period: u64) -> Self {
        check(limit, period);
        Self { interval: period.div_ceil(limit.into()), next: 0 }
    }
}

impl Baseline for LeakyBucketQueueless {
    fn name(&self) -> &'static str {
        "leaky bucket (meter)"
    }

    fn allow(&mut self, now: u64) -> bool {
        // 584 years after the clock's origin there is no next time left to store: refuse then,
        // because a wrapped or a clamped one would admit too much.
        match now.checked_add(self.interval) {
            Some(next) if now >= self.next => {
                self.next = next;
                true
            }
            _ => false,
        }
    }

    fn state_bytes(&self) -> usize {
        size_of_val(&self.next)
    }
}

/// The generic cell rate algorithm: the only state is the theoretical arrival time (TAT), the
/// moment at which the key would be back at rest if it sent nothing more.
pub(crate) struct Gcra {
    interval: u64,
    tolerance: u64,
    arrival: u64,
}

impl Gcra {
    /// Rounds an uneven `period / limit` up: whole nanoseconds cannot express it, and the slower
    /// rate is the one that does not oversell.
    pub(crate) fn new(limit: u32, period: u64, burst: u32) -> Self {
        check(limit, period);
        Self::with_interval(period.div_ceil(limit.into()), burst)
    }

    /// Takes the time per request as it is, right or wrong.
    pub(crate) fn with_interval(interval: u64, burst: u32) -> Self {
        check(burst, interval);
        Self { interval, tolerance: interval.saturating_mul(u64::from(burst) - 1), arrival: 0 }
    }
}

impl Baseline for Gcra {
    fn name(&self) -> &'static str {
        "GCRA"
    }

    fn allow(&mut self, now: u64) -> bool {
        let arrival = self.arrival.max(now);
        // As with the leaky bucket: refuse at the end of the clock instead of wrapping.
        match arrival.checked_add(self.interval) {
            Some(next) if arrival - now <= self.tolerance => {
                self.arrival = next;
                true
            }
            _ => false,
        }
    }

    fn state_bytes(&self) -> usize {
        size_of_val(&self.arrival)
    }
}

fn check(limit: u32, period: u64) {
    assert!(limit > 0, "a limit of 0 admits nothing");
    assert!(period > 0, "a period of 0 is no rate");
}
