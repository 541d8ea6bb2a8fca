//! Finds the known name that a misspelt one most likely means.

/// The most similar of `known`, if it is similar enough to suggest.
pub(crate) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = folded(given);
    let room = (given.chars().count() / 3).clamp(1, 4);
    known
        .into_iter()
        .filter_map(|name| {
            let known = folded(name);
            let distance = strsim::damerau_levenshtein(&given, &known);
            // `allow` for `allowed`, `apiKey` for `apiKeyEnv`.
            let begins = given.len() >= 4 && (known.starts_with(&given) || given.starts_with(&known));
            (distance <= room || begins && distance <= 4).then_some((distance, name))
        })
        .min_by_key(|(distance, name)| (*distance, name.len()))
        .map(|(_, name)| name)
}

/// `max_iterations`, `max-iterations` and `MaxIterations` all mean `maxIterations`.
fn folded(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: &str, expected: Option<&str>) {
        let known = ["provider", "arbiter", "maxIterations", "maxTokens", "model", "onSuccess"];
        assert_eq!(nearest(given, known), expected, "{given}");
    }

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        check("provder", Some("provider"));
        check("providers", Some("provider"));
        check("max_iterations", Some("maxIterations"));
        check("maxIteration", Some("maxIterations"));
        check("onsucces", Some("onSuccess"));
        check("modle", Some("model"));
        check("prov", Some("provider"));
        check("something", None);
        check("mode", Some("model"));
        check("", None);
    }
}
