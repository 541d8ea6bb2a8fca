//! Prompt caches: through a long run, a kill with its resume, a CONTINUE, other memories and a follow-up task, each request
//! of an agent begins with its last one, in the order in which services cache. What breaks it is named.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rustix::process::Signal;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use testkit::{Answer, Asked, ModelServer, Say, Who, Wire};

use crate::answers::{bash, call, calls, complete, decide, report, select};
use crate::trial::Trial;

/// Turns before the first report, before the kill, after it, and in the follow-up.
const TURNS: [usize; 4] = [40, 25, 15, 25];
/// Calls of a wide turn: with their results more blocks than the service looks back from a breakpoint.
const WIDE: usize = 10;
/// How far the Messages API looks back from a breakpoint for an entry of its cache, in blocks
/// (<https://platform.claude.com/docs/en/build-with-claude/prompt-caching>).
const LOOKBACK: usize = 20;

/// The `number`th turn; all of them differ.
fn turn(number: usize) -> Answer {
    let file = format!("f{number}.txt");
    match number % 12 {
        0 => Say { text: "Looking.".into(), thinking: format!("Hm {number}."), ..Say::default() }
            .with_call("Write", &json!({"file_path": file, "content": "ümläut \"x\" \\ \u{1f600}\n"}))
            .with_call("Glob", &json!({"pattern": format!("f{number}*")}))
            .into(),
        1 => bash(&format!("echo {number}; exit 3")),
        2 => Say::default().with_raw_call("Edit", format!("{{\"file_path\": \"{file}")).into(),
        // Numbers that a careless reader of the journal would change.
        3 => call(
            "Nothing",
            &json!({"n": number, "b": 1, "a": [0.1, 31.245270191439438, 121.48791951161945, 1e300]}),
        ),
        4 => {
            let globs: Vec<_> =
                (0..WIDE).map(|n| ("Glob", json!({"pattern": format!("f{number}-{n}*")}))).collect();
            calls(&globs)
        }
        // New text, so that the run does not look like a circle.
        _ => {
            let digit = |c: u32| char::from_u32('a' as u32 + c.saturating_sub('0' as u32)).unwrap_or('z');
            let word: String = number.to_string().chars().map(|c| digit(c as u32)).collect();
            let text = format!("one {word} two {word}ish three {word}like four {word}ward five un{word}\n");
            call("Write", &json!({"file_path": file, "content": text}))
        }
    }
}

/// Everything that the model says, and after how many answers it falls silent.
fn script() -> (Vec<Answer>, usize) {
    let mut numbers = 0..;
    let mut turns = |count: usize| numbers.by_ref().take(count).map(turn).collect::<Vec<_>>();
    let [before_report, before_kill, after_kill, follow_up] = TURNS;
    let mut answers = vec![select("developer")];
    answers.extend(turns(before_report));
    answers.push(report("half of it"));
    answers.push(decide(json!({"decision": "CONTINUE", "reason": "the other half"})));
    answers.extend(turns(before_kill));
    let silent = answers.len();
    answers.push(Answer::Silence);
    answers.extend(turns(after_kill));
    answers.extend([report("all of it"), complete("all done"), select("developer")]);
    answers.extend(turns(follow_up));
    answers.extend([report("more of it"), complete("more done")]);
    (answers, silent)
}

fn memory(body: &str) -> String {
    format!("---\ntitle: The port\nwhenToUse: it\nimportance: high\n---\n\n{body}\n")
}

/// The whole story, over `wire`: the developer's requests in order.
fn requests(wire: Wire) -> Vec<Asked> {
    let (answers, silent) = script();
    let trial = Trial::new(ModelServer::sequence(answers))
        .wire(wire)
        .config(&json!({"constraints": {"maxIterations": 20}}))
        .agent(&json!({
            "name": "developer", "systemPrompt": "Develop.", "whenToUse": "always",
            "tools": {"allowed": ["Read", "Write", "Edit", "Glob", "Bash"]}, "limits": {"maxIterations": 200},
        }))
        .user_config("/memory/extract", json!(false))
        .file(".rawko/memories/port.md", &memory("It is 7070."))
        .trusted();
    let running = trial.start("Do it.");
    running.wait_until("the silent turn", || running.trial.server.asked().len() > silent);
    running.signal(Signal::KILL);
    let trial = running.end_unchecked().trial;
    let path = trial.project().join(".rawko/memories/port.md");
    let change = |body: &str| std::fs::write(&path, memory(body)).unwrap();
    change("It is 8080, which is another story.");
    let (code, out, err) = trial.resume_with(&["--yes"]);
    assert_eq!(code, Some(0), "{out}{err}");
    change("It is 9090.");
    let (code, out, err) = trial.ask(&["--output", "stream-json", "--yes", "-c", "Now the rest."]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(!out.contains("cache_prefix_changed"), "{out}");
    let asked = trial.server.asked();
    let agents: Vec<Asked> = asked.into_iter().filter(|asked| asked.who() == Who::Agent).collect();
    let turns = TURNS.iter().sum::<usize>();
    assert_eq!(
        agents.len(),
        turns + 3 + 1,
        "a report for each of three executions, and a turn that is asked twice"
    );
    assert!(agents[0].system().contains("7070"), "{}", agents[0].system());
    agents
}

/// A request as it is in the body.
#[derive(serde::Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow, alias = "instructions")]
    system: Option<&'a RawValue>,
    #[serde(borrow, alias = "input")]
    messages: Vec<&'a RawValue>,
}

/// The bytes of a request in the order in which services cache: tools, system prompt, messages.
fn in_cache_order(asked: &Asked) -> String {
    let raw: Raw<'_> = serde_json::from_slice(&asked.body).unwrap();
    let parts = [raw.tools, raw.system].into_iter().flatten().chain(raw.messages);
    parts.map(|part| part.get().replace(MARK, "") + "\n").collect()
}

/// A breakpoint. Services leave it out of what they compare.
const MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";

#[track_caller]
fn check_prefixes(asked: &[Asked]) {
    for pair in asked.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        for field in [
            "model",
            "tool_choice",
            "thinking",
            "output_config",
            "reasoning_effort",
            "reasoning",
            "temperature",
            "prompt_cache_key",
        ] {
            assert_eq!(before.json[field], after.json[field], "{field} of request {}", after.number);
        }
        let (old, new) = (in_cache_order(before), in_cache_order(after));
        let same = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
        assert_eq!(
            same,
            old.len(),
            "request {} begins with other bytes:\n{}\ninstead of\n{}",
            after.number,
            String::from_utf8_lossy(&new.as_bytes()[same.saturating_sub(100)..new.len().min(same + 100)]),
            String::from_utf8_lossy(&old.as_bytes()[same.saturating_sub(100)..old.len().min(same + 100)]),
        );
    }
}

/// The cache of the Messages API by its documented rules: an entry ends at a breakpoint, and is found if it ends at one
/// of the next request or up to [`LOOKBACK`] blocks before it.
#[derive(Default)]
struct ClaudeCache(HashSet<u64>);

impl ClaudeCache {
    /// Blocks of the request that the cache has, and blocks in all.
    fn ask(&mut self, asked: &Asked) -> (usize, usize) {
        let list = |field: &str| asked.json[field].as_array().cloned().unwrap_or_default();
        let contents = list("messages").into_iter().flat_map(|message| {
            let role = message["role"].clone();
            let blocks = match message["content"].clone() {
                Value::Array(blocks) => blocks,
                text => vec![json!({"type": "text", "text": text})],
            };
            blocks.into_iter().map(move |block| json!([role, block]))
        });
        let blocks: Vec<Value> = list("tools").into_iter().chain(list("system")).chain(contents).collect();
        let is_automatic = asked.json.get("cache_control").is_some();
        let mut hash = DefaultHasher::new();
        let mut ends = Vec::new();
        let mut marks = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            let text = block.to_string();
            let plain = text.replace("\"cache_control\":{\"type\":\"ephemeral\"},", "");
            if plain != text || (is_automatic && at + 1 == blocks.len()) {
                marks.push(at);
            }
            plain.hash(&mut hash);
            ends.push(hash.finish());
        }
        assert!(marks.len() <= 4, "{} breakpoints", marks.len());
        let found = marks.iter().filter_map(|mark| {
            let first = (mark + 1).saturating_sub(LOOKBACK);
            (first..=*mark).rev().find(|at| self.0.contains(&ends[*at]))
        });
        let hit = found.max().map_or(0, |at| at + 1);
        self.0.extend(marks.iter().map(|mark| ends[*mark]));
        (hit, blocks.len())
    }
}

#[test]
fn over_the_messages_api_the_cache_has_all_of_the_last_request() {
    let asked = requests(Wire::Claude);
    check_prefixes(&asked);
    let mut cache = ClaudeCache::default();
    let mut had = cache.ask(&asked[0]).1;
    for asked in &asked[1..] {
        let (hit, blocks) = cache.ask(asked);
        assert_eq!(hit, had, "request {} has {blocks} blocks", asked.number);
        had = blocks;
    }
}

#[test]
fn over_chat_completions_each_request_begins_with_the_last_one() {
    check_prefixes(&requests(Wire::OpenAi));
}

#[test]
fn over_responses_each_request_begins_with_the_last_one() {
    check_prefixes(&requests(Wire::Responses));
}

/// What changes the beginning of requests for a reason: the notes that say so, in order.
#[test]
fn what_breaks_the_prefix_is_named() {
    let again = |agent: &str| {
        decide(json!({"decision": "SELECT_MODE", "mode": agent, "reason": format!("{agent} is next")}))
    };
    let trial = Trial::new(ModelServer::sequence([]))
        .file(".rawko/memories/port.md", &memory("It is 7070."))
        .user_config("/memory/extract", json!(false))
        .args(&["--yes", "--verbose"])
        .output("text");
    let path = trial.project().join(".rawko/memories/port.md");
    let mut answers = vec![
        select("developer"),
        report("did it"),
        again("tester"),
        report("tested it"),
        // The developer begins another conversation, with the same memories and then with others.
        again("developer"),
        report("did more"),
        again("tester"),
        report("tested more"),
        again("developer"),
        report("did all"),
        complete("all done"),
    ]
    .into_iter();
    let server = ModelServer::start(move |asked| {
        if asked.number == 6 {
            std::fs::write(&path, memory("It is 8080.")).unwrap();
        }
        answers.next().unwrap_or_else(|| Answer::refuse(400, "invalid_request_error", "no more"))
    });
    let ended = trial.served_by(server).run("Do it.");
    ended.exits(0);
    let breaks: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("prompt cache:")).collect();
    let same = "a new conversation; tools and system prompt are the same";
    let other = "the memories changed; tools and instructions are the same";
    let expected = [
        format!("prompt cache: new prefix for developer: {same}"),
        format!("prompt cache: new prefix for tester: {other}"),
        format!("prompt cache: new prefix for developer: {other}"),
    ];
    assert_eq!(breaks.iter().map(|line| line.trim()).collect::<Vec<_>>(), expected, "{}", ended.stderr);
    // The common part is still found in the cache, up to the breakpoint after the agent's own prompt.
    let asked = ended.trial.server.asked();
    let mut cache = ClaudeCache::default();
    let hits: Vec<usize> = asked
        .iter()
        .filter(|asked| asked.who() == Who::Agent)
        .map(|asked| {
            let stable = asked.json["tools"].as_array().map_or(0, Vec::len) + 1;
            cache.ask(asked).0.saturating_sub(stable)
        })
        .collect();
    // Tools and both parts of the system prompt; then tools and the first part alone.
    assert_eq!(hits[2..], [1, 0, 0]);
}
