//! Texts that are broken, hostile or huge. Whatever the text, import gives back in bounded time
//! and memory, on a small stack, with every span inside the text; and a program that comes out is
//! well formed and survives printing.
//!
//! `LONG=1` in the environment breaks the samples at many more places.

use std::fmt::Write;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use meshwright::import::{Imported, Severity, import};
use meshwright::interpret::generate_arguments;
use meshwright::program::{AttentionForm, PrintOptions, Program, ValueId, print};

const PRETTY: &str = include_str!("../../../tests/gallery/pretty.mlir");
const GENERIC: &str = include_str!("../../../tests/gallery/generic.mlir");

// What every import has to keep.

/// Runs on a thread with the stack that Rust gives to threads, so that deep recursion is found
/// whatever runs the tests.
fn on_small_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(2 << 20);
        let thread = builder.spawn_scoped(scope, work).expect("a thread starts");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// How long this thread has run, so that a busy machine fails no test; where the system does not
/// say, always the same.
fn time_on_processor() -> Duration {
    let status = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(status.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap_or(0))
}

/// Imports a text and checks what holds for every text.
#[track_caller]
fn survive(text: &str) -> Imported {
    let text: Arc<str> = Arc::from(text);
    let start = time_on_processor();
    let imported = import(&text);
    let taken = time_on_processor().saturating_sub(start);
    let allowed = Duration::from_secs(5) + Duration::from_micros(text.len() as u64);
    assert!(taken < allowed, "took {taken:?}: {}", excerpt(&text));
    for diagnostic in &imported.diagnostics {
        // Slicing checks that both ends lie on characters.
        assert!(text.get(diagnostic.span.clone()).is_some(), "{diagnostic:?}: {}", excerpt(&text));
        assert!(!diagnostic.message.is_empty());
    }
    let has_error = imported.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
    assert_ne!(has_error, imported.program.is_some(), "{}", excerpt(&text));
    imported
}

/// The same, and if there is a program, it is well formed, can be printed and read again, and answers
/// what is asked of it.
#[track_caller]
fn survive_and_print(text: &str) -> Imported {
    let imported = survive(text);
    let Some(program) = &imported.program else { return imported };
    if let Err(error) = program.verify() {
        panic!("{error}: {}", excerpt(text));
    }
    ask(program, text);
    for locations in [false, true] {
        let printed: Arc<str> = print(program, PrintOptions { locations, attention: AttentionForm::CustomCall }).into();
        let again = import(&printed);
        let Some(mut copy) = again.program else {
            panic!("{:?} in the print of {}\n{printed}", again.diagnostics, excerpt(text));
        };
        if !locations {
            let ops: Vec<_> = copy.ops.ids().collect();
            for op in ops {
                copy.ops[op].location = program.ops[op].location;
            }
            copy.locations = program.locations.clone();
        }
        assert!(copy == *program, "printed and read again, this changes: {}\n{printed}", excerpt(text));
    }
    imported
}

/// Asks a program for everything that does not fail, or not but for its size.
#[track_caller]
fn ask(program: &Program, text: &str) {
    assert_eq!(program.anatomy().classes.len(), program.arguments.len(), "{}", excerpt(text));
    for repeat in program.repeats() {
        assert!(repeat.count > 1, "{repeat:?} in {}", excerpt(text));
    }
    let is_small = |&value: &ValueId| program.ty(value).elements() < 10_000;
    if program.body().arguments.iter().all(is_small) {
        generate_arguments(program, 0);
    }
    // Millions of ops would be made of a long loop before it is refused, for each of many texts.
    let mut loops = program.ops.ids().filter_map(|op| program.counted_loop(op));
    if loops.all(|counted| counted.trips <= 1000)
        && let Ok(unrolled) = program.unroll()
        && let Err(error) = unrolled.verify()
    {
        panic!("unrolled, {error}: {}", excerpt(text));
    }
}

/// Imports a text that is broken.
#[track_caller]
fn breaks(text: &str) -> Imported {
    let imported = survive(text);
    assert!(imported.program.is_none(), "no error in {}", excerpt(text));
    imported
}

/// Imports a broken text and compares the first error's message.
#[track_caller]
fn breaks_with(text: &str, message: &str) {
    let imported = breaks(text);
    let first = imported.diagnostics.iter().find(|diagnostic| diagnostic.severity == Severity::Error);
    assert_eq!(first.map(|error| error.message.as_str()), Some(message), "in {}", excerpt(text));
}

/// Imports a text that is sound.
#[track_caller]
fn works(text: &str) {
    let imported = survive_and_print(text);
    assert!(imported.program.is_some(), "{:?} in {}", imported.diagnostics, excerpt(text));
}

fn excerpt(text: &str) -> &str {
    let end = (0..=text.len().min(4000)).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

/// A function `main` around some operations, `%x: tensor<f32>` being its argument and result.
fn main_with(operations: &str) -> String {
    format!("func.func @main(%x: tensor<f32>) -> tensor<f32> {{\n{operations}\nreturn %x : tensor<f32>\n}}\n")
}

/// How many changed texts were still sound and how many were not: a test has to see both.
#[derive(Default)]
struct Outcomes {
    sound: usize,
    broken: usize,
}

impl Outcomes {
    fn add(&mut self, imported: &Imported) {
        match imported.program {
            Some(_) => self.sound += 1,
            None => self.broken += 1,
        }
    }

    fn check(&self) {
        assert!(self.sound > 50 && self.broken > 50, "{} sound, {} broken", self.sound, self.broken);
    }
}

/// A small sequence of numbers that is the same on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

fn is_long() -> bool {
    std::env::var_os("LONG").is_some()
}

fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/samples/{name}.mlir.gz"));
    let file = std::fs::File::open(path).expect("the sample is there");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("the sample is text");
    text
}

/// The samples that are broken at many places; all of them in a long run.
fn samples() -> Vec<String> {
    let long = ["decode", "gpt.pretty", "gpt_scan", "gpt_dropout_typed", "llama_bf16", "moe_sort", "resnet", "unet"];
    let short = ["evaluate", "lstm_scan", "resnet.pretty"];
    short.iter().chain(is_long().then_some(&long).into_iter().flatten()).map(|name| sample(name)).collect()
}

// Texts cut and changed at many places.

#[test]
fn galleries_and_samples_work() {
    on_small_stack(|| {
        works(PRETTY);
        works(GENERIC);
        for sample in samples() {
            works(&sample);
        }
    });
}

/// Cuts a text at every `step`th byte. Until its last bracket is there, something is missing.
fn cut_everywhere(text: &str, step: usize) {
    let complete = text.rfind('}').unwrap_or(0);
    for end in (0..text.len()).step_by(step).filter(|&end| text.is_char_boundary(end)) {
        let imported = survive(&text[..end]);
        assert!(imported.program.is_none() || end > complete, "no error when cut at byte {end}");
    }
}

#[test]
fn a_gallery_cut_at_any_byte_is_an_error() {
    on_small_stack(|| {
        cut_everywhere(PRETTY, 1);
        cut_everywhere(GENERIC, 1);
    });
}

#[test]
fn a_sample_cut_at_many_bytes_is_an_error() {
    for sample in samples() {
        on_small_stack(|| cut_everywhere(&sample, if is_long() { 17 } else { 997 }));
    }
}

#[test]
fn changed_bytes_do_no_harm() {
    on_small_stack(|| {
        let mut outcomes = Outcomes::default();
        let mut random = Random(1);
        for text in [PRETTY, GENERIC] {
            for round in 0..if is_long() { 200_000 } else { 2_000 } {
                let mut bytes = text.as_bytes().to_vec();
                for _ in 0..1 + round % 3 {
                    change_a_byte(&mut bytes, &mut random);
                }
                outcomes.add(&survive_and_print(&String::from_utf8_lossy(&bytes)));
            }
        }
        for text in samples() {
            for _ in 0..if is_long() { 2_000 } else { 30 } {
                let mut bytes = text.as_bytes().to_vec();
                change_a_byte(&mut bytes, &mut random);
                outcomes.add(&survive_and_print(&String::from_utf8_lossy(&bytes)));
            }
        }
        outcomes.check();
    });
}

fn change_a_byte(bytes: &mut Vec<u8>, random: &mut Random) {
    let place = random.below(bytes.len());
    let telling = b"()[]{}<>\"#%@^!:,=-x?*/\\ \n019af\0\xC3\xFF";
    match random.below(4) {
        0 => bytes[place] ^= 1 << random.below(8),
        1 => drop(bytes.remove(place)),
        2 => bytes.insert(place, telling[random.below(telling.len())]),
        _ => bytes[place] = telling[random.below(telling.len())],
    }
}

#[test]
fn moved_lines_do_no_harm() {
    on_small_stack(|| {
        let mut outcomes = Outcomes::default();
        let mut random = Random(2);
        for text in [PRETTY, GENERIC] {
            for round in 0..if is_long() { 50_000 } else { 1_500 } {
                let mut lines: Vec<&str> = text.lines().collect();
                let (one, other) = (random.below(lines.len()), random.below(lines.len()));
                match round % 3 {
                    0 => lines.swap(one, other),
                    1 => lines.insert(one, lines[other]),
                    _ => drop(lines.remove(one)),
                }
                outcomes.add(&survive_and_print(&lines.join("\n")));
            }
        }
        outcomes.check();
    });
}

#[test]
fn moved_words_do_no_harm() {
    on_small_stack(|| {
        let mut outcomes = Outcomes::default();
        let mut random = Random(3);
        for text in [PRETTY, GENERIC] {
            let words: Vec<&str> = text.split_inclusive([' ', '(', ')', ',', '<', '>']).collect();
            for _ in 0..if is_long() { 200_000 } else { 1_500 } {
                let mut changed = words.clone();
                let (one, other) = (random.below(words.len()), random.below(words.len()));
                changed[one] = words[other];
                outcomes.add(&survive_and_print(&changed.concat()));
            }
        }
        outcomes.check();
    });
}

/// Where the numbers of a text stand that are no parts of names.
fn numbers(text: &str) -> Vec<std::ops::Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut position = 0;
    while position < bytes.len() {
        let start = position;
        while position < bytes.len() && bytes[position].is_ascii_digit() {
            position += 1;
        }
        let before = start.checked_sub(1).map_or(b' ', |before| bytes[before]);
        if position > start && !(before.is_ascii_alphanumeric() && before != b'x' || before == b'%') {
            found.push(start..position);
        }
        position = position.max(start + 1);
    }
    found
}

#[test]
fn extreme_numbers_in_every_place_do_no_harm() {
    let extremes = [
        "-9223372036854775808",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "1152921504606846976",
        "4294967296",
        "123456789012345678901234567890",
        "-1",
        "0",
        "1.5",
        "0x7FF8000000000000",
    ];
    on_small_stack(|| {
        let mut outcomes = Outcomes::default();
        for text in [PRETTY, GENERIC] {
            for place in numbers(text) {
                for extreme in extremes {
                    let mut changed = text.to_owned();
                    changed.replace_range(place.clone(), extreme);
                    outcomes.add(&survive_and_print(&changed));
                }
            }
        }
        outcomes.check();
    });
}

/// Where the attributes `name = value` of a text stand, and how long their names are.
fn attributes(text: &str) -> Vec<(std::ops::Range<usize>, usize)> {
    let mut found = Vec::new();
    for (equals, _) in text.match_indices(" = ") {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let start = text[..equals].rfind(|c: char| !is_name(c)).map_or(0, |before| before + 1);
        if start == equals || text[..start].ends_with(['%', '#', ':', '@']) {
            continue;
        }
        let mut depth = 0i32;
        let value = &text[equals + 3..];
        let end = value.char_indices().find(|&(at, c)| {
            match c {
                '(' | '[' | '{' | '<' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                '>' if !value[..at].ends_with('-') => depth -= 1,
                _ => {}
            }
            depth < 0 || depth == 0 && (c == ',' || value[at..].starts_with(" : (") || c == '\n')
        });
        let end = end.map_or(text.len(), |(at, _)| equals + 3 + at);
        found.push((start..end, equals - start));
    }
    found
}

#[test]
fn attributes_of_every_wrong_kind_do_no_harm() {
    let values = [
        "",
        "unit",
        "\"text\"",
        "true",
        "7 : i64",
        "1.5 : f32",
        "[]",
        "[[1], [2, 3]]",
        "[1, 2, 3, 4, 5, 6, 7, 8, 9]",
        "{}",
        "@name",
        "WORD",
        "array<i64: -1>",
        "array<i64>",
        "dense<1> : tensor<i64>",
        "dense<1> : tensor<4611686018427387904xi2>",
        "dense<1> : tensor<1000000000x2xi64>",
        "dense<> : tensor<1152921504606846976x0xi64>",
        "dense<> : tensor<0x1152921504606846976xi64>",
        "dense<0> : tensor<2x2xi64>",
        "#stablehlo<precision HIGH>",
        "#stablehlo.conv<[b]x[i]->[f]>",
        "#stablehlo.gather<offset_dims = [-1], index_vector_dim = -1>",
        "(tensor<f32>) -> ()",
    ];
    on_small_stack(|| {
        let mut outcomes = Outcomes::default();
        for text in [PRETTY, GENERIC] {
            for (place, name) in attributes(text) {
                for value in values {
                    let mut changed = text.to_owned();
                    changed.replace_range(place.start + name + 3..place.end, value);
                    outcomes.add(&survive_and_print(&changed));
                }
                let mut changed = text.to_owned();
                changed.replace_range(place, "");
                outcomes.add(&survive_and_print(&changed));
            }
        }
        outcomes.check();
    });
}

// Size.

#[test]
fn a_million_ops_import_in_seconds_in_both_forms() {
    const COUNT: usize = 1_000_000;
    let mut pretty = String::from("func.func @main(%0: tensor<4x4xf32>) -> tensor<4x4xf32> {\n");
    let mut generic = String::from(
        "\"func.func\"() <{function_type = (tensor<4x4xf32>) -> tensor<4x4xf32>, sym_name = \"main\"}> ({\n\
         ^bb0(%0: tensor<4x4xf32>):\n",
    );
    for index in 0..COUNT {
        let next = index + 1;
        writeln!(pretty, "%{next} = stablehlo.add %{index}, %{index} : tensor<4x4xf32>").unwrap();
        writeln!(
            generic,
            "%{next} = \"stablehlo.add\"(%{index}, %{index}) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>"
        )
        .unwrap();
    }
    writeln!(pretty, "return %{COUNT} : tensor<4x4xf32>\n}}").unwrap();
    writeln!(generic, "\"func.return\"(%{COUNT}) : (tensor<4x4xf32>) -> ()\n}}) : () -> ()").unwrap();
    for text in [pretty, generic] {
        on_small_stack(|| {
            let start = time_on_processor();
            let program = survive(&text).program.expect("the text is sound");
            let taken = time_on_processor().saturating_sub(start);
            assert!(taken < Duration::from_secs(20), "took {taken:?}");
            assert_eq!(program.ops.len(), COUNT);
        });
    }
}

#[test]
fn a_million_broken_lines_give_a_bounded_list_of_errors() {
    on_small_stack(|| {
        for line in
            ["%0 = stablehlo.add %1, %2 : tensor<f32>\n", "!\n", "x.y (\n", "#a = (\n", "{\n", "(\n", "\"\n", "}\n"]
        {
            let lines = line.repeat(1_000_000 / line.len() * 4);
            assert!(survive(&lines).diagnostics.len() <= 1001);
            assert!(survive(&format!("func.func @main() {{\n{lines}")).diagnostics.len() <= 1001);
        }
    });
}

#[test]
fn the_last_of_too_many_errors_says_that_reading_stopped() {
    let imported = on_small_stack(|| breaks(&main_with(&"x.y ;\n".repeat(1500))));
    assert_eq!(imported.diagnostics.len(), 1001);
    assert_eq!(imported.diagnostics[1000].message, "too many errors");
}

#[test]
fn errors_are_not_lost_behind_many_warnings() {
    let mut operations = String::new();
    for index in 0..20_000 {
        writeln!(operations, "unknown.op{index} %x : (tensor<f32>) -> ()").unwrap();
    }
    on_small_stack(|| {
        works(&main_with(&operations));
        breaks(&main_with(&format!("{operations}stablehlo.add %x, %y : tensor<f32>")));
    });
}

// Depth.

const DEEP: usize = 10_000;

fn nested(open: &str, inside: &str, close: &str) -> String {
    format!("{}{inside}{}", open.repeat(DEEP), close.repeat(DEEP))
}

#[test]
fn deep_nesting_is_an_error_and_no_crash() {
    let texts = [
        nested("module {\n", "", "}\n"),
        nested("\"builtin.module\"() ({\n", "", "}) : () -> ()\n"),
        main_with(&nested("\"x.y\"() ({\n", "", "}) : () -> ()\n")),
        main_with(&nested("stablehlo.while(%a = %x) : tensor<f32> cond {\n", "", "}\n")),
        main_with(&format!("x.y {{a = {}}} : () -> ()", nested("[", "", "]"))),
        main_with(&format!("x.y {{a = {}}} : () -> ()", nested("{a = ", "1", "}"))),
        main_with(&format!("x.y {{a = {}}} : () -> ()", nested("#stablehlo.x<a = ", "1", ">"))),
        main_with(&format!("%c = stablehlo.constant dense<{}> : tensor<2xf32>", nested("[", "1.0", "]"))),
        main_with(&format!("%c = stablehlo.constant dense<{}> : tensor<2xcomplex<f32>>", nested("(", "1.0", ")"))),
        main_with(&format!("x.y : () -> () loc({})", nested("\"a\"(", "unknown", ")"))),
        main_with(&format!("x.y : () -> () loc({})", nested("callsite(", "unknown", " at unknown)"))),
        main_with(&format!("x.y : () -> () loc({})", nested("fused[", "unknown", "]"))),
        main_with(&format!("%c = stablehlo.constant dense<1.0> : {}", nested("tensor<", "f32", ">"))),
        main_with(&format!("%c = stablehlo.constant dense<1.0> : tensor<{}f32>", "1x".repeat(DEEP))),
    ];
    for text in texts {
        on_small_stack(|| breaks(&text));
    }
}

#[test]
fn deep_text_that_nobody_looks_into_is_only_carried() {
    let texts = [
        main_with(&format!("x.y {{a = #x.y{}}} : () -> ()", nested("<", "", ">"))),
        main_with(&format!("x.y {{a = {}}} : () -> ()", nested("tuple<", "f32", ">"))),
        main_with(&format!("x.y : () -> () loc(callsite(unknown at {}))", nested("\"a\"(", "unknown", ")"))),
    ];
    for text in texts {
        on_small_stack(|| works(&text));
    }
}

#[test]
fn regions_as_deep_as_allowed_work() {
    let text = format!("{}{}", "\"x.y\"() ({\n".repeat(126), "}) : () -> ()\n".repeat(126));
    on_small_stack(|| works(&main_with(&text)));
}

#[test]
fn a_tensor_of_many_dimensions_works_up_to_the_limit() {
    let ty = |rank: usize| format!("tensor<{}f32>", "1x".repeat(rank));
    let constant = |rank: usize, body: &str| main_with(&format!("x.y : () -> {}\n{body}", ty(rank)));
    on_small_stack(|| {
        works(&constant(64, ""));
        breaks(&constant(65, ""));
    });
}

// Calls.

/// `@f0` calls `@f1`, which calls `@f2`, and so on; `body` of the last.
fn chain(functions: usize, calls: usize, last: &str) -> String {
    let mut text = main_with("%r = func.call @f0(%x) : (tensor<f32>) -> tensor<f32>");
    for index in 0..functions {
        writeln!(text, "func.func private @f{index}(%x: tensor<f32>) -> tensor<f32> {{").unwrap();
        if index + 1 < functions {
            for call in 0..calls {
                writeln!(text, "%{call} = func.call @f{}(%x) : (tensor<f32>) -> tensor<f32>", index + 1).unwrap();
            }
        } else {
            writeln!(text, "{last}").unwrap();
        }
        writeln!(text, "return %x : tensor<f32>\n}}").unwrap();
    }
    text
}

#[test]
fn long_chains_of_calls_are_refused() {
    on_small_stack(|| {
        works(&chain(100, 1, "x.y : () -> ()"));
        breaks(&chain(10_000, 1, "x.y : () -> ()"));
    });
}

#[test]
fn calls_that_grow_exponentially_are_refused_at_once() {
    on_small_stack(|| {
        for last in ["x.y : () -> ()", ""] {
            let start = time_on_processor();
            breaks(&chain(40, 2, last));
            let taken = time_on_processor().saturating_sub(start);
            assert!(taken < Duration::from_millis(500), "took {taken:?}");
        }
    });
}

#[test]
fn locations_that_grow_with_calls_are_bounded() {
    let scope = "s".repeat(100_000);
    let text =
        chain(60, 1, "x.y : () -> ()").replace("-> tensor<f32>\n", &format!("-> tensor<f32> loc(\"{scope}\")\n"));
    on_small_stack(|| survive(&text));
}

#[test]
fn recursion_is_an_error() {
    let call = |name: &str| format!("%r = func.call @{name}(%x) : (tensor<f32>) -> tensor<f32>");
    let other = main_with(&call("main")).replace("@main(%x:", "@other(%x:");
    on_small_stack(|| {
        breaks_with(&main_with(&call("main")), "`@main` calls itself");
        breaks_with(&format!("{}{other}", main_with(&call("other"))), "`@main` calls itself");
        breaks(&format!("{}{}", main_with(&call("f")), chain(1, 1, &call("f0")).replace("@main", "@f")));
    });
}

#[test]
fn every_wrong_call_is_reported() {
    let text = main_with(
        "%0 = func.call @missing(%x) : (tensor<f32>) -> tensor<f32>\n\
         %1 = func.call @f(%x) : (tensor<f32>) -> tensor<2xf32>\n\
         %2 = func.call @f() : () -> tensor<f32>\n\
         %3 = func.call @f(%x) : (tensor<f32>) -> tensor<f32>",
    );
    let text = text + &main_with("").replace("@main", "private @f");
    on_small_stack(|| assert_eq!(breaks(&text).diagnostics.len(), 3));
}

// Aliases.

#[test]
fn cyclic_aliases_are_errors() {
    on_small_stack(|| {
        breaks(&format!("#a = #b\n#b = #a\n{}", main_with("x.y {a = #a} : () -> ()")));
        breaks(&format!("#a = [#a, #a]\n{}", main_with("x.y {a = #a} : () -> ()")));
        breaks(&format!("#a = loc(#b)\n#b = loc(#a)\n{}", main_with("x.y : () -> () loc(#a)")));
        breaks(&format!("#a = loc(fused[#a, #a])\n{}", main_with("x.y : () -> () loc(#a)")));
    });
}

#[test]
fn aliases_that_grow_exponentially_are_errors() {
    on_small_stack(|| {
        for (open, close) in [("[", "]"), ("loc(fused[", "])"), ("loc(fused<#x>[", "])")] {
            let mut text = String::new();
            for index in 0..50 {
                writeln!(text, "#a{index} = {open}#a{next}, #a{next}{close}", next = index + 1).unwrap();
            }
            text += "#a50 = loc(unknown)\n";
            let used = if open == "[" { "x.y {a = #a0} : () -> ()" } else { "x.y : () -> () loc(#a0)" };
            breaks(&(text + &main_with(used)));
        }
    });
}

#[test]
fn large_aliases_used_often_are_bounded() {
    let list = vec!["1"; 100_000].join(", ");
    let uses = "x.y {a = #a} : () -> ()\n".repeat(10_000);
    on_small_stack(|| survive(&format!("#a = [{list}]\n{}", main_with(&uses))));
    on_small_stack(|| {
        survive(&format!(
            "#a = loc(fused[{}])\n{}",
            vec!["unknown"; 100_000].join(", "),
            main_with(&uses.replace("()\n", "() loc(\"x\"(#a))\n").replace("{a = #a}", ""))
        ))
    });
}

#[test]
fn an_alias_inside_an_attribute_that_is_kept_survives_printing() {
    let text = "#a = 7 : i64\n#b = [#a,\n  \"#a\"]\n".to_owned() + &main_with("x.y {a = [#b, {c = #a}]} : () -> ()");
    on_small_stack(|| works(&text));
}

#[test]
fn undefined_aliases_are_errors() {
    on_small_stack(|| {
        breaks(&main_with("x.y {a = #a} : () -> ()"));
        breaks(&main_with("x.y : () -> () loc(#loc7)"));
        breaks(&format!("#a = 3\n{}", main_with("x.y : () -> () loc(#a)")));
        breaks(&format!("#a =\n{}", main_with("x.y {a = #a} : () -> ()")));
        breaks(&format!("#a = 1\n#a = 2\n{}", main_with("x.y {a = #a} : () -> ()")));
    });
}

// Whole texts.

#[test]
fn texts_without_a_function_are_errors() {
    on_small_stack(|| {
        for text in [
            "",
            " ",
            "\n\n\t\r\n",
            "// nothing\n",
            "// nothing",
            "module {}",
            "module @a {\n}",
            "module",
            "\0",
            "{-# #-}",
        ] {
            breaks(text);
        }
    });
}

#[test]
fn one_main_function_is_needed() {
    let functions =
        |names: &[&str]| -> String { names.iter().map(|name| main_with("").replace("@main", name)).collect() };
    on_small_stack(|| {
        works(&functions(&["@step"]));
        works(&functions(&["@step", "private @helper"]));
        works(&functions(&["@step", "@main"]));
        breaks(&functions(&["@step", "@other"]));
        breaks(&functions(&["private @step"]));
        breaks(&functions(&["@main", "@main"]));
        breaks("func.func @main(%x: tensor<f32>) -> tensor<f32>");
        breaks("func.func private @main() -> ()");
    });
}

#[test]
fn line_ends_and_a_byte_order_mark_change_nothing() {
    on_small_stack(|| {
        for text in [PRETTY, GENERIC] {
            let expected = survive(text).program;
            assert!(survive(&text.replace('\n', "\r\n")).program == expected);
            assert!(survive(&format!("\u{feff}{text}")).program == expected);
            let alias_first = text.split_once('\n').map_or("", |(_, rest)| rest);
            assert!(survive(&format!("\u{feff}{alias_first}")).program == expected);
        }
    });
}

#[test]
fn nul_bytes_and_noise_are_errors() {
    on_small_stack(|| {
        let mut random = Random(4);
        for length in 0..if is_long() { 20_000 } else { 2_000 } {
            let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            breaks(&String::from_utf8_lossy(&bytes));
        }
        for place in (0..PRETTY.len()).step_by(if is_long() { 1 } else { 31 }) {
            survive_and_print(&format!("{}\0{}", &PRETTY[..place], &PRETTY[place..]));
        }
    });
}

#[test]
fn noise_of_telling_pieces_does_no_harm() {
    let pieces = [
        "module",
        "func.func",
        "@main",
        "%a",
        "%a:2",
        "#a",
        "#loc",
        "!t",
        "^bb0",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        "<{",
        "}>",
        "({",
        "})",
        ":",
        ",",
        "=",
        "->",
        "\n",
        "\n",
        "\"",
        "\"x\"",
        "loc(",
        "loc(#loc)",
        "dense<",
        "tensor<",
        "tensor<2xf32>",
        "x",
        "?",
        "1",
        "-1",
        "0x",
        "1.5",
        "e",
        "true",
        "stablehlo.add",
        "stablehlo.while",
        "stablehlo.reduce",
        "stablehlo.constant",
        "stablehlo.return",
        "return",
        "cond",
        "do",
        "reducer",
        "applies",
        "across",
        "dimensions",
        "init",
        "array<i64:",
        "{-#",
        "#-}",
        "//",
        "é",
        "\0",
        "callsite(",
        "fused[",
        "at",
        "\"builtin.module\"() ({",
        "\"func.func\"() ({",
        "attributes {",
        "private",
    ];
    on_small_stack(|| {
        let mut random = Random(5);
        for _ in 0..if is_long() { 1_000_000 } else { 20_000 } {
            let mut text = String::new();
            for _ in 0..random.below(40) {
                text += pieces[random.below(pieces.len())];
                text += if random.below(3) == 0 { "" } else { " " };
            }
            survive_and_print(&text);
            survive_and_print(&main_with(&text));
        }
    });
}

#[test]
fn unclosed_pieces_are_errors() {
    on_small_stack(|| {
        for piece in [
            "\"",
            "\"abc",
            "\"abc\\",
            "\"x.y\"(",
            "\"x.y\"() <{",
            "\"x.y\"() ({",
            "\"x.y\"() {a = [",
            "\"x.y\"() {a = \"b",
            "\"x.y\"() {a = #x<",
            "\"x.y\"() {a = dense<",
            "\"x.y\"() {a = array<i64: 1",
            "x.y loc(",
            "x.y : () -> () loc(\"a\"(",
            "x.y : () -> () loc(fused<",
            "x.y : () -> () loc(callsite(unknown at \"",
            "x.y : (",
            "x.y : tensor<",
            "x.y : tensor<2x",
            "x.y : tensor<2xf32, #",
            "%",
            "%a",
            "%a:",
            "%a =",
            "%a, ",
            "@",
            "{-#",
            "stablehlo.reduce(",
            "stablehlo.while(",
            "stablehlo.slice %x [",
            "stablehlo.slice %x [0:",
            "stablehlo.convolution(%x, %x) dim_numbers = [",
            "x.y {\"a",
        ] {
            breaks(&main_with(piece));
            breaks(&format!("func.func @main(%x: tensor<f32>) {{ {piece}"));
            breaks(piece);
        }
    });
}

// Names.

#[test]
fn names_have_one_definition_that_can_be_seen() {
    let add = |result: &str, operand: &str| format!("%{result} = stablehlo.add %{operand}, %x : tensor<f32>\n");
    let region = |body: &str| format!("\"x.y\"() ({{\n{body}}}) : () -> ()\n");
    on_small_stack(|| {
        works(&main_with(&(region(&add("a", "x")) + &region(&add("a", "x")))));
        works(&main_with(&(add("a", "x") + &region(&add("b", "a")))));
        breaks_with(&main_with(&add("x", "x")), "value `%x` is defined twice");
        breaks_with(&main_with(&(add("a", "x") + &region(&add("a", "x")))), "value `%a` is defined twice");
        breaks_with(&main_with(&(region(&add("a", "x")) + &add("b", "a"))), "use of undefined value `%a`");
        breaks_with(&main_with(&(add("a", "b") + &add("b", "x"))), "use of undefined value `%b`");
        breaks_with(&main_with(&add("a", "a")), "use of undefined value `%a`");
        breaks(&main_with("%a:2 = stablehlo.add %x, %x : tensor<f32>"));
        breaks(&main_with("%a, %b = stablehlo.add %x, %x : tensor<f32>"));
        breaks(&main_with("%a:0 = stablehlo.add %x, %x : tensor<f32>"));
        breaks(&main_with("%a:99999999999 = stablehlo.add %x, %x : tensor<f32>"));
        breaks(&main_with("%a = stablehlo.add %x#1, %x : tensor<f32>"));
        breaks(&main_with("%a = stablehlo.add %x#18446744073709551615, %x : tensor<f32>"));
        breaks(&main_with("%a = x.y : () -> ()"));
    });
}

#[test]
fn regions_have_one_block_with_one_end() {
    on_small_stack(|| {
        breaks(&main_with("cf.br ^bb1\n^bb1:"));
        breaks(&main_with("\"cf.br\"()[^bb1] : () -> ()"));
        breaks(&main_with("return %x : tensor<f32>"));
        breaks(&main_with("\"x.y\"() ({\n^bb0:\n^bb1:\n}) : () -> ()"));
        breaks(&main_with("\"x.y\"() ({\nstablehlo.return\nx.z : () -> ()\n}) : () -> ()"));
        breaks("func.func @main() -> tensor<f32> {\n}");
        breaks("func.func @main() {\n}");
        breaks("\"func.func\"() <{function_type = () -> (), sym_name = \"main\"}> ({\n}) : () -> ()");
        let generic = "\"func.func\"() <{function_type = () -> tensor<f32>, sym_name = \"main\"}> ({\n\"func.return\"() : () -> ()\n}) : () -> ()";
        breaks(generic);
        works(&generic.replace("() -> tensor<f32>", "() -> ()"));
    });
}

// Types and constants.

#[test]
fn unsupported_types_are_errors() {
    on_small_stack(|| {
        for ty in [
            "tensor<?xf32>",
            "tensor<2x?xf32>",
            "tensor<*xf32>",
            "tensor<-1xf32>",
            "tensor<2xq>",
            "tensor<2x!quant.uniform<i8:f32, 1.0>>",
            "tuple<tensor<f32>>",
            "memref<2xf32>",
            "vector<2xf32>",
            "index",
            "f32",
            "i64",
            "!t",
            "!quant.x",
            "none",
            "tensor<>",
            "tensor<2x>",
            "tensor<x>",
            "tensor",
            "tensor<2x3>",
            "tensor<f32",
            "tensor<2 x f32>",
            "tensor<complex<i32>>",
            "tensor<complex>",
            "tensor<f32, ",
            "tensor<9223372036854775808xf32>",
            "tensor<123456789012345678901234567890xf32>",
            "tensor<4294967296x4294967296xf32>",
            "tensor<1152921504606846977x0xf32>",
            "tensor<token>",
        ] {
            breaks(&main_with(&format!("\"x.y\"(%x) : (tensor<f32>) -> {ty}")));
            breaks(&format!("func.func @main(%x: {ty}) -> {ty} {{\nreturn %x : {ty}\n}}"));
        }
    });
}

#[test]
fn constants_fit_their_types() {
    on_small_stack(|| {
        for (body, ty) in [
            ("", "tensor<2xf32>"),
            ("[1.0]", "tensor<2xf32>"),
            ("[1.0, 2.0, 3.0]", "tensor<2xf32>"),
            ("[[1.0, 2.0]]", "tensor<2xf32>"),
            ("[1.0, [2.0]]", "tensor<2xf32>"),
            ("[[1.0], 2.0]", "tensor<2x1xf32>"),
            ("[1.0, 2.0", "tensor<2xf32>"),
            ("[1.0 2.0]", "tensor<2xf32>"),
            ("[1.0, 2.0],", "tensor<2xf32>"),
            ("1.0, 2.0", "tensor<2xf32>"),
            ("[]", "tensor<2xf32>"),
            ("1.0]", "tensor<f32>"),
            ("[1.0]", "tensor<f32>"),
            ("abc", "tensor<f32>"),
            ("\"abc\"", "tensor<f32>"),
            ("\"0x0000803\"", "tensor<f32>"),
            ("\"0x0000803F", "tensor<f32>"),
            ("\"0x0000803F00\"", "tensor<f32>"),
            ("\"0x0000803G\"", "tensor<f32>"),
            ("\"0x0000803é\"", "tensor<f32>"),
            ("\"0x\"", "tensor<f32>"),
            ("\"\"", "tensor<f32>"),
            ("\"", "tensor<f32>"),
            ("0x123456789", "tensor<f32>"),
            ("true", "tensor<f32>"),
            ("true", "tensor<i8>"),
            ("2", "tensor<i1>"),
            ("1.5", "tensor<i32>"),
            ("128", "tensor<i8>"),
            ("-129", "tensor<i8>"),
            ("-1", "tensor<ui8>"),
            ("1e", "tensor<f32>"),
            ("-", "tensor<f32>"),
            ("(1.0, 2.0)", "tensor<f32>"),
            ("1.0", "tensor<complex<f32>>"),
            ("(1.0)", "tensor<complex<f32>>"),
            ("(1.0, 2.0, 3.0)", "tensor<complex<f32>>"),
            ("123456789012345678901234567890123456789012345678901234567890", "tensor<i64>"),
            ("1", "!stablehlo.token"),
            ("__elided__", "tensor<f32>"),
        ] {
            breaks(&main_with(&format!("%c = stablehlo.constant dense<{body}> : {ty}")));
            breaks(&main_with(&format!(
                "%c = \"stablehlo.constant\"() <{{value = dense<{body}> : {ty}}}> : () -> {ty}"
            )));
        }
        breaks(&main_with("%c = stablehlo.constant dense_resource<__elided__> : tensor<2xf32>"));
        breaks(&main_with("%c = stablehlo.constant dense<1.0> : tensor<2x?xf32>"));
        breaks(&main_with("%c = stablehlo.constant dense<1.0"));
    });
}

#[test]
fn odd_constants_that_are_sound_survive_printing() {
    on_small_stack(|| {
        for (body, ty) in [
            ("", "tensor<0xf32>"),
            ("[]", "tensor<0xf32>"),
            ("1.0", "tensor<0x3xf32>"),
            ("1.0", "tensor<1000000x1000000xf32>"),
            ("\"0xFF\"", "tensor<i1>"),
            ("\"0xFF\"", "tensor<8xi1>"),
            ("\"0x01\"", "tensor<8xi1>"),
            ("\"0x02000100\"", "tensor<4xi1>"),
            ("\"0xFF\"", "tensor<i4>"),
            ("\"0xFF01\"", "tensor<2xi4>"),
            ("\"0xF1F2\"", "tensor<2xui2>"),
            ("\"0xFFC1\"", "tensor<2xf6E2M3FN>"),
            ("\"0x0000C07F\"", "tensor<f32>"),
            ("0xFFC00001", "tensor<f32>"),
            ("0x7FC1", "tensor<bf16>"),
            ("1e999", "tensor<f64>"),
            ("-0.0", "tensor<f16>"),
            ("5.9604644775390625e-08", "tensor<f16>"),
            ("0xFF", "tensor<f8E4M3FN>"),
            ("1.5", "tensor<f8E5M2>"),
            ("[(0x7FC00000, -0.0), (1.0, 2.0)]", "tensor<2xcomplex<f32>>"),
            ("-9223372036854775808", "tensor<i64>"),
            ("18446744073709551615", "tensor<ui64>"),
            ("[[true], [false]]", "tensor<2x1xi1>"),
            ("0x01", "tensor<i1>"),
        ] {
            works(&main_with(&format!("%c = stablehlo.constant dense<{body}> : {ty}\nx.y %c : ({ty}) -> ()")));
        }
    });
}

// Text that is carried from import to print.

#[test]
fn odd_names_survive_printing() {
    on_small_stack(|| {
        for name in [
            "",
            "a b",
            "a\\22b",
            "a\\\\b",
            "a\\\\22",
            "\\C3\\A9",
            "\\FF",
            "é",
            "\\0A",
            "[x]",
            "['[x]']",
            "a..b",
            ".a",
            "a['.b']",
            "a[b",
            "a['b]",
            "[[[[a]]]]",
            "a[\\22b]\\22]",
            "\\\\5Cn",
            "a[]",
            "a[''].b",
            "a]",
            "<",
            "x/y",
            "jit(f)/jit(g)",
        ] {
            let text = format!(
                "module @\"{name}\" {{\nfunc.func @main(%x: tensor<f32> loc(\"{name}\")) -> (tensor<f32> {{jax.result_info = \"{name}\"}}) {{\n\
                 x.y(%x) {{\"{name}\" = \"{name}\"}} : (tensor<f32>) -> () loc(\"{name}\"(\"{name}\":1:2))\n\
                 stablehlo.custom_call @\"{name}\"(%x) {{has_side_effect = true, backend_config = \"{name}\"}} : (tensor<f32>) -> ()\n\
                 return %x : tensor<f32>\n}}\n}}\n"
            );
            works(&text);
        }
    });
}

#[test]
fn odd_locations_survive_printing() {
    on_small_stack(|| {
        for location in [
            "unknown",
            "\"\"",
            "\"\":1:2",
            "\"a\":99999999999:0",
            "\"\"(\"\":1:2)",
            "\"a\"(\"\":1:2)",
            "\"a\"(\"b\"(\"c\":1:2))",
            "fused[unknown]",
            "fused<1>[\"a\":1:2, \"b\"]",
            "callsite(\"a\" at \"b\":1:1)",
        ] {
            works(&main_with(&format!("x.y : () -> () loc({location})")));
        }
    });
}

#[test]
fn arguments_become_results_that_are_there() {
    let function = |first: &str, second: &str| {
        format!(
            "func.func @main(%x: tensor<f32> {{tf.aliasing_output = {first}}}, %y: tensor<2xf32> {{tf.aliasing_output = {second}}}) \
             -> (tensor<f32>, tensor<2xf32>) {{\nreturn %x, %y : tensor<f32>, tensor<2xf32>\n}}"
        )
    };
    on_small_stack(|| {
        works(&function("0 : i32", "1 : i32"));
        for (first, second) in [
            ("2 : i32", "1 : i32"),
            ("1 : i32", "0 : i32"),
            ("1 : i32", "1 : i32"),
            ("-1 : i32", "1 : i32"),
            ("\"a\"", "1 : i32"),
            ("9223372036854775807", "1 : i32"),
        ] {
            breaks(&function(first, second));
        }
    });
}

#[test]
fn collectives_with_odd_groups_survive_printing() {
    let gather = |groups: &str| {
        main_with(&format!(
            "%g = \"stablehlo.collective_broadcast\"(%x) <{{replica_groups = {groups}}}> : (tensor<f32>) -> tensor<f32>\nx.y %g : (tensor<f32>) -> ()"
        ))
    };
    on_small_stack(|| {
        works(&gather("dense<> : tensor<0x0xi64>"));
        works(&gather("dense<> : tensor<2x0xi64>"));
        works(&gather("[[0, 1], [2]]"));
        works(&gather("dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>"));
        works(&gather("dense<0> : tensor<1x1xi64>"));
        breaks(&gather("dense<[[-1, 0]]> : tensor<1x2xi64>"));
        breaks(&gather("dense<0> : tensor<2x2xi64>"));
        breaks(&gather("dense<> : tensor<1000000000000x0xi64>"));
        breaks(&gather("dense<0> : tensor<1000000000000x1xi64>"));
    });
}

#[test]
fn numbers_that_are_no_numbers_are_refused() {
    on_small_stack(|| {
        for value in ["0x7FF8000000000000 : f64", "1e999 : f64", "0x7FC00000 : f32"] {
            breaks(&main_with(&format!(
                "stablehlo.custom_call @check.expect_almost_eq(%x, %x) {{has_side_effect = true, tolerance = {value}}} : (tensor<f32>, tensor<f32>) -> ()"
            )));
        }
        breaks(&main_with("x.y {a = array<i64: 9223372036854775808>} : () -> ()"));
        breaks(&main_with("x.y {a = array<i64: -9223372036854775809>} : () -> ()"));
        works(&main_with("x.y {a = array<i64: -9223372036854775808>} : () -> ()"));
        breaks(&main_with("%s = stablehlo.iota dim = 18446744073709551615 : tensor<2xi32>"));
    });
}

#[test]
fn attributes_come_once() {
    on_small_stack(|| {
        breaks(&main_with("x.y {a = 1, a = 2} : () -> ()"));
        breaks(&main_with("\"x.y\"() <{a = 1}> {a = 2} : () -> ()"));
        breaks(&main_with("%s = stablehlo.iota dim = 0, dim = 0 : tensor<2xi32>"));
    });
}

#[test]
fn a_long_list_in_any_attribute_takes_no_time() {
    let list = vec!["0"; 100_000].join(", ");
    on_small_stack(|| {
        for (place, name) in attributes(GENERIC) {
            let value = &GENERIC[place.start + name + 3..place.end];
            if value.contains('[') || value.starts_with("array") {
                let mut changed = GENERIC.to_owned();
                changed.replace_range(place.start + name + 3..place.end, &format!("[{list}]"));
                survive(&changed);
            }
        }
    });
}
