//! The configuration file: every error text, and what is no error.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use the_loop::core::config::{
    Config, MAX_BYTES, RunnerKind, WITHOUT_EFFECT, is_among, leaves, lines, parse, parse_bytes,
};

fn refused(text: &str) -> String {
    parse(text, Path::new("/p/.the-loop/config.yaml")).unwrap_err().render()
}

/// Each text with what is said about it, for one snapshot.
fn refusals(texts: &[&str]) -> String {
    let mut out = String::new();
    for text in texts {
        let said = refused(text);
        // The first line is printed behind `error: `.
        for line in format!("error: {said}").lines() {
            assert!(line.chars().count() <= 80, "too wide: {line}");
        }
        let shown = text.escape_debug().to_string().replace("\\n", "\n");
        writeln!(out, "--- {}\n{said}\n", shown.trim_end()).unwrap();
    }
    out
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_known_one() {
    snapshot(
        "config_unknown_keys",
        &refusals(&[
            "routing:\n  rnner: tmux\n",
            "routing:\n  enabled: true\n  tmux:\n    size: 160x48\n    socet: /x\n",
            "routing:\n  authorized_users: [me]\n",
            "runner: tmux\n",
            "authorizedUsers: [me]\n",
            "roting: {}\n",
            "colour: red\n",
            "routing:\n  colour: red\n",
            "path: /x\n",
            "routing:\n  5: x\n",
            "routing:\n  [a]: x\n",
            "routing: &r {enabled: true}\n<<: *r\n",
            "routing:\n  harnessArgs:\n    claud: [--x]\n",
            "routing:\n  \"run\\u202ener\\e[31m\": tmux\n",
        ]),
    );
}

#[test]
fn a_wrong_value_is_named_with_what_would_be_right() {
    snapshot(
        "config_wrong_values",
        &refusals(&[
            "routing:\n  runner: tmx\n",
            "routing:\n  runner: TMUX\n",
            "routing:\n  runner:\n",
            "routing:\n  runner: [tmux]\n",
            "routing:\n  runner: true\n",
            "routing:\n  defaultHarness: codx\n",
            "routing:\n  defaultHarness: \"My Agent\"\n",
            "harnesses:\n  Mine: {}\n",
            "harnesses:\n  claude: {oneShot: [-p]}\n",
            "harnesses:\n  mine: {oneShot: [-p]}\n",
            "harnesses:\n  mine:\n    files: {~/the-loop/../keep.json: {}}\n",
            "harnesses:\n  mine:\n    firstRun: [{asks: x, file: /etc/passwd}]\n",
            "harnesses:\n  mine:\n    firstRun: [{asks: x, file: ~/x, settledBy: {/etc/x: [y]}}]\n",
            "harnesses:\n  mine: {spawn: ['{idd}']}\n",
            "harnesses:\n  mine: {spawn: '{id}'}\n",
            "harnesses:\n  mine: {oneShot: [-p], resumeOneShot: ['{id}']}\n",
            "harnesses:\n  mine: {identity: captured, oneShot: [-p], resumeOneShot: [-r]}\n",
            "harnesses:\n  mine: {program: ./agent}\n",
            "harnesses:\n  codex: {minimum: abc}\n",
            "harnesses:\n  codex: {screen: {prompt: ''}}\n",
            "harnesses:\n  codex: {typing: {gapMs: 4000000000}}\n",
            "harnesses:\n  codex: {typing: {retries: -1}}\n",
            "harnesses:\n  mine: {result: {ended: [done]}}\n",
            "routing:\n  spawnOnUnmatched: labelled\n",
            "routing:\n  spawnWorkdir: \"\"\n",
            "state: {dir: \"\"}\n",
            "routing:\n  enabled: yes\n",
            "routing:\n  enabled: flase\n",
            "routing:\n  control: 'true'\n",
            "routing:\n  control: \"False\"\n",
            "routing:\n  dispatchTimeoutSeconds: 30m\n",
            "routing:\n  tmux: {readyTimeoutSeconds: soon}\n",
            "routing:\n  enabled: 1\n",
            "routing:\n  tmux:\n    size: 9x9\n",
            "routing:\n  tmux:\n    size: 160\n",
            "routing:\n  tmux:\n    readyTimeoutSeconds: 0\n",
            "routing:\n  repositories: octo/hello\n",
            "routing:\n  repositories:\n    - octo/hello\n    - hello\n",
            "routing:\n  authorizedUsers:\n    - \"@octocat\"\n",
            "routing:\n  authorizedUsers: [octo cat]\n",
            "routing:\n  authorizedUsers: [17]\n",
            "routing:\n  autoExecuteLabel: \"\"\n",
            "routing:\n  autoExecuteLabel: 5\n",
            "routing:\n  maxConcurrentDispatches: 0\n",
            "routing:\n  maxConcurrentDispatches: 65\n",
            "routing:\n  maxConcurrentDispatches: -1\n",
            "routing:\n  maxConcurrentDispatches: \"4\"\n",
            "routing:\n  maxConcurrentDispatches:\n",
            "routing:\n  maxConcurrentDispatches: 1.5\n",
            "routing:\n  repositories: [a b/c]\n",
            "routing:\n  repositories: [\"a/b c\"]\n",
            "routing:\n  repositories: [x..y/a/b]\n",
            "routing:\n  autoExecuteLabel: true\n",
            "state: {dir: 5}\n",
            "routing:\n  harnessArgs:\n    claude: --x\n",
            "routing:\n  harnessArgs:\n    claude: --model opus\n",
            "routing:\n  autoExecuteLabel: 4.0\n",
            "routing:\n  maxConcurrentDispatches: 4.0 # four\n",
            "routing:\n  maxConcurrentDispatches: 0x10\n  autoExecuteLabel: 0x10\n",
            "webhooks:\n  ghWebhook:\n    port: 99999\n",
            "webhooks:\n  ghWebhook:\n    port: -1\n",
            "webhooks:\n  ghWebhook:\n    port: 99999999999999999999999\n",
            "webhooks:\n  ghWebhook:\n    port: \"8787\"\n",
            "webhooks:\n  ghWebhook:\n    host: localhost\n",
            "webhooks:\n  ghWebhook:\n    path: hook\n",
            "webhooks:\n  ghWebhook:\n    path: /healthz\n",
            "tools:\n  tmux: /usr/bin/tmux\n",
            "tools:\n  prefer: mine\n",
            "tools:\n  tmux: {path: bin/tmux}\n",
            "tools:\n  claude:\n    path: ./claude\n",
            "tools:\n  git: {path: ~me/git}\n",
            "- routing\n",
            "routing\n",
        ]),
    );
}

#[test]
fn an_amount_or_an_address_that_is_none_says_what_one_looks_like() {
    snapshot(
        "config_wrong_amounts",
        &refusals(&[
            "routing:\n  memoryFloor: 1TB\n",
            "routing:\n  memoryFloor: -1\n",
            "routing:\n  memoryFloor: true\n",
            "routing:\n  memoryFloor:\n",
            "routing:\n  maxSessions: many\n",
            "routing:\n  rateLimit: -5\n",
            "routing:\n  dispatchTimeoutSeconds: 0\n",
            "routing:\n  control: off\n",
            "routing:\n  workspace: true\n",
            "routing:\n  workspace: {forks: yes}\n",
            "routing:\n  tmux: {view: terminal}\n",
            "routing:\n  tmux: {deliverWhen: later}\n",
            "routing:\n  tmux: {waitNotice: half an hour}\n",
            "routing:\n  tmux: {typeMax: 16 kilobytes}\n",
            "routing:\n  webTerminal: {host: \"a b\"}\n",
            "routing:\n  webTerminal: {allowedHosts: [\"https://a\"]}\n",
            "routing:\n  webTerminal: {allowedHosts: [\"a:b\"]}\n",
            "routing:\n  webTerminal: {publicUrl: box.example.net}\n",
            "routing:\n  webTerminal: {publicUrl: \"https://a/loop/\"}\n",
            "routing:\n  webTerminal: {publicUrl: \"https://me:hunter2@a\"}\n",
            "routing:\n  webTerminal: {host: 0.0.0.0}\n",
            "routing:\n  webTerminal: {enabled: true, host: \"::\", allowedHosts: [a]}\n",
            "routing:\n  webTerminal:\n    exposeAll: true\n    host: 0.0.0.0\n",
            "routing:\n  webTerminal: {host: 192.168.1.7}\n",
            "webhooks:\n  ghWebhook: {events: [Issues]}\n",
            "webhooks:\n  ghWebhook:\n    events:\n      - push\n      - isues\n",
            "webhooks:\n  ghWebhook: {events: [pull_requests, status]}\n",
            "webhooks:\n  ghWebhook: {events: [everything]}\n",
            "webhooks:\n  ghWebhook: {events: issues}\n",
            "routing:\n  memoryFloor: 9999999GB\n",
            "state: {retention: {age: 99999d}}\n",
            "harnesses:\n  mine: codex\n",
            "harnesses:\n  mine: {spwn: [codex]}\n",
            "harnesses:\n  codex: {typing: {submit: C-c}}\n",
            "harnesses:\n  codex: {result: {shows: [{when: [/x], is: shown}]}}\n",
            "github: {reactions: 1}\n",
            "notify: {command: notify-send}\n",
            "metrics: {listen: 9090}\n",
            "metrics: {listen: localhost:9090}\n",
            "metrics: {listen: \"127.0.0.1:8787\"}\n",
            "routing:\n  webTerminal: {enabled: true, port: 8787}\n",
            "routing: {webTerminal: {enabled: true}}\nwebhooks: {ghWebhook: {port: 7681}}\n",
            "routing: {webTerminal: {enabled: true, host: localhost}}\nmetrics: {listen: \"0.0.0.0:7681\"}\n",
            "routing: {webTerminal: {enabled: true, host: wg0}}\nmetrics: {listen: \"0.0.0.0:7681\"}\n",
            "webhooks: {ghWebhook: {host: \"::1\", port: 1}}\nmetrics:\n  listen: \"[::]:1\"\n",
            "webhooks: {ghWebhook: {port: 1}}\nmetrics:\n  listen: \"0.0.0.0:1\"\n",
            "state: {retention: 30d}\n",
            "state: {retention: {age: 1 year}}\n",
        ]),
    );
}

#[test]
fn a_key_given_twice_is_shown_where_it_comes_again() {
    snapshot(
        "config_duplicates",
        &refusals(&[
            "routing:\n  runner: process\n  enabled: true\n  runner: tmux\n",
            "routing:\n  harnessArgs:\n    claude: [a]\n    claude: [b]\n",
            "state: {dir: /a, dir: /b}\n",
            "routing: {}\nstate: {}\nrouting: {}\n",
        ]),
    );
}

#[test]
fn a_text_that_is_no_yaml_is_explained() {
    snapshot(
        "config_syntax",
        &refusals(&[
            "routing:\n\trunner: tmux\n",
            "routing:\n  \trunner: tmux\n",
            "routing:\n  authorizedUsers:\n  - @me\n",
            "routing:\n  autoExecuteLabel: the-loop: auto-execute\n",
            "routing:\n  autoExecuteLabel: \"the-loop\n  runner: tmux\n",
            "routing:\n  runner: tmux\n enabled: true\n",
            "routing: [\n",
            "routing: {enabled: true\n",
            "routing:\n  authorizedUsers: [a, b\n  runner: tmux\n",
            "routing: {enabled: true]\n",
            "routing: {tmux: {view: tui}, harnessArgs: {claude: [x]}\n\n# end\n",
            "routing:\n  runner\n  enabled: true\n",
            "routing: {}\nstate\ntools: {}\n",
            "routing: {}\n\"state\n  x\"\n",
            "routing: {}\n---\nrouting: {}\n",
            "# one\n---\nrouting: {}\n--- # two\n",
            "routing: {}\n...\n# more\nstate: {}\n",
            "%YAML 1.2\n---\nrouting: {}\n...\n---\nstate: {}\n",
            "routing: {runner:\ttmx}\t# a tab\n",
            "routing:\n  autoExecuteLabel: \"标签\"\n  tmux: {size: \"全角\", viw: tui}\n",
            "{\"中文 中文\": 1}\n",
            "routing: {tmux: {viw: tui}} # e\u{301}\n",
            "routing:\n  <<: {runner: tmux}\n",
            "harnesses:\n  a: &a {spawn: [x]}\n  b:\n    <<: *a\n",
            "routing:\n  harnessArgs: {<<: *x}\n",
            "routing:\n  runner: !x tmux\n",
            "state:\n  dir: *home\n",
            "state:\n  dir: \"a\\qb\"\n",
            "state:\n  dir: a\u{7}b\n",
        ]),
    );
}

#[test]
fn a_file_that_is_wrong_as_a_whole_is_refused_with_the_reason() {
    let refused = |bytes: &[u8]| parse_bytes(bytes, Path::new("c.yaml")).unwrap_err().render();
    let bomb: String = (1..10).fold("a0: &a0 [x, x]\n".to_owned(), |text, level| {
        let before = format!("*a{}, ", level - 1).repeat(10);
        format!("{text}a{level}: &a{level} [{}]\n", before.trim_end_matches(", "))
    });
    let said = [
        refused(b"routing:\n  runner: \xff\n"),
        refused(&vec![b' '; MAX_BYTES + 1]),
        refused("[".repeat(300).as_bytes()),
        refused("- ".repeat(MAX_BYTES / 2).as_bytes()),
        refused(bomb.as_bytes()),
    ];
    snapshot("config_whole_file", &said.join("\n\n"));
}

/// The places where the texts of such errors are written.
const SPEAKERS: &[&str] = &[
    "src/core/config/amounts.rs",
    "src/core/config/clash.rs",
    "src/core/config/load.rs",
    "src/core/config/load/args.rs",
    "src/core/config/load/syntax.rs",
    "src/core/config/model/terminal.rs",
    "src/core/config/paths.rs",
    "src/core/config/suggest.rs",
    "src/core/config/values.rs",
    "src/core/config/walk.rs",
    "src/state/config_file.rs",
    "src/state/config_file/owner.rs",
    "src/cli/setup.rs",
];

/// Texts in those places that are about something else.
const ELSEWHERE: &[&str] = &[
    "uses these sessions, with the state in `",
    "remove the link, or make what it leads to",
    // Remarks of a command that does without the file.
    "note: the configuration is broken:",
    "note: the configuration is gone; a receiver still runs with what was in `",
    "so `state.dir` is not known, and the usual place was looked at",
    // The pattern of an amount, in the schema.
    "^[0-9]+ *(",
    // Not about a file: there is no place to look for one.
    "there is no home directory to keep state in",
    "set HOME, or THE_LOOP_HOME to a directory for this program",
];

/// The texts in a source, without what it only compares with.
fn texts_in(code: &str) -> Vec<String> {
    let mut out = Vec::new();
    for line in code.replace("\\\n", "\u{1}").lines() {
        let line = line.trim_start();
        if line.starts_with("//") || line.starts_with("#[") {
            continue;
        }
        let mut rest = line;
        while let Some((before, after)) = rest.split_once('"') {
            let mut text = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next() {
                    Some((_, '\\')) => match chars.next() {
                        Some((_, 'n')) => text.push('\n'),
                        Some((_, c)) => text.push(c),
                        None => break after.len(),
                    },
                    Some((at, '"')) => break at + 1,
                    Some((_, '\u{1}')) => text.push(' '),
                    Some((_, c)) => text.push(c),
                    None => break after.len(),
                }
            };
            rest = &after[end..];
            let is_compared = ["has(", "split_once(", "expect(", "debug!(", "starts_with("]
                .iter()
                .any(|call| before.ends_with(call))
                || rest.starts_with(" =>");
            if !is_compared {
                out.push(text);
            }
        }
    }
    out
}

#[test]
fn every_error_text_of_the_configuration_is_in_a_snapshot() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown = String::new();
    for entry in std::fs::read_dir(root.join("tests/it/snapshots")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("config_") || name.ends_with("_configuration.snap") {
            shown.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    let shown = words(&shown);
    let (mut seen, mut missing) = (0, Vec::new());
    for file in SPEAKERS {
        let source = std::fs::read_to_string(root.join(file)).unwrap();
        // Next to a text its snapshot may be inline.
        let (code, tests) = source.split_once("\n#[cfg(test)]").unwrap_or((&source, ""));
        let shown = format!("{shown} {}", words(tests));
        for text in texts_in(code) {
            // The parts between what is filled in; what has no blank is a name.
            let parts = text.replace("{{", "\u{2}").replace("}}", "\u{3}");
            for part in parts.split(['{', '}']).step_by(2) {
                let part = words(&part.replace('\u{2}', "{").replace('\u{3}', "}"));
                if part.contains(' ') && part.len() > 8 && !ELSEWHERE.contains(&part.as_str()) {
                    seen += 1;
                    if !shown.contains(&part) {
                        missing.push(format!("{file}: {part}"));
                    }
                }
            }
        }
    }
    assert!(seen > 60, "the texts were not found: {seen}");
    assert!(missing.is_empty(), "in no snapshot:\n{}", missing.join("\n"));
}

#[test]
fn an_argument_that_the_program_sets_itself_is_refused() {
    let args = |harness: &str, args: &str| {
        format!("routing:\n  harnessArgs:\n    {harness}: [--model, opus, {args}]\n")
    };
    let refused = [
        args("claude", "--resume, x"),
        args("claude", "--resume=x"),
        args("claude", "-p"),
        args("claude", "--settings, \"{}\""),
        args("claude", "-w"),
        args("claude", "-r0d4f3c8e"),
        args("claude", "-cp"),
        args("claude", "-dc"),
        args("claude", "-pfoo"),
        args("claude", "-wfoo"),
        args("claude", "--teleport"),
        args("claude", "--cloud"),
        args("claude", "--desktop"),
        args("claude", "--remote-control"),
        args("cursor", "-fp"),
        args("gemini", "-r, latest"),
        args("gemini", "-ojson"),
        args("opencode", "-s, ses_1"),
        args("opencode", "-c"),
        args("copilot", "--continue"),
        args("cursor", "--output-format=json"),
        args("gemini", "-o, text"),
        args("codex", "--json"),
        "harnesses:\n  mine: {oneShot: [run, --json]}\nrouting:\n  harnessArgs:\n    mine:\n      \
         - --json\n"
            .to_owned(),
    ];
    let texts: Vec<_> = refused.iter().map(String::as_str).collect();
    snapshot("config_own_args", &refusals(&texts));
    for (harness, more) in [
        ("claude", "--verbose"),
        ("claude", "--permission-mode, plan"),
        ("codex", "-c, 'model=\"o3\"'"),
        ("demo", "-p"),
        ("gemini", "--yolo"),
        ("gemini", "-mflash-pro"),
        ("cursor", "'-HAccept: x'"),
        ("claude", "-d"),
    ] {
        parse(&args(harness, more), Path::new("x")).unwrap();
    }
}

#[test]
fn each_argument_that_claude_gets_from_the_program_is_refused_in_the_configuration() {
    use the_loop::base::ids::HarnessSessionId;
    use the_loop::core::harness::{Claude, HarnessAdapter as _, OneShotSpec, StartSpec};
    let id: HarnessSessionId = "0d4f3c8e-6d6c-4d6e-9d9a-1f2e3d4c5b6a".parse().unwrap();
    let mut tried = 0;
    for resume in [false, true] {
        let start = StartSpec {
            session_id: &id,
            resume,
            hook_command: "hook",
            extra_args: &[],
            trusted: false,
            cwd: Path::new("/"),
            version: None,
        };
        for args in
            [Claude.start(&start).args, Claude.oneshot(&OneShotSpec { start, stream: true }).args]
        {
            // What may be chosen by a person as well.
            let free = ["--permission-mode", "--verbose"];
            for arg in
                args.iter().filter(|arg| arg.starts_with('-') && !free.contains(&arg.as_str()))
            {
                let text = format!("routing: {{harnessArgs: {{claude: [{arg}]}}}}\n");
                assert!(refused(&text).contains("is set by the-loop itself"), "{arg}");
                tried += 1;
            }
        }
    }
    assert!(tried >= 8, "{tried}");
}

#[test]
fn a_secret_in_the_wrong_place_is_not_repeated() {
    let texts = [
        "webhooks:\n  ghWebhook:\n    secret: hunter2-0123\n",
        "webhooks:\n  ghWebhook:\n    secretEnv: hunter2-0123\n",
        "webhooks: {ghWebhook: {secretEnv: hunter2-0123}}\n",
        "webhooks:\n  ghWebhook:\n    secretEnv:\n      - hunter2-0123\n",
        "webhooks:\n  ghWebhook:\n    secretFile: {hunter2-0123: 1}\n",
        "webhooks:\n  ghWebhook:\n    secret: @hunter2-0123\n",
        "webhookToken: hunter2-0123\n",
        "webhooks: {ghWebhook: {secretEnv: hunter20123abcdef4567890abcdef12345678}}\n",
        "webhooks:\n  ghWebhook:\n    secretEnv: 20123\n",
        "webhooks:\n  ghWebhook:\n    secretEnv: |\n      hunter2-0123\n",
        "routing:\n  webTerminal:\n    publicUrl: https://me:hunter2-0123@a\n",
    ];
    let said = texts.map(refused).join("\n\n");
    assert!(!said.contains("hunter2-0123"), "{said}");
    snapshot("config_secrets", &said);
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_change_no_position() {
    let text = "\u{feff}routing:\r\n  runner: tmux\r\n  rnner: tmux\r\n";
    assert!(refused(text).starts_with("/p/.the-loop/config.yaml:3:3: unknown key `rnner`"));
    let config = parse("\u{feff}routing:\r\n  runner: tmux\r\n", Path::new("x")).unwrap();
    assert_eq!(config.routing.runner, RunnerKind::Tmux);
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_place() {
    let error = parse_bytes(b"routing:\n  runner: \xff\n", Path::new("c.yaml")).unwrap_err();
    assert_eq!(error.to_string(), "c.yaml:2:11: this is not UTF-8 text");
}

#[test]
fn hostile_texts_are_refused_soon() {
    let bomb: String = (1..10).fold("a0: &a0 [x, x]\n".to_owned(), |text, level| {
        let before = format!("*a{}, ", level - 1).repeat(10);
        format!("{text}a{level}: &a{level} [{}]\n", before.trim_end_matches(", "))
    });
    for (text, said) in [
        ("[".repeat(MAX_BYTES), "the values are nested too deeply"),
        ("- ".repeat(MAX_BYTES / 2), "the values are nested too deeply"),
        ("? ".repeat(MAX_BYTES / 2), "a key must be text"),
        ("[".repeat(200), "the values are nested too deeply"),
        (bomb, "the aliases multiply without bounds"),
        (" ".repeat(MAX_BYTES + 1), "the file is larger than 128 KiB"),
    ] {
        let start = Instant::now();
        let error = refused(&text);
        assert!(error.lines().next().unwrap().ends_with(said), "{error}");

        assert!(start.elapsed() < Duration::from_secs(5));
    }
}

proptest! {
    #[test]
    fn no_text_breaks_the_reader_or_the_terminal(
        parts in prop::collection::vec(prop_oneof![
            Just("routing:".to_owned()), Just("\n".to_owned()), Just("  ".to_owned()),
            Just("runner: ".to_owned()), Just("\t".to_owned()), Just("- ".to_owned()),
            Just("tmux".to_owned()), Just("secretEnv: ".to_owned()), Just("{".to_owned()),
            Just("[".to_owned()), Just("}".to_owned()), Just("\"".to_owned()),
            Just("&a ".to_owned()), Just("*a".to_owned()), Just("|\n".to_owned()),
            Just("\r".to_owned()), Just("\u{2028}".to_owned()), Just("? ".to_owned()),
            Just(": ".to_owned()), Just("tools: {tmux: ".to_owned()), Just("!t ".to_owned()),
            "\\PC{0,8}", any::<char>().prop_map(String::from), "[a-z: ,]{60,200}",
        ], 0..24),
    ) {
        let text = parts.concat();
        if let Err(error) = parse(&text, Path::new("c.yaml")) {
            let said = error.render();
            for line in said.lines().skip(1) {
                // An accent takes no column, a Chinese character two.
                let width = unicode_width::UnicodeWidthStr::width(line);
                prop_assert!(width <= 80, "{}", line);
            }
            let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            prop_assert!(!said.contains(acts), "{:?}", said);
        }
    }
}

#[test]
fn what_is_left_out_or_empty_has_its_default() {
    for text in [
        "",
        "\u{feff}",
        "# nothing but remarks\n",
        "---\n",
        "routing:\n",
        "routing: ~\ntools:\n  tmux:\nstate:\n  dir:\n",
        "routing:\n  authorizedUsers:\n  harnessArgs:\n  tmux:\n",
        "{}",
    ] {
        assert_eq!(parse(text, Path::new("x")), Ok(Config::default()), "{text:?}");
    }
}

#[test]
fn the_defaults_written_out_read_back_as_the_defaults() {
    let text = include_str!("../../docs/configuration.md");
    let yaml = text.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(parse(yaml, Path::new("docs/configuration.md")), Ok(Config::default()));
    let written = lines(yaml);
    for leaf in leaves(&Config::default()) {
        let line = written.get(&leaf.key);
        let line = line.unwrap_or_else(|| panic!("docs/configuration.md has no {}", leaf.key));
        // What has no effect yet is marked, at its line or at its group's.
        let marked = yaml
            .lines()
            .take(*line)
            .collect::<Vec<_>>()
            .iter()
            .rev()
            .take_while(|line| !line.trim().is_empty())
            .take(14)
            .any(|line| line.contains("[no effect yet]"));
        if is_among(&leaf.key, WITHOUT_EFFECT) {
            assert!(marked, "{} is not marked in docs/configuration.md", leaf.key);
        }
    }
}
