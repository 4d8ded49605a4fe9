//! What is explained, as JSON.

use meshwright_report::plan::{ArgumentPart, ClassPart, PlanFile, UsedAxis, axes};
use serde_json::{Value, json};

use super::{DecidedBy, Found};

pub(super) fn summary(file: &PlanFile) -> Value {
    let mut classes: Vec<&ClassPart> = file.classes.iter().collect();
    let seconds = |class: &ClassPart| class.compute_seconds + class.moving_seconds;
    classes.sort_by(|left, right| seconds(right).total_cmp(&seconds(left)));
    let axis =
        |axis: &UsedAxis<'_>| json!({ "name": axis.name, "size": axis.size, "time": axis.is_time, "uses": axis.uses });
    json!({
        "model": file.model.name,
        "settings": file.model.settings,
        "cluster": file.cluster.name,
        "engine": file.engine,
        "mesh": file.whole_mesh(),
        "microbatches": file.microbatches,
        "memory_limit": file.memory_limit,
        "results": file.results,
        "axes": axes(file).iter().map(axis).collect::<Vec<_>>(),
        "classes": classes.into_iter().map(class).collect::<Vec<_>>(),
    })
}

pub(super) fn found(file: &PlanFile, found: &Found<'_>) -> Value {
    let argument = |argument: &&ArgumentPart| {
        let mut object = json!(argument);
        let by = argument.decided_by.and_then(|number| file.classes.get(number));
        object["decided_by"] = by.map_or(Value::Null, class);
        object
    };
    json!({
        "arguments": found.arguments.iter().map(argument).collect::<Vec<_>>(),
        "classes": found.classes.iter().map(|found| class(found)).collect::<Vec<_>>(),
    })
}

fn class(class: &ClassPart) -> Value {
    let mut object = json!(class);
    object["decided_by"] = json!(DecidedBy::of(class).name());
    object
}
