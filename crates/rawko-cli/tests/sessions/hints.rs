//! Every command that an error, a hint or a summary names is typed as it is, and works.

use crate::matrix::{State, states};
use crate::support::Said;
use crate::world::World;
use rawko::journal::JournalWriter;

/// Commands that name others, in whatever state the newest session is.
const COMMANDS: &[&[&str]] = &[
    &["resume"],
    &["continue", "Do another task."],
    &["continue", "2026", "now"],
    &["cancel", "last"],
    &["fork", "last", "--no-run"],
    &["fork", "last", "--no-run", "--at", "9999"],
    &["explain", "last"],
    &["explain", "last", "99"],
    &["diff", "last", "--execution", "99"],
    &["rewind", "last", "--to", "99"],
    &["replay", "last"],
    &["sessions", "list"],
    &["sessions", "show", "last"],
    &["sessions", "show", "nothing-like-it"],
    &["sessions", "repair", "last"],
];

/// Those that name a command without having looked at the session.
const BLIND: &[&[&str]] = &[
    &["explain", "1"],
    &["memory", "list"],
    // The end of a run with options that nothing else keeps.
    &["run", "--quiet", "--allow-net=example.com,example.org", "--allow-read", "Do another task."],
    &["run", "--quiet", "--no-sandbox", "--allow-env=HOME", "--no-verify", "Do another task."],
    &["run", "--quiet", "--max-iterations", "1", "--allow-net", "Do another task."],
];

/// What is typed in place of a placeholder.
const FOR: &[(&str, &str)] =
    &[("NUMBER", "1"), ("ID", "last"), ("N", "9"), ("TASK", "go on"), ("…", "go on")];

/// The commands in a text: between backquotes, or after a colon up to the end of the line.
fn named(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2).map(str::to_owned);
    let whole =
        text.lines().filter_map(|line| line.rsplit_once(": rawko ")).map(|(_, rest)| format!("rawko {rest}"));
    // The reason that a cancelled session records is not a hint.
    let is_hint = |command: &String| command.starts_with("rawko ") && !command.starts_with("rawko cancel\\");
    let mut all: Vec<String> = quoted.chain(whole).filter(is_hint).collect();
    all.retain(|command| command != "rawko cancel");
    all.dedup();
    all
}

/// The words of a command, as a shell splits them, with something sensible in place of placeholders.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (' ', None) => words.push(String::new()),
            (c, _) => words.last_mut().unwrap().push(c),
        }
    }
    let filled =
        |word: String| FOR.iter().find(|(name, _)| *name == word).map_or(word, |(_, is)| (*is).to_owned());
    words.into_iter().skip(1).map(filled).collect()
}

/// A command in a state, what it said, and the commands that this names. The session stays locked as long as the first lives.
fn run(world: &World, state: &State, command: &[&str]) -> (Option<JournalWriter>, Said, Vec<String>) {
    world.restore();
    let held = (state.make)(world);
    let said = world.bench.rawko(command);
    let named = named(&format!("{}\n{}", said.out, said.err));
    (held, said, named)
}

fn type_in(world: &World, command: &str) -> Said {
    let words = words(command);
    world.bench.rawko(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Types what the commands name. How many were typed; what did not work goes to `wrong`.
fn check(world: &World, state: &State, commands: &[&[&str]], wrong: &mut Vec<String>) -> usize {
    let mut typed = 0;
    for command in commands {
        let (mut held, mut said, mut hints) = run(world, state, command);
        for at in 0..hints.len() {
            // The one before may have changed the session.
            if at > 0 {
                drop(held);
                (held, said, hints) = run(world, state, command);
            }
            let mut followed = type_in(world, &hints[at]);
            // A session that is not trusted is refused with the whole command.
            if followed.code == Some(5) {
                followed = type_in(world, named(&followed.err).last().unwrap());
            }
            // What `doctor` looks at is not the session.
            if followed.code != Some(0) && (hints[at] != "rawko doctor" || followed.code != Some(1)) {
                let (name, command) = (state.name, command.join(" "));
                wrong.push(format!(
                    "the newest session is: {name}\n$ rawko {command}\n{}{}\n$ {}\nexit status {:?}\n{}{}",
                    said.out, said.err, hints[at], followed.code, followed.out, followed.err
                ));
            }
            typed += 1;
        }
    }
    typed
}

/// What the hints of these states name is not this folder's: the test itself, which holds the session, and the session that a
/// journal in the wrong folder belongs to.
const ELSEWHERE: &[&str] = &["running", "a journal in another's folder"];

#[test]
fn every_command_that_is_named_works_when_it_is_typed() {
    let by_option = State::new("verified by an option", |world| {
        world.instead(&["run", "--quiet", "--verify", "test -e script.json", "Do the newest task."], 0)
    });
    let ended = State::new("ended", |_| None);
    let all = states();
    let states = all.iter().filter(|it| !ELSEWHERE.contains(&it.name)).chain([&by_option]);
    let cases: Vec<(&State, &[&[&str]])> =
        states.map(|state| (state, COMMANDS)).chain([(&ended, BLIND)]).collect();
    let (mut typed, mut wrong) = (0, Vec::new());
    std::thread::scope(|scope| {
        let piece = |cases: &[(&State, &[&[&str]])]| {
            let (world, mut wrong) = (World::new(Some(8)), Vec::new());
            let typed =
                cases.iter().map(|(state, commands)| check(&world, state, commands, &mut wrong)).sum();
            (typed, wrong)
        };
        let pieces: Vec<_> =
            cases.chunks(cases.len().div_ceil(4)).map(|cases| scope.spawn(move || piece(cases))).collect();
        for piece in pieces {
            let (count, failures): (usize, Vec<String>) = piece.join().unwrap();
            typed += count;
            wrong.extend(failures);
        }
    });
    assert!(wrong.is_empty(), "{} of {typed} commands:\n\n{}", wrong.len(), wrong.join("\n---\n"));
    assert!(typed > 150, "only {typed} commands were named");
}
