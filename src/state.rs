//! The packed word: one bucket in 128 bits.
//!
//! ```text
//!  127                                64 63                              4 3       0
//! +-------------------------------------+---------------------------------+---------+
//! |  tick: nanoseconds since the epoch  |     credits (60 bits)           |  phase  |
//! +-------------------------------------+---------------------------------+---------+
//! ```
//!
//! Everything that a decision needs is in the one word, so that one compare-and-swap decides and
//! records it: no second atomic can fall out of step with the first. This file knows the layout
//! and nothing else; what the numbers mean is in `arithmetic.rs`, how the word changes under
//! threads in `cell.rs`.

/// Bits of the credit field.
pub(crate) const CREDIT_BITS: u32 = 60;
/// The largest number of credits that a bucket can hold.
pub(crate) const MAX_CREDITS: u64 = (1 << CREDIT_BITS) - 1;

const PHASE_BITS: u32 = 4;
const TICK_SHIFT: u32 = CREDIT_BITS + PHASE_BITS;
const PHASE_MASK: u128 = (1 << PHASE_BITS) - 1;

// The zero word is FRESH, so that a zeroed table is a table of fresh buckets. Values 2 to 14 are
// free for generations of the quota.
const FRESH: u128 = 0;
const LIVE: u128 = 1;
const RETIRED: u128 = 15;

/// What a live bucket holds: so many credits, counted at that tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// Credits counted at `tick`, at most [`MAX_CREDITS`].
    pub(crate) credits: u64,
    /// The instant up to which refill has been counted, in nanoseconds.
    pub(crate) tick: u64,
}

/// One bucket, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// In the map, but nobody has used it: it has no tick yet.
    Fresh,
    /// In use.
    Live(Level),
    /// Dead for good: whoever meets it takes it out of the map and looks the key up again.
    Retired,
}

impl State {
    /// The word of this state.
    #[inline]
    pub(crate) const fn pack(self) -> u128 {
        match self {
            Self::Fresh => FRESH,
            Self::Live(level) => {
                debug_assert!(level.credits <= MAX_CREDITS);
                ((level.tick as u128) << TICK_SHIFT)
                    | ((level.credits as u128) << PHASE_BITS)
                    | LIVE
            }
            Self::Retired => RETIRED,
        }
    }

    /// The state of this word.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the fields are cut out on purpose")]
    pub(crate) const fn unpack(word: u128) -> Self {
        match word & PHASE_MASK {
            FRESH => Self::Fresh,
            RETIRED => Self::Retired,
            _ => Self::Live(Level {
                credits: (word as u64) >> PHASE_BITS,
                tick: (word >> TICK_SHIFT) as u64,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_survives_packing_at_its_limits() {
        for credits in [0, 1, 2, MAX_CREDITS / 2, MAX_CREDITS - 1, MAX_CREDITS] {
            for tick in [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
                let state = State::Live(Level { credits, tick });
                assert_eq!(State::unpack(state.pack()), state);
            }
        }
        assert_eq!(State::unpack(State::Fresh.pack()), State::Fresh);
        assert_eq!(State::unpack(State::Retired.pack()), State::Retired);
    }

    #[test]
    fn the_zero_word_is_fresh() {
        assert_eq!(State::unpack(0), State::Fresh);
    }
}
