//! From a row to a model, a cluster, an engine and a plan.

use super::row::{Row, whole};
use crate::cluster::{Cluster, parse};
use crate::models::Model;
use crate::profile::MemoryModel;
use crate::simulate::{Engine, engine};

/// What a row says was run.
#[derive(Clone, Debug)]
pub struct Setup {
    pub model: Model,
    pub cluster: Cluster,
    pub engine: Engine,
    pub degrees: Degrees,
    pub sharding: Sharding,
    pub recompute: Recompute,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Degrees {
    pub data: usize,
    pub context: usize,
    pub model: usize,
    pub stages: usize,
    pub chunks: usize,
    pub microbatches: usize,
    pub micro_batch: usize,
}

/// How the state of training lies over the data axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sharding {
    Whole,
    Zero1,
    Zero2,
    Zero3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Recompute {
    None,
    /// Only attention, whose scores are large and cheap.
    Attention,
    /// Of four layers so many.
    Quarters(usize),
    Full,
    /// The row does not say: as few layers as memory allows.
    Unsaid,
}

/// Reads a row. The error says what cannot be expressed.
pub fn setup(row: &Row) -> Result<Setup, String> {
    if row.system.contains("auto_sharding") {
        return Err("the plan was searched for, and is not given".to_owned());
    }
    let degrees = degrees(row)?;
    let recompute = recompute(row)?;
    let model = model(row, &degrees, recompute)?;
    let mut engine = engine_of(row)?;
    if row.flags.contains("flash attention") && !engine.fused_attention {
        engine.fused_attention = true;
        engine.memory_model = MemoryModel::Eager;
    }
    if row.flags.to_lowercase().replace(' ', "").contains("asynctp") {
        engine.hidden_share = ASYNC_HIDDEN_SHARE;
    }
    let dtype = row.dtype.to_lowercase();
    if dtype.contains("fp4") {
        return Err("products of 4-bit numbers are not expressed".to_owned());
    }
    engine.f8 = dtype.contains("fp8");
    // Megatron sums gradients of its wider type only in f32.
    engine.wide_gradients = engine.name.starts_with("megatron") && dtype.contains("bf16");
    let cluster = cluster_of(row)?;
    Ok(Setup { model, cluster, engine, degrees, sharding: sharding(row, &engine_name(row), degrees.stages), recompute })
}

/// What asynchronous tensor parallelism hides, as far as reports of it with and without say.
const ASYNC_HIDDEN_SHARE: f64 = 0.4;

fn missing(column: &str) -> String {
    format!("`{column}` is not given")
}

fn degrees(row: &Row) -> Result<Degrees, String> {
    let devices = whole(&row.n_gpus).ok_or_else(|| missing("n_gpus"))?;
    let degree = |text: &str, column: &str| match text.trim() {
        "" => Ok(1),
        text => whole(text).ok_or_else(|| format!("`{text}` is no `{column}`")),
    };
    let (model, stages, context) = (degree(&row.tp, "tp")?, degree(&row.pp, "pp")?, degree(&row.cp, "cp")?);
    let is_interleaved = stages > 1 && row.flags.starts_with("Interleaved");
    let chunks = if is_interleaved && row.vpp_chunks.is_empty() { 2 } else { degree(&row.vpp_chunks, "vpp_chunks")? };
    if degree(&row.ep, "ep").unwrap_or(2) > 1 {
        return Err("experts are spread over devices; the row does not say how many there are".to_owned());
    }
    let share = model * stages * context;
    let data = whole(&row.dp).unwrap_or(devices / share.max(1));
    if data * share != devices {
        return Err(format!("{data} x {context} x {model} x {stages} are not the {devices} devices"));
    }
    let batch = row.batch().ok_or_else(|| missing("global_batch_seqs"))?;
    let local = row.local_batch();
    let micro_batch = match whole(&row.micro_batch) {
        Some(size) => size,
        // What a device works on in a step is cut into as many microbatches as there are stages.
        None if local.is_some() => (local.unwrap_or(stages) / stages).max(1),
        // Where nobody says, one sequence at a time in pipelines, and the whole share of a device elsewhere.
        None if row.micro_batch.trim().is_empty() || stages > 1 => 1,
        None => (batch / data).max(1),
    };
    // Some sources give what all devices work on at a time.
    let micro_batch = if micro_batch == batch && data > 1 { batch.div_ceil(data) } else { micro_batch };
    if batch % (data * micro_batch) != 0 {
        return Err(format!("a batch of {batch} is not made of {micro_batch} on each of {data}"));
    }
    let microbatches = batch / (data * micro_batch);
    Ok(Degrees { data, context, model, stages, chunks, microbatches, micro_batch })
}

fn recompute(row: &Row) -> Result<Recompute, String> {
    let text = row.recompute.to_lowercase();
    Ok(match text.trim() {
        text if text.starts_with("full") => Recompute::Full,
        text if text.starts_with("selective") || text.starts_with("config default") => Recompute::Attention,
        "" => Recompute::Unsaid,
        "none" => Recompute::None,
        other => return Err(format!("`{other}` is no way to recompute")),
    })
}

fn model(row: &Row, degrees: &Degrees, recompute: Recompute) -> Result<Model, String> {
    let name = row.model.to_lowercase();
    let layers = whole(&row.layers).ok_or_else(|| missing("layers"))?;
    let hidden = whole(&row.hidden).ok_or_else(|| missing("hidden"))?;
    let heads = whole(&row.heads).ok_or_else(|| missing("heads"))?;
    let seq = whole(&row.seq).ok_or_else(|| missing("seq"))?;
    if name.contains("moe") {
        return Err("mixtures of experts are not expressed".to_owned());
    }
    let is_llama = name.contains("llama");
    let preset = if is_llama { "llama3-8b" } else { "gpt-2.6b" };
    let mut model = Model::preset(preset).ok_or_else(|| format!("there is no preset {preset}"))?;
    let ffn = whole(&row.ffn).unwrap_or(4 * hidden);
    let vocab = whole(&row.vocab).unwrap_or(51200);
    // Megatron rounds the vocabulary up so that all parts are alike.
    let vocab = vocab.next_multiple_of(128 * degrees.model);
    let batch = degrees.data * degrees.micro_batch * degrees.microbatches;
    let mut sizes = vec![
        ("layers", layers),
        ("hidden", hidden),
        ("heads", heads),
        ("ffn", ffn),
        ("seq", seq),
        ("vocab", vocab),
        ("batch", batch),
    ];
    if is_llama {
        sizes.push(("kv_heads", whole(&row.kv_heads).unwrap_or(heads)));
    }
    for (key, size) in sizes {
        model.set(key, &size.to_string())?;
    }
    let dtype = row.dtype.to_lowercase();
    let dtype = if dtype.starts_with("fp32") {
        "f32"
    } else if dtype.starts_with("fp16") {
        "f16"
    } else {
        "bf16"
    };
    model.set("dtype", dtype)?;
    model.set("remat", if recompute == Recompute::Full { "true" } else { "false" })?;
    Ok(model)
}

fn sharding(row: &Row, engine: &str, stages: usize) -> Sharding {
    let text = row.sharding.to_lowercase();
    if row.system.contains("zero_2") {
        return Sharding::Zero2;
    }
    match text.as_str() {
        // In pipelines weights are not given up between microbatches.
        text if text.starts_with("fsdp") && stages > 1 => Sharding::Zero1,
        // Over so many devices; none means that it is off.
        text if text.starts_with("fsdp=") && whole(&text["fsdp=".len()..]).is_some() => Sharding::Zero3,
        text if text.starts_with("full_shard") || text.starts_with("fsdp") && !text.starts_with("fsdp=") => {
            Sharding::Zero3
        }
        text if text.starts_with("shard_grad_op") => Sharding::Zero2,
        text if text.starts_with("zero-1") || text.starts_with("distributed optimizer") => Sharding::Zero1,
        // Later versions of Megatron always cut the optimizer's state.
        _ if engine == "megatron-core" => Sharding::Zero1,
        _ => Sharding::Whole,
    }
}

/// Systems by how their names begin, with the engine that they are. In the order of the alphabet.
const SYSTEMS: &[(&str, &str)] = &[
    ("Alpa", "xla"),
    ("DeepSpeed+Megatron", "megatron"),
    ("Megatron-Core", "megatron-core"),
    ("Megatron-DeepSpeed", "megatron"),
    ("Megatron-LM", "megatron"),
    ("Meta Llama", "torchtitan"),
    ("MosaicML", "fsdp"),
    ("NeMo", "megatron-core"),
    ("torchtitan", "torchtitan"),
];

fn engine_name(row: &Row) -> String {
    let found = SYSTEMS.iter().find(|(prefix, _)| row.system.starts_with(prefix));
    found.map_or("pytorch", |(_, name)| name).to_owned()
}

fn engine_of(row: &Row) -> Result<Engine, String> {
    let name = engine_name(row);
    engine(&name).cloned().ok_or_else(|| format!("there is no engine `{name}`"))
}

/// Devices as sources write them, with the device of the catalog, the first that fits.
const DEVICES: &[(&str, &str)] = &[
    ("a100-40", "a100-40g"),
    ("a100_40", "a100-40g"),
    ("a100", "a100-80g"),
    ("gb200", "gb200"),
    ("b200", "b200"),
    ("h100-96", "h100-96g"),
    ("h100", "h100"),
    ("h200", "h200"),
    ("v100-32", "v100-32g"),
    ("v100", "v100-16g"),
];

/// Networks that sources name: a word, the link, and the adapters of a node.
const NETWORKS: &[(&str, &str, usize)] =
    &[("jean zay", "omnipath-100", 4), ("p3dn", "ethernet-100", 1), ("1600 gbps", "infiniband-200", 8)];

fn cluster_of(row: &Row) -> Result<Cluster, String> {
    let text = row.gpu.to_lowercase();
    let device = DEVICES.iter().find(|(prefix, _)| text.trim_start_matches("dgx-").starts_with(prefix));
    let &(_, device) = device.ok_or_else(|| format!("`{}` is not in the catalog", row.gpu))?;
    let devices = whole(&row.n_gpus).ok_or_else(|| missing("n_gpus"))?;
    let per_node = if text.contains("gb200") { 72 } else { 8 };
    let name = if devices <= per_node {
        format!("{devices}x{device}")
    } else {
        // A cluster has whole nodes.
        format!("{}x{per_node}x{device}", devices.div_ceil(per_node))
    };
    let mut cluster = parse(&name).map_err(|error| error.message)?;
    if let Some(&(_, link, adapters)) = NETWORKS.iter().find(|(word, ..)| text.contains(word)) {
        let network = crate::cluster::LINKS.iter().find(|known| known.name == link);
        cluster.network = network.cloned().ok_or_else(|| format!("there is no link `{link}`"))?;
        cluster.nodes.iter_mut().for_each(|nodes| nodes.adapters = adapters);
    }
    Ok(cluster)
}
