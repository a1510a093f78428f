//! A git work tree for each item, against a real git server on loopback: made
//! on the right branch, never in the wrong place, taken away only when all that
//! is in it is elsewhere.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::git_server::{GitServer, git};
use crate::support::{World, eventually, payload};

const TREES: &str = "defaultHarness: demo\nworkspace:\n  enabled: true\n";
const FORKS: &str = "defaultHarness: demo\nworkspace:\n  enabled: true\n  forks: allow\n";

/// A world whose GitHub is the server, with one repository `o/r`.
async fn world(routing: &str) -> (World, GitServer) {
    let server = GitServer::new().await;
    server.repository("o/r");
    let mut world = World::new(routing);
    server.stand_in_for_github(&world.home);
    world.start().await;
    (world, server)
}

/// Arms an item and waits until its agent was told, or could not be.
async fn arm(world: &World, number: u64, state: &str) -> String {
    let id = format!("arm-{number}");
    world.post(&id, "issues", &payload::labeled("o/r", number, "alice")).await;
    world.reaches(&id, state).await
}

fn session(world: &World, number: u64) -> Value {
    let (_, out, err) = world.run(&["sessions", "show", &format!("o/r#{number}"), "--json"]);
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"))
}

fn tree(world: &World, number: u64) -> PathBuf {
    PathBuf::from(session(world, number)["cwd"].as_str().unwrap())
}

fn branch(tree: &Path) -> String {
    git(tree, &["symbolic-ref", "--short", "HEAD"])
}

/// What `sessions list --trees` says of an item.
fn holds(world: &World, number: u64) -> String {
    let (_, out, _) = world.run(&["sessions", "list", "--trees", "--json"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    let item = format!("o/r#{number}");
    let trees = value["trees"].as_array().unwrap();
    let tree = trees.iter().find(|tree| tree["item"] == item).unwrap();
    match tree["kept"].as_str() {
        Some(kept) => format!("kept: {kept}"),
        // As of when, is another matter.
        None => tree["holds"].as_str().unwrap().split(" as of ").next().unwrap().to_owned(),
    }
}

/// Closes an item on GitHub and waits until its session is.
async fn close(world: &World, number: u64) {
    let id = format!("close-{number}");
    world.post(&id, "issues", &payload::closed("o/r", number, "alice")).await;
    world.reaches(&id, "done").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_items_work_in_two_trees_on_branches_of_their_own() {
    let (world, _server) = world(TREES).await;
    arm(&world, 1, "delivered").await;
    arm(&world, 2, "delivered").await;
    let (one, two) = (tree(&world, 1), tree(&world, 2));
    assert_ne!(one, two);
    assert_eq!((branch(&one), branch(&two)), ("the-loop/1".into(), "the-loop/2".into()));
    assert_eq!(std::fs::read_to_string(one.join("README")).unwrap(), "first\n");
    // The agent really is there, and is told where it may push to.
    let panes = world.tmux.run(&["list-panes", "-a", "-F", "#{pane_current_path}"]);
    assert!(panes.lines().any(|path| Path::new(path) == one), "{panes}");
    assert_eq!(git(&one, &["config", "--get", "push.default"]), "current");
    assert_eq!(holds(&world, 1), "clean, pushed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_items_tree_goes_only_when_all_in_it_is_elsewhere() {
    let (world, _server) = world(TREES).await;
    for number in 1..=5 {
        arm(&world, number, "delivered").await;
    }
    let trees: Vec<_> = (1..=5).map(|number| tree(&world, number)).collect();
    let commit = |tree: &Path| {
        // Equal commits of one second would be one commit.
        std::fs::write(tree.join("new"), tree.to_str().unwrap()).unwrap();
        git(tree, &["add", "new"]);
        git(tree, &["commit", "--quiet", "-m", "work"]);
    };
    std::fs::write(trees[1].join("README"), "changed\n").unwrap();
    std::fs::write(trees[2].join("untracked"), "x").unwrap();
    commit(&trees[3]);
    commit(&trees[4]);
    // Pushed as the operator would: with the home's own configuration.
    let mut push = std::process::Command::new("git");
    push.current_dir(&trees[4]).env("HOME", &world.home).args(["push", "--quiet"]);
    assert!(push.status().unwrap().success());
    for number in 1..=5 {
        close(&world, number).await;
    }
    let stands: Vec<_> = trees.iter().map(|tree| tree.exists()).collect();
    let said: Vec<_> = (1..=5).map(|number| holds(&world, number)).collect();
    assert_eq!(stands, [false, true, true, true, false], "{said:?}");
    assert_eq!(holds(&world, 1), "taken away: it was clean");
    assert_eq!(holds(&world, 2), "kept: 1 changed or new file");
    assert_eq!(holds(&world, 3), "kept: 1 changed or new file");
    assert_eq!(holds(&world, 4), "kept: 1 unpushed commit");
    // The next event goes on in what stayed, and makes again what went.
    for number in [1, 4, 5] {
        let again = payload::comment("o/r", number, "alice", "Once more.");
        let id = format!("again-{number}");
        world.post(&id, "issue_comment", &again).await;
        world.reaches(&id, "delivered").await;
    }
    assert!(trees[0].join("README").exists());
    assert_eq!(holds(&world, 4), "1 unpushed commit");
    assert!(trees[4].join("new").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_asked_of_the_origin_stays() {
    let (world, server) = world(TREES).await;
    arm(&world, 1, "delivered").await;
    let tree = tree(&world, 1);
    drop(server);
    let (code, _, err) = world.run(&["sessions", "close", "o/r#1"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("its work tree stays: what the origin has could not be asked"), "{err}");
    assert!(tree.join("README").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pull_request_is_worked_on_in_its_own_branch() {
    let (world, server) = world(TREES).await;
    let head = server.commit("o/r", "feature", "second\n", None);
    server.set("o/r", "refs/heads/feature", &head);
    server.set("o/r", "refs/pull/7/head", &head);
    arm(&world, 7, "delivered").await;
    let tree = tree(&world, 7);
    assert_eq!(branch(&tree), "feature");
    assert_eq!(git(&tree, &["rev-parse", "HEAD"]), head);
    assert_eq!(git(&tree, &["rev-parse", "--abbrev-ref", "@{u}"]), "origin/feature");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_fork_sent_is_not_worked_on_unless_that_is_allowed() {
    let (mut world, server) = world(TREES).await;
    let head = server.commit("o/r", "theirs", "from a fork\n", None);
    server.set("o/r", "refs/pull/8/head", &head);
    let events = arm(&world, 8, "failed").await;
    assert!(events.contains("fork-denied") && events.contains("workspace.forks"), "{events}");
    assert!(world.sessions().is_empty());
    world.end(rustix::process::Signal::TERM);
    world.configure(FORKS, "");
    world.start().await;
    let again = payload::comment("o/r", 8, "alice", "Do.");
    world.post("again", "issue_comment", &again).await;
    world.reaches("again", "delivered").await;
    // What failed was not heard: this is the first that the agent hears.
    let heard = &world.taken("o+r+8")[0];
    assert!(heard.contains("You work on o/r#8 in this directory"), "{heard}");
    assert!(heard.contains("Please do it.") && heard.contains("Do."), "{heard}");
    let tree = tree(&world, 8);
    // Not below what an agent may be told to trust.
    assert!(tree.parent().unwrap().ends_with("forks"), "{}", tree.display());
    assert_eq!(git(&tree, &["rev-parse", "HEAD"]), head);
    // Nor of a clone whose trees it may be told to trust.
    let dir = git(&tree, &["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    assert!(dir.ends_with("clones/forks/o+r.git"), "{dir}");
}

/// `alice` puts the label `go` on a pull request of hers.
fn pull(number: u64, branch: &str, sha: &str, repo: &str) -> Value {
    let mut body = payload::labeled("o/r", number, "alice");
    let mut pull = body["issue"].take();
    let head = serde_json::json!({ "html_url": format!("https://github.com/{repo}") });
    pull["head"] = serde_json::json!({ "ref": branch, "sha": sha, "repo": head });
    pull["base"] = serde_json::json!({ "ref": "main", "repo": body["repository"].clone() });
    body.as_object_mut().unwrap().remove("issue");
    body["pull_request"] = pull;
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_at_the_same_commit_is_not_the_pull_requests_own() {
    let (world, server) = world(TREES).await;
    let head = server.commit("o/r", "work", "second\n", None);
    for name in ["develop", "topic", "copy"] {
        server.set("o/r", &format!("refs/heads/{name}"), &head);
    }
    let main = git(&server.path("o/r"), &["rev-parse", "main"]);
    for (number, at) in [(7, &head), (8, &head), (9, &main)] {
        server.set("o/r", &format!("refs/pull/{number}/head"), at);
    }
    for (number, branch, at, repo, state, said) in [
        (7, "develop", &head, "mallory/r", "failed", "fork-denied"),
        (8, "topic", &head, "o/r", "delivered", ""),
        (9, "main", &main, "o/r", "failed", "the repository's default branch"),
        (10, "topic", &head, "o/r", "failed", "has no `refs/pull/10/head`"),
    ] {
        let id = format!("pull-{number}");
        world.post(&id, "pull_request", &pull(number, branch, at, repo)).await;
        let events = world.reaches(&id, state).await;
        assert!(events.contains(said), "{number}: {events}");
    }
    assert_eq!(branch(&tree(&world, 8)), "topic");
    assert_eq!(world.sessions(), ["loop/o+r+8"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_git_was_told_not_to_look_at_is_not_provably_clean() {
    let (world, _server) = world(TREES).await;
    for number in 1..=4 {
        arm(&world, number, "delivered").await;
    }
    let trees: Vec<_> = (1..=4).map(|number| tree(&world, number)).collect();
    for (tree, flag) in [(&trees[0], "--assume-unchanged"), (&trees[1], "--skip-worktree")] {
        git(tree, &["update-index", flag, "README"]);
        std::fs::write(tree.join("README"), "changed\n").unwrap();
    }
    // Work on the item's branch, which is not checked out any more.
    std::fs::write(trees[2].join("new"), "x").unwrap();
    git(&trees[2], &["add", "new"]);
    git(&trees[2], &["commit", "--quiet", "-m", "work"]);
    git(&trees[2], &["checkout", "--quiet", "--detach", "origin/main"]);
    // Nobody knows what was in this one.
    std::fs::remove_dir_all(&trees[3]).unwrap();
    for number in 1..=4 {
        close(&world, number).await;
    }
    let hidden = "kept: 1 file that git does not look at";
    assert_eq!((holds(&world, 1).as_str(), holds(&world, 2).as_str()), (hidden, hidden));
    let aside = "kept: 1 unpushed commit on its branch, which is not checked out";
    assert_eq!(holds(&world, 3), aside);
    assert_eq!(holds(&world, 4), "gone: it was deleted before the close");
    assert!(trees[..3].iter().all(|tree| tree.is_dir()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_tree_is_not_replaced_by_another_directory() {
    let (world, _server) = world(TREES).await;
    arm(&world, 1, "delivered").await;
    let tree = tree(&world, 1);
    for (id, stand_in) in [("gone", false), ("other", true)] {
        let _ = std::fs::remove_dir_all(&tree);
        if stand_in {
            std::fs::create_dir(&tree).unwrap();
        }
        let comment = payload::comment("o/r", 1, "alice", "Go on.");
        world.post(id, "issue_comment", &comment).await;
        let events = world.reaches(id, "failed").await;
        assert!(events.contains("work-tree-failed"), "{events}");
        assert_eq!(tree.exists(), stand_in);
    }
    // Closing forgets a tree that is gone, and touches nothing that is not ours.
    close(&world, 1).await;
    assert!(tree.exists());
    std::fs::remove_dir(&tree).unwrap();
    assert_eq!(world.run(&["sessions", "close", "o/r#1"]).0, 0);
    let comment = payload::comment("o/r", 1, "alice", "From the start.");
    world.post("anew", "issue_comment", &comment).await;
    world.reaches("anew", "delivered").await;
    assert_eq!(branch(&tree), "the-loop/1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clone_that_was_cut_off_starts_nothing_and_is_made_again() {
    let (world, server) = world(TREES).await;
    // More than one answer to any question, and nothing that packs well.
    let mut state = 1_u64;
    let noise = (0..60_000).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b' ' + u8::try_from((state >> 33) % 90).unwrap())
    });
    let head = server.commit("o/r", "noise", &noise.collect::<String>(), None);
    server.set("o/r", "refs/heads/main", &head);
    server.cut_after(Some(20_000));
    let events = arm(&world, 1, "failed").await;
    assert!(events.contains("could not clone"), "{events}");
    assert!(world.sessions().is_empty());
    let clones = world.state_dir().join("workspace/clones");
    let left: Vec<_> = std::fs::read_dir(&clones)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "o+r.lock")
        .collect();
    assert!(left.is_empty(), "{left:?}");
    server.cut_after(None);
    let comment = payload::comment("o/r", 1, "alice", "Now.");
    world.post("now", "issue_comment", &comment).await;
    world.reaches("now", "delivered").await;
    assert_eq!(branch(&tree(&world, 1)), "the-loop/1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_or_a_branch_that_is_gone_is_a_clear_error() {
    let (world, server) = world(TREES).await;
    // No such repository: it was renamed, or never was.
    let elsewhere = payload::labeled("o/renamed", 1, "alice");
    world.post("renamed", "issues", &elsewhere).await;
    let events = world.reaches("renamed", "failed").await;
    assert!(events.contains("could not clone `https://github.com/o/renamed.git`"), "{events}");
    // The branch of a pull request was deleted.
    let head = server.commit("o/r", "feature", "second\n", None);
    server.set("o/r", "refs/heads/feature", &head);
    server.set("o/r", "refs/pull/7/head", &head);
    server.unset("o/r", "refs/heads/feature");
    let events = arm(&world, 7, "failed").await;
    assert!(events.contains("its branch was deleted"), "{events}");
    assert!(world.sessions().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_hook_of_anybody_runs_when_a_tree_is_made() {
    let server = GitServer::new().await;
    server.repository("o/r");
    let mut world = World::new(TREES);
    server.stand_in_for_github(&world.home);
    let hooks = world.home.join("hooks");
    std::fs::create_dir(&hooks).unwrap();
    let ran = world.home.join("ran");
    for hook in ["post-checkout", "reference-transaction"] {
        let path = hooks.join(hook);
        std::fs::write(&path, format!("#!/bin/sh\ntouch '{}'\n", ran.display())).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, executable).unwrap();
    }
    let config = world.home.join(".gitconfig");
    let text = std::fs::read_to_string(&config).unwrap();
    let text = format!("{text}[core]\n\thooksPath = {}\n", hooks.display());
    std::fs::write(&config, text).unwrap();
    world.start().await;
    arm(&world, 1, "delivered").await;
    assert_eq!(branch(&tree(&world, 1)), "the-loop/1");
    assert!(!ran.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_that_came_with_a_tree_is_not_read() {
    let (world, _server) = world(TREES).await;
    arm(&world, 1, "delivered").await;
    let tree = tree(&world, 1);
    std::fs::create_dir_all(tree.join(".the-loop")).unwrap();
    std::fs::write(tree.join(".the-loop/config.yaml"), "nonsense: 1\n").unwrap();
    let output = world.command(&["config", "check"]).current_dir(&tree).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("nonsense"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_not_ours_is_neither_shared_nor_removed() {
    let (world, _server) = world(TREES).await;
    arm(&world, 1, "delivered").await;
    let first = tree(&world, 1);
    let (code, _, err) =
        world.run(&["sessions", "register", "o/r#2", "--cwd", first.to_str().unwrap()]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("is where the work trees of sessions are"), "{err}");
    // Nor one that holds all of them.
    let items = first.parent().unwrap();
    for (dir, said) in [
        (items, "is where the work trees of sessions are"),
        (items.parent().unwrap(), "is where the work trees of sessions are"),
        (&world.state_dir(), "is the work tree of o/r#1, or overlaps it"),
    ] {
        let (code, _, err) =
            world.run(&["sessions", "register", "o/r#2", "--cwd", dir.to_str().unwrap()]);
        let err = err.replace("\n  ", " ");
        assert!(code == 1 && err.contains(said), "{}: {err}", dir.display());
    }
    let own = world.home.join("own");
    std::fs::create_dir_all(own.join("below")).unwrap();
    git(&own, &["init", "--quiet"]);
    assert_eq!(world.run(&["sessions", "register", "o/r#3", "--cwd", own.to_str().unwrap()]).0, 0);
    // It is shared by no other live session, nor is what is below it.
    for dir in [own.clone(), own.join("below")] {
        let (code, _, err) =
            world.run(&["sessions", "register", "o/r#9", "--cwd", dir.to_str().unwrap()]);
        let said = "is in the work tree of the live session of o/r#3";
        assert!(code == 1 && err.contains(said), "{err}");
    }
    close(&world, 3).await;
    assert!(own.is_dir());
    // Without a directory a registered session has a tree like any other.
    assert_eq!(world.run(&["sessions", "register", "o/r#4"]).0, 0);
    let comment = payload::comment("o/r", 4, "alice", "Begin.");
    world.post("four", "issue_comment", &comment).await;
    world.reaches("four", "delivered").await;
    assert_eq!(branch(&tree(&world, 4)), "the-loop/4");
}

/// What the table of trees says of an item, as of the last fetch.
fn table_row(world: &World, item: &str) -> String {
    let (_, out, _) = world.run(&["sessions", "list", "--trees"]);
    out.lines().find(|line| line.starts_with(item)).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_ignore_rule_hides_is_not_taken_away_unless_a_gitignore_names_it() {
    let (world, _server) = world(TREES).await;
    for number in 1..=7 {
        arm(&world, number, "delivered").await;
    }
    let trees: Vec<_> = (1..=7).map(|number| tree(&world, number)).collect();
    for tree in &trees {
        // Named by a `.gitignore`, that by itself: as a build leaves it.
        std::fs::create_dir_all(tree.join("target/deep")).unwrap();
        std::fs::write(tree.join("target/.gitignore"), "*\n").unwrap();
        std::fs::write(tree.join("target/deep/built"), "x").unwrap();
    }
    git(&trees[1], &["worktree", "add", "--quiet", "-b", "side", "target/wt"]);
    git(&trees[2], &["init", "--quiet", "target/deep/sub"]);
    git(&trees[3], &["init", "--quiet", "--bare", "target/deep/bare"]);
    std::fs::create_dir_all(world.home.join(".config/git")).unwrap();
    std::fs::write(world.home.join(".config/git/ignore"), "mine\n").unwrap();
    std::fs::write(trees[4].join("mine"), "x").unwrap();
    let common = git(&trees[5], &["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    std::fs::create_dir_all(Path::new(&common).join("info")).unwrap();
    std::fs::write(Path::new(&common).join("info/exclude"), "theirs\n").unwrap();
    std::fs::write(trees[5].join("theirs"), "x").unwrap();
    git(&trees[6], &["worktree", "lock", "."]);
    let inner = |at: &str| format!("a repository or work tree of its own in `{at}`");
    let excluded = "1 new file that no `.gitignore` names";
    let wanted = [
        String::new(),
        inner("target/wt"),
        inner("target/deep/sub"),
        inner("target/deep/bare"),
        excluded.to_owned(),
        excluded.to_owned(),
        "it is locked (`git worktree lock`)".to_owned(),
    ];
    // What is said before the close is what the close finds.
    for (number, why) in (1..=7).zip(&wanted) {
        let said = holds(&world, number);
        assert!(why.is_empty() == said.starts_with("clean, pushed"), "{said}");
        assert!(said.contains(why.as_str()), "{said}");
    }
    for number in [1, 2, 5] {
        close(&world, number).await;
    }
    for number in [3, 4, 6, 7] {
        let (code, _, err) = world.run(&["sessions", "close", &format!("o/r#{number}")]);
        assert_eq!(code, 0, "{err}");
    }
    for (number, why) in (2..=7).zip(&wanted[1..]) {
        assert_eq!(holds(&world, number), format!("kept: {why}"));
    }
    let stands: Vec<_> = trees.iter().map(|tree| tree.exists()).collect();
    assert_eq!(stands, [false, true, true, true, true, true, true]);
    assert!(trees[1].join("target/wt/README").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_who_allows_no_bare_repository_by_chance_has_work_trees() {
    let server = GitServer::new().await;
    server.repository("o/r");
    let mut world = World::new(TREES);
    server.stand_in_for_github(&world.home);
    let config = world.home.join(".gitconfig");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text + "[safe]\n\tbareRepository = explicit\n").unwrap();
    world.start().await;
    for number in 1..=2 {
        arm(&world, number, "delivered").await;
    }
    close(&world, 1).await;
    assert_eq!(holds(&world, 1), "taken away: it was clean");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_and_the_close_say_the_same_of_a_tree() {
    let (world, server) = world(TREES).await;
    arm(&world, 1, "delivered").await;
    let tree = tree(&world, 1);
    git(&tree, &["commit", "--quiet", "--allow-empty", "-m", "work"]);
    let mut push = std::process::Command::new("git");
    push.current_dir(&tree).env("HOME", &world.home).args(["push", "--quiet"]);
    assert!(push.status().unwrap().success());
    server.unset("o/r", "refs/heads/the-loop/1");
    // Nobody asked the origin yet: it says as of when.
    assert!(table_row(&world, "o/r#1").contains("clean, pushed as of "));
    let (_, _, err) = world.run(&["sessions", "close", "o/r#1"]);
    assert!(err.contains("1 unpushed commit"), "{err}");
    let row = table_row(&world, "o/r#1");
    assert!(row.contains("1 unpushed commit"), "{row}");
    assert_eq!(holds(&world, 1), "kept: 1 unpushed commit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_for_a_live_agent_does_not_wait_for_a_clone_that_hangs() {
    let server = GitServer::new().await;
    server.repository("o/r");
    // It takes connections and says nothing.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut world = World::new(&format!("{TREES}maxConcurrentDispatches: 2\n"));
    server.stand_in_for_github(&world.home);
    let config = world.home.join(".gitconfig");
    let text = std::fs::read_to_string(&config).unwrap();
    let url = format!("http://{}/", mute.local_addr().unwrap());
    let mute = format!("[url \"{url}\"]\n\tinsteadOf = https://github.com/slow/\n");
    std::fs::write(&config, text + &mute).unwrap();
    world.start().await;
    arm(&world, 1, "delivered").await;
    let slow = async |repo: &str, number: u64| {
        let slow = payload::labeled(&format!("slow/{repo}"), number, "alice");
        world.post(&format!("{repo}-{number}"), "issues", &slow).await;
    };
    let waits = |id: &str| world.run(&["events", id, "--json"]).1.contains("waiting-for-start");
    // Who waits for the clone that another one makes keeps no other start waiting.
    for number in 1..=3 {
        slow("r", number).await;
    }
    eventually("they wait", async || (waits("r-2") && waits("r-3")).then_some(())).await;
    arm(&world, 2, "delivered").await;
    // As many starts hang as may be under way.
    slow("s", 1).await;
    slow("t", 1).await;
    eventually("it waits", async || waits("t-1").then_some(())).await;
    let on = payload::comment("o/r", 1, "alice", "Go on.");
    world.post("on", "issue_comment", &on).await;
    world.reaches("on", "delivered").await;
    assert!(waits("t-1"));
}
