//! The real map and, mostly, the real clock under many threads: what no schedule may break.
//!
//! Nothing here depends on how fast the machine is or how it schedules: a bound holds or it does
//! not. How likely a broken limiter is to be caught does depend on it, so the threads outnumber
//! the processors, to be preempted at odd moments.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its inputs are known to be valid"
)]

use std::fs;
use std::hash::{Hash, Hasher};
use std::hint;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tollgate::{
    Clock, Decision, ManualClock, MonotonicClock, Overflow, Quota, RateLimiter, Reason, Timestamp,
};

const THREADS: u64 = 16;

/// Optimized builds do ten times as much.
const SCALE: u64 = if cfg!(debug_assertions) { 1 } else { 10 };

/// One test at a time: they look at the memory and the threads of the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // If another test has failed, that is its own affair.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs this in so many threads that start together, and gives what each of them returns.
fn in_threads<T: Send>(numbers: Range<u64>, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(usize::try_from(numbers.end - numbers.start).unwrap());
    thread::scope(|scope| {
        let (start, work) = (&start, &work);
        let run = |number| {
            scope.spawn(move || {
                start.wait();
                work(number)
            })
        };
        let threads: Vec<_> = numbers.map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Runs `beside` again and again while `work` runs.
fn meanwhile<T>(beside: impl Fn() + Sync, work: impl FnOnce() -> T) -> T {
    /// Ends the other thread, also if `work` panics.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                beside();
                thread::yield_now();
            }
        });
        let _end = End(&ended);
        work()
    })
}

/// Small and reproducible (`SplitMix64`).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// An admission: the instant at which it counts, and its cost.
type Admission = (u64, u64);

fn admission(decision: Decision, cost: u64) -> Option<Admission> {
    decision.allowed().map(|allowed| (allowed.counted_at().as_nanos(), cost))
}

/// Checks that for every two admissions, what was sold from the one to the other, both included,
/// is at most `capacity + rate * time`, in exact arithmetic.
///
/// That is: what has been sold less `rate * time` never rises by more than the capacity. One pass
/// over the sorted admissions finds its largest rise.
fn assert_not_oversold(quota: Quota, mut admissions: Vec<Admission>) {
    admissions.sort_unstable();
    let tokens = i128::from(quota.tokens());
    let period = i128::try_from(quota.period().unwrap().as_nanos()).unwrap();
    let (mut sold, mut least) = (0, i128::MAX);
    for (at, cost) in admissions {
        let refill = tokens * i128::from(at);
        least = least.min(sold - refill);
        sold += i128::from(cost) * period;
        let above = (sold - refill) - least - i128::from(quota.capacity()) * period;
        assert!(above <= 0, "{quota}: at {at} ns, {above}/{period} tokens were sold too many");
    }
}

/// A key that now and then lets other threads run when it is compared or made owned: between the
/// steps of a call, where the scheduler alone would seldom do it.
#[derive(Eq)]
struct Hesitant(u64);

impl Hesitant {
    fn hesitate() {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        if CALLS.fetch_add(1, Ordering::Relaxed) % 7 == 0 {
            thread::yield_now();
        }
    }
}

impl PartialEq for Hesitant {
    fn eq(&self, other: &Self) -> bool {
        Self::hesitate();
        self.0 == other.0
    }
}

impl Hash for Hesitant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Clone for Hesitant {
    fn clone(&self) -> Self {
        Self::hesitate();
        Self(self.0)
    }
}

// ---------------------------------------------------------------------------------------------
// Many threads on one key.

#[test]
fn sixteen_threads_with_a_stopped_clock_admit_exactly_the_capacity() {
    let _alone = alone();
    for _ in 0..5 * SCALE {
        let quota = Quota::per_second(1_000).unwrap().burst(100).unwrap();
        let limiter: RateLimiter<String, ManualClock> =
            RateLimiter::builder(quota).clock(ManualClock::new()).build().unwrap();
        let admitted: usize = in_threads(0..THREADS, |_| {
            (0..1_000).filter(|_| limiter.try_acquire("alice").is_allowed()).count()
        })
        .into_iter()
        .sum();
        assert_eq!(admitted, 100);
        assert_eq!(limiter.len(), 1);
    }
}

#[test]
fn sixteen_threads_that_meet_on_new_keys_make_one_bucket_for_each() {
    let _alone = alone();
    let keys = 5_000 * SCALE;
    let quota = Quota::per_second(1).unwrap();
    let limiter: RateLimiter<u64, ManualClock> =
        RateLimiter::builder(quota).clock(ManualClock::new()).build().unwrap();
    // All go through the same keys in the same order, so that they race for most of them.
    let admitted: usize = in_threads(0..THREADS, |_| {
        (0..keys).filter(|key| limiter.try_acquire(key).is_allowed()).count()
    })
    .into_iter()
    .sum();
    assert_eq!(u64::try_from(admitted).unwrap(), keys);
    assert_eq!(u64::try_from(limiter.len()).unwrap(), keys);
}

#[test]
fn sixteen_threads_with_the_real_clock_never_pass_capacity_plus_rate_times_time() {
    let _alone = alone();
    for (quota, cost) in [("10000/s burst 100", 1), ("1500000/s burst 7", 3), ("7 per 1ms", 2)] {
        let quota: Quota = quota.parse().unwrap();
        let limiter = RateLimiter::<String>::new(quota);
        let admitted = in_threads(0..THREADS, |_| {
            let ask = |_| admission(limiter.try_acquire_n("alice", cost).unwrap(), cost);
            (0..5_000 * SCALE).filter_map(ask).collect::<Vec<_>>()
        })
        .concat();
        let sold: u64 = admitted.iter().map(|(_, cost)| cost).sum();
        assert!(sold > quota.capacity(), "{quota}: {sold}: no refill was tested");
        assert_not_oversold(quota, admitted);
    }
}

// ---------------------------------------------------------------------------------------------
// Floods of unique keys.

/// The process's memory in bytes; None where the system does not tell.
fn resident_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

const LARGE: u64 = 1_000_000 * SCALE;
const SMALL: u64 = LARGE / 2;
/// A table of 10,000 `u64` keys takes about 1 MB. On top of it come the allocator's arenas, one
/// for each thread, and what has left the map and cannot be reclaimed as long as a thread that
/// might read it is off its processor: megabytes, if the machine is busy and the build is fast.
/// But whoever keeps something for each key of a flood, and be it the least that malloc gives (32
/// bytes), takes more than this.
const FLOOD_MEMORY: u64 = 28 * SMALL;
const FLOOD_THREADS: u64 = 4;
const MAX_KEYS: usize = 10_000;
/// Known to the limiter before the flood comes.
const KNOWN: Range<u64> = u64::MAX - 100..u64::MAX;

/// Lets the flood loose, and gives how many of its requests were admitted. `quota` must need
/// minutes to fill a bucket.
fn flood(keys: u64, quota: Quota, overflow: Overflow) -> u64 {
    let limiter =
        RateLimiter::<u64>::builder(quota).max_keys(MAX_KEYS).overflow(overflow).build().unwrap();
    for known in KNOWN {
        let drained = limiter.try_acquire_n(&known, quota.capacity()).unwrap();
        assert!(drained.is_allowed());
    }
    let before = resident_memory();
    let most_keys = AtomicU64::new(0);
    let most_memory = AtomicU64::new(0);
    let look = || {
        let len = u64::try_from(limiter.len()).unwrap();
        most_keys.fetch_max(len, Ordering::Relaxed);
        most_memory.fetch_max(resident_memory().unwrap_or(0), Ordering::Relaxed);
        thread::sleep(Duration::from_millis(1));
    };
    let attack = |thread: u64| {
        let mut admitted = 0;
        let share = keys / FLOOD_THREADS;
        for key in thread * share..(thread + 1) * share {
            let decision = limiter.try_acquire(&key);
            admitted += u64::from(decision.is_allowed());
            // `Forget` promises nothing to known keys.
            if key % 64 == 0 && overflow != Overflow::Forget {
                let known = KNOWN.start + key / 64 % (KNOWN.end - KNOWN.start);
                let denied = limiter.try_acquire_n(&known, quota.capacity()).unwrap().denied();
                assert_eq!(denied.unwrap().reason(), Reason::Spent, "of a known, drained key");
            }
        }
        admitted
    };
    let admitted = meanwhile(look, || in_threads(0..FLOOD_THREADS, attack));
    look();
    let most_keys = most_keys.into_inner();
    assert!(most_keys <= u64::try_from(MAX_KEYS).unwrap(), "{most_keys} keys");
    if let Some(before) = before {
        let grown = most_memory.into_inner().saturating_sub(before);
        assert!(grown <= FLOOD_MEMORY, "{overflow:?}: {grown} bytes more than before the flood");
    }
    admitted.into_iter().sum()
}

/// No bucket is full before the flood has ended, so the table is full of buckets in use.
fn slow() -> Quota {
    Quota::per_hour(5).unwrap()
}

/// What one request takes is back after 1 ms: the flood's own buckets are retired all the time.
/// A drained bucket takes an hour.
fn fast() -> Quota {
    Quota::per_second(1_000).unwrap().burst(3_600_000).unwrap()
}

fn room_for_new_keys() -> u64 {
    u64::try_from(MAX_KEYS).unwrap() - (KNOWN.end - KNOWN.start)
}

#[test]
fn a_flood_of_unique_keys_stays_in_bounds_when_new_keys_are_denied() {
    let _alone = alone();
    assert_eq!(flood(LARGE, slow(), Overflow::Deny), room_for_new_keys());
    assert!(flood(SMALL, fast(), Overflow::Deny) >= room_for_new_keys());
}

#[test]
fn a_flood_of_unique_keys_stays_in_bounds_when_new_keys_share() {
    let _alone = alone();
    // 5 for each of the 64 shared buckets.
    assert_eq!(flood(SMALL, slow(), Overflow::Share), room_for_new_keys() + 64 * 5);
}

#[test]
fn a_flood_of_unique_keys_stays_in_bounds_when_old_keys_are_forgotten() {
    let _alone = alone();
    assert!(flood(SMALL, slow(), Overflow::Forget) > SMALL / 2);
}

/// Two keys, two threads, room for one: over and over, both at the same moment.
#[test]
fn a_race_for_the_last_room_has_one_winner() {
    let _alone = alone();
    let quota = Quota::per_second(1).unwrap();
    let limiters: Vec<RateLimiter<u64, ManualClock>> = (0..10_000 * SCALE.min(4))
        .map(|_| RateLimiter::builder(quota).max_keys(1).clock(ManualClock::new()).build().unwrap())
        .collect();
    let arrived = AtomicU64::new(0);
    let admitted: usize = in_threads(0..2, |thread| {
        let both_at = |round: u64| {
            arrived.fetch_add(1, Ordering::Relaxed);
            let mut spins = 0_u32;
            while arrived.load(Ordering::Relaxed) < 2 * (round + 1) {
                spins += 1;
                if spins % 1_000 == 0 {
                    thread::yield_now();
                }
                hint::spin_loop();
            }
            // Who came last is ahead by the time that the news takes to the other core.
            for _ in 0..round * (1 + 6 * thread) % 61 {
                hint::spin_loop();
            }
        };
        let races = (0..).zip(&limiters);
        let wins = races.filter(|(round, limiter)| {
            both_at(*round);
            limiter.try_acquire(&thread).is_allowed()
        });
        wins.count()
    })
    .into_iter()
    .sum();
    assert!(limiters.iter().all(|limiter| limiter.len() == 1));
    assert_eq!(admitted, limiters.len());
}

// ---------------------------------------------------------------------------------------------
// Churn: buckets fill, are retired and created again all the time.

const CHURN_KEYS: u64 = 6;
const CHURN_ROOM: usize = 4;

/// So fast that a bucket is mostly full and so often retired; with a capacity that one request
/// can take, so that whoever sells it twice is found out.
fn churn_quotas() -> [Quota; 3] {
    ["1 per 2us", "1 per 5us burst 3", "3 per 10us burst 2"].map(|text| text.parse().unwrap())
}

/// What each key was admitted while all threads churn it. `seen` is the time that a thread passes.
fn churn(quota: Quota, seen: impl Fn(u64, &mut Random, Timestamp) -> Timestamp + Sync) {
    let limiter = RateLimiter::<Hesitant>::builder(quota).max_keys(CHURN_ROOM).build().unwrap();
    let limiter = Arc::new(limiter);
    limiter.start_sweeper(Duration::from_millis(1)).unwrap();
    let sweep = || {
        assert!(limiter.len() <= CHURN_ROOM, "{} keys", limiter.len());
        assert!(limiter.sweep() <= CHURN_ROOM);
    };
    let work = |thread| {
        let mut random = Random(thread);
        let mut admitted = vec![Vec::new(); usize::try_from(CHURN_KEYS).unwrap()];
        for _ in 0..5_000 * SCALE {
            let key = random.below(CHURN_KEYS);
            // Mostly all of it.
            let cost = if random.below(4) == 0 {
                random.below(quota.capacity()) + 1
            } else {
                quota.capacity()
            };
            let now = seen(thread, &mut random, limiter.clock().now());
            let decision = limiter.try_acquire_at(&Hesitant(key), cost, now).unwrap();
            admitted[usize::try_from(key).unwrap()].extend(admission(decision, cost));
            if random.below(64) == 0 {
                limiter.sweep_at(now);
            }
        }
        admitted
    };
    let admitted = meanwhile(sweep, || in_threads(0..THREADS, work));
    for key in 0..usize::try_from(CHURN_KEYS).unwrap() {
        let of_key: Vec<_> = admitted.iter().flat_map(|thread| &thread[key]).copied().collect();
        // There is no room for all keys at once, so that each of them got in at all means that
        // buckets were retired.
        assert!(of_key.len() > 100, "{quota}: {} admissions are no test", of_key.len());
        assert_not_oversold(quota, of_key);
    }
}

#[test]
fn churned_keys_are_not_oversold() {
    let _alone = alone();
    for quota in churn_quotas() {
        churn(quota, |_, _, now| now);
    }
}

#[test]
fn churned_keys_are_not_oversold_to_stale_and_backward_clocks() {
    let _alone = alone();
    for quota in churn_quotas() {
        churn(quota, |thread, random, now| {
            let back = match thread % 4 {
                0 => 0,
                // As if the thread had been off its processor after it read the clock.
                1 => random.below(20_000),
                2 => random.below(2_000_000),
                // As if the clock had been set back, to its very start as well.
                _ => random.below(4) * random.below(now.as_nanos() + 1),
            };
            now.saturating_sub(Duration::from_nanos(back))
        });
    }
}

#[test]
fn churned_keys_are_not_oversold_to_clocks_that_run_ahead() {
    let _alone = alone();
    for quota in churn_quotas() {
        churn(quota, |thread, random, now| {
            let ahead = if thread % 4 == 0 { random.below(100_000) } else { 0 };
            now.saturating_add(Duration::from_nanos(ahead))
        });
    }
}

// ---------------------------------------------------------------------------------------------
// Removal.

/// A removal hands out a new bucket, and nothing but that.
#[test]
fn racing_removals_hand_out_one_bucket_each() {
    const KEYS: u64 = 3;
    const CAPACITY: u64 = 4;
    let _alone = alone();
    let limiter: RateLimiter<Hesitant, ManualClock> =
        RateLimiter::builder(Quota::allotment(CAPACITY).unwrap())
            .max_keys(10)
            .clock(ManualClock::new())
            .build()
            .unwrap();
    // Of each key: how often it was removed, and what it was sold.
    let [removed, sold] = [(); 2].map(|()| [(); 3].map(|()| AtomicU64::new(0)));
    assert_eq!(removed.len() as u64, KEYS);
    in_threads(0..THREADS, |thread| {
        let mut random = Random(thread);
        for _ in 0..5_000 * SCALE {
            let key = random.below(KEYS);
            let index = usize::try_from(key).unwrap();
            if random.below(8) == 0 {
                let count = u64::from(limiter.remove(&Hesitant(key)));
                removed[index].fetch_add(count, Ordering::Relaxed);
            } else {
                let cost = random.below(CAPACITY) + 1;
                let decision = limiter.try_acquire_n(&Hesitant(key), cost).unwrap();
                let count = if decision.is_allowed() { cost } else { 0 };
                sold[index].fetch_add(count, Ordering::Relaxed);
            }
        }
    });
    for (key, (removed, sold)) in (0..).zip(removed.into_iter().zip(sold)) {
        let (removed, sold) = (removed.into_inner(), sold.into_inner());
        assert!(removed > 100, "{removed} removals are no test");
        let handed_out = (removed + 1) * CAPACITY;
        assert!(sold <= handed_out, "{sold} tokens of {handed_out}");
        limiter.remove(&Hesitant(key));
    }
    assert_eq!(limiter.len(), 0, "every slot has been given back");
}

/// With removals of everything, refunds, sweeps and new keys at once: the bound on the number of
/// keys holds, and no slot is lost.
#[test]
fn no_slot_is_lost_or_given_out_twice() {
    let _alone = alone();
    for overflow in [Overflow::Deny, Overflow::Forget, Overflow::Share] {
        let quota = Quota::new(1, Duration::from_micros(20)).unwrap();
        let limiter =
            RateLimiter::<Hesitant>::builder(quota).max_keys(8).overflow(overflow).build().unwrap();
        let look = || assert!(limiter.len() <= 8, "{} keys", limiter.len());
        meanwhile(look, || {
            in_threads(0..THREADS, |thread| {
                let mut random = Random(thread);
                for _ in 0..2_000 * SCALE {
                    let key = Hesitant(random.below(24));
                    match random.below(8) {
                        0 => assert!(limiter.refund(&key, 1).unwrap() <= 1),
                        1 => drop(limiter.remove(&key)),
                        2 => assert!(limiter.sweep() <= 8),
                        _ => assert!(limiter.try_acquire(&key).remaining() == 0),
                    }
                }
            })
        });
        limiter.sweep_at(Timestamp::MAX);
        assert_eq!(limiter.len(), 0, "{overflow:?}");
        // All eight are there, and no ninth.
        let end = Timestamp::MAX;
        for key in 100..108 {
            assert!(
                limiter.try_acquire_at(&Hesitant(key), 1, end).unwrap().is_allowed(),
                "{overflow:?}"
            );
        }
        assert_eq!(limiter.len(), 8, "{overflow:?}");
        let ninth = limiter.try_acquire_at(&Hesitant(108), 1, end).unwrap();
        assert_eq!(ninth.is_denied(), overflow == Overflow::Deny, "{overflow:?}");
        assert_eq!(limiter.len(), 8, "{overflow:?}");
    }
}

// ---------------------------------------------------------------------------------------------
// The background sweeper.

/// How many sweepers run in this process; None where the system does not tell.
fn sweepers() -> Option<usize> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let names =
        tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    // Linux cuts names off at 15 bytes.
    Some(names.filter(|name| "tollgate-sweeper".starts_with(name.trim_end())).count())
}

/// Waits for it for as long as any machine may take, and tells how long that was.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited in vain: {what}");
        thread::sleep(Duration::from_millis(1));
    }
    start.elapsed()
}

/// A clock that shows whether it, and so its limiter, still exists.
struct Witness {
    inner: MonotonicClock,
    _alive: Arc<()>,
}

impl Clock for Witness {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }
}

fn with_witness() -> (Arc<RateLimiter<u64, Witness>>, Weak<()>) {
    let alive = Arc::new(());
    let is_alive = Arc::downgrade(&alive);
    let clock = Witness { inner: MonotonicClock::new(), _alive: alive };
    let quota = Quota::new(1, Duration::from_millis(1)).unwrap();
    (Arc::new(RateLimiter::builder(quota).clock(clock).build().unwrap()), is_alive)
}

fn one_sweeper() -> bool {
    sweepers().is_none_or(|running| running == 1)
}

fn no_sweepers() -> bool {
    sweepers().is_none_or(|running| running == 0)
}

#[test]
fn the_sweeper_ends_at_once_when_its_limiter_is_dropped() {
    let _alone = alone();
    wait_until("the sweepers of other tests end", no_sweepers);
    // Whether it is asleep for an hour or sweeps all the time.
    for interval in [Duration::from_secs(3_600), Duration::ZERO, Duration::MAX] {
        let (limiter, is_alive) = with_witness();
        limiter.start_sweeper(interval).unwrap();
        wait_until("the sweeper runs", one_sweeper);
        let other = Arc::clone(&limiter);
        drop(limiter);
        assert!(other.try_acquire(&1).is_allowed());
        assert!(one_sweeper(), "the limiter is still in use");
        drop(other);
        let gone = || is_alive.upgrade().is_none() && no_sweepers();
        let waited = wait_until("the limiter and its sweeper are gone", gone);
        // By far not an hour; with some slack for a machine that is busy with other things.
        assert!(waited < Duration::from_secs(5), "{waited:?}");
    }
}

#[test]
fn the_sweeper_empties_an_idle_limiter() {
    let _alone = alone();
    let (limiter, _) = with_witness();
    for key in 0..1_000 {
        assert!(limiter.try_acquire(&key).is_allowed());
    }
    limiter.start_sweeper(Duration::from_millis(1)).unwrap();
    wait_until("the limiter is empty", || limiter.is_empty());
}

#[test]
fn a_second_sweeper_is_not_started() {
    let _alone = alone();
    wait_until("the sweepers of other tests end", no_sweepers);
    let (limiter, _) = with_witness();
    for _ in 0..10 {
        limiter.start_sweeper(Duration::from_secs(3_600)).unwrap();
    }
    wait_until("the sweeper runs", one_sweeper);
    // If there were more, they would have a name by now.
    thread::sleep(Duration::from_millis(100));
    assert!(one_sweeper());
}
