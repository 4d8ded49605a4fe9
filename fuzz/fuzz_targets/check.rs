//! What holds whatever the text.

use std::sync::Arc;

use meshwright::import::{Severity, import};
use meshwright::program::{AttentionForm, PrintOptions, print};

pub fn survives(text: &str) {
    let imported = import(&Arc::from(text));
    for diagnostic in &imported.diagnostics {
        assert!(text.get(diagnostic.span.clone()).is_some(), "{diagnostic:?}");
    }
    let has_error = imported.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
    assert_ne!(has_error, imported.program.is_some());
    let Some(program) = imported.program else { return };
    program.verify().expect("an imported program is well formed");
    let pairs = program.state_pairs();
    assert_eq!(program.argument_classes(&pairs).len(), program.arguments.len());
    program.repeats();
    // Millions of ops would be made of a long loop before it is refused.
    let is_short = program.ops.ids().filter_map(|op| program.counted_loop(op)).all(|counted| counted.trips <= 1000);
    if let Some(unrolled) = is_short.then(|| program.unroll().ok()).flatten() {
        unrolled.verify().expect("an unrolled program is well formed");
    }
    let printed: Arc<str> = print(&program, PrintOptions { locations: true, attention: AttentionForm::CustomCall }).into();
    let again = import(&printed);
    assert!(again.program.is_some(), "{:?} in\n{printed}", again.diagnostics);
    assert!(again.program == Some(program), "printed and read again, this changes:\n{printed}");
}
