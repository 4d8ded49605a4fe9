//! Work on two threads whose outcome does not depend on them.

use std::sync::Mutex;

/// Does something with each of a list on two threads; gives what comes of it in the order of the list.
pub(super) fn in_parallel<T: Send, R: Send>(list: Vec<T>, act: impl Fn(T) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(list.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let Some((index, item)) = next.lock().ok().and_then(|mut next| next.next()) else { break };
                    let result = act(item);
                    if let Ok(mut done) = done.lock() {
                        done.push((index, result));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

const THREADS: usize = 2;
