//! One bucket: acquire against acquire, against refund, and a stalled reader of a moving clock.

use std::sync::Arc;

use loom::thread;

use super::{MovingClock, World, explore, quota};
use crate::{Bucket, Clock, Timestamp};

fn acquire(bucket: &Bucket, now: u64) -> bool {
    bucket.try_acquire_at(1, Timestamp::from_nanos(now)).unwrap().is_allowed()
}

/// Three threads, two tokens, no time: exactly two are admitted.
#[test]
fn acquire_against_acquire() {
    explore("acquire_against_acquire", None, || {
        let bucket = Arc::new(Bucket::new(quota(1, 10, 2)));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let bucket = Arc::clone(&bucket);
                thread::spawn(move || acquire(&bucket, 5))
            })
            .collect();
        let mine = acquire(&bucket, 5);
        let admitted = others.into_iter().map(|other| other.join().unwrap());
        assert_eq!(admitted.filter(|&it| it).count() + usize::from(mine), 2);
        assert!(!acquire(&bucket, 5));
    });
}

/// A thread reads the clock and stalls; meanwhile time goes on and another spends. When it goes
/// on with its old reading it must mint nothing, and must not move the tick back (trap 1).
#[test]
fn stalled_reader() {
    explore("stalled_reader", None, || {
        let world = World::bucket(quota(1, 10, 2), 0);
        assert!(world.acquire(0) && world.acquire(0));
        world.clock().set(3);
        let reader = world.spawn(|world| {
            world.acquire(0);
        });
        let spender = world.spawn(|world| {
            world.clock().set(20);
            world.acquire(0);
        });
        reader.join().unwrap();
        spender.join().unwrap();
        world.clock().set(23);
        world.acquire(0);
        world.acquire(0);
        world.check();
    });
}

/// Pollers at odd instants lose nothing: what is due at the end is there (trap 5), and no more
/// (traps 4 and 6).
#[test]
fn pollers_lose_nothing() {
    explore("pollers_lose_nothing", None, || {
        // 3 tokens in 10 ns: due at 4, 7, 10 after the bucket was emptied.
        let bucket = Arc::new(Bucket::new(quota(3, 10, 3)));
        for _ in 0..3 {
            assert!(acquire(&bucket, 100));
        }
        let pollers: Vec<_> = [102, 105]
            .map(|now| {
                let bucket = Arc::clone(&bucket);
                thread::spawn(move || acquire(&bucket, now))
            })
            .into_iter()
            .collect();
        let sold = pollers.into_iter().map(|poller| poller.join().unwrap());
        let sold = sold.filter(|&it| it).count() as u64;
        assert_eq!(sold, 1, "the one at 105 gets the token that is due at 104");
        assert_eq!(bucket.peek_at(Timestamp::from_nanos(109)).available(), 1);
        assert_eq!(bucket.peek_at(Timestamp::from_nanos(110)).available(), 2);
    });
}

/// Two threads at different instants on a bucket that has to be refilled first: what the one has
/// counted, the other does not count again, and nothing is added late (trap 4).
#[test]
fn refill_is_counted_once() {
    explore("refill_is_counted_once", None, || {
        let world = World::bucket(quota(1, 10, 1), 0);
        assert!(world.acquire(0));
        world.clock().set(20);
        let other = world.spawn(|world| {
            world.acquire(0);
        });
        world.clock().set(30);
        world.acquire(0);
        other.join().unwrap();
        world.acquire(0);
        assert!(world.admissions() >= 2, "one was full at 20");
        world.check();
    });
}

/// Refunds never lift a bucket above its capacity, and none gets lost.
#[test]
fn refund_against_acquire() {
    explore("refund_against_acquire", None, || {
        let bucket = Arc::new(Bucket::new(quota(1, 1_000, 3)));
        assert!(acquire(&bucket, 0));
        let others = [1, 2].map(|cost| {
            let bucket = Arc::clone(&bucket);
            thread::spawn(move || bucket.refund_at(cost, Timestamp::from_nanos(1)).unwrap())
        });
        assert!(acquire(&bucket, 2));
        for other in others {
            assert!(other.join().unwrap() <= 3);
        }
        // 3 if the acquire came first; 2 if it came last, from a full bucket.
        let left = bucket.peek_at(Timestamp::from_nanos(2)).available();
        assert!((2..=3).contains(&left), "{left} left");
    });
}

/// A bucket that starts empty begins to count at its first denial, once.
#[test]
fn empty_start() {
    explore("empty_start", None, || {
        let clock = Arc::new(MovingClock::new(5));
        let bucket = Arc::new(Bucket::new(quota(1, 10, 1).initial(0).unwrap()));
        let other = {
            let (bucket, clock) = (Arc::clone(&bucket), Arc::clone(&clock));
            thread::spawn(move || {
                assert!(bucket.try_acquire_at(1, clock.now()).unwrap().is_denied());
            })
        };
        clock.set(7);
        assert!(bucket.try_acquire_at(1, clock.now()).unwrap().is_denied());
        other.join().unwrap();
        // It began at 5 or at 7, whichever denial came first.
        assert!(!acquire(&bucket, 14));
        assert!(acquire(&bucket, 17));
        assert!(!acquire(&bucket, 24));
    });
}
