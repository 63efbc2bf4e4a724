//! What the limiter promises its users, as a specification to read: the cases that anybody who
//! has to judge a rate limiter asks about, and the bugs that users of others have met.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, and its inputs are known to be valid"
)]

#[path = "algorithms/baselines.rs"]
#[allow(dead_code, reason = "only the fixed window is compared with here")]
mod baselines;

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use tollgate::{
    Bucket, CostError, Decision, ManualClock, Overflow, Peek, Quota, QuotaError, RateLimiter,
    Reason, RetryAfter, Timestamp,
};

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 24 * 60 * MINUTE;
const CENTURY: u64 = 36_525 * DAY;

type Limiter = RateLimiter<String, ManualClock>;

/// A limiter and the hand on its clock.
fn limiter(quota: Quota) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    (RateLimiter::builder(quota).clock(clock.clone()).build().unwrap(), clock)
}

fn five_per_minute() -> Quota {
    Quota::per_minute(5).unwrap()
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn allows(bucket: &Bucket, cost: u64, now: u64) -> bool {
    bucket.try_acquire_at(cost, at(now)).unwrap().is_allowed()
}

/// A bucket that was emptied at this instant.
fn emptied(quota: Quota, now: u64) -> Bucket {
    let bucket = Bucket::new(quota);
    assert!(allows(&bucket, quota.capacity(), now), "a new bucket is full");
    bucket
}

fn wait(decision: Decision) -> u64 {
    match decision.retry_after() {
        Some(RetryAfter::After(wait)) => u64::try_from(wait.as_nanos()).unwrap(),
        other => panic!("no wait, but {other:?}"),
    }
}

fn assert_full(peek: Peek) {
    assert_eq!(peek.available(), peek.capacity());
    assert_eq!(peek.until_full(), RetryAfter::After(Duration::ZERO));
}

mod five_requests_per_minute_per_user {
    use super::*;

    #[test]
    fn a_new_user_may_send_five_at_once_and_not_a_sixth() {
        let (limiter, _clock) = limiter(five_per_minute());
        let decisions: Vec<bool> =
            (0..6).map(|_| limiter.try_acquire("alice").is_allowed()).collect();
        assert_eq!(decisions, [true, true, true, true, true, false]);
    }

    #[test]
    fn each_answer_says_how_many_are_left() {
        let (limiter, _clock) = limiter(five_per_minute());
        let left: Vec<u64> = (0..7).map(|_| limiter.try_acquire("alice").remaining()).collect();
        assert_eq!(left, [4, 3, 2, 1, 0, 0, 0]);
    }

    #[test]
    fn what_one_user_spends_no_other_user_lacks() {
        let (limiter, _clock) = limiter(five_per_minute());
        for user in ["alice", "bob", "", "ALICE", "alice "] {
            for _ in 0..5 {
                assert!(limiter.try_acquire(user).is_allowed(), "{user:?}");
            }
            assert!(limiter.try_acquire(user).is_denied(), "{user:?}");
        }
    }

    #[test]
    fn a_token_comes_back_every_12_seconds_and_not_a_nanosecond_earlier() {
        let (limiter, clock) = limiter(five_per_minute());
        assert!(limiter.try_acquire_n("alice", 5).unwrap().is_allowed());
        for tokens in 1..=100 {
            clock.set(at(tokens * 12 * SECOND - 1));
            assert!(limiter.try_acquire("alice").is_denied(), "1 ns before token {tokens}");
            clock.set(at(tokens * 12 * SECOND));
            assert!(limiter.try_acquire("alice").is_allowed(), "token {tokens} is due");
            assert!(limiter.try_acquire("alice").is_denied(), "token {tokens} is one token");
        }
    }

    #[test]
    fn the_clock_of_a_user_starts_at_his_first_request() {
        // Not at a multiple of 12 s or of a minute.
        let (limiter, clock) = limiter(five_per_minute());
        clock.set(at(7 * SECOND + 3));
        assert!(limiter.try_acquire_n("alice", 5).unwrap().is_allowed());
        clock.set(at(19 * SECOND + 2));
        assert!(limiter.try_acquire("alice").is_denied());
        clock.set(at(19 * SECOND + 3));
        assert!(limiter.try_acquire("alice").is_allowed());
    }

    #[test]
    fn a_denial_says_how_long_to_wait() {
        let (limiter, clock) = limiter(five_per_minute());
        assert!(limiter.try_acquire_n("alice", 5).unwrap().is_allowed());
        assert_eq!(wait(limiter.try_acquire("alice")), 12 * SECOND);
        assert_eq!(wait(limiter.try_acquire_n("alice", 5).unwrap()), MINUTE);
        clock.set(at(5 * SECOND));
        assert_eq!(wait(limiter.try_acquire("alice")), 7 * SECOND);
        clock.set(at(12 * SECOND - 1));
        assert_eq!(wait(limiter.try_acquire("alice")), 1);
    }

    #[test]
    fn after_a_minute_of_silence_there_are_five_again_and_never_more() {
        let (limiter, clock) = limiter(five_per_minute());
        for silence in [MINUTE, MINUTE + 1, 61 * SECOND, 3 * MINUTE, DAY, CENTURY] {
            assert!(limiter.try_acquire_n("alice", 5).unwrap().is_allowed());
            clock.advance(Duration::from_nanos(silence));
            assert_eq!(limiter.peek("alice").available(), 5, "after {silence} ns");
            for _ in 0..5 {
                assert!(limiter.try_acquire("alice").is_allowed(), "after {silence} ns");
            }
            assert!(limiter.try_acquire("alice").is_denied(), "after {silence} ns");
            clock.advance(Duration::from_nanos(MINUTE));
        }
    }

    #[test]
    fn a_nanosecond_before_the_minute_is_over_there_are_four() {
        let (limiter, clock) = limiter(five_per_minute());
        assert!(limiter.try_acquire_n("alice", 5).unwrap().is_allowed());
        clock.set(at(MINUTE - 1));
        assert_eq!(limiter.peek("alice").available(), 4);
        assert!(limiter.try_acquire_n("alice", 5).unwrap().is_denied());
        assert!(limiter.try_acquire_n("alice", 4).unwrap().is_allowed());
    }
}

mod the_start_of_a_bucket {
    use super::*;

    #[test]
    fn is_full() {
        let (limiter, _clock) = limiter(five_per_minute());
        assert_full(limiter.peek("alice"));
        assert_full(Bucket::new(five_per_minute()).peek_at(at(0)));
    }

    #[test]
    fn can_be_empty_and_then_it_fills_from_the_first_denial_on() {
        let quota = five_per_minute().initial(0).unwrap();
        let (limiter, clock) = limiter(quota);
        // Before the first request nobody counts.
        clock.set(at(MINUTE));
        assert_eq!(limiter.peek("alice").available(), 0);
        assert_eq!(wait(limiter.try_acquire("alice")), 12 * SECOND);
        clock.set(at(MINUTE + 12 * SECOND - 1));
        assert!(limiter.try_acquire("alice").is_denied());
        clock.set(at(MINUTE + 12 * SECOND));
        assert!(limiter.try_acquire("alice").is_allowed());
        assert!(limiter.try_acquire("alice").is_denied());
    }

    #[test]
    fn can_be_in_between() {
        let quota = five_per_minute().initial(2).unwrap();
        let (limiter, _clock) = limiter(quota);
        assert_eq!(limiter.peek("alice").available(), 2);
        assert_eq!(wait(limiter.try_acquire_n("alice", 3).unwrap()), 12 * SECOND);
        let decisions = [(); 3].map(|()| limiter.try_acquire("alice").is_allowed());
        assert_eq!(decisions, [true, true, false]);
    }

    #[test]
    fn is_no_later_for_an_empty_bucket_that_is_denied_again() {
        let bucket = Bucket::new(five_per_minute().initial(0).unwrap());
        assert!(!allows(&bucket, 1, 0));
        for second in 1..12 {
            assert!(!allows(&bucket, 1, second * SECOND), "{second} s");
        }
        assert!(allows(&bucket, 1, 12 * SECOND));
    }
}

mod a_denial {
    use super::*;

    #[test]
    fn costs_nothing_however_often_it_comes() {
        let bucket = emptied(five_per_minute(), 0);
        let before = (format!("{bucket:?}"), bucket.peek_at(at(0)));
        for nanos in 0..1_000_000 {
            assert!(!allows(&bucket, 1, nanos));
        }
        assert_eq!((format!("{bucket:?}"), bucket.peek_at(at(0))), before);
        assert!(allows(&bucket, 1, 12 * SECOND), "the token is not a nanosecond late");
    }

    #[test]
    fn of_a_known_user_costs_nothing_however_often_it_comes() {
        let (limiter, clock) = limiter(five_per_minute());
        assert!(limiter.try_acquire_n("alice", 5).unwrap().is_allowed());
        let before = limiter.peek("alice");
        for _ in 0..100_000 {
            clock.advance(Duration::from_micros(119));
            assert!(limiter.try_acquire("alice").is_denied());
        }
        assert_eq!(limiter.peek_at("alice", at(0)), before);
        clock.set(at(12 * SECOND));
        assert!(limiter.try_acquire("alice").is_allowed());
    }

    #[test]
    fn of_a_dear_request_leaves_enough_for_a_cheap_one() {
        let bucket = Bucket::new(five_per_minute());
        assert!(allows(&bucket, 2, 0));
        assert!(!allows(&bucket, 4, 0));
        assert!(allows(&bucket, 3, 0), "nothing was taken in part");
    }

    #[test]
    fn says_what_is_left_though_it_is_not_enough() {
        let bucket = Bucket::new(five_per_minute());
        assert!(allows(&bucket, 2, 0));
        let denied = bucket.try_acquire_at(4, at(0)).unwrap().denied().unwrap();
        assert_eq!((denied.remaining(), denied.reason()), (3, Reason::Spent));
    }
}

mod refill {
    use super::*;

    /// The instant at which the n-th token of `tokens` per `period` is due, in whole nanoseconds.
    fn due(n: u64, tokens: u64, period: u64) -> u64 {
        let exact = (u128::from(n) * u128::from(period)).div_ceil(u128::from(tokens));
        u64::try_from(exact).unwrap()
    }

    fn assert_each_token_is_sold_when_it_is_due(tokens: u64, period: u64, count: u64) {
        let quota = Quota::new(tokens, Duration::from_nanos(period)).unwrap();
        assert!(quota.is_exact());
        let bucket = emptied(quota, 0);
        for n in 1..=count {
            let due = due(n, tokens, period);
            assert!(!allows(&bucket, 1, due - 1), "{quota}: token {n} before {due} ns");
            assert!(allows(&bucket, 1, due), "{quota}: token {n} at {due} ns");
        }
    }

    #[test]
    fn of_3_per_second_sells_at_one_third_of_a_second_rounded_up() {
        let bucket = emptied(Quota::per_second(3).unwrap(), 0);
        for due in [333_333_334, 666_666_667, 1_000_000_000, 1_333_333_334] {
            assert!(!allows(&bucket, 1, due - 1));
            assert!(allows(&bucket, 1, due));
        }
        assert_each_token_is_sold_when_it_is_due(3, SECOND, 10_000);
    }

    #[test]
    fn of_7_per_minute_is_exact() {
        assert_each_token_is_sold_when_it_is_due(7, MINUTE, 10_000);
    }

    #[test]
    fn of_1500_per_second_is_not_that_of_1000() {
        assert_each_token_is_sold_when_it_is_due(1_500, SECOND, 10_000);
    }

    #[test]
    fn of_300_million_per_second_is_not_that_of_333_million() {
        assert_each_token_is_sold_when_it_is_due(300_000_000, SECOND, 10_000);
    }

    #[test]
    fn of_a_prime_per_day_is_exact() {
        assert_each_token_is_sold_when_it_is_due(1_009, DAY, 10_000);
    }

    #[test]
    fn faster_than_one_per_nanosecond_is_exact_too() {
        let bucket = emptied(Quota::new(7, Duration::from_nanos(2)).unwrap(), 0);
        // 3.5 tokens each nanosecond.
        assert!(!allows(&bucket, 4, 1));
        assert!(allows(&bucket, 3, 1));
        assert!(allows(&bucket, 4, 2));
        assert!(!allows(&bucket, 1, 2));
    }

    #[test]
    fn keeps_every_remainder_however_the_bucket_is_polled() {
        // No step brings as much as the capacity of 2, so what is sold is all that there was.
        for (tokens, period, step) in [
            (1_000, SECOND, 1_500),
            (3, SECOND, 7 * MILLISECOND + 1),
            (7, MINUTE, 99_999_999),
            (300_000_000, SECOND, 1),
            (1_500, SECOND, 600 * MICROSECOND + 1),
            (1_009, DAY, 86_400 * MICROSECOND - 1),
        ] {
            let quota = Quota::new(tokens, Duration::from_nanos(period)).unwrap().burst(2).unwrap();
            let bucket = Bucket::new(quota);
            let mut sold = 0;
            for poll in 0..100_000 {
                let now = poll * step;
                while allows(&bucket, 1, now) {
                    sold += 1;
                }
                let refill = u128::from(now) * u128::from(tokens) / u128::from(period);
                assert_eq!(sold, 2 + refill, "{quota} at {now} ns");
            }
        }
    }

    #[test]
    fn stops_at_the_capacity() {
        let quota = Quota::per_second(1_000).unwrap().burst(10).unwrap();
        let bucket = emptied(quota, 0);
        assert_eq!(bucket.peek_at(at(10 * MILLISECOND - 1)).available(), 9);
        for now in [10 * MILLISECOND, 11 * MILLISECOND, SECOND, DAY, CENTURY, u64::MAX] {
            let peek = bucket.peek_at(at(now));
            assert_eq!((peek.available(), peek.capacity()), (10, 10));
        }
    }

    #[test]
    fn is_seen_in_what_remains_without_any_request() {
        let (limiter, clock) = limiter(five_per_minute());
        assert!(limiter.try_acquire_n("alice", 5).unwrap().is_allowed());
        let mut seen = Vec::new();
        for _ in 0..7 {
            seen.push(limiter.peek("alice").available());
            clock.advance(Duration::from_secs(12));
        }
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 5]);
    }

    #[test]
    fn is_seen_in_what_a_denial_says_remains() {
        let bucket = emptied(five_per_minute(), 0);
        let left = |seconds| {
            bucket.try_acquire_at(5, at(seconds * SECOND)).unwrap().denied().unwrap().remaining()
        };
        assert_eq!([0, 11, 12, 24, 47, 59].map(left), [0, 0, 1, 2, 3, 4]);
    }
}

mod cost {
    use super::*;

    #[test]
    fn equal_to_the_capacity_is_admitted_by_a_full_bucket_and_by_no_other() {
        let bucket = emptied(five_per_minute(), 0);
        assert!(!allows(&bucket, 5, MINUTE - 1));
        assert!(allows(&bucket, 5, MINUTE));
        assert!(!allows(&bucket, 1, MINUTE));
    }

    #[test]
    fn of_n_is_worth_n_requests_of_one() {
        let quota = Quota::per_second(100).unwrap();
        let (dear, cheap) = (Bucket::new(quota), Bucket::new(quota));
        for (cost, now) in [(30, 0), (70, 0), (10, 100 * MILLISECOND), (90, SECOND)] {
            assert!(allows(&dear, cost, now));
            assert!((0..cost).all(|_| allows(&cheap, 1, now)));
            assert_eq!(dear.peek_at(at(now)), cheap.peek_at(at(now)));
        }
    }

    #[test]
    fn of_zero_or_above_the_capacity_is_an_error_that_changes_nothing() {
        let bucket = Bucket::new(five_per_minute());
        assert!(allows(&bucket, 3, 0));
        let before = format!("{bucket:?}");
        for now in [0, SECOND, DAY] {
            assert_eq!(bucket.try_acquire_at(0, at(now)), Err(CostError::Zero));
            assert_eq!(bucket.refund_at(0, at(now)), Err(CostError::Zero));
            for cost in [6, 7, 1 << 32, u64::MAX / 5, u64::MAX - 1, u64::MAX] {
                let above = CostError::AboveCapacity { cost, capacity: 5 };
                assert_eq!(bucket.try_acquire_at(cost, at(now)), Err(above));
                assert_eq!(bucket.refund_at(cost, at(now)), Err(above));
            }
        }
        assert_eq!(format!("{bucket:?}"), before);
    }

    #[test]
    fn that_is_an_error_does_not_even_make_the_user_known() {
        let (limiter, _clock) = limiter(five_per_minute());
        assert_eq!(limiter.try_acquire_n("alice", 0), Err(CostError::Zero));
        let above = CostError::AboveCapacity { cost: 6, capacity: 5 };
        assert_eq!(limiter.try_acquire_n("alice", 6), Err(above));
        assert_eq!(limiter.refund("alice", 6), Err(above));
        assert_eq!(limiter.len(), 0);
    }
}

mod time {
    use super::*;

    #[test]
    fn that_stands_still_brings_nothing() {
        let (limiter, clock) = limiter(Quota::per_second(1_000_000).unwrap().burst(50).unwrap());
        clock.set(at(DAY));
        let admitted = (0..10_000).filter(|_| limiter.try_acquire("alice").is_allowed()).count();
        assert_eq!(admitted, 50);
    }

    #[test]
    fn that_is_set_back_mints_nothing() {
        let (limiter, clock) = limiter(five_per_minute());
        clock.set(at(DAY));
        assert!(limiter.try_acquire_n("alice", 5).unwrap().is_allowed());
        for back in [DAY - 1, DAY - MINUTE, MINUTE, 1, 0] {
            clock.set(at(back));
            assert!(limiter.try_acquire("alice").is_denied(), "set back to {back} ns");
            assert_eq!(limiter.peek("alice").available(), 0);
        }
        clock.set(at(DAY + 12 * SECOND - 1));
        assert!(limiter.try_acquire("alice").is_denied(), "the way forward again is no refill");
        clock.set(at(DAY + 12 * SECOND));
        assert!(limiter.try_acquire("alice").is_allowed());
    }

    #[test]
    fn that_swings_back_and_forth_mints_nothing() {
        let (limiter, clock) = limiter(five_per_minute());
        let mut admitted = 0;
        for swing in 0..10_000 {
            clock.set(at(if swing % 2 == 0 { 11 * SECOND } else { 0 }));
            admitted += u32::from(limiter.try_acquire("alice").is_allowed());
        }
        assert_eq!(admitted, 5);
    }

    #[test]
    fn that_is_set_back_lets_users_spend_what_they_have() {
        let bucket = Bucket::new(five_per_minute());
        assert!(allows(&bucket, 2, DAY));
        assert!(allows(&bucket, 3, 0));
        assert!(!allows(&bucket, 1, 0));
    }

    #[test]
    fn of_a_century_without_a_request_gives_one_full_bucket() {
        for quota in ["5/min", "1/day burst 5", "300000000/s burst 5", "5 per 1ns"] {
            let quota: Quota = quota.parse().unwrap();
            let bucket = emptied(quota, SECOND);
            assert_full(bucket.peek_at(at(SECOND + CENTURY)));
            assert!(allows(&bucket, 5, SECOND + CENTURY), "{quota}");
            assert!(!allows(&bucket, 5, SECOND + CENTURY), "{quota}");
        }
    }

    #[test]
    fn of_584_years_without_a_request_gives_one_full_bucket() {
        let extremes = [
            Quota::per_minute(5).unwrap(),
            Quota::new(5, Duration::from_nanos(1)).unwrap(),
            Quota::new(1 << 50, Duration::from_nanos(1)).unwrap(),
            Quota::new(1 << 32, Quota::MAX_PERIOD).unwrap(),
            Quota::new(1, Quota::MAX_PERIOD).unwrap(),
            Quota::per_second(999_999_937).unwrap().burst(1 << 32).unwrap(),
        ];
        for quota in extremes {
            let bucket = emptied(quota, 0);
            assert_full(bucket.peek_at(Timestamp::MAX));
            assert!(allows(&bucket, quota.capacity(), u64::MAX), "{quota}");
            assert!(!allows(&bucket, quota.capacity(), u64::MAX), "{quota}");
            assert!(!allows(&bucket, quota.capacity(), 0), "{quota}");
        }
    }

    #[test]
    fn can_begin_at_its_own_end() {
        let (limiter, clock) = limiter(five_per_minute());
        clock.set(Timestamp::MAX);
        let admitted = (0..100).filter(|_| limiter.try_acquire("alice").is_allowed()).count();
        assert_eq!(admitted, 5);
        // The token would be due after the end of the clock.
        let denied = limiter.try_acquire("alice");
        assert_eq!(denied.retry_after(), Some(RetryAfter::Never));
    }

    #[test]
    fn can_be_unix_time() {
        let bucket = emptied(five_per_minute(), 1_764_536_400 * SECOND);
        assert!(!allows(&bucket, 1, 1_764_536_412 * SECOND - 1));
        assert!(allows(&bucket, 1, 1_764_536_412 * SECOND));
    }
}

mod contention {
    use super::*;

    #[test]
    fn on_one_user_admits_exactly_the_capacity() {
        for (threads, capacity) in [(2, 1), (8, 5), (16, 100), (3, 10_000)] {
            let quota = Quota::per_second(1_000_000).unwrap().burst(capacity).unwrap();
            let (limiter, _clock) = limiter(quota);
            let start = Barrier::new(threads);
            let requests = usize::try_from(capacity).unwrap() / threads * 2 + 10;
            let work = || {
                start.wait();
                (0..requests).filter(|_| limiter.try_acquire("alice").is_allowed()).count()
            };
            let admitted: usize = thread::scope(|scope| {
                let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!(u64::try_from(admitted).unwrap(), capacity, "{threads} threads");
        }
    }

    #[test]
    fn with_costs_admits_all_or_none_of_each() {
        // Costs of 7 out of 100: 14 fit, 2 tokens are left, and 2 requests of 1 get them.
        let bucket = Bucket::new(Quota::per_second(100).unwrap());
        let work = |cost| (0..1_000).filter(|_| allows(&bucket, cost, 0)).count();
        let admitted: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| work(7))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((admitted, work(1)), (14, 2));
    }
}

mod a_quota_without_refill {
    use super::*;

    #[test]
    fn is_spent_once_and_then_there_is_nothing_to_wait_for() {
        let (limiter, clock) = limiter(Quota::allotment(5).unwrap());
        assert!(limiter.try_acquire_n("alice", 4).unwrap().is_allowed());
        for now in [0, DAY, CENTURY, u64::MAX] {
            clock.set(at(now));
            let denied = limiter.try_acquire_n("alice", 2).unwrap();
            assert_eq!(denied.retry_after(), Some(RetryAfter::Never));
            assert_eq!(denied.remaining(), 1);
            let peek = limiter.peek("alice");
            assert_eq!(
                (peek.until_next_token(), peek.until_full()),
                (RetryAfter::Never, RetryAfter::Never)
            );
        }
        assert!(limiter.try_acquire("alice").is_allowed());
        assert!(limiter.try_acquire("alice").is_denied());
    }

    #[test]
    fn is_not_handed_out_again_by_housekeeping() {
        let (limiter, clock) = limiter(Quota::allotment(5).unwrap());
        assert!(limiter.try_acquire("alice").is_allowed());
        clock.set(at(CENTURY));
        assert_eq!(limiter.sweep(), 0);
        assert_eq!(limiter.peek("alice").available(), 4);
    }
}

mod giving_back {
    use super::*;

    #[test]
    fn a_refund_can_be_spent_again() {
        let (limiter, _clock) = limiter(five_per_minute());
        assert!(limiter.try_acquire_n("alice", 5).unwrap().is_allowed());
        assert_eq!(limiter.refund("alice", 2), Ok(2));
        let decisions = [(); 3].map(|()| limiter.try_acquire("alice").is_allowed());
        assert_eq!(decisions, [true, true, false]);
    }

    #[test]
    fn a_refund_keeps_what_has_been_refilled_in_part() {
        let bucket = emptied(five_per_minute(), 0);
        assert_eq!(bucket.refund_at(1, at(6 * SECOND)), Ok(1));
        assert!(!allows(&bucket, 2, 12 * SECOND - 1));
        assert!(allows(&bucket, 2, 12 * SECOND));
    }

    #[test]
    fn a_refund_never_goes_above_the_capacity() {
        let bucket = Bucket::new(five_per_minute());
        assert!(allows(&bucket, 1, 0));
        for _ in 0..100 {
            assert_eq!(bucket.refund_at(5, at(0)), Ok(5));
        }
        assert!(allows(&bucket, 5, 0));
        assert!(!allows(&bucket, 1, 0));
    }

    #[test]
    fn a_refund_to_an_unknown_user_gives_nothing_and_makes_nobody_known() {
        let (limiter, _clock) = limiter(five_per_minute());
        assert_eq!(limiter.refund("alice", 3), Ok(5));
        assert_eq!(limiter.len(), 0);
        let admitted = (0..10).filter(|_| limiter.try_acquire("alice").is_allowed()).count();
        assert_eq!(admitted, 5);
    }

    #[test]
    fn a_removed_user_starts_anew() {
        let (limiter, _clock) = limiter(five_per_minute());
        assert!(!limiter.remove("alice"), "she is not known yet");
        assert!(limiter.try_acquire_n("alice", 5).unwrap().is_allowed());
        assert!(limiter.try_acquire_n("bob", 5).unwrap().is_allowed());
        assert!(limiter.remove("alice"));
        assert_eq!(limiter.len(), 1);
        assert!(limiter.try_acquire_n("alice", 5).unwrap().is_allowed());
        assert!(limiter.try_acquire("alice").is_denied());
        assert!(limiter.try_acquire("bob").is_denied(), "nobody else does");
    }
}

mod next_to_a_fixed_window {
    use super::baselines::{Baseline, FixedWindow};
    use super::*;

    /// Five requests at the end of a minute and five at the start of the next.
    fn around_the_boundary() -> impl Iterator<Item = u64> {
        (0..10).map(|n| 59 * SECOND + n * 200 * MILLISECOND)
    }

    #[test]
    fn a_fixed_window_admits_ten_within_two_seconds() {
        let mut window = FixedWindow::new(5, MINUTE);
        assert_eq!(around_the_boundary().filter(|&now| window.allow(now)).count(), 10);
    }

    #[test]
    fn the_token_bucket_admits_five_within_two_seconds() {
        let bucket = Bucket::new(five_per_minute());
        assert_eq!(around_the_boundary().filter(|&now| allows(&bucket, 1, now)).count(), 5);
    }

    #[test]
    fn both_admit_the_same_to_a_steady_client() {
        let mut window = FixedWindow::new(5, MINUTE);
        let bucket = Bucket::new(five_per_minute());
        let steady = (0..100).map(|n| n * 12 * SECOND);
        assert!(steady.clone().all(|now| window.allow(now)));
        assert!(steady.clone().all(|now| allows(&bucket, 1, now)));
    }
}

/// Bugs that were filed against other limiters.
mod not_here {
    use super::*;

    #[test]
    fn a_retry_after_of_0_seconds() {
        let bucket = emptied(Quota::per_second(1_000_000).unwrap(), 0);
        let retry = bucket.try_acquire_at(1, at(0)).unwrap().retry_after().unwrap();
        assert_eq!(retry, RetryAfter::After(Duration::from_micros(1)));
        assert_eq!(retry.whole_seconds(), Some(1));
        assert_eq!(RetryAfter::After(Duration::ZERO).whole_seconds(), Some(1));
    }

    #[test]
    fn a_retry_after_that_is_rounded_down() {
        let whole = |nanos| RetryAfter::After(Duration::from_nanos(nanos)).whole_seconds();
        assert_eq!(whole(1), Some(1));
        assert_eq!(whole(SECOND), Some(1));
        assert_eq!(whole(SECOND + 1), Some(2));
        assert_eq!(whole(2 * SECOND - 1), Some(2));
        assert_eq!(whole(12 * SECOND), Some(12));
        assert_eq!(RetryAfter::After(Duration::MAX).whole_seconds(), Some(u64::MAX));
        assert_eq!(RetryAfter::Never.whole_seconds(), None);
    }

    #[test]
    fn a_client_that_waits_as_it_was_told_and_is_refused_again() {
        for quota in ["5/min", "3/s", "7/min", "1500/s", "300000000/s", "1/day", "1000003 per 30d"]
        {
            let quota: Quota = quota.parse().unwrap();
            let bucket = emptied(quota, 0);
            let mut now = 0;
            for cost in [1, quota.capacity().min(5), quota.capacity()] {
                let denied = bucket.try_acquire_at(cost, at(now)).unwrap();
                let seconds = denied.retry_after().and_then(RetryAfter::whole_seconds).unwrap();
                now += seconds * SECOND;
                assert!(allows(&bucket, cost, now), "{quota}: {cost} after {seconds} s");
                // He spends the rest as well, so that he has to wait again.
                let rest = bucket.peek_at(at(now)).available();
                assert!(rest == 0 || allows(&bucket, rest, now));
            }
        }
    }

    #[test]
    fn a_panic_on_a_duration_over_584_years() {
        let long = Duration::from_secs(585 * 366 * 24 * 60 * 60);
        for time in [long, Duration::MAX] {
            let error = Quota::new(5, time).unwrap_err();
            assert_eq!(error, QuotaError::PeriodTooLong { period: time });
            assert_eq!(Timestamp::from_duration(time), Timestamp::MAX);
            assert_eq!(at(5).saturating_add(time), Timestamp::MAX);
            assert_eq!(at(5).saturating_sub(time), Timestamp::ZERO);
            assert_eq!(at(5).checked_add(time), None);
            let (limiter, clock) = limiter(five_per_minute());
            assert!(limiter.try_acquire_n("alice", 5).unwrap().is_allowed());
            clock.advance(time);
            assert_full(limiter.peek("alice"));
            clock.advance(time);
            assert!(limiter.try_acquire_n("alice", 5).unwrap().is_allowed());
            assert!(limiter.try_acquire("alice").is_denied());
        }
    }

    #[test]
    fn a_product_of_capacity_and_period_that_overflows_into_credit() {
        let year = 365 * DAY;
        for (tokens, capacity) in [
            (1, 1 << 32),
            (1 << 32, 1 << 32),
            ((1 << 32) - 5, 1 << 32),
            (4_294_967_291, 4_294_967_279),
            (1 << 50, 1 << 50),
        ] {
            let quota = Quota::new(tokens, Quota::MAX_PERIOD).unwrap().burst(capacity).unwrap();
            let bucket = emptied(quota, 0);
            assert_eq!(bucket.peek_at(at(0)).available(), 0);
            let period = Quota::MAX_PERIOD.as_nanos();
            let exact = u128::from(tokens) * u128::from(year) / period;
            let exact = u64::try_from(exact).unwrap().min(capacity);
            let available = bucket.peek_at(at(year)).available();
            assert!(available <= exact, "{quota}: {available} of {exact} after a year");
            // Such quotas are counted to one part in 2^30, and in steps of some time.
            let step = quota.effective_rate().unwrap().resolution().as_nanos();
            let in_a_step = u128::from(tokens) * step / period;
            let lost = u128::from((exact - available).saturating_sub(exact >> 30));
            assert!(lost <= in_a_step + 1, "{quota}: {available} of {exact} after a year");
        }
    }

    #[test]
    fn a_capacity_that_cannot_be_counted_but_is_accepted() {
        let quota = five_per_minute();
        let capacity = u64::MAX;
        assert_eq!(quota.burst(capacity), Err(QuotaError::CapacityTooLarge { capacity }));
        assert_eq!(quota.burst(0), Err(QuotaError::ZeroCapacity));
        let period = Duration::from_nanos(1);
        let tokens = u64::MAX;
        assert_eq!(Quota::new(tokens, period), Err(QuotaError::TooManyTokens { tokens }));
    }

    #[test]
    fn a_time_to_live_of_0_that_stores_nothing_and_admits_everything() {
        // The shortest period there is: an empty bucket is full again 1 ns later.
        let quota = Quota::new(1, Duration::from_nanos(1)).unwrap();
        let (limiter, clock) = limiter(quota);
        for nanos in 0..1_000 {
            clock.set(at(nanos));
            assert!(limiter.try_acquire("alice").is_allowed());
            assert!(limiter.try_acquire("alice").is_denied());
        }
        assert_eq!(Quota::new(1, Duration::ZERO), Err(QuotaError::ZeroPeriod));
    }

    #[test]
    fn a_rejected_request_that_stores_a_negative_balance() {
        let bucket = Bucket::new(five_per_minute());
        assert!(allows(&bucket, 4, 0));
        for _ in 0..1_000 {
            assert!(!allows(&bucket, 5, 0));
        }
        assert_eq!(bucket.peek_at(at(0)).available(), 1);
        assert!(allows(&bucket, 2, 12 * SECOND), "there is no debt to pay off first");
    }

    #[test]
    fn a_rejected_user_who_takes_up_memory() {
        let clock = ManualClock::new();
        let limiter: Limiter = RateLimiter::builder(five_per_minute())
            .max_keys(2)
            .overflow(Overflow::Deny)
            .clock(clock.clone())
            .build()
            .unwrap();
        assert!(limiter.try_acquire("alice").is_allowed());
        assert!(limiter.try_acquire("bob").is_allowed());
        for user in 0..10_000 {
            let denied = limiter.try_acquire(user.to_string().as_str()).denied().unwrap();
            assert_eq!(denied.reason(), Reason::TableFull);
        }
        assert_eq!(limiter.len(), 2);
        assert_eq!(limiter.peek("alice").available(), 4, "and nobody else pays for it");
        assert_eq!(limiter.peek("bob").available(), 4);
        clock.set(at(12 * SECOND));
        assert!(limiter.try_acquire("carol").is_allowed(), "once a full bucket can make room");
    }

    #[test]
    fn an_attacker_who_evicts_the_bucket_that_limits_him() {
        let clock = ManualClock::new();
        let limiter: Limiter = RateLimiter::builder(five_per_minute())
            .max_keys(100)
            .clock(clock.clone())
            .build()
            .unwrap();
        assert!(limiter.try_acquire_n("mallory", 5).unwrap().is_allowed());
        let mut admitted = 0;
        for alias in 0..10_000 {
            let alias = format!("mallory+{alias}");
            admitted += u32::from(limiter.try_acquire(alias.as_str()).is_allowed());
            assert!(limiter.try_acquire("mallory").is_denied(), "after {alias}");
        }
        assert_eq!(admitted, 99, "one request for each bucket that there was room for");
    }

    #[test]
    fn all_those_who_were_told_to_come_back_at_one_instant_are_let_in_at_it() {
        // They are told the truth about the next token, and only one of them can have it.
        let bucket = emptied(five_per_minute(), 0);
        let waits: Vec<u64> =
            (0..100).map(|_| wait(bucket.try_acquire_at(1, at(0)).unwrap())).collect();
        assert!(waits.iter().all(|&wait| wait == 12 * SECOND));
        assert_eq!(waits.iter().filter(|&&wait| allows(&bucket, 1, wait)).count(), 1);
    }
}
