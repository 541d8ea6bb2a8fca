//! The config that XState v5's `createMachine` loads.
//!
//! JSON carries no code, so guards and actions appear by name; `bindings/xstate` implements them. The rest is here:
//! states, transitions in order, descriptions, and the initial context with the default limits.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::super::action::Action;
use super::super::state::{Context, Limits, State};
use super::super::table::{INITIAL, Row, STATES, StateRow, Trigger};
use super::rows_from;

/// The config as indented JSON, ending in a line break.
///
/// # Errors
/// Does not occur: every part has a JSON form.
pub fn xstate() -> Result<String, serde_json::Error> {
    let mut json = serde_json::to_string_pretty(&XStateConfig::new()?)?;
    json.push('\n');
    Ok(json)
}

#[derive(serde::Serialize)]
struct XStateConfig {
    id: &'static str,
    description: &'static str,
    initial: State,
    context: Map<String, Value>,
    states: InOrder<StateConfig>,
}

#[derive(serde::Serialize)]
struct StateConfig {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    description: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    entry: Vec<ParameterizedObject>,
    #[serde(skip_serializing_if = "InOrder::is_empty")]
    on: InOrder<Vec<Transition>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    always: Vec<Transition>,
}

#[derive(serde::Serialize)]
struct Transition {
    #[serde(skip_serializing_if = "Option::is_none")]
    guard: Option<ParameterizedObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<State>,
    /// Without this, XState treats a transition to the same state as internal and runs no entry actions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    reenter: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    actions: Vec<ParameterizedObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'static str>,
}

/// A guard or an action by name, with the parameters that context and event do not give it.
#[derive(serde::Serialize)]
struct ParameterizedObject {
    #[serde(rename = "type")]
    name: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    params: BTreeMap<&'static str, State>,
}

/// A JSON object whose keys keep their order.
struct InOrder<T>(Vec<(&'static str, T)>);

impl XStateConfig {
    fn new() -> Result<Self, serde_json::Error> {
        Ok(Self {
            id: "rawko",
            description: "Runs a task with several agents: an arbiter selects one, it works, its work is judged.",
            initial: INITIAL,
            context: context()?,
            states: InOrder(STATES.iter().map(|row| (row.state.as_str(), StateConfig::new(row))).collect()),
        })
    }
}

/// The initial context, with the limits as further fields.
fn context() -> Result<Map<String, Value>, serde_json::Error> {
    let mut all = Map::new();
    for part in [serde_json::to_value(Context::default())?, serde_json::to_value(Limits::default())?] {
        if let Value::Object(fields) = part {
            all.extend(fields);
        }
    }
    Ok(all)
}

impl StateConfig {
    fn new(row: &StateRow) -> Self {
        let mut on: InOrder<Vec<Transition>> = InOrder(Vec::new());
        let mut always = Vec::new();
        for transition in rows_from(row.state) {
            let config = Transition::new(row.state, transition);
            match transition.trigger {
                Trigger::Event(kind) => on.entry(kind.as_str()).push(config),
                Trigger::Always => always.push(config),
            }
        }
        Self {
            kind: row.state.is_final().then_some("final"),
            description: row.description,
            entry: named(row.entry, row.state),
            on,
            always,
        }
    }
}

impl Transition {
    fn new(from: State, row: &Row) -> Self {
        Self {
            guard: row.guard.map(|guard| ParameterizedObject { name: guard.name(), params: BTreeMap::new() }),
            target: row.target,
            reenter: row.target == Some(from),
            actions: named(row.actions, from),
            description: row.guard.map(super::super::guard::Guard::description),
        }
    }
}

fn named(actions: &[Action], state: State) -> Vec<ParameterizedObject> {
    let one = |action: &Action| ParameterizedObject {
        name: action.name(),
        params: action.concerns_state().then_some(("state", state)).into_iter().collect(),
    };
    actions.iter().map(one).collect()
}

impl<T> InOrder<T> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Default> InOrder<T> {
    /// The value of `key`; a missing key is added at the end.
    fn entry(&mut self, key: &'static str) -> &mut T {
        let at = self.0.iter().position(|(existing, _)| *existing == key).unwrap_or_else(|| {
            self.0.push((key, T::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}

impl<T: Serialize> Serialize for InOrder<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
