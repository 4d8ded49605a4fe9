//! Long work that can be interrupted.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::error::Error;

/// How often is looked whether the user wants to stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// Works beside Python, which sees Ctrl-C meanwhile. What is interrupted comes to its end unheard: the compiler has
/// nothing to leave half done.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = channel();
    thread::spawn(move || {
        // Nobody listens any more once the work was interrupted.
        let _ = sender.send(work());
    });
    loop {
        // A receiver is for one thread at a time, which only a borrow of its own can promise.
        let own = &mut receiver;
        match py.detach(move || own.recv_timeout(PATIENCE)) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                let message =
                    "the compiler stopped where it should not\n\nhint: this is a bug of Meshwright; report it";
                return Err(Error::new_err(message));
            }
        }
    }
}
