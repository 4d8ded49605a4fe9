//! Lists of kernels on one device.

use meshwright::cluster::{Cluster, Collective, parse};
use meshwright::program::OpId;
use meshwright::simulate::{Engine, Kernel, Run, Runner, Task, kernel_seconds, run};

use crate::{assert_close, free_host};

fn chain(bytes: f64, after: &[u32]) -> Kernel {
    Kernel { op: OpId(0), task: Task::Chain, after: after.iter().copied().collect(), bytes, is_late: false }
}

fn collective(collective: Collective, bytes: usize, after: &[u32]) -> Kernel {
    let task = Task::Collective { collective, pieces: [(8, 1)].into_iter().collect(), bytes };
    Kernel { op: OpId(0), task, after: after.iter().copied().collect(), bytes: 0.0, is_late: false }
}

struct Bench {
    cluster: Cluster,
    engine: Engine,
}

impl Bench {
    fn new(change: impl Fn(&mut Engine)) -> Bench {
        let mut engine = free_host();
        change(&mut engine);
        Bench { cluster: parse("8xh100").expect("a cluster"), engine }
    }

    fn runner(&self) -> Runner<'_> {
        Runner { cluster: &self.cluster, device: self.cluster.device(0), engine: &self.engine }
    }

    fn run(&self, kernels: &[Kernel]) -> Run {
        run(self.runner(), kernels, 0.0)
    }

    /// What a kernel takes alone.
    fn alone(&self, kernel: &Kernel) -> f64 {
        match &kernel.task {
            Task::Collective { collective, pieces, bytes } => {
                self.runner().collective_seconds(*collective, pieces, *bytes)
            }
            _ => kernel_seconds(self.runner().device, &self.engine, kernel),
        }
    }
}

/// A kernel, a collective of its result, a kernel that does not need that and one that does.
fn around_a_collective(beside_bytes: f64) -> [Kernel; 4] {
    let reduced = collective(Collective::AllReduce, 64 << 20, &[0]);
    [chain(1e9, &[]), reduced, chain(beside_bytes, &[0]), chain(1e9, &[1, 2])]
}

#[test]
fn a_kernel_beside_a_collective_hides_it() {
    let bench = Bench::new(|engine| engine.overlap = true);
    for beside_bytes in [1e8, 4e9] {
        let list = around_a_collective(beside_bytes);
        let [first, reduced, beside, last] = [0, 1, 2, 3].map(|index: usize| bench.alone(&list[index]));
        let run = bench.run(&list);
        assert_close(run.seconds, first + reduced.max(beside) + last);
        assert_close(run.exposed_seconds, (reduced - beside).max(0.0));
        assert_close(run.compute_seconds, first + beside + last);
        assert_close(run.communication_seconds, reduced);
    }
    // One of the two hides it, the other does not.
    let list = around_a_collective(1e8);
    assert!(bench.alone(&list[1]) > bench.alone(&list[2]));
    assert!(bench.alone(&list[1]) < bench.alone(&around_a_collective(4e9)[2]));
}

#[test]
fn without_overlap_every_kernel_waits() {
    let bench = Bench::new(|engine| engine.overlap = false);
    let list = around_a_collective(4e9);
    let run = bench.run(&list);
    assert_close(run.seconds, list.iter().map(|kernel| bench.alone(kernel)).sum());
    assert_close(run.exposed_seconds, bench.alone(&list[1]));
}

#[test]
fn a_collective_that_nobody_reads_is_waited_for_at_the_end() {
    let bench = Bench::new(|engine| engine.overlap = true);
    let list = [chain(1e9, &[]), collective(Collective::AllReduce, 64 << 20, &[0])];
    let run = bench.run(&list);
    assert_close(run.exposed_seconds, bench.alone(&list[1]));
    assert_close(run.seconds, run.compute_seconds + run.exposed_seconds);
}

#[test]
fn so_many_weights_are_gathered_ahead() {
    let gather = || collective(Collective::AllGather, 64 << 20, &[]);
    let list = [gather(), chain(4e9, &[0]), gather(), chain(4e9, &[2]), gather(), chain(4e9, &[4])];
    let seconds = |prefetch: usize| {
        let bench = Bench::new(|engine| engine.prefetch = prefetch);
        let [gather, kernel] = [bench.alone(&list[0]), bench.alone(&list[1])];
        assert!(gather < kernel);
        (bench.run(&list).seconds, gather, kernel)
    };
    // One at a time: each is gathered once the one before was used.
    let (found, gather, kernel) = seconds(1);
    assert_close(found, 3.0 * (gather + kernel));
    // Two at a time: all but the first are gathered beside kernels.
    let (found, gather, kernel) = seconds(2);
    assert_close(found, gather + 3.0 * kernel);
}

#[test]
fn long_loops_take_as_long_as_all_their_trips() {
    let bench = Bench::new(|engine| engine.overlap = true);
    let body = || around_a_collective(1e8).to_vec();
    let repeated = |trips| {
        let task = Task::Loop { body: body(), trips };
        bench.run(&[Kernel { op: OpId(7), task, after: [].into_iter().collect(), bytes: 0.0, is_late: false }])
    };
    let (one, many) = (repeated(1), repeated(100));
    assert_close(many.seconds, 100.0 * one.seconds);
    assert_close(many.exposed_seconds, 100.0 * one.exposed_seconds);
    // What was not run trip by trip is one span of the loop.
    let last = many.spans.last().expect("there are spans");
    assert_eq!((last.op, one.spans.len()), (OpId(7), 4));
    assert_close(last.end, many.seconds);
}
