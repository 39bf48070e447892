//! Helpers that the tests of every layer share. A dev-dependency only: no program contains it (`tools/arrows.py`).
//!
//! - [`Seeded`]: a deterministic random generator that is also an [`Entropy`](taut_base::Entropy). [`Probability`] is the type of its chances.
//! - [`seeds`], [`first`]: seeds that differ in every run. A failing test prints its seed, and `TAUT_SEED=<seed>` repeats that run. [`count`] has one number
//!   for the day and one for the night (`TAUT_THOROUGH=1`); [`cases`] is that of a property.
//! - [`packets`]: IP, TCP and UDP packets, built and checked by code that shares nothing with the code under test.
//!
//! The tests of `core` may use this crate although it reads the environment: the generator and the seed are still arguments of the code under test.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test may stop at the first surprise")]

pub mod packets;
mod seed;
mod seeded;

pub use seed::{Seeds, cases, count, first, seeds, thorough};
pub use seeded::{Probability, Seeded};
