//! A list of kernels on the streams of a device, one for kernels and one for collectives, beside the host that
//! starts both.

use smallvec::SmallVec;

use super::compute::{kernel_flops, kernel_seconds};
use super::engine::Engine;
use super::kernels::{Kernel, Task};
use crate::cluster::{Cluster, Collective, Device, Group, estimate};
use crate::program::{MemoryKind, OpId};

/// What runs kernels: a device of a cluster, and an engine.
#[derive(Clone, Copy, Debug)]
pub struct Runner<'r> {
    pub cluster: &'r Cluster,
    pub device: &'r Device,
    pub engine: &'r Engine,
}

/// What a list of kernels takes.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub seconds: f64,
    /// When kernels ran.
    pub compute_seconds: f64,
    /// What collectives and copies between device and host took.
    pub communication_seconds: f64,
    /// When kernels waited for collectives, and for copies from the host.
    pub exposed_seconds: f64,
    /// Of both, what belongs to the forward pass, as far as that is known.
    pub forward_compute_seconds: f64,
    pub forward_exposed_seconds: f64,
    /// When the device waited for the host.
    pub host_seconds: f64,
    /// Of products of matrices.
    pub flops: f64,
    /// What ran when, where that was asked for.
    pub spans: Vec<Span>,
}

/// A kernel or collective on its stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    pub op: OpId,
    pub is_collective: bool,
    pub start: f64,
    pub end: f64,
}

/// Loops longer than this are run so many trips; the others take as long as the last of these.
const TRIPS: usize = 4;

/// Runs kernels in their order, with what ran when. Collectives that wait for nothing in the list may begin up to
/// `early` seconds before it, one after the other as what they read is made by then.
pub fn run(runner: Runner<'_>, kernels: &[Kernel], early: f64) -> Run {
    run_list(Streams::new(runner, true), kernels, early)
}

/// The same without what ran when.
pub fn run_early(runner: Runner<'_>, kernels: &[Kernel], early: f64) -> Run {
    run_list(Streams::new(runner, false), kernels, early)
}

fn run_list(mut streams: Streams<'_>, kernels: &[Kernel], early: f64) -> Run {
    let is_free = |kernel: &&Kernel| kernel.after.is_empty() && matches!(kernel.task, Task::Collective { .. });
    streams.early = early;
    streams.early_count = kernels.iter().filter(is_free).count();
    if early > 0.0 {
        streams.communication = -early;
    }
    streams.list(kernels, 0.0);
    streams.finish()
}

struct Streams<'r> {
    runner: Runner<'r>,
    /// How long the host has been busy.
    host: f64,
    /// When each is free.
    compute: f64,
    communication: f64,
    /// When each direction of the way to the memory of the host is.
    fetching: f64,
    storing: f64,
    /// How long before the list its free collectives may begin, how many there are, and how many have.
    early: f64,
    early_count: usize,
    early_begun: usize,
    run: Run,
    keep_spans: bool,
}

impl<'r> Streams<'r> {
    fn new(runner: Runner<'r>, keep_spans: bool) -> Streams<'r> {
        Streams {
            runner,
            host: 0.0,
            compute: 0.0,
            communication: 0.0,
            fetching: 0.0,
            storing: 0.0,
            early: 0.0,
            early_count: 0,
            early_begun: 0,
            run: Run::default(),
            keep_spans,
        }
    }

    fn finish(mut self) -> Run {
        let device = self.compute.max(self.communication).max(self.fetching).max(self.storing).max(0.0);
        // What runs next waits for the last collective, and the last copy.
        self.run.exposed_seconds += device - self.compute;
        // Neither is ahead of the other all the time, so that the shorter is not hidden whole.
        self.run.seconds = device.hypot(self.host);
        self.run.host_seconds = self.run.seconds - device;
        self.run
    }

    /// Runs a list, none of it before `ready`. Gives when the last of it ends.
    fn list(&mut self, kernels: &[Kernel], ready: f64) -> f64 {
        let mut ends = vec![0.0f64; kernels.len()];
        // Gathered weights, each with when it was last used.
        let mut gathered: Vec<(usize, f64)> = Vec::new();
        // The same of what was copied from the host.
        let mut fetched: Vec<(usize, f64)> = Vec::new();
        for (index, kernel) in kernels.iter().enumerate() {
            let mut ready_at = kernel.after.iter().map(|&maker| ends[maker as usize]).fold(ready, f64::max);
            let before = (self.run.compute_seconds, self.run.exposed_seconds);
            self.host += self.runner.engine.dispatch_seconds;
            ends[index] = match &kernel.task {
                Task::Collective { collective, pieces, bytes } => {
                    self.host += self.runner.engine.collective_seconds;
                    let is_prefetched = *collective == Collective::AllGather && is_weight(kernels, kernel);
                    if is_prefetched {
                        // A cast before it is done as early as it is wanted.
                        let ahead = gathered.len().checked_sub(self.runner.engine.prefetch.max(1));
                        ready_at = ahead.map_or(ready, |ahead| gathered[ahead].1.max(ready));
                    }
                    let end = if self.early > 0.0 && kernel.after.is_empty() {
                        self.early_collective(kernel.op, *collective, pieces, *bytes)
                    } else {
                        let is_between = joins_product(kernels, kernel, *collective);
                        self.collective(kernel.op, *collective, pieces, *bytes, ready_at, is_between)
                    };
                    if is_prefetched {
                        gathered.push((index, end));
                    }
                    end
                }
                Task::HostCopy { to: MemoryKind::Device, bytes } => {
                    let ahead = fetched.len().checked_sub(self.runner.engine.prefetch.max(1));
                    let start = ahead.map_or(ready, |ahead| fetched[ahead].1.max(ready)).max(self.fetching);
                    self.fetching = start + self.host_copy(*bytes);
                    fetched.push((index, self.fetching));
                    self.fetching
                }
                Task::HostCopy { to: MemoryKind::Host, bytes } => {
                    self.storing = ready_at.max(self.storing) + self.host_copy(*bytes);
                    self.storing
                }
                Task::Loop { body, trips } => self.repeat(kernel.op, body, *trips, ready_at),
                Task::Branch(branches) => self.longest(branches, ready_at),
                Task::Chain | Task::Products(_) | Task::Attention(_) => self.kernel(kernel, ready_at),
            };
            if !kernel.is_late && !matches!(kernel.task, Task::Loop { .. } | Task::Branch(_)) {
                self.run.forward_compute_seconds += self.run.compute_seconds - before.0;
                self.run.forward_exposed_seconds += self.run.exposed_seconds - before.1;
            }
            for (weight, used) in gathered.iter_mut().rev().take(8).chain(fetched.iter_mut().rev().take(8)) {
                if kernel.after.contains(&(*weight as u32)) {
                    *used = used.max(ends[index]);
                }
            }
        }
        ends.iter().copied().fold(ready, f64::max)
    }

    /// What a copy between device and host takes.
    fn host_copy(&mut self, bytes: usize) -> f64 {
        let seconds = self.runner.host_copy_seconds(bytes);
        self.run.communication_seconds += seconds;
        seconds
    }

    /// Kernels run one after the other, so that what they wait for beyond that is collectives.
    fn kernel(&mut self, kernel: &Kernel, ready: f64) -> f64 {
        let seconds = kernel_seconds(self.runner.device, self.runner.engine, kernel);
        let start = self.compute.max(ready);
        self.run.exposed_seconds += start - self.compute;
        // A collective that goes on beside it takes part of the memory's rate and of the processors.
        let beside = (self.communication - start).clamp(0.0, seconds);
        let end = start + seconds + self.runner.engine.contention * beside;
        self.run.compute_seconds += end - start;
        self.run.flops += kernel_flops(kernel);
        self.keep(kernel.op, false, start, end);
        self.compute = end;
        end
    }

    /// What it sums is ready as its part of the time before the list has passed.
    fn early_collective(&mut self, op: OpId, collective: Collective, pieces: &[(usize, usize)], bytes: usize) -> f64 {
        self.early_begun += 1;
        let left = 1.0 - self.early_begun as f64 / self.early_count as f64;
        let seconds = self.runner.collective_seconds(collective, pieces, bytes);
        let start = self.communication.max(-self.early * left);
        let end = start + seconds;
        self.communication = end;
        self.run.communication_seconds += seconds;
        self.keep(op, true, start, end);
        end
    }

    fn collective(
        &mut self,
        op: OpId,
        collective: Collective,
        pieces: &[(usize, usize)],
        bytes: usize,
        ready: f64,
        is_between: bool,
    ) -> f64 {
        let shown = if is_between { 1.0 - self.runner.engine.hidden_share } else { 1.0 };
        let seconds = shown * self.runner.collective_seconds(collective, pieces, bytes);
        let mut start = ready.max(self.communication);
        if !self.runner.engine.overlap {
            start = start.max(self.compute);
        }
        let end = start + seconds;
        self.communication = end;
        self.run.communication_seconds += seconds;
        if !self.runner.engine.overlap {
            self.run.exposed_seconds += end - self.compute;
            self.compute = end;
        }
        self.keep(op, true, start, end);
        end
    }

    fn repeat(&mut self, op: OpId, body: &[Kernel], trips: usize, ready: f64) -> f64 {
        let mut end = ready;
        let run_trips = if trips > 2 * TRIPS { TRIPS } else { trips };
        let mut before = self.state();
        for _ in 0..run_trips {
            before = self.state();
            end = self.list(body, end);
            // What a trip gives on is needed by the next.
            self.run.exposed_seconds += (end - self.compute).max(0.0);
            self.compute = self.compute.max(end);
        }
        let run_until = self.compute;
        self.skip(before, (trips - run_trips) as f64);
        if run_trips < trips {
            // The trips that were not run are one span of the loop.
            self.keep(op, false, run_until, self.compute);
        }
        self.compute
    }

    /// The numbers that go on from trip to trip.
    fn state(&self) -> [f64; 9] {
        let run = &self.run;
        [
            self.host,
            self.compute,
            self.communication,
            run.compute_seconds,
            run.communication_seconds,
            run.exposed_seconds,
            run.flops,
            run.forward_compute_seconds,
            run.forward_exposed_seconds,
        ]
    }

    /// Adds what the last trip took so many times more.
    fn skip(&mut self, before: [f64; 9], times: f64) {
        let after = self.state();
        let next: SmallVec<[f64; 9]> =
            after.iter().zip(before).map(|(after, before)| after + times * (after - before)).collect();
        [self.host, self.compute, self.communication] = [next[0], next[1], next[2]];
        self.run.compute_seconds = next[3];
        self.run.communication_seconds = next[4];
        self.run.exposed_seconds = next[5];
        self.run.flops = next[6];
        self.run.forward_compute_seconds = next[7];
        self.run.forward_exposed_seconds = next[8];
    }

    /// Runs the branch that takes longest.
    fn longest(&mut self, branches: &[Vec<Kernel>], ready: f64) -> f64 {
        let alone = |branch: &&Vec<Kernel>| run_early(self.runner, branch, 0.0).seconds;
        let longest = branches.iter().max_by(|left, right| alone(left).total_cmp(&alone(right)));
        longest.map_or(ready, |branch| self.list(branch, ready))
    }

    fn keep(&mut self, op: OpId, is_collective: bool, start: f64, end: f64) {
        if self.keep_spans {
            self.run.spans.push(Span { op, is_collective, start, end });
        }
    }
}

/// Whether a kernel works on arguments alone, or on what was made of such, element by element.
fn is_weight(kernels: &[Kernel], kernel: &Kernel) -> bool {
    let is_cast = |&maker: &u32| {
        let maker = &kernels[maker as usize];
        matches!(maker.task, Task::Chain) && maker.after.is_empty()
    };
    kernel.after.iter().all(is_cast)
}

/// Whether a collective sums what a product made, or gathers activations, which products read.
fn joins_product(kernels: &[Kernel], kernel: &Kernel, collective: Collective) -> bool {
    let is_product = |&maker: &u32| matches!(kernels[maker as usize].task, Task::Products(_));
    let is_gathered = collective == Collective::AllGather && !is_weight(kernels, kernel);
    is_gathered || kernel.after.iter().any(is_product)
}

/// The share of the rate of the way to the host that copies reach, of memory that is pinned. An assumption.
const HOST_SHARE: f64 = 0.8;

impl Runner<'_> {
    /// Seconds of a copy between device and host. Where there is no way, no plan has any.
    pub fn host_copy_seconds(&self, bytes: usize) -> f64 {
        let rate = HOST_SHARE * self.device.host.bytes_per_second;
        if rate > 0.0 { bytes as f64 / rate } else { 0.0 }
    }

    /// Seconds of a collective of all groups at once.
    pub fn collective_seconds(&self, collective: Collective, pieces: &[(usize, usize)], bytes: usize) -> f64 {
        let group = Group::along(self.cluster, pieces);
        estimate(self.cluster, collective, &group, bytes).seconds / self.engine.collective_share
    }
}
