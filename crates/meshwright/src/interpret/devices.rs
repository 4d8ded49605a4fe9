//! Programs of several processes: each runs on a thread of its own, and they meet in collectives.
//!
//! Every process is a function of its arguments and of what it is given in collectives, and which
//! processes meet at an op follows from the program alone. So whatever the order in which threads run,
//! a process ends, fails or waits forever at the same op: results and errors are the same every time.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use crate::program::{OpId, Program};

use super::control::{Lifetimes, lifetimes};
use super::tensor::Tensor;
use super::{EvaluateError, Evaluation, Options, check_arguments, check_sizes, evaluate, run};

/// Evaluates a verified program as all of the processes that it is written for, `replicas` times
/// `partitions`. There is a list of arguments for each process, and an evaluation; the number of a
/// process is that of its replica times `partitions` plus that of its partition.
///
/// Where processes fail, the error is that of the first of them by number. Where none fails but some
/// wait in a collective for others that will never come, the error says who waits where.
pub fn evaluate_devices(
    program: &Program,
    arguments: &[Vec<Tensor>],
    options: Options,
) -> Result<Vec<Evaluation>, EvaluateError> {
    let expected = processes(program);
    if arguments.len() != expected {
        let given = arguments.len();
        let message = format!("the program has {expected} processes but arguments for {given} were given");
        return Err(EvaluateError { location: Program::UNKNOWN_LOCATION, message });
    }
    if let [arguments] = arguments {
        return Ok(vec![evaluate(program, arguments, options)?]);
    }
    check_sizes(program)?;
    for (id, arguments) in arguments.iter().enumerate() {
        check_arguments(program, arguments).map_err(|error| in_process(id, &error))?;
    }
    let meeting = Meeting::new(arguments.len());
    let outcomes = run_all(program, arguments, options, &meeting);
    let state = meeting.lock();
    let mut evaluations = Vec::with_capacity(outcomes.len());
    for (id, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(evaluation) => evaluations.push(evaluation),
            // Whoever still waits was only stopped, and the reason is another process.
            Err(_) if matches!(state.activities[id], Activity::Waiting) => {}
            Err(error) => return Err(in_process(id, &error)),
        }
    }
    if state.stalled { Err(describe_stall(program, &state)) } else { Ok(evaluations) }
}

/// How many processes the program is written for.
pub(super) fn processes(program: &Program) -> usize {
    program.replicas.saturating_mul(program.partitions)
}

/// Which process a machine is, and where it meets the others.
#[derive(Clone, Copy)]
pub(super) struct Process<'p> {
    pub(super) id: usize,
    /// `None` where the process is evaluated alone.
    pub(super) meeting: Option<&'p Meeting>,
}

impl Process<'_> {
    pub(super) fn alone() -> Process<'static> {
        Process { id: 0, meeting: None }
    }

    pub(super) fn replica(self, program: &Program) -> usize {
        self.id / program.partitions.max(1)
    }

    pub(super) fn partition(self, program: &Program) -> usize {
        self.id % program.partitions.max(1)
    }
}

/// What the members of a group brought to a collective.
#[derive(Default)]
pub(super) struct Gathered {
    /// The operands of each member, in the order of the group.
    pub(super) parts: Vec<Vec<Arc<Tensor>>>,
    /// What is the same for all members, made by whoever needs it first.
    pub(super) shared: OnceLock<Result<Vec<Arc<Tensor>>, String>>,
}

/// Where processes wait for each other.
pub(super) struct Meeting {
    state: Mutex<State>,
    /// One for each process: it has been given something, or nobody can go on.
    changed: Vec<Condvar>,
}

struct State {
    activities: Vec<Activity>,
    /// Collectives that some but not all of a group have reached, by op and by the first member. A group
    /// is through with an op before any member can reach it again, in a loop for example.
    exchanges: BTreeMap<(OpId, usize), Exchange>,
    /// Somebody waits, and nobody is left to come.
    stalled: bool,
}

/// What a process does.
enum Activity {
    Running,
    Waiting,
    /// It waited, and goes on with this as soon as its thread wakes up.
    Delivered(Arc<Gathered>),
    Ended,
}

struct Exchange {
    group: Vec<usize>,
    /// The operands of each member that has come.
    parts: Vec<Option<Vec<Arc<Tensor>>>>,
}

impl Meeting {
    fn new(processes: usize) -> Meeting {
        let activities = (0..processes).map(|_| Activity::Running).collect();
        Meeting {
            state: Mutex::new(State { activities, exchanges: BTreeMap::new(), stalled: false }),
            changed: (0..processes).map(|_| Condvar::new()).collect(),
        }
    }

    /// Waits for all members of a group, of which the process is one. `None` if some never come.
    pub(super) fn meet(
        &self,
        process: usize,
        op: OpId,
        group: &[usize],
        operands: Vec<Arc<Tensor>>,
    ) -> Option<Arc<Gathered>> {
        let position = group.iter().position(|&member| member == process)?;
        let key = (op, *group.first()?);
        let mut state = self.lock();
        let exchange = state.exchanges.entry(key).or_insert_with(|| Exchange::new(group));
        exchange.parts[position] = Some(operands);
        if exchange.parts.iter().all(Option::is_some) {
            let parts = state.exchanges.remove(&key)?.parts.into_iter().flatten().collect();
            let gathered = Arc::new(Gathered { parts, shared: OnceLock::new() });
            for &member in group.iter().filter(|&&member| member != process) {
                state.activities[member] = Activity::Delivered(Arc::clone(&gathered));
                self.changed[member].notify_one();
            }
            return Some(gathered);
        }
        state.activities[process] = Activity::Waiting;
        self.notice_stall(&mut state);
        loop {
            if let Activity::Delivered(gathered) = &state.activities[process] {
                let gathered = Arc::clone(gathered);
                state.activities[process] = Activity::Running;
                return Some(gathered);
            }
            if state.stalled {
                return None;
            }
            state = self.changed[process].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self, process: usize) {
        let mut state = self.lock();
        // Whoever was stopped while waiting stays so, for the error.
        if !matches!(state.activities[process], Activity::Waiting) {
            state.activities[process] = Activity::Ended;
            self.notice_stall(&mut state);
        }
    }

    /// Only a process that runs can give another something to go on with.
    fn notice_stall(&self, state: &mut State) {
        let mut activities = state.activities.iter();
        let stuck = activities.all(|activity| matches!(activity, Activity::Waiting | Activity::Ended));
        if stuck && state.activities.iter().any(|activity| matches!(activity, Activity::Waiting)) {
            state.stalled = true;
            self.changed.iter().for_each(Condvar::notify_one);
        }
    }

    /// A thread that panicked leaves the state as it should be: nothing in here panics halfway.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exchange {
    fn new(group: &[usize]) -> Exchange {
        Exchange { group: group.to_vec(), parts: vec![None; group.len()] }
    }
}

/// Tells the others when a process ends, in a panic too: they would wait for it forever.
struct Attendance<'p> {
    meeting: &'p Meeting,
    process: usize,
}

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        self.meeting.end(self.process);
    }
}

type Outcome = Result<Evaluation, EvaluateError>;

/// As much as the main thread most often has: regions may stand deep inside each other.
const STACK_BYTES: usize = 8 << 20;

fn run_all(program: &Program, arguments: &[Vec<Tensor>], options: Options, meeting: &Meeting) -> Vec<Outcome> {
    let lifetimes: &Lifetimes = &lifetimes(program);
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(arguments.len());
        for (id, arguments) in arguments.iter().enumerate() {
            // Dropped where the thread does not start, so that the others do not wait for it.
            let attendance = Attendance { meeting, process: id };
            threads.push(thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, move || {
                let _attendance = attendance;
                run(program, lifetimes, arguments, options, Process { id, meeting: Some(meeting) })
            }));
        }
        threads.into_iter().map(|thread| thread.map_or_else(|error| not_started(&error), finish)).collect()
    })
}

fn finish(thread: ScopedJoinHandle<'_, Outcome>) -> Outcome {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn not_started(error: &dyn std::fmt::Display) -> Outcome {
    Err(EvaluateError { location: Program::UNKNOWN_LOCATION, message: format!("no thread could be started: {error}") })
}

fn in_process(process: usize, error: &EvaluateError) -> EvaluateError {
    EvaluateError { location: error.location, message: format!("process {process}: {}", error.message) }
}

fn describe_stall(program: &Program, state: &State) -> EvaluateError {
    let mut location = Program::UNKNOWN_LOCATION;
    let mut message = "no process can go on".to_owned();
    for (index, (&(op, _), exchange)) in state.exchanges.iter().enumerate() {
        let operation = &program.ops[op];
        let members = |came: bool| {
            let members = exchange.group.iter().zip(&exchange.parts).filter(move |(_, part)| part.is_some() == came);
            members.map(|(&member, _)| member)
        };
        if index == 0 {
            location = operation.location;
        }
        let separator = if index == 0 { ':' } else { ';' };
        // Value ids can be looked up in any printed program.
        let value = operation.results.first().map(|value| format!(" ({value})")).unwrap_or_default();
        let (waiting, missing) = (list(members(true)), list(members(false)));
        let _ = write!(message, "{separator} {waiting} at `{}`{value} for {missing}", operation.op.name());
    }
    let ended = state.activities.iter().enumerate().filter(|(_, activity)| matches!(activity, Activity::Ended));
    let ended: Vec<usize> = ended.map(|(process, _)| process).collect();
    if !ended.is_empty() {
        let _ = write!(message, "; {} ended", list(ended.into_iter()));
    }
    EvaluateError { location, message }
}

/// Such as `process 3` or `processes 0, 1`.
fn list(processes: impl Iterator<Item = usize>) -> String {
    let mut processes: Vec<usize> = processes.collect();
    processes.sort_unstable();
    let noun = if processes.len() == 1 { "process" } else { "processes" };
    let numbers: Vec<String> = processes.iter().map(ToString::to_string).collect();
    format!("{noun} {}", numbers.join(", "))
}
