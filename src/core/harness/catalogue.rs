//! Every harness by its name: those of this program, those it ships as
//! declarations, and those of the configuration.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::{Claude, Cursor, Declared, Demo, Harness};
use crate::core::config::{DeclaredHarness, DeclaredName, HarnessName, declarations};

/// The harnesses that there are. Clones share them.
#[derive(Debug, Clone)]
pub struct Harnesses {
    declared: Arc<BTreeMap<DeclaredName, Arc<Declared>>>,
}

/// There is no harness of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no harness `{name}` is known any more; there is {known}")]
pub struct UnknownHarness {
    name: HarnessName,
    known: String,
}

impl Harnesses {
    /// Those of a configuration that declares these. `home` is the user's.
    pub fn new(own: &BTreeMap<DeclaredName, DeclaredHarness>, home: Option<&Path>) -> Self {
        let declared = declarations(own).into_iter().map(|(name, declaration)| {
            let declared = Declared::new(name.clone(), &declaration, home);
            (name, Arc::new(declared))
        });
        Self { declared: Arc::new(declared.collect()) }
    }

    /// The harness of this name.
    pub fn get(&self, name: &HarnessName) -> Result<Harness, UnknownHarness> {
        match name {
            HarnessName::Claude => Ok(Harness::Claude(Claude)),
            HarnessName::Cursor => Ok(Harness::Cursor(Cursor)),
            HarnessName::Demo => Ok(Harness::Demo(Demo)),
            HarnessName::Declared(declared) => match self.declared.get(declared) {
                Some(declared) => Ok(Harness::Declared(Arc::clone(declared))),
                None => Err(UnknownHarness { name: name.clone(), known: self.list() }),
            },
        }
    }

    /// Their names, in the order of the alphabet.
    pub fn names(&self) -> Vec<HarnessName> {
        let declared = self.declared.keys().cloned().map(HarnessName::Declared);
        let mut names: Vec<_> = HarnessName::BUILT_IN.into_iter().chain(declared).collect();
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names
    }

    /// Their names in a line.
    pub fn list(&self) -> String {
        self.names().iter().map(HarnessName::as_str).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_no_longer_declared_is_named_with_those_that_are_there() {
        let harnesses = Harnesses::new(&BTreeMap::new(), None);
        for name in harnesses.names() {
            assert_eq!(harnesses.get(&name).unwrap().name(), name);
        }
        let error = harnesses.get(&"mine".parse().unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no harness `mine` is known any more; there is claude, codex, copilot, cursor, demo, \
             gemini, opencode"
        );
    }
}
