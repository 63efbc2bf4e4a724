//! The public interface: what compiles, for which keys, hashers and clocks, and what each call
//! and each setting does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its inputs are known to be valid"
)]

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt::{Debug, Display};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tollgate::{
    Allowed, Bucket, BuildError, Builder, Clock, CostError, Decision, Denied, EffectiveRate,
    ManualClock, MonotonicClock, Overflow, Peek, Quota, QuotaError, RateLimiter, Reason,
    RetryAfter, Timestamp,
};

const SECOND: u64 = 1_000_000_000;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn five_per_minute() -> Quota {
    Quota::per_minute(5).unwrap()
}

fn with_clock<K: Hash + Eq>(quota: Quota) -> (RateLimiter<K, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (RateLimiter::builder(quota).clock(clock.clone()).build().unwrap(), clock)
}

fn full_of<const N: usize>(
    quota: Quota,
    overflow: Overflow,
    shared: usize,
    spend: [u64; N],
) -> (RateLimiter<u64, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let limiter: RateLimiter<u64, ManualClock> = RateLimiter::builder(quota)
        .max_keys(N)
        .overflow(overflow)
        .shared_buckets(shared)
        .clock(clock.clone())
        .build()
        .unwrap();
    for (key, cost) in (0..).zip(spend) {
        assert!(limiter.try_acquire_n(&key, cost).unwrap().is_allowed());
    }
    assert_eq!(limiter.len(), N);
    (limiter, clock)
}

mod types {
    use super::*;

    const fn is_shared<T: Send + Sync + UnwindSafe + RefUnwindSafe + Unpin + 'static>() {}
    const fn is_value<T: Copy + Eq + Debug + Send + Sync + 'static>() {}
    const fn is_error<T: std::error::Error + Copy + Eq + Send + Sync + 'static>() {}
    const fn is_clock<T: Clock + Clone + Debug + Send + Sync + 'static>() {}

    const _: () = {
        is_shared::<RateLimiter<String>>();
        is_shared::<RateLimiter<Arc<str>, ManualClock, BuildHasherDefault<DefaultHasher>>>();
        is_shared::<Builder<String>>();
        is_shared::<Bucket>();

        is_value::<Quota>();
        is_value::<EffectiveRate>();
        is_value::<Decision>();
        is_value::<Allowed>();
        is_value::<Denied>();
        is_value::<Reason>();
        is_value::<RetryAfter>();
        is_value::<Peek>();
        is_value::<Overflow>();
        is_value::<Timestamp>();

        is_error::<QuotaError>();
        is_error::<CostError>();
        is_error::<BuildError>();

        is_clock::<MonotonicClock>();
        is_clock::<ManualClock>();
        #[cfg(feature = "coarse")]
        is_clock::<tollgate::CoarseClock>();
        #[cfg(feature = "quanta")]
        is_clock::<tollgate::TscClock>();
    };

    #[test]
    fn a_bucket_is_one_word_and_its_quota() {
        let word = size_of::<u128>();
        assert!(size_of::<Bucket>() <= size_of::<Quota>() + 2 * word);
    }

    #[test]
    fn is_lock_free_where_it_should_be() {
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            assert!(tollgate::is_lock_free());
        }
    }

    #[test]
    fn errors_say_what_is_wrong_and_what_would_be_right() {
        fn says(error: impl Display, parts: &[&str]) {
            let text = error.to_string();
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
        says(CostError::Zero, &["0", "at least 1"]);
        says(CostError::AboveCapacity { cost: 6, capacity: 5 }, &["6", "from 1 to 5"]);
        says(BuildError::ZeroMaxKeys, &["max_keys", "0", "from 1 to 2147483646"]);
        says(BuildError::TooManyMaxKeys { max_keys: 1 << 31 }, &["2147483648", "2147483646"]);
        says(BuildError::ZeroSharedBuckets, &["Share", "from 1 to 1048576"]);
        says(BuildError::TooManySharedBuckets { buckets: 1_048_577 }, &["1048577", "1048576"]);
        says(QuotaError::ZeroPeriod, &["period", "0", "1 ns"]);
        says(QuotaError::ZeroTokens, &["0", "allotment"]);
    }
}

mod debug {
    use super::*;

    /// A hasher with a secret, which shows it.
    #[derive(Clone, Debug)]
    struct Secretive {
        _secret: &'static str,
    }

    impl BuildHasher for Secretive {
        type Hasher = DefaultHasher;

        fn build_hasher(&self) -> DefaultHasher {
            DefaultHasher::new()
        }
    }

    #[test]
    fn of_a_limiter_shows_its_settings_and_neither_keys_nor_the_hasher() {
        let limiter = RateLimiter::<String>::builder(five_per_minute())
            .max_keys(77)
            .hasher(Secretive { _secret: "0xC0FFEE" })
            .build()
            .unwrap();
        assert!(limiter.try_acquire("alice@example.org").is_allowed());
        for shown in [format!("{limiter:?}"), format!("{limiter:#?}")] {
            for secret in ["alice", "example", "C0FFEE", "secret"] {
                assert!(!shown.contains(secret), "{shown}");
            }
            for setting in ["5/min", "len: 1", "max_keys: 77", "Deny"] {
                assert!(shown.contains(setting), "{shown}");
            }
        }
    }

    #[test]
    fn of_decisions_shows_no_keys() {
        let (limiter, _clock) = with_clock::<String>(five_per_minute());
        let allowed = limiter.try_acquire_n("alice", 5).unwrap();
        let denied = limiter.try_acquire("alice");
        let peek = limiter.peek("alice");
        let error = limiter.try_acquire_n("alice", 6).unwrap_err();
        let shown = format!("{allowed:?} {denied:?} {peek:?} {error:?} {error}");
        assert!(!shown.contains("alice"), "{shown}");
    }

    /// A key that cannot be shown at all.
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Unshowable;

    #[test]
    fn needs_no_debug_of_the_key() {
        let limiter = RateLimiter::<Unshowable>::builder(five_per_minute()).build().unwrap();
        assert!(limiter.try_acquire(&Unshowable).is_allowed());
        let shown = format!("{limiter:?}");
        assert!(shown.contains("len: 1"), "{shown}");
    }
}

mod keys {
    use super::*;

    /// The same as for any other key, in this borrowed form.
    macro_rules! assert_limits {
        ($owned:ty: $one:expr, $other:expr) => {{
            let limiter = RateLimiter::<$owned>::new(Quota::per_hour(2).unwrap());
            assert!(limiter.try_acquire($one).is_allowed());
            assert!(limiter.try_acquire_n($one, 1).unwrap().is_allowed());
            assert!(limiter.try_acquire($one).is_denied());
            assert!(limiter.try_acquire_at($one, 1, at(0)).unwrap().is_denied());
            assert_eq!(limiter.peek($one).available(), 0);
            assert_eq!(limiter.peek_at($one, at(0)).available(), 0);
            assert!(limiter.try_acquire($other).is_allowed());
            assert_eq!(limiter.len(), 2);
            assert_eq!(limiter.refund($one, 1), Ok(1));
            assert_eq!(limiter.refund_at($one, 1, at(0)), Ok(2));
            assert!(limiter.remove($one));
            assert!(!limiter.remove($one));
            assert_eq!(limiter.len(), 1);
        }};
    }

    #[test]
    fn of_text_are_looked_up_as_str() {
        assert_limits!(String: "alice", "bob");
        assert_limits!(Arc<str>: "alice", "bob");
        assert_limits!(Box<str>: "alice", "bob");
        assert_limits!(Rc<str>: "alice", "bob");
        assert_limits!(std::borrow::Cow<'static, str>: "alice", "bob");
    }

    #[test]
    fn of_text_are_looked_up_as_what_they_are() {
        assert_limits!(String: &String::from("alice"), &String::from("bob"));
        assert_limits!(Arc<str>: &Arc::<str>::from("alice"), &Arc::<str>::from("bob"));
        assert_limits!(&'static str: &"alice", &"bob");
    }

    #[test]
    fn of_bytes_are_looked_up_as_slices() {
        assert_limits!(Vec<u8>: [1, 2].as_slice(), [1].as_slice());
        assert_limits!(Arc<[u8]>: [1, 2].as_slice(), [1].as_slice());
        assert_limits!(Box<[u8]>: [1, 2].as_slice(), [1].as_slice());
        assert_limits!([u8; 16]: &[1; 16], &[2; 16]);
    }

    #[test]
    fn of_addresses() {
        let (v4, v6) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
        assert_limits!(IpAddr: &v4, &v6);
        assert_limits!(std::path::PathBuf: std::path::Path::new("/a"), std::path::Path::new("/b"));
    }

    #[test]
    fn of_numbers_and_tuples() {
        assert_limits!(u64: &1, &2);
        assert_limits!(u128: &1, &(1 << 64));
        assert_limits!((u32, u16): &(1, 2), &(2, 1));
        let user = |name: &str| (7_u32, String::from(name));
        assert_limits!((u32, String): &user("alice"), &user("bob"));
        assert_limits!(Option<u8>: &None, &Some(0));
    }

    /// Keys that hash alike are still different keys.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Alike(u64);

    impl Hash for Alike {
        fn hash<H: Hasher>(&self, state: &mut H) {
            1_u64.hash(state);
        }
    }

    #[test]
    fn that_hash_alike_are_told_apart() {
        assert_limits!(Alike: &Alike(1), &Alike(2));
    }

    thread_local! {
        static MADE: Cell<u32> = const { Cell::new(0) };
    }

    #[derive(PartialEq, Eq, Hash)]
    struct CountedKey(u64);

    impl From<u64> for CountedKey {
        fn from(key: u64) -> Self {
            MADE.set(MADE.get() + 1);
            Self(key)
        }
    }

    impl std::borrow::Borrow<u64> for CountedKey {
        fn borrow(&self) -> &u64 {
            &self.0
        }
    }

    #[test]
    fn are_made_owned_only_when_they_are_new() {
        let clock = ManualClock::new();
        let limiter: RateLimiter<CountedKey, ManualClock> =
            RateLimiter::builder(five_per_minute()).max_keys(1).clock(clock).build().unwrap();
        assert_eq!(limiter.peek(&1_u64).available(), 5);
        assert_eq!(limiter.refund(&1_u64, 1), Ok(5));
        assert!(!limiter.remove(&1_u64));
        assert_eq!(MADE.get(), 0);
        assert!(limiter.try_acquire(&1_u64).is_allowed());
        assert_eq!(MADE.get(), 1);
        for _ in 0..10 {
            let decision = limiter.try_acquire(&1_u64);
            assert!(decision.remaining() < 5);
        }
        assert_eq!(MADE.get(), 1);
        // Nor is a key for which there is no room.
        assert!(limiter.try_acquire(&2_u64).is_denied());
        assert_eq!(MADE.get(), 1);
    }
}

mod building {
    use super::*;

    fn builder() -> Builder<u64> {
        RateLimiter::builder(five_per_minute())
    }

    #[test]
    fn gives_what_was_asked_for() {
        let limiter = builder().max_keys(9).overflow(Overflow::Forget).build().unwrap();
        assert_eq!(limiter.quota(), &five_per_minute());
        assert_eq!(limiter.max_keys(), 9);
        assert_eq!(limiter.overflow(), Overflow::Forget);
        assert!(limiter.is_empty());
        assert_eq!(limiter.len(), 0);
    }

    #[test]
    fn without_settings_gives_what_new_gives() {
        let (built, new) = (builder().build().unwrap(), RateLimiter::<u64>::new(five_per_minute()));
        assert_eq!(built.max_keys(), new.max_keys());
        assert_eq!(built.overflow(), new.overflow());
        assert_eq!((new.max_keys(), new.overflow()), (1_000_000, Overflow::Deny));
    }

    #[test]
    fn does_not_depend_on_the_order_of_settings() {
        let last = builder()
            .hasher(BuildHasherDefault::<DefaultHasher>::default())
            .clock(ManualClock::at(at(7)))
            .shared_buckets(3)
            .overflow(Overflow::Share)
            .max_keys(9)
            .build()
            .unwrap();
        let first = builder()
            .max_keys(9)
            .overflow(Overflow::Share)
            .shared_buckets(3)
            .clock(ManualClock::at(at(7)))
            .hasher(BuildHasherDefault::<DefaultHasher>::default())
            .build()
            .unwrap();
        assert_eq!(format!("{first:?}"), format!("{last:?}"));
        assert_eq!(first.clock().now(), last.clock().now());
    }

    #[test]
    fn refuses_a_number_of_keys_that_is_out_of_range() {
        let built =
            |max_keys| builder().max_keys(max_keys).build().map(|limiter| limiter.max_keys());
        let most = (1 << 31) - 2;
        assert_eq!(built(0), Err(BuildError::ZeroMaxKeys));
        assert_eq!(built(1), Ok(1));
        assert_eq!(built(most), Ok(most), "memory is not taken in advance");
        for max_keys in [most + 1, 1 << 31, usize::MAX] {
            assert_eq!(built(max_keys), Err(BuildError::TooManyMaxKeys { max_keys }));
        }
    }

    #[test]
    fn refuses_a_number_of_shared_buckets_that_is_out_of_range_if_they_are_used() {
        let built =
            |overflow, buckets| builder().overflow(overflow).shared_buckets(buckets).build().err();
        let buckets = (1 << 20) + 1;
        assert_eq!(built(Overflow::Share, 0), Some(BuildError::ZeroSharedBuckets));
        assert_eq!(built(Overflow::Share, 1), None);
        assert_eq!(built(Overflow::Share, 1 << 20), None);
        let too_many = BuildError::TooManySharedBuckets { buckets };
        assert_eq!(built(Overflow::Share, buckets), Some(too_many));
        assert_eq!(built(Overflow::Deny, 0), None);
        assert_eq!(built(Overflow::Forget, buckets), None);
    }

    #[test]
    fn can_be_done_twice_from_one_description() {
        let builder = builder().max_keys(1);
        let [one, other] = [builder.clone(), builder].map(|builder| builder.build().unwrap());
        assert!(one.try_acquire_n(&1, 5).unwrap().is_allowed());
        assert!(other.try_acquire_n(&1, 5).unwrap().is_allowed());
    }
}

mod decisions {
    use super::*;

    #[test]
    fn that_admit_say_what_is_left_and_when_they_count() {
        let (limiter, clock) = with_clock::<String>(five_per_minute());
        clock.set(at(7));
        let decision = limiter.try_acquire_n("alice", 2).unwrap();
        assert!(decision.is_allowed() && !decision.is_denied());
        assert_eq!((decision.remaining(), decision.retry_after()), (3, None));
        assert_eq!(decision.denied(), None);
        let allowed = decision.allowed().unwrap();
        assert_eq!((allowed.remaining(), allowed.counted_at()), (3, at(7)));
    }

    #[test]
    fn that_admit_a_stale_caller_count_at_the_bucket_s_own_time() {
        let (limiter, _clock) = with_clock::<String>(five_per_minute());
        assert!(limiter.try_acquire_at("alice", 1, at(9)).unwrap().is_allowed());
        let allowed = limiter.try_acquire_at("alice", 1, at(3)).unwrap().allowed().unwrap();
        assert_eq!(allowed.counted_at(), at(9));
    }

    #[test]
    fn that_deny_say_why_and_what_is_left_and_until_when() {
        let (limiter, clock) = with_clock::<String>(five_per_minute());
        assert!(limiter.try_acquire_n("alice", 3).unwrap().is_allowed());
        clock.set(at(SECOND));
        let decision = limiter.try_acquire_n("alice", 4).unwrap();
        assert!(decision.is_denied() && !decision.is_allowed());
        assert_eq!(decision.allowed(), None);
        let wait = RetryAfter::After(Duration::from_secs(23));
        assert_eq!((decision.remaining(), decision.retry_after()), (2, Some(wait)));
        let denied = decision.denied().unwrap();
        assert_eq!(
            (denied.remaining(), denied.retry_after(), denied.reason()),
            (2, wait, Reason::Spent)
        );
        assert_eq!(wait.duration(), Some(Duration::from_secs(23)));
        assert_eq!(wait.whole_seconds(), Some(23));
    }

    #[test]
    fn can_be_matched_on() {
        let (limiter, _clock) = with_clock::<String>(Quota::allotment(1).unwrap());
        let mut seen = Vec::new();
        for _ in 0..2 {
            seen.push(match limiter.try_acquire("alice") {
                Decision::Allowed(allowed) => format!("allowed, {} left", allowed.remaining()),
                Decision::Denied(denied) => match (denied.reason(), denied.retry_after()) {
                    (Reason::Spent, RetryAfter::Never) => String::from("spent for ever"),
                    other => format!("{other:?}"),
                },
            });
        }
        assert_eq!(seen, ["allowed, 0 left", "spent for ever"]);
    }

    #[test]
    fn and_their_reasons_can_be_counted() {
        let reasons = [Reason::Spent, Reason::TableFull, Reason::SharedSpent, Reason::Spent];
        assert_eq!(HashSet::from(reasons).len(), 3);
    }
}

mod peek {
    use super::*;

    #[test]
    fn shows_what_is_there_and_when_there_is_more() {
        let (limiter, clock) = with_clock::<String>(five_per_minute());
        assert!(limiter.try_acquire_n("alice", 4).unwrap().is_allowed());
        clock.set(at(5 * SECOND));
        let peek = limiter.peek("alice");
        assert_eq!((peek.available(), peek.capacity()), (1, 5));
        assert_eq!(peek.until_next_token(), RetryAfter::After(Duration::from_secs(7)));
        assert_eq!(peek.until_full(), RetryAfter::After(Duration::from_secs(43)));
    }

    #[test]
    fn of_a_full_bucket_has_no_next_token_and_nothing_to_wait_for() {
        let (limiter, clock) = with_clock::<String>(five_per_minute());
        let assert_full = |peek: Peek| {
            assert_eq!(peek.available(), 5);
            assert_eq!(peek.until_next_token(), RetryAfter::Never);
            assert_eq!(peek.until_full(), RetryAfter::After(Duration::ZERO));
        };
        assert_full(limiter.peek("alice"));
        assert!(limiter.try_acquire("alice").is_allowed());
        clock.set(at(12 * SECOND));
        assert_full(limiter.peek("alice"));
    }

    #[test]
    fn changes_nothing_and_makes_no_bucket() {
        let (limiter, clock) = with_clock::<String>(five_per_minute());
        for _ in 0..100 {
            assert_eq!(limiter.peek("alice").available(), 5);
        }
        assert!(limiter.is_empty());
        assert!(limiter.try_acquire_n("alice", 5).unwrap().is_allowed());
        for nanos in 0..1_000 {
            clock.set(at(nanos));
            assert_eq!(limiter.peek("alice").available(), 0);
        }
        clock.set(at(12 * SECOND));
        assert!(limiter.try_acquire("alice").is_allowed());
    }

    #[test]
    fn tells_the_very_instant_of_the_next_token() {
        let (limiter, clock) = with_clock::<String>(Quota::per_second(7).unwrap());
        assert!(limiter.try_acquire_n("alice", 7).unwrap().is_allowed());
        for tokens in 1..=7 {
            let wait = limiter.peek("alice").until_next_token().duration().unwrap();
            clock.advance(wait.saturating_sub(Duration::from_nanos(1)));
            assert_eq!(limiter.peek("alice").available(), tokens - 1);
            clock.advance(Duration::from_nanos(1));
            assert_eq!(limiter.peek("alice").available(), tokens);
        }
        assert_eq!(limiter.peek("alice").until_full(), RetryAfter::After(Duration::ZERO));
    }
}

mod the_callers_time {
    use super::*;

    #[test]
    fn gives_the_same_as_a_clock_that_shows_it() {
        let (by_clock, clock) = with_clock::<String>(five_per_minute());
        let (by_hand, _) = with_clock::<String>(five_per_minute());
        for (now, cost) in
            [(0, 3), (SECOND, 3), (13 * SECOND, 3), (14 * SECOND, 1), (99 * SECOND, 5)]
        {
            let seconds = now / SECOND;
            clock.set(at(now));
            assert_eq!(by_clock.peek("alice"), by_hand.peek_at("alice", at(now)), "{seconds} s");
            assert_eq!(
                by_clock.try_acquire_n("alice", cost),
                by_hand.try_acquire_at("alice", cost, at(now)),
                "{seconds} s"
            );
            assert_eq!(
                by_clock.refund("alice", 1),
                by_hand.refund_at("alice", 1, at(now)),
                "{seconds} s"
            );
        }
        clock.set(at(200 * SECOND));
        assert_eq!((by_clock.sweep(), by_hand.sweep_at(at(200 * SECOND))), (1, 1));
    }

    #[test]
    fn is_one_reading_for_many_checks() {
        let (limiter, clock) = with_clock::<u64>(five_per_minute());
        clock.set(at(42));
        let now = limiter.clock().now();
        clock.set(at(43));
        for key in 0..10 {
            let allowed = limiter.try_acquire_at(&key, 1, now).unwrap().allowed().unwrap();
            assert_eq!(allowed.counted_at(), at(42));
        }
    }
}

mod clocks {
    use super::*;

    fn uses(clock: impl Clock, hand: &ManualClock) {
        let limiter = RateLimiter::<u64>::builder(five_per_minute()).clock(clock).build().unwrap();
        hand.set(at(0));
        assert!(limiter.try_acquire_n(&1, 5).unwrap().is_allowed());
        hand.set(at(12 * SECOND - 1));
        assert!(limiter.try_acquire(&1).is_denied());
        hand.set(at(12 * SECOND));
        assert!(limiter.try_acquire(&1).is_allowed());
    }

    #[test]
    fn are_taken_by_value_by_reference_and_shared() {
        let clock = ManualClock::new();
        uses(clock.clone(), &clock);
        uses(&clock, &clock);
        uses(Arc::new(clock.clone()), &clock);
        let dynamic: &dyn Clock = &clock;
        uses(dynamic, &clock);
        let dynamic: Arc<dyn Clock + Send + Sync> = Arc::new(clock.clone());
        uses(dynamic, &clock);
    }

    #[test]
    fn of_the_users_own_kind() {
        struct Loop<'a>(&'a Cell<u64>);
        impl Clock for Loop<'_> {
            fn now(&self) -> Timestamp {
                at(self.0.get())
            }
        }
        let ticks = Cell::new(0);
        let limiter =
            RateLimiter::<u64>::builder(five_per_minute()).clock(Loop(&ticks)).build().unwrap();
        assert!(limiter.try_acquire_n(&1, 5).unwrap().is_allowed());
        assert!(limiter.try_acquire(&1).is_denied());
        ticks.set(12 * SECOND);
        assert!(limiter.try_acquire(&1).is_allowed());
    }

    #[test]
    fn manual_can_be_set_backwards_and_shares_its_time_with_its_clones() {
        let clock = ManualClock::at(at(100));
        let other = clock.clone();
        clock.advance(Duration::from_nanos(11));
        assert_eq!(other.now(), at(111));
        other.set(at(5));
        assert_eq!(clock.now(), at(5));
        clock.advance(Duration::MAX);
        assert_eq!(other.now(), Timestamp::MAX);
        assert_eq!(ManualClock::default().now(), Timestamp::ZERO);
    }

    fn goes_on(clock: &impl Clock) {
        let start = clock.now();
        let mut last = start;
        while last == start {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn of_the_system_go_on_and_never_back() {
        goes_on(&MonotonicClock::new());
        goes_on(&MonotonicClock::default());
        #[cfg(feature = "coarse")]
        goes_on(&tollgate::CoarseClock::new());
        #[cfg(feature = "quanta")]
        goes_on(&tollgate::TscClock::new());
    }

    #[test]
    fn of_the_system_start_at_zero_so_that_copies_agree() {
        let clock = MonotonicClock::new();
        assert!(clock.now() < at(1_000 * SECOND));
        let copy = clock;
        let (first, second) = (clock.now(), copy.now());
        assert!(first <= second);
    }
}

mod hashers {
    use super::*;

    fn limits(hasher: impl BuildHasher, keys: u64) {
        let clock = ManualClock::new();
        let limiter: RateLimiter<u64, _, _> = RateLimiter::builder(five_per_minute())
            .hasher(hasher)
            .clock(clock.clone())
            .build()
            .unwrap();
        for round in 0..3 {
            clock.set(at(round * 120 * SECOND));
            for key in 0..keys {
                assert!(limiter.try_acquire_n(&key, 5).unwrap().is_allowed(), "key {key}");
            }
            for key in 0..keys {
                assert!(limiter.try_acquire(&key).is_denied(), "key {key}");
            }
            assert_eq!(u64::try_from(limiter.len()).unwrap(), keys);
        }
        for key in 0..keys / 2 {
            assert!(limiter.remove(&key));
        }
        clock.advance(Duration::from_secs(60));
        assert_eq!(u64::try_from(limiter.sweep()).unwrap(), keys - keys / 2);
        assert!(limiter.is_empty());
    }

    #[test]
    fn of_the_standard_library() {
        limits(std::hash::RandomState::new(), 2_000);
        limits(BuildHasherDefault::<DefaultHasher>::default(), 2_000);
    }

    /// Multiplies, like the fast ones.
    #[derive(Clone, Copy, Default)]
    struct Multiplying(u64);

    impl Hasher for Multiplying {
        fn finish(&self) -> u64 {
            self.0
        }

        fn write(&mut self, bytes: &[u8]) {
            for &byte in bytes {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            }
        }
    }

    #[test]
    fn of_the_users_own_kind() {
        limits(BuildHasherDefault::<Multiplying>::default(), 2_000);
    }

    /// As bad as can be: all keys collide, in each bit that the table looks at.
    #[derive(Clone, Copy, Default)]
    struct Constant;

    impl Hasher for Constant {
        fn finish(&self) -> u64 {
            0x0123_4567_89AB_CDEF
        }

        fn write(&mut self, _: &[u8]) {}
    }

    /// Numbers as they are, as some do for keys that are "random already".
    #[derive(Clone, Copy, Default)]
    struct Identity(u64);

    impl Hasher for Identity {
        fn finish(&self) -> u64 {
            self.0
        }

        fn write(&mut self, _: &[u8]) {
            unimplemented_for_bytes();
        }

        fn write_u64(&mut self, number: u64) {
            self.0 = number;
        }
    }

    fn unimplemented_for_bytes() {
        panic!("only for u64");
    }

    #[test]
    fn that_are_bad_make_it_slow_but_not_wrong() {
        limits(BuildHasherDefault::<Constant>::default(), 300);
        limits(BuildHasherDefault::<Identity>::default(), 300);
    }

    #[test]
    fn that_are_bad_keep_all_bounds_under_threads() {
        // Buckets come and go, and each is found by its slot among others of the same hash.
        let quota = Quota::new(1, Duration::from_micros(10)).unwrap();
        let limiter = RateLimiter::<u64>::builder(quota)
            .max_keys(16)
            .hasher(BuildHasherDefault::<Constant>::default())
            .build()
            .unwrap();
        thread::scope(|scope| {
            for thread in 0..4_u64 {
                let limiter = &limiter;
                scope.spawn(move || {
                    for step in 0..5_000_u64 {
                        let key = (step * 7 + thread * 3) % 40;
                        let denied = limiter.try_acquire(&key).denied();
                        assert!(denied.is_none_or(|denied| denied.remaining() == 0));
                        assert!(limiter.len() <= 16);
                    }
                });
            }
        });
        limiter.sweep_at(Timestamp::MAX);
        assert!(limiter.is_empty(), "no slot is lost");
    }
}

mod overflow_deny {
    use super::*;

    #[test]
    fn denies_new_keys_for_their_own_reason_until_a_bucket_is_full() {
        let (limiter, clock) = full_of(five_per_minute(), Overflow::Deny, 0, [2, 1, 5]);
        clock.set(at(SECOND));
        for key in 100..200 {
            let denied = limiter.try_acquire(&key).denied().unwrap();
            assert_eq!(denied.reason(), Reason::TableFull);
            assert_eq!(denied.remaining(), 0);
            // Of the few buckets that there are it has seen all: key 1 is full after 12 s.
            assert_eq!(denied.retry_after(), RetryAfter::After(Duration::from_secs(11)));
        }
        clock.set(at(12 * SECOND - 1));
        assert!(limiter.try_acquire(&100).is_denied());
        clock.set(at(12 * SECOND));
        assert!(limiter.try_acquire(&100).is_allowed());
        assert_eq!(limiter.try_acquire(&101).denied().unwrap().reason(), Reason::TableFull);
        assert_eq!(limiter.len(), 3);
    }

    #[test]
    fn never_touches_known_keys() {
        let (limiter, _clock) = full_of(five_per_minute(), Overflow::Deny, 0, [2, 1, 5]);
        for key in 100..10_000 {
            assert!(limiter.try_acquire(&key).is_denied());
        }
        let left = [0, 1, 2].map(|key| limiter.peek(&key).available());
        assert_eq!(left, [3, 4, 0]);
    }

    #[test]
    fn is_for_ever_if_nothing_is_refilled() {
        let (limiter, clock) = full_of(Quota::allotment(5).unwrap(), Overflow::Deny, 0, [2, 1]);
        clock.set(Timestamp::MAX);
        let denied = limiter.try_acquire(&100).denied().unwrap();
        assert_eq!((denied.reason(), denied.retry_after()), (Reason::TableFull, RetryAfter::Never));
        assert!(limiter.remove(&0), "but the user can make room");
        assert!(limiter.try_acquire(&100).is_allowed());
    }
}

mod overflow_share {
    use super::*;

    #[test]
    fn admits_the_new_keys_all_together_what_the_shared_buckets_hold() {
        for buckets in [1, 3, 64] {
            let (limiter, clock) =
                full_of(five_per_minute(), Overflow::Share, buckets, [5, 5, 5, 5]);
            let sold = |limiter: &RateLimiter<u64, ManualClock>| {
                (1_000..6_000).filter(|key| limiter.try_acquire(key).is_allowed()).count()
            };
            assert_eq!(sold(&limiter), buckets * 5, "the capacity of each");
            assert_eq!(sold(&limiter), 0);
            clock.set(at(24 * SECOND));
            assert_eq!(sold(&limiter), buckets * 2, "the refill of each");
            assert_eq!(limiter.len(), 4);
        }
    }

    #[test]
    fn denies_with_a_reason_of_its_own_and_an_honest_wait() {
        let (limiter, clock) = full_of(five_per_minute(), Overflow::Share, 1, [5]);
        assert!(limiter.try_acquire_n(&100, 4).unwrap().is_allowed());
        // A neighbour pays as well.
        let denied = limiter.try_acquire_n(&101, 2).unwrap().denied().unwrap();
        assert_eq!((denied.reason(), denied.remaining()), (Reason::SharedSpent, 1));
        assert_eq!(denied.retry_after(), RetryAfter::After(Duration::from_secs(12)));
        clock.set(at(12 * SECOND - 1));
        assert!(limiter.try_acquire_n(&101, 2).unwrap().is_denied());
        clock.set(at(12 * SECOND));
        assert!(limiter.try_acquire_n(&101, 2).unwrap().is_allowed());
    }

    #[test]
    fn gives_a_key_the_same_shared_bucket_each_time() {
        let (limiter, _clock) = full_of(five_per_minute(), Overflow::Share, 1 << 20, [5]);
        for key in 100..200 {
            // It is alone in a million buckets: five, and no second five elsewhere.
            let admitted = (0..20).filter(|_| limiter.try_acquire(&key).is_allowed()).count();
            assert!(admitted <= 5, "key {key}");
        }
    }

    #[test]
    fn sells_one_key_at_most_twice_its_quota_when_it_gets_a_bucket_of_its_own() {
        let (limiter, _clock) = full_of(five_per_minute(), Overflow::Share, 1, [1]);
        assert_eq!((0..20).filter(|_| limiter.try_acquire(&100).is_allowed()).count(), 5);
        assert!(limiter.remove(&0));
        assert_eq!((0..20).filter(|_| limiter.try_acquire(&100).is_allowed()).count(), 5);
        assert_eq!(limiter.try_acquire(&100).denied().unwrap().reason(), Reason::Spent);
    }

    #[test]
    fn makes_room_from_a_full_bucket_first() {
        let (limiter, clock) = full_of(five_per_minute(), Overflow::Share, 1, [1, 5]);
        clock.set(at(12 * SECOND));
        assert!(limiter.try_acquire_n(&100, 5).unwrap().is_allowed());
        assert_eq!(limiter.peek(&100).available(), 0, "it is a bucket of its own");
        assert_eq!(limiter.len(), 2);
    }

    #[test]
    fn never_touches_known_keys() {
        let (limiter, _clock) = full_of(five_per_minute(), Overflow::Share, 2, [2, 1, 5]);
        let admitted = (100..10_000).filter(|key| limiter.try_acquire(key).is_allowed()).count();
        assert_eq!(admitted, 10);
        let left = [0, 1, 2].map(|key| limiter.peek(&key).available());
        assert_eq!(left, [3, 4, 0]);
        assert_eq!(limiter.try_acquire(&2).denied().unwrap().reason(), Reason::Spent);
    }

    #[test]
    fn survives_bad_costs() {
        let (limiter, _clock) = full_of(five_per_minute(), Overflow::Share, 1, [5]);
        assert_eq!(limiter.try_acquire_n(&100, 0), Err(CostError::Zero));
        let above = CostError::AboveCapacity { cost: 6, capacity: 5 };
        assert_eq!(limiter.try_acquire_n(&100, 6), Err(above));
        assert!(limiter.try_acquire_n(&100, 5).unwrap().is_allowed());
    }
}

mod overflow_forget {
    use super::*;

    #[test]
    fn drops_the_bucket_closest_to_full() {
        let (limiter, _clock) = full_of(five_per_minute(), Overflow::Forget, 0, [4, 2, 5, 3]);
        assert!(limiter.try_acquire_n(&100, 5).unwrap().is_allowed());
        assert_eq!(limiter.len(), 4);
        let left = [0, 1, 2, 3, 100].map(|key| limiter.peek(&key).available());
        assert_eq!(left, [1, 5, 0, 2, 0], "key 1 was the one");
        assert!(limiter.try_acquire_n(&101, 5).unwrap().is_allowed());
        let left = [0, 2, 3, 100, 101].map(|key| limiter.peek(&key).available());
        assert_eq!(left, [1, 0, 5, 0, 0], "then key 3");
    }

    #[test]
    fn admits_every_new_key() {
        let (limiter, _clock) = full_of(five_per_minute(), Overflow::Forget, 0, [5, 5, 5]);
        for key in 100..10_000 {
            let decision = limiter.try_acquire_n(&key, 5).unwrap();
            assert!(decision.is_allowed(), "key {key}");
            assert_eq!(limiter.len(), 3);
        }
    }

    #[test]
    fn sells_a_key_what_its_dropped_bucket_lacked_and_no_more() {
        let (limiter, _clock) = full_of(five_per_minute(), Overflow::Forget, 0, [2]);
        let mut sold = 2;
        for round in 1..=10 {
            // The other key drops it, and it drops the other key.
            assert!(limiter.try_acquire(&100).is_allowed());
            sold += (0..20).filter(|_| limiter.try_acquire(&0).is_allowed()).count();
            assert!(sold <= 5 + 5 * round, "{sold} after it was dropped {round} times");
        }
        assert_eq!(sold, 2 + 5 * 10);
    }

    #[test]
    fn prefers_a_bucket_that_is_full_so_that_nobody_loses() {
        let (limiter, clock) = full_of(five_per_minute(), Overflow::Forget, 0, [5, 1, 4]);
        clock.set(at(12 * SECOND));
        assert!(limiter.try_acquire(&100).is_allowed());
        let left = [0, 1, 2, 100].map(|key| limiter.peek(&key).available());
        assert_eq!(left, [1, 5, 2, 4]);
    }
}

mod housekeeping {
    use super::*;

    #[test]
    fn each_new_key_tidies_some_others_so_that_no_sweep_is_needed() {
        let (limiter, clock) = with_clock::<u64>(five_per_minute());
        for key in 0..10_000 {
            clock.advance(Duration::from_millis(100));
            assert!(limiter.try_acquire(&key).is_allowed());
        }
        // A bucket is full again after 12 s, and idle a minute later: in that time 720 keys come.
        assert!(limiter.len() <= 2 * 720, "{} buckets", limiter.len());
    }

    #[test]
    fn leaves_active_keys_their_buckets_although_they_are_full() {
        // Full again after a millisecond; each key comes every 10 seconds.
        let (limiter, clock) =
            with_clock::<u64>(Quota::per_second(1_000).unwrap().burst(1).unwrap());
        for round in 0..20 {
            for key in 0..100 {
                clock.advance(Duration::from_millis(100));
                assert!(limiter.try_acquire(&key).is_allowed());
            }
            // A stranger in each round tidies, and must leave the hundred alone.
            assert!(limiter.try_acquire(&(1_000 + round)).is_allowed());
            assert!((100..=120).contains(&limiter.len()), "{} buckets", limiter.len());
        }
    }

    #[test]
    fn of_one_call_is_a_fixed_small_amount() {
        let (limiter, clock) = with_clock::<u64>(five_per_minute());
        for key in 0..1_000 {
            assert!(limiter.try_acquire(&key).is_allowed());
        }
        clock.set(at(120 * SECOND));
        let before = limiter.len();
        assert!(limiter.try_acquire(&5_000).is_allowed());
        let gone = before + 1 - limiter.len();
        assert!((1..=4).contains(&gone), "{gone}: all are full, but one call is no sweep");
    }

    #[test]
    fn sweep_tells_how_many_it_dropped() {
        let (limiter, clock) = with_clock::<u64>(five_per_minute());
        for key in 0..100 {
            assert!(limiter.try_acquire_n(&key, 1 + key % 5).unwrap().is_allowed());
        }
        for tokens in 1..=5 {
            clock.set(at(tokens * 12 * SECOND - 1));
            assert_eq!(limiter.sweep(), 0);
            clock.set(at(tokens * 12 * SECOND));
            assert_eq!(limiter.sweep(), 20);
            assert_eq!(u64::try_from(limiter.len()).unwrap(), 100 - tokens * 20);
        }
    }

    #[test]
    fn remove_tells_whether_there_was_a_bucket() {
        let (limiter, _clock) = with_clock::<u64>(five_per_minute());
        assert!(!limiter.remove(&1));
        assert!(limiter.try_acquire(&1).is_allowed());
        assert!(limiter.remove(&1));
        assert!(!limiter.remove(&1));
    }
}
