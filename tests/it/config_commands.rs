//! `config show`, `config check`, `config schema`; and that every key that is
//! declared is read by somebody, or says that it is not.

use std::path::Path;

use the_loop::core::config::{Config, WITHOUT_EFFECT, is_among, json_schema, leaves};

use crate::support::{World, unbroken};

#[test]
fn every_value_is_shown_with_its_origin_and_no_secret_is() {
    let world = World::new("rateLimit: 3\nauthorizedUsers: [alice, bob]");
    let text = std::fs::read_to_string(world.config()).unwrap();
    // The line with alice alone would be a key given twice.
    std::fs::write(world.config(), text.replacen("  authorizedUsers: [alice]\n", "", 1)).unwrap();
    let (code, out, err) = world.run(&["config", "show"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for said in [
        "routing.enabled                   default  true",
        "routing.rateLimit                 line 8   3",
        "routing.authorizedUsers           line 9   [alice, bob]",
        "webhook's secret: there is one, from the environment",
    ] {
        assert!(out.contains(said), "{said}\n{out}");
    }
    assert!(out.lines().skip(1).all(|line| line.chars().count() <= 80), "{out}");
    assert!(!out.contains(crate::support::SECRET), "{out}");

    let (code, out, _) = world.run(&["config", "show", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &value["schema"], &value["fileOrigin"]), (0, &1.into(), &"found".into()));
    let values = value["values"].as_array().unwrap();
    assert_eq!(values.len(), leaves(&Config::default()).len());
    let of = |key: &str| values.iter().find(|value| value["key"] == key).unwrap().clone();
    assert_eq!(of("routing.rateLimit")["line"], 8);
    assert_eq!(of("state.dir")["origin"], "default");
    assert!(of("state.dir")["value"].as_str().unwrap().contains("/.local/state/the-loop/"));
    assert!(!out.contains(crate::support::SECRET), "{out}");

    let mut command = world.command(&["config", "show", "--json"]);
    let out = command.env("THE_LOOP_HOME", world.home.join("own")).output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let values = value["values"].as_array().unwrap();
    let dir = values.iter().find(|value| value["key"] == "state.dir").unwrap();
    assert_eq!(
        (&dir["origin"], &dir["variable"]),
        (&"environment".into(), &"THE_LOOP_HOME".into())
    );
}

#[test]
fn a_check_notes_what_has_no_effect_and_refuses_what_is_wrong() {
    let world = World::new("maxSessions: 3\nworkspace: {enabled: true}");
    let (code, out, err) = world.run(&["config", "check"]);
    assert_eq!(code, 0);
    assert!(out.ends_with("/.the-loop/config.yaml is valid\n"), "{out}");
    for key in ["routing.maxSessions", "routing.workspace.enabled"] {
        if is_among(key, WITHOUT_EFFECT) {
            assert!(err.contains(&format!("`{key}` has no effect in this version")), "{err}");
        }
    }
    std::fs::write(world.config(), "webhooks: {ghWebhook: {events: [issues, push]}}\n").unwrap();
    let (code, _, err) = world.run(&["config", "check"]);
    assert!(code == 0 && err.contains("`push` is recorded, and acted on by nobody"), "{err}");
    assert!(!err.contains("`issues`"), "{err}");
    // What no receiver would start with is not called valid.
    let template = world.project.join("t.md");
    std::fs::write(world.config(), "routing: {promptTemplate: t.md}\n").unwrap();
    for (text, said) in [(None, "t.md`"), (Some("x\n{% if %}"), ":2)")] {
        if let Some(text) = text {
            std::fs::write(&template, text).unwrap();
        }
        let (code, out, err) = world.run(&["config", "check"]);
        assert_eq!((code, out.as_str()), (1, ""));
        let pointed = "`routing.promptTemplate`: ";
        assert!(err.contains(pointed) && err.contains(said), "{err}");
        let caret =
            "  |\n1 | routing: {promptTemplate: t.md}\n  |                           ^^^^\n";
        assert!(err.contains(".yaml:1:27:") && err.contains(caret), "{err}");
    }
    // What may only be missing here is a note.
    std::fs::write(world.config(), "routing: {spawnWorkdir: nowhere}\n").unwrap();
    let output =
        world.command(&["config", "check"]).env_remove("THE_LOOP_GH_WEBHOOK_SECRET").output();
    let output = output.unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{err}");
    for said in [
        "no receiver can be started from here: `THE_LOOP_GH_WEBHOOK_SECRET` is not set",
        "`routing.spawnWorkdir`: there is no directory `",
    ] {
        let one_line = err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(one_line.contains(said), "{err}");
    }
    let is_path = |line: &str| line.trim_start().starts_with('`');
    assert!(err.lines().all(|line| line.chars().count() <= 80 || is_path(line)), "{err}");
    std::fs::write(world.config(), "routing: {webTerminal: {host: 0.0.0.0}}\n").unwrap();
    let (code, out, err) = world.run(&["config", "check"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("`exposeAll: true`"), "{err}");
    std::fs::write(world.config(), "routing:\n  rnner: tmux\n").unwrap();
    let (code, out, err) = world.run(&["config", "check"]);
    assert_eq!((code, out.as_str()), (1, ""));
    // The message stands below a place that leaves it no room.
    let joined = err.replace(":2:3:\n  ", ":2:3: ");
    assert!(joined.contains(":2:3: unknown key `rnner`\n  |\n2 |   rnner: tmux\n"), "{err}");
    let (code, out, _) = world.run(&["config", "check", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &value["valid"]), (1, &false.into()));
    for args in [&["--version"][..], &["--help"], &["config", "--help"], &["config", "schema"]] {
        assert_eq!(world.run(args).0, 0, "{args:?}");
    }
}

/// `THE_LOOP_UPDATE=1 cargo nextest run the_schema_in_the_repository` writes it.
#[test]
fn the_schema_in_the_repository_is_the_one_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/config.schema.json");
    let schema = format!("{:#}\n", json_schema());
    if std::env::var_os("THE_LOOP_UPDATE").is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(schema == written, "docs/config.schema.json is old; THE_LOOP_UPDATE=1 writes it");
    let (code, out, _) = World::new("").run(&["config", "schema"]);
    assert_eq!((code, out), (0, written));
}

#[test]
fn the_schema_knows_every_key_and_no_other() {
    let schema = json_schema();
    for leaf in leaves(&Config::default()) {
        let mut at = &schema;
        for key in leaf.key.split('.') {
            at = &at["properties"][key];
            assert!(at.is_object(), "{} is not in the schema", leaf.key);
            if let Some(name) = at["$ref"].as_str() {
                at = &schema["$defs"][name.strip_prefix("#/$defs/").unwrap()];
            }
            assert!(at["properties"].is_null() || at["additionalProperties"] == false);
        }
    }
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn the_nearest_file_is_taken_and_what_is_in_its_place_is_not_passed_over() {
    let world = World::new("rateLimit: 1");
    let below = world.project.join("a/b");
    std::fs::create_dir_all(below.join(".the-loop")).unwrap();
    let shown = |args: &[&str], variable: Option<&Path>| {
        let mut command = world.command(args);
        command.current_dir(&below);
        if let Some(path) = variable {
            command.env("THE_LOOP_CONFIG", path);
        }
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let first = text(output.stdout).lines().next().unwrap_or_default().to_owned();
        (first, unbroken(&text(output.stderr)))
    };
    let show = ["config", "show"];
    let project = std::fs::canonicalize(&world.project).unwrap();
    let at = |path: &str| project.join(path).display().to_string();
    // A `.the-loop` without a configuration is a directory like any other.
    assert_eq!(shown(&show, None).0, at(".the-loop/config.yaml"));
    // The file itself counts, not the link to it.
    std::fs::write(world.project.join("own.yaml"), "").unwrap();
    let near = below.join(".the-loop/config.yaml");
    std::os::unix::fs::symlink(world.project.join("own.yaml"), &near).unwrap();
    assert_eq!(shown(&show, None).0, at("own.yaml"));
    // The command line comes before the variable, and that before the search.
    let named = world.project.join(".the-loop/config.yaml");
    assert_eq!(shown(&show, Some(&named)).0, at(".the-loop/config.yaml"));
    let first = shown(&["--config", "../../own.yaml", "config", "show"], Some(&named)).0;
    assert_eq!(first, at("own.yaml"));
    // What is there and is no file is an error, not a reason to look further.
    std::fs::remove_file(&near).unwrap();
    std::fs::create_dir(&near).unwrap();
    assert!(shown(&show, None).1.contains("is not a file"), "{}", shown(&show, None).1);
    std::fs::remove_dir(&near).unwrap();
    std::os::unix::fs::symlink("/nowhere", &near).unwrap();
    let said = shown(&show, None).1;
    assert!(said.contains("is a link that leads to nothing"), "{said}");
    let missing = world.project.join("missing.yaml");
    let said = shown(&show, Some(&missing)).1;
    assert!(said.contains("(the variable `THE_LOOP_CONFIG` names it)"), "{said}");
}

/// The sources outside the room of the configuration, without their tests.
fn sources(dir: &Path, out: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("core/config") {
                sources(&path, out);
            }
        } else if !path.ends_with("cli/init.rs") && !path.ends_with("cli/doctor.rs") {
            // `init` writes keys, and the doctor looks at what they will need.
            let text = std::fs::read_to_string(&path).unwrap();
            out.push(text.split("\n#[cfg(test)]").next().unwrap().to_owned());
        }
    }
}

/// Whether `.name` stands in the text as a field, not as a method.
fn has_field(text: &str, name: &str) -> bool {
    text.match_indices(&format!(".{name}")).any(|(at, found)| {
        let next = text[at + found.len()..].chars().next();
        !next.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '(')
    })
}

fn snake(name: &str) -> String {
    name.chars().fold(String::new(), |mut out, c| {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
        out
    })
}

/// The name of the group's type.
fn camel(name: &str) -> String {
    name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

#[test]
fn the_table_of_keys_without_effect_is_what_the_code_does_not_read() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let mut faults = Vec::new();
    for leaf in leaves(&Config::default()) {
        let names: Vec<_> = leaf.key.split('.').map(snake).collect();
        // A field of this name, in a file that knows the group it is in.
        let read = files.iter().any(|text| match &names[..] {
            [name] => has_field(text, &format!("config.{name}")),
            [.., group, name] => {
                has_field(text, name)
                    && (text.contains(group.as_str()) || text.contains(&camel(group)))
            }
            [] => false,
        });
        // `tools.<tool>.path` is read through the group.
        let read = read || leaf.key.starts_with("tools.");
        if read == is_among(&leaf.key, WITHOUT_EFFECT) {
            faults.push(format!("{}: read by the code: {read}", leaf.key));
        }
    }
    assert!(faults.is_empty(), "WITHOUT_EFFECT is not true:\n{}", faults.join("\n"));
}

#[test]
fn an_empty_path_is_a_fault_and_a_state_inside_the_project_is_noted() {
    let world = World::new("");
    let good = std::fs::read_to_string(world.config()).unwrap();
    let cases = [
        ("state.dir", "state: {dir: \"\"}\n".to_owned()),
        ("webhooks.ghWebhook.secretFile", "  ghWebhook: {secretFile: \"\"}\n".to_owned()),
        ("routing.spawnWorkdir", "routing: {spawnWorkdir: \"\"}\n".to_owned()),
        ("routing.workspace.root", "routing: {workspace: {root: \"\"}}\n".to_owned()),
        ("routing.tmux.socket", "routing: {tmux: {socket: \"\"}}\n".to_owned()),
        ("routing.webTerminal.socket", "routing: {webTerminal: {socket: \"\"}}\n".to_owned()),
        ("routing.promptTemplate", "routing: {promptTemplate: \"\"}\n".to_owned()),
        ("routing.spawnPromptTemplate", "routing: {spawnPromptTemplate: \"\"}\n".to_owned()),
    ];
    for (key, text) in cases {
        let text = if text.starts_with(' ') { format!("webhooks:\n{text}") } else { text };
        std::fs::write(world.config(), text).unwrap();
        let (code, _, err) = world.run(&["config", "check"]);
        assert_eq!(code, 1, "{key}");
        assert!(err.contains(&format!("`{key}`: a path is not empty")), "{key}: {err}");
        // A line that may hold a secret is not shown.
        assert!(err.contains('^') || key.ends_with("secretFile"), "{key}: {err}");
    }
    for dir in [".", "state", "./x/../y"] {
        std::fs::write(world.config(), format!("{good}state: {{dir: {dir}}}\n")).unwrap();
        let (code, _, err) = world.run(&["config", "check"]);
        assert!(code == 0 && err.contains("`state.dir` is inside the project"), "{dir}: {err}");
    }
    std::fs::write(world.config(), good).unwrap();
    let (_, _, err) = world.run(&["config", "check"]);
    assert!(!err.contains("inside the project"), "{err}");
}

#[test]
fn a_configuration_that_is_a_link_to_nothing_is_named_and_none_above_is_taken() {
    let world = World::new("");
    let below = world.project.join("below");
    let link = below.join(".the-loop/config.yaml");
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/nowhere/x.yaml", &link).unwrap();
    let says = || {
        let out = world.command(&["config", "show"]).current_dir(&below).output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (code, err) = says();
    assert_eq!(code, Some(1));
    assert!(err.contains("is a link that leads to nothing"), "{err}");
    assert!(err.contains(&format!("{}", link.display())), "{err}");
    // The same when the directory is the link.
    std::fs::remove_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/nowhere", link.parent().unwrap()).unwrap();
    let (code, err) = says();
    assert!(code == Some(1) && err.contains("is a link that leads to nothing"), "{err}");
}

#[test]
fn an_agent_that_the_runner_cannot_host_is_noted_by_a_check() {
    let world = World::new("");
    let text = std::fs::read_to_string(world.config()).unwrap();
    let agent = "harnesses:\n  plain:\n    program: /bin/true\n    oneShot: [-p, '{id}']\n    resumeOneShot: [-p, '{id}']\n";
    let text = text.replace("  runner: tmux\n", "  runner: tmux\n  defaultHarness: plain\n");
    std::fs::write(world.config(), format!("{text}{agent}")).unwrap();
    let (_, _, err) = world.run(&["config", "check"]);
    assert!(err.contains("the agent plain cannot be hosted by"), "{err}");
}

#[test]
fn what_stands_in_the_place_of_the_secrets_variable_is_shown_only_when_it_looks_like_one() {
    let world = World::new("defaultHarness: demo");
    let good = std::fs::read_to_string(world.config()).unwrap();
    for (name, shown) in [("hunter2abc", false), ("MY_SECRET2", true), ("mySecret", false)] {
        let text =
            good.replace("  ghWebhook:\n", &format!("  ghWebhook:\n    secretEnv: {name}\n"));
        std::fs::write(world.config(), text).unwrap();
        let commands: [&[&str]; 5] = [
            &["config", "check"],
            &["config", "show"],
            &["gh-webhook", "start"],
            &["doctor"],
            &["service", "install"],
        ];
        for args in commands {
            let (_, out, err) = world.run(args);
            let said = out + &err;
            // A service names no variable where its manager is not there.
            let may_lack = args[0] == "service";
            assert!(said.contains(name) == shown || shown && may_lack, "{args:?}: {said}");
        }
    }
}

#[test]
fn a_check_refuses_what_no_receiver_starts_with() {
    let long = "s".repeat(101);
    for (key, what) in [
        (format!("tmux: {{socket: /{long}}}"), "`routing.tmux.socket`: its path has 102 bytes"),
        (
            format!("webTerminal: {{enabled: true, socket: /{long}}}"),
            "`routing.webTerminal.socket`: its path has 102 bytes",
        ),
        (
            "webTerminal: {enabled: true, port: PORT}".to_owned(),
            "`routing.webTerminal.port`: the receiver itself listens on 127.0.0.1:",
        ),
    ] {
        let world = World::new("");
        let key = key.replace("PORT", "8787");
        let text = format!("routing:\n  {key}\nwebhooks:\n  ghWebhook:\n    port: 8787\n");
        std::fs::write(world.config(), text).unwrap();
        for args in [&["config", "check"][..], &["gh-webhook", "start"]] {
            let (code, _, err) = world.run(args);
            assert_eq!(code, 1, "{args:?}: {err}");
            let said = err.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(what), "{args:?}: {err}");
            assert!(said.contains("hint: choose a"), "{args:?}: {err}");
        }
    }
}
