//! Runs that others measured, predicted: how far off predictions are is held here.

use std::collections::BTreeMap;

use meshwright::validate::{Outcome, Row, Score, parse_rows, score, validate};

/// A part of public measurements; the column `provenance` says where each was read.
const RUNS: &str = include_str!("../../../tests/validate/runs.csv");

fn scores(rows: &[Row], outcomes: &[Outcome]) -> BTreeMap<String, Score> {
    let mut sources: BTreeMap<String, Vec<(&Row, &Outcome)>> = BTreeMap::new();
    for pair in rows.iter().zip(outcomes) {
        sources.entry(pair.0.source_id.clone()).or_default().push(pair);
    }
    sources.into_iter().map(|(source, pairs)| (source, score(pairs))).collect()
}

#[test]
fn measured_runs_are_predicted_about_as_well_as_when_they_were_fitted() {
    let rows = parse_rows(RUNS).unwrap();
    let outcomes = validate(&rows, 2);
    let scores = scores(&rows, &outcomes);
    let median = |source: &str| scores[source].median_abs_error.unwrap();
    for (source, limit) in [
        ("bigscience_a100", 0.08),
        ("llmfoundry_mpt", 0.12),
        ("megatron_2020_tables_tex", 0.08),
        ("megatron_sc21_table1", 0.08),
        ("torchtitan_202412", 0.12),
        ("vtrain_multi", 0.08),
        ("vtrain_single", 0.12),
    ] {
        assert!(median(source) <= limit, "{source}: {:.3}", median(source));
    }
    let memory = scores["bigscience_a100"].memory_median_abs_error.unwrap();
    assert!(memory <= 0.1, "memory: {memory:.3}");
    let fits = score(rows.iter().zip(&outcomes)).fits_found.unwrap();
    assert!(fits >= 0.95, "fits: {fits:.3}");
}

#[test]
fn runs_that_do_not_say_what_they_recompute_do_as_little_as_fits() {
    let predicted = |recompute: &str, gpu: &str| {
        let text = format!(
            "source_id,system,model,layers,hidden,ffn,heads,kv_heads,seq,vocab,dtype,global_batch_seqs,micro_batch,tp,pp,\
             dp,recompute,gpu,n_gpus\nmine,NeMo,Llama,14,4096,14336,32,8,8192,32000,bf16,2,1,1,2,1,{recompute},{gpu},2\n"
        );
        match validate(&parse_rows(&text).unwrap(), 1).remove(0) {
            Outcome::Predicted(prediction) => prediction,
            Outcome::Skipped(reason) => panic!("{reason}"),
        }
    };
    let [none, full] = ["none", "full"].map(|recompute| predicted(recompute, "H100"));
    assert!(none.fits && full.fits && full.peak_bytes < none.peak_bytes);
    assert_eq!(predicted("", "H100"), none);
    let [none, some, full] = ["none", "", "full"].map(|recompute| predicted(recompute, "A100-40GB"));
    assert!(!none.fits && some.fits && full.fits, "{none:?} {some:?} {full:?}");
    assert!(some.seconds < full.seconds);
}

#[test]
fn the_same_rows_give_the_same_predictions_whatever_the_threads() {
    let mut rows = parse_rows(RUNS).unwrap();
    rows.retain(|row| row.source_id == "vtrain_single");
    rows.truncate(4);
    let predicted = |threads| format!("{:?}", validate(&rows, threads));
    assert_eq!(predicted(1), predicted(3));
}

#[test]
fn rows_that_cannot_be_expressed_say_why() {
    let row = |changes: &[(&str, &str)]| {
        let mut cells: BTreeMap<&str, &str> = BTreeMap::from([
            ("source_id", "mine"),
            ("system", "Megatron-LM"),
            ("model", "GPT"),
            ("layers", "2"),
            ("hidden", "64"),
            ("heads", "4"),
            ("seq", "32"),
            ("dtype", "fp16"),
            ("global_batch_seqs", "8"),
            ("micro_batch", "2"),
            ("tp", "1"),
            ("pp", "1"),
            ("dp", "2"),
            ("gpu", "A100"),
            ("n_gpus", "2"),
        ]);
        cells.extend(changes.iter().copied());
        let names: Vec<&str> = cells.keys().copied().collect();
        let values: Vec<&str> = cells.values().copied().collect();
        parse_rows(&format!("{}\n{}\n", names.join(","), values.join(","))).unwrap()
    };
    let reason = |changes: &[(&str, &str)]| match &validate(&row(changes), 1)[0] {
        Outcome::Skipped(reason) => reason.clone(),
        Outcome::Predicted(_) => "predicted".to_owned(),
    };
    assert_eq!(reason(&[]), "predicted");
    assert_eq!(reason(&[("hidden", "")]), "`hidden` is not given");
    assert_eq!(reason(&[("gpu", "abacus")]), "`abacus` is not in the catalog");
    assert_eq!(reason(&[("dp", "3")]), "3 x 1 x 1 x 1 are not the 2 devices");
    assert_eq!(reason(&[("micro_batch", "3")]), "a batch of 8 is not made of 3 on each of 2");
    assert_eq!(reason(&[("dtype", "NVFP4")]), "products of 4-bit numbers are not expressed");
    assert_eq!(reason(&[("tp", "two")]), "`two` is no `tp`");
}

#[test]
fn tables_without_needed_columns_are_refused() {
    assert_eq!(parse_rows("model,gpu\na,b\n").unwrap_err(), "the table has no column `source_id`");
    assert!(parse_rows("source_id,model,gpu,n_gpus\na,b\n").unwrap_err().contains("found record with 2 fields"));
}
