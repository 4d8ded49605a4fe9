//! How the tests went: a table of steps and one closing line.

use std::fmt;
use std::time::Duration;

/// One step that was run.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) succeeded: bool,
    pub(crate) counts: Counts,
    pub(crate) time: Duration,
}

/// All steps. Its text is a table and the closing line `N passed, N failed`.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    steps: Vec<Step>,
}

impl Summary {
    pub(crate) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.steps.iter().all(|step| step.succeeded)
    }

    /// Tests of all steps. A step that fails without a failed test, such as a build, is a failure
    /// of its own, so that nothing failed never looks like success.
    fn total(&self) -> Counts {
        let mut total = Counts::default();
        for step in &self.steps {
            total.passed += step.counts.passed;
            total.failed += step.counts.failed;
            if !step.succeeded && step.counts.failed == 0 {
                total.failed += 1;
            }
        }
        total
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:10}{:>8}{:>8}{:>8}{:>9}", "step", "result", "passed", "failed", "seconds")?;
        for step in &self.steps {
            let result = if step.succeeded { "ok" } else { "FAILED" };
            let Counts { passed, failed } = step.counts;
            let seconds = step.time.as_secs_f64();
            writeln!(f, "{:10}{result:>8}{passed:>8}{failed:>8}{seconds:>9.1}", step.name)?;
        }
        let Counts { passed, failed } = self.total();
        write!(f, "\n{passed} passed, {failed} failed")
    }
}

/// How many tests ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl Counts {
    /// Adds what a line of a test runner's output says: the `test result:` line of cargo's runner
    /// and of libtest-mimic, the closing line of pytest, or those of Node's runner.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some((kind, number)) = line.strip_prefix("ℹ ").and_then(|rest| rest.split_once(' ')) {
            match (kind, number.trim().parse::<usize>()) {
                ("pass", Ok(number)) => self.passed += number,
                ("fail" | "cancelled", Ok(number)) => self.failed += number,
                _ => {}
            }
            return;
        }
        let line = line.trim().trim_matches('=').trim();
        let is_cargo = line.starts_with("test result:");
        let is_pytest = line.rsplit_once(" in ").is_some_and(|(_, time)| is_pytest_time(time))
            && line.starts_with(|first: char| first.is_ascii_digit());
        if !is_cargo && !is_pytest {
            return;
        }
        let words: Vec<&str> = line.split([' ', ',', ';', '.']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(number) = pair[0].parse::<usize>() else { continue };
            match pair[1] {
                "passed" => self.passed += number,
                // Pytest calls a test whose preparation failed an error.
                "failed" | "error" | "errors" => self.failed += number,
                _ => {}
            }
        }
    }
}

/// Whether a text is `0.12s` or `65.43s (0:01:05)`.
fn is_pytest_time(text: &str) -> bool {
    let time = text.split(' ').next().unwrap_or_default();
    time.strip_suffix('s').is_some_and(|seconds| seconds.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, passed: usize, failed: usize) {
        let mut counts = Counts::default();
        counts.read(line);
        assert_eq!(counts, Counts { passed, failed });
    }

    #[test]
    fn closing_lines_are_counted_and_others_are_not() {
        check("test result: ok. 9 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s", 9, 0);
        check(
            "test result: FAILED. 5 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.12s",
            5,
            4,
        );
        check("3 passed in 0.01s", 3, 0);
        check("ℹ pass 12", 12, 0);
        check("ℹ fail 2", 0, 2);
        check("  ℹ 100 operations", 0, 0);
        check("===== 1 failed, 2 passed, 1 error in 65.43s (0:01:05) =====", 2, 2);
        check("test numbers::5_passed ... ok", 0, 0);
        check("5 passed checks are printed in red", 0, 0);
    }

    #[test]
    fn a_step_that_fails_without_tests_counts_as_a_failure() {
        let mut summary = Summary::default();
        let time = Duration::from_millis(1500);
        summary.push(Step { name: "rust", succeeded: true, counts: Counts { passed: 7, failed: 0 }, time });
        summary.push(Step { name: "command", succeeded: false, counts: Counts::default(), time });
        assert_eq!(
            summary.to_string(),
            "step        result  passed  failed  seconds\n\
             rust            ok       7       0      1.5\n\
             command     FAILED       0       0      1.5\n\
             \n\
             7 passed, 1 failed"
        );
    }
}
