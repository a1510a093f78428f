//! The declarations of harnesses: those that are shipped (`platforms/harnesses/`,
//! compiled in), and those of a configuration over them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::{DeclaredHarness, DeclaredName};

const SHIPPED: &[(&str, &str)] = &[
    ("codex", include_str!("../../../platforms/harnesses/codex.yaml")),
    ("copilot", include_str!("../../../platforms/harnesses/copilot.yaml")),
    ("gemini", include_str!("../../../platforms/harnesses/gemini.yaml")),
    ("opencode", include_str!("../../../platforms/harnesses/opencode.yaml")),
];

/// The declarations that are shipped.
///
/// # Panics
/// Not in a build whose tests have passed: they read every file.
pub fn shipped() -> &'static BTreeMap<DeclaredName, DeclaredHarness> {
    static READ: OnceLock<BTreeMap<DeclaredName, DeclaredHarness>> = OnceLock::new();
    READ.get_or_init(|| {
        let read = SHIPPED.iter().map(|(name, text)| {
            let name = name.parse().expect("a test reads the names");
            (name, serde_yaml::from_str(text).expect("a test reads the compiled-in files"))
        });
        read.collect()
    })
}

/// Every declaration in effect: `own` are those of the configuration.
pub fn declarations(
    own: &BTreeMap<DeclaredName, DeclaredHarness>,
) -> BTreeMap<DeclaredName, DeclaredHarness> {
    let mut all = shipped().clone();
    for (name, declaration) in own {
        let whole = match all.get(name) {
            Some(base) => declaration.over(base),
            None => declaration.clone(),
        };
        all.insert(name.clone(), whole);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_declaration_is_whole() {
        for (name, declaration) in shipped() {
            assert_eq!(declaration.lacks(), None, "{name}");
            assert!(declaration.install.is_some(), "{name}");
            assert!(declaration.minimum.is_some(), "{name}");
        }
        assert_eq!(shipped().len(), SHIPPED.len());
    }
}
