//! What the kernel says of the process.

use serde::{Deserialize, Serialize};

/// What the kernel says of the process; 0 where it says nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelFigures {
    /// Memory that is in RAM, bytes.
    pub resident: u64,
    /// The most of it that there has been, bytes.
    pub resident_max: u64,
    /// Address space, bytes.
    pub mapped: u64,
    /// Memory of its own in RAM, without files, bytes.
    pub anonymous: u64,
    /// Descriptors that are open.
    pub descriptors: u64,
    /// CPU time in its own code, in ticks of the kernel's clock (hundredths of a second).
    pub user_ticks: u64,
    /// CPU time in the kernel, in such ticks.
    pub system_ticks: u64,
}
