//! Which CPUs the workers run on.

use trunkline_config::WorkerCpus;

/// Binds the thread that calls it to its worker's CPU, if it has one. What can't be done is said,
/// and the kernel goes on choosing.
#[cfg(target_os = "linux")]
pub fn bind_worker(wanted: &WorkerCpus, worker: usize, allowed: &[usize]) {
    use rustix::thread::{CpuSet, sched_setaffinity};

    let Some(cpu) = wanted.of_worker(worker, allowed) else { return };
    let mut set = CpuSet::new();
    set.set(cpu);
    match sched_setaffinity(None, &set) {
        Ok(()) => tracing::info!("worker {worker} runs on CPU {cpu}"),
        Err(error) => tracing::warn!("worker {worker} can't be bound to CPU {cpu}: {error}"),
    }
}

/// The CPUs that the process may use, in order.
#[cfg(target_os = "linux")]
pub fn allowed() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};

    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        Err(error) => {
            tracing::warn!("which CPUs may be used is not known: {error}");
            Vec::new()
        }
    }
}

/// Threads are bound to CPUs on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn bind_worker(wanted: &WorkerCpus, worker: usize, _: &[usize]) {
    if *wanted != WorkerCpus::Off && worker == 0 {
        tracing::warn!("worker_cpus has no effect on this system");
    }
}

/// Not asked on this system.
#[cfg(not(target_os = "linux"))]
pub fn allowed() -> Vec<usize> {
    Vec::new()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_bound_to_its_cpu() {
        let before = allowed();
        let last = *before.last().expect("a CPU");
        let bound = std::thread::spawn(move || {
            bind_worker(&WorkerCpus::List(vec![last]), 3, &[]);
            allowed()
        });
        assert_eq!(bound.join().expect("thread"), [last]);
        assert_eq!(allowed(), before, "no other thread");
        bind_worker(&WorkerCpus::List(vec![1_023]), 0, &[]);
        assert_eq!(allowed(), before, "a CPU that is not there changes nothing");
    }
}
