//! The summary as people read it.

use meshwright::pipeline::Pipeline;
use meshwright::profile::Class;
use meshwright::shard::Mesh;

use super::Summary;
use crate::table::{Table, bar, count, counted, duration, paragraph, share, size};

/// Columns from which there is room for pictures in tables.
const PICTURES: usize = 60;

/// Collectives that are told.
const COLLECTIVES: usize = 5;

impl Summary<'_> {
    pub fn to_text(&self, width: usize) -> String {
        self.to_text_under(&self.verdict(), width)
    }

    /// The same under another first line.
    pub(crate) fn to_text_under(&self, verdict: &str, width: usize) -> String {
        let first = paragraph(verdict, "", "  ", width) + "\n" + &paragraph(&self.setting(), "", "  ", width);
        first
            + &self.speed()
            + &[self.time(width), self.memory(width), self.stages(width)].concat()
            + &self.dearest(width)
            + &self.notes(width)
    }

    /// The answer in a line.
    pub fn verdict(&self) -> String {
        let (peak, limit) = (self.simulation.memory().peak_bytes, self.simulation.memory_limit());
        if self.simulation.fits() {
            return format!("Fits: {} of {} on the fullest device", size(peak), size(limit));
        }
        let missing = size(peak - limit);
        format!("Does not fit: {} at the peak, a device has {}, {missing} too few", size(peak), size(limit))
    }

    pub(crate) fn setting(&self) -> String {
        let pipeline = &self.step.prepared.pipeline;
        let laid_out = match pipeline.stages.len() {
            1 => format!("{} ({})", counted(pipeline.devices(), "device"), pipeline.mesh),
            _ => {
                let plural = if pipeline.microbatches == 1 { "" } else { "es" };
                let (stages, schedule) = (stages_on_devices(pipeline), pipeline.schedule.name());
                format!("{stages}, {schedule}, {} microbatch{plural}", count(pipeline.microbatches))
            }
        };
        let (cluster, engine) = (&self.simulation.cluster.name, self.simulation.engine.name);
        format!("{} on {cluster} by {engine}: {laid_out}", self.name)
    }

    fn speed(&self) -> String {
        let simulation = self.simulation;
        let throughput = simulation.throughput().map(|(number, unit)| format!("   {} {unit}/s", rate(number)));
        format!(
            "{} a step{}   MFU {}   HFU {}\n{}\n",
            duration(simulation.timeline.step_seconds),
            throughput.unwrap_or_default(),
            share(simulation.mfu, 1.0),
            share(simulation.hfu, 1.0),
            self.log_line().map(|line| line + "\n").unwrap_or_default(),
        )
    }

    /// What torchtitan would log of such a step: memory of the fullest device, and tokens and operations a second of each
    /// device. None where there are no tokens.
    pub fn log_line(&self) -> Option<String> {
        let simulation = self.simulation;
        let (tokens, _) = simulation.throughput().filter(|(_, unit)| *unit == "tokens")?;
        let pipeline = &self.step.prepared.pipeline;
        let devices = pipeline.devices() as f64;
        let (peak, limit) = (simulation.memory().peak_bytes as f64, simulation.memory_limit() as f64);
        let teraflops = self.step.flops.flops / simulation.timeline.step_seconds / devices / 1e12;
        Some(format!(
            "memory: {:.2}GiB({:.2}%)  tps: {}  tflops: {teraflops:.2}  mfu: {:.2}%",
            peak / (1u64 << 30) as f64,
            100.0 * peak / limit,
            count((tokens / devices).round() as usize),
            100.0 * simulation.mfu,
        ))
    }

    fn time(&self, width: usize) -> String {
        let (times, step_seconds) = (self.simulation.time(), self.simulation.timeline.step_seconds);
        let heading = if self.simulation.stages().len() > 1 { "time, mean of stages" } else { "time" };
        let mut table = Table::new(&[heading, "takes", "share", ""]);
        for (name, seconds) in times {
            let picture = picture(seconds, step_seconds, width);
            table.row([name.to_owned(), duration(seconds), share(seconds, step_seconds), picture]);
        }
        table.render(width) + "\n"
    }

    fn memory(&self, width: usize) -> String {
        let simulation = self.simulation;
        let (memory, limit) = (simulation.memory(), simulation.memory_limit());
        let heading = match simulation.stages().len() {
            1 => "at the peak".to_owned(),
            _ => format!("at the peak of stage {}", simulation.fullest()),
        };
        let of = format!("of {}", size(limit));
        let mut table = Table::new(&[&heading, "size", &of, ""]);
        let mut row = |name: &str, bytes: usize| {
            let (part, whole) = (bytes as f64, limit as f64);
            table.row([name.to_owned(), size(bytes), share(part, whole), picture(part, whole, width)]);
        };
        for (class, bytes) in Class::ALL.into_iter().zip(memory.by_class).filter(|(_, bytes)| *bytes > 0) {
            row(class.name(), bytes);
        }
        row("all", memory.peak_bytes);
        table.render(width) + "\n"
    }

    fn stages(&self, width: usize) -> String {
        let stages = self.simulation.stages();
        if stages.len() < 2 {
            return String::new();
        }
        let heading = ["stage", "compute", "exposed", "host", "bubble", "peak", "modules"];
        let mut table = Table::new(&heading).ending_in_prose();
        for (number, stage) in stages.iter().enumerate() {
            let seconds = [stage.compute_seconds, stage.exposed_seconds, stage.host_seconds, stage.bubble_seconds];
            let ends = [size(stage.memory.peak_bytes), self.step.modules_of(number).join("; ")];
            table.row([number.to_string()].into_iter().chain(seconds.map(duration)).chain(ends));
        }
        table.render(width) + "\n"
    }

    fn dearest(&self, width: usize) -> String {
        let kinds = self.collectives();
        if kinds.is_empty() {
            return String::new();
        }
        let step_seconds = self.simulation.timeline.step_seconds;
        let mut table = Table::new(&["dearest collectives", "devices", "runs", "bytes", "takes", "of the step"]);
        for kind in kinds.iter().take(COLLECTIVES) {
            let at = if kind.place.is_empty() { String::new() } else { format!(" at {}", kind.place) };
            table.row([
                format!("{}{at}", kind.name),
                count(kind.devices),
                count(kind.runs),
                size(kind.bytes),
                duration(kind.seconds),
                share(kind.seconds, step_seconds),
            ]);
        }
        let rest = kinds.get(COLLECTIVES..).unwrap_or_default();
        if !rest.is_empty() {
            let seconds = rest.iter().map(|kind| kind.seconds).sum();
            let name = format!("{} more", counted(rest.len(), "kind"));
            let runs = count(rest.iter().map(|kind| kind.runs).sum());
            let bytes = size(rest.iter().map(|kind| kind.bytes).sum());
            table.row([name, String::new(), runs, bytes, duration(seconds), share(seconds, step_seconds)]);
        }
        let words = "Collectives take that long whether anybody waits for them or not; of several that are combined \
                     the place is that of the last.";
        table.render(width) + "\n" + &paragraph(words, "", "", width)
    }

    fn notes(&self, width: usize) -> String {
        let notes: String = self.notes.iter().map(|note| paragraph(note, "  ", "    ", width)).collect();
        if notes.is_empty() { notes } else { format!("\nnotes\n{notes}") }
    }
}

/// A bar for a part of a whole, where there is room. It is as long as the whole at most.
fn picture(part: f64, whole: f64, width: usize) -> String {
    const PARTS: usize = 10_000;
    let parts = (part / whole.max(f64::MIN_POSITIVE) * PARTS as f64).clamp(0.0, PARTS as f64);
    if width < PICTURES { String::new() } else { bar(parts as usize, PARTS) }
}

/// A number a second: whole where it is large.
pub fn rate(number: f64) -> String {
    if number >= 99.95 { count(number.round() as usize) } else { format!("{number:.1}") }
}

/// Such as `4 stages of 2 devices each (data=2)`, or `3 stages of 8, 4, 4 devices (node=2,device=4; device=4; device=4)`.
pub fn stages_on_devices(pipeline: &Pipeline) -> String {
    let stages = counted(pipeline.meshes.len(), "stage");
    let all = |text: &dyn Fn(&Mesh) -> String| -> Vec<String> { pipeline.meshes.iter().map(text).collect() };
    if pipeline.meshes.iter().all(|mesh| mesh == &pipeline.mesh) {
        return format!("{stages} of {} each ({})", counted(pipeline.mesh.devices(), "device"), pipeline.mesh);
    }
    let counts = all(&|mesh| count(mesh.devices())).join(", ");
    let devices = |mesh: &Mesh| {
        let axes = mesh.axes.iter().filter(|axis| !axis.temporal && axis.size > 1);
        let axes: Vec<String> = axes.map(|axis| format!("{}={}", axis.name, axis.size)).collect();
        if axes.is_empty() { "one device".to_owned() } else { axes.join(",") }
    };
    format!("{stages} of {counts} devices ({})", all(&devices).join("; "))
}
