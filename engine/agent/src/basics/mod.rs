//! What several rooms use: the clocks, the operating system's randomness, and shares of the agent thread's processor time.

mod clocks;
mod cpu_share;
mod entropy;

pub(crate) use clocks::clocks;
pub(crate) use cpu_share::{CpuShare, PART_PAUSE};
pub(crate) use entropy::OsEntropy;
