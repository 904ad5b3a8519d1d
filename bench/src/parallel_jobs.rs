//! Runs tasks on emulated paths in parallel, as many as two cores can carry without disturbance.

use std::sync::{Condvar, Mutex};
use std::thread;

/// The maximum total rate of concurrent tasks in Mbit/s: a third of what one path can carry.
const MAX_MBPS: u64 = 600;

/// The free rate, and the waiting tasks.
struct JobQueue<T> {
    waiting: Vec<(usize, u64, T)>,
    free_mbps: u64,
}

/// Runs `work` on every task, at most `jobs` at a time, the fastest first as long as they fit; the
/// results are in the order of `tasks`, which have their rates in Mbit/s.
pub fn run_in_parallel<T: Send, R: Send>(
    tasks: Vec<(u64, T)>,
    jobs: usize,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let mut waiting: Vec<(usize, u64, T)> = tasks
        .into_iter()
        .enumerate()
        .map(|(index, (mbps, task))| (index, mbps.min(MAX_MBPS), task))
        .collect();
    waiting.sort_by_key(|(_, mbps, _)| std::cmp::Reverse(*mbps));
    let yard = Mutex::new(JobQueue { waiting, free_mbps: MAX_MBPS });
    let (freed, done) = (Condvar::new(), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some((index, mbps, task)) = take_task(&yard, &freed) {
                    let result = work(task);
                    lock_mutex(&done).push((index, result));
                    lock_mutex(&yard).free_mbps += mbps;
                    freed.notify_all();
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Waits for the next task that fits; returns `None` if none is left.
fn take_task<T>(yard: &Mutex<JobQueue<T>>, freed: &Condvar) -> Option<(usize, u64, T)> {
    let mut yard = lock_mutex(yard);
    loop {
        if yard.waiting.is_empty() {
            return None;
        }
        let free = yard.free_mbps;
        if let Some(at) = yard.waiting.iter().position(|(_, mbps, _)| *mbps <= free) {
            let taken = yard.waiting.remove(at);
            yard.free_mbps -= taken.1;
            return Some(taken);
        }
        yard = freed.wait(yard).unwrap_or_else(std::sync::PoisonError::into_inner);
    }
}

/// A panicked worker ends the bench when its scope ends; until then the others continue.
fn lock_mutex<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn every_task_is_done_once_in_its_place_and_never_too_much_at_a_time() {
        let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let tasks: Vec<(u64, u64)> =
            [300, 500, 100, 50, 900, 10, 200].map(|mbps| (mbps, mbps)).into();
        let results = run_in_parallel(tasks, 3, |mbps| {
            let held = mbps.min(MAX_MBPS);
            let sum = now.fetch_add(held, Ordering::SeqCst) + held;
            most.fetch_max(sum, Ordering::SeqCst);
            thread::yield_now();
            now.fetch_sub(held, Ordering::SeqCst);
            mbps
        });
        assert_eq!(results, [300, 500, 100, 50, 900, 10, 200]);
        assert!(most.into_inner() <= MAX_MBPS);
    }
}
