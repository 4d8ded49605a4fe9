//! Presets: a name, a family and its settings.

use super::Family;

#[derive(Debug)]
pub struct Preset {
    pub name: &'static str,
    pub family: Family,
    pub about: &'static str,
    pub settings: &'static [(&'static str, &'static str)],
}

/// In the order of the alphabet.
#[rustfmt::skip] // One row a preset.
pub const PRESETS: &[Preset] = &[
    Preset { name: "bert-base", family: Family::Bert, about: "BERT, masked tokens", settings: &[("layers", "12"), ("hidden", "768"), ("heads", "12"), ("seq", "512"), ("vocab", "30522"), ("batch", "256"), ("dtype", "bf16"), ("optimizer", "adamw"), ("learning_rate", "1e-4")] },
    Preset { name: "bert-large", family: Family::Bert, about: "BERT, masked tokens", settings: &[("layers", "24"), ("hidden", "1024"), ("heads", "16"), ("seq", "512"), ("vocab", "30522"), ("batch", "256"), ("dtype", "bf16"), ("optimizer", "adamw"), ("learning_rate", "1e-4")] },
    Preset { name: "gns", family: Family::Graph, about: "graph network simulator: 2,048 nodes, 65,536 edges, 24 rounds of messages", settings: &[("steps", "24"), ("hidden", "512"), ("ffn", "1024"), ("layers", "5"), ("nodes", "2048"), ("edges", "65536"), ("loss", "squared-error")] },
    Preset { name: "gpt-1.3b", family: Family::Gpt, about: "GPT of Alpa's ladder", settings: &[("layers", "24"), ("hidden", "2048"), ("heads", "32"), ("seq", "1024"), ("vocab", "51200"), ("batch", "1024"), ("dtype", "f16")] },
    Preset { name: "gpt-15b", family: Family::Gpt, about: "GPT of Alpa's ladder", settings: &[("layers", "48"), ("hidden", "5120"), ("heads", "40"), ("seq", "1024"), ("vocab", "51200"), ("batch", "1024"), ("dtype", "f16")] },
    Preset { name: "gpt-175b", family: Family::Gpt, about: "GPT-3", settings: &[("layers", "96"), ("hidden", "12288"), ("heads", "96"), ("seq", "2048"), ("vocab", "50257"), ("batch", "1536"), ("dtype", "bf16")] },
    Preset { name: "gpt-1t", family: Family::Gpt, about: "Megatron's trillion", settings: &[("layers", "128"), ("hidden", "25600"), ("heads", "160"), ("seq", "2048"), ("vocab", "51200"), ("batch", "3072"), ("dtype", "bf16")] },
    Preset { name: "gpt-2.6b", family: Family::Gpt, about: "GPT of Alpa's ladder", settings: &[("layers", "32"), ("hidden", "2560"), ("heads", "32"), ("seq", "1024"), ("vocab", "51200"), ("batch", "1024"), ("dtype", "f16")] },
    Preset { name: "gpt-350m", family: Family::Gpt, about: "GPT of Alpa's ladder", settings: &[("layers", "24"), ("hidden", "1024"), ("heads", "16"), ("seq", "1024"), ("vocab", "51200"), ("batch", "1024"), ("dtype", "f16")] },
    Preset { name: "gpt-39b", family: Family::Gpt, about: "GPT of Alpa's ladder", settings: &[("layers", "48"), ("hidden", "8192"), ("heads", "64"), ("seq", "1024"), ("vocab", "51200"), ("batch", "1024"), ("dtype", "f16")] },
    Preset { name: "gpt-6.7b", family: Family::Gpt, about: "GPT of Alpa's ladder", settings: &[("layers", "32"), ("hidden", "4096"), ("heads", "32"), ("seq", "1024"), ("vocab", "51200"), ("batch", "1024"), ("dtype", "f16")] },
    Preset { name: "gpt2", family: Family::Gpt, about: "GPT-2 small", settings: &[("layers", "12"), ("hidden", "768"), ("heads", "12"), ("seq", "1024"), ("vocab", "50257"), ("batch", "8"), ("dtype", "f32")] },
    Preset { name: "it32", family: Family::Decode, about: "PartIR's transformer of 32 layers, decoding 1536 tokens for each of 48 starts", settings: &[("layers", "32"), ("hidden", "4096"), ("heads", "32"), ("ffn", "16384"), ("seq", "2048"), ("steps", "1536"), ("vocab", "32768"), ("batch", "48"), ("dtype", "bf16")] },
    Preset { name: "llama2-70b", family: Family::Llama, about: "Llama 2", settings: &[("layers", "80"), ("hidden", "8192"), ("heads", "64"), ("kv_heads", "8"), ("ffn", "28672"), ("seq", "4096"), ("vocab", "32000"), ("tied", "false"), ("rope_theta", "10000"), ("batch", "1024"), ("dtype", "bf16"), ("optimizer", "adamw"), ("learning_rate", "3e-4"), ("weight_decay", "0.1")] },
    Preset { name: "llama2-7b", family: Family::Llama, about: "Llama 2", settings: &[("layers", "32"), ("hidden", "4096"), ("heads", "32"), ("kv_heads", "32"), ("ffn", "11008"), ("seq", "4096"), ("vocab", "32000"), ("tied", "false"), ("rope_theta", "10000"), ("batch", "1024"), ("dtype", "bf16"), ("optimizer", "adamw"), ("learning_rate", "3e-4"), ("weight_decay", "0.1")] },
    Preset { name: "llama3-405b", family: Family::Llama, about: "Llama 3.1", settings: &[("layers", "126"), ("hidden", "16384"), ("heads", "128"), ("kv_heads", "8"), ("ffn", "53248"), ("seq", "8192"), ("vocab", "128256"), ("tied", "false"), ("rope_theta", "500000"), ("batch", "2048"), ("dtype", "bf16"), ("optimizer", "adamw"), ("learning_rate", "3e-4"), ("weight_decay", "0.1")] },
    Preset { name: "llama3-70b", family: Family::Llama, about: "Llama 3", settings: &[("layers", "80"), ("hidden", "8192"), ("heads", "64"), ("kv_heads", "8"), ("ffn", "28672"), ("seq", "8192"), ("vocab", "128256"), ("tied", "false"), ("rope_theta", "500000"), ("batch", "1024"), ("dtype", "bf16"), ("optimizer", "adamw"), ("learning_rate", "3e-4"), ("weight_decay", "0.1")] },
    Preset { name: "llama3-8b", family: Family::Llama, about: "Llama 3", settings: &[("layers", "32"), ("hidden", "4096"), ("heads", "32"), ("kv_heads", "8"), ("ffn", "14336"), ("seq", "8192"), ("vocab", "128256"), ("tied", "false"), ("rope_theta", "500000"), ("batch", "1024"), ("dtype", "bf16"), ("optimizer", "adamw"), ("learning_rate", "3e-4"), ("weight_decay", "0.1")] },
    Preset { name: "mixtral-8x7b", family: Family::Mixtral, about: "Mixtral 8x7B, experts with a quarter more room than even shares", settings: &[("layers", "32"), ("hidden", "4096"), ("heads", "32"), ("kv_heads", "8"), ("ffn", "14336"), ("experts", "8"), ("capacity_factor", "2.5"), ("seq", "4096"), ("vocab", "32000"), ("batch", "256"), ("dtype", "bf16"), ("rope_theta", "1000000"), ("tied", "false")] },
    Preset { name: "mlp", family: Family::Mlp, about: "dense layers", settings: &[("layers", "6"), ("hidden", "1024"), ("batch", "256"), ("loss", "squared-error")] },
    Preset { name: "moe-1.3b", family: Family::Moe, about: "mixture of experts of Alpa's ladder", settings: &[("layers", "16"), ("hidden", "768"), ("heads", "16"), ("ffn", "6144"), ("experts", "16"), ("seq", "1024"), ("vocab", "32000"), ("batch", "1024"), ("dtype", "f16")] },
    Preset { name: "moe-10b", family: Family::Moe, about: "mixture of experts of Alpa's ladder", settings: &[("layers", "16"), ("hidden", "1536"), ("heads", "16"), ("ffn", "12288"), ("experts", "32"), ("seq", "1024"), ("vocab", "32000"), ("batch", "1024"), ("dtype", "f16")] },
    Preset { name: "moe-2.4b", family: Family::Moe, about: "mixture of experts of Alpa's ladder", settings: &[("layers", "16"), ("hidden", "1024"), ("heads", "16"), ("ffn", "8192"), ("experts", "16"), ("seq", "1024"), ("vocab", "32000"), ("batch", "1024"), ("dtype", "f16")] },
    Preset { name: "moe-27b", family: Family::Moe, about: "mixture of experts of Alpa's ladder", settings: &[("layers", "16"), ("hidden", "2048"), ("heads", "16"), ("ffn", "16384"), ("experts", "48"), ("seq", "1024"), ("vocab", "32000"), ("batch", "1024"), ("dtype", "f16")] },
    Preset { name: "moe-380m", family: Family::Moe, about: "mixture of experts of Alpa's ladder", settings: &[("layers", "8"), ("hidden", "768"), ("heads", "16"), ("ffn", "6144"), ("experts", "8"), ("seq", "1024"), ("vocab", "32000"), ("batch", "1024"), ("dtype", "f16")] },
    Preset { name: "moe-70b", family: Family::Moe, about: "mixture of experts of Alpa's ladder", settings: &[("layers", "32"), ("hidden", "2048"), ("heads", "16"), ("ffn", "16384"), ("experts", "64"), ("seq", "1024"), ("vocab", "32000"), ("batch", "1024"), ("dtype", "f16")] },
    Preset { name: "resnet-18", family: Family::Resnet, about: "ResNet-18 on images of 224", settings: &[("layers", "18"), ("channels", "64"), ("width", "1"), ("classes", "1000"), ("image", "224"), ("batch", "256"), ("optimizer", "sgd")] },
    Preset { name: "resnet-50", family: Family::Resnet, about: "ResNet-50 on images of 224", settings: &[("layers", "50"), ("channels", "64"), ("width", "1"), ("classes", "1000"), ("image", "224"), ("batch", "256"), ("optimizer", "sgd")] },
    Preset { name: "t32", family: Family::Partir, about: "PartIR's transformer of 32 layers", settings: &[("layers", "32"), ("hidden", "4096"), ("heads", "32"), ("ffn", "16384"), ("seq", "2048"), ("vocab", "32768"), ("batch", "48"), ("dtype", "bf16")] },
    Preset { name: "t48", family: Family::Partir, about: "PartIR's transformer of 48 layers", settings: &[("layers", "48"), ("hidden", "8192"), ("heads", "64"), ("ffn", "32768"), ("seq", "2048"), ("vocab", "32768"), ("batch", "64"), ("dtype", "bf16")] },
    Preset { name: "t5-large", family: Family::T5, about: "T5 1.0", settings: &[("layers", "24"), ("decoder_layers", "24"), ("hidden", "1024"), ("heads", "16"), ("head_width", "64"), ("ffn", "4096"), ("seq", "512"), ("target_seq", "128"), ("vocab", "32128"), ("batch", "128"), ("dtype", "bf16"), ("optimizer", "adafactor")] },
    Preset { name: "unet", family: Family::Unet, about: "diffusion UNet, channels 128 to 256 at four resolutions from 64, attention at the lower two", settings: &[("layers", "2"), ("channels", "128"), ("heads", "4"), ("image", "64"), ("batch", "128"), ("loss", "squared-error")] },
    Preset { name: "vit-l16", family: Family::Vit, about: "ViT-L/16 on images of 224", settings: &[("layers", "24"), ("hidden", "1024"), ("heads", "16"), ("ffn", "4096"), ("image", "224"), ("patch", "16"), ("classes", "1000"), ("batch", "256")] },
    Preset { name: "wresnet-13b", family: Family::Resnet, about: "Wide-ResNet of Alpa's ladder", settings: &[("layers", "101"), ("channels", "320"), ("width", "16"), ("classes", "1024"), ("image", "224"), ("batch", "1536"), ("optimizer", "sgd")] },
    Preset { name: "wresnet-1b", family: Family::Resnet, about: "Wide-ResNet of Alpa's ladder", settings: &[("layers", "50"), ("channels", "320"), ("width", "2"), ("classes", "1024"), ("image", "224"), ("batch", "1536"), ("optimizer", "sgd")] },
    Preset { name: "wresnet-250m", family: Family::Resnet, about: "Wide-ResNet of Alpa's ladder", settings: &[("layers", "50"), ("channels", "160"), ("width", "2"), ("classes", "1024"), ("image", "224"), ("batch", "1536"), ("optimizer", "sgd")] },
    Preset { name: "wresnet-2b", family: Family::Resnet, about: "Wide-ResNet of Alpa's ladder", settings: &[("layers", "50"), ("channels", "448"), ("width", "2"), ("classes", "1024"), ("image", "224"), ("batch", "1536"), ("optimizer", "sgd")] },
    Preset { name: "wresnet-4b", family: Family::Resnet, about: "Wide-ResNet of Alpa's ladder", settings: &[("layers", "50"), ("channels", "640"), ("width", "2"), ("classes", "1024"), ("image", "224"), ("batch", "1536"), ("optimizer", "sgd")] },
    Preset { name: "wresnet-6.8b", family: Family::Resnet, about: "Wide-ResNet of Alpa's ladder", settings: &[("layers", "50"), ("channels", "320"), ("width", "16"), ("classes", "1024"), ("image", "224"), ("batch", "1536"), ("optimizer", "sgd")] },
];
