//! The slots alone: no slot has two owners, and none is lost.

use std::sync::Arc;

use loom::thread;

use super::explore;
use crate::slots::{Slot, Slots, Tag};

fn tag(n: u64) -> Tag {
    Tag::new(n << 33)
}

/// Three threads, two slots: claims and frees in all orders.
#[test]
fn claim_against_free() {
    explore("claim_against_free", Some(3), || {
        let slots = Arc::new(Slots::new(2));
        let first = slots.claim(tag(1)).unwrap();
        let second = slots.claim(tag(2)).unwrap();
        slots.free(first);
        let others: Vec<_> = [None, Some(second)]
            .into_iter()
            .map(|owned: Option<Slot>| {
                let slots = Arc::clone(&slots);
                thread::spawn(move || {
                    if let Some(slot) = owned {
                        slots.free(slot);
                    }
                    let claimed = slots.claim(tag(3));
                    if let Some(slot) = claimed {
                        slots.free(slot);
                    }
                    slots.claim(tag(4))
                })
            })
            .collect();
        let mine = slots.claim(tag(5));
        let claimed: Vec<_> =
            others.into_iter().filter_map(|other| other.join().unwrap()).chain(mine).collect();
        assert!(slots.in_use() <= 2);
        assert_eq!(slots.in_use() as usize, claimed.len());
        assert!(claimed.len() <= 2, "two slots, {} owners", claimed.len());
        if let [one, other] = claimed[..] {
            assert_ne!(one, other, "one slot, two owners");
        }
        // Whatever is not owned can be had.
        for _ in claimed.len()..2 {
            assert!(slots.claim(tag(6)).is_some(), "a slot was lost");
        }
        assert!(slots.claim(tag(7)).is_none());
    });
}
