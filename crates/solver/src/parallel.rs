//! Tasks on threads.

use std::sync::Mutex;
use std::thread;

/// Runs all tasks on some threads; results come in the order of the tasks.
pub(crate) fn run_all<'a, T: Send>(threads: usize, tasks: Vec<Box<dyn FnOnce() -> T + Send + 'a>>) -> Vec<T> {
    if threads <= 1 {
        return tasks.into_iter().map(|task| task()).collect();
    }
    let results: Vec<Mutex<Option<T>>> = tasks.iter().map(|_| Mutex::new(None)).collect();
    let waiting = Mutex::new(tasks.into_iter().zip(&results));
    let work = || {
        loop {
            let next = waiting.lock().ok().and_then(|mut waiting| waiting.next());
            let Some((task, result)) = next else { return };
            let value = task();
            if let Ok(mut result) = result.lock() {
                *result = Some(value);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(results.len()) {
            scope.spawn(work);
        }
        work();
    });
    drop(waiting);
    results.into_iter().filter_map(|result| result.into_inner().ok().flatten()).collect()
}
