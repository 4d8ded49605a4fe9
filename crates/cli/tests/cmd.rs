//! Every file in `cmd/` says what commands print and with which code they exit, and so do the transcripts in
//! guides. `BLESS=1` rewrites what they print.

use std::env;
use std::process::Command;

#[test]
fn commands() {
    // The library is told by a variable of its own, which is read once, before any test.
    if env::var_os("BLESS").is_some() && env::var_os("TRYCMD").is_none() {
        let this = env::current_exe().expect("the test is a file");
        let status = Command::new(this).args(["commands", "--exact"]).env("TRYCMD", "overwrite").status();
        assert!(status.is_ok_and(|status| status.success()), "not every file could be rewritten");
    }
    trycmd::TestCases::new()
        .case("tests/cmd/*.trycmd")
        .case("tests/cmd/*.toml")
        .case("../../docs/guides/clusters.md")
        .case("../../docs/guides/first-plan.md")
        .case("../../docs/guides/profile.md")
        .case("../../docs/guides/report.md")
        .case("../../docs/guides/rules.md")
        .case("../../README.md")
        .env("NO_COLOR", "1");
}
