//! Workers that no other program keeps waiting, so that how long a batch takes is their own doing.
//!
//! On two cores an attacker, a server and two watched clients run beside the worker. Without this
//! its longest batch was mostly time in the kernel's run queue: of 10.6 ms, 46 µs were its own.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::Trunkline;

/// Gives the proxy's workers a real-time priority, by `chrt`.
pub fn make(proxy: &Trunkline) -> Result<()> {
    let tasks = format!("/proc/{}/task", proxy.pid());
    for task in std::fs::read_dir(&tasks).with_context(|| tasks.clone())? {
        let task = task?;
        if is_worker(&task.path()) {
            raise(&task.file_name().to_string_lossy())?;
        }
    }
    Ok(())
}

fn is_worker(task: &Path) -> bool {
    std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("worker-"))
}

fn raise(thread: &str) -> Result<()> {
    let chrt = Command::new("chrt").args(["--fifo", "--pid", "1", thread]).output();
    let output = chrt.context("chrt, which util-linux has, can't be run")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "a worker can't be given a real-time priority, which root may do: {}",
        said.trim()
    );
    Ok(())
}
