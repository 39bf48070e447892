//! A node asks https servers with certificates of every kind, and of other years.

#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]

mod certificates;
mod clock;
mod schemes;
mod server;
mod slow;
