//! Work on many tasks at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs `work` on every task, at most `lanes` at a time and in their order; the results are in the
/// order of the tasks.
pub fn run_in_parallel<T: Sync, R: Send>(
    tasks: &[T],
    lanes: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let keep = |index: usize, result: R| {
        done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
    };
    let work_on_next = || {
        let index = next.fetch_add(1, Ordering::Relaxed);
        tasks.get(index).map(|task| keep(index, work(task)))
    };
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| while work_on_next().is_some() {});
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::run_in_parallel;

    #[test]
    fn every_task_is_done_once_and_its_result_is_in_its_place() {
        assert_eq!(run_in_parallel(&[3, 5, 1, 0], 3, |number| number * 2), [6, 10, 2, 0]);
        assert!(run_in_parallel(&[0; 0], 2, |number| *number).is_empty());
    }
}
