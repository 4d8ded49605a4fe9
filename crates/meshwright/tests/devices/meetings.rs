//! Who meets whom and when, and that nobody waits forever.

use meshwright::interpret::{Options, evaluate};

use super::{program, results, run, tensor};

#[test]
fn processes_know_their_replica_and_partition() {
    let program = program(
        [2, 3],
        "func.func @main() -> (tensor<ui32>, tensor<ui32>) {
           %r = stablehlo.replica_id : tensor<ui32>
           %p = stablehlo.partition_id : tensor<ui32>
           return %r, %p : tensor<ui32>, tensor<ui32>
         }",
    );
    let expected = [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [1.0, 0.0], [1.0, 1.0], [1.0, 2.0]];
    assert_eq!(results(&program, &vec![Vec::new(); 6]), expected);
}

/// Adds `%x` over both processes, `%n` times.
const LOOP: &str = "func.func @main(%n: tensor<i64>, %x: tensor<i64>) -> tensor<i64> {
    %zero = stablehlo.constant dense<0> : tensor<i64>
    %r:3 = stablehlo.while(%i = %zero, %m = %n, %y = %x) : tensor<i64>, tensor<i64>, tensor<i64>
    cond {
      %c = stablehlo.compare LT, %i, %m : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i64>
      %j = stablehlo.add %i, %one : tensor<i64>
      %s = \"stablehlo.all_reduce\"(%y) ADD(i64) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
        : (tensor<i64>) -> tensor<i64> loc(\"step.py\":12:3)
      stablehlo.return %j, %m, %s : tensor<i64>, tensor<i64>, tensor<i64>
    }
    return %r#2 : tensor<i64>
  }";

/// Runs a collective or, where `%n` says so, something else.
const BRANCH: &str = "func.func @main(%n: tensor<i32>, %x: tensor<i64>) -> tensor<i64> {
    %r = \"stablehlo.case\"(%n) ({
      %s = \"stablehlo.all_reduce\"(%x) ADD(i64) {replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>}
        : (tensor<i64>) -> tensor<i64>
      stablehlo.return %s : tensor<i64>
    }, {
      %s = \"stablehlo.collective_permute\"(%x) {source_target_pairs = dense<[[1, 0], [2, 1]]> : tensor<2x2xi64>}
        : (tensor<i64>) -> tensor<i64>
      stablehlo.return %s : tensor<i64>
    }, {
      stablehlo.return %x : tensor<i64>
    }, {
      %s = stablehlo.custom_call @mine(%x) : (tensor<i64>) -> tensor<i64>
      stablehlo.return %s : tensor<i64>
    }) : (tensor<i32>) -> tensor<i64>
    return %r : tensor<i64>
  }";

#[test]
fn collectives_in_loops_meet_once_per_trip() {
    let program = program([2, 1], LOOP);
    assert_eq!(results(&program, &[vec![&[3.0], &[1.0]], vec![&[3.0], &[2.0]]]), [[12.0], [12.0]]);
}

#[test]
fn groups_need_not_wait_for_each_other() {
    // Two pairs of processes run the loop a different number of times.
    let text = LOOP.replace("[[0, 1]]> : tensor<1x2xi64>", "[[0, 2], [1, 3]]> : tensor<2x2xi64>");
    let program = program([4, 1], &text);
    let inputs: Vec<Vec<&[f64]>> =
        vec![vec![&[1.0], &[1.0]], vec![&[9.0], &[1.0]], vec![&[1.0], &[2.0]], vec![&[9.0], &[0.0]]];
    assert_eq!(results(&program, &inputs), [[3.0], [256.0], [3.0], [256.0]]);
}

#[test]
fn who_waits_for_a_process_that_ended_is_told() {
    let program = program([2, 1], LOOP);
    let error = run(&program, &[vec![&[3.0], &[1.0]], vec![&[2.0], &[1.0]]]).expect_err("process 1 ends early");
    let message = "no process can go on: process 0 at `stablehlo.all_reduce` (%15) for process 1; process 1 ended";
    assert_eq!(error.message, message, "{program}");
    let location = &program.locations[error.location];
    assert_eq!((&*location.file, location.line, location.column), ("step.py", 12, 3));
}

#[test]
fn who_waits_in_another_collective_is_told() {
    let program = program([3, 1], BRANCH);
    let case = |choices: [f64; 3]| {
        let inputs: Vec<Vec<&[f64]>> =
            choices.iter().map(|choice| vec![std::slice::from_ref(choice), &[1.0]]).collect();
        run(&program, &inputs).map(|_| ()).map_err(|error| error.message)
    };
    assert_eq!(case([0.0; 3]), Ok(()));
    assert_eq!(case([1.0; 3]), Ok(()));
    assert_eq!(case([2.0; 3]), Ok(()));
    let (sum, permute) = ("`stablehlo.all_reduce` (%3)", "`stablehlo.collective_permute` (%7)");
    let stalled = |what: String| Err(format!("no process can go on: {what}"));
    assert_eq!(
        case([1.0, 0.0, 1.0]),
        stalled(format!("process 1 at {sum} for processes 0, 2; processes 0, 2 at {permute} for process 1")),
        "{program}"
    );
    assert_eq!(case([2.0, 0.0, 2.0]), stalled(format!("process 1 at {sum} for processes 0, 2; processes 0, 2 ended")));
}

#[test]
fn a_failing_process_ends_all_with_its_error() {
    let program = program([3, 1], BRANCH);
    // Whoever fails first in time, the first by number is reported.
    for _ in 0..50 {
        let inputs: [Vec<&[f64]>; 3] = [vec![&[0.0], &[1.0]], vec![&[3.0], &[1.0]], vec![&[3.0], &[1.0]]];
        let error = run(&program, &inputs).expect_err("custom calls fail");
        assert_eq!(error.message, "process 1: custom call `mine` has no meaning here");
    }
}

#[test]
fn what_cannot_be_run_says_so() {
    let gather = "func.func @main(%x: tensor<1xi64>) -> tensor<2xi64> {
        %r = \"stablehlo.all_gather\"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<GROUPS>}
          : (tensor<1xi64>) -> tensor<2xi64>
        return %r : tensor<2xi64>
      }";
    let error = |groups: &str, inputs: &[Vec<&[f64]>]| {
        let program = program([2, 1], &gather.replace("GROUPS", groups));
        run(&program, inputs).expect_err("a program that cannot be run").message
    };
    let (one, both): (Vec<&[f64]>, [Vec<&[f64]>; 2]) = (vec![&[1.0]], [vec![&[1.0]], vec![&[2.0]]]);
    let all = "[[0, 1]]> : tensor<1x2xi64";
    assert_eq!(error(all, &[one]), "the program has 2 processes but arguments for 1 were given");
    assert_eq!(error(all, &[both[0].clone(), Vec::new()]), "process 1: the program has 1 arguments but 0 were given");
    assert_eq!(
        error("[[0, 7]]> : tensor<1x2xi64", &both),
        "process 0: a group of `stablehlo.all_gather` has replica 7, which is not below 2"
    );
    assert_eq!(
        error("[[1]]> : tensor<1x1xi64", &both),
        "process 0: no group of `stablehlo.all_gather` has this process"
    );
    assert_eq!(
        error("[[0], [1]]> : tensor<2x1xi64", &both),
        "process 0: `stablehlo.all_gather` has shapes for a group of 2, but the group has 1"
    );
    let program = program([2, 1], &gather.replace("GROUPS", all));
    let argument = tensor(program.ty(program.body().arguments[0]), &[1.0]);
    let alone = evaluate(&program, &[argument], Options { wide: false }).expect_err("the other is missing");
    assert_eq!(alone.message, "`stablehlo.all_gather` is across 2 processes, and only one is evaluated");
}

#[test]
fn sixty_four_processes_pass_values_round_a_ring() {
    let pairs: Vec<String> = (0..64).map(|id| format!("[{id}, {}]", (id + 1) % 64)).collect();
    let ring = format!(
        "\"stablehlo.collective_permute\"(%y) {{source_target_pairs = dense<[{}]> : tensor<64x2xi64>,
         CHANNEL}} : (tensor<i64>) -> tensor<i64>",
        pairs.join(", ")
    );
    let start = LOOP.find("\"stablehlo.all_reduce\"").expect("the loop adds");
    let end = LOOP.find(" loc(").expect("the sum has a location");
    let program = program([1, 64], &format!("{}{ring}{}", &LOOP[..start], &LOOP[end..]));
    let own: Vec<f64> = (0..64).map(f64::from).collect();
    let inputs: Vec<Vec<&[f64]>> = own.iter().map(|id| vec![&[65.0][..], std::slice::from_ref(id)]).collect();
    let expected: Vec<Vec<f64>> = (0..64).map(|id| vec![f64::from((id + 63) % 64)]).collect();
    assert_eq!(results(&program, &inputs), expected);
}
