//! The guarantees of docs/DESIGN.md: each has a test with its number, which fails if it is broken.
//!
//! Interleavings that matter are played by hand: a [`Key`] can run a piece of test code at any
//! point at which the limiter calls it, as if another thread had run just then. So what follows
//! from a stall between two steps of a call does not wait for the scheduler to find it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its inputs are known to be valid"
)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tollgate::{
    Bucket, BuildError, Clock, CostError, Decision, ManualClock, Overflow, Quota, QuotaError,
    RateLimiter, Reason, RetryAfter, Timestamp,
};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 24 * 60 * MINUTE;
const YEAR: u64 = 365 * DAY;

/// For what takes no time unless it is blocked.
const PATIENCE: Duration = Duration::from_secs(30);

// ---------------------------------------------------------------------------------------------
// Helpers.

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// Small and reproducible (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// From 1 to `most`, small numbers as often as large ones.
    fn up_to(&mut self, most: u64) -> u64 {
        let bits = 64 - u64::from(most.leading_zeros());
        let bits = self.below(bits) + 1;
        self.below(most.min(u64::MAX >> (64 - bits))) + 1
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

/// An admission: the instant at which it counts, and its cost.
type Admission = (u64, u64);

fn admission(decision: Decision, cost: u64) -> Option<Admission> {
    decision.allowed().map(|allowed| (allowed.counted_at().as_nanos(), cost))
}

/// Checks the bound of G1 for every interval from one admission to another.
///
/// That they are at most `capacity + rate * time` is that their sum less `rate * time` never
/// rises by more than the capacity. One pass over the sorted admissions finds its largest rise;
/// times the period all of it is in whole numbers.
fn assert_not_oversold(quota: Quota, admissions: &mut [Admission]) {
    admissions.sort_unstable();
    let tokens = i128::from(quota.tokens());
    let period = quota.period().map_or(1, |period| i128::try_from(period.as_nanos()).unwrap());
    let (mut sold, mut least) = (0, i128::MAX);
    for &(at, cost) in &*admissions {
        let refill = tokens * i128::from(at);
        least = least.min(sold - refill);
        sold += i128::from(cost) * period;
        let above = (sold - refill) - least - i128::from(quota.capacity()) * period;
        assert!(above <= 0, "{quota}: at {at} ns, {above}/{period} tokens were sold too many");
    }
}

#[test]
fn the_check_for_overselling_finds_a_single_token_in_any_interval() {
    let quota = Quota::per_second(1).unwrap().burst(2).unwrap();
    let exactly = [(5, 2), (SECOND + 5, 1), (9 * SECOND, 2), (10 * SECOND, 1)];
    assert_not_oversold(quota, &mut exactly.clone());
    for early in 1..exactly.len() {
        if exactly[early].0 == 9 * SECOND {
            continue;
        }
        let mut oversold = exactly;
        oversold[early].0 -= 1;
        let found = std::panic::catch_unwind(move || assert_not_oversold(quota, &mut oversold));
        assert!(found.is_err(), "{early}");
    }
}

/// Where the limiter calls its key or its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    /// The clock is read.
    Now,
    /// The key is hashed, before the map is entered.
    Hash,
    /// The key was found in the map and is compared.
    Eq,
    /// The key is new and is made owned, with a slot claimed for it.
    Own,
    /// The key has left the map for good, when its memory is reclaimed.
    Drop,
}

type Hook = (Point, Box<dyn FnOnce()>);

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Runs this once, when the limiter next reaches that point in this thread.
fn hook(point: Point, run: impl FnOnce() + 'static) {
    HOOK.set(Some((point, Box::new(run))));
}

/// What other threads do meanwhile. If they cannot, the test fails instead of hanging.
fn in_another_thread(run: impl FnOnce() + Send + 'static) {
    let (running, is_over) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        run();
        drop(running);
    });
    match is_over.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it had to wait for this thread"),
        _ => thread.join().unwrap(),
    }
}

fn is_hooked() -> bool {
    HOOK.with_borrow(Option::is_some)
}

fn reach(point: Point) {
    // Taken out first, as it reaches points of its own. A thread that ends has no hook any more.
    let hook = HOOK.try_with(|hook| hook.borrow_mut().take_if(|(when, _)| *when == point));
    if let Ok(Some((_, run))) = hook {
        run();
    }
}

#[derive(Debug)]
struct Key(u64);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        reach(Point::Hash);
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        reach(Point::Eq);
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Clone for Key {
    fn clone(&self) -> Self {
        reach(Point::Own);
        Self(self.0)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        reach(Point::Drop);
    }
}

#[derive(Clone, Debug, Default)]
struct HookedClock(ManualClock);

impl Clock for HookedClock {
    fn now(&self) -> Timestamp {
        reach(Point::Now);
        self.0.now()
    }
}

type Limiter = RateLimiter<Key, HookedClock>;

fn limiter(quota: Quota, max_keys: usize) -> &'static Limiter {
    let built = RateLimiter::builder(quota).clock(HookedClock::default()).max_keys(max_keys);
    // Leaked, so that a hook can hold it.
    Box::leak(Box::new(built.build().unwrap()))
}

// ---------------------------------------------------------------------------------------------
// G1: for each key and every interval of time, what is admitted is at most
// `capacity + refill over the interval`.

/// Threads with clock readings of different age, buckets that are retired and created again all
/// the time, costs, sweeps, and a clock that moves meanwhile.
#[test]
fn g1_no_overselling() {
    const KEYS: u64 = 6;
    const THREADS: u64 = 4;
    let steps = if cfg!(debug_assertions) { 40_000 } else { 200_000 };
    for (tokens, period, capacity) in [(1, 1_000, 1), (3, 1_000, 2), (7, 10_007, 5)] {
        let quota = Quota::new(tokens, Duration::from_nanos(period)).unwrap();
        let quota = quota.burst(capacity).unwrap();
        let clock = ManualClock::new();
        // Fewer buckets than keys.
        let limiter: RateLimiter<u64, ManualClock> =
            RateLimiter::builder(quota).max_keys(4).clock(clock.clone()).build().unwrap();
        let work = |thread: u64| {
            let mut random = Random(thread);
            let mut admitted = HashMap::<u64, Vec<Admission>>::new();
            let mut stale = at(0);
            for _ in 0..steps {
                let now = match random.below(8) {
                    0 => stale,
                    1 => clock.now().saturating_sub(Duration::from_nanos(random.below(5_000))),
                    _ => clock.now(),
                };
                if random.below(16) == 0 {
                    stale = clock.now();
                }
                clock.advance(Duration::from_nanos(random.below(300)));
                if random.below(32) == 0 {
                    limiter.sweep_at(now);
                }
                let (key, cost) = (random.below(KEYS), random.below(capacity) + 1);
                let decision = limiter.try_acquire_at(&key, cost, now).unwrap();
                admitted.entry(key).or_default().extend(admission(decision, cost));
            }
            admitted
        };
        let admitted: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || work(n))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for key in 0..KEYS {
            let mut of_key: Vec<_> =
                admitted.iter().filter_map(|thread| thread.get(&key)).flatten().copied().collect();
            assert!(of_key.len() > 1_000, "the test would show nothing");
            assert_not_oversold(quota, &mut of_key);
        }
    }
}

/// Trap 1: the clock was read before another thread committed a later tick.
#[test]
fn g1_no_overselling_to_a_stale_clock() {
    let quota = Quota::per_minute(5).unwrap();
    let bucket = Bucket::new(quota);
    let mut admitted = Vec::new();
    for round in 0..50 {
        let now = DAY + round * SECOND;
        for stale in [0, 1, 12 * SECOND, MINUTE, DAY] {
            let decision = bucket.try_acquire_at(1, at(now - stale)).unwrap();
            admitted.extend(admission(decision, 1));
        }
    }
    // 5, and one each 12 s for 49 s.
    assert_eq!(admitted.len(), 9);
    assert_not_oversold(quota, &mut admitted);
}

/// Trap 2: a bucket is retired while a thread that has already found it is about to spend.
#[test]
fn g1_no_overselling_from_a_bucket_that_has_left_the_map() {
    let limiter = limiter(Quota::per_minute(5).unwrap(), 10);
    let take_all = |now| limiter.try_acquire_at(&Key(1), 5, at(now)).unwrap().is_allowed();
    assert!(take_all(0));
    let others = move || {
        assert_eq!(limiter.sweep_at(at(MINUTE)), 1);
        assert!(take_all(MINUTE));
    };
    // The key has been found. Now another thread retires its bucket, and a third one spends.
    hook(Point::Eq, move || in_another_thread(others));
    assert!(!take_all(MINUTE), "the tokens of the retired bucket were sold again");
    assert!(!is_hooked());
}

/// The same for a bucket that another thread has inserted and a third one retired meanwhile.
#[test]
fn g1_no_overselling_while_a_new_key_comes_in() {
    for point in [Point::Own, Point::Eq] {
        let limiter = limiter(Quota::per_minute(5).unwrap(), 10);
        let take_all = |now| limiter.try_acquire_at(&Key(1), 5, at(now)).unwrap().is_allowed();
        let others = move || {
            assert!(take_all(0));
            assert_eq!(limiter.sweep_at(at(MINUTE)), 1);
            assert!(take_all(MINUTE));
        };
        hook(point, move || in_another_thread(others));
        assert!(!take_all(MINUTE), "{point:?}");
        assert!(!is_hooked(), "{point:?}");
        assert_eq!(limiter.len(), 1, "{point:?}");
    }
}

/// Trap 3: a caller whose clock reading is older than the retirement of its key's bucket.
#[test]
fn g1_no_overselling_to_a_stale_reader_after_retirement() {
    let quota = Quota::per_second(5).unwrap();
    let stale = SECOND / 10;
    // Who retires the bucket: a sweep, the insertion of another key, a lack of room.
    for (max_keys, by_sweep) in [(10, true), (10, false), (1, false)] {
        let limiter = limiter(quota, max_keys);
        let mut admitted = Vec::new();
        let mut take_all = |now| {
            let decision = limiter.try_acquire_at(&Key(1), 5, at(now)).unwrap();
            admitted.extend(admission(decision, 5));
            decision.is_allowed()
        };
        assert!(take_all(2 * stale));
        if by_sweep {
            assert_eq!(limiter.sweep_at(at(10 * SECOND)), 1);
        } else {
            // In passing, a bucket is retired when it has been full for a minute.
            let later = if max_keys == 1 { 10 * SECOND } else { 10 * SECOND + MINUTE };
            // With room for one bucket only, the other key must leave again.
            assert!(limiter.try_acquire_at(&Key(2), 1, at(later)).unwrap().is_allowed());
            assert_eq!(limiter.len(), 1, "the bucket was retired");
            if max_keys == 1 {
                limiter.remove(&Key(2));
            }
        }
        // It is a new bucket, but its time does not begin before the old one's end.
        assert!(take_all(stale));
        assert!(!take_all(stale));
        take_all(10 * SECOND + stale);
        assert_not_oversold(quota, &mut admitted);
    }
}

/// Trap 3, at its narrowest: all of that happens after the stale caller has missed the key.
#[test]
fn g1_no_overselling_to_a_stale_reader_that_is_inserting() {
    let quota = Quota::per_second(5).unwrap();
    let limiter = limiter(quota, 10);
    let take_all = |now| {
        admission(limiter.try_acquire_at(&Key(1), 5, at(now)).unwrap(), 5).into_iter().collect()
    };
    let others = move || {
        let early: Vec<_> = take_all(SECOND / 5);
        assert_eq!(early, [(SECOND / 5, 5)]);
        assert_eq!(limiter.sweep_at(at(10 * SECOND)), 1);
    };
    hook(Point::Own, move || in_another_thread(others));
    let mut admitted: Vec<_> = take_all(SECOND / 10);
    admitted.push((SECOND / 5, 5));
    admitted.extend(take_all(10 * SECOND + SECOND / 10));
    assert_not_oversold(quota, &mut admitted);
}

// ---------------------------------------------------------------------------------------------
// G2: sequentially, each decision equals that of a model in exact arithmetic.

/// The bucket of the textbooks. Tokens are counted in `1/period` of a token, of which `tokens`
/// come in each nanosecond: whole numbers, and 128 bits are enough for all of them.
struct Model {
    tokens: u128,
    period: u128,
    capacity: u128,
    level: u128,
    /// None until the first request.
    tick: Option<u64>,
}

impl Model {
    fn new(quota: Quota) -> Self {
        let period = quota.period().unwrap().as_nanos();
        Self {
            tokens: quota.tokens().into(),
            period,
            capacity: u128::from(quota.capacity()) * period,
            level: u128::from(quota.initial_tokens()) * period,
            tick: None,
        }
    }

    /// Whether it is admitted, what remains, and else how long to wait (None: for ever).
    fn acquire(&mut self, cost: u64, now: u64) -> (bool, u64, Option<u64>) {
        let tick = *self.tick.get_or_insert(now);
        let refill = u128::from(now.saturating_sub(tick)) * self.tokens;
        let level = self.capacity.min(self.level + refill);
        let price = u128::from(cost) * self.period;
        let admitted = level >= price;
        let left = if admitted { level - price } else { level };
        let missing = price.saturating_sub(level);
        let wait = u128::from(tick.max(now) - now) + missing.div_ceil(self.tokens);
        let is_in_time = u128::from(now) + wait <= u128::from(u64::MAX);
        if admitted {
            (self.level, self.tick) = (left, Some(tick.max(now)));
        }
        let remaining = u64::try_from(left / self.period).unwrap();
        (admitted, remaining, is_in_time.then(|| u64::try_from(wait).unwrap()))
    }
}

fn assert_equals_model(decision: Decision, expected: (bool, u64, Option<u64>), case: &str) {
    let (admitted, remaining, wait) = expected;
    assert_eq!((decision.is_allowed(), decision.remaining()), (admitted, remaining), "{case}");
    if !admitted {
        let retry =
            wait.map_or(RetryAfter::Never, |nanos| RetryAfter::After(Duration::from_nanos(nanos)));
        assert_eq!(decision.retry_after(), Some(retry), "{case}");
    }
}

/// A quota that can be counted exactly: `capacity * period` stays below `2^60`.
fn exact_quota(random: &mut Random) -> Quota {
    let units = [1, 10, 1_000, 1_000_000, SECOND, 10 * SECOND, MINUTE, 60 * MINUTE, DAY];
    let period = random.pick(&units) + random.below(3);
    let quota = Quota::new(random.up_to(10_000), Duration::from_nanos(period)).unwrap();
    let quota = quota.burst(random.up_to(10_000)).unwrap();
    assert!(quota.is_exact());
    quota
}

/// About as long as it takes for the cost to be due, or anything from 0 to a year.
fn step(random: &mut Random, quota: Quota) -> u64 {
    let period = u64::try_from(quota.period().unwrap().as_nanos()).unwrap();
    match random.below(8) {
        0 => 0,
        1 => 1,
        2 => random.up_to(YEAR),
        3 => random.up_to(period),
        _ => random.below(2 * (period / quota.tokens() + 1)),
    }
}

#[test]
fn g2_no_underselling() {
    let quotas = if cfg!(debug_assertions) { 400 } else { 5_000 };
    let mut random = Random(2);
    let (mut admitted, mut denied) = (0, 0);
    for _ in 0..quotas {
        let mut quota = exact_quota(&mut random);
        if random.below(4) == 0 {
            quota = quota.initial(random.below(quota.capacity() + 1)).unwrap();
        }
        let (bucket, mut model) = (Bucket::new(quota), Model::new(quota));
        let mut now = random.up_to(YEAR);
        for _ in 0..1_000 {
            now = now.saturating_add(step(&mut random, quota));
            // Sometimes the caller's clock is behind.
            let seen =
                if random.below(8) == 0 { now.saturating_sub(random.up_to(DAY)) } else { now };
            let cost = random.up_to(quota.capacity());
            let expected = model.acquire(cost, seen);
            let decision = bucket.try_acquire_at(cost, at(seen)).unwrap();
            assert_equals_model(decision, expected, &format!("{quota}: {cost} at {seen} ns"));
            *(if expected.0 { &mut admitted } else { &mut denied }) += 1;
        }
    }
    let least = quotas * 100;
    assert!(admitted > least && denied > least, "both are tested: {admitted}, {denied}");
}

/// The same for keys that share a table, in which buckets come and go.
#[test]
fn g2_no_underselling_with_housekeeping() {
    const KEYS: u64 = 12;
    let quotas = if cfg!(debug_assertions) { 200 } else { 2_000 };
    let mut random = Random(22);
    for _ in 0..quotas {
        let quota = exact_quota(&mut random);
        let limiter: RateLimiter<u64> = RateLimiter::new(quota);
        let mut models: Vec<_> = (0..KEYS).map(|_| Model::new(quota)).collect();
        let mut now = 0_u64;
        for _ in 0..1_000 {
            now = now.saturating_add(step(&mut random, quota));
            if random.below(8) == 0 {
                limiter.sweep_at(at(now));
            }
            let (key, cost) = (random.below(KEYS), random.up_to(quota.capacity()));
            let expected = models[usize::try_from(key).unwrap()].acquire(cost, now);
            let decision = limiter.try_acquire_at(&key, cost, at(now)).unwrap();
            assert_equals_model(decision, expected, &format!("{quota}: {cost} at {now} ns"));
        }
    }
}

// ---------------------------------------------------------------------------------------------
// G3: `0 <= tokens <= capacity`, and the tick of a bucket never moves back.

/// The tick of a bucket, as its Debug form shows it; None before its first use.
fn tick(bucket: &Bucket) -> Option<u64> {
    let shown = format!("{bucket:?}");
    let (_, tick) = shown.split_once("tick: ")?;
    tick.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[test]
fn g3_bounds() {
    let mut random = Random(3);
    for quota in ["5/min", "3/s burst 7", "1000003 per 30d", "9 per 1ns burst 2", "allotment 4"] {
        let quota: Quota = quota.parse().unwrap();
        let bucket = Bucket::new(quota);
        let capacity = quota.capacity();
        let (mut last_tick, mut last_counted) = (0, 0);
        for _ in 0..20_000 {
            let now = at(match random.below(8) {
                0 => u64::MAX - random.up_to(u64::MAX),
                1 => last_tick + random.up_to(DAY).min(u64::MAX - last_tick),
                _ => last_tick.saturating_sub(random.up_to(DAY)),
            });
            // Not to the end of time at once, from where there is nowhere to go.
            let now = now.min(at(last_tick.saturating_add(DAY)));
            let cost = random.below(capacity) + 1;
            if random.below(4) == 0 {
                assert!(bucket.refund_at(cost, now).unwrap() <= capacity);
            } else {
                let decision = bucket.try_acquire_at(cost, now).unwrap();
                assert!(decision.remaining() <= capacity);
                if let Some(allowed) = decision.allowed() {
                    assert!(allowed.remaining() <= capacity - cost);
                    assert!(allowed.counted_at() >= now.max(at(last_counted)));
                    last_counted = allowed.counted_at().as_nanos();
                }
            }
            assert!(bucket.peek_at(now).available() <= capacity);
            assert!(bucket.peek_at(Timestamp::MAX).available() <= capacity);
            let tick = tick(&bucket).unwrap_or(0);
            assert!(tick >= last_tick, "{quota}: the tick went from {last_tick} to {tick}");
            last_tick = tick;
        }
        assert!(last_tick > YEAR, "{quota}: the test would show nothing");
    }
}

// ---------------------------------------------------------------------------------------------
// G4: a denial writes nothing.

#[test]
fn g4_denial_costs_nothing() {
    for quota in ["5/min", "3/s burst 7", "1000003 per 30d", "allotment 4"] {
        let quota: Quota = quota.parse().unwrap();
        let bucket = Bucket::new(quota);
        assert!(bucket.try_acquire_at(quota.capacity(), at(DAY)).unwrap().is_allowed());
        let word = format!("{bucket:?}");
        assert!(word.contains(&format!("tick: {DAY}")), "the form shows the state: {word}");
        // Also with a part of a token, or of the tokens, in the bucket: counting it would write.
        let fill = quota
            .period()
            .map_or(YEAR, |period| u64::try_from(period.as_nanos()).unwrap() / quota.tokens());
        for now in [0, DAY - 1, DAY, DAY + 1, DAY + fill / 2, DAY + fill + 1, DAY + 3 * fill] {
            for cost in [1, quota.capacity()] {
                if bucket.peek_at(at(now)).available() >= cost {
                    continue;
                }
                assert!(bucket.try_acquire_at(cost, at(now)).unwrap().is_denied());
                assert_eq!(format!("{bucket:?}"), word, "{quota}: {cost} at {now} ns");
            }
        }
    }
}

/// In the keyed limiter the word is out of sight, but a tick that had moved to the time of the
/// denial would show at an earlier time.
#[test]
fn g4_denial_of_a_known_key_costs_nothing() {
    let limiter = limiter(Quota::per_minute(5).unwrap(), 10);
    assert!(limiter.try_acquire_at(&Key(1), 5, at(0)).unwrap().is_allowed());
    let before = limiter.peek_at(&Key(1), at(0));
    assert_eq!(before.available(), 0);
    for now in [0, SECOND, 30 * SECOND, MINUTE - 1] {
        assert!(limiter.try_acquire_at(&Key(1), 5, at(now)).unwrap().is_denied());
        assert_eq!(limiter.peek_at(&Key(1), at(0)), before, "denied at {now} ns");
    }
    // Nor is the key made owned.
    hook(Point::Own, || panic!("a known key was cloned"));
    assert!(limiter.try_acquire_at(&Key(1), 5, at(SECOND)).unwrap().is_denied());
    HOOK.set(None);
}

// ---------------------------------------------------------------------------------------------
// G5: the wait that a denial gives is the least one, to the nanosecond.

fn assert_honest(bucket: &Bucket, cost: u64, now: u64) {
    let Decision::Denied(denied) = bucket.try_acquire_at(cost, at(now)).unwrap() else { return };
    let quota = bucket.quota();
    match denied.retry_after() {
        RetryAfter::After(wait) => {
            let wait = u64::try_from(wait.as_nanos()).unwrap();
            assert!(wait > 0, "{quota}: {cost} at {now} ns: a wait of nothing");
            let due = now.checked_add(wait).expect("a wait that ends in time");
            let early = bucket.try_acquire_at(cost, at(due - 1)).unwrap();
            assert!(early.is_denied(), "{quota}: {cost} at {now} ns: could come before {due} ns");
            let decision = bucket.try_acquire_at(cost, at(due)).unwrap();
            assert!(decision.is_allowed(), "{quota}: {cost} at {now} ns: not due at {due} ns");
        }
        RetryAfter::Never => {
            let decision = bucket.try_acquire_at(cost, Timestamp::MAX).unwrap();
            assert!(decision.is_denied(), "{quota}: {cost} at {now} ns: never is a long time");
        }
    }
}

#[test]
fn g5_honest_retry() {
    let mut random = Random(5);
    let quotas = if cfg!(debug_assertions) { 2_000 } else { 20_000 };
    let (mut inexact, mut never) = (0, 0);
    for _ in 0..quotas {
        let tokens = random.up_to(1 << 32);
        let period = random.up_to(u64::try_from(Quota::MAX_PERIOD.as_nanos()).unwrap());
        let quota = match random.below(8) {
            0 => Quota::allotment(tokens),
            1..4 => Quota::new(tokens, Duration::from_nanos(period)),
            _ => Ok(exact_quota(&mut random)),
        };
        let mut quota = quota.unwrap();
        if quota.period().is_some() {
            quota = quota.burst(random.up_to(1 << 32)).unwrap();
        }
        if random.below(2) == 0 {
            quota = quota.initial(random.below(quota.capacity() + 1)).unwrap();
        }
        inexact += u32::from(!quota.is_exact());
        never += u32::from(quota.period().is_none());
        let bucket = Bucket::new(quota);
        let mut now = random.up_to(YEAR);
        for _ in 0..50 {
            let spent = bucket.try_acquire_at(random.up_to(quota.capacity()), at(now)).unwrap();
            assert!(spent.remaining() <= quota.capacity());
            let seen =
                if random.below(4) == 0 { now.saturating_sub(random.up_to(DAY)) } else { now };
            assert_honest(&bucket, random.up_to(quota.capacity()), seen);
            now = now.max(tick(&bucket).unwrap_or(0)).saturating_add(random.up_to(YEAR / 50));
        }
    }
    assert!(inexact > 100 && never > 100, "rare cases are tested: {inexact}, {never}");
}

#[test]
fn g5_honest_retry_never_is_said_as_such() {
    let bucket = Bucket::new(Quota::allotment(2).unwrap());
    assert!(bucket.try_acquire_at(2, at(0)).unwrap().is_allowed());
    let denied = bucket.try_acquire_at(1, at(0)).unwrap();
    assert_eq!(denied.retry_after(), Some(RetryAfter::Never));
    assert_eq!(RetryAfter::Never.duration(), None);
    assert_eq!(RetryAfter::Never.whole_seconds(), None);
    let above = CostError::AboveCapacity { cost: 3, capacity: 2 };
    assert_eq!(bucket.try_acquire_at(3, at(0)), Err(above));
}

#[test]
fn g5_honest_retry_in_whole_seconds_is_up_and_never_0() {
    let mut random = Random(55);
    for _ in 0..10_000 {
        let wait = Duration::from_nanos(random.up_to(u64::MAX) - 1);
        let seconds = RetryAfter::After(wait).whole_seconds().unwrap();
        assert!(seconds >= 1 && Duration::from_secs(seconds) >= wait, "{wait:?}");
        let less = Duration::from_secs(seconds - 1);
        assert!(seconds == 1 || less < wait, "{wait:?}");
    }
}

/// With room for one bucket, the estimate for a new key is no estimate.
#[test]
fn g5_honest_retry_for_want_of_room() {
    let limiter = limiter(Quota::per_minute(5).unwrap(), 1);
    assert!(limiter.try_acquire_at(&Key(1), 2, at(0)).unwrap().is_allowed());
    let denied = limiter.try_acquire_at(&Key(2), 1, at(SECOND)).unwrap().denied().unwrap();
    assert_eq!(denied.reason(), Reason::TableFull);
    assert_eq!(denied.retry_after(), RetryAfter::After(Duration::from_secs(23)));
    assert!(limiter.try_acquire_at(&Key(2), 1, at(24 * SECOND - 1)).unwrap().is_denied());
    assert!(limiter.try_acquire_at(&Key(2), 1, at(24 * SECOND)).unwrap().is_allowed());
}

// ---------------------------------------------------------------------------------------------
// G6: bad input is an error of its own type and changes nothing; no input panics or wraps.

const EXTREMES: [u64; 14] = [
    0,
    1,
    2,
    5,
    1_000_003,
    u32::MAX as u64,
    1 << 32,
    (1 << 50) - 1,
    1 << 50,
    (1 << 50) + 1,
    1 << 60,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// What the documentation says about these numbers; None: they make a quota.
fn expected_error(tokens: u64, period: Duration, burst: u64, initial: u64) -> Option<QuotaError> {
    let capacity = burst;
    if tokens == 0 {
        Some(QuotaError::ZeroTokens)
    } else if tokens > 1 << 50 {
        Some(QuotaError::TooManyTokens { tokens })
    } else if period.is_zero() {
        Some(QuotaError::ZeroPeriod)
    } else if period > Quota::MAX_PERIOD {
        Some(QuotaError::PeriodTooLong { period })
    } else if capacity == 0 {
        Some(QuotaError::ZeroCapacity)
    } else if capacity > 1 << 50 {
        Some(QuotaError::CapacityTooLarge { capacity })
    } else if initial > capacity {
        Some(QuotaError::InitialAboveCapacity { initial, capacity })
    } else {
        None
    }
}

fn assert_sane_at_extremes(quota: Quota) {
    let bucket = Bucket::new(quota);
    let capacity = quota.capacity();
    for now in [0, 1, u64::MAX, SECOND, u64::MAX - 1, 1 << 63, 0, u64::MAX] {
        for cost in EXTREMES {
            let before = format!("{bucket:?}");
            let acquired = bucket.try_acquire_at(cost, at(now));
            if cost == 0 || cost > capacity {
                let error = if cost == 0 {
                    CostError::Zero
                } else {
                    CostError::AboveCapacity { cost, capacity }
                };
                assert_eq!(acquired, Err(error));
                assert_eq!(bucket.refund_at(cost, at(now)), Err(error));
                assert_eq!(format!("{bucket:?}"), before);
            } else {
                assert!(acquired.unwrap().remaining() <= capacity);
            }
            assert!(bucket.peek_at(at(now)).available() <= capacity);
        }
    }
    // Time has come to its end, so no refill hides what is there.
    let rest = bucket.peek_at(Timestamp::MAX).available();
    assert!(rest == 0 || bucket.try_acquire_at(rest, Timestamp::MAX).unwrap().is_allowed());
    assert!(bucket.try_acquire_at(1, Timestamp::MAX).unwrap().is_denied());
    assert_eq!(bucket.refund_at(capacity, Timestamp::MAX), Ok(capacity));
}

#[test]
fn g6_bad_input_is_an_error_that_changes_nothing() {
    let nanosecond = Duration::from_nanos(1);
    let periods = [
        Duration::ZERO,
        nanosecond,
        Duration::from_nanos(7),
        Duration::from_secs(1),
        Quota::MAX_PERIOD.saturating_sub(nanosecond),
        Quota::MAX_PERIOD,
        Quota::MAX_PERIOD + nanosecond,
        Duration::from_secs(u64::MAX / 1_000_000_000),
        Duration::MAX,
    ];
    let mut made = 0;
    for (tokens, burst) in EXTREMES.iter().flat_map(|&n| EXTREMES.map(|m| (n, m))) {
        for (period, initial) in periods.iter().flat_map(|&n| EXTREMES.map(|m| (n, m))) {
            let quota = Quota::new(tokens, period)
                .and_then(|quota| quota.burst(burst))
                .and_then(|quota| quota.initial(initial));
            let case = format!("{tokens} per {period:?} burst {burst} initial {initial}");
            match (quota, expected_error(tokens, period, burst, initial)) {
                (Ok(quota), None) => {
                    made += 1;
                    assert_sane_at_extremes(quota);
                }
                (made, expected) => assert_eq!(made.err(), expected, "{case}"),
            }
        }
    }
    assert!(made > 500, "{made}");
}

/// The product of time and rate does not fit 64 bits; were it to wrap, powers of two would leave
/// nothing of it.
#[test]
fn g6_bad_input_no_product_wraps() {
    for (rate, capacity) in [(1 << 32, 1 << 32), (1 << 50, 1), (1 << 50, 1 << 50), (1 << 20, 77)] {
        let quota = Quota::new(rate, Duration::from_nanos(1)).unwrap().burst(capacity).unwrap();
        for power in 0..64 {
            let time = 1 << power;
            let bucket = Bucket::new(quota);
            assert!(bucket.try_acquire_at(capacity, at(0)).unwrap().is_allowed());
            let exact = (u128::from(time) * u128::from(rate)).min(u128::from(capacity));
            assert_eq!(u128::from(bucket.peek_at(at(time)).available()), exact, "{quota}: {time}");
            assert!(bucket.try_acquire_at(capacity, at(time)).unwrap().is_allowed());
            assert!(bucket.try_acquire_at(1, at(time)).unwrap().is_denied());
        }
    }
}

#[test]
fn g6_bad_input_to_a_limiter_is_an_error_that_changes_nothing() {
    let limiter = limiter(Quota::per_minute(5).unwrap(), 10);
    for (cost, error) in [
        (0, CostError::Zero),
        (6, CostError::AboveCapacity { cost: 6, capacity: 5 }),
        (u64::MAX, CostError::AboveCapacity { cost: u64::MAX, capacity: 5 }),
    ] {
        for now in [at(0), Timestamp::MAX] {
            assert_eq!(limiter.try_acquire_at(&Key(1), cost, now), Err(error));
            assert_eq!(limiter.refund_at(&Key(1), cost, now), Err(error));
        }
        assert_eq!(limiter.try_acquire_n(&Key(1), cost), Err(error));
        assert_eq!(limiter.refund(&Key(1), cost), Err(error));
    }
    assert!(limiter.is_empty());

    let builder = || RateLimiter::<Key>::builder(Quota::per_minute(5).unwrap());
    assert_eq!(builder().max_keys(0).build().err(), Some(BuildError::ZeroMaxKeys));
    let max_keys = usize::MAX;
    let error = BuildError::TooManyMaxKeys { max_keys };
    assert_eq!(builder().max_keys(max_keys).build().err(), Some(error));
}

// ---------------------------------------------------------------------------------------------
// G7: no lock on the path of a decision for an existing key; a stalled thread stops nobody.

/// Runs `work` in another thread while this call is stalled at that point, and fails if it does
/// not come to its end.
fn while_stalled_at(
    point: Point,
    call: impl FnOnce() + Send + 'static,
    work: impl FnOnce() + Send + 'static,
) {
    let (stalled, is_stalled) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let (done, is_done) = mpsc::channel();
    let stalling = thread::spawn(move || {
        hook(point, move || {
            stalled.send(()).unwrap();
            assert_eq!(released.recv(), Ok(()));
        });
        call();
        assert!(!is_hooked(), "the call never came to {point:?}");
    });
    assert_eq!(is_stalled.recv_timeout(PATIENCE), Ok(()), "nobody came to {point:?}");
    let working = thread::spawn(move || {
        work();
        done.send(()).unwrap();
    });
    let finished = is_done.recv_timeout(PATIENCE);
    release.send(()).unwrap();
    stalling.join().unwrap();
    assert_eq!(finished, Ok(()), "others waited for the thread that was stalled at {point:?}");
    working.join().unwrap();
}

const KNOWN: u64 = 100;

fn known_keys(limiter: &Limiter) {
    for key in 0..KNOWN {
        assert!(limiter.try_acquire(&Key(key)).is_allowed());
    }
}

/// What G7 promises: everything about keys that have a bucket.
fn decide_on_known_keys(limiter: &Limiter) {
    for key in (0..KNOWN).cycle().take(2_000) {
        assert!(limiter.try_acquire(&Key(key)).is_allowed());
        assert_eq!(limiter.peek(&Key(key)).capacity(), limiter.quota().capacity());
        limiter.refund(&Key(key), 1).unwrap();
    }
}

/// What goes beyond it, and holds as well: while no other thread is stalled by the system within
/// the map's own allocation of a larger table, new keys and housekeeping wait for nobody either.
fn bring_new_keys_and_sweep(limiter: &Limiter) {
    for key in 1_000..4_000 {
        assert!(limiter.try_acquire(&Key(key)).is_allowed());
        if key % 100 == 0 {
            limiter.sweep();
        }
    }
    // By now the map has grown several times; the known keys have moved with it.
    decide_on_known_keys(limiter);
    for key in 1_000..4_000 {
        assert!(limiter.remove(&Key(key)));
    }
    assert!(limiter.sweep_at(Timestamp::MAX) >= usize::try_from(KNOWN).unwrap());
}

fn many() -> Quota {
    Quota::per_hour(1_000_000).unwrap()
}

#[test]
fn g7_lock_free_while_a_thread_is_stalled_in_a_decision_on_a_known_key() {
    for point in [Point::Now, Point::Hash, Point::Eq] {
        let limiter = limiter(many(), 10_000);
        known_keys(limiter);
        let call = || assert!(limiter.try_acquire(&Key(7)).is_allowed());
        while_stalled_at(point, call, || {
            decide_on_known_keys(limiter);
            bring_new_keys_and_sweep(limiter);
        });
    }
}

#[test]
fn g7_lock_free_while_a_thread_is_stalled_in_the_insertion_of_a_key() {
    let limiter = limiter(many(), 10_000);
    known_keys(limiter);
    // At this point it holds a slot and is inside the map. Others insert the very key meanwhile.
    let call = || assert!(limiter.try_acquire(&Key(2_000)).is_allowed());
    while_stalled_at(Point::Own, call, || {
        decide_on_known_keys(limiter);
        bring_new_keys_and_sweep(limiter);
    });
    assert_eq!(limiter.len(), 1, "only the stalled thread's own key is left");
}

#[test]
fn g7_lock_free_while_a_thread_is_stalled_in_housekeeping() {
    let limiter = limiter(many(), 10_000);
    known_keys(limiter);
    // It reclaims the memory of keys that have left the map.
    let call = || {
        for key in 10_000.. {
            // The caller's own key is not to be dropped: only keys that the map has owned.
            let key = ManuallyDrop::new(Key(key));
            assert!(limiter.try_acquire(&*key).is_allowed());
            limiter.remove(&*key);
            if !is_hooked() {
                break;
            }
        }
    };
    while_stalled_at(Point::Drop, call, || {
        decide_on_known_keys(limiter);
        bring_new_keys_and_sweep(limiter);
    });
}

#[test]
fn g7_lock_free_while_a_thread_is_stalled_in_a_sweep() {
    let limiter = limiter(many(), 10_000);
    known_keys(limiter);
    while_stalled_at(
        Point::Now,
        || assert_eq!(limiter.sweep(), 0),
        || {
            decide_on_known_keys(limiter);
            bring_new_keys_and_sweep(limiter);
        },
    );
}

// ---------------------------------------------------------------------------------------------
// G8: at most `max_keys` buckets, always, under any flood of unique keys.

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Counts how many of its kind exist.
#[derive(PartialEq, Eq, Hash)]
struct Counted(u64);

impl From<u64> for Counted {
    fn from(key: u64) -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        Self(key)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::borrow::Borrow<u64> for Counted {
    fn borrow(&self) -> &u64 {
        &self.0
    }
}

#[test]
fn g8_bounded_memory() {
    const MAX_KEYS: usize = 256;
    const THREADS: u64 = 3;
    // What the map may not have reclaimed yet when all threads have ended: some batches each.
    const GARBAGE: usize = 1_000;
    let flood = if cfg!(debug_assertions) { 10_000 } else { 200_000 };
    for overflow in [Overflow::Deny, Overflow::Share, Overflow::Forget] {
        // With a clock that stands, no bucket is ever full; with one that runs, many are.
        for step in [0, SECOND / 1_000] {
            let clock = ManualClock::new();
            let limiter: RateLimiter<Counted, ManualClock> =
                RateLimiter::builder(Quota::per_second(5).unwrap())
                    .max_keys(MAX_KEYS)
                    .overflow(overflow)
                    .clock(clock.clone())
                    .build()
                    .unwrap();
            let ended = AtomicBool::new(false);
            let attack = |thread: u64| {
                for key in 0..flood {
                    let decision = limiter.try_acquire(&(key * THREADS + thread));
                    if let Some(denied) = decision.denied() {
                        // Also under `Forget`: when other threads took all the room it made.
                        let is_shared = overflow == Overflow::Share;
                        let expected =
                            if is_shared { Reason::SharedSpent } else { Reason::TableFull };
                        assert_eq!(denied.reason(), expected);
                    }
                    clock.advance(Duration::from_nanos(step));
                }
            };
            let most = thread::scope(|scope| {
                let watch = scope.spawn(|| {
                    let mut most = 0;
                    while !ended.load(Ordering::Relaxed) {
                        most = most.max(limiter.len());
                        thread::yield_now();
                    }
                    most
                });
                let attack = &attack;
                let threads: Vec<_> =
                    (0..THREADS).map(|thread| scope.spawn(move || attack(thread))).collect();
                let ends: Vec<_> =
                    threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
                ended.store(true, Ordering::Relaxed);
                assert!(ends.iter().all(Result::is_ok), "an attacker failed");
                watch.join().unwrap()
            });
            let case = format!("{overflow:?}, {step} ns a step");
            assert!(most <= MAX_KEYS, "{case}: {most} buckets");
            let live = LIVE.load(Ordering::Relaxed);
            assert!(live <= MAX_KEYS + GARBAGE, "{case}: {live} keys in memory");
            if step == 0 {
                assert_eq!(limiter.len(), MAX_KEYS, "{case}");
                assert!(live >= MAX_KEYS, "{case}: {live} keys in memory");
            }
            drop(limiter);
            assert_eq!(LIVE.load(Ordering::Relaxed), 0, "{case}: keys have leaked");
        }
    }
}

#[test]
fn g8_bounded_memory_by_default() {
    let limiter = RateLimiter::<u64>::new(Quota::per_minute(5).unwrap());
    assert_eq!(limiter.max_keys(), 1_000_000);
    assert_eq!(limiter.overflow(), Overflow::Deny);
}

/// No flood can push out a key that is limited, or slow it down by more than a fixed amount.
#[test]
fn g8_bounded_memory_costs_known_keys_nothing() {
    for overflow in [Overflow::Deny, Overflow::Share] {
        let limiter: RateLimiter<u64, ManualClock> =
            RateLimiter::builder(Quota::per_second(5).unwrap())
                .max_keys(64)
                .overflow(overflow)
                .clock(ManualClock::new())
                .build()
                .unwrap();
        for key in 0..64 {
            assert!(limiter.try_acquire_n(&key, 3).unwrap().is_allowed());
        }
        for key in 64..20_000 {
            let decision = limiter.try_acquire(&key);
            assert!(decision.is_allowed() <= (overflow == Overflow::Share));
        }
        for key in 0..64 {
            assert_eq!(limiter.peek(&key).available(), 2);
            assert!(limiter.try_acquire_n(&key, 3).unwrap().is_denied());
            assert!(limiter.try_acquire_n(&key, 2).unwrap().is_allowed());
        }
    }
}

// ---------------------------------------------------------------------------------------------
// G9: a bucket is retired only when it is full, so that nobody can tell.

/// Two limiters see the same requests; one of them is swept at every chance.
#[test]
fn g9_retirement_is_invisible() {
    let quotas = if cfg!(debug_assertions) { 300 } else { 3_000 };
    let mut random = Random(9);
    let mut retired = 0;
    for _ in 0..quotas {
        let quota = exact_quota(&mut random);
        let [swept, quiet] = [(); 2].map(|()| RateLimiter::<u64>::new(quota));
        let mut now = 0_u64;
        for _ in 0..300 {
            now = now.saturating_add(step(&mut random, quota));
            retired += swept.sweep_at(at(now));
            let cost = random.up_to(quota.capacity());
            let case = format!("{quota}: {cost} at {now} ns");
            assert_eq!(swept.peek_at(&1, at(now)), quiet.peek_at(&1, at(now)), "{case}");
            if random.below(8) == 0 {
                let given = [&swept, &quiet].map(|limiter| limiter.refund_at(&1, cost, at(now)));
                assert_eq!(given[0], given[1], "{case}");
            }
            let decisions =
                [&swept, &quiet].map(|limiter| limiter.try_acquire_at(&1, cost, at(now)).unwrap());
            assert_eq!(decisions[0], decisions[1], "{case}");
        }
    }
    assert!(retired > quotas * 10, "the test would show nothing: {retired}");
}

#[test]
fn g9_retirement_comes_when_the_bucket_is_full_and_not_a_nanosecond_earlier() {
    for (tokens, period, capacity) in [(5, MINUTE, 5), (3, SECOND, 3), (7, MINUTE, 2)] {
        let quota = Quota::new(tokens, Duration::from_nanos(period)).unwrap();
        let limiter = limiter(quota.burst(capacity).unwrap(), 10);
        for cost in 1..=capacity {
            let start = limiter.clock().0.now().as_nanos();
            assert!(limiter.try_acquire_n(&Key(1), cost).unwrap().is_allowed());
            let full = start + (cost * period).div_ceil(tokens);
            assert_eq!(limiter.sweep_at(at(full - 1)), 0);
            assert_eq!(limiter.len(), 1);
            assert_eq!(limiter.sweep_at(at(full)), 1);
            assert_eq!(limiter.len(), 0);
            limiter.clock().0.set(at(full));
        }
    }
}

/// Whatever makes room: new keys that tidy up, or the lack of room under `Deny`.
#[test]
fn g9_retirement_hands_no_limited_key_a_full_bucket() {
    let limiter = limiter(Quota::per_minute(5).unwrap(), 20);
    for key in 0..10 {
        assert!(limiter.try_acquire_n(&Key(key), 5).unwrap().is_allowed());
    }
    // The first 48 s, in which nine tenths of a bucket come back but no bucket is full.
    for round in 1..48 {
        limiter.clock().0.set(at(round * SECOND));
        for key in 0..100 {
            let decision = limiter.try_acquire_n(&Key(1_000 * round + key), 5).unwrap();
            assert!(decision.is_denied() || limiter.len() <= 20);
        }
        limiter.sweep();
        for key in 0..10 {
            assert!(limiter.try_acquire_n(&Key(key), 5).unwrap().is_denied());
        }
    }
}

/// A bucket that starts with less than its capacity is not the same when it is new as when it is
/// full: if it is retired when it is full, who obeyed his wait can be sent away again, and again.
#[test]
fn g9_retirement_is_invisible_where_new_buckets_are_not_full() {
    let quota = Quota::per_second(1).unwrap().initial(0).unwrap();
    let limiter = limiter(quota, 10);
    let denied = limiter.try_acquire(&Key(1)).denied().unwrap();
    assert_eq!(denied.retry_after(), RetryAfter::After(Duration::from_secs(1)));
    limiter.clock().0.set(at(SECOND));
    limiter.sweep();
    assert!(limiter.try_acquire(&Key(1)).is_allowed(), "he came when he was told to come");
}
