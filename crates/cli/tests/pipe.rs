//! A reader that has seen enough closes the pipe; that is no error.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

#[test]
fn a_closed_pipe_ends_the_command_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_meshwright"))
        .args(["print", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    stdin.write_all(long_model().as_bytes()).expect("the command reads its input");
    drop(stdin);
    let mut stdout = child.stdout.take().expect("standard output is a pipe");
    stdout.read_exact(&mut [0; 6]).expect("the command prints something");
    drop(stdout);
    let output = child.wait_with_output().expect("the command ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
}

/// A model whose text is longer than what a pipe holds.
fn long_model() -> String {
    let mut text = "func.func @main(%v0: tensor<f32>) -> tensor<f32> {\n".to_owned();
    let count = 5000;
    for index in 0..count {
        let _ = writeln!(text, "  %v{} = stablehlo.add %v{index}, %v{index} : tensor<f32>", index + 1);
    }
    let _ = write!(text, "  return %v{count} : tensor<f32>\n}}\n");
    text
}
