//! What is asked of GitHub, against a stand-in of its API: missed deliveries come
//! once and in their order, whatever GitHub answers; a webhook is judged by its ping.

use std::ffi::OsStr;

use rustix::process::Signal;
use serde_json::{Value, json};
use the_loop::base::checkpoint::Checkpoint;

use crate::github_api::{GithubApi, Mood, TOKEN, hook};
use crate::support::{World, eventually, payload};

fn world(github: &str) -> World {
    let world = World::new("defaultHarness: demo\nrateLimit: 0\nrepositories: [o/r]");
    let text = std::fs::read_to_string(world.config()).unwrap();
    std::fs::write(world.config(), format!("{text}github: {{{github}}}\n")).unwrap();
    world
}

/// Starts a receiver that asks the stand-in, often and with little patience.
async fn start(world: &mut World, api: &GithubApi, more: &[(&str, &OsStr)]) {
    let times = OsStr::new("200,1500,1500");
    let mut variables: Vec<(&str, &OsStr)> = vec![
        ("THE_LOOP_GITHUB_API", api.url.as_ref()),
        ("THE_LOOP_GITHUB_TIMES", times),
        ("GH_TOKEN", TOKEN.as_ref()),
    ];
    variables.extend(more);
    api.posts_to(None);
    world.start_with(&variables).await;
    api.posts_to(Some(world.url()));
}

fn status(world: &World) -> Value {
    let (_, out, _) = world.run(&["gh-webhook", "status", "--json"]);
    serde_json::from_str(&out).unwrap_or_default()
}

fn of_repo(world: &World) -> Value {
    status(world)["github"]["repositories"][0].clone()
}

fn doctor(world: &World) -> String {
    let (_, out, _) = world.run(&["doctor", "-v", "--only", "github"]);
    // However its lines are broken.
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A session of o/r#1, and no receiver.
async fn with_a_session(world: &mut World) {
    world.start().await;
    world.post("first", "issues", &payload::labeled("o/r", 1, "alice")).await;
    world.reaches("first", "delivered").await;
    assert!(world.end(Signal::TERM).success());
}

fn comment(n: usize) -> Value {
    payload::comment("o/r", 1, "alice", &format!("word-{n}."))
}

/// So many comments that GitHub could not deliver, some minutes ago.
fn missed(api: &GithubApi, count: usize) -> Vec<String> {
    let names: Vec<_> = (0..count).map(|n| format!("missed-{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        let ago = 600 - i64::try_from(n).unwrap();
        let code = if n % 2 == 0 { 502 } else { 0 };
        api.delivered(name, "issue_comment", &comment(n), ago, code);
    }
    names
}

/// Every missed one was told once, in order.
async fn told_in_order(world: &World, names: &[String]) {
    for name in names {
        world.reaches(name, "delivered").await;
    }
    let told = world.told("o+r+1");
    assert_eq!(told.len(), names.len() + 1, "{told:#?}");
    for (n, text) in told.iter().skip(1).enumerate() {
        assert!(text.contains(&format!("word-{n}.")), "{n} in {text}");
    }
}

/// The token is in nothing that the receiver says.
fn no_token_is_told(world: &World) {
    let said = [world.receiver_log(), status(world).to_string(), doctor(world)].concat();
    assert!(!said.contains(TOKEN), "{said}");
    let memory = std::fs::read_to_string(world.state_dir().join("github.json")).unwrap();
    assert!(!memory.contains(TOKEN));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_missed_while_the_receiver_was_down_arrives_once_and_in_order() {
    let api = GithubApi::start().await;
    let mut world = world("redeliver: true");
    with_a_session(&mut world).await;
    // What arrived, what is too old, and what another webhook of the list has.
    api.delivered("first", "issues", &json!({}), 1000, 0);
    api.delivered("old", "issue_comment", &comment(99), 4 * 86400, 500);
    let names = missed(&api, 30);
    api.delivered("fine", "issue_comment", &comment(98), 5, 200);
    start(&mut world, &api, &[]).await;
    told_in_order(&world, &names).await;
    assert_eq!(api.asked(), names);
    // Nothing is asked for again, by this receiver or by the next.
    let rounds = api.requests().iter().filter(|asked| asked.ends_with("/hooks")).count();
    world.end(Signal::KILL);
    start(&mut world, &api, &[]).await;
    eventually("two more looks", async || {
        let now = api.requests().iter().filter(|asked| asked.ends_with("/hooks")).count();
        (now >= rounds + 2).then_some(())
    })
    .await;
    assert_eq!(api.asked(), names);
    let of = of_repo(&world);
    assert_eq!((&of["missed"], &of["lost"], &of["trouble"]), (&0.into(), &0.into(), &Value::Null));
    assert!(doctor(&world).contains("GitHub is asked for what it could not deliver"));
    no_token_is_told(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_github_answers_no_delivery_is_harmed_and_it_is_said() {
    let api = GithubApi::start().await;
    let mut world = world("redeliver: true");
    with_a_session(&mut world).await;
    let names = missed(&api, 3);
    api.be(Mood::Status(500));
    start(&mut world, &api, &[]).await;
    for (mood, said) in [
        (Mood::Status(500), "GitHub answered 500 to GET repos/o/r/hooks: Server\\x1b[31m Error"),
        (Mood::Status(403), "GitHub answered 403 to GET repos/o/r/hooks"),
        (Mood::Status(404), "the token may not see it, or it is not there"),
        (Mood::Status(301), "the repository has another name now"),
        (Mood::Garbage, "cannot be understood"),
        (Mood::Useless, "the list of deliveries cannot be understood: no entry of it is"),
        (Mood::AskedGarbage, "/attempts cannot be understood"),
        (Mood::Mute, "it did not answer"),
        (Mood::Limited(2), "GitHub's rate limit is reached"),
    ] {
        api.be(mood);
        eventually(&format!("{mood:?} is said"), async || {
            of_repo(&world)["trouble"].as_str()?.contains(said).then_some(())
        })
        .await;
        let (_, out, _) = world.run(&["gh-webhook", "status"]);
        assert!(out.contains("GitHub cannot be asked for what was missed"), "{out}");
        assert!(!out.contains('\u{1b}'), "{out}");
        assert!(doctor(&world).contains("GitHub cannot be asked for what o/r missed"));
    }
    // What GitHub posts meanwhile is taken as ever.
    api.be(Mood::Mute);
    assert_eq!(world.post("live", "issues", &payload::labeled("o/r", 2, "alice")).await, 202);
    world.reaches("live", "delivered").await;
    assert!(api.asked().is_empty());
    // Each trouble was said once, however often it was met.
    let log = world.receiver_log();
    assert_eq!(log.matches("answered 404").count(), 1, "{log}");
    api.be(Mood::Fine);
    told_in_order(&world, &names).await;
    assert_eq!(api.asked(), names);
    eventually("it is well again", async || of_repo(&world)["trouble"].is_null().then_some(()))
        .await;
    assert!(world.receiver_log().contains("GitHub answers again"));
    no_token_is_told(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_way_is_closed_only_one_is_tried_and_then_all_come() {
    let api = GithubApi::start().await;
    let mut world = world("redeliver: true");
    with_a_session(&mut world).await;
    let names = missed(&api, 4);
    api.be(Mood::WayClosed);
    start(&mut world, &api, &[]).await;
    eventually("it was tried", async || (api.asked().len() == 1).then_some(())).await;
    let rounds = api.requests().len();
    eventually("more looks", async || (api.requests().len() > rounds + 6).then_some(())).await;
    assert_eq!(api.asked(), names[..1]);
    assert_eq!(of_repo(&world)["missed"], 4);
    // Another delivery shows that it is open; a restart tries the first one again.
    api.be(Mood::Fine);
    world.end(Signal::TERM);
    start(&mut world, &api, &[]).await;
    told_in_order(&world, &names).await;
    assert_eq!(api.asked()[1..], names);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_up_stays_lost_until_a_person_has_it_sent_again() {
    let api = GithubApi::start().await;
    let mut world = world("redeliver: true");
    with_a_session(&mut world).await;
    let names = missed(&api, 1);
    // The receiver answers 401.
    start(&mut world, &api, &[("THE_LOOP_GH_WEBHOOK_SECRET", OsStr::new("another"))]).await;
    let some_looks = async || {
        let rounds = api.requests().len();
        eventually("looks", async || (api.requests().len() > rounds + 9).then_some(())).await;
    };
    eventually("it is lost", async || (of_repo(&world)["lost"] == 1).then_some(())).await;
    for _ in 0..2 {
        some_looks().await;
        let of = of_repo(&world);
        assert_eq!((&of["missed"], &of["asked"], &of["lost"]), (&0.into(), &1.into(), &1.into()));
        let said = doctor(&world);
        assert!(said.contains("1 of what o/r missed will not come"), "{said}");
        assert!(said.contains("the button Redeliver"), "{said}");
        assert_eq!(world.receiver_log().matches("will not come").count(), 1);
        world.end(Signal::TERM);
        start(&mut world, &api, &[]).await;
    }
    assert_eq!(api.asked(), names);
    world.post(&names[0], "issue_comment", &comment(0)).await;
    told_in_order(&world, &names).await;
    eventually("it is lost no more", async || (of_repo(&world)["lost"] == 0).then_some(())).await;
    assert!(doctor(&world).contains("GitHub is asked for what it could not deliver"));
}

async fn killed_at(checkpoint: Checkpoint) {
    let api = GithubApi::start().await;
    let mut world = world("redeliver: true");
    with_a_session(&mut world).await;
    let names = missed(&api, 3);
    let mark = world.home.join("frozen");
    let freezing: [(&str, &OsStr); 5] = [
        ("THE_LOOP_FREEZE_AT", checkpoint.as_str().as_ref()),
        ("THE_LOOP_FREEZE_MARK", mark.as_os_str()),
        ("THE_LOOP_GITHUB_API", api.url.as_ref()),
        ("THE_LOOP_GITHUB_TIMES", "2000,9000,1500".as_ref()),
        ("GH_TOKEN", TOKEN.as_ref()),
    ];
    // The first look is before anybody could ask where the receiver is.
    api.be(Mood::Status(500));
    world.start_with(&freezing).await;
    api.posts_to(Some(world.url()));
    api.be(Mood::Fine);
    eventually("it froze", async || {
        (std::fs::read_to_string(&mark).ok()? == checkpoint.as_str()).then_some(())
    })
    .await;
    world.end(Signal::KILL);
    start(&mut world, &api, &[]).await;
    told_in_order(&world, &names).await;
    assert_eq!(api.asked(), names, "{checkpoint:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_it_asked_it_asks_and_once() {
    killed_at(Checkpoint::AskAgain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_it_asked_it_does_not_ask_again_for_what_came() {
    killed_at(Checkpoint::Asked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_says_nothing_though_something_happened_is_told() {
    let api = GithubApi::start().await;
    let mut world = world("redeliver: true");
    api.delivered("fine", "issues", &json!({}), 3600, 200);
    let event = |ago: i64| {
        let at = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(ago);
        json!([{ "type": "IssuesEvent", "created_at": at.to_string() }])
    };
    start(&mut world, &api, &[]).await;
    eventually("it was looked at", async || of_repo(&world)["lookedAt"].as_str().map(drop)).await;
    assert_eq!(of_repo(&world)["silent"], Value::Null);
    api.has_events(event(60));
    eventually("it is told", async || {
        of_repo(&world)["silent"].as_str()?.contains("has delivered nothing since").then_some(())
    })
    .await;
    assert!(world.receiver_log().contains("has delivered nothing since"));
    let said = doctor(&world);
    assert!(said.contains("the webhook 77 has delivered nothing since"), "{said}");
    api.has_events(event(3000));
    eventually("it is well", async || of_repo(&world)["silent"].is_null().then_some(())).await;
    let mut off = hook(&["*"]);
    off["active"] = false.into();
    api.has_hook(off);
    eventually("it is told", async || {
        of_repo(&world)["silent"].as_str()?.contains("is switched off").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_nothing_is_asked_and_the_doctor_says_what_that_costs() {
    let api = GithubApi::start().await;
    missed(&api, 1);
    let mut world = world("redeliver: true");
    let said = doctor(&world);
    assert!(said.contains("no token is set here"), "{said}");
    assert!(said.contains("stays missed") && said.contains("the button Redeliver"), "{said}");
    start(&mut world, &api, &[("GH_TOKEN", OsStr::new(""))]).await;
    eventually("it is said", async || {
        let trouble = of_repo(&world)["trouble"].clone();
        trouble.as_str()?.contains("neither GH_TOKEN nor GITHUB_TOKEN is set").then_some(())
    })
    .await;
    assert!(api.requests().is_empty(), "{:?}", api.requests());
    // Off is off, whatever token there is.
    world.end(Signal::TERM);
    let text = std::fs::read_to_string(world.config()).unwrap();
    std::fs::write(world.config(), text.replace("redeliver: true", "redeliver: false")).unwrap();
    start(&mut world, &api, &[]).await;
    eventually("it is off", async || of_repo(&world)["trouble"].is_null().then_some(())).await;
    assert!(api.requests().is_empty(), "{:?}", api.requests());
    assert!(doctor(&world).contains("is not asked for what it could not deliver"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_memory_is_moved_aside_and_nothing_is_asked_for_twice() {
    let api = GithubApi::start().await;
    let mut world = world("redeliver: true");
    with_a_session(&mut world).await;
    let names = missed(&api, 2);
    start(&mut world, &api, &[]).await;
    told_in_order(&world, &names).await;
    world.end(Signal::KILL);
    let memory = world.state_dir().join("github.json");
    std::fs::write(&memory, "{\"repositories\"").unwrap();
    assert!(doctor(&world).contains("no ping"));
    start(&mut world, &api, &[]).await;
    eventually("it was looked at", async || of_repo(&world)["lookedAt"].as_str().map(drop)).await;
    assert!(memory.with_extension("json.damaged").exists());
    assert!(world.receiver_log().contains("is damaged; moved aside"));
    assert_eq!(api.asked(), names);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_judged_by_its_ping() {
    let mut world = world("");
    world.start().await;
    let (_, out, _) = world.run(&["gh-webhook", "status"]);
    assert!(out.contains("\nwebhook        o/r: no ping yet\n"), "{out}");
    let said = doctor(&world);
    assert!(said.contains("no ping of a webhook of o/r has come in yet"), "{said}");
    assert!(said.contains("the-loop init --github --url https://YOUR-ADDRESS"), "{said}");
    let ping = |hook: Value| {
        json!({
            "zen": "x", "hook_id": 77, "hook": hook,
            "repository": { "html_url": "https://github.com/O/R" },
        })
    };
    let mut poor = hook(&["issues", "issue_comment"]);
    poor["config"]["insecure_ssl"] = "1".into();
    poor["config"]["content_type"] = "form".into();
    assert_eq!(world.post("ping-1", "ping", &ping(poor)).await, 202);
    let (_, out, _) = world.run(&["gh-webhook", "status"]);
    for said in [
        "\nwebhook        o/r: hook 77 pinged 20",
        "gh api --method PATCH repos/o/r/hooks/77 -f 'add_events[]=pull_request' -f",
        "gh api --method PATCH repos/o/r/hooks/77/config -f insecure_ssl=0 --silent`",
        "gh api --method PATCH repos/o/r/hooks/77/config -f content_type=json --silent`",
    ] {
        assert!(out.contains(said), "{said} in {out}");
    }
    let said = doctor(&world);
    assert!(said.contains("the webhook of o/r does not send pull_request, "), "{said}");
    assert!(said.contains("gh api --method PATCH repos/o/r/hooks/77/config -f insecure_ssl=0"));
    assert_eq!(world.post("ping-2", "ping", &ping(hook(&["*"]))).await, 202);
    let of = of_repo(&world);
    assert_eq!((&of["hook"], &of["faults"]), (&77.into(), &json!([])));
    // An organization's ping, and one of another repository, change nothing of it.
    let other = json!({ "hook": hook(&[]), "organization": { "login": "o" } });
    assert_eq!(world.post("ping-3", "ping", &other).await, 202);
    assert_eq!(of_repo(&world)["faults"], json!([]));
    assert!(doctor(&world).contains("the webhook of o/r has pinged and sends what is wanted"));
}
