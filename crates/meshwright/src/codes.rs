//! Codes of everything that can be wrong, each with a page that says what it means and what to do. One table.
//!
//! `meshwright explain MW020` prints a page; `docs/reference/codes.md` has all of them. A number that was once given
//! keeps its meaning.

use std::fmt;

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    Usage = 1,
    NoSuchFile = 2,
    Unreadable = 3,
    Unwritable = 4,
    FileExists = 5,
    StandardInputTwice = 6,
    FlagsExclude = 7,
    Setting = 8,
    Vary = 9,
    Amount = 10,

    NotText = 20,
    Syntax = 21,
    Undefined = 22,
    DefinedTwice = 23,
    Types = 24,
    Attribute = 25,
    UnknownType = 26,
    Constant = 27,
    DynamicShape = 28,
    ControlFlow = 29,
    NoMain = 30,
    Signature = 31,
    UnknownOp = 32,
    CallRule = 33,
    TooLarge = 34,
    SeveralModules = 35,
    AlreadyPartitioned = 36,

    Cluster = 40,
    TooFewDevices = 41,
    Engine = 42,

    Mesh = 50,
    TacticsFile = 51,
    Tactic = 52,
    NoTactics = 53,

    DoesNotFit = 60,
    Unplannable = 61,
    PlanFile = 62,
    OtherProgram = 63,
    OtherDevices = 64,
    NoSuchName = 65,

    Evaluation = 70,
    Tensors = 71,
    TooManyDevices = 72,

    Measuring = 80,
    Runs = 81,
    Instance = 82,
}

/// A page about a code, in Markdown.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub code: Code,
    pub title: &'static str,
    pub text: &'static str,
}

impl Code {
    pub fn page(self) -> &'static Page {
        // A test holds that every code has a page, in the order of numbers.
        let found = PAGES.binary_search_by_key(&self, |page| page.code);
        &PAGES[found.unwrap_or(0)]
    }

    /// Reads `MW020`, in whatever case.
    pub fn parse(text: &str) -> Option<Code> {
        let digits = text.strip_prefix("MW").or_else(|| text.strip_prefix("mw"))?;
        let number: u16 = digits.parse().ok().filter(|_| digits.len() == 3)?;
        PAGES.iter().map(|page| page.code).find(|code| *code as u16 == number)
    }
}

/// Such as `MW020`.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MW{:03}", *self as u16)
    }
}

const fn page(code: Code, title: &'static str, text: &'static str) -> Page {
    Page { code, title, text }
}

/// All pages, in the order of their numbers.
pub const PAGES: &[Page] = &[
    page(
        Code::Usage,
        "the command line cannot be understood",
        "A command, a flag or a value is not one that the command knows, or something is missing. The hint shows the \
         usage, or the nearest name. `meshwright help COMMAND` lists all flags of a command, and so does \
         `docs/reference/cli.md`.",
    ),
    page(
        Code::NoSuchFile,
        "there is no such file or preset",
        "A model is a preset, such as `gpt-2.6b`, or the name of a file. `meshwright models` lists presets. Names of \
         files are relative to the folder that the command runs in.",
    ),
    page(
        Code::Unreadable,
        "a file cannot be read",
        "It is a folder, may not be read, is broken gzip data, or is text in another encoding than UTF-8. The message \
         says which.",
    ),
    page(
        Code::Unwritable,
        "a file cannot be written",
        "The folder is missing, or may not be written to, or the disk is full. Files are written under another name \
         in the same folder and renamed when they are whole, so that a half of one never appears.",
    ),
    page(
        Code::FileExists,
        "the output file exists",
        "Nothing is overwritten unasked. Give `--force` to replace the file, or another name.",
    ),
    page(
        Code::StandardInputTwice,
        "two things are to be read from standard input",
        "`-` stands for standard input, which can be read once. Give one of the two as a file.",
    ),
    page(
        Code::FlagsExclude,
        "flags do not go together",
        "Both would decide the same thing, or write to the same place. The message names them; leave one out.",
    ),
    page(
        Code::Setting,
        "a setting of a preset is wrong",
        "`--set KEY=VALUE` changes sizes of a preset. `meshwright models NAME` lists its keys and their values. A \
         model from a file has no settings: its sizes are in its text.",
    ),
    page(
        Code::Vary,
        "what is to be varied is wrong",
        "`--vary KEY=LIST` goes through values, such as `--vary batch=256,512`. Each key can be given once; the message \
         lists the keys. Only presets can change their batch.",
    ),
    page(
        Code::Amount,
        "an amount of memory cannot be read",
        "Amounts are written as `14GiB`, `80GB` or `512MiB`: a number and a unit. `GiB` is 2^30 bytes, `GB` is 10^9.",
    ),
    page(
        Code::NotText,
        "the model is no StableHLO text",
        "The file is empty, is MLIR bytecode, or something else entirely. Text is what `str(exported.mlir_module())` \
         gives in JAX; gzipped text (`.mlir.gz`) is read, too.",
    ),
    page(
        Code::Syntax,
        "the text cannot be read here",
        "What stands at the place is not what StableHLO's grammar expects; the label says what is. Text that JAX or \
         StableHLO's own tools print is read whole, in its generic and in its pretty form. What was edited by hand \
         often lacks a bracket or a comma before the place.",
    ),
    page(
        Code::Undefined,
        "a name is used that is not defined",
        "A value, function, attribute or location is used, but the text does not define it, or defines it in a place \
         that cannot be seen from here. Where text was cut out of a larger one, its definitions have to come along.",
    ),
    page(
        Code::DefinedTwice,
        "a name is defined twice",
        "Values, functions and aliases have one definition each. Rename one of them.",
    ),
    page(
        Code::Types,
        "an operation does not fit its operands or results",
        "What an operation gives follows from what it reads and from its attributes. Here its operands cannot be right, \
         or the text declares other results than it gives. The label has both.",
    ),
    page(
        Code::Attribute,
        "an attribute is missing or wrong",
        "The operation needs an attribute that is not there, or cannot read one that is. StableHLO's specification \
         lists the attributes of every operation.",
    ),
    page(
        Code::UnknownType,
        "a type is not known",
        "Values are tensors of the element types of StableHLO, or tokens. Tuples and quantized types are not read.",
    ),
    page(
        Code::Constant,
        "a constant is broken",
        "A constant has as many elements as its type says, in brackets that match, or as hex digits. Where a printer \
         left the data out (`dense_resource`, or `...`), print the module again with large constants.",
    ),
    page(
        Code::DynamicShape,
        "shapes must be known",
        "A plan is about sizes, so every dimension has to be a number. Export the function with concrete shapes; in \
         JAX, trace it with `jax.ShapeDtypeStruct` of the shapes you train with.",
    ),
    page(
        Code::ControlFlow,
        "control flow that is not supported",
        "Functions that call themselves and branches between blocks have no place in a program of tensors. Loops and \
         conditions are `stablehlo.while`, `stablehlo.if` and `stablehlo.case`.",
    ),
    page(
        Code::NoMain,
        "it is not clear which function is the step",
        "A module's step is its function `main`, or its only public one. Make the others private, or rename the one \
         that is meant.",
    ),
    page(
        Code::Signature,
        "a function is not what it declares, or is called otherwise",
        "Types of arguments and results are said where a function begins, and again where it is called and where it \
         returns. They have to agree.",
    ),
    page(
        Code::UnknownOp,
        "an operation is not known and is kept whole",
        "This is a warning. The operation is kept as it is, and every device runs all of it, on whole operands. That is \
         right, but may be slow. Where it is your own, make it a `stablehlo.custom_call` and say how it may be cut; see \
         `docs/guides/rules.md`.",
    ),
    page(
        Code::CallRule,
        "the rule of a custom call is wrong",
        "`meshwright.rule` says how a custom call may be cut, such as `(i j, j k) -> (i k)`: one group of letters for \
         every operand and result, one letter for every dimension, `_` for one that stays whole. The same letter is the \
         same size everywhere, and a letter that no result has is summed. See `docs/guides/rules.md`.",
    ),
    page(
        Code::TooLarge,
        "there is too much of something",
        "Texts are limited so that broken ones cannot fill the memory: types in size and rank, aliases and lists in \
         depth, errors in number. No model that people train comes near.",
    ),
    page(
        Code::SeveralModules,
        "a file holds several modules",
        "Modules in one text are set apart by lines `// -----`. This command takes one; give it a file of its own.",
    ),
    page(
        Code::AlreadyPartitioned,
        "the model is already written for several processes",
        "It has collectives, or says that it runs as several replicas or partitions. A plan is made for the program of \
         a single device: export the step before it is sharded.",
    ),
    page(
        Code::Cluster,
        "a cluster is not known, or its file is wrong",
        "A cluster is a name such as `8xh100` or `4x8xa100-80g` (nodes, devices of each, device), or a TOML file. \
         `meshwright clusters` lists devices, `docs/guides/clusters.md` has the form of files.",
    ),
    page(
        Code::TooFewDevices,
        "the mesh has more devices than the cluster",
        "The product of the sizes of a mesh's axes, times the number of stages, is the number of devices. Give a smaller \
         mesh, or a larger cluster.",
    ),
    page(
        Code::Engine,
        "there is no such engine",
        "Engines run programs, each with its own way to fuse, order and overlap. `--help` lists them.",
    ),
    page(
        Code::Mesh,
        "the mesh cannot be read",
        "A mesh is a list of axes and sizes, such as `data=2,model=4`; `micro=8@time` is an axis in time, along which \
         there are microbatches.",
    ),
    page(
        Code::TacticsFile,
        "a file of tactics cannot be read",
        "Tactics are TOML: a table `[[tactic]]` for each, with an `axis` and what it does. `docs/reference/tactics.md` \
         has all keys, `docs/guides/partition.md` shows them at work.",
    ),
    page(
        Code::Tactic,
        "a tactic cannot be applied",
        "It names something that the model does not have, or asks for a cut that rules do not allow. The message says \
         which; earlier tactics are never undone, so that the order matters.",
    ),
    page(
        Code::NoTactics,
        "a file has no tactics",
        "A tactic begins with a line `[[tactic]]`. An empty file would leave everything whole on every device.",
    ),
    page(
        Code::DoesNotFit,
        "no plan fits the memory",
        "Even the plan that takes least needs more than a device has, or more than `--memory` allows. You see what \
         binds, how many bytes are missing, and changes that would fit, each of them planned: smaller microbatches or \
         batch, more devices, narrower numbers, an optimizer with less state.",
    ),
    page(
        Code::Unplannable,
        "the program cannot be planned",
        "The message says why: what is asked for contradicts itself, such as microbatches that do not divide the batch, \
         or the program has no batch to cut.",
    ),
    page(
        Code::PlanFile,
        "a plan cannot be read",
        "Plans are JSON that `meshwright plan -o` wrote; `docs/reference/plan.schema.json` is their form. A plan of a \
         newer version needs the meshwright that wrote it.",
    ),
    page(
        Code::OtherProgram,
        "the plan is for another program",
        "A plan decides about the operations of one program, and knows it again by a fingerprint. The message says what \
         differs: settings, shapes, or the program itself. Plan again, or give the model as it was.",
    ),
    page(
        Code::OtherDevices,
        "the plan is for other devices or another engine",
        "What is fastest depends on devices, links and engine. Plan again for those that there are, or name those that \
         the plan is for.",
    ),
    page(
        Code::NoSuchName,
        "nothing has that name",
        "Names are those of arguments, such as `params.layers.0.attn.qkv.weight`, and of scopes, such as `layers.0.attn`. \
         In patterns, `*` stands for letters within a part and `**` for any number of parts.",
    ),
    page(
        Code::Evaluation,
        "the model cannot be evaluated",
        "The interpreter came to an operation that it cannot compute, such as a custom call, or to inputs outside of \
         what the program allows. The message says where.",
    ),
    page(
        Code::Tensors,
        "tensors do not fit the model",
        "A safetensors file gives the arguments of a model, or takes its results: one tensor for each, of the same name, \
         shape and element type.",
    ),
    page(
        Code::TooManyDevices,
        "there are too many devices to be evaluated",
        "`verify` computes what every device computes. Give a smaller mesh of the same axes: what is right there is \
         right for larger ones as well.",
    ),
    page(
        Code::Measuring,
        "measuring devices failed",
        "`calibrate` runs a script in your Python interpreter, which needs JAX or PyTorch. Name another interpreter with \
         `--python`, and measure while the machine does nothing else.",
    ),
    page(
        Code::Runs,
        "a table of runs cannot be read",
        "`validate` reads CSV with a row for each measured run; `docs/concepts/accuracy.md` lists the columns.",
    ),
    page(
        Code::Instance,
        "an instance or its answer cannot be read",
        "`solve` reads instances of the contest on intra-operator parallelism, as JSON; `docs/guides/solve.md` has the \
         form.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_page_in_order() {
        for pair in PAGES.windows(2) {
            assert!(pair[0].code < pair[1].code, "{} stands before {}", pair[0].code, pair[1].code);
        }
        for page in PAGES {
            assert_eq!(Code::parse(&page.code.to_string()), Some(page.code));
            assert_eq!(page.code.page().title, page.title);
        }
        let variants = include_str!("codes.rs").lines().take_while(|line| !line.starts_with('}'));
        let count = variants.filter(|line| line.trim_end().ends_with(',') && line.contains(" = ")).count();
        assert_eq!(count, PAGES.len(), "a code has no page");
    }

    #[test]
    fn only_codes_are_read_as_codes() {
        assert_eq!(Code::parse("mw021"), Some(Code::Syntax));
        assert_eq!(["MW21", "MW999", "plan.json", "MW0021", ""].map(Code::parse), [None; 5]);
    }
}
